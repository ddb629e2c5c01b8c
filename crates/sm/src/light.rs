//! The light sweep: one SwitchInfo a switch, our own port, and a knock at every port whose peer was silent, or is not
//! who it should be: the other end of its link says that it is down.

use std::collections::BTreeSet;
use std::sync::Arc;

use selvedge_fabric::{Fabric, NodeIdx, Port, PortRef};
use selvedge_mad::AgentId;
use selvedge_planner::{Inventory, PortReason};
use selvedge_sim::Time;
use selvedge_types::{Guid, PortNum, PortState};
use selvedge_wire::{Attribute, AttributeId, DirectedRoute, Mad, NodeInfo, PortInfo, SwitchInfo};

use crate::config::Mode;
use crate::core::{Sm, ok};
use crate::election::Role;
use crate::event::SweepReason;
use crate::io::Output;
use crate::stage::{Stage, Token};
use crate::{election, readback, smp};

impl Sm {
    /// Everything that a light sweep asked is answered.
    pub(crate) fn light_sweep_settled(&mut self, changed: bool, now: Time) {
        if !self.second_look.is_alone() {
            if self.begin_reading_back(changed) {
                self.stage = Stage::LightSweep { changed };
                return;
            }
            self.tell_read_back(readback::In::LightSweepEnds);
            self.put_off = None;
        }
        let is_first = self.second_look.is_first();
        if changed {
            self.sweep_due = Some(SweepReason::LightSweep);
        } else {
            self.second_look.end();
            self.rest(now);
        }
        if !is_first {
            self.unwatched.clear();
            if !changed {
                self.read_copies_back();
            }
        }
    }

    /// Asks every switch whether a port changed its state; goes for a full sweep at once where that says too little.
    pub(crate) fn begin_light_sweep(&mut self, out: &mut Vec<Output>) {
        self.next_sweep = None;
        // Should the next trap come before it is through.
        self.put_off = self.config.sweep_interval.map(|interval| self.now + interval / 4);
        self.tell_read_back(readback::In::LightSweepDue);
        let inventory = match (&self.inventory, self.config.mode) {
            // The master clears PortStateChange: beside it, only looking at everything shows what changed.
            (_, Mode::Watch) | (None, _) => {
                self.sweep_due.get_or_insert(SweepReason::Interval);
                return;
            }
            // What failed, or found no plan, is tried again; what nobody can explain has changed since it was seen.
            (Some(_), _)
                if self.view.failed > 0
                    || self.has_unexplained()
                    || (self.view.plan.is_none() && !self.is_cut_off()) =>
            {
                self.sweep_due.get_or_insert(SweepReason::Again);
                return;
            }
            (Some(_), _) if self.given_up.is_due(self.now) => {
                self.sweep_due.get_or_insert(SweepReason::LidsFree);
                return;
            }
            (Some(inventory), Mode::Manage | Mode::DryRun) => Arc::clone(inventory),
        };
        // Planned around already, and there is no hurry: now it is looked for, and forgotten.
        if inventory.lacks_switches() || self.lacks_twins(&inventory) {
            self.sweep_due.get_or_insert(SweepReason::Again);
            return;
        }
        self.silent.forget();
        self.ask_own_port(&inventory);
        self.ask_switches(&inventory);
        if self.config.mode == Mode::Manage {
            self.run_election(election::In::LightSweepBegun, out);
        }
        self.ask_unwatched(&inventory);
        self.ask_doubted(&inventory);
        self.knock(&inventory);
        self.join_second_look();
        self.ask_who_may_have_been_off(&inventory);
        self.tell_read_back(readback::In::LightSweepBegins);
        if self.is_read_back_overdue() {
            // At once: whoever does not answer the other questions, and the next trap, would keep it waiting.
            self.begin_reading_back(false);
        }
        self.stage = Stage::LightSweep { changed: false };
    }

    /// True if switches are left out, and what only they lead to, as two show one GUID. Whoever shows another's may be
    /// behind the other one: no door of ours leads there. Or if the one of two that was kept has no link any more.
    fn lacks_twins(&self, inventory: &Inventory) -> bool {
        let fabric = &inventory.fabric;
        let has_link = |node: NodeIdx| {
            let mut ports = fabric.node(node).external_ports();
            ports.any(|(_, port)| port.is_up() && port.peer.and_then(|far| fabric.port(far)).is_some_and(Port::is_up))
        };
        let mut duplicates = self.duplicates.iter();
        duplicates.any(|&guid| fabric.find(guid).is_none_or(|node| !has_link(node)))
    }

    /// True if a port of the plan in force is not ACTIVE, and nothing that is known says why.
    fn has_unexplained(&self) -> bool {
        let mut ports = self.view.ports.iter();
        self.role() == Role::Master && ports.any(|port| port.reason == PortReason::Unexplained)
    }

    /// Asks for our own port: if its cable was moved, everybody else is somewhere else.
    pub(crate) fn ask_own_port(&mut self, inventory: &Inventory) {
        let at = inventory.local;
        let m_key = self.config.policy.m_key;
        let own = smp::get(
            AttributeId::PORT_INFO,
            at.port.get().into(),
            &DirectedRoute::LOCAL,
            m_key,
        );
        self.exchange.submit(AgentId(at.node.0), (Token::Held(at), own));
    }

    /// Asks every switch whether something changed.
    pub(crate) fn ask_switches(&mut self, inventory: &Inventory) {
        for &node in inventory.fabric.switches().iter() {
            let route = &inventory.agents[node].route;
            let get = smp::get(AttributeId::SWITCH_INFO, 0, route, self.config.policy.m_key);
            self.exchange.submit(AgentId(node.0), (Token::Light(node), get));
        }
    }

    /// A plan is in force: `seen` was found, `now` is. Ports of which nobody may have been told what happened to them
    /// are to be asked. A repair begins where traps arrive, and what it clears it has looked at; only where some Set
    /// had to be repeated may its first copy come later, and clear what has happened since.
    pub(crate) fn watch_ports(&mut self, seen: &Fabric, now: &Fabric) {
        if !self.is_repairing() && !self.is_balancing() {
            self.unwatched.clear();
        }
        self.unwatched.extend(unwatched(seen, now));
        if !self.is_repairing() || self.has_repeated_a_set() {
            self.unwatched.extend(cleared(seen, now));
        }
        // Nobody answers who is gone, and whoever waits for him hears less of others.
        let has_link = |at: &PortRef| now.node(at.node).external_ports().any(|(_, port)| port.is_up());
        self.unwatched.retain(has_link);
        self.unwatched.sort_unstable();
        self.unwatched.dedup();
    }

    /// Asks for ports of which nobody may have been told what happened to them while a plan was on its way.
    pub(crate) fn ask_unwatched(&mut self, inventory: &Inventory) {
        for &at in &self.unwatched {
            let route = &inventory.agents[at.node].route;
            let get = smp::get_port(&inventory.fabric, at, route, self.config.policy.m_key);
            self.exchange.submit(AgentId(at.node.0), (Token::Unwatched(at), get));
        }
    }

    /// What was asked in a light sweep beside switches has ended; true if something has changed.
    pub(crate) fn light_look_ended(&mut self, token: Token, answer: Option<&Mad>, out: &mut Vec<Output>) -> bool {
        match token {
            Token::ReadBack(id) => self.was_read_back(id, answer, out),
            Token::AtLink(at) => self.is_other_behind(at, answer),
            _ => differs(token, answer, self.inventory.as_deref(), &self.duplicates),
        }
    }

    /// Asks ports that call themselves otherwise who they are.
    fn ask_doubted(&mut self, inventory: &Inventory) {
        for guid in std::mem::take(&mut self.doubted) {
            let Some(at) = inventory.fabric.find_port(guid) else {
                continue;
            };
            let route = inventory.agents[at.node].route_to(at.port);
            let get = smp::get(AttributeId::NODE_INFO, 0, route, self.config.policy.m_key);
            self.exchange.submit(AgentId(at.node.0), (Token::Whose(at), get));
        }
    }

    /// Asks who is behind ports that are left out: somebody may answer by now, or show his own GUID. Whatever state
    /// the port is in: it may have been set up before its peer fell silent.
    fn knock(&mut self, inventory: &Inventory) {
        let doors = inventory.agents.iter_enumerated().flat_map(|(node, agent)| {
            let is_switch = inventory.fabric.node(node).is_switch();
            agent.troubles.iter().filter_map(move |(&port, why)| {
                let token = match why {
                    PortReason::PeerSilent => Token::Knock,
                    PortReason::DuplicateGuid => Token::Twin,
                    _ => return None,
                };
                let is_seat = node == inventory.local.node && port == inventory.local.port;
                let leads_on = (is_switch || is_seat) && port != PortNum::MANAGEMENT;
                let route = if leads_on {
                    agent.route.then(port)
                } else {
                    Some(*agent.route_to(port))
                };
                Some((token, route?))
            })
        });
        // Of two with one GUID the first may be the one that showed another's.
        let first = self.duplicates.iter().filter_map(|&guid| inventory.fabric.find(guid));
        let first = first.map(|node| (Token::Twin, inventory.agents[node].route));
        for (token, route) in doors.chain(first).collect::<Vec<_>>() {
            let get = smp::get(AttributeId::NODE_INFO, 0, &route, self.config.policy.m_key);
            self.exchange.submit(AgentId::UNKNOWN, (token, get));
        }
        for at in torn_links(&inventory.fabric) {
            let far = inventory.fabric.peer(at);
            self.ask_who(inventory, far.map(|far| far.node));
            if let Some((far, agent)) = far.and_then(|far| Some((far, inventory.agents.get(far.node)?))) {
                let get = smp::get_port(
                    &inventory.fabric,
                    far,
                    agent.route_to(far.port),
                    self.config.policy.m_key,
                );
                self.exchange.submit(AgentId(far.node.0), (Token::Torn(far), get));
            }
            let leads_on = inventory.fabric.node(at.node).is_switch() || at == inventory.local;
            let route = inventory.agents[at.node].route.then(at.port).filter(|_| leads_on);
            let ask = |route| smp::get(AttributeId::NODE_INFO, 0, &route, self.config.policy.m_key);
            if let Some(get) = route.map(ask) {
                self.exchange.submit(AgentId::UNKNOWN, (Token::AtLink(at), get));
            }
        }
    }

    /// Asks by its own way who a node is. Of two that showed one GUID the other one may have answered behind a link
    /// of which this one knows nothing.
    fn ask_who(&mut self, inventory: &Inventory, node: Option<NodeIdx>) {
        let agent = node.and_then(|node| Some((node, inventory.agents.get(node)?)));
        if let Some((node, agent)) = agent {
            let get = smp::get(AttributeId::NODE_INFO, 0, &agent.route, self.config.policy.m_key);
            self.exchange.submit(AgentId(node.0), (Token::Who(node), get));
        }
    }

    /// What a switch says in a light sweep.
    pub(crate) fn switch_said(&mut self, node: NodeIdx, answer: Option<&Mad>) {
        let was_reset = self.was_reset(node, answer);
        match says_changed(answer) {
            Some(true) => self.suspect_flagged(node),
            Some(false) => {}
            None => self.stage = Stage::LightSweep { changed: true },
        }
        if was_reset {
            self.stage = Stage::LightSweep { changed: true };
        }
    }

    /// True if a switch has been off since it was given its tables: it looks up no LID.
    fn was_reset(&self, node: NodeIdx, answer: Option<&Mad>) -> bool {
        let known = self.inventory.as_ref().and_then(|i| i.fabric.nodes().get(node));
        let top = ok(answer).and_then(|mad| SwitchInfo::parse(mad.smp_data()).ok());
        known.is_some_and(|known| known.switch_settings.linear_top > 0)
            && top.is_some_and(|info| info.linear_top.0 == 0)
    }
}

/// Ends of links that are up while the other end is down: whoever was seen there showed another's GUID, or has lost it
/// since.
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

/// DOWN ports of switches that knew of no manager, or of another one, while they were discovered: whatever happened
/// there until they knew us was told to nobody, and clearing PortStateChange has wiped it out. So it is with ports that
/// were ACTIVE already, where it has been cleared: the switch may have been rebooted between two answers.
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

/// Ports of switches that knew us, and whose PortStateChange the plan of a sweep has cleared: whatever happened there
/// after the sweep asked them is wiped out with it. Their traps may say nothing: who has one that is not repressed yet
/// sends no other like it, and it may be repressed for what had happened before.
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

/// True if a switch has learnt whom to send traps to.
fn learnt_of_us(node: NodeIdx, seen: &Fabric, now: &Fabric) -> bool {
    let port = PortNum::MANAGEMENT;
    let sm_lid = |fabric: &Fabric| fabric.port(PortRef { node, port }).map(|p| p.settings.sm_lid);
    sm_lid(seen) != sm_lid(now)
}

/// True if an answer (or its absence) means that the fabric is not what it was.
pub fn differs(token: Token, answer: Option<&Mad>, inventory: Option<&Inventory>, duplicates: &BTreeSet<Guid>) -> bool {
    let node = || ok(answer).and_then(|mad| NodeInfo::parse(mad.smp_data()).ok());
    match token {
        Token::Held(at) => match ok(answer).map(|mad| PortInfo::parse(mad.smp_data())) {
            Some(Ok(info)) => inventory.is_none_or(|inventory| is_other_port(at, &info, inventory)),
            Some(Err(_)) | None => true,
        },
        // A link that came up before its switch knew whom to tell, or changed before the switch was told to forget it.
        Token::Unwatched(at) => match ok(answer).map(|mad| PortInfo::parse(mad.smp_data())) {
            Some(Ok(info)) => is_other_link(at, &info, inventory),
            Some(Err(_)) | None => true,
        },
        // What it said before may have been of a flipped bit.
        Token::Torn(at) => {
            let info = ok(answer).and_then(|mad| PortInfo::parse(mad.smp_data()).ok());
            info.is_some_and(|info| is_other_link(at, &info, inventory))
        }
        // Somebody answers where nobody did.
        Token::Knock => node().is_some(),
        // A node shows another GUID than those that two have.
        Token::Twin => node().is_some_and(|info| !duplicates.contains(&info.node_guid)),
        // Who says nothing is asked by other questions, too.
        Token::Who(at) => {
            let known = inventory.and_then(|inventory| inventory.fabric.nodes().get(at));
            node()
                .zip(known)
                .is_some_and(|(info, known)| info.node_guid != known.guid)
        }
        // Who is asked by the way to a port tells the GUID of that port.
        Token::Whose(at) => {
            let known = inventory.and_then(|inventory| inventory.fabric.port(at));
            node()
                .zip(known)
                .is_some_and(|(info, known)| info.port_guid != known.guid)
        }
        Token::Light(_)
        | Token::Discover(_)
        | Token::SmInfo(_)
        | Token::Table { .. }
        | Token::Lanes(_)
        | Token::Set(_)
        | Token::ReadBack(_)
        | Token::Probe(_)
        | Token::Block(_)
        | Token::AtLink(_)
        | Token::Behind(..) => false,
    }
}

/// Whether a switch says that a port changed its state; `None`: it says nothing.
fn says_changed(answer: Option<&Mad>) -> Option<bool> {
    let info = SwitchInfo::parse(ok(answer)?.smp_data()).ok()?;
    Some(info.port_state_change)
}

/// True if the link of a port is not what it was.
fn is_other_link(at: PortRef, info: &PortInfo, inventory: Option<&Inventory>) -> bool {
    let state = info.state.unwrap_or(PortState::Down);
    let known = inventory.and_then(|inventory| inventory.fabric.port(at));
    known.is_none_or(|known| state != known.link.state || info.is_up() != known.is_up())
}

/// True if our own link went up or down, or somebody else made himself master of this port: whoever took us over while
/// we were cut off, or a manager that was not found in time. Of a switch's port 0: if it has been off its LID is gone.
fn is_other_port(at: PortRef, info: &PortInfo, inventory: &Inventory) -> bool {
    let Some(known) = inventory.fabric.port(at) else {
        return true;
    };
    let state = info.state.unwrap_or(PortState::Down);
    (state, info.lid, info.sm_lid) != (known.link.state, known.settings.lids.base, known.settings.sm_lid)
}

#[cfg(test)]
mod tests {
    use selvedge_fabric::{FabricBuilder, LinkState, Node};
    use selvedge_types::{Lid, NodeKind, PhysState};
    use selvedge_wire::Method;

    use super::*;
    use crate::made::{SECOND, empty_plan, guid, info, inventory, master, place, row};
    use crate::view::PortReport;

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
        // Of the second switch: whether it showed PortStateChange to the sweep, and does now, and who its manager was.
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
        // It learnt of us: ports that were DOWN are asked for anyway.
        check(true, false, Lid(9), 0);
    }

    #[test]
    fn a_port_that_nobody_told_of_differs_if_its_state_does() {
        let known = inventory(row());
        let at = place(&known, SECOND, 1);
        let check = |state: Option<PortState>, want: bool| {
            let mad = state.map(|state| {
                let mut mad = Mad::directed(Method::GetResp, AttributeId::PORT_INFO, 1, &DirectedRoute::LOCAL);
                mad.set_smp_data(&info(state).emit());
                mad
            });
            let is_other = differs(Token::Unwatched(at), mad.as_ref(), Some(&known), &BTreeSet::new());
            assert_eq!(is_other, want, "{state:?}");
        };
        check(Some(PortState::Active), false);
        check(Some(PortState::Init), true);
        check(Some(PortState::Down), true);
        check(None, true);
    }

    #[test]
    fn a_port_is_another_one_if_its_lid_or_state_is() {
        let known = inventory(row());
        // Which port, and what it answers.
        let check = |at: PortRef, answer: Option<PortInfo>, want: bool| {
            let mad = answer.map(|info| {
                let modifier = at.port.get().into();
                let mut mad = Mad::directed(Method::GetResp, AttributeId::PORT_INFO, modifier, &DirectedRoute::LOCAL);
                mad.set_smp_data(&info.emit());
                mad
            });
            let is_other = differs(Token::Held(at), mad.as_ref(), Some(&known), &BTreeSet::new());
            assert_eq!(is_other, want, "{at:?} {answer:?}");
        };
        let with_lid = PortInfo {
            lid: Lid(7),
            ..info(PortState::Active)
        };
        for at in [known.local, place(&known, SECOND, 0)] {
            check(at, Some(info(PortState::Active)), false);
            check(at, Some(info(PortState::Init)), true);
            check(at, Some(with_lid), true);
            check(at, None, true);
        }
    }

    #[test]
    fn a_node_is_asked_by_its_own_way_who_it_is() {
        let known = inventory(row());
        // A port's GUID is another thing than its node's.
        let port = place(&known, SECOND, 0);
        let (node, own) = (known.fabric.node(port.node).guid, known.fabric.port(port).unwrap().guid);
        let check = |token: Token, guids: [Guid; 2], want: bool| {
            let mut mad = Mad::directed(Method::GetResp, AttributeId::NODE_INFO, 0, &DirectedRoute::LOCAL);
            let [node_guid, port_guid] = guids;
            let info = NodeInfo {
                node_guid,
                port_guid,
                ..row()[SECOND].info
            };
            mad.set_smp_data(&info.emit());
            let is_other = differs(token, Some(&mad), Some(&known), &BTreeSet::new());
            assert_eq!(is_other, want, "{guids:?}");
        };
        let other = Guid(0x77);
        check(Token::Who(port.node), [node, own], false);
        check(Token::Who(port.node), [other, own], true);
        check(Token::Whose(port), [node, own], false);
        check(Token::Whose(port), [node, other], true);
    }

    #[test]
    fn what_nobody_explains_is_swept_for() {
        let check = |reason: PortReason, want: Option<SweepReason>| {
            let mut sm = master();
            let known = Arc::new(inventory(row()));
            let port = place(&known, SECOND, 2);
            (sm.inventory, sm.view.plan) = (Some(known), Some(Arc::new(empty_plan())));
            sm.view.ports = Arc::new(vec![PortReport { port, reason }]);
            sm.begin_light_sweep(&mut Vec::new());
            assert_eq!(sm.sweep_due, want, "{reason:?}");
        };
        check(PortReason::Unexplained, Some(SweepReason::Again));
        check(PortReason::NoLink, None);
    }

    #[test]
    fn switches_that_are_left_out_for_one_guid_are_swept_for() {
        let check = |guid: Guid, want: Option<SweepReason>| {
            let mut sm = master();
            let known = Arc::new(inventory(row()));
            (sm.inventory, sm.view.plan) = (Some(known), Some(Arc::new(empty_plan())));
            sm.duplicates.insert(guid);
            sm.begin_light_sweep(&mut Vec::new());
            assert_eq!(sm.sweep_due, want, "{guid:?}");
        };
        check(Guid(99), Some(SweepReason::Again));
        // One of the two is there, and is asked.
        check(guid(SECOND), None);
    }
}
