//! Digests of resolved schedules: proof that a change of the manager's structure changed nothing else.
//!
//! `tests/digests/` has some of them; `docs/testing.md` says how to check more.

use std::path::Path;
use std::sync::Mutex;

use selvedge_fabric::Fabric;
use selvedge_rehearsal::Tamper;
use selvedge_rehearsal::soak::{Action, DigestLine, Nobody, Resolved, Schedule};
use selvedge_sim::Time;
use selvedge_sm::{Input, Output};
use selvedge_types::TransactionId;
use selvedge_wire::{AttributeId, Method};

use crate::common;
use crate::soak::on_all_processors;

/// Seeds that are resolved and replayed: plain, with clients, and with disks that fail. `SELVEDGE_SEEDS=500` takes that
/// number.
const SEEDS: u64 = 16;

fn fabric(resolved: &Resolved) -> Fabric {
    common::fabric(&resolved.schedule.fabric)
}

fn drawn(seed: u64, sa: bool, store_faults: bool) -> Schedule {
    let mut schedule = Schedule::draw(seed);
    (schedule.setup.sa, schedule.setup.store_faults) = (sa, store_faults);
    schedule
}

fn resolve(schedule: &Schedule) -> Resolved {
    schedule.resolve(&common::fabric(&schedule.fabric)).1
}

#[test]
fn a_replayed_schedule_gives_the_digests_of_the_run_that_resolved_it() {
    let seeds = std::env::var("SELVEDGE_SEEDS").map_or(SEEDS, |text| text.parse().unwrap());
    let mut all = Vec::new();
    for seed in 1..=seeds {
        all.push(drawn(seed, false, false));
        all.push(drawn(seed, true, false));
        all.push(drawn(seed, seed % 2 == 0, true));
    }
    let wrong: Mutex<Vec<String>> = Mutex::default();
    on_all_processors(all.len() as u64, |number| {
        let schedule = &all[usize::try_from(number).unwrap()];
        let fabric = common::fabric(&schedule.fabric);
        let (first, resolved) = schedule.resolve(&fabric);
        assert_eq!(first.failure, None, "{}", resolved.name());
        let text = resolved.to_string();
        assert_eq!(Resolved::read_all(&text).as_deref(), Ok(&[resolved.clone()][..]));
        let second = resolved.replay(&fabric, &mut Nobody);
        let (first, second) = ((first.digests, first.ended), (second.digests, second.ended));
        if first != second {
            let line = format!("{}: {first:x?} then {second:x?}", resolved.name());
            wrong.lock().unwrap().push(line);
        }
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A way to change one output of a manager.
#[derive(Clone, Copy, Debug)]
enum Change {
    Nothing,
    OneSetMore,
    OnePersistLater,
    OneIsSmLess,
}

/// Makes one change to the first manager that gives occasion to it.
#[derive(Debug)]
struct Changer {
    change: Change,
    is_done: bool,
    held: Option<Output>,
}

impl Tamper for Changer {
    fn output(&mut self, _now: Time, output: Output, out: &mut Vec<Output>, _back: &mut Vec<Input>) {
        if self.is_done {
            // The next output of any kind is later.
            out.push(output);
            out.extend(self.held.take());
            return;
        }
        match (self.change, &output) {
            (Change::OneSetMore, Output::Send { datagram, timeout })
                if datagram.mad.method() == Method::Set
                    && datagram.mad.attribute() == AttributeId::LINEAR_FORWARDING =>
            {
                self.is_done = true;
                let mut more = *datagram;
                // Its answer belongs to no request.
                more.mad.set_transaction(TransactionId(0x7FFF_0000_0001));
                let timeout = *timeout;
                out.push(output);
                out.push(Output::Send {
                    datagram: more,
                    timeout,
                });
            }
            (Change::OnePersistLater, Output::Persist { .. }) => {
                self.is_done = true;
                self.held = Some(output);
            }
            (Change::OneIsSmLess, Output::SetIsSm(true)) => self.is_done = true,
            _ => out.push(output),
        }
    }
}

#[test]
fn another_output_gives_another_wire_digest() {
    let resolved = resolve(&drawn(3, false, false));
    let fabric = fabric(&resolved);
    let wire = |change: Change| {
        let changer = || -> Box<dyn Tamper> {
            Box::new(Changer {
                change,
                is_done: false,
                held: None,
            })
        };
        resolved.replay_tampered(&fabric, changer).digests.wire
    };
    let sound = resolved.replay(&fabric, &mut Nobody).digests.wire;
    assert_eq!(wire(Change::Nothing), sound);
    for change in [Change::OneSetMore, Change::OnePersistLater, Change::OneIsSmLess] {
        assert_ne!(wire(change), sound, "{change:?}");
    }
}

#[test]
fn what_is_held_in_the_end_is_in_the_end_digest() {
    let resolved = resolve(&drawn(3, true, false));
    let fabric = fabric(&resolved);
    let end = |resolved: &Resolved| resolved.replay(&fabric, &mut Nobody).digests.end;
    let sound = end(&resolved);
    // Without hosts' changes, or without the last policy, the end state differs.
    let mut other = resolved.clone();
    let settles = |(_, action): &(Time, Action)| *action == Action::HostsSettle;
    let at = other.actions.iter().position(settles).unwrap();
    other.actions.insert(at, (other.actions[at].0, Action::HostsChange));
    assert_ne!(end(&other), sound);
    assert_eq!(end(&resolved), sound);
}

#[test]
fn texts_are_read_and_printed() {
    let check = |text: &str| {
        let action: Action = text.parse().unwrap_or_else(|want| panic!("{text}: want {want}"));
        assert_eq!(action.to_string(), text);
    };
    for text in [
        "fault cut \"S-L1-0\"[3]",
        "heal",
        "start 0",
        "kill 1",
        "sweep 0",
        "policy engines weave,updn",
        "policy lmc 2",
        "policy mtu 4096",
        "policy hoq_life 18",
        "policy subnet_timeout 16",
        "disk 1 fails 1/16 7",
        "disk 0 works",
        "hosts settle",
        "hosts change",
        "hosts check",
        "well",
        "end",
    ] {
        check(text);
    }
    for text in [
        "",
        "start",
        "start 2",
        "policy lmc 9",
        "disk 0 fails 1/0 1",
        "fault fly",
        "hosts go",
    ] {
        assert!(text.parse::<Action>().is_err(), "{text}");
    }
    let read = |text: &str| Resolved::read_all(text).unwrap_err().to_string();
    let header = "selvedge soak resolved schedule 1";
    assert!(read("seed 1\n").starts_with("SLV-REHEARSAL-0303: "));
    assert!(read(&format!("{header}\nseed 1\n5 well\n4 well\n")).starts_with("SLV-REHEARSAL-0301: line 4: "));
}

/// Tests the schedules in `resolved.txt`, or in the file that `SELVEDGE_RESOLVED` names.
#[test]
fn stored_schedules_give_their_stored_digests() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/digests");
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
    let text = match std::env::var_os("SELVEDGE_RESOLVED") {
        Some(path) => std::fs::read_to_string(path).unwrap(),
        None => read("resolved.txt"),
    };
    let schedules = Resolved::read_all(&text).unwrap();
    let stored = DigestLine::read_all(&read("soak.txt")).unwrap();
    let wrong: Mutex<Vec<String>> = Mutex::default();
    on_all_processors(schedules.len() as u64, |number| {
        let resolved = &schedules[usize::try_from(number).unwrap()];
        let outcome = resolved.replay(&fabric(resolved), &mut Nobody);
        let found = resolved.line(outcome.digests);
        let want = stored.iter().find(|line| line.name == found.name);
        if (outcome.failure.as_ref(), Some(&found)) != (None, want) {
            let failure = outcome.failure.map_or_else(String::new, |failure| failure.what);
            let want = want.map_or_else(String::new, DigestLine::to_string);
            wrong
                .lock()
                .unwrap()
                .push(format!("want  {want}\nfound {found} {failure}"));
        }
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "name schedule wire end\n{}", wrong.join("\n"));
}
