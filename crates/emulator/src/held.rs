//! The state of all agents as bytes: two fabrics in the same state give the same bytes, whatever led to it.

use selvedge_chassis::{Chassis, PortIdx};
use selvedge_fabric::NodeIdx;
use selvedge_wire::{AttributeId, MulticastForwardingTable, PKeyTable, SlToVl, SmpData, VlArbBlock, VlArbitration};

use crate::attribute::{Request, smp_get};
use crate::emulator::Emulator;

/// The port of an entry without a route. Source: IBA vol 1 §14.2.5.10: a number above the switch's last port; managers
/// write 255.
const NO_PATH: u8 = 255;

/// A function that takes one piece of the state.
pub type Taker<'a> = dyn FnMut(&[u8]) + 'a;

impl Emulator {
    /// Passes the state of the agents of all powered nodes to `take`, in the form of Get responses: LIDs and other
    /// settings of ports, forwarding tables, lanes, arbitration, P_Keys, GUIDs. The order depends only on the fabric.
    /// Counters are left out, and so are blocks of forwarding tables without a route.
    pub fn held(&self, take: &mut Taker<'_>) {
        let chassis = &self.chassis;
        for node in chassis.fabric().nodes().indices() {
            if !chassis.is_powered(node) {
                continue;
            }
            let mut reader = Reader { chassis, node, take };
            match chassis.is_switch(node) {
                true => reader.switch(),
                false => reader.adapter(),
            }
        }
    }
}

/// Reads one node.
struct Reader<'a, 'b> {
    chassis: &'a Chassis,
    node: NodeIdx,
    take: &'a mut Taker<'b>,
}

impl Reader<'_, '_> {
    fn port(&self, num: u8) -> Option<PortIdx> {
        self.chassis.port_at(self.node, num)
    }

    /// Returns the response to a Get that arrived by a port; `None` if the agent refuses it.
    fn get(&self, ingress: PortIdx, id: AttributeId, modifier: u32) -> Option<SmpData> {
        let request = Request {
            node: self.node,
            ingress,
            modifier,
            m_key_shown: true,
            speeds_shown: true,
        };
        smp_get(self.chassis, &request, id).ok()
    }

    fn put(&mut self, id: AttributeId, modifier: u32, data: &SmpData) {
        (self.take)(&self.node.0.to_be_bytes());
        (self.take)(&id.code().to_be_bytes());
        (self.take)(&modifier.to_be_bytes());
        (self.take)(data);
    }

    /// Reads one attribute. Returns false if the agent refuses.
    fn read(&mut self, ingress: PortIdx, id: AttributeId, modifier: u32) -> bool {
        let data = self.get(ingress, id, modifier);
        if let Some(data) = &data {
            self.put(id, modifier, data);
        }
        data.is_some()
    }

    /// Reads a channel adapter: each port has its own agent.
    fn adapter(&mut self) {
        for num in 1..=u8::MAX {
            let Some(port) = self.port(num) else { return };
            self.end_port(port, num);
            self.settings(port, num);
            self.read(port, AttributeId::SL_TO_VL, 0);
        }
    }

    fn switch(&mut self) {
        let Some(own) = self.port(0) else { return };
        self.read(own, AttributeId::SWITCH_INFO, 0);
        self.tables(own);
        self.end_port(own, 0);
        let ports: Vec<u8> = (0..=u8::MAX).take_while(|&num| self.port(num).is_some()).collect();
        for &num in &ports {
            self.settings(own, num);
            for &output in &ports {
                self.read(own, AttributeId::SL_TO_VL, SlToVl::modifier(num, output));
            }
        }
    }

    /// Reads the GUIDs of an end port.
    fn end_port(&mut self, ingress: PortIdx, num: u8) {
        self.read(ingress, AttributeId::NODE_INFO, num.into());
        let mut blocks = 0..;
        blocks.all(|block| self.read(ingress, AttributeId::GUID_INFO, block));
    }

    /// Reads settings, P_Keys and arbitration of a port.
    fn settings(&mut self, ingress: PortIdx, num: u8) {
        self.read(ingress, AttributeId::PORT_INFO, num.into());
        let mut blocks = 0..;
        blocks.all(|block| self.read(ingress, AttributeId::PKEY_TABLE, PKeyTable::modifier(block, num)));
        for block in [
            VlArbBlock::LowFirst,
            VlArbBlock::LowSecond,
            VlArbBlock::HighFirst,
            VlArbBlock::HighSecond,
        ] {
            self.read(
                ingress,
                AttributeId::VL_ARBITRATION,
                VlArbitration::modifier(block, num),
            );
        }
    }

    /// Reads forwarding tables.
    fn tables(&mut self, own: PortIdx) {
        let Some(switch) = self.chassis.switch(self.node) else {
            return;
        };
        for (block, row) in (0_u32..).zip(switch.linear_blocks()) {
            if row.iter().any(|port| *port != NO_PATH) {
                self.put(AttributeId::LINEAR_FORWARDING, block, row);
            }
        }
        for (block, position) in switch.multicast_blocks() {
            let modifier = MulticastForwardingTable::modifier(block, position);
            let data = self.get(own, AttributeId::MULTICAST_FORWARDING, modifier);
            if let Some(data) = data.filter(|data| data.iter().any(|byte| *byte != 0)) {
                self.put(AttributeId::MULTICAST_FORWARDING, modifier, &data);
            }
        }
    }
}
