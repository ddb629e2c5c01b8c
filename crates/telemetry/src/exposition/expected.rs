//! The file of expected types: brand and type of nodes and ports, as Sandia's LDMS sampler gets them.
//!
//! ```text
//! switches = Quantum
//! hosts = ConnectX-6
//! 0x0002c90300000010 = 0x0002c9:0xd2f2   # a node: by its GUID or name
//! leaf 1[3] = Quantum-2                  # a port of it
//! ```
//! A line about a port overrides one about its node, which overrides one about its kind.

use std::collections::BTreeMap;

use selvedge_types::{Guid, NodeKind};

use super::brand::{self, Brand, BrandError, Expected};
use crate::{End, Inventory};

/// A file of expected types that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ExpectedError {
    /// SLV-TELEMETRY-0215: a line of the file of expected types has another form.
    #[error(
        "SLV-TELEMETRY-0215: line {line}: want 'switches', 'hosts', a node or a port as 'leaf 1[3]', then '=' and a \
         type; found {found:?}"
    )]
    Line {
        /// Number of the line, from 1.
        line: usize,
        /// The text that was found.
        found: String,
    },
    /// SLV-TELEMETRY-0216: a type is not known by name.
    #[error(
        "SLV-TELEMETRY-0216: line {line}: there is no type {found:?}; did you mean {closest}? others are written as \
         vendor and device: 0x0002c9:0x101b"
    )]
    Type {
        /// Number of the line, from 1.
        line: usize,
        /// The name that was found.
        found: String,
        /// The type with the most similar name.
        closest: &'static str,
    },
    /// SLV-TELEMETRY-0217: two lines are about the same nodes or port.
    #[error("SLV-TELEMETRY-0217: line {line}: {what} has a type already, in line {first}; remove one line")]
    Twice {
        /// Number of the line, from 1.
        line: usize,
        /// The nodes or port.
        what: String,
        /// The line before.
        first: usize,
    },
}

/// What a line is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Subject {
    Kind(NodeKind),
    Node(String, Option<u8>),
}

/// The file of expected types.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExpectedTypes(BTreeMap<Subject, (usize, Brand)>);

impl ExpectedTypes {
    /// Reads a file. Text after `#` and empty lines are ignored.
    pub fn parse(text: &str) -> Result<Self, ExpectedError> {
        let mut types = Self::default();
        for (at, line) in text.lines().enumerate() {
            let found = line.split('#').next().unwrap_or_default().trim();
            if found.is_empty() {
                continue;
            }
            let line = at + 1;
            let malformed = || ExpectedError::Line {
                line,
                found: found.to_owned(),
            };
            let (what, of) = found.rsplit_once('=').ok_or_else(malformed)?;
            let (what, of) = (what.trim(), of.trim());
            let subject = subject(what).ok_or_else(malformed)?;
            let brand = Brand::parse(of).map_err(|closest| ExpectedError::Type {
                line,
                found: of.to_owned(),
                closest,
            })?;
            if let Some((first, _)) = types.0.insert(subject, (line, brand)) {
                let what = what.to_owned();
                return Err(ExpectedError::Twice { line, what, first });
            }
        }
        Ok(types)
    }

    /// Returns what is not as expected. A node is named once, by its first port, unless a line is about another port.
    #[must_use]
    pub fn differences(&self, inventory: &Inventory, brands: &BTreeMap<Guid, Brand>) -> Vec<BrandError> {
        let mut expected: BTreeMap<End, Expected> = BTreeMap::new();
        let mut absent = Vec::new();
        for (guid, node) in &inventory.nodes {
            let of_kind = self.0.get(&Subject::Kind(node.kind)).map(|(_, brand)| *brand);
            let first = node.ports.first().map(|port| port.num);
            let end = first.map(|port| End { node: *guid, port });
            expected.extend(end.zip(of_kind).map(|(end, brand)| (end, Expected { brand })));
        }
        // Nodes come before their ports in the order of subjects.
        for (subject, (_, brand)) in &self.0 {
            let Subject::Node(name, port) = subject else { continue };
            let guid: Option<Guid> = name.parse().ok();
            let mut nodes = inventory.nodes.iter();
            let found = nodes.find(|(of, node)| Some(**of) == guid || node.description == *name);
            let Some((node, entry)) = found else {
                absent.push(BrandError::NoNode {
                    name: name.clone(),
                    expected: *brand,
                });
                continue;
            };
            let first = entry.ports.first().map_or(1, |port| port.num);
            let end = End {
                node: *node,
                port: port.unwrap_or(first),
            };
            expected.insert(end, Expected { brand: *brand });
        }
        absent.extend(brand::check(inventory, brands, &expected));
        absent
    }
}

fn subject(text: &str) -> Option<Subject> {
    match text {
        "switches" => return Some(Subject::Kind(NodeKind::Switch)),
        "hosts" => return Some(Subject::Kind(NodeKind::Ca)),
        _ => {}
    }
    let (name, port) = match text.strip_suffix(']').and_then(|text| text.rsplit_once('[')) {
        Some((name, port)) => (name, Some(port.trim().parse().ok()?)),
        None => (text, None),
    };
    let name = name.trim().trim_matches('"');
    (!name.is_empty()).then(|| Subject::Node(name.to_owned(), port))
}

#[cfg(test)]
mod tests {
    use selvedge_types::{Lid, PortState};

    use super::*;
    use crate::{NodeEntry, PortEntry};

    const MELLANOX: u32 = 0x00_02C9;

    fn inventory() -> Inventory {
        let port = |num| PortEntry {
            num,
            lid: Lid(7),
            state: PortState::Active,
            peer: None,
            rate: None,
        };
        let node = |kind, description: &str| NodeEntry {
            kind,
            description: description.to_owned(),
            ports: vec![port(1), port(2)],
        };
        let nodes = [
            (Guid(0x10), node(NodeKind::Switch, "leaf 1")),
            (Guid(0x20), node(NodeKind::Ca, "host 1")),
            (Guid(0x21), node(NodeKind::Ca, "host 2")),
        ];
        Inventory { nodes: nodes.into() }
    }

    fn brands() -> BTreeMap<Guid, Brand> {
        let brand = |device| Brand {
            vendor: MELLANOX,
            device,
        };
        [
            (Guid(0x10), brand(0xD2F0)),
            (Guid(0x20), brand(0x101B)),
            (Guid(0x21), brand(0x1017)),
        ]
        .into()
    }

    #[test]
    fn what_is_not_as_expected_is_named() {
        let check = |text: &str, want: &[&str]| {
            let types = ExpectedTypes::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            let found: Vec<String> = types
                .differences(&inventory(), &brands())
                .iter()
                .map(ToString::to_string)
                .collect();
            assert_eq!(found.len(), want.len(), "{text}: {found:?}");
            for (found, want) in found.iter().zip(want) {
                assert!(found.contains(want), "{found}");
            }
        };
        check("# nothing", &[]);
        check(
            "switches = Quantum\nhosts = ConnectX-6",
            &["port 1 of node 0x0000000000000021 is of ConnectX-5 (0x0002c9:0x1017), and ConnectX-6"],
        );
        check("hosts = ConnectX-6\nhost 2 = 0x0002c9:0x1017", &[]);
        check(
            "host 2 = ConnectX-5\nhost 2[2] = ConnectX-6 # moved",
            &["port 2 of node 0x0000000000000021"],
        );
        check("\"leaf 1\"[3] = Quantum", &["SLV-TELEMETRY-0213"]);
        check("0x0000000000000010[2] = Quantum-2", &["SLV-TELEMETRY-0212: port 2"]);
        check("leaf 2 = Quantum", &["SLV-TELEMETRY-0218: there is no node \"leaf 2\""]);
    }

    #[test]
    fn a_node_without_a_known_type() {
        let types = ExpectedTypes::parse("hosts = ConnectX-6").unwrap();
        let found = types.differences(&inventory(), &BTreeMap::new());
        assert!(
            matches!(&found[..], [BrandError::Unknown { .. }, BrandError::Unknown { .. }]),
            "{found:?}"
        );
    }

    #[test]
    fn wrong_files() {
        let check = |text: &str, want: &str| {
            let error = ExpectedTypes::parse(text).unwrap_err().to_string();
            assert!(error.starts_with(want), "{error}");
        };
        check("hosts ConnectX-6", "SLV-TELEMETRY-0215: line 1");
        check("\n[3] = Quantum", "SLV-TELEMETRY-0215: line 2");
        check("leaf 1[x] = Quantum", "SLV-TELEMETRY-0215: line 1");
        check(
            "hosts = ConnectX6",
            "SLV-TELEMETRY-0216: line 1: there is no type \"ConnectX6\"; did you mean ConnectX-6?",
        );
        check("hosts = 0x2c9", "SLV-TELEMETRY-0216");
        check("hosts = 0x1000000:0x1", "SLV-TELEMETRY-0216");
        check(
            "hosts = ConnectX-6\nhosts = ConnectX-7",
            "SLV-TELEMETRY-0217: line 2: hosts has a type already, in line 1",
        );
    }
}
