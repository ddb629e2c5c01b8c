//! Alarms of counters and links: listed, acknowledged, cleared.

use serde::{Deserialize, Serialize};

use crate::query::{parse, read, written};
use crate::telemetry::history::TimeRange;
use crate::{Body, End, Error, ErrorKind};

/// The alarms.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alarms {
    /// Alarms of level `critical`, listed or not.
    pub critical: u64,
    /// Alarms of level `warning`.
    pub warning: u64,
    /// Alarms of level `info`.
    pub info: u64,
    /// Acknowledged alarms of all levels.
    pub acknowledged: u64,
    /// The alarms that were asked for: the gravest first, then the newest.
    pub alarms: Vec<Alarm>,
}

impl Body for Alarms {
    const SCHEMA: &'static str = "selvedge.telemetry_alarms";
}

/// An alarm.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alarm {
    /// `critical`, `warning` or `info`.
    pub level: String,
    /// What it is about: the name of a counter, as `SymbolErrorCounter`; `flaps`, `bit_errors` or `congestion`.
    pub about: String,
    /// The port that counted; of an alarm of a link as a whole, one of its ends.
    pub port: End,
    /// The other end of the link; none: not known.
    pub peer: Option<End>,
    /// When it began, in milliseconds since 1970-01-01 UTC.
    pub since_ms: u64,
    /// When there was evidence last.
    pub last_ms: u64,
    /// What was measured, against which threshold.
    pub evidence: String,
    /// What clears it.
    pub clears: String,
    /// What can be done about it.
    pub advice: String,
    /// Set if an operator has acknowledged it at this level.
    pub acknowledged: Option<Acknowledged>,
    /// When and why it ended; none: it is in force.
    pub cleared: Option<AlarmCleared>,
}

/// An alarm has ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AlarmCleared {
    /// When, in milliseconds since 1970-01-01 UTC.
    pub at_ms: u64,
    /// `below`: below its threshold; `operator`: an operator cleared it; `gone`: its node has left the fabric;
    /// `dropped`: there were more alarms than are kept.
    pub why: String,
}

/// An operator has seen an alarm.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Acknowledged {
    /// When, in milliseconds since 1970-01-01 UTC.
    pub at_ms: u64,
    /// The operator.
    pub by: String,
    /// What the operator wrote; may be empty.
    pub note: String,
}

/// Levels of alarms, the lowest first.
const LEVELS: [&str; 3] = ["info", "warning", "critical"];

/// Which alarms are wanted: the query of `GET /api/v1/telemetry/alarms`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AlarmQuery {
    /// The lowest level: `info`, `warning` or `critical`; none: all.
    pub level: Option<String>,
    /// Name or GUID of a node at either end; none: all.
    pub node: Option<String>,
    /// True: only those that no operator has acknowledged.
    pub open: bool,
    /// True: also those that have ended in `range`, the latest first behind those in force.
    pub cleared: bool,
    /// From when to when alarms have ended; none: within the last hour.
    pub range: TimeRange,
    /// How many are listed at most.
    pub limit: Option<u64>,
}

impl AlarmQuery {
    /// Reads the parameters of a query. An unknown name is refused.
    pub fn of(parameters: &[(String, String)]) -> Result<Self, Error> {
        let query = read(parameters, Self::take)?;
        match query.range != TimeRange::default() && !query.cleared {
            true => {
                Err(ErrorKind::BadRequest.error("from_ms and to_ms go with cleared=true: they say when alarms ended"))
            }
            false => Ok(query),
        }
    }

    fn take(&mut self, name: &str, value: &str) -> Result<(), String> {
        match name {
            "level" if LEVELS.contains(&value) => self.level = Some(value.to_owned()),
            "level" => return Err(format!("level={value}: want info, warning or critical")),
            "node" => self.node = Some(value.to_owned()),
            "open" => self.open = parse(name, value, "true or false")?,
            "cleared" => self.cleared = parse(name, value, "true or false")?,
            name if self.range.take(name, value)? => {}
            "limit" => self.limit = Some(parse(name, value, "a number of alarms")?),
            other => {
                let known = "there are level, node, open, cleared, from_ms, to_ms and limit";
                return Err(format!("alarms have no parameter '{other}': {known}"));
            }
        }
        Ok(())
    }

    /// Returns the query as parameters.
    #[must_use]
    pub fn parameters(&self) -> Vec<(String, String)> {
        let mut all = written([
            ("level", self.level.clone()),
            ("node", self.node.clone()),
            ("open", self.open.then(|| "true".to_owned())),
            ("cleared", self.cleared.then(|| "true".to_owned())),
            ("limit", self.limit.map(|limit| limit.to_string())),
        ]);
        all.extend(self.range.written());
        all
    }

    /// True if alarms of this level are wanted.
    #[must_use]
    pub fn has_level(&self, level: &str) -> bool {
        let rank = |name: &str| LEVELS.iter().position(|level| *level == name);
        self.level.as_deref().is_none_or(|least| rank(level) >= rank(least))
    }
}

/// What an operator does with alarms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AlarmAction {
    /// The operator has seen them: they are no conditions of health any more, unless they rise.
    #[default]
    Acknowledge,
    /// The operator ends them. They begin again with the next evidence.
    Clear,
}

/// A request to acknowledge or clear alarms: the body of `POST /api/v1/telemetry/alarms`. The answer lists the alarms
/// that it has changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AlarmRequest {
    /// `acknowledge` or `clear`.
    pub action: AlarmAction,
    /// Name or GUID of a node at either end; none: all alarms, so `all` has to be true.
    pub node: Option<String>,
    /// Number of the node's port; none: all of them.
    pub port: Option<u8>,
    /// What the alarms are about, as [`Alarm::about`]; none: anything.
    pub about: Option<String>,
    /// True: the alarms of all nodes are meant.
    pub all: bool,
    /// The operator.
    pub by: String,
    /// A note for the list; may be empty.
    pub note: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alarms_are_selected() {
        let query = AlarmQuery {
            level: Some("warning".to_owned()),
            node: Some("leaf 1".to_owned()),
            open: true,
            cleared: true,
            range: TimeRange {
                from_ms: Some(5),
                to_ms: None,
            },
            limit: Some(5),
        };
        assert_eq!(AlarmQuery::of(&query.parameters()), Ok(query.clone()));
        let check = |level: &str, want: bool| assert_eq!(query.has_level(level), want, "{level}");
        check("info", false);
        check("warning", true);
        check("critical", true);
        assert!(AlarmQuery::default().has_level("info"));
        let refused = |name: &str, value: &str, want: &str| {
            let error = AlarmQuery::of(&[(name.to_owned(), value.to_owned())]).unwrap_err();
            assert!(error.message.contains(want), "{error}");
        };
        refused("level", "bad", "want info, warning or critical");
        refused("open", "1", "want true or false");
        refused("lever", "info", "there are level, node");
        refused("from_ms", "7", "go with cleared=true");
    }

    #[test]
    fn a_request_has_no_unknown_fields() {
        let request: AlarmRequest = serde_json::from_str(r#"{"node": "leaf 1", "action": "clear"}"#).unwrap();
        assert_eq!(request.action, AlarmAction::Clear);
        assert!(serde_json::from_str::<AlarmRequest>(r#"{"nod": "leaf 1"}"#).is_err());
    }
}
