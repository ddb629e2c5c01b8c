//! Adds waits to a change set for packets that unknown entries forwarded: no proof can consider such packets.

use std::collections::BTreeMap;
use std::time::Duration;

use selvedge_fabric::{Fabric, NodeIdx};
use selvedge_plan::{BLOCK_LIDS, ChangeSet, Installed, NO_PATH, Op};
use selvedge_types::PortState;
use selvedge_verify::phases;

/// Contents of blocks after some phases.
type Written = BTreeMap<(NodeIdx, u16), [u8; BLOCK_LIDS]>;

/// Makes a change set wait for packets of unknown entries (fog) before it adds any entry that may make packets wait for
/// each other.
///
/// Entries are removed without this wait: a removed entry cannot make packets wait, whichever entries forwarded them
/// before. The removals must not be delayed. If packets loop by the tables in force, the proof starts from the entries
/// that are removed before the wait.
pub fn let_clear(changes: &mut ChangeSet, (fabric, installed): (&Fabric, &Installed), fog: Duration) {
    let mut fog_ns = u64::try_from(fog.as_nanos()).unwrap_or(u64::MAX);
    let mut written = Written::new();
    for phase in &mut changes.phases {
        if fog_ns == 0 {
            return;
        }
        if phase.ops.iter().any(|op| adds(op, (fabric, installed), &written)) {
            phase.wait_before_ns = phase.wait_before_ns.max(fog_ns);
            return;
        }
        fog_ns = fog_ns.saturating_sub(phase.wait_before_ns);
        for op in &phase.ops {
            if let Op::Lft { node, block, data } = op {
                written.insert((*node, *block), *data);
            }
        }
    }
}

/// True if a Set has any effect on packets other than dropping them.
fn adds(op: &Op, (fabric, installed): (&Fabric, &Installed), written: &Written) -> bool {
    match op {
        Op::Lft { node, block, data } => {
            let switch = fabric.switch_index(*node);
            let held = switch.and_then(|switch| installed.block(switch, usize::from(*block)));
            let held = written.get(&(*node, *block)).or(held);
            let is_new = |(place, &entry): (usize, &u8)| held.is_none_or(|held| held[place] != entry);
            let mut entries = data.iter().enumerate().filter(|(_, entry)| **entry != NO_PATH);
            entries.any(is_new)
        }
        Op::SlToVl { .. } => true,
        // Packets to a LID may be sent as soon as a port has it.
        Op::Port { state, .. } => *state == Some(PortState::Active) || phases::gives_lids(fabric, op),
        // Entries above LinearFDBTop become effective once it is raised.
        Op::Switch { node, settings } => settings.linear_top > fabric.node(*node).switch_settings.linear_top,
        Op::PKeys { .. } | Op::Arbitration { .. } | Op::Link { .. } => false,
    }
}

#[cfg(test)]
mod tests {
    use selvedge_fabric::{FabricBuilder, Node, PortRef, PortSettings, SwitchIdx, SwitchSettings};
    use selvedge_plan::Phase;
    use selvedge_types::{Guid, Lid, LidRange, Lmc, NodeKind, PortNum};

    use super::*;

    const NODE: NodeIdx = NodeIdx(0);

    /// Checks the waits of `phases` after [`let_clear`]. Each phase is given with the wait before it. The switch has
    /// entry 2 for LID 5.
    fn check(phases: &[(u64, Op)], fog_ns: u64, want_ns: &[u64]) {
        let mut builder = FabricBuilder::new();
        builder.add(Node::new(NodeKind::Switch, Guid(1), 2, "s"));
        let fabric = builder.finish().unwrap();
        let mut installed = Installed::unknown(1);
        installed.learn(SwitchIdx(0), 0, block(2));
        let phase = |(wait_before_ns, op): &(u64, Op)| Phase {
            label: "",
            wait_before_ns: *wait_before_ns,
            ops: vec![op.clone()],
        };
        let mut changes = ChangeSet {
            phases: phases.iter().map(phase).collect(),
            ..ChangeSet::default()
        };
        let_clear(&mut changes, (&fabric, &installed), Duration::from_nanos(fog_ns));
        let waits: Vec<u64> = changes.phases.iter().map(|phase| phase.wait_before_ns).collect();
        assert_eq!(waits, want_ns);
    }

    fn block(entry: u8) -> [u8; BLOCK_LIDS] {
        let mut data = [NO_PATH; BLOCK_LIDS];
        data[5] = entry;
        data
    }

    fn table(entry: u8) -> Op {
        let data = block(entry);
        let (node, block) = (NODE, 0);
        Op::Lft { node, block, data }
    }

    fn port(state: PortState) -> Op {
        let at = PortRef {
            node: NODE,
            port: PortNum::MANAGEMENT,
        };
        Op::Port {
            port: at,
            settings: PortSettings::default(),
            state: Some(state),
        }
    }

    fn lid() -> Op {
        let lids = LidRange {
            base: Lid(9),
            lmc: Lmc::default(),
        };
        let Op::Port { port, settings, .. } = port(PortState::Active) else {
            unreachable!("it is one of a port");
        };
        let settings = PortSettings { lids, ..settings };
        Op::Port {
            port,
            settings,
            state: None,
        }
    }

    fn top(linear_top: u16) -> Op {
        let settings = SwitchSettings {
            linear_top,
            ..SwitchSettings::default()
        };
        Op::Switch { node: NODE, settings }
    }

    #[test]
    fn only_what_adds_waits() {
        check(&[(0, table(1))], 5, &[5]);
        check(&[(7, table(1))], 5, &[7]);
        check(&[(0, table(1))], 0, &[0]);
        check(&[(0, port(PortState::Active))], 5, &[5]);
        check(&[(0, port(PortState::Armed))], 5, &[0]);
        check(&[(0, lid())], 5, &[5]);
        check(&[(0, top(9))], 5, &[5]);
        check(&[(0, top(0))], 5, &[0]);
        // Unchanged, or dropped.
        check(&[(0, table(2))], 5, &[0]);
        check(&[(0, table(NO_PATH))], 5, &[0]);
        check(&[(0, table(NO_PATH)), (0, table(2))], 5, &[0, 5]);
        // Waits between the phases count.
        check(
            &[(0, table(NO_PATH)), (9, table(NO_PATH)), (0, table(1))],
            5,
            &[0, 9, 0],
        );
        check(
            &[(0, table(NO_PATH)), (3, table(NO_PATH)), (0, table(1))],
            5,
            &[0, 3, 2],
        );
        check(&[(0, table(NO_PATH)), (9, table(1))], 5, &[0, 9]);
    }
}
