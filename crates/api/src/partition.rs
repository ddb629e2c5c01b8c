//! Partitions: which ports may communicate.

use selvedge_types::{Guid, PKey};
use serde::{Deserialize, Serialize};

use crate::Body;

/// A port that is a member of a partition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartitionMember {
    /// GUID of the node.
    pub node_guid: Guid,
    /// Name of the node.
    pub node_name: String,
    /// Number of the port; 0 is a switch's management port.
    pub port: u8,
    /// GUID of the port.
    pub guid: Guid,
    /// True for a full member, false for a limited one.
    pub full: bool,
    /// True if the port's P_KeyTable holds the key of this membership; absent if its table is not known.
    pub set: Option<bool>,
}

/// A rule of a partition: a line or word of `partitions.conf` that names members.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartitionRule {
    /// The rule, as in `partitions.conf`: `0x0002c90300001234=full`, `ALL_CAS=limited`.
    pub rule: String,
    /// Number of end ports to which the rule applies. 0: the rule has a wrong GUID, or its port is absent.
    pub matches: u64,
    /// Number of ports with a membership that this rule decides. The last rule that applies to a port decides.
    pub decides: u64,
}

/// A partition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Partition {
    /// P_Key without the membership bit: `0x7fff` is the default partition.
    pub pkey: PKey,
    /// Name of the partition; may be empty.
    pub name: String,
    /// Members of the partition, by node, then port.
    pub members: Vec<PartitionMember>,
    /// Rules of the partition, in the order of the file.
    pub rules: Vec<PartitionRule>,
}

impl Partition {
    /// Returns the full members if `is_full`, otherwise the limited members.
    pub fn members_of(&self, is_full: bool) -> impl Iterator<Item = &PartitionMember> {
        self.members.iter().filter(move |member| member.full == is_full)
    }

    /// Members with a known P_KeyTable that lacks the key.
    #[must_use]
    pub fn not_set(&self) -> u64 {
        self.members.iter().filter(|member| member.set == Some(false)).count() as u64
    }
}

/// The partitions of the policy in force, by P_Key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Partitions {
    /// The partitions.
    pub partitions: Vec<Partition>,
}

impl Body for Partitions {
    const SCHEMA: &'static str = "selvedge.partitions";
}
