//! Tables in force, changed no more than a change of the fabric asks for.
//!
//! The dependency graph of each lane is read from the tables. A destination that still reaches all switches keeps its
//! tree. Otherwise the switches that lost their way are settled again against what is kept ([`Search::resume`]); if
//! that closes a cycle the destination is routed anew, alone; if that fails too, the caller routes everything. Service
//! levels stay with their LIDs.
//!
//! Turns of entries that are replaced stay in the graph while the rest is settled: the graph of old and new entries
//! together has no cycle, so they may be sent in any order (not so for a destination that had to be routed anew).
//!
//! Work: LIDs × switches steps of about 10 ns, and a search for each destination that lost a switch.

use selvedge_fabric::SwitchIdx;
use selvedge_plan::{NO_PATH, ServiceLevels, Tables};
use selvedge_types::{Lid, Sl};

use super::net::{Goal, NONE, Net};
use super::order::Order;
use super::queue::WEIGHT_MAX;
use super::search::Search;

/// What a hop weighs, and what the mean load of all channels adds to it.
const HOP: u32 = 256;
const MEAN_LOAD: f64 = 64.0;
/// The entry in force weighs only so much: it stays if the switch it leads to has a way again.
const OLD: u32 = 32;

/// What is in force.
#[derive(Clone, Copy, Debug)]
pub(super) struct InForce<'a> {
    /// Forwarding tables, with this fabric's switch indices.
    pub tables: &'a Tables,
    /// Service levels.
    pub levels: &'a ServiceLevels,
    /// Lanes: SL modulo this.
    pub lanes: u8,
}

/// What was repaired.
#[derive(Debug)]
pub(super) struct Mended {
    /// Forwarding tables.
    pub tables: Tables,
    /// Service levels.
    pub levels: ServiceLevels,
    /// LIDs whose lost switches were settled again.
    pub extended: usize,
    /// LIDs that were routed anew, alone.
    pub rerouted: usize,
    /// Entries that changed.
    pub entries: usize,
}

/// One LID.
#[derive(Clone, Copy, Debug)]
struct Job {
    lid: Lid,
    goal: Goal,
    lane: u8,
}

struct Mender<'a> {
    net: &'a Net,
    in_force: InForce<'a>,
    /// The channel of each port of each switch, [`NONE`] for others: `width` of them a switch.
    channel: Vec<u32>,
    width: usize,
    search: Search,
    orders: Vec<Order>,
    load: Vec<u64>,
    weight: Vec<u32>,
    gain: Vec<f64>,
    part_size: Vec<usize>,
    /// The column of the LID at hand, and the switches of it that reach the goal, each after the one it sends to.
    next: Vec<u32>,
    settled: Vec<u32>,
    state: Vec<u32>,
    stamp: u32,
    path: Vec<u32>,
    sub: Vec<u64>,
    out: Mended,
}

/// Repairs tables in force; `None` if that cannot be done without routing everything.
pub(super) fn mend(net: &Net, goals: &[Goal], top: Lid, in_force: InForce<'_>) -> Option<Mended> {
    let mut mender = Mender::new(net, top, in_force);
    let jobs = mender.jobs(goals);
    let mut counts = vec![vec![0_u32; net.turn_first[net.channels()] as usize]; usize::from(in_force.lanes)];
    let mut lost = Vec::new();
    for &job in &jobs {
        mender.read(job);
        let count = &mut counts[usize::from(job.lane)];
        mender.for_turns(|from, to| count[net.turn(from, to)] += 1);
        if job.goal.egress != 0 {
            mender.put_load();
        }
        if mender.settled.len() < mender.want(job) || mender.in_force(job.goal.at, job.lid) != job.goal.egress {
            lost.push(job);
        }
    }
    for count in counts {
        mender.orders.push(Order::of_turns(net, count)?);
    }
    mender.weigh();
    for &job in &lost {
        mender.mend_one(job)?;
    }
    mender.clear_unowned(&jobs);
    let mut sls = vec![Sl::default(); top.index() + 1];
    for job in &jobs {
        sls[job.lid.index()] = Sl::new(job.lane).unwrap_or_default();
    }
    mender.out.levels = if in_force.lanes > 1 {
        ServiceLevels::PerDestination(sls)
    } else {
        ServiceLevels::default()
    };
    Some(mender.out)
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
            out,
        }
    }

    /// All LIDs with their lanes. One that has none yet goes with the others of its switch, or else on the lane that
    /// fewest are on.
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
        let goal = job.goal.at;
        for (s, next) in (0_u32..).zip(&mut self.next) {
            let port = usize::from(self.in_force.tables.get(SwitchIdx(s), job.lid));
            *next = if port < self.width && s != goal {
                self.channel[s as usize * self.width + port]
            } else {
                NONE
            };
        }
        // The stamp: reaches the goal. One more: was seen, and does not unless it is found to.
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

    /// The turns of the column at hand, whether they reach the goal or not: packets may still be on them.
    fn for_turns(&self, mut f: impl FnMut(u32, u32)) {
        for &from in self.next.iter().filter(|&&c| c != NONE) {
            let to = self.next[self.net.dst[from as usize] as usize];
            if to != NONE && to != self.net.rev[from as usize] {
                f(from, to);
            }
        }
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

    /// Gives all switches a way to one LID again.
    fn mend_one(&mut self, job: Job) -> Option<()> {
        self.read(job);
        let (net, want) = (self.net, self.want(job));
        let old: Vec<u32> = self.next.iter().copied().filter(|&c| c != NONE).collect();
        for &c in &old {
            self.weight[c as usize] = OLD;
        }
        let order = &mut self.orders[usize::from(job.lane)];
        let is_mended = self
            .search
            .resume(net, order, &self.weight, (&self.settled, &self.next), want);
        for &c in &old {
            self.weight[c as usize] = self.weight_of(c as usize);
        }
        if is_mended {
            self.out.extended += 1;
        } else {
            self.reroute(job, want)?;
            self.out.rerouted += 1;
        }
        self.write(job);
        Some(())
    }

    /// Routes one LID as if it had not been there.
    fn reroute(&mut self, job: Job, want: usize) -> Option<()> {
        let mut order = core::mem::replace(&mut self.orders[usize::from(job.lane)], Order::nothing());
        self.for_turns(|from, to| order.remove(self.net, from, to));
        order.unblock();
        let is_found = self
            .search
            .attempt(self.net, &mut order, &self.weight, job.goal.at, want);
        self.orders[usize::from(job.lane)] = order;
        is_found.then_some(())
    }

    fn write(&mut self, job: Job) {
        self.set(job.goal.at, job.lid, job.goal.egress);
        for i in 1..self.search.settled.len() {
            let u = self.search.settled[i];
            let channel = self.search.next[u as usize] as usize;
            self.set(u, job.lid, self.net.egress[channel]);
            if self.next[u as usize] != channel as u32 {
                // How many come that way is not counted again: this is near enough until everything is routed anew.
                self.load[channel] += u64::from(self.net.hosts[u as usize]);
                self.weight[channel] = self.weight_of(channel);
            }
        }
        let part = |s: u32| self.net.part[s as usize];
        for s in (0..self.net.switches as u32).filter(|&s| part(s) != part(job.goal.at)) {
            self.set(s, job.lid, NO_PATH);
        }
    }

    fn set(&mut self, switch: u32, lid: Lid, egress: u8) {
        if self.out.tables.get(SwitchIdx(switch), lid) != egress {
            self.out.tables.set(SwitchIdx(switch), lid, egress);
            self.out.entries += 1;
        }
    }

    /// LIDs that nobody has any more lead nowhere.
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
