//! All hardware of a fabric, with every operation that changes it.

use std::collections::BTreeMap;

use selvedge_fabric::{Fabric, NodeIdx, PortRef, PortSettings, SwitchIdx, SwitchSettings};
use selvedge_plan::{BLOCK_LIDS, NO_PATH};
use selvedge_types::{IdxVec, Lid, PhysState, PortNum, PortState, Rate, Sl, Vl};

use crate::build::power_on_wire;
use crate::port::{Wire, widest};
use crate::switch::{LaneRow, SwitchData, TableKind};
use crate::{Counters, PmaAbilities, PortData, PortIdx};

/// The state of all hardware of a fabric. The crate's page lists its invariants.
#[derive(Clone, Debug)]
pub struct Chassis {
    pub(crate) fabric: Fabric,
    /// Nodes that have the GUIDs of another.
    pub(crate) clones: BTreeMap<NodeIdx, NodeIdx>,
    /// Nodes with a performance management agent that differs from the default.
    pub(crate) pma: BTreeMap<NodeIdx, PmaAbilities>,
    pub(crate) nodes: IdxVec<NodeIdx, NodeHot>,
    pub(crate) wires: IdxVec<PortIdx, Wire>,
    pub(crate) ports: IdxVec<PortIdx, PortData>,
    pub(crate) switches: IdxVec<SwitchIdx, SwitchData>,
    /// SL to VL rows of a node by (input, output); `None`: power-on state, everything on VL 0.
    pub(crate) lanes: IdxVec<NodeIdx, Option<Box<[LaneRow]>>>,
    pub(crate) versions: IdxVec<NodeIdx, [u32; TableKind::COUNT]>,
    /// Number of changes of installed state, of all nodes and kinds.
    pub(crate) changes: u64,
}

/// Data that forwarding reads first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NodeHot {
    pub first: u32,
    pub switch: Option<SwitchIdx>,
    pub port_count: u8,
    pub powered: bool,
    pub boots: u32,
}

/// Result of forwarding a unicast packet at a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Egress {
    /// The packet leaves by this port.
    Port(PortIdx),
    /// The entry is port 0 of the switch.
    Own,
    /// No entry, or above LinearFDBTop.
    NoPath,
    /// The entry is a port that the switch does not have.
    NoSuchPort,
}

impl Chassis {
    /// Returns the fabric from which the hardware was built: names, capabilities, cables.
    #[must_use]
    pub const fn fabric(&self) -> &Fabric {
        &self.fabric
    }

    /// Returns the number of ports, including unused indexes.
    #[must_use]
    pub fn port_count(&self) -> usize {
        self.wires.len()
    }

    /// Returns the port `num` of `node`, if it exists.
    #[must_use]
    #[inline]
    pub fn port_at(&self, node: NodeIdx, num: u8) -> Option<PortIdx> {
        let hot = self.nodes.get(node)?;
        let exists = num <= hot.port_count && (num != 0 || hot.switch.is_some());
        exists.then(|| PortIdx(hot.first + u32::from(num)))
    }

    /// Returns the index of a port of the fabric.
    #[must_use]
    pub fn port_idx(&self, at: PortRef) -> Option<PortIdx> {
        self.port_at(at.node, at.port.get())
    }

    /// Returns the port of the fabric with an index.
    ///
    /// # Panics
    /// If the index is of another, larger chassis.
    #[must_use]
    pub fn port_ref(&self, port: PortIdx) -> PortRef {
        let wire = &self.wires[port];
        PortRef {
            node: wire.node,
            port: wire.num,
        }
    }

    /// Returns the part of a port that packets use.
    ///
    /// # Panics
    /// If the index is of another, larger chassis.
    #[must_use]
    #[inline]
    pub fn wire(&self, port: PortIdx) -> &Wire {
        &self.wires[port]
    }

    /// Returns the part of a port that its agent uses.
    ///
    /// # Panics
    /// If the index is of another, larger chassis.
    #[must_use]
    #[inline]
    pub fn port(&self, port: PortIdx) -> &PortData {
        &self.ports[port]
    }

    /// Returns the part of a port that its agent uses, for changes. The version number of the tables `kind` is
    /// increased.
    ///
    /// # Panics
    /// If the index is of another, larger chassis.
    pub fn port_mut(&mut self, port: PortIdx, kind: TableKind) -> &mut PortData {
        self.touch(self.wires[port].node, kind);
        &mut self.ports[port]
    }

    /// Returns the port with the node's LIDs for requests through `port`: port 0 of a switch, else the port itself.
    #[must_use]
    #[inline]
    pub fn end_port(&self, port: PortIdx) -> PortIdx {
        let hot = &self.nodes[self.wires[port].node];
        if hot.switch.is_some() { PortIdx(hot.first) } else { port }
    }

    /// Returns the tables of a switch; `None` for other nodes.
    #[must_use]
    pub fn switch(&self, node: NodeIdx) -> Option<&SwitchData> {
        self.switches.get(self.nodes.get(node)?.switch?)
    }

    /// True if the node is a switch.
    #[must_use]
    #[inline]
    pub fn is_switch(&self, node: NodeIdx) -> bool {
        self.nodes.get(node).is_some_and(|n| n.switch.is_some())
    }

    /// True if the node has power.
    #[must_use]
    #[inline]
    pub fn is_powered(&self, node: NodeIdx) -> bool {
        self.nodes.get(node).is_some_and(|n| n.powered)
    }

    /// Returns how often the node was powered on.
    #[must_use]
    #[inline]
    pub fn boots(&self, node: NodeIdx) -> u32 {
        self.nodes.get(node).map_or(0, |n| n.boots)
    }

    /// Returns how often installed state of a kind changed at a node.
    #[must_use]
    pub fn version(&self, node: NodeIdx, kind: TableKind) -> u32 {
        self.versions.get(node).map_or(0, |v| v[kind as usize])
    }

    /// Returns how often any installed state changed anywhere.
    #[must_use]
    pub const fn changes(&self) -> u64 {
        self.changes
    }

    /// Returns how the switch `node` forwards a packet to `lid`; [`Egress::NoPath`] for other nodes.
    #[must_use]
    #[inline]
    pub fn egress(&self, node: NodeIdx, lid: Lid) -> Egress {
        let Some((hot, switch)) = self.nodes.get(node).and_then(|n| Some((n, n.switch?))) else {
            return Egress::NoPath;
        };
        match self.switches[switch].egress(lid) {
            NO_PATH => Egress::NoPath,
            0 => Egress::Own,
            num if num <= hot.port_count => Egress::Port(PortIdx(hot.first + u32::from(num))),
            _ => Egress::NoSuchPort,
        }
    }

    /// Returns all counters of a port.
    ///
    /// # Panics
    /// If the index is of another, larger chassis.
    #[must_use]
    pub fn counters(&self, port: PortIdx) -> Counters {
        let mut counters = self.ports[port].counters;
        counters.add_mads(self.wires[port].mads_out, self.wires[port].mads_in);
        counters
    }

    /// Returns all counters of a port for changes.
    ///
    /// # Panics
    /// If the index is of another, larger chassis.
    pub fn counters_mut(&mut self, port: PortIdx) -> &mut Counters {
        let wire = &mut self.wires[port];
        let (sent, received) = (wire.mads_out, wire.mads_in);
        (wire.mads_out, wire.mads_in) = (0, 0);
        let counters = &mut self.ports[port].counters;
        counters.add_mads(sent, received);
        counters
    }

    /// Counts a MAD on the link from `out` to `into`.
    #[inline]
    pub fn count_mad(&mut self, out: PortIdx, into: PortIdx) {
        self.wires[out].mads_out += 1;
        self.wires[into].mads_in += 1;
    }

    /// Sets or clears the mark at both ends of a port's cable.
    pub fn mark(&mut self, port: PortIdx, marked: bool) {
        for end in [Some(port), self.wires[port].peer()].into_iter().flatten() {
            self.set_flag(end, Wire::MARKED, marked);
        }
    }

    /// Replaces the settings of a port.
    pub fn set_settings(&mut self, port: PortIdx, settings: PortSettings) {
        let data = &mut self.ports[port];
        if data.settings == settings {
            return;
        }
        data.settings = settings;
        let wire = &mut self.wires[port];
        wire.lid = settings.lids.base;
        wire.lid_count = match settings.lids.base.is_unicast() {
            true => u8::try_from(settings.lids.lmc.lids()).unwrap_or(0),
            false => 0,
        };
        self.touch(self.wires[port].node, TableKind::Settings);
    }

    /// Changes the port state from INIT, ARMED or ACTIVE to `to` at a port with a link that is up. Returns false if
    /// that is not possible. Port 0 of a switch stays ACTIVE.
    pub fn set_logical(&mut self, port: PortIdx, to: PortState) -> bool {
        if self.is_on_board(port) || self.wires[port].phys != PhysState::LinkUp || to == PortState::Down {
            return false;
        }
        self.wires[port].state = to;
        self.touch(self.wires[port].node, TableKind::Links);
        true
    }

    /// Changes to a physical state in which the link is down. Takes both ends down if the link was up.
    pub fn set_physical(&mut self, port: PortIdx, to: PhysState) {
        if to == PhysState::LinkUp || self.is_on_board(port) {
            return;
        }
        self.take_down(port);
        self.wires[port].phys = to;
        self.touch(self.wires[port].node, TableKind::Links);
    }

    /// True if only training is needed for the link at `port` to come up.
    #[must_use]
    pub fn can_train(&self, port: PortIdx) -> bool {
        let ready = |end: PortIdx| {
            let wire = &self.wires[end];
            wire.is_plugged()
                && self.is_powered(wire.node)
                && matches!(
                    wire.phys,
                    PhysState::Polling | PhysState::Training | PhysState::Recovery
                )
        };
        let peer = self.wires[port].peer();
        ready(port) && peer.is_some_and(ready) && self.common_rate(port).is_some()
    }

    /// Returns the best width and speed enabled at both ends of a port's cable.
    #[must_use]
    pub fn common_rate(&self, port: PortIdx) -> Option<Rate> {
        let (a, b) = (&self.ports[port], &self.ports[self.wires[port].peer()?]);
        let width = widest(a.widths_enabled & b.widths_enabled)?;
        let speed = a.speeds_enabled.and(b.speeds_enabled).fastest()?;
        Some(Rate { width, speed })
    }

    /// Brings both ends of a link up: LinkUp, INIT, at the best common rate. Returns false if that is not possible.
    pub fn bring_up(&mut self, port: PortIdx) -> bool {
        let Some(rate) = self.common_rate(port).filter(|_| self.can_train(port)) else {
            return false;
        };
        for end in [Some(port), self.wires[port].peer()].into_iter().flatten() {
            self.wires[end].phys = PhysState::LinkUp;
            self.wires[end].state = PortState::Init;
            self.ports[end].rate = rate;
            self.touch(self.wires[end].node, TableKind::Links);
        }
        true
    }

    /// Takes both ends of a link down; each enters its LinkDownDefaultState. Returns true if the link was up.
    pub fn take_down(&mut self, port: PortIdx) -> bool {
        if self.wires[port].phys != PhysState::LinkUp || self.is_on_board(port) {
            return false;
        }
        for end in [Some(port), self.wires[port].peer()].into_iter().flatten() {
            self.wires[end].phys = self.ports[end].down_default;
            self.wires[end].state = PortState::Down;
            Counters::count(&mut self.counters_mut(end).link_downed);
            self.touch(self.wires[end].node, TableKind::Links);
        }
        true
    }

    /// Plugs or unplugs a port's cable. Unplugging takes the link down.
    pub fn set_plugged(&mut self, port: PortIdx, plugged: bool) {
        let Some(peer) = self.wires[port].peer() else { return };
        self.take_down(port);
        for end in [port, peer] {
            self.set_flag(end, Wire::PLUGGED, plugged);
            self.touch(self.wires[end].node, TableKind::Links);
        }
    }

    /// Exchanges the cables of two ports and plugs them in; their links go down. Returns false if a port has no cable,
    /// or both have the same one.
    pub fn swap_cables(&mut self, a: PortIdx, b: PortIdx) -> bool {
        let (Some(far_a), Some(far_b)) = (self.wires[a].peer(), self.wires[b].peer()) else {
            return false;
        };
        if a == b || a == far_b {
            return false;
        }
        self.take_down(a);
        self.take_down(b);
        for (near, far) in [(a, far_b), (b, far_a)] {
            (self.wires[near].peer, self.wires[far].peer) = (far.0, near.0);
            for end in [near, far] {
                self.set_flag(end, Wire::PLUGGED, true);
                self.touch(self.wires[end].node, TableKind::Links);
            }
        }
        true
    }

    /// Powers a node off: its links go down, and all its state is lost.
    pub fn power_off(&mut self, node: NodeIdx) {
        for num in 1..=self.nodes[node].port_count {
            if let Some(port) = self.port_at(node, num) {
                self.take_down(port);
                self.wires[port].phys = PhysState::Polling;
            }
        }
        self.nodes[node].powered = false;
    }

    /// Powers a node on in its power-on state: empty tables, no settings, counters at zero.
    pub fn power_on(&mut self, node: NodeIdx) {
        self.power_off(node);
        let hot = self.nodes[node];
        let built = self.fabric.node(node);
        for num in 0..=hot.port_count {
            let port = PortIdx(hot.first + u32::from(num));
            let num = PortNum::new(num).unwrap_or_default();
            let old = self.wires[port];
            let on_board = num == PortNum::MANAGEMENT && hot.switch.is_some();
            let mut wire = power_on_wire(node, num, old.peer().map(|p| p.0), on_board);
            wire.flags = old.flags;
            self.wires[port] = wire;
            let capability = built.port(num).map(|p| p.capability).unwrap_or_default();
            self.ports[port] = PortData::new(&capability);
        }
        if let Some(switch) = hot.switch {
            let attributes = self.switches[switch].attributes;
            self.switches[switch] = SwitchData::new(attributes);
        }
        self.lanes[node] = None;
        self.nodes[node].powered = true;
        self.nodes[node].boots += 1;
        self.versions[node].iter_mut().for_each(|v| *v += 1);
        self.changes += 1;
    }

    /// Replaces the settings of a switch; does nothing at other nodes.
    pub fn set_switch_settings(&mut self, node: NodeIdx, settings: SwitchSettings) {
        if let Some(switch) = self.switch_mut(node, TableKind::Linear) {
            switch.settings = settings;
        }
    }

    /// Sets or clears PortStateChange of a switch; does nothing at other nodes.
    pub fn set_port_state_change(&mut self, node: NodeIdx, value: bool) {
        if let Some(switch) = self.nodes[node].switch {
            self.switches[switch].settings.port_state_change = value;
        }
    }

    /// Returns the tables of a switch for changes; counts as a new version of `kind`.
    pub fn switch_mut(&mut self, node: NodeIdx, kind: TableKind) -> Option<&mut SwitchData> {
        let switch = self.nodes.get(node)?.switch?;
        self.touch(node, kind);
        self.switches.get_mut(switch)
    }

    /// Writes one block of a switch's linear table. False if the switch does not have the block.
    pub fn set_linear_block(&mut self, node: NodeIdx, block: usize, data: &[u8; BLOCK_LIDS]) -> bool {
        let Some(switch) = self.nodes.get(node).and_then(|n| n.switch) else {
            return false;
        };
        let switch = &mut self.switches[switch];
        if block * BLOCK_LIDS >= usize::from(switch.attributes.linear_cap) {
            return false;
        }
        if switch.linear.len() <= block {
            switch.linear.resize(block + 1, [NO_PATH; BLOCK_LIDS]);
        }
        switch.linear[block] = *data;
        self.touch(node, TableKind::Linear);
        true
    }

    /// Writes one block of one position of a switch's multicast table. False if the switch does not have it.
    pub fn set_multicast_block(
        &mut self,
        node: NodeIdx,
        (block, position): (u16, u8),
        data: [u16; SwitchData::MULTICAST_BLOCK],
    ) -> bool {
        let Some(port_count) = self.nodes.get(node).map(|n| n.port_count) else {
            return false;
        };
        let Some(switch) = self.switch_mut(node, TableKind::Multicast) else {
            return false;
        };
        let in_range = usize::from(block) * SwitchData::MULTICAST_BLOCK < usize::from(switch.attributes.mcast_cap);
        if !in_range || position > port_count / 16 {
            return false;
        }
        switch.multicast.insert((block, position), data);
        true
    }

    /// Returns the lanes of packets from port `input` to port `output` of a node (both 0 for a CA, which has one row
    /// per port).
    #[must_use]
    pub fn lanes(&self, node: NodeIdx, input: u8, output: u8) -> &[Vl; Sl::COUNT] {
        const POWER_ON: LaneRow = match Vl::new(0) {
            Some(vl) => [vl; Sl::COUNT],
            None => [Vl::MANAGEMENT; Sl::COUNT],
        };
        let rows = self.lanes.get(node).and_then(Option::as_deref);
        match rows.and_then(|rows| rows.get(self.lane_row(node, input, output))) {
            Some(row) => row,
            None => &POWER_ON,
        }
    }

    /// Changes the lanes of packets from port `input` to port `output`; does nothing for ports that do not exist.
    pub fn set_lanes(&mut self, node: NodeIdx, input: u8, output: u8, row: [Vl; Sl::COUNT]) {
        let Some(hot) = self.nodes.get(node) else { return };
        if input > hot.port_count || output > hot.port_count {
            return;
        }
        let side = usize::from(hot.port_count) + 1;
        let at = self.lane_row(node, input, output);
        let rows = self.lanes[node].get_or_insert_with(|| vec![[Vl::default(); Sl::COUNT]; side * side].into());
        rows[at] = row;
        self.touch(node, TableKind::SlToVl);
    }

    fn lane_row(&self, node: NodeIdx, input: u8, output: u8) -> usize {
        let side = usize::from(self.nodes[node].port_count) + 1;
        usize::from(input) * side + usize::from(output)
    }

    fn is_on_board(&self, port: PortIdx) -> bool {
        self.wires[port].num == PortNum::MANAGEMENT
    }

    fn set_flag(&mut self, port: PortIdx, flag: u8, on: bool) {
        let flags = &mut self.wires[port].flags;
        *flags = if on { *flags | flag } else { *flags & !flag };
    }

    fn touch(&mut self, node: NodeIdx, kind: TableKind) {
        let version = &mut self.versions[node][kind as usize];
        *version = version.wrapping_add(1);
        self.changes += 1;
    }
}
