//! Managers that are separate programs and run in real time. Another crate provides a value of type [`Outside`] that
//! carries their datagrams and knows the time.
//!
//! The fabric, its faults and the checkers are those of virtual time. Values that exist only inside a manager (its
//! plan, its SMInfo state, its stored state) are not checked.

use std::fmt;

use selvedge_chassis::PortIdx;
use selvedge_emulator::{ClientId, Delivery, Emulator};
use selvedge_sim::Time;
use selvedge_sm::Config;
use selvedge_wire::{Datagram, Method};

use crate::manager::ManagerId;

/// The part that runs managers as processes.
pub trait Outside: fmt::Debug {
    /// Starts a manager at a node; its requests come with [`Self::wait`].
    fn start(&mut self, id: ManagerId, node: &str, config: &Config) -> Result<(), String>;

    /// Ends a manager as `kill -9` does.
    fn kill(&mut self, id: ManagerId);

    /// Reloads a manager with changed settings.
    fn reload(&mut self, id: ManagerId, node: &str, config: &Config) -> Result<(), String>;

    /// Asks a manager for a sweep.
    fn sweep(&mut self, id: ManagerId) -> Result<(), String>;

    /// Returns the current time.
    fn now(&self) -> Time;

    /// Waits until this time, or until something was sent. Appends what was sent.
    fn wait(&mut self, until: Time, emulator: &mut Emulator, sent: &mut Vec<Mail>) -> Result<(), String>;

    /// Returns the processes that ended by themselves: when, how. They were started again.
    fn crashes(&mut self) -> Vec<String>;

    /// Passes an arrived datagram on to its manager.
    fn deliver(&mut self, emulator: &Emulator, delivery: &Delivery);
}

/// A datagram that a program sent.
#[derive(Clone, Copy, Debug)]
pub struct Mail {
    /// The emulator's client for the manager's port.
    pub client: ClientId,
    /// The datagram.
    pub datagram: Datagram,
}

/// The managers that are programs of their own, as far as the rehearsal knows them.
#[derive(Debug)]
pub(crate) struct Outsiders {
    pub hands: Box<dyn Outside>,
    /// Node and end port of each manager.
    pub seats: Vec<(String, PortIdx)>,
    pub running: Vec<bool>,
    pub mail: Vec<Mail>,
    /// When a manager last sent a request, and whether it was a Set.
    pub last: Option<(Time, Method)>,
}

impl Outsiders {
    /// Returns the manager behind a client.
    pub fn of(&self, emulator: &Emulator, client: ClientId) -> Option<ManagerId> {
        let chassis = emulator.chassis();
        let node = |port: PortIdx| chassis.wire(port).node();
        let at = node(emulator.port_of(client)?);
        self.seats.iter().position(|(_, seat)| node(*seat) == at).map(ManagerId)
    }
}
