//! The administrator under random faults: hosts join, leave, subscribe and ask while cables are pulled, switches lose
//! their power and managers are killed, with what was stored left on disk. When all is well again, whoever is master
//! knows who was told that he is a member or a subscriber, answers from the plan in force, and reports what happens.
//!
//! Managers and agents are those of every rehearsal; beside each manager sits an administrator that is fed, and stores,
//! as `daemon` does it. Datagrams of class 3 cross the fabric in no time wherever packets can: what they cost, and what
//! they do to SMPs, is the business of `conformance`.

#![allow(clippy::unwrap_used, reason = "a test panics where it fails")]

#[path = "../common/mod.rs"]
mod common;
mod host;
mod stage;
mod trial;

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use selvedge_chassis::{Chassis, PortIdx};
use selvedge_fabric::{Fabric, NodeIdx, PortRef};
use selvedge_plan::Policy;
use selvedge_rehearsal::{ManagerId, Options, Rehearsal, Tamper};
use selvedge_sa::{Agents, Config, Copier, CopyConfig, Input, Output, Registrations, Sa, Snapshot, Sources};
use selvedge_sim::{Rng, Seed, Time};
use selvedge_sm::{Command, Event, Inventory, Role, ToldLevels};
use selvedge_types::{Guid, Lid, PortState, Sl, TransactionId};
use selvedge_wire::sa::records;
use selvedge_wire::{
    Address, Attribute, AttributeId, Class, Datagram, DirectedRoute, Mad, Method, PortInfo, SmInfo, Status, SwitchInfo,
};

use host::*;
use stage::*;

const SPECS: [&str; 4] = [
    "pgft:m=3x4,w=1x2,p=1x1",
    "karytree:k=3,n=2",
    "torus:3x3,hosts=1",
    "ring:switches=5,hosts=2",
];
const SEEDS: u64 = 60;
const EVENTS: usize = 25;
/// How long everything may take to become well.
const PATIENCE: Duration = Duration::from_secs(120);
/// How often hosts look at their ports.
const TICK: Duration = Duration::from_millis(50);
/// As `daemon` gathers what is to be stored.
const GATHER: Duration = Duration::from_millis(250);
/// IPoIB's broadcast group of the default partition.
const IPOIB: u128 = 0xFF12_401B_FFFF_0000_0000_0000_FFFF_FFFF;

/// A defect that must be noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Broken {
    /// What hosts registered counts as stored and is not.
    StoresNothing,
    /// It answers from the first plan of its life.
    AnswersFromThePast,
    /// It reports nothing.
    Mute,
}

/// What was noticed.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Wrong {
    /// A host was told that it is registered, and the master does not know.
    Forgotten(String),
    /// An answer is not that of the plan in force.
    Stale(String),
    /// A subscriber was not told.
    Unreported(String),
    /// It does not become well.
    Unsettled(String),
}

/// One run; `SELVEDGE_SEED` prints what happened in that one.
fn run(seed: u64, broken: Option<Broken>) -> Result<(), Wrong> {
    let mut stage = Stage::new(seed, broken);
    let result = disturb(&mut stage);
    if std::env::var("SELVEDGE_SEED").is_ok_and(|text| text == seed.to_string()) {
        println!("{}", stage.story());
    }
    result
}

/// Faults, then calm, then the end of each master.
fn disturb(stage: &mut Stage) -> Result<(), Wrong> {
    stage.start(0);
    stage.run(Duration::from_secs(2));
    stage.start(1);
    for _ in 0..EVENTS {
        let pause = 200 + stage.rng.below(3_000);
        stage.run(Duration::from_millis(pause));
        stage.happen();
    }
    for node in stage.fabric.nodes().indices() {
        let name = stage.fabric.node(node).description.clone();
        stage.fault(&format!("revive \"{name}\""));
    }
    let links: Vec<_> = stage.fabric.links().collect();
    for link in links {
        let name = stage.fabric.port_name(link.a);
        stage.fault(&format!("restore {name}"));
    }
    for number in 0..2 {
        if !stage.desks[number].runs {
            stage.start(number);
        }
    }
    stage.settle()?;
    stage.check()?;
    stage.check_reports()?;
    for number in [0, 1] {
        stage.kill(number);
        stage.run(Duration::from_secs(8));
        stage.start(number);
        stage.settle()?;
        stage.check()?;
    }
    Ok(())
}

#[test]
fn what_hosts_were_told_holds_whatever_happens() {
    let seeds = std::env::var("SELVEDGE_SEEDS").map_or(SEEDS, |text| text.parse().unwrap());
    let wrong: Vec<_> = (1..=seeds)
        .filter_map(|seed| Some((seed, run(seed, None).err()?)))
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn every_defect_of_an_administrator_is_found() {
    let check = |broken: Broken, is_it: fn(&Wrong) -> bool| {
        let found = (1..=20).find(|&seed| run(seed, Some(broken)).is_err_and(|wrong| is_it(&wrong)));
        assert!(found.is_some(), "nobody noticed {broken:?}");
    };
    check(Broken::StoresNothing, |wrong| matches!(wrong, Wrong::Forgotten(_)));
    check(Broken::AnswersFromThePast, |wrong| {
        matches!(wrong, Wrong::Stale(_) | Wrong::Forgotten(_) | Wrong::Unsettled(_))
    });
    check(Broken::Mute, |wrong| matches!(wrong, Wrong::Unreported(_)));
}
