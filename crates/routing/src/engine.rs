//! The engines by name, and what goes in and comes out.

use std::str::FromStr;
use std::sync::Arc;

use selvedge_fabric::{Fabric, PortRef};
use selvedge_plan::{EngineName, Lids, ServiceLevels, Tables};
use selvedge_sim::{Par, Seed};
use selvedge_types::Lid;

use crate::balance::{Balance, fill};
use crate::destinations::Destinations;
use crate::graph::Graph;
use crate::note::Note;
use crate::paths::Paths;
use crate::updn::{self, UpDnOptions};
use crate::{minhop, note};

/// A routing engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Engine {
    /// Shortest paths, spread over the ports of each switch. Not deadlock-free where the fabric has rings.
    MinHop,
    /// Paths that go up towards roots, then down, never up again: deadlock-free on one lane, on any fabric.
    UpDn,
}

impl Engine {
    /// Every engine there is, in the order in which they are listed to people.
    pub const ALL: [Self; 2] = [Self::MinHop, Self::UpDn];

    /// Its name, as in OpenSM's `-R`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::MinHop => "minhop",
            Self::UpDn => "updn",
        }
    }

    /// Routes `fabric`: every switch gets an entry for every LID of `lids` that it can reach.
    ///
    /// `seed` is for engines that draw lots; none of today's does.
    pub fn route(
        self,
        fabric: &Fabric,
        lids: &Lids,
        options: &Options,
        _seed: Seed,
        par: Par,
    ) -> Result<Routed, EngineError> {
        let graph = Graph::new(fabric);
        let mut notes = Vec::new();
        let destinations = Destinations::new(fabric, &graph, lids, options.count_switches, &mut notes)?;
        if let Some(previous) = options.previous.as_deref()
            && previous.switches() != graph.switches()
        {
            return Err(EngineError::ForeignPrevious {
                have: previous.switches(),
                want: graph.switches(),
            });
        }
        note::about_fabric(fabric, &graph, lids, &mut notes);
        let paths: Paths = match self {
            Self::MinHop => minhop::paths(&graph, par),
            Self::UpDn => updn::paths(fabric, &graph, &options.updn, par, &mut notes),
        };
        let mut tables = Tables::new(graph.switches(), lids.top());
        let balance = Balance {
            graph: &graph,
            destinations: &destinations,
            paths: &paths,
            previous: options.previous.as_deref(),
        };
        fill(&balance, &mut tables, par);
        Ok(Routed {
            tables,
            service_levels: ServiceLevels::default(),
            lanes: 1,
            engine: EngineName(self.name().to_owned()),
            notes,
        })
    }
}

impl FromStr for Engine {
    type Err = EngineError;

    fn from_str(name: &str) -> Result<Self, EngineError> {
        Self::ALL
            .into_iter()
            .find(|engine| engine.name() == name)
            .ok_or_else(|| EngineError::Unknown {
                name: name.to_owned(),
                meant: closest(name).map_or_else(String::new, |near| format!(" (did you mean '{near}'?)")),
                known: Self::ALL.map(Self::name).join(", "),
            })
    }
}

impl TryFrom<&EngineName> for Engine {
    type Error = EngineError;

    fn try_from(name: &EngineName) -> Result<Self, EngineError> {
        name.0.parse()
    }
}

/// How to route. The default is what a fabric without a configuration gets.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The tables in force, with this fabric's switch indices ([`carry_over`](crate::carry_over)): an entry that is
    /// still one of the best is kept, so a change moves only what it must. `None` (default): balance afresh, as OpenSM
    /// does when a switch is new or a port was reset.
    pub previous: Option<Arc<Tables>>,
    /// Count routes to switches when spreading load (OpenSM's `port_profile_switch_nodes`). Default false: switches
    /// receive next to no traffic.
    pub count_switches: bool,
    /// Of `updn` only.
    pub updn: UpDnOptions,
}

/// What an engine made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Routed {
    /// Forwarding tables of every switch.
    pub tables: Tables,
    /// Service level towards every destination.
    pub service_levels: ServiceLevels,
    /// Data lanes used, 1–15.
    pub lanes: u8,
    /// The engine that made them.
    pub engine: EngineName,
    /// What an operator may want to know.
    pub notes: Vec<Note>,
}

/// Why an engine made no tables.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// SLV-ROUTE-0001: no engine has this name.
    #[error("SLV-ROUTE-0001: there is no routing engine '{name}'{meant}; known engines: {known}")]
    Unknown {
        /// What was asked for.
        name: String,
        /// ` (did you mean '…'?)`, or nothing if no name is near.
        meant: String,
        /// All names, separated by commas.
        known: String,
    },
    /// SLV-ROUTE-0002: a LID of something that is no end port of this fabric.
    #[error(
        "SLV-ROUTE-0002: LID {lid} belongs to node {} port {}, which is no end port of this fabric; assign LIDs for \
         this fabric before routing it",
        port.node.0, port.port
    )]
    ForeignLid {
        /// The LID.
        lid: Lid,
        /// Its owner.
        port: PortRef,
    },
    /// SLV-ROUTE-0003: the tables in force are those of another fabric.
    #[error(
        "SLV-ROUTE-0003: the previous tables are of {have} switches, this fabric has {want}; carry them over to this \
         fabric first"
    )]
    ForeignPrevious {
        /// Switches in the tables.
        have: usize,
        /// Switches in the fabric.
        want: usize,
    },
}

/// The engine name nearest to a mistyped one, if any is near.
fn closest(name: &str) -> Option<&'static str> {
    /// More than this many typing errors are a different word.
    const TYPOS_MAX: usize = 2;
    let lower = name.to_lowercase();
    Engine::ALL
        .into_iter()
        .map(|engine| (strsim::damerau_levenshtein(&lower, engine.name()), engine.name()))
        .filter(|(typos, _)| *typos <= TYPOS_MAX)
        .min()
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engines_are_found_by_name() {
        for engine in Engine::ALL {
            assert_eq!(engine.name().parse(), Ok(engine));
        }
    }

    #[test]
    fn an_unknown_name_lists_the_known_ones() {
        let check = |name: &str, want: &str| assert_eq!(name.parse::<Engine>().unwrap_err().to_string(), want);
        check(
            "UpDown",
            "SLV-ROUTE-0001: there is no routing engine 'UpDown' (did you mean 'updn'?); known engines: minhop, updn",
        );
        check(
            "random",
            "SLV-ROUTE-0001: there is no routing engine 'random'; known engines: minhop, updn",
        );
    }
}
