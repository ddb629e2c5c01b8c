//! Digests of what a rehearsal did, and of the contents of agents.

use super::Rehearsal;
use crate::digest::Digest;

impl Rehearsal {
    /// Returns the wire digest: every MAD that a manager sent, every state that it had stored and every change of IsSM,
    /// in order and with its virtual time.
    #[must_use]
    pub const fn digest(&self) -> u64 {
        self.wire.digest.0
    }

    /// Returns a digest of everything that agents hold now.
    #[must_use]
    pub fn held_digest(&self) -> u64 {
        let mut digest = Digest::default();
        self.emulator.held(&mut |bytes| digest = digest.bytes(bytes));
        digest.0
    }

    /// Keeps the input of the wire digest as text, too, from now on.
    pub(crate) fn keep_wire(&mut self) {
        self.wire.lines.get_or_insert_default();
    }

    /// Returns that text since the last call, a line for each output.
    pub(crate) fn take_wire(&mut self) -> Vec<String> {
        self.wire.lines.as_mut().map(std::mem::take).unwrap_or_default()
    }
}
