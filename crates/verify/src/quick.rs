//! The quick pass for destinations that all packets reach, which are nearly all destinations in practice.
//!
//! It starts at every sender and follows the entries until it reaches a switch that was visited before. It records the
//! switches in order, from the owner of the LID outwards. In the reverse order each source comes before the switch that
//! its entry leads to, so one more round adds up loads and dependencies. If some packet would not be delivered, nothing
//! is counted and the thorough pass of [`crate::reach`] handles the destination, because it can describe the fault.
//!
//! Cost: one look-up of entry, next switch and distance per LID and per sender or switch on the path. All arrays fit in
//! a core's own cache: a tile row serves 64 LIDs, and only the loads and dependencies of one lane are in use at a time.

use selvedge_plan::{BLOCK_LIDS, NO_PATH};
use selvedge_types::Lid;

use crate::finding::Traffic;
use crate::ground::{Ground, Owner};
use crate::judged::Senders;
use crate::reach::Destination;
use crate::sl_vl::{LaneMap, level};
use crate::tally::Tally;

/// Stands for no next switch.
const NOWHERE: u16 = u16::MAX;
/// Not visited yet.
const UNSEEN: u16 = u16::MAX;
/// The switch is on the path that is being followed.
const OPEN: u16 = UNSEEN - 1;

/// Next switches in a dense array that all workers of the quick pass share.
pub struct Ways<'g> {
    ground: &'g Ground<'g>,
    senders: Senders,
    /// Cells of a switch: its ports, and one more for entries that are no port number.
    cells: usize,
    /// 64-bit words for the ports of a switch.
    words: usize,
    /// Next switch, by switch, then port; [`NOWHERE`] if no switch is behind the port.
    next: Vec<u16>,
    /// Bit mask of each switch's ports that lead to switches.
    onward: Vec<u64>,
    /// Switches where packets start.
    first: Vec<u16>,
    /// Switches with hosts, and the number of hosts.
    hosts: Vec<(u16, u32)>,
    /// The lowest LinearFDBTop: higher LIDs are dropped by some switch.
    highest: Lid,
}

/// A switch on the paths to a destination.
#[derive(Clone, Copy)]
struct Step {
    /// Cell of the entry's egress port.
    cell: u32,
    at: u16,
    next: u16,
}

/// Loads and dependencies of one lane's channels.
pub struct LaneSum {
    lane: usize,
    /// One record for each cell (egress port of a switch), within one cache line: the number of host pairs, and for
    /// each class of traffic a bit mask of the egress ports at the next switch.
    records: Vec<u64>,
}

/// Results of a worker.
#[derive(Default)]
pub struct Found {
    lanes: Vec<LaneSum>,
    /// Destinations left to the thorough pass.
    pub left: Vec<Destination>,
    hops: Vec<u64>,
    delivered: u64,
    host_pairs: u64,
}

impl<'g> Ways<'g> {
    /// Prepares the pass. `None` if the quick pass does not apply.
    pub fn new(ground: &'g Ground<'g>, lanes: &LaneMap, senders: Senders) -> Option<Self> {
        // In a divided fabric every LID has senders that cannot reach it. Switch numbers must fit in 16 bits.
        if !lanes.is_uniform() || ground.parts != 1 || ground.switches >= usize::from(OPEN) {
            return None;
        }
        let (cells, words) = (ground.stride + 1, ground.stride.div_ceil(64));
        let mut ways = Self {
            ground,
            senders,
            cells,
            words,
            next: vec![NOWHERE; ground.switches * cells],
            onward: vec![0; ground.switches * words],
            first: Vec::new(),
            hosts: Vec::new(),
            highest: ground.lowest_top().min(ground.subject.tables.top()),
        };
        for channel in &ground.channels {
            let (src, out) = (channel.src as usize, usize::from(channel.out));
            ways.next[src * cells + out] = narrow(channel.dst);
            ways.onward[src * words + out / 64] |= 1 << (out % 64);
        }
        let counts = (0..).zip(ground.host_count.iter().copied());
        ways.hosts = counts.filter(|&(_, own)| own > 0).collect();
        let starts = |&switch: &usize| senders == Senders::All || ground.host_count[switch] > 0;
        let first = (0..ground.switches).filter(starts);
        ways.first = first.map(|switch| narrow(switch as u32)).collect();
        Some(ways)
    }

    /// Returns the lane towards a destination, if the quick pass may try it.
    pub fn lane(&self, lanes: &LaneMap, to: Destination) -> Option<usize> {
        let is_owned = !matches!(to.owner, Owner::Dead | Owner::Nobody) && to.lid <= self.highest;
        let lane = lanes.uniform(level(self.ground, to.lid)).everywhere_on();
        lane.filter(|_| is_owned)
    }

    /// Follows destinations; those of one lane one after another.
    pub fn follow(&self, destinations: &[(usize, Destination)]) -> Found {
        // A path has fewer links than there are switches.
        let mut found = Found {
            hops: vec![0; self.ground.switches],
            ..Found::default()
        };
        let mut worker = Worker::new(self);
        for group in destinations.chunk_by(|a, b| a.0 == b.0) {
            let mut sum = self.empty(group[0].0);
            for tile in group.chunk_by(|a, b| a.1.lid.index() / BLOCK_LIDS == b.1.lid.index() / BLOCK_LIDS) {
                let rows = self.ground.subject.tables.tile(tile[0].1.lid.index() / BLOCK_LIDS);
                for &(_, to) in tile {
                    if worker.follow(rows, to) {
                        worker.count(&mut sum, &mut found, to);
                    } else {
                        found.left.push(to);
                    }
                }
            }
            found.lanes.push(sum);
        }
        found
    }

    /// Records the entry of a switch and returns where it leads; `None` if not to a switch.
    #[inline]
    fn step(&self, rows: &[[u8; BLOCK_LIDS]], column: usize, at: u16, egress: &mut [u8]) -> Option<Step> {
        let entry = rows[usize::from(at)][column];
        let cell = usize::from(at) * self.cells + usize::from(entry).min(self.cells - 1);
        let next = self.next[cell];
        egress[usize::from(at)] = entry;
        let cell = cell as u32;
        (next != NOWHERE).then_some(Step { cell, at, next })
    }

    fn empty(&self, lane: usize) -> LaneSum {
        LaneSum {
            lane,
            records: vec![0; self.ground.switches * self.cells * self.record()],
        }
    }

    /// Returns the classes of traffic that are counted separately.
    const fn traffic(&self) -> &'static [Traffic] {
        match self.senders {
            Senders::Hosts => &[Traffic::Hosts],
            Senders::All => &[Traffic::Hosts, Traffic::Agents, Traffic::Switches],
        }
    }

    /// Returns the number of words of a record of [`LaneSum`].
    const fn record(&self) -> usize {
        1 + self.traffic().len() * self.words
    }

    /// Adds the results to a tally.
    pub fn add_to(&self, tally: &mut Tally, found: &Found) {
        let channels = self.ground.channels.len();
        for sum in &found.lanes {
            let loads = &mut tally.loads[sum.lane * channels..(sum.lane + 1) * channels];
            for ((load, channel), index) in loads.iter_mut().zip(&self.ground.channels).zip(0..) {
                let cell = channel.src as usize * self.cells + usize::from(channel.out);
                let record = &sum.records[cell * self.record()..(cell + 1) * self.record()];
                *load += record[0];
                let onward = &self.onward[channel.dst as usize * self.words..][..self.words];
                for (&traffic, bits) in self.traffic().iter().zip(record[1..].chunks(self.words)) {
                    tally.dependencies.add_ports(traffic, (sum.lane, index), bits, onward);
                }
            }
        }
        let length = found.hops.iter().rposition(|&n| n > 0).map_or(0, |last| last + 1);
        if tally.hops.len() < length {
            tally.hops.resize(length, 0);
        }
        tally
            .hops
            .iter_mut()
            .zip(&found.hops)
            .for_each(|(sum, more)| *sum += more);
        tally.ends.delivered += found.delivered;
        tally.ends.host_pairs += found.host_pairs;
    }
}

/// Arrays for one destination, reused for the next.
struct Worker<'w> {
    ways: &'w Ways<'w>,
    /// Number of links to the owner.
    distance: Vec<u16>,
    /// Entries of visited switches.
    egress: Vec<u8>,
    /// Number of host pairs that leave each switch.
    sums: Vec<u32>,
    path: Vec<Step>,
    /// Visited switches except the owner's, each after the switch that its entry leads to.
    order: Vec<Step>,
}

impl<'w> Worker<'w> {
    fn new(ways: &'w Ways<'w>) -> Self {
        let switches = ways.ground.switches;
        Self {
            ways,
            distance: vec![UNSEEN; switches],
            egress: vec![NO_PATH; switches],
            sums: vec![0; switches],
            path: Vec::with_capacity(switches),
            order: Vec::with_capacity(switches),
        }
    }

    /// Returns the owner's switch and the egress port that its entry must have.
    fn end(&self, owner: Owner) -> Option<(usize, u8)> {
        match owner {
            Owner::Host(host) => {
                let host = self.ways.ground.hosts[host as usize];
                Some((host.switch as usize, host.port))
            }
            Owner::Switch(switch) => Some((switch as usize, 0)),
            Owner::Dead | Owner::Nobody => None,
        }
    }

    /// Finds the paths of all senders. False if some packet would not be delivered.
    fn follow(&mut self, rows: &[[u8; BLOCK_LIDS]], to: Destination) -> bool {
        let column = to.lid.index() % BLOCK_LIDS;
        let Some((end, port)) = self.end(to.owner).filter(|end| rows[end.0][column] == end.1) else {
            return false;
        };
        self.order.clear();
        self.distance.fill(UNSEEN);
        self.distance[end] = 0;
        self.egress[end] = port;
        let (ways, distance, egress) = (self.ways, &mut self.distance[..], &mut self.egress[..]);
        for &first in &ways.first {
            if distance[usize::from(first)] != UNSEEN {
                continue;
            }
            let Some(mut step) = ways.step(rows, column, first, egress) else {
                return false;
            };
            // Most point at a switch that was visited before.
            let mut known = distance[usize::from(step.next)];
            if known >= OPEN {
                self.path.clear();
                while known >= OPEN {
                    distance[usize::from(step.at)] = OPEN;
                    self.path.push(step);
                    if distance[usize::from(step.next)] == OPEN {
                        return false;
                    }
                    match ways.step(rows, column, step.next, egress) {
                        Some(next) => step = next,
                        None => return false,
                    }
                    known = distance[usize::from(step.next)];
                }
                distance[usize::from(step.at)] = known + 1;
                self.order.push(step);
                known += 1;
                while let Some(earlier) = self.path.pop() {
                    known += 1;
                    distance[usize::from(earlier.at)] = known;
                    self.order.push(earlier);
                }
                continue;
            }
            distance[usize::from(step.at)] = known + 1;
            self.order.push(step);
        }
        true
    }

    /// Adds up the paths found.
    fn count(&mut self, sum: &mut LaneSum, found: &mut Found, to: Destination) {
        let ground = self.ways.ground;
        let (mut hosts, mut switches) = (ground.hosts.len() as u64, ground.switches as u64);
        self.sums.copy_from_slice(&ground.host_count);
        match to.owner {
            Owner::Host(host) => {
                hosts -= 1;
                self.sums[ground.hosts[host as usize].switch as usize] -= 1;
            }
            Owner::Switch(_) | Owner::Dead | Owner::Nobody => switches -= 1,
        }
        let is_counted = to.is_base && matches!(to.owner, Owner::Host(_));
        if is_counted {
            found.host_pairs += hosts;
            self.count_hops(&mut found.hops, to);
        }
        let loads_of = if is_counted { u64::MAX } else { 0 };
        let (words, record) = (self.ways.words, self.ways.record());
        // Where the bits of traffic from switches are counted; together with hosts' bits if only hosts send.
        let more = match (self.ways.senders, to.owner) {
            (Senders::Hosts, _) => 1,
            (Senders::All, Owner::Host(_) | Owner::Dead | Owner::Nobody) => 1 + words,
            (Senders::All, Owner::Switch(_)) => 1 + 2 * words,
        };
        let by_others = u64::from(self.ways.senders == Senders::All);
        found.delivered += hosts + by_others * switches;
        let (sums, egress, records) = (&mut self.sums[..], &self.egress[..], &mut sum.records[..]);
        for &Step { cell, at, next } in self.order.iter().rev() {
            let next = usize::from(next);
            let pairs = sums[usize::from(at)];
            sums[next] += pairs;
            let out = usize::from(egress[next]);
            let (word, bit) = (out / 64, out % 64);
            let record = &mut records[cell as usize * record..][..record];
            record[0] += u64::from(pairs) & loads_of;
            record[1 + word] |= u64::from(pairs > 0) << bit;
            record[more + word] |= by_others << bit;
        }
    }

    fn count_hops(&self, hops: &mut [u64], to: Destination) {
        for &(at, own) in &self.ways.hosts {
            hops[usize::from(self.distance[usize::from(at)])] += u64::from(own);
        }
        if matches!(to.owner, Owner::Host(_)) {
            // The owner does not send to itself.
            hops[0] -= 1;
        }
    }
}

/// Converts a switch number. It is below [`OPEN`], because otherwise the quick pass does not apply.
const fn narrow(switch: u32) -> u16 {
    switch as u16
}

#[cfg(test)]
mod tests {
    use selvedge_fabric::SwitchIdx;
    use selvedge_sim::{Par, Seed};

    use super::*;
    use crate::reach::{destinations, follow, follow_thoroughly};
    use crate::{JudgeOptions, Subject, support};

    /// Checks that both passes find the same in a random plan with some entries changed.
    fn check(case: u64, senders: Senders) -> usize {
        let mut rng = Seed(3).child("quick").nth(case).rng();
        let mut below = |n: usize| usize::try_from(rng.below(n as u64)).unwrap();
        let fabric = match case % 10 {
            0 => support::wide(66 + below(60), 3 + below(20)),
            _ => support::random(2 + below(9), below(9), 2 + below(9), below(2), &mut below),
        };
        let lids = support::lids(&fabric, u8::from(below(4) == 0));
        let mut tables = support::updown(&fabric, &lids, SwitchIdx(0));
        for _ in 0..below(4) {
            let switch = SwitchIdx(u32::try_from(below(fabric.switches().len())).unwrap());
            let lid = Lid(1 + u16::try_from(below(usize::from(lids.top().0))).unwrap());
            tables.set(switch, lid, u8::try_from(below(6)).unwrap());
        }
        let mut plan = support::plan(&fabric, lids, tables);
        let levels = (0..=plan.lids.top().0).map(|_| selvedge_types::Sl::new(below(4) as u8).unwrap());
        plan.service_levels = selvedge_plan::ServiceLevels::PerDestination(levels.collect());
        plan.sl_to_vl = selvedge_plan::SlToVl::modulo(1 + below(4) as u8);
        let ground = Ground::new(Subject::plan(&fabric, &plan));
        let lanes = LaneMap::new(&ground);
        let options = JudgeOptions {
            par: [Par::Sequential, Par::Rayon][below(2)],
            ..JudgeOptions::default()
        };
        let both = follow(&ground, &lanes, senders, &options);
        let all = destinations(&ground);
        let thorough = follow_thoroughly(&ground, &lanes, senders, &options, &all);
        assert_eq!(format!("{both:?}"), format!("{thorough:?}"), "case {case}");
        let ways = Ways::new(&ground, &lanes, senders);
        ways.map_or(0, |ways| {
            all.iter().filter(|&&to| ways.lane(&lanes, to).is_some()).count()
        })
    }

    #[test]
    fn finds_what_the_thorough_pass_finds() {
        for senders in [Senders::All, Senders::Hosts] {
            let tried: usize = (0..300).map(|case| check(case, senders)).sum();
            assert!(tried > 3_000, "{tried}");
        }
    }
}
