//! Congestion: which ports wait to send, and the link that they wait for.
//!
//! A port waits if its share of XmitWait passes a threshold ([`WaitWatch`]). Congestion spreads against the direction
//! of the packets: the buffer behind a full link fills, so the ports that send into this buffer wait, and so on to the
//! hosts. [`trace`] goes the other way, along the forwarding tables in force, from each waiting port to the links that
//! its packets take next. It ends at the root: a saturated link, or a port to a host that accepts too slowly.
//! [`Routes::crossing`] returns the pairs of hosts with a route over a link, exactly as the tables route them.

mod ahead;
mod reach;
mod routes;
mod tree;
mod watch;

pub use routes::{Pair, Routes};
pub use tree::{Branch, Cause, Congestion, Tree, trace};
pub use watch::{Load, WaitThresholds, WaitWatch};
