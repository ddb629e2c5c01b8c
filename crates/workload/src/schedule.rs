//! Schedules of ranks: sends, receives and computation that wait for each other.
//!
//! Each rank has operations with dependencies among them, as in GOAL (Hoefler, Siebert, Lumsdaine 2009). A message
//! matches the receiver's first receive with its sender and tag, in the order of posting (MPI). A send ends when its
//! last byte has arrived. A receive ends when it is posted and its message has arrived. Computation takes its time, one
//! operation of a rank after the other.

use std::collections::{BTreeMap, VecDeque};

use selvedge_dataplane::{Arrival, Host, Message, Ps, Workload};

/// The work of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Sends a message.
    Send {
        /// The receiving rank.
        to: u32,
        /// Length of the message in bytes.
        bytes: u32,
        /// Tag of the message, which a receive names.
        tag: u32,
    },
    /// Waits for a message.
    Receive {
        /// The sending rank.
        from: u32,
        /// Tag of the message.
        tag: u32,
    },
    /// Computes for a given time.
    Compute {
        /// Duration in nanoseconds.
        ns: u64,
    },
}

/// Largest number of nanoseconds of computation in a schedule, summed over all operations. It is a quarter of the range
/// of picoseconds in 64 bits (53 days), so that message times can be added.
pub(crate) const COMPUTE_MAX_NS: u64 = u64::MAX / 4 / 1_000;

#[derive(Clone, Debug)]
struct Op {
    work: Work,
    /// Operations that wait for the end of this one.
    then: Vec<u32>,
    /// Number of operations for which this one waits.
    waits: u32,
    /// The time at which the last of these operations ended.
    ready_at: Ps,
}

/// The operations of all ranks.
#[derive(Clone, Debug, Default)]
pub struct Schedule {
    ranks: Vec<Vec<Op>>,
    /// Operations that wait until another one begins, by rank and number of that other operation. There are few, so
    /// they are stored in a map instead of with each operation.
    with: BTreeMap<(u32, u32), Vec<u32>>,
}

/// An operation of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OpId(pub u32);

impl Schedule {
    /// Returns a schedule of `ranks` ranks, without operations.
    #[must_use]
    pub fn new(ranks: u32) -> Self {
        Self {
            ranks: vec![Vec::new(); ranks as usize],
            with: BTreeMap::new(),
        }
    }

    /// Returns the number of ranks.
    #[must_use]
    pub const fn ranks(&self) -> u32 {
        self.ranks.len() as u32
    }

    /// Returns the number of operations.
    #[must_use]
    pub fn ops(&self) -> usize {
        self.ranks.iter().map(Vec::len).sum()
    }

    /// Returns the number of dependencies.
    #[cfg(test)]
    pub(crate) fn waits(&self) -> usize {
        self.ranks.iter().flatten().map(|op| op.waits as usize).sum()
    }

    /// Adds an operation of a rank, after those in `after`.
    ///
    /// # Panics
    /// If the rank does not exist, or if an operation in `after` does not belong to it.
    pub fn add(&mut self, rank: u32, work: Work, after: &[OpId]) -> OpId {
        let ops = &mut self.ranks[rank as usize];
        let id = OpId(ops.len() as u32);
        ops.push(Op {
            work,
            then: Vec::new(),
            waits: 0,
            ready_at: 0,
        });
        for &before in after {
            self.require(rank, id, before);
        }
        id
    }

    /// Makes an operation of a rank wait until another one ends.
    ///
    /// # Panics
    /// As [`Self::add`].
    pub fn require(&mut self, rank: u32, op: OpId, before: OpId) {
        let ops = &mut self.ranks[rank as usize];
        ops[before.0 as usize].then.push(op.0);
        ops[op.0 as usize].waits += 1;
    }

    /// Makes an operation of a rank wait until another one begins.
    ///
    /// # Panics
    /// As [`Self::add`].
    pub fn require_start(&mut self, rank: u32, op: OpId, before: OpId) {
        let ops = &mut self.ranks[rank as usize];
        assert!((before.0 as usize) < ops.len(), "no such operation");
        ops[op.0 as usize].waits += 1;
        self.with.entry((rank, before.0)).or_default().push(op.0);
    }
}

/// Receives and messages of one (sender, tag) that are not matched yet.
#[derive(Clone, Debug, Default)]
struct Match {
    /// Receives: the operation, and when it was posted.
    receives: VecDeque<(u32, Ps)>,
    /// Arrival times of messages.
    messages: VecDeque<Ps>,
}

#[derive(Clone, Debug, Default)]
struct Rank {
    /// Messages to post, by time and order.
    sends: BTreeMap<(Ps, u64), Message>,
    matches: BTreeMap<(u32, u32), Match>,
    /// Time until which the rank computes.
    busy_until: Ps,
    left: usize,
    done_at: Ps,
}

/// Ranks that execute a schedule.
#[derive(Clone, Debug)]
pub struct Program {
    schedule: Schedule,
    ranks: Vec<Rank>,
    posted: u64,
    left: usize,
    /// True if a message was lost, so that an operation waits for ever.
    broken: bool,
}

impl Program {
    /// Returns a program in which all operations without dependencies are ready.
    #[must_use]
    pub fn new(schedule: Schedule) -> Self {
        let rank = |ops: &Vec<Op>| Rank {
            left: ops.len(),
            ..Rank::default()
        };
        let mut program = Self {
            ranks: schedule.ranks.iter().map(rank).collect(),
            left: schedule.ops(),
            schedule,
            posted: 0,
            broken: false,
        };
        for rank in 0..program.schedule.ranks() {
            // Listed first, because an operation may end when it begins, and others begin because of it.
            let ops = (0..).zip(&program.schedule.ranks[rank as usize]);
            let free: Vec<u32> = ops.filter(|(_, op)| op.waits == 0).map(|(id, _)| id).collect();
            for op in free {
                program.start(rank, op, 0);
            }
        }
        program
    }

    /// Returns when each rank finished; `None` while some have not.
    #[must_use]
    pub fn done_at(&self) -> Option<Vec<Ps>> {
        (self.left == 0).then(|| self.ranks.iter().map(|rank| rank.done_at).collect())
    }

    /// Returns the number of operations that have not ended.
    #[must_use]
    pub const fn left(&self) -> usize {
        self.left
    }

    /// Begins an operation that waits for nothing any more, and ends operations that this completes.
    fn start(&mut self, rank: u32, op: u32, at: Ps) {
        let mut ready = vec![(op, at)];
        while let Some((op, at)) = ready.pop() {
            if let Some(with) = self.schedule.with.remove(&(rank, op)) {
                self.release(rank, with, at, &mut ready);
            }
            let state = &mut self.ranks[rank as usize];
            let over = match self.schedule.ranks[rank as usize][op as usize].work {
                Work::Compute { ns } => {
                    state.busy_until = state.busy_until.max(at).saturating_add(ns.saturating_mul(1_000));
                    Some(state.busy_until)
                }
                Work::Send { to, bytes, tag } => {
                    self.posted += 1;
                    let message = Message {
                        at,
                        to,
                        bytes,
                        tag: u64::from(op) << 32 | u64::from(tag),
                        sl: None,
                    };
                    state.sends.insert((at, self.posted), message);
                    None
                }
                Work::Receive { from, tag } => {
                    let waiting = state.matches.entry((from, tag)).or_default();
                    match waiting.messages.pop_front() {
                        Some(arrived) => Some(arrived.max(at)),
                        None => {
                            waiting.receives.push_back((op, at));
                            None
                        }
                    }
                }
            };
            if let Some(over) = over {
                self.end(rank, op, over, &mut ready);
            }
        }
    }

    /// Ends an operation. Operations that waited only for it are added to `ready`.
    fn end(&mut self, rank: u32, op: u32, at: Ps, ready: &mut Vec<(u32, Ps)>) {
        self.left -= 1;
        let state = &mut self.ranks[rank as usize];
        state.left -= 1;
        state.done_at = state.done_at.max(at);
        let then = core::mem::take(&mut self.schedule.ranks[rank as usize][op as usize].then);
        self.release(rank, then, at, ready);
    }

    /// Records that an awaited operation has begun or ended. Adds operations that wait for nothing else to `ready`.
    fn release(&mut self, rank: u32, waiting: Vec<u32>, at: Ps, ready: &mut Vec<(u32, Ps)>) {
        let ops = &mut self.schedule.ranks[rank as usize];
        for next in waiting {
            let next_op = &mut ops[next as usize];
            next_op.waits -= 1;
            next_op.ready_at = next_op.ready_at.max(at);
            if next_op.waits == 0 {
                ready.push((next, next_op.ready_at));
            }
        }
    }

    fn end_and_go_on(&mut self, rank: u32, op: u32, at: Ps) {
        let mut ready = Vec::new();
        self.end(rank, op, at, &mut ready);
        for (op, at) in ready {
            self.start(rank, op, at);
        }
    }
}

impl Workload for Program {
    fn next(&mut self, host: Host, now: Ps) -> Option<Message> {
        let (_, mut message) = self.ranks.get_mut(host as usize)?.sends.pop_first()?;
        message.at = message.at.max(now);
        Some(message)
    }

    fn take_back(&mut self, host: Host, message: Message) {
        if let Some(rank) = self.ranks.get_mut(host as usize) {
            // Before those of the same time that were added later.
            rank.sends.insert((message.at, 0), message);
        }
    }

    fn arrived(&mut self, arrival: Arrival, now: Ps, ready: &mut Vec<Host>) {
        if !arrival.whole {
            self.broken = true;
            return;
        }
        let (op, tag) = ((arrival.tag >> 32) as u32, arrival.tag as u32);
        self.end_and_go_on(arrival.from, op, now);
        let receiver = &mut self.ranks[arrival.to as usize];
        let waiting = receiver.matches.entry((arrival.from, tag)).or_default();
        match waiting.receives.pop_front() {
            Some((op, posted)) => self.end_and_go_on(arrival.to, op, now.max(posted)),
            None => waiting.messages.push_back(now),
        }
        ready.extend([arrival.from, arrival.to]);
    }

    fn is_done(&self) -> bool {
        self.left == 0 || self.broken
    }

    fn completed_at(&self) -> Option<Ps> {
        self.done_at()?.into_iter().max()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn send(to: u32) -> Work {
        Work::Send { to, bytes: 1, tag: 7 }
    }

    fn arrival(from: u32, to: u32, message: Message) -> Arrival {
        Arrival {
            from,
            to,
            tag: message.tag,
            posted: message.at,
            whole: true,
        }
    }

    #[test]
    fn operations_wait_for_each_other() {
        let mut schedule = Schedule::new(2);
        let first = schedule.add(0, Work::Compute { ns: 5 }, &[]);
        let sent = schedule.add(0, send(1), &[first]);
        schedule.add(0, Work::Compute { ns: 1 }, &[sent]);
        schedule.add(1, Work::Receive { from: 0, tag: 7 }, &[]);
        let mut program = Program::new(schedule);
        let message = program.next(0, 0).unwrap();
        assert_eq!((message.at, message.to, program.next(1, 0)), (5_000, 1, None));
        assert_eq!(program.done_at(), None);
        let mut ready = Vec::new();
        program.arrived(arrival(0, 1, message), 9_000, &mut ready);
        assert_eq!(program.done_at(), Some(vec![10_000, 9_000]));
        assert_eq!(ready, [0, 1]);
    }

    #[test]
    fn early_messages_wait_for_their_receive() {
        let mut schedule = Schedule::new(2);
        schedule.add(0, send(1), &[]);
        let busy = schedule.add(1, Work::Compute { ns: 50 }, &[]);
        schedule.add(1, Work::Receive { from: 0, tag: 7 }, &[busy]);
        let mut program = Program::new(schedule);
        let message = program.next(0, 0).unwrap();
        program.arrived(arrival(0, 1, message), 9_000, &mut Vec::new());
        assert_eq!(program.done_at(), Some(vec![9_000, 50_000]));
    }
}
