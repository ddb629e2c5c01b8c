//! The health of a subnet and its manager, as values.
//!
//! [`assess`] is the only function that makes a [`Health`] (conditions, and one verdict) from [`Facts`]. Status, exit
//! codes, API, events, `selvedge health` and systemd's notifications all show this value. [`Watch`] compares it with
//! the value before, and reports the conditions that began or cleared.
//!
//! The manager gathers the facts about nodes, links, agents and plans; the process around it gathers those about
//! storage, its port and the expected topology. A new condition is a variant of [`What`], a field of [`Facts`] and a
//! line in [`assess`].

mod assess;
mod condition;
mod facts;
mod known;
mod out_of_service;
mod place;
mod since;
mod verdict;
mod watch;

pub use assess::assess;
pub use condition::{Condition, Severity, What};
pub use facts::{
    Absent, AbsentLink, AbsentNode, Alarm, Deviation, Duty, EndState, Facts, ForeignKey, GoneSign, How, NotStored,
    Peer, PeerTrouble, Refused, Role,
};
pub use known::{Known, KnownNode, LinkKey, PortKey};
pub use out_of_service::OutOfService;
pub use place::{End, NodeName, Place};
pub use since::Since;
pub use verdict::{Health, Verdict};
pub use watch::{News, Watch};
