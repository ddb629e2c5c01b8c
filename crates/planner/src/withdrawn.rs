//! The ports that a list of places out of service withdraws on a fabric, computed from the list and the fabric alone.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use selvedge_fabric::{Fabric, NodeIdx, PortRef};
use selvedge_plan::OutOfService;
use selvedge_plan::out_of_service::{Notice, Place, PortId, Service};
use selvedge_types::{IdxVec, PhysState, PortNum};

/// The ports of a fabric that the list withdraws.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Withdrawn {
    /// Both ends of links between switches that carry no packets of hosts.
    pub links: BTreeSet<PortRef>,
    /// Ends in `links` that are left out of routes: all except those of the link by which a drained switch is reached.
    pub idle: BTreeSet<PortRef>,
    /// Both ends of links to hosts that are cut off.
    pub hosts: BTreeSet<PortRef>,
    /// Both ends of listed links that carry packets all the same: some switch is reached only over them.
    pub needed: BTreeSet<PortRef>,
    /// For each link of an isolated place, the end that is to be disabled.
    pub disable: BTreeSet<PortRef>,
    /// Disabled ports of places that are back in service.
    pub poll: BTreeSet<PortRef>,
}

/// A listed link: the end that stays in service, and the other end.
#[derive(Clone, Copy, Debug)]
struct Listed {
    near: PortRef,
    far: PortRef,
}

/// Links of all places, before it is decided which of them are needed.
#[derive(Debug, Default)]
struct Collected {
    switches: BTreeSet<NodeIdx>,
    /// Ends of links that are listed individually, and therefore known to be bad.
    bad: BTreeSet<PortRef>,
    disable: BTreeSet<PortRef>,
}

impl Withdrawn {
    /// Returns the effect of a list on a fabric, for a manager at the port `local`. Links that are down do not count.
    #[must_use]
    pub fn of(list: &OutOfService, fabric: &Fabric, local: PortRef) -> Self {
        let (mut all, mut collected) = (Self::default(), Collected::default());
        for (&place, notice) in list.iter() {
            if notice.service != Service::Isolate {
                all.poll.extend(disabled(fabric, notice));
            }
            if notice.service != Service::Enable {
                all.collect(fabric, local, (place, notice), &mut collected);
            }
        }
        // A place that is back in service may have ports in common with one that is not.
        let isolated = list.iter().filter(|(_, notice)| notice.service == Service::Isolate);
        let isolated = isolated.flat_map(|(_, notice)| &notice.disabled);
        for at in isolated.filter_map(|id| find_port(fabric, *id)) {
            all.poll.remove(&at);
        }
        all.keep_in_reach(fabric, local, &collected);
        all.disable = collected.disable;
        let withdrawn = |at: &PortRef| all.links.contains(at) || all.hosts.contains(at);
        all.disable = all.disable.iter().copied().filter(withdrawn).collect();
        all
    }

    /// True if nothing is withdrawn, and no port is enabled again.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.links.is_empty() && self.hosts.is_empty() && self.needed.is_empty() && self.poll.is_empty()
    }

    /// Returns the ports that no packet of a host may cross.
    #[must_use]
    pub fn kept_off(&self) -> BTreeSet<PortRef> {
        self.links.union(&self.hosts).copied().collect()
    }

    fn collect(
        &mut self,
        fabric: &Fabric,
        local: PortRef,
        (place, notice): (Place, &Notice),
        collected: &mut Collected,
    ) {
        let links = links_of(fabric, place);
        let is_switch = |at: PortRef| fabric.switch_index(at.node).is_some();
        if let Place::Switch(guid) = place {
            collected.switches.extend(fabric.find(guid));
        }
        for Listed { near, far } in links {
            // The manager's own link is its only way to everything else.
            if near == local || far == local || !fabric.link_is_up(near) {
                continue;
            }
            let ends = [near, far];
            match ends.into_iter().all(is_switch) {
                true => self.links.extend(ends),
                false => self.hosts.extend(ends),
            }
            if !matches!(place, Place::Switch(_)) {
                collected.bad.extend(ends);
            }
            if notice.service == Service::Isolate {
                collected.disable.insert(near);
            }
        }
    }

    /// Keeps links in service if some switch can be reached only over them. A drained switch keeps one link: to a
    /// switch in service if it has such a link, and not a link that is known to be bad. If another switch can be
    /// reached only through the drained switch, the links on the way to that switch are kept too.
    fn keep_in_reach(&mut self, fabric: &Fabric, local: PortRef, collected: &Collected) {
        if self.links.is_empty() {
            return;
        }
        let Some(first) = first_switch(fabric, local) else {
            return;
        };
        let mut whole = IdxVec::filled(false, fabric.nodes().len());
        reach(fabric, first, &BTreeSet::new(), &mut whole);
        let mut seen = IdxVec::filled(false, fabric.nodes().len());
        reach(fabric, first, &self.links, &mut seen);
        let mut way_in: BTreeMap<NodeIdx, PortRef> = BTreeMap::new();
        let is_drained = |node: NodeIdx| collected.switches.contains(&node);
        let mut kept = BTreeSet::new();
        loop {
            let leads_on = self.links.iter().filter_map(|&at| {
                let far = fabric
                    .peer(at)
                    .filter(|far| seen[at.node] && !seen[far.node] && whole[far.node])?;
                let order = (
                    is_drained(at.node),
                    !is_drained(far.node),
                    collected.bad.contains(&at),
                    far,
                );
                Some((order, at, far))
            });
            let Some((_, at, far)) = leads_on.min() else { break };
            kept.extend([at, far]);
            way_in.insert(far.node, at);
            let mut node = (!is_drained(far.node)).then_some(far.node);
            while let Some(at) = node.and_then(|node| way_in.get(&node)) {
                self.needed.extend([Some(*at), fabric.peer(*at)].into_iter().flatten());
                node = Some(at.node);
            }
            reach(fabric, far.node, &self.links, &mut seen);
        }
        self.links.retain(|at| !self.needed.contains(at));
        self.idle = self.links.difference(&kept).copied().collect();
    }
}

/// Returns the listed links of a place that are plugged in.
fn links_of(fabric: &Fabric, place: Place) -> Vec<Listed> {
    let find = |id: PortId| {
        let node = fabric.find(id.node)?;
        Some(PortRef { node, port: id.port })
    };
    let is_switch = |at: PortRef| fabric.switch_index(at.node).is_some();
    // The end at a switch stays in service, where the other one is a host's.
    let towards = |near: PortRef, far: PortRef| match is_switch(near) {
        true => Listed { near, far },
        false => Listed { near: far, far: near },
    };
    match place {
        Place::Switch(guid) => {
            let Some(node) = fabric.find(guid).filter(|&node| fabric.switch_index(node).is_some()) else {
                return Vec::new();
            };
            let links = fabric.node(node).external_ports().filter_map(|(port, seen)| {
                let (at, far) = (PortRef { node, port }, seen.peer?);
                (far.node != node).then(|| towards(far, at))
            });
            links.collect()
        }
        Place::Link(a, b) => match (find(a), find(b)) {
            (Some(a), Some(b)) if fabric.peer(a) == Some(b) => vec![towards(a, b)],
            _ => Vec::new(),
        },
        Place::Port(id) => {
            let link = find(id).and_then(|at| Some(towards(at, fabric.peer(at)?)));
            link.into_iter().collect()
        }
    }
}

/// Returns the ports that were disabled because of a place and still are.
fn disabled(fabric: &Fabric, notice: &Notice) -> Vec<PortRef> {
    let ports = notice.disabled.iter().filter_map(|id| {
        let node = fabric.find(id.node)?;
        let at = PortRef { node, port: id.port };
        (fabric.port(at)?.link.phys == PhysState::Disabled).then_some(at)
    });
    ports.collect()
}

/// Updates the list with the fabric that a sweep has found. Ports that the plan for it disables (`disable`, of
/// [`Withdrawn`]) are added, because no later sweep sees what was behind them. Ports that are enabled again are
/// removed, and so are places in service without disabled ports. Returns `None` if the list is up to date.
#[must_use]
pub fn settled(list: &OutOfService, fabric: &Fabric, disable: &BTreeSet<PortRef>) -> Option<OutOfService> {
    let mut settled = list.clone();
    let isolated = list.iter().filter(|(_, notice)| notice.service == Service::Isolate);
    let mut held: BTreeSet<PortId> = isolated
        .clone()
        .flat_map(|(_, notice)| &notice.disabled)
        .copied()
        .collect();
    for (&place, notice) in isolated {
        let near = links_of(fabric, place).into_iter().map(|link| link.near);
        let new = near.filter(|at| disable.contains(at)).map(|at| port_id(fabric, at));
        let mut notice = notice.clone();
        notice.disabled.extend(new);
        held.extend(&notice.disabled);
        settled.insert(place, notice);
    }
    let is_enabled = |id: PortId| {
        let port = find_port(fabric, id).and_then(|at| fabric.port(at));
        port.is_some_and(|port| port.link.phys != PhysState::Disabled)
    };
    for (&place, notice) in list.iter().filter(|(_, notice)| notice.service != Service::Isolate) {
        let mut notice = notice.clone();
        notice.disabled.retain(|id| !is_enabled(*id) && !held.contains(id));
        match notice.service == Service::Enable && notice.disabled.is_empty() {
            true => settled.remove(place),
            false => settled.insert(place, notice),
        };
    }
    (settled != *list).then_some(settled)
}

/// Returns both ends of the links of a place; the end that would be disabled comes first.
#[must_use]
pub fn ends_of(fabric: &Fabric, place: Place) -> Vec<(PortRef, PortRef)> {
    links_of(fabric, place)
        .into_iter()
        .map(|link| (link.near, link.far))
        .collect()
}

fn first_switch(fabric: &Fabric, local: PortRef) -> Option<NodeIdx> {
    match fabric.switch_index(local.node) {
        Some(_) => Some(local.node),
        None => fabric
            .peer(local)
            .map(|far| far.node)
            .filter(|&node| fabric.switch_index(node).is_some()),
    }
}

/// Marks the switches that can be reached from `from` over links that are up, without those in `without`.
fn reach(fabric: &Fabric, from: NodeIdx, without: &BTreeSet<PortRef>, seen: &mut IdxVec<NodeIdx, bool>) {
    seen[from] = true;
    let mut todo = VecDeque::from([from]);
    while let Some(node) = todo.pop_front() {
        for (port, _) in fabric.node(node).external_ports() {
            let at = PortRef { node, port };
            let far = fabric
                .peer(at)
                .filter(|_| fabric.link_is_up(at) && !without.contains(&at));
            let far = far.filter(|far| fabric.switch_index(far.node).is_some());
            if let Some(far) = far.filter(|far| !seen[far.node]) {
                seen[far.node] = true;
                todo.push_back(far.node);
            }
        }
    }
}

/// Returns the name of a port, as in the list.
#[must_use]
pub fn port_id(fabric: &Fabric, at: PortRef) -> PortId {
    PortId {
        node: fabric.node(at.node).guid,
        port: at.port,
    }
}

/// Returns the port with a name of the list, if its node is present.
#[must_use]
pub fn find_port(fabric: &Fabric, id: PortId) -> Option<PortRef> {
    let at = PortRef {
        node: fabric.find(id.node)?,
        port: id.port,
    };
    fabric.port(at).filter(|_| at.port != PortNum::MANAGEMENT).map(|_| at)
}
