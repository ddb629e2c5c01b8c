//! Forgets changes LID by LID once their packets are gone, even if later changes were made since.

use std::collections::BTreeMap;
use std::time::Duration;

use selvedge_fabric::Fabric;
use selvedge_plan::NO_PATH;
use selvedge_sim::Time;
use selvedge_types::Guid;
use selvedge_verify::phases::{Aging, drain_bound_ns};
use selvedge_verify::standing::{Entry, Replaced};

use super::taken::{Change, Step};
use super::{After, FOG_LIFETIMES, Recent};

impl Recent {
    /// Removes changes from the record, LID by LID, when the packets of their old entries are gone, even if other
    /// changes were made since. When faults follow each other closely, there is no moment at which the packets of all
    /// changes are gone.
    pub(super) fn forget_aged(&mut self, now: Time, after: &After) {
        let longest = self.longest(&after.fabric);
        // Number of steps, from the first on, that are this many lifetimes old.
        let aged = |lifetimes: u32| {
            let bound = drain_bound_ns([longest], lifetimes).map(Duration::from_nanos);
            let is_aged = |step: &&Step| step.ended.zip(bound).is_some_and(|(at, bound)| now.since(at) >= bound);
            self.written.steps.iter().take_while(is_aged).count()
        };
        let least = aged(FOG_LIFETIMES);
        // If that includes all steps, everything will be forgotten soon anyway.
        if least == 0 || least == self.written.steps.len() {
            return;
        }
        let (fabric, lost) = (&after.fabric, self.lost_until(&after.fabric));
        let mut aging = Aging::new(fabric, &after.plan.lids, &lost);
        let mut upto = BTreeMap::new();
        for changes in self.written.changes().chunk_by(|a, b| a.lid == b.lid) {
            let lid = changes[0].lid;
            let entry = |switch| after.installed.get(switch, lid).unwrap_or(NO_PATH);
            // Forgets as many as possible, the last of these steps first.
            let mut last: Vec<usize> = changes.iter().map(|c| c.step).filter(|&step| step < least).collect();
            last.dedup();
            let is_gone = |step: &usize| {
                let since = changes.partition_point(|change| change.step <= *step);
                let replaced = replaced_on(fabric, &changes[since..]);
                let lifetimes = replaced.and_then(|replaced| aging.lifetimes(lid, entry, &replaced));
                lifetimes.is_some_and(|lifetimes| *step < aged(lifetimes))
            };
            upto.extend(last.into_iter().rev().find(is_gone).map(|step| (lid, step)));
        }
        self.written.forget(&upto);
    }
}

/// Returns the changed entries of one LID with their steps; `None` if one belongs to a switch that is not visible.
fn replaced_on(fabric: &Fabric, changes: &[Change]) -> Option<Vec<Replaced>> {
    let step = |step: usize| u16::try_from(step + 1).ok();
    let mut since: BTreeMap<Guid, u16> = BTreeMap::new();
    let replaced = changes.iter().map(|change| {
        let switch = fabric.switch_index(fabric.find(change.switch)?)?;
        let until = step(change.step)?;
        Some(Replaced {
            entry: Entry {
                switch,
                lid: change.lid,
                egress: change.before,
            },
            since: since.insert(change.switch, until).unwrap_or(0),
            until,
            is_emptied: false,
        })
    });
    replaced.collect()
}
