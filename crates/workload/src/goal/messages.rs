//! Messages between the ranks of a trace: checks that each send has a receive, and that no operations wait in a cycle.

use std::collections::BTreeMap;

use super::{GoalError, WaitKind};

/// Largest number of lines of a cycle that an error names.
const LINES_MAX: usize = 8;

/// Operations of a trace in the order of the text, with their dependencies and messages.
///
/// Among messages with the same source, destination and tag, the n-th send matches the n-th receive, in the order of
/// the text. A send does not wait for its receive, as in [`Program`](crate::Program). Time and memory are linear in the
/// operations and their dependencies, except for sorting the channels.
#[derive(Default)]
pub struct Messages {
    /// Line and rank of each operation.
    ops: Vec<(usize, u32)>,
    channels: BTreeMap<Channel, Ends>,
    /// Dependencies: a moment, and an earlier one for which it waits.
    waits: Vec<(u32, u32)>,
}

/// The properties that a send and its receive share.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Channel {
    pub from: u32,
    pub to: u32,
    pub tag: u32,
}

/// Returns the moment at which an operation begins.
const fn begin(op: u32) -> u32 {
    2 * op
}

/// Returns the moment at which an operation ends.
const fn end(op: u32) -> u32 {
    2 * op + 1
}

/// Sends and receives of a channel, each with its number of bytes.
#[derive(Default)]
struct Ends {
    sends: Vec<(u32, u32)>,
    receives: Vec<(u32, u32)>,
}

impl Messages {
    /// Returns the number that the next operation gets.
    pub fn next(&self) -> u32 {
        self.ops.len() as u32
    }

    /// Adds an operation.
    pub fn op(&mut self, line: usize, rank: u32) {
        self.ops.push((line, rank));
    }

    /// Adds a send as the next operation.
    pub fn send(&mut self, channel: Channel, bytes: u32) {
        let op = self.next();
        self.channels.entry(channel).or_default().sends.push((op, bytes));
    }

    /// Adds a receive as the next operation.
    pub fn receive(&mut self, channel: Channel, bytes: u32) {
        let op = self.next();
        self.channels.entry(channel).or_default().receives.push((op, bytes));
    }

    /// Adds a dependency.
    pub fn wait(&mut self, op: u32, before: u32, kind: WaitKind) {
        let before = match kind {
            WaitKind::Start => begin(before),
            WaitKind::End => end(before),
        };
        self.waits.push((begin(op), before));
    }

    /// Refuses a send without a receive, a receive without a send, a receive that is shorter than its message, and
    /// operations that wait for each other across ranks. If there are several faults of one kind, the error names the
    /// first in the text.
    pub fn check(mut self) -> Result<(), GoalError> {
        self.all_meet()?;
        self.all_fit()?;
        for ends in core::mem::take(&mut self.channels).into_values() {
            let met = ends.receives.iter().zip(&ends.sends);
            self.waits
                .extend(met.map(|(&(receive, _), &(send, _))| (end(receive), begin(send))));
        }
        self.waits.extend((0..self.next()).map(|op| (end(op), begin(op))));
        match self.circle() {
            None => Ok(()),
            Some(circle) => Err(self.in_a_circle(&circle)),
        }
    }

    fn all_meet(&self) -> Result<(), GoalError> {
        let alone = |(channel, ends): (&Channel, &Ends)| {
            let (sends, receives) = (ends.sends.len(), ends.receives.len());
            let longer = if sends > receives { &ends.sends } else { &ends.receives };
            let &(op, _) = longer.get(sends.min(receives))?;
            Some((op, *channel, sends, receives))
        };
        let Some((op, channel, sends, receives)) = self.channels.iter().filter_map(alone).min_by_key(|of| of.0) else {
            return Ok(());
        };
        let Channel { from, to, tag } = channel;
        let alone = if sends > receives {
            "send has no receive"
        } else {
            "receive has no send"
        };
        Err(GoalError {
            line: self.ops[op as usize].0,
            what: format!(
                "this {alone}; from rank {from} to rank {to} with tag {tag}, sends: {sends}, receives: {receives}"
            ),
            want: "a receive for each send",
        })
    }

    fn all_fit(&self) -> Result<(), GoalError> {
        let met = self
            .channels
            .values()
            .flat_map(|ends| ends.receives.iter().zip(&ends.sends));
        let short = met.filter(|((_, room), (_, bytes))| room < bytes);
        let Some((&(receive, room), &(send, bytes))) = short.min_by_key(|((receive, _), _)| receive) else {
            return Ok(());
        };
        Err(GoalError {
            line: self.ops[receive as usize].0,
            what: format!(
                "this receives {room} bytes, but the send on line {} has {bytes}",
                self.ops[send as usize].0
            ),
            want: "a receive of at least the bytes of its send",
        })
    }

    fn in_a_circle(&self, circle: &[u32]) -> GoalError {
        let mut lines: Vec<usize> = circle.iter().map(|&op| self.ops[op as usize].0).collect();
        lines.sort_unstable();
        let mut ranks: Vec<u32> = circle.iter().map(|&op| self.ops[op as usize].1).collect();
        ranks.sort_unstable();
        ranks.dedup();
        let named: Vec<String> = lines.iter().take(LINES_MAX).map(usize::to_string).collect();
        let more = if lines.len() > LINES_MAX { ", …" } else { "" };
        GoalError {
            line: lines.first().copied().unwrap_or_default(),
            what: format!(
                "with this line begin {} operations of {} ranks that wait for each other in a circle: lines {}{more}",
                lines.len(),
                ranks.len(),
                named.join(", ")
            ),
            want: "a send that waits for no receive of the circle",
        }
    }

    /// Returns the operations of a cycle; `None` without one.
    fn circle(&self) -> Option<Vec<u32>> {
        let count = 2 * self.ops.len();
        let mut waiting = vec![0_u32; count];
        // For each moment, the index in `after` of the first moment that waits for it.
        let mut starts = vec![0_usize; count + 1];
        for &(at, before) in &self.waits {
            waiting[at as usize] += 1;
            starts[before as usize + 1] += 1;
        }
        for at in 0..count {
            starts[at + 1] += starts[at];
        }
        let mut filled = starts.clone();
        let mut after = vec![0_u32; self.waits.len()];
        for &(at, before) in &self.waits {
            let place = &mut filled[before as usize];
            after[*place] = at;
            *place += 1;
        }
        let mut free: Vec<u32> = (0..count as u32).filter(|&at| waiting[at as usize] == 0).collect();
        while let Some(at) = free.pop() {
            for &next in &after[starts[at as usize]..starts[at as usize + 1]] {
                let left = &mut waiting[next as usize];
                *left -= 1;
                if *left == 0 {
                    free.push(next);
                }
            }
        }
        let mut circle: Vec<u32> = self.way_around(&waiting)?.into_iter().map(|at| at / 2).collect();
        circle.sort_unstable();
        circle.dedup();
        Some(circle)
    }

    /// Returns a cycle among the moments (the begin or end of an operation) in `waiting`. Each of these waits for
    /// another of them, so following the waits always ends in a cycle.
    fn way_around(&self, waiting: &[u32]) -> Option<Vec<u32>> {
        let is_stuck = |at: u32| waiting[at as usize] > 0;
        let first = (0..waiting.len() as u32).find(|&at| is_stuck(at))?;
        let mut back: Vec<u32> = (0..waiting.len() as u32).collect();
        for &(at, before) in self.waits.iter().rev().filter(|wait| is_stuck(wait.1)) {
            back[at as usize] = before;
        }
        let mut seen = vec![false; waiting.len()];
        let mut at = first;
        while !core::mem::replace(&mut seen[at as usize], true) {
            at = back[at as usize];
        }
        let mut circle = vec![at];
        let mut next = back[at as usize];
        while next != at {
            circle.push(next);
            next = back[next as usize];
        }
        Some(circle)
    }
}
