//! Operators' names for nodes: the node-name-map of infiniband-diags.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use selvedge_fabric::Node;
use selvedge_types::Guid;

use crate::{FileError, Place};

/// Names by node GUID, shown instead of node descriptions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeNames {
    names: BTreeMap<Guid, String>,
}

impl NodeNames {
    /// Parses `0xguid "name"` lines; `#` starts a comment. The first name of a GUID is used. Source: infiniband-diags,
    /// `node_name_map.c`.
    pub fn parse(file: &str, bytes: &[u8]) -> Result<Self, FileError> {
        let mut names = BTreeMap::new();
        for (at, line) in String::from_utf8_lossy(bytes).lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (guid, rest) = line.split_once([' ', '\t', '#']).unwrap_or((line, ""));
            let Ok(guid) = guid.parse::<Guid>() else {
                return Err(FileError::Syntax {
                    place: Place {
                        file: file.to_owned(),
                        line: at + 1,
                    },
                    what: format!("cannot read '{}'", crate::text::shorten(line)),
                    want: "a node GUID and a name, as in: 0x0002c90000000001 \"leaf 1\"",
                });
            };
            let name = rest.split(['"', '#']).map(str::trim).find(|part| !part.is_empty());
            if let Some(name) = name {
                names.entry(guid).or_insert_with(|| name.to_owned());
            }
        }
        Ok(Self { names })
    }

    /// Returns the operator's name of a node, or its description.
    #[must_use]
    pub fn label<'a>(&'a self, node: &'a Node) -> &'a str {
        self.names.get(&node.guid).map_or(&node.description, |name| name)
    }

    /// Returns the operator's name for a GUID.
    #[must_use]
    pub fn get(&self, guid: Guid) -> Option<&str> {
        self.names.get(&guid).map(String::as_str)
    }

    /// Returns all names, by GUID.
    pub fn iter(&self) -> impl Iterator<Item = (Guid, &str)> {
        self.names.iter().map(|(&guid, name)| (guid, name.as_str()))
    }

    /// Returns the text that [`Self::parse`] reads.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        for (guid, name) in &self.names {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{guid} \"{name}\"");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_guids() {
        let text = b"# map\n0x10 \"leaf 1\" # first\n  0x11\tplain name\n0x10 \"second\"\n0x12\n\n";
        let names = NodeNames::parse("map", text).unwrap();
        assert_eq!(names.get(Guid(0x10)), Some("leaf 1"));
        assert_eq!(names.get(Guid(0x11)), Some("plain name"));
        assert_eq!(names.get(Guid(0x12)), None);
        assert_eq!(NodeNames::parse("again", names.to_text().as_bytes()), Ok(names));
        let error = NodeNames::parse("map", b"\nleaf \"x\"\n").unwrap_err().to_string();
        assert!(error.contains("map:2"), "{error}");
    }
}
