//! The judge: proves a plan, and the way to it, before a switch sees it.
//!
//! It shares no code with the routing engines (the crate never imports `routing`): it follows the tables as a packet
//! would, whoever made them. [`verify`] works on any fabric with any manager's tables; [`judge`] also checks a change
//! set and gives out the only thing that may be sent, a [`Judged`] value.
//!
//! # What is judged
//! Every LID in use is a destination. Sources are all *host ports* (ports of channel adapters and routers whose link
//! is trained; they enter through the switch they hang on) and *port 0 of every switch*. Forwarding depends on the
//! destination only, so one pass per destination over the switches finds every loss, hop count, load and dependency.
//!
//! # Who counts how much
//! Switches answer hosts and send them traps, so traffic between port 0 and a host matters as much as traffic between
//! hosts. Traffic from switch to switch hardly exists (an embedded manager is the exception), and engines of the
//! field leave it unrouted or let it turn from down to up. Its losses and cycles are therefore reported apart, as
//! warnings, unless [`JudgeOptions::switch_pairs`] says otherwise.
//!
//! # Deadlock
//! A channel is a directed link between two switches together with a lane. A route that enters a switch by channel a
//! and leaves by channel b makes b a dependency of a. Without a cycle of dependencies there is no credit deadlock
//! (Dally and Seitz 1987). Links from and to hosts cannot be part of a cycle and are left out. LIDs that no port owns
//! count where switches have entries of them, and routes have one service level: whoever still sends there fills the
//! links that these lead over.
//!
//! # Beside plans
//! [`phases`] proves or refuses a list of steps from tables in force to others; [`disjoint`] measures how far the LIDs
//! of one port are ways apart; [`least_change`] counts what a fault costs at least.
//!
//! # Cost
//! O(switches) per destination and O(channels + dependencies) at the end: 972 switches with 6,804 LIDs are 6.6 million
//! table look-ups; `cargo run --release -p selvedge-verify --example judge_speed` says what that takes. A proof that is
//! kept costs what changes: see [`standing`].

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
mod parts;
pub mod phases;
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
    Attribute, Cause, Fault, Finding, Hop, LaneFault, Place, Severity, Sources, Step, Traffic, Unlike, Witness,
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
