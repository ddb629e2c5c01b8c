//! What no proof can count with is waited out.

use std::time::Duration;

use selvedge_plan::{ChangeSet, Op};
use selvedge_types::PortState;

/// Before a change set does anything to packets, those must be gone that are under way by entries nobody knows.
pub fn let_clear(changes: &mut ChangeSet, fog: Duration) {
    let fog_ns = u64::try_from(fog.as_nanos()).unwrap_or(u64::MAX);
    let matters = |op: &Op| match op {
        Op::Lft { .. } | Op::SlToVl { .. } => true,
        Op::Port { state, .. } => *state == Some(PortState::Active),
        Op::Switch { .. } | Op::PKeys { .. } | Op::Arbitration { .. } => false,
    };
    let phases = &mut changes.phases;
    if fog_ns > 0 && phases.iter().flat_map(|phase| &phase.ops).any(matters) {
        phases[0].wait_before_ns = phases[0].wait_before_ns.max(fog_ns);
    }
}

#[cfg(test)]
mod tests {
    use selvedge_fabric::{NodeIdx, PortRef, PortSettings};
    use selvedge_plan::{BLOCK_LIDS, NO_PATH, Phase};
    use selvedge_types::PortNum;

    use super::*;

    fn check(op: Op, held_ns: u64, fog_ns: u64, want_ns: u64) {
        let mut changes = ChangeSet {
            phases: vec![Phase {
                label: "",
                wait_before_ns: held_ns,
                ops: vec![op],
            }],
            ..ChangeSet::default()
        };
        let_clear(&mut changes, Duration::from_nanos(fog_ns));
        assert_eq!(changes.phases[0].wait_before_ns, want_ns);
    }

    #[test]
    fn only_what_packets_see_waits() {
        let node = NodeIdx(0);
        let table = Op::Lft {
            node,
            block: 0,
            data: [NO_PATH; BLOCK_LIDS],
        };
        let port = |state| Op::Port {
            port: PortRef {
                node,
                port: PortNum::MANAGEMENT,
            },
            settings: PortSettings::default(),
            state,
        };
        check(table.clone(), 0, 5, 5);
        check(table.clone(), 7, 5, 7);
        check(table, 0, 0, 0);
        check(port(Some(PortState::Active)), 0, 5, 5);
        check(port(Some(PortState::Armed)), 0, 5, 0);
    }
}
