//! RMPP: messages of several datagrams, as two state machines.
//!
//! Source: IBA vol 1 §13.6. On real hardware the kernel can do this for its programs. A manager does it itself, and so
//! sends a table while it is computed, one window at a time, instead of from a buffer of megabytes.
//!
//! Time is a value: the owner of a state machine calls `next_wake` and `expired`.

mod receiver;
mod sender;

pub use receiver::{Receiver, ReceiverConfig, Taken};
pub use sender::{Progress, Sender, SenderConfig};

#[cfg(test)]
mod tests;
