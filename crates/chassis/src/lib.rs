//! The state of simulated hardware: nodes, ports, cables, installed tables with version counters, counters.
//!
//! No behaviour: nothing here knows management datagrams or time. It only keeps its invariants, for any order of calls:
//!
//! 1. A logical state other than DOWN implies the physical state LinkUp (port 0 of a switch is always LinkUp, ACTIVE).
//! 2. Both ends of a cable are LinkUp, or none is.
//! 3. The ports of a node without power, and ports without a plugged cable, are DOWN.
//! 4. The LIDs that packets are compared with are those in the port's settings.
//!
//! Everything is reached by index. What each passing packet looks at ([`Wire`], [`Chassis::egress`]) is kept apart from
//! what only agents look at ([`PortData`], [`SwitchData`]), so that a fabric of 7,000 nodes stays in the cache.

mod build;
mod chassis;
mod counters;
mod observe;
mod port;
mod switch;

pub use chassis::{Chassis, Egress};
pub use counters::Counters;
pub use port::{ArbEntry, PortData, PortIdx, SpeedSet, VlArbitration, Wire};
pub use switch::{SwitchData, TableKind};
