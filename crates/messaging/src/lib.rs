//! Messages over verbs as a message passing library sends them, with quality of service: which service level (SL) and
//! which queue pair each message takes.
//!
//! Source: Subramoni, Lai and Panda, "Designing QoS Aware MPI for InfiniBand" (OSU technical report). A [`Policy`] is
//! one of its schemes: one SL for each job, classes by size with control messages first, or queue pairs on several SLs
//! in turn. With RC each queue pair has the SL with which it was connected; with UD, the paper's future work, each
//! message has its own. [`QpMemory`] says what that costs in memory.
//!
//! [`Exchange`] carries messages between hosts of a simulated subnet: short ones at once (eager), long ones after a
//! request and an answer (rendezvous), long ones in pieces where a policy takes queue pairs in turn, and datagrams in
//! pieces of the MTU. It is a core: times are values, in picoseconds.
//!
//! What is simplified:
//! - Connecting costs nothing, and receives are always posted in time.
//! - Datagrams are not repeated: a lost one is an error. So UD is for subnets without faults.

mod error;
mod exchange;
mod host;
mod memory;
mod policy;

pub use error::MessagingError;
pub use exchange::{Channel, Event, Exchange, Library, MessageId};
pub use host::adapter;
pub use memory::QpMemory;
pub use policy::{Choice, Kind, Policy, Scheme, Sizes, Turn};
