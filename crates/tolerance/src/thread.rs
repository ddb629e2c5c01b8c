//! The asynchronous thread: it sleeps until the HCA has an event, and handles one event after the other.

use std::collections::VecDeque;

use selvedge_hca::{AsyncEvent, Context, Hca, PS_PER_NS, Ps};

/// Costs of the thread beside [`selvedge_hca::Costs::interrupt_ps`], which is the processor's time of a wake-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadCosts {
    /// To fetch, handle and acknowledge an event: two system calls. Default 1 µs; estimate.
    pub handle_ps: Ps,
}

impl Default for ThreadCosts {
    fn default() -> Self {
        Self {
            handle_ps: 1_000 * PS_PER_NS,
        }
    }
}

/// What the thread has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadCounts {
    /// Events handled.
    pub events: u64,
    /// Events for which the thread had to be woken.
    pub wakeups: u64,
    /// Time of the processor: wake-ups and handling.
    pub busy_ps: Ps,
}

/// The thread.
#[derive(Clone, Debug, Default)]
pub(crate) struct Thread {
    costs: ThreadCosts,
    free_at: Ps,
    in_hand: Option<AsyncEvent>,
    /// When events become visible, as the HCA has announced it.
    announced: VecDeque<Ps>,
    /// Events that were announced for a time that has come, and not fetched: an earlier one is not visible yet.
    unfetched: u32,
    counts: ThreadCounts,
}

impl Thread {
    pub fn new(costs: ThreadCosts) -> Self {
        Self {
            costs,
            ..Self::default()
        }
    }

    /// Takes the time at which an event becomes visible. Events of a context become visible in order.
    pub fn announce(&mut self, at: Ps) {
        let at = self.announced.back().map_or(at, |last| at.max(*last));
        self.announced.push_back(at);
    }

    pub fn next_wake(&self) -> Option<Ps> {
        match self.in_hand {
            Some(_) => Some(self.free_at),
            None => self.announced.front().map(|at| (*at).max(self.free_at)),
        }
    }

    /// Returns an event that is handled now, if there is one, and begins with the next one.
    ///
    /// `check` states how much longer an event takes.
    pub fn run(
        &mut self,
        now: Ps,
        hca: &mut Hca,
        context: Context,
        check: impl Fn(&AsyncEvent) -> Ps,
    ) -> Option<AsyncEvent> {
        if self.free_at > now {
            return None;
        }
        let done = self.in_hand.take();
        while self.announced.front().is_some_and(|at| *at <= now) {
            self.announced.pop_front();
            self.unfetched += 1;
        }
        if self.unfetched > 0
            && let Ok(Some(event)) = hca.get_async_event(now, context)
        {
            self.unfetched -= 1;
            hca.ack_async_event(&event);
            let slept = event.at >= self.free_at && done.is_none();
            let cost = self.costs.handle_ps + check(&event);
            self.free_at = now + cost;
            self.counts.events += 1;
            self.counts.wakeups += u64::from(slept);
            self.counts.busy_ps += cost + if slept { hca.config().costs.interrupt_ps } else { 0 };
            self.in_hand = Some(event);
        }
        done
    }

    pub const fn counts(&self) -> ThreadCounts {
        self.counts
    }

    pub fn is_idle(&self) -> bool {
        self.in_hand.is_none() && self.announced.is_empty() && self.unfetched == 0
    }
}
