//! The judge: proves a plan, and the transition to it, before any switch receives a Set.
//!
//! The judge shares no code with the routing engines (the crate never imports `routing`). It follows the forwarding
//! tables as a packet would, so it can judge the tables of any manager. [`verify`] works on any fabric with any
//! manager's tables. [`judge`] also checks a change set and returns a [`Judged`] value, the only thing that may be
//! sent.
//!
//! # What is judged
//! Every LID in use is a destination. Sources are all *host ports* (ports of channel adapters and routers with a
//! trained link) and *port 0 of every switch*. Packets of a host port enter through the switch that the host is
//! attached to. Forwarding depends on the destination only, so one pass per destination over the switches finds every
//! loss, hop count, load and dependency.
//!
//! # Weight of each class of traffic
//! Switch agents answer hosts and send them traps, so traffic between port 0 and a host matters as much as traffic
//! between hosts. Traffic from switch to switch hardly exists (an embedded manager is the exception), and common
//! routing engines leave it unrouted or let it turn from down to up. Its losses and cycles are therefore reported
//! apart, as warnings, unless [`JudgeOptions::switch_pairs`] makes them errors.
//!
//! # Deadlock
//! A channel is a directed link between two switches together with a lane. A route that enters a switch by channel a
//! and leaves by channel b makes a depend on b. Without a cycle of dependencies there is no credit deadlock (Dally and
//! Seitz 1987). Links from and to hosts cannot be part of a cycle and are left out. LIDs without an owner count too, if
//! switches have entries for them and routes have one service level: packets to such a LID still fill the links on
//! their path.
//!
//! # Further measurements
//! [`phases`] proves or refuses a list of steps from the tables in force to other tables. [`disjoint`] measures how
//! independent the paths to the LIDs of one port are. [`least_change`] computes a lower bound for the cost of a fault.
//!
//! # Cost
//! O(switches) per destination and O(channels + dependencies) at the end: 972 switches with 6,804 LIDs are 6.6 million
//! table look-ups. `cargo run --release -p selvedge-verify --example judge_speed` prints the time. A proof that is kept
//! between calls costs only what changes: see [`standing`].

mod aliases;
mod by_port;
mod cdg;
mod contention;
mod cycle;
mod directed;
pub mod disjoint;
mod enforcement;
mod figures;
mod finding;
mod ground;
mod judged;
mod kind;
mod lane_tables;
mod least;
mod lids;
mod multicast;
mod out_of_service;
mod parts;
pub mod phases;
mod quality;
mod quick;
mod reach;
mod settings;
mod sl_vl;
pub mod standing;
mod subject;
mod tally;
mod text;
mod transition;
mod verdict;
mod whole;
mod witness;

pub use aliases::{AliasFault, judge_aliases};
pub use contention::{Bisection, Contention, ContentionOptions, ShiftFigures, Stretch, contention};
pub use figures::{Figures, LaneFigures, Load, PairFigures};
pub use finding::{
    Attribute, Cause, Fault, Finding, Hop, LaneFault, Place, QualityFault, Severity, Sources, Step, Traffic, Unlike,
    Witness,
};
pub use judged::{JudgeOptions, Judged, Refusal, Senders, judge, judge_made};
pub use kind::{Kind, UnknownKind};
pub use least::{Least, Rule, least_change};
pub use multicast::{
    MulticastSubject, OtherBlock, RouteTurns, Stray, circular_groups, judge_multicast, judge_taking_away,
    verify_multicast,
};
pub use subject::Subject;
pub use verdict::{Total, Verdict, verify};

#[cfg(test)]
#[path = "../tests/it/support/mod.rs"]
mod support;
