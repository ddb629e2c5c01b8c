//! Selvedge's engines on a fabric: tables, lanes, and how long the engines took on one thread.

use std::sync::Arc;
use std::time::Instant;

use selvedge_fabric::Fabric;
use selvedge_plan::{Lids, Tables};
use selvedge_routing::{
    Effort, Engine, FatTreeOptions, FtreeOptions, Options, Rebalance, Routed, UpDnOptions, WeaveOptions,
};
use selvedge_sim::{Par, Seed};
use selvedge_types::{Guid, Lid, LidRange, PortNum};

/// The task of an engine of Selvedge.
#[derive(Clone, Debug)]
pub struct Request {
    /// The engine.
    pub engine: Engine,
    /// Roots of trees; none if empty.
    pub roots: Vec<Guid>,
    /// Data lanes that the engine may use.
    pub lanes: u8,
    /// The effort of weave.
    pub effort: Effort,
    /// The fabric before it lost links.
    pub nominal: Option<Arc<Fabric>>,
    /// The tables in force.
    pub previous: Option<Arc<Tables>>,
    /// Whether fat-tree may spread load anew.
    pub rebalance: Rebalance,
}

impl Request {
    /// An engine without options: one lane, fast.
    #[must_use]
    pub const fn plain(engine: Engine) -> Self {
        Self {
            engine,
            roots: Vec::new(),
            lanes: 1,
            effort: Effort::Fast,
            nominal: None,
            previous: None,
            rebalance: Rebalance::Minimal,
        }
    }

    /// Returns the options in the form that the engine takes.
    #[must_use]
    pub fn options(&self) -> Options {
        let roots = || self.roots.clone();
        Options {
            fat_tree: FatTreeOptions {
                nominal: self.nominal.clone(),
                ..FatTreeOptions::default()
            },
            updn: UpDnOptions {
                roots: roots(),
                ..UpDnOptions::default()
            },
            ftree: FtreeOptions {
                roots: roots(),
                ..FtreeOptions::default()
            },
            lanes: Some(self.lanes),
            rebalance: self.rebalance,
            previous: self.previous.clone(),
            weave: WeaveOptions {
                effort: self.effort,
                ..WeaveOptions::default()
            },
            ..Options::default()
        }
    }
}

/// Returns the tables and the time in milliseconds, or the reason why there are none.
pub fn run(fabric: &Fabric, lids: &Lids, request: &Request) -> Result<(Routed, f64), String> {
    let options = request.options();
    let start = Instant::now();
    let routed = request.engine.route(fabric, lids, &options, Seed(0), Par::Sequential);
    let ms = start.elapsed().as_secs_f64() * 1e3;
    routed.map(|routed| (routed, ms)).map_err(|error| error.to_string())
}

/// Assigns LIDs from 1 on, in the order of the nodes: one to every end port that needs one.
#[must_use]
pub fn number(fabric: &Fabric) -> Lids {
    let mut lids = Lids::new();
    let ends = fabric
        .end_ports()
        .filter(|(at, port)| at.port == PortNum::MANAGEMENT || port.is_up());
    for ((at, _), lid) in ends.zip(1..=Lid::UNICAST_MAX.0) {
        // One after another, so none is taken twice.
        let _ = lids.insert(at, LidRange::single(Lid(lid)));
    }
    lids
}
