//! What a fabric of 5,832 hosts costs: the trace of congestion, and going on from stored samples after a restart.
//!
//! `large_fabric [SPEC]`, default `pgft:m=18x18x18,w=1x18x9,p=1x1x2` with 34,992 ends of links. Of each line the median
//! and the longest of nine runs, or of all portions, in wall time.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use selvedge_fabric::{Fabric, PortRef};
use selvedge_plan::Lids;
use selvedge_routing::{Engine, Options, Routed};
use selvedge_sim::{Par, Seed};
use selvedge_telemetry::congestion::{Load, Routes, WaitWatch, trace};
use selvedge_telemetry::{Config, End, Group, How, Sample, SampleKey, Sampler, SamplingClass, Slot, WIDEST};
use selvedge_topology::Spec;
use selvedge_types::{Lid, LidRange, PortNum};

const SPEC: &str = "pgft:m=18x18x18,w=1x18x9,p=1x1x2";
const RUNS: usize = 9;
/// Samples that the manager's thread takes at once, 1,024 by `daemon/src/telemetry/survey.rs`, and others beside it.
const PORTIONS: [usize; 3] = [256, 1_024, 4_096];
/// Load of a port that waits.
const WAITS: Load = Load {
    utilisation: 0.1,
    wait: 0.85,
};
/// Load of a full link.
const FULL: Load = Load {
    utilisation: 0.97,
    wait: 0.0,
};

struct Routing {
    fabric: Fabric,
    lids: Lids,
    routed: Routed,
    hosts: Vec<PortRef>,
}

fn main() {
    let spec = std::env::args().nth(1).unwrap_or_else(|| SPEC.to_owned());
    let routing = Routing::of(&spec);
    let (hosts, switches) = (routing.hosts.len(), routing.fabric.switches().len());
    println!("{hosts} hosts, {switches} switches");
    let all: Vec<usize> = (0..hosts).collect();
    let one = routing.incasts(&[(0, &all)]);
    routing.traced("every host sends to one", &one);
    // One receiver a leaf; its senders are at other leaves.
    let groups: Vec<(usize, Vec<usize>)> = (0..hosts / 18)
        .map(|leaf| {
            let senders = (1..18).map(|at| (18 * (leaf + at) + at) % hosts);
            (18 * leaf, senders.collect())
        })
        .collect();
    let groups: Vec<(usize, &[usize])> = groups.iter().map(|(to, from)| (*to, from.as_slice())).collect();
    routing.traced("an incast of 17 at each leaf", &routing.incasts(&groups));
    let even = routing.ends().into_iter().map(|end| (end, WAITS)).collect();
    routing.traced("every port waits", &even);
    resumed(&routing);
}

impl Routing {
    fn of(spec: &str) -> Self {
        let Ok(Spec::Generated(recipe)) = spec.parse() else {
            panic!("{spec} is no generator")
        };
        let fabric = recipe.fabric().expect("a fabric");
        let mut lids = Lids::new();
        for (lid, (at, _)) in (1..).zip(fabric.end_ports()) {
            lids.insert(at, LidRange::single(Lid(lid))).expect("a free LID");
        }
        let engine: Engine = "minhop".parse().expect("an engine");
        let routed = engine.route(&fabric, &lids, &Options::default(), Seed(0), Par::Rayon);
        let ends = fabric.end_ports().map(|(at, _)| at);
        let hosts = ends.filter(|at| !fabric.node(at.node).is_switch()).collect();
        Self {
            routed: routed.expect("tables"),
            hosts,
            lids,
            fabric,
        }
    }

    fn routes(&self) -> Routes<'_> {
        Routes {
            fabric: &self.fabric,
            lids: &self.lids,
            tables: &self.routed.tables,
        }
    }

    /// Returns all ends of links.
    fn ends(&self) -> Vec<End> {
        let links = self.fabric.links();
        let ends = links.into_iter().flat_map(|link| [link.a, link.b]);
        ends.map(|at| self.routes().end(at)).collect()
    }

    /// Returns the loads of incasts: the last link is full, and every port before it waits.
    fn incasts(&self, groups: &[(usize, &[usize])]) -> BTreeMap<End, Load> {
        let mut loads: BTreeMap<End, Load> = self.ends().into_iter().map(|end| (end, Load::default())).collect();
        for (to, senders) in groups {
            for from in senders.iter().filter(|from| *from != to) {
                let path = self.path(self.hosts[*from], self.hosts[*to]);
                let ends = path.iter().map(|at| self.routes().end(*at));
                loads.extend(ends.map(|end| (end, WAITS)));
                if let Some(last) = path.last() {
                    loads.insert(self.routes().end(*last), FULL);
                }
            }
        }
        loads
    }

    /// Returns the ports by which a packet leaves on its way.
    fn path(&self, from: PortRef, to: PortRef) -> Vec<PortRef> {
        let lid = self.lids.base(to).expect("a LID");
        let mut path = vec![from];
        while let Some(arrived) = path.last().and_then(|at| self.fabric.peer(*at)) {
            let Some(switch) = self.fabric.switch_index(arrived.node) else {
                break;
            };
            let port = PortNum::new(self.routed.tables.get(switch, lid)).expect("an entry");
            path.push(PortRef {
                node: arrived.node,
                port,
            });
        }
        path
    }

    fn traced(&self, what: &str, loads: &BTreeMap<End, Load>) {
        let mut watch = WaitWatch::default();
        loads.iter().for_each(|(end, load)| watch.take(*end, *load));
        let mut took = Vec::new();
        let mut found = (0, 0);
        for _ in 0..RUNS {
            let begin = Instant::now();
            let congestion = trace(&self.routes(), &watch);
            took.push(begin.elapsed());
            found = (congestion.trees.len(), congestion.without_root.len());
        }
        let waiting = watch.waiting().count();
        let (trees, without) = found;
        println!(
            "trace, {what}: {waiting} ports wait, {trees} trees, {without} without a root: {}",
            spread(took)
        );
    }
}

/// Hands a sampler four samples of each port, as after a restart, in portions.
fn resumed(routing: &Routing) {
    let groups = [Group::Extended, Group::Base, Group::RcvErrors, Group::XmitDiscards];
    let slot = Slot { epoch: 0, number: 1 };
    let samples = routing.ends().into_iter().flat_map(|end| {
        groups.map(|group| Sample {
            key: SampleKey {
                node: end.node,
                port: end.port,
                group,
            },
            class: u8::from(group != Group::Extended),
            slot,
            offset_us: 0,
            rtt_us: 0,
            agent: 0,
            how: How::Read,
            totals: [7; WIDEST],
            raw: Some([7; WIDEST]),
            known: group.mask(),
            full: 0,
            resets: 0,
        })
    });
    let samples: Vec<Sample> = samples.collect();
    let classes = [
        SamplingClass::new("data", Duration::from_secs(30), &groups[..1]),
        SamplingClass::new("errors", Duration::from_secs(30), &groups[1..]),
    ];
    for length in PORTIONS {
        let mut took = Vec::new();
        for _ in 0..RUNS {
            let mut sampler = Sampler::new(Config::new(classes.to_vec()));
            for portion in samples.chunks(length) {
                let begin = Instant::now();
                portion.iter().for_each(|sample| sampler.resume(sample));
                took.push(begin.elapsed());
            }
        }
        let all: Duration = took.iter().sum::<Duration>() / RUNS as u32;
        println!(
            "resume {} samples in portions of {length}: {} a portion, {:.1} ms in all",
            samples.len(),
            spread(took),
            all.as_secs_f64() * 1e3
        );
    }
}

fn spread(mut took: Vec<Duration>) -> String {
    took.sort_unstable();
    let ms = |at: usize| took.get(at).map_or(f64::NAN, |span| span.as_secs_f64() * 1e3);
    format!(
        "median {:.3} ms, longest {:.3} ms",
        ms(took.len() / 2),
        ms(took.len() - 1)
    )
}
