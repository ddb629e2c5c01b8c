//! LIDs that ports give up: nobody else gets them while packets to them may be under way.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use selvedge_fabric::{Fabric, PortRef, SwitchIdx};
use selvedge_plan::{Installed, NO_PATH, Plan};
use selvedge_planner::past::ASSUMED_GONE;
use selvedge_sim::Time;
use selvedge_types::{Idx, Lid, PortNum};
use selvedge_verify::phases::drain_bound_ns;

/// Whatever keeps a port from its LIDs, a plan does not follow at once.
const PAUSE: Duration = Duration::from_secs(1);
/// Entries that are followed to find the longest way; of more the number of switches is taken.
const FOLLOWED_MAX: usize = 4_000_000;

/// LIDs that were given up a short while ago.
#[derive(Clone, Debug, Default)]
pub struct GivenUp {
    until: BTreeMap<Lid, Time>,
    /// LIDs that the plan which is being applied takes from their holders, and how long packets to them live.
    leaving: (BTreeSet<Lid>, Duration),
    /// When ports that wait for LIDs of others may get them: see [`selvedge_planner::lid::short`].
    again: Option<Time>,
}

impl GivenUp {
    /// A plan is about to be applied to a fabric whose tables are these.
    pub fn begin(&mut self, fabric: &Fabric, installed: &Installed, plan: &Plan) {
        let mut leaving = BTreeSet::new();
        for (at, port) in fabric.end_ports() {
            let held = port.settings.lids;
            // Of two that hold one LID, one may keep it: nobody else gets it in any case.
            let is_left = |lid: &Lid| lid.is_unicast() && plan.lids.owner(*lid).is_none();
            if plan.lids.range(at).is_some_and(|kept| kept != held) {
                leaving.extend(held.iter().filter(is_left));
            }
        }
        let drain = match leaving.is_empty() {
            true => Duration::ZERO,
            false => drain(fabric, installed, &leaving),
        };
        self.leaving = (leaving, drain);
    }

    /// The plan is applied, or as much of it as will be.
    pub fn settle(&mut self, now: Time) {
        let (leaving, drain) = std::mem::take(&mut self.leaving);
        self.until.extend(leaving.into_iter().map(|lid| (lid, now + drain)));
    }

    /// LIDs to which packets may be under way.
    pub fn resting(&mut self, now: Time) -> BTreeSet<Lid> {
        self.until.retain(|_, until| *until > now);
        self.until.keys().copied().collect()
    }

    /// The plan in force gives ports fewer LIDs than they are to have, or not.
    pub fn set_short(&mut self, is_short: bool, now: Time) {
        let last = self.until.values().max().copied().unwrap_or(now);
        self.again = is_short.then(|| last.max(now + PAUSE));
    }

    /// When ports that wait for LIDs may get them, if that is yet to come.
    pub fn due(&self, now: Time) -> Option<Time> {
        self.again.filter(|again| *again > now)
    }

    /// True, once, when they may.
    pub fn is_due(&mut self, now: Time) -> bool {
        self.again.take_if(|again| *again <= now).is_some()
    }
}

/// How long packets to these LIDs may be under way by these tables, if no entry becomes another than 255.
fn drain(fabric: &Fabric, installed: &Installed, lids: &BTreeSet<Lid>) -> Duration {
    let switches = fabric.switches().len();
    let longest = match lids.len().saturating_mul(switches) > FOLLOWED_MAX {
        true => switches,
        false => lids
            .iter()
            .map(|&lid| longest_way(fabric, installed, lid))
            .max()
            .unwrap_or(0),
    };
    let lifetimes = fabric
        .switches()
        .iter()
        .map(|&node| fabric.node(node).switch_settings.lifetime);
    let bound = drain_bound_ns(lifetimes, u32::try_from(longest).unwrap_or(u32::MAX));
    bound.map_or(ASSUMED_GONE, Duration::from_nanos)
}

/// Most switches on a way to a LID; as many as there are if entries go round.
fn longest_way(fabric: &Fabric, installed: &Installed, lid: Lid) -> usize {
    let switches = fabric.switches();
    let next = |switch: SwitchIdx| -> Option<SwitchIdx> {
        let port = installed
            .get(switch, lid)
            .filter(|&port| port != NO_PATH)
            .and_then(PortNum::new)?;
        let node = switches[switch];
        fabric
            .peer(PortRef { node, port })
            .and_then(|peer| fabric.switch_index(peer.node))
    };
    // Switches on the way from here; 0: not known yet.
    let mut length = vec![0_usize; switches.len()];
    let mut way = Vec::new();
    for first in 0..switches.len() {
        let mut at = Some(SwitchIdx::from_usize(first));
        while let Some(switch) = at.filter(|at| length[at.to_usize()] == 0) {
            if way.len() >= switches.len() {
                return switches.len();
            }
            way.push(switch);
            at = next(switch);
        }
        let mut known = at.map_or(0, |at| length[at.to_usize()]);
        for switch in way.drain(..).rev() {
            known += 1;
            length[switch.to_usize()] = known;
        }
    }
    length.into_iter().max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use selvedge_fabric::{FabricBuilder, Node};
    use selvedge_plan::BLOCK_LIDS;
    use selvedge_types::{Guid, NodeKind};

    use super::*;

    fn port(n: u8) -> PortNum {
        PortNum::new(n).unwrap()
    }

    /// Switches in a row, each with port 1 to the next and port 2 to the one before.
    fn row(switches: u64) -> Fabric {
        let mut b = FabricBuilder::new();
        let keys: Vec<_> = (1..=switches)
            .map(|guid| {
                let mut node = Node::new(NodeKind::Switch, Guid(guid), 2, format!("s{guid}"));
                node.switch_settings.lifetime = 10;
                b.add(node)
            })
            .collect();
        for pair in keys.windows(2) {
            b.link((pair[0], port(1)), (pair[1], port(2))).unwrap();
        }
        b.finish().unwrap()
    }

    fn check(entries: &[u8], want: usize) {
        let fabric = row(entries.len() as u64);
        let mut installed = Installed::unknown(entries.len());
        for (switch, &entry) in entries.iter().enumerate() {
            let mut block = [NO_PATH; BLOCK_LIDS];
            block[5] = entry;
            installed.learn(SwitchIdx::from_usize(switch), 0, block);
        }
        assert_eq!(longest_way(&fabric, &installed, Lid(5)), want, "{entries:?}");
    }

    #[test]
    fn ways_are_counted_in_switches() {
        check(&[0], 1);
        check(&[1, 1, 0], 3);
        check(&[1, 0, 2], 2);
        check(&[1, 255, 2], 2);
        // Round and round.
        check(&[1, 2, 0], 3);
    }

    #[test]
    fn a_lid_rests_until_its_packets_are_gone() {
        let mut given_up = GivenUp {
            leaving: (BTreeSet::from([Lid(7)]), Duration::from_secs(2)),
            ..GivenUp::default()
        };
        let at = |seconds| Time::ZERO + Duration::from_secs(seconds);
        given_up.settle(at(1));
        assert_eq!(given_up.due(at(1)), None);
        given_up.set_short(true, at(1));
        assert_eq!(given_up.due(at(1)), Some(at(3)));
        assert_eq!(given_up.resting(at(2)).len(), 1);
        assert!(!given_up.is_due(at(2)));
        assert!(given_up.resting(at(3)).is_empty());
        assert!(given_up.is_due(at(3)) && !given_up.is_due(at(3)));
        // Nothing is waited for but a second plan.
        given_up.set_short(true, at(5));
        assert_eq!(given_up.due(at(5)), Some(at(6)));
    }
}
