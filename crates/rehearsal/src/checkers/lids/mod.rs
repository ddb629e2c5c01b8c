//! Checks that ports keep their LIDs: every Set of PortInfo is compared with the LIDs that ports held, and with what
//! its manager can have known.

mod book;
mod claims;

use std::time::Duration;

use selvedge_chassis::{Chassis, PortIdx};
use selvedge_sim::Time;
use selvedge_types::{Guid, LidRange};
use selvedge_wire::AttributeId;

use self::book::{LidBook, Moved};
use self::claims::Claims;
use super::check::{Check, Ctx};
use super::holders::{is_held_by_ranges, is_twice};
use super::ledger::Ledger;
use super::lifetime::lifetime;
use super::names::port_name;
use super::rules::{Checker, Rule};
use super::seen::Seen;
use super::taken::Taken;
use crate::Violation;
use crate::manager::{Manager, ManagerId};

/// Checks that ports keep their LIDs. Its state: the LIDs that each port has held.
#[derive(Debug)]
pub(super) struct LidsStay {
    /// LIDs that ports hold.
    book: LidBook,
    /// LIDs that managers believe to be held by ports.
    claims: Claims,
    /// True if the last Set gave a port other LIDs.
    is_renumbered: bool,
}

impl Check for LidsStay {
    fn see(&mut self, ctx: &Ctx<'_>, seen: &Seen<'_>, found: &mut Ledger) -> Result<(), Violation> {
        match *seen {
            Seen::Stored { id, state } => {
                let (now, chassis) = (ctx.now, ctx.chassis());
                let looked_at = ctx.life(id).and_then(|life| life.looks.looked_at());
                let is_echo = ctx.evidence.faults().echoes_flipped_bits(now);
                let is_after_faults = looked_at.is_some_and(|at| !ctx.evidence.faults().disturbed_since(at));
                for (&guid, &range) in &state.lids {
                    let held_last = self.book.held_last(guid);
                    // The port lost its LIDs, and no answer could show that to the manager. Other managers do not know
                    // a plan that is never sent.
                    let is_lost = || is_after_faults && self.book.is_lost(chassis, guid, range);
                    let claim = (id, guid, range);
                    self.claims
                        .stored(claim, (now, looked_at), held_last, (is_echo, is_lost));
                }
            }
            Seen::Happened { .. } => self.book.note_clones(ctx.chassis()),
            Seen::ForeignSet => self.book.read(ctx.chassis()),
            Seen::Set(taken) => {
                self.is_renumbered = false;
                self.claims.note_astray(ctx.chassis(), taken);
                if taken.attribute == AttributeId::PORT_INFO {
                    return self.stay(ctx, taken, found);
                }
            }
            _ => {}
        }
        Ok(())
    }
}

impl LidsStay {
    pub fn new(chassis: &Chassis) -> Self {
        Self {
            book: LidBook::new(chassis),
            claims: Claims::default(),
            is_renumbered: false,
        }
    }

    /// True if the last Set gave a port other LIDs.
    pub const fn is_renumbered(&self) -> bool {
        self.is_renumbered
    }

    /// Checks the LIDs that a Set of PortInfo gave the ports of a node.
    fn stay(&mut self, ctx: &Ctx<'_>, taken: &Taken, found: &mut Ledger) -> Result<(), Violation> {
        let chassis = ctx.chassis();
        let id = taken.sent.map(|sent| sent.manager);
        let manager = id.and_then(|id| ctx.managers.get(id.0));
        let (held, moved) = self.book.take(chassis, taken.node);
        self.is_renumbered = held.is_some();
        let claim_now = id.zip(moved).map(|(id, moved)| (id, moved.guid(), moved.now()));
        // LIDs that the manager had stored for the port were meant for it.
        let was_meant = claim_now.is_some_and(|claim| self.claims.is_stored(claim));
        if let (Some(id), Some((port, range)), true) = (id, held, ctx.evidence.is_outside()) {
            // A program must keep the LIDs that it has set: it has a file for them.
            unique_outside(chassis, (port, range), taken.excuse, found)?;
            self.claims.keep((id, chassis.port_guid(port), range));
        } else if let (Some(manager), Some(held)) = (manager, held) {
            self.stored_before(chassis, manager, taken, held, found)?;
        }
        // The port may have taken LIDs of an earlier plan without an answer to the manager.
        let planned = claim_now.and_then(|claim| self.claims.planned(claim));
        if let Some((port, range)) = held {
            self.claims.is_held(chassis.port_guid(port), range, id);
        }
        let Some(moved) = moved else { return Ok(()) };
        if taken.excuse.is_some() && !was_meant {
            self.book.went_astray(&moved);
        }
        let excuse = self.excuse(ctx, (taken, manager), &moved, planned);
        let excuse = excuse.or_else(|| self.error_excuse(ctx, (id?, manager?), &moved));
        found.judge(Checker::Lids, excuse, || moved.violation(chassis))
    }

    /// Fails if a port gets LIDs that its manager had not stored for it.
    fn stored_before(
        &self,
        chassis: &Chassis,
        manager: &Manager,
        taken: &Taken,
        (port, range): (PortIdx, LidRange),
        found: &mut Ledger,
    ) -> Result<(), Violation> {
        let guid = chassis.port_guid(port);
        let was_stored = taken
            .sent
            .is_some_and(|sent| self.claims.was_stored((sent.manager, guid, range), sent.at));
        if was_stored || manager.stored.lids.get(&guid) == Some(&range) {
            return Ok(());
        }
        let is_cloned = self.book.is_cloned(guid);
        let excuse = taken.excuse.or(is_cloned.then_some(Rule::ClonedGuid));
        found.judge(Checker::Stored, excuse, || Violation::NotStored {
            manager: manager.name.clone(),
            port: port_name(chassis, port),
            lid: range.base,
        })
    }

    /// Returns the rule that excuses other LIDs of a port, by the LIDs that ports held and by the operator's policy.
    fn excuse(
        &mut self,
        ctx: &Ctx<'_>,
        (taken, manager): (&Taken, Option<&Manager>),
        moved: &Moved,
        planned: Option<Time>,
    ) -> Option<Rule> {
        let chassis = ctx.chassis();
        let id = taken.sent.map(|sent| sent.manager);
        let claim_before = id.map(|id| (id, moved.guid(), moved.before()));
        let knew = claim_before.is_some_and(|claim| self.claims.knew(claim, moved.is_kept()));
        let looked_at = manager.and_then(|manager| manager.life.as_ref()?.looks.looked_at());
        let was_held = [looked_at, planned]
            .into_iter()
            .any(|looked_at| self.book.was_held_by_another(moved, looked_at, drain(chassis)))
            || manager.is_some_and(|manager| self.book.is_anothers_again(moved, &manager.stored.lids));
        self.book.note_left(moved, ctx.now);
        let excuse = self.book.excuse(chassis, moved, knew).or(taken.excuse);
        let excuse = excuse.or(was_held.then_some(Rule::LidConflict));
        // A switch has one LID, whatever the LMC of the policy.
        let is_asked_to = manager
            .filter(|_| !chassis.is_switch(taken.node))
            .is_some_and(|manager| moved.must_begin_elsewhere(manager.policy().lmc));
        excuse.or(is_asked_to.then_some(Rule::OtherLids))
    }

    /// Returns the rule that excuses other LIDs for a port that came back without LIDs, if its manager is wrong about
    /// the port's former LIDs. A flipped bit, or a Set that another port received, made the manager believe LIDs that
    /// the port never had, or a GUID that differs in one bit and belongs to no port.
    fn error_excuse(&self, ctx: &Ctx<'_>, (id, manager): (ManagerId, &Manager), moved: &Moved) -> Option<Rule> {
        if moved.is_kept() {
            return None;
        }
        let exists = |guid: Guid| ctx.chassis().fabric().end_ports().any(|(_, port)| port.guid == guid);
        let is_flipped_guid = |(guid, range): (&Guid, &LidRange)| {
            let is_near = (guid.0 ^ moved.guid().0).is_power_of_two();
            is_near && range.contains(moved.before().base) && !exists(*guid)
        };
        let has_flipped_guid = ctx.evidence.faults().has_corrupted() && manager.stored.lids.iter().any(is_flipped_guid);
        let claim = (id, moved.guid(), moved.now());
        let is_misread = moved.is_off_by_a_bit() && self.claims.is_misread(claim) || has_flipped_guid;
        let mistaken = self.claims.is_mistaken(claim).then_some(Rule::NeverKnown);
        is_misread.then_some(Rule::CorruptMedium).or(mistaken)
    }
}

/// Fails if two ports hold a LID that a program has just given one of them.
fn unique_outside(
    chassis: &Chassis,
    (port, range): (PortIdx, LidRange),
    excuse: Option<Rule>,
    found: &mut Ledger,
) -> Result<(), Violation> {
    let Some(lid) = range.iter().find(|&lid| is_twice(chassis, lid)) else {
        return Ok(());
    };
    let ranges = is_held_by_ranges(chassis, lid).then_some(Rule::OtherLids);
    found.judge(Checker::LidsUnique, excuse.or(ranges), || Violation::LidTwice {
        lid,
        first: port_name(chassis, port),
        second: "another port".to_owned(),
    })
}

/// Returns the longest time that a packet can be in flight if it passes every switch: the sum of the lifetimes of all
/// switches.
fn drain(chassis: &Chassis) -> Duration {
    let switches = chassis
        .fabric()
        .nodes()
        .indices()
        .filter(|&node| chassis.is_switch(node));
    switches.map(|node| lifetime(chassis, node)).sum()
}
