//! Heavy sweeps that are repeated because an agent did not answer.

use selvedge_fabric::{Fabric, PortRef};
use selvedge_planner::held::has_silent_link;
use selvedge_planner::{Inventory, PortReason};
use selvedge_types::PortNum;
use selvedge_verify::phases;

/// Number of sweeps that a manager repeats after its start, or when it takes over, because an agent does not answer.
/// After that, the agent counts as hung.
const LOOKS_MAX: u32 = 2;
/// Largest number of sweeps that are repeated if a switch answered, but not for one of its ports. Then the switch does
/// not hang, and only the answer was lost.
const LOOKS_AT_PORTS_MAX: u32 = 8;

/// Decides how a manager that has just started or takes over treats missing answers: it does not know the earlier
/// fabric, and a node without an answer may still forward packets.
#[derive(Clone, Copy, Debug, Default)]
pub struct Looks {
    /// Number of sweeps that were repeated for missing answers.
    repeated: u32,
}

impl Looks {
    /// True if the sweep should be repeated, a few times at most: packets are in flight and an agent does not answer.
    ///
    /// After the first sweep, only two cases count. First: the silent node is unknown, so it may be a switch. Second: a
    /// switch is assumed to hold its former tables, or a cable to be at its former place, although neither end answers;
    /// another manager may have changed them. With a plan in force for the fabric `known`, only ports of new switches
    /// count.
    pub fn asks_again(&mut self, inventory: &Inventory, known: Option<&Fabric>, is_first: bool) -> bool {
        let is_silent = |at: PortRef| {
            let why = inventory
                .agents
                .get(at.node)
                .and_then(|agent| agent.troubles.get(&at.port));
            why == Some(&PortReason::PeerSilent)
        };
        let silent = inventory.agents.iter_enumerated().flat_map(|(node, agent)| {
            let ports = agent.troubles.keys().map(move |&port| PortRef { node, port });
            ports.filter(|&at| is_silent(at))
        });
        let silent: Vec<PortRef> = silent.collect();
        let fabric = &inventory.fabric;
        let is_switch = |at: PortRef| fabric.switch_index(at.node).is_some();
        // Its state is not known: it may carry packets.
        let is_unknown = |at: PortRef| is_switch(at) && inventory.port_info(at).is_none();
        let is_believed = |at: PortRef| {
            let far = fabric.peer(at);
            is_switch(at) && (at.port == PortNum::MANAGEMENT || far.is_some_and(|far| is_switch(far) && is_silent(far)))
        };
        let is_new = |at: PortRef| known.is_none_or(|known| known.find(fabric.node(at.node).guid).is_none());
        let some_unknown = silent.iter().any(|&at| is_new(at) && is_unknown(at));
        let matters = match (known, is_first) {
            (Some(_), _) => some_unknown,
            (None, true) => !silent.is_empty(),
            (None, false) => some_unknown || has_silent_link(fabric) || silent.iter().any(|&at| is_believed(at)),
        };
        let most = if some_unknown { LOOKS_AT_PORTS_MAX } else { LOOKS_MAX };
        let asks = matters && self.repeated < most && phases::is_live(&inventory.fabric);
        self.repeated += u32::from(asks);
        asks
    }

    /// Called when a plan is in force, or another manager is master: repeated sweeps are counted from 0 again at the
    /// next take-over.
    pub const fn forget(&mut self) {
        self.repeated = 0;
    }
}

#[cfg(test)]
mod tests {
    use selvedge_planner::Found;
    use selvedge_types::PortState;

    use super::*;
    use crate::made::{FAR, FIRST, SECOND, info, inventory, row};

    #[test]
    fn silence_is_asked_about_a_few_times() {
        let check = |found: Vec<Found>, is_first: bool, want: u32| {
            let (inventory, mut looks) = (inventory(found), Looks::default());
            let asked = (0..10).filter(|_| looks.asks_again(&inventory, None, is_first));
            assert_eq!(asked.count(), want as usize, "{is_first}");
            looks.forget();
            assert_eq!(looks.asks_again(&inventory, None, is_first), want > 0);
        };
        let silent = |state: PortState, is_known: bool| {
            let mut found = row();
            let seen = &mut found[SECOND].ports[2];
            (seen.trouble, seen.info) = (Some(PortReason::PeerSilent), Some(info(state)));
            if !is_known {
                (seen.peer, found[FAR].ports[1].peer) = (None, None);
            }
            found
        };
        check(row(), true, 0);
        check(row(), false, 0);
        check(silent(PortState::Active, false), true, LOOKS_MAX);
        check(silent(PortState::Active, false), false, LOOKS_MAX);
        // There is no answer for a port.
        let mut found = row();
        let seen = &mut found[SECOND].ports[2];
        (seen.trouble, seen.info) = (Some(PortReason::PeerSilent), None);
        // With a plan in force, only new switches are asked again.
        let known = inventory(row()).fabric;
        for (known, want) in [(&*known, false), (&Fabric::default(), true)] {
            let asks = Looks::default().asks_again(&inventory(found.clone()), Some(known), false);
            assert_eq!(asks, want);
        }
        check(found, false, LOOKS_AT_PORTS_MAX);
        // A cable is believed to be at its former place.
        let mut found = row();
        for (node, num) in [(FIRST, 2), (SECOND, 1)] {
            found[node].ports[num].trouble = Some(PortReason::PeerSilent);
        }
        check(found, false, LOOKS_MAX);
        // One end has answered.
        let mut found = row();
        found[FIRST].ports[2].trouble = Some(PortReason::PeerSilent);
        check(found, false, 0);
        // A switch is believed to hold its former tables.
        let mut found = row();
        found[SECOND].ports[0].trouble = Some(PortReason::PeerSilent);
        check(found, false, LOOKS_MAX);
        // The node behind it is known, or its link carries no packets.
        check(silent(PortState::Active, true), false, 0);
        check(silent(PortState::Init, false), false, 0);
    }
}
