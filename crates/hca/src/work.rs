//! Work requests and completions.

use crate::handle::Ah;
use crate::packet::{Atomic, Range};

/// A local range. Payloads are not simulated, so one range stands for a scatter list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sge {
    /// Address.
    pub addr: u64,
    /// Length in bytes.
    pub bytes: u32,
    /// Key of the local region. It is not checked if the length is 0.
    pub lkey: u32,
}

/// Operation of a send request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendOp {
    /// SEND, with immediate data or without.
    Send {
        /// Immediate data.
        immediate: Option<u32>,
    },
    /// RDMA WRITE, with immediate data or without. The length is that of the local range.
    Write {
        /// Remote address.
        addr: u64,
        /// Key of the remote region.
        rkey: u32,
        /// Immediate data; it consumes a receive at the other end.
        immediate: Option<u32>,
    },
    /// RDMA READ into the local range.
    Read {
        /// Remote address.
        addr: u64,
        /// Key of the remote region.
        rkey: u32,
    },
    /// Compare and swap, or fetch and add; the former value is in the completion.
    Atomic(Atomic),
}

impl SendOp {
    /// Returns the name of the operation.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Send { .. } => "SEND",
            Self::Write { .. } => "RDMA WRITE",
            Self::Read { .. } => "RDMA READ",
            Self::Atomic(_) => "atomic",
        }
    }

    /// True if the answer carries data: READ and atomics.
    #[must_use]
    pub const fn is_answered(self) -> bool {
        matches!(self, Self::Read { .. } | Self::Atomic(_))
    }
}

/// Destination of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// Address handle: LID, service level, path bits.
    pub ah: Ah,
    /// Number of the destination queue pair; [`crate::MULTICAST_QP`] for a multicast group.
    pub remote_qpn: u32,
    /// Q_Key; if bit 31 is set, that of the sending queue pair is used. Source: IBA vol 1 §10.2.5.
    pub remote_qkey: u32,
}

/// A request for the send queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendWr {
    /// The program's number, returned in the completion.
    pub wr_id: u64,
    /// Operation.
    pub op: SendOp,
    /// Local range.
    pub sge: Sge,
    /// True if a successful completion is wanted. Errors always complete.
    pub signaled: bool,
    /// True if the receiver's completion counts as solicited.
    pub solicited: bool,
    /// True if the request waits for all READs and atomics before it (RC).
    pub fence: bool,
    /// True if the payload is in the work request, so that no DMA read is needed and no key is checked.
    pub inline: bool,
    /// Destination (UD).
    pub datagram: Option<Datagram>,
    /// Stands for the payload: returned with the receive of the message.
    pub tag: u64,
}

impl SendWr {
    /// Returns a signaled SEND of this many bytes without immediate data.
    #[must_use]
    pub const fn send(wr_id: u64, sge: Sge) -> Self {
        Self {
            wr_id,
            op: SendOp::Send { immediate: None },
            sge,
            signaled: true,
            solicited: false,
            fence: false,
            inline: false,
            datagram: None,
            tag: 0,
        }
    }

    /// Returns the remote range of a WRITE or READ.
    pub(crate) const fn remote(&self) -> Option<Range> {
        match self.op {
            SendOp::Write { addr, rkey, .. } | SendOp::Read { addr, rkey } => Some(Range {
                addr,
                rkey,
                bytes: self.sge.bytes,
            }),
            SendOp::Send { .. } | SendOp::Atomic(_) => None,
        }
    }

    /// Returns the immediate data.
    pub(crate) const fn immediate(&self) -> Option<u32> {
        match self.op {
            SendOp::Send { immediate } | SendOp::Write { immediate, .. } => immediate,
            SendOp::Read { .. } | SendOp::Atomic(_) => None,
        }
    }
}

/// A request for a receive queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecvWr {
    /// The program's number, returned in the completion.
    pub wr_id: u64,
    /// Local range. For UD the first 40 bytes are for the global route header.
    pub sge: Sge,
}

/// Status of a completion. The order is that of `ibv_wc_status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WcStatus {
    /// The request was carried out.
    Success,
    /// A message was longer than its receive, or than the path allows.
    LocLenErr,
    /// The local range is not in the region of its key.
    LocProtErr,
    /// The request was not begun, because the queue pair went to an error state before.
    WrFlushErr,
    /// The other end refused the request as invalid.
    RemInvReqErr,
    /// The other end refused access to its memory.
    RemAccessErr,
    /// The other end could not carry out the request.
    RemOpErr,
    /// No answer after all retries.
    RetryExcErr,
    /// The other end had no receive after all retries.
    RnrRetryExcErr,
}

impl WcStatus {
    /// Returns the name that verbs give the status, without the prefix.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Success => "SUCCESS",
            Self::LocLenErr => "LOC_LEN_ERR",
            Self::LocProtErr => "LOC_PROT_ERR",
            Self::WrFlushErr => "WR_FLUSH_ERR",
            Self::RemInvReqErr => "REM_INV_REQ_ERR",
            Self::RemAccessErr => "REM_ACCESS_ERR",
            Self::RemOpErr => "REM_OP_ERR",
            Self::RetryExcErr => "RETRY_EXC_ERR",
            Self::RnrRetryExcErr => "RNR_RETRY_EXC_ERR",
        }
    }
}

/// What was completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WcOpcode {
    /// A SEND.
    Send,
    /// An RDMA WRITE.
    RdmaWrite,
    /// An RDMA READ.
    RdmaRead,
    /// An atomic, with the former value of the word.
    Atomic(u64),
    /// A receive of a SEND.
    Recv,
    /// A receive of an RDMA WRITE with immediate data.
    RecvRdmaWithImm,
}

/// A completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wc {
    /// The program's number of the request.
    pub wr_id: u64,
    /// Status.
    pub status: WcStatus,
    /// What was completed. Of a failed request only the queue is meaningful.
    pub opcode: WcOpcode,
    /// Length of a received message, including the 40 bytes of a global route header for UD.
    pub bytes: u32,
    /// Immediate data of a received message.
    pub immediate: Option<u32>,
    /// Number of the local queue pair.
    pub qp_num: u32,
    /// Number of the sending queue pair (UD receives).
    pub src_qp: u32,
    /// LID of the sender (UD receives).
    pub slid: u16,
    /// Service level (UD receives).
    pub sl: u8,
    /// Tag of the received message.
    pub tag: u64,
}

impl Wc {
    /// Returns a completion without the fields of a received message.
    pub(crate) const fn plain(wr_id: u64, status: WcStatus, opcode: WcOpcode, bytes: u32) -> Self {
        Self {
            wr_id,
            status,
            opcode,
            bytes,
            immediate: None,
            qp_num: 0,
            src_qp: 0,
            slid: 0,
            sl: 0,
            tag: 0,
        }
    }
}
