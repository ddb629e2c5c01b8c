//! The forwarding of all switches, updated after each change: the switches from which packets to a LID arrive, the LIDs
//! that loop, and the channels that wait for each other.
//!
//! Only entries with an egress link that is ACTIVE at both ends count, because packets use no other entries. This
//! module deliberately shares no code with the judge of `selvedge-verify`.

use std::collections::BTreeSet;

use selvedge_chassis::{Chassis, PortIdx, TableKind};
use selvedge_fabric::NodeIdx;
use selvedge_sim::Time;
use selvedge_types::Lid;

use super::delta::Delta;
use super::entries::Entries;
use super::followed::Followed;
use super::layout::Switches;
use super::reach::Reach;
use super::waits::{Doubts, Waits};

#[derive(Clone, Copy, Debug, Default)]
struct Version {
    links: u32,
    settings: u32,
    linear: u32,
}

/// The entries and links by which all switches forward.
#[derive(Clone, Debug)]
pub(super) struct Picture {
    /// Version counters of each node, as last read.
    versions: Vec<Version>,
    entries: Entries,
    reach: Reach,
    followed: Followed,
    waits: Waits,
    /// LIDs that must be followed again.
    stale: BTreeSet<u16>,
}

impl Picture {
    pub fn new(chassis: &Chassis) -> Self {
        let entries = Entries::new(chassis);
        Self {
            versions: vec![Version::default(); chassis.fabric().nodes().len()],
            reach: Reach::new(chassis),
            followed: Followed::default(),
            waits: Waits::new(&entries.layout),
            stale: BTreeSet::new(),
            entries,
        }
    }

    /// Sets the blocks with doubtful contents from now on.
    pub fn set_doubts(&mut self, doubts: Doubts) {
        self.waits.set_doubts(doubts);
    }

    /// Updates this value with the changes since the last call.
    pub fn mend(&mut self, now: Time, chassis: &Chassis) -> Delta {
        self.stale.clear();
        let (mut links, mut lids) = (false, false);
        for node in chassis.fabric().nodes().indices() {
            let now = Version {
                links: chassis.version(node, TableKind::Links),
                settings: chassis.version(node, TableKind::Settings),
                linear: chassis.version(node, TableKind::Linear),
            };
            let before = std::mem::replace(&mut self.versions[node.0 as usize], now);
            if before.settings != now.settings {
                self.reach.read_lids(chassis, node, &mut self.stale);
                lids = true;
            }
            links |= before.links != now.links;
            if let Some(at) = self.position(node).filter(|_| before.linear != now.linear) {
                self.entries.read(chassis, at.into(), &mut self.stale);
            }
        }
        if links {
            self.read_links(chassis);
        }
        self.reach.read(&self.entries.layout, chassis, links);
        if links || lids {
            self.reach.read_holders(chassis, &mut self.stale);
        }
        self.waits.begin(now, &self.entries.layout, chassis, links);
        self.follow_stale(now, chassis)
    }

    /// Reads which links are ACTIVE. Packets that leave by a changed link are followed again.
    fn read_links(&mut self, chassis: &Chassis) {
        let entries = &mut self.entries;
        let with_hosts = entries.links.with_hosts();
        let (relinked, before) = entries.links.read(&entries.layout, chassis);
        for relinked in relinked {
            self.waits.relink(&entries.layout, relinked, &before);
            self.stale.extend(entries.lids_by(relinked.port));
        }
        if with_hosts != entries.links.with_hosts() {
            self.stale.extend(self.followed.of_switches());
        }
    }

    fn follow_stale(&mut self, now: Time, chassis: &Chassis) -> Delta {
        let mut delta = Delta::default();
        let count = self.entries.layout.switches().len();
        for lid in self.stale.iter().map(|lid| Lid(*lid)).filter(|lid| lid.0 > 0) {
            let (entries, of) = (&self.entries, (lid, self.reach.of(lid)));
            let passed = self.followed.follow(entries, chassis, of, &mut delta);
            let before = |at| self.followed.far_before(count, lid, at);
            self.waits.depend(entries, lid, passed, before);
        }
        delta.cycle = self.waits.close(now, &self.entries, chassis);
        delta
    }

    /// Returns the switches with a host that has an ACTIVE link.
    pub const fn with_hosts(&self) -> Switches {
        self.entries.links.with_hosts()
    }

    /// Returns the switches and ports that packets to `lid` pass, beginning at a switch; `None` if they do not arrive.
    pub fn way(&self, lid: Lid, from: u8) -> Option<Vec<(u8, u8)>> {
        let way = self.entries.way(lid, from)?;
        (self.delivered(lid) & 1 << from != 0).then_some(way)
    }

    /// Returns the routes from some switches to a LID before their last change.
    pub fn ways_before(&self, lid: Lid, from: Switches) -> Vec<Vec<(u8, u8)>> {
        let count = self.entries.layout.switches().len();
        self.followed.ways_before(count, lid, from)
    }

    /// Switches from which packets to `lid` arrive.
    pub fn delivered(&self, lid: Lid) -> Switches {
        self.followed.delivered(lid)
    }

    /// True if packets to a port that can be reached go in circles.
    pub fn is_any_circle(&self) -> bool {
        self.followed.circles().any(|lid| self.is_of_somebody(lid))
    }

    /// Returns the ports of a cycle of channels that begins at one of these switches, if there is one.
    pub fn any_cycle(&mut self, chassis: &Chassis, switches: Switches) -> Option<Vec<PortIdx>> {
        self.waits.any_cycle(&self.entries, chassis, switches)
    }

    /// Returns the port by which a switch sends packets to a LID.
    pub fn entry(&self, at: u8, lid: Lid) -> u8 {
        self.entries.entry(at.into(), lid)
    }

    /// Returns all switches, by position.
    pub fn switches(&self) -> &[NodeIdx] {
        self.entries.layout.switches()
    }

    /// Returns the switch at a position.
    pub fn switch(&self, position: usize) -> Option<NodeIdx> {
        self.entries.layout.switch(position)
    }

    /// Returns the position of a switch.
    pub fn position(&self, node: NodeIdx) -> Option<u8> {
        self.entries.layout.position(node)
    }

    /// True if a port that can be reached holds a LID.
    pub fn is_of_somebody(&self, lid: Lid) -> bool {
        self.reach.of(lid) != 0
    }

    pub const fn waits(&self) -> &Waits {
        &self.waits
    }
}
