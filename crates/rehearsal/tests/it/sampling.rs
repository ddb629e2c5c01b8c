//! Samplers beside managers under virtual time: the master alone reads counters, and its successor goes on.

use std::collections::BTreeMap;
use std::time::Duration;

use selvedge_coordinator::Sampled;
use selvedge_plan::Policy;
use selvedge_rehearsal::{ManagerId, Options, Rehearsal};
use selvedge_telemetry::{Config, Group, SamplingClass, SlotReport};

use crate::common;

const SECOND: Duration = Duration::from_secs(1);
/// Ends of the 16 links of the fabric.
const UP: u32 = 32;

fn world(samples: bool) -> (Rehearsal, [ManagerId; 2]) {
    let mut world = Rehearsal::new(&common::fabric("mport:m=4,n=2"), Options::default());
    let managers = [("a", "\"H-0\"", 2), ("b", "\"H-5\"", 1)]
        .map(|(name, at, priority)| common::add_manager(&mut world, name, at, priority, Policy::default()));
    for id in managers.into_iter().filter(|_| samples) {
        let class = SamplingClass::new("data", SECOND, &[Group::Extended, Group::Base]);
        world.give_sampler(id, Config::new(vec![class]));
    }
    managers.into_iter().for_each(|id| world.start(id).unwrap());
    (world, managers)
}

fn ended(world: &mut Rehearsal) -> Vec<(ManagerId, SlotReport)> {
    let sampled = world.take_sampled().into_iter();
    let ended = sampled.filter_map(|(id, sampled)| match sampled {
        Sampled::Ended(report) => Some((id, *report)),
        _ => None,
    });
    ended.collect()
}

#[test]
fn the_successor_samples_on_and_no_slot_is_sampled_twice() {
    let (mut world, [first, second]) = world(true);
    world.run_for(6 * SECOND).unwrap();
    let mut slots = ended(&mut world);
    assert!(slots.len() >= 4, "{slots:?}");
    assert!(
        slots.iter().all(|(id, _)| *id == first),
        "a standby reads nothing: {slots:?}"
    );
    world.kill(first).unwrap();
    world.run_for(12 * SECOND).unwrap();
    let after = ended(&mut world);
    assert!(
        after.len() >= 4 && after.iter().all(|(id, _)| *id == second),
        "{after:?}"
    );
    slots.extend(after);
    let mut seen = BTreeMap::new();
    for (id, report) in &slots {
        assert_eq!((report.read, report.missing.len()), (2 * UP, 0), "{report:?}");
        assert_eq!(seen.insert(report.slot, *id), None, "{}", report.slot);
    }
    // Two polls without an answer, an election, a sweep: then the next slot is sampled.
    let numbers: Vec<u64> = seen.keys().map(|slot| slot.number).collect();
    let gap = numbers.windows(2).map(|pair| pair[1] - pair[0]).max();
    assert!(gap <= Some(6), "{numbers:?}");
}

#[test]
fn without_a_sampler_nothing_is_sampled_or_sent() {
    let sent = |samples: bool| {
        let (mut world, _) = world(samples);
        world.run_for(4 * SECOND).unwrap();
        (world.digest(), world.take_sampled().len())
    };
    let (without, nothing) = sent(false);
    assert_eq!(nothing, 0);
    // What managers send is in the digest, the sampler's requests are not.
    let (_, found) = sent(true);
    assert!(found > 100, "{found}");
    assert_eq!(sent(false), (without, 0));
}
