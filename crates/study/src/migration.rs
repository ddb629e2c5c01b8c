//! Reliable connections (RC) between hosts while cables are cut: what faults cost with the manager's repair, with
//! automatic path migration (APM), with both, with neither.

mod hosts;
mod repair;
mod world;

use selvedge_api::{Migration, MigrationFault, MigrationRun};
use selvedge_apm::{Hosts, Index, Policy, Routes, Subnet};
use selvedge_dataplane::{Change, Network, PS_PER_NS, Ps, Settings, Timed};
use selvedge_fabric::PortRef;
use selvedge_routing::Note;
use selvedge_sim::Seed;
use selvedge_types::Lid;
use selvedge_workload::{Pattern, Receivers};

use self::hosts::Link;
use self::repair::Repairs;
use self::world::{Act, World};
use crate::damage::switch_links;
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
    /// Also when the program asks for it: this long after a cut, in ps, the programs of all connections over the cable
    /// know of it.
    Request(Ps),
}

impl Mode {
    const fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Error => "error",
            Self::Request(_) => "request",
        }
    }
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
    /// How the alternate path is chosen.
    pub policy: Policy,
    /// Changes, each with its text, in order of time.
    pub changes: Vec<(String, Planned)>,
    /// Times at which a cable between switches is cut that the seed draws.
    pub drawn: Vec<Ps>,
    /// From a cut to the new entries in all switches, in ps; `None`: no repair.
    pub repair: Option<Ps>,
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

/// What is done to the fabric, by time.
type Acts = Vec<(Ps, Act)>;

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
        let has_faults = !(self.changes.is_empty() && self.drawn.is_empty());
        let total = self.settings.duration_ns * (1 + u64::from(has_faults));
        let reporter = Reporter::new(watch, Stage::Routing(self.start.engine), total);
        let (force, notes) = self.start.in_force(Threads::ONE, &reporter)?;
        let lab = Lab::new(self, &force)?;
        let (acts, faults) = self.acts(&force)?;
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
        for list in [&times, &self.drawn] {
            if let Some(place) = list.windows(2).position(|two| two[1] < two[0]) {
                return Err(StudyError::TimeGoesBack {
                    number: place + 2,
                    at_ns: list[place + 1] / PS_PER_NS,
                    before_ns: list[place] / PS_PER_NS,
                });
            }
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
            alternate: (self.mode != Mode::Off).then(|| self.policy.to_string()),
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

    /// Returns everything that happens to the fabric, in order of time, and the faults of it.
    fn acts(&self, force: &InForce) -> Result<(Acts, Vec<MigrationFault>), StudyError> {
        let mut changes: Vec<(Timed, String)> = Vec::new();
        for (text, planned) in &self.changes {
            let timed = planned.timed(&force.routed.tables);
            changes.extend(timed.into_iter().map(|timed| (timed, text.clone())));
        }
        let mut rng = self.seed.child("cuts").rng();
        let mut cables = switch_links(&force.fabric);
        for &at in &self.drawn {
            if cables.is_empty() {
                return Err(StudyError::NoCable);
            }
            let cable = cables.swap_remove(rng.below(cables.len() as u64) as usize);
            let what = format!("cut {}", force.fabric.port_name(cable));
            let change = Change::Cut(cable);
            changes.push((Timed { at, change }, what));
        }
        changes.sort_by_key(|(timed, _)| timed.at);
        let mut repairs = Repairs::new(force);
        let (mut acts, mut faults) = (Vec::new(), Vec::new());
        for (Timed { at, change }, what) in changes {
            let mut fault = MigrationFault {
                at_ns: at / PS_PER_NS,
                what,
                ..MigrationFault::default()
            };
            if let (Change::Cut(cable), Some(time)) = (&change, self.repair) {
                match repairs.lose(*cable) {
                    Ok(entries) => {
                        fault.entries = entries.len() as u64;
                        acts.push((at + time, Act::Entries(entries)));
                    }
                    Err(why) => fault.refused = Some(why.to_string()),
                }
            }
            faults.push(fault);
            acts.push((at, Act::Change(change)));
        }
        acts.sort_by_key(|(at, _)| *at);
        Ok((acts, faults))
    }
}

/// Returns the time in which a run without faults carries the bytes that a run with faults lacks.
fn lost_ns(run: &MigrationRun, whole: Option<&MigrationRun>, duration_ns: u64) -> u64 {
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
        let subnet = Subnet {
            fabric: &force.fabric,
            lids: &force.lids,
            tables: &force.routed.tables,
            levels: &force.routed.service_levels,
        };
        let index = Index::new(subnet);
        let hosts = Hosts::of(subnet, &index);
        let count = hosts.all().len();
        if count < 2 {
            return Err(selvedge_dataplane::BuildError::TooFewHosts { hosts: count }.into());
        }
        let receivers = Receivers::new(&question.pattern, count as u32, question.seed)?;
        let pairs = hosts::pairs(&question.pattern, &receivers, count as u32);
        let routes = Routes { subnet, index: &index };
        Ok(Self {
            links: hosts::links(question, &routes, &hosts, &pairs)?,
            network,
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
fn cable(fabric: &selvedge_fabric::Fabric, at: PortRef) -> PortRef {
    fabric.peer(at).map_or(at, |peer| at.min(peer))
}

#[cfg(test)]
mod tests;
