//! Sweeps: when one is due, which requests a light sweep and the check after a plan send, and how missing answers are
//! treated.
//!
//! A heavy sweep discovers the fabric (`discover`), reads tables and has a plan made. This module decides when one
//! begins ([`schedule`]), whether its inventory is complete enough ([`looks`]), and which nodes and cables exist
//! although they did not answer ([`mod@recall`], [`wires`]).
//!
//! The stage of a light sweep has three uses: a light sweep, the check after a plan ([`check`]), and a pass without any
//! request. The last use is for a heavy sweep that ends without a plan, so that the work at the end of a light sweep is
//! done.

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

/// Decides when sweeps are due; keeps knowledge from one sweep to the next.
#[derive(Debug, Default)]
pub struct Sweep {
    /// When the next sweep is due, and its reason.
    schedule: Schedule,
    /// The subjects of light sweeps.
    light: Light,
    /// The check after a plan.
    check: Check,
    /// Heavy sweeps that were repeated because an agent did not answer.
    looks: Looks,
    /// Directed routes by which no agent has answered in this stage.
    silent: Silent,
    /// Known cables between switches.
    wires: Wires,
}

/// The state of other sub-machines that this one may read.
#[derive(Clone, Copy, Debug)]
pub struct Ctx<'a> {
    /// The time of the input.
    pub now: Time,
    /// The settings of the manager.
    pub config: &'a Config,
    /// The last complete inventory, with the directed routes for requests.
    pub inventory: Option<&'a Inventory>,
    /// The fabric of the plan in force.
    pub planned: Option<&'a Fabric>,
}

/// The inputs of this sub-machine.
#[derive(Debug)]
pub enum In<'a> {
    /// A heavy sweep is wanted. This reason replaces any earlier one.
    Wanted(SweepReason),
    /// A heavy sweep is wanted. A sweep that is already due keeps its reason.
    WantedUnlessDue(SweepReason),
    /// A plan is dropped because a heavy sweep is due.
    PlanDropped,
    /// The heavy sweep that is due begins.
    Begins,
    /// A repair begins, for this reason.
    RepairBegins(SweepReason),
    /// Another manager is master.
    StoodBy,
    /// The walk of a heavy sweep has ended. The one before it saw this fabric.
    Walked(Option<&'a Fabric>),
    /// The sweep found these GUIDs twice.
    Twins(BTreeSet<Guid>),
    /// The sweep has found the inventory at hand.
    Found {
        /// True if no sweep has come to an end before.
        is_first: bool,
    },
    /// Ports with these GUIDs now report another identity than before.
    Doubted(BTreeSet<Guid>),
    /// A plan is in force. The two fabrics are those before and after it.
    Applied(&'a Fabric, &'a Fabric, Change),
    /// The manager is idle until the next light sweep, at this time at the latest.
    Rests(Option<Time>),
    /// Other work delays a light sweep that is due.
    PutOff,
    /// A light sweep is due.
    LightSweepDue {
        /// True if Sets have failed, or a port is not ACTIVE without a known reason.
        has_failed: bool,
        /// True if LIDs that ports wait for are free.
        are_lids_free: bool,
    },
    /// The check after a plan is due, and can begin now.
    CheckDue,
    /// The manager wakes up, and can ask nodes behind links now.
    Woken,
    /// A sweep ends without a plan: the work at the end of a light sweep follows.
    NothingToAsk,
    /// A Get can be sent.
    Room,
    /// A Get has ended, with an answer of status 0, or without one.
    Answered(Ask, Option<&'a Mad>),
    /// Another subject of the light sweep differs from the inventory.
    Differs,
    /// All requests of a light sweep or of the check have ended.
    AllAnswered,
    /// A stage begins in which all routes are tried.
    StageBegins,
    /// A request by this directed route has ended.
    RequestEnded {
        /// The route.
        route: &'a DirectedRoute,
        /// True if there was an answer.
        is_answered: bool,
    },
}

/// The kind of plan that came into force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The plan of a heavy sweep.
    Whole,
    /// A step towards balance.
    Step,
    /// A repair.
    Repair {
        /// True if a Set of the plan was repeated, so that its first copy may arrive later.
        has_repeated: bool,
    },
}

/// Requests of a light sweep or of the check after a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// SwitchInfo.
    Switch(NodeIdx),
    /// PortInfo of the local port, or of port 0 of a switch that may have been off while a plan was applied. The local
    /// port is also read during a probe, and while a plan waits.
    Held(PortRef),
    /// PortInfo of a port that may have changed without a trap reaching the manager.
    Unwatched(PortRef),
    /// PortInfo of a port with a link that is up at the other end only.
    Torn(PortRef),
    /// NodeInfo behind a port with a silent peer.
    Knock,
    /// NodeInfo behind a port where a GUID was seen that another node has.
    Twin,
    /// NodeInfo behind a link that came up before its switch knew us, or showed PortStateChange.
    AtLink(PortRef),
    /// NodeInfo, sent by the node's own directed route, of a node that reports its link down while the peer reports it
    /// up.
    Who(NodeIdx),
    /// NodeInfo of a port that now reports another identity than before.
    Whose(PortRef),
}

/// The effects that the outer machine carries out.
#[derive(Debug)]
pub enum Effect {
    /// The current heavy sweep has found too little. No plan is made from it, and another one is due.
    Repeat,
    /// The heavy sweep that is due gives ports the LIDs that they wait for.
    GiveLids,
    /// The check after a plan sends its first Gets.
    CheckBegins,
    /// Send this request to an agent.
    Ask(AgentId, Ask, Smp),
    /// Ask other managers for their SMInfo.
    AskManagers,
    /// A light sweep has begun, and its first Gets have been sent.
    LightSweepBegins,
    /// A switch shows PortStateChange: probe its ports.
    Suspect(NodeIdx),
    /// Leave out the waiting requests by this directed route.
    GiveUp(DirectedRoute),
}

impl Sweep {
    /// Handles one input and appends its effects.
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

    /// Returns the subjects of light sweeps.
    pub const fn light(&self) -> &Light {
        &self.light
    }

    /// Returns the check after a plan.
    pub const fn check(&self) -> &Check {
        &self.check
    }

    /// Returns the directed routes by which no agent has answered in this stage.
    pub const fn silent(&self) -> &Silent {
        &self.silent
    }

    /// Returns the known cables between switches.
    pub const fn wires(&self) -> &Wires {
        &self.wires
    }

    /// Handles the inventory of a heavy sweep; begins again if too many agents in it are silent.
    fn found(&mut self, ctx: &Ctx<'_>, is_first: bool, effects: &mut Vec<Effect>) {
        let inventory = ctx.inventory.filter(|_| ctx.config.mode == Mode::Manage);
        if inventory.is_some_and(|inventory| self.looks.asks_again(inventory, ctx.planned, is_first)) {
            self.schedule.repeat();
            effects.push(Effect::Repeat);
        }
    }

    /// Called when a plan is in force. Repairs need no check, as they begin where traps arrive.
    fn applied(&mut self, ctx: &Ctx<'_>, (seen, is): (&Fabric, &Fabric), change: Change) {
        self.looks.forget();
        self.light.watch(seen, is, change);
        match change {
            Change::Whole => self.check.owe(ctx.now, (seen, is), false),
            Change::Step => self.check.owe(ctx.now, (seen, is), true),
            Change::Repair { .. } => {}
        }
    }

    /// Asks every switch whether a port changed its state; begins a heavy sweep at once if that is not enough.
    fn light_sweep_due(&mut self, ctx: &Ctx<'_>, has_failed: bool, are_lids_free: bool, effects: &mut Vec<Effect>) {
        self.schedule.begin_light(ctx.now, ctx.config.sweep_interval);
        let inventory = match ctx.inventory {
            // The master clears PortStateChange: beside a master, only a heavy sweep shows changes.
            Some(inventory) if ctx.config.mode != Mode::Watch => inventory,
            _ => return self.schedule.want_unless_due(SweepReason::Interval),
        };
        // Failed Sets, and a fabric without a plan, are tried again; a port without a known reason has changed since
        // the sweep.
        if has_failed || ctx.planned.is_none() && !is_cut_off(inventory) {
            return self.schedule.want_unless_due(SweepReason::Again);
        }
        if are_lids_free {
            effects.push(Effect::GiveLids);
            return self.schedule.want_unless_due(SweepReason::LidsFree);
        }
        // The plan works without them, so this was not urgent: now a sweep searches for them.
        if inventory.lacks_switches() || self.light.lacks_twins(inventory) {
            return self.schedule.want_unless_due(SweepReason::Again);
        }
        self.silent.forget();
        self.light.begin();
        let asked = Asked { inventory };
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

    /// Begins the check, unless nodes behind links must be asked first.
    fn check_due(&mut self, ctx: &Ctx<'_>, effects: &mut Vec<Effect>) {
        let Some(inventory) = ctx.inventory.filter(|_| self.check.begin(ctx.now)) else {
            return;
        };
        self.begin_check(effects);
        let asked = Asked { inventory };
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
        let asked = Asked { inventory };
        while let Some(at) = self.check.next_link() {
            if let Some(question) = asked.behind(at) {
                return effects.push(question);
            }
        }
    }

    /// Handles the end of a light sweep or of the check.
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

#[cfg(test)]
mod tests;
