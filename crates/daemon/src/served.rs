//! An emulated fabric for programs that attach as to an ibsim; its owner steps it.

use std::cell::RefCell;
use std::time::Duration;

use selvedge_emulator::{ClientId, Delivery, Emulator};
use selvedge_sim::Time;
use selvedge_transport::ibsim::{IbsimServer, ServerEvent, ServerOptions, Waker};
use selvedge_wire::Datagram;

use crate::DaemonError;
use crate::backend::{Places, Seats, serve_point};

/// A server of the ibsim protocol for an emulated fabric, with the client that is attached at each port.
pub struct Served {
    server: IbsimServer,
    places: RefCell<Places>,
    events: Vec<ServerEvent>,
}

impl Served {
    /// Serves under a base name (`IBSIM_SOCKNAME`).
    pub fn bind(base: &str, options: ServerOptions) -> Result<Self, DaemonError> {
        Ok(Self {
            server: IbsimServer::bind(base, options)?,
            places: RefCell::default(),
            events: Vec::new(),
        })
    }

    /// Interrupts [`Self::poll`].
    pub fn waker(&self) -> Result<Waker, DaemonError> {
        Ok(self.server.waker()?)
    }

    /// Waits at most this time for datagrams of programs, and hands them to the emulator. Also informs the emulator
    /// which programs are subnet managers. `now` gives the time after the wait.
    pub fn poll(
        &mut self,
        emulator: &mut Emulator,
        wait: Duration,
        now: impl Fn() -> Time,
        mut sent: impl FnMut(&mut Emulator, ClientId, Datagram),
    ) -> Result<(), DaemonError> {
        let shared = RefCell::new(&mut *emulator);
        let seats = Seats {
            emulator: &shared,
            places: &self.places,
        };
        self.server.poll(&seats, wait, &mut self.events)?;
        let places = self.places.get_mut();
        for event in self.events.drain(..) {
            match event {
                ServerEvent::Attached { .. } | ServerEvent::Detached { .. } => {}
                ServerEvent::IsSm { at, is_sm, .. } => {
                    if let Some(client) = places.client(at) {
                        // A second manager at one port is refused; it notices that when it gets no requests.
                        let _ = emulator.set_is_sm(now(), client, is_sm);
                    }
                }
                ServerEvent::Datagram { at, datagram, .. } => {
                    if let Some(client) = places.client(at) {
                        sent(emulator, client, datagram);
                    }
                }
            }
        }
        Ok(())
    }

    /// Hands a delivery to its client. Returns false if no client here is the receiver.
    pub fn deliver(&mut self, emulator: &Emulator, delivery: &Delivery) -> bool {
        let Some(at) = self.places.get_mut().of_client(delivery.client) else {
            return false;
        };
        self.server.deliver(&serve_point(emulator, at, delivery));
        true
    }
}
