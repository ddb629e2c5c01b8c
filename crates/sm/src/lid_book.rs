//! Which LIDs are whose: those of the last plan, and those that ports held before it until they have taken them.
//!
//! A plan's LIDs are stored before any Set goes out, so that nothing an agent may hold is forgotten. A port that was
//! away meanwhile, or whose Set was not sent because the next plan came, holds what it held before: if it then loses
//! its power, that is what hosts know it by.

use std::collections::{BTreeMap, BTreeSet};

use selvedge_fabric::{Fabric, Port};
use selvedge_plan::{Lids, Policy};
use selvedge_types::{Guid, Lid, LidRange};

use crate::io::PersistentState;

/// LIDs by port GUID.
#[derive(Clone, Debug, Default)]
pub struct LidBook {
    /// Those of the last plan that had the port.
    pub planned: BTreeMap<Guid, LidRange>,
    /// What ports were last known to hold that have not been seen to hold those.
    pub before: BTreeMap<Guid, LidRange>,
    /// Ports that have not been seen to hold what was planned for them in this life.
    unseen: BTreeSet<Guid>,
    /// Those of whom nothing was read since that says so: somebody took the Set, and where a cable was moved
    /// meanwhile, it was somebody else.
    unread: BTreeSet<Guid>,
    /// What those were known to hold before.
    left: BTreeMap<Guid, LidRange>,
    /// What was planned, until the last plan was made, for ports that hold nothing.
    planned_until: BTreeMap<Guid, LidRange>,
    /// Ports that were stored and have not been seen with their LIDs in this life: a Set of an earlier life may have
    /// gone to somebody else.
    unproven: BTreeSet<Guid>,
    /// How many were stored by an earlier life.
    stored: usize,
    /// None of those has been met, and too few others to say that they are another fabric's.
    pub is_doubted: bool,
}

impl LidBook {
    /// What was stored.
    pub fn stored(state: &PersistentState) -> Self {
        Self {
            planned: state.lids.clone(),
            before: state.lids_before.clone(),
            unseen: BTreeSet::new(),
            unread: BTreeSet::new(),
            left: BTreeMap::new(),
            planned_until: BTreeMap::new(),
            unproven: state.lids.keys().copied().collect(),
            stored: state.lids.len(),
            is_doubted: false,
        }
    }

    /// True if nobody's LID is known: there has been no life before, or its state is gone.
    pub fn is_empty(&self) -> bool {
        self.planned.is_empty() && self.before.is_empty()
    }

    /// Ports whose LIDs are known.
    pub fn guids(&self) -> impl Iterator<Item = Guid> + '_ {
        self.planned.keys().copied()
    }

    fn is_untried(&self, guid: Guid) -> bool {
        self.unproven.contains(&guid) && !self.unseen.contains(&guid)
    }

    /// How many ports an earlier life has stored, if this one has met none of them and none is in the fabric. Once
    /// others have been given LIDs that is looked at no longer, unless they were too few to say whose those are.
    pub fn none_met(&self, fabric: &Fabric) -> Option<usize> {
        let untried = self.planned.keys().filter(|&&guid| self.is_untried(guid)).count();
        let may_be_foreign = self.is_doubted || untried == self.planned.len();
        let is_here = || fabric.end_ports().any(|(_, port)| self.is_untried(port.guid));
        (untried > 0 && untried == self.stored && may_be_foreign && !is_here()).then_some(untried)
    }

    /// Nothing of what an earlier life has stored is to be counted with.
    pub fn forget_untried(&mut self) {
        let untried: Vec<Guid> = self
            .planned
            .keys()
            .copied()
            .filter(|&guid| self.is_untried(guid))
            .collect();
        for guid in untried {
            self.planned.remove(&guid);
            self.unproven.remove(&guid);
        }
        let planned = &self.planned;
        self.before.retain(|guid, _| planned.contains_key(guid));
        self.stored = 0;
    }

    /// True if a port holds what was planned for it, or what it was known to hold before.
    pub fn is_stored(&self, port: &Port) -> bool {
        let known = [self.planned.get(&port.guid), self.before.get(&port.guid)];
        known
            .into_iter()
            .flatten()
            .any(|known| known.base == port.settings.lids.base)
    }

    /// Ports that hold others than any that they are known by.
    pub fn strangers(&self, fabric: &Fabric) -> BTreeSet<Guid> {
        let is_other = |port: &Port| {
            let known = [self.planned.get(&port.guid), self.before.get(&port.guid)];
            let held = port.settings.lids;
            held.base.is_unicast() && known != [None, None] && !known.contains(&Some(&held))
        };
        let ports = fabric.end_ports().filter(|(_, port)| is_other(port));
        ports.map(|(_, port)| port.guid).collect()
    }

    /// What each port is known by, and what it may hold instead. A port may have taken the LIDs of the last plan though
    /// nobody saw it; where that is of another LMC than is wanted now, those before count.
    pub fn known(&self, policy: &Policy) -> (BTreeMap<Guid, LidRange>, Vec<LidRange>) {
        let mut known = self.planned.clone();
        let mut spared = Vec::new();
        for (guid, &before) in &self.before {
            let Some(range) = known.get_mut(guid) else { continue };
            match range.lmc == before.lmc || range.lmc == policy.lmc {
                true => spared.push(before),
                false => spared.push(std::mem::replace(range, before)),
            }
        }
        for guid in self.doubtful(&known) {
            spared.extend(known.remove(&guid));
            known.extend(self.left.get(&guid).map(|&left| (guid, left)));
        }
        (known, spared)
    }

    /// Ports by whose answers alone they have their LIDs, while another one is known by them that was read to hold
    /// them: they were meant for the one and went to the other.
    fn doubtful(&self, known: &BTreeMap<Guid, LidRange>) -> Vec<Guid> {
        let is_unread = |guid: &Guid| self.unread.contains(guid);
        let is_proven = |guid: &Guid| !is_unread(guid) && !self.unproven.contains(guid);
        let proven = known.iter().filter(|(guid, _)| is_proven(guid));
        let of_proven: BTreeSet<Lid> = match self.unread.is_empty() {
            true => BTreeSet::new(),
            false => proven.flat_map(|(_, range)| range.iter()).collect(),
        };
        let is_of_another = |range: &LidRange| range.iter().any(|lid| of_proven.contains(&lid));
        let doubtful = known
            .iter()
            .filter(|(guid, range)| is_unread(guid) && is_of_another(range));
        doubtful.map(|(guid, _)| *guid).collect()
    }

    /// A plan is about to be stored, then applied to `fabric`.
    pub fn plan(&mut self, fabric: &Fabric, lids: &Lids) {
        self.planned_until.clear();
        for (at, range) in lids.iter() {
            let Some(port) = fabric.port(at) else { continue };
            let held = port.settings.lids;
            self.unseen.insert(port.guid);
            // Who has lost what it was read to hold, and gets it again, has no less a claim on it.
            let is_its_own = self.planned.get(&port.guid) == Some(&range) && !self.unproven.contains(&port.guid);
            if !is_its_own {
                self.unread.insert(port.guid);
            }
            if held == range {
                self.seen(port.guid);
            } else if held.base.is_unicast() {
                self.before.insert(port.guid, held);
            } else if let Some(&known) = self.planned.get(&port.guid).filter(|known| **known != range) {
                self.before.entry(port.guid).or_insert(known);
            }
            let planned = self.planned.insert(port.guid, range);
            if let Some(planned) = planned.filter(|_| !held.base.is_unicast()) {
                self.planned_until.insert(port.guid, planned);
            }
        }
        self.drop_untaken(|guid, lid| {
            let holder = lids.owner(lid).and_then(|at| fabric.port(at));
            holder.is_some_and(|port| port.guid != guid && port.settings.lids.contains(lid))
        });
    }

    /// Whoever never was seen to hold its LIDs has no claim on what somebody holds: they were given out while nobody
    /// knew of that one.
    fn drop_untaken(&mut self, is_of_another: impl Fn(Guid, Lid) -> bool) {
        let (unseen, unproven, before) = (&self.unseen, &self.unproven, &mut self.before);
        let is_unseen = |guid: &Guid| unseen.contains(guid) || unproven.contains(guid);
        let has_claim = |guid: &Guid, range: &LidRange| !range.iter().any(|lid| is_of_another(*guid, lid));
        self.planned.retain(|guid, range| {
            if !is_unseen(guid) || has_claim(guid, range) {
                return true;
            }
            // It may hold still what it held before.
            let held = before.remove(guid).filter(|held| has_claim(guid, held));
            *range = held.unwrap_or(*range);
            held.is_some()
        });
    }

    /// A plan was dropped before anything of it was sent: ports hold what they held. Who holds nothing is known by what
    /// it was known by until then. That may be the LIDs of an earlier plan, which it took though nobody saw it, and not
    /// those that it had before that one.
    pub fn withdraw(&mut self, fabric: &Fabric, lids: &Lids) {
        let planned_until = std::mem::take(&mut self.planned_until);
        for (at, range) in lids.iter() {
            let Some(port) = fabric.port(at) else { continue };
            if self.planned.get(&port.guid) != Some(&range) {
                continue;
            }
            if let Some(&planned) = planned_until.get(&port.guid) {
                self.planned.insert(port.guid, planned);
                if self.before.get(&port.guid) == Some(&planned) {
                    self.before.remove(&port.guid);
                }
            } else if let Some(before) = self.before.remove(&port.guid) {
                self.planned.insert(port.guid, before);
                if port.settings.lids == before {
                    self.unread.remove(&port.guid);
                }
            }
        }
    }

    /// It was read to hold what is planned for it.
    fn seen(&mut self, guid: Guid) {
        self.answered(guid);
        self.unread.remove(&guid);
        self.left.remove(&guid);
    }

    /// It has taken that, as far as answers tell.
    fn answered(&mut self, guid: Guid) {
        self.left.extend(self.before.remove(&guid).map(|before| (guid, before)));
        self.unseen.remove(&guid);
        self.unproven.remove(&guid);
    }

    /// What ports hold, as far as their answers tell, after a plan was applied, or a part of it.
    pub fn held(&mut self, fabric: &Fabric, lids: &Lids) {
        if self.before.is_empty() && self.unseen.is_empty() {
            return;
        }
        for (at, range) in lids.iter() {
            if let Some(port) = fabric.port(at).filter(|port| port.settings.lids == range) {
                self.answered(port.guid);
            }
        }
    }

    /// What ports hold that another manager takes care of. Where this one meant a LID for somebody who was not seen to
    /// take it, the other one has given it away: a later life, which is told claims and not who was seen, could not
    /// tell whose it is.
    pub fn of_another(&mut self, fabric: &Fabric) {
        let mut held = BTreeSet::new();
        for (_, port) in fabric
            .end_ports()
            .filter(|(_, port)| port.settings.lids.base.is_unicast())
        {
            self.seen(port.guid);
            self.planned.insert(port.guid, port.settings.lids);
            held.extend(port.settings.lids.iter());
        }
        // Who holds one itself was seen to just now, and keeps its claim.
        self.drop_untaken(|_, lid| held.contains(&lid));
    }
}

#[cfg(test)]
mod tests {
    use selvedge_fabric::{FabricBuilder, Node, PortRef};
    use selvedge_types::{Lmc, NodeKind, PortNum};

    use super::*;

    fn range(base: u16, lmc: u8) -> LidRange {
        LidRange {
            base: Lid(base),
            lmc: Lmc::new(lmc).unwrap(),
        }
    }

    /// A host with GUID 7 that holds LIDs, and a plan that gives it others.
    fn host(held: LidRange, planned: LidRange) -> (Fabric, Lids) {
        host_of(7, held, planned)
    }

    /// The same with another GUID.
    fn host_of(guid: u64, held: LidRange, planned: LidRange) -> (Fabric, Lids) {
        let mut builder = FabricBuilder::new();
        let port = PortNum::new(1).unwrap();
        let mut node = Node::new(NodeKind::Ca, Guid(guid), 1, "h");
        let settings = node.port_mut(port).unwrap();
        (settings.guid, settings.settings.lids) = (Guid(guid), held);
        builder.add(node);
        let fabric = builder.finish().unwrap();
        let node = fabric.find(Guid(guid)).unwrap();
        let mut lids = Lids::new();
        lids.insert(PortRef { node, port }, planned).unwrap();
        (fabric, lids)
    }

    /// Plans one after another, each with what the port holds when it is made and after it: what the port is known by
    /// in the end, under some LMC, and what it may hold instead.
    fn check(plans: &[(LidRange, LidRange, LidRange)], lmc: u8, want: LidRange, spared: &[LidRange]) {
        let mut book = LidBook::default();
        for &(before, planned, after) in plans {
            let (fabric, lids) = host(before, planned);
            book.plan(&fabric, &lids);
            let (fabric, _) = host(after, planned);
            book.held(&fabric, &lids);
        }
        let policy = Policy {
            lmc: Lmc::new(lmc).unwrap(),
            ..Policy::default()
        };
        let (known, may_hold) = book.known(&policy);
        assert_eq!((known.get(&Guid(7)), &*may_hold), (Some(&want), spared), "{plans:?}");
    }

    #[test]
    fn who_holds_other_lids_than_it_is_known_by_is_a_stranger() {
        // What the host holds, and whether that is strange: it was planned to have 4, and had 8 before.
        let check = |held: LidRange, want: bool| {
            let (fabric, _) = host(held, range(4, 0));
            let mut book = LidBook::default();
            assert!(book.strangers(&fabric).is_empty(), "nobody knows it");
            book.planned.insert(Guid(7), range(4, 0));
            book.before.insert(Guid(7), range(8, 1));
            assert_eq!(!book.strangers(&fabric).is_empty(), want, "{held:?}");
        };
        check(range(4, 0), false);
        check(range(8, 1), false);
        check(LidRange::default(), false);
        check(range(4100, 0), true);
        check(range(8, 2), true);
    }

    #[test]
    fn who_never_had_its_lids_has_no_claim_on_what_somebody_has() {
        let check = |away: LidRange, (held, planned): (LidRange, LidRange), want: bool| {
            for was_seen in [false, true] {
                let mut book = LidBook::default();
                book.planned.insert(Guid(9), away);
                book.unseen.extend((!was_seen).then_some(Guid(9)));
                let (fabric, lids) = host(held, planned);
                book.plan(&fabric, &lids);
                let is_left = book.planned.contains_key(&Guid(9));
                assert_eq!(is_left, want || was_seen, "{away:?} {held:?}");
            }
        };
        let holds = |range: LidRange| (range, range);
        check(range(5, 0), holds(range(5, 0)), false);
        check(range(5, 0), holds(range(4, 1)), false);
        check(range(4, 1), holds(range(5, 0)), false);
        check(range(6, 0), holds(range(4, 1)), true);
        // It may never get it, or must give it up.
        check(range(5, 0), (LidRange::default(), range(5, 0)), true);
        check(range(5, 0), (range(5, 0), range(7, 0)), true);
    }

    #[test]
    fn what_another_master_gave_away_is_not_kept_for_who_never_took_it() {
        // The host 9 held LIDs and was to have others, which it took or not; another master has given some of those to
        // 7. What is stored of 9 then.
        let check = |(held, took): (LidRange, bool), of_7: LidRange, want: Option<LidRange>| {
            let mut book = LidBook::default();
            let (fabric, lids) = host_of(9, held, range(4, 1));
            book.plan(&fabric, &lids);
            let (fabric, _) = host_of(9, if took { range(4, 1) } else { held }, range(4, 1));
            book.held(&fabric, &lids);
            let (fabric, _) = host(of_7, of_7);
            book.of_another(&fabric);
            assert_eq!(book.planned.get(&Guid(9)), want.as_ref(), "{held:?} {took} {of_7:?}");
            assert_eq!(book.planned.get(&Guid(7)), Some(&of_7));
        };
        let none = LidRange::default();
        check((none, false), range(5, 0), None);
        check((range(8, 0), false), range(5, 0), Some(range(8, 0)));
        // It took them; nobody else has them.
        check((none, true), range(5, 0), Some(range(4, 1)));
        check((none, false), range(6, 0), Some(range(4, 1)));
        // It is there, and has them itself.
        let mut book = LidBook::default();
        let (fabric, lids) = host(none, range(5, 0));
        book.plan(&fabric, &lids);
        let (fabric, _) = host(range(5, 0), range(5, 0));
        book.of_another(&fabric);
        assert_eq!(book.planned, BTreeMap::from([(Guid(7), range(5, 0))]));
    }

    #[test]
    fn a_set_that_somebody_took_is_no_claim_on_what_another_was_read_to_hold() {
        let known = |book: &LidBook| book.known(&Policy::default());
        for was_read in [false, true] {
            let (mut book, none) = (LidBook::default(), LidRange::default());
            let reads = std::iter::once(none).chain(was_read.then_some(range(5, 0)));
            for held in reads {
                let (fabric, lids) = host_of(9, held, range(5, 0));
                book.plan(&fabric, &lids);
                let (fabric, lids) = host_of(9, range(5, 0), range(5, 0));
                book.held(&fabric, &lids);
            }
            assert_eq!(known(&book).0.get(&Guid(9)), Some(&range(5, 0)));
            // The Set of LID 5 that was meant for 9 may have gone to 7, over a cable that was moved.
            let (fabric, lids) = host(range(5, 0), range(5, 0));
            book.plan(&fabric, &lids);
            let (lids, spared) = known(&book);
            assert_eq!(lids.get(&Guid(7)), Some(&range(5, 0)));
            assert_eq!(
                (lids.contains_key(&Guid(9)), spared.len()),
                (was_read, usize::from(!was_read))
            );
            // It has others now: whose they were nobody doubts any more.
            let (fabric, lids) = host(range(8, 0), range(8, 0));
            book.plan(&fabric, &lids);
            assert_eq!(known(&book).0.get(&Guid(9)), Some(&range(5, 0)));
        }
    }

    #[test]
    fn what_a_port_was_read_to_hold_and_lost_is_its_own() {
        let (mut book, none) = (LidBook::default(), LidRange::default());
        // The host 7 held LID 5, and once it was read, a flipped bit showed another GUID.
        for (guid, held) in [(7, range(5, 0)), (9, range(5, 0)), (7, none), (7, none)] {
            let (fabric, lids) = host_of(guid, held, range(5, 0));
            book.plan(&fabric, &lids);
            let (known, _) = book.known(&Policy::default());
            assert_eq!(known.get(&Guid(7)), Some(&range(5, 0)), "{guid} {held:?}");
        }
    }

    #[test]
    fn who_has_no_claim_on_new_lids_has_one_on_the_old() {
        // The host 9 held LIDs and was to have others, which it never took: somebody else has one of these now.
        let check = |held: LidRange, of_another: LidRange, want: Option<LidRange>| {
            let mut book = LidBook::default();
            let (fabric, lids) = host_of(9, held, range(12, 2));
            book.plan(&fabric, &lids);
            let (fabric, lids) = host(of_another, of_another);
            book.plan(&fabric, &lids);
            let (known, _) = book.known(&Policy::default());
            assert_eq!(known.get(&Guid(9)), want.as_ref(), "{held:?} {of_another:?}");
            assert_eq!(book.planned.get(&Guid(9)), want.as_ref());
            assert!(book.before.is_empty());
        };
        check(range(12, 0), range(14, 0), Some(range(12, 0)));
        check(range(12, 1), range(12, 0), None);
        check(LidRange::default(), range(14, 0), None);
    }

    #[test]
    fn who_only_seemed_to_take_its_lids_is_known_by_the_old() {
        let mut book = LidBook::default();
        let (fabric, lids) = host_of(9, range(14, 0), range(5, 0));
        book.plan(&fabric, &lids);
        let (fabric, _) = host_of(9, range(5, 0), range(5, 0));
        book.held(&fabric, &lids);
        let known = |book: &LidBook| book.known(&Policy::default()).0.get(&Guid(9)).copied();
        assert_eq!(known(&book), Some(range(5, 0)));
        // The Set went to 7.
        let (fabric, lids) = host(range(5, 0), range(5, 0));
        book.plan(&fabric, &lids);
        assert_eq!(known(&book), Some(range(14, 0)));
        // It is back, with what it had.
        let (fabric, lids) = host_of(9, range(14, 0), range(14, 0));
        book.plan(&fabric, &lids);
        assert_eq!((known(&book), book.left.len()), (Some(range(14, 0)), 0));
    }

    #[test]
    fn what_was_only_stored_is_no_claim_on_what_somebody_has() {
        // Two claims on one LID are stored; whether the other port was seen with it since the start.
        for was_seen in [false, true] {
            let lids = BTreeMap::from([(Guid(7), range(5, 0)), (Guid(9), range(5, 0))]);
            let mut book = LidBook::stored(&PersistentState {
                lids,
                ..PersistentState::default()
            });
            if was_seen {
                book.seen(Guid(9));
            }
            let (fabric, lids) = host(range(5, 0), range(5, 0));
            book.plan(&fabric, &lids);
            assert_eq!(book.planned.contains_key(&Guid(9)), was_seen);
            assert!(book.planned.contains_key(&Guid(7)));
        }
    }

    #[test]
    fn none_is_met_until_a_port_of_what_was_stored_is_there_or_others_have_lids() {
        let check = |guid: u64, is_doubted: bool, want: (Option<usize>, Option<usize>)| {
            let mut book = LidBook::stored(&PersistentState {
                lids: BTreeMap::from([(Guid(7), range(5, 0))]),
                ..PersistentState::default()
            });
            let (fabric, lids) = host_of(guid, LidRange::default(), range(6, 0));
            let before = book.none_met(&fabric);
            book.is_doubted = is_doubted;
            book.plan(&fabric, &lids);
            let (others, _) = host_of(9, LidRange::default(), range(6, 0));
            assert_eq!((before, book.none_met(&others)), want, "{guid} {is_doubted}");
        };
        check(7, false, (None, None));
        check(7, true, (None, None));
        check(8, false, (Some(1), None));
        // Those were too few to say whose it is.
        check(8, true, (Some(1), Some(1)));
    }

    #[test]
    fn what_is_another_fabrics_is_forgotten_without_what_this_life_has_planned() {
        let mut book = LidBook::stored(&PersistentState {
            lids: BTreeMap::from([(Guid(7), range(5, 0))]),
            lids_before: BTreeMap::from([(Guid(7), range(4, 0))]),
            ..PersistentState::default()
        });
        let (fabric, lids) = host_of(8, LidRange::default(), range(6, 0));
        book.plan(&fabric, &lids);
        book.forget_untried();
        assert_eq!(book.planned, BTreeMap::from([(Guid(8), range(6, 0))]));
        assert_eq!(
            (book.before.contains_key(&Guid(7)), book.none_met(&fabric)),
            (false, None)
        );
    }

    #[test]
    fn a_plan_that_was_not_sent_changes_nothing() {
        let check = |held: LidRange, planned: LidRange| {
            let mut book = LidBook::default();
            book.planned.insert(Guid(7), held);
            let (fabric, lids) = host(held, planned);
            book.plan(&fabric, &lids);
            book.withdraw(&fabric, &lids);
            assert_eq!(book.planned, BTreeMap::from([(Guid(7), held)]));
            assert!(book.before.is_empty());
        };
        check(range(5, 0), range(8, 0));
        check(range(5, 0), range(5, 0));
    }

    #[test]
    fn who_lost_its_lids_is_known_by_the_same_after_a_plan_that_was_not_sent() {
        // What an earlier life has stored: the LIDs of its last plan, and what the port had before that one.
        let check = |before: Option<LidRange>, to_get: LidRange| {
            let stored = PersistentState {
                lids: BTreeMap::from([(Guid(7), range(12, 2))]),
                lids_before: before.map(|before| (Guid(7), before)).into_iter().collect(),
                ..PersistentState::default()
            };
            let mut book = LidBook::stored(&stored);
            let (fabric, lids) = host(LidRange::default(), to_get);
            book.plan(&fabric, &lids);
            book.withdraw(&fabric, &lids);
            assert_eq!((&book.planned, &book.before), (&stored.lids, &stored.lids_before));
        };
        for before in [None, Some(range(6, 0))] {
            check(before, range(12, 2));
            check(before, range(6, 0));
            check(before, range(20, 2));
        }
    }

    #[test]
    fn a_port_is_known_by_what_it_held_until_it_has_the_new() {
        let none = LidRange::default();
        let (old, new) = (range(5, 0), range(8, 1));
        check(&[(none, old, old)], 0, old, &[]);
        check(&[(old, new, new)], 1, new, &[]);
        // Raised, and lowered again before it got them.
        check(&[(old, new, old)], 0, old, &[new]);
        check(&[(old, new, old)], 1, new, &[old]);
        check(&[(old, new, old), (old, old, old)], 0, old, &[]);
        // It has lost its power since: what it held counts.
        check(&[(old, new, old), (none, new, none)], 0, old, &[new]);
        check(&[(none, old, old), (none, new, none)], 0, old, &[new]);
        check(&[(none, new, none)], 0, new, &[]);
        // Another LID, not another LMC.
        check(&[(old, range(9, 0), old)], 0, range(9, 0), &[old]);
    }
}
