//! Channel adapters, grouped by host.

use std::collections::BTreeMap;

use selvedge_fabric::PortRef;
use selvedge_types::{Guid, NodeKind};

use crate::ApmError;
use crate::index::Index;
use crate::routes::Subnet;

/// A host with at least one connected port that has LIDs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// Name of the host, unique among the hosts.
    pub name: String,
    /// Connected ports with LIDs, one list per channel adapter, in order of node and number. No list is empty.
    pub hcas: Vec<Vec<PortRef>>,
}

/// The hosts of a subnet, by their first node.
///
/// Channel adapters belong to one host if their NodeDescriptions have two words, the same first one, and different
/// second ones that end with a digit, as `node7 mlx5_0` and `node7 mlx5_1` (the default of rdma-ndd), or `H-7 HCA-1`.
/// Every other adapter is a host of its own: a description such as `MT4123 ConnectX6` names no host. Aggregation nodes
/// are left out.
#[derive(Clone, Debug, Default)]
pub struct Hosts {
    hosts: Vec<Host>,
    /// Index of a host, by each of its names.
    names: BTreeMap<String, usize>,
    /// Index of a host, by the GUIDs of its adapters and ports.
    guids: BTreeMap<Guid, usize>,
}

impl Hosts {
    /// Groups the channel adapters of a subnet.
    #[must_use]
    pub fn of(subnet: Subnet<'_>, index: &Index) -> Self {
        let mut found = Self::default();
        let described = descriptions(subnet);
        for (node, hca) in subnet.fabric.nodes().iter_enumerated() {
            let ports = index.connected_ports(node);
            if hca.kind != NodeKind::Ca || hca.is_aggregation_node() || ports.is_empty() {
                continue;
            }
            let is_unique = described.get(&hca.description) == Some(&1);
            let grouped = host_of(&hca.description).filter(|_| is_unique);
            let name = match grouped {
                Some(host) => host.to_owned(),
                None if is_unique && !hca.description.is_empty() => hca.description.clone(),
                None => hca.guid.to_string(),
            };
            let host = *found.names.entry(name.clone()).or_insert(found.hosts.len());
            if host == found.hosts.len() {
                let hcas = Vec::new();
                found.hosts.push(Host { name, hcas });
            }
            if is_unique {
                found.names.entry(hca.description.clone()).or_insert(host);
            }
            found.guids.insert(hca.guid, host);
            for port in ports.iter().filter_map(|&at| subnet.fabric.port(at)) {
                found.guids.insert(port.guid, host);
            }
            found.hosts[host].hcas.push(ports);
        }
        found
    }

    /// Returns all hosts.
    #[must_use]
    pub fn all(&self) -> &[Host] {
        &self.hosts
    }

    /// Returns the index of the host with this name, with a channel adapter of this NodeDescription, or with this node
    /// or port GUID (`0x…`).
    ///
    /// # Errors
    ///
    /// [`ApmError::UnknownHost`], with the most similar name.
    pub fn find(&self, name: &str) -> Result<usize, ApmError> {
        let guid = || self.guids.get(&name.parse::<Guid>().ok()?);
        self.names.get(name).or_else(guid).copied().ok_or_else(|| {
            let wanted = name.to_lowercase();
            let distance = |known: &String| strsim::damerau_levenshtein(&wanted, &known.to_lowercase());
            let near = self.names.keys().map(|known| (distance(known), known)).min();
            let near = near.filter(|(distance, known)| *distance <= 1 + known.len() / 4);
            ApmError::UnknownHost {
                name: name.to_owned(),
                meant: near.map_or_else(String::new, |(_, known)| format!("; did you mean '{known}'?")),
            }
        })
    }
}

/// Counts the channel adapters with each description.
fn descriptions(subnet: Subnet<'_>) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for node in subnet.fabric.nodes().iter().filter(|node| node.kind == NodeKind::Ca) {
        *counts.entry(node.description.clone()).or_insert(0) += 1;
    }
    counts
}

/// Returns the host that a NodeDescription names before the device, if it has that form.
fn host_of(description: &str) -> Option<&str> {
    let mut words = description.split_whitespace();
    let (host, device) = (words.next()?, words.next()?);
    let is_device =
        device.starts_with(|c: char| c.is_ascii_alphabetic()) && device.ends_with(|c: char| c.is_ascii_digit());
    (words.next().is_none() && is_device).then_some(host)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Lab;

    #[test]
    fn descriptions_name_hosts() {
        let check = |text: &str, want: Option<&str>| assert_eq!(host_of(text), want, "{text}");
        check("node7 mlx5_0", Some("node7"));
        check("H-7 HCA-1", Some("H-7"));
        check("H-7", None);
        check("MT4123 ConnectX6 Mellanox Technologies", None);
        check("", None);
        check("login node", None);
    }

    #[test]
    fn a_host_is_found_by_every_name() {
        let lab = Lab::new("single:ports=8,hosts=4,hcas=2", 0);
        let hosts = lab.hosts();
        assert_eq!(hosts.all().len(), 4);
        assert!(hosts.all().iter().all(|host| host.hcas.len() == 2), "{hosts:?}");
        let at = hosts.all()[2].hcas[1][0];
        let (hca, port) = (lab.fabric.node(at.node).guid, lab.fabric.port(at).unwrap().guid);
        for name in ["H-2", "H-2 HCA-2", &hca.to_string(), &port.to_string()] {
            assert_eq!(hosts.find(name), Ok(2), "{name}");
        }
        let error = hosts.find("h-22").unwrap_err().to_string();
        assert!(
            error.starts_with("SLV-APM-0002") && error.contains("did you mean 'H-2'?"),
            "{error}"
        );
        let error = hosts.find("spine-switch").unwrap_err().to_string();
        assert!(!error.contains("did you mean"), "{error}");
    }
}
