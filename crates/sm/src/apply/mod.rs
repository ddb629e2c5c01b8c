//! The only executor of Sets: sends a judged change phase by phase, and records each agent's answer.
//!
//! - [`PlanSets`]: Sets of LFT, SwitchInfo, P_KeyTable, SLtoVLMappingTable, VLArbitrationTable and PortInfo. At the end
//!   [`Applied`] has the acknowledged contents, the failed Sets and the declined settings.
//! - [`Blocks`]: Gets and Sets of MFT and GUIDInfo. An effect gives the contents of each block.
//!
//! A phase begins when all requests of the one before have ended. A failed request does not delay the others of its
//! phase. [`Work`] decides whether the next phase begins after a failure.

mod blocks;
mod pause;
mod plan;

use std::collections::VecDeque;

use selvedge_mad::AgentId;
use selvedge_sim::Time;
use selvedge_wire::Mad;

use crate::config::Config;
use crate::event::{Event, SweepReason};
use crate::smp::Smp;

pub use blocks::{Block, Blocks};
pub use pause::Wait;
pub use plan::{Applied, PlanSets};

/// A request in flight: its phase, and its position there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct SetId {
    phase: usize,
    op: usize,
}

/// Requests that are sent in phases.
#[derive(Debug)]
pub struct Apply<W = PlanSets> {
    work: W,
    has_begun: bool,
    /// The request that is sent next.
    next: SetId,
    /// Requests in flight, in ascending order. Most answers belong to one of the first.
    in_flight: VecDeque<SetId>,
    counts: Counts,
}

/// How many requests ended in each way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests acknowledged.
    pub acknowledged: usize,
    /// Requests that failed or were left out because of a failure.
    pub failed: usize,
}

/// The state of other sub-machines that this one may read.
#[derive(Debug)]
pub struct Ctx<'a> {
    /// The time of the input.
    pub now: Time,
    /// The settings of the manager.
    pub config: &'a Config,
}

/// The inputs of this sub-machine.
#[derive(Debug)]
pub enum In<'a> {
    /// There is room for one more request.
    Room,
    /// A request has ended, with an answer or without one.
    Ended(SetId, Option<&'a Mad>),
    /// A request was not sent, because its agent did not answer earlier requests.
    LeftOut(SetId),
    /// The answer of the manager's own port; `None`: it did not answer.
    OwnPort(Option<&'a Mad>),
    /// Other work interrupts the sending of Sets. Agents may or may not execute the requests in flight.
    Interrupted,
}

/// The effects that the outer machine carries out.
#[derive(Debug)]
pub enum Effect {
    /// Ask the manager's own port for its PortInfo.
    AskOwnPort,
    /// Sweep: the fabric has changed since the plan was made.
    Sweep(SweepReason),
    /// Report this event.
    Event(Event),
    /// A block was read, or a Set of it was `acknowledged`.
    Holds {
        /// The block, with the contents that it now has.
        block: Block,
        /// True if the block was written, false if it was read.
        acknowledged: bool,
    },
    /// A port did not answer a request for a block, or holds other contents than were written.
    Refuses {
        /// The block, with the contents that the port holds, if they are known.
        block: Block,
        /// The switch or the port, for people.
        what: String,
    },
    /// A block may have been written or not.
    Unknown(Block),
    /// A change was given up before this block was written: it must be planned again.
    GaveUp(Block),
}

/// A request.
#[derive(Debug)]
pub struct Request {
    /// The agent.
    pub agent: AgentId,
    /// The SMP.
    pub smp: Smp,
    /// True if the request is sent before requests to other agents. Its agent has the most requests of the phase, so
    /// this agent decides how long the phase takes.
    pub is_first: bool,
}

/// A list of requests in phases. It records what the answers to these requests show.
pub trait Work {
    /// Returns how many phases there are.
    fn phases(&self) -> usize;

    /// Returns how many requests a phase has.
    fn requests(&self, phase: usize) -> usize;

    /// Begins a phase, or ends the work after the last phase. Returns `Err` if this phase and all later ones are left
    /// out, with the number of requests that are not sent.
    fn begin(&mut self, ctx: &Ctx<'_>, phase: usize, so_far: Counts, effects: &mut Vec<Effect>) -> Result<(), usize>;

    /// Returns true while the phase that has begun must wait.
    fn waits(&mut self, _: &Ctx<'_>, _: &mut Vec<Effect>) -> bool {
        false
    }

    /// Builds a request; `None` if it cannot or should not be sent.
    fn request(&mut self, ctx: &Ctx<'_>, id: SetId) -> Option<Request>;

    /// Handles the end of a request. Returns true if the agent did what was requested.
    fn ended(&mut self, id: SetId, answer: Option<&Mad>, effects: &mut Vec<Effect>) -> bool;

    /// Handles a request that was not sent, because its agent did not answer earlier requests.
    fn left_out(&mut self, _: SetId) {}

    /// Handles the answer of the local port.
    fn own_port_answered(&mut self, _: Option<&Mad>, _: &mut Vec<Effect>) {}

    /// Handles an interruption of the work while these requests are in flight.
    fn interrupted(&mut self, _: &VecDeque<SetId>, _: &mut Vec<Effect>) {}
}

impl<W: Work> Apply<W> {
    fn of(work: W) -> Self {
        Self {
            work,
            has_begun: false,
            next: SetId::default(),
            in_flight: VecDeque::new(),
            counts: Counts::default(),
        }
    }

    /// Handles one input. Appends the effects, and returns the request to send: at most one, only after [`In::Room`]. A
    /// bring-up has a million requests, so they are returned one by one and are not among the effects.
    pub fn handle(&mut self, ctx: &Ctx<'_>, input: In<'_>, effects: &mut Vec<Effect>) -> Option<(SetId, Request)> {
        match input {
            In::Room => return self.next_request(ctx, effects),
            In::Ended(id, answer) if self.was_in_flight(id) => match self.work.ended(id, answer, effects) {
                true => self.counts.acknowledged += 1,
                false => self.counts.failed += 1,
            },
            In::LeftOut(id) if self.was_in_flight(id) => {
                self.counts.failed += 1;
                self.work.left_out(id);
            }
            // The request has ended before.
            In::Ended(..) | In::LeftOut(_) => {}
            In::OwnPort(answer) => self.work.own_port_answered(answer, effects),
            In::Interrupted => self.work.interrupted(&self.in_flight, effects),
        }
        None
    }

    /// Records that a request has ended. Returns false if it had already ended.
    fn was_in_flight(&mut self, id: SetId) -> bool {
        let position = self.in_flight.iter().position(|&open| open == id);
        position.is_some_and(|at| self.in_flight.remove(at).is_some())
    }

    /// Returns true when every phase is done.
    pub fn is_done(&self) -> bool {
        self.next.phase >= self.work.phases()
    }

    /// Returns the current phase, counted from 0; the number of phases when all are done.
    pub const fn phase(&self) -> usize {
        self.next.phase
    }

    /// Returns how requests have ended so far.
    pub const fn counts(&self) -> Counts {
        self.counts
    }

    /// Returns the next request of the current phase. `None` while the phase waits before its first request, while
    /// answers of the phase before are missing, and when everything is done.
    fn next_request(&mut self, ctx: &Ctx<'_>, effects: &mut Vec<Effect>) -> Option<(SetId, Request)> {
        if !std::mem::replace(&mut self.has_begun, true) {
            self.begin(0, ctx, effects);
        }
        while !self.is_done() && !self.work.waits(ctx, effects) {
            let id = self.next;
            if id.op >= self.work.requests(id.phase) {
                if !self.in_flight.is_empty() {
                    return None;
                }
                self.begin(id.phase + 1, ctx, effects);
                continue;
            }
            self.next.op += 1;
            if let Some(request) = self.work.request(ctx, id) {
                self.in_flight.push_back(id);
                return Some((id, request));
            }
            self.counts.failed += 1;
        }
        None
    }

    /// Begins a phase: the phases that it depends on have ended, and its wait begins now.
    fn begin(&mut self, phase: usize, ctx: &Ctx<'_>, effects: &mut Vec<Effect>) {
        self.next = SetId { phase, op: 0 };
        if let Err(left_out) = self.work.begin(ctx, phase, self.counts, effects) {
            self.counts.failed += left_out;
            self.next.phase = self.work.phases();
        }
    }
}
