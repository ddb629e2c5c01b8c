//! Finds steps in which no packet of a LID can loop, one LID at a time. The judge decides whether all LIDs together
//! could deadlock.

use std::collections::BTreeMap;

use selvedge_fabric::SwitchIdx;
use selvedge_plan::Tables;
use selvedge_types::{Idx, Lid};
use selvedge_verify::phases::Write;

use super::net::{NONE, Net};

/// Largest number of steps between two waits. Each step costs a round trip, and few changes need more than three. If a
/// LID needs more steps than this, its entries are dropped first.
pub const STEPS_MAX: usize = 64;

/// The search for the steps of one LID. Its arrays are reused for the next LID.
#[derive(Debug)]
pub struct Split<'a> {
    net: &'a Net,
    tables: &'a Tables,
    /// By switch, with the round that set it: the new entry, and the step that writes it; [`OPEN`] if no step does yet.
    changes: Vec<(u32, u8, u32)>,
    round: u32,
    seen: Vec<u32>,
    visit: u32,
    open: Vec<u32>,
}

const OPEN: u32 = u32::MAX;

impl<'a> Split<'a> {
    /// Starts from these tables.
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

    /// Assigns the writes of one LID to steps, each as early as possible. False if that takes too many steps.
    pub fn lid(&mut self, lid: Lid, writes: &[Write], steps: &mut Vec<Vec<Write>>) -> bool {
        self.round += 1;
        for write in writes {
            self.changes[write.switch.to_usize()] = (self.round, write.egress, 0);
        }
        // Usually all of them may go at once.
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

    /// Returns the entries of a switch that may be in force in a step.
    fn entries(&self, lid: Lid, switch: u32, step: u32) -> [Option<u8>; 2] {
        let old = || self.tables.get(SwitchIdx(switch), lid);
        match self.changes[switch as usize] {
            (round, new, at) if round == self.round && at < step => [Some(new), None],
            (round, new, at) if round == self.round && at == step => [Some(old()), Some(new)],
            _ => [Some(old()), None],
        }
    }

    /// True if packets that a written entry forwards can come back.
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

    /// Sorts writes by distance to the LID under the new tables, nearest first, so that the path of each write uses
    /// only entries that were written before it.
    fn nearest_first(&self, lid: Lid, writes: &[Write]) -> Vec<Write> {
        let mut sorted: Vec<(u32, Write)> = ranks(self.net, self.tables, lid, writes);
        sorted.sort_unstable();
        sorted.into_iter().map(|(_, write)| write).collect()
    }
}

/// Returns each write with its rank: the largest number of other written entries that follow it on the new path. If
/// writes of a rank wait until those of lower ranks are acknowledged, no packet uses an old entry after a new one.
pub fn ranks(net: &Net, tables: &Tables, lid: Lid, writes: &[Write]) -> Vec<(u32, Write)> {
    let by_switch: BTreeMap<u32, u8> = writes.iter().map(|write| (write.switch.0, write.egress)).collect();
    let rank = |from: &Write| {
        let (mut at, mut rank, mut hops) = (from.switch.0, 0, 0);
        while hops <= net.switches {
            let entry = by_switch.get(&at).copied();
            rank += u32::from(hops > 0 && entry.is_some());
            let way = net.way(at, entry.unwrap_or_else(|| tables.get(SwitchIdx(at), lid)));
            if way == NONE {
                break;
            }
            at = net.channels[way as usize].dst;
            hops += 1;
        }
        rank
    };
    writes.iter().map(|write| (rank(write), *write)).collect()
}

/// Returns steps by rank; `None` if there are too many.
pub fn by_rank<'w>(
    net: &Net,
    tables: &Tables,
    by_lid: impl Iterator<Item = (Lid, &'w [Write])>,
) -> Option<Vec<Vec<Write>>> {
    let mut steps = Vec::new();
    for (lid, writes) in by_lid {
        for (rank, write) in ranks(net, tables, lid, writes) {
            if rank as usize >= STEPS_MAX {
                return None;
            }
            put(&mut steps, rank as usize, std::iter::once(write));
        }
    }
    Some(steps)
}

fn put(steps: &mut Vec<Vec<Write>>, step: usize, writes: impl Iterator<Item = Write>) {
    if steps.len() <= step {
        steps.resize(step + 1, Vec::new());
    }
    steps[step].extend(writes);
}
