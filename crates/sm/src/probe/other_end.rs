//! Ports that are asked about at the other end of their links.
//!
//! A switch's agent answers one question after another. Where it alone has said that something changed, so that any of
//! its links may be meant, the switches behind them are asked beside it, each about one: whose end is as it was, the
//! other is too. Nobody waits for their answers: its own agent goes on from the front and is asked about what they leave.

use selvedge_fabric::{NodeIdx, PortRef};
use selvedge_sim::Time;

use super::Probe;

/// So many are asked at once. If the switch at the other end of the link that was lost speaks up meanwhile, these were
/// asked in vain.
const AT_ONCE: usize = 4;

impl Probe {
    /// The other end of a link whose port waits to be asked, as its switch is busy answering.
    pub(super) fn other_end(&mut self, full: &[NodeIdx], now: Time) -> Option<PortRef> {
        let asked = self.beside.keys().filter(|far| self.open.contains_key(far));
        if self.is_check || asked.count() >= AT_ONCE {
            return None;
        }
        // The first one waits for nobody else. It comes next however far the others are, as the way to the other end may
        // be the link that was lost.
        let (near, far) = self.todo.iter().skip(1).find_map(|&near| {
            let far = self.end_to_ask(near)?;
            (!full.contains(&far.node)).then_some((near, far))
        })?;
        self.beside.insert(far, near);
        self.open.insert(far, now);
        Some(far)
    }

    /// The other end of a suspect's link to a switch that is none, if it may be asked.
    fn end_to_ask(&self, near: PortRef) -> Option<PortRef> {
        let fabric = &self.inventory.fabric;
        let port = fabric.port(near).filter(|port| port.is_up())?;
        let far = port.peer.filter(|far| fabric.switch_index(far.node).is_some())?;
        let is_suspect = |node: NodeIdx| self.suspects.contains(&node);
        let is_new = !self.known.contains(&far) && !self.open.contains_key(&far) && !self.beside.contains_key(&far);
        // Who has said nothing yet may be dead: that is found out in another way.
        let is_asked_about = is_suspect(near.node) && self.heard.contains(&near.node);
        let may_answer = !is_suspect(far.node) && !self.doubted.contains(&far.node);
        (is_new && is_asked_about && may_answer).then_some(far)
    }

    /// Its end of the link is as it was known: so is the port for which it was asked.
    pub(super) fn is_as_it_was(&mut self, far: PortRef) {
        if let Some(near) = self.beside.remove(&far)
            && !self.open.contains_key(&near)
        {
            self.known.insert(near);
            self.todo.retain(|&at| at != near);
        }
    }

    /// A port has answered itself: nobody waits for the other end.
    pub(super) fn has_answered(&mut self, near: PortRef) {
        let asked = self.beside.iter().filter(|(_, for_whom)| **for_whom == near);
        let asked: Vec<PortRef> = asked.map(|(&far, _)| far).collect();
        for far in asked {
            self.open.remove(&far);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;

    use selvedge_types::PortState;
    use selvedge_wire::PortInfo;

    use super::*;
    use crate::event::SweepReason;
    use crate::inventory::FoundPort;
    use crate::made::{FIRST, SECOND, guid, info, inventory, place, port, row};
    use crate::probe::Looked;

    /// Leaves behind a switch, from its port 2 on.
    const LEAVES: usize = 6;
    const AGENT_WINDOW: usize = 1;

    /// A look at the switch, which has just said that something changed; and its port, or that of a leaf.
    fn look() -> (Probe, impl Fn(usize, u8) -> PortRef) {
        let mut found = row();
        found.truncate(SECOND + 1);
        let leaf = found.pop().unwrap();
        let up = FoundPort {
            info: Some(info(PortState::Active)),
            ..FoundPort::default()
        };
        for i in 0..LEAVES {
            let (at, num) = (found.len(), port(2 + i as u8));
            let mut leaf = leaf.clone();
            (leaf.info.node_guid, leaf.info.port_guid) = (guid(at), guid(at));
            leaf.ports.truncate(2);
            (leaf.info.port_count, leaf.ports[0].guid) = (1, guid(at));
            leaf.ports[1].peer = Some((FIRST, num));
            leaf.route = found[FIRST].route.then(num).unwrap();
            let switch = &mut found[FIRST];
            switch.ports.resize(num.index() + 1, up.clone());
            switch.info.port_count = num.get();
            switch.ports[num.index()].peer = Some((at, port(1)));
            found.push(leaf);
        }
        let inventory = Arc::new(inventory(found));
        let mut probe = Probe::new(Arc::clone(&inventory), BTreeSet::new(), SweepReason::Interval, false);
        let switch = place(&inventory, FIRST, 0).node;
        probe.suspect(&[switch].into(), &[switch].into());
        (probe, move |at, num| place(&inventory, at, num))
    }

    fn asked(probe: &mut Probe) -> Vec<PortRef> {
        let question = || probe.next_question(AGENT_WINDOW, Time::ZERO);
        std::iter::from_fn(question).map(|(at, _, _)| at).collect()
    }

    fn active() -> PortInfo {
        info(PortState::Active)
    }

    #[test]
    fn once_a_switch_has_answered_others_are_asked_about_its_links() {
        let (mut probe, place) = look();
        assert_eq!(asked(&mut probe), [place(FIRST, 2)]);
        probe.answered(place(FIRST, 2), Some(&active()), Time::ZERO);
        let leaf = |num: u8| place(usize::from(num), 1);
        assert_eq!(asked(&mut probe), [place(FIRST, 3), leaf(5), leaf(6), leaf(7)]);
        // What they say of their ends holds for the other.
        assert_eq!(probe.answered(leaf(5), Some(&active()), Time::ZERO), Looked::Further);
        // Of those that say nothing, or not yet, the switch is asked itself.
        assert_eq!(probe.answered(leaf(6), None, Time::ZERO), Looked::Further);
        for num in [3, 4, 6, 7] {
            probe.answered(place(FIRST, num), Some(&active()), Time::ZERO);
            let next = match num {
                3 => 4,
                4 => 6,
                6 => 7,
                _ => 1,
            };
            assert_eq!(asked(&mut probe), [place(FIRST, next)]);
        }
        assert_eq!((probe.silent, probe.is_strange), (0, false));
    }

    #[test]
    fn a_lost_link_is_found_at_either_end() {
        for is_near in [true, false] {
            let (mut probe, place) = look();
            asked(&mut probe);
            probe.answered(place(FIRST, 2), Some(&active()), Time::ZERO);
            asked(&mut probe);
            let at = if is_near { place(FIRST, 3) } else { place(5, 1) };
            let down = PortInfo {
                state: Some(PortState::Down),
                ..PortInfo::default()
            };
            assert_eq!(probe.answered(at, Some(&down), Time::ZERO), Looked::Explained);
            assert_eq!(probe.damage.lost, [at].into());
        }
    }

    #[test]
    fn nobody_waits_for_the_other_end() {
        let (mut probe, place) = look();
        let mut left = 1 + LEAVES;
        loop {
            let own: Vec<PortRef> = asked(&mut probe);
            let Some(at) = own.into_iter().find(|at| at.node == place(FIRST, 0).node) else {
                break;
            };
            probe.answered(at, Some(&active()), Time::ZERO);
            left -= 1;
        }
        assert_eq!(left, 0);
        assert!(asked(&mut probe).is_empty() && probe.open.is_empty() && probe.is_over());
        // The answer comes after all, or none does.
        probe.answered(place(4, 1), Some(&active()), Time::ZERO);
        probe.answered(place(5, 1), None, Time::ZERO);
        assert_eq!((probe.silent, probe.is_strange), (0, false));
    }
}
