//! Ports keep their LIDs: what every Set of one is held against, and what its manager can have known.

use std::collections::btree_map::Entry;
use std::time::Duration;

use selvedge_chassis::Chassis;
use selvedge_fabric::NodeIdx;
use selvedge_sim::Time;
use selvedge_sm::PersistentState;
use selvedge_types::{Guid, LidRange};
use selvedge_wire::AttributeId;

use super::channels::lifetime;
use super::lids::Moved;
use super::{Checker, Rule, Sent, Watcher};
use crate::Violation;
use crate::manager::{Manager, ManagerId};

impl Watcher {
    /// A manager is told that its state is stored; when it had last begun to look.
    pub fn stored(&mut self, id: ManagerId, looked_at: Option<Time>, state: &PersistentState, chassis: &Chassis) {
        let is_after_faults = looked_at.is_some_and(|looked_at| self.disturbed.is_none_or(|at| at < looked_at));
        for (&guid, &range) in &state.lids {
            let is_new = self.believes((id, guid), range);
            match self.stored.entry((id, guid, range)) {
                Entry::Occupied(mut known) => {
                    if is_new {
                        known.insert(looked_at);
                    }
                    continue;
                }
                Entry::Vacant(place) => drop(place.insert(looked_at)),
            }
            if self.echoes_flipped_bits(self.now) {
                self.misread.insert((id, guid, range));
            }
            // Nothing that it could see told it so; of a plan that is never sent nobody else hears.
            if is_after_faults && self.lids.is_lost(chassis, guid, range) {
                self.guessed.insert((id, guid, range));
            }
        }
    }

    /// A manager takes these for a port's LIDs. What it took for them before is no knowledge, if the port had never
    /// held it by then: when another manager gives it to the port later, this one hears nothing of that. True if it
    /// took them to be others, or none, until now.
    fn believes(&mut self, (id, guid): (ManagerId, Guid), range: LidRange) -> bool {
        let before = self.believed.get(&(id, guid)).copied();
        let is_new = before.is_none_or(|(other, _)| other != range);
        if let Some((other, _)) = before.filter(|_| is_new) {
            self.replaced.insert((id, guid, other), self.now);
            if other.base != range.base {
                self.mistaken.remove(&(id, guid, other.base));
            }
        }
        self.replaced.remove(&(id, guid, range));
        let was_held = self.lids.held_last(guid) == Some(range) || before == Some((range, true));
        if let Some((other, false)) = before.filter(|(other, _)| *other != range) {
            self.dropped.insert((id, guid, other));
        }
        self.dropped.remove(&(id, guid, range));
        self.unheard.remove(&(id, guid, range));
        self.believed.insert((id, guid), (range, was_held));
        is_new
    }

    /// True if a manager had stored LIDs of a port when it sent a Set of them, or a Set that had been stored before was
    /// under way: what was sent long ago may be taken now, and the port is to have others by then.
    fn was_stored(&self, sent: Sent, (guid, range): (Guid, LidRange)) -> bool {
        let key = (sent.manager, guid, range);
        let is_still = self.replaced.get(&key).is_none_or(|replaced| sent.at <= *replaced);
        self.stored.contains_key(&key) && is_still
    }

    /// A port holds these LIDs now, by whose Set if that is known. Others who take it to have others hear nothing of
    /// it, also if they gave it these once, before they gave it what they take it to have.
    fn is_held(&mut self, guid: Guid, range: LidRange, by: Option<ManagerId>) {
        let of_port = self.believed.iter_mut().filter(|((_, of), _)| *of == guid);
        for (&(id, _), (believed, was_held)) in of_port {
            *was_held |= *believed == range;
            if by.is_some_and(|by| by != id) && *believed != range {
                self.unheard.insert((id, guid, range));
            }
            if let Some(planned) = self.stored.get_mut(&(id, guid, range)) {
                *planned = None;
            }
        }
        if let Some(id) = by {
            self.guessed.remove(&(id, guid, range));
            self.dropped.remove(&(id, guid, range));
            self.unheard.remove(&(id, guid, range));
        }
    }

    /// Looks at what a Set of PortInfo gave the ports of a node; true if they hold other LIDs than before.
    pub(super) fn lids_stay(
        &mut self,
        chassis: &Chassis,
        (node, attribute): (NodeIdx, AttributeId),
        (sent, manager): (Option<Sent>, Option<&Manager>),
        excuse: Option<Rule>,
    ) -> Result<bool, Violation> {
        if attribute != AttributeId::PORT_INFO {
            return Ok(false);
        }
        let id = sent.map(|sent| sent.manager);
        let (held, moved) = self.lids.take(chassis, node);
        // What its manager had stored for the port was meant for it.
        let was_meant = id
            .zip(moved)
            .is_some_and(|(id, moved)| self.stored.contains_key(&(id, moved.guid(), moved.now())));
        if let (Some(id), Some((port, range)), true) = (id, held, self.counting.is_some()) {
            // What it has set it is to keep: it has a file for that.
            self.unique_outside(chassis, (port, range), excuse)?;
            self.stored.insert((id, chassis.port_guid(port), range), None);
        } else if let (Some(manager), Some((port, range))) = (manager, held) {
            let guid = chassis.port_guid(port);
            let was_stored = sent.is_some_and(|sent| self.was_stored(sent, (guid, range)));
            if !was_stored && manager.stored.lids.get(&guid) != Some(&range) {
                let (manager, lid) = (manager.name.clone(), range.base);
                let is_cloned = self.lids.is_cloned(guid);
                let excuse = excuse.or(is_cloned.then_some(Rule::ClonedGuid));
                let port = chassis.fabric().port_name(chassis.port_ref(port));
                self.judge(Checker::Stored, excuse, || Violation::NotStored { manager, port, lid })?;
            }
        }
        // The port may have taken what an earlier plan gave it, though nobody saw it.
        let planned = id
            .zip(moved)
            .and_then(|(id, moved)| *self.stored.get(&(id, moved.guid(), moved.now()))?);
        if let Some((port, range)) = held {
            self.is_held(chassis.port_guid(port), range, id);
        }
        let Some(moved) = moved else { return Ok(held.is_some()) };
        let knew = id.is_some_and(|id| {
            let claim = (id, moved.guid(), moved.before());
            let has_heard = moved.is_kept() || !self.unheard.contains(&claim);
            let is_no_guess = !self.guessed.contains(&claim) && !self.dropped.contains(&claim);
            self.stored.contains_key(&claim) && is_no_guess && has_heard
        });
        if excuse.is_some() && !was_meant {
            self.lids.went_astray(&moved);
        }
        let looked_at = manager.and_then(|manager| manager.life.as_ref()?.looked_at);
        let was_held = [looked_at, planned]
            .into_iter()
            .any(|looked_at| self.lids.was_held_by_another(&moved, looked_at, drain(chassis)))
            || manager.is_some_and(|manager| self.lids.is_anothers_again(&moved, &manager.stored.lids));
        self.lids.note_left(&moved, self.now);
        let excuse = self.lids.excuse(chassis, &moved, knew).or(excuse);
        let excuse = excuse.or(was_held.then_some(Rule::LidConflict));
        // A switch has one LID, whatever the policy.
        let is_asked_to = manager
            .filter(|_| !chassis.is_switch(node))
            .is_some_and(|manager| moved.must_begin_elsewhere(manager.config.policy.lmc));
        let excuse = excuse.or(is_asked_to.then_some(Rule::OtherLids));
        let excuse = excuse.or_else(|| self.error_excuse(chassis, (id?, manager?), &moved));
        self.judge(Checker::Lids, excuse, || moved.violation(chassis))?;
        Ok(true)
    }

    /// Why a manager may take a port that came back without LIDs to have had some that it never had: a flipped bit, or
    /// another one that took them. Or to have had none, as it takes those for somebody's whose GUID is one bit off, and
    /// who is nobody.
    fn error_excuse(&self, chassis: &Chassis, (id, manager): (ManagerId, &Manager), moved: &Moved) -> Option<Rule> {
        if moved.is_kept() {
            return None;
        }
        let exists = |guid: Guid| chassis.fabric().end_ports().any(|(_, port)| port.guid == guid);
        let is_flipped_guid = |(guid, range): (&Guid, &LidRange)| {
            let is_near = (guid.0 ^ moved.guid().0).is_power_of_two();
            is_near && range.contains(moved.before().base) && !exists(*guid)
        };
        let has_flipped_guid = self.corrupted.is_some() && manager.stored.lids.iter().any(is_flipped_guid);
        let is_off = moved.is_off_by_a_bit() && self.misread.contains(&(id, moved.guid(), moved.now()));
        let is_misread = is_off || has_flipped_guid;
        let is_mistaken = self.mistaken.contains(&(id, moved.guid(), moved.now().base));
        let mistaken = is_mistaken.then_some(Rule::NeverKnown);
        is_misread.then_some(Rule::CorruptMedium).or(mistaken)
    }
}

/// How long packets may be under way that meet every switch: a packet lives as long as each lets it.
fn drain(chassis: &Chassis) -> Duration {
    let switches = chassis
        .fabric()
        .nodes()
        .indices()
        .filter(|&node| chassis.is_switch(node));
    switches.map(|node| lifetime(chassis, node)).sum()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use selvedge_emulator::{Emulator, EmulatorConfig};
    use selvedge_sim::Seed;
    use selvedge_types::{Lid, Lmc};

    use super::*;
    use crate::watch::heard::tests::row;

    const A: ManagerId = ManagerId(0);
    const PORT: Guid = Guid(7);

    fn range(base: u16) -> LidRange {
        LidRange {
            base: Lid(base),
            lmc: Lmc::ZERO,
        }
    }

    /// Somebody who has seen a manager store these LIDs of a port, at these seconds, as it had looked then.
    fn who_saw_stored(stored: &[(u64, u16)]) -> Watcher {
        let mut emulator = Emulator::new(&row(), EmulatorConfig::default(), Seed(1));
        let mut watcher = Watcher::new(&mut emulator);
        for &(at, base) in stored {
            watcher.now = Time::from_secs(at);
            let state = PersistentState {
                lids: BTreeMap::from([(PORT, range(base))]),
                ..PersistentState::default()
            };
            watcher.stored(A, Some(Time::from_secs(at)), &state, emulator.chassis());
        }
        watcher
    }

    #[test]
    fn what_is_sent_is_stored_by_then() {
        let check = |stored: &[(u64, u16)], sent_at: u64, base: u16, want: bool| {
            let sent = Sent {
                manager: A,
                content: 0,
                serial: 1,
                at: Time::from_secs(sent_at),
                looked_at: None,
                to: None,
                astray: None,
            };
            let found = who_saw_stored(stored).was_stored(sent, (PORT, range(base)));
            assert_eq!(found, want, "{stored:?} {sent_at} {base}");
        };
        check(&[(1, 5)], 1, 5, true);
        check(&[(1, 5)], 1, 6, false);
        // It was under way when others were stored; or was sent after that.
        check(&[(1, 5), (3, 9)], 2, 5, true);
        check(&[(1, 5), (3, 9)], 4, 5, false);
        check(&[(1, 5), (3, 9), (5, 5)], 6, 5, true);
    }

    #[test]
    fn what_was_planned_counts_until_the_port_has_it() {
        // What was stored when, whether the port took the first of it after that, and since when it is planned.
        let check = |stored: &[(u64, u16)], is_held: bool, want: Option<u64>| {
            let mut watcher = who_saw_stored(&stored[..1]);
            if is_held {
                watcher.is_held(PORT, range(5), Some(A));
            }
            let (now, after) = (Time::from_secs(9), who_saw_stored(stored));
            watcher.now = now;
            for &(at, base) in &stored[1..] {
                if watcher.believes((A, PORT), range(base)) {
                    let looked_at = Some(Time::from_secs(at));
                    watcher.stored.insert((A, PORT, range(base)), looked_at);
                }
            }
            let planned = |watcher: &Watcher| watcher.stored[&(A, PORT, range(5))];
            assert_eq!(planned(&watcher), want.map(Time::from_secs), "{stored:?} {is_held}");
            if !is_held {
                assert_eq!(planned(&after), want.map(Time::from_secs), "{stored:?}");
            }
        };
        check(&[(1, 5)], false, Some(1));
        check(&[(1, 5)], true, None);
        check(&[(1, 5), (2, 5)], true, None);
        check(&[(1, 5), (2, 6), (3, 5)], false, Some(3));
        check(&[(1, 5), (2, 6), (3, 5)], true, Some(3));
    }
}
