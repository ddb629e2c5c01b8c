//! How long it takes to prove what follows from one lost link: `standing_speed [SHAPE] [LINKS]`, SHAPE `karytree`
//! (5,832 hosts, the default), `mport` (27,648 hosts) or `random` (256 switches of degree 4, 512 hosts).
//!
//! For each of LINKS links (default 20, spread over all): every LID whose packets crossed it is mended by a search
//! from the switches that still reach it, which is not timed. Timed are [`Standing::apply`] and [`Standing::proof`]
//! together; then all is undone.
#![allow(clippy::unwrap_used, reason = "an example may stop")]

#[path = "../tests/support/mod.rs"]
mod support;
mod tree;

use std::collections::VecDeque;
use std::time::Instant;

use selvedge_fabric::{Fabric, PortRef, SwitchIdx};
use selvedge_plan::{Lids, ServiceLevels, SlToVl, Tables};
use selvedge_sim::{Par, Seed};
use selvedge_types::{Idx, Lid};
use selvedge_verify::{Change, Entry, LinkChange, Standing, Subject};
use tree::Tree;

fn subject(shape: &str) -> (Fabric, Lids, Tables) {
    if shape == "random" {
        let mut rng = Seed(21).child("standing").rng();
        let mut below = |n: usize| rng.below(n as u64) as usize;
        let fabric = support::random(256, 512 - 255, 512, 0, &mut below);
        let lids = support::lids(&fabric, 0);
        let tables = support::updown(&fabric, &lids, SwitchIdx(0));
        return (fabric, lids, tables);
    }
    let tree = Tree::of(shape);
    let fabric = tree.fabric();
    let lids = tree.lids(&fabric);
    let tables = tree.tables(&fabric, &lids);
    (fabric, lids, tables)
}

/// Each change is made and undone so often; the least time counts.
const REPEATS: u64 = 7;

/// Links between switches by switch and port: the switch they lead to.
struct Net {
    next: Vec<[u32; 256]>,
}

const NONE: u32 = u32::MAX;

impl Net {
    fn new(fabric: &Fabric) -> Self {
        let of = |switch| {
            let mut next = [NONE; 256];
            for (port, to) in support::neighbours(fabric, switch) {
                next[port.index()] = to.0;
            }
            next
        };
        Self {
            next: fabric.switches().indices().map(of).collect(),
        }
    }

    /// New entries of one LID after the ports of `lost` have died: switches that have lost their way take the nearest
    /// that has not.
    fn mend(&self, tables: &Tables, lost: [(usize, u8); 2], lid: Lid, entries: &mut Vec<Entry>) {
        let entry = |switch: usize| tables.get(SwitchIdx::from_usize(switch), lid);
        let mut reaches = vec![false; self.next.len()];
        for first in 0..self.next.len() {
            let (mut path, mut at) = (vec![first], first);
            let arrives = loop {
                let next = self.next[at][usize::from(entry(at))];
                if reaches[at] || lost.contains(&(at, entry(at))) || next == NONE {
                    break !lost.contains(&(at, entry(at)));
                }
                at = next as usize;
                path.push(at);
            };
            path.iter().for_each(|&switch| reaches[switch] |= arrives);
        }
        let mut open: VecDeque<usize> = (0..reaches.len()).filter(|&switch| reaches[switch]).collect();
        while let Some(at) = open.pop_front() {
            for &from in self.next[at].iter().filter(|&&next| next != NONE) {
                let from = from as usize;
                if reaches[from] {
                    continue;
                }
                let alive = |port: u8| !lost.contains(&(from, port));
                let leads = |port: &u8| self.next[from][usize::from(*port)] == at as u32 && alive(*port);
                // Whoever can stay with the way it has, does.
                let own = self.next[from][usize::from(entry(from))];
                let stays = alive(entry(from)) && reaches[own as usize];
                let Some(egress) = (if stays {
                    Some(entry(from))
                } else {
                    (0..=254).find(leads)
                }) else {
                    continue;
                };
                let switch = SwitchIdx::from_usize(from);
                entries.push(Entry { switch, lid, egress });
                reaches[from] = true;
                open.push_back(from);
            }
        }
    }

    /// What follows from the loss of a link.
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
    let (fabric, lids, tables) = subject(shape);
    let (levels, map) = (ServiceLevels::default(), SlToVl::default());
    let subject = Subject::tables(&fabric, &lids, &tables, &levels, &map);
    for par in [Par::Sequential, Par::Rayon] {
        tree::row(&format!("first proof, {par:?}"), 3, || {
            Standing::new(subject, par).unwrap();
        });
    }
    let mut standing = Standing::new(subject, Par::Rayon).unwrap();
    println!("{:?}", standing.proof());
    let net = Net::new(&fabric);
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
            "{time:7.3} ms: {} entries changed, {entries} read, {} channels; lost {} cyclic {:?} max load {}",
            change.entries.len(),
            work.channels - before.channels,
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
}
