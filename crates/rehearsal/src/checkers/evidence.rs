//! Events that a manager may not know of, and the rules by which a violation is excused then.

pub(super) mod blocks;
pub(super) mod cables;
pub(super) mod faults;
pub(super) mod links;
pub(super) mod setters;

use std::time::Duration;

use selvedge_chassis::{Chassis, PortIdx};
use selvedge_emulator::{Change, Emulator};
use selvedge_fabric::NodeIdx;
use selvedge_sim::Time;
use selvedge_sm::Role;

use self::blocks::Blocks;
use self::cables::MovedCables;
use self::faults::Faults;
use self::links::Links;
use self::setters::Setters;
use super::ledger::Ledger;
use super::masters::TWO_MASTERS_MAX;
use super::rules::Rule;
use super::seen::{Scene, Seen};
use super::taken::Taken;
use crate::Violation;
use crate::manager::{Life, Manager, ManagerId};

/// How old the view of the fabric may be by which a program acts: its sweep and its plan take less time.
const LOOKED_WITHIN: Duration = Duration::from_secs(1);

/// Events that a manager may not know of, by subject.
#[derive(Debug)]
pub(super) struct Evidence {
    faults: Faults,
    setters: Setters,
    blocks: Blocks,
    cables: MovedCables,
    links: Links,
    /// True if managers are programs of their own, outside the rehearsal. Their plans are not known, so rules use times
    /// alone.
    is_outside: bool,
}

impl Evidence {
    pub fn new(chassis: &Chassis) -> Self {
        Self {
            faults: Faults::new(chassis),
            setters: Setters::default(),
            blocks: Blocks::default(),
            cables: MovedCables::new(chassis),
            links: Links::default(),
            is_outside: false,
        }
    }

    /// Records that managers are programs of their own from now on.
    pub const fn set_outside(&mut self) {
        self.is_outside = true;
    }

    /// True if managers are programs of their own.
    pub const fn is_outside(&self) -> bool {
        self.is_outside
    }

    pub const fn faults(&self) -> &Faults {
        &self.faults
    }

    pub const fn blocks(&self) -> &Blocks {
        &self.blocks
    }

    /// Records MADs that the medium has lost.
    pub fn note_lost(&mut self, emulator: &mut Emulator) {
        self.links.note_lost(emulator);
    }

    /// Handles an observation. Returns a violation if a block was not read back in time.
    pub fn see(&mut self, scene: &Scene<'_>, seen: &Seen<'_>, found: &mut Ledger) -> Result<(), Violation> {
        match *seen {
            Seen::Step => return self.blocks.read_back_in_time(scene, self.is_outside, found),
            Seen::Fault(fault) => self.faults.strikes(scene.now, fault),
            Seen::Receives { .. } => {
                self.cables.see(scene, seen);
                self.links.see(scene, seen);
            }
            _ => {}
        }
        Ok(())
    }

    /// Called when the hardware changed other than by a Set. Returns true if trained links or powered nodes changed.
    pub fn happened(&mut self, scene: &Scene<'_>) -> bool {
        let is_disturbed = self.faults.happened(scene.now, scene.chassis());
        if is_disturbed {
            self.cables.look(scene.now, scene.chassis());
        }
        is_disturbed
    }

    /// Records which agents lie now, after a change of the hardware.
    pub fn changed(&mut self, scene: &Scene<'_>) {
        self.blocks.set_liars(scene.emulator.liars());
    }

    /// Records that a block was read.
    pub fn note_read(&mut self, change: &Change) {
        self.blocks.note_read(change);
    }

    /// Called when an agent took a Set. Returns the rule that excuses harm done by it, if one does.
    pub fn take(&mut self, scene: &Scene<'_>, taken: &Taken) -> Option<Rule> {
        let (now, chassis) = (scene.now, scene.chassis());
        let is_corrupting = self.faults.is_corrupting();
        if let Some(sent) = taken.sent {
            self.setters.note(now, sent.manager);
        }
        self.blocks.note_stray(taken, is_corrupting);
        let astray = taken.sent.and_then(|sent| sent.astray);
        if let (Some(block), Some(astray)) = (taken.block(), astray.filter(|astray| astray.meant != taken.node))
            && self.cables.note_astray(now, chassis, &astray)
        {
            self.blocks.note_unheard(block, astray.meant);
        }
        let ends_lie = self.blocks.note_lie(now, chassis, taken, is_corrupting);
        let life = taken.sent.and_then(|sent| scene.life(sent.manager));
        // A new process cannot call back Sets that an earlier one sent before it was killed.
        let is_of_now = |life: &&Life| Some(life.client) == taken.by || self.is_outside;
        if life.is_some_and(|life| !is_of_now(&life)) {
            self.setters.note_bequeathed(now);
            self.blocks.note_bequeathed(taken);
        }
        let life = life.filter(is_of_now);
        match taken.is_late {
            true => Some(Rule::LateSet),
            false if self.is_outside => self.excuse_outside(now, taken.sent.map(|sent| sent.manager)),
            false => {
                let by = taken.sent.map(|sent| (sent.manager, sent.looked_at));
                let lie = ends_lie.then_some(Rule::LyingAgent);
                self.excuse_of(now, by, life).or(lie)
            }
        }
    }

    /// If there is exactly one master at this instant, returns the rule that excuses a violation by this master, and
    /// the time at which it last began a sweep or a probe.
    pub fn excuse_now(&self, scene: &Scene<'_>) -> (Option<Rule>, Option<Time>) {
        let ids = (0..scene.managers.len()).map(ManagerId);
        let lives = ids.filter_map(|id| Some((id, scene.life(id)?)));
        let mut masters = lives.filter(|(_, life)| life.sm.role() == Role::Master);
        match (masters.next(), masters.next()) {
            (Some((id, life)), None) => {
                let looked_at = life.looks.looked_at();
                (self.excuse_of(scene.now, Some((id, looked_at)), Some(life)), looked_at)
            }
            _ => (Some(Rule::SeveralMasters), None),
        }
    }

    /// Returns the rule that excuses harm done by a Set that an agent has just executed.
    fn excuse_of(&self, now: Time, by: Option<(ManagerId, Option<Time>)>, life: Option<&Life>) -> Option<Rule> {
        let (Some((manager, looked_at)), Some(life)) = (by, life) else {
            // A flipped bit changed its transaction id, or its manager does not run any more.
            return Some(self.nobody_s());
        };
        let since = looked_at.unwrap_or(Time::ZERO);
        if self.faults.echoes_flipped_bits(since.min(now)) {
            return Some(Rule::CorruptMedium);
        }
        // A manager relies on the tables of its last sweep until the next one.
        let swept_at = life.looks.swept_at().map_or(since, |at| at.min(since));
        // A probe reads no tables.
        let is_unaware = |at: Time| at >= since || at >= swept_at && at + TWO_MASTERS_MAX >= now;
        if self.setters.last_of_others(manager).is_some_and(is_unaware) {
            return Some(Rule::SeveralMasters);
        }
        // A Set of an earlier process came after the tables were read: as if another master had sent it.
        if self.setters.bequeathed().is_some_and(is_unaware) {
            return Some(Rule::LateSet);
        }
        self.unnoticed_since(since)
    }

    /// Returns the rule that excuses harm done by a Set of a program.
    fn excuse_outside(&self, now: Time, manager: Option<ManagerId>) -> Option<Rule> {
        let Some(manager) = manager else {
            return Some(self.nobody_s());
        };
        let lately = |at: Time| at + LOOKED_WITHIN >= now;
        let since = Time(
            now.0
                .saturating_sub(u64::try_from(LOOKED_WITHIN.as_nanos()).unwrap_or(u64::MAX)),
        );
        if self.faults.corrupted_since(since) {
            return Some(Rule::CorruptMedium);
        }
        if self.setters.last_of_others(manager).is_some_and(lately) {
            return Some(Rule::SeveralMasters);
        }
        self.unnoticed_since(since)
    }

    /// Returns the rule that excuses harm done by a Set of an unknown manager.
    const fn nobody_s(&self) -> Rule {
        match self.faults.is_corrupting() {
            true => Rule::CorruptMedium,
            false => Rule::LateSet,
        }
    }

    /// Returns the rule for events after a manager's last sweep or probe, which it cannot know.
    fn unnoticed_since(&self, since: Time) -> Option<Rule> {
        if self.faults.disturbed_since(since) {
            return Some(Rule::Overtaken);
        }
        if self.blocks.lied_since(since) {
            return Some(Rule::LyingAgent);
        }
        self.faults.cloned_since(since).then_some(Rule::ClonedGuid)
    }

    /// Returns the rule that excuses packets which are misrouted because a block reached the wrong switch over a moved
    /// cable. It applies until a trap about the moved cable has reached the manager, or should have been repeated.
    pub fn unheard_excuse(&self, looked_at: Option<Time>, now: Time) -> Option<Rule> {
        let since = looked_at.unwrap_or(Time::ZERO);
        let are_out = self.blocks.is_any_stray(Rule::Unheard);
        self.cables.is_unheard(since, now, are_out).then_some(Rule::Unheard)
    }

    /// Returns the rule that excuses a credit loop in which some packets were forwarded by an entry before it changed.
    /// Such a loop is excused if the manager could not know the old entry: the master before it wrote the entry a
    /// moment ago, or the switch showed another node's GUID when this manager wrote it.
    pub fn ghost_excuse(&self, oldest: Time, by: Option<&Manager>) -> Option<Rule> {
        let started = by.and_then(|manager| manager.life.as_ref()).map(|life| life.started);
        let is_older = !self.is_outside && started.is_none_or(|started| oldest <= started);
        // The master before may have ended at any time since.
        let is_by = |last: Option<Time>| last.is_some_and(|last| oldest <= last);
        if is_older || is_by(self.setters.master_changed()) || is_by(self.setters.bequeathed()) {
            return Some(Rule::Predecessor);
        }
        is_by(self.faults.cloned()).then_some(Rule::ClonedGuid)
    }

    /// Returns the rule that excuses a forwarding loop closed by a Set. It applies if a switch in the loop has a silent
    /// agent: then the manager that sent the Set does not know of the switch.
    pub fn circle_excuse(&self, scene: &Scene<'_>, nodes: &[NodeIdx], by: Option<&Manager>) -> Option<Rule> {
        if self.is_outside {
            return self.faults.is_blind(scene.now).then_some(Rule::Unseen);
        }
        let chassis = scene.chassis();
        let life = by.and_then(|manager| manager.life.as_ref());
        let accepted = life.and_then(|life| life.plans.accepted());
        let is_seen =
            |&node: &NodeIdx| accepted.is_some_and(|plan| plan.fabric.find(chassis.node_guid(node)).is_some());
        (!nodes.iter().all(is_seen)).then_some(Rule::Unseen)
    }

    /// Returns the rule that excuses a credit loop at these ports. It applies if the manager does not know of a switch
    /// with a silent agent, or of a link that no MAD passes.
    pub fn channels_excuse(&self, scene: &Scene<'_>, ports: &[PortIdx], by: Option<&Manager>) -> Option<Rule> {
        let chassis = scene.chassis();
        let nodes: Vec<NodeIdx> = ports.iter().map(|&port| chassis.wire(port).node()).collect();
        let life = by.and_then(|manager| manager.life.as_ref());
        let is_unseen = |port: &PortIdx| {
            life.is_some_and(|life| !self.is_outside && self.links.is_unseen(life.client, chassis, *port))
        };
        let unseen = || ports.iter().any(is_unseen).then_some(Rule::UnseenLink);
        self.circle_excuse(scene, &nodes, by).or_else(unseen)
    }
}
