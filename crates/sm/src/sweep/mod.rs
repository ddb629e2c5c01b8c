//! Sweeps: when one is due, what a light sweep and the check after a plan ask, and what is made of silence.
//!
//! A heavy sweep walks the fabric (`discover`), reads tables and has a plan made. Here it is decided when one begins
//! ([`schedule`]), whether what it has found is enough ([`looks`]), and what did not answer and is there all the same
//! ([`mod@recall`], [`wires`]).
//!
//! The stage of a light sweep has three uses: a light sweep, the check after a plan ([`check`]), and no question at
//! all, where a sweep ends without a plan and what comes at the end of a light sweep is to be done.

use std::collections::BTreeSet;

use selvedge_fabric::{Fabric, NodeIdx, PortRef};
use selvedge_mad::AgentId;
use selvedge_planner::Inventory;
use selvedge_sim::Time;
use selvedge_types::Guid;
use selvedge_wire::{DirectedRoute, Mad};

use crate::config::{Config, Mode};
use crate::event::SweepReason;
use crate::smp::Smp;
use check::Check;
use light::{Asked, Light};
use looks::Looks;
use schedule::Schedule;
use silent::Silent;
use wires::Wires;

pub use answer::is_other_port;
pub use light::own_port;
pub use recall::recall;
#[cfg(test)]
pub use schedule::DROPPED_MAX;
pub use schedule::{interval, is_cut_off};

mod answer;
mod check;
mod light;
mod looks;
mod recall;
mod schedule;
mod silent;
mod wires;

/// When sweeps are due, and what they remember from one to the next.
#[derive(Debug, Default)]
pub struct Sweep {
    /// When the next one is due, and why.
    schedule: Schedule,
    /// What light sweeps look at.
    light: Light,
    /// The check after a plan.
    check: Check,
    /// Heavy sweeps that were repeated because an agent did not answer.
    looks: Looks,
    /// Directed routes without an answer in this stage.
    silent: Silent,
    /// Where cables lead that were seen once.
    wires: Wires,
}

/// What sweeps may read.
#[derive(Clone, Copy, Debug)]
pub struct Ctx<'a> {
    /// When the input came.
    pub now: Time,
    /// How the manager behaves.
    pub config: &'a Config,
    /// The last complete inventory: where questions go.
    pub inventory: Option<&'a Inventory>,
    /// The fabric of the plan in force.
    pub planned: Option<&'a Fabric>,
}

/// What can happen.
#[derive(Debug)]
pub enum In<'a> {
    /// A heavy sweep is wanted, for this reason rather than any before.
    Wanted(SweepReason),
    /// A heavy sweep is wanted; if one is due already, that is due for its own reason.
    WantedUnlessDue(SweepReason),
    /// A plan is dropped as a heavy sweep is due.
    PlanDropped,
    /// The heavy sweep that is due begins.
    Begins,
    /// A repair begins, for this reason.
    RepairBegins(SweepReason),
    /// Another manager is master.
    StoodBy,
    /// The walk of a heavy sweep has ended. The one before it saw this fabric.
    Walked(Option<&'a Fabric>),
    /// It saw these GUIDs twice.
    Twins(BTreeSet<Guid>),
    /// It has found the inventory at hand.
    Found {
        /// No sweep has come to an end before.
        is_first: bool,
    },
    /// Ports with these GUIDs call themselves otherwise than they were seen.
    Doubted(BTreeSet<Guid>),
    /// A plan is in force: the first fabric was found, the second is now.
    Applied(&'a Fabric, &'a Fabric, Change),
    /// Nothing is to be done until the next light sweep, at this time at the latest.
    Rests(Option<Time>),
    /// Something else comes before a light sweep that is due.
    PutOff,
    /// A light sweep is due.
    LightSweepDue {
        /// Sets have failed, or a port is not ACTIVE and nobody knows why.
        has_failed: bool,
        /// LIDs that ports wait for are free.
        are_lids_free: bool,
    },
    /// The check after a plan is due, and can be made now.
    CheckDue,
    /// The manager wakes up, and can look behind links now.
    Woken,
    /// A sweep ends without a plan: what comes at the end of a light sweep is to be done.
    NothingToAsk,
    /// A question can be asked.
    Room,
    /// A question has ended: with an answer that has status 0, or without.
    Answered(Ask, Option<&'a Mad>),
    /// Something else that the light sweep looks at is not as known.
    Differs,
    /// Everything that was asked in a light sweep or in the check has ended.
    AllAnswered,
    /// A stage begins in which all routes are tried.
    StageBegins,
    /// A request by this route has ended.
    RequestEnded {
        /// The route.
        route: &'a DirectedRoute,
        /// There was an answer.
        is_answered: bool,
    },
}

/// Which kind of plan came into force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The plan of a heavy sweep.
    Whole,
    /// A step towards balance.
    Step,
    /// A repair.
    Repair {
        /// A Set of it had to be repeated, so that its first copy may come later.
        has_repeated: bool,
    },
}

/// What is asked in a light sweep or in the check after a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// SwitchInfo.
    Switch(NodeIdx),
    /// PortInfo of our own port, or of port 0 of a switch that may have been off while a plan was on its way. Our own
    /// port is asked while ports are looked at, too, and while a plan waits.
    Held(PortRef),
    /// PortInfo of a port whose switch may have told nobody what happened to it.
    Unwatched(PortRef),
    /// PortInfo of a port whose link is up at the other end only.
    Torn(PortRef),
    /// NodeInfo behind a port whose peer was silent.
    Knock,
    /// NodeInfo behind a port where a GUID was seen that another node has.
    Twin,
    /// NodeInfo behind a link that came up before its switch knew us, or showed PortStateChange.
    AtLink(PortRef),
    /// NodeInfo of a node whose link is up at the other end only, by the node's own way.
    Who(NodeIdx),
    /// NodeInfo of a port that calls itself otherwise than it was seen.
    Whose(PortRef),
}

/// What is to be done.
#[derive(Debug)]
pub enum Effect {
    /// The heavy sweep at hand has found too little, and another one is due: nothing is planned from it.
    Repeat,
    /// LIDs that ports wait for are given to them by the heavy sweep that is due.
    GiveLids,
    /// Questions of the check begin.
    CheckBegins,
    /// Ask an agent.
    Ask(AgentId, Ask, Smp),
    /// Ask other managers for their SMInfo.
    AskManagers,
    /// A light sweep has begun, and its first questions have been asked.
    LightSweepBegins,
    /// A switch shows PortStateChange: look at its ports.
    Suspect(NodeIdx),
    /// Give up what waits to be asked by this route.
    GiveUp(DirectedRoute),
}

impl Sweep {
    /// Takes one input. Appends what is to be done.
    pub fn handle(&mut self, ctx: &Ctx<'_>, input: In<'_>, effects: &mut Vec<Effect>) {
        match input {
            In::Wanted(reason) => self.schedule.want(reason),
            In::WantedUnlessDue(reason) => self.schedule.want_unless_due(reason),
            In::PlanDropped => self.schedule.drop_plan(),
            In::Begins => {
                self.schedule.begin();
                self.light.forget();
                self.check.forget(ctx.now);
                self.silent.forget();
            }
            In::RepairBegins(reason) => self.schedule.begin_repair(reason),
            In::StoodBy => {
                self.schedule.want_none();
                self.looks.forget();
            }
            In::Walked(last) => last.into_iter().for_each(|fabric| self.wires.note(fabric)),
            In::Twins(guids) => {
                if self.light.note_twins(guids) {
                    self.schedule.want(SweepReason::Again);
                    effects.push(Effect::Repeat);
                }
            }
            In::Found { is_first } => self.found(ctx, is_first, effects),
            In::Doubted(ports) => self.light.doubt(ports),
            In::Applied(seen, is, change) => self.applied(ctx, (seen, is), change),
            In::Rests(at) => self.schedule.rest(ctx.now, at),
            In::PutOff => self.schedule.put_off(),
            In::LightSweepDue {
                has_failed,
                are_lids_free,
            } => self.light_sweep_due(ctx, has_failed, are_lids_free, effects),
            In::CheckDue => self.check_due(ctx, effects),
            In::Woken => {
                if self.check.begin_links() {
                    self.begin_check(effects);
                }
            }
            In::NothingToAsk => self.light.begin(),
            In::Room => self.ask_behind_link(ctx, effects),
            In::Answered(ask, answer) => self.light.answered(ctx.inventory, ask, answer, effects),
            In::Differs => self.light.note_change(),
            In::AllAnswered => self.all_answered(),
            In::StageBegins => self.silent.forget(),
            In::RequestEnded { route, is_answered } => {
                if self.silent.ended(route, is_answered) {
                    effects.push(Effect::GiveUp(*route));
                }
            }
        }
    }

    /// Returns when the next sweep is due, and why.
    pub const fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    /// Returns what light sweeps look at.
    pub const fn light(&self) -> &Light {
        &self.light
    }

    /// Returns the check after a plan.
    pub const fn check(&self) -> &Check {
        &self.check
    }

    /// Returns the directed routes without an answer in this stage.
    pub const fn silent(&self) -> &Silent {
        &self.silent
    }

    /// Returns where cables lead that were seen once.
    pub const fn wires(&self) -> &Wires {
        &self.wires
    }

    /// A heavy sweep has found what there is; begins anew if too much of that is silent.
    fn found(&mut self, ctx: &Ctx<'_>, is_first: bool, effects: &mut Vec<Effect>) {
        let inventory = ctx.inventory.filter(|_| ctx.config.mode == Mode::Manage);
        if inventory.is_some_and(|inventory| self.looks.asks_again(inventory, ctx.planned, is_first)) {
            self.schedule.repeat();
            effects.push(Effect::Repeat);
        }
    }

    /// A plan is in force. Repairs need no check, as they begin where traps arrive.
    fn applied(&mut self, ctx: &Ctx<'_>, (seen, is): (&Fabric, &Fabric), change: Change) {
        self.looks.forget();
        self.light.watch(seen, is, change);
        match change {
            Change::Whole => self.check.owe(ctx.now, (seen, is), false),
            Change::Step => self.check.owe(ctx.now, (seen, is), true),
            Change::Repair { .. } => {}
        }
    }

    /// Asks every switch whether a port changed its state; goes for a heavy sweep at once where that says too little.
    fn light_sweep_due(&mut self, ctx: &Ctx<'_>, has_failed: bool, are_lids_free: bool, effects: &mut Vec<Effect>) {
        self.schedule.begin_light(ctx.now, ctx.config.sweep_interval);
        let inventory = match ctx.inventory {
            // The master clears PortStateChange: beside it, only looking at everything shows what changed.
            Some(inventory) if ctx.config.mode != Mode::Watch => inventory,
            _ => return self.schedule.want_unless_due(SweepReason::Interval),
        };
        // What failed, or found no plan, is tried again; what nobody can explain has changed since it was seen.
        if has_failed || ctx.planned.is_none() && !is_cut_off(inventory) {
            return self.schedule.want_unless_due(SweepReason::Again);
        }
        if are_lids_free {
            effects.push(Effect::GiveLids);
            return self.schedule.want_unless_due(SweepReason::LidsFree);
        }
        // Planned around already, and there is no hurry: now it is looked for, and forgotten.
        if inventory.lacks_switches() || self.light.lacks_twins(inventory) {
            return self.schedule.want_unless_due(SweepReason::Again);
        }
        self.silent.forget();
        self.light.begin();
        let asked = asked(ctx, inventory);
        effects.push(asked.own_port());
        asked.switches(effects);
        if ctx.config.mode == Mode::Manage {
            effects.push(Effect::AskManagers);
        }
        self.light.ask_unwatched(asked, effects);
        self.light.ask_doubted(asked, effects);
        self.light.knock(asked, effects);
        self.check.join();
        asked.who_may_have_been_off(self.check.switches(), effects);
        effects.push(Effect::LightSweepBegins);
    }

    /// Begins the check, unless links are to be looked behind first.
    fn check_due(&mut self, ctx: &Ctx<'_>, effects: &mut Vec<Effect>) {
        let Some(inventory) = ctx.inventory.filter(|_| self.check.begin(ctx.now)) else {
            return;
        };
        self.begin_check(effects);
        let asked = asked(ctx, inventory);
        effects.push(asked.own_port());
        asked.switches(effects);
        self.light.ask_unwatched(asked, effects);
        asked.who_may_have_been_off(self.check.switches(), effects);
    }

    fn begin_check(&mut self, effects: &mut Vec<Effect>) {
        self.schedule.put_off();
        self.light.begin();
        effects.push(Effect::CheckBegins);
    }

    /// Asks the node behind the next link of the list for NodeInfo.
    fn ask_behind_link(&mut self, ctx: &Ctx<'_>, effects: &mut Vec<Effect>) {
        let Some(inventory) = ctx.inventory else { return };
        let asked = asked(ctx, inventory);
        while let Some(at) = self.check.next_link() {
            if let Some(question) = asked.behind(at) {
                return effects.push(question);
            }
        }
    }

    /// A light sweep or the check is through.
    fn all_answered(&mut self) {
        if !self.check.is_alone() {
            self.schedule.end_light();
        }
        if !self.check.is_of_links() {
            self.light.forget();
        }
        if self.light.has_changed() {
            self.schedule.want(SweepReason::LightSweep);
        } else {
            self.check.end();
        }
    }
}

fn asked<'a>(ctx: &Ctx<'a>, inventory: &'a Inventory) -> Asked<'a> {
    Asked {
        inventory,
        m_key: ctx.config.policy.m_key,
    }
}

#[cfg(test)]
mod tests;
