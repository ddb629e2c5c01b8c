//! Faults that follow each other so quickly that packets of old entries are always in flight: each is repaired in
//! place, however many there are.

use crate::common;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use selvedge_fabric::Link;
use selvedge_plan::Policy;
use selvedge_planner::{JobResult, PlanEvent};
use selvedge_rehearsal::{Options, Rehearsal, Tamper};
use selvedge_sim::{Seed, Time};
use selvedge_sm::{Event, Input, Output};

/// Counts repairs that were not made in place.
#[derive(Debug)]
struct Count(Arc<AtomicUsize>);

impl Tamper for Count {
    fn input(&mut self, _now: Time, input: Input) -> Option<Input> {
        if let Input::Computed { result, .. } = &input
            && let JobResult::Repair(result) = &**result
        {
            let is_repair = |event: &PlanEvent| matches!(event, PlanEvent::Accepted { .. } | PlanEvent::Refused { .. });
            // What is changed in place hands back the copies that it changed.
            let is_slow = !result.is_in_place() && result.events.iter().any(is_repair);
            self.0.fetch_add(usize::from(is_slow), Ordering::Relaxed);
        }
        Some(input)
    }

    fn output(&mut self, _now: Time, output: Output, out: &mut Vec<Output>, _back: &mut Vec<Input>) {
        out.push(output);
    }
}

/// Cuts links between switches one after another and puts each back, so long apart.
fn check(spec: &str, faults: usize, apart: Duration) {
    let fabric = common::fabric(spec);
    let options = Options {
        seed: Seed(1),
        ..Options::default()
    };
    let mut world = Rehearsal::new(&fabric, options);
    let manager = common::add_manager(&mut world, "a", "\"H-0\"", 1, Policy::default());
    world.start(manager).unwrap();
    world.run_until_quiet(Duration::from_secs(60)).unwrap();
    let before = world.log().len();
    let is_between = |link: &Link| [link.a, link.b].iter().all(|at| fabric.node(at.node).is_switch());
    let mut links: Vec<Link> = fabric.links().filter(is_between).collect();
    Seed(7).rng().shuffle(&mut links);
    let slow = Arc::new(AtomicUsize::new(0));
    world.tamper(manager, Box::new(Count(Arc::clone(&slow))));
    for link in links.iter().cycle().take(faults) {
        for verb in ["cut", "restore"] {
            let fault = format!("{verb} {}", fabric.port_name(link.a));
            world.fault(&fault.parse().unwrap()).unwrap();
            world.run_for(apart / 2).unwrap();
        }
    }
    let log = &world.log()[before..];
    let count = |is: fn(&Event) -> bool| log.iter().filter(|entry| is(&entry.event)).count();
    let repaired = count(|event| matches!(event, Event::Repaired { lost: 1, .. }));
    let sweeps = count(|event| matches!(event, Event::SweepStarted { .. }));
    let waits = count(|event| matches!(event, Event::Draining { .. }));
    let refused = count(|event| matches!(event, Event::Plan(PlanEvent::Refused { .. } | PlanEvent::NoPlan)));
    assert_eq!((repaired, sweeps, waits, refused), (faults, 0, 0, 0), "{spec}");
    // Links that come back are planned for as a whole, though no entry changes.
    assert_eq!(slow.load(Ordering::Relaxed), faults, "{spec}");
    world.run_until_quiet(Duration::from_secs(60)).unwrap();
}

#[test]
fn hundreds_of_faults_in_quick_succession_are_repaired_without_a_sweep() {
    check("sx6536", 240, Duration::from_millis(120));
}
