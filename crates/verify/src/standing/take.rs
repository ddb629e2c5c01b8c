//! Applies a change set that writes entries, link by link and step by step, completely or not at all.

use selvedge_fabric::{Fabric, PortRef, SwitchIdx};
use selvedge_plan::ChangeSet;
use selvedge_types::Idx;

use super::left::Replaced;
use super::repair::{SWITCHES, wait_ns};
use super::shape::NOWHERE;
use super::{Change, Entry, LinkChange, Proof, Standing};
use crate::phases::QuickProof;
use crate::verdict::Verdict;

/// Groups steps: packets of earlier groups are gone when a group begins. Waits that are too short do not start a group.
fn between_waits<'a>(fabric: &Fabric, changes: &ChangeSet, steps: &'a [Vec<Entry>]) -> Vec<&'a [Vec<Entry>]> {
    if changes.phases.iter().all(|phase| phase.wait_before_ns == 0) {
        return vec![steps];
    }
    let bound = wait_ns(fabric);
    let is_enough = |ns: u64| ns > 0 && bound.is_some_and(|bound| ns >= bound);
    let (mut parts, mut first) = (Vec::new(), 0);
    for (at, phase) in changes.phases.iter().enumerate().skip(1) {
        if is_enough(phase.wait_before_ns) {
            parts.push(&steps[first..at]);
            first = at;
        }
    }
    parts.push(&steps[first..]);
    parts
}

/// Returns the last value of each entry that these steps write.
pub(super) fn last(steps: &[Vec<Entry>]) -> Vec<Entry> {
    let mut entries = steps.concat();
    // The last of several changes of one entry counts.
    entries.reverse();
    entries.sort_by_key(|e| (e.lid, e.switch));
    entries.dedup_by_key(|e| (e.lid, e.switch));
    entries
}

/// An applied change set, with the data needed to undo it.
pub(super) struct Taken {
    /// The proof of the transition.
    pub way: QuickProof,
    /// The current proof.
    pub proof: Proof,
    undo: Vec<Change>,
    /// Switches that are gone because of the change set.
    pub gone: Vec<u16>,
}

impl Standing {
    /// Applies a change set after links have changed, if it is safe and the proof holds for its result. `None`: the
    /// change set is rejected, and the state is unchanged.
    pub(super) fn take_all(
        &mut self,
        (fabric, links): (&Fabric, &[LinkChange]),
        changes: &ChangeSet,
        under_way: &[Replaced],
    ) -> Option<Taken> {
        let steps = self.steps(fabric, changes)?;
        let parts = between_waits(fabric, changes, &steps);
        let mut undo = Vec::with_capacity(parts.len());
        let mut way: Option<QuickProof> = None;
        for (number, steps) in parts.iter().enumerate() {
            let taken = match number {
                0 => self.take(links, steps, under_way),
                _ => self.take_drained(steps),
            };
            let Some((more, back)) = taken else {
                self.take_back(&undo);
                return None;
            };
            undo.push(back);
            way = Some(way.map_or(more, |way| way.and(more)));
        }
        let gone = self.newly_gone(fabric, links);
        self.set_gone(&gone, true);
        let taken = Taken {
            way: way?,
            proof: self.proof(),
            undo,
            gone,
        };
        if !taken.proof.holds() {
            self.give_back(&taken);
            return None;
        }
        Some(taken)
    }

    /// Restores the state before the change set.
    pub(super) fn give_back(&mut self, taken: &Taken) {
        self.set_gone(&taken.gone, false);
        self.take_back(&taken.undo);
    }

    /// Returns the verdict on the current state, based on the verdict before.
    pub(super) fn verdict_of(&self, proof: Proof, before: &Verdict) -> Verdict {
        let mut verdict = before.clone();
        verdict.figures.host_pairs_reached = proof.host_pairs_reached;
        verdict.figures.hops.clear();
        (verdict.figures.hops_max, verdict.figures.hops_mean) = (0, proof.hops_mean);
        (verdict.figures.load, verdict.figures.lanes) = (proof.load, proof.lanes);
        if self.flows.shape.gone.contains(&true) {
            // Pairs are counted over all hosts, including those behind lost switches.
            verdict.figures.host_ports = self.live_hosts();
        }
        verdict
    }

    /// Applies steps after links have changed, if they are safe.
    fn take(
        &mut self,
        links: &[LinkChange],
        steps: &[Vec<Entry>],
        under_way: &[Replaced],
    ) -> Option<(QuickProof, Change)> {
        let way = self.safe_way(links, steps, under_way)?;
        let links = links.to_vec();
        let entries = last(steps);
        let undo = self.apply_quickly(&Change { links, entries }).ok()?;
        Some((way, undo))
    }

    /// Applies steps after packets of earlier steps have drained, if they are safe. Packets of all senders are
    /// considered: packets from hosts that were in flight may be on any channel to which the entries in force lead from
    /// any switch.
    fn take_drained(&mut self, steps: &[Vec<Entry>]) -> Option<(QuickProof, Change)> {
        self.catch_up();
        let (lids, turns) = self.turns_of(steps, &[], SWITCHES);
        let added = self.graphs[1].stays_acyclic_with(&self.flows.shape, &turns, &[])?;
        let undo = self.apply_quickly(&Change {
            links: Vec::new(),
            entries: last(steps),
        });
        let way = QuickProof {
            lids,
            standing: self.flows.sums.dependencies.iter().sum(),
            added,
        };
        Some((way, undo.ok()?))
    }

    fn take_back(&mut self, changes: &[Change]) {
        for undo in changes.iter().rev() {
            // These tables were in force a moment ago, so they have no loop.
            drop(self.apply(undo));
        }
    }

    /// Returns the switches at changed links that have no link any more, according to both the fabric and the proof.
    fn newly_gone(&self, fabric: &Fabric, links: &[LinkChange]) -> Vec<u16> {
        let shape = &self.flows.shape;
        let is_gone = |switch: &SwitchIdx| {
            let node = fabric.switches()[*switch];
            let mut ports = fabric.node(node).external_ports();
            let first = switch.to_usize() * shape.cells;
            ports.all(|(port, _)| !fabric.link_is_up(PortRef { node, port }))
                && self.flows.next[first..first + shape.cells]
                    .iter()
                    .all(|next| *next == NOWHERE)
                && !shape.gone[switch.to_usize()]
        };
        let mut ends: Vec<SwitchIdx> = links.iter().map(|link| link.switch).collect();
        ends.sort_unstable();
        ends.dedup();
        ends.retain(is_gone);
        ends.iter().map(|switch| switch.0 as u16).collect()
    }

    /// Returns the number of host ports behind switches that are not lost.
    fn live_hosts(&self) -> u64 {
        let shape = &self.flows.shape;
        let live = shape.own.iter().zip(&shape.gone).filter(|(_, gone)| !**gone);
        live.map(|(&own, _)| u64::from(own)).sum()
    }
}
