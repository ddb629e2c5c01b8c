//! RMPP: messages of many datagrams, as two state machines.
//!
//! Source: IBA vol 1 §13.6. On real hardware the kernel can do this for its programs; a manager that owns its port does
//! it itself, and so sends a table as it is made, a window at a time, and not from a buffer of megabytes.
//!
//! Time is a value: the owner of a machine calls `next_wake` and `expired`.

mod receiver;
mod sender;

pub use receiver::{Receiver, ReceiverConfig, Taken};
pub use sender::{Progress, Sender, SenderConfig};

#[cfg(test)]
mod tests;
