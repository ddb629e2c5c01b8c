//! The turns of tables in force, with counts, so that the turns of some LIDs can be removed again.

use std::collections::BTreeSet;

use selvedge_fabric::Fabric;
use selvedge_plan::{Lids, Tables};
use selvedge_sim::Par;
use selvedge_types::Lid;

use super::drift::{Drift, LaneRules, Made};
use super::net::{Links, Net};
use super::turns::{LANES, Layout, TurnSet};
use super::{Proposal, trial};
use crate::finding::Traffic;
use crate::subject::Subject;

/// Turns by the smallest class of traffic that makes them.
pub type ByTraffic = [TurnSet; 3];

/// All classes of traffic, smallest first.
pub const TRAFFIC: [Traffic; 3] = [Traffic::Hosts, Traffic::Agents, Traffic::Switches];

/// Number of chunks of LIDs that may be followed in parallel. Results do not depend on it.
pub const CHUNKS: usize = 8;

/// The dependencies of tables in force. They are built once by following each LID through all switches, and then serve
/// many proposals: each proposal replaces only the LIDs that it changes.
///
/// Dependencies are stored by cable and stay valid when links go down. They then include turns over the lost links,
/// which is safe. A fabric with different cabling needs a new value. Memory: four bytes per pair of lanes in use and
/// per turn that the switches could make (ingress cable, egress cable).
#[derive(Clone, Debug)]
pub struct StandingTurns {
    pub(super) net: Net,
    layout: Layout,
    counts: [Vec<Vec<u32>>; 3],
    pub(super) sets: ByTraffic,
    /// Dependencies of packets that may be in flight since the last change, and the LIDs that changed.
    pub(super) ghosts: ByTraffic,
    pub(super) lingering: BTreeSet<Lid>,
}

impl StandingTurns {
    /// Builds the dependencies by following all LIDs of a subject.
    #[must_use]
    pub fn new(subject: Subject<'_>, links: Links, par: Par) -> Self {
        let mut standing = Self::empty(subject.fabric, links);
        let lids = subject.lids_in_use();
        let (length, chunks) = chunks(lids.len(), par);
        let parts = par.map(chunks, |chunk| {
            let mut part = Self::empty(subject.fabric, links);
            let end = lids.len().min((chunk + 1) * length);
            part.count(subject, &lids[chunk * length..end], Change::Add);
            part
        });
        parts.into_iter().for_each(|part| standing.merge(part));
        standing
    }

    /// Updates some LIDs after their entries have changed. `before` is the subject with which the LIDs were counted.
    /// Both subjects must have the fabric that this value was built on.
    pub fn replace(&mut self, before: Subject<'_>, after: Subject<'_>, lids: &[Lid]) {
        let mut lids = lids.to_vec();
        lids.sort_unstable();
        lids.dedup();
        self.count(before, &lids, Change::Remove);
        self.count(after, &lids, Change::Add);
    }

    /// Adds the dependencies of packets that are in flight during these steps, until [`Self::drained`] is called.
    /// `in_force` is the state before the steps. The caller must call this function and [`Self::replace`], in any
    /// order. Otherwise [`prove_quickly`](super::prove_quickly) must not be used while packets are in flight.
    pub fn linger(&mut self, in_force: Subject<'_>, proposal: &Proposal<'_>) {
        let rules = trial::rules(in_force, proposal);
        let Ok(by_lid) = trial::sorted(in_force, proposal) else {
            return;
        };
        let mut drift = Drift::new(&self.net, in_force.tables, &rules);
        let waits = vec![false; proposal.steps.len() + 1];
        for (lid, writes) in by_lid {
            let owner = self.net.owner(in_force.fabric, in_force.lids, lid);
            drift.follow(lid, owner, &writes, &waits);
            for made in &drift.made {
                self.ghosts[made.traffic as usize].insert(&self.layout, made.turn);
            }
            self.lingering.insert(lid);
        }
    }

    /// Removes the dependencies of packets in flight, when all such packets are gone.
    pub fn drained(&mut self) {
        self.ghosts = ByTraffic::default();
        self.lingering.clear();
    }

    /// True between [`Self::linger`] and [`Self::drained`].
    #[must_use]
    pub fn lingers(&self) -> bool {
        !self.lingering.is_empty()
    }

    /// Returns the number of dependencies, all traffic.
    #[must_use]
    pub fn turns(&self) -> u64 {
        let mut all = TurnSet::default();
        self.sets.iter().for_each(|set| all.merge(set));
        all.len()
    }

    fn empty(fabric: &Fabric, links: Links) -> Self {
        let net = Net::new(fabric, links);
        Self {
            layout: Layout::new(&net),
            counts: core::array::from_fn(|_| vec![Vec::new(); LANES * LANES]),
            sets: ByTraffic::default(),
            ghosts: ByTraffic::default(),
            lingering: BTreeSet::new(),
            net,
        }
    }

    fn merge(&mut self, part: Self) {
        for (traffic, pairs) in part.counts.into_iter().enumerate() {
            self.sets[traffic].merge(&part.sets[traffic]);
            for (mine, more) in self.counts[traffic].iter_mut().zip(pairs) {
                if mine.is_empty() {
                    *mine = more;
                } else {
                    mine.iter_mut().zip(&more).for_each(|(mine, more)| *mine += more);
                }
            }
        }
    }

    fn count(&mut self, subject: Subject<'_>, lids: &[Lid], change: Change) {
        let rules = LaneRules::of(subject);
        let Self {
            net,
            layout,
            counts,
            sets,
            ..
        } = self;
        follow_all(
            net,
            (subject.fabric, subject.lids, subject.tables),
            &rules,
            lids,
            |made| {
                let traffic = made.traffic as usize;
                let (pair, bit) = layout.bit(made.turn);
                let counts = &mut counts[traffic][pair];
                if counts.is_empty() {
                    counts.resize(layout.words() * 64, 0);
                }
                match change {
                    Change::Add => {
                        counts[bit] += 1;
                        sets[traffic].insert(layout, made.turn);
                    }
                    Change::Remove => {
                        counts[bit] = counts[bit].saturating_sub(1);
                        if counts[bit] == 0 {
                            sets[traffic].clear((pair, bit));
                        }
                    }
                }
            },
        );
    }

    /// Returns the turns without those of some LIDs. These LIDs must still have the entries that they were counted
    /// with.
    pub(super) fn without(&self, subject: Subject<'_>, lids: &[Lid]) -> ByTraffic {
        let rules = LaneRules::of(subject);
        let mut left = self.sets.clone();
        // Memory that is never written costs nothing.
        let mut gone: [Vec<Vec<u32>>; 3] = Default::default();
        let tables = (subject.fabric, subject.lids, subject.tables);
        follow_all(&self.net, tables, &rules, lids, |made| {
            let traffic = made.traffic as usize;
            let (pair, bit) = self.layout.bit(made.turn);
            let gone = &mut gone[traffic];
            if gone.len() <= pair {
                gone.resize_with(pair + 1, Vec::new);
            }
            let gone = &mut gone[pair];
            if gone.is_empty() {
                *gone = vec![0; self.layout.words() * 64];
            }
            gone[bit] += 1;
            if self.counts[traffic][pair].get(bit) == Some(&gone[bit]) {
                left[traffic].clear((pair, bit));
            }
        });
        left
    }
}

/// Follows LIDs through tables that do not change.
pub fn follow_all(
    net: &Net,
    (fabric, lids, tables): (&Fabric, &Lids, &Tables),
    rules: &LaneRules<'_>,
    which: &[Lid],
    mut f: impl FnMut(&Made),
) {
    let mut drift = Drift::new(net, tables, rules);
    for &lid in which {
        drift.follow(lid, net.owner(fabric, lids, lid), &[], &[false]);
        drift.made.iter().for_each(&mut f);
    }
}

/// Returns the length and the number of chunks for a number of LIDs.
pub fn chunks(lids: usize, par: Par) -> (usize, usize) {
    let most = match par {
        Par::Sequential => 1,
        Par::Rayon => CHUNKS,
    };
    let length = lids.div_ceil(most).max(1);
    (length, lids.div_ceil(length))
}

impl PartialEq for StandingTurns {
    /// True if two values have the same counts of turns on the same cables.
    fn eq(&self, other: &Self) -> bool {
        self.net.is_cabled_like(&other.net) && self.counts == other.counts
    }
}

#[derive(Clone, Copy, Debug)]
enum Change {
    Add,
    Remove,
}
