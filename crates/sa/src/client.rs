//! A request, and who sent it.

use selvedge_types::Lid;
use selvedge_wire::sa::SaData;
use selvedge_wire::{Address, Datagram, Mad, Method, Status};

use crate::refusal::Refusal;

/// Who is on the other side of an exchange, and which one it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Exchange {
    /// LID of the client.
    pub lid: Lid,
    /// Its queue pair.
    pub qp: u32,
    /// Its transaction.
    pub transaction: u64,
}

impl Exchange {
    /// Who asks: LID and queue pair.
    pub const fn who(&self) -> (Lid, u32) {
        (self.lid, self.qp)
    }

    /// That of a datagram.
    pub fn of(datagram: &Datagram) -> Self {
        Self {
            lid: datagram.address.lid,
            qp: datagram.address.qp,
            transaction: datagram.mad.transaction().0,
        }
    }
}

/// A request that is understood as far as its header goes.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// Where it came from, and where its answer goes.
    pub from: Address,
    /// The request.
    pub mad: Mad,
    /// It showed the right SM_Key.
    pub trusted: bool,
}

impl Request {
    /// Its component mask.
    pub fn mask(&self) -> u64 {
        self.mad.component_mask()
    }

    /// Its data.
    pub fn data(&self) -> &SaData {
        self.mad.sa_data()
    }

    /// True if it asks for a table.
    pub fn wants_table(&self) -> bool {
        matches!(self.mad.method(), Method::GetTable | Method::GetMulti)
    }

    /// The answer's header: the request's, without key and RMPP, and without data.
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

    /// A refusal: the request's data go back with it.
    pub fn refusal(&self, why: Refusal) -> Mad {
        let mut mad = self.answer(why.status(), 0);
        if !self.wants_table() {
            *mad.sa_data_mut() = *self.mad.sa_data();
        }
        mad
    }

    /// Back to the sender.
    pub const fn reply(&self, mad: Mad) -> Datagram {
        Datagram {
            address: self.from,
            mad,
        }
    }
}

/// The method that answers another. Source: IBA vol 1 §15.2.2.
pub const fn answer_to(method: Method) -> Method {
    match method {
        // GetResp answers Set as well.
        Method::Set => Method::GetResp,
        Method::Trap => Method::TrapRepress,
        other => Method::from_code(other.code() | 0x80),
    }
}
