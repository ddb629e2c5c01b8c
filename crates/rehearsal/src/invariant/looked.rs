//! What the checkers have looked at, so that after an event they look only at what it changed: a fabric of ten thousand
//! hosts takes half a million Sets to come up.

use std::collections::{BTreeMap, BTreeSet};

use selvedge_chassis::{Chassis, PortIdx};
use selvedge_fabric::NodeIdx;
use selvedge_plan::{BLOCK_LIDS, NO_PATH};
use selvedge_types::{IdxVec, Lid, LidRange};

use super::live_lids;
use crate::subnet::{Subnets, is_up, ports_of};

/// LIDs as ports hold them, live or not.
#[derive(Debug, Default)]
pub(super) struct HeldLids {
    ranges: IdxVec<PortIdx, LidRange>,
    /// How many ports hold it, by LID.
    holders: Vec<u32>,
    /// LIDs that several ports hold.
    contested: usize,
}

impl HeldLids {
    /// Of all nodes.
    pub fn of(chassis: &Chassis) -> Self {
        let mut held = Self {
            ranges: IdxVec::filled(LidRange::default(), chassis.port_count()),
            holders: vec![0; usize::from(u16::MAX) + 1],
            contested: 0,
        };
        held.look(chassis, chassis.fabric().nodes().indices());
        held
    }

    /// Looks at nodes whose settings changed; true if any LID did.
    pub fn look(&mut self, chassis: &Chassis, nodes: impl Iterator<Item = NodeIdx>) -> bool {
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

    /// True if no two ports hold the same LID, whichever subnets they are in.
    pub const fn are_unique(&self) -> bool {
        self.contested == 0
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

/// Which entries were looked at for loops.
#[derive(Debug, Default)]
pub(super) struct LookedAt {
    /// LinearFDBTop and blocks, by switch.
    entries: BTreeMap<NodeIdx, (u16, Vec<[u8; BLOCK_LIDS]>)>,
    /// LIDs that nobody held when they looped: looked at again when their switch is next written.
    dormant: BTreeSet<(NodeIdx, Lid)>,
    /// LIDs that live ports hold, by group of the subnet, while none changes.
    live: BTreeMap<PortIdx, BTreeSet<Lid>>,
}

impl LookedAt {
    /// LIDs went, came or changed their ports.
    pub fn forget_lids(&mut self) {
        self.live.clear();
    }

    /// Cables were moved: every entry of a switch that is written next is looked at.
    pub fn forget(&mut self) {
        *self = Self::default();
    }

    /// LIDs of whose entries at a switch nobody knows whether they make a loop.
    pub fn unknown(&mut self, chassis: &Chassis, switch: NodeIdx) -> BTreeSet<Lid> {
        let mut lids: BTreeSet<Lid> = BTreeSet::new();
        let Some(data) = chassis.switch(switch) else {
            return lids;
        };
        let (blocks, top) = (data.linear_blocks(), data.settings().linear_top);
        let (top_before, before) = self.entries.entry(switch).or_default();
        if std::mem::replace(top_before, top) != top {
            before.clear();
        }
        before.resize(blocks.len(), [NO_PATH; BLOCK_LIDS]);
        for (block, (now, was)) in blocks
            .iter()
            .zip(before)
            .enumerate()
            .filter(|(_, (now, was))| now != was)
        {
            let differ = now
                .iter()
                .zip(was.iter())
                .enumerate()
                .filter(|(_, (now, was))| now != was);
            let of_block = differ.filter_map(|(entry, _)| u16::try_from(block * BLOCK_LIDS + entry).ok());
            lids.extend(of_block.map(Lid));
            *was = *now;
        }
        let dormant: Vec<(NodeIdx, Lid)> = (self.dormant)
            .range((switch, Lid(0))..=(switch, Lid(u16::MAX)))
            .copied()
            .collect();
        for at in dormant {
            self.dormant.remove(&at);
            lids.insert(at.1);
        }
        lids
    }

    /// It loops, but nobody holds it.
    pub fn sleeps(&mut self, switch: NodeIdx, lid: Lid) {
        self.dormant.insert((switch, lid));
    }

    /// True if a live port of the subnet holds the LID.
    pub fn is_live(&mut self, chassis: &Chassis, subnets: &Subnets, group: PortIdx, lid: Lid) -> bool {
        let live = self.live.entry(group);
        let live = live.or_insert_with(|| live_lids(chassis, subnets, group).into_iter().collect());
        live.contains(&lid)
    }
}

/// What subnets are made of, port by port: whether its node has power, and what its trained link leads to.
#[derive(Debug, Default)]
pub(super) struct Cabling(IdxVec<PortIdx, (bool, Option<PortIdx>)>);

impl Cabling {
    /// Of all nodes.
    pub fn of(chassis: &Chassis) -> Self {
        let mut cabling = Self(IdxVec::filled((false, None), chassis.port_count()));
        cabling.look(chassis, chassis.fabric().nodes().indices());
        cabling
    }

    /// Looks at nodes whose links changed; true if it is not only their logical state.
    pub fn look(&mut self, chassis: &Chassis, nodes: impl Iterator<Item = NodeIdx>) -> bool {
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
