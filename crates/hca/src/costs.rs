//! What the parts of an HCA and its driver cost in time.
//!
//! The defaults are those of an adapter on PCIe 3 or 4. Where no measurement is named, the value is an estimate, and a
//! study that depends on it has to say so.

use crate::attr::AttrMask;
use crate::time::{PS_PER_NS, Ps};

/// Costs in picoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Costs {
    /// From a posted work request to the HCA's knowledge of it: one posted write over PCIe. Default 150 ns; estimate.
    pub doorbell_ps: Ps,
    /// The HCA reads from host memory: a work request or the begin of a payload. Default 500 ns, the order of a DMA
    /// read of 64 bytes in Neugebauer et al., "Understanding PCIe performance for end host networking", SIGCOMM 2018.
    pub dma_read_ps: Ps,
    /// The HCA writes to host memory: a completion or an event. Default 250 ns; estimate, half of a DMA read.
    pub dma_write_ps: Ps,
    /// From an event in memory to the program that sleeps for it: interrupt, handler, wake-up. Default 4 µs; estimate.
    pub interrupt_ps: Ps,
    /// From a request packet to its acknowledgement. Default 200 ns, that of the packet simulator.
    pub ack_ps: Ps,
    /// A packet to the adapter's own port, which comes back inside the adapter; one at a time. Default 300 ns; an
    /// estimate.
    pub loopback_ps: Ps,
    /// A command of the driver to the HCA, whatever it does: system call, mailbox, firmware. Default 10 µs; estimate.
    pub command_ps: Ps,
    /// In addition, for the primary path: `ah_attr`, `port_num`, `pkey_index`, `path_mtu`. Default 2 µs; estimate.
    pub primary_ps: Ps,
    /// In addition, for the alternate path. Default 2 µs; estimate.
    pub alternate_ps: Ps,
    /// In addition, for `path_mig_state`. Default 1 µs; estimate.
    pub path_state_ps: Ps,
    /// In addition, for time-outs, retries and numbers of READs. Default 500 ns; estimate.
    pub limits_ps: Ps,
    /// In addition, for all other attributes together. Default 500 ns; estimate.
    pub others_ps: Ps,
    /// The HCA's work from the packet that arms a queue pair to ARMED. Default 1 µs; estimate.
    pub arm_ps: Ps,
    /// The HCA's work to exchange the paths of a queue pair, which neither sends nor answers meanwhile. Default 2 µs;
    /// estimate.
    pub migrate_ps: Ps,
    /// Reads the context of a queue pair from host memory if it is not in the cache. Default 800 ns; estimate, one and
    /// a half DMA reads.
    pub context_load_ps: Ps,
}

impl Default for Costs {
    fn default() -> Self {
        Self {
            doorbell_ps: 150 * PS_PER_NS,
            dma_read_ps: 500 * PS_PER_NS,
            dma_write_ps: 250 * PS_PER_NS,
            interrupt_ps: 4_000 * PS_PER_NS,
            ack_ps: 200 * PS_PER_NS,
            loopback_ps: 300 * PS_PER_NS,
            command_ps: 10_000 * PS_PER_NS,
            primary_ps: 2_000 * PS_PER_NS,
            alternate_ps: 2_000 * PS_PER_NS,
            path_state_ps: 1_000 * PS_PER_NS,
            limits_ps: 500 * PS_PER_NS,
            others_ps: 500 * PS_PER_NS,
            arm_ps: 1_000 * PS_PER_NS,
            migrate_ps: 2_000 * PS_PER_NS,
            context_load_ps: 800 * PS_PER_NS,
        }
    }
}

impl Costs {
    /// Nothing takes time.
    pub const FREE: Self = Self {
        doorbell_ps: 0,
        dma_read_ps: 0,
        dma_write_ps: 0,
        interrupt_ps: 0,
        ack_ps: 0,
        loopback_ps: 0,
        command_ps: 0,
        primary_ps: 0,
        alternate_ps: 0,
        path_state_ps: 0,
        limits_ps: 0,
        others_ps: 0,
        arm_ps: 0,
        migrate_ps: 0,
        context_load_ps: 0,
    };

    /// Returns what a command costs that modifies these attributes.
    #[must_use]
    pub const fn modify(&self, mask: AttrMask) -> Ps {
        use AttrMask as M;
        let primary = M(M::AV.0 | M::PORT.0 | M::PKEY_INDEX.0 | M::PATH_MTU.0);
        let limits = M(M::TIMEOUT.0
            | M::RETRY_CNT.0
            | M::RNR_RETRY.0
            | M::MIN_RNR_TIMER.0
            | M::MAX_QP_RD_ATOMIC.0
            | M::MAX_DEST_RD_ATOMIC.0);
        let groups = [
            (primary, self.primary_ps),
            (M::ALT_PATH, self.alternate_ps),
            (M::PATH_MIG_STATE, self.path_state_ps),
            (limits, self.limits_ps),
        ];
        let mut sum = self.command_ps;
        let mut rest = mask.without(M::STATE).without(M::CUR_STATE);
        let mut at = 0;
        while at < groups.len() {
            let (group, cost) = groups[at];
            if rest.0 & group.0 != 0 {
                sum += cost;
            }
            rest = rest.without(group);
            at += 1;
        }
        if rest.is_empty() { sum } else { sum + self.others_ps }
    }
}

/// Which contexts of queue pairs the HCA holds: the least recently used one makes room.
#[derive(Clone, Debug)]
pub(crate) struct ContextCache {
    /// 0: every context is always there.
    size: u32,
    clock: u64,
    /// By queue pair: when its context was used last; 0: it is not in the cache.
    used: Vec<u64>,
    /// Use and queue pair, least recent first.
    order: std::collections::BTreeMap<u64, u32>,
    misses: u64,
}

impl ContextCache {
    pub const fn new(size: u32) -> Self {
        Self {
            size,
            clock: 0,
            used: Vec::new(),
            order: std::collections::BTreeMap::new(),
            misses: 0,
        }
    }

    /// Uses a context. True if it had to be loaded.
    pub fn touch(&mut self, qp: u32) -> bool {
        if self.size == 0 {
            return false;
        }
        if self.used.len() <= qp as usize {
            self.used.resize(qp as usize + 1, 0);
        }
        self.clock += 1;
        let before = core::mem::replace(&mut self.used[qp as usize], self.clock);
        self.order.remove(&before);
        self.order.insert(self.clock, qp);
        if self.order.len() > self.size as usize
            && let Some((_, oldest)) = self.order.pop_first()
        {
            self.used[oldest as usize] = 0;
        }
        let missed = before == 0;
        self.misses += u64::from(missed);
        missed
    }

    /// Returns how often a context was loaded.
    pub const fn misses(&self) -> u64 {
        self.misses
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_costs_its_groups_once() {
        let costs = Costs {
            command_ps: 1,
            primary_ps: 10,
            alternate_ps: 100,
            path_state_ps: 1_000,
            limits_ps: 10_000,
            others_ps: 100_000,
            ..Costs::FREE
        };
        use AttrMask as M;
        let check = |masks: &[M], want| {
            let mask = masks.iter().fold(M::NONE, |all, &mask| all.with(mask));
            assert_eq!(costs.modify(mask), want, "{mask}");
        };
        check(&[M::STATE, M::CUR_STATE], 1);
        check(&[M::AV, M::PORT, M::PATH_MTU], 11);
        check(&[M::STATE, M::ALT_PATH, M::PATH_MIG_STATE], 1_101);
        check(&[M::TIMEOUT, M::RETRY_CNT], 10_001);
        check(&[M::QKEY, M::SQ_PSN, M::ALT_PATH], 100_101);
    }

    #[test]
    fn the_least_recently_used_context_makes_room() {
        let mut cache = ContextCache::new(2);
        let missed: Vec<bool> = [0, 1, 0, 2, 0, 1].map(|qp| cache.touch(qp)).to_vec();
        assert_eq!(missed, [true, true, false, true, false, true]);
        assert_eq!(cache.misses(), 4);
        assert!(!ContextCache::new(0).touch(7), "no limit, no load");
    }
}
