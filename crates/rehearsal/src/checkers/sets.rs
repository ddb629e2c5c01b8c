//! Sets on their way to agents: which manager sent each, when, and for which switch.

use std::collections::BTreeMap;

use selvedge_chassis::{Chassis, PortIdx};
use selvedge_emulator::{Change, ClientId};
use selvedge_fabric::NodeIdx;
use selvedge_sim::Time;
use selvedge_types::TransactionId;
use selvedge_wire::{AttributeId, Datagram, Mad, Method};

use super::check::{Check, Scene, Seen};
use super::evidence::Evidence;
use super::evidence::cables::{Astray, astray};
use super::evidence::links::along;
use super::ledger::Ledger;
use super::rules::Rule;
use crate::Violation;
use crate::digest::Digest;
use crate::manager::ManagerId;

/// A Set as it left its manager.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    pub manager: ManagerId,
    /// Of its data.
    pub content: u64,
    /// How many were sent before it.
    pub serial: u64,
    /// When it was sent.
    pub at: Time,
    /// When its manager had last begun to look: it is right for what was there then, however late it arrives.
    pub looked_at: Option<Time>,
    /// The switch that it is meant for, if it is a table.
    pub to: Option<NodeIdx>,
    /// Whether its way is another one than its manager knows, if it is a table, or for a port.
    pub astray: Option<Astray>,
}

/// A Set that an agent has taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taken {
    pub node: NodeIdx,
    pub attribute: AttributeId,
    pub modifier: u32,
    /// The client that sent it, unless a flipped bit made its transaction id one that no client sent.
    pub by: Option<ClientId>,
    pub sent: Option<Sent>,
    /// A later one to the same place was taken before it.
    pub is_late: bool,
    /// Why it may do harm, if it may.
    pub excuse: Option<Rule>,
    /// It gave a port other LIDs.
    pub is_renumbering: bool,
}

impl Taken {
    /// The switch and block, if it is of a linear table.
    pub fn block(&self) -> Option<(NodeIdx, u32)> {
        (self.attribute == AttributeId::LINEAR_FORWARDING).then_some((self.node, self.modifier))
    }
}

/// All Sets so far.
#[derive(Debug, Default)]
pub(super) struct Sets {
    sent: BTreeMap<(ClientId, TransactionId), Sent>,
    /// How many were sent in all.
    serial: u64,
    /// The newest Set of each manager that each node has taken, by attribute and modifier: routes may change.
    taken: BTreeMap<(ClientId, NodeIdx, AttributeId, u32), u64>,
}

impl Check for Sets {
    fn see(
        &mut self,
        scene: &Scene<'_>,
        _evidence: &Evidence,
        seen: &Seen<'_>,
        _found: &mut Ledger,
    ) -> Result<(), Violation> {
        if let Seen::Sends {
            id, client, datagram, ..
        } = *seen
            && changes_an_agent(&datagram.mad)
        {
            self.note(scene, (id, client), datagram);
        }
        Ok(())
    }
}

impl Sets {
    fn note(&mut self, scene: &Scene<'_>, (id, client): (ManagerId, ClientId), datagram: &Datagram) {
        let (mad, chassis) = (&datagram.mad, scene.chassis());
        let life = scene.life(id);
        let at = scene.emulator.port_of(client).filter(|_| life.is_some());
        let accepted = life.and_then(|life| life.accepted.as_ref());
        self.serial += 1;
        let sent = Sent {
            manager: id,
            content: Digest::default().bytes(mad.smp_data()).0,
            serial: self.serial,
            at: scene.now,
            looked_at: life.and_then(|life| life.looked_at),
            to: addressee(chassis, at, mad),
            astray: accepted.and_then(|accepted| astray(chassis, &accepted.fabric, at, mad)),
        };
        self.sent.insert((client, mad.transaction()), sent);
    }

    /// Returns the Set behind a change of the hardware, if it was one.
    pub fn take(&mut self, change: &Change) -> Option<Taken> {
        let Change::Set {
            node,
            by,
            attribute,
            modifier,
            transaction,
        } = *change
        else {
            return None;
        };
        let sent = by.and_then(|client| self.sent.get(&(client, transaction))).copied();
        let is_late = by.zip(sent).is_some_and(|(client, sent)| {
            let newest = self.taken.entry((client, node, attribute, modifier)).or_default();
            *newest = sent.serial.max(*newest);
            *newest > sent.serial
        });
        Some(Taken {
            node,
            attribute,
            modifier,
            by,
            sent,
            is_late,
            excuse: None,
            is_renumbering: false,
        })
    }
}

/// True for a Set to an agent. The attribute SMInfo is of managers among themselves.
pub(super) fn changes_an_agent(mad: &Mad) -> bool {
    mad.class().is_smp() && mad.method() == Method::Set && mad.attribute() != AttributeId::SM_INFO
}

/// The node that a Set of a linear table is meant for, as cables are when it is sent.
fn addressee(chassis: &Chassis, at: Option<PortIdx>, mad: &Mad) -> Option<NodeIdx> {
    let is_table = mad.method() == Method::Set && mad.attribute() == AttributeId::LINEAR_FORWARDING;
    let end = along(chassis, at.filter(|_| is_table)?, mad, |_, _| {})?;
    Some(chassis.wire(end).node())
}

#[cfg(test)]
mod tests {
    use selvedge_types::{Guid, PortNum};
    use selvedge_wire::DirectedRoute;

    use super::*;
    use crate::checkers::evidence::links::tests::row;

    #[test]
    fn only_tables_are_meant_for_a_switch() {
        let port = |n| PortNum::new(n).unwrap();
        let fabric = row();
        let [host, second] = [1, 3].map(|guid| fabric.find(Guid(guid)).unwrap());
        let chassis = Chassis::new(&fabric);
        let at = chassis.port_at(host, 1);
        let route = DirectedRoute::new(&[port(1), port(2)]).unwrap();
        let check = |method, attribute, want| {
            let mad = Mad::directed(method, attribute, 0, &route);
            assert_eq!(addressee(&chassis, at, &mad), want);
        };
        check(Method::Set, AttributeId::LINEAR_FORWARDING, Some(second));
        check(Method::Get, AttributeId::LINEAR_FORWARDING, None);
        check(Method::Set, AttributeId::SWITCH_INFO, None);
    }
}
