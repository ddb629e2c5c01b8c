//! How long the engines take: `cargo run -p selvedge-routing --example route_speed [k] [n]`.
//!
//! Routes the k-ary n-tree (18 and 3 if not said: 972 switches, 5,832 hosts) on one thread and on all, five times each,
//! and prints the fastest run.

#[path = "../tests/common/mod.rs"]
mod common;

use std::time::Instant;

use selvedge_routing::{Engine, Options};
use selvedge_sim::{Par, Seed};

fn main() {
    let argument = |i: usize| std::env::args().nth(i).and_then(|text| text.parse().ok());
    let (k, n) = (argument(1).unwrap_or(18), argument(2).unwrap_or(3));
    let fabric = common::karytree(usize::try_from(k).unwrap_or(18), n);
    let lids = common::number(&fabric, 0);
    println!("{} switches, {} hosts", fabric.switches().len(), fabric.host_count());
    for engine in Engine::ALL {
        for (threads, par) in [("one thread", Par::Sequential), ("all threads", Par::Rayon)] {
            let runs = (0..5).map(|_| {
                let start = Instant::now();
                let routed = engine.route(&fabric, &lids, &Options::default(), Seed(0), par);
                assert!(routed.is_ok());
                start.elapsed()
            });
            println!("{:8} {threads:12} {:?}", engine.name(), runs.min().unwrap_or_default());
        }
    }
}
