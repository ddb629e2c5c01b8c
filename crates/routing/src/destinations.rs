//! The destinations to be routed, and their order.
//!
//! The order decides which of several equal ports each destination gets. It is OpenSM's (observed in 3.3.23): first the
//! hosts, switch by switch, then the switches themselves. Switches with most host links come first, equal ones in
//! OpenSM's order of GUIDs. The hosts of a switch come in the order of its ports.

use core::cmp::Reverse;
use std::collections::BTreeMap;

use selvedge_fabric::{Fabric, Node, PortRef, SwitchIdx};
use selvedge_graph::{Graph, Lists};
use selvedge_plan::Lids;
use selvedge_types::{Guid, LidRange, PortNum};

use crate::error::EngineError;
use crate::note::Note;

/// An end port that has LIDs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Destination {
    /// LIDs of the end port.
    pub lids: LidRange,
    /// Egress at the end port's switch; 0 for the switch itself.
    pub egress: u8,
    /// True if routes to this destination count as load.
    pub counted: bool,
}

/// End ports in the order in which they are routed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Destinations {
    attach: Vec<u32>,
    batches: Lists<Destination>,
}

impl Destinations {
    /// Sorts the end ports that have LIDs. Ports without a live link to a switch are reported in a note.
    ///
    /// Ports with a GUID in `first` come first, in its order (OpenSM's `guid_routing_order_file`).
    pub fn new(
        fabric: &Fabric,
        graph: &Graph,
        lids: &Lids,
        (count_switches, first): (bool, &[Guid]),
        notes: &mut Vec<Note>,
    ) -> Result<Self, EngineError> {
        let turn = turns(fabric, first, notes);
        let mut early: BTreeMap<usize, (usize, Destination)> = BTreeMap::new();
        let mut of_switch: Vec<Vec<Destination>> = vec![Vec::new(); graph.switches()];
        let mut own: Vec<Option<Destination>> = vec![None; graph.switches()];
        for (port, range) in lids.iter() {
            if fabric.port(port).is_none() {
                return Err(EngineError::ForeignLid { lid: range.base, port });
            }
            let (at, egress, counted) = match attachment(fabric, port) {
                Attachment::Switch(at) => (at as usize, 0, count_switches),
                Attachment::Host { at, egress } => (at as usize, egress, true),
                Attachment::None => {
                    notes.push(Note::Detached {
                        node: fabric.node(port.node).guid,
                        port,
                        lid: range.base,
                    });
                    continue;
                }
                Attachment::NoEndPort => return Err(EngineError::ForeignLid { lid: range.base, port }),
            };
            let destination = Destination {
                lids: range,
                egress,
                counted,
            };
            match turn.get(&port) {
                Some(&i) => drop(early.insert(i, (at, destination))),
                None if egress == 0 => own[at] = Some(destination),
                None => of_switch[at].push(destination),
            }
        }
        let mut order: Vec<usize> = (0..graph.switches()).collect();
        order.sort_by_cached_key(|&s| {
            (
                Reverse(links_to(fabric, s, |node| !node.is_switch())),
                fabric.switch(idx(s)).guid.opensm_order(),
            )
        });
        let mut all = Self::default();
        for (switch, destination) in early.into_values() {
            all.push(switch, [destination]);
        }
        for &s in &order {
            of_switch[s].sort_by_key(|d| d.egress);
            all.push(s, of_switch[s].drain(..));
        }
        // After all hosts even where they are not counted: which port is least used is known then.
        order.sort_by_key(|&s| fabric.switch(idx(s)).guid.opensm_order());
        for &s in &order {
            all.push(s, own[s]);
        }
        Ok(all)
    }

    /// Batches of destinations at one switch: the switch and the destinations, in order.
    pub fn batches(&self) -> impl Iterator<Item = (usize, &[Destination])> {
        let switches = self.attach.iter().map(|&s| s as usize);
        switches.enumerate().map(|(i, s)| (s, self.batches.get(i)))
    }

    fn push(&mut self, switch: usize, destinations: impl IntoIterator<Item = Destination>) {
        self.batches.push(destinations);
        self.attach.push(u32::try_from(switch).unwrap_or(u32::MAX));
    }
}

/// Returns the rank of each named port in the list. If a port is named twice, its first place counts.
fn turns(fabric: &Fabric, first: &[Guid], notes: &mut Vec<Note>) -> BTreeMap<PortRef, usize> {
    let mut turns = BTreeMap::new();
    for (i, &guid) in first.iter().enumerate() {
        match fabric.find_port(guid) {
            Some(port) => {
                turns.entry(port).or_insert(i);
            }
            None => notes.push(Note::UnknownInOrder { guid }),
        }
    }
    turns
}

/// The peer of an end port.
enum Attachment {
    /// The end port is port 0 of this switch.
    Switch(u32),
    /// The end port is a host port behind this port of a switch.
    Host { at: u32, egress: u8 },
    /// A host port with a link that is down, or that leads to another host.
    None,
    /// The port is an external port of a switch, which cannot have a LID.
    NoEndPort,
}

fn attachment(fabric: &Fabric, port: PortRef) -> Attachment {
    if let Some(SwitchIdx(at)) = fabric.switch_index(port.node) {
        return if port.port == PortNum::MANAGEMENT {
            Attachment::Switch(at)
        } else {
            Attachment::NoEndPort
        };
    }
    let peer = fabric.peer(port).filter(|_| fabric.link_is_up(port));
    match peer.and_then(|peer| Some((fabric.switch_index(peer.node)?, peer.port))) {
        Some((SwitchIdx(at), port)) => Attachment::Host { at, egress: port.get() },
        None => Attachment::None,
    }
}

/// Returns the number of live links of a switch to nodes for which `is_meant` is true.
pub(crate) fn links_to(fabric: &Fabric, switch: usize, is_meant: impl Fn(&Node) -> bool) -> usize {
    let node = fabric.switches()[idx(switch)];
    fabric
        .node(node)
        .external_ports()
        .filter(|&(port, _)| fabric.link_is_up(PortRef { node, port }))
        .filter_map(|(_, p)| p.peer)
        .filter(|peer| is_meant(fabric.node(peer.node)))
        .count()
}

fn idx(switch: usize) -> SwitchIdx {
    SwitchIdx(u32::try_from(switch).unwrap_or(u32::MAX))
}
