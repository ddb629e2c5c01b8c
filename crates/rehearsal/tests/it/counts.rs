//! The counts that a manager shows equal those that its events and the Sets to its agents add up to.

use std::time::Duration;

use selvedge_fabric::Fabric;
use selvedge_plan::Policy;
use selvedge_planner::PlanEvent;
use selvedge_rehearsal::{ManagerId, Options, Rehearsal};
use selvedge_sim::Seed;
use selvedge_sm::{Command, Event, SweepReason};
use selvedge_wire::{AttributeId, Class, Method};

use crate::common;

const QUIET: Duration = Duration::from_secs(60);

/// A manager on a fabric, and the number of checks made.
struct World {
    rehearsal: Rehearsal,
    manager: ManagerId,
    checks: usize,
    /// Number of checks in which no plan was interrupted.
    whole: usize,
}

impl World {
    fn new(fabric: &Fabric) -> Self {
        let options = Options {
            seed: Seed(1),
            ..Options::default()
        };
        let mut rehearsal = Rehearsal::new(fabric, options);
        let manager = common::add_manager(&mut rehearsal, "a", "\"H-0\"", 1, Policy::default());
        Self {
            rehearsal,
            manager,
            checks: 0,
            whole: 0,
        }
    }

    /// LFT blocks that agents were sent so far. On this emulator nothing is lost, so none is sent twice.
    fn blocks_sent(&self) -> u64 {
        let counts = self.rehearsal.emulator().counts();
        counts
            .sent
            .of(Class::SubnDirected, Method::Set, AttributeId::LINEAR_FORWARDING)
    }

    /// Does something, waits until nothing is left to do, and adds up what the events say of it.
    fn check(&mut self, what: &str, act: impl FnOnce(&mut Rehearsal, ManagerId)) {
        let (logged, sent) = (self.rehearsal.log().len(), self.blocks_sent());
        act(&mut self.rehearsal, self.manager);
        self.rehearsal.run_until_quiet(QUIET).unwrap();
        let log = &self.rehearsal.log()[logged..];
        // A repair is an accepted plan too: the event about it follows at once.
        let mut blocks = 0;
        let mut last = None;
        for entry in log {
            match &entry.event {
                Event::Plan(PlanEvent::Accepted { lft_blocks, .. }) => {
                    blocks += *lft_blocks as u64;
                    last = Some((entry.at, *lft_blocks));
                }
                Event::Repaired { blocks: repaired, .. } => match last.take() {
                    Some((at, of_plan)) if at == entry.at => assert_eq!(of_plan, *repaired, "{what}: {log:?}"),
                    _ => blocks += *repaired as u64,
                },
                _ => {}
            }
        }
        // What is left of a plan that a sweep interrupts is planned again.
        let is_interrupted = log.iter().any(|entry| matches!(entry.event, Event::WaitEnded { .. }));
        let sent = self.blocks_sent() - sent;
        assert!(
            blocks == sent || is_interrupted && blocks > sent,
            "{what}: {blocks} LFT blocks by events, {sent} by agents: {log:?}"
        );
        self.whole += usize::from(!is_interrupted);

        let view = self.rehearsal.view(self.manager).unwrap();
        let is_start = |event: &Event| matches!(event, Event::SweepStarted { .. });
        let all = self.rehearsal.log();
        let is_first = |event: &Event| {
            matches!(
                event,
                Event::SweepStarted {
                    reason: SweepReason::Start
                }
            )
        };
        let life = all.iter().rposition(|entry| is_first(&entry.event)).unwrap();
        let begun = all[life..].iter().filter(|entry| is_start(&entry.event)).count() as u64;
        assert_eq!(view.sweeps.begun, begun, "{what}: sweeps by events");
        assert!(view.sweeps.ended <= begun, "{what}: {:?}", view.sweeps);
        // A manager that is not master yet takes no traps.
        let traps = if what == "a restart" { 2 } else { 0 };
        assert!(
            view.mads.dropped <= traps,
            "{what}: {} MADs were not used",
            view.mads.dropped
        );
        self.checks += 1;
    }
}

fn fault(text: &str) -> impl FnOnce(&mut Rehearsal, ManagerId) {
    move |world, _| world.fault(&text.parse().unwrap()).unwrap()
}

#[test]
fn sweeps_and_blocks_can_be_added_again_from_events() {
    let fabric = common::fabric("mport:m=4,n=2");
    let mut world = World::new(&fabric);
    world.check("bring-up", |world, manager| world.start(manager).unwrap());
    world.check("a link is lost", fault("cut \"S-L1-1\"[3]"));
    world.check("its leaf is lost", fault("cut \"S-L1-1\"[4]"));
    world.check("the leaf is back", fault("restore \"S-L1-1\"[3]"));
    world.check("the other link is back", fault("restore \"S-L1-1\"[4]"));
    world.check("a host is switched off", fault("kill \"H-5\""));
    world.check("and on", fault("revive \"H-5\""));
    world.check("a switch reboots", fault("reboot \"S-L2-0\""));
    world.check("a sweep", |world, manager| {
        world.command(manager, Command::Sweep).unwrap();
    });
    world.check("a restart", |world, manager| {
        world.kill(manager).unwrap();
        world.start(manager).unwrap();
    });
    assert_eq!(
        (world.checks, world.whole >= 7),
        (10, true),
        "{} without interruption",
        world.whole
    );
}
