//! Congestion trees: the packet simulator with its credits makes the counters, a model of fluids says where the root
//! is, and the trace has to find it from the counters and the tables.

mod cases;
mod fluid;
mod lab;

pub use lab::samples;

use selvedge_telemetry::End;
use selvedge_telemetry::congestion::{Cause, Load, WaitThresholds, WaitWatch, trace};
use selvedge_telemetry::rates::{Capacity, Growth, PortRates, WaitTick};
use selvedge_types::{LinkSpeed, LinkWidth, Rate};
use selvedge_workload::Pattern;

use self::cases::{Case, Kind};
use self::lab::Lab;

/// Least share of the cases in which the roots must be exactly the true ones.
const RIGHT_MIN: usize = 95;

#[test]
fn the_root_of_100_cases() {
    let mut right = 0;
    let mut wrong = Vec::new();
    for seed in 0..100 {
        let case = Case::new(seed);
        let loads = case.loads();
        let found = case.lab.congestion(&loads);
        let mut roots: Vec<End> = found.trees.iter().map(|tree| tree.root).collect();
        roots.sort_unstable();
        if roots == case.roots {
            right += 1;
        } else {
            wrong.push(format!("{case}: {}", case.lab.explain(&case.roots, &found, &loads)));
        }
        for tree in &found.trees {
            let want = case.lab.pairs_by_walking(tree.root);
            assert_eq!(case.lab.routes().crossing(tree.root), want, "{case}");
            assert!(!want.is_empty(), "{case}");
        }
        for (from, to, root) in case.throttled() {
            let pairs = case.lab.routes().crossing(root);
            assert!(
                pairs.iter().any(|pair| pair.from == from && pair.to == to),
                "{case}: {from:?} {to:?}"
            );
        }
        if let (Kind::SlowHost, [tree]) = (case.kind, &found.trees[..]) {
            assert_eq!(tree.cause, Cause::SlowReceiver, "{case}");
        }
    }
    assert!(right >= RIGHT_MIN, "{right} of 100; wrong:\n{}", wrong.join("\n"));
    println!("{right} of 100 right; wrong:\n{}", wrong.join("\n"));
}

#[test]
fn idle_fabrics_and_even_load_have_no_root() {
    for seed in 0..20 {
        let lab = Lab::new(
            ["karytree:k=4,n=2", "karytree:k=6,n=2", "karytree:k=4,n=3"][seed as usize % 3],
            "fat-tree",
        );
        let load = [0.0, 0.1, 0.2, 0.3, 0.35][seed as usize % 5];
        let loads = match load {
            0.0 => lab.run(cases::Traffic::default(), seed),
            load => lab.run_pattern(&Pattern::Uniform { senders: 0 }, load, seed),
        };
        let found = lab.congestion(&loads);
        assert!(found.trees.is_empty(), "seed {seed}, load {load}: {found:?}");
        let most = loads.values().map(|load| load.utilisation).fold(0.0, f64::max);
        assert!(most >= load / 2.0 && most < 0.9, "seed {seed}, load {load}: {most}");
    }
}

/// Even load beyond what the switches can pass on: everything waits, and no link is to blame.
#[test]
fn a_fabric_that_is_full_everywhere_has_no_root() {
    for seed in 0..4 {
        let lab = Lab::new("karytree:k=6,n=2", "fat-tree");
        let loads = lab.run_pattern(&Pattern::Uniform { senders: 0 }, 1.0, seed);
        let found = lab.congestion(&loads);
        assert!(found.trees.is_empty(), "seed {seed}: {found:?}");
        assert!(found.without_root.len() > 10, "seed {seed}: {found:?}");
    }
}

/// A line-rate shift permutation that shares no link: everything is full, and nothing waits.
#[test]
fn full_links_without_contention_are_no_congestion() {
    let lab = Lab::new("karytree:k=4,n=2", "fat-tree");
    for by in 1..16 {
        let loads = lab.run_pattern(&Pattern::Shift { by }, 0.99, 1);
        let found = lab.congestion(&loads);
        assert!(loads.values().any(|load| load.utilisation > 0.9), "shift by {by}");
        assert!(
            found.trees.is_empty() && found.without_root.is_empty(),
            "shift by {by}: {found:?}"
        );
    }
}

#[test]
fn ports_that_wait_for_each_other_are_a_cycle() {
    let lab = Lab::new("ring:switches=5,hosts=1", "minhop");
    let mut watch = WaitWatch::default();
    let switches: Vec<_> = lab.fabric.switches().iter().copied().collect();
    // All clockwise ports wait, and nothing moves.
    let mut clockwise = Vec::new();
    for (at, node) in switches.iter().enumerate() {
        let next = switches[(at + 1) % switches.len()];
        let ports = lab.fabric.node(*node).external_ports();
        let port = ports
            .filter(|(_, port)| port.peer.is_some_and(|peer| peer.node == next))
            .map(|(num, _)| num)
            .next();
        clockwise.push(End {
            node: lab.fabric.node(*node).guid,
            port: port.unwrap().get(),
        });
    }
    for end in &clockwise {
        let load = Load {
            utilisation: 0.0,
            wait: 1.0,
        };
        watch.take(*end, load);
    }
    let routes = lab.routes();
    let is_ring = clockwise.iter().all(|end| {
        let next = routes.next(routes.port(*end).unwrap()).unwrap();
        next.iter().any(|at| clockwise.contains(&routes.end(*at)))
    });
    let found = trace(&routes, &watch);
    match is_ring {
        true => {
            assert_eq!(found.trees.len(), 1, "{found:?}");
            assert_eq!((found.trees[0].cause, found.trees[0].branches.len()), (Cause::Cycle, 5));
        }
        false => assert!(found.trees.is_empty(), "{found:?}"),
    }
    assert!(
        is_ring,
        "the tables of this ring have no clockwise cycle: {clockwise:?}"
    );
}

/// Every port of 1,024 hosts waits: all ports to hosts are roots, and nearly all ports wait for each of them, which
/// makes four million pairs. The trace keeps the nearest.
#[test]
fn a_fabric_that_waits_everywhere_is_traced_within_bounds() {
    let lab = Lab::new("karytree:k=32,n=2", "minhop");
    let mut watch = WaitWatch::default();
    let load = Load {
        utilisation: 0.1,
        wait: 0.85,
    };
    for link in lab.fabric.links() {
        for at in [link.a, link.b] {
            watch.take(lab.routes().end(at), load);
        }
    }
    let found = trace(&lab.routes(), &watch);
    let branches: usize = found.trees.iter().map(|tree| tree.branches.len()).sum();
    assert_eq!((found.trees.len(), found.horizon), (1_024, Some(2)));
    assert!(branches <= 2_000_000, "{branches}");
    for tree in &found.trees {
        assert_eq!(tree.cause, Cause::SlowReceiver);
        // The port itself, then 31 hosts of the leaf, and the 32 roots or fewer by which others come.
        let near = tree.branches.iter().filter(|branch| branch.hops == 1).count();
        assert!((32..=63).contains(&near), "{near}");
        assert!(tree.branches.iter().all(|branch| branch.hops <= 2));
    }
}

/// Tables of a smaller fabric, ports that no longer exist: nothing is found, and nothing panics.
#[test]
fn what_does_not_belong_together_gives_nothing() {
    let (small, large) = (Lab::new("karytree:k=2,n=2", "fat-tree"), Case::of(Kind::Incast, 7));
    let loads = large.loads();
    let mut watch = WaitWatch::default();
    loads.iter().for_each(|(end, load)| watch.take(*end, *load));
    let gone = End {
        node: selvedge_types::Guid(1),
        port: 255,
    };
    watch.take(
        gone,
        Load {
            utilisation: 0.0,
            wait: 1.0,
        },
    );
    let mut routes = large.lab.routes();
    assert_eq!(trace(&routes, &watch).trees.len(), large.roots.len());
    assert!(routes.crossing(gone).is_empty());
    routes.tables = &small.routed.tables;
    routes.lids = &small.lids;
    let found = trace(&routes, &watch);
    assert!(found.trees.len() <= large.roots.len() + 1, "{found:?}");
    let mut without = small.routes();
    without.fabric = &large.lab.fabric;
    assert!(trace(&without, &WaitWatch::default()).trees.is_empty());
}

/// The counters of a port between two samples, by hand: 4x EDR carries 12.5 GB/s.
#[test]
fn rates_of_a_port() {
    let lab = Lab::new("karytree:k=2,n=2", "fat-tree");
    let rate = Rate {
        width: LinkWidth::X4,
        speed: LinkSpeed::Edr,
    };
    let end = lab.ends()[0];
    let words = 12_500_000_000 / 4 / 10;
    let (before, after) = lab::samples(end, words, 1_000, 3_000_000, std::time::Duration::from_secs(1));
    let growth = Growth::between(&before, &after, std::time::Duration::from_secs(1)).unwrap();
    let rates = PortRates::new(&growth, Capacity::of(rate), WaitTick::Symbols(32));
    assert_eq!(rates.xmit_bytes_per_s, Some(1_250_000_000.0));
    assert_eq!(rates.xmit_packets_per_s, Some(1_000.0));
    assert!((rates.xmit_utilisation.unwrap() - 0.1).abs() < 1e-6, "{rates:?}");
    // 3 million ticks of 10.24 ns in a second.
    assert!((rates.wait_share.unwrap() - 0.03072).abs() < 1e-9, "{rates:?}");
    assert_eq!((rates.rcv_bytes_per_s, rates.is_lower_bound), (Some(0.0), false));
    assert_eq!(PortRates::new(&growth, None, WaitTick::Symbols(32)).wait_share, None);
    // Samples that do not belong together have no growth.
    let mut of_another_class = after;
    of_another_class.class = 1;
    assert_eq!(
        Growth::between(&before, &of_another_class, std::time::Duration::from_secs(1)),
        None
    );
    assert_eq!(
        Growth::between(&after, &before, std::time::Duration::from_secs(1)),
        None
    );
    let mut reset = after;
    reset.resets = 1;
    let growth = Growth::between(&before, &reset, std::time::Duration::from_secs(1)).unwrap();
    assert!(PortRates::new(&growth, Capacity::of(rate), WaitTick::Symbols(32)).is_lower_bound);
}

/// The root of an incast stays the root when it is looked at with stricter and looser thresholds.
#[test]
fn thresholds_do_not_move_the_root() {
    let case = Case::of(Kind::Incast, 7);
    let loads = case.loads();
    for (begins_at, saturated_at) in [(0.05, 0.85), (0.1, 0.9), (0.2, 0.95)] {
        let mut watch = WaitWatch::new(WaitThresholds {
            begins_at,
            ends_below: begins_at / 2.0,
            saturated_at,
            ..WaitThresholds::default()
        });
        loads.iter().for_each(|(end, load)| watch.take(*end, *load));
        let roots: Vec<End> = trace(&case.lab.routes(), &watch)
            .trees
            .iter()
            .map(|tree| tree.root)
            .collect();
        assert_eq!(roots, case.roots, "{begins_at} {saturated_at}");
    }
}
