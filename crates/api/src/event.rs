//! Events of a manager.

use serde::{Deserialize, Serialize};

use crate::{Body, Error, query};

/// The severity of an event or finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Good to know.
    Info,
    /// The operator should check it.
    Warning,
    /// An error: something does not work.
    Error,
}

impl std::fmt::Display for Severity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Error => "error",
        })
    }
}

/// An event of the process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Counts from 1 since the process started.
    pub number: u64,
    /// When the event happened, in milliseconds since 1970-01-01 UTC.
    pub time_ms: u64,
    /// When the event happened, in nanoseconds since the process started.
    pub uptime_ns: u64,
    /// Severity of the event.
    pub severity: Severity,
    /// Stable code.
    pub code: String,
    /// The event as text, without its code.
    pub text: String,
}

/// Events after a given number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Events {
    /// The value of `since` for the next request: only later events are then returned.
    pub last: u64,
    /// Number of requested events that the ring no longer holds.
    pub dropped: u64,
    /// The events, oldest first.
    pub events: Vec<Event>,
}

impl Body for Events {
    const SCHEMA: &'static str = "selvedge.events";
}

impl Body for Event {
    const SCHEMA: &'static str = "selvedge.event";
}

impl std::str::FromStr for Severity {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        [Self::Info, Self::Warning, Self::Error]
            .into_iter()
            .find(|severity| severity.to_string() == text)
            .ok_or_else(|| format!("'{text}' is no severity: want info, warning or error"))
    }
}

/// The wanted events: the query of `GET /api/v1/events`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventQuery {
    /// Only events with a higher number.
    pub since: u64,
    /// Only events from this time on, in milliseconds since 1970-01-01 UTC.
    pub since_ms: Option<u64>,
    /// Only events of this severity or a higher one.
    pub severity: Option<Severity>,
}

impl EventQuery {
    /// Reads the parameters of a query. An unknown name is refused: a misspelt condition must not show every event.
    pub fn of(parameters: &[(String, String)]) -> Result<Self, Error> {
        query::read(parameters, Self::take)
    }

    fn take(&mut self, name: &str, value: &str) -> Result<(), String> {
        let number = |want: &str| query::parse(name, value, want);
        match name {
            "since" => self.since = number("the number of an event, such as since=17; without it, all are returned")?,
            "since_ms" => self.since_ms = Some(number("milliseconds since 1970-01-01 UTC")?),
            "severity" => self.severity = Some(value.parse()?),
            other => {
                let what = format!("events cannot be selected by '{other}'; use since, since_ms or severity");
                return Err(what);
            }
        }
        Ok(())
    }

    /// Returns the query as parameters.
    #[must_use]
    pub fn parameters(&self) -> Vec<(String, String)> {
        query::written([
            ("since", Some(self.since.to_string())),
            ("since_ms", self.since_ms.map(|ms| ms.to_string())),
            ("severity", self.severity.map(|severity| severity.to_string())),
        ])
    }

    /// Removes all events but the requested ones after number `since`. Events that the process no longer stores count
    /// as dropped, unless they are older than the requested time.
    pub fn apply(&self, events: &mut Events) {
        if let Some(since_ms) = self.since_ms {
            let is_older = |event: &Event| event.time_ms < since_ms;
            if events.events.first().is_some_and(is_older) {
                events.dropped = 0;
            }
            events.events.retain(|event| !is_older(event));
        }
        if let Some(least) = self.severity {
            events.events.retain(|event| event.severity >= least);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events() -> Events {
        let event = |number, severity| Event {
            number,
            time_ms: number * 1_000,
            uptime_ns: 0,
            severity,
            code: "SLV-SM-0001".to_owned(),
            text: String::new(),
        };
        let severities = [Severity::Info, Severity::Error, Severity::Warning, Severity::Info];
        Events {
            last: 6,
            dropped: 2,
            events: (3..)
                .zip(severities)
                .map(|(number, severity)| event(number, severity))
                .collect(),
        }
    }

    #[test]
    fn events_are_selected_by_time_and_severity() {
        let check = |since_ms: Option<u64>, severity: Option<Severity>, dropped: u64, want: &[u64]| {
            let query = EventQuery {
                since: 0,
                since_ms,
                severity,
            };
            let mut events = events();
            query.apply(&mut events);
            let numbers: Vec<u64> = events.events.iter().map(|event| event.number).collect();
            assert_eq!(
                (events.last, events.dropped, &numbers[..]),
                (6, dropped, want),
                "{query:?}"
            );
        };
        check(None, None, 2, &[3, 4, 5, 6]);
        check(None, Some(Severity::Warning), 2, &[4, 5]);
        check(None, Some(Severity::Error), 2, &[4]);
        // The two that the ring has lost are older than event 3, which is not wanted.
        check(Some(4_000), None, 0, &[4, 5, 6]);
        check(Some(5_000), Some(Severity::Info), 0, &[5, 6]);
        // They may be as new as that.
        check(Some(3_000), None, 2, &[3, 4, 5, 6]);
        check(Some(9_000), None, 0, &[]);
    }

    #[test]
    fn a_query_comes_back_from_its_parameters() {
        let query = EventQuery {
            since: 17,
            since_ms: Some(1_000),
            severity: Some(Severity::Warning),
        };
        assert_eq!(EventQuery::of(&query.parameters()), Ok(query));
        let check = |name: &str, value: &str, want: &str| {
            let said = EventQuery::of(&[(name.to_owned(), value.to_owned())]).unwrap_err();
            assert_eq!(said.code, "SLV-API-0002");
            assert!(said.message.contains(want), "{said}");
        };
        check("since", "x", "want the number of an event");
        check("since_ms", "yesterday", "want milliseconds");
        check("severity", "loud", "want info, warning or error");
        check("severty", "info", "use since, since_ms or severity");
    }
}
