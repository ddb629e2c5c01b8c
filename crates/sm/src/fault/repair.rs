//! Repairs: the switches to be probed, the data prepared before a fault, and the current repair.
//!
//! A repair is planned from data that a job prepared after the last plan came into force. If that job still runs, the
//! repair waits for it, because it would have to compute the same data first. When a repair is in force, its switches
//! are probed once more, port by port.

use std::collections::BTreeSet;
use std::sync::Arc;

use selvedge_fabric::{Fabric, NodeIdx, PortRef};
use selvedge_planner::{Inventory, Job, JobId, Prepare, Repair, Task, Warm, is_small};
use selvedge_verify::standing::{CopyTurns, State};
use selvedge_wire::Mad;

use super::Suspects;
use super::late::is_news;
use crate::event::SweepReason;

/// The switches to be probed, the prepared data, and the current repair.
#[derive(Debug, Default)]
pub struct Repairs {
    suspects: Suspects,
    /// The prepared data, while no job uses it.
    warm: Option<Box<Warm>>,
    /// The job that prepares repairs.
    preparing: Option<JobId>,
    /// A repair that waits for the end of the job in `preparing`.
    waiting: Option<Box<Job>>,
    /// The current repair.
    current: Option<Current>,
    /// Number of repeated requests when the first Set of a plan was sent.
    repeats: u64,
}

/// A repair, from its planning until it is in force.
#[derive(Debug)]
struct Current {
    /// Switches to probe again once the repair is in force.
    again: BTreeSet<NodeIdx>,
    /// Numbers of lost and of returned links that the repair handles.
    links: (usize, usize),
    /// Nodes at the ends of the lost links.
    ends: BTreeSet<NodeIdx>,
    /// Both ends of all lost and returned links.
    ports: BTreeSet<PortRef>,
}

/// The state of other sub-machines that this one may read.
#[derive(Debug)]
pub struct Ctx {
    /// True if the state in force is fully known.
    pub knows_the_fabric: bool,
    /// True if the check for changes during the last plan is done.
    pub has_looked_again: bool,
    /// Why the last sweep or repair was made.
    pub sweep_reason: SweepReason,
}

/// The inputs of this sub-machine.
#[derive(Debug)]
pub enum In<'a> {
    /// A switch has reported a changed link.
    Suspected(NodeIdx, SweepReason),
    /// A switch shows PortStateChange in a light sweep.
    Flagged(NodeIdx),
    /// While the current repair waits, a switch has reported a link that this repair handles: [`Repairs::is_for`].
    SaidLate(NodeIdx),
    /// Suspects may be probed now, if there are any.
    MayProbe(Chance),
    /// This job shall plan a repair.
    Repair(JobId, Box<Repair>),
    /// The repair cannot be made.
    NotRepaired,
    /// A plan is in force.
    Applied {
        /// True if the fabric of the plan has switches, so that repairs can be prepared.
        has_switches: bool,
    },
    /// This job shall prepare repairs.
    Prepare(JobId, Box<Prepare>),
    /// The job of [`Self::Prepare`] has ended. Carries the prepared data.
    Prepared(Option<Box<Warm>>),
    /// A repair returns the prepared data; `None`: the data fit no other plan.
    Warm(Option<Box<Warm>>),
    /// Routes must be proved together with these multicast copies.
    Copies(&'a Fabric, &'a Arc<CopyTurns>),
    /// The first Set of a plan is sent. Carries the number of repeated requests.
    SetsBegin {
        /// Number of repeats since the manager started.
        repeats: u64,
    },
    /// A sweep begins, or tables have changed: all prepared data are dropped.
    Forget,
}

/// When suspects may be probed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chance {
    /// During a probe, together with the switches that are already probed.
    Probing,
    /// Suspects may be probed at once: no probe and no light sweep is under way.
    Free,
    /// During a light sweep. A trap is handled at once; a finding of the light sweep itself waits until it is over.
    LightSweep {
        /// True if the light sweep is over.
        is_over: bool,
    },
}

/// The effects that the outer machine carries out.
#[derive(Debug)]
pub enum Effect {
    /// Add these switches to the running probe.
    Join(Suspects),
    /// Probe these switches.
    Probe {
        /// The switches.
        suspects: Suspects,
        /// The reason for the sweep.
        reason: SweepReason,
        /// True if a repair is checked.
        is_check: bool,
    },
    /// Begin a sweep, unless one is due.
    Sweep(SweepReason),
    /// Hand out a job.
    Compute(Box<Job>),
    /// Have repairs prepared.
    Prepare,
    /// The prepared data are ready, and no repair waits for them.
    Ready,
}

impl Repairs {
    /// Handles one input and appends its effects.
    pub fn handle(&mut self, ctx: &Ctx, input: In<'_>, effects: &mut Vec<Effect>) {
        match input {
            In::Suspected(node, reason) => self.suspect(node, reason),
            In::Flagged(node) => {
                self.suspects.flagged.insert(node);
                self.suspect(node, SweepReason::LightSweep);
            }
            In::SaidLate(node) => self.current.iter_mut().for_each(|current| {
                current.again.insert(node);
            }),
            In::MayProbe(chance) => effects.extend(self.may_probe(ctx, chance)),
            In::Repair(id, repair) => effects.extend(self.repair(id, repair).map(Effect::Compute)),
            In::NotRepaired => self.current = None,
            In::Applied { has_switches } => self.applied(ctx, has_switches, effects),
            In::Prepare(id, mut prepare) => {
                prepare.warm = self.warm.take();
                self.preparing = Some(id);
                let task = Task::Prepare(prepare);
                effects.push(Effect::Compute(Box::new(Job { id, task })));
            }
            In::Prepared(warm) => effects.push(self.prepared(warm)),
            In::Warm(warm) => self.warm = warm,
            In::Copies(fabric, turns) => {
                let warm = self.warm.as_mut().filter(|warm| may_back_up(warm));
                if let Some(proof) = warm.and_then(|warm| warm.standing.as_mut()) {
                    proof.set_copies(fabric, turns);
                }
            }
            In::SetsBegin { repeats } => self.repeats = repeats,
            In::Forget => *self = Self::default(),
        }
    }

    /// Returns true if switches are to be probed.
    #[must_use]
    pub fn has_suspects(&self) -> bool {
        !self.suspects.nodes.is_empty()
    }

    /// Returns true while repairs are prepared.
    #[must_use]
    pub const fn is_preparing(&self) -> bool {
        self.preparing.is_some()
    }

    /// Returns true if this job prepares repairs.
    #[must_use]
    pub fn is_prepared_by(&self, id: JobId) -> bool {
        self.preparing == Some(id)
    }

    /// Returns true if the data for repairs have been prepared.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.warm.as_ref().is_some_and(|warm| warm.can_repair())
    }

    /// Returns true if all is prepared except the effects of packets in flight.
    #[must_use]
    pub fn lacks_what_is_under_way(&self) -> bool {
        let warm = self.warm.as_ref();
        let lacks_it = warm.is_some_and(|warm| warm.left.is_none() && warm.standing.is_some());
        lacks_it && !self.is_preparing() && !self.is_under_way()
    }

    /// Returns the proved state, if backups of at most this number of entries can be made for it.
    #[must_use]
    pub fn proved(&self, entries: usize) -> Option<State> {
        let warm = self.warm.as_ref().filter(|warm| may_back_up(warm))?;
        let proof = warm.standing.as_ref()?;
        is_small(entries, warm.searches()).then(|| proof.state())
    }

    /// Returns true while a repair is planned or applied.
    #[must_use]
    pub const fn is_under_way(&self) -> bool {
        self.current.is_some()
    }

    /// Returns the numbers of lost and of returned links that the current repair handles.
    #[must_use]
    pub fn links(&self) -> (usize, usize) {
        self.current.as_ref().map_or((0, 0), |current| current.links)
    }

    /// Returns true if the current repair is for a lost link of a node.
    #[must_use]
    pub fn is_for(&self, node: NodeIdx) -> bool {
        self.current
            .as_ref()
            .is_some_and(|current| current.ends.contains(&node))
    }

    /// Returns true if a late answer without an error shows that a link may have been moved, and the current repair
    /// does not handle that link.
    #[must_use]
    pub fn is_overtaken(&self, inventory: &Inventory, answer: &Mad) -> bool {
        let current = self.current.as_ref();
        current.is_some_and(|current| is_news(inventory, &current.ports, answer))
    }

    /// Returns true if requests have been repeated since the first Set was sent.
    #[must_use]
    pub const fn has_repeated(&self, repeats: u64) -> bool {
        repeats != self.repeats
    }

    fn suspect(&mut self, node: NodeIdx, reason: SweepReason) {
        self.suspects.nodes.insert(node);
        self.suspects.reason.get_or_insert(reason);
    }

    fn may_probe(&mut self, ctx: &Ctx, chance: Chance) -> Option<Effect> {
        if !self.has_suspects() {
            return None;
        }
        match chance {
            Chance::Probing => return Some(Effect::Join(std::mem::take(&mut self.suspects))),
            Chance::LightSweep { is_over: false } if !matches!(self.suspects.reason, Some(SweepReason::Trap(_))) => {
                return None;
            }
            Chance::Free | Chance::LightSweep { .. } => {}
        }
        let suspects = std::mem::take(&mut self.suspects);
        let reason = suspects.reason.unwrap_or(SweepReason::Interval);
        Some(match ctx.knows_the_fabric && ctx.has_looked_again {
            true => Effect::Probe {
                suspects,
                reason,
                is_check: false,
            },
            false => Effect::Sweep(reason),
        })
    }

    /// Returns the job, unless the prepared data are nearly ready: then it waits for them.
    fn repair(&mut self, id: JobId, mut repair: Box<Repair>) -> Option<Box<Job>> {
        self.current = Some(Current::of(&repair));
        repair.warm = self.warm.take();
        let task = Task::Repair(repair);
        let job = Box::new(Job { id, task });
        if self.is_preparing() {
            self.waiting = Some(job);
            return None;
        }
        Some(job)
    }

    /// Keeps the data that a job prepared, or gives them to the waiting repair.
    fn prepared(&mut self, warm: Option<Box<Warm>>) -> Effect {
        self.preparing = None;
        match self.waiting.take() {
            Some(mut job) => {
                if let Task::Repair(repair) = &mut job.task {
                    repair.warm = warm;
                }
                Effect::Compute(job)
            }
            None => {
                self.warm = warm;
                Effect::Ready
            }
        }
    }

    /// Prepares the next repair, and has the repaired links probed.
    fn applied(&mut self, ctx: &Ctx, has_switches: bool, effects: &mut Vec<Effect>) {
        let repaired = self.current.take();
        if !ctx.knows_the_fabric {
            effects.extend(repaired.map(|_| Effect::Sweep(SweepReason::Again)));
            return;
        }
        effects.extend(has_switches.then_some(Effect::Prepare));
        if let Some(repaired) = repaired {
            self.suspects.nodes.extend(repaired.again);
            effects.push(Effect::Probe {
                suspects: std::mem::take(&mut self.suspects),
                reason: ctx.sweep_reason,
                is_check: true,
            });
        }
    }
}

impl Current {
    fn of(repair: &Repair) -> Self {
        let (damage, fabric) = (&repair.damage, &repair.basis.inventory.fabric);
        let ends = damage.ends(fabric);
        let is_second = |at: &PortRef| {
            fabric
                .peer(*at)
                .is_some_and(|far| far < *at && damage.lost.contains(&far))
        };
        let lost = damage.lost.iter().filter(|at| !is_second(at)).count();
        let returned = damage.returned.iter().flat_map(|back| [back.near.0, back.far.0]);
        Self {
            again: damage.flagged.clone(),
            links: (lost, damage.returned.len()),
            ends: ends.iter().map(|at| at.node).collect(),
            ports: ends.into_iter().chain(returned).collect(),
        }
    }
}

/// Returns true if backups can be made from the prepared data: their proof is for the tables in force.
fn may_back_up(warm: &Warm) -> bool {
    warm.can_repair() && warm.known.is_none()
}
