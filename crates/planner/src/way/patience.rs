//! Limits the time of a transition, and replaces one that takes too long by a quicker one.

use std::collections::BTreeMap;

use selvedge_fabric::Fabric;
use selvedge_plan::{ChangeSet, Installed, NO_PATH, Plan};
use selvedge_types::Lid;
use selvedge_verify::phases::{self, Word, Write, drain_bound_ns, lifetimes};

use super::{Step, Way, WayOptions, What};

/// Longest sum of several waits that is acceptable to save packets. In the worst case a packet passes all switches one
/// after another by old and new entries; then a wait has as many lifetimes of 1.07 s as there are switches.
const PATIENCE_NS: u64 = 20_000_000_000;

/// Makes each wait of these steps long enough. The steps were planned as if links that come up carried packets from the
/// start.
pub(super) fn with_waits(
    mut set: ChangeSet,
    (fabric, installed): (&Fabric, &Installed),
    plan: &Plan,
    options: &WayOptions<'_>,
) -> ChangeSet {
    let lanes = options.lanes_in_force;
    let longest = phases::longest_wait(fabric, installed, plan, &set, lanes, options.switch_pairs);
    let bound = drain_bound_ns(lifetimes(fabric, &set), longest.unwrap_or(0)).unwrap_or(0);
    for phase in set.phases.iter_mut().filter(|phase| phase.wait_before_ns > 0) {
        phase.wait_before_ns = phase.wait_before_ns.max(bound);
    }
    set
}

/// Returns the transition that was found, or the one that drops everything and waits once, if that saves much time.
pub(super) fn choose(found: ChangeSet, at_once: impl FnOnce() -> ChangeSet) -> ChangeSet {
    let waits = |set: &ChangeSet| {
        let waits = set
            .phases
            .iter()
            .map(|phase| phase.wait_before_ns)
            .filter(|wait| *wait > 0);
        waits.fold((0_usize, 0_u64), |(count, total), wait| {
            (count + 1, total.saturating_add(wait))
        })
    };
    let (count, total) = waits(&found);
    if count < 2 || total <= PATIENCE_NS {
        return found;
    }
    let other = at_once();
    let (count, other_total) = waits(&other);
    match count == 1 && other_total <= total / 2 {
        true => other,
        false => found,
    }
}

impl Way<'_> {
    /// Returns steps that drop all entries that change, wait, and write the new entries.
    pub(super) fn drop_all(&self, by_lid: &BTreeMap<Lid, Vec<Write>>) -> Option<Vec<Step>> {
        self.drain_ns(1)?;
        let all = || by_lid.values().flatten().copied();
        let leads = |write: &Write| self.in_force.get(write.switch, write.lid) != NO_PATH;
        let drop = |write: Write| Write {
            egress: NO_PATH,
            ..write
        };
        let old: Vec<Write> = all().filter(leads).map(drop).collect();
        let new: Vec<Write> = all().filter(|write| write.egress != NO_PATH).collect();
        let step = |what, waits, writes| Step { what, waits, writes };
        let steps = [step(What::Drop, false, old), step(What::Fill, true, new)];
        Some(steps.into_iter().filter(|step| !step.writes.is_empty()).collect())
    }

    /// Returns these steps with the expected verdict; `None` if the judge would refuse them.
    pub(super) fn at_once(&self, by_lid: &BTreeMap<Lid, Vec<Write>>) -> Option<(Vec<Step>, Word)> {
        let steps = self.drop_all(by_lid)?;
        let word = self.word(&steps);
        (word != Word::Unsafe).then_some((steps, word))
    }
}

#[cfg(test)]
mod tests {
    use selvedge_plan::Phase;

    use super::*;

    fn set(waits_s: &[u64]) -> ChangeSet {
        let phase = |wait: &u64| Phase {
            label: "",
            wait_before_ns: wait * 1_000_000_000,
            ops: Vec::new(),
        };
        ChangeSet {
            phases: waits_s.iter().map(phase).collect(),
            ..ChangeSet::default()
        }
    }

    #[test]
    fn who_would_wait_long_and_often_drops_everything() {
        let check = |found: &[u64], other: &[u64], want: &[u64]| {
            let chosen = choose(set(found), || set(other));
            let waits = chosen.phases.iter().map(|phase| phase.wait_before_ns / 1_000_000_000);
            assert!(waits.eq(want.iter().copied()), "{found:?} {other:?}");
        };
        check(&[0, 22, 0, 22], &[0, 22], &[0, 22]);
        check(&[0, 22, 0, 22], &[0, 30], &[0, 22, 0, 22]);
        // No quicker transition was found.
        check(&[0, 22, 0, 22], &[0], &[0, 22, 0, 22]);
        // No time is saved, or the found transition takes no time.
        check(&[0, 22], &[0, 5], &[0, 22]);
        check(&[0, 2, 2, 2], &[0, 2], &[0, 2, 2, 2]);
    }
}
