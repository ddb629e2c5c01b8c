//! Which port held which LIDs: this record outlives every process of a manager.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use selvedge_chassis::{Chassis, PortIdx};
use selvedge_fabric::NodeIdx;
use selvedge_sim::Time;
use selvedge_types::{Guid, LidRange, Lmc};

use crate::Violation;
use crate::checkers::holders::end_ports;
use crate::checkers::names::port_name;
use crate::checkers::rules::Rule;
use crate::subnet::ports_of;

/// A port that got LIDs other than those it had.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moved {
    port: PortIdx,
    guid: Guid,
    before: LidRange,
    now: LidRange,
    /// True if the port held its LIDs until now: it did not boot in between.
    kept: bool,
}

impl Moved {
    pub const fn guid(self) -> Guid {
        self.guid
    }

    pub const fn before(self) -> LidRange {
        self.before
    }

    pub const fn now(self) -> LidRange {
        self.now
    }

    /// True if the port held its LIDs until now: it did not boot in between.
    pub const fn is_kept(self) -> bool {
        self.kept
    }

    /// True if a port cannot keep its base LID with this LMC, because the LIDs of a port must begin at a multiple of
    /// their number. If other ports hold some of its new LIDs, the port may get only the first of them for now.
    pub const fn must_begin_elsewhere(self, lmc: Lmc) -> bool {
        !self.before.base.0.is_multiple_of(lmc.lids())
    }

    /// True if the port booted, and its new base LID differs in one bit from its old one, or from 0.
    pub fn is_off_by_a_bit(self) -> bool {
        let bits = |held: u16| (held ^ self.now.base.0).count_ones();
        !self.kept && (bits(0) == 1 || bits(self.before.base.0) == 1)
    }

    pub fn violation(self, chassis: &Chassis) -> Violation {
        Violation::LidChanged {
            port: port_name(chassis, self.port),
            before: self.before.base,
            now: self.now.base,
        }
    }
}

/// The LIDs that each port held last.
#[derive(Clone, Debug, Default)]
pub(super) struct LidBook {
    by_guid: BTreeMap<Guid, LidRange>,
    /// LIDs that each port of the chassis held last, whatever GUID it showed.
    by_port: BTreeMap<PortIdx, LidRange>,
    /// How often the node had booted when the port last held LIDs. A node that boots loses its LIDs.
    boots: BTreeMap<Guid, u32>,
    /// GUIDs that two nodes ever showed.
    cloned: BTreeSet<Guid>,
    /// Ports that lost their LIDs to a port with a larger LMC than before. The LIDs of a port are consecutive, so the
    /// growing range of that port replaced theirs.
    overgrown: BTreeSet<Guid>,
    /// LIDs that ports held before an excused Set gave them other LIDs.
    own: BTreeMap<Guid, LidRange>,
    /// All LIDs that ports held before Sets gave them other LIDs, with the time of the last such Set. If a port was
    /// changed twice, it has several entries, and a manager that has read only the first LIDs may restore them.
    left: BTreeMap<Guid, Vec<(LidRange, Time)>>,
}

impl LidBook {
    pub fn new(chassis: &Chassis) -> Self {
        let mut book = Self::default();
        book.read(chassis);
        book
    }

    /// Reads the LIDs that ports hold now, by the GUIDs that they show now.
    pub fn read(&mut self, chassis: &Chassis) {
        for port in end_ports(chassis) {
            let range = chassis.port(port).settings().lids;
            if range.base.is_unicast() {
                self.by_guid.insert(chassis.port_guid(port), range);
                self.by_port.insert(port, range);
                self.boots.insert(chassis.port_guid(port), boots_of(chassis, port));
            }
        }
    }

    /// True if two nodes ever showed this GUID, or its node showed the GUID of another.
    pub fn is_cloned(&self, guid: Guid) -> bool {
        self.cloned.contains(&guid)
    }

    /// Records which nodes show the GUIDs of others.
    pub fn note_clones(&mut self, chassis: &Chassis) {
        for (node, built) in chassis.fabric().nodes().iter_enumerated() {
            if chassis.node_guid(node) != built.guid {
                self.cloned
                    .extend(ports_of(chassis, node).map(|port| chassis.port_guid(port)));
                self.cloned.extend(built.end_ports().map(|(_, port)| port.guid));
            }
        }
    }

    /// Reads the LIDs of the ports of a node. Returns the first port with new LIDs, and the first port with a GUID that
    /// had other LIDs before.
    pub fn take(&mut self, chassis: &Chassis, node: NodeIdx) -> (Option<(PortIdx, LidRange)>, Option<Moved>) {
        let (mut new, mut first) = (None, None);
        for port in ports_of(chassis, node).filter(|&port| chassis.end_port(port) == port) {
            let (guid, now) = (chassis.port_guid(port), chassis.port(port).settings().lids);
            if !now.base.is_unicast() {
                continue;
            }
            let before = self.by_guid.insert(guid, now);
            let boots = boots_of(chassis, port);
            let kept = self.boots.insert(guid, boots) == Some(boots);
            if before != Some(now) {
                new = new.or(Some((port, now)));
            }
            // The port may show the GUID of another node, now or until now.
            let of_port = self.by_port.insert(port, now);
            if of_port.is_some_and(|before| before.base == now.base && before.lmc < now.lmc) {
                let built = chassis.fabric().port(chassis.port_ref(port)).map(|built| built.guid);
                let overlaps = |range: &LidRange| range.base <= now.last() && now.base <= range.last();
                let others = self
                    .by_guid
                    .iter()
                    .filter(|(other, range)| **other != guid && Some(**other) != built && overlaps(range));
                self.overgrown.extend(others.map(|(other, _)| *other));
            }
            let before = before.unwrap_or(now);
            if before != now {
                first = first.or(Some(Moved {
                    port,
                    guid,
                    before,
                    now,
                    kept,
                }));
            }
        }
        (new, first)
    }

    /// Returns the LIDs that the port with this GUID held last.
    pub fn held_last(&self, guid: Guid) -> Option<LidRange> {
        self.by_guid.get(&guid).copied()
    }

    /// True if the port with a GUID held these LIDs last, and does not hold them now.
    pub fn is_lost(&self, chassis: &Chassis, guid: Guid, range: LidRange) -> bool {
        let holds = |port: PortIdx| chassis.port_guid(port) == guid && chassis.port(port).settings().lids == range;
        self.by_guid.get(&guid) == Some(&range) && !end_ports(chassis).any(holds)
    }

    /// Records an excused Set that was meant for another port and gave this port other LIDs: the former LIDs still
    /// belong to this port.
    pub fn went_astray(&mut self, moved: &Moved) {
        self.own.entry(moved.guid).or_insert(moved.before);
    }

    /// Records that a Set has given a port other LIDs.
    pub fn note_left(&mut self, moved: &Moved, now: Time) {
        let left = self.left.entry(moved.guid).or_default();
        left.retain(|(range, _)| *range != moved.before);
        left.push((moved.before, now));
    }

    /// True if a port came back without its LIDs and could not get them again: another port held some of them when the
    /// manager swept. Also true if another port had held some so recently (`drain`) that packets to it could still be
    /// in flight. The order of Sets to different agents is not considered.
    pub fn was_held_by_another(&self, moved: &Moved, looked_at: Option<Time>, drain: Duration) -> bool {
        let overlaps = |range: &LidRange| range.base <= moved.before.last() && moved.before.base <= range.last();
        let of_others = self.left.iter().filter(|(guid, _)| **guid != moved.guid);
        let mut since = of_others
            .flat_map(|(_, left)| left)
            .filter(|(_, at)| looked_at.is_some_and(|looked_at| *at + drain >= looked_at));
        !moved.kept && since.any(|(range, _)| overlaps(range))
    }

    /// True if a port came back without its LIDs and the plan gives them to another port that had held them as well:
    /// then either port may have them.
    pub fn is_anothers_again(&self, moved: &Moved, planned: &BTreeMap<Guid, LidRange>) -> bool {
        let overlaps = |range: &LidRange| range.base <= moved.before.last() && moved.before.base <= range.last();
        let had_it = |guid: &Guid| {
            let mut left = self.left.get(guid).into_iter().flatten();
            left.any(|(before, _)| overlaps(before))
        };
        let mut others = planned.iter().filter(|(guid, _)| **guid != moved.guid);
        !moved.kept && others.any(|(guid, range)| overlaps(range) && had_it(guid))
    }

    /// Returns the rule that excuses other LIDs of a port, if there is one. `knew`: the manager could know the port's
    /// former LIDs.
    pub fn excuse(&mut self, chassis: &Chassis, moved: &Moved, knew: bool) -> Option<Rule> {
        if self.cloned.contains(&moved.guid) {
            return Some(Rule::ClonedGuid);
        }
        let is_own = self.own.get(&moved.guid) == Some(&moved.now);
        if is_own {
            self.own.remove(&moved.guid);
        }
        let was_overgrown = self.overgrown.remove(&moved.guid);
        if moved.before.lmc != moved.now.lmc || was_overgrown {
            return Some(Rule::OtherLids);
        }
        let others = || end_ports(chassis).filter(|&port| port != moved.port);
        let overlaps = |port: &PortIdx| {
            let held = chassis.port(*port).settings().lids;
            held.base.is_unicast() && held.base <= moved.before.last() && moved.before.base <= held.last()
        };
        // Another port held the LID last while this one was off, and may be off now: its LIDs are kept for it. A port
        // that comes back without the LID has no claim on it against a port that holds it.
        let is_of_another = |(guid, range): (&Guid, &LidRange)| {
            *guid != moved.guid && range.base <= moved.before.last() && moved.before.base <= range.last()
        };
        if others().any(|port| overlaps(&port)) || !moved.kept && self.by_guid.iter().any(is_of_another) {
            return Some(Rule::LidConflict);
        }
        if is_own {
            return Some(Rule::PutRight);
        }
        (!knew).then_some(Rule::NeverKnown)
    }
}

fn boots_of(chassis: &Chassis, port: PortIdx) -> u32 {
    chassis.boots(chassis.wire(port).node())
}

#[cfg(test)]
mod tests {
    use selvedge_fabric::{FabricBuilder, Node};
    use selvedge_types::{Lid, NodeKind};

    use super::*;

    /// A step of a test: the port with a GUID gets a LID, or its node is switched off, or comes back without a LID. The
    /// expected rule is that of the last change of LIDs.
    #[derive(Clone, Copy)]
    enum Step {
        Gets(u64, u16),
        /// The port with a GUID gets as many LIDs as an LMC gives, from a base LID on.
        GetsBlock(u64, u16, u8),
        /// The node shows the GUID of another node.
        Shows(u64, u64),
        /// The port gets a LID by a Set that was meant for another port.
        Astray(u64, u16),
        Off(u64),
        On(u64),
    }

    fn check(steps: &[Step], want: Option<Rule>) {
        let mut b = FabricBuilder::new();
        for guid in [1, 2, 3] {
            b.add(Node::new(NodeKind::Switch, Guid(guid), 2, "s"));
        }
        let mut chassis = Chassis::new(&b.finish().unwrap());
        let mut book = LidBook::new(&chassis);
        let mut excuse = None;
        for &step in steps {
            let find = |guid: u64| chassis.fabric().find(Guid(guid)).unwrap();
            let (node, lid, lmc) = match step {
                Step::Gets(guid, lid) | Step::Astray(guid, lid) => (find(guid), lid, 0),
                Step::GetsBlock(guid, lid, lmc) => (find(guid), lid, lmc),
                Step::Off(guid) => {
                    chassis.power_off(find(guid));
                    continue;
                }
                Step::On(guid) => {
                    chassis.power_on(find(guid));
                    continue;
                }
                Step::Shows(guid, other) => {
                    chassis.clone_guids(find(guid), find(other));
                    continue;
                }
            };
            let port = chassis.port_at(node, 0).unwrap();
            let lids = LidRange {
                base: Lid(lid),
                lmc: Lmc::new(lmc).unwrap(),
            };
            let settings = chassis.port(port).settings();
            chassis.set_settings(port, selvedge_fabric::PortSettings { lids, ..*settings });
            let (_, moved) = book.take(&chassis, node);
            excuse = moved.and_then(|moved| {
                if matches!(step, Step::Astray(..)) {
                    book.went_astray(&moved);
                }
                book.excuse(&chassis, &moved, true)
            });
        }
        assert_eq!(excuse, want);
    }

    #[test]
    fn a_port_keeps_its_lid() {
        use Step::{Astray, Gets, Off, On};
        check(&[Gets(1, 4), Gets(1, 5)], None);
        check(&[Gets(1, 4), Gets(2, 4), Gets(1, 5)], Some(Rule::LidConflict));
        // The second port gets the LID while the first is off, which then comes back without it: the second keeps it.
        let one_after_the_other = [Gets(1, 4), Off(1), Gets(2, 4), On(1)];
        check(&[&one_after_the_other[..], &[Gets(2, 5)]].concat(), None);
        check(
            &[&one_after_the_other[..], &[Gets(1, 5)]].concat(),
            Some(Rule::LidConflict),
        );
        // Both come back without the LID: either may have it.
        check(
            &[&one_after_the_other[..], &[Off(2), On(2), Gets(2, 5)]].concat(),
            Some(Rule::LidConflict),
        );
        // The port that holds the LID is off as well now: its LIDs are kept for it.
        check(
            &[&one_after_the_other[..], &[Off(2), Gets(1, 5)]].concat(),
            Some(Rule::LidConflict),
        );
        // A port gets its own LID back once.
        check(&[Gets(1, 4), Astray(1, 5), Gets(1, 4)], Some(Rule::PutRight));
        check(&[Gets(1, 4), Astray(1, 5), Gets(1, 6)], None);
        check(&[Gets(1, 4), Astray(1, 5), Gets(1, 4), Gets(1, 5)], None);
    }

    #[test]
    fn what_fell_to_a_port_that_has_more_lids_is_its_own_whatever_guid_it_shows() {
        use Step::{Gets, GetsBlock, Off, On, Shows};
        for is_cloned in [false, true] {
            let shown: &[Step] = if is_cloned { &[Shows(1, 3)] } else { &[] };
            let grown_from = |held: u16| {
                let before = [Gets(1, held), Gets(2, 9), Off(2)];
                let then = [GetsBlock(1, 8, 3), Gets(1, 8), On(2), Gets(2, 5)];
                [&before[..], shown, &then].concat()
            };
            check(&grown_from(8), Some(Rule::OtherLids));
            check(&grown_from(12), None);
        }
    }

    #[test]
    fn what_two_had_is_either_s() {
        let range = |base| LidRange {
            base: Lid(base),
            lmc: Lmc::ZERO,
        };
        let moved = |guid, before, now, kept| Moved {
            port: PortIdx(0),
            guid: Guid(guid),
            before: range(before),
            now: range(now),
            kept,
        };
        let check = |kept: bool, planned: (u64, u16), want: bool| {
            let mut book = LidBook::default();
            book.note_left(&moved(7, 3, 5, true), Time::from_secs(5));
            // LIDs that a port gave up later do not make its earlier LIDs another port's.
            book.note_left(&moved(7, 5, 6, true), Time::from_secs(6));
            let planned = BTreeMap::from([(Guid(planned.0), range(planned.1)), (Guid(8), range(11))]);
            assert_eq!(
                book.is_anothers_again(&moved(8, 3, 11, kept), &planned),
                want,
                "{planned:?}"
            );
        };
        check(false, (7, 3), true);
        // The port held the LID itself; the other port gets another LID; that port never had it.
        check(true, (7, 3), false);
        check(false, (7, 4), false);
        check(false, (9, 3), false);
    }

    #[test]
    fn a_port_keeps_lids_that_can_begin_there() {
        let range = |base| LidRange {
            base: Lid(base),
            lmc: Lmc::ZERO,
        };
        let check = |before: u16, lmc: u8, want: bool| {
            let moved = Moved {
                port: PortIdx(0),
                guid: Guid(7),
                before: range(before),
                now: range(16),
                kept: true,
            };
            assert_eq!(
                moved.must_begin_elsewhere(Lmc::new(lmc).unwrap()),
                want,
                "{before} {lmc}"
            );
        };
        check(13, 0, false);
        check(13, 1, true);
        check(14, 1, false);
        check(14, 2, true);
    }

    #[test]
    fn a_flipped_bit_makes_a_lid_of_none_or_of_another() {
        let check = |before: u16, now: u16, kept: bool, want: bool| {
            let range = |base| LidRange {
                base: Lid(base),
                lmc: Lmc::ZERO,
            };
            let moved = Moved {
                port: PortIdx(0),
                guid: Guid(7),
                before: range(before),
                now: range(now),
                kept,
            };
            assert_eq!(moved.is_off_by_a_bit(), want, "{before} {now}");
        };
        check(11, 8192, false, true);
        check(5, 4, false, true);
        check(11, 12, false, false);
        check(5, 4, true, false);
    }

    #[test]
    fn lids_that_another_held_when_its_manager_looked_are_not_to_be_had() {
        let range = |base| LidRange {
            base: Lid(base),
            lmc: Lmc::new(1).unwrap(),
        };
        let moved = |guid, before, kept| Moved {
            port: PortIdx(0),
            guid: Guid(guid),
            before: range(before),
            now: range(40),
            kept,
        };
        let check = |moved_now: Moved, looked_at: Option<u64>, want: bool| {
            let mut book = LidBook::default();
            book.note_left(&moved(7, 10, true), Time::from_secs(5));
            let looked_at = looked_at.map(Time::from_secs);
            let was_held = book.was_held_by_another(&moved_now, looked_at, Duration::from_secs(2));
            assert_eq!(was_held, want, "{moved_now:?}");
        };
        check(moved(8, 10, false), Some(4), true);
        // Packets to the other port may be under way.
        check(moved(8, 10, false), Some(7), true);
        // The port held the LIDs itself; other LIDs; long after the other port had left them; the manager did not ask;
        // the same port.
        check(moved(8, 10, true), Some(4), false);
        check(moved(8, 12, false), Some(4), false);
        check(moved(8, 10, false), Some(8), false);
        check(moved(8, 10, false), None, false);
        check(moved(7, 10, false), Some(4), false);
    }

    #[test]
    fn lids_that_a_port_has_no_more_are_lost() {
        let mut b = FabricBuilder::new();
        b.add(Node::new(NodeKind::Switch, Guid(1), 2, "s"));
        let mut chassis = Chassis::new(&b.finish().unwrap());
        let node = chassis.fabric().find(Guid(1)).unwrap();
        let port = chassis.port_at(node, 0).unwrap();
        let range = |base| LidRange {
            base: Lid(base),
            lmc: Lmc::ZERO,
        };
        let settings = *chassis.port(port).settings();
        let lids = range(4);
        chassis.set_settings(port, selvedge_fabric::PortSettings { lids, ..settings });
        let book = LidBook::new(&chassis);
        let check = |chassis: &Chassis, want: bool| {
            assert_eq!(book.is_lost(chassis, Guid(1), range(4)), want);
            // Neither these LIDs nor those of another port have ever been held.
            assert!(!book.is_lost(chassis, Guid(1), range(5)));
            assert!(!book.is_lost(chassis, Guid(2), range(4)));
        };
        check(&chassis, false);
        chassis.power_off(node);
        check(&chassis, true);
        chassis.power_on(node);
        check(&chassis, true);
    }
}
