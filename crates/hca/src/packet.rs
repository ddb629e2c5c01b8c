//! Packets on the wire as values: the header fields that decide something, and the length.

use selvedge_types::{Lid, PKey, Sl};

use crate::attr::Gid;

/// Number of a queue pair that means "all members of the multicast group". Source: IBA vol 1 §9.2.
pub const MULTICAST_QP: u32 = 0xFF_FFFF;

/// Values of a PSN or MSN, which have 24 bits.
pub const PSN_MASK: u64 = 0xFF_FFFF;

/// Bytes of headers and CRCs. Source: IBA vol 1 §5.2.
mod header {
    pub const LOCAL: u32 = 8 + 12 + 4 + 2;
    pub const GRH: u32 = 40;
    pub const DETH: u32 = 8;
    pub const RETH: u32 = 16;
    pub const ATOMIC_ETH: u32 = 28;
    pub const AETH: u32 = 4;
    pub const ATOMIC_ACK_ETH: u32 = 8;
    pub const IMMEDIATE: u32 = 4;
}

/// What a request packet does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Part of a SEND.
    Send,
    /// Part of an RDMA WRITE. The header is in the first packet.
    Write(Option<Range>),
    /// RDMA READ of a range.
    Read(Range),
    /// Compare and swap, or fetch and add.
    Atomic(Atomic),
}

/// A remote range: RDMA extended transport header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// Remote address.
    pub addr: u64,
    /// Key of the remote region.
    pub rkey: u32,
    /// Length in bytes.
    pub bytes: u32,
}

/// An atomic operation on eight bytes: atomic extended transport header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Atomic {
    /// Remote address, a multiple of 8.
    pub addr: u64,
    /// Key of the remote region.
    pub rkey: u32,
    /// What is done.
    pub op: AtomicOp,
}

/// The two atomics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtomicOp {
    /// Stores `swap` if the word equals `compare`.
    CompareSwap {
        /// Expected value.
        compare: u64,
        /// New value.
        swap: u64,
    },
    /// Adds to the word.
    FetchAdd(u64),
}

impl AtomicOp {
    /// Returns the word after the operation.
    #[must_use]
    pub const fn apply(self, word: u64) -> u64 {
        match self {
            Self::CompareSwap { compare, swap } if word == compare => swap,
            Self::CompareSwap { .. } => word,
            Self::FetchAdd(add) => word.wrapping_add(add),
        }
    }
}

/// Reasons of a NAK. Source: IBA vol 1 §9.7.5.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nak {
    /// A packet is missing: the PSN is that of the missing packet.
    Sequence,
    /// The request is malformed or not supported.
    InvalidRequest,
    /// The request touches memory that it may not touch.
    RemoteAccess,
    /// The other end cannot carry out the request.
    RemoteOperation,
}

/// Syndrome of an ACK extended transport header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Syndrome {
    /// Everything up to the PSN has arrived.
    Ack,
    /// No receive was posted; the value is a code of [`crate::rnr_timer`].
    Rnr(u8),
    /// An error.
    Nak(Nak),
}

/// What a packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// A request.
    Request {
        /// The operation.
        request: Request,
        /// True for the first packet of a message.
        first: bool,
        /// True for the last packet of a message.
        last: bool,
        /// Immediate data, in the last packet.
        immediate: Option<u32>,
        /// True if the receiver shall be notified.
        solicited: bool,
        /// True if an acknowledgement is requested.
        ack_req: bool,
    },
    /// An acknowledgement or a negative one.
    Ack(Syndrome),
    /// Data of an RDMA READ.
    ReadResponse {
        /// True for the last packet of the response.
        last: bool,
    },
    /// The former value of an atomic's word.
    AtomicAck(u64),
}

/// Datagram extended transport header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deth {
    /// Q_Key.
    pub qkey: u32,
    /// Number of the sending queue pair.
    pub src_qp: u32,
}

/// A packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Source LID.
    pub slid: Lid,
    /// Destination LID.
    pub dlid: Lid,
    /// Service level.
    pub sl: Sl,
    /// Partition key.
    pub pkey: PKey,
    /// Destination GID, if there is a global route header.
    pub grh: Option<Gid>,
    /// Number of the destination queue pair.
    pub dest_qp: u32,
    /// Sequence number, 24 bits.
    pub psn: u32,
    /// MigReq: the sender is in MIGRATED.
    pub mig_req: bool,
    /// Number of messages that the sender of a response has completed, 24 bits.
    pub msn: u32,
    /// End-to-end credits of a response as a code, 0–30; 31: none are given.
    pub credits: u8,
    /// Datagram header (UD).
    pub deth: Option<Deth>,
    /// What the packet is.
    pub body: Body,
    /// Payload in bytes.
    pub payload: u32,
    /// Stands for the payload: the tag of the message's work request.
    pub tag: u64,
}

impl Packet {
    /// Returns the length on the wire in bytes, with all headers and CRCs.
    #[must_use]
    pub const fn wire_bytes(&self) -> u32 {
        let extended = match self.body {
            Body::Request { request, immediate, .. } => {
                let immediate = if immediate.is_some() { header::IMMEDIATE } else { 0 };
                let own = match request {
                    Request::Send | Request::Write(None) => 0,
                    Request::Write(Some(_)) | Request::Read(_) => header::RETH,
                    Request::Atomic(_) => header::ATOMIC_ETH,
                };
                immediate + own
            }
            Body::Ack(_) | Body::ReadResponse { .. } => header::AETH,
            Body::AtomicAck(_) => header::AETH + header::ATOMIC_ACK_ETH,
        };
        let grh = if self.grh.is_some() { header::GRH } else { 0 };
        let deth = if self.deth.is_some() { header::DETH } else { 0 };
        header::LOCAL + grh + deth + extended + self.payload.next_multiple_of(4)
    }
}

/// Returns the full number of a 24-bit sequence number that is at most 2^23 away from a known one.
#[must_use]
pub(crate) const fn unwrap_psn(near: u64, psn: u32) -> u64 {
    let ahead = (psn as u64).wrapping_sub(near) & PSN_MASK;
    if ahead < 1 << 23 {
        near + ahead
    } else {
        // Full numbers begin at 2^24, so nothing before them underflows.
        (near + ahead).wrapping_sub(1 << 24)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(body: Body, payload: u32) -> Packet {
        Packet {
            slid: Lid(1),
            dlid: Lid(2),
            sl: crate::AhAttr::lid(Lid(1)).sl,
            pkey: PKey::DEFAULT_FULL,
            grh: None,
            dest_qp: 2,
            psn: 0,
            mig_req: true,
            msn: 0,
            credits: 31,
            deth: None,
            body,
            payload,
            tag: 0,
        }
    }

    #[test]
    fn lengths_are_those_of_the_standard() {
        let request = |request| Body::Request {
            request,
            first: true,
            last: true,
            immediate: None,
            solicited: false,
            ack_req: true,
        };
        let range = Range {
            addr: 0,
            rkey: 0,
            bytes: 1,
        };
        assert_eq!(packet(request(Request::Send), 0).wire_bytes(), 26);
        assert_eq!(packet(request(Request::Send), 2_047).wire_bytes(), 26 + 2_048);
        assert_eq!(packet(request(Request::Write(Some(range))), 4).wire_bytes(), 46);
        assert_eq!(packet(request(Request::Write(None)), 4).wire_bytes(), 30);
        assert_eq!(packet(Body::Ack(Syndrome::Ack), 0).wire_bytes(), 30);
        assert_eq!(packet(Body::AtomicAck(0), 0).wire_bytes(), 38);
        let mut datagram = packet(request(Request::Send), 0);
        datagram.deth = Some(Deth { qkey: 0, src_qp: 2 });
        datagram.grh = Some(Gid(1));
        assert_eq!(datagram.wire_bytes(), 26 + 8 + 40);
    }

    #[test]
    fn sequence_numbers_wrap() {
        let base = (1 << 24) | 0xFF_FFFE;
        assert_eq!(unwrap_psn(base, 0xFF_FFFF), base + 1);
        assert_eq!(unwrap_psn(base, 1), base + 3);
        assert_eq!(unwrap_psn(base + 3, 0xFF_FFFE), base);
        assert_eq!(unwrap_psn(1 << 24, 0xFF_FFFF), (1 << 24) - 1);
    }
}
