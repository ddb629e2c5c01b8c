//! A simulated host channel adapter with the interface of verbs.
//!
//! [`Hca`] is one device with its ports. It is a core: time is a value in picoseconds, nothing is read from a clock,
//! and the same calls give the same results. A driver moves packets: it asks a port for the next packet of a service
//! level ([`Hca::peek`], [`Hca::take`]), hands arriving packets in ([`Hca::receive`]), states what the subnet manager
//! has set at a port ([`Hca::set_port`]), and calls [`Hca::wake`] when [`Hca::next_wake`] says so. Programs call the
//! verbs, which have the names and meanings of `libibverbs`: a verb that returns an error has changed nothing.
//!
//! [`Adapters`] holds one such device for each node, and is an endpoint of the packet simulator.
//!
//! What is there: contexts, protection domains, memory regions, completion queues and channels, shared receive queues,
//! address handles, queue pairs of RC, UC and UD with all their states; SEND, RDMA WRITE, RDMA READ and atomics;
//! acknowledgements, repeats, RNR NAKs; asynchronous events; automatic path migration (module `path`); costs of
//! doorbells, DMA, interrupts and commands ([`Costs`]).
//!
//! What is simplified:
//! - Payloads do not exist; a `tag` of the work request stands for them. Atomics do change words.
//! - A place in a send queue is free when the HCA has completed the request, not when its completion is polled.
//! - End-to-end credits are given and heeded only by adapters with [`HcaConfig::end_to_end_credits`]; else a sender
//!   learns from RNR NAKs that receives are missing.
//! - The time-out is the shortest that the standard allows for a code.
//! - The static rate of a path paces its queue pair, whatever other queue pairs send by the same path.
//!
//! A queue pair takes 1.0 kB with empty queues, and 144 bytes for each posted send.
//!
//! ```
//! use selvedge_hca::{Access, AttrMask, Hca, HcaConfig, QpAttr, QpInit, QpState, Transport, VerbsError};
//! use selvedge_types::Guid;
//!
//! let mut hca = Hca::new(HcaConfig::new(Guid(1), 1))?;
//! let context = hca.open()?;
//! let pd = hca.alloc_pd(context)?;
//! let cq = hca.create_cq(context, 16, None)?;
//! let init = QpInit {
//!     transport: Transport::Rc,
//!     send_cq: cq,
//!     recv_cq: cq,
//!     srq: None,
//!     cap: Default::default(),
//!     sq_sig_all: true,
//! };
//! let qp = hca.create_qp(pd, &init)?;
//! let attr = QpAttr { state: QpState::Init, access: Access::ALL, ..Default::default() };
//! let refused = hca.modify_qp(0, qp, &attr, AttrMask::STATE.with(AttrMask::PORT)).unwrap_err();
//! assert_eq!(
//!     refused.to_string(),
//!     "SLV-HCA-0008: RC from RESET to INIT needs ACCESS_FLAGS PKEY_INDEX; set it in the mask"
//! );
//! # Ok::<(), VerbsError>(())
//! ```

mod adapters;
mod attr;
mod config;
mod costs;
mod cq;
mod credits;
mod error;
mod event;
mod handle;
mod hca;
mod memory;
mod multicast;
mod outgoing;
mod packet;
mod path;
mod port;
mod qp;
mod receive_queue;
mod requester;
mod responder;
mod table;
mod time;
mod work;

pub use adapters::{Adapters, HcaIndex};
pub use attr::{Access, AhAttr, AttrMask, Gid, Path, PathState, QpAttr, QpCap, QpState, Transport};
pub use config::{HcaConfig, Limits};
pub use costs::Costs;
pub use error::VerbsError;
pub use event::{AsyncEvent, Element, EventType};
pub use handle::{
    Ah, AhKind, ChannelKind, CompChannel, Context, ContextKind, Cq, CqKind, Handle, Kind, Mr, MrKind, Pd, PdKind, Qp,
    QpKind, Srq, SrqKind,
};
pub use hca::{Hca, Notice};
pub use memory::MrInfo;
pub use packet::{Atomic, AtomicOp, Body, Deth, MULTICAST_QP, Nak, PSN_MASK, Packet, Range, Request, Syndrome};
pub use path::PathCheck;
pub use port::{PortAttr, PortCounts};
pub use qp::{QpCounts, QpInit};
pub use requester::SendCounts;
pub use responder::RecvCounts;
pub use table::{Masks, check, masks};
pub use time::{PS_PER_NS, PS_PER_US, Ps, ack_timeout, rate_time, rnr_timer};
pub use work::{Datagram, RecvWr, SendOp, SendWr, Sge, Wc, WcOpcode, WcStatus};
