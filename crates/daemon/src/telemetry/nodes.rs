//! Which nodes are read: those that the operator includes and does not exclude.

use std::collections::BTreeSet;
use std::fmt;

use selvedge_api::Severity;
use selvedge_config::TelemetryChoices;
use selvedge_telemetry::Inventory;
use selvedge_types::Guid;

use crate::shared::Shared;

/// What an operator should know about the lists.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Event {
    /// SLV-TELEMETRY-0233: a list of nodes that are read, or not read, names a node that does not exist.
    Nobody {
        /// The key.
        key: &'static str,
        /// The name in the list.
        name: String,
    },
}

impl Event {
    const fn code(&self) -> &'static str {
        match self {
            Self::Nobody { .. } => "SLV-TELEMETRY-0233",
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nobody { key, name } => write!(
                f,
                "telemetry.{key} has \"{name}\", and no node has this name or GUID; 'selvedge status nodes' lists them"
            ),
        }
    }
}

/// The lists of the operator.
#[derive(Debug, Default)]
pub(crate) struct Nodes {
    include: Vec<String>,
    exclude: Vec<String>,
}

impl Nodes {
    pub(super) fn of(choices: &TelemetryChoices) -> Self {
        Self {
            include: choices.include.clone(),
            exclude: choices.exclude.clone(),
        }
    }

    /// True if a node is read.
    fn has(&self, guid: Guid, name: &str) -> bool {
        let is_in = |list: &[String]| list.iter().any(|pattern| is_meant(pattern, guid, name));
        (self.include.is_empty() || is_in(&self.include)) && !is_in(&self.exclude)
    }

    /// Takes the nodes out that are not read. Names that no node has are reported once: `told` keeps them.
    pub(super) fn apply(&self, shared: &Shared, inventory: &mut Inventory, told: &mut BTreeSet<String>) {
        for (key, list) in [("include", &self.include), ("exclude", &self.exclude)] {
            for name in list {
                let mut nodes = inventory.nodes.iter();
                let exists = nodes.any(|(guid, node)| is_meant(name, *guid, &node.description));
                if exists {
                    told.remove(name);
                } else if told.insert(name.clone()) {
                    let event = Event::Nobody {
                        key,
                        name: name.clone(),
                    };
                    shared.event(shared.clock.now(), Severity::Warning, event.code(), &event.to_string());
                }
            }
        }
        inventory.nodes.retain(|guid, node| self.has(*guid, &node.description));
    }
}

/// True if a name of a list is that of a node, or its GUID. `*` stands for any text, also for none.
fn is_meant(pattern: &str, guid: Guid, name: &str) -> bool {
    pattern.parse() == Ok(guid) || is_match(pattern, name)
}

fn is_match(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else {
        return false;
    };
    let Some(last) = parts.next_back() else {
        return rest.is_empty();
    };
    for part in parts {
        match rest.split_once(part) {
            Some((_, after)) => rest = after,
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_wildcards() {
        let check =
            |pattern: &str, name: &str, want: bool| assert_eq!(is_match(pattern, name), want, "{pattern} {name}");
        check("leaf 1", "leaf 1", true);
        check("leaf 1", "leaf 12", false);
        check("leaf*", "leaf", true);
        check("*1", "leaf 1", true);
        check("*", "", true);
        check("l*f*2", "leaf 12", true);
        check("l*f*f*", "leaf 12", false);
        check("ab*ba", "aba", false);
        check("a*b", "leaf", false);
    }

    #[test]
    fn excluded_nodes_are_not_read_even_if_they_are_included() {
        let nodes = |include: &[&str], exclude: &[&str]| Nodes {
            include: include.iter().map(|name| (*name).to_owned()).collect(),
            exclude: exclude.iter().map(|name| (*name).to_owned()).collect(),
        };
        let check =
            |nodes: &Nodes, name: &str, want: bool| assert_eq!(nodes.has(Guid(0x10), name), want, "{nodes:?} {name}");
        check(&nodes(&[], &[]), "leaf 1", true);
        check(&nodes(&["leaf*"], &[]), "spine 1", false);
        check(&nodes(&["leaf*"], &["leaf 1"]), "leaf 1", false);
        check(&nodes(&["leaf*"], &["leaf 1"]), "leaf 2", true);
        check(&nodes(&[], &["0x10"]), "leaf 2", false);
        check(&nodes(&["0x0000000000000010"], &[]), "leaf 2", true);
    }
}
