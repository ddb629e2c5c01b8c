//! Finds the missing nodes, links and standby managers that an operator names.

use std::collections::BTreeSet;

use selvedge_api::{Error, ErrorKind};
use selvedge_fabric::Fabric;
use selvedge_health::{End, Facts, LinkKey, PeerTrouble};
use selvedge_types::{Guid, printable};

use crate::names::Names;
use crate::wanted::Wanted;

/// The nodes and links to forget.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ToForget {
    /// Nodes by GUID: missing nodes, and nodes of missing managers.
    pub(crate) nodes: BTreeSet<Guid>,
    /// Links, each by both ends.
    pub(crate) links: BTreeSet<LinkKey>,
    /// Names of all these nodes and links.
    pub(crate) words: Vec<String>,
}

/// Finds the nodes, links and standby managers that are gone and have this name. A node or link that is present is
/// never removed.
///
/// # Errors
///
/// The name belongs to a node or link that is present, or to no missing one.
pub(crate) fn find(text: &str, facts: &Facts, fabric: Option<&Fabric>, names: &Names) -> Result<ToForget, Error> {
    let absent = &facts.absent;
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
    let peers = facts.peers.iter();
    let gone = peers.filter(|peer| matches!(peer.trouble, PeerTrouble::Gone { .. }));
    for peer in gone.filter(|peer| wanted.port.is_none_or(|port| port == peer.at.port.get())) {
        if wanted.is(peer.at.node, &peer.at.name, names) {
            found.nodes.insert(peer.at.node);
            found.words.push(format!("manager at {}", peer.at));
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
