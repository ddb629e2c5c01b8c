//! The assignment file of Sandia's LDMS sampler (OpenFabrics Alliance Workshop 2017): how many samplers there are, and
//! which ports some of them read.
//!
//! ```text
//! samplers 16
//! 14 14:3 21:25 21:26 21:27 21:28 14:25
//! ```
//! Sampler 14 reads port 3 of LID 14 and so on, because its host is attached there. All other ports are divided among
//! the samplers without a line, or among all if each has one. LIDs become GUIDs when the file is read, because LIDs
//! move.

use std::collections::BTreeMap;

use selvedge_types::{Guid, Lid};

use crate::inventory::{End, Inventory};
use crate::{Group, PortSet, WorkItem};

/// An assignment file that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DelegationError {
    /// SLV-TELEMETRY-0111: the first line of an assignment file does not state the number of samplers.
    #[error("SLV-TELEMETRY-0111: line {line}: want `samplers N` with N from 1 to 65535, found {found:?}")]
    Count {
        /// Number of the line, from 1.
        line: usize,
        /// The text that was found.
        found: String,
    },
    /// SLV-TELEMETRY-0112: a word of an assignment file is neither a sampler nor `LID:PORT`.
    #[error("SLV-TELEMETRY-0112: line {line}: want a sampler's number and LID:PORT after it, found {found:?}")]
    Word {
        /// Number of the line, from 1.
        line: usize,
        /// The word.
        found: String,
    },
    /// SLV-TELEMETRY-0113: an assignment file names a sampler that does not exist, or names one twice.
    #[error("SLV-TELEMETRY-0113: line {line}: sampler {sampler} is not below {count}, or has a line already")]
    Sampler {
        /// Number of the line, from 1.
        line: usize,
        /// The sampler.
        sampler: u32,
        /// Number of samplers.
        count: u32,
    },
    /// SLV-TELEMETRY-0114: an assignment file names a port that the fabric does not have.
    #[error("SLV-TELEMETRY-0114: sampler {sampler}: no node has LID {lid} and port {port}; LIDs may have moved")]
    NoPort {
        /// The sampler.
        sampler: u32,
        /// The LID.
        lid: Lid,
        /// The port.
        port: u8,
    },
    /// SLV-TELEMETRY-0115: an assignment file gives a port to two samplers.
    #[error("SLV-TELEMETRY-0115: port {port} of LID {lid} is sampler {first}'s and sampler {second}'s; remove one")]
    Shared {
        /// The LID.
        lid: Lid,
        /// The port.
        port: u8,
        /// A sampler.
        first: u32,
        /// The other sampler.
        second: u32,
    },
}

/// An assignment file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delegation {
    /// Number of samplers; their numbers begin at 0.
    pub samplers: u32,
    /// Ports by sampler, as the file names them.
    pub listed: BTreeMap<u32, Vec<(Lid, u8)>>,
}

impl Delegation {
    /// Reads an assignment file. Text after `#` and empty lines are ignored.
    pub fn parse(text: &str) -> Result<Self, DelegationError> {
        let lines = text.lines().enumerate();
        let lines = lines.map(|(at, line)| (at + 1, line.split('#').next().unwrap_or_default().trim()));
        let mut lines = lines.filter(|(_, line)| !line.is_empty());
        let (line, first) = lines.next().unwrap_or((1, ""));
        let count = first
            .strip_prefix("samplers")
            .and_then(|count| count.trim().parse().ok());
        let Some(samplers) = count.filter(|count| (1..=65_535).contains(count)) else {
            let found = first.to_owned();
            return Err(DelegationError::Count { line, found });
        };
        let mut listed = BTreeMap::new();
        for (line, text) in lines {
            let (sampler, ports) = entry(line, text)?;
            if sampler >= samplers || listed.insert(sampler, ports).is_some() {
                let count = samplers;
                return Err(DelegationError::Sampler { line, sampler, count });
            }
        }
        Ok(Self { samplers, listed })
    }

    /// Returns the work of each sampler, for these groups. Every port of the inventory is in exactly one item of each
    /// group.
    pub fn work(
        &self,
        inventory: &Inventory,
        groups: &[Group],
    ) -> Result<BTreeMap<u32, Vec<WorkItem>>, DelegationError> {
        let mut owners: BTreeMap<End, u32> = BTreeMap::new();
        for (&sampler, ports) in &self.listed {
            for &(lid, port) in ports {
                let Some(end) = inventory.end_at(lid, port) else {
                    return Err(DelegationError::NoPort { sampler, lid, port });
                };
                if let Some(first) = owners.insert(end, sampler).filter(|first| *first != sampler) {
                    let second = sampler;
                    return Err(DelegationError::Shared {
                        lid,
                        port,
                        first,
                        second,
                    });
                }
            }
        }
        let free: Vec<u32> = (0..self.samplers)
            .filter(|sampler| !self.listed.contains_key(sampler))
            .collect();
        let mut sets: BTreeMap<(u32, Guid), PortSet> = BTreeMap::new();
        for (at, (&node, entry)) in inventory.nodes.iter().enumerate() {
            // Whole nodes are divided: one sampler asks an agent, as long as the file does not divide a node.
            let rest = match free.get(at % free.len().max(1)) {
                Some(sampler) => *sampler,
                None => at as u32 % self.samplers,
            };
            for port in &entry.ports {
                let end = End { node, port: port.num };
                let sampler = owners.get(&end).copied().unwrap_or(rest);
                sets.entry((sampler, node)).or_default().insert(port.num);
            }
        }
        let mut work: BTreeMap<u32, Vec<WorkItem>> = BTreeMap::new();
        for ((sampler, node), ports) in sets {
            let items = groups.iter().map(|&group| WorkItem { node, ports, group });
            work.entry(sampler).or_default().extend(items);
        }
        Ok(work)
    }
}

/// Reads the line of a sampler.
fn entry(line: usize, text: &str) -> Result<(u32, Vec<(Lid, u8)>), DelegationError> {
    let wrong = |word: &str| DelegationError::Word {
        line,
        found: word.to_owned(),
    };
    let mut words = text.split_whitespace();
    let sampler = words.next().unwrap_or_default();
    let sampler = sampler.parse().map_err(|_| wrong(sampler))?;
    let mut ports = Vec::new();
    for word in words {
        let place = word
            .split_once(':')
            .and_then(|(lid, port)| Some((lid.parse().ok()?, port.parse().ok()?)));
        let (lid, port) = place.ok_or_else(|| wrong(word))?;
        ports.push((Lid(lid), port));
    }
    Ok((sampler, ports))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{NodeEntry, PortEntry};
    use selvedge_types::{NodeKind, PortState};

    /// Switches with LIDs 14, 21, 30 and ports 1–4.
    fn inventory() -> Inventory {
        let port = |num, lid| PortEntry {
            num,
            lid: Lid(lid),
            state: PortState::Active,
            peer: None,
            rate: None,
        };
        let node = |lid| NodeEntry {
            kind: NodeKind::Switch,
            description: String::new(),
            ports: (1..=4).map(|num| port(num, lid)).collect(),
        };
        Inventory {
            nodes: [14, 21, 30].map(|lid| (Guid(lid.into()), node(lid))).into(),
        }
    }

    fn work(text: &str) -> Result<String, DelegationError> {
        let work = Delegation::parse(text)?.work(&inventory(), &[Group::Extended])?;
        let items = work
            .iter()
            .flat_map(|(sampler, items)| items.iter().map(move |item| (sampler, item)));
        let lines = items.map(|(sampler, item)| format!("{sampler}: {}:{}", item.node.0, item.ports));
        Ok(lines.collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn ports_are_divided() {
        let check = |text: &str, want: &str| assert_eq!(work(text).as_deref(), Ok(want), "{text}");
        check("samplers 1", "0: 14:1-4 0: 21:1-4 0: 30:1-4");
        check("samplers 2", "0: 14:1-4 0: 30:1-4 1: 21:1-4");
        check(
            "# the seed's form\nsamplers 3\n\n2 14:3 21:1 21:2 14:4 # attached there\n",
            "0: 14:1-2 0: 30:1-4 1: 21:3-4 2: 14:3-4 2: 21:1-2",
        );
        // Each sampler has a line, so all divide the rest.
        check(
            "samplers 2\n0 21:1\n1 14:2",
            "0: 14:1,3-4 0: 21:1 0: 30:1-4 1: 14:2 1: 21:2-4",
        );
    }

    #[test]
    fn wrong_files() {
        let check = |text: &str, want: &str| {
            let error = work(text).expect_err(text);
            assert_eq!(error.to_string(), want);
        };
        let count = "want `samplers N` with N from 1 to 65535, found";
        check("", &format!("SLV-TELEMETRY-0111: line 1: {count} \"\""));
        check(
            "\nsampler 4",
            &format!("SLV-TELEMETRY-0111: line 2: {count} \"sampler 4\""),
        );
        check(
            "samplers 0",
            &format!("SLV-TELEMETRY-0111: line 1: {count} \"samplers 0\""),
        );
        let word = "want a sampler's number and LID:PORT after it, found";
        check(
            "samplers 2\n1 14:3 21-4",
            &format!("SLV-TELEMETRY-0112: line 2: {word} \"21-4\""),
        );
        check(
            "samplers 2\nx 14:3",
            &format!("SLV-TELEMETRY-0112: line 2: {word} \"x\""),
        );
        check(
            "samplers 2\n1 14:300",
            &format!("SLV-TELEMETRY-0112: line 2: {word} \"14:300\""),
        );
        check(
            "samplers 2\n2 14:3",
            "SLV-TELEMETRY-0113: line 2: sampler 2 is not below 2, or has a line already",
        );
        check(
            "samplers 2\n1 14:9",
            "SLV-TELEMETRY-0114: sampler 1: no node has LID 14 and port 9; LIDs may have moved",
        );
        check(
            "samplers 2\n0 14:1\n1 14:1",
            "SLV-TELEMETRY-0115: port 1 of LID 14 is sampler 0's and sampler 1's; remove one",
        );
    }
}
