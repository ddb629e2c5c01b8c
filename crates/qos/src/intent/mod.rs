//! Intent: classes of traffic with promises, compiled to service levels, lanes and arbitration tables.
//!
//! # What a promise means
//!
//! - A class of **low latency** has entries in the high-priority table, and VLHighLimit 0: after one of its packets a
//!   packet of low priority may go. So it waits for few packets, and takes no more of a link than its packets' size
//!   allows. A cap of such a class is kept by its MTU.
//! - The **share** of another class is its least part of what low-latency classes leave of a link, while it is
//!   backlogged on all its lanes. The share of a low-latency class is its least part of the link.
//! - A class has one lane for each **layer** of routing, because routes keep their layer to be free of deadlock. So
//!   classes × layers lanes are needed. On a link with fewer lanes some classes share lanes; layers are never mixed,
//!   unless the link has fewer lanes than routing has layers.
//!
//! Shares are exact for packets of the MTU, because every weight is a multiple of it.

mod classify;
mod compile;
mod error;
mod link;
mod offer;
mod quota;
mod text;

pub use classify::{Context, class_of};
pub use compile::{compile, most_of};
pub use error::{IntentError, Refused, Why};
pub use link::{Lanes, LinkTables, tables_on};
pub use offer::{Distance, Offer};
pub use text::{lines, parse};

pub(crate) use selvedge_plan::qos::{Class, ClassPlan, Compiled, Hardware, Intent, Latency, Match, Ulp};

/// Reads the name of a ULP, in any case.
pub fn ulp(name: &str) -> Result<Ulp, IntentError> {
    let known = Ulp::ALL.into_iter().find(|ulp| ulp.name().eq_ignore_ascii_case(name));
    known.ok_or_else(|| IntentError::UnknownUlp {
        name: name.to_owned(),
        meant: crate::near::meant(name, Ulp::ALL.map(Ulp::name)),
    })
}

#[cfg(test)]
mod tests;
