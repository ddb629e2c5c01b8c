//! What managers put on the wire: within their windows, and judged.

use std::time::Duration;

use selvedge_chassis::{Chassis, PortIdx};
use selvedge_emulator::ClientId;
use selvedge_fabric::NodeIdx;
use selvedge_sim::Time;
use selvedge_wire::{AttributeId, Datagram, Method};

use super::moved::{Astray, astray};
use super::stray::addressee;
use super::{Sent, Watcher};
use crate::Violation;
use crate::digest::Digest;
use crate::manager::{Manager, ManagerId};

/// A request that has waited so long holds no other back: what keeps an agent from answering does not concern others.
const STALE_AFTER: Duration = Duration::from_millis(20);
/// Repeats may overlap with what they repeat: an answer that is late is on the wire together with its second request.
const WINDOW_SLACK: usize = 4;

impl Watcher {
    /// A datagram leaves a manager.
    pub fn sends(
        &mut self,
        now: Time,
        (id, manager, client): (ManagerId, &Manager, ClientId),
        (datagram, (chassis, at)): (&Datagram, (&Chassis, Option<PortIdx>)),
        timeout: Duration,
    ) -> Result<(), Violation> {
        let mad = &datagram.mad;
        if mad.method() == Method::TrapRepress {
            self.traps.remove(&(client, mad.transaction()));
        }
        if !mad.class().is_smp() || !matches!(mad.method(), Method::Get | Method::Set) {
            return Ok(());
        }
        let wire = self.wires.entry(client).or_default();
        wire.open.insert(mad.transaction(), now + timeout.min(STALE_AFTER));
        let limit = manager.config.window + WINDOW_SLACK;
        if wire.open.len() > limit {
            wire.open.retain(|_, until| *until > now);
        }
        if wire.open.len() > limit {
            return Err(Violation::Window {
                manager: manager.name.clone(),
                open: wire.open.len(),
                limit,
            });
        }
        // What managers tell each other changes no agent.
        if mad.method() == Method::Set && mad.attribute() != AttributeId::SM_INFO {
            let judged = manager.passed.as_ref().is_none_or(|passed| passed.contains(mad));
            if !judged {
                return Err(Violation::NeverJudged {
                    manager: manager.name.clone(),
                    what: format!("{mad}"),
                });
            }
            let looked_at = manager.life.as_ref().and_then(|life| life.looked_at);
            let to = addressee(chassis, at, mad);
            let accepted = manager.life.as_ref().and_then(|life| life.accepted.as_ref());
            let astray = accepted.and_then(|accepted| astray(chassis, &accepted.fabric, at, mad));
            self.note_set((id, now, looked_at), (to, astray), client, datagram);
        }
        Ok(())
    }

    fn note_set(
        &mut self,
        (id, at, looked_at): (ManagerId, Time, Option<Time>),
        (to, astray): (Option<NodeIdx>, Option<Astray>),
        client: ClientId,
        datagram: &Datagram,
    ) {
        let mad = &datagram.mad;
        let content = Digest::default().bytes(mad.smp_data()).0;
        self.serial += 1;
        let sent = Sent {
            manager: id,
            content,
            serial: self.serial,
            at,
            looked_at,
            to,
            astray,
        };
        self.sent.insert((client, mad.transaction()), sent);
    }

    /// A datagram leaves a manager that is a program: nobody knows its window, or what was judged.
    pub fn sends_outside(&mut self, id: ManagerId, client: ClientId, datagram: &Datagram) {
        let mad = &datagram.mad;
        match mad.method() {
            Method::TrapRepress => drop(self.traps.remove(&(client, mad.transaction()))),
            Method::Set if mad.class().is_smp() && mad.attribute() != AttributeId::SM_INFO => {
                self.note_set((id, self.now, None), (None, None), client, datagram);
            }
            _ => {}
        }
    }

    /// Such a manager receives a datagram.
    pub fn receives_outside(&mut self, now: Time, id: ManagerId, client: ClientId, datagram: &Datagram) {
        if datagram.mad.method() == Method::Trap {
            self.traps.insert((client, datagram.mad.transaction()), (id, now));
        }
    }

    /// A manager begins a sweep: what it asked before it asks no more.
    pub fn forgets(&mut self, client: ClientId) {
        self.wires.remove(&client);
    }
}
