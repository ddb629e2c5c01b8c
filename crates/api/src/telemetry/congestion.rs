//! Congestion: the links that ports wait for.

use selvedge_types::Guid;
use serde::{Deserialize, Serialize};

use crate::query::{parse, read, written};
use crate::{Body, End, Error};

/// The congestion of the fabric.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Congestion {
    /// When the last trace began, in milliseconds since 1970-01-01 UTC; none: nothing has been traced yet.
    pub traced_ms: Option<u64>,
    /// How long it took.
    pub took_us: u64,
    /// Ports that wait: for the link of a tree, or without a root.
    pub waiting: u64,
    /// Congestion trees, listed or not.
    pub trees_found: u64,
    /// The trees, the one with most waiting ports first.
    pub trees: Vec<CongestionTree>,
    /// Ports that wait although no link behind them is full: heavy, even load.
    pub without_root: Vec<WaitingPort>,
    /// Trees end at this distance from their roots, because so many ports wait for so many links; ports further away
    /// are in `without_root`. None: trees are whole.
    #[serde(default)]
    pub horizon: Option<u32>,
}

impl Body for Congestion {
    const SCHEMA: &'static str = "selvedge.telemetry_congestion";
}

/// A congestion tree: a link, and the ports that wait for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CongestionTree {
    /// The port that sends on the root link.
    pub root: End,
    /// The other end of the root link.
    pub to: End,
    /// `saturated`, `slow_link`, `slow_receiver` or `cycle`.
    pub cause: String,
    /// What the root sends, in parts of a million of its capacity.
    pub load_ppm: u64,
    /// The time in which the root waits, in parts of a million.
    pub wait_ppm: u64,
    /// The ports that wait for it, the nearest first.
    pub waiting: Vec<WaitingPort>,
    /// The ports of hosts among them.
    pub hosts: Vec<End>,
    /// Pairs of hosts with a route over the root link.
    pub pairs_found: u64,
    /// The pairs, as many as were asked for.
    pub pairs: Vec<CrossingPair>,
}

/// A port that waits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitingPort {
    /// The port.
    pub port: End,
    /// Links from it to the root; 0: it is the root, or there is none.
    pub hops: u32,
    /// What it sends, in parts of a million of the capacity of its link.
    pub load_ppm: u64,
    /// The time in which it waits, in parts of a million.
    pub wait_ppm: u64,
}

/// A pair of hosts with a route over a link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CrossingPair {
    /// GUID of the node that sends.
    pub from_guid: Guid,
    /// Its name.
    pub from: String,
    /// GUID of the node that receives.
    pub to_guid: Guid,
    /// Its name.
    pub to: String,
    /// The LID of the receiver.
    pub lid: u16,
}

/// How much of the congestion is wanted: the query of `GET /api/v1/telemetry/congestion`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CongestionQuery {
    /// How many trees are listed at most.
    pub limit: Option<u64>,
    /// How many pairs are listed for each tree; none: they are only counted.
    pub pairs: Option<u64>,
}

impl CongestionQuery {
    /// Reads the parameters of a query. An unknown name is refused.
    pub fn of(parameters: &[(String, String)]) -> Result<Self, Error> {
        read(parameters, Self::take)
    }

    fn take(&mut self, name: &str, value: &str) -> Result<(), String> {
        match name {
            "limit" => self.limit = Some(parse(name, value, "a number of trees")?),
            "pairs" => self.pairs = Some(parse(name, value, "a number of pairs")?),
            other => return Err(format!("congestion has no '{other}': there are limit and pairs")),
        }
        Ok(())
    }

    /// Returns the query as parameters.
    #[must_use]
    pub fn parameters(&self) -> Vec<(String, String)> {
        let text = |number: Option<u64>| number.map(|number| number.to_string());
        written([("limit", text(self.limit)), ("pairs", text(self.pairs))])
    }
}

/// What colours show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Shade {
    /// The share of time in which ports wait.
    #[default]
    Wait,
    /// The share of the capacity that ports send.
    Load,
}

/// The picture that is wanted: the query of `GET /api/v1/telemetry/picture`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PictureQuery {
    /// True: the connections as a Graphviz graph; false: a heat map leaf × spine as SVG.
    pub dot: bool,
    /// What the colours of the heat map show.
    pub by: Shade,
    /// True if the graph has the hosts too.
    pub hosts: bool,
}

impl PictureQuery {
    /// Reads the parameters of a query. An unknown name is refused.
    pub fn of(parameters: &[(String, String)]) -> Result<Self, Error> {
        read(parameters, Self::take)
    }

    fn take(&mut self, name: &str, value: &str) -> Result<(), String> {
        match (name, value) {
            ("form", "svg") => self.dot = false,
            ("form", "dot") => self.dot = true,
            ("form", _) => return Err(format!("form={value}: want svg or dot")),
            ("by", "wait") => self.by = Shade::Wait,
            ("by", "load") => self.by = Shade::Load,
            ("by", _) => return Err(format!("by={value}: want wait or load")),
            ("hosts", _) => self.hosts = parse(name, value, "true or false")?,
            _ => {
                return Err(format!(
                    "pictures have no parameter '{name}': there are form, by and hosts"
                ));
            }
        }
        Ok(())
    }

    /// Returns the query as parameters.
    #[must_use]
    pub fn parameters(&self) -> Vec<(String, String)> {
        let by = match self.by {
            Shade::Wait => "wait",
            Shade::Load => "load",
        };
        written([
            ("form", Some(if self.dot { "dot" } else { "svg" }.to_owned())),
            ("by", Some(by.to_owned())),
            ("hosts", self.hosts.then(|| "true".to_owned())),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_read_as_they_are_written() {
        let query = CongestionQuery {
            limit: Some(3),
            pairs: Some(7),
        };
        assert_eq!(CongestionQuery::of(&query.parameters()), Ok(query));
        let picture = PictureQuery {
            dot: true,
            by: Shade::Load,
            hosts: true,
        };
        assert_eq!(PictureQuery::of(&picture.parameters()), Ok(picture));
        let refused = |name: &str, value: &str, want: &str| {
            let pair = [(name.to_owned(), value.to_owned())];
            let error = PictureQuery::of(&pair).unwrap_err();
            assert!(error.message.contains(want), "{error}");
        };
        refused("form", "png", "want svg or dot");
        refused("by", "errors", "want wait or load");
        refused("host", "true", "there are form, by and hosts");
    }
}
