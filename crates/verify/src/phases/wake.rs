//! Links that go ACTIVE on the way: from then on they carry what old entries send there.
//!
//! An entry may lead to a port that is trained and not ACTIVE: its link was down, or its cable was moved, and nobody
//! has written it since. It drops packets. The moment the link goes ACTIVE it is in force, in whatever direction it may
//! lead now. So such entries count as none until a phase activates their link, and that phase is a step that writes all
//! of them; the wait before it is that step's.

use std::collections::{BTreeMap, BTreeSet};

use selvedge_fabric::{Fabric, PortRef, SwitchIdx};
use selvedge_plan::{BLOCK_LIDS, ChangeSet, NO_PATH, Op, Tables};
use selvedge_types::{Idx, Lid, PortState};

use super::{PhaseStep, Write};

/// An end of a link between switches.
type End = (SwitchIdx, u8);
/// Blocks that are not what they were at first.
type Written<'a> = BTreeMap<(SwitchIdx, usize), &'a [u8; BLOCK_LIDS]>;

/// Links between switches that are trained and carry nothing yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wake {
    asleep: BTreeSet<End>,
}

/// True if a port's link leads to another switch and is trained, but not ACTIVE at both ends: it carries nothing.
#[must_use]
pub fn is_asleep(fabric: &Fabric, at: PortRef) -> bool {
    let is_active = |at| fabric.port(at).is_some_and(|port| port.link.state == PortState::Active);
    let peer = fabric.peer(at).filter(|peer| fabric.switch_index(peer.node).is_some());
    peer.is_some_and(|peer| fabric.link_is_up(at) && !(is_active(at) && is_active(peer)))
}

impl Wake {
    /// All of a fabric.
    #[must_use]
    pub fn of(fabric: &Fabric) -> Self {
        let sleeps = |at: &PortRef| is_asleep(fabric, *at);
        let switches = fabric.switches().iter_enumerated();
        let ends = switches.flat_map(|(switch, &node)| {
            let ports = fabric
                .node(node)
                .external_ports()
                .map(move |(port, _)| PortRef { node, port });
            ports.filter(sleeps).map(move |at| (switch, at.port.get()))
        });
        Self { asleep: ends.collect() }
    }

    /// Those that a change set activates; if it activates none, what leads there does not matter.
    #[must_use]
    pub fn of_changes(fabric: &Fabric, changes: &ChangeSet) -> Self {
        let of_all = Self::of(fabric);
        let ops = changes.phases.iter().flat_map(|phase| &phase.ops);
        match ops
            .flat_map(|op| woken(fabric, op))
            .any(|end| of_all.asleep.contains(&end))
        {
            true => of_all,
            false => Self::default(),
        }
    }

    /// True if every link that is trained carries packets.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.asleep.is_empty()
    }

    /// Entries that lead there.
    pub fn entries<'a>(&'a self, tables: &'a Tables) -> impl Iterator<Item = Write> + 'a {
        let ends = self.asleep.iter();
        ends.flat_map(move |&(switch, port)| leading_to(tables, &BTreeMap::new(), (switch, port)))
    }

    /// The tables as packets meet them: such entries drop.
    #[must_use]
    pub fn in_force(&self, tables: &Tables) -> Tables {
        let mut masked = tables.clone();
        for write in self.entries(tables) {
            masked.set(write.switch, write.lid, NO_PATH);
        }
        masked
    }

    /// What a change set does to the entries that packets meet, step by step; `tables` is what the switches hold.
    #[must_use]
    pub fn steps(&self, fabric: &Fabric, tables: &Tables, changes: &ChangeSet) -> Vec<PhaseStep> {
        let mut asleep = self.asleep.clone();
        let mut written = Written::new();
        let mut steps: Vec<PhaseStep> = Vec::new();
        // What was waited before a phase that changes nothing for packets counts for the next.
        let mut wait_before_ns = 0_u64;
        for phase in &changes.phases {
            let woken: BTreeSet<End> = phase.ops.iter().flat_map(|op| woken(fabric, op)).collect();
            let woken: Vec<End> = woken.into_iter().filter(|end| asleep.remove(end)).collect();
            let wakes = woken.iter().flat_map(|&end| leading_to(tables, &written, end));
            let wakes: Vec<Write> = wakes.collect();
            // Whatever order the Sets of one phase have: with all its links awake each mix has more dependencies.
            let writes = changed(fabric, (tables, &asleep), &mut written, &phase.ops);
            wait_before_ns = wait_before_ns.saturating_add(phase.wait_before_ns);
            for writes in [wakes, writes].into_iter().filter(|writes| !writes.is_empty()) {
                steps.push(PhaseStep { wait_before_ns, writes });
                wait_before_ns = 0;
            }
        }
        steps
    }
}

/// The ends of the link that a Set activates, if it does and the link is between switches.
fn woken(fabric: &Fabric, op: &Op) -> impl Iterator<Item = End> {
    let active = Some(PortState::Active);
    let at = match op {
        Op::Port { port, state, .. } if *state == active => Some(*port),
        Op::Port { .. }
        | Op::Lft { .. }
        | Op::Switch { .. }
        | Op::PKeys { .. }
        | Op::SlToVl { .. }
        | Op::Arbitration { .. } => None,
    };
    let end = |at: PortRef| Some((fabric.switch_index(at.node)?, at.port.get()));
    let ends = at.and_then(|at| Some([end(at)?, end(fabric.peer(at)?)?]));
    ends.into_iter().flatten()
}

/// Entries that lead to a port.
fn leading_to(tables: &Tables, written: &Written<'_>, (switch, port): End) -> Vec<Write> {
    let mut found = Vec::new();
    if switch.to_usize() >= tables.switches() {
        return found;
    }
    for block in 0..tables.blocks() {
        let held = tables.block(switch, block);
        let held = written.get(&(switch, block)).copied().unwrap_or(held);
        let is_looked_up = |lid: usize| lid <= tables.top().index();
        let lids = (block * BLOCK_LIDS..).zip(held);
        let lids = lids.filter(|(lid, egress)| **egress == port && is_looked_up(*lid));
        found.extend(lids.filter_map(|(lid, &egress)| {
            let lid = Lid(u16::try_from(lid).ok()?);
            Some(Write { switch, lid, egress })
        }));
    }
    found
}

/// Entries that the Sets of a phase change for packets; notes what they write.
fn changed<'a>(
    fabric: &Fabric,
    (tables, asleep): (&Tables, &BTreeSet<End>),
    written: &mut Written<'a>,
    ops: &'a [Op],
) -> Vec<Write> {
    let mut writes = Vec::new();
    let met = |switch: SwitchIdx, entry: u8| {
        if asleep.contains(&(switch, entry)) {
            NO_PATH
        } else {
            entry
        }
    };
    let mut new = Vec::new();
    for op in ops {
        let Op::Lft { node, block, data } = op else { continue };
        let Some(switch) = fabric.switch_index(*node) else {
            continue;
        };
        let place = (switch, usize::from(*block));
        let is_known = switch.to_usize() < tables.switches() && place.1 < tables.blocks();
        let known = is_known.then(|| tables.block(switch, place.1));
        let held = written.get(&place).copied().or(known);
        for ((lid, &entry), column) in (place.1 * BLOCK_LIDS..).zip(data).zip(0..) {
            let (old, egress) = (held.map(|held| met(switch, held[column])), met(switch, entry));
            if let (true, Ok(lid)) = (old != Some(egress), u16::try_from(lid)) {
                let lid = Lid(lid);
                writes.push(Write { switch, lid, egress });
            }
        }
        new.push((place, data));
    }
    written.extend(new);
    writes
}

#[cfg(test)]
mod tests {
    use selvedge_fabric::{FabricBuilder, Node, PortSettings};
    use selvedge_plan::Phase;
    use selvedge_types::{Guid, NodeKind, PhysState, PortNum};

    use super::*;

    fn port(n: u8) -> PortNum {
        PortNum::new(n).unwrap()
    }

    /// Two switches with two links: the one at port 1 is ACTIVE, the one at port 2 is not.
    fn pair() -> Fabric {
        let mut b = FabricBuilder::new();
        let keys = [1_u64, 2].map(|guid| {
            let mut node = Node::new(NodeKind::Switch, Guid(guid), 2, format!("s{guid}"));
            for (n, state) in [(1, PortState::Active), (2, PortState::Armed)] {
                let p = node.port_mut(port(n)).unwrap();
                (p.link.phys, p.link.state) = (PhysState::LinkUp, state);
            }
            b.add(node)
        });
        for n in [1, 2] {
            b.link((keys[0], port(n)), (keys[1], port(n))).unwrap();
        }
        b.finish().unwrap()
    }

    fn lft(fabric: &Fabric, switch: u32, entries: &[(usize, u8)]) -> Op {
        let mut data = [NO_PATH; BLOCK_LIDS];
        entries.iter().for_each(|&(lid, egress)| data[lid] = egress);
        let node = fabric.switches()[SwitchIdx(switch)];
        Op::Lft { node, block: 0, data }
    }

    fn activate(fabric: &Fabric, switch: u32) -> Op {
        let node = fabric.switches()[SwitchIdx(switch)];
        let port = PortRef { node, port: port(2) };
        let (settings, state) = (PortSettings::default(), Some(PortState::Active));
        Op::Port { port, settings, state }
    }

    #[test]
    fn a_wait_that_no_packet_sees_counts_for_what_follows() {
        let fabric = pair();
        let phase = |wait_before_ns, op| Phase {
            label: "",
            wait_before_ns,
            ops: vec![op],
        };
        // LID 7 gets an entry over the link that sleeps: nothing changes until it is activated.
        let changes = ChangeSet {
            phases: vec![
                phase(5, lft(&fabric, 1, &[(5, 2), (7, 2)])),
                phase(2, activate(&fabric, 0)),
            ],
            ..ChangeSet::default()
        };
        let wake = Wake::of_changes(&fabric, &changes);
        let steps = wake.steps(&fabric, &Tables::new(2, Lid(9)), &changes);
        assert_eq!(steps.iter().map(|step| step.wait_before_ns).collect::<Vec<_>>(), [7]);
    }

    /// What the steps write: switch, LID, egress.
    fn check(phases: Vec<Vec<Op>>, want: &[&[(u32, u16, u8)]]) {
        let fabric = pair();
        let mut tables = Tables::new(2, Lid(9));
        for (switch, lid, egress) in [(0, 5, 2), (0, 6, 1), (1, 5, 2)] {
            tables.set(SwitchIdx(switch), Lid(lid), egress);
        }
        let phase = |ops| Phase {
            label: "",
            wait_before_ns: 0,
            ops,
        };
        let changes = ChangeSet {
            phases: phases.into_iter().map(phase).collect(),
            ..ChangeSet::default()
        };
        let wake = Wake::of_changes(&fabric, &changes);
        let step = |step: PhaseStep| {
            let mut writes: Vec<_> = step.writes.iter().map(|w| (w.switch.0, w.lid.0, w.egress)).collect();
            writes.sort_unstable();
            writes
        };
        let found: Vec<_> = wake.steps(&fabric, &tables, &changes).into_iter().map(step).collect();
        assert_eq!(found, want);
    }

    #[test]
    fn activation_writes_what_leads_there() {
        let fabric = pair();
        check(vec![vec![activate(&fabric, 0)]], &[&[(0, 5, 2), (1, 5, 2)]]);
        // Either end will do, and both are no more.
        check(
            vec![vec![activate(&fabric, 1)], vec![activate(&fabric, 0)]],
            &[&[(0, 5, 2), (1, 5, 2)]],
        );
    }

    #[test]
    fn what_was_dropped_before_does_not_wake() {
        let fabric = pair();
        let blank = lft(&fabric, 0, &[(6, 1)]);
        check(vec![vec![blank], vec![activate(&fabric, 0)]], &[&[(1, 5, 2)]]);
    }

    #[test]
    fn entries_written_before_are_in_force_when_their_link_is() {
        let fabric = pair();
        let new = lft(&fabric, 0, &[(5, 2), (6, 2)]);
        // LID 6 leaves the link that is ACTIVE; its new entry wakes with the other.
        check(
            vec![vec![new.clone()], vec![activate(&fabric, 0)]],
            &[&[(0, 6, 255)], &[(0, 5, 2), (0, 6, 2), (1, 5, 2)]],
        );
        check(
            vec![vec![activate(&fabric, 0)], vec![new]],
            &[&[(0, 5, 2), (1, 5, 2)], &[(0, 6, 2)]],
        );
    }

    #[test]
    fn nothing_sleeps_where_nothing_is_activated() {
        let fabric = pair();
        let wake = Wake::of_changes(&fabric, &ChangeSet::default());
        assert!(wake.is_empty());
        assert!(!Wake::of(&fabric).is_empty());
    }
}
