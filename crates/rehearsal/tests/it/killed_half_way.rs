//! kill -9 at every point of a change, and a manager that is started again: no LID changes, no correct entry is
//! changed, and a half-done change is finished, or left as it is if the judge accepts it. The checkers of the soak run
//! too.
//!
//! The point is the number of Sets of the change that agents have taken; the world is deterministic, so one run after
//! the other reaches each of them. A Set that is in flight when its manager dies still arrives.

use crate::common;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use selvedge_emulator::Emulator;
use selvedge_plan::{EngineName, NO_PATH, Policy, Tables};
use selvedge_rehearsal::{ManagerId, Observed, Options, Rehearsal};
use selvedge_sm::Role;
use selvedge_types::{Guid, Idx, Lid, LidRange};
use selvedge_wire::{AttributeId, Class, Method};

/// Longer than anything here takes.
const BOUND: Duration = Duration::from_secs(90);
/// No change of these fabrics has this number of Sets.
const POINTS_MAX: u64 = 1_000;

/// The change that is in progress when the manager is killed.
#[derive(Clone, Copy, Debug)]
enum Change<'a> {
    /// The first bring-up.
    BringUp,
    /// Another engine, on a live fabric.
    Engine(&'a str),
    /// Something happens to the hardware, which was up.
    Fault(&'a str),
    /// The second event happens to hardware to which the first one had happened, after the manager had dealt with that.
    After(&'a str, &'a str),
}

/// The manager that goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Successor {
    /// The same manager with its stored state.
    Itself,
    /// A manager at another port that has stored nothing: it knows only what it reads from the fabric.
    Stranger,
}

#[derive(Clone, Copy, Debug)]
struct Case<'a> {
    fabric: &'a str,
    engine: &'a str,
    change: Change<'a>,
    /// The time without a manager.
    gap: Duration,
    successor: Successor,
}

fn policy(engine: &str) -> Policy {
    Policy {
        engines: [engine, "updn"].map(|name| EngineName(name.to_owned())).to_vec(),
        ..Policy::default()
    }
}

/// LIDs of end ports, by GUID; those that hold none are left out.
fn lids(emulator: &Emulator) -> BTreeSet<(Guid, LidRange)> {
    let seen = emulator.chassis().observe();
    let held = seen.end_ports().map(|(_, port)| (port.guid, port.settings.lids));
    held.filter(|(_, range)| range.base.is_unicast()).collect()
}

/// Sets that agents have taken.
fn sets(world: &Rehearsal) -> u64 {
    let accepted = &world.emulator().counts().accepted;
    let of = |attribute| accepted.of(Class::SubnDirected, Method::Set, attribute);
    [
        AttributeId::PORT_INFO,
        AttributeId::SWITCH_INFO,
        AttributeId::LINEAR_FORWARDING,
        AttributeId::PKEY_TABLE,
    ]
    .map(of)
    .iter()
    .sum()
}

/// Places at which two tables differ.
fn differences(a: &Tables, b: &Tables) -> BTreeSet<(u32, u16)> {
    let mut found = BTreeSet::new();
    for switch in (0..a.switches()).map(Idx::from_usize) {
        for lid in (1..=a.top().0.max(b.top().0)).map(Lid) {
            let of = |tables: &Tables| {
                if lid <= tables.top() {
                    tables.get(switch, lid)
                } else {
                    NO_PATH
                }
            };
            if of(a) != of(b) {
                found.insert((switch.0, lid.0));
            }
        }
    }
    found
}

/// What came of a kill.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum End {
    /// The tables are those of before the change.
    Undone,
    /// The tables are those of the finished change.
    Finished,
    /// The tables are others, and the judge accepts them as well.
    Another,
    /// The finished change leaves the tables as they were before it, and the tables are these.
    AsBefore,
}

struct World<'a> {
    case: Case<'a>,
    rehearsal: Rehearsal,
    manager: ManagerId,
    other: ManagerId,
}

impl<'a> World<'a> {
    /// Returns the world just before the change begins.
    fn new(case: Case<'a>) -> Self {
        let fabric = common::fabric(case.fabric);
        let mut rehearsal = Rehearsal::new(&fabric, Options::default());
        rehearsal.watch();
        let manager = common::add_manager(&mut rehearsal, "a", "\"H-0\"", 1, policy(case.engine));
        let wanted = match case.change {
            Change::Engine(engine) => engine,
            _ => case.engine,
        };
        let other = common::add_manager(&mut rehearsal, "b", "\"H-1\"", 1, policy(wanted));
        let mut world = Self {
            case,
            rehearsal,
            manager,
            other,
        };
        world.rehearsal.start(manager).unwrap();
        if !matches!(case.change, Change::BringUp) {
            world.quiet();
        }
        match case.change {
            Change::BringUp => {}
            Change::Engine(engine) => world.rehearsal.reload(manager, Arc::new(policy(engine))).unwrap(),
            Change::Fault(fault) => world.rehearsal.fault(&fault.parse().unwrap()).unwrap(),
            Change::After(first, second) => {
                world.rehearsal.fault(&first.parse().unwrap()).unwrap();
                world.quiet();
                world.rehearsal.fault(&second.parse().unwrap()).unwrap();
            }
        }
        world
    }

    fn quiet(&mut self) {
        self.rehearsal.run_until_quiet(BOUND).unwrap();
    }

    fn tables(&self) -> Tables {
        self.rehearsal.emulator().chassis().tables()
    }

    /// Runs until this number of Sets of the change was taken; false if it has fewer.
    fn run_to(&mut self, point: u64) -> bool {
        let first = sets(&self.rehearsal);
        let is_there = |world: &Rehearsal| sets(world) - first >= point;
        let end = |world: &Rehearsal| is_there(world) || world.is_quiet();
        self.rehearsal.run_until(BOUND, "the point or the end", end).unwrap();
        is_there(&self.rehearsal)
    }

    /// Goes on with the successor to the end, and checks every Set on the way.
    fn recover(&mut self, point: u64) {
        let what = format!("{:?}, killed after {point} Sets", self.case);
        self.rehearsal.kill(self.manager).unwrap();
        self.rehearsal.run_for(self.case.gap).unwrap();
        let (held, lids_held) = (self.tables(), lids(self.rehearsal.emulator()));
        let successor = match self.case.successor {
            Successor::Itself => self.manager,
            Successor::Stranger => self.other,
        };
        self.rehearsal.start(successor).unwrap();
        let (mut touched, mut seen) = (BTreeSet::new(), sets(&self.rehearsal));
        let look = |world: &Rehearsal| {
            if std::mem::replace(&mut seen, sets(world)) != sets(world) {
                touched.extend(differences(&held, &world.emulator().chassis().tables()));
                let now = lids(world.emulator());
                let kept = lids_held.iter().all(|held| now.contains(held));
                assert!(kept, "{what}: a LID changed: {lids_held:?}, {now:?}");
            }
            world.is_quiet()
        };
        self.rehearsal.run_until(BOUND, "everything is quiet", look).unwrap();
        self.quiet();
        let changed = differences(&held, &self.tables());
        let disturbed: Vec<_> = touched.difference(&changed).collect();
        assert!(
            disturbed.is_empty(),
            "{what}: right entries were touched: {disturbed:?}"
        );
        self.check_up(successor, &what);
    }

    fn check_up(&self, id: ManagerId, what: &str) {
        let view = self.rehearsal.view(id).unwrap();
        assert!(
            view.role == Role::Master && view.is_up(),
            "{what}: {:?} {:?}",
            view.role,
            view.ports
        );
        let client = self.rehearsal.client(id).unwrap();
        let at = self.rehearsal.emulator().port_of(client).unwrap();
        let observed = Observed::around(self.rehearsal.emulator(), at);
        let idle: Vec<_> = observed.not_active().collect();
        assert!(idle.is_empty() && observed.without_lid.is_empty(), "{what}: {idle:?}");
        let errors: Vec<String> = observed.judge().errors().map(ToString::to_string).collect();
        assert!(errors.is_empty(), "{what}: {errors:?}");
    }
}

/// Kills at every point. The set of ends must be exactly `want`, so that the tests cover each end.
fn check(case: Case<'_>, want: &[End]) {
    assert_eq!(ends_of(case), want, "{case:?}");
}

fn ends_of(case: Case<'_>) -> Vec<End> {
    let before = World::new(case).tables();
    let mut undisturbed = World::new(case);
    undisturbed.quiet();
    let after = undisturbed.tables();
    let kept = lids(undisturbed.rehearsal.emulator());
    let mut ends = BTreeSet::new();
    let mut points = 0;
    for point in 0..POINTS_MAX {
        let mut world = World::new(case);
        if !world.run_to(point) {
            break;
        }
        points += 1;
        world.recover(point);
        let now = world.tables();
        let is = |tables: &Tables| differences(&now, tables).is_empty();
        ends.insert(match (is(&before), is(&after)) {
            (true, true) => End::AsBefore,
            (true, false) => End::Undone,
            (false, true) => End::Finished,
            (false, false) => End::Another,
        });
        if case.successor == Successor::Itself {
            let now = lids(world.rehearsal.emulator());
            let is_bring_up = matches!(case.change, Change::BringUp);
            assert!(
                is_bring_up || now == kept,
                "{case:?}, killed after {point} Sets: {now:?}, not {kept:?}"
            );
        }
    }
    println!("{case:?}: {points} points, {ends:?}");
    assert!(points > 3, "{case:?}: {points} points show nothing");
    ends.into_iter().collect()
}

/// Sets that were in flight when the manager died have arrived.
const AT_ONCE: Duration = Duration::from_millis(1);
/// Longer than packets are in flight.
const LATER: Duration = Duration::from_secs(5);

#[test]
fn another_engine() {
    for successor in [Successor::Itself, Successor::Stranger] {
        for gap in [AT_ONCE, LATER] {
            let case = Case {
                fabric: "ring:switches=6,hosts=1",
                engine: "updn",
                change: Change::Engine("weave"),
                gap,
                successor,
            };
            match successor {
                Successor::Itself => check(case, &[End::Finished]),
                // Correct tables that it finds stay: the old ones, the new ones, or a mixture.
                Successor::Stranger => check(case, &[End::Undone, End::Finished, End::Another]),
            }
        }
    }
}

#[test]
fn a_repair() {
    for successor in [Successor::Itself, Successor::Stranger] {
        let case = Case {
            fabric: "karytree:k=3,n=2",
            engine: "auto",
            change: Change::Fault("cut \"S-L1-0\"[4]"),
            gap: AT_ONCE,
            successor,
        };
        // A manager that starts plans the whole fabric, with other routes than the backups, equally good; unless the
        // last of the backups was already in force.
        check(case, &[End::Finished, End::Another]);
    }
}

#[test]
fn what_comes_back() {
    let case = Case {
        fabric: "karytree:k=2,n=3",
        engine: "auto",
        change: Change::After("kill \"S-L2-0\"", "revive \"S-L2-0\""),
        gap: AT_ONCE,
        successor: Successor::Itself,
    };
    check(case, &[End::Finished, End::Another]);
}

#[test]
fn a_switch_that_starts_with_empty_tables() {
    let case = Case {
        fabric: "torus:3x3,hosts=1",
        engine: "weave",
        change: Change::Fault("reboot \"S-1-1\""),
        gap: LATER,
        successor: Successor::Stranger,
    };
    check(case, &[End::AsBefore]);
}

#[test]
fn the_first_bring_up() {
    for successor in [Successor::Itself, Successor::Stranger] {
        let case = Case {
            fabric: "karytree:k=2,n=2",
            engine: "auto",
            change: Change::BringUp,
            gap: AT_ONCE,
            successor,
        };
        check(case, &[End::Finished]);
    }
}
