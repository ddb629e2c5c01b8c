//! The administrator under random faults: hosts join, leave, subscribe and ask while cables are pulled, switches lose
//! their power and managers are killed, with their stored state left on disk. When all is well again, the master knows
//! every host with a confirmed membership or subscription, answers from the plan in force, and reports events.
//!
//! Hosts and checkers are those of `selvedge soak --sa`, which draws more kinds of faults; here are only faults that
//! concern administrators, and administrators with a defect that must be found.

mod stage;

use std::sync::Arc;
use std::time::Duration;

use selvedge_fabric::{Fabric, NodeIdx, PortRef};
use selvedge_plan::{OutOfService, Policy};
use selvedge_rehearsal::clients::{Clients, DeskDefect};
use selvedge_rehearsal::{ManagerId, Options, Rehearsal, RehearsalError};
use selvedge_sim::{Rng, Seed, Time};
use selvedge_sm::Role;
use selvedge_types::PortState;

use stage::*;

const SPECS: [&str; 4] = [
    "pgft:m=3x4,w=1x2,p=1x1",
    "karytree:k=3,n=2",
    "torus:3x3,hosts=1",
    "ring:switches=5,hosts=2",
];
const SEEDS: u64 = 60;
/// Seeds that found a defect once: a registration was acknowledged and a moment later its master killed, before the
/// standby could copy it; a host registered while the standby's own link was down.
const FOUND: [u64; 2] = [1982, 884];
const EVENTS: usize = 25;
/// How long everything may take to become well.
const PATIENCE: Duration = Duration::from_secs(120);
/// Seeds within which a defect must be noticed.
const DEFECT_SEEDS: u64 = 20;

/// The violation that was found.
type Wrong = Box<RehearsalError>;

/// Runs one seed. `SELVEDGE_SEED` prints the events of the seed that it names.
fn run(seed: u64, defect: Option<DeskDefect>) -> Result<(), Wrong> {
    let mut stage = Stage::new(seed, defect);
    let result = disturb(&mut stage);
    if std::env::var("SELVEDGE_SEED").is_ok_and(|text| text == seed.to_string()) {
        println!("{}", stage.story());
    }
    result
}

/// Faults, then calm, then the end of each master.
fn disturb(stage: &mut Stage) -> Result<(), Wrong> {
    stage.start(0);
    stage.run(Duration::from_secs(2))?;
    stage.start(1);
    for _ in 0..EVENTS {
        let pause = 200 + stage.rng.below(3_000);
        stage.run(Duration::from_millis(pause))?;
        stage.happen();
    }
    stage.mend();
    stage.clients.set_lively(false);
    stage.settle()?;
    stage.check_reports()?;
    for which in [0, 1] {
        stage.kill(which);
        stage.run(Duration::from_secs(8))?;
        stage.start(which);
        stage.settle()?;
    }
    Ok(())
}

/// `SELVEDGE_SEEDS=5000` runs so many seeds, `SELVEDGE_SEEDS=237..238` those.
#[test]
fn what_hosts_were_told_holds_whatever_happens() {
    let seeds: Vec<u64> = match std::env::var("SELVEDGE_SEEDS") {
        Err(_) => (1..SEEDS + 1).chain(FOUND).collect(),
        Ok(text) => match text.split_once("..") {
            Some((from, to)) => (from.parse().unwrap()..to.parse().unwrap()).collect(),
            None => (1..text.parse::<u64>().unwrap() + 1).collect(),
        },
    };
    let wrong: Vec<String> = seeds
        .into_iter()
        .filter_map(|seed| Some(format!("{seed}: {}", run(seed, None).err()?)))
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn every_defect_of_an_administrator_is_found() {
    let check = |defect: DeskDefect, code: &str| {
        let is_it = |seed: &u64| run(*seed, Some(defect)).is_err_and(|wrong| wrong.to_string().contains(code));
        let found = (1..=DEFECT_SEEDS).find(is_it);
        println!("{defect:?} {code}: seed {found:?}");
        assert!(found.is_some(), "nobody noticed {defect:?} as {code}");
    };
    check(DeskDefect::IgnoresPaths, "SLV-REHEARSAL-0120");
    check(DeskDefect::AnswersFromThePast, "SLV-REHEARSAL-0121");
    check(DeskDefect::StoresNothing, "SLV-REHEARSAL-0122");
    check(DeskDefect::KeepsGroups, "SLV-REHEARSAL-0123");
    check(DeskDefect::Mute, "SLV-REHEARSAL-0124");
    check(DeskDefect::LosesServices, "SLV-REHEARSAL-0125");
}

/// A leaf of the tree is cut off until the master has dropped its hosts, and is back when the standby takes over: the
/// hosts' links were never down, so the hosts do not register again by themselves. The standby's copy shows which hosts
/// to ask.
fn cut_off_over_a_take_over(defect: Option<DeskDefect>) -> Result<(), Wrong> {
    let mut stage = Stage::new(SPECS.len() as u64, defect);
    stage.clients.set_lively(false);
    stage.start(0);
    stage.run(Duration::from_secs(2))?;
    stage.start(1);
    stage.settle()?;
    let uplinks = stage.uplinks_of_a_leaf();
    uplinks.iter().for_each(|link| stage.fault(&format!("cut {link}")));
    stage.run(Duration::from_secs(15))?;
    stage.kill(0);
    uplinks.iter().for_each(|link| stage.fault(&format!("restore {link}")));
    stage.settle()
}

#[test]
fn hosts_that_the_master_had_forgotten_are_asked_by_the_standby() {
    assert_eq!(
        cut_off_over_a_take_over(None).map_err(|wrong| wrong.to_string()),
        Ok(())
    );
    let wrong = cut_off_over_a_take_over(Some(DeskDefect::CopiesNoForgotten)).unwrap_err();
    assert!(wrong.to_string().contains("SLV-REHEARSAL-0122"), "{wrong}");
}

/// The operator drains a link at the master. The standby that takes over keeps to it. The former master, which has a
/// higher priority, starts with the list that it has stored: before it takes over, it follows the present one.
#[test]
fn a_standby_keeps_to_the_list_of_its_master() {
    let mut stage = Stage::new(SPECS.len() as u64, None);
    stage.clients.set_lively(false);
    stage.start(0);
    stage.run(Duration::from_secs(2)).unwrap();
    stage.start(1);
    stage.settle().unwrap();
    let listed = |stage: &Stage, which: usize| {
        let view = stage.view(which);
        assert_eq!(view.role, Role::Master, "{which}");
        view.policy.unwrap().out_of_service.to_text()
    };
    let drained = stage.drained_uplink();
    let text = drained.to_text();
    let with = |list: OutOfService| Policy {
        out_of_service: Arc::new(list),
        ..Policy::default()
    };
    stage.reload(0, with(drained));
    stage.run(Duration::from_secs(10)).unwrap();
    stage.settle().unwrap();
    assert_eq!(listed(&stage, 0), text);
    let state = |stage: &Stage| stage.view(1).policy_changes.last().map(|of| of.state.name());
    assert_eq!(state(&stage), Some("kept_for_later"));
    stage.kill(0);
    stage.settle().unwrap();
    assert_eq!((listed(&stage, 1), state(&stage)), (text, Some("kept")));
    stage.reload(1, Policy::default());
    stage.run(Duration::from_secs(10)).unwrap();
    assert_eq!(listed(&stage, 1), "");
    stage.start(0);
    stage.run(Duration::from_secs(20)).unwrap();
    stage.settle().unwrap();
    assert_eq!(listed(&stage, 0), "");
}
