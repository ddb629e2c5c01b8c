//! Finds the switches, links and ports that an operator names, among those that are present or missing.

use std::collections::BTreeSet;

use selvedge_api::{Error, ErrorKind};
use selvedge_config::closest;
use selvedge_fabric::{Fabric, NodeIdx, PortRef};
use selvedge_health::{Absent, End};
use selvedge_plan::OutOfService;
use selvedge_plan::out_of_service::{Place, PortId};
use selvedge_planner::out_of_service::{ends_of, find_port, port_id};
use selvedge_types::{Guid, NodeKind, PortNum, printable};

use crate::names::Names;
use crate::wanted::Wanted;

/// The data in which names are found.
pub(crate) struct PlaceNames<'a> {
    /// The fabric, with the operator's names.
    pub(crate) fabric: &'a Fabric,
    /// Nodes and links that are missing.
    pub(crate) absent: &'a Absent,
    /// The operator's names.
    pub(crate) names: &'a Names,
}

impl PlaceNames<'_> {
    /// Returns the places of this name: one, or each port of a host.
    ///
    /// # Errors
    ///
    /// The name belongs to nothing, to several nodes, or to a port without a link.
    pub(crate) fn find(&self, text: &str) -> Result<Vec<Place>, Error> {
        let wanted = Wanted::of(text);
        let shown = printable(text.trim());
        let nodes = self.nodes(&wanted);
        let missing = |why: String| ErrorKind::NoSuchPlace.error(why);
        match (nodes[..].split_first(), wanted.port) {
            (None, _) => match self.find_absent(&wanted) {
                Some(place) => Ok(vec![place]),
                None => Err(missing(self.unknown(&wanted, &shown))),
            },
            (Some((_, [_, ..])), _) => {
                let guids: Vec<String> = nodes
                    .iter()
                    .map(|&node| self.fabric.node(node).guid.to_string())
                    .collect();
                Err(missing(format!(
                    "{shown} is the name of several nodes: name one by GUID, {}",
                    guids.join(" or ")
                )))
            }
            (Some((&node, [])), None) if self.fabric.node(node).is_switch() => {
                Ok(vec![Place::Switch(self.fabric.node(node).guid)])
            }
            (Some((&node, [])), None) => {
                let ports = self
                    .fabric
                    .node(node)
                    .external_ports()
                    .filter(|(_, port)| port.peer.is_some());
                let ports = ports.map(|(port, _)| Place::Port(port_id(self.fabric, PortRef { node, port })));
                let ports: Vec<Place> = ports.collect();
                match ports.is_empty() {
                    true => Err(missing(format!("{shown} has no link"))),
                    false => Ok(ports),
                }
            }
            (Some((&node, [])), Some(port)) => self.port_of(node, port, &shown).map(|place| vec![place]),
        }
    }

    /// Returns the listed places of this name. A link is also found by its other end.
    pub(crate) fn find_listed(&self, text: &str, list: &OutOfService) -> Result<Vec<Place>, Error> {
        let wanted = Wanted::of(text);
        let is_node = |guid: Guid| wanted.is(guid, &self.node(guid), self.names);
        let is_port = |id: PortId| wanted.port == Some(id.port.get()) && is_node(id.node);
        let is_meant = |place: Place| {
            let mut ends = ends_of(self.fabric, place)
                .into_iter()
                .flat_map(|(near, far)| [near, far]);
            match (place, wanted.port) {
                (Place::Switch(guid), None) => is_node(guid),
                (Place::Switch(_), Some(_)) | (Place::Link(..), None) => false,
                (Place::Port(id), None) => is_node(id.node),
                (Place::Link(a, b), Some(_)) => is_port(a) || is_port(b),
                (Place::Port(id), Some(_)) => is_port(id) || ends.any(|end| is_port(port_id(self.fabric, end))),
            }
        };
        let found: Vec<Place> = list
            .iter()
            .map(|(&place, _)| place)
            .filter(|&place| is_meant(place))
            .collect();
        match found.is_empty() {
            true => Err(ErrorKind::NotOutOfService.error(format!(
                "{} is not out of service, so it cannot be put back",
                printable(text.trim())
            ))),
            false => Ok(found),
        }
    }

    /// Returns a place as text.
    pub(crate) fn words(&self, place: Place) -> String {
        match place {
            Place::Switch(guid) => self.quoted(guid),
            Place::Link(a, b) => format!("{} - {}", self.port(a), self.port(b)),
            Place::Port(id) => self.port(id),
        }
    }

    /// Returns a port in words.
    pub(crate) fn port(&self, id: PortId) -> String {
        format!("{}[{}]", self.quoted(id.node), id.port)
    }

    fn quoted(&self, guid: Guid) -> String {
        match self.node(guid) {
            name if name.is_empty() => guid.to_string(),
            name => format!("\"{name}\""),
        }
    }

    /// Returns the name of a node that is there or is gone; empty if it is not known.
    fn node(&self, guid: Guid) -> String {
        let there = self
            .fabric
            .find(guid)
            .map(|node| self.fabric.node(node).description.clone());
        let gone = || {
            let mut nodes = self.absent.nodes.iter();
            nodes.find(|of| of.node.guid == guid).map(|of| of.node.name.clone())
        };
        there.or_else(|| self.names.of(guid)).or_else(gone).unwrap_or_default()
    }

    fn nodes(&self, wanted: &Wanted<'_>) -> Vec<NodeIdx> {
        let nodes = self.fabric.nodes().iter_enumerated();
        let meant = nodes.filter(|(_, node)| wanted.is(node.guid, &node.description, self.names));
        meant.map(|(node, _)| node).collect()
    }

    /// Returns the missing switch or link with this name.
    fn find_absent(&self, wanted: &Wanted<'_>) -> Option<Place> {
        let Some(port) = wanted.port else {
            let mut nodes = self.absent.nodes.iter().filter(|of| of.node.kind == NodeKind::Switch);
            let of = nodes.find(|of| wanted.is(of.node.guid, &of.node.name, self.names))?;
            return Some(Place::Switch(of.node.guid));
        };
        let is_end = |end: &End| end.port.get() == port && wanted.is(end.node, &end.name, self.names);
        let link = self
            .absent
            .links
            .iter()
            .find(|link| is_end(&link.ends.0) || is_end(&link.ends.1))?;
        let id = |end: &End| PortId {
            node: end.node,
            port: end.port,
        };
        Some(Place::link(id(&link.ends.0), id(&link.ends.1)))
    }

    fn port_of(&self, node: NodeIdx, port: u8, shown: &str) -> Result<Place, Error> {
        let fabric = self.fabric;
        let of = fabric.node(node);
        let missing = |why: String| ErrorKind::NoSuchPlace.error(why);
        let id = PortNum::new(port).map(|port| PortId { node: of.guid, port });
        let Some(at) = id.and_then(|id| find_port(fabric, id)) else {
            return Err(missing(format!("{shown}: the node has ports 1 to {}", of.port_count())));
        };
        let Some(far) = fabric.peer(at) else {
            let wanted = Wanted::of(shown);
            return match self.find_absent(&wanted) {
                Some(place) => Ok(place),
                None => Err(missing(format!("no link is at {shown}"))),
            };
        };
        let is_switch = |at: PortRef| fabric.switch_index(at.node).is_some();
        Ok(match is_switch(at) && is_switch(far) {
            true => Place::link(port_id(fabric, at), port_id(fabric, far)),
            false => Place::Port(port_id(fabric, at)),
        })
    }

    fn unknown(&self, wanted: &Wanted<'_>, shown: &str) -> String {
        let known: BTreeSet<&str> = self
            .fabric
            .nodes()
            .iter()
            .map(|node| node.description.as_str())
            .collect();
        let port = wanted.port.map_or_else(String::new, |port| format!("[{port}]"));
        match closest(wanted.node, known) {
            Some(near) => format!("nothing is called {shown}; did you mean '{near}{port}'?"),
            None => format!("nothing is called {shown}"),
        }
    }
}
