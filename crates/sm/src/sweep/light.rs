//! The light sweep: SwitchInfo of every switch, PortInfo of the local port, NodeInfo behind every port with a silent
//! peer, and both ends of links that are up at one end and down at the other.
//!
//! The check after a plan shares some of these requests and has more of its own. An answer that differs from the
//! inventory leads to a heavy sweep.

use std::collections::BTreeSet;

use selvedge_fabric::{Fabric, NodeIdx, Port, PortRef};
use selvedge_mad::AgentId;
use selvedge_planner::{Inventory, PortReason};
use selvedge_types::{Guid, PortNum, PortState};
use selvedge_wire::{AttributeId, DirectedRoute, Mad};

use super::answer::{differs, says_changed};
use super::{Ask, Change, Effect};
use crate::smp::{self, Smp};

/// The subjects of light sweeps, and the findings of the current one.
#[derive(Debug, Default)]
pub struct Light {
    /// Ports that now report another identity than before.
    doubted: BTreeSet<Guid>,
    /// Ports that may have changed during a plan without a trap reaching the manager.
    unwatched: Vec<PortRef>,
    /// GUIDs that the last heavy sweep saw twice.
    twins: BTreeSet<Guid>,
    /// GUIDs that the previous sweep found twice.
    twins_before: BTreeSet<Guid>,
    /// True if an answer has shown a difference from the inventory.
    has_changed: bool,
}

/// The data from which requests are made.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// The inventory with the directed routes for requests.
    pub inventory: &'a Inventory,
}

impl Light {
    /// Drops the findings, because a heavy sweep begins that reads all ports.
    pub fn forget(&mut self) {
        self.unwatched.clear();
    }

    /// Records the GUIDs that a heavy sweep saw twice. Returns true if one of them was not seen twice in the sweep
    /// before. If a cable is moved during a sweep, one node is seen at two places; a second sweep shows whether there
    /// really are two nodes.
    pub fn note_twins(&mut self, twins: BTreeSet<Guid>) -> bool {
        self.twins_before = std::mem::replace(&mut self.twins, twins);
        !self.twins.is_subset(&self.twins_before)
    }

    /// Returns true if one of the last two heavy sweeps found a GUID twice.
    pub fn was_twin(&self, guid: Guid) -> bool {
        self.twins.contains(&guid) || self.twins_before.contains(&guid)
    }

    /// Records ports that now report another identity than before.
    pub fn doubt(&mut self, ports: BTreeSet<Guid>) {
        self.doubted.extend(ports);
    }

    /// Notes that a plan is in force: `seen` is the fabric before it, `is` the one after it. Ports that may have
    /// changed without a trap that reached the manager must be read. After a repair this is needed only if a Set was
    /// repeated: its first copy may arrive late and clear the sign of a later change. (A repair begins with traps that
    /// have reached the manager, and its ports were probed before PortStateChange was cleared.)
    pub fn watch(&mut self, seen: &Fabric, is: &Fabric, change: Change) {
        if change == Change::Whole {
            self.unwatched.clear();
        }
        self.unwatched.extend(unwatched(seen, is));
        if !matches!(change, Change::Repair { has_repeated: false }) {
            self.unwatched.extend(cleared(seen, is));
        }
        // A node without a link cannot answer, and a Get to it would only occupy the window.
        let has_link = |at: &PortRef| is.node(at.node).external_ports().any(|(_, port)| port.is_up());
        self.unwatched.retain(has_link);
        self.unwatched.sort_unstable();
        self.unwatched.dedup();
    }

    /// Begins the requests of a light sweep.
    pub const fn begin(&mut self) {
        self.has_changed = false;
    }

    /// Called when an answer differs from what is known.
    pub const fn note_change(&mut self) {
        self.has_changed = true;
    }

    /// Returns true if an answer has shown a difference.
    pub const fn has_changed(&self) -> bool {
        self.has_changed
    }

    /// Handles the end of a request: an answer with status 0, or none.
    pub fn answered(&mut self, known: Option<&Inventory>, ask: Ask, answer: Option<&Mad>, effects: &mut Vec<Effect>) {
        if let (Ask::Switch(node), Some(true)) = (ask, says_changed(answer)) {
            effects.push(Effect::Suspect(node));
        }
        self.has_changed |= differs(ask, answer, known, &self.twins);
    }

    /// Returns true if switches, and nodes behind them, are left out because two switches show one GUID. The switch
    /// with the wrong GUID may be behind the other one, where no request of the light sweep leads. Also true if the
    /// switch that was kept no longer has a link.
    pub fn lacks_twins(&self, inventory: &Inventory) -> bool {
        let fabric = &inventory.fabric;
        let has_link = |node: NodeIdx| {
            let mut ports = fabric.node(node).external_ports();
            ports.any(|(_, port)| port.is_up() && port.peer.and_then(|far| fabric.port(far)).is_some_and(Port::is_up))
        };
        let mut twins = self.twins.iter();
        twins.any(|&guid| fabric.find(guid).is_none_or(|node| !has_link(node)))
    }

    /// Requests PortInfo of ports that may have changed during a plan without a trap reaching the manager.
    pub fn ask_unwatched(&self, asked: Asked<'_>, effects: &mut Vec<Effect>) {
        let ports = self.unwatched.iter();
        effects.extend(ports.map(|&at| {
            let route = &asked.inventory.agents[at.node].route;
            asked.port(at, route, Ask::Unwatched(at))
        }));
    }

    /// Requests NodeInfo of ports that showed another GUID than before.
    pub fn ask_doubted(&mut self, asked: Asked<'_>, effects: &mut Vec<Effect>) {
        let ports = std::mem::take(&mut self.doubted).into_iter();
        let ports = ports.filter_map(|guid| asked.inventory.fabric.find_port(guid));
        effects.extend(ports.map(|at| {
            let route = asked.inventory.agents[at.node].route_to(at.port);
            asked.node(AgentId(at.node.0), route, Ask::Whose(at))
        }));
    }

    /// Requests NodeInfo behind ports that are left out: the peer may answer by now, or show its own GUID. This is done
    /// in any port state, because a port may have been set up before its peer stopped answering.
    pub fn knock(&self, asked: Asked<'_>, effects: &mut Vec<Effect>) {
        let inventory = asked.inventory;
        let doors = inventory.agents.iter_enumerated().flat_map(|(node, agent)| {
            let is_switch = inventory.fabric.node(node).is_switch();
            agent.troubles.iter().filter_map(move |(&port, why)| {
                let ask = match why {
                    PortReason::PeerSilent => Ask::Knock,
                    PortReason::DuplicateGuid => Ask::Twin,
                    _ => return None,
                };
                let is_seat = node == inventory.local.node && port == inventory.local.port;
                let leads_on = (is_switch || is_seat) && port != PortNum::MANAGEMENT;
                let route = if leads_on {
                    agent.route.then(port)
                } else {
                    Some(*agent.route_to(port))
                };
                Some((ask, route?))
            })
        });
        // Of two with one GUID the first may be the one that showed another's.
        let first = self.twins.iter().filter_map(|&guid| inventory.fabric.find(guid));
        let first = first.map(|node| (Ask::Twin, inventory.agents[node].route));
        let doors = doors.chain(first);
        effects.extend(doors.map(|(ask, route)| asked.node(AgentId::UNKNOWN, &route, ask)));
        for at in torn_links(&inventory.fabric) {
            let far = inventory.fabric.peer(at);
            if let Some((far, agent)) = far.and_then(|far| Some((far, inventory.agents.get(far.node)?))) {
                // Of two that showed one GUID the other one may have answered behind a link of which this one knows
                // nothing.
                effects.push(asked.node(AgentId(far.node.0), &agent.route, Ask::Who(far.node)));
                effects.push(asked.port(far, agent.route_to(far.port), Ask::Torn(far)));
            }
            let leads_on = inventory.fabric.node(at.node).is_switch() || at == inventory.local;
            let route = inventory.agents[at.node].route.then(at.port).filter(|_| leads_on);
            effects.extend(route.map(|route| asked.node(AgentId::UNKNOWN, &route, Ask::AtLink(at))));
        }
    }
}

impl Asked<'_> {
    /// Reads PortInfo of the local port: if its cable was moved, every directed route leads to another node.
    pub fn own_port(self) -> Effect {
        let at = self.inventory.local;
        Effect::Ask(AgentId(at.node.0), Ask::Held(at), own_port(at.port))
    }

    /// Asks every switch whether something changed.
    pub fn switches(self, effects: &mut Vec<Effect>) {
        let switches = self.inventory.fabric.switches().iter();
        effects.extend(switches.map(|&node| {
            let route = &self.inventory.agents[node].route;
            let get = smp::get(AttributeId::SWITCH_INFO, 0, route);
            Effect::Ask(AgentId(node.0), Ask::Switch(node), get)
        }));
    }

    /// Requests the LID of switches: a switch that was off while a plan was applied has lost it.
    pub fn who_may_have_been_off(self, switches: &[NodeIdx], effects: &mut Vec<Effect>) {
        effects.extend(switches.iter().map(|&node| {
            let port = PortNum::MANAGEMENT;
            let route = &self.inventory.agents[node].route;
            let get = smp::get(AttributeId::PORT_INFO, 0, route);
            Effect::Ask(AgentId(node.0), Ask::Held(PortRef { node, port }), get)
        }));
    }

    /// Requests NodeInfo of the node behind a link; returns `None` if no route leads there.
    pub fn behind(self, at: PortRef) -> Option<Effect> {
        let route = self.inventory.agents.get(at.node)?.route.then(at.port)?;
        Some(self.node(AgentId::UNKNOWN, &route, Ask::AtLink(at)))
    }

    fn node(self, agent: AgentId, route: &DirectedRoute, ask: Ask) -> Effect {
        Effect::Ask(agent, ask, smp::get(AttributeId::NODE_INFO, 0, route))
    }

    fn port(self, at: PortRef, route: &DirectedRoute, ask: Ask) -> Effect {
        let get = smp::get_port(&self.inventory.fabric, at, route);
        Effect::Ask(AgentId(at.node.0), ask, get)
    }
}

/// Returns the Get of PortInfo of the local port.
pub const fn own_port(port: PortNum) -> Smp {
    smp::get(AttributeId::PORT_INFO, port.get() as u32, &DirectedRoute::LOCAL)
}

/// Returns each end of a link that is up while the other end is down. Either the node at the other end showed the GUID
/// of another node, or its link was lost since.
fn torn_links(fabric: &Fabric) -> impl Iterator<Item = PortRef> + '_ {
    let is_up = |at: PortRef| fabric.port(at).is_some_and(|port| port.is_up());
    fabric
        .links()
        .filter_map(move |link| match (is_up(link.a), is_up(link.b)) {
            (true, false) => Some(link.a),
            (false, true) => Some(link.b),
            (true, true) | (false, false) => None,
        })
}

/// Returns the ports of switches about which no trap may have reached this manager:
///
/// - DOWN ports of switches that named no manager or another one during discovery. They sent no trap to this manager
///   before they got its LID, and clearing PortStateChange has removed that sign too.
/// - Ports that were ACTIVE already, if PortStateChange has been cleared: the switch may have rebooted between two
///   answers.
fn unwatched(seen: &Fabric, now: &Fabric) -> Vec<PortRef> {
    let new = now.switches().iter().filter(|&&node| learnt_of_us(node, seen, now));
    let ports = new.flat_map(|&node| {
        let has_changed = |fabric: &Fabric| fabric.node(node).switch_settings.port_state_change;
        let is_cleared = has_changed(seen) && !has_changed(now);
        let was_active = move |port| {
            let state = seen.port(PortRef { node, port }).map(|port| port.link.state);
            is_cleared && state == Some(PortState::Active)
        };
        let ports = now.node(node).external_ports();
        let doubtful = ports.filter(move |(port, p)| p.link.state == PortState::Down || was_active(*port));
        doubtful.map(move |(port, _)| PortRef { node, port })
    });
    ports.collect()
}

/// Returns the ports of switches that already named this manager as master, if a sweep's plan has cleared their
/// PortStateChange. The sign of a change after the sweep is then lost. Traps may be missing too: an agent sends no
/// further trap of a kind while one is unrepressed, and the TrapRepress may belong to an earlier change.
fn cleared(seen: &Fabric, now: &Fabric) -> Vec<PortRef> {
    let is_cleared = |fabric: &Fabric, node| !fabric.node(node).switch_settings.port_state_change;
    let cleared = now
        .switches()
        .iter()
        .filter(|&&node| !is_cleared(seen, node) && is_cleared(now, node) && !learnt_of_us(node, seen, now));
    let ports = cleared.flat_map(|&node| {
        let ports = now.node(node).external_ports();
        ports.map(move |(port, _)| PortRef { node, port })
    });
    ports.collect()
}

/// True if a switch has got this manager's LID as the destination of its traps.
fn learnt_of_us(node: NodeIdx, seen: &Fabric, now: &Fabric) -> bool {
    let port = PortNum::MANAGEMENT;
    let sm_lid = |fabric: &Fabric| fabric.port(PortRef { node, port }).map(|p| p.settings.sm_lid);
    sm_lid(seen) != sm_lid(now)
}

#[cfg(test)]
mod tests {
    use selvedge_fabric::{FabricBuilder, LinkState, Node};
    use selvedge_types::{Lid, NodeKind, PhysState};

    use super::*;
    use crate::made::{SECOND, guid, inventory, row};

    #[test]
    fn a_link_is_torn_if_its_ends_do_not_agree() {
        let port = PortNum::new(1).unwrap();
        let check = |states: [PortState; 2], want: Option<u32>| {
            let mut b = FabricBuilder::new();
            let keys = [1, 2].map(|guid| {
                let mut node = Node::new(NodeKind::Switch, Guid(guid), 1, "s");
                let state = states[guid as usize - 1];
                let phys = match state {
                    PortState::Down => PhysState::Polling,
                    _ => PhysState::LinkUp,
                };
                let link = &mut node.port_mut(port).unwrap().link;
                *link = LinkState { state, phys, ..*link };
                b.add(node)
            });
            b.link((keys[0], port), (keys[1], port)).unwrap();
            let fabric = b.finish().unwrap();
            let found: Vec<u32> = torn_links(&fabric).map(|at| at.node.0).collect();
            assert_eq!(found, want.into_iter().collect::<Vec<_>>(), "{states:?}");
        };
        use PortState::{Active, Down, Init};
        check([Active, Active], None);
        check([Active, Init], None);
        check([Down, Down], None);
        check([Active, Down], Some(0));
        check([Down, Init], Some(1));
    }

    #[test]
    fn ports_of_a_switch_that_was_told_to_forget_what_changed_are_asked() {
        // For the second switch: whether it showed PortStateChange to the sweep, whether it does now, and which manager
        // it named.
        let check = |showed: bool, shows: bool, sm_lid: Lid, want: usize| {
            let [seen, now] = [(showed, sm_lid), (shows, Lid::NONE)].map(|(flag, sm_lid)| {
                let mut found = row();
                found[SECOND].switch.as_mut().unwrap().port_state_change = flag;
                found[SECOND].ports[0].info.as_mut().unwrap().sm_lid = sm_lid;
                inventory(found).fabric
            });
            let asked = cleared(&seen, &now);
            assert_eq!(asked.len(), want, "{showed} {shows} {sm_lid}");
            let second = now.find(guid(SECOND)).unwrap();
            assert!(
                asked
                    .iter()
                    .all(|at| at.node == second && at.port != PortNum::MANAGEMENT)
            );
        };
        check(true, false, Lid::NONE, 2);
        check(false, false, Lid::NONE, 0);
        // It shows it still, and the light sweep sees that.
        check(true, true, Lid::NONE, 0);
        // It got the manager's LID: ports that were DOWN are read anyway.
        check(true, false, Lid(9), 0);
    }

    #[test]
    fn switches_that_are_left_out_for_one_guid_are_lacking() {
        let check = |guid: Guid, want: bool| {
            let mut light = Light::default();
            assert!(light.note_twins(BTreeSet::from([guid])));
            assert!(!light.note_twins(BTreeSet::from([guid])));
            assert_eq!(light.lacks_twins(&inventory(row())), want, "{guid:?}");
        };
        check(Guid(99), true);
        // One of the two is there, and is asked.
        check(guid(SECOND), false);
    }
}
