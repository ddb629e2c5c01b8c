//! Requests and their senders.

use selvedge_types::Lid;
use selvedge_wire::sa::SaData;
use selvedge_wire::{Address, Datagram, Mad, Method, Status};

use crate::refusal::Refusal;

/// Identity of an exchange: the client and its transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Exchange {
    /// LID of the client.
    pub lid: Lid,
    /// Queue pair of the client.
    pub qp: u32,
    /// Transaction of the exchange.
    pub transaction: u64,
}

impl Exchange {
    /// Returns the client: LID and queue pair.
    pub const fn who(&self) -> (Lid, u32) {
        (self.lid, self.qp)
    }

    /// Returns the exchange of a datagram.
    pub fn of(datagram: &Datagram) -> Self {
        Self {
            lid: datagram.address.lid,
            qp: datagram.address.qp,
            transaction: datagram.mad.transaction().0,
        }
    }
}

/// A request with a valid header.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// The sender, to which the answer goes.
    pub from: Address,
    /// The request.
    pub mad: Mad,
    /// True if the request has the right SM_Key.
    pub trusted: bool,
}

impl Request {
    /// Returns the component mask of the request.
    pub fn mask(&self) -> u64 {
        self.mad.component_mask()
    }

    /// Returns the data of the request.
    pub fn data(&self) -> &SaData {
        self.mad.sa_data()
    }

    /// True if the request asks for a table.
    pub fn wants_table(&self) -> bool {
        matches!(self.mad.method(), Method::GetTable | Method::GetMulti)
    }

    /// Returns the header of the answer: the header of the request, without SM_Key, RMPP and data.
    pub fn answer(&self, status: Status, offset: u16) -> Mad {
        let mut mad = self.mad;
        mad.set_method(answer_to(mad.method()));
        mad.set_status(status);
        // Source: IBA vol 1 §15.2.1, C15-0.1.5: the key is never shown.
        mad.set_sm_key(0);
        mad.set_rmpp(None);
        mad.set_attribute_offset(offset);
        mad.sa_data_mut().fill(0);
        mad
    }

    /// Returns a refusal, which contains the data of the request.
    pub fn refusal(&self, why: Refusal) -> Mad {
        let mut mad = self.answer(why.status(), 0);
        if !self.wants_table() {
            *mad.sa_data_mut() = *self.mad.sa_data();
        }
        mad
    }

    /// Returns a datagram to the sender.
    pub const fn reply(&self, mad: Mad) -> Datagram {
        Datagram {
            address: self.from,
            mad,
        }
    }
}

/// Returns the method of the answer. Source: IBA vol 1 §15.2.2.
pub const fn answer_to(method: Method) -> Method {
    match method {
        // GetResp also answers a Set.
        Method::Set => Method::GetResp,
        Method::Trap => Method::TrapRepress,
        other => Method::from_code(other.code() | 0x80),
    }
}
