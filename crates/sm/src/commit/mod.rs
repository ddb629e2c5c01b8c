//! The plan in force: its inputs, the Sets that agents acknowledged, and the tables in switches.
//!
//! A plan comes into force with the answer to its last Set, or when the last unanswered Set is given up. It is dropped
//! when another manager may have written tables, and when no node can be reached. A plan that a sweep interrupts is
//! kept as the aim of the next plan.

use std::collections::BTreeMap;
use std::sync::Arc;

use selvedge_fabric::{Fabric, PortRef, SwitchIdx, diff};
use selvedge_plan::multicast::MftBlocks;
use selvedge_plan::{BLOCK_LIDS, ChangeCount, Generation, Installed, LaneTable, Plan, Policy};
use selvedge_planner::held::LastKnown;
use selvedge_planner::{Adopt, Aim, Declined, DeclinedByGuid, Inventory, Outcome, route_alike};
use selvedge_types::Guid;
use selvedge_verify::Verdict;
use selvedge_wire::SmpData;

use crate::config::Mode;
use crate::event::Event;
use crate::report::PortReport;
use crate::report::{self, Failures};

mod tables;

/// The plan in force, with its inputs, its fabric and the tables in switches.
#[derive(Debug, Default)]
pub struct InForce {
    /// The plan in force; in a dry run the plan that would be.
    plan: Option<Arc<Plan>>,
    /// The judge's verdict on the newest plan.
    verdict: Option<Arc<Verdict>>,
    /// Generation of the newest plan that came into force.
    generation: Generation,
    /// The last complete snapshot, with the changes acknowledged since.
    inventory: Option<Arc<Inventory>>,
    /// The fabrics that sweeps found.
    sweeps: Sweeps,
    /// LFTs and lane tables that switches hold, as far as known.
    installed: Arc<Installed>,
    /// MFTs that switches hold, as far as known.
    copies: Arc<BTreeMap<Guid, MftBlocks>>,
    /// Ports that are not ACTIVE.
    ports: Arc<Vec<PortReport>>,
    /// Sets of the last change.
    change: Change,
    /// Settings that ports have declined.
    declined: DeclinedByGuid,
    /// True if the plan in force keeps the tables that another manager left.
    keeps_found: bool,
    /// The plan that was interrupted.
    aim: Option<Arc<Aim>>,
}

/// How far switches hold the plan in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// No plan is in force.
    No,
    /// Sets of tables have failed, or a sweep has interrupted the plan that followed: switches hold entries of two
    /// plans.
    InPart,
    /// Every switch holds the entries of the plan. Sets of ports may have failed: they lead no packet elsewhere.
    Whole,
}

/// Why a sweep ended without a new plan.
#[derive(Clone, Debug)]
pub enum NoPlan {
    /// No plan was accepted.
    Refused {
        /// The reason in words: for each engine, the first finding.
        why: Arc<str>,
        /// The judge's verdict on the last plan that it refused, if any.
        verdict: Option<Arc<Verdict>>,
    },
    /// Another manager may have taken ports: they hold an M_Key that this manager does not know.
    MKey,
}

/// The fabrics that sweeps found.
#[derive(Debug, Default)]
struct Sweeps {
    /// Sweeps that came to an end.
    ended: u64,
    /// The fabric that the last sweep found, whether a plan for it is in force or not.
    found: Option<Arc<Fabric>>,
    /// The fabric of the last completed sweep.
    planned_on: Option<Arc<Fabric>>,
    /// Why the last sweep ended without a new plan.
    no_plan: Option<NoPlan>,
    /// The ports that refuse Sets because of an M_Key that this manager does not know, in words.
    locked: Option<Arc<str>>,
}

/// Numbers of Sets of a change, by result.
#[derive(Clone, Debug, Default)]
pub struct Change {
    /// Number of Sets in all, by attribute.
    pub count: ChangeCount,
    /// Number of acknowledged Sets.
    pub acknowledged: usize,
    /// Number of failed Sets.
    pub failed: usize,
    /// True if Sets of tables failed, or of SwitchInfo.
    pub tables_failed: bool,
    /// In a dry run: the plan that would be in force, with its Sets.
    pub would_send: Option<Arc<Outcome>>,
}

/// The state of other sub-machines that this one may read.
#[derive(Clone, Copy, Debug)]
pub struct Ctx<'a> {
    /// How the manager runs; a standby only watches.
    pub mode: Mode,
    /// The policy.
    pub policy: &'a Arc<Policy>,
    /// The last inventory, whether a plan for it is in force or not.
    pub found: Option<&'a Inventory>,
}

/// The state at the end of a sweep, a repair or a rebalancing step.
#[derive(Clone, Copy, Debug)]
pub struct Known<'a> {
    /// The inventory.
    pub inventory: &'a Inventory,
    /// The fabric with the settings that its agents have acknowledged.
    pub fabric: &'a Arc<Fabric>,
    /// Tables as far as known.
    pub installed: &'a Arc<Installed>,
    /// The failed Sets.
    pub failures: &'a Failures,
    /// True at the end of a sweep or of a sweep's plan.
    pub is_of_sweep: bool,
    /// True if no node can be reached: then the sweep does not count.
    pub is_cut_off: bool,
}

/// How the Sets of a plan have ended.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sent {
    /// Number of acknowledged Sets.
    pub acknowledged: usize,
    /// Number of failed Sets.
    pub failed: usize,
    /// True if Sets of tables failed, or of SwitchInfo: the switch may hold entries of an earlier plan.
    pub tables_failed: bool,
}

/// The inputs of this sub-machine.
#[derive(Debug)]
pub enum In<'a> {
    /// A new policy of the operator; `Ctx` has the former one.
    Wanted(&'a Policy),
    /// A sweep found this fabric.
    Found(&'a Arc<Fabric>),
    /// A sweep found that these ports, in words, refuse Sets because of an M_Key that this manager does not know.
    Locked(Option<Arc<str>>),
    /// A plan of the whole fabric was made, or none could be made.
    Planned {
        /// True if the plan keeps tables that another manager left.
        keeps_found: bool,
    },
    /// A plan of the whole fabric was accepted.
    Accepted(&'a Outcome),
    /// A rebalancing step is about to be applied.
    Step(&'a Outcome),
    /// A repair is about to be applied.
    Repair(&'a Outcome),
    /// In a dry run: a plan was accepted.
    DryRun(&'a Arc<Outcome>),
    /// Sets have ended.
    Sent(Sent),
    /// A plan was applied as far as possible.
    Applied {
        /// The plan.
        outcome: &'a Outcome,
        /// The fabric with the settings that its agents have acknowledged.
        fabric: &'a Fabric,
        /// Settings that ports have declined.
        declined: BTreeMap<PortRef, Declined>,
        /// How its Sets ended.
        sent: Sent,
    },
    /// A sweep interrupts a plan after some of its Sets were sent. The next plan then leads to the same tables where
    /// the fabric is unchanged.
    LeftHalfWay {
        /// The plan.
        plan: &'a Arc<Plan>,
        /// The fabric with the settings that its agents have acknowledged.
        fabric: &'a Arc<Fabric>,
    },
    /// Drop the plan in force, and an interrupted plan if there is one.
    Dropped,
    /// A plan is needed, but no Set is sent, for this reason.
    NothingSent(NoPlan),
    /// No new plan was accepted, for this reason. The plan in force stays.
    Stays(NoPlan),
    /// The state that is known now.
    Known(Known<'a>),
    /// A sweep has read these tables of this fabric.
    Read(&'a Fabric, &'a Installed),
    /// A read-back shows that an LFT block of a switch has these contents.
    LftHolds(SwitchIdx, usize, [u8; BLOCK_LIDS]),
    /// A lane table of a port differs from what was written.
    LanesDiffer(PortRef),
    /// A lane table has these contents.
    LanesHold(LaneTable, &'a SmpData),
    /// Switches hold these MFTs.
    Copies(&'a Arc<BTreeMap<Guid, MftBlocks>>),
}

/// The effects that the outer machine carries out.
#[derive(Debug)]
pub enum Effect {
    /// Report this event.
    Event(Event),
    /// A table has other contents than the manager recorded.
    Astray,
    /// Report the changed MFTs of switches.
    CopiesChanged(Arc<BTreeMap<Guid, MftBlocks>>),
}

impl InForce {
    /// Handles one input and appends its effects.
    pub fn handle(&mut self, ctx: &Ctx<'_>, input: In<'_>, effects: &mut Vec<Effect>) {
        match input {
            In::Wanted(policy) => self.keeps_found &= route_alike(policy, ctx.policy),
            In::Found(fabric) => {
                if let Some(old) = self.sweeps.found.replace(Arc::clone(fabric)) {
                    let changes = diff(&old, fabric).changes;
                    let news = changes.iter().map(|c| Event::FabricChanged { change: c.to_string() });
                    effects.extend(news.map(Effect::Event));
                }
            }
            In::Locked(ports) => self.sweeps.locked = ports,
            In::Planned { keeps_found } => self.keeps_found = keeps_found,
            In::Accepted(outcome) => {
                self.sweeps.no_plan = None;
                self.verdict = Some(Arc::clone(&outcome.verdict));
                self.change = Change::of(outcome);
            }
            In::Step(outcome) => self.change = Change::of(outcome),
            In::Repair(outcome) => self.change.count = outcome.changes.value().count(),
            In::DryRun(outcome) => {
                self.take(&outcome.plan);
                self.change.would_send = Some(Arc::clone(outcome));
            }
            In::Sent(sent) => self.sent(sent),
            In::Applied {
                outcome,
                fabric,
                declined,
                sent,
            } => {
                let by_guid = declined.into_iter();
                let by_guid = by_guid.map(|(at, d)| ((fabric.node(at.node).guid, at.port), d));
                self.declined.extend(by_guid);
                self.take(&outcome.plan);
                self.aim = None;
                self.verdict = Some(Arc::clone(&outcome.verdict));
                self.sent(sent);
                // Ports may have taken a Set since.
                self.sweeps.locked = report::locked(fabric).map(Into::into);
            }
            In::LeftHalfWay { plan, fabric } => {
                self.aim = Some(Arc::new(Aim {
                    plan: Arc::clone(plan),
                    fabric: Arc::clone(fabric),
                    policy: Arc::clone(ctx.policy),
                    keeps_found: self.keeps_found,
                }));
            }
            In::Dropped => (self.plan, self.aim) = (None, None),
            In::NothingSent(why) => {
                self.sweeps.no_plan = Some(why);
                (self.plan, self.aim) = (None, None);
                (self.change.failed, self.change.tables_failed) = (0, false);
            }
            In::Stays(why) => self.sweeps.no_plan = Some(why),
            In::Known(known) => self.known(ctx, known),
            In::Read(fabric, read) => effects.extend(self.take_read(fabric, read)),
            In::LftHolds(switch, block, holds) => self.lft_holds(ctx, (switch, block), holds),
            In::LanesDiffer(at) => self.lanes_differ(ctx, at),
            In::LanesHold(table, data) => self.lanes_hold(ctx, table, data),
            In::Copies(held) => {
                if !Arc::ptr_eq(&self.copies, held) {
                    self.copies = Arc::clone(held);
                    effects.push(Effect::CopiesChanged(Arc::clone(held)));
                }
            }
        }
    }

    const fn sent(&mut self, sent: Sent) {
        (self.change.acknowledged, self.change.failed) = (sent.acknowledged, sent.failed);
        self.change.tables_failed = sent.tables_failed;
    }

    /// Stores a plan as the plan in force (in a dry run: as the plan that would be).
    fn take(&mut self, plan: &Arc<Plan>) {
        self.generation = plan.generation;
        self.plan = Some(Arc::clone(plan));
    }

    fn known(&mut self, ctx: &Ctx<'_>, known: Known<'_>) {
        let (inventory, fabric) = (known.inventory, known.fabric);
        self.ports = Arc::new(report::ports(fabric, inventory, ctx.mode, known.failures));
        if known.is_of_sweep {
            self.sweeps.planned_on = Some(Arc::clone(&inventory.fabric));
        }
        self.sweeps.found = Some(Arc::clone(fabric));
        self.sweeps.ended += u64::from(known.is_of_sweep && !known.is_cut_off);
        self.inventory = Some(Arc::new(Inventory {
            fabric: Arc::clone(fabric),
            ..inventory.clone()
        }));
        self.installed = Arc::clone(known.installed);
        // Each job gets a new record of packets in flight.
        if self.installed.under_way.is_some() || self.installed.levels.is_some() {
            let installed = Arc::make_mut(&mut self.installed);
            (installed.under_way, installed.levels) = (None, None);
        }
    }

    /// Returns the plan in force; in a dry run the plan that would be.
    pub const fn plan(&self) -> Option<&Arc<Plan>> {
        self.plan.as_ref()
    }

    /// Returns the judge's verdict on the newest plan.
    pub const fn verdict(&self) -> Option<&Arc<Verdict>> {
        self.verdict.as_ref()
    }

    /// Returns the generation of the newest plan that came into force.
    pub const fn generation(&self) -> Generation {
        self.generation
    }

    /// Returns the last complete snapshot, whether a plan for it is in force or not.
    pub fn fabric(&self) -> Option<&Arc<Fabric>> {
        self.inventory.as_ref().map(|inventory| &inventory.fabric)
    }

    /// Returns the last complete snapshot if a plan is in force; otherwise `None`.
    pub fn planned(&self) -> Option<&Arc<Fabric>> {
        self.fabric().filter(|_| self.plan.is_some())
    }

    /// Returns the plan in force with its fabric.
    pub fn with_fabric(&self) -> Option<(&Fabric, &Plan)> {
        Some((self.fabric()?, self.plan.as_deref()?))
    }

    /// Returns the last complete snapshot with the agents' answers.
    pub const fn inventory(&self) -> Option<&Arc<Inventory>> {
        self.inventory.as_ref()
    }

    /// Returns the fabric that the last sweep found.
    pub const fn found(&self) -> Option<&Arc<Fabric>> {
        self.sweeps.found.as_ref()
    }

    /// Returns how many sweeps came to an end.
    pub const fn sweeps(&self) -> u64 {
        self.sweeps.ended
    }

    /// Returns LFTs and lane tables that switches hold, as far as known.
    pub const fn installed(&self) -> &Arc<Installed> {
        &self.installed
    }

    /// Returns MFTs that switches hold, as far as known.
    pub const fn copies(&self) -> &Arc<BTreeMap<Guid, MftBlocks>> {
        &self.copies
    }

    /// Returns the ports that are not ACTIVE, each with its reason.
    pub const fn ports(&self) -> &Arc<Vec<PortReport>> {
        &self.ports
    }

    /// Returns the outcomes of the Sets of the last change.
    pub const fn change(&self) -> &Change {
        &self.change
    }

    /// Returns why the last sweep ended without a new plan; `None` if it did not.
    pub const fn no_plan(&self) -> Option<&NoPlan> {
        self.sweeps.no_plan.as_ref()
    }

    /// Returns, in words, the ports that refuse Sets because of an M_Key that this manager does not know.
    pub const fn locked(&self) -> Option<&Arc<str>> {
        self.sweeps.locked.as_ref()
    }

    /// Returns the plan in force, which was made with this policy, as one that the next plan may repeat.
    pub fn as_aim(&self, policy: &Arc<Policy>) -> Option<Aim> {
        Some(Aim {
            plan: self.plan.clone()?,
            fabric: self.fabric().cloned()?,
            policy: Arc::clone(policy),
            keeps_found: self.keeps_found,
        })
    }

    /// Returns how many Sets of the last change failed.
    pub const fn failed(&self) -> usize {
        self.change.failed
    }

    /// Returns how far switches hold the plan that belongs to the last complete snapshot.
    pub const fn held(&self) -> Held {
        match (&self.plan, &self.aim) {
            (None, _) => Held::No,
            (Some(_), None) if !self.change.tables_failed => Held::Whole,
            (Some(_), _) => Held::InPart,
        }
    }

    /// Returns the settings that ports have declined.
    pub const fn declined(&self) -> &DeclinedByGuid {
        &self.declined
    }

    /// Returns the plan that was interrupted.
    pub const fn aim(&self) -> Option<&Arc<Aim>> {
        self.aim.as_ref()
    }

    /// Returns which manager made the tables in force, for plans that keep them.
    pub const fn adopt(&self) -> Adopt {
        match self.keeps_found {
            true => Adopt::Kept,
            false => Adopt::No,
        }
    }

    /// Returns whether a plan of the whole fabric may keep tables that the sweep found in switches.
    ///
    /// `is_alike`: the plan's policy asks for the same routes as the policy in force. `wants_others`: this manager made
    /// the tables with other engines than those of the current policy.
    pub const fn adopt_found(&self, is_alike: bool, wants_others: bool) -> Adopt {
        Adopt::of(self.plan.is_some(), self.keeps_found && is_alike, wants_others)
    }

    /// If a plan is in force, returns the record of which tables still have the contents that this manager wrote.
    pub fn last_known(&self) -> Option<LastKnown<'_>> {
        let (fabric, plan) = self.with_fabric()?;
        Some(LastKnown {
            plan,
            fabric,
            seen: self.sweeps.planned_on.as_deref().unwrap_or(fabric),
            installed: &self.installed,
        })
    }
}

impl Change {
    /// Returns the Sets of a plan, before any of them has ended.
    fn of(outcome: &Outcome) -> Self {
        Self {
            count: outcome.changes.value().count(),
            ..Self::default()
        }
    }
}

#[cfg(test)]
impl InForce {
    /// Returns the state in which this plan is in force.
    pub fn made(plan: Plan, inventory: Option<Arc<Inventory>>, installed: Installed) -> Self {
        Self {
            plan: Some(Arc::new(plan)),
            inventory,
            installed: Arc::new(installed),
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests;
