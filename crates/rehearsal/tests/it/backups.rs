//! Backups that were computed while the fabric was unchanged are used when a link is lost.

use crate::common;
use std::time::Duration;

use selvedge_fabric::{Fabric, Link};
use selvedge_plan::Policy;
use selvedge_planner::PlanEvent;
use selvedge_rehearsal::{LogEntry, Options, Rehearsal};
use selvedge_sim::Seed;
use selvedge_sm::Event;

/// Longer than packets are in flight.
const REST: Duration = Duration::from_secs(20);

fn between_switches(fabric: &Fabric) -> Vec<Link> {
    let is_between = |link: &Link| [link.a, link.b].iter().all(|at| fabric.node(at.node).is_switch());
    fabric.links().filter(is_between).collect()
}

/// A fabric with a manager that has worked out repairs.
fn rested(fabric: &Fabric) -> Rehearsal {
    rested_with(fabric, true)
}

fn rested_with(fabric: &Fabric, has_backups: bool) -> Rehearsal {
    let options = Options {
        seed: Seed(1),
        ..Options::default()
    };
    let mut world = Rehearsal::new(fabric, options);
    let manager = common::add_manager_with(&mut world, "a", "\"H-0\"", Policy::default(), |config| {
        config.backups_after = has_backups.then_some(Duration::from_secs(1));
    });
    world.start(manager).unwrap();
    world.run_until_quiet(Duration::from_secs(60)).unwrap();
    world.run_for(REST).unwrap();
    world
}

#[test]
fn links_that_are_lost_find_their_repairs() {
    for spec in ["karytree:k=3,n=3", "random:switches=16,degree=4,hosts=2,seed=3"] {
        let fabric = common::fabric(spec);
        let mut world = rested(&fabric);
        let (mut cuts, mut known) = (0, 0);
        for link in between_switches(&fabric).iter().step_by(5) {
            for verb in ["cut", "restore"] {
                let before = world.log().len();
                let fault = format!("{verb} {}", fabric.port_name(link.a));
                world.fault(&fault.parse().unwrap()).unwrap();
                world.run_for(REST).unwrap();
                let count = |is: fn(&Event) -> bool| world.log()[before..].iter().filter(|e| is(&e.event)).count();
                known += count(|event| matches!(event, Event::Repaired { was_known: true, .. }));
                let made = count(|event| matches!(event, Event::Plan(PlanEvent::BackupsMade { .. })));
                assert_eq!(made, 1, "{spec}: {fault}\n{}", world.log_text());
            }
            cuts += 1;
        }
        world.run_until_quiet(Duration::from_secs(60)).unwrap();
        // Entries stay on their detours, and then not every loss can be repaired in place.
        assert!(known * 4 > cuts * 3, "{spec}: {known} of {cuts}");
        println!("{spec}: {known} of {cuts}");
    }
}

/// Links that are lost while backups are computed, and while packets of old entries are in flight: the result is that
/// of a manager without backups.
#[test]
fn nobody_waits_for_what_is_worked_out() {
    let fabric = common::fabric("karytree:k=3,n=3");
    let links = between_switches(&fabric);
    let [with, without] = [true, false].map(|has_backups| {
        let mut world = rested_with(&fabric, has_backups);
        let mut rng = Seed(3).rng();
        for step in 0..40 {
            let link = links[rng.below(links.len() as u64) as usize];
            for verb in ["cut", "restore"] {
                let fault = format!("{verb} {}", fabric.port_name(link.a));
                world.fault(&fault.parse().unwrap()).unwrap();
                let rest = if step % 8 == 7 { 12_000 } else { 990 };
                world.run_for(Duration::from_millis(rest + rng.below(30))).unwrap();
            }
        }
        world.run_until_quiet(Duration::from_secs(60)).unwrap();
        let known = |entry: &&LogEntry| matches!(entry.event, Event::Repaired { was_known: true, .. });
        let known = world.log().iter().filter(known).count();
        assert_eq!(known > 2, has_backups, "{known}");
        let told = |entry: &LogEntry| match entry.event {
            Event::Plan(PlanEvent::BackupsMade { .. }) => None,
            _ => Some((entry.at, entry.event.to_string().replace("as worked out before, ", ""))),
        };
        world.log().iter().filter_map(told).collect::<Vec<_>>()
    });
    assert_eq!(with, without);
}
