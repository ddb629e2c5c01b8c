//! Traffic of hosts, and the interface of workloads.

use crate::units::Ps;

/// A host: index of an end port with a link and a LID, by node and port number.
pub type Host = u32;

/// A message to post.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// When the message is due; not before earlier messages of the host.
    pub at: Ps,
    /// The receiver.
    pub to: Host,
    /// Length in bytes; a message of 0 bytes is one packet without payload.
    pub bytes: u32,
    /// A value returned on arrival.
    pub tag: u64,
    /// Service level; `None`: according to [`crate::Settings::sl`].
    pub sl: Option<u8>,
}

/// A message with all packets delivered or lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The host that posted the message.
    pub from: Host,
    /// The host that received the message.
    pub to: Host,
    /// Tag of the message.
    pub tag: u64,
    /// When the message was posted.
    pub posted: Ps,
    /// False if a part of the message was lost, so that the receiver does not have it.
    pub whole: bool,
}

/// Source of messages.
pub trait Workload {
    /// Returns the next message of a host. `None`: the host has no further message until [`Self::arrived`] names it.
    /// This is called again each time the message that was returned last is posted.
    fn next(&mut self, host: Host, now: Ps) -> Option<Message>;

    /// Called when a message has arrived. Adds to `ready` the hosts that can post a message because of it.
    fn arrived(&mut self, arrival: Arrival, now: Ps, ready: &mut Vec<Host>) {
        let _ = (arrival, now, ready);
    }

    /// Takes back a message that was returned but is not due yet: [`Self::arrived`] has named the host, so the host may
    /// now have another message to post first.
    fn take_back(&mut self, host: Host, message: Message) {
        let _ = (host, message);
    }

    /// True if no more messages follow, so that the simulation ends.
    fn is_done(&self) -> bool {
        false
    }

    /// Returns when the workload was completed, if it has an end.
    fn completed_at(&self) -> Option<Ps> {
        None
    }
}
