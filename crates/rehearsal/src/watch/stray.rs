//! Tables of which no manager can know: a flipped bit took them to another switch than they were meant for (real links
//! would have discarded them), or an earlier life had sent them, and they came when its next one had read the tables.

use selvedge_chassis::{Chassis, PortIdx};
use selvedge_fabric::NodeIdx;
use selvedge_wire::{AttributeId, Mad, Method};

use super::heard::along;
use super::{Rule, Sent, Watcher};

/// The node that a Set of a linear table is meant for, as cables are when it is sent.
pub(super) fn addressee(chassis: &Chassis, at: Option<PortIdx>, mad: &Mad) -> Option<NodeIdx> {
    let is_table = mad.method() == Method::Set && mad.attribute() == AttributeId::LINEAR_FORWARDING;
    let end = along(chassis, at.filter(|_| is_table)?, mad, |_, _| {})?;
    Some(chassis.wire(end).node())
}

impl Watcher {
    /// A switch has taken a block. If a flipped bit took it there, it answers like the one that the Set was meant for,
    /// and nobody knows by what either forwards until the block is read, or comes again.
    pub(super) fn note_stray(
        &mut self,
        (node, attribute, modifier): (NodeIdx, AttributeId, u32),
        sent: Option<Sent>,
        late: bool,
    ) {
        let Some(sent) = sent.filter(|_| attribute == AttributeId::LINEAR_FORWARDING) else {
            return;
        };
        match sent.to.filter(|to| *to != node && self.corrupting) {
            Some(to) => {
                let both = [(node, modifier), (to, modifier)];
                self.strays.extend(both.map(|block| (block, Rule::CorruptMedium)));
            }
            None if late => {}
            None => drop(self.strays.remove(&(node, modifier))),
        }
    }

    /// A switch has taken a block that an earlier life of a manager had sent, who may have read its tables before.
    pub(super) fn note_bequeathed(&mut self, (node, attribute, modifier): (NodeIdx, AttributeId, u32)) {
        if attribute == AttributeId::LINEAR_FORWARDING {
            self.strays.entry((node, modifier)).or_insert(Rule::Predecessor);
        }
    }
}

#[cfg(test)]
mod tests {
    use selvedge_emulator::{Emulator, EmulatorConfig};
    use selvedge_sim::{Seed, Time};
    use selvedge_types::{Guid, PortNum};
    use selvedge_wire::DirectedRoute;

    use super::*;
    use crate::manager::ManagerId;
    use crate::watch::heard::tests::row;

    fn sent(to: Option<NodeIdx>) -> Sent {
        Sent {
            manager: ManagerId(0),
            content: 0,
            serial: 1,
            at: Time::ZERO,
            looked_at: None,
            to,
            astray: None,
        }
    }

    #[test]
    fn what_a_flipped_bit_took_elsewhere_is_nobody_s_until_it_comes_again() {
        let port = |n| PortNum::new(n).unwrap();
        let fabric = row();
        let [host, first, second] = [1, 2, 3].map(|guid| fabric.find(Guid(guid)).unwrap());
        let mut emulator = Emulator::new(&fabric, EmulatorConfig::default(), Seed(1));
        let at = emulator.chassis().port_at(host, 1);
        let route = DirectedRoute::new(&[port(1), port(2)]).unwrap();
        let meant = |method, attribute| {
            let mad = Mad::directed(method, attribute, 0, &route);
            addressee(emulator.chassis(), at, &mad)
        };
        let to = meant(Method::Set, AttributeId::LINEAR_FORWARDING);
        assert_eq!(to, Some(second));
        assert_eq!(meant(Method::Get, AttributeId::LINEAR_FORWARDING), None);
        assert_eq!(meant(Method::Set, AttributeId::SWITCH_INFO), None);

        let mut watcher = Watcher::new(&mut emulator);
        let mut check = |corrupting: bool, node: NodeIdx, late: bool, want: &[NodeIdx]| {
            watcher.set_corrupting(Time::ZERO, corrupting);
            let sent = sent(to);
            watcher.note_stray((node, AttributeId::LINEAR_FORWARDING, 0), Some(sent), late);
            let found: Vec<NodeIdx> = watcher.strays.keys().map(|(node, _)| *node).collect();
            assert_eq!(found, want, "{corrupting} {node:?} {late}");
        };
        // Without a flipped bit it is a cable that was moved.
        check(false, first, false, &[]);
        check(true, second, false, &[]);
        check(true, first, false, &[first, second]);
        check(false, second, true, &[first, second]);
        check(false, second, false, &[first]);
        check(false, first, false, &[]);
    }

    #[test]
    fn what_an_earlier_life_had_sent_is_nobody_s_until_it_comes_again() {
        let fabric = row();
        let switch = fabric.find(Guid(2)).unwrap();
        let mut emulator = Emulator::new(&fabric, EmulatorConfig::default(), Seed(1));
        let mut watcher = Watcher::new(&mut emulator);
        watcher.note_bequeathed((switch, AttributeId::SWITCH_INFO, 0));
        assert!(watcher.strays.is_empty());
        let block = (switch, AttributeId::LINEAR_FORWARDING, 3);
        watcher.note_bequeathed(block);
        assert_eq!(watcher.strays.get(&(switch, 3)), Some(&Rule::Predecessor));
        let sent = sent(Some(switch));
        watcher.note_stray(block, Some(sent), true);
        assert!(!watcher.strays.is_empty());
        watcher.note_stray(block, Some(sent), false);
        assert!(watcher.strays.is_empty());
    }
}
