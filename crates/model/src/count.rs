//! Rules for the number of MADs by sender and attribute, and the resulting counts.

use crate::Shape;

/// The manager that has a certain pattern of MADs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Manager {
    /// Selvedge.
    Selvedge,
    /// OpenSM 3.3.23 with its defaults (no QoS, default partition).
    OpenSm,
}

impl Manager {
    /// Both managers.
    pub const ALL: [Self; 2] = [Self::Selvedge, Self::OpenSm];

    /// Returns the name of the manager.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Selvedge => "selvedge",
            Self::OpenSm => "OpenSM",
        }
    }
}

/// Operation on an attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Method {
    /// The manager reads the attribute.
    Get,
    /// The manager writes the attribute.
    Set,
    /// An agent reports with a trap.
    Trap,
    /// The manager acknowledges a trap.
    TrapRepress,
}

impl Method {
    /// Returns the standard's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Get => "Get",
            Self::Set => "Set",
            Self::Trap => "Trap",
            Self::TrapRepress => "TrapRepress",
        }
    }
}

/// Attributes used by bring-up and fail-over, in the standard's order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Attribute {
    /// AttributeID 0x0002.
    Notice,
    /// AttributeID 0x0010.
    NodeDescription,
    /// AttributeID 0x0011.
    NodeInfo,
    /// AttributeID 0x0012.
    SwitchInfo,
    /// AttributeID 0x0015.
    PortInfo,
    /// AttributeID 0x0016.
    PKeyTable,
    /// AttributeID 0x0019.
    LinearForwardingTable,
}

impl Attribute {
    /// Returns the standard's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Notice => "Notice",
            Self::NodeDescription => "NodeDescription",
            Self::NodeInfo => "NodeInfo",
            Self::SwitchInfo => "SwitchInfo",
            Self::PortInfo => "PortInfo",
            Self::PKeyTable => "P_KeyTable",
            Self::LinearForwardingTable => "LinearForwardingTable",
        }
    }

    /// Returns the AttributeID. Source: IBA vol 1 §14.2.5.
    #[must_use]
    pub const fn code(self) -> u16 {
        match self {
            Self::Notice => 0x0002,
            Self::NodeDescription => 0x0010,
            Self::NodeInfo => 0x0011,
            Self::SwitchInfo => 0x0012,
            Self::PortInfo => 0x0015,
            Self::PKeyTable => 0x0016,
            Self::LinearForwardingTable => 0x0019,
        }
    }
}

/// A population of the fabric (nodes, ports, links, …), each member of which needs one MAD.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Population {
    /// The subnet.
    Subnet,
    /// The link at the manager's own port; a manager on a switch has no such link.
    OwnLink,
    /// Every node.
    Node,
    /// Every switch.
    Switch,
    /// Every port of every switch, including port 0, cabled or not.
    SwitchPort,
    /// Every port of a switch with a link.
    LinkedSwitchPort,
    /// External ports of switches with a link, without the port by which discovery entered the switch.
    OnwardSwitchPort,
    /// Every port by which discovery entered a node that is not a switch.
    HostPort,
    /// Every port with a LID: port 0 of a switch, and host ports.
    EndPort,
    /// Both ends of every link.
    LinkedPort,
    /// 32 P_Keys of an end port, and of a linked switch port that can enforce partitions.
    PKeyBlock,
    /// 64 entries of a switch's forwarding table, from LID 0 to the highest.
    LftBlock,
}

impl Population {
    /// Returns the name of the population, for a table.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Subnet => "once",
            Self::OwnLink => "link of the manager's own port",
            Self::Node => "node",
            Self::Switch => "switch",
            Self::SwitchPort => "switch port, port 0 included",
            Self::LinkedSwitchPort => "switch port with a link",
            Self::OnwardSwitchPort => "switch port with a link, but the one it was entered by",
            Self::HostPort => "host port",
            Self::EndPort => "end port (port 0 of a switch, host port)",
            Self::LinkedPort => "end of a link",
            Self::PKeyBlock => "block of 32 P_Keys of an end port or an enforcing switch port with a link",
            Self::LftBlock => "block of 64 LIDs of a switch",
        }
    }

    /// Returns the size of the population in a fabric.
    #[must_use]
    pub const fn of(self, shape: &Shape) -> u64 {
        let s = &shape.sizes;
        match self {
            Self::Subnet => 1,
            Self::OwnLink => s.own_link,
            Self::Node => s.switches + s.hosts,
            Self::Switch => s.switches,
            Self::SwitchPort => s.switch_ports,
            Self::LinkedSwitchPort => s.linked_switch_ports,
            Self::OnwardSwitchPort => s.linked_switch_ports - s.entered_switches,
            Self::HostPort => s.host_ports,
            Self::EndPort => s.switches + s.host_ports,
            Self::LinkedPort => s.linked_switch_ports + s.linked_host_ports,
            Self::PKeyBlock => s.pkey_blocks,
            Self::LftBlock => s.switches * shape.lft_blocks(),
        }
    }
}

/// A number of MADs of one kind for each member of a population, when a fresh fabric is brought up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The manager that sends these MADs.
    pub manager: Manager,
    /// The operation.
    pub method: Method,
    /// The attribute.
    pub attribute: Attribute,
    /// Number per member.
    pub times: u64,
    /// The population.
    pub per: Population,
    /// The reason, in a few words.
    pub why: &'static str,
}

const fn rule(
    manager: Manager,
    method: Method,
    attribute: Attribute,
    times: u64,
    per: Population,
    why: &'static str,
) -> Rule {
    Rule {
        manager,
        method,
        attribute,
        times,
        per,
        why,
    }
}

use Attribute::{LinearForwardingTable, NodeDescription, NodeInfo, PKeyTable, PortInfo, SwitchInfo};
use Manager::{OpenSm, Selvedge};
use Method::{Get, Set};

/// The complete corrected model: bring-up of a fresh fabric, one lane, LMC 0, default partition.
///
/// Sources: our manager by design (`docs/reference/benchmark-methods.md`, "The least number of MADs"); OpenSM 3.3.23 as
/// observed.
pub const RULES: [Rule; 25] = [
    rule(Selvedge, Get, NodeInfo, 1, Population::Subnet, "its own node"),
    rule(Selvedge, Get, NodeInfo, 1, Population::OwnLink, "the node behind it"),
    rule(
        Selvedge,
        Get,
        NodeInfo,
        1,
        Population::LinkedSwitchPort,
        "the node behind it, asked from both ends",
    ),
    rule(Selvedge, Get, NodeDescription, 1, Population::Node, "its name"),
    rule(
        Selvedge,
        Get,
        SwitchInfo,
        1,
        Population::Switch,
        "sizes of its tables, whether it is fresh",
    ),
    rule(
        Selvedge,
        Get,
        PortInfo,
        1,
        Population::SwitchPort,
        "whether it has a link, what it can do",
    ),
    rule(Selvedge, Get, PortInfo, 1, Population::HostPort, "what it can do"),
    rule(
        Selvedge,
        Get,
        PKeyTable,
        1,
        Population::EndPort,
        "whether the default partition is there",
    ),
    rule(Selvedge, Set, PortInfo, 1, Population::Switch, "port 0: its LID"),
    rule(
        Selvedge,
        Set,
        PortInfo,
        2,
        Population::LinkedPort,
        "settings with ARMED, then ACTIVE",
    ),
    rule(Selvedge, Set, SwitchInfo, 1, Population::Switch, "LinearFDBTop"),
    rule(
        Selvedge,
        Set,
        LinearForwardingTable,
        1,
        Population::LftBlock,
        "the block",
    ),
    rule(OpenSm, Get, NodeInfo, 1, Population::Subnet, "its own node"),
    rule(OpenSm, Get, NodeInfo, 1, Population::OwnLink, "the node behind it"),
    rule(
        OpenSm,
        Get,
        NodeInfo,
        1,
        Population::OnwardSwitchPort,
        "the node behind it",
    ),
    rule(OpenSm, Get, NodeDescription, 1, Population::Node, "its name"),
    rule(OpenSm, Get, SwitchInfo, 1, Population::Switch, "sizes of its tables"),
    rule(
        OpenSm,
        Get,
        PortInfo,
        1,
        Population::SwitchPort,
        "whether it has a link, what it can do",
    ),
    rule(OpenSm, Get, PortInfo, 1, Population::HostPort, "what it can do"),
    rule(OpenSm, Get, PKeyTable, 1, Population::PKeyBlock, "what the table holds"),
    rule(OpenSm, Set, PortInfo, 1, Population::Switch, "port 0: its LID"),
    rule(
        OpenSm,
        Set,
        PortInfo,
        4,
        Population::HostPort,
        "LID, then settings, ARMED, ACTIVE: one each",
    ),
    rule(
        OpenSm,
        Set,
        PortInfo,
        3,
        Population::LinkedSwitchPort,
        "settings, ARMED, ACTIVE: one each",
    ),
    rule(OpenSm, Set, SwitchInfo, 1, Population::Switch, "LinearFDBTop"),
    rule(OpenSm, Set, LinearForwardingTable, 1, Population::LftBlock, "the block"),
];

/// MADs by method and attribute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts([[u64; ATTRIBUTES]; METHODS]);

const METHODS: usize = 4;
const ATTRIBUTES: usize = 7;
/// All methods, in the order of the enum.
const ALL_METHODS: [Method; METHODS] = [Method::Get, Method::Set, Method::Trap, Method::TrapRepress];
/// All attributes, in the order of the enum.
const ALL_ATTRIBUTES: [Attribute; ATTRIBUTES] = [
    Attribute::Notice,
    NodeDescription,
    NodeInfo,
    SwitchInfo,
    PortInfo,
    PKeyTable,
    LinearForwardingTable,
];

impl Counts {
    /// Returns the MADs that `manager` sends to bring up a fresh fabric without losses.
    #[must_use]
    pub fn bring_up(shape: &Shape, manager: Manager) -> Self {
        let mut counts = Self::default();
        for rule in RULES.iter().filter(|rule| rule.manager == manager) {
            counts.add(rule.method, rule.attribute, rule.times * rule.per.of(shape));
        }
        counts
    }

    /// Adds to a count.
    pub const fn add(&mut self, method: Method, attribute: Attribute, count: u64) {
        self.0[method as usize][attribute as usize] += count;
    }

    /// Returns the number of MADs of one kind.
    #[must_use]
    pub const fn of(&self, method: Method, attribute: Attribute) -> u64 {
        self.0[method as usize][attribute as usize]
    }

    /// Returns the number of MADs with one method.
    #[must_use]
    pub fn of_method(&self, method: Method) -> u64 {
        self.0[method as usize].iter().sum()
    }

    /// Returns the total.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().flatten().sum()
    }

    /// Iterates over the kinds with a number other than 0, by method, then attribute.
    pub fn iter(&self) -> impl Iterator<Item = (Method, Attribute, u64)> + '_ {
        let kinds = ALL_METHODS.into_iter().flat_map(|m| ALL_ATTRIBUTES.map(|a| (m, a)));
        kinds
            .map(|(m, a)| (m, a, self.of(m, a)))
            .filter(|(_, _, count)| *count > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_its_place() {
        for (i, method) in ALL_METHODS.into_iter().enumerate() {
            assert_eq!(method as usize, i);
        }
        for (i, attribute) in ALL_ATTRIBUTES.into_iter().enumerate() {
            assert_eq!(attribute as usize, i);
        }
    }
}
