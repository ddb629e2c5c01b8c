//! Repairs of lost links in place: entries that lead around the links, and that may be written while packets are still
//! in flight by the old entries.
//!
//! The dependency graph of each lane is kept, with an order that follows it ([`Order`]). If the tree of a destination
//! led over a lost link, a part of the tree is cut off; the switch at the lost link is the root of this part. The root
//! gets another next hop, outside the part, and all switches below it keep their entries ([`hang`]). If that would
//! close a cycle, first a switch below the root gets a next hop outside the part, or a switch outside gets another next
//! hop; then the root gets its new next hop ([`rehang`]). If a link then carries more than any link did before, further
//! entries in the part are changed to relieve it ([`ease`]).
//!
//! Packets that entered a switch before its entry changed may still be there afterwards. So the graph also contains the
//! turns from all old channels into the switch to the new one, and old turns stay in it until those packets are gone.
//! No mixture of old and new entries has a cycle, provided that the entries of one step are written before the next
//! step begins. No step waits for packets to drain.
//!
//! If the old channels into a switch allow no such path, packets must drain first: see [`late`]. Some LIDs may then
//! have to be routed again as a whole: see [`anew`]. If that would close a cycle as well, this module repairs nothing,
//! and [`super::repair`] is used.
//!
//! The work: the tables of two switches are scanned. For each destination and each switch that is cut off, the switch's
//! neighbours are visited, with some short searches in the order. If one entry is not enough, there is one step for
//! each channel and turn of the lane. Making a mender costs one step for each switch and LID. The memory is one order
//! for each lane, see [`super`].

mod anew;
mod by_turns;
mod ease;
mod hang;
mod late;
mod loads;
mod rehang;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use selvedge_fabric::{Fabric, SwitchIdx};
use selvedge_graph::Graph;
use selvedge_plan::{BLOCK_LIDS, Lids, ServiceLevels, Tables};
use selvedge_types::{Idx, Lid, PortNum};

use super::net::{NONE, Net};
use super::order::Order;
use crate::destinations::Destinations;
use rehang::Scratch;

/// A LID, and the switches that sent it over a lost link.
type Victim = (Lid, Vec<u32>);

/// A turn on a lane: the lane, the channel that the turn comes from, and the channel that it goes to.
type Turn = (u8, u32, u32);

/// An entry that a repair changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rehung {
    /// The switch.
    pub switch: SwitchIdx,
    /// The LID.
    pub lid: Lid,
    /// The new egress port.
    pub egress: u8,
    /// The former egress port.
    pub before: u8,
    /// The step, from 1. The entry is written when all entries of the LID with a lower step are in force.
    pub step: u16,
}

/// Tables in force, and the order that keeps them free of deadlock, for repairs.
#[derive(Clone, Debug)]
pub struct WeaveMender {
    net: Arc<Net>,
    /// The channel of each port of each switch, `width` entries for each switch; [`NONE`] for a port without one.
    channel: Vec<u32>,
    width: usize,
    alive: Vec<bool>,
    /// Switches without a live channel.
    gone: Vec<bool>,
    /// The destination of each LID, by LID.
    trips: Vec<Trip>,
    orders: Vec<Order>,
    /// Host pairs on each channel, by first LIDs; not exact after several links were lost at once.
    load: Vec<u64>,
    /// Turns that only packets in flight use, each counted once.
    lingering: Vec<Turn>,
    /// Entries that were replaced while packets may be in flight by them: switch and channel.
    past: BTreeMap<Lid, Vec<(u32, u32)>>,
    scratch: Scratch,
}

/// The destination of a LID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Trip {
    /// The switch of the LID; [`NONE`] if no port has the LID, or the port is absent.
    at: u32,
    lane: u8,
    /// True for a base LID: host pairs are counted on it.
    is_base: bool,
}

/// The step from which entries are written when packets have drained.
const LATE: u16 = 1 << 15;

impl Rehung {
    /// True if the entry must wait until the packets are gone that entries replaced by earlier steps have forwarded.
    #[must_use]
    pub const fn waits(&self) -> bool {
        self.step >= LATE
    }
}

impl WeaveMender {
    /// Prepares for losses of links. `None` if the tables do not lead from every switch to every LID of a connected
    /// fabric, or have a credit loop. The lane of a service level is the level modulo the number of lanes.
    #[must_use]
    pub fn new(fabric: &Fabric, lids: &Lids, tables: &Tables, (levels, lanes): (&ServiceLevels, u8)) -> Option<Self> {
        let graph = Graph::new(fabric);
        let destinations = Destinations::new(fabric, &graph, lids, (false, &[]), &mut Vec::new()).ok()?;
        let goals = super::goals(&destinations);
        let net = Net::new(fabric, &graph, &goals);
        if net.parts != 1 || tables.switches() != net.switches || tables.top() < lids.top() || lanes == 0 {
            return None;
        }
        let nowhere = Trip {
            at: NONE,
            lane: 0,
            is_base: false,
        };
        let mut trips = vec![nowhere; lids.top().index() + 1];
        for (lid, _) in lids.by_lid() {
            trips[lid.index()].lane = levels.to(lid).get() % lanes;
        }
        let mut egress = vec![0; trips.len()];
        for goal in &goals {
            for lid in goal.lids.iter() {
                let trip = &mut trips[lid.index()];
                (trip.at, trip.is_base) = (goal.at, goal.egress != 0 && lid == goal.lids.base);
                egress[lid.index()] = goal.egress;
            }
        }
        let width = net.egress.iter().map(|&port| usize::from(port) + 1).max().unwrap_or(1);
        let mut channel = vec![NONE; net.switches * width];
        for (c, (&src, &port)) in (0..).zip(net.src.iter().zip(&net.egress)) {
            channel[src as usize * width + usize::from(port)] = c;
        }
        let mut mender = Self {
            channel,
            width,
            alive: vec![true; net.channels()],
            gone: vec![false; net.switches],
            trips,
            orders: Vec::new(),
            load: vec![0; net.channels()],
            lingering: Vec::new(),
            past: BTreeMap::new(),
            scratch: Scratch::new(&net),
            net: Arc::new(net),
        };
        mender.read(lids, tables, &egress, lanes)?;
        Some(mender)
    }

    /// Reads all turns and loads of tables.
    fn read(&mut self, lids: &Lids, tables: &Tables, egress: &[u8], lanes: u8) -> Option<()> {
        let net = Arc::clone(&self.net);
        let turns = net.turn_first[net.channels()] as usize;
        let mut counts = vec![vec![0_u32; turns]; usize::from(lanes)];
        let mut next = vec![NONE; net.switches];
        let mut column = Column::new(net.switches);
        for (lid, _) in lids.by_lid() {
            let trip = self.trips[lid.index()];
            let (block, i) = (lid.index() / BLOCK_LIDS, lid.index() % BLOCK_LIDS);
            let channels = self.channel.chunks_exact(self.width);
            for ((row, next), channels) in tables.tile(block).iter().zip(&mut next).zip(channels) {
                *next = channels.get(usize::from(row[i])).copied().unwrap_or(NONE);
            }
            let count = &mut counts[usize::from(trip.lane)];
            for &from in next.iter().filter(|&&from| from != NONE) {
                let to = next[net.dst[from as usize] as usize];
                if to == net.rev[from as usize] {
                    return None;
                }
                if to != NONE {
                    count[net.turn(from, to)] += 1;
                }
            }
            if trip.at != NONE {
                let is_whole = (0..).zip(&next).all(|(s, &next)| (next == NONE) == (s == trip.at));
                let ends = tables.get(SwitchIdx(trip.at), lid) == egress[lid.index()];
                if !is_whole || !ends || !column.order(&net, &next, trip.at) {
                    return None;
                }
            }
            if trip.is_base {
                column.put_load(&net, &next, &mut self.load);
            }
        }
        for count in counts {
            self.orders.push(Order::of_turns(&net, count)?);
        }
        Some(())
    }

    /// Removes links, given by their ends, and routes around them each LID with an entry over them in `tables`, the
    /// tables in force. `is_quiet`: no packet is in flight by entries that earlier repairs replaced.
    ///
    /// `None` if that would close a cycle: `tables` are then unchanged, but this value must not be used again.
    pub fn lose(&mut self, tables: &mut Tables, ends: &[(SwitchIdx, PortNum)], is_quiet: bool) -> Option<Vec<Rehung>> {
        let net = Arc::clone(&self.net);
        if tables.switches() != net.switches {
            return None;
        }
        if is_quiet {
            self.drain();
        }
        let mut victims = self.cut(tables, ends);
        victims.sort_unstable();
        let mut loss = Loss {
            net,
            mender: self,
            tables,
            moved: Vec::new(),
            leaving: Vec::new(),
        };
        loss.weigh();
        let groups = victims.chunk_by(|a, b| a.0 == b.0);
        let lost = groups.map(|group| (group[0].0, group.iter().map(|&(_, root)| root).collect()));
        let late = loss.lead_now(lost.collect());
        // Entries that need a wait must not block those that need none.
        loss.finish();
        if !late.is_empty() {
            loss.mender.drain();
        }
        loss.lead_late(late)?;
        Some(loss.moved)
    }

    /// Records that no packet is in flight any more that a replaced entry has forwarded.
    fn drain(&mut self) {
        for (lane, from, to) in std::mem::take(&mut self.lingering) {
            // Those of lost links are out of the graph already.
            if !self.alive[from as usize] || !self.alive[to as usize] {
                continue;
            }
            self.orders[usize::from(lane)].remove(&self.net, from, to);
        }
        self.orders.iter_mut().for_each(Order::unblock);
        self.past.clear();
    }

    /// Removes channels; returns the LIDs that used them, with the switches that sent the LIDs there.
    fn cut(&mut self, tables: &Tables, ends: &[(SwitchIdx, PortNum)]) -> Vec<(Lid, u32)> {
        let net = Arc::clone(&self.net);
        let channels = ends.iter().filter_map(|&(switch, port)| {
            let (s, port) = (switch.to_usize(), port.index());
            let c = (port < self.width).then(|| self.channel.get(s * self.width + port))??;
            (*c != NONE).then_some(*c)
        });
        let mut lost: Vec<u32> = channels.flat_map(|c| [c, net.rev[c as usize]]).collect();
        lost.sort_unstable();
        lost.dedup();
        lost.retain(|&c| std::mem::replace(&mut self.alive[c as usize], false));
        for &c in &lost {
            self.orders.iter_mut().for_each(|order| order.forget(&net, c));
            let s = net.src[c as usize] as usize;
            self.gone[s] = net.out(s).all(|c| !self.alive[c]);
        }
        let mut victims = Vec::new();
        for &c in &lost {
            let (s, egress) = (net.src[c as usize], net.egress[c as usize]);
            if self.gone[s as usize] {
                continue;
            }
            for block in 0..tables.blocks() {
                let row = tables.block(SwitchIdx(s), block);
                let hit = row.iter().zip(0..).filter(|(entry, _)| **entry == egress);
                let lids = hit.filter_map(|(_, i)| u16::try_from(block * BLOCK_LIDS + i).ok().map(Lid));
                victims.extend(lids.filter(|&lid| self.is_wanted(lid)).map(|lid| (lid, s)));
            }
        }
        victims
    }

    /// True if a reachable port has the LID.
    fn is_wanted(&self, lid: Lid) -> bool {
        let trip = self.trips.get(lid.index());
        trip.is_some_and(|trip| trip.at != NONE && !self.gone[trip.at as usize])
    }
}

/// One loss.
struct Loss<'a> {
    net: Arc<Net>,
    mender: &'a mut WeaveMender,
    tables: &'a mut Tables,
    moved: Vec<Rehung>,
    /// Turns that only packets in flight will use.
    leaving: Vec<Turn>,
}

impl Loss<'_> {
    /// Routes LIDs around the loss where that is possible while packets are in flight: first by one entry, then by
    /// several. Returns the LIDs for which it is not possible.
    fn lead_now(&mut self, lost: Vec<Victim>) -> Vec<Victim> {
        let mut one = Vec::new();
        let mut many = Vec::new();
        for (lid, roots) in lost {
            match roots[..] {
                [root] => one.push((lid, root)),
                _ => many.push((lid, roots)),
            }
        }
        let mut late = self.hang_all(&one);
        late.extend(many.into_iter().filter_map(|victim| self.rehang_all(victim)));
        late
    }

    /// Routes a LID around the loss at all switches that lost their path. Returns the switches that still have none,
    /// with the LID; `None` if all have one.
    fn rehang_all(&mut self, (lid, mut roots): Victim) -> Option<Victim> {
        let first = self.moved.len();
        loop {
            let before = roots.len();
            // The only path of one may lead over another.
            roots.retain(|&root| !self.rehang(lid, root, first));
            if roots.is_empty() || roots.len() == before {
                break;
            }
        }
        self.settle(lid, first);
        (!roots.is_empty()).then_some((lid, roots))
    }

    /// Returns the egress channel of a switch for a LID; [`NONE`] if it leads to no switch.
    fn by(&self, switch: u32, lid: Lid) -> u32 {
        self.channel_of(switch, self.tables.get(SwitchIdx(switch), lid))
    }

    fn channel_of(&self, switch: u32, egress: u8) -> u32 {
        let port = usize::from(egress);
        if port >= self.mender.width {
            return NONE;
        }
        self.mender.channel[switch as usize * self.mender.width + port]
    }

    /// Returns the channel by which a switch sent a LID before anything was lost.
    fn by_before(&self, switch: u32, lid: Lid, first: usize) -> u32 {
        let moved = self.moved[first..].iter().find(|moved| moved.switch.0 == switch);
        moved.map_or_else(|| self.by(switch, lid), |moved| self.channel_of(switch, moved.before))
    }

    /// Finds the live channels into a switch that may hold packets to a LID: by entries in force, and by replaced
    /// entries.
    fn entering(&self, switch: u32, lid: Lid, first: usize, into: &mut Vec<u32>) {
        into.clear();
        let past = self.mender.past.get(&lid).map_or(&[][..], Vec::as_slice);
        for out in self.net.out(switch as usize) {
            let (from, c) = (self.net.dst[out], self.net.rev[out]);
            if !self.mender.alive[c as usize] {
                continue;
            }
            let is_used = self.by(from, lid) == c || self.by_before(from, lid, first) == c;
            if is_used || past.contains(&(from, c)) {
                into.push(c);
            }
        }
    }

    /// Counts the turns of the new entries of a LID, and notes which turns in the graph only packets in flight still
    /// use.
    fn settle(&mut self, lid: Lid, first: usize) {
        let lane = self.mender.trips[lid.index()].lane;
        // All turns added on the way are transitional, except those counted here.
        let mut senders: Vec<u32> = Vec::new();
        for moved in &self.moved[first..] {
            let s = moved.switch.0;
            senders.push(s);
            for out in self.net.out(s as usize) {
                let (from, c) = (self.net.dst[out], self.net.rev[out]);
                if self.by(from, lid) == c || self.by_before(from, lid, first) == c {
                    senders.push(from);
                }
            }
        }
        senders.sort_unstable();
        senders.dedup();
        for s in senders {
            let turn_of = |by: &dyn Fn(u32) -> u32| {
                let from = by(s);
                let is_live = |c: u32| c != NONE && self.mender.alive[c as usize];
                let to = is_live(from).then(|| by(self.net.dst[from as usize]));
                to.filter(|&to| is_live(to)).map(|to| (lane, from, to))
            };
            let before = turn_of(&|s| self.by_before(s, lid, first));
            let now = turn_of(&|s| self.by(s, lid));
            if before == now {
                continue;
            }
            self.leaving.extend(before);
            if let Some((_, from, to)) = now {
                // It is in the graph: it was one of the turns that may come about during the change.
                self.mender.orders[usize::from(lane)].restore(&self.net, from, to);
            }
        }
    }

    /// Records the turns that packets in flight may still use.
    fn finish(&mut self) {
        self.mender.lingering.append(&mut self.leaving);
        for moved in &self.moved {
            let s = moved.switch.0;
            let c = self.channel_of(s, moved.before);
            self.mender.past.entry(moved.lid).or_default().push((s, c));
        }
    }
}

/// Switches of one column, each after the switch that it sends to.
#[derive(Debug)]
struct Column {
    order: Vec<u32>,
    met: Vec<u32>,
    round: u32,
    path: Vec<u32>,
    sum: Vec<u64>,
}

impl Column {
    fn new(switches: usize) -> Self {
        Self {
            order: Vec::with_capacity(switches),
            met: vec![0; switches],
            round: 0,
            path: Vec::new(),
            sum: vec![0; switches],
        }
    }

    /// Orders the switches; false if some do not reach `goal`.
    fn order(&mut self, net: &Net, next: &[u32], goal: u32) -> bool {
        self.round += 1;
        self.order.clear();
        self.order.push(goal);
        self.met[goal as usize] = self.round;
        for s in 0..next.len() as u32 {
            let mut at = s;
            self.path.clear();
            while self.met[at as usize] != self.round {
                // A path that is longer than the number of switches is a loop.
                if self.path.len() > next.len() || next[at as usize] == NONE {
                    return false;
                }
                self.path.push(at);
                at = net.dst[next[at as usize] as usize];
            }
            for &at in self.path.iter().rev() {
                self.met[at as usize] = self.round;
                self.order.push(at);
            }
        }
        true
    }

    /// Adds the load of hosts by the current column.
    fn put_load(&mut self, net: &Net, next: &[u32], load: &mut [u64]) {
        for &s in &self.order {
            self.sum[s as usize] = u64::from(net.hosts[s as usize]);
        }
        for &s in self.order[1..].iter().rev() {
            let c = next[s as usize] as usize;
            load[c] += self.sum[s as usize];
            self.sum[net.dst[c] as usize] += self.sum[s as usize];
        }
    }
}
