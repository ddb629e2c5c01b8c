//! Managers and tools at end ports, and delivery of datagrams to them.

use std::collections::{BTreeMap, VecDeque};

use selvedge_chassis::PortIdx;
use selvedge_types::{Lid, TransactionId};
use selvedge_wire::Datagram;

use crate::count::MadTable;
use selvedge_sim::Time;

/// A manager or tool at an end port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId(pub u32);

/// A datagram for a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// The client.
    pub client: ClientId,
    /// When the datagram arrived.
    pub at: Time,
    /// The datagram, with its source.
    pub datagram: Datagram,
}

/// Largest number of requests from clients of other ports that a port remembers, so that a response finds the
/// requesting client. The oldest are forgotten first: a manager has at most a few hundred requests to other managers
/// outstanding.
const REMEMBERED_MAX: usize = 1_024;

#[derive(Clone, Debug)]
pub(crate) struct Client {
    pub port: PortIdx,
    pub attached: bool,
    pub sent: MadTable,
}

/// Identifies a request among those at one port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RequestKey {
    pub peer: Lid,
    pub class: u8,
    pub transaction: TransactionId,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Seat {
    pub clients: Vec<ClientId>,
    pub is_sm: Option<ClientId>,
    asked: VecDeque<(RequestKey, ClientId)>,
}

impl Seat {
    /// Remembers that `client` sent a request to a client of another port.
    pub fn remember(&mut self, key: RequestKey, client: ClientId) {
        if self.asked.len() >= REMEMBERED_MAX {
            self.asked.pop_front();
        }
        self.asked.push_back((key, client));
    }

    /// Returns the client that sent a request; if there are several, the latest.
    pub fn asker(&self, key: RequestKey) -> Option<ClientId> {
        let found = self.asked.iter().rev().find(|(k, _)| *k == key).map(|(_, c)| *c);
        found.filter(|c| self.clients.contains(c))
    }
}

/// All clients.
#[derive(Clone, Debug, Default)]
pub(crate) struct Clients {
    all: Vec<Client>,
    seats: BTreeMap<PortIdx, Seat>,
}

impl Clients {
    pub fn attach(&mut self, port: PortIdx) -> ClientId {
        let id = ClientId(u32::try_from(self.all.len()).unwrap_or(u32::MAX));
        self.all.push(Client {
            port,
            attached: true,
            sent: MadTable::default(),
        });
        self.seats.entry(port).or_default().clients.push(id);
        id
    }

    pub fn detach(&mut self, id: ClientId) {
        let Some(client) = self.all.get_mut(id.0 as usize) else {
            return;
        };
        client.attached = false;
        if let Some(seat) = self.seats.get_mut(&client.port) {
            seat.clients.retain(|c| *c != id);
            seat.is_sm = seat.is_sm.filter(|sm| *sm != id);
        }
    }

    pub fn get(&self, id: ClientId) -> Option<&Client> {
        self.all.get(id.0 as usize).filter(|c| c.attached)
    }

    pub fn get_mut(&mut self, id: ClientId) -> Option<&mut Client> {
        self.all.get_mut(id.0 as usize).filter(|c| c.attached)
    }

    pub fn seat(&self, port: PortIdx) -> Option<&Seat> {
        self.seats.get(&port)
    }

    pub fn seat_mut(&mut self, port: PortIdx) -> Option<&mut Seat> {
        self.seats.get_mut(&port)
    }

    /// Returns the subnet manager at a port.
    pub fn manager(&self, port: PortIdx) -> Option<ClientId> {
        self.seats.get(&port)?.is_sm
    }

    /// Returns the client at a port that gets datagrams not meant for the manager: the client attached last.
    pub fn listener(&self, port: PortIdx) -> Option<ClientId> {
        self.seats.get(&port)?.clients.last().copied()
    }
}
