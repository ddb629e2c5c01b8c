//! LIDs that ports hold, and the switches from which these ports can be reached: no packet is meant for other LIDs.

use std::collections::BTreeSet;

use selvedge_chassis::{Chassis, PortIdx};
use selvedge_fabric::NodeIdx;
use selvedge_types::Lid;

use super::layout::{Layout, Switches};
use crate::subnet::{Subnets, is_up};

/// The holders of LIDs, and the switches from which they can be reached.
#[derive(Clone, Debug)]
pub(super) struct Reach {
    /// First and last LID of each end port as last read, by port.
    held: Vec<(u16, u16)>,
    /// By port: the switches from which it can be reached, over links that are up.
    reach: Vec<Switches>,
    /// By LID: the switches from which a port that holds it can be reached.
    of_somebody: Vec<Switches>,
}

impl Reach {
    pub fn new(chassis: &Chassis) -> Self {
        Self {
            held: vec![(0, 0); chassis.port_count()],
            reach: Vec::new(),
            of_somebody: Vec::new(),
        }
    }

    /// Reads the LIDs of a node. LIDs that its ports took or lost are stale.
    pub fn read_lids(&mut self, chassis: &Chassis, node: NodeIdx, stale: &mut BTreeSet<u16>) {
        for num in 0..=chassis.fabric().node(node).port_count() {
            let Some(port) = chassis
                .port_at(node, num)
                .filter(|&port| chassis.end_port(port) == port)
            else {
                continue;
            };
            let range = chassis.port(port).settings().lids;
            let now = match range.base.is_unicast() {
                true => (range.base.0, range.last().0),
                false => (0, 0),
            };
            let before = std::mem::replace(&mut self.held[port.0 as usize], now);
            if before == now {
                continue;
            }
            stale.extend(before.0..=before.1);
            stale.extend(now.0..=now.1);
        }
    }

    /// Finds the switches that each port is connected with, when it is called for the first time or links have changed.
    /// Ports of another subnet send no packets to these switches, and get none from them.
    pub fn read(&mut self, layout: &Layout, chassis: &Chassis, have_links_changed: bool) {
        if !have_links_changed && !self.reach.is_empty() {
            return;
        }
        let subnets = Subnets::of(chassis);
        let own = |&node: &NodeIdx| chassis.port_at(node, 0).map(|own| subnets.group(own));
        let groups: Vec<Option<PortIdx>> = layout.switches().iter().map(own).collect();
        let reach = |port: PortIdx| {
            let group = Some(subnets.group(port));
            let switches = groups.iter().enumerate().filter(|(_, of)| **of == group);
            switches.fold(0, |bits, (at, _)| bits | 1 << at)
        };
        self.reach.clear();
        self.reach.extend((0..).map(PortIdx).take(self.held.len()).map(reach));
    }

    /// Reads the LIDs of all ports that can be reached, each with the switches that reach it. LIDs for which this has
    /// changed since the last call are added to `stale`.
    pub fn read_holders(&mut self, chassis: &Chassis, stale: &mut BTreeSet<u16>) {
        let mut now = vec![0; self.of_somebody.len()];
        for (port, &(from, to)) in (0..).map(PortIdx).zip(&self.held).filter(|(_, held)| held.0 > 0) {
            let node = chassis.wire(port).node();
            let is_there = chassis.is_powered(node) && (chassis.is_switch(node) || is_up(chassis, port));
            if is_there {
                let to = usize::from(to);
                if now.len() <= to {
                    now.resize(to + 1, 0);
                }
                let reach = self.reach.get(port.0 as usize).copied().unwrap_or(0);
                now[usize::from(from)..=to].iter_mut().for_each(|held| *held |= reach);
            }
        }
        self.of_somebody.resize(now.len(), 0);
        let changed = (0_u16..)
            .zip(self.of_somebody.iter().zip(&now))
            .filter(|(_, (before, now))| before != now);
        stale.extend(changed.map(|(lid, _)| lid));
        self.of_somebody = now;
    }

    /// Switches from which a port that holds a LID can be reached.
    pub fn of(&self, lid: Lid) -> Switches {
        self.of_somebody.get(lid.index()).copied().unwrap_or(0)
    }
}
