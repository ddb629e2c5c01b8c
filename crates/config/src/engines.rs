//! Parses lists of routing engines: one grammar for `-R`, `routing.engines` and OpenSM's `routing_engine`.

use selvedge_plan::EngineName;
use selvedge_routing::Engine;

use crate::closest;

/// Engines of NVIDIA's OpenSM fork with names that do not begin with `ar_`.
const FORK: [&str; 6] = ["chain", "dfp", "dfp2", "kdor-ghc", "kdor-hc", "pqft"];

/// A parsed list of routing engines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EngineList {
    /// The engines in order of preference; empty if the list keeps the default.
    pub engines: Vec<EngineName>,
    /// Differences from OpenSM, in words.
    pub notes: Vec<String>,
    /// Engines that exist only in NVIDIA's OpenSM fork, each with an explanation.
    pub fork: Vec<String>,
}

impl EngineList {
    /// Returns the names of engines as the file has them, before engines that Selvedge lacks are replaced by others.
    /// The names in the file decide which other options have an effect.
    pub(crate) fn words(text: &str) -> impl Iterator<Item = &str> {
        text.split([',', ' ', '\t']).filter(|word| !word.is_empty())
    }
}

/// Reads a list of engines: names separated by commas or spaces, `no_fallback` anywhere. `(null)` counts as no list.
///
/// `Err` names the unknown engine and what to write instead.
pub fn parse_engines(text: &str) -> Result<EngineList, String> {
    let mut list = EngineList::default();
    if text.trim() == "(null)" {
        return Ok(list);
    }
    for word in EngineList::words(text) {
        if word == "no_fallback" {
            let note = "no_fallback: here minhop never replaces a refused plan";
            list.notes.push(note.to_owned());
        } else if word.starts_with("ar_") || FORK.contains(&word) {
            list.fork.push(fork(word));
        } else {
            let stand_in = Engine::instead_of(word).map(Engine::name);
            list.notes.extend(stand_in.map(|here| format!("{word} becomes {here}")));
            let name = stand_in.or_else(|| known(word)).ok_or_else(|| unknown(word))?;
            list.engines.push(EngineName(name.to_owned()));
        }
    }
    list.engines.dedup();
    Ok(list)
}

/// Returns the name of an engine, if it exists here.
fn known(word: &str) -> Option<&'static str> {
    Engine::ALL.map(Engine::name).into_iter().find(|name| *name == word)
}

fn fork(word: &str) -> String {
    let instead = word.strip_prefix("ar_").and_then(known);
    let instead = instead.unwrap_or("auto");
    format!(
        "'{word}' is an engine of NVIDIA's fork of OpenSM: adaptive routing is set by vendor-specific MADs, which \
         Selvedge does not send; name '{instead}'"
    )
}

fn unknown(word: &str) -> String {
    let stood_for = Engine::ALL.into_iter().flat_map(Engine::stands_in_for).copied();
    let known = Engine::ALL.map(Engine::name);
    let names = known.into_iter().chain(stood_for);
    let word: String = word.chars().take(60).collect();
    match closest(&word, names) {
        Some(near) => format!(
            "unknown engine '{word}'; did you mean '{near}'? known engines: {}",
            known.join(", ")
        ),
        None => format!("unknown engine '{word}'; known engines: {}", known.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_separators_and_stand_ins() {
        let check = |text: &str, want: &[&str]| {
            let list = parse_engines(text).unwrap();
            let names: Vec<&str> = list.engines.iter().map(|engine| engine.0.as_str()).collect();
            assert_eq!(names, want, "{text}");
            assert_eq!(list.fork, [""; 0], "{text}");
        };
        check("updn", &["updn"]);
        check("ftree, updn", &["ftree", "updn"]);
        check("ftree updn\tminhop", &["ftree", "updn", "minhop"]);
        check("ftree,updn,no_fallback", &["ftree", "updn"]);
        check("lash,nue", &["lash", "weave"]);
        check("torus-2QoS, dor,updn", &["weave", "dor", "updn"]);
        check("no_fallback", &[]);
        check("(null)", &[]);
        check("", &[]);
    }

    #[test]
    fn other_names_are_explained() {
        let check = |text: &str, want: &str| {
            let said = parse_engines(text).unwrap_err();
            assert!(said.contains(want), "{said}");
        };
        check("updn,fattree", "unknown engine 'fattree'; did you mean 'fat-tree'?");
        check("lsh", "did you mean 'lash'?");
        check("none_such", "known engines: auto, fat-tree");
        let fork = |text: &str| parse_engines(text).unwrap().fork;
        assert!(fork("ar_updn")[0].contains("NVIDIA's fork") && fork("ar_updn")[0].ends_with("name 'updn'"));
        assert!(fork("updn,pqft")[0].ends_with("name 'auto'"));
    }
}
