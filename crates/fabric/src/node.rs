//! A node: a switch, channel adapter or router.

use std::sync::Arc;

use selvedge_types::{Guid, NodeKind, PortNum};
use serde::{Deserialize, Serialize};

use crate::Port;

/// Capabilities of a switch, fixed by its hardware (the read-only part of SwitchInfo).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SwitchAttributes {
    /// Number of entries of the linear forwarding table.
    pub linear_cap: u16,
    /// Number of entries of the multicast forwarding table.
    pub mcast_cap: u16,
    /// Number of P_Keys that the switch can enforce per port; 0: none.
    pub enforce_cap: u16,
    /// True if port 0 is a full end port (enhanced port 0).
    pub enhanced_port0: bool,
    /// True if SL2VL can be set for many port pairs at once.
    pub optimized_sl2vl: bool,
}

impl Default for SwitchAttributes {
    /// Returns the values of a current switch: 49,152 unicast and 16,384 multicast entries.
    fn default() -> Self {
        Self {
            linear_cap: 49_152,
            mcast_cap: 16_384,
            enforce_cap: 32,
            enhanced_port0: true,
            optimized_sl2vl: false,
        }
    }
}

/// Settings of a switch that a subnet manager may write through SwitchInfo: current ones in a [`Node`], planned ones in
/// a plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SwitchSettings {
    /// Highest LID that is looked up (LinearFDBTop).
    pub linear_top: u16,
    /// Highest multicast LID that is looked up (MulticastFDBTop); 0: all multicast LIDs for which the table has room.
    #[serde(default)]
    pub multicast_top: u16,
    /// Longest time of a packet in the switch: 4.096 µs × 2^value; 20–31: infinite (LifeTimeValue).
    pub lifetime: u8,
    /// True if a port has changed state since the bit was cleared (PortStateChange).
    pub port_state_change: bool,
}

/// A node and its ports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// Node type.
    pub kind: NodeKind,
    /// GUID of the node.
    pub guid: Guid,
    /// GUID of the system to which the node belongs; 0 if there is none.
    pub system_guid: Guid,
    /// NodeDescription.
    pub description: String,
    /// Vendor's OUI, 24 bits.
    pub vendor_id: u32,
    /// Vendor's device id.
    pub device_id: u16,
    /// Vendor's revision.
    pub revision: u32,
    /// Number of entries of the P_Key table.
    pub partition_cap: u16,
    /// Hardware limits of a switch; `None` for other nodes.
    pub switch: Option<SwitchAttributes>,
    /// Switches: current settings.
    pub switch_settings: SwitchSettings,
    /// Ports; the index is the port number. Index 0 is a switch's management port, and unused on other nodes.
    pub(crate) ports: Ports,
}

/// Ports of a node. Copies of the node share them until one changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<Port>", into = "Vec<Port>")]
pub(crate) struct Ports(Arc<Vec<Port>>);

impl Ports {
    pub(crate) fn make_mut(&mut self) -> &mut [Port] {
        let ports: &mut Vec<Port> = Arc::make_mut(&mut self.0);
        ports
    }
}

impl std::ops::Deref for Ports {
    type Target = [Port];

    fn deref(&self) -> &[Port] {
        &self.0
    }
}

impl From<Vec<Port>> for Ports {
    fn from(ports: Vec<Port>) -> Self {
        Self(Arc::new(ports))
    }
}

impl From<Ports> for Vec<Port> {
    fn from(ports: Ports) -> Self {
        Arc::unwrap_or_clone(ports.0)
    }
}

impl Node {
    /// Returns a node with `port_count` unconnected external ports and default attributes.
    #[must_use]
    pub fn new(kind: NodeKind, guid: Guid, port_count: u8, description: impl Into<String>) -> Self {
        let mut ports = vec![Port::default(); usize::from(port_count.min(PortNum::MAX.get())) + 1];
        if kind == NodeKind::Switch {
            ports[0].guid = guid;
        }
        Self {
            kind,
            guid,
            system_guid: guid,
            description: description.into(),
            vendor_id: 0,
            device_id: 0,
            revision: 0,
            partition_cap: 32,
            switch: (kind == NodeKind::Switch).then(SwitchAttributes::default),
            switch_settings: SwitchSettings::default(),
            ports: ports.into(),
        }
    }

    /// True for switches.
    #[must_use]
    pub fn is_switch(&self) -> bool {
        self.kind == NodeKind::Switch
    }

    /// True for the channel adapter inside a switch that reduces data for its vendor's collectives. Only its
    /// description identifies it (observed: "Mellanox Technologies Aggregation Node").
    #[must_use]
    pub fn is_aggregation_node(&self) -> bool {
        self.kind == NodeKind::Ca && self.description.contains("Aggregation Node")
    }

    /// Returns the number of external ports, 0–254.
    #[must_use]
    pub fn port_count(&self) -> u8 {
        u8::try_from(self.ports.len() - 1).unwrap_or(u8::MAX)
    }

    /// Returns a port: 1–`port_count`, and 0 on switches.
    #[must_use]
    pub fn port(&self, num: PortNum) -> Option<&Port> {
        if num == PortNum::MANAGEMENT && !self.is_switch() {
            return None;
        }
        self.ports.get(num.index())
    }

    /// Returns a port, for changes before the node is added to a builder.
    pub fn port_mut(&mut self, num: PortNum) -> Option<&mut Port> {
        if num == PortNum::MANAGEMENT && !self.is_switch() {
            return None;
        }
        self.ports.make_mut().get_mut(num.index())
    }

    /// Returns the external ports in order.
    pub fn external_ports(&self) -> impl DoubleEndedIterator<Item = (PortNum, &Port)> {
        self.ports
            .iter()
            .enumerate()
            .skip(1)
            .filter_map(|(i, port)| Some((port_num(i)?, port)))
    }

    /// Returns all existing ports: external ones, and port 0 on switches.
    pub fn all_ports(&self) -> impl DoubleEndedIterator<Item = (PortNum, &Port)> {
        let first = usize::from(!self.is_switch());
        self.ports
            .iter()
            .enumerate()
            .skip(first)
            .filter_map(|(i, port)| Some((port_num(i)?, port)))
    }

    /// Returns the ports that can have LIDs: port 0 of a switch, every port of another node.
    pub fn end_ports(&self) -> impl DoubleEndedIterator<Item = (PortNum, &Port)> {
        let is_switch = self.is_switch();
        self.all_ports()
            .filter(move |(num, _)| !is_switch || *num == PortNum::MANAGEMENT)
    }
}

fn port_num(index: usize) -> Option<PortNum> {
    u8::try_from(index).ok().and_then(PortNum::new)
}
