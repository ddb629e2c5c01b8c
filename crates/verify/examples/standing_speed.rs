//! The time to prove the changes after one lost link: `standing_speed [SHAPE] [LINKS]`, SHAPE `karytree` (5,832 hosts,
//! the default), `mport` (27,648 hosts) or `random` (256 switches of degree 4, 512 hosts).
//!
//! For each of LINKS links (default 20, spread over all): every LID with packets that crossed it is repaired, up and
//! then down, by a search from the switches that still reach it, which is not timed. The time of [`Standing::apply`]
//! and [`Standing::proof`] together is measured; then all is undone. Last comes the whole judgement of a plan that
//! changes nothing.
//!
//! Best of 7, warm caches, AMD EPYC:
//!
//! | fabric | entries changed | proof, median (most) | a whole judgement, no change | memory |
//! |---|---|---|---|---|
//! | 256 switches of degree 4, 512 hosts | 207–1,934 | 0.1 (0.3) ms | 0.2 ms | 2 MB |
//! | `karytree:k=18,n=3` | 1,003–3,112 | 0.5 (0.5) ms | 6 ms | 30 MB |
//! | `mport:m=48,n=3` | 3,547–11,398 | 2.2 (2.3) ms | 68 ms | 310 MB |
#![allow(clippy::unwrap_used, reason = "an example may stop")]

#[path = "../tests/it/support/mod.rs"]
mod support;
mod tree;

use std::collections::VecDeque;
use std::time::Instant;

use selvedge_fabric::{Fabric, PortRef, SwitchIdx};
use selvedge_plan::{Installed, Lids, ServiceLevels, SlToVl, Tables, changes};
use selvedge_sim::{Par, Seed};
use selvedge_types::{Idx, Lid};
use selvedge_verify::standing::{self, Change, Entry, LinkChange, Standing};
use selvedge_verify::{JudgeOptions, Subject};
use tree::Tree;

/// Fabric, LIDs, tables and the switches at the top.
fn subject(shape: &str) -> (Fabric, Lids, Tables, Vec<usize>) {
    if shape == "random" {
        let mut rng = Seed(21).child("standing").rng();
        let mut below = |n: usize| rng.below(n as u64) as usize;
        let fabric = support::random(256, 512 - 255, 512, 0, &mut below);
        let lids = support::lids(&fabric, 0);
        let tables = support::updown(&fabric, &lids, SwitchIdx(0));
        return (fabric, lids, tables, vec![0]);
    }
    let tree = Tree::of(shape);
    let fabric = tree.fabric();
    let lids = tree.lids(&fabric);
    let tables = tree.tables(&fabric, &lids);
    let count = fabric.switches().len();
    (fabric, lids, tables, (count - tree.k * tree.k..count).collect())
}

/// Number of times that each change is made and undone; the least time counts.
const REPEATS: u64 = 7;

/// Links between switches by switch and port: the switch at the other end.
struct Net {
    next: Vec<[u32; 256]>,
    /// Up is towards the lower rank.
    rank: Vec<(usize, usize)>,
}

const NONE: u32 = u32::MAX;

impl Net {
    fn new(fabric: &Fabric, roots: &[usize]) -> Self {
        let of = |switch| {
            let mut next = [NONE; 256];
            for (port, to) in support::neighbours(fabric, switch) {
                next[port.index()] = to.0;
            }
            next
        };
        let next: Vec<_> = fabric.switches().indices().map(of).collect();
        let mut rank: Vec<_> = (0..next.len()).map(|switch| (usize::MAX, switch)).collect();
        let mut open: VecDeque<usize> = roots.iter().copied().collect();
        roots.iter().for_each(|&root| rank[root].0 = 0);
        while let Some(at) = open.pop_front() {
            for &to in next[at].iter().filter(|&&to| to != NONE) {
                if rank[to as usize].0 == usize::MAX {
                    rank[to as usize].0 = rank[at].0 + 1;
                    open.push_back(to as usize);
                }
            }
        }
        Self { next, rank }
    }

    /// New entries of one LID after the ports of `lost` have died: switches that have lost their path use the nearest
    /// switch with a path, upwards if possible, or down to a switch with a path that leads down only.
    fn mend(&self, tables: &Tables, lost: [(usize, u8); 2], lid: Lid, entries: &mut Vec<Entry>) {
        let entry = |switch: usize| tables.get(SwitchIdx::from_usize(switch), lid);
        let goes_down = |from: usize, to: usize| self.rank[from] < self.rank[to];
        // Whether the path leads down only; `None`: there is no path.
        let mut way: Vec<Option<bool>> = vec![None; self.next.len()];
        for first in 0..self.next.len() {
            let (mut path, mut at) = (vec![first], first);
            let end = loop {
                let next = self.next[at][usize::from(entry(at))];
                if way[at].is_some() || lost.contains(&(at, entry(at))) || next == NONE {
                    let is_owner = next == NONE && !lost.contains(&(at, entry(at)));
                    break way[at].or(is_owner.then_some(true));
                }
                at = next as usize;
                path.push(at);
            };
            way[at] = end;
            for pair in path.windows(2).rev() {
                way[pair[0]] = way[pair[1]].map(|is_down| is_down && goes_down(pair[0], pair[1]));
            }
        }
        let mut open: VecDeque<usize> = (0..way.len()).filter(|&switch| way[switch].is_some()).collect();
        while let Some(at) = open.pop_front() {
            for &from in self.next[at].iter().filter(|&&next| next != NONE) {
                let from = from as usize;
                let alive = |port: u8| !lost.contains(&(from, port));
                let is_legal = |to: usize| way[to].is_some_and(|is_down| is_down || !goes_down(from, to));
                // A switch keeps its present path if possible.
                let own = self.next[from][usize::from(entry(from))];
                let (to, egress) = if alive(entry(from)) && own != NONE && is_legal(own as usize) {
                    (own as usize, Some(entry(from)))
                } else {
                    let leads = |port: &u8| self.next[from][usize::from(*port)] == at as u32 && alive(*port);
                    (at, (0..=254).find(leads).filter(|_| is_legal(at)))
                };
                if let (None, Some(egress)) = (way[from], egress) {
                    let switch = SwitchIdx::from_usize(from);
                    entries.push(Entry { switch, lid, egress });
                    way[from] = way[to].map(|is_down| is_down && goes_down(from, to));
                    open.push_back(from);
                }
            }
        }
    }

    /// Returns the change that the loss of a link requires: the link, and new entries for the LIDs that were sent over
    /// it.
    fn change(&self, fabric: &Fabric, tables: &Tables, lids: &Lids, link: (PortRef, PortRef)) -> Change {
        let end = |at: PortRef| (fabric.switch_index(at.node).unwrap(), at.port);
        let ends = [end(link.0), end(link.1)];
        let lost = ends.map(|(switch, port)| (switch.to_usize(), port.get()));
        let mut entries = Vec::new();
        let crosses = |lid| ends.iter().any(|&(switch, port)| tables.get(switch, lid) == port.get());
        for (lid, _) in lids.by_lid().filter(|&(lid, _)| crosses(lid)) {
            self.mend(tables, lost, lid, &mut entries);
        }
        // An entry that stays as it is does not change.
        entries.retain(|entry| tables.get(entry.switch, entry.lid) != entry.egress);
        let (switch, port) = ends[0];
        let is_up = false;
        Change {
            links: vec![LinkChange { switch, port, is_up }],
            entries,
        }
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let shape = arguments.get(1).map_or("karytree", String::as_str);
    let count: usize = arguments.get(2).and_then(|text| text.parse().ok()).unwrap_or(20);
    let (fabric, lids, tables, roots) = subject(shape);
    let (levels, map) = (ServiceLevels::default(), SlToVl::default());
    let subject = Subject::tables(&fabric, &lids, &tables, &levels, &map);
    for par in [Par::Sequential, Par::Rayon] {
        tree::row(&format!("first proof, {par:?}"), 3, || {
            Standing::new(subject, par).unwrap();
        });
    }
    let mut standing = Standing::new(subject, Par::Rayon).unwrap();
    println!("{:?}", standing.proof());
    let net = Net::new(&fabric, &roots);
    let between = |at: PortRef| fabric.switch_index(at.node).is_some();
    let links = fabric.links().filter(|link| between(link.a) && between(link.b));
    let links: Vec<_> = links.map(|link| (link.a, link.b)).collect();
    let mut times = Vec::new();
    for link in links.iter().step_by((links.len() / count.max(1)).max(1)) {
        let change = net.change(&fabric, &tables, &lids, *link);
        let before = standing.work();
        let (mut time, mut proof) = (f64::MAX, standing.proof());
        for _ in 0..REPEATS {
            let start = Instant::now();
            let undo = standing.apply(&change).unwrap();
            proof = standing.proof();
            time = time.min(start.elapsed().as_secs_f64() * 1e3);
            standing.apply(&undo).unwrap();
        }
        let work = standing.work();
        let entries = (work.entries - before.entries) / (2 * REPEATS);
        println!(
            "{time:7.3} ms: {} entries changed, {entries} read, {} channels; dead ends {} lost {} {:?} max load {}",
            change.entries.len(),
            work.channels - before.channels,
            proof.dead_ends,
            proof.lost,
            proof.cyclic,
            proof.load.max
        );
        times.push(time);
    }
    times.sort_by(f64::total_cmp);
    println!(
        "median {:.3} ms, most {:.3} ms",
        times[times.len() / 2],
        times[times.len() - 1]
    );
    whole(&fabric, &lids, &tables);
}

/// The whole judgement of a plan that changes nothing: the remaining work when no packet must be followed.
fn whole(fabric: &Fabric, lids: &Lids, tables: &Tables) {
    let plan = tree::plan(fabric, lids, tables);
    let mut installed = Installed::unknown(fabric.switches().len());
    for switch in fabric.switches().indices() {
        for block in 0..tables.blocks() {
            installed.learn(switch, block, *tables.block(switch, block));
        }
    }
    let mut programmed = fabric.clone();
    for (&at, &settings) in &plan.ports {
        let link = fabric.port(at).unwrap().link;
        programmed.set_port(at, link, settings);
    }
    for (switch, &settings) in plan.switches.iter_enumerated() {
        programmed.set_switch(fabric.switches()[switch], settings);
    }
    let set = changes(&programmed, &installed, &plan);
    assert!(set.is_empty());
    let mut standing = Standing::new(Subject::plan(fabric, &plan), Par::Rayon).ok();
    let options = JudgeOptions::default();
    tree::row("judge by a proof that stands", REPEATS as usize, || {
        let judged = standing::judge(&mut standing, &programmed, &installed, &plan, set.clone(), &options);
        assert!(judged.unwrap().verdict().figures.hops.is_empty());
    });
}
