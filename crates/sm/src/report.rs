//! The reasons why ports are not ACTIVE. A port that is not ACTIVE without a known reason counts as a defect.

use std::collections::BTreeSet;

use selvedge_fabric::{Fabric, NodeIdx, Port, PortRef};
use selvedge_planner::{Inventory, PortReason};
use selvedge_types::{Lid, PhysState, PortNum, PortState};

use crate::config::Mode;
use crate::event::Event;

/// A port that is not ACTIVE, or that leads to an agent which does not answer, with the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortReport {
    /// The port.
    pub port: PortRef,
    /// The reason.
    pub reason: PortReason,
}

/// Failures while a plan was applied.
#[derive(Clone, Debug)]
pub struct Failures {
    /// Ports with a failed Set.
    pub ports: BTreeSet<PortRef>,
    /// Nodes with another failed Set; their ports are not activated.
    pub nodes: BTreeSet<NodeIdx>,
    /// The reason why no Set was sent, if none was.
    pub nothing_sent: Option<NothingSent>,
}

/// The reasons for which a sweep sends no Set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NothingSent {
    /// Ports have unknown M_Keys: the ports in [`Failures::ports`].
    MKey,
    /// No plan was accepted.
    NoPlan,
}

impl Failures {
    /// Returns a value without failures.
    pub const fn none() -> Self {
        Self {
            ports: BTreeSet::new(),
            nodes: BTreeSet::new(),
            nothing_sent: None,
        }
    }

    /// Returns the failures if no Set was sent because ports have unknown M_Keys.
    pub fn locked(foreign: Foreign) -> Self {
        Self {
            ports: foreign.guarded.into_iter().collect(),
            ..Self::nothing_sent(NothingSent::MKey)
        }
    }

    /// Returns the failures if no Set was sent.
    pub fn nothing_sent(why: NothingSent) -> Self {
        Self {
            nothing_sent: Some(why),
            ..Self::none()
        }
    }
}

/// Returns every external port that is not ACTIVE, or that leads to an agent which does not answer, with the reason.
pub fn ports(fabric: &Fabric, inventory: &Inventory, mode: Mode, failures: &Failures) -> Vec<PortReport> {
    let mut reports = Vec::new();
    for (node, n) in fabric.nodes().iter_enumerated() {
        let troubles = inventory.agents.get(node).map(|agent| &agent.troubles);
        let is_silent =
            |num: PortNum| troubles.is_some_and(|troubles| troubles.get(&num) == Some(&PortReason::PeerSilent));
        let ports = n.external_ports();
        for (num, port) in ports.filter(|(num, p)| p.link.state != PortState::Active || is_silent(*num)) {
            let at = PortRef { node, port: num };
            reports.push(PortReport {
                port: at,
                reason: reason(fabric, inventory, mode, failures, at, port),
            });
        }
    }
    reports
}

fn reason(
    fabric: &Fabric,
    inventory: &Inventory,
    mode: Mode,
    failures: &Failures,
    at: PortRef,
    port: &Port,
) -> PortReason {
    let trouble = inventory
        .agents
        .get(at.node)
        .and_then(|a| a.troubles.get(&at.port).copied());
    if trouble.is_none() && inventory.port_info(at).is_none() {
        return PortReason::NotSeen;
    }
    if let Some(reason @ (PortReason::LeftOut | PortReason::OutOfService | PortReason::NotStored)) = trouble {
        return reason;
    }
    match port.link.phys {
        PhysState::Disabled => return PortReason::Disabled,
        PhysState::Sleep | PhysState::Polling | PhysState::PhyTest => return PortReason::NoLink,
        PhysState::Training | PhysState::Recovery => return PortReason::Training,
        PhysState::LinkUp if port.link.state == PortState::Down => return PortReason::NoLink,
        PhysState::LinkUp => {}
    }
    let failed = |end: PortRef| failures.ports.contains(&end) || failures.nodes.contains(&end.node);
    if let Some(trouble) = trouble {
        trouble
    } else if let Some(why) = failures.nothing_sent {
        match why {
            NothingSent::MKey if failed(at) => PortReason::MKey,
            NothingSent::MKey => PortReason::NotOurs,
            NothingSent::NoPlan => PortReason::NoPlan,
        }
    } else if failed(at) || port.peer.is_some_and(failed) {
        PortReason::SetFailed
    } else if mode != Mode::Manage {
        PortReason::NotOurs
    } else if port.peer.is_some() && !fabric.link_is_up(at) {
        PortReason::Training
    } else {
        PortReason::Unexplained
    }
}

/// Reports the ports from which links lead on although the directed route to them has its greatest length; `None` if
/// there are none.
pub fn beyond_reach(inventory: &Inventory) -> Option<Event> {
    let agents = inventory.agents.iter_enumerated();
    let mut ports = agents.flat_map(|(node, agent)| {
        let beyond = agent
            .troubles
            .iter()
            .filter(|(_, why)| **why == PortReason::BeyondReach);
        beyond.map(move |(&port, _)| PortRef { node, port })
    });
    let first = ports.next()?;
    Some(Event::BeyondReach {
        ports: 1 + ports.count(),
        what: inventory.fabric.port_name(first),
    })
}

/// True if the port's agent will refuse our Sets; `opens`: a key of the key ring.
fn guarded(port: &Port, opens: impl Fn(u64) -> bool) -> bool {
    match port.settings.m_key {
        // With protection bits set, agents show 0 to askers without the key.
        0 => port.settings.m_key_protect != 0,
        held => !opens(held),
    }
}

/// Ports with unknown M_Keys.
#[derive(Debug)]
pub struct Foreign {
    /// The ports that another manager may have taken.
    ports: Vec<PortRef>,
    /// All ports with unknown M_Keys.
    guarded: Vec<PortRef>,
}

impl Foreign {
    /// Names the first ports.
    pub fn in_words(&self, fabric: &Fabric) -> String {
        names(fabric, &self.ports)
    }
}

/// Returns the names of the first ports of a list, and the number of the others.
pub fn names(fabric: &Fabric, ports: &[PortRef]) -> String {
    const NAMED_MAX: usize = 5;
    let named: Vec<String> = ports.iter().take(NAMED_MAX).map(|&at| fabric.port_name(at)).collect();
    match ports.len() {
        count if count <= NAMED_MAX => named.join(", "),
        count => format!("{} and {} more", named.join(", "), count - NAMED_MAX),
    }
}

/// True if an end port carries requests: port 0 of a switch, or a port with a link.
pub fn is_in_use((at, port): &(PortRef, &Port)) -> bool {
    at.port == PortNum::MANAGEMENT || port.is_up()
}

/// Returns the ports with an M_Key that is not among this manager's keys (`opens`); `None` if there is none. If most
/// ports have this manager's key, two kinds of ports are not counted: a port with the LIDs that this manager gave it
/// (`ours`), and a port that got its LIDs from the manager that set the key of the other ports. No other manager has
/// set the key of these ports: a bit of a Set was flipped, and the ports can be recovered.
pub fn foreign_m_keys(fabric: &Fabric, opens: impl Fn(u64) -> bool, ours: impl Fn(&Port) -> bool) -> Option<Foreign> {
    let (mut foreign, free): (Vec<_>, Vec<_>) = fabric
        .end_ports()
        .filter(is_in_use)
        .partition(|(_, port)| guarded(port, &opens));
    let refs = |ports: &[(PortRef, &Port)]| ports.iter().map(|(at, _)| *at).collect::<Vec<_>>();
    let guarded = refs(&foreign);
    if !foreign.is_empty() && foreign.len() < free.len() {
        let theirs = SetByOne::of(fabric, &opens, foreign.len());
        foreign.retain(|(_, port)| !ours(port) && !theirs.is_of(port));
    }
    let ports = refs(&foreign);
    (!ports.is_empty()).then_some(Foreign { ports, guarded })
}

/// Ports that a manager with this manager's key has set, by their LIDs and MasterSMLID.
struct SetByOne {
    /// The LID of the manager that has set the ports; none if there were several, or if too few ports name one.
    manager: Option<Lid>,
    /// LIDs that two ports hold.
    twice: BTreeSet<Lid>,
}

impl SetByOne {
    /// Finds the manager that has set the ports which hold this manager's M_Key: all of them have its LID as
    /// MasterSMLID. Finds none if the ports name several managers, or if there are only `more_than` ports or fewer.
    fn of(fabric: &Fabric, opens: impl Fn(u64) -> bool, more_than: usize) -> Self {
        let keyed = || {
            let keyed = fabric
                .end_ports()
                .filter(|(_, port)| port.settings.m_key != 0 && opens(port.settings.m_key));
            keyed.map(|(_, port)| port.settings.sm_lid)
        };
        let first = keyed().next().filter(|lid| lid.is_unicast());
        let is_one = first.is_some_and(|first| keyed().all(|lid| lid == first)) && keyed().count() > more_than;
        let (mut held, mut twice) = (BTreeSet::new(), BTreeSet::new());
        let ranges = fabric.end_ports().map(|(_, port)| port.settings.lids);
        for lid in ranges
            .filter(|range| range.base.is_unicast())
            .flat_map(|range| range.iter())
        {
            if !held.insert(lid) {
                twice.insert(lid);
            }
        }
        Self {
            manager: first.filter(|_| is_one),
            twice,
        }
    }

    /// True if `self.manager` has set this port: the port's MasterSMLID is that LID, and no two ports hold it or one of
    /// the port's own LIDs. (If two subnets with the same manager LID are joined, two ports hold the same LIDs.)
    fn is_of(&self, port: &Port) -> bool {
        let lids = port.settings.lids;
        let is_single = |lid| !self.twice.contains(&lid);
        let is_its = |manager| manager == port.settings.sm_lid && is_single(manager);
        lids.base.is_unicast() && lids.iter().all(is_single) && self.manager.is_some_and(is_its)
    }
}

#[cfg(test)]
mod tests {
    use selvedge_fabric::{FabricBuilder, Node};
    use selvedge_types::{Guid, LidRange, NodeKind};

    use super::*;

    const KEY: u64 = 7;

    /// A port's LID, the manager that it names, and its M_Key.
    type Held = (u16, u16, u64);

    /// Checks how many of the ports in `more` belong to another manager. Beside them are three ports with LIDs 1 to 3,
    /// set by manager 1 with this manager's key.
    fn check(more: &[Held], want: usize) {
        let mut builder = FabricBuilder::new();
        let ours: [Held; 3] = [(1, 1, KEY), (2, 1, KEY), (3, 1, KEY)];
        for (&(lid, manager, m_key), guid) in ours.iter().chain(more).zip(1..) {
            let mut node = Node::new(NodeKind::Ca, Guid(guid), 1, "h");
            let port = node.port_mut(PortNum::new(1).unwrap()).unwrap();
            port.guid = Guid(guid);
            port.link.phys = PhysState::LinkUp;
            port.link.state = PortState::Active;
            port.settings.lids = LidRange::single(Lid(lid));
            (port.settings.sm_lid, port.settings.m_key) = (Lid(manager), m_key);
            port.settings.m_key_protect = 1;
            builder.add(node);
        }
        let fabric = builder.finish().unwrap();
        let found = foreign_m_keys(&fabric, |key| key == 0 || key == KEY, |_| false);
        let count = found.map_or(0, |found| found.ports.len());
        assert_eq!(count, want, "{more:?}");
    }

    #[test]
    fn a_key_that_a_flipped_bit_left_is_nobody_s() {
        check(&[], 0);
        check(&[(4, 1, 5)], 0);
        // Its agent does not show it.
        check(&[(4, 1, 0)], 0);
        // Another manager's; one of another subnet that had the same LID, with and without its manager's port.
        check(&[(4, 5, 5)], 1);
        check(&[(3, 1, 5)], 1);
        check(&[(1, 1, 5), (4, 1, 5)], 2);
        // It has no LID; most ports do not have this manager's key.
        check(&[(0, 1, 5)], 1);
        check(&[(4, 1, 5), (5, 1, 5), (6, 1, 5)], 3);
        // The ports with this manager's key name different masters.
        check(&[(4, 1, 5), (5, 2, KEY)], 1);
    }
}
