//! The state of simulated hardware: nodes, ports, cables, installed tables (with version numbers) and performance
//! counters.
//!
//! This crate has no behaviour: it knows neither management datagrams nor time. It keeps these invariants for any order
//! of calls:
//!
//! 1. A port state other than DOWN implies the physical state LinkUp (port 0 of a switch is always LinkUp, ACTIVE).
//! 2. Both ends of a cable are LinkUp, or none is.
//! 3. The ports of a node without power, and ports without a plugged cable, are DOWN.
//! 4. Whether a packet is for a port is decided by the LIDs in the port's settings.
//!
//! All data are accessed by index. The data that each passing packet uses ([`Wire`], [`Chassis::egress`]) are stored
//! separately from those that only agents use ([`PortData`], [`SwitchData`]), so that a fabric of 7,000 nodes stays in
//! the cache.

mod build;
mod chassis;
mod counters;
mod detail;
mod observe;
mod pma;
mod port;
mod switch;

pub use chassis::{Chassis, Egress};
pub use counters::Counters;
pub use detail::DetailRow;
pub use pma::{AtMaximum, ExtendedCounters, PmaAbilities};
pub use port::{ArbEntry, PortData, PortIdx, SpeedSet, VlArbitration, Wire};
pub use switch::{SwitchData, TableKind};
