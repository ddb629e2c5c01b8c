//! What queue pairs cost in memory.

use selvedge_hca::Transport;

use crate::policy::Policy;

/// Memory of queue pairs at one process, in bytes.
///
/// The defaults are those of ConnectX adapters as their driver in Linux has them: a context of 256 bytes, work requests
/// of 64 bytes, whole pages for each queue; they are an estimate for other adapters. Receives of connections are in a
/// shared queue, so only the send queue counts for each. Buffers of messages are not counted: these depend on
/// messages, not on queue pairs. What a library itself keeps for a peer to repeat datagrams is not counted either.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QpMemory {
    /// Context of a queue pair. Default 256.
    pub context: u64,
    /// A work request. Default 64.
    pub request: u64,
    /// Places in each queue. Default 128.
    pub places: u64,
    /// Queues take whole pages of this size. Default 4,096.
    pub page: u64,
    /// An address handle. Default 64.
    pub address: u64,
}

impl Default for QpMemory {
    fn default() -> Self {
        Self {
            context: 256,
            request: 64,
            places: 128,
            page: 4_096,
            address: 64,
        }
    }
}

impl QpMemory {
    /// Returns the bytes that a process needs to reach so many peers.
    ///
    /// With RC each peer has all queue pairs of the policy. With UD one queue pair reaches all peers, and each peer has
    /// an address handle for each service level.
    #[must_use]
    pub fn of(&self, policy: &Policy, peers: u64) -> u64 {
        let queue = (self.places * self.request).next_multiple_of(self.page.max(1));
        match policy.transport() {
            Transport::Rc | Transport::Uc => peers * policy.queue_pairs().len() as u64 * (self.context + queue),
            Transport::Ud => self.context + 2 * queue + peers * policy.levels().len() as u64 * self.address,
        }
    }
}

#[cfg(test)]
mod tests {
    use selvedge_types::Sl;

    use super::*;
    use crate::policy::{Scheme, Sizes};

    #[test]
    fn datagrams_need_one_queue_pair_for_all_peers() {
        let sl = |level| Sl::new(level).unwrap();
        let classes = |transport| {
            let sizes = Sizes {
                control: sl(1),
                classes: vec![(1_024, sl(1))],
                rest: sl(0),
            };
            Policy::new(Scheme::Sizes(sizes), transport).unwrap()
        };
        let memory = QpMemory::default();
        assert_eq!(memory.of(&classes(Transport::Rc), 1), 2 * (256 + 8_192));
        assert_eq!(memory.of(&classes(Transport::Rc), 1_000), 2_000 * (256 + 8_192));
        assert_eq!(memory.of(&classes(Transport::Ud), 1), 256 + 2 * 8_192 + 2 * 64);
        assert_eq!(memory.of(&classes(Transport::Ud), 1_000), 256 + 2 * 8_192 + 2_000 * 64);
        let small = QpMemory { places: 1, ..memory };
        assert_eq!(small.of(&classes(Transport::Rc), 1), 2 * (256 + 4_096), "whole pages");
    }
}
