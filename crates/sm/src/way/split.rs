//! Steps in which no packet of a LID can go round: without a look at other LIDs, so in no time. Whether all LIDs
//! together can deadlock is for the judge to say.

use selvedge_fabric::SwitchIdx;
use selvedge_plan::Tables;
use selvedge_types::{Idx, Lid};
use selvedge_verify::phases::Write;

use super::net::{NONE, Net};

/// Most steps between two waits: each costs a round trip, and few changes need more than three. A LID that needs more
/// is dropped first.
pub const STEPS_MAX: usize = 64;

/// Arrays of one LID, used again for the next.
#[derive(Debug)]
pub struct Split<'a> {
    net: &'a Net,
    tables: &'a Tables,
    /// By switch, in its round: the entry to come, and the step that writes it; [`OPEN`] if none does yet.
    changes: Vec<(u32, u8, u32)>,
    round: u32,
    seen: Vec<u32>,
    visit: u32,
    open: Vec<u32>,
}

const OPEN: u32 = u32::MAX;

impl<'a> Split<'a> {
    /// From these tables.
    pub fn new(net: &'a Net, tables: &'a Tables) -> Self {
        Self {
            net,
            tables,
            changes: vec![(0, 0, 0); net.switches],
            round: 0,
            seen: vec![0; net.switches],
            visit: 0,
            open: Vec::new(),
        }
    }

    /// Puts the writes of one LID into steps, each as early as it can be; false if that takes too many.
    pub fn lid(&mut self, lid: Lid, writes: &[Write], steps: &mut Vec<Vec<Write>>) -> bool {
        self.round += 1;
        for write in writes {
            self.changes[write.switch.to_usize()] = (self.round, write.egress, 0);
        }
        // As a rule all of them may go at once.
        if writes.iter().all(|write| !self.goes_round(lid, write.switch.0, 0)) {
            put(steps, 0, writes.iter().copied());
            return true;
        }
        let mut left = self.nearest_first(lid, writes);
        for write in &left {
            self.changes[write.switch.to_usize()].2 = OPEN;
        }
        for step in 0..STEPS_MAX as u32 {
            let (mut taken, mut later) = (Vec::new(), Vec::new());
            for write in left {
                let at = write.switch.to_usize();
                self.changes[at].2 = step;
                if self.goes_round(lid, write.switch.0, step) {
                    self.changes[at].2 = OPEN;
                    later.push(write);
                } else {
                    taken.push(write);
                }
            }
            if taken.is_empty() {
                return false;
            }
            put(steps, step as usize, taken.into_iter());
            if later.is_empty() {
                return true;
            }
            left = later;
        }
        false
    }

    /// Entries of a switch that may be in force in a step.
    fn entries(&self, lid: Lid, switch: u32, step: u32) -> [Option<u8>; 2] {
        let old = || self.tables.get(SwitchIdx(switch), lid);
        match self.changes[switch as usize] {
            (round, new, at) if round == self.round && at < step => [Some(new), None],
            (round, new, at) if round == self.round && at == step => [Some(old()), Some(new)],
            _ => [Some(old()), None],
        }
    }

    /// True if packets that a written entry sends on can come back.
    fn goes_round(&mut self, lid: Lid, switch: u32, step: u32) -> bool {
        self.visit += 1;
        let (_, new, _) = self.changes[switch as usize];
        self.open.clear();
        self.push_next(switch, new);
        while let Some(at) = self.open.pop() {
            if at == switch {
                return true;
            }
            for entry in self.entries(lid, at, step).into_iter().flatten() {
                self.push_next(at, entry);
            }
        }
        false
    }

    fn push_next(&mut self, switch: u32, entry: u8) {
        let way = self.net.way(switch, entry);
        if way != NONE {
            let next = self.net.channels[way as usize].dst;
            if self.seen[next as usize] != self.visit {
                self.seen[next as usize] = self.visit;
                self.open.push(next);
            }
        }
    }

    /// Those nearest to the LID by the new tables first: what they lead to needs nobody behind them.
    fn nearest_first(&self, lid: Lid, writes: &[Write]) -> Vec<Write> {
        let length = |from: u32| {
            let (mut at, mut hops) = (from, 0);
            while hops <= self.net.switches {
                let entry = match self.changes[at as usize] {
                    (round, new, _) if round == self.round => new,
                    _ => self.tables.get(SwitchIdx(at), lid),
                };
                let way = self.net.way(at, entry);
                if way == NONE {
                    break;
                }
                at = self.net.channels[way as usize].dst;
                hops += 1;
            }
            hops
        };
        let mut sorted: Vec<(usize, Write)> = writes.iter().map(|&w| (length(w.switch.0), w)).collect();
        sorted.sort_unstable();
        sorted.into_iter().map(|(_, write)| write).collect()
    }
}

fn put(steps: &mut Vec<Vec<Write>>, step: usize, writes: impl Iterator<Item = Write>) {
    if steps.len() <= step {
        steps.resize(step + 1, Vec::new());
    }
    steps[step].extend(writes);
}
