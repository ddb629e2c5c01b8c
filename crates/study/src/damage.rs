//! Single faults, and a fabric in which faults can be made and undone.

use std::borrow::Cow;

use selvedge_fabric::{Fabric, Link, LinkState, PortRef, PortSettings, SwitchIdx};
use selvedge_plan::Lids;
use selvedge_types::{Idx, PortNum};
use selvedge_verify::standing::LinkChange;

/// The part that fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// The link with this number among the links between switches.
    Link(usize),
    /// All links of a switch.
    Switch(SwitchIdx),
}

/// Returns the live links between switches, each by its first end.
pub(crate) fn switch_links(fabric: &Fabric) -> Vec<PortRef> {
    let between = |link: &Link| [link.a, link.b].iter().all(|end| fabric.node(end.node).is_switch());
    let live = fabric.links().filter(|link| fabric.link_is_up(link.a));
    live.filter(between).map(|link| link.a).collect()
}

/// Returns live host ports of each switch.
pub(crate) fn hosts_of(fabric: &Fabric) -> Vec<u64> {
    let mut hosts = vec![0; fabric.switches().len()];
    for (at, _) in fabric.end_ports().filter(|(at, _)| fabric.link_is_up(*at)) {
        let home = fabric.peer(at).and_then(|peer| fabric.switch_index(peer.node));
        if let Some(home) = home.filter(|_| !fabric.node(at.node).is_switch()) {
            hosts[home.to_usize()] += 1;
        }
    }
    hosts
}

/// A fabric in which links are lost for a while.
pub(crate) struct Damaged {
    /// The fabric in its current state.
    pub(crate) fabric: Fabric,
    lost: Vec<(PortRef, LinkState, PortSettings)>,
}

impl Damaged {
    /// Returns the fabric before anything is lost.
    pub(crate) fn new(fabric: &Fabric) -> Self {
        Self {
            fabric: fabric.clone(),
            lost: Vec::new(),
        }
    }

    /// Loses the links at these ports.
    pub(crate) fn lose(&mut self, ports: &[PortRef]) {
        for &at in ports {
            for end in std::iter::once(at).chain(self.fabric.peer(at)) {
                if let Some(port) = self.fabric.port(end).filter(|port| port.is_up()) {
                    self.lost.push((end, port.link, port.settings));
                    self.fabric.set_port(end, LinkState::default(), port.settings);
                }
            }
        }
    }

    /// Makes everything good again.
    pub(crate) fn mend(&mut self) {
        for (at, link, settings) in self.lost.drain(..) {
            self.fabric.set_port(at, link, settings);
        }
    }

    /// Returns the LIDs that can still be reached: all LIDs except those of a switch that lost its links and of the
    /// hosts behind it.
    pub(crate) fn lids<'l>(&self, all: &'l Lids, what: What) -> Cow<'l, Lids> {
        let What::Switch(dead) = what else {
            return Cow::Borrowed(all);
        };
        let mut lids = all.clone();
        lids.remove(PortRef {
            node: self.fabric.switches()[dead],
            port: PortNum::MANAGEMENT,
        });
        for &(at, ..) in &self.lost {
            if !self.fabric.node(at.node).is_switch() {
                lids.remove(at);
            }
        }
        Cow::Owned(lids)
    }
}

impl What {
    /// Returns the ports that lose their links.
    pub(crate) fn ports(self, fabric: &Fabric, links: &[PortRef]) -> Vec<PortRef> {
        match self {
            Self::Link(link) => vec![links[link]],
            Self::Switch(switch) => {
                let node = fabric.switches()[switch];
                let ports = fabric.node(node).external_ports();
                let live = ports.map(|(port, _)| PortRef { node, port });
                live.filter(|&at| fabric.link_is_up(at)).collect()
            }
        }
    }
}

/// Returns the changed links between switches, in the form that a standing proof takes.
pub(crate) fn link_changes(fabric: &Fabric, ports: &[PortRef]) -> Vec<LinkChange> {
    let is_switch = |at: PortRef| fabric.peer(at).is_some_and(|peer| fabric.node(peer.node).is_switch());
    let each = ports.iter().filter(|&&at| is_switch(at)).filter_map(|at| {
        Some(LinkChange {
            switch: fabric.switch_index(at.node)?,
            port: at.port,
            is_up: false,
        })
    });
    each.collect()
}
