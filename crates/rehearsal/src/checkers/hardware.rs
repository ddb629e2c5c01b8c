//! The state of the hardware at the last check, so that checkers read only what an event changed: bringing up a fabric
//! of ten thousand hosts takes half a million Sets.

use selvedge_chassis::{Chassis, PortIdx, TableKind};
use selvedge_fabric::NodeIdx;
use selvedge_types::{IdxVec, LidRange};

use crate::subnet::{Subnets, is_up, ports_of};

/// Kinds of tables with version counters that show a change of a node.
const WATCHED: [TableKind; 3] = [TableKind::Links, TableKind::Settings, TableKind::Linear];

/// Changes since the last check.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    /// Nodes with links that changed.
    pub links: Vec<NodeIdx>,
    settings: Vec<NodeIdx>,
    /// Switches with linear tables that were written.
    pub linear: Vec<NodeIdx>,
    /// True if ports can reach other ports than before.
    pub are_cables_moved: bool,
    /// True if ports hold other LIDs than before.
    pub are_lids_changed: bool,
}

/// The hardware at the last check.
#[derive(Debug)]
pub(super) struct Hardware {
    versions: IdxVec<NodeIdx, [u32; 3]>,
    /// Number of hardware changes that this state includes.
    taken_in: u64,
    subnets: Subnets,
    cabling: Cabling,
    held: HeldLids,
}

impl Hardware {
    pub fn new(chassis: &Chassis) -> Self {
        let nodes = chassis.fabric().nodes().indices();
        Self {
            versions: nodes.map(|node| versions(chassis, node)).collect(),
            taken_in: chassis.changes(),
            subnets: Subnets::of(chassis),
            cabling: Cabling::of(chassis),
            held: HeldLids::of(chassis),
        }
    }

    /// Returns which ports reach each other.
    pub const fn subnets(&self) -> &Subnets {
        &self.subnets
    }

    /// True if no two ports hold the same LID, whichever subnets they are in.
    pub const fn are_lids_unique(&self) -> bool {
        self.held.contested == 0
    }

    /// Reads everything again.
    pub fn renew(&mut self, chassis: &Chassis) {
        drop(self.changes(chassis));
        self.subnets = Subnets::of(chassis);
        self.cabling = Cabling::of(chassis);
        self.held = HeldLids::of(chassis);
    }

    /// Reads the hardware that has changed since the last call.
    pub fn look(&mut self, chassis: &Chassis) -> Changes {
        let mut changes = self.changes(chassis);
        if self.cabling.look(chassis, changes.links.iter().copied()) {
            let subnets = Subnets::of(chassis);
            changes.are_cables_moved = subnets != self.subnets;
            self.subnets = subnets;
        }
        changes.are_lids_changed = self.held.look(chassis, changes.settings.iter().copied());
        changes
    }

    fn changes(&mut self, chassis: &Chassis) -> Changes {
        let mut changes = Changes::default();
        if std::mem::replace(&mut self.taken_in, chassis.changes()) == chassis.changes() {
            return changes;
        }
        for node in chassis.fabric().nodes().indices() {
            let now = versions(chassis, node);
            let before = std::mem::replace(&mut self.versions[node], now);
            let kinds = [&mut changes.links, &mut changes.settings, &mut changes.linear];
            for (kind, nodes) in kinds.into_iter().enumerate() {
                nodes.extend((before[kind] != now[kind]).then_some(node));
            }
        }
        changes
    }
}

fn versions(chassis: &Chassis, node: NodeIdx) -> [u32; 3] {
    WATCHED.map(|kind| chassis.version(node, kind))
}

/// LIDs that ports hold, live or not.
#[derive(Debug, Default)]
struct HeldLids {
    ranges: IdxVec<PortIdx, LidRange>,
    /// Number of ports that hold each LID, by LID.
    holders: Vec<u32>,
    /// LIDs that several ports hold.
    contested: usize,
}

impl HeldLids {
    /// Returns the held LIDs of all nodes.
    fn of(chassis: &Chassis) -> Self {
        let mut held = Self {
            ranges: IdxVec::filled(LidRange::default(), chassis.port_count()),
            holders: vec![0; usize::from(u16::MAX) + 1],
            contested: 0,
        };
        held.look(chassis, chassis.fabric().nodes().indices());
        held
    }

    /// Reads nodes with changed settings. Returns true if a LID changed.
    fn look(&mut self, chassis: &Chassis, nodes: impl Iterator<Item = NodeIdx>) -> bool {
        let mut changed = false;
        for port in nodes.flat_map(|node| ports_of(chassis, node)) {
            if chassis.end_port(port) != port {
                continue;
            }
            let range = chassis.port(port).settings().lids;
            let before = std::mem::replace(&mut self.ranges[port], range);
            if before != range {
                self.count(before, false);
                self.count(range, true);
                changed = true;
            }
        }
        changed
    }

    fn count(&mut self, range: LidRange, is_held: bool) {
        if !range.base.is_unicast() {
            return;
        }
        for lid in range.iter() {
            let holders = &mut self.holders[lid.index()];
            let before = *holders > 1;
            *holders = if is_held {
                *holders + 1
            } else {
                holders.saturating_sub(1)
            };
            match (before, *holders > 1) {
                (false, true) => self.contested += 1,
                (true, false) => self.contested -= 1,
                (true, true) | (false, false) => {}
            }
        }
    }
}

/// For each port, whether its node has power, and the port at the other end of its trained link.
#[derive(Debug, Default)]
struct Cabling(IdxVec<PortIdx, (bool, Option<PortIdx>)>);

impl Cabling {
    /// Returns the cabling of all nodes.
    fn of(chassis: &Chassis) -> Self {
        let mut cabling = Self(IdxVec::filled((false, None), chassis.port_count()));
        cabling.look(chassis, chassis.fabric().nodes().indices());
        cabling
    }

    /// Reads nodes with changed links. Returns true if more changed than the logical state of links.
    fn look(&mut self, chassis: &Chassis, nodes: impl Iterator<Item = NodeIdx>) -> bool {
        let mut changed = false;
        for node in nodes {
            for port in ports_of(chassis, node) {
                let peer = chassis.wire(port).peer().filter(|_| is_up(chassis, port));
                let now = (chassis.is_powered(node), peer);
                changed |= std::mem::replace(&mut self.0[port], now) != now;
            }
        }
        changed
    }
}
