//! What hosts send, as the simulator asks for it.

use crate::units::Ps;

/// A host: position of an end port with a link and a LID, by node and port number.
pub type Host = u32;

/// A message to post.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// When; not before the messages that the host posted earlier.
    pub at: Ps,
    /// The receiver.
    pub to: Host,
    /// Bytes; a message of 0 bytes is one packet without payload.
    pub bytes: u32,
    /// Given back when it has arrived.
    pub tag: u64,
    /// Service level; `None`: as [`crate::Settings::sl`] says.
    pub sl: Option<u8>,
}

/// A message whose last packet has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The host that posted it.
    pub from: Host,
    /// The host that received it.
    pub to: Host,
    /// Its tag.
    pub tag: u64,
    /// When it was posted.
    pub posted: Ps,
    /// False if some of it was lost, so that the receiver has nothing.
    pub whole: bool,
}

/// Where messages come from.
pub trait Workload {
    /// The next message of a host; `None`: nothing until [`Self::arrived`] names the host. Called again each time the
    /// message handed out last is posted.
    fn next(&mut self, host: Host, now: Ps) -> Option<Message>;

    /// A message has arrived. Hosts that have something to post because of it are added to `ready`.
    fn arrived(&mut self, arrival: Arrival, now: Ps, ready: &mut Vec<Host>) {
        let _ = (arrival, now, ready);
    }

    /// A message that was handed out, but is not due yet, comes back: the host has been named by [`Self::arrived`], and
    /// may have something else to post before.
    fn take_back(&mut self, host: Host, message: Message) {
        let _ = (host, message);
    }

    /// True if nothing more will come: the simulation ends.
    fn is_done(&self) -> bool {
        false
    }

    /// When everything was done, if there is such a moment.
    fn completed_at(&self) -> Option<Ps> {
        None
    }
}
