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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use selvedge_types::LidRange;
    use selvedge_wire::{Method, PortInfo};

    use super::*;
    use crate::made::{FAR, FIRST, NEAR, SECOND, empty_plan, inventory, master, place, row};

    /// LIDs 1 to 4 of a host, two switches in a row, and a host; the manager sits at LID 1.
    fn sm(disable_babbling_ports: bool) -> Sm {
        let mut sm = master();
        let mut plan = empty_plan();
        let known = inventory(row());
        for (base, (at, num)) in (1..).map(Lid).zip([(NEAR, 1), (FIRST, 0), (SECOND, 0), (FAR, 1)]) {
            plan.lids
                .insert(place(&known, at, num), LidRange::single(base))
                .unwrap();
        }
        sm.config.disable_babbling_ports = disable_babbling_ports;
        (sm.inventory, sm.view.plan) = (Some(Arc::new(known)), Some(Arc::new(plan)));
        sm
    }

    /// What comes of babble: hops and port of the Set, and codes of events.
    fn check(is_wanted: bool, lid: u16, port: Option<u8>, want: Option<(u8, u32)>, code: Option<&str>) {
        let mut sm = sm(is_wanted);
        let mut out = Vec::new();
        let lid = Lid(lid);
        sm.disable_babbler(lid, port, &mut out);
        let (mut sets, mut codes) = (Vec::new(), Vec::new());
        for output in out {
            match output {
                Output::Send { datagram, .. } if datagram.mad.method() == Method::Set => {
                    let info: PortInfo = datagram.mad.read().unwrap();
                    assert_eq!((info.phys_state, info.state), (Some(PhysState::Disabled), None));
                    sets.push((datagram.mad.hop_count(), datagram.mad.modifier()));
                }
                Output::Event(event) => codes.push(event.code()),
                _ => {}
            }
        }
        assert_eq!(sets, Vec::from_iter(want), "LID {lid}, port {port:?}");
        assert_eq!(codes, Vec::from_iter(code), "LID {lid}, port {port:?}");
    }

    #[test]
    fn only_links_of_hosts_are_disabled_and_only_if_that_is_wanted() {
        let (done, not) = (Some("SLV-SM-0093"), Some("SLV-SM-0094"));
        // The far host: at its switch, two hops away.
        check(true, 4, None, Some((2, 2)), done);
        check(true, 4, Some(1), Some((2, 2)), done);
        // Its switch names the port.
        check(true, 3, Some(2), Some((2, 2)), done);
        check(true, 3, None, None, not);
        check(true, 3, Some(0), None, not);
        check(true, 3, Some(1), None, not);
        check(true, 3, Some(9), None, not);
        // The manager's own port, from both sides.
        check(true, 1, None, None, not);
        check(true, 2, Some(1), None, not);
        // Nothing that is known, by directed route, several sources.
        for lid in [9, 0xFFFF, 0] {
            check(true, lid, None, None, not);
        }
        check(false, 4, None, None, None);
    }
}
