//! LIDs by port GUID: one claim per port, with its evidence.
//!
//! The planner decides which LID a port gets (`selvedge_planner::lid`), from the claims that [`LidBook::known`]
//! returns. [`In::Accepted`] has the LIDs of a plan; they are stored before the first Set, so that no LID that an agent
//! may hold is forgotten. In two cases a port still holds its former LIDs: it was absent when its plan was applied, or
//! the next plan came before its Set. Hosts send to these former LIDs even after the port has lost power.

use std::collections::{BTreeMap, BTreeSet};

use selvedge_fabric::{Fabric, Port};
use selvedge_plan::{Lids, Policy};
use selvedge_types::{Guid, Lid, LidRange, Lmc};

use crate::event::Event;
use crate::io::PersistentState;

/// LIDs by port GUID.
#[derive(Clone, Debug, Default)]
pub struct LidBook {
    /// Every port with LIDs that this process, or the state that it started with, has known.
    claims: BTreeMap<Guid, Claim>,
    /// The LIDs that an earlier run has stored, until it is known whether they belong to this fabric.
    earlier: Earlier,
}

/// The known LIDs of one port, with the evidence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Claim {
    /// LIDs of the last plan that included the port; `None` if another port holds them and this port was never read
    /// with them.
    assigned: Option<LidRange>,
    /// The evidence that the port has the assigned LIDs.
    evidence: Evidence,
    /// LIDs that the port held or was assigned before, until it is known to have taken `assigned`.
    before: Option<LidRange>,
    /// The LIDs of `before`, from when the port acknowledged other LIDs until it is read with its assigned LIDs.
    replaced: Option<LidRange>,
    /// LIDs that an earlier run has stored for this port, and that another port was read to hold. The other port may
    /// give these LIDs up again. If this port has other LIDs by the next heavy sweep, the record is dropped.
    yielded: Option<LidRange>,
    /// What the last plan gave the port.
    last_plan: LastPlan,
    /// True if the last sweep read LIDs from the port that are not its known ones.
    is_stranger: bool,
}

/// The evidence that a port has its assigned LIDs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Evidence {
    /// None: no LIDs are assigned.
    #[default]
    None,
    /// An earlier run has stored the LIDs, and no plan of this run has included the port: a Set of the earlier run may
    /// have given these LIDs to another port by mistake.
    Stored,
    /// A plan of this run assigned them, and no answer shows whether the port took them.
    Planned {
        /// True if an earlier run has stored LIDs for the port.
        is_stored: bool,
        /// True if the port was read with these LIDs.
        is_read: bool,
    },
    /// The port took the Set and was not read since. If a cable was moved meanwhile, another port took it.
    Acknowledged,
    /// The port was read with these LIDs.
    Read,
}

/// What the last plan gave a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum LastPlan {
    /// The plan gave the port nothing, because the port was absent or left out.
    #[default]
    Omitted,
    /// The plan gave the port LIDs.
    Included,
    /// The plan gave the port LIDs. The port held none then, and these had been assigned to it before.
    InPlaceOf(LidRange),
}

/// The state that an earlier run has stored.
#[derive(Clone, Debug, Default)]
struct Earlier {
    /// LIDs that were taken to belong to another fabric. They are not part of a claim, because a port may get other
    /// LIDs meanwhile. If one port of this set is found, all of them are restored.
    aside: BTreeMap<Guid, LidRange>,
    /// Number of stored ports, until some of them are found.
    stored: usize,
    /// True if none of these ports was found, and too few others to decide that they belong to another fabric.
    is_doubted: bool,
}

/// The inputs of this sub-machine.
#[derive(Clone, Copy, Debug)]
pub enum In<'a> {
    /// A sweep found this fabric.
    Found(&'a Fabric),
    /// A plan is about to be made for this fabric.
    Planning(&'a Fabric),
    /// A plan is about to be stored, then applied to this fabric.
    Accepted(&'a Fabric, &'a Lids),
    /// A plan for this fabric was dropped before any of its Sets was sent.
    Withdrawn(&'a Fabric, &'a Lids),
    /// A plan was applied, in full or in part. The fabric has the settings that agents acknowledged.
    Applied(&'a Fabric, &'a Lids),
    /// Another manager is master of this fabric.
    OfAnother(&'a Fabric),
}

/// The effects that the outer machine carries out.
#[derive(Debug)]
pub enum Effect {
    /// Ports hold LIDs other than the known ones, but did not in the previous sweep.
    Strangers,
    /// Log this event.
    Event(Event),
    /// The stored state belongs to another fabric.
    Foreign,
}

impl LidBook {
    /// Returns the LID book of a stored state.
    pub fn stored(state: &PersistentState) -> Self {
        let mut claims: BTreeMap<Guid, Claim> = BTreeMap::new();
        for (&guid, &range) in &state.lids {
            let claim = claims.entry(guid).or_default();
            (claim.assigned, claim.evidence) = (Some(range), Evidence::Stored);
        }
        // See `befores`.
        for (&guid, &range) in &state.lids_before {
            let claim = claims.entry(guid).or_default();
            match claim.assigned {
                Some(_) => claim.before = Some(range),
                None => claim.yielded = Some(range),
            }
        }
        let earlier = Earlier {
            aside: state.lids_aside.clone(),
            stored: state.lids.len(),
            is_doubted: false,
        };
        Self { claims, earlier }
    }

    /// Handles one input and appends its effects.
    pub fn handle(&mut self, input: In<'_>, effects: &mut Vec<Effect>) {
        match input {
            In::Found(fabric) => effects.extend(self.note_strangers(fabric).then_some(Effect::Strangers)),
            In::Planning(fabric) => {
                self.set_foreign_aside(fabric, effects);
                self.restore_yielded(fabric);
            }
            In::Accepted(fabric, lids) => self.plan(fabric, lids),
            In::Withdrawn(fabric, lids) => self.withdraw(fabric, lids),
            In::Applied(fabric, lids) => self.acknowledge(fabric, lids),
            In::OfAnother(fabric) => self.of_another(fabric),
        }
    }

    /// True if no port's LIDs are known: this is the first run, or its state is gone.
    pub fn is_empty(&self) -> bool {
        self.assigned().next().is_none()
    }

    /// Returns the GUIDs of ports with known LIDs.
    pub fn guids(&self) -> impl Iterator<Item = Guid> + '_ {
        self.assigned().map(|(guid, _)| guid)
    }

    /// Returns the LIDs of the last plan that included each port.
    fn assigned(&self) -> impl Iterator<Item = (Guid, LidRange)> {
        let claims = self.claims.iter();
        claims.filter_map(|(&guid, claim)| Some((guid, claim.assigned?)))
    }

    /// Returns the number of ports with LIDs stored by an earlier run, if this run has found none of them and none is
    /// in the fabric. `None` as soon as other ports have LIDs, unless these ports are too few to show that the stored
    /// state belongs to another fabric.
    fn none_met(&self, fabric: &Fabric) -> Option<usize> {
        let is_untried = |guid: &Guid| {
            self.claims
                .get(guid)
                .is_some_and(|claim| claim.evidence == Evidence::Stored)
        };
        let untried = self.guids().filter(is_untried).count();
        let may_be_foreign = self.earlier.is_doubted || untried == self.guids().count();
        let is_here = || fabric.end_ports().any(|(_, port)| is_untried(&port.guid));
        (untried > 0 && untried == self.earlier.stored && may_be_foreign && !is_here()).then_some(untried)
    }

    /// Sets stored LIDs of another fabric aside, because they would only keep LIDs from being assigned. If this run has
    /// found one port of the stored set, all of it belongs to this fabric, even if the manager now sees only its own
    /// node, under another GUID.
    ///
    /// If fewer than half as many ports are found as are stored, the found ports may be a new part that is cut off
    /// together with this manager: the decision waits until more are found. If fewer than half as many ports are stored
    /// as are found, the earlier run may have seen a part that is absent now: those few ports keep their LIDs.
    fn set_foreign_aside(&mut self, fabric: &Fabric, effects: &mut Vec<Effect>) {
        let Some(stored) = self.none_met(fabric) else {
            self.earlier.is_doubted = false;
            return;
        };
        let found = fabric.end_ports().count();
        if stored * 2 < found {
            (self.earlier.stored, self.earlier.is_doubted) = (0, false);
            return;
        }
        let are_few = found * 2 < stored;
        let was_doubted = std::mem::replace(&mut self.earlier.is_doubted, are_few);
        if !are_few || !was_doubted {
            effects.push(Effect::Event(Event::ForeignState { stored, found, are_few }));
        }
        if !are_few {
            self.set_untried_aside();
            // Unless this run has already made a plan: then its LIDs are the stored ones.
            if self.is_empty() {
                effects.push(Effect::Foreign);
            }
        }
    }

    /// Ignores the state of an earlier run as long as none of its ports is found.
    fn set_untried_aside(&mut self) {
        let aside = &mut self.earlier.aside;
        for (&guid, claim) in &mut self.claims {
            aside.extend(claim.yielded.take().map(|range| (guid, range)));
            if let Some(range) = claim.assigned.take_if(|_| claim.evidence == Evidence::Stored) {
                aside.insert(guid, range);
                (claim.before, claim.evidence) = (None, Evidence::None);
            }
        }
        self.earlier.stored = 0;
    }

    /// True if a port holds its assigned LIDs, or the LIDs that it was known to hold before.
    pub fn is_stored(&self, port: &Port) -> bool {
        self.of_port(port).any(|known| known.base == port.settings.lids.base)
    }

    /// True if a port holds exactly its known LIDs, with the same LMC.
    pub fn is_known(&self, port: &Port) -> bool {
        self.of_port(port).any(|known| known == port.settings.lids)
    }

    fn of_port(&self, port: &Port) -> impl Iterator<Item = LidRange> {
        let claim = self.claims.get(&port.guid).copied().unwrap_or_default();
        claim.assigned.into_iter().chain(claim.before)
    }

    /// Returns the ports that hold LIDs other than the known ones.
    fn strangers(&self, fabric: &Fabric) -> BTreeSet<Guid> {
        let is_other = |port: &Port| {
            let has_some = port.settings.lids.base.is_unicast() && self.of_port(port).next().is_some();
            has_some && !self.is_known(port)
        };
        let ports = fabric.end_ports().filter(|(_, port)| is_other(port));
        ports.map(|(_, port)| port.guid).collect()
    }

    /// Records the ports that hold LIDs other than the known ones. Returns true if one of them did not in the previous
    /// sweep.
    fn note_strangers(&mut self, fabric: &Fabric) -> bool {
        let strangers = self.strangers(fabric);
        let mut is_news = false;
        for (guid, claim) in &mut self.claims {
            let was_one = std::mem::replace(&mut claim.is_stranger, strangers.contains(guid));
            is_news |= claim.is_stranger && !was_one;
        }
        is_news
    }

    /// Returns the known LIDs of each port, and other LIDs that ports may hold instead.
    pub fn known(&self, policy: &Policy, fabric: &Fabric) -> (BTreeMap<Guid, LidRange>, Vec<LidRange>) {
        let (mut known, mut spared) = (BTreeMap::new(), Vec::new());
        for (&guid, claim) in &self.claims {
            if let Some((range, other)) = claim.known(policy.lmc) {
                known.insert(guid, range);
                spared.extend(other);
            }
        }
        let known_by = |claim: &Claim| claim.known(policy.lmc).map(|(range, _)| range);
        for (guid, claim) in self.doubtful(known_by, Some(fabric)) {
            spared.extend(known.remove(&guid));
            known.extend(claim.replaced.map(|range| (guid, range)));
        }
        (known, spared)
    }

    /// Returns the LIDs of each port, to be stored for a later run. The evidence of a claim is not stored. If LIDs were
    /// meant for one port, but another port took them and answered, they are stored for the other port, unless the last
    /// plan gives them to the first.
    pub fn claims(&self) -> BTreeMap<Guid, LidRange> {
        let mut claims: BTreeMap<Guid, LidRange> = self.assigned().collect();
        for (guid, claim) in self.ceded() {
            claims.remove(&guid);
            claims.extend(claim.replaced.map(|range| (guid, range)));
        }
        claims
    }

    /// Returns the former LIDs of each port, to be stored for a later run. If a port has no claim because another port
    /// was read with its LIDs, these LIDs count as its former ones.
    pub fn befores(&self) -> BTreeMap<Guid, LidRange> {
        let of_claim = |(&guid, claim): (&Guid, &Claim)| Some((guid, claim.yielded.or(claim.before)?));
        let mut befores: BTreeMap<Guid, LidRange> = self.claims.iter().filter_map(of_claim).collect();
        for (guid, claim) in self.ceded().filter(|(_, claim)| claim.replaced.is_none()) {
            befores.extend(claim.assigned.map(|range| (guid, range)));
        }
        befores
    }

    /// Returns the stored LIDs that were taken to belong to another fabric.
    pub const fn aside(&self) -> &BTreeMap<Guid, LidRange> {
        &self.earlier.aside
    }

    /// Returns the ports with LIDs that a later run will take to belong to another port. A port that never answered is
    /// not among them: its former LIDs are stored with its claim.
    fn ceded(&self) -> impl Iterator<Item = (Guid, &Claim)> {
        let may_be = |claim: &Claim| (claim.evidence, claim.last_plan) == (Evidence::Acknowledged, LastPlan::Omitted);
        // Mostly none: then the LIDs that were read need not be gathered after each repair.
        let doubtful = match self.claims.values().any(may_be) {
            true => self.doubtful(|claim| claim.assigned, None),
            false => Vec::new(),
        };
        doubtful.into_iter().filter(move |(_, claim)| may_be(claim))
    }

    /// Returns the ports that probably do not hold their LIDs. The LIDs of such a port were planned or acknowledged for
    /// it but never read from it, while another port was read with them: the Set was meant for the one port and reached
    /// the other. If the other port has different LIDs in this fabric, the first port is not returned.
    fn doubtful(&self, known: impl Fn(&Claim) -> Option<LidRange>, fabric: Option<&Fabric>) -> Vec<(Guid, &Claim)> {
        let ranges = || {
            let claims = self.claims.iter();
            claims.filter_map(|(&guid, claim)| Some((guid, claim, known(claim)?)))
        };
        let unread: Vec<_> = ranges().filter(|(_, claim, _)| claim.evidence.is_unread()).collect();
        if unread.is_empty() {
            return Vec::new();
        }
        let strangers = fabric.map(|fabric| self.strangers(fabric)).unwrap_or_default();
        let is_sure = |claim: &Claim| !claim.evidence.is_unread() && !claim.evidence.is_of_earlier_run();
        let proven = ranges().filter(|(guid, claim, _)| is_sure(claim) && !strangers.contains(guid));
        let of_proven: BTreeSet<Lid> = proven.flat_map(|(_, _, range)| range.iter()).collect();
        let is_of_another = |range: LidRange| range.iter().any(|lid| of_proven.contains(&lid));
        let doubtful = unread.into_iter().filter(|&(_, _, range)| is_of_another(range));
        doubtful.map(|(guid, claim, _)| (guid, claim)).collect()
    }

    /// Records a plan that is about to be stored, then applied to `fabric`.
    fn plan(&mut self, fabric: &Fabric, lids: &Lids) {
        for claim in self.claims.values_mut() {
            claim.last_plan = LastPlan::Omitted;
        }
        for (at, range) in lids.iter() {
            if let Some(port) = fabric.port(at) {
                let claim = self.claims.entry(port.guid).or_default();
                claim.plan(range, port.settings.lids);
            }
        }
        self.drop_untaken(|guid, lid| {
            let holder = lids.owner(lid).and_then(|at| fabric.port(at));
            holder.is_some_and(|port| port.guid != guid && port.settings.lids.contains(lid))
        });
    }

    /// Drops a claim on LIDs that another port holds, if the claiming port was never read with these LIDs: this manager
    /// assigned them without knowing that the other port holds them. The claiming port may still hold its former LIDs.
    fn drop_untaken(&mut self, is_of_another: impl Fn(Guid, Lid) -> bool) {
        for (&guid, claim) in &mut self.claims {
            let has_claim = |range: &LidRange| !range.iter().any(|lid| is_of_another(guid, lid));
            let is_unseen = matches!(claim.evidence, Evidence::Stored | Evidence::Planned { .. });
            if let Some(range) = claim.assigned.filter(|range| is_unseen && !has_claim(range)) {
                claim.assigned = claim.before.take().filter(has_claim);
                if claim.assigned.is_none() && claim.evidence.is_of_earlier_run() {
                    claim.yielded = Some(range);
                }
            }
        }
    }

    /// Restores the claim of a port that yielded its LIDs to another port, if the other port now holds different LIDs
    /// and no third port claims the yielded ones. Also restores LIDs that were taken to belong to another fabric, once
    /// one of their ports is found: that part of the fabric was only absent.
    fn restore_yielded(&mut self, fabric: &Fabric) {
        let aside = &mut self.earlier.aside;
        if fabric.end_ports().any(|(_, port)| aside.contains_key(&port.guid)) {
            for (guid, range) in std::mem::take(aside) {
                self.claims.entry(guid).or_default().yielded = Some(range);
            }
        }
        let claims = self.claims.iter_mut();
        let yielded: Vec<(Guid, LidRange)> = claims
            .filter_map(|(&guid, claim)| Some((guid, claim.yielded.take()?)).filter(|_| claim.assigned.is_none()))
            .collect();
        if yielded.is_empty() {
            return;
        }
        let ports = fabric.end_ports().map(|(_, port)| (port.guid, port.settings.lids));
        let held: BTreeMap<Guid, LidRange> = ports.filter(|(_, held)| held.base.is_unicast()).collect();
        for (guid, range) in yielded {
            let overlaps = |other: &LidRange| range.base <= other.last() && other.base <= range.last();
            let is_of_another = |(other, known)| overlaps(held.get(&other).unwrap_or(&known));
            let is_taken = held.values().any(overlaps) || self.assigned().any(is_of_another);
            let claim = self.claims.entry(guid).or_default();
            if is_taken {
                claim.yielded = Some(range);
            } else {
                claim.assigned = Some(range);
                match &mut claim.evidence {
                    Evidence::Planned { is_stored, .. } => *is_stored = true,
                    evidence => *evidence = Evidence::Stored,
                }
            }
        }
    }

    /// Withdraws a plan that was dropped before any Set of it was sent: ports still hold the LIDs that they held before
    /// it. A port that holds no LID gets back the LIDs that were known before the plan. (These may be LIDs of an
    /// earlier plan: the port may have taken them although its answer was lost.)
    fn withdraw(&mut self, fabric: &Fabric, lids: &Lids) {
        for (at, range) in lids.iter() {
            let Some(port) = fabric.port(at) else { continue };
            let claim = self.claims.get_mut(&port.guid);
            let Some(claim) = claim.filter(|claim| claim.assigned == Some(range)) else {
                continue;
            };
            if let LastPlan::InPlaceOf(known) = claim.last_plan {
                claim.assigned = Some(known);
                claim.before = claim.before.filter(|before| *before != known);
            } else if let Some(before) = claim.before.take() {
                claim.assigned = Some(before);
                if let Evidence::Planned { is_read, .. } = &mut claim.evidence {
                    *is_read |= port.settings.lids == before;
                }
            }
        }
    }

    /// Records the LIDs that answers show, after a plan or a part of it was applied.
    fn acknowledge(&mut self, fabric: &Fabric, lids: &Lids) {
        for (at, range) in lids.iter() {
            let port = fabric.port(at).filter(|port| port.settings.lids == range);
            if let Some(claim) = port.and_then(|port| self.claims.get_mut(&port.guid)) {
                claim.replaced = claim.before.take().or(claim.replaced);
                claim.evidence = match claim.evidence.is_unread() {
                    true => Evidence::Acknowledged,
                    false => Evidence::Read,
                };
            }
        }
    }

    /// Handles the LIDs of ports that another master manages. This manager may have planned a LID for a port on which
    /// it never read that LID, and the other manager may have given the LID to another port. Then the claim of the
    /// first port is dropped, because a later run has no evidence by which to decide between the two ports.
    fn of_another(&mut self, fabric: &Fabric) {
        let mut held = BTreeSet::new();
        for (_, port) in fabric.end_ports() {
            let lids = port.settings.lids;
            if lids.base.is_unicast() {
                let claim = self.claims.entry(port.guid).or_default();
                claim.assigned = Some(lids);
                claim.read();
                held.extend(lids.iter());
            }
        }
        // A port that holds one itself was read just now, and keeps its claim.
        self.drop_untaken(|_, lid| held.contains(&lid));
    }
}

impl Claim {
    /// Called when a plan assigns the LIDs of `range` to the port, which now holds those of `held`, or none.
    fn plan(&mut self, range: LidRange, held: LidRange) {
        let known = self.assigned.replace(range);
        let is_stored = self.evidence.is_of_earlier_run();
        // A port that lost its LIDs and gets the same ones again keeps its claim.
        let is_read = known == Some(range) && !is_stored && !self.evidence.is_unread();
        self.evidence = Evidence::Planned { is_stored, is_read };
        if held == range {
            self.read();
        } else if held.base.is_unicast() {
            self.before = Some(held);
        } else if known != Some(range) {
            self.before = self.before.or(known);
        }
        self.last_plan = match (known, self.last_plan) {
            (Some(known), _) if !held.base.is_unicast() => LastPlan::InPlaceOf(known),
            (_, LastPlan::InPlaceOf(known)) => LastPlan::InPlaceOf(known),
            (_, LastPlan::Omitted | LastPlan::Included) => LastPlan::Included,
        };
    }

    /// Records that the port was read with its assigned LIDs.
    const fn read(&mut self) {
        (self.before, self.replaced, self.evidence) = (None, None, Evidence::Read);
    }

    /// Returns the known LIDs of the port, and other LIDs that it may hold instead: the port may have taken the
    /// assigned LIDs although its answer was lost. If the assigned LIDs do not have the wanted LMC, the former LIDs are
    /// returned as the known ones.
    fn known(&self, lmc: Lmc) -> Option<(LidRange, Option<LidRange>)> {
        let assigned = self.assigned?;
        Some(match self.before {
            Some(before) if assigned.lmc != before.lmc && assigned.lmc != lmc => (before, Some(assigned)),
            other => (assigned, other),
        })
    }
}

impl Evidence {
    /// True if an earlier run has stored LIDs for the port, and no answer of this run shows that it has any.
    const fn is_of_earlier_run(self) -> bool {
        matches!(self, Self::Stored | Self::Planned { is_stored: true, .. })
    }

    /// True if a plan of this run has assigned the LIDs, and the port was not read to hold them.
    const fn is_unread(self) -> bool {
        matches!(self, Self::Acknowledged | Self::Planned { is_read: false, .. })
    }
}

#[cfg(test)]
mod tests;
