//! The emulated fabric as a manager's port, on the manager's own thread.

use std::collections::VecDeque;
use std::time::Duration;

use selvedge_emulator::ClientId;
use selvedge_wire::{Arrival, Datagram, LocalPort, MadPort, PortError};

use crate::DaemonError;
use crate::clock::Clock;
use crate::host::Host;

/// A port of an emulated fabric.
pub(crate) struct EmulatedPort {
    host: Host,
    client: ClientId,
    local: LocalPort,
    clock: Clock,
    arrived: VecDeque<Datagram>,
}

impl EmulatedPort {
    pub(crate) fn new(mut host: Host, seat: Option<&str>, clock: Clock) -> Result<Self, DaemonError> {
        let client = host.seat(seat)?;
        let local = host
            .emulator
            .get_mut()
            .local(client)
            .ok_or_else(|| DaemonError::NoSeat {
                wanted: seat.map_or_else(String::new, |name| format!(" at '{name}'")),
            })?;
        Ok(Self {
            host,
            client,
            local,
            clock,
            arrived: VecDeque::new(),
        })
    }
}

impl MadPort for EmulatedPort {
    fn local(&self) -> LocalPort {
        self.local
    }

    fn send(&mut self, datagram: &Datagram, _timeout: Duration) -> Result<(), PortError> {
        let now = self.clock.now();
        self.host.emulator.get_mut().send(now, self.client, datagram);
        Ok(())
    }

    fn receive(&mut self, wait: Duration) -> Result<Option<Arrival>, PortError> {
        let gone = |error: DaemonError| PortError::Gone {
            operation: "stepping the emulator",
            cause: error.to_string(),
        };
        let deadline = self.clock.now() + wait;
        loop {
            if let Some(datagram) = self.arrived.pop_front() {
                return Ok(Some(Arrival::Received(datagram)));
            }
            let (arrived, client) = (&mut self.arrived, self.client);
            let own = |delivery: &selvedge_emulator::Delivery| {
                if delivery.client == client {
                    arrived.push_back(delivery.datagram);
                }
            };
            self.host.step(own).map_err(gone)?;
            let now = self.clock.now();
            if !self.arrived.is_empty() {
                continue;
            }
            if now >= deadline {
                return Ok(None);
            }
            self.host.wait(deadline.since(now)).map_err(gone)?;
        }
    }

    fn set_is_sm(&mut self, is_sm: bool) -> Result<(), PortError> {
        let now = self.clock.now();
        let result = self.host.emulator.get_mut().set_is_sm(now, self.client, is_sm);
        result.map_err(|error| PortError::Gone {
            operation: "setting IsSM",
            cause: error.to_string(),
        })
    }
}
