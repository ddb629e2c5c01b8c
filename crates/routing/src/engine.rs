//! The trait of engines, their input and their output.

use core::fmt;

use selvedge_fabric::{Fabric, SwitchIdx};
use selvedge_graph::Graph;
use selvedge_plan::{EngineName, Lids, ServiceLevels, Tables};
use selvedge_sim::Par;
use selvedge_types::{Lid, Lmc, Sl};

use crate::balance::{Balance, fill};
use crate::destinations::Destinations;
use crate::engines::Engine;
use crate::error::EngineError;
use crate::mender::Mender;
use crate::note::Note;
use crate::options::Options;
use crate::paths::Paths;
use crate::ports;

/// A routing engine. A new engine is a file with an implementation of this trait and a row in the registry that
/// [`Engine::ALL`] lists: see `docs/adding-an-engine.md`.
///
/// An engine reads no clock and no file, takes random numbers only from seeds that stand in its code, and returns the
/// same bytes on any number of threads. It need not prove its tables: the judge does.
pub trait RoutingEngine: fmt::Debug + Sync {
    /// Makes tables with an entry for every LID at every switch that can reach it, and adds remarks for the operator to
    /// `notes`.
    fn route(&self, input: &Input<'_>, notes: &mut Vec<Note>) -> Result<Made, EngineError>;

    /// Prepares repairs in place: a value that changes few entries of this engine's tables to route around lost links.
    /// `None` (default): after a loss the fabric is routed again with [`Options::previous`].
    fn mender(&self, _force: &InForce<'_>) -> Option<Mender> {
        None
    }

    /// Returns the engine's promises that the planner may rely on, each once.
    fn capabilities(&self) -> &'static [Capability];

    /// Returns the number of data lanes that the engine uses, and their purpose. Default: one.
    fn lanes(&self) -> LaneUse {
        LaneUse::One
    }

    /// Returns why the engine refuses every fabric with more than one port under these settings; `None` (default) if
    /// that depends on the fabric.
    fn refuses_always(&self, _lmc: Lmc, _options: &Options) -> Option<EngineError> {
        None
    }
}

/// A promise of an engine that the planner, the judge's callers and tests may rely on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Capability {
    /// Analyses the fabric first, and keeps entries in force by itself as far as possible. So this engine is called
    /// even if correct tables of another manager are found; other engines are not called then.
    Recognises,
    /// The tables are those that the operator gave. No other tables may replace them.
    Given,
    /// Balances load from scratch if asked ([`Rebalance::Full`](crate::Rebalance::Full)).
    SpreadsAnew,
    /// The tables cannot deadlock, in traffic from or to hosts, on any fabric that the engine accepts.
    DeadlockFree,
    /// Multicast trees always fit: copies on the lane of the engine's routes close no credit loop.
    LeavesRoomForCopies,
}

/// The number of data lanes that an engine uses, and their purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaneUse {
    /// The engine uses one lane.
    One,
    /// The engine uses as many lanes as it may, to keep packets apart. The routes are proved for one lane, so senders
    /// may use any service level.
    ToSpread {
        /// Number of lanes, unless [`Options::lanes`] sets another one.
        by_default: u8,
    },
    /// The engine uses as many lanes as it may, or as it needs, to be free of deadlocks. Senders must use the service
    /// levels of their path records.
    ToBeSafe {
        /// Number of lanes, unless [`Options::lanes`] sets another one.
        by_default: u8,
    },
}

impl LaneUse {
    /// Returns how many lanes an engine may use by default, 1–15.
    #[must_use]
    pub const fn by_default(self) -> u8 {
        match self {
            Self::One => 1,
            Self::ToSpread { by_default } | Self::ToBeSafe { by_default } => by_default,
        }
    }
}

/// The input of an engine.
#[derive(Debug)]
pub struct Input<'a> {
    /// The fabric.
    pub fabric: &'a Fabric,
    /// LIDs of the fabric's end ports.
    pub lids: &'a Lids,
    /// Options of the engine.
    pub options: &'a Options,
    /// Number of threads to use.
    pub par: Par,
    /// Switches and the channels between them.
    pub(crate) graph: &'a Graph,
    /// Destinations in the order in which they are routed.
    pub(crate) destinations: &'a Destinations,
}

impl Input<'_> {
    /// Tables without entries.
    pub(crate) fn tables(&self) -> Tables {
        Tables::new(self.graph.switches(), self.lids.top())
    }

    /// Returns the number of data lanes that an engine may use.
    pub(crate) fn lanes(&self, lanes: LaneUse) -> u8 {
        self.options.lanes.unwrap_or(lanes.by_default())
    }

    /// Turns paths into tables: each switch gives a destination to the good port that fewest use.
    pub(crate) fn balanced(&self, paths: &Paths, notes: &mut Vec<Note>) -> Tables {
        let mut tables = self.tables();
        let balance = Balance {
            graph: self.graph,
            destinations: self.destinations,
            paths,
            previous: self.options.previous.as_deref(),
            port_order: &ports::turns(self.fabric, &self.options.port_order, notes),
        };
        fill(&balance, &mut tables, self.par);
        tables
    }
}

/// The result of an engine for an [`Input`].
#[derive(Debug)]
pub struct Made {
    /// Forwarding tables of every switch.
    pub tables: Tables,
    /// Service level towards every destination.
    pub service_levels: ServiceLevels,
    /// Data lanes used, 1–15.
    pub lanes: u8,
    /// The engine that made the tables, if the requested engine passed the task on, as `auto` does; `None`: the
    /// requested engine itself made them.
    pub by: Option<Engine>,
}

impl Made {
    /// Returns a result with these tables, for one lane.
    #[must_use]
    pub fn on_one_lane(tables: Tables) -> Self {
        Self {
            tables,
            service_levels: ServiceLevels::default(),
            lanes: 1,
            by: None,
        }
    }

    /// Tables for several lanes; `lane_of`: the lane of each LID, which is its service level.
    #[must_use]
    pub fn on_lanes(tables: Tables, lane_of: Vec<u8>, lanes: u8) -> Self {
        let levels = lane_of.into_iter().map(|lane| Sl::new(lane).unwrap_or_default());
        let service_levels = match lanes {
            0 | 1 => ServiceLevels::default(),
            _ => ServiceLevels::PerDestination(levels.collect()),
        };
        Self {
            service_levels,
            lanes,
            ..Self::on_one_lane(tables)
        }
    }
}

/// Tables in force, for repairs in place.
pub struct InForce<'a> {
    /// The fabric that the tables are in force on.
    pub fabric: &'a Fabric,
    /// LIDs of the fabric.
    pub lids: &'a Lids,
    /// The tables.
    pub tables: &'a Tables,
    /// Service level towards every destination.
    pub service_levels: &'a ServiceLevels,
    /// Data lanes used, 1–15.
    pub lanes: u8,
    /// Options with which the tables were made.
    pub options: &'a Options,
    /// Number of threads for preparations.
    pub par: Par,
    /// Returns true if packets of hosts to a LID leave a switch.
    pub by_hosts: &'a dyn Fn(SwitchIdx, Lid) -> bool,
}

/// The result of an engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Routed {
    /// Forwarding tables of every switch.
    pub tables: Tables,
    /// Service level towards every destination.
    pub service_levels: ServiceLevels,
    /// Data lanes used, 1–15.
    pub lanes: u8,
    /// The engine that made the tables.
    pub engine: EngineName,
    /// Remarks for the operator.
    pub notes: Vec<Note>,
}
