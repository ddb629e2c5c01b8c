//! Alias GUIDs: aliases that the administrator assigns are planned, judged, written and read back.
//!
//! Forwarding does not depend on aliases, so no other work waits for them: they are read and written while the manager
//! is idle, a thousand blocks at a time. A probe, a repair or a sweep interrupts this work at once. If no host has an
//! alias, no MAD is sent.
//!
//! A block is read before it is first written, so that a take-over does not change correct blocks. After a Set of its
//! PortInfo (the host rebooted, or its link was down) a port is read again. `selvedge_planner::aliases` plans the Sets.
//!
//! `core/aliases.rs` builds `Ctx`. `apply` sends the Gets and Sets, and `core/apply.rs` hands in what ports answer.

mod event;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use selvedge_fabric::{Fabric, PortRef};
use selvedge_plan::ChangeSet;
use selvedge_plan::aliases::{AliasChange, GuidBlock, PortAliases};
use selvedge_planner::aliases::{AliasBook, Place, TakenAlias};
use selvedge_planner::{Inventory, Judge};
use selvedge_sim::Time;
use selvedge_types::Guid;
use selvedge_verify::Judged;

use crate::config::Mode;

pub use event::AliasEvent;

/// How long a port is skipped after it first failed to take its GUIDs: perhaps only its answers were lost.
const MUTE_FIRST: Duration = Duration::from_secs(4);
/// How long a port is skipped if it refuses its GUIDs again.
const MUTE: Duration = Duration::from_secs(60);

/// Alias GUIDs of ports, and when they are read and written.
#[derive(Debug, Default)]
pub struct AliasGuids {
    /// The wanted aliases, and those that agents hold.
    book: AliasBook,
    /// Ports that are skipped, with the time at which that ends.
    mute: BTreeMap<Guid, Time>,
    /// Ports that were skipped before, and have accepted nothing since.
    was_mute: BTreeSet<Guid>,
    /// When GUIDInfo is read or written next, if the manager is idle at that time.
    due: Option<Time>,
}

/// The state of other sub-machines that this one may read.
#[derive(Debug)]
pub struct Ctx<'a> {
    /// The time of the input.
    pub now: Time,
    /// The mode of the manager.
    pub mode: Mode,
    /// Judges each change before it is sent.
    pub judge: &'a dyn Judge,
    /// The last complete inventory.
    pub inventory: Option<&'a Inventory>,
}

/// The inputs of this sub-machine.
#[derive(Debug)]
pub enum In<'a> {
    /// The administrator wants these aliases at these ports.
    Changed(Vec<PortAliases>),
    /// A plan with these changes is in force. A port that got a PortInfo Set of this plan may have been off before, and
    /// may have lost its aliases.
    PlanInForce(&'a Fabric, &'a ChangeSet),
    /// Another manager is master.
    AnotherManages,
    /// GUIDInfo may be read or written now, because the manager is idle.
    Due,
    /// A port holds this block of GUIDInfo.
    Holds(Place, GuidBlock),
    /// A port has acknowledged this block of GUIDInfo with the contents that were sent.
    Takes(Place, GuidBlock),
    /// A port does not answer a request for a block of GUIDInfo, or holds other contents than were written.
    Refuses {
        /// The port's name.
        what: String,
        /// The block.
        place: Place,
        /// The contents of the block, if the port answered.
        holds: Option<GuidBlock>,
    },
    /// A block differs from its known contents. The manager records these contents, and writes the block again.
    HoldsOtherwise(Place, GuidBlock),
    /// All blocks that had to be read have been requested.
    BlocksRead,
    /// The change has been applied: this number of Sets was acknowledged.
    Written(usize),
    /// GUIDs are not written as planned: Sets have failed.
    WrittenInPart,
    /// A block may have been written or not.
    Unknown(Place),
    /// A Set to this port has failed for good.
    GaveUp(Guid),
    /// Other work interrupted the reading or writing of blocks.
    Interrupted,
}

/// The effects that the outer machine carries out.
#[derive(Debug)]
pub enum Effect {
    /// Report this event.
    Event(AliasEvent),
    /// Read these blocks.
    Read(Vec<(PortRef, Place)>),
    /// Write a change that the judge has accepted.
    Write(Box<Judged<AliasChange>>),
}

impl AliasGuids {
    /// Handles one input and appends its effects.
    pub fn handle(&mut self, ctx: &Ctx<'_>, input: In<'_>, effects: &mut Vec<Effect>) {
        let now = ctx.now;
        match input {
            In::Changed(_) if ctx.mode != Mode::Manage => {}
            In::Changed(ports) => {
                ports.into_iter().for_each(|wanted| self.want(wanted));
                self.due = Some(now);
            }
            In::PlanInForce(fabric, changes) => self.plan_in_force(fabric, changes, now),
            In::AnotherManages => *self = Self::default(),
            In::Due => self.serve(ctx, effects),
            In::Holds(place, guids) => self.book.learn(place, guids),
            In::Takes(place, guids) => {
                self.book.learn(place, guids);
                self.was_mute.remove(&place.0);
            }
            In::Refuses { what, place, holds } => {
                if let Some(holds) = holds {
                    self.book.learn(place, holds);
                }
                if self.silence(place, now) {
                    effects.push(Effect::Event(AliasEvent::Silent { what }));
                }
            }
            In::HoldsOtherwise(place, holds) => {
                self.book.learn(place, holds);
                self.book.doubt_port(place.0);
                self.due = Some(now);
            }
            In::BlocksRead | In::Interrupted => self.due = Some(now),
            In::Written(sets) => {
                self.end(now);
                if sets > 0 {
                    let ports = self.book.wanted().len();
                    effects.push(Effect::Event(AliasEvent::InForce { ports, sets }));
                }
            }
            In::WrittenInPart => self.end(now),
            In::Unknown(place) => self.book.doubt(place),
            In::GaveUp(port) => self.book.doubt_port(port),
        }
    }

    /// Returns the wanted aliases, and those that agents hold.
    pub const fn book(&self) -> &AliasBook {
        &self.book
    }

    /// Returns the ports that are skipped for now, because they did not answer or refused their GUIDs.
    pub fn left_out(&self) -> BTreeSet<Guid> {
        self.mute.keys().copied().collect()
    }

    /// Returns when GUIDInfo must next be read or written, if no other work is due.
    pub fn due(&self) -> Option<Time> {
        self.due.into_iter().chain(self.mute.values().copied()).min()
    }

    fn want(&mut self, wanted: PortAliases) {
        self.mute.remove(&wanted.port);
        self.book.want(wanted);
    }

    fn plan_in_force(&mut self, fabric: &Fabric, changes: &ChangeSet, now: Time) {
        for port in self.book.plan_in_force(fabric, changes) {
            self.mute.remove(&port);
        }
        // A port may have joined that has as its own GUID an alias of another port, and a port may be gone that held an
        // alias which another port waits for.
        if self.book.has_stale() || self.book.has_taken(fabric) {
            self.due = Some(now);
        }
    }

    /// Requests Gets of GUIDInfo, or plans a change and has it judged.
    fn serve(&mut self, ctx: &Ctx<'_>, effects: &mut Vec<Effect>) {
        let Some(inventory) = ctx.inventory else {
            return;
        };
        let fabric = &inventory.fabric;
        self.due = None;
        self.mute.retain(|_, until| *until > ctx.now);
        let taken = self.book.yield_to(fabric);
        effects.extend(taken.iter().map(|taken| Effect::Event(in_words(fabric, taken))));
        let left_out = self.left_out();
        let unknown = self.book.unknown(fabric, &left_out);
        if !unknown.is_empty() {
            return effects.push(Effect::Read(unknown));
        }
        let next = self.book.next(fabric, &left_out);
        self.book.settle(&next.done);
        if next.change.sets() == 0 {
            return;
        }
        let (held, wanted) = (self.book.held(), self.book.wanted());
        let judged = ctx.judge.judge_aliases(inventory, held, wanted, next.change);
        effects.push(match judged {
            Ok(change) => Effect::Write(Box::new(change)),
            Err(refusal) => Effect::Event(AliasEvent::Refused {
                why: refusal.to_string(),
            }),
        });
    }

    /// Handles the end of a change: the remaining changes are planned next.
    fn end(&mut self, now: Time) {
        if self.book.has_stale() {
            self.due = Some(now);
        }
    }

    /// Handles a port from which no valid answer came: its blocks are read again after a while. True if the port
    /// answered before.
    fn silence(&mut self, (port, block): Place, now: Time) -> bool {
        self.book.doubt((port, block));
        self.book.doubt_port(port);
        if self.mute.contains_key(&port) {
            return false;
        }
        let is_news = self.was_mute.insert(port);
        let pause = if is_news { MUTE_FIRST } else { MUTE };
        self.mute.insert(port, now + pause);
        is_news
    }
}

fn in_words(fabric: &Fabric, taken: &TakenAlias) -> AliasEvent {
    let from = fabric.find_port(taken.from).map(|at| fabric.port_name(at));
    AliasEvent::Taken {
        guid: taken.guid,
        from: from.unwrap_or_else(|| taken.from.to_string()),
        owner: fabric.port_name(taken.owner),
    }
}

#[cfg(test)]
mod tests;
