//! The operator's names for nodes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use selvedge_fabric::{Fabric, FabricBuilder};
use selvedge_types::Guid;

/// Operator's names by node GUID, applied to snapshots and texts.
#[derive(Debug, Default)]
pub struct Names {
    cache: Mutex<Cache>,
}

#[derive(Debug, Default)]
struct Cache {
    by_guid: BTreeMap<Guid, String>,
    original: Option<Arc<Fabric>>,
    renamed: Option<Arc<Fabric>>,
    /// The name for each description that only one node has.
    by_description: BTreeMap<String, String>,
}

impl Names {
    /// Returns the names of a node-name map.
    #[must_use]
    pub fn new(by_guid: BTreeMap<Guid, String>) -> Self {
        let names = Self::default();
        names.replace(by_guid);
        names
    }

    /// Replaces all names.
    pub fn replace(&self, by_guid: BTreeMap<Guid, String>) {
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        *cache = Cache {
            by_guid,
            ..Cache::default()
        };
    }

    /// Returns the same snapshot with the operator's names as descriptions.
    #[must_use]
    pub fn apply(&self, fabric: &Arc<Fabric>) -> Arc<Fabric> {
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        if cache.by_guid.is_empty() {
            return Arc::clone(fabric);
        }
        match (&cache.original, &cache.renamed) {
            (Some(original), Some(renamed)) if Arc::ptr_eq(original, fabric) => Arc::clone(renamed),
            _ => {
                let renamed = Arc::new(rename(fabric, &cache.by_guid));
                cache.by_description = by_description(fabric, &cache.by_guid);
                cache.original = Some(Arc::clone(fabric));
                cache.renamed = Some(Arc::clone(&renamed));
                renamed
            }
        }
    }

    /// Returns the operator's name for a node, if there is one.
    #[must_use]
    pub fn of(&self, guid: Guid) -> Option<String> {
        let cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        cache.by_guid.get(&guid).cloned()
    }

    /// Returns a text of the manager with the operator's names instead of quoted descriptions.
    ///
    /// Descriptions that several nodes share stay as they are, because they do not identify the node.
    #[must_use]
    pub fn apply_text(&self, text: &str) -> String {
        let cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        if cache.by_guid.is_empty() {
            return text.to_owned();
        }
        let parts = text
            .split('"')
            .enumerate()
            .map(|(i, part)| match cache.by_description.get(part) {
                Some(name) if i % 2 == 1 => name.as_str(),
                _ => part,
            });
        parts.collect::<Vec<_>>().join("\"")
    }
}

/// Returns `fabric` with other descriptions.
#[must_use]
pub fn rename(fabric: &Fabric, names: &BTreeMap<Guid, String>) -> Fabric {
    let mut builder = FabricBuilder::new();
    let keys: Vec<_> = fabric
        .nodes()
        .iter()
        .map(|node| {
            let mut node = node.clone();
            if let Some(name) = names.get(&node.guid) {
                node.description.clone_from(name);
            }
            builder.add(node)
        })
        .collect();
    let mut sound = true;
    for link in fabric.links() {
        let end = |at: selvedge_fabric::PortRef| (keys[at.node.0 as usize], at.port);
        sound &= builder.link(end(link.a), end(link.b)).is_ok();
    }
    // A snapshot is free of contradictions, and other descriptions add none.
    match builder.finish() {
        Ok(renamed) if sound => renamed,
        _ => fabric.clone(),
    }
}

fn by_description(fabric: &Fabric, names: &BTreeMap<Guid, String>) -> BTreeMap<String, String> {
    let mut seen: BTreeMap<&str, Option<&String>> = BTreeMap::new();
    for node in fabric.nodes().iter() {
        let name = names.get(&node.guid);
        seen.entry(&node.description)
            .and_modify(|twice| *twice = None)
            .or_insert(name);
    }
    let unique = seen
        .into_iter()
        .filter_map(|(description, name)| Some((description.to_owned(), name?.clone())));
    unique.collect()
}

#[cfg(test)]
mod tests {
    use selvedge_fabric::Node;
    use selvedge_types::{NodeKind, PortNum};

    use super::*;

    #[test]
    fn names_replace_descriptions() {
        let port = |n| PortNum::new(n).unwrap();
        let mut builder = FabricBuilder::new();
        let keys: Vec<_> = [(1, "MT47396"), (2, "MT47396"), (3, "host a")]
            .map(|(guid, name)| builder.add(Node::new(NodeKind::Switch, Guid(guid), 2, name)))
            .into();
        builder.link((keys[0], port(1)), (keys[2], port(1))).unwrap();
        let fabric = Arc::new(builder.finish().unwrap());
        let map = [(1, "spine 1"), (3, "rack 7")];
        let names = Names::new(map.map(|(guid, name)| (Guid(guid), name.to_owned())).into());
        let renamed = names.apply(&fabric);
        let found: Vec<&str> = renamed.nodes().iter().map(|n| n.description.as_str()).collect();
        assert_eq!(found, ["spine 1", "MT47396", "rack 7"]);
        assert_eq!(renamed.links().count(), 1);
        assert!(
            Arc::ptr_eq(&renamed, &names.apply(&fabric)),
            "the same snapshot is renamed once"
        );
        // The text does not identify one of the two switches; the host is unique.
        assert_eq!(
            names.apply_text("+ link \"MT47396\"[1] - \"host a\"[1]"),
            "+ link \"MT47396\"[1] - \"rack 7\"[1]"
        );
        // New names apply to an existing snapshot, too.
        names.replace([(Guid(3), "rack 8".to_owned())].into());
        let renamed = names.apply(&fabric);
        let found: Vec<&str> = renamed.nodes().iter().map(|n| n.description.as_str()).collect();
        assert_eq!(found, ["MT47396", "MT47396", "rack 8"]);
        names.replace(BTreeMap::new());
        assert!(Arc::ptr_eq(&fabric, &names.apply(&fabric)));
    }

    #[test]
    fn no_map_changes_nothing() {
        let fabric = Arc::new(Fabric::default());
        let names = Names::default();
        assert!(Arc::ptr_eq(&names.apply(&fabric), &fabric));
        assert_eq!(names.apply_text("\"a\""), "\"a\"");
    }
}
