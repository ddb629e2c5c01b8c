//! The cost of a bring-up.

use crate::apply::{Work, apply};
use crate::count::Counts;
use crate::line::REPEATS_MAX;
use crate::walk::discover;
use crate::{Cost, Manager, Method, Shape};

/// A stage of a bring-up or of a recovery. The next stage begins when it has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StageName {
    /// The trap travels to the manager.
    Trap,
    /// Discovery: which nodes exist, and their capabilities.
    Discover,
    /// Reading the ports of the switch that sent the trap.
    Look,
    /// Planning, and storing state that a restart must not lose.
    Compute,
    /// Assignment of LIDs (OpenSM; our manager sets them with the other settings).
    Lids,
    /// Forwarding tables.
    Tables,
    /// Settings of ports (OpenSM), or ports, switches and tables in parallel (our manager).
    Configure,
    /// Ports to ARMED (OpenSM).
    Arm,
    /// Ports to ACTIVE.
    Activate,
}

impl StageName {
    /// Returns the name of the stage in tables and pictures.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Trap => "trap",
            Self::Discover => "discover",
            Self::Look => "probe ports",
            Self::Compute => "compute",
            Self::Lids => "LIDs",
            Self::Tables => "tables",
            Self::Configure => "configure",
            Self::Arm => "arm",
            Self::Activate => "activate",
        }
    }
}

/// A stage and its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stage {
    /// Name of the stage.
    pub name: StageName,
    /// Duration of the stage in ns.
    pub time_ns: u64,
}

/// The cost of an operation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// Requests by kind, without repeats.
    pub counts: Counts,
    /// Stages of the answer, in order.
    pub stages: Vec<Stage>,
    /// Requests that find an agent's queue full and are sent again.
    pub overruns: u64,
    /// Requests that are expected to be lost and sent again (`Cost::lost_ppm`).
    pub repeats: u64,
}

impl Answer {
    /// Returns the time of all stages, in ns.
    #[must_use]
    pub fn time_ns(&self) -> u64 {
        self.stages.iter().map(|stage| stage.time_ns).sum()
    }

    /// Returns the time of a stage, in ns; 0 if there is none.
    #[must_use]
    pub fn stage_ns(&self, name: StageName) -> u64 {
        let stages = self.stages.iter().filter(|stage| stage.name == name);
        stages.map(|stage| stage.time_ns).sum()
    }

    /// Adds a stage that only waits for requests.
    pub(crate) fn push_requests(&mut self, cost: &Cost, name: StageName, (time_ns, overruns): (u64, u64), mads: u64) {
        self.overruns += overruns;
        self.repeats += lost(cost, mads);
        self.push(name, time_ns);
    }

    pub(crate) fn push(&mut self, name: StageName, time_ns: u64) {
        self.stages.push(Stage { name, time_ns });
    }
}

/// Returns the cost of bringing up a fresh fabric: all agents reset, all links trained, nothing known beforehand.
#[must_use]
pub fn bring_up(shape: &Shape, cost: &Cost) -> Answer {
    let mut answer = Answer {
        counts: Counts::bring_up(shape, cost.manager),
        ..Answer::default()
    };
    let gets = answer.counts.of_method(Method::Get);
    answer.push_requests(cost, StageName::Discover, discover(shape, cost), gets);
    answer.push(StageName::Compute, cost.compute.time_ns(shape));
    let mut same: Option<(Work, (u64, u64))> = None;
    for &(name, work) in writes(cost.manager) {
        // OpenSM writes the same ports three times.
        let time = match same {
            Some((before, time)) if before == work => time,
            _ => apply(shape, cost, work),
        };
        same = Some((work, time));
        answer.push_requests(cost, name, time, mads_of(shape, work));
    }
    answer
}

const NOTHING: Work = Work {
    port_zero: false,
    host_ports: false,
    switch_ports: false,
    tables: false,
};
/// The work of writing PortInfo of both ends of every link.
const LINKS: Work = Work {
    host_ports: true,
    switch_ports: true,
    ..NOTHING
};
/// Work of our manager, which writes in two steps: everything, then ACTIVE.
const OURS: [(StageName, Work); 2] = [
    (
        StageName::Configure,
        Work {
            port_zero: true,
            tables: true,
            ..LINKS
        },
    ),
    (StageName::Activate, LINKS),
];
/// OpenSM writes in five steps, and waits for all responses after each. Source: observed, and its log at full
/// verbosity.
const OPENSM: [(StageName, Work); 5] = [
    (
        StageName::Lids,
        Work {
            port_zero: true,
            host_ports: true,
            ..NOTHING
        },
    ),
    (
        StageName::Tables,
        Work {
            tables: true,
            ..NOTHING
        },
    ),
    (StageName::Configure, LINKS),
    (StageName::Arm, LINKS),
    (StageName::Activate, LINKS),
];

const fn writes(manager: Manager) -> &'static [(StageName, Work)] {
    match manager {
        Manager::Selvedge => &OURS,
        Manager::OpenSm => &OPENSM,
    }
}

const fn mads_of(shape: &Shape, work: Work) -> u64 {
    let s = &shape.sizes;
    let mut mads = 0;
    if work.port_zero {
        mads += s.switches;
    }
    if work.host_ports {
        mads += s.linked_host_ports;
    }
    if work.switch_ports {
        mads += s.linked_switch_ports;
    }
    if work.tables {
        mads += s.switches * (1 + shape.lft_blocks());
    }
    mads
}

/// Returns how many of this many requests are expected to be lost and sent again.
fn lost(cost: &Cost, mads: u64) -> u64 {
    let p = f64::from(cost.lost_ppm.min(999_999)) / 1e6;
    let repeats: f64 = (1..=i32::from(REPEATS_MAX)).map(|r| mads as f64 * p.powi(r)).sum();
    repeats.round() as u64
}
