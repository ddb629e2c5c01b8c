//! Knows the figures of a result, so that a misspelt figure is refused before the first run.

use std::collections::BTreeSet;

use serde_json::{Map, Value as Json};

use crate::schema::nearest;

/// Names of the figures of a result.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Names of numbers and truth values; nested ones as `latency_ns.p99`.
    numbers: BTreeSet<String>,
    /// All names, including objects and texts: `deadlock?` asks whether a value is present.
    names: BTreeSet<String>,
}

impl Figures {
    /// Returns the figures of results like this one. A null may be a number or an object in other results.
    #[must_use]
    pub fn of(sample: &Map<String, Json>) -> Self {
        let mut figures = Self::default();
        figures.add("", sample);
        figures
    }

    fn add(&mut self, before: &str, object: &Map<String, Json>) {
        for (name, value) in object {
            let name = format!("{before}{name}");
            match value {
                Json::Number(_) | Json::Bool(_) | Json::Null => drop(self.numbers.insert(name.clone())),
                Json::Object(inner) => self.add(&format!("{name}."), inner),
                Json::String(_) | Json::Array(_) => {}
            }
            self.names.insert(name);
        }
    }

    /// Refuses a name that is neither a figure nor one of `settings`.
    pub(crate) fn check(&self, name: &str, settings: &[String]) -> Result<(), String> {
        let (bare, known) = match name.strip_suffix('?') {
            Some(bare) => (bare, &self.names),
            None => (name, &self.numbers),
        };
        if known.contains(bare) || settings.iter().any(|setting| setting == name) {
            return Ok(());
        }
        let all = || known.iter().chain(settings).map(String::as_str);
        // A likely slip is the last part alone: p99 for latency_ns.p99.
        let by_end = all().find(|known| known.rsplit('.').next() == Some(bare));
        let meant = match by_end {
            Some(known) => format!("; did you mean '{known}'?"),
            None => nearest(bare, all()),
        };
        let settings = if settings.is_empty() {
            ""
        } else {
            ", and no combination a setting"
        };
        let known: Vec<&str> = all().collect();
        Err(format!(
            "no result has a figure '{bare}'{settings}{meant}; known: {}",
            known.join(", ")
        ))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn figures_by_name() {
        let sample = json!({
            "accepted_load": 0.5, "deadlock": null, "steady": true, "name": "a", "list": [1],
            "latency_ns": { "p50": 1, "p99": 2 },
        });
        let figures = Figures::of(sample.as_object().unwrap());
        let check = |name: &str, settings: &[&str], want: Option<&str>| {
            let settings: Vec<String> = settings.iter().map(|name| (*name).to_owned()).collect();
            match (figures.check(name, &settings), want) {
                (Ok(()), None) => {}
                (Err(found), Some(want)) => assert!(found.contains(want), "{name}: {found}"),
                (found, want) => panic!("{name}: {found:?}, want {want:?}"),
            }
        };
        check("accepted_load", &[], None);
        check("latency_ns.p99", &[], None);
        check("deadlock?", &[], None);
        check("latency_ns?", &[], None);
        check("name?", &[], None);
        check("steady", &[], None);
        check("load", &["load"], None);
        check(
            "acepted_load",
            &[],
            Some("'acepted_load'; did you mean 'accepted_load'?"),
        );
        check("p99", &[], Some("did you mean 'latency_ns.p99'?"));
        check("latency_ns.p98", &[], Some("did you mean 'latency_ns.p9"));
        check("deadlok?", &[], Some("did you mean 'deadlock'?"));
        check(
            "lode",
            &["load"],
            Some("no combination a setting; did you mean 'load'?"),
        );
        check("name", &[], Some("no result has a figure 'name'; known: accepted_load"));
        check("latency_ns", &[], Some("no result has a figure 'latency_ns'"));
    }
}
