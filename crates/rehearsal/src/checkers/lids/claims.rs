//! LIDs that managers believe to be held by ports: one record per manager, port and LIDs.

use std::collections::{BTreeMap, BTreeSet};

use selvedge_chassis::Chassis;
use selvedge_sim::Time;
use selvedge_types::{Guid, Lid, LidRange};
use selvedge_wire::AttributeId;

use crate::checkers::taken::Taken;
use crate::manager::ManagerId;

/// A manager, a port, and LIDs.
pub(super) type Key = (ManagerId, Guid, LidRange);

/// Why a manager's belief about a port's LIDs is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Doubt {
    /// The LIDs were first stored while bits were flipped, and may result from a flipped bit.
    Misread,
    /// The port had lost the LIDs before the manager swept, so the manager chose these by chance.
    Guessed,
    /// The manager assigned other LIDs before the port held the stored ones.
    Dropped,
    /// Another manager gave these LIDs to the port. This manager believes that the port holds other LIDs, and has not
    /// read the port since.
    Unheard,
}

/// One manager's belief that a port holds, or held, certain LIDs.
#[derive(Clone, Debug, Default)]
struct Claim {
    /// `None`: the manager has not stored the LIDs. The inner value is the time at which the manager's last sweep or
    /// probe before storing them began; `None` as soon as the port holds the LIDs.
    stored: Option<Option<Time>>,
    /// When the manager stored other LIDs instead.
    replaced: Option<Time>,
    doubts: BTreeSet<Doubt>,
}

/// Beliefs of all managers.
#[derive(Clone, Debug, Default)]
pub(super) struct Claims {
    claims: BTreeMap<Key, Claim>,
    /// LIDs that each manager believes to be held by each port, and whether the port has held them since.
    believed: BTreeMap<(ManagerId, Guid), (LidRange, bool)>,
    /// Base LIDs that a Set was to give a port and gave another port, because a cable had been moved.
    mistaken: BTreeSet<(ManagerId, Guid, Lid)>,
}

impl Claims {
    fn of(&mut self, key: Key) -> &mut Claim {
        self.claims.entry(key).or_default()
    }

    fn has(&self, key: Key, doubt: Doubt) -> bool {
        self.claims.get(&key).is_some_and(|claim| claim.doubts.contains(&doubt))
    }

    fn settle(&mut self, key: Key, doubts: &[Doubt]) {
        if let Some(claim) = self.claims.get_mut(&key) {
            claim.doubts.retain(|doubt| !doubts.contains(doubt));
        }
    }

    /// Records LIDs of a port that a manager stored. Arguments: the time, the time at which the manager began its last
    /// sweep or probe, the LIDs that the port held last, whether bits may be flipped, and whether the port has lost the
    /// LIDs.
    pub fn stored(
        &mut self,
        key: Key,
        (now, looked_at): (Time, Option<Time>),
        held_last: Option<LidRange>,
        (is_echo, is_lost): (bool, impl FnOnce() -> bool),
    ) {
        let is_new = self.believes(key, now, held_last);
        let claim = self.of(key);
        if claim.stored.is_some() {
            if is_new {
                claim.stored = Some(looked_at);
            }
            return;
        }
        claim.stored = Some(looked_at);
        claim.doubts.extend(is_echo.then_some(Doubt::Misread));
        claim.doubts.extend(is_lost().then_some(Doubt::Guessed));
    }

    /// Records that a manager believes these LIDs to be held by a port. If the port never held the LIDs that the
    /// manager believed before, those are marked as doubtful: if another manager gives them to the port later, this
    /// manager gets no notice. Returns true if the manager believed other LIDs, or none, until now.
    fn believes(&mut self, key: Key, now: Time, held_last: Option<LidRange>) -> bool {
        let (id, guid, range) = key;
        let before = self.believed.get(&(id, guid)).copied();
        let other = before.filter(|(other, _)| *other != range);
        if let Some((other, was_held)) = other {
            let claim = self.of((id, guid, other));
            claim.replaced = Some(now);
            claim.doubts.extend((!was_held).then_some(Doubt::Dropped));
            if other.base != range.base {
                self.mistaken.remove(&(id, guid, other.base));
            }
        }
        self.of(key).replaced = None;
        self.settle(key, &[Doubt::Dropped, Doubt::Unheard]);
        let was_held = held_last == Some(range) || before == Some((range, true));
        self.believed.insert((id, guid), (range, was_held));
        other.is_some() || before.is_none()
    }

    /// Records that a program has set these LIDs, and must keep them for the port.
    pub fn keep(&mut self, key: Key) {
        self.of(key).stored = Some(None);
    }

    /// True if a manager ever stored these LIDs of a port.
    pub fn is_stored(&self, key: Key) -> bool {
        self.claims.get(&key).is_some_and(|claim| claim.stored.is_some())
    }

    /// True if a manager had stored these LIDs of a port when it sent a Set of them. A Set that was sent before the
    /// manager stored other LIDs counts too, because it may arrive late.
    pub fn was_stored(&self, key: Key, sent_at: Time) -> bool {
        let is_still = |claim: &Claim| claim.replaced.is_none_or(|replaced| sent_at <= replaced);
        let claim = self.claims.get(&key);
        claim.is_some_and(|claim| claim.stored.is_some() && is_still(claim))
    }

    /// Returns when the manager began its last sweep or probe before it stored these LIDs of a port. `None` if the port
    /// has held the LIDs since they were stored.
    pub fn planned(&self, key: Key) -> Option<Time> {
        self.claims.get(&key)?.stored?
    }

    /// Records the LIDs that a port holds now, and the manager that set them, if known. Managers that believe other
    /// LIDs get no notice of this, even if they once gave the port these LIDs.
    pub fn is_held(&mut self, guid: Guid, range: LidRange, by: Option<ManagerId>) {
        let of_port = self.believed.iter_mut().filter(|((_, of), _)| *of == guid);
        for (&(id, _), (believed, was_held)) in of_port {
            *was_held |= *believed == range;
            let is_unheard = by.is_some_and(|by| by != id) && *believed != range;
            if let Some(claim) = self.claims.get_mut(&(id, guid, range)) {
                claim.stored = claim.stored.map(|_| None);
            }
            if is_unheard {
                let claim = self.claims.entry((id, guid, range)).or_default();
                claim.doubts.insert(Doubt::Unheard);
            }
        }
        if let Some(id) = by {
            self.settle((id, guid, range), &[Doubt::Guessed, Doubt::Dropped, Doubt::Unheard]);
        }
    }

    /// Records a Set of a port's LIDs that reached the port of another node over a moved cable. The answer may look
    /// like that of the intended port. The manager then believes that the intended port holds those LIDs.
    pub fn note_astray(&mut self, chassis: &Chassis, taken: &Taken) {
        let astray = taken.sent.and_then(|sent| Some((sent.manager, sent.astray?)));
        let Some((manager, astray)) = astray.filter(|(_, astray)| astray.meant != taken.node) else {
            return;
        };
        if taken.attribute == AttributeId::LINEAR_FORWARDING {
            return;
        }
        let port = |node| chassis.port_at(node, u8::try_from(taken.modifier & 0xff).ok()?);
        let end_port = |node| port(node).filter(|&port| chassis.end_port(port) == port);
        if let (Some(meant), Some(taken)) = (end_port(astray.meant), end_port(taken.node)) {
            let lids = chassis.port(taken).settings().lids;
            self.mistaken.insert((manager, chassis.port_guid(meant), lids.base));
        }
    }

    /// True if a manager knew that a port had these LIDs. `is_kept` is true if the port has kept the LIDs until now,
    /// and false if it came back without them.
    pub fn knew(&self, key: Key, is_kept: bool) -> bool {
        let has_heard = is_kept || !self.has(key, Doubt::Unheard);
        let is_no_guess = !self.has(key, Doubt::Guessed) && !self.has(key, Doubt::Dropped);
        self.is_stored(key) && is_no_guess && has_heard
    }

    /// True if the LIDs may come from a flipped bit.
    pub fn is_misread(&self, key: Key) -> bool {
        self.has(key, Doubt::Misread)
    }

    /// True if a Set was to give the port these LIDs, and another port took it.
    pub fn is_mistaken(&self, (id, guid, range): Key) -> bool {
        self.mistaken.contains(&(id, guid, range.base))
    }
}

#[cfg(test)]
mod tests {
    use selvedge_types::Lmc;

    use super::*;

    const A: ManagerId = ManagerId(0);
    const PORT: Guid = Guid(7);

    fn key(base: u16) -> Key {
        let (base, lmc) = (Lid(base), Lmc::ZERO);
        (A, PORT, LidRange { base, lmc })
    }

    /// Returns the beliefs of a manager that stored these (second, LID) of a port, each after a sweep at the same time.
    fn claims(stored: &[(u64, u16)]) -> Claims {
        let mut claims = Claims::default();
        for &(at, base) in stored {
            store(&mut claims, at, base);
        }
        claims
    }

    fn store(claims: &mut Claims, at: u64, base: u16) {
        let at = Time::from_secs(at);
        claims.stored(key(base), (at, Some(at)), None, (false, || false));
    }

    #[test]
    fn what_is_sent_is_stored_by_then() {
        let check = |stored: &[(u64, u16)], sent_at: u64, base: u16, want: bool| {
            let found = claims(stored).was_stored(key(base), Time::from_secs(sent_at));
            assert_eq!(found, want, "{stored:?} {sent_at} {base}");
        };
        check(&[(1, 5)], 1, 5, true);
        check(&[(1, 5)], 1, 6, false);
        // The Set was in flight when other LIDs were stored; or was sent after that.
        check(&[(1, 5), (3, 9)], 2, 5, true);
        check(&[(1, 5), (3, 9)], 4, 5, false);
        check(&[(1, 5), (3, 9), (5, 5)], 6, 5, true);
    }

    #[test]
    fn what_was_planned_counts_until_the_port_has_it() {
        // LIDs stored, by second; whether the port took the first of them after that; and since when they are planned.
        let check = |stored: &[(u64, u16)], is_held: bool, want: Option<u64>| {
            let mut claims = claims(&stored[..1]);
            if is_held {
                let (_, guid, range) = key(5);
                claims.is_held(guid, range, Some(A));
            }
            for &(at, base) in &stored[1..] {
                store(&mut claims, at, base);
            }
            assert_eq!(
                claims.planned(key(5)),
                want.map(Time::from_secs),
                "{stored:?} {is_held}"
            );
        };
        check(&[(1, 5)], false, Some(1));
        check(&[(1, 5)], true, None);
        check(&[(1, 5), (2, 5)], true, None);
        check(&[(1, 5), (2, 6), (3, 5)], false, Some(3));
        check(&[(1, 5), (2, 6), (3, 5)], true, Some(3));
    }
}
