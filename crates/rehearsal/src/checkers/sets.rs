//! Sets in flight: the manager that sent each, the time, and the switch that should execute it.

use std::collections::BTreeMap;

use selvedge_chassis::{Chassis, PortIdx};
use selvedge_emulator::{Change, ClientId};
use selvedge_fabric::NodeIdx;
use selvedge_types::TransactionId;
use selvedge_wire::{AttributeId, Datagram, Mad, Method};

use super::check::{Check, Ctx};
use super::evidence::cables::astray;
use super::evidence::links::along;
use super::ledger::Ledger;
use super::seen::{Scene, Seen};
use super::taken::{Sent, Taken};
use crate::Violation;
use crate::digest::Digest;
use crate::manager::ManagerId;

/// All Sets so far.
#[derive(Debug, Default)]
pub(super) struct Sets {
    sent: BTreeMap<(ClientId, TransactionId), Sent>,
    /// Number of Sets sent in all.
    serial: u64,
    /// The newest Set of each manager that each node has executed, by attribute and modifier. (The directed route to a
    /// node may change, so it is not part of the key.)
    taken: BTreeMap<(ClientId, NodeIdx, AttributeId, u32), u64>,
}

impl Check for Sets {
    fn see(&mut self, ctx: &Ctx<'_>, seen: &Seen<'_>, _found: &mut Ledger) -> Result<(), Violation> {
        if let Seen::Sends {
            id, client, datagram, ..
        } = *seen
            && changes_an_agent(&datagram.mad)
        {
            self.note(ctx, (id, client), datagram);
        }
        Ok(())
    }
}

impl Sets {
    fn note(&mut self, scene: &Scene<'_>, (id, client): (ManagerId, ClientId), datagram: &Datagram) {
        let (mad, chassis) = (&datagram.mad, scene.chassis());
        let life = scene.life(id);
        let at = scene.emulator.port_of(client).filter(|_| life.is_some());
        let accepted = life.and_then(|life| life.plans.accepted());
        self.serial += 1;
        let sent = Sent {
            manager: id,
            content: Digest::default().bytes(mad.smp_data()).0,
            serial: self.serial,
            at: scene.now,
            looked_at: life.and_then(|life| life.looks.looked_at()),
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

/// True for a Set to an agent. SMInfo is exchanged between managers, so it does not count.
pub(super) fn changes_an_agent(mad: &Mad) -> bool {
    mad.class().is_smp() && mad.method() == Method::Set && mad.attribute() != AttributeId::SM_INFO
}

/// Returns the node that a Set of a linear table is meant for, by the cables at the time of sending.
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
