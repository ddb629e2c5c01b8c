//! Options of the operator for single ports: weights, and the order in which ports are tried.

use std::collections::BTreeMap;

use selvedge_fabric::{Fabric, SwitchIdx};
use selvedge_graph::Graph;
use selvedge_types::Guid;

use crate::note::Note;

/// The weight of a link as one switch sees it (a line of OpenSM's `hop_weights_file`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HopWeight {
    /// GUID of the switch.
    pub switch: Guid,
    /// The port.
    pub port: u8,
    /// Number of hops that leaving by this port counts as, 1–255; 1 for ports without a weight.
    pub hops: u8,
}

/// Ports of a switch in the order in which they are tried (a line of OpenSM's `port_search_ordering_file`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortOrder {
    /// GUID of the switch.
    pub switch: Guid,
    /// The ports, each once; ports that are not listed follow in ascending order. If a port does not exist on the
    /// switch or is named twice, the whole order is ignored.
    pub ports: Vec<u8>,
}

fn switch(fabric: &Fabric, guid: Guid) -> Option<usize> {
    let SwitchIdx(switch) = fabric.switch_index(fabric.find(guid)?)?;
    Some(switch as usize)
}

/// Returns a weight for every channel, if any weight is given.
pub(crate) fn weights(fabric: &Fabric, graph: &Graph, given: &[HopWeight], notes: &mut Vec<Note>) -> Option<Vec<u8>> {
    if given.is_empty() {
        return None;
    }
    let mut weights = vec![1; graph.channels().start(graph.switches())];
    for &HopWeight {
        switch: guid,
        port,
        hops,
    } in given
    {
        let at = switch(fabric, guid);
        let known = at.filter(|&s| port > 0 && port <= fabric.switch(index(s)).port_count());
        let Some(at) = known.filter(|_| hops > 0) else {
            notes.push(Note::UnknownPort { switch: guid, port });
            continue;
        };
        // A port with a link that is down, or that leads to a host, has no channel: its weight changes nothing.
        if let Ok(i) = graph.channels().get(at).binary_search_by_key(&port, |c| c.egress) {
            weights[graph.channels().start(at) + i] = hops;
        }
    }
    Some(weights)
}

/// Returns the rank of each port, for the switches that have an order. If a switch has several, the first counts.
pub(crate) fn turns(fabric: &Fabric, given: &[PortOrder], notes: &mut Vec<Note>) -> BTreeMap<usize, [u8; 256]> {
    let mut turns = BTreeMap::new();
    for PortOrder { switch: guid, ports } in given {
        let Some(at) = switch(fabric, *guid) else {
            notes.push(Note::UnknownPort { switch: *guid, port: 0 });
            continue;
        };
        let count = fabric.switch(index(at)).port_count();
        // OpenSM leaves out the whole line as well.
        let twice = |i: usize| ports[..i].contains(&ports[i]);
        let wrong = |i: &usize| ports[*i] == 0 || ports[*i] > count || twice(*i);
        if let Some(i) = (0..ports.len()).find(wrong) {
            let (switch, port) = (*guid, ports[i]);
            notes.push(Note::UnknownPort { switch, port });
            continue;
        }
        let order = ports;
        let rest: Vec<u8> = (1..=count).filter(|p| !order.contains(p)).collect();
        let mut turn = [u8::MAX; 256];
        for (i, &port) in (1..).zip(order.iter().chain(&rest)) {
            turn[usize::from(port)] = i;
        }
        turns.entry(at).or_insert(turn);
    }
    turns
}

fn index(switch: usize) -> SwitchIdx {
    SwitchIdx(u32::try_from(switch).unwrap_or(u32::MAX))
}
