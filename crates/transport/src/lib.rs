//! Ports of real and simulated fabrics.
//!
//! - [`umad`]: libibumad, loaded at run time. A real HCA; or ibsim, if the process was started with
//!   `LD_PRELOAD=…/libumad2sim.so`.
//! - [`ibsim`]: both ends of the protocol that ibsim and its preloaded clients speak. [`ibsim::IbsimPort`] is a client
//!   without preloading; [`ibsim::IbsimServer`] lets unmodified OpenSM and infiniband-diags attach to our emulator.
//!
//! [`PortSpec`] names a port in one text, and [`open`] opens that port.
//!
//! This is the only crate with `unsafe` code and with access to device files.
//!
//! # Transaction ids
//! The upper 32 bits of a transaction id belong to the layer below: the kernel writes its agent number there, and
//! ibsim's server the slot of the client. So, for every port of this crate:
//! - a request that this program sends may use the low 32 bits only; the layer below overwrites the upper half;
//! - its response, or the request itself when it is returned unanswered, arrives with the upper half cleared;
//! - requests and traps of other programs, and responses of this program, keep all 64 bits, because a response must
//!   repeat the id of its request.

mod file_limit;
pub mod ibsim;
mod memory;
mod outstanding;
mod pages;
mod poll;
mod spec;
mod turns;
pub mod umad;

pub use file_limit::outlive_file_limit;
pub use memory::{keep_freed_memory, prefer_this_thread, put_this_thread_behind, put_this_thread_last, use_huge_pages};
pub use pages::{GiveBack, Pages};
pub use spec::{PortSpec, PortSpecError, Role, open};
pub use turns::Turns;

use selvedge_wire::sa::RmppKind;
use selvedge_wire::{Class, Mad, Method};

/// True for datagrams that answer another datagram: their transaction id was chosen by the requester.
///
/// TrapRepress has no response bit but answers a Trap. The kernel decides in the same way (Source: Linux
/// `ib_response_mad`).
#[must_use]
pub fn is_answer(mad: &Mad) -> bool {
    mad.method().is_response() || mad.method() == Method::TrapRepress
}

/// True for requests that need a response: all but responses, Trap, Send and acknowledgements of transfers.
#[must_use]
pub fn wants_answer(mad: &Mad) -> bool {
    !is_answer(mad) && !matches!(mad.method(), Method::Trap | Method::Send) && !is_receipt(mad)
}

/// True for messages from the receiver of an RMPP transfer to its sender. They have the method of the request.
fn is_receipt(mad: &Mad) -> bool {
    let rmpp = (mad.class() == Class::SubnAdm).then(|| mad.rmpp()).flatten();
    rmpp.is_some_and(|rmpp| rmpp.kind != RmppKind::Data)
}

/// Bits of a transaction id that belong to the requester.
const OWN_TRANSACTION_BITS: u64 = 0xFFFF_FFFF;
