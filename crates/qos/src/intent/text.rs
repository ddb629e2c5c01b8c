//! An intent as lines of text, as the configuration file has it.
//!
//! ```text
//! MPI: share=70, default
//! OST: share=30, group=storage
//! MDS: latency=low, service-id=0x0000000001060000-0x000000000106ffff
//! group storage: 0x0002c90300001234, 0x0002c90300001235
//! ```
//!
//! A line gives a class with what it is promised and what belongs to it, or a group of port GUIDs. One class must be
//! the default: it gets all traffic that no class matches, and hosts that do not ask.

use std::collections::BTreeMap;
use std::str::FromStr;

use selvedge_plan::qos::{Class, Intent, Latency, Match};
use selvedge_types::{Guid, Mtu, Sl};

use super::{IntentError, ulp};
use crate::near::meant;
use crate::opensm::number::number;

/// Words of a class line.
const WORDS: [&str; 12] = [
    "cap",
    "default",
    "group",
    "job",
    "latency",
    "mtu",
    "partition",
    "service-id",
    "share",
    "sl",
    "tclass",
    "ulp",
];

/// Reads an intent from lines. Empty lines and lines that begin with `#` are skipped.
pub fn parse<'a>(lines: impl IntoIterator<Item = &'a str>) -> Result<Intent, IntentError> {
    let mut intent = Intent::default();
    let mut default = None;
    for (line, text) in (1..).zip(lines) {
        let text = text.trim();
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        let wrong = |found: &str, want| IntentError::Line {
            line,
            found: found.chars().take(60).collect(),
            want,
        };
        let (name, items) = text.split_once(':').ok_or_else(|| wrong(text, "NAME: WORD, WORD"))?;
        let name = name.trim();
        let items = items.split(',').map(str::trim).filter(|item| !item.is_empty());
        if let Some(group) = name.strip_prefix("group ") {
            let guids = items.map(|item| {
                item.parse::<Guid>()
                    .map_err(|_| wrong(item, "a port GUID, as 0x2c90300001234"))
            });
            let guids = guids.collect::<Result<_, _>>()?;
            if intent.groups.insert(group.trim().to_owned(), guids).is_some() {
                return Err(wrong(name, "one line for each group"));
            }
            continue;
        }
        if name.is_empty() || name.contains(char::is_whitespace) {
            return Err(wrong(name, "a name without blanks, as MPI"));
        }
        if intent.classes.iter().any(|class| class.name == name) {
            let name = name.to_owned();
            return Err(IntentError::SameName { name });
        }
        let mut class = Class {
            name: name.to_owned(),
            ..Class::default()
        };
        for item in items {
            if item == "default" {
                if default.replace(name.to_owned()).is_some() {
                    return Err(wrong(item, "one default class"));
                }
                continue;
            }
            read_item(&mut class, item, &wrong)?;
        }
        intent.classes.push(class);
    }
    if intent.classes.is_empty() {
        return Err(IntentError::NoClass);
    }
    intent.default = default.ok_or_else(|| IntentError::UnknownDefault {
        name: String::new(),
        meant: "; mark one class with the word default".to_owned(),
    })?;
    known_groups(&intent)?;
    Ok(intent)
}

/// Reads one word of a class.
fn read_item(
    class: &mut Class,
    item: &str,
    wrong: &impl Fn(&str, &'static str) -> IntentError,
) -> Result<(), IntentError> {
    const PERCENT: &str = "a whole number of percent, 1 to 100";
    let (word, value) = item.split_once('=').unwrap_or((item, ""));
    let percent = || value.parse::<u8>().ok().filter(|value| (1..=100).contains(value));
    let found = match word {
        "share" => {
            class.share = Some(percent().ok_or_else(|| wrong(item, PERCENT))?);
            return Ok(());
        }
        "cap" => {
            class.cap = Some(percent().ok_or_else(|| wrong(item, PERCENT))?);
            return Ok(());
        }
        "latency" => {
            class.latency = match value {
                "low" => Latency::Low,
                "normal" => Latency::Normal,
                _ => return Err(wrong(item, "latency=low or latency=normal")),
            };
            return Ok(());
        }
        "mtu" => {
            let mtu = value.parse::<u16>().ok().and_then(|mtu| Mtu::try_from(mtu).ok());
            class.mtu = Some(mtu.ok_or_else(|| wrong(item, "an MTU: 256, 512, 1024, 2048 or 4096"))?);
            return Ok(());
        }
        "job" | "group" if value.is_empty() => return Err(wrong(item, "a name after =")),
        "job" => Match::Job(value.to_owned()),
        "group" => Match::PortGroup(value.to_owned()),
        "ulp" => Match::Ulp(ulp(value)?),
        "partition" => {
            let key = number(value).and_then(|key| u16::try_from(key).ok());
            let key = key.map(|key| key & 0x7FFF).filter(|key| *key > 0);
            Match::Partition(key.ok_or_else(|| wrong(item, "a P_Key, as 0x8001"))?)
        }
        "service-id" => {
            let (first, last) = value.split_once('-').unwrap_or((value, value));
            let range = number(first).zip(number(last)).filter(|(first, last)| first <= last);
            let (first, last) = range.ok_or_else(|| wrong(item, "a service ID or a range FIRST-LAST"))?;
            Match::ServiceId(first, last)
        }
        "tclass" => Match::TrafficClass(of_text(value).ok_or_else(|| wrong(item, "a TClass, 0 to 255"))?),
        "sl" => {
            let sl = of_text(value).and_then(Sl::new);
            Match::Sl(sl.ok_or_else(|| wrong(item, "a service level, 0 to 15"))?)
        }
        _ => {
            return Err(IntentError::UnknownWord {
                class: class.name.clone(),
                word: word.chars().take(40).collect(),
                meant: meant(word, WORDS),
            });
        }
    };
    class.matches.push(found);
    Ok(())
}

fn of_text<T: FromStr>(text: &str) -> Option<T> {
    text.parse().ok()
}

fn known_groups(intent: &Intent) -> Result<(), IntentError> {
    for class in &intent.classes {
        for wanted in &class.matches {
            if let Match::PortGroup(name) = wanted
                && !intent.groups.contains_key(name)
            {
                return Err(IntentError::UnknownGroup {
                    class: class.name.clone(),
                    name: name.clone(),
                    meant: meant(name, intent.groups.keys()),
                });
            }
        }
    }
    Ok(())
}

/// Returns an intent as lines that [`parse`] reads.
#[must_use]
pub fn lines(intent: &Intent) -> Vec<String> {
    let classes = intent.classes.iter().map(|class| {
        let mut items = Vec::new();
        items.extend(class.share.map(|share| format!("share={share}")));
        items.extend((class.latency == Latency::Low).then(|| "latency=low".to_owned()));
        items.extend(class.cap.map(|cap| format!("cap={cap}")));
        items.extend(class.mtu.map(|mtu| format!("mtu={}", mtu.bytes())));
        items.extend((class.name == intent.default).then(|| "default".to_owned()));
        items.extend(class.matches.iter().map(|wanted| match wanted {
            Match::Job(name) => format!("job={name}"),
            Match::PortGroup(name) => format!("group={name}"),
            Match::Partition(key) => format!("partition={key:#06x}"),
            Match::ServiceId(first, last) => format!("service-id={first:#018x}-{last:#018x}"),
            Match::Ulp(ulp) => format!("ulp={}", ulp.name()),
            Match::TrafficClass(class) => format!("tclass={class}"),
            Match::Sl(sl) => format!("sl={}", sl.get()),
        }));
        format!("{}: {}", class.name, items.join(", ")).trim_end().to_owned()
    });
    let groups: &BTreeMap<_, _> = &intent.groups;
    let groups = groups.iter().map(|(name, guids)| {
        let guids: Vec<String> = guids.iter().map(|guid| format!("{:#018x}", guid.0)).collect();
        format!("group {name}: {}", guids.join(", ")).trim_end().to_owned()
    });
    classes.chain(groups).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_give_an_intent_and_back() {
        let text = [
            "# The example of the manuals.",
            "MPI: share=70, default",
            "OST: share=30, group=storage, ulp=iser",
            "MDS: latency=low, cap=20, mtu=512, service-id=0x10-0x1f, sl=3, tclass=7, partition=0x8001, job=mds",
            "",
            "group storage: 0x2c90300001234, 0x5",
        ];
        let intent = parse(text).unwrap();
        assert_eq!(intent.default, "MPI");
        assert_eq!(
            lines(&intent),
            [
                "MPI: share=70, default",
                "OST: share=30, group=storage, ulp=iser",
                "MDS: latency=low, cap=20, mtu=512, service-id=0x0000000000000010-0x000000000000001f, sl=3, tclass=7, \
                 partition=0x0001, job=mds",
                "group storage: 0x0000000000000005, 0x0002c90300001234",
            ]
        );
        let again: Vec<String> = lines(&intent);
        assert_eq!(parse(again.iter().map(String::as_str)).unwrap(), intent);
    }

    #[test]
    fn errors_say_where_and_what_is_wanted() {
        let check = |text: &[&str], want: &str| {
            let error = parse(text.iter().copied()).unwrap_err().to_string();
            assert_eq!(error, want);
        };
        check(
            &["MPI share=70"],
            "SLV-QOS-0036: QoS classes, line 1: 'MPI share=70'; want NAME: WORD, WORD",
        );
        check(
            &["MPI: default", "OST: share=101"],
            "SLV-QOS-0036: QoS classes, line 2: 'share=101'; want a whole number of percent, 1 to 100",
        );
        check(
            &["MPI: default", "OST: default"],
            "SLV-QOS-0036: QoS classes, line 2: 'default'; want one default class",
        );
        check(
            &["MPI: shere=70"],
            "SLV-QOS-0037: class MPI has no word 'shere'; did you mean 'share'?",
        );
        check(
            &["MPI: default, group=storrage", "group storage: 0x1"],
            "SLV-QOS-0038: class MPI: no group is called 'storrage'; did you mean 'storage'?",
        );
        check(&["MPI: ulp=ipiob"], &ulp("ipiob").unwrap_err().to_string());
        check(
            &["MPI: share=70"],
            "SLV-QOS-0032: the QoS intent's default class '' is none of its classes; mark one class with the word \
             default",
        );
        check(
            &["MPI: default", "MPI: share=2"],
            "SLV-QOS-0031: the QoS intent has two classes called 'MPI'; give each class a name of its own",
        );
        check(&["# none"], &IntentError::NoClass.to_string());
    }
}
