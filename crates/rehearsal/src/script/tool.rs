//! Actions of a diagnostic tool or another program upon the fabric.

use std::collections::{BTreeMap, VecDeque};

use selvedge_chassis::{Chassis, PortIdx};
use selvedge_types::{Lid, Lmc, Sl, Vl};
use selvedge_wire::{
    Address, Attribute, AttributeId, Bits, Datagram, DirectedRoute, Mad, Method, PortInfo, SlToVl, SmControl, SmInfo,
    SmState,
};

use super::ScriptError;
use super::run::{Runner, emulator};
use super::show::port_named;
use super::words::{number, pair, syntax};
use crate::subnet::{is_up, ports_of};

impl Runner<'_> {
    /// Prints SMInfo as the tool `sminfo` reads it.
    pub(super) fn sm_info(&mut self, from: &str, to: &str, out: &mut Vec<String>) -> Result<(), ScriptError> {
        let answer = self.request(from, to, |route| {
            Mad::directed(Method::Get, AttributeId::SM_INFO, 0, route)
        })?;
        let text = match answer.map(|mad| SmInfo::parse(mad.smp_data())) {
            Some(Ok(info)) => format!("{} at {}, priority {}", info.state, info.guid, info.priority),
            Some(Err(error)) => error.to_string(),
            None => "no answer".to_owned(),
        };
        out.push(text);
        Ok(())
    }

    /// Sends SubnSet(SMInfo) as a master would, in the name of the sending port or of another port.
    pub(super) fn tell(
        &mut self,
        from: &str,
        to: &str,
        (control, values): (&str, &[&str]),
        out: &mut Vec<String>,
    ) -> Result<(), ScriptError> {
        const COMMANDS: &str = "handover, acknowledge, disable, standby, discover or a number";
        let modifier = match control {
            "handover" => SmControl::Handover.modifier(),
            "acknowledge" => SmControl::Acknowledge.modifier(),
            "disable" => SmControl::Disable.modifier(),
            "standby" => SmControl::Standby.modifier(),
            "discover" => SmControl::Discover.modifier(),
            other => number(other).map_err(|_| syntax(other, COMMANDS))?,
        };
        let mut says = SmInfo {
            sm_key: 1,
            state: SmState::Master,
            ..SmInfo::default()
        };
        let mut port = from;
        for value in values {
            match pair(value)? {
                ("as", other) => port = other,
                ("state", "standby") => says.state = SmState::Standby,
                ("key", key) => says.sm_key = number(key)?,
                _ => return Err(syntax(value, "as=PORT, state=standby or key=N")),
            }
        }
        let chassis = self.world()?.emulator().chassis();
        let at = port_named(chassis, port)?;
        says.guid = chassis.fabric().port(at).map(|port| port.guid).unwrap_or_default();
        let answer = self.request(from, to, |route| {
            let mut mad = Mad::directed(Method::Set, AttributeId::SM_INFO, modifier, route);
            mad.write(&says);
            mad
        })?;
        let text = match answer.map(|mad| (mad.status(), SmInfo::parse(mad.smp_data()))) {
            Some((status, Ok(info))) => format!("status {}, {}", status.0, info.state),
            Some((_, Err(error))) => error.to_string(),
            None => "no answer".to_owned(),
        };
        out.push(text);
        Ok(())
    }

    /// Changes a port behind the managers' backs.
    pub(super) fn tool_set(
        &mut self,
        from: &str,
        port: &str,
        values: &[&str],
        out: &mut Vec<String>,
    ) -> Result<(), ScriptError> {
        let at = port_named(self.world()?.emulator().chassis(), port)?;
        let modifier = u32::from(at.port.get());
        let get = self.request(from, port, |route| {
            Mad::directed(Method::Get, PortInfo::ID, modifier, route)
        })?;
        let Some(Ok(mut info)) = get.map(|mad| PortInfo::parse(mad.smp_data())) else {
            out.push("no answer".to_owned());
            return Ok(());
        };
        let m_key = info.m_key;
        info.state = None;
        info.phys_state = None;
        for value in values {
            match pair(value)? {
                ("lid", lid) => info.lid = Lid(number(lid)?),
                ("lmc", lmc) => info.lmc = Lmc::new(number(lmc)?).unwrap_or_default(),
                ("m_key", key) => info.m_key = number(key)?,
                ("protect", bits) => info.m_key_protect = Bits::saturating(number(bits)?),
                ("lease", seconds) => info.m_key_lease = number(seconds)?,
                _ => return Err(syntax(value, "lid=, lmc=, m_key=, protect= or lease=")),
            }
        }
        let set = self.request(from, port, |route| {
            let mut mad = Mad::directed(Method::Set, PortInfo::ID, modifier, route);
            mad.set_m_key(m_key);
            mad.write(&info);
            mad
        })?;
        out.push(set.map_or_else(|| "no answer".to_owned(), |mad| format!("status {}", mad.status().0)));
        Ok(())
    }

    /// Puts all packets that a node itself sends by a port on one lane, whatever their level, without the managers'
    /// knowledge.
    pub(super) fn tool_lanes(
        &mut self,
        from: &str,
        port: &str,
        lane: &str,
        out: &mut Vec<String>,
    ) -> Result<(), ScriptError> {
        let chassis = self.world()?.emulator().chassis();
        let at = port_named(chassis, port)?;
        let modifier = match chassis.fabric().node(at.node).is_switch() {
            true => SlToVl::modifier(0, at.port.get()),
            false => 0,
        };
        let lane = Vl::new(number(lane)?).ok_or_else(|| syntax(lane, "a lane, 0 to 15"))?;
        let row = SlToVl { vls: [lane; Sl::COUNT] };
        let set = self.request(from, port, |route| {
            let mut mad = Mad::directed(Method::Set, SlToVl::ID, modifier, route);
            mad.write(&row);
            mad
        })?;
        out.push(set.map_or_else(|| "no answer".to_owned(), |mad| format!("status {}", mad.status().0)));
        Ok(())
    }

    /// Sends a request along the shortest route from one end port to a port, and waits for the answer.
    fn request(
        &mut self,
        from: &str,
        to: &str,
        mad: impl FnOnce(&DirectedRoute) -> Mad,
    ) -> Result<Option<Mad>, ScriptError> {
        let world = self.world_mut()?;
        let chassis = world.emulator().chassis();
        let source: selvedge_emulator::PortName = from.parse().map_err(emulator)?;
        let source = source.end_port(chassis.fabric()).map_err(emulator)?;
        let target = port_named(chassis, to)?;
        let ends = chassis.port_idx(source).zip(chassis.port_idx(target));
        let Some(route) = ends.and_then(|(source, target)| shortest(chassis, source, target)) else {
            return Ok(None);
        };
        let request = Datagram {
            address: Address::DIRECTED,
            mad: mad(&route),
        };
        Ok(world.ask(from, &request)?.map(|answer| answer.mad))
    }
}

/// Returns the shortest route over links that are up; it enters a channel adapter by the target port.
fn shortest(chassis: &Chassis, source: PortIdx, target: PortIdx) -> Option<DirectedRoute> {
    let target_node = chassis.wire(target).node();
    let is_there = |port: PortIdx| match chassis.is_switch(target_node) {
        true => chassis.wire(port).node() == target_node,
        false => port == target,
    };
    let mut routes = BTreeMap::from([(source, DirectedRoute::LOCAL)]);
    let mut queue = VecDeque::from([source]);
    while let Some(at) = queue.pop_front() {
        let route = routes[&at];
        if is_there(at) {
            return Some(route);
        }
        let node = chassis.wire(at).node();
        let exits: Vec<PortIdx> = match chassis.is_switch(node) {
            true => ports_of(chassis, node).collect(),
            false if at == source => vec![at],
            false => Vec::new(),
        };
        for exit in exits.into_iter().filter(|&exit| is_up(chassis, exit)) {
            let (Some(peer), Some(route)) = (chassis.wire(exit).peer(), route.then(chassis.wire(exit).num())) else {
                continue;
            };
            if let std::collections::btree_map::Entry::Vacant(new) = routes.entry(peer) {
                new.insert(route);
                queue.push_back(peer);
            }
        }
    }
    None
}
