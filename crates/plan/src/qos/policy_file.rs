//! OpenSM's QoS policy file: its sections as values.

use selvedge_types::{Guid, Mtu, NodeKind, PortNum, Sl, Vl};

use super::Ranges;

/// A policy file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PolicyFile {
    /// Section port-groups.
    pub groups: Vec<PortGroup>,
    /// Section qos-setup: arbitration tables of ports, in order of the file.
    pub arbitration: Vec<ArbScope>,
    /// Section qos-setup: SLtoVLMappingTables of ports, in order of the file.
    pub rows: Vec<RowScope>,
    /// Section qos-levels.
    pub levels: Vec<Level>,
    /// Section qos-match-rules, then the rules of qos-ulps; the first one that matches applies.
    pub rules: Vec<MatchRule>,
    /// The level of queries that match no rule. The level DEFAULT, or the default of qos-ulps.
    pub default: LevelRef,
}

/// A name of a port group, compared without regard to case.
pub type GroupName = String;

/// A name of a level, compared without regard to case.
pub type LevelName = String;

/// A group of ports: all ports that meet at least one of these criteria.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortGroup {
    /// Line in the file, counted from 1.
    pub line: usize,
    /// Name of the group, without blanks unless it was quoted.
    pub name: GroupName,
    /// Description.
    pub description: String,
    /// Port GUIDs.
    pub guids: Ranges,
    /// Ports by name.
    pub ports: Vec<PortName>,
    /// P_Keys of partitions, without the membership bit: all members belong to the group.
    pub pkeys: Ranges,
    /// Names of partitions: all members belong to the group.
    pub partitions: Vec<(usize, String)>,
    /// Kinds of nodes: all their end ports belong to the group.
    pub kinds: Vec<NodeKind>,
    /// True if the manager's port belongs to the group.
    pub manager: bool,
}

/// A port by NodeDescription and number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortName {
    /// Line in the file, counted from 1.
    pub line: usize,
    /// NodeDescription.
    pub node: String,
    /// Number of the port; any port of a switch stands for the switch.
    pub port: PortNum,
}

/// A QoS level.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Level {
    /// Name of the level.
    pub name: LevelName,
    /// Description.
    pub description: String,
    /// Service level of paths.
    pub sl: Sl,
    /// Largest MTU of paths.
    pub mtu: Option<Mtu>,
    /// Largest static rate of paths, as a code.
    pub rate: Option<u8>,
    /// Packet lifetime of paths (4.096 us x 2^value).
    pub packet_life: Option<u8>,
    /// Path bits. OpenSM reads them and uses them for nothing.
    pub path_bits: Ranges,
    /// P_Keys that paths may have, without the membership bit; empty: any.
    pub pkeys: Ranges,
}

/// The level of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LevelRef {
    /// A level of section qos-levels, by index.
    Level(usize),
    /// Only a service level, as rules of qos-ulps give it.
    Sl(Sl),
}

impl Default for LevelRef {
    fn default() -> Self {
        Self::Sl(Sl::default())
    }
}

/// A rule: queries that meet all its criteria have this level.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MatchRule {
    /// Line in the file, counted from 1.
    pub line: usize,
    /// Description.
    pub description: String,
    /// Groups of which the source must be in one, by index; empty: any source.
    pub sources: Vec<usize>,
    /// Groups of which the destination must be in one, by index; empty: any destination.
    pub destinations: Vec<usize>,
    /// Port GUIDs of which the source must be one; empty: any source.
    pub source_guids: Ranges,
    /// Port GUIDs of which the destination must be one; empty: any destination.
    pub destination_guids: Ranges,
    /// Service IDs; empty: any, also none.
    pub service_ids: Ranges,
    /// QoS classes; empty: any, also none.
    pub classes: Ranges,
    /// P_Keys without the membership bit; empty: any, also none.
    pub pkeys: Ranges,
    /// True if it is a rule for IPoIB: its partitions must exist and have two full members.
    pub is_ipoib: bool,
    /// The level.
    pub level: LevelRef,
}

/// Arbitration tables of the ports in scope.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArbScope {
    /// Line in the file, counted from 1.
    pub line: usize,
    /// Groups of which a port must be in one, by index; empty: none of these.
    pub groups: Vec<usize>,
    /// Groups of which the port at the other end of the link must be in one, by index; empty: none of these.
    pub across: Vec<usize>,
    /// Entries of the high-priority table, if given. Weights in units of 64 bytes.
    pub high: Option<Vec<(Vl, u8)>>,
    /// Entries of the low-priority table, if given. Weights in units of 64 bytes.
    pub low: Option<Vec<(Vl, u8)>>,
    /// VLHighLimit, in units of 4,096 bytes, if given.
    pub high_limit: Option<u8>,
}

/// A row of SLtoVLMappingTables of the ports in scope.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RowScope {
    /// Line in the file, counted from 1.
    pub line: usize,
    /// Groups of which the node must have a port in one, by index.
    pub groups: Vec<usize>,
    /// Ingress ports; empty: all.
    pub from: Ranges,
    /// Egress ports; empty: all.
    pub to: Ranges,
    /// Groups of which the port beyond the ingress port must be in one, by index.
    pub across_from: Vec<usize>,
    /// Groups of which the port beyond the egress port must be in one, by index.
    pub across_to: Vec<usize>,
    /// The lane of each SL; lane 15 drops.
    pub row: [Vl; Sl::COUNT],
}

impl PolicyFile {
    /// Returns the level that a reference names, and its service level.
    #[must_use]
    pub fn level(&self, level: LevelRef) -> (Option<&Level>, Sl) {
        match level {
            LevelRef::Level(at) => {
                let level = self.levels.get(at);
                (level, level.map_or_else(Sl::default, |level| level.sl))
            }
            LevelRef::Sl(sl) => (None, sl),
        }
    }
}

impl PortGroup {
    /// True if a port belongs to the group by its GUID or the kind of its node.
    #[must_use]
    pub fn names(&self, guid: Guid, kind: NodeKind) -> bool {
        self.guids.contains(guid.0) || self.kinds.contains(&kind)
    }
}
