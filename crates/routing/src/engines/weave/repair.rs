//! Repairs tables in force with as few changes as a change of the fabric requires.
//!
//! The dependency graph of each lane is read from the tables. A destination that still reaches all switches keeps its
//! tree. Otherwise the switches that lost their path get new ones that fit the kept entries ([`Search::resume`]). If
//! that closes a cycle, first the destination alone is routed again. If that fails, all destinations of the lane with a
//! lost path are routed again along a spanning tree that fits the lane's graph. Along this tree there is always a path.
//! If that fails, their entries are removed from the graph first. As a last resort the whole lane is routed again from
//! its base, which never fails. LIDs keep their service levels.
//!
//! Turns of replaced entries stay in the graph during the repair. So if no destination was routed again as a whole, the
//! graph of old and new entries together has no cycle, and the new entries may be sent in any order.
//!
//! Work: LIDs × switches steps of about 10 ns, and a search for each destination that lost a switch.

use std::collections::BTreeSet;

use selvedge_fabric::SwitchIdx;
use selvedge_plan::{BLOCK_LIDS, NO_PATH, ServiceLevels, Tables};
use selvedge_types::{Lid, Sl};

use super::cluster;
use super::net::{Goal, NONE, Net};
use super::order::{Base, Order};
use super::queue::WEIGHT_MAX;
use super::search::Search;

/// Weight of a hop, and of the mean load of all channels.
const HOP: u32 = 256;
const MEAN_LOAD: f64 = 64.0;
/// Weight of the entry in force: small, so that it stays if the switch it leads to has a path again.
const OLD: u32 = 32;

/// The load is counted for one LID in this number: it only has to distinguish channels.
const LOAD_OF: usize = 4;

/// The routing in force.
#[derive(Clone, Copy, Debug)]
pub(super) struct InForce<'a> {
    /// Forwarding tables, with this fabric's switch indices.
    pub tables: &'a Tables,
    /// Service levels.
    pub levels: &'a ServiceLevels,
    /// Number of lanes: the lane is the service level modulo this number.
    pub lanes: u8,
}

/// The result of a repair.
#[derive(Debug)]
pub(super) struct Mended {
    /// Forwarding tables.
    pub tables: Tables,
    /// Service levels.
    pub levels: ServiceLevels,
    /// Number of LIDs with new paths only for the switches that had lost theirs.
    pub extended: usize,
    /// Number of LIDs that were routed again as a whole.
    pub rerouted: usize,
    /// Number of lanes that were routed again as a whole.
    pub rewoven: usize,
    /// Entries that changed.
    pub entries: usize,
}

/// A LID with its lane, to be checked and repaired.
#[derive(Clone, Copy, Debug)]
struct Job {
    lid: Lid,
    goal: Goal,
    lane: u8,
}

struct Mender<'a> {
    net: &'a Net,
    in_force: InForce<'a>,
    /// The channel of each port of each switch, `width` entries for each switch; [`NONE`] for a port without one.
    channel: Vec<u32>,
    width: usize,
    search: Search,
    orders: Vec<Order>,
    load: Vec<u64>,
    weight: Vec<u32>,
    gain: Vec<f64>,
    part_size: Vec<usize>,
    /// The column of the current LID: the egress channel of each switch. The next field has the switches that reach the
    /// goal, each after the switch that it sends to.
    next: Vec<u32>,
    settled: Vec<u32>,
    state: Vec<u32>,
    stamp: u32,
    path: Vec<u32>,
    sub: Vec<u64>,
    /// True if columns may have been written before, so that they are written as a whole.
    is_rewritten: bool,
    out: Mended,
}

/// Repairs tables in force; returns `None` if these tables have a cycle themselves.
pub(super) fn mend(net: &Net, goals: &[Goal], top: Lid, in_force: InForce<'_>) -> Option<Mended> {
    let mut mender = Mender::new(net, top, in_force);
    let jobs = mender.jobs(goals);
    let mut counts = mender.counts();
    let mut lost = vec![Vec::new(); counts.len()];
    for (number, &job) in jobs.iter().enumerate() {
        let mut is_whole = mender.read_column(job);
        let count = &mut counts[usize::from(job.lane)];
        is_whole &= mender.for_turns(|from, to| count[net.turn(from, to)] += 1);
        if number % LOAD_OF == 0 && job.goal.egress != 0 {
            mender.settle_column(job);
            mender.put_load();
        }
        if !is_whole {
            lost[usize::from(job.lane)].push(job);
        }
    }
    for count in counts {
        mender.orders.push(Order::of_turns(net, count)?);
    }
    mender.weigh();
    for (lane, lost) in lost.iter().enumerate() {
        let alone = mender.out.rerouted;
        mender.is_rewritten = false;
        if lost.iter().all(|&job| mender.extend(job) || mender.move_alone(job)) {
            mender.out.extended += lost.len() - (mender.out.rerouted - alone);
            continue;
        }
        mender.out.rerouted = alone;
        mender.is_rewritten = true;
        if mender.by_base(lane, lost, &jobs) {
            mender.out.extended += lost.len() - (mender.out.rerouted - alone);
        } else if mender.reroute(lane, lost, &jobs) {
            mender.out.rerouted = alone + lost.len();
        } else {
            mender.out.rerouted = alone;
            mender.reweave(lane, &jobs);
            mender.out.rewoven += 1;
        }
    }
    mender.clear_unowned(&jobs);
    Some(mender.finish(&jobs, top))
}

impl<'a> Mender<'a> {
    fn new(net: &'a Net, top: Lid, in_force: InForce<'a>) -> Self {
        let width = net.egress.iter().map(|&port| usize::from(port) + 1).max().unwrap_or(1);
        let mut channel = vec![NONE; net.switches * width];
        for (c, (&src, &port)) in (0..).zip(net.src.iter().zip(&net.egress)) {
            channel[src as usize * width + usize::from(port)] = c;
        }
        let mut part_size = vec![0; net.parts];
        net.part.iter().for_each(|&p| part_size[p as usize] += 1);
        let mut tables = Tables::new(net.switches, top);
        let blocks = tables.blocks().min(in_force.tables.blocks());
        for s in tables.switch_indices() {
            for block in 0..blocks {
                *tables.block_mut(s, block) = *in_force.tables.block(s, block);
            }
        }
        let out = Mended {
            tables,
            levels: ServiceLevels::default(),
            extended: 0,
            rerouted: 0,
            rewoven: 0,
            entries: 0,
        };
        Self {
            net,
            in_force,
            channel,
            width,
            search: Search::new(net),
            orders: Vec::new(),
            load: vec![0; net.channels()],
            weight: Vec::new(),
            gain: Vec::new(),
            part_size,
            next: vec![NONE; net.switches],
            settled: Vec::new(),
            state: vec![0; net.switches],
            stamp: 0,
            path: Vec::new(),
            sub: vec![0; net.switches],
            is_rewritten: false,
            out,
        }
    }

    /// Returns all LIDs with their lanes. A LID without a lane gets the lane of other LIDs at its switch, or else the
    /// lane with the fewest LIDs.
    fn jobs(&self, goals: &[Goal]) -> Vec<Job> {
        let lanes = self.in_force.lanes;
        let lane_of = |lid: Lid| self.in_force.levels.to(lid).get() % lanes;
        let is_known = |goal: &Goal, lid: Lid| self.in_force(goal.at, lid) != NO_PATH;
        let mut of_switch: Vec<Option<u8>> = vec![None; self.net.switches];
        let mut on_lane = vec![0_usize; usize::from(lanes)];
        for goal in goals.iter().filter(|goal| is_known(goal, goal.lids.base)) {
            of_switch[goal.at as usize].get_or_insert(lane_of(goal.lids.base));
            on_lane[usize::from(lane_of(goal.lids.base))] += 1;
        }
        let mut jobs = Vec::new();
        for &goal in goals {
            for offset in 0..goal.lids.lmc.lids() {
                let lid = Lid(goal.lids.base.0 + offset);
                let lane = if is_known(&goal, lid) {
                    lane_of(lid)
                } else {
                    let first = *of_switch[goal.at as usize].get_or_insert_with(|| {
                        let emptiest = (0..lanes).min_by_key(|&l| (on_lane[usize::from(l)], l)).unwrap_or(0);
                        on_lane[usize::from(emptiest)] += 1;
                        emptiest
                    });
                    u8::try_from((u16::from(first) + offset) % u16::from(lanes)).unwrap_or(0)
                };
                jobs.push(Job { lid, goal, lane });
            }
        }
        jobs
    }

    fn in_force(&self, switch: u32, lid: Lid) -> u8 {
        self.in_force.tables.get(SwitchIdx(switch), lid)
    }

    fn want(&self, job: Job) -> usize {
        self.part_size[self.net.part[job.goal.at as usize] as usize]
    }

    /// Reads the column of a LID in force, and finds the switches that reach its goal.
    fn read(&mut self, job: Job) {
        self.read_column(job);
        self.settle_column(job);
    }

    /// Reads the entries of all switches for a LID from the tables in force. Returns true if no switch needs another
    /// path: every entry leads to another switch or to the LID, so the LID is reached unless there is a loop.
    fn read_column(&mut self, job: Job) -> bool {
        let (goal, net) = (job.goal.at, self.net);
        let (block, i) = (job.lid.index() / BLOCK_LIDS, job.lid.index() % BLOCK_LIDS);
        if block >= self.in_force.tables.blocks() {
            self.next.fill(NONE);
            return false;
        }
        let home = net.part[goal as usize];
        let mut is_whole = true;
        let channels = self.channel.chunks_exact(self.width);
        for (((s, next), channels), &part) in (0_u32..).zip(&mut self.next).zip(channels).zip(&net.part) {
            let port = self.in_force.tables.block(SwitchIdx(s), block)[i];
            *next = channels.get(usize::from(port)).copied().unwrap_or(NONE);
            is_whole &= if part == home { *next != NONE } else { port == NO_PATH } || s == goal;
        }
        self.next[goal as usize] = NONE;
        is_whole && self.in_force(goal, job.lid) == job.goal.egress
    }

    /// Finds the switches that reach the goal by the current column.
    fn settle_column(&mut self, job: Job) {
        let goal = job.goal.at;
        // The stamp: reaches the goal. One more: was visited, and does not reach it unless that is found later.
        self.stamp += 2;
        self.settled.clear();
        self.settled.push(goal);
        self.state[goal as usize] = self.stamp;
        for s in 0..self.net.switches as u32 {
            let mut at = s;
            self.path.clear();
            while self.state[at as usize] < self.stamp {
                self.state[at as usize] = self.stamp + 1;
                self.path.push(at);
                match self.next[at as usize] {
                    NONE => break,
                    channel => at = self.net.dst[channel as usize],
                }
            }
            if self.state[at as usize] == self.stamp {
                for &u in self.path.iter().rev() {
                    self.state[u as usize] = self.stamp;
                    self.settled.push(u);
                }
            }
        }
    }

    /// Calls `f` for each turn that the LID's entries make. This includes entries that do not lead to the goal, because
    /// packets may still use them. Returns false if a switch sends packets back to the switch that they came from,
    /// which is no turn.
    fn for_turns(&self, mut f: impl FnMut(u32, u32)) -> bool {
        let mut is_straight = true;
        for &from in self.next.iter().filter(|&&c| c != NONE) {
            let to = self.next[self.net.dst[from as usize] as usize];
            if to != NONE {
                if to == self.net.rev[from as usize] {
                    is_straight = false;
                } else {
                    f(from, to);
                }
            }
        }
        is_straight
    }

    fn put_load(&mut self) {
        for &u in &self.settled {
            self.sub[u as usize] = u64::from(self.net.hosts[u as usize]);
        }
        for &u in self.settled[1..].iter().rev() {
            let channel = self.next[u as usize] as usize;
            self.load[channel] += self.sub[u as usize];
            self.sub[self.net.dst[channel] as usize] += self.sub[u as usize];
        }
    }

    fn weigh(&mut self) {
        let priced = |(&load, &price): (&u64, &u32)| load * u64::from(price);
        let sum: u64 = self.load.iter().zip(&self.net.price).map(priced).sum();
        let mean = (sum / (self.load.len() as u64).max(1)).max(1);
        let gain = |&price: &u32| f64::from(price) * MEAN_LOAD / mean as f64;
        self.gain = self.net.price.iter().map(gain).collect();
        self.weight = (0..self.load.len()).map(|c| self.weight_of(c)).collect();
    }

    fn weight_of(&self, c: usize) -> u32 {
        HOP.saturating_add((self.load[c] as f64 * self.gain[c]) as u32)
            .min(WEIGHT_MAX)
    }

    fn counts(&self) -> Vec<Vec<u32>> {
        let turns = self.net.turn_first[self.net.channels()] as usize;
        vec![vec![0; turns]; usize::from(self.in_force.lanes)]
    }

    /// Gives new paths to the switches that lost their path to one LID; nothing else changes.
    fn extend(&mut self, job: Job) -> bool {
        self.read(job);
        let (net, want) = (self.net, self.want(job));
        let state = &self.state;
        let is_lost =
            |s: &u32| state[*s as usize] != self.stamp && net.part[*s as usize] == net.part[job.goal.at as usize];
        let lost: Vec<u32> = (0..net.switches as u32).filter(is_lost).collect();
        let old = || lost.iter().map(|&s| self.next[s as usize]).filter(|&c| c != NONE);
        let heavy: Vec<(u32, u32)> = old().map(|c| (c, self.weight[c as usize])).collect();
        heavy.iter().for_each(|&(c, _)| self.weight[c as usize] = OLD);
        let order = &mut self.orders[usize::from(job.lane)];
        let kept = (&self.settled[..], &self.next[..], &lost[..]);
        let is_mended = self.search.resume(net, order, &self.weight, kept, want);
        heavy.iter().for_each(|&(c, weight)| self.weight[c as usize] = weight);
        if is_mended {
            self.write(job);
        }
        is_mended
    }

    /// Routes one LID as if it were new, first near its old paths, then freely. If it fails, the turns of the LID are
    /// no longer in the graph.
    fn move_alone(&mut self, job: Job) -> bool {
        self.read_column(job);
        let (net, want) = (self.net, self.want(job));
        let old = || self.next.iter().copied().filter(|&c| c != NONE);
        let heavy: Vec<(u32, u32)> = old().map(|c| (c, self.weight[c as usize])).collect();
        let mut turns = Vec::new();
        self.for_turns(|from, to| turns.push((from, to)));
        let order = &mut self.orders[usize::from(job.lane)];
        turns.iter().for_each(|&(from, to)| order.remove(net, from, to));
        order.unblock();
        heavy.iter().for_each(|&(c, _)| self.weight[c as usize] = OLD);
        let mut is_found = self.search.attempt(net, order, &self.weight, job.goal.at, want);
        heavy.iter().for_each(|&(c, weight)| self.weight[c as usize] = weight);
        if !is_found {
            order.unblock();
            is_found = self.search.attempt(net, order, &self.weight, job.goal.at, want);
        }
        if is_found {
            self.out.rerouted += 1;
            self.write(job);
        }
        is_found
    }

    /// Routes the LIDs of a lane that lost a path again, on top of a spanning tree that fits the lane's graph, if there
    /// is one: each LID has at least one path along that tree.
    fn by_base(&mut self, lane: usize, lost: &[Job], jobs: &[Job]) -> bool {
        /// Number of switches that are tried as the root.
        const ROOTS: usize = 8;
        let Some(order) = self.order_of(lane, jobs.iter().copied()) else {
            return false;
        };
        self.orders[lane] = order;
        let (net, switches) = (self.net, self.net.switches);
        let mut roots = (0..switches as u32).step_by(switches.div_ceil(ROOTS));
        if net.parts > 1 || !roots.any(|root| self.orders[lane].find_base(net, root, switches, |_| true)) {
            return false;
        }
        for &job in lost {
            if !(self.extend(job) || self.move_alone(job)) {
                self.search.by_tree(net, &mut self.orders[lane], job.goal.at);
                self.out.rerouted += 1;
                self.write(job);
            }
        }
        true
    }

    /// Returns the graph of some LIDs of a lane, by the tables in force. It has no cycle if the graph of all LIDs has
    /// none.
    fn order_of(&mut self, lane: usize, jobs: impl Iterator<Item = Job>) -> Option<Order> {
        let mut count = vec![0; self.net.turn_first[self.net.channels()] as usize];
        for job in jobs.filter(|job| usize::from(job.lane) == lane) {
            self.read_column(job);
            self.for_turns(|from, to| count[self.net.turn(from, to)] += 1);
        }
        Order::of_turns(self.net, count)
    }

    /// Removes all LIDs of a lane that lost a path from the graph, and routes each again as a whole.
    fn reroute(&mut self, lane: usize, lost: &[Job], jobs: &[Job]) -> bool {
        let is_lost: BTreeSet<Lid> = lost.iter().map(|job| job.lid).collect();
        let kept = jobs.iter().copied().filter(|job| !is_lost.contains(&job.lid));
        let Some(order) = self.order_of(lane, kept) else {
            return false;
        };
        self.orders[lane] = order;
        lost.iter().all(|&job| {
            let (want, order) = (self.want(job), &mut self.orders[lane]);
            let is_found = self.search.attempt(self.net, order, &self.weight, job.goal.at, want);
            if is_found {
                self.write(job);
            }
            is_found
        })
    }

    /// Routes all LIDs of a lane again, from a base.
    fn reweave(&mut self, lane: usize, jobs: &[Job]) {
        let lanes = self.in_force.lanes;
        let mut of_switch = vec![lanes; self.net.switches];
        for job in jobs.iter().filter(|job| usize::from(job.lane) == lane) {
            of_switch[job.goal.at as usize] = job.lane;
        }
        let tops = cluster::tops(self.net, &of_switch, lanes, [1, 0]);
        self.orders[lane] = Order::new(self.net, Base::Tree, 0, &tops[0][lane]);
        for &job in jobs.iter().filter(|job| usize::from(job.lane) == lane) {
            let (want, order) = (self.want(job), &mut self.orders[lane]);
            self.search.route(self.net, order, &self.weight, job.goal.at, want);
            self.write(job);
        }
    }

    fn finish(mut self, jobs: &[Job], top: Lid) -> Mended {
        let mut sls = vec![Sl::default(); top.index() + 1];
        for job in jobs {
            sls[job.lid.index()] = Sl::new(job.lane).unwrap_or_default();
        }
        if self.in_force.lanes > 1 {
            self.out.levels = ServiceLevels::PerDestination(sls);
        }
        let (old, new) = (self.in_force.tables, &self.out.tables);
        for s in new.switch_indices() {
            for block in 0..new.blocks() {
                let was = if block < old.blocks() {
                    old.block(s, block)
                } else {
                    &[NO_PATH; BLOCK_LIDS]
                };
                let pairs = was.iter().zip(new.block(s, block));
                self.out.entries += pairs.filter(|(was, is)| was != is).count();
            }
        }
        self.out
    }

    /// Writes the new entries of the current tree. The column in force must have been read.
    fn write(&mut self, job: Job) {
        self.set(job.goal.at, job.lid, job.goal.egress);
        for i in 1..self.search.settled.len() {
            let u = self.search.settled[i];
            let channel = self.search.next[u as usize] as usize;
            if self.next[u as usize] == channel as u32 && !self.is_rewritten {
                continue;
            }
            self.set(u, job.lid, self.net.egress[channel]);
            // The number of hosts behind is not counted again: this is near enough until everything is routed again.
            self.load[channel] += u64::from(self.net.hosts[u as usize]);
            self.weight[channel] = self.weight_of(channel);
        }
        if self.net.parts > 1 {
            let part = |s: u32| self.net.part[s as usize];
            for s in (0..self.net.switches as u32).filter(|&s| part(s) != part(job.goal.at)) {
                self.set(s, job.lid, NO_PATH);
            }
        }
    }

    fn set(&mut self, switch: u32, lid: Lid, egress: u8) {
        self.out.tables.set(SwitchIdx(switch), lid, egress);
    }

    /// Clears the entries of LIDs that no port has.
    fn clear_unowned(&mut self, jobs: &[Job]) {
        let mut is_owned = vec![false; self.out.tables.top().index() + 1];
        jobs.iter().for_each(|job| is_owned[job.lid.index()] = true);
        for lid in (0..)
            .map(Lid)
            .zip(is_owned)
            .filter(|&(_, owned)| !owned)
            .map(|(lid, _)| lid)
        {
            for s in 0..self.net.switches as u32 {
                self.set(s, lid, NO_PATH);
            }
        }
    }
}
