//! Reliable connections (RC) between hosts while cables are cut: what faults cost with the manager's repair, with
//! automatic path migration (APM), with both, with neither.

mod faults;
mod hosts;
mod repair;
mod wakes;
mod world;

use std::collections::BTreeMap;

use selvedge_api::{Migration, MigrationRun};
use selvedge_apm::{Hosts, Index, Policy, Routes};
use selvedge_dataplane::{Network, PS_PER_NS, Ps, Settings};
use selvedge_fabric::{Fabric, PortRef};
use selvedge_routing::Note;
use selvedge_sim::Seed;
use selvedge_tolerance::{Mtbf, Thresholds, Trace};
use selvedge_types::Lid;
use selvedge_workload::{Pattern, Receivers};

use self::hosts::Link;
use self::world::World;
use crate::error::StudyError;
use crate::in_force::InForce;
use crate::simulate::Planned;
use crate::threads::Threads;
use crate::watch::{Reporter, Stage, Watch};

pub use crate::in_force::Start;

/// Steps of the time lines.
pub const STEPS: u64 = 200;

/// When connections migrate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Never: no alternate path is loaded.
    Off,
    /// When an adapter has used up its retries, or the port of the primary path has gone down.
    Error,
    /// Also when the program asks for it: [`Question::told`] after a cut, the programs of all connections over the
    /// cable know of it.
    Request,
    /// Also when the program finds the path in use congested.
    Policy(Sampling),
}

impl Mode {
    const fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Error => "error",
            Self::Request => "request",
            Self::Policy(_) => "policy",
        }
    }
}

/// How programs look for congestion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampling {
    /// Time between two samples, in ps.
    pub every: Ps,
    /// Thresholds, and the time between two migrations.
    pub thresholds: Thresholds,
}

/// Software that recovers instead of path migration. Time-out and retries are those of the settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rival {
    /// Fail-over as in NCCL.
    Failover,
    /// Striping with retransmission as in LA-MPI and Open MPI.
    Striping,
}

impl Rival {
    const fn name(self) -> &'static str {
        match self {
            Self::Failover => "failover",
            Self::Striping => "striping",
        }
    }
}

/// Faults beside the changes.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    /// Times at which a cable between switches is cut that the seed draws.
    pub drawn: Vec<Ps>,
    /// Faults by number of a cable ([`cables`]) or node.
    pub trace: Trace,
    /// Faults and repairs of all cables between switches, drawn by the seed.
    pub mtbf: Option<Mtbf>,
}

/// Returns one end of each cable of a fabric that is up, in order. In a trace, a
/// [`selvedge_tolerance::Place::Link`] has the place in this list.
#[must_use]
pub fn cables(fabric: &Fabric) -> Vec<PortRef> {
    let live = fabric.links().filter(|link| fabric.link_is_up(link.a));
    live.map(|link| link.a).collect()
}

/// What each host's program does: it writes messages (RDMA WRITE) to the receivers of the pattern, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Program {
    /// Payload bytes of a message.
    pub message_bytes: u32,
    /// Messages of a host that may be without an acknowledgement.
    pub in_flight: u32,
    /// Connections of each pair of hosts; they take turns.
    pub connections: u32,
    /// Messages that a host sends in all; `None`: until the end.
    pub messages: Option<u32>,
}

/// What do faults do to reliable connections?
#[derive(Clone, Debug)]
pub struct Question {
    /// Name of the fabric in the answer.
    pub name: String,
    /// The fabric, and its routing in force.
    pub start: Start,
    /// The hardware, the limits of queue pairs, and the time that is simulated (`duration_ns`).
    pub settings: Settings,
    /// Which hosts talk to each other.
    pub pattern: Pattern,
    /// What their programs do.
    pub program: Program,
    /// When connections migrate.
    pub mode: Mode,
    /// Software that recovers instead; connections do not migrate then.
    pub rival: Option<Rival>,
    /// How the alternate path is chosen.
    pub policy: Policy,
    /// From a fault until programs are told of it, in ps.
    pub told: Ps,
    /// True if programs that are told of a fault load another alternate path where it has broken the loaded one.
    pub respecify: bool,
    /// Changes, each with its text, in order of time.
    pub changes: Vec<(String, Planned)>,
    /// Further faults.
    pub faults: Faults,
    /// From a cut to the new entries in all switches, in ps; `None`: no repair.
    pub repair: Option<Ps>,
    /// True if the run is repeated without the faults, to know what they cost.
    pub compare: bool,
    /// Seed of everything drawn.
    pub seed: Seed,
}

/// What faults did.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The figures.
    pub migration: Migration,
    /// Notes of the engine that made the tables in force.
    pub notes: Vec<Note>,
}

impl Question {
    /// Simulates the traffic with the faults, and without them for comparison. A unit of work is a simulated
    /// nanosecond.
    ///
    /// # Errors
    ///
    /// The study is cancelled, the engine refuses the fabric, hosts cannot carry the traffic out, a pair has no
    /// alternate path by the policy, an adapter has no room for the queue pairs, or changes are not in order of time.
    pub fn answer(&self, watch: &dyn Watch) -> Result<Answer, StudyError> {
        self.check()?;
        let has_faults = self.has_faults() && self.compare;
        let total = self.settings.duration_ns * (1 + u64::from(has_faults));
        let reporter = Reporter::new(watch, Stage::Routing(self.start.engine), total);
        let (force, notes) = self.start.in_force(Threads::ONE, &reporter)?;
        let lab = Lab::new(self, &force)?;
        let (acts, faults) = faults::acts(self, &force)?;
        reporter.begin(Stage::Simulating)?;
        let mut world = World::new(self, &force, &lab)?;
        let run = world.run(acts, (&reporter, 0))?;
        let queue_pairs = world.queue_pairs();
        drop(world);
        let whole = match has_faults {
            true => Some(World::new(self, &force, &lab)?.run(Vec::new(), (&reporter, self.settings.duration_ns))?),
            false => None,
        };
        let migration = Migration {
            engine: force.routed.engine.0.clone(),
            hosts: lab.hosts.all().len() as u32,
            queue_pairs,
            faults,
            lost_ns: lost_ns(&run, whole.as_ref(), self.settings.duration_ns),
            run,
            whole,
            ..self.described()
        };
        Ok(Answer { migration, notes })
    }

    /// Returns the cables between switches that primary paths cross, there or back, by the end that [`cables`] gives,
    /// with the number of pairs of hosts that cross each.
    ///
    /// # Errors
    ///
    /// The engine refuses the fabric, hosts cannot carry the traffic out, or a pair has no path.
    pub fn crossed(&self, watch: &dyn Watch) -> Result<BTreeMap<PortRef, u64>, StudyError> {
        let reporter = Reporter::new(watch, Stage::Routing(self.start.engine), 0);
        let (force, _) = self.start.in_force(Threads::ONE, &reporter)?;
        let subnet = force.subnet();
        let index = Index::new(subnet);
        let routes = Routes { subnet, index: &index };
        let parties = Parties::new(self, &routes)?;
        let is_switch = |at: PortRef| force.fabric.node(at.node).is_switch();
        let between = |at: &PortRef| is_switch(*at) && force.fabric.peer(*at).is_some_and(is_switch);
        let mut crossed = BTreeMap::new();
        for pair in &parties.pairs {
            let [a, b] = pair.map(|host| &parties.hosts.all()[host as usize]);
            let primary = routes.primary((a, b), 0)?;
            let way = routes.way(&primary).into_iter();
            way.for_each(|way| {
                let cables = routes.cables(&way).filter(between);
                cables.for_each(|cable| *crossed.entry(cable).or_default() += 1);
            });
        }
        Ok(crossed)
    }

    fn has_faults(&self) -> bool {
        let Faults { drawn, trace, mtbf } = &self.faults;
        !(self.changes.is_empty() && drawn.is_empty() && trace.faults().is_empty()) || mtbf.is_some()
    }

    /// True if connections have an alternate path, or software has several ways.
    fn has_alternates(&self) -> bool {
        self.mode != Mode::Off || self.rival.is_some()
    }

    fn check(&self) -> Result<(), StudyError> {
        let amounts = [
            ("the length of a message", self.program.message_bytes),
            ("the number of messages in flight", self.program.in_flight),
            ("the number of connections", self.program.connections),
        ];
        if let Some((what, _)) = amounts.into_iter().find(|(_, amount)| *amount == 0) {
            return Err(StudyError::Nothing { what });
        }
        let times: Vec<Ps> = self.changes.iter().map(|(_, change)| change.at()).collect();
        for list in [&times, &self.faults.drawn] {
            if let Some(place) = list.windows(2).position(|two| two[1] < two[0]) {
                return Err(StudyError::TimeGoesBack {
                    number: place + 2,
                    at_ns: list[place + 1] / PS_PER_NS,
                    before_ns: list[place] / PS_PER_NS,
                });
            }
        }
        if matches!(self.mode, Mode::Policy(sampling) if sampling.every == 0) {
            return Err(StudyError::Nothing {
                what: "the time between two samples",
            });
        }
        self.settings.check().map_err(selvedge_dataplane::BuildError::from)?;
        Ok(())
    }

    /// Returns what the answer repeats of the question.
    fn described(&self) -> Migration {
        Migration {
            fabric: self.name.clone(),
            traffic: self.pattern.to_string(),
            apm: self.mode.name().to_owned(),
            rival: self.rival.map(|rival| rival.name().to_owned()),
            alternate: self.has_alternates().then(|| self.policy.to_string()),
            told_ns: self.told / PS_PER_NS,
            respecify: self.respecify,
            ack_timeout: self.settings.qp.ack_timeout,
            retries: self.settings.qp.retry_count,
            message_bytes: self.program.message_bytes,
            repair_ns: self.repair.map(|ps| ps / PS_PER_NS),
            duration_ns: self.settings.duration_ns,
            seed: self.seed.0,
            step_ns: (self.settings.duration_ns / STEPS).max(1),
            ..Migration::default()
        }
    }
}

/// Returns the time in which a run without faults carries the bytes that a run with faults lacks; 0 without the former.
#[must_use]
pub fn lost_ns(run: &MigrationRun, whole: Option<&MigrationRun>, duration_ns: u64) -> u64 {
    let Some(whole) = whole.filter(|whole| whole.bytes > 0) else {
        return 0;
    };
    let missing = whole.bytes.saturating_sub(run.bytes);
    (u128::from(missing) * u128::from(duration_ns) / u128::from(whole.bytes)) as u64
}

/// What all runs of a question share: hosts, their pairs, and the paths of these.
struct Lab<'a> {
    network: Network<'a>,
    hosts: Hosts,
    receivers: Receivers,
    links: Vec<Link>,
}

impl<'a> Lab<'a> {
    fn new(question: &Question, force: &'a InForce) -> Result<Self, StudyError> {
        let network = Network {
            fabric: &force.fabric,
            lids: &force.lids,
            tables: &force.routed.tables,
            service_levels: &force.routed.service_levels,
            sl_to_vl: &force.sl_to_vl,
        };
        let subnet = force.subnet();
        let index = Index::new(subnet);
        let routes = Routes { subnet, index: &index };
        let Parties {
            hosts,
            receivers,
            pairs,
        } = Parties::new(question, &routes)?;
        Ok(Self {
            links: hosts::links(question, &routes, &hosts, &pairs)?,
            network,
            hosts,
            receivers,
        })
    }
}

/// Hosts, and which of them send to which.
struct Parties {
    hosts: Hosts,
    receivers: Receivers,
    /// Indexes of hosts, the lower one first.
    pairs: Vec<[u32; 2]>,
}

impl Parties {
    fn new(question: &Question, routes: &Routes<'_>) -> Result<Self, StudyError> {
        let hosts = Hosts::of(routes.subnet, routes.index);
        let count = hosts.all().len();
        if count < 2 {
            return Err(selvedge_dataplane::BuildError::TooFewHosts { hosts: count }.into());
        }
        let receivers = Receivers::new(&question.pattern, count as u32, question.seed)?;
        Ok(Self {
            pairs: hosts::pairs(&receivers, count as u32),
            hosts,
            receivers,
        })
    }
}

/// A forwarding entry that a repair changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    switch: selvedge_fabric::SwitchIdx,
    lid: Lid,
    egress: u8,
}

/// Returns one end of a cable, the same whichever end is given.
fn cable(fabric: &Fabric, at: PortRef) -> PortRef {
    fabric.peer(at).map_or(at, |peer| at.min(peer))
}

#[cfg(test)]
mod tests;
