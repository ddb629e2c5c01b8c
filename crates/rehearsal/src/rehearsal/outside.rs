//! Runs managers that are programs of their own, in real time.

use std::time::Duration;

use selvedge_chassis::PortIdx;
use selvedge_sim::Time;
use selvedge_sm::Config;
use selvedge_wire::Method;

use super::Rehearsal;
use crate::RehearsalError;
use crate::checkers::Seen;
use crate::manager::ManagerId;
use crate::outside::{Mail, Outside, Outsiders};
use crate::subnet::ports_of;

/// How long a manager counts as still busy with its last Get or Set. A later request belongs to another stage.
const STAGE_ECHO: Duration = Duration::from_millis(20);

impl Rehearsal {
    /// Makes managers separate programs from now on: [`Self::add_manager`] only reserves their place.
    pub fn open(&mut self, hands: Box<dyn Outside>) {
        self.checkers.count_all();
        self.outside = Some(Outsiders {
            hands,
            seats: Vec::new(),
            running: Vec::new(),
            mail: Vec::new(),
            last: None,
        });
    }

    /// Finds the node at which the manager that was added last sits.
    pub(crate) fn seat_outside(&mut self, at: &str) -> Result<(), RehearsalError> {
        let client = self.emulator.attach_named(at)?;
        let port = self.emulator.port_of(client);
        self.emulator.detach(self.now, client);
        if let (Some(outside), Some(port)) = (&mut self.outside, port) {
            // Programs name a node, and get its first port with a cable.
            let chassis = self.emulator.chassis();
            let node = chassis.wire(port).node();
            let cabled = |port: &PortIdx| chassis.wire(*port).num().get() > 0 && chassis.wire(*port).peer().is_some();
            let port = ports_of(chassis, node).find(cabled).unwrap_or(port);
            outside
                .seats
                .push((chassis.fabric().node(node).description.clone(), port));
            outside.running.push(false);
        }
        Ok(())
    }

    /// Returns the programs that have ended by themselves so far.
    pub(crate) fn crashes(&mut self) -> Vec<String> {
        let outside = self.outside.as_mut();
        outside.map_or_else(Vec::new, |outside| outside.hands.crashes())
    }

    /// Returns the port of a manager that is a separate program, if it runs.
    pub(crate) fn outside_at(&self, id: ManagerId) -> Option<PortIdx> {
        let outside = self.outside.as_ref()?;
        let seat = outside.seats.get(id.0)?;
        outside.running.get(id.0)?.then_some(seat.1)
    }

    /// True if managers are programs.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        self.outside.is_some()
    }

    /// Returns what the managers are doing, as far as their requests show: a Get, a Set, or nothing recently.
    pub(crate) fn outside_does(&self) -> Option<Method> {
        let (at, method) = self.outside.as_ref()?.last?;
        (at + STAGE_ECHO >= self.now).then_some(method)
    }

    pub(crate) fn start_outside(&mut self, id: ManagerId) -> Result<(), RehearsalError> {
        self.set_running(id, true);
        self.outside_call(id, |hands, node, config| hands.start(id, node, config))
    }

    pub(crate) fn kill_outside(&mut self, id: ManagerId) -> Result<(), RehearsalError> {
        self.set_running(id, false);
        if let Some(outside) = &mut self.outside {
            outside.hands.kill(id);
        }
        self.observe(&Seen::Killed(id))
    }

    pub(crate) fn reload_outside(&mut self, id: ManagerId) -> Result<(), RehearsalError> {
        match self.outside_at(id) {
            Some(_) => self.outside_call(id, |hands, node, config| hands.reload(id, node, config)),
            None => Ok(()),
        }
    }

    fn set_running(&mut self, id: ManagerId, runs: bool) {
        let running = self.outside.as_mut().and_then(|outside| outside.running.get_mut(id.0));
        running.into_iter().for_each(|running| *running = runs);
    }

    /// Calls the [`Outside`].
    pub(crate) fn outside_call(
        &mut self,
        id: ManagerId,
        call: impl FnOnce(&mut dyn Outside, &str, &Config) -> Result<(), String>,
    ) -> Result<(), RehearsalError> {
        let (Some(outside), Some(manager)) = (&mut self.outside, self.managers.get(id.0)) else {
            return Ok(());
        };
        let node = outside.seats.get(id.0).map_or("", |(node, _)| node.as_str());
        call(outside.hands.as_mut(), node, &manager.config).map_err(|what| RehearsalError::Outside { what })
    }

    /// Waits once, and does everything that is due afterwards; returns false at the limit.
    pub(crate) fn step_outside(&mut self, limit: Time) -> Result<bool, RehearsalError> {
        let Some(mut outside) = self.outside.take() else {
            return Ok(false);
        };
        let result = self.step_with(&mut outside, limit);
        self.outside = Some(outside);
        result
    }

    fn step_with(&mut self, outside: &mut Outsiders, limit: Time) -> Result<bool, RehearsalError> {
        let due = self.emulator.next_event().map_or(limit, |at| at.min(limit));
        let mut mail = std::mem::take(&mut outside.mail);
        let waited = outside.hands.wait(due.max(self.now), &mut self.emulator, &mut mail);
        waited.map_err(|what| RehearsalError::Outside { what })?;
        let now = outside.hands.now().min(limit).max(self.now);
        for Mail { client, datagram } in mail.drain(..) {
            let id = outside.of(&self.emulator, client);
            if let Some(id) = id {
                let (datagram, timeout) = (&datagram, Duration::ZERO);
                self.observe(&Seen::Sends {
                    id,
                    client,
                    datagram,
                    timeout,
                })?;
            }
            if matches!(datagram.mad.method(), Method::Get | Method::Set) {
                outside.last = Some((now, datagram.mad.method()));
            }
            self.emulator.send(now, client, &datagram);
        }
        outside.mail = mail;
        let mut deliveries = std::mem::take(&mut self.deliveries);
        while self.emulator.next_event().is_some_and(|at| at <= now) {
            self.now = self.emulator.advance_to_delivery(now, &mut deliveries).max(self.now);
            for delivery in deliveries.drain(..) {
                let id = outside.of(&self.emulator, delivery.client);
                if let Some(id) = id {
                    let (client, datagram) = (delivery.client, &delivery.datagram);
                    self.observe(&Seen::Receives { id, client, datagram })?;
                }
                outside.hands.deliver(&self.emulator, &delivery);
            }
            self.check()?;
        }
        self.deliveries = deliveries;
        self.now = self.now.max(now);
        self.check()?;
        Ok(now < limit)
    }
}
