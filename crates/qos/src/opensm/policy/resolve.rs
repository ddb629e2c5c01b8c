//! Finds the ports of a policy's groups on a fabric.

use std::collections::BTreeSet;
use std::sync::Arc;

use selvedge_fabric::{Fabric, Node, PortRef};
use selvedge_plan::partition::{Partition, Partitions};
use selvedge_plan::qos::{MatchRule, PolicyFile, PortGroup, PortName, Ranges, Resolved};
use selvedge_types::{Guid, PortNum, printable};

/// Something in a policy that the fabric or the partitions do not have. The rest of the policy applies.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unresolved {
    /// SLV-QOS-0020: no node has the description of a port name.
    #[error(
        "SLV-QOS-0020: QoS policy, line {line}: no node of the fabric is called '{node}', so port-group '{group}' \
         lacks its port; a description with blanks must be quoted"
    )]
    NoNode {
        /// Line in the file, counted from 1.
        line: usize,
        /// The group.
        group: String,
        /// The description.
        node: String,
    },
    /// SLV-QOS-0021: a node has fewer ports than a port name says.
    #[error(
        "SLV-QOS-0021: QoS policy, line {line}: {node} has ports 1 to {ports}; port-group '{group}' names port {port}"
    )]
    NoPort {
        /// Line in the file, counted from 1.
        line: usize,
        /// The group.
        group: String,
        /// The node.
        node: String,
        /// The port.
        port: u8,
        /// The node's number of ports.
        ports: u8,
    },
    /// SLV-QOS-0022: no partition has this name.
    #[error(
        "SLV-QOS-0022: QoS policy, line {line}: no partition is called '{name}', so port-group '{group}' lacks its \
         members; compare it with the partition file"
    )]
    NoPartition {
        /// Line in the file, counted from 1.
        line: usize,
        /// The group.
        group: String,
        /// The name.
        name: String,
    },
    /// SLV-QOS-0023: no partition has a P_Key of this range.
    #[error(
        "SLV-QOS-0023: QoS policy, line {line}: no partition has a P_Key from {first:#06x} to {last:#06x}; no query \
         can have such a P_Key"
    )]
    NoPKey {
        /// Line of the group or rule, counted from 1.
        line: usize,
        /// First P_Key of the range, without the membership bit.
        first: u16,
        /// Last P_Key of the range, without the membership bit.
        last: u16,
    },
    /// SLV-QOS-0024: the partition of an IPoIB rule has fewer than two full members.
    #[error(
        "SLV-QOS-0024: QoS policy, line {line}: the partition with P_Key {pkey:#06x} has {members} full members; IPoIB \
         needs two, and OpenSM refuses the policy"
    )]
    TooFewMembers {
        /// Line of the rule, counted from 1.
        line: usize,
        /// P_Key without the membership bit.
        pkey: u16,
        /// Number of full members.
        members: usize,
    },
}

/// The fabric, the partitions, and the manager's port.
#[derive(Clone, Copy)]
struct Subnet<'a> {
    fabric: &'a Fabric,
    partitions: &'a Partitions,
    manager: Option<PortRef>,
}

/// Looks up the ports of a policy's groups. `manager` is the port of the manager. Also returns what is not there.
#[must_use]
pub fn resolved(
    policy: &Arc<PolicyFile>,
    fabric: &Fabric,
    partitions: &Partitions,
    manager: Option<PortRef>,
) -> (Resolved, Vec<Unresolved>) {
    let subnet = Subnet {
        fabric,
        partitions,
        manager,
    };
    let mut missing = Vec::new();
    let members = policy.groups.iter().map(|group| subnet.members(group, &mut missing));
    let members = members.collect();
    policy.rules.iter().for_each(|rule| subnet.check(rule, &mut missing));
    let policy = Arc::clone(policy);
    (Resolved { policy, members }, missing)
}

impl Subnet<'_> {
    /// Returns the ports that a group names otherwise than by GUID or kind of node.
    fn members(&self, group: &PortGroup, missing: &mut Vec<Unresolved>) -> BTreeSet<Guid> {
        let mut members = BTreeSet::new();
        if let Some(own) = self.manager.filter(|_| group.manager) {
            members.extend(self.fabric.port(own).map(|port| port.guid));
        }
        for port in &group.ports {
            match self.port(group, port) {
                Ok(guid) => drop(members.insert(guid)),
                Err(why) => missing.push(why),
            }
        }
        for (line, name) in &group.partitions {
            let mut found = self
                .partitions
                .partitions
                .values()
                .filter(|known| known.name == *name)
                .peekable();
            if found.peek().is_none() {
                missing.push(Unresolved::NoPartition {
                    line: *line,
                    group: group.name.clone(),
                    name: name.clone(),
                });
            }
            found.for_each(|partition| members.extend(self.of_partition(partition).map(|(guid, _)| guid)));
        }
        for partition in self.with_keys(group.line, &group.pkeys, missing) {
            members.extend(self.of_partition(partition).map(|(guid, _)| guid));
        }
        members
    }

    /// Returns the GUID of a port by name. Of several nodes with one description, that with the lowest GUID is meant.
    /// Every port of a switch has the GUID of its port 0.
    fn port(&self, group: &PortGroup, name: &PortName) -> Result<Guid, Unresolved> {
        let named = |node: &&Node| node.description == name.node;
        let node = self.fabric.nodes().iter().filter(named).min_by_key(|node| node.guid);
        let node = node.ok_or_else(|| Unresolved::NoNode {
            line: name.line,
            group: group.name.clone(),
            node: printable(&name.node).into_owned(),
        })?;
        let at = if node.is_switch() {
            PortNum::MANAGEMENT
        } else {
            name.port
        };
        let port = node.port(name.port).and_then(|_| node.port(at));
        port.map(|port| port.guid).ok_or_else(|| Unresolved::NoPort {
            line: name.line,
            group: group.name.clone(),
            node: printable(&node.description).into_owned(),
            port: name.port.get(),
            ports: node.port_count(),
        })
    }

    /// Returns the partitions with a P_Key of these ranges.
    fn with_keys(&self, line: usize, pkeys: &Ranges, missing: &mut Vec<Unresolved>) -> Vec<&Partition> {
        let mut found = Vec::new();
        for (first, last) in pkeys.iter() {
            // P_Keys of a policy have 15 bits.
            let (first, last) = (first as u16 & 0x7FFF, last as u16 & 0x7FFF);
            let before = found.len();
            found.extend(
                self.partitions
                    .partitions
                    .range(first..=last)
                    .map(|(_, partition)| partition),
            );
            if found.len() == before {
                missing.push(Unresolved::NoPKey { line, first, last });
            }
        }
        found
    }

    /// Returns the members of a partition, and whether each is a full one.
    fn of_partition<'a>(&'a self, partition: &'a Partition) -> impl Iterator<Item = (Guid, bool)> + 'a {
        self.fabric.end_ports().filter_map(move |(at, port)| {
            let kind = self.fabric.node(at.node).kind;
            let mut rules = partition.rules.iter().rev();
            let rule = rules.find(|rule| rule.applies_to(kind, port.guid, Some(at) == self.manager))?;
            Some((port.guid, rule.is_full))
        })
    }

    /// Checks the partitions of a rule.
    fn check(&self, rule: &MatchRule, missing: &mut Vec<Unresolved>) {
        for partition in self.with_keys(rule.line, &rule.pkeys, missing) {
            let members = self.of_partition(partition).filter(|(_, is_full)| *is_full).count();
            if rule.is_ipoib && members < 2 {
                missing.push(Unresolved::TooFewMembers {
                    line: rule.line,
                    pkey: partition.key,
                    members,
                });
            }
        }
    }
}
