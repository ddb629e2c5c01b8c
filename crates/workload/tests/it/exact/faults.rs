//! Links that change, and tables that are written, while packets move.

use selvedge_dataplane::{Change, LinkRate, Speed, Timed};
use selvedge_types::Lid;

use super::support::{Flows, Lab, near};

const US: u64 = 1_000_000;

/// Two leaves, two spines; one host sends to another on the other leaf.
fn lab() -> Lab {
    Lab::new("karytree:k=2,n=2", "fat-tree").with(|s| (s.warmup_ns, s.duration_ns) = (0, 200_000))
}

fn one_flow() -> Flows {
    Flows::new(&[(0, 3, 0)], 2_048)
}

#[test]
fn a_changed_entry_moves_the_next_packet() {
    let mut lab = lab();
    let to = Lid(1 + lab
        .fabric
        .end_ports()
        .position(|(at, _)| Some(at) == lab.host(3))
        .unwrap() as u16);
    let (leaf, from) = lab.leaf_of(0);
    let switch = lab.fabric.switch_index(leaf).unwrap();
    let before = lab.routed.tables.get(switch, to);
    let ups = lab.ups(leaf);
    let after = *ups.iter().find(|&&up| up != before).unwrap();
    assert!(ups.contains(&before) && from != before);
    let at = 50 * US;
    lab.changes = vec![Timed {
        at,
        change: Change::Entry {
            switch,
            lid: to,
            output: after,
        },
    }];
    let old = lab.run_traffic(one_flow(), Some(lab.at(leaf, before)));
    let new = lab.run_traffic(one_flow(), Some(lab.at(leaf, after)));
    // A packet is looked up when its first byte arrives, every 82.96 ns; none is in the way of another.
    let (last, first) = (*old.seen.last().unwrap(), new.seen[0]);
    assert!(last < at && at <= first && first - last == 82_960, "{last} {first}");
    assert_eq!(new.results.drops.total(), 0);
    near(new.received[3] as f64, 200_000.0 / 82.96 * 2_048.0, 0.005, "received");
}

#[test]
fn what_is_on_a_cut_cable_or_waits_for_it_is_dropped_and_all_else_arrives() {
    let mut lab = lab();
    let (leaf, _) = lab.leaf_of(0);
    let to = lab.lids.base(lab.host(3).unwrap()).unwrap();
    let switch = lab.fabric.switch_index(leaf).unwrap();
    let up = lab.at(leaf, lab.routed.tables.get(switch, to));
    let cut = |at, change| Timed { at, change };
    lab.changes = vec![cut(50 * US, Change::Cut(up)), cut(100 * US, Change::Mend(up))];
    let found = lab.run_traffic(one_flow(), None).results;
    assert!(found.drops.link_down > 500, "{:?}", found.drops);
    assert!((1..=2).contains(&found.drops.in_flight), "{:?}", found.drops);
    assert_eq!(found.drops.total(), found.drops.link_down + found.drops.in_flight);
    // Three quarters of the time it was up.
    near(found.accepted_load * 4.0, 0.75, 0.01, "accepted");
}

#[test]
fn a_slower_cable_slows_down() {
    let mut lab = lab();
    let host = lab.host(0).unwrap();
    lab.settings.link = Some(LinkRate::four(Speed::Hdr));
    let rate = LinkRate::four(Speed::Edr);
    lab.changes = vec![Timed {
        at: 100 * US,
        change: Change::Rate(host, rate),
    }];
    let found = lab.run_traffic(one_flow(), None);
    near(found.received[3] as f64, 150_000.0 / 82.96 * 2_048.0, 0.01, "received");
}

/// A host without a link keeps its messages until its cable is back.
#[test]
fn a_host_waits_for_its_cable() {
    let mut lab = lab();
    let host = lab.host(0).unwrap();
    lab.changes = vec![
        Timed {
            at: 50 * US,
            change: Change::Cut(host),
        },
        Timed {
            at: 150 * US,
            change: Change::Mend(host),
        },
    ];
    let found = lab.run_traffic(one_flow(), None);
    near(found.received[3] as f64, 100_000.0 / 82.96 * 2_048.0, 0.01, "received");
    assert!(found.results.drops.total() <= 3, "{:?}", found.results.drops);
}

/// The same events in the bare queue, in the same order.
#[test]
fn noted_events_are_taken_again() {
    let lab = lab();
    let log = lab.events(one_flow(), 5_000);
    assert_eq!(log.len(), 5_000);
    assert_eq!(log.replay(), log.times());
}
