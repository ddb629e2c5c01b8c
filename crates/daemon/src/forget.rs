//! Finds, among the nodes and links that are gone, those that an operator names.

use std::collections::BTreeSet;

use selvedge_api::{Error, ErrorKind};
use selvedge_fabric::Fabric;
use selvedge_health::{Absent, End, LinkKey};
use selvedge_types::{Guid, printable};

use crate::names::Names;
use crate::wanted::Wanted;

/// The nodes and links to forget.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ToForget {
    /// Nodes by GUID.
    pub(crate) nodes: BTreeSet<Guid>,
    /// Links by both ends.
    pub(crate) links: BTreeSet<LinkKey>,
    /// Both in words.
    pub(crate) words: Vec<String>,
}

/// Finds the nodes and links that are gone and have this name. Nodes and links that are there are never forgotten.
///
/// # Errors
///
/// The name belongs to a node or link that is there, or to none that is known to be gone.
pub(crate) fn find(text: &str, absent: &Absent, fabric: Option<&Fabric>, names: &Names) -> Result<ToForget, Error> {
    let wanted = Wanted::of(text);
    let mut found = ToForget::default();
    if wanted.port.is_none() {
        for absent in &absent.nodes {
            if wanted.is(absent.node.guid, &absent.node.name, names) {
                found.nodes.insert(absent.node.guid);
                found.words.push(absent.node.to_string());
            }
        }
    }
    let is_end = |end: &End| wanted.port == Some(end.port.get()) && wanted.is(end.node, &end.name, names);
    for absent in absent
        .links
        .iter()
        .filter(|link| is_end(&link.ends.0) || is_end(&link.ends.1))
    {
        found.links.insert(absent.key());
        found.words.push(format!("link {} - {}", absent.ends.0, absent.ends.1));
    }
    if !found.words.is_empty() {
        return Ok(found);
    }
    let text = printable(text.trim());
    let is_there = fabric.is_some_and(|fabric| {
        let mut nodes = fabric.nodes().iter();
        nodes.any(|node| wanted.is(node.guid, &node.description, names))
    });
    Err(match (is_there, wanted.port) {
        (true, None) => ErrorKind::NotMissing.error(format!("{text} is there, so nothing was forgotten")),
        (true, Some(_)) => {
            ErrorKind::NotMissing.error(format!("no missing link has the end {text}, so nothing was forgotten"))
        }
        (false, _) => ErrorKind::NotMissing.error(format!("nothing that is missing is called {text}")),
    })
}
