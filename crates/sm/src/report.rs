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
            ports: foreign.all.into_iter().collect(),
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
        match [Some(at), port.peer]
            .into_iter()
            .flatten()
            .any(|end| is_locked(fabric, end))
        {
            true => PortReason::MKey,
            false => PortReason::SetFailed,
        }
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

/// True if the port's agent hides its M_Key, because it was read with another one: it refuses Sets. With protection
/// bits set, agents show 0 to readers without the key. Source: IBA vol 1 §14.2.4.1.
const fn hides_key(port: &Port) -> bool {
    port.settings.m_key == 0 && port.settings.m_key_protect != 0
}

/// True if the agent of a port refuses Sets: the port, or port 0 of its switch, hides its M_Key.
fn is_locked(fabric: &Fabric, at: PortRef) -> bool {
    let port = match fabric.switch_index(at.node) {
        Some(_) => PortNum::MANAGEMENT,
        None => at.port,
    };
    fabric.port(PortRef { port, ..at }).is_some_and(hides_key)
}

/// Returns the names of the ports in use that hide their M_Key, and so refuse Sets; `None` if there are none.
pub fn locked(fabric: &Fabric) -> Option<String> {
    let locked = fabric.end_ports().filter(is_in_use).filter(|(_, port)| hides_key(port));
    let locked: Vec<PortRef> = locked.map(|(at, _)| at).collect();
    (!locked.is_empty()).then(|| names(fabric, &locked))
}

/// Ports with unknown M_Keys.
#[derive(Debug, Default)]
pub struct Foreign {
    /// The ports that another manager may have taken. As long as there are any, nothing is sent.
    anothers: Vec<PortRef>,
    /// All ports with unknown M_Keys.
    all: Vec<PortRef>,
}

impl Foreign {
    /// True if another manager may have taken ports.
    pub const fn is_anothers(&self) -> bool {
        !self.anothers.is_empty()
    }

    /// Names the first ports that refuse Sets; `None` if there are none. A port that shows its key takes Sets with that
    /// key, but no port that another manager may have taken gets one.
    pub fn in_words(&self, fabric: &Fabric) -> Option<String> {
        match self.is_anothers() {
            true => Some(names(fabric, &self.anothers)),
            false => locked(fabric),
        }
    }
}

/// Returns the names of the first ports of a list, and the number of the others.
pub fn names(fabric: &Fabric, ports: &[PortRef]) -> String {
    listed(ports.iter().map(|&at| fabric.port_name(at)))
}

/// Returns the first of some names, and the number of the others.
pub fn listed(mut names: impl ExactSizeIterator<Item = String>) -> String {
    const NAMED_MAX: usize = 5;
    let count = names.len();
    let named: Vec<String> = names.by_ref().take(NAMED_MAX).collect();
    match count {
        count if count <= NAMED_MAX => named.join(", "),
        count => format!("{} and {} more", named.join(", "), count - NAMED_MAX),
    }
}

/// True if an end port carries requests: port 0 of a switch, or a port with a link.
pub fn is_in_use((at, port): &(PortRef, &Port)) -> bool {
    at.port == PortNum::MANAGEMENT || port.is_up()
}

/// Returns the ports with an M_Key that is not among this manager's keys (`opens`). If most ports have this manager's
/// key, two kinds of ports do not count as taken by another manager: a port with the LIDs that this manager gave it
/// (`ours`), and a port that got its LIDs from the manager that set the key of the other ports. Then a bit of a Set was
/// flipped, or it is a former key that this manager was never given; the other ports can be managed.
pub fn foreign_m_keys(fabric: &Fabric, opens: impl Fn(u64) -> bool, ours: impl Fn(&Port) -> bool) -> Foreign {
    let is_foreign = |port: &Port| hides_key(port) || port.settings.m_key != 0 && !opens(port.settings.m_key);
    let (mut foreign, free): (Vec<_>, Vec<_>) = fabric
        .end_ports()
        .filter(is_in_use)
        .partition(|(_, port)| is_foreign(port));
    let refs = |ports: &[(PortRef, &Port)]| ports.iter().map(|(at, _)| *at).collect::<Vec<_>>();
    let all = refs(&foreign);
    if !foreign.is_empty() && foreign.len() < free.len() {
        let theirs = SetByOne::of(fabric, &opens, foreign.len());
        foreign.retain(|(_, port)| !ours(port) && !theirs.is_of(port));
    }
    Foreign {
        anothers: refs(&foreign),
        all,
    }
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

    /// Checks how many of the ports in `more` another manager may have taken, and which ports are reported. Beside them
    /// are three ports with LIDs 1 to 3, set by manager 1 with this manager's key.
    fn check(more: &[Held], want: usize, reported: Option<&str>) {
        let mut builder = FabricBuilder::new();
        let ours: [Held; 3] = [(1, 1, KEY), (2, 1, KEY), (3, 1, KEY)];
        for (&(lid, manager, m_key), guid) in ours.iter().chain(more).zip(1..) {
            let mut node = Node::new(NodeKind::Ca, Guid(guid), 1, format!("h{guid}"));
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
        assert_eq!(
            (found.anothers.len(), found.is_anothers()),
            (want, want > 0),
            "{more:?}"
        );
        assert_eq!(found.in_words(&fabric).as_deref(), reported, "{more:?}");
    }

    #[test]
    fn a_key_that_a_flipped_bit_left_is_nobody_s() {
        check(&[], 0, None);
        // Its agent shows it, so it is replaced.
        check(&[(4, 1, 5)], 0, None);
        // Another manager's; one of another subnet that had the same LID, with and without its manager's port.
        check(&[(4, 5, 5)], 1, Some("\"h4\"[1]"));
        check(&[(3, 1, 5)], 1, Some("\"h4\"[1]"));
        check(&[(1, 1, 5), (4, 1, 5)], 2, Some("\"h4\"[1], \"h5\"[1]"));
        // It has no LID; most ports do not have this manager's key.
        check(&[(0, 1, 5)], 1, Some("\"h4\"[1]"));
        check(
            &[(4, 1, 5), (5, 1, 5), (6, 1, 5)],
            3,
            Some("\"h4\"[1], \"h5\"[1], \"h6\"[1]"),
        );
        // The ports with this manager's key name different masters.
        check(&[(4, 1, 5), (5, 2, KEY)], 1, Some("\"h4\"[1]"));
    }

    #[test]
    fn a_port_that_hides_an_unknown_key_is_reported_although_the_others_are_managed() {
        check(&[(4, 1, 0)], 0, Some("\"h4\"[1]"));
        check(&[(4, 1, 5), (5, 1, 0)], 0, Some("\"h5\"[1]"));
        // Of ports that another manager may have taken, those are named.
        check(&[(4, 5, 0), (5, 1, 0)], 1, Some("\"h4\"[1]"));
    }
}
