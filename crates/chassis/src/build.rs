//! Builds hardware in its power-on state from a fabric.

use std::collections::BTreeMap;

use selvedge_fabric::{Fabric, NodeIdx, PortRef, PortSettings, SwitchSettings};
use selvedge_plan::{Lids, Tables};
use selvedge_types::{Guid, Idx, IdxVec, Lid, NodeKind, PhysState, PortNum, PortState};

use crate::chassis::NodeHot;
use crate::port::Wire;
use crate::{Chassis, PortData, PortIdx, SwitchData, TableKind};

impl Chassis {
    /// Returns the hardware of `fabric`: every node powered, every cable plugged in, no link trained, nothing
    /// configured.
    #[must_use]
    pub fn new(fabric: &Fabric) -> Self {
        let mut first = Vec::with_capacity(fabric.nodes().len() + 1);
        let mut next = 0_u32;
        for node in fabric.nodes().iter() {
            first.push(next);
            next += u32::from(node.port_count()) + 1;
        }
        let mut chassis = Self {
            fabric: fabric.clone(),
            clones: BTreeMap::new(),
            pma: BTreeMap::new(),
            nodes: IdxVec::new(),
            wires: IdxVec::new(),
            ports: IdxVec::new(),
            switches: IdxVec::new(),
            lanes: IdxVec::new(),
            versions: IdxVec::filled([0; TableKind::COUNT], fabric.nodes().len()),
            changes: 0,
        };
        for (idx, node) in fabric.nodes().iter_enumerated() {
            let switch = node
                .switch
                .map(|attributes| chassis.switches.push(SwitchData::new(attributes)));
            chassis.lanes.push(None);
            chassis.nodes.push(NodeHot {
                first: first[idx.0 as usize],
                switch: if node.is_switch() { switch } else { None },
                port_count: node.port_count(),
                powered: true,
                boots: 1,
            });
            for num in 0..=node.port_count() {
                let num = PortNum::new(num).unwrap_or_default();
                let data = node.port(num);
                let peer = data.and_then(|p| p.peer);
                let peer = peer.map(|p: PortRef| first[p.node.0 as usize] + u32::from(p.port.get()));
                let on_board = num == PortNum::MANAGEMENT && node.is_switch();
                chassis.wires.push(power_on_wire(idx, num, peer, on_board));
                let capability = data.map(|p| p.capability).unwrap_or_default();
                chassis.ports.push(PortData::new(&capability));
            }
        }
        chassis
    }

    /// Installs the state left by an earlier subnet manager: LIDs, and forwarding tables with their LinearFDBTop.
    pub fn install(&mut self, lids: &Lids, tables: Option<&Tables>) {
        for (at, range) in lids.iter() {
            let Some(port) = self.port_idx(at) else { continue };
            let settings = PortSettings {
                lids: range,
                ..*self.port(port).settings()
            };
            self.set_settings(port, settings);
        }
        let Some(tables) = tables else { return };
        let switches: Vec<NodeIdx> = self.fabric.switches().iter().copied().collect();
        for (switch, node) in tables.switch_indices().zip(switches) {
            let Some(held) = self.switch(node) else { continue };
            let settings = SwitchSettings {
                linear_top: tables.top().0.min(held.attributes().linear_cap.saturating_sub(1)),
                ..*held.settings()
            };
            self.set_switch_settings(node, settings);
            for block in 0..tables.blocks() {
                // A block beyond the switch's table is skipped, as the switch's agent would refuse it.
                self.set_linear_block(node, block, tables.block(switch, block));
            }
        }
    }

    /// Returns the node's GUID, its own or a cloned one.
    #[must_use]
    pub fn node_guid(&self, node: NodeIdx) -> Guid {
        self.fabric.node(self.original(node)).guid
    }

    /// Returns the GUID of the system that the node states.
    #[must_use]
    pub fn system_guid(&self, node: NodeIdx) -> Guid {
        self.fabric.node(self.original(node)).system_guid
    }

    /// Gives `node` all GUIDs of `original` from now on, as after a mistake with a flashing tool. If both are the same
    /// node, it gets its own GUIDs back.
    pub fn clone_guids(&mut self, node: NodeIdx, original: NodeIdx) {
        let exist = node.to_usize() < self.nodes.len() && original.to_usize() < self.nodes.len();
        if exist && node != original {
            self.clones.insert(node, original);
        } else {
            self.clones.remove(&node);
        }
    }

    /// Returns the node with the GUIDs that a node shows.
    fn original(&self, node: NodeIdx) -> NodeIdx {
        self.clones.get(&node).copied().unwrap_or(node)
    }

    /// Returns the port's GUID. If the fabric has none, an end port of a CA or router gets its node's GUID plus its
    /// port number.
    #[must_use]
    pub fn port_guid(&self, port: PortIdx) -> Guid {
        let at = self.port_ref(port);
        let node = self.fabric.node(self.original(at.node));
        match node.port(at.port).map(|p| p.guid) {
            Some(guid) if guid != Guid::NONE => guid,
            _ if node.kind == NodeKind::Switch => node.guid,
            _ => Guid(node.guid.0.wrapping_add(u64::from(at.port.get()))),
        }
    }
}

/// Returns a port in its power-on state.
pub(crate) fn power_on_wire(node: NodeIdx, num: PortNum, peer: Option<u32>, on_board: bool) -> Wire {
    Wire {
        mads_out: 0,
        mads_in: 0,
        peer: peer.unwrap_or(Wire::NO_PEER),
        node,
        lid: Lid::NONE,
        lid_count: 0,
        num,
        state: if on_board { PortState::Active } else { PortState::Down },
        phys: if on_board {
            PhysState::LinkUp
        } else {
            PhysState::Polling
        },
        flags: if peer.is_some() { Wire::PLUGGED } else { 0 },
    }
}
