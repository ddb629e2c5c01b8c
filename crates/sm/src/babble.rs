//! Disables the port of a host that babbles, if the operator's settings ask for it.
//!
//! The Set goes to the end of the host's link that is nearer to the manager. No judge is asked: the operator has
//! decided, and the fabric loses a link as if its cable were pulled. A repair follows. Links between switches stay:
//! `flap_downs` deals with those.

use selvedge_fabric::PortRef;
use selvedge_types::{Lid, PhysState, PortNum};
use selvedge_wire::Datagram;

use crate::config::Mode;
use crate::core::Sm;
use crate::event::Event;
use crate::intake::IntakeEvent;
use crate::io::Output;
use crate::smp;
use crate::view::Role;

impl Sm {
    /// Disables the port of a source that babbles. `named` is the port of its node that its traps name.
    pub(crate) fn disable_babbler(&mut self, lid: Lid, named: Option<u8>, out: &mut Vec<Output>) {
        let is_wanted = self.config.disable_babbling_ports && self.config.mode == Mode::Manage;
        if !is_wanted || self.view.role != Role::Master {
            return;
        }
        let event = match self.babbling_end(lid, named) {
            Ok((near, set)) => {
                self.send_unasked(set, out);
                let what = self
                    .inventory
                    .as_ref()
                    .map(|i| i.fabric.port_name(near))
                    .unwrap_or_default();
                IntakeEvent::Disabled { lid, what }
            }
            Err(why) => IntakeEvent::NotDisabled { lid, why },
        };
        out.push(Output::Event(Event::Intake(event)));
    }

    /// Returns the port to disable and the Set for it, or why there is none.
    fn babbling_end(&self, lid: Lid, named: Option<u8>) -> Result<(PortRef, Datagram), &'static str> {
        let plan = self.view.plan.as_ref().ok_or("no plan is in force")?;
        let inventory = self.inventory.as_ref().ok_or("no sweep has ended")?;
        let fabric = &inventory.fabric;
        let source = plan.lids.owner(lid).ok_or("no port of the plan has this LID")?;
        let is_switch = |at: PortRef| fabric.switch_index(at.node).is_some();
        let far = match named.and_then(PortNum::new).filter(|port| *port != PortNum::MANAGEMENT) {
            Some(port) if is_switch(source) => PortRef {
                node: source.node,
                port,
            },
            _ if is_switch(source) => return Err("it is a switch, and its traps name no port"),
            _ => source,
        };
        let peer = fabric.peer(far).ok_or("its port has no link")?;
        if is_switch(far) && is_switch(peer) {
            return Err("the link is one between switches");
        }
        let own = inventory.local.node;
        if own == far.node || own == peer.node && !is_switch(peer) {
            return Err("it is the manager's own port");
        }
        let hops = |at: PortRef| inventory.agents[at.node].route.hops();
        let near = if hops(peer) <= hops(far) { peer } else { far };
        let seen = inventory.port_info(near).ok_or("its state is not known")?;
        let settings = &fabric.port(near).ok_or("its state is not known")?.settings;
        let mut info = smp::port_info(seen, settings, None);
        info.phys_state = Some(PhysState::Disabled);
        let route = &inventory.agents[near.node].route;
        let set = smp::set(
            &info,
            smp::port_modifier(seen, near.port),
            route,
            self.config.policy.m_key,
        );
        Ok((near, set.datagram()))
    }
}
