//! Completion queues and completion channels.

use std::collections::VecDeque;

use crate::error::VerbsError;
use crate::handle::{CompChannel, Context, Cq};
use crate::time::Ps;
use crate::work::{Wc, WcStatus};

/// Which completion raises the next event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Notify {
    /// None.
    Off,
    /// A solicited one, or an error.
    Solicited,
    /// Any.
    Next,
}

/// A completion queue.
#[derive(Clone, Debug)]
pub(crate) struct Queue {
    pub context: Context,
    pub channel: Option<CompChannel>,
    size: u32,
    /// Completions, each with the time when the program can see it.
    entries: VecDeque<(Ps, Wc)>,
    notify: Notify,
    overrun: bool,
    /// Events fetched from the channel and not acknowledged.
    pub unacknowledged: u32,
}

/// What followed from a completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pushed {
    /// Nothing.
    Quiet,
    /// An event is due on the channel.
    Event,
    /// The queue is full: it is in error from now on.
    Overrun,
    /// The queue was in error before.
    Lost,
}

impl Queue {
    pub const fn new(context: Context, channel: Option<CompChannel>, size: u32) -> Self {
        Self {
            context,
            channel,
            size,
            entries: VecDeque::new(),
            notify: Notify::Off,
            overrun: false,
            unacknowledged: 0,
        }
    }

    /// Adds a completion.
    pub fn push(&mut self, visible_at: Ps, wc: Wc, solicited: bool) -> Pushed {
        if self.overrun {
            return Pushed::Lost;
        }
        if self.entries.len() >= self.size as usize {
            self.overrun = true;
            return Pushed::Overrun;
        }
        // Completions become visible in the order in which they were made.
        let visible_at = self.entries.back().map_or(visible_at, |&(at, _)| at.max(visible_at));
        self.entries.push_back((visible_at, wc));
        let counts = solicited || wc.status != WcStatus::Success;
        match self.notify {
            Notify::Next => {}
            Notify::Solicited if counts => {}
            Notify::Solicited | Notify::Off => return Pushed::Quiet,
        }
        self.notify = Notify::Off;
        Pushed::Event
    }

    /// Moves up to `most` visible completions to the end of `out`, and returns how many.
    pub fn poll(&mut self, now: Ps, most: usize, out: &mut Vec<Wc>) -> usize {
        let visible = self.entries.iter().take_while(|(at, _)| *at <= now).count().min(most);
        out.extend(self.entries.drain(..visible).map(|(_, wc)| wc));
        visible
    }

    /// Asks for an event.
    pub const fn request_notify(&mut self, solicited_only: bool) {
        self.notify = match (solicited_only, self.notify) {
            // The stronger request stands. Source: IBA vol 1 §11.4.2.2.
            (true, Notify::Off | Notify::Solicited) => Notify::Solicited,
            (true, Notify::Next) | (false, _) => Notify::Next,
        };
    }

    pub fn resize(&mut self, size: u32) -> Result<(), VerbsError> {
        if self.entries.len() > size as usize {
            return Err(VerbsError::TooSmall {
                found: self.entries.len(),
                wanted: size,
            });
        }
        self.size = size;
        Ok(())
    }

    /// Removes the completions of a queue pair that is reset or destroyed, as drivers do.
    pub fn forget(&mut self, qp_num: u32) {
        self.entries.retain(|(_, wc)| wc.qp_num != qp_num);
    }

    /// Returns when the first completion is visible.
    pub fn first_visible(&self) -> Option<Ps> {
        self.entries.front().map(|&(at, _)| at)
    }

    pub const fn is_overrun(&self) -> bool {
        self.overrun
    }
}

/// A completion channel: events of completion queues.
#[derive(Clone, Debug)]
pub(crate) struct Channel {
    pub context: Context,
    events: VecDeque<(Ps, Cq)>,
}

impl Channel {
    pub const fn new(context: Context) -> Self {
        Self {
            context,
            events: VecDeque::new(),
        }
    }

    pub fn push(&mut self, visible_at: Ps, cq: Cq) {
        self.events.push_back((visible_at, cq));
    }

    pub fn fetch(&mut self, now: Ps) -> Option<Cq> {
        let &(at, cq) = self.events.front()?;
        if at > now {
            return None;
        }
        self.events.pop_front();
        Some(cq)
    }

    pub fn forget(&mut self, cq: Cq) {
        self.events.retain(|&(_, other)| other != cq);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handle::{ContextKind, Slab};
    use crate::work::WcOpcode;

    fn queue(size: u32) -> Queue {
        let mut contexts: Slab<ContextKind, ()> = Slab::new(1);
        Queue::new(contexts.insert(()).unwrap(), None, size)
    }

    fn wc(wr_id: u64, status: WcStatus) -> Wc {
        Wc::plain(wr_id, status, WcOpcode::Send, 0)
    }

    #[test]
    fn completions_are_seen_in_order_and_not_early() {
        let mut queue = queue(4);
        queue.push(20, wc(1, WcStatus::Success), false);
        queue.push(10, wc(2, WcStatus::Success), false);
        let mut out = Vec::new();
        assert_eq!(queue.poll(19, 9, &mut out), 0);
        assert_eq!(queue.poll(20, 1, &mut out), 1);
        assert_eq!(queue.poll(20, 9, &mut out), 1);
        assert_eq!(out.iter().map(|wc| wc.wr_id).collect::<Vec<_>>(), [1, 2]);
    }

    #[test]
    fn an_event_follows_the_first_completion_that_was_asked_for() {
        let check = |solicited_only: bool, pushes: &[(WcStatus, bool, Pushed)]| {
            let mut queue = queue(8);
            queue.request_notify(solicited_only);
            for (at, &(status, solicited, want)) in pushes.iter().enumerate() {
                assert_eq!(queue.push(0, wc(0, status), solicited), want, "{solicited_only} {at}");
            }
        };
        let ok = WcStatus::Success;
        check(false, &[(ok, false, Pushed::Event), (ok, true, Pushed::Quiet)]);
        check(true, &[(ok, false, Pushed::Quiet), (ok, true, Pushed::Event)]);
        check(true, &[(WcStatus::WrFlushErr, false, Pushed::Event)]);
    }

    #[test]
    fn a_full_queue_is_in_error_for_ever() {
        let mut queue = queue(1);
        assert_eq!(queue.push(0, wc(1, WcStatus::Success), false), Pushed::Quiet);
        assert_eq!(queue.push(0, wc(2, WcStatus::Success), false), Pushed::Overrun);
        let mut out = Vec::new();
        queue.poll(0, 9, &mut out);
        assert_eq!(queue.push(0, wc(3, WcStatus::Success), false), Pushed::Lost);
        assert!(queue.is_overrun());
    }
}
