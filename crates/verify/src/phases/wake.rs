//! Entries that have no effect yet: over links that a change set is going to activate, and above LinearFDBTop.
//!
//! An entry may lead to a port that is trained but not ACTIVE: its link was down or its cable was moved, and no Set has
//! written the entry since. Such an entry drops packets. When the link becomes ACTIVE, the entry takes effect, wherever
//! the cable leads now. So these entries count as missing until a phase activates their link. In the proof, that phase
//! becomes a step that writes all these entries. The wait before the phase becomes the wait before this step. The same
//! applies to entries above LinearFDBTop (for example after two masters wrote tables at the same time), until a phase
//! raises LinearFDBTop.

use std::collections::{BTreeMap, BTreeSet};

use selvedge_fabric::{Fabric, PortRef, SwitchIdx};
use selvedge_plan::{BLOCK_LIDS, ChangeSet, NO_PATH, Op, Tables};
use selvedge_types::{Idx, Lid, PortState};

use super::{PhaseStep, Write};

/// An end of a link between switches.
type End = (SwitchIdx, u8);
/// LFT blocks that differ from their original contents.
type Written<'a> = BTreeMap<(SwitchIdx, usize), &'a [u8; BLOCK_LIDS]>;

/// Links between switches that are trained but carry no packets yet, and entries that have no effect yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wake {
    asleep: BTreeSet<End>,
    /// LinearFDBTop of switches that have entries above it, if the change set raises it.
    tops: Tops,
}

/// LinearFDBTop of some switches.
type Tops = BTreeMap<SwitchIdx, Lid>;

/// True if a port's link leads to another switch and is trained, but not ACTIVE at both ends, so that it carries no
/// packets.
#[must_use]
pub fn is_asleep(fabric: &Fabric, at: PortRef) -> bool {
    let is_active = |at| fabric.port(at).is_some_and(|port| port.link.state == PortState::Active);
    let peer = fabric.peer(at).filter(|peer| fabric.switch_index(peer.node).is_some());
    peer.is_some_and(|peer| fabric.link_is_up(at) && !(is_active(at) && is_active(peer)))
}

impl Wake {
    /// Returns the links of a fabric that are trained but carry no packets yet.
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
        Self {
            asleep: ends.collect(),
            tops: Tops::new(),
        }
    }

    /// Returns the links that a change set activates, and the entries that take effect when it raises LinearFDBTop.
    /// `tables` is what the switches have now. Entries over links that stay inactive have no effect and are not
    /// returned.
    #[must_use]
    pub fn of_changes(fabric: &Fabric, tables: &Tables, changes: &ChangeSet) -> Self {
        let mut wake = Self::of_links(fabric, changes);
        for (switch, new) in ops(changes).filter_map(|op| raised(fabric, op)) {
            let top = Lid(fabric.switch(switch).switch_settings.linear_top);
            if !between(tables, &Written::new(), switch, (top, new)).is_empty() {
                wake.tops.insert(switch, top);
            }
        }
        wake
    }

    /// Does the same as [`Self::of_changes`], but returns only the links, not the entries.
    fn of_links(fabric: &Fabric, changes: &ChangeSet) -> Self {
        let of_all = Self::of(fabric);
        let is_asleep = |end| of_all.asleep.contains(&end);
        match ops(changes).flat_map(|op| woken(fabric, op)).any(is_asleep) {
            true => of_all,
            false => Self::default(),
        }
    }

    /// False if a change set activates no link between switches and raises no LinearFDBTop, so that the tables need not
    /// be read.
    #[must_use]
    pub fn may_be_of(fabric: &Fabric, changes: &ChangeSet) -> bool {
        ops(changes).any(|op| raised(fabric, op).is_some()) || !Self::of_links(fabric, changes).is_empty()
    }

    /// True if every trained link carries packets and every entry has its effect.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.asleep.is_empty() && self.tops.is_empty()
    }

    /// Returns the entries that have no effect.
    pub fn entries<'a>(&'a self, tables: &'a Tables) -> impl Iterator<Item = Write> + 'a {
        let ends = self.asleep.iter();
        let behind = ends.flat_map(move |&(switch, port)| leading_to(tables, &BTreeMap::new(), (switch, port)));
        let above = self.tops.iter().flat_map(move |(&switch, &top)| {
            let all = between(tables, &BTreeMap::new(), switch, (top, tables.top()));
            all.into_iter()
                .filter(move |write| !self.asleep.contains(&(switch, write.egress)))
        });
        behind.chain(above)
    }

    /// Returns the tables as they act on packets: entries without effect count as missing.
    #[must_use]
    pub fn in_force(&self, tables: &Tables) -> Tables {
        let mut masked = tables.clone();
        for write in self.entries(tables) {
            masked.set(write.switch, write.lid, NO_PATH);
        }
        masked
    }

    /// Returns the steps of a change set, as they act on packets. `tables` is what the switches have now.
    #[must_use]
    pub fn steps(&self, fabric: &Fabric, tables: &Tables, changes: &ChangeSet) -> Vec<PhaseStep> {
        let (mut asleep, mut tops) = (self.asleep.clone(), self.tops.clone());
        let mut written = Written::new();
        let mut steps: Vec<PhaseStep> = Vec::new();
        // A wait before a phase that changes nothing for packets is added to the next phase.
        let mut wait_before_ns = 0_u64;
        for phase in &changes.phases {
            let woken: BTreeSet<End> = phase.ops.iter().flat_map(|op| woken(fabric, op)).collect();
            let woken: Vec<End> = woken.into_iter().filter(|end| asleep.remove(end)).collect();
            let wakes = woken.iter().flat_map(|&end| leading_to(tables, &written, end));
            let mut wakes: Vec<Write> = wakes.filter(|write| !is_above(&tops, write)).collect();
            for (switch, new) in phase.ops.iter().filter_map(|op| raised(fabric, op)) {
                let Some(top) = tops.get_mut(&switch).filter(|top| **top < new) else {
                    continue;
                };
                let old = std::mem::replace(top, new);
                let above = between(tables, &written, switch, (old, new));
                wakes.extend(
                    above
                        .into_iter()
                        .filter(|write| !asleep.contains(&(switch, write.egress))),
                );
            }
            // The Sets of one phase arrive in any order. With all its links active, each mix has the most dependencies.
            let writes = changed(fabric, (tables, &asleep, &tops), &mut written, &phase.ops);
            wait_before_ns = wait_before_ns.saturating_add(phase.wait_before_ns);
            for writes in [wakes, writes].into_iter().filter(|writes| !writes.is_empty()) {
                steps.push(PhaseStep { wait_before_ns, writes });
                wait_before_ns = 0;
            }
        }
        steps
    }
}

fn ops(changes: &ChangeSet) -> impl Iterator<Item = &Op> {
    changes.phases.iter().flat_map(|phase| &phase.ops)
}

/// Returns the ends of the link between switches that a Set activates, if any.
fn woken(fabric: &Fabric, op: &Op) -> impl Iterator<Item = End> {
    let active = Some(PortState::Active);
    let at = match op {
        Op::Port { port, state, .. } if *state == active => Some(*port),
        Op::Port { .. }
        | Op::Lft { .. }
        | Op::Switch { .. }
        | Op::PKeys { .. }
        | Op::SlToVl { .. }
        | Op::Arbitration { .. }
        | Op::Link { .. } => None,
    };
    let end = |at: PortRef| Some((fabric.switch_index(at.node)?, at.port.get()));
    let ends = at.and_then(|at| Some([end(at)?, end(fabric.peer(at)?)?]));
    ends.into_iter().flatten()
}

/// Returns the LinearFDBTop that a Set writes, if it is higher than the current one.
fn raised(fabric: &Fabric, op: &Op) -> Option<(SwitchIdx, Lid)> {
    match op {
        Op::Switch { node, settings } => {
            let is_higher = settings.linear_top > fabric.node(*node).switch_settings.linear_top;
            Some((fabric.switch_index(*node)?, Lid(settings.linear_top))).filter(|_| is_higher)
        }
        Op::Port { .. }
        | Op::Link { .. }
        | Op::Lft { .. }
        | Op::PKeys { .. }
        | Op::SlToVl { .. }
        | Op::Arbitration { .. } => None,
    }
}

/// True if an entry is above the LinearFDBTop of its switch.
fn is_above(tops: &Tops, write: &Write) -> bool {
    tops.get(&write.switch).is_some_and(|top| write.lid > *top)
}

/// Returns the entries of a switch that lead to a port, for LIDs above `above` and up to `upto`.
fn between(tables: &Tables, written: &Written<'_>, switch: SwitchIdx, (above, upto): (Lid, Lid)) -> Vec<Write> {
    if switch.to_usize() >= tables.switches() {
        return Vec::new();
    }
    let entry = |lid: u16| {
        let (block, column) = (usize::from(lid) / BLOCK_LIDS, usize::from(lid) % BLOCK_LIDS);
        let held = tables.block(switch, block);
        let egress = written.get(&(switch, block)).copied().unwrap_or(held)[column];
        let lid = Lid(lid);
        (egress != NO_PATH).then_some(Write { switch, lid, egress })
    };
    let lids = above.0.saturating_add(1)..=upto.min(tables.top()).0;
    lids.filter_map(entry).collect()
}

/// Returns the entries that lead to a port.
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

/// Returns the entries that the Sets of a phase change for packets, and records what they write.
fn changed<'a>(
    fabric: &Fabric,
    (tables, asleep, tops): (&Tables, &BTreeSet<End>, &Tops),
    written: &mut Written<'a>,
    ops: &'a [Op],
) -> Vec<Write> {
    let mut writes = Vec::new();
    let met = |switch: SwitchIdx, lid: usize, entry: u8| {
        let is_above = tops.get(&switch).is_some_and(|top| lid > top.index());
        match is_above || asleep.contains(&(switch, entry)) {
            true => NO_PATH,
            false => entry,
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
            let old = held.map(|held| met(switch, lid, held[column]));
            let egress = met(switch, lid, entry);
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
    use selvedge_fabric::{FabricBuilder, Node, PortSettings, SwitchSettings};
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
            node.switch_settings.linear_top = 6;
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

    fn raise(fabric: &Fabric, switch: u32, linear_top: u16) -> Op {
        let settings = SwitchSettings {
            linear_top,
            ..SwitchSettings::default()
        };
        let node = fabric.switches()[SwitchIdx(switch)];
        Op::Switch { node, settings }
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
        // LID 7 gets an entry over the inactive link: nothing changes until the link is activated.
        let changes = ChangeSet {
            phases: vec![
                phase(5, lft(&fabric, 1, &[(5, 2), (7, 2)])),
                phase(2, activate(&fabric, 0)),
            ],
            ..ChangeSet::default()
        };
        let tables = Tables::new(2, Lid(9));
        let wake = Wake::of_changes(&fabric, &tables, &changes);
        let steps = wake.steps(&fabric, &tables, &changes);
        assert_eq!(steps.iter().map(|step| step.wait_before_ns).collect::<Vec<_>>(), [7]);
    }

    /// Compares the writes of the steps with the expected ones: switch, LID, egress.
    fn check(phases: Vec<Vec<Op>>, want: &[&[(u32, u16, u8)]]) {
        check_with(&[], phases, want);
    }

    /// Does the same as [`check`] with additional entries in the switches. LinearFDBTop of the switches is 6.
    fn check_with(more: &[(u32, u16, u8)], phases: Vec<Vec<Op>>, want: &[&[(u32, u16, u8)]]) {
        let fabric = pair();
        let mut tables = Tables::new(2, Lid(9));
        for (switch, lid, egress) in [(0, 5, 2), (0, 6, 1), (1, 5, 2)].iter().chain(more).copied() {
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
        let wake = Wake::of_changes(&fabric, &tables, &changes);
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
        // Either end activates the link, and both together do the same.
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
        // LID 6 moves away from the ACTIVE link. Its new entry takes effect together with the other.
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
    fn a_higher_top_writes_what_lies_above_the_old_one() {
        let fabric = pair();
        let above = [(0, 7, 1), (0, 9, 1), (1, 7, 1)];
        let raise_first = || raise(&fabric, 0, 8);
        check_with(&above, vec![vec![raise_first()]], &[&[(0, 7, 1)]]);
        // An entry dropped or changed earlier takes effect with its last value. An entry written above LinearFDBTop
        // takes effect when that is raised.
        let drop = lft(&fabric, 0, &[(5, 2), (6, 1)]);
        check_with(&above, vec![vec![drop], vec![raise_first()]], &[]);
        let other = lft(&fabric, 0, &[(5, 2), (6, 1), (8, 1)]);
        check_with(&above, vec![vec![other.clone()], vec![raise_first()]], &[&[(0, 8, 1)]]);
        check_with(
            &above,
            vec![vec![raise_first()], vec![other]],
            &[&[(0, 7, 1)], &[(0, 7, 255), (0, 8, 1)]],
        );
        // A lower LinearFDBTop, or no entries above it.
        check_with(&above, vec![vec![raise(&fabric, 0, 5)]], &[]);
        check_with(&[], vec![vec![raise_first()]], &[]);
        // The entry needs both an active link and a higher LinearFDBTop: the later of the two makes it effective.
        let both = [(0, 7, 2)];
        check_with(
            &both,
            vec![vec![raise_first()], vec![activate(&fabric, 0)]],
            &[&[(0, 5, 2), (0, 7, 2), (1, 5, 2)]],
        );
        check_with(
            &both,
            vec![vec![activate(&fabric, 0)], vec![raise_first()]],
            &[&[(0, 5, 2), (1, 5, 2)], &[(0, 7, 2)]],
        );
    }

    #[test]
    fn entries_above_the_top_are_none_until_it_is_raised() {
        let fabric = pair();
        let mut tables = Tables::new(2, Lid(9));
        tables.set(SwitchIdx(0), Lid(6), 1);
        tables.set(SwitchIdx(0), Lid(7), 1);
        let changes = ChangeSet {
            phases: vec![Phase {
                label: "",
                wait_before_ns: 0,
                ops: vec![raise(&fabric, 0, 9)],
            }],
            ..ChangeSet::default()
        };
        let wake = Wake::of_changes(&fabric, &tables, &changes);
        let met = wake.in_force(&tables);
        assert!(Wake::may_be_of(&fabric, &changes));
        let found = [6, 7].map(|lid| met.get(SwitchIdx(0), Lid(lid)));
        assert_eq!(found, [1, NO_PATH]);
    }

    #[test]
    fn nothing_sleeps_where_nothing_is_activated() {
        let fabric = pair();
        let wake = Wake::of_changes(&fabric, &Tables::new(2, Lid(9)), &ChangeSet::default());
        assert!(wake.is_empty());
        assert!(!Wake::may_be_of(&fabric, &ChangeSet::default()));
        assert!(!Wake::of(&fabric).is_empty());
    }
}
