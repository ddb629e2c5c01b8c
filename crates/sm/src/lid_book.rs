//! LIDs by port GUID: those of the last plan, and those that ports held before until they have taken the new ones.
//!
//! Which LID a port gets is planned in `selvedge_planner::lid`, from what [`LidBook::known`] hands out.
//! [`In::Accepted`] has the LIDs of a plan; they are stored before any Set goes out, so that nothing an
//! agent may hold is forgotten. A port that was away meanwhile, or whose Set was not sent because the next plan came,
//! still holds its former LIDs: if it then loses power, hosts know it by those.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use selvedge_fabric::{Fabric, Port};
use selvedge_plan::{Lids, Policy};
use selvedge_types::{Guid, Lid, LidRange};

use crate::event::Event;
use crate::io::PersistentState;

/// LIDs by port GUID.
#[derive(Clone, Debug, Default)]
pub struct LidBook {
    /// Those of the last plan that had the port.
    planned: BTreeMap<Guid, LidRange>,
    /// What ports were last known to hold that have not been seen to hold those.
    before: BTreeMap<Guid, LidRange>,
    /// Ports that have not been seen to hold what was planned for them in this life.
    unseen: BTreeSet<Guid>,
    /// Those of whom nothing was read since that says so: somebody took the Set, and where a cable was moved
    /// meanwhile, it was somebody else.
    unread: BTreeSet<Guid>,
    /// What those were known to hold before.
    left: BTreeMap<Guid, LidRange>,
    /// What was planned, until the last plan was made, for ports that hold nothing.
    planned_until: BTreeMap<Guid, LidRange>,
    /// Ports that the last plan has given LIDs.
    of_last_plan: BTreeSet<Guid>,
    /// Ports that were stored and have not been seen with their LIDs in this life: a Set of an earlier life may have
    /// gone to somebody else.
    unproven: BTreeSet<Guid>,
    /// What an earlier life has stored, and another port was seen to hold: it may give it up again.
    yielded: BTreeMap<Guid, LidRange>,
    /// What an earlier life has stored, until it is known whether that is this fabric's.
    earlier: Earlier,
    /// Ports that the last sweep saw with LIDs by which they are not known.
    strangers: BTreeSet<Guid>,
}

/// What an earlier life has stored.
#[derive(Clone, Debug, Default)]
struct Earlier {
    /// What was taken for another fabric's.
    aside: BTreeMap<Guid, LidRange>,
    /// How many ports were stored, until some are met.
    stored: usize,
    /// None of those has been met, and too few others to say that they are another fabric's.
    is_doubted: bool,
}

/// What happened.
#[derive(Clone, Copy, Debug)]
pub enum In<'a> {
    /// A sweep found this fabric.
    Found(&'a Fabric),
    /// A plan is about to be made for this fabric.
    Planning(&'a Fabric),
    /// A plan is about to be stored, then applied to this fabric.
    Accepted(&'a Fabric, &'a Lids),
    /// A plan for this fabric was dropped before anything of it was sent.
    Withdrawn(&'a Fabric, &'a Lids),
    /// A plan was applied, or a part of it: the fabric has what agents took.
    Applied(&'a Fabric, &'a Lids),
    /// Another manager takes care of this fabric.
    OfAnother(&'a Fabric),
}

/// What is to be done.
#[derive(Debug)]
pub enum Effect {
    /// Ports hold other LIDs than they are known by, and did not in the sweep before.
    Strangers,
    /// Say this.
    Event(Event),
    /// What is stored is another fabric's.
    Foreign,
}

impl LidBook {
    /// What was stored.
    pub fn stored(state: &PersistentState) -> Self {
        // See `befores`.
        let is_known = |(guid, _): &(Guid, LidRange)| state.lids.contains_key(guid);
        let (before, yielded) = state.lids_before.clone().into_iter().partition(is_known);
        Self {
            planned: state.lids.clone(),
            before,
            unseen: BTreeSet::new(),
            unread: BTreeSet::new(),
            left: BTreeMap::new(),
            planned_until: BTreeMap::new(),
            of_last_plan: BTreeSet::new(),
            unproven: state.lids.keys().copied().collect(),
            yielded,
            earlier: Earlier {
                aside: state.lids_aside.clone(),
                stored: state.lids.len(),
                is_doubted: false,
            },
            strangers: BTreeSet::new(),
        }
    }

    /// Takes one input; appends what is to be done.
    pub fn handle(&mut self, input: In<'_>, effects: &mut Vec<Effect>) {
        match input {
            In::Found(fabric) => {
                let strangers = self.strangers(fabric);
                let before = std::mem::replace(&mut self.strangers, strangers);
                if !self.strangers.is_subset(&before) {
                    effects.push(Effect::Strangers);
                }
            }
            In::Planning(fabric) => {
                self.set_foreign_aside(fabric, effects);
                self.restore_yielded(fabric);
            }
            In::Accepted(fabric, lids) => self.plan(fabric, lids),
            In::Withdrawn(fabric, lids) => self.withdraw(fabric, lids),
            In::Applied(fabric, lids) => self.held(fabric, lids),
            In::OfAnother(fabric) => self.of_another(fabric),
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
    fn none_met(&self, fabric: &Fabric) -> Option<usize> {
        let untried = self.planned.keys().filter(|&&guid| self.is_untried(guid)).count();
        let may_be_foreign = self.earlier.is_doubted || untried == self.planned.len();
        let is_here = || fabric.end_ports().any(|(_, port)| self.is_untried(port.guid));
        (untried > 0 && untried == self.earlier.stored && may_be_foreign && !is_here()).then_some(untried)
    }

    /// Stored LIDs of another fabric would only keep LIDs from being given out: the fabric itself tells the truth. What
    /// this life has met once is its own fabric's, though it may see nobody but itself now, under another GUID. And
    /// fewer than half as many ports as are stored may be a part that was added and is cut off with this manager: it is
    /// decided when more are found. Where fewer than half as many ports are stored as are found, it is the other way
    /// about: the earlier life saw a part that is away now. Those few keep their LIDs.
    fn set_foreign_aside(&mut self, fabric: &Fabric, effects: &mut Vec<Effect>) {
        let Some(stored) = self.none_met(fabric) else {
            self.earlier.is_doubted = false;
            return;
        };
        let found = fabric.end_ports().count();
        if stored * 2 < found {
            return self.keep_untried();
        }
        let are_few = found * 2 < stored;
        let was_doubted = std::mem::replace(&mut self.earlier.is_doubted, are_few);
        if !are_few || !was_doubted {
            effects.push(Effect::Event(Event::ForeignState { stored, found, are_few }));
        }
        if !are_few {
            self.set_untried_aside();
            // Unless this life has planned something already: then that is what is stored.
            if self.is_empty() {
                effects.push(Effect::Foreign);
            }
        }
    }

    /// What an earlier life has stored stays known, and is not asked about again.
    const fn keep_untried(&mut self) {
        (self.earlier.stored, self.earlier.is_doubted) = (0, false);
    }

    /// Nothing of what an earlier life has stored is to be counted with, as long as no port of it is found.
    fn set_untried_aside(&mut self) {
        let untried: Vec<Guid> = self
            .planned
            .keys()
            .copied()
            .filter(|&guid| self.is_untried(guid))
            .collect();
        self.earlier.aside.append(&mut self.yielded);
        for guid in untried {
            self.earlier
                .aside
                .extend(self.planned.remove(&guid).map(|range| (guid, range)));
            self.unproven.remove(&guid);
        }
        let planned = &self.planned;
        self.before.retain(|guid, _| planned.contains_key(guid));
        self.earlier.stored = 0;
    }

    /// True if a port holds what was planned for it, or what it was known to hold before.
    pub fn is_stored(&self, port: &Port) -> bool {
        self.of_port(port).any(|known| known.base == port.settings.lids.base)
    }

    /// True if a port holds just that.
    pub fn is_known(&self, port: &Port) -> bool {
        self.of_port(port).any(|known| *known == port.settings.lids)
    }

    fn of_port(&self, port: &Port) -> impl Iterator<Item = &LidRange> {
        let known = [self.planned.get(&port.guid), self.before.get(&port.guid)];
        known.into_iter().flatten()
    }

    /// Ports that hold others than any that they are known by.
    fn strangers(&self, fabric: &Fabric) -> BTreeSet<Guid> {
        let is_other = |port: &Port| {
            let has_some = port.settings.lids.base.is_unicast() && self.of_port(port).next().is_some();
            has_some && !self.is_known(port)
        };
        let ports = fabric.end_ports().filter(|(_, port)| is_other(port));
        ports.map(|(_, port)| port.guid).collect()
    }

    /// What each port is known by, and what it may hold instead. A port may have taken the LIDs of the last plan though
    /// nobody saw it; where that is of another LMC than is wanted now, those before count.
    pub fn known(&self, policy: &Policy, fabric: &Fabric) -> (BTreeMap<Guid, LidRange>, Vec<LidRange>) {
        let mut known = self.planned.clone();
        let mut spared = Vec::new();
        for (guid, &before) in &self.before {
            let Some(range) = known.get_mut(guid) else { continue };
            match range.lmc == before.lmc || range.lmc == policy.lmc {
                true => spared.push(before),
                false => spared.push(std::mem::replace(range, before)),
            }
        }
        let others: BTreeSet<Guid> = match self.unread.is_empty() {
            true => BTreeSet::new(),
            false => self.strangers(fabric),
        };
        for guid in self.doubtful(&known, &others) {
            spared.extend(known.remove(&guid));
            known.extend(self.left.get(&guid).map(|&left| (guid, left)));
        }
        (known, spared)
    }

    /// What a later life is to know ports by, which is told claims and not who was read to hold what: LIDs that were
    /// meant for one and went to another, which answered, are the other's, unless the last plan gives them to the one.
    pub fn claims(&self) -> Cow<'_, BTreeMap<Guid, LidRange>> {
        let mut claims = Cow::Borrowed(&self.planned);
        for guid in self.ceded() {
            let claims = claims.to_mut();
            claims.remove(&guid);
            claims.extend(self.left.get(&guid).map(|&left| (guid, left)));
        }
        claims
    }

    /// Ports whose LIDs another one's are for a later life.
    fn ceded(&self) -> impl Iterator<Item = Guid> {
        let is_away = |guid: &Guid| !self.of_last_plan.contains(guid);
        // Of who never answered it is stored what it had before.
        let has_answered = |guid: &Guid| !self.unseen.contains(guid) && !self.before.contains_key(guid);
        let doubtful = self.doubtful(&self.planned, &BTreeSet::new()).into_iter();
        doubtful.filter(move |guid| is_away(guid) && has_answered(guid))
    }

    /// What ports held before what they are known by, as a later life is to know it; and what those had that are known
    /// by nothing, as another port was seen to hold that.
    pub fn befores(&self) -> Cow<'_, BTreeMap<Guid, LidRange>> {
        let mut befores = Cow::Borrowed(&self.before);
        for (&guid, &range) in &self.yielded {
            befores.to_mut().insert(guid, range);
        }
        for guid in self.ceded().filter(|guid| !self.left.contains_key(guid)) {
            let range = self.planned.get(&guid).map(|&range| (guid, range));
            befores.to_mut().extend(range);
        }
        befores
    }

    /// What an earlier life has stored and was taken for another fabric's.
    pub const fn aside(&self) -> &BTreeMap<Guid, LidRange> {
        &self.earlier.aside
    }

    /// Ports by whose answers alone they have their LIDs, while another one is known by them that was read to hold
    /// them: they were meant for the one and went to the other. Unless that one has `others` now: then nobody has them.
    fn doubtful(&self, known: &BTreeMap<Guid, LidRange>, others: &BTreeSet<Guid>) -> Vec<Guid> {
        let is_unread = |guid: &Guid| self.unread.contains(guid);
        let is_proven = |guid: &Guid| !is_unread(guid) && !self.unproven.contains(guid) && !others.contains(guid);
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
    fn plan(&mut self, fabric: &Fabric, lids: &Lids) {
        self.planned_until.clear();
        self.of_last_plan.clear();
        for (at, range) in lids.iter() {
            let Some(port) = fabric.port(at) else { continue };
            let held = port.settings.lids;
            self.of_last_plan.insert(port.guid);
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
        let yielded = &mut self.yielded;
        let is_unseen = |guid: &Guid| unseen.contains(guid) || unproven.contains(guid);
        let has_claim = |guid: &Guid, range: &LidRange| !range.iter().any(|lid| is_of_another(*guid, lid));
        self.planned.retain(|guid, range| {
            if !is_unseen(guid) || has_claim(guid, range) {
                return true;
            }
            // It may hold still what it held before.
            let held = before.remove(guid).filter(|held| has_claim(guid, held));
            if held.is_none() && unproven.contains(guid) {
                yielded.insert(*guid, *range);
            }
            *range = held.unwrap_or(*range);
            held.is_some()
        });
    }

    /// Who yielded its LIDs to a port that holds others now has its claim on them again, unless somebody else has one.
    /// So has whoever was taken to be of another fabric, once one of those is found: that part of the fabric was away.
    fn restore_yielded(&mut self, fabric: &Fabric) {
        if fabric
            .end_ports()
            .any(|(_, port)| self.earlier.aside.contains_key(&port.guid))
        {
            self.yielded.append(&mut self.earlier.aside);
        }
        if self.yielded.is_empty() {
            return;
        }
        let ports = fabric.end_ports().map(|(_, port)| (port.guid, port.settings.lids));
        let held: BTreeMap<Guid, LidRange> = ports.filter(|(_, held)| held.base.is_unicast()).collect();
        for (guid, range) in std::mem::take(&mut self.yielded) {
            let overlaps = |other: &LidRange| range.base <= other.last() && other.base <= range.last();
            let is_of_another = |(other, known): (&Guid, &LidRange)| overlaps(held.get(other).unwrap_or(known));
            if self.planned.contains_key(&guid) {
                continue;
            }
            if held.values().any(overlaps) || self.planned.iter().any(is_of_another) {
                self.yielded.insert(guid, range);
            } else {
                self.planned.insert(guid, range);
                self.unproven.insert(guid);
            }
        }
    }

    /// A plan was dropped before anything of it was sent: ports hold what they held. Who holds nothing is known by what
    /// it was known by until then. That may be the LIDs of an earlier plan, which it took though nobody saw it, and not
    /// those that it had before that one.
    fn withdraw(&mut self, fabric: &Fabric, lids: &Lids) {
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
    fn held(&mut self, fabric: &Fabric, lids: &Lids) {
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
    fn of_another(&mut self, fabric: &Fabric) {
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
mod tests;
