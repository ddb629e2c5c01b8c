//! Data between manager and administrator, and its order.

use std::sync::Arc;
use std::time::Duration;

use selvedge_coordinator::{In, Out};
use selvedge_plan::{MulticastLane, Policy};
use selvedge_sa::Snapshot;
use selvedge_sm::{Command, Input, Milestone, Role};
use selvedge_types::{Lid, SecretKey, Sl};
use selvedge_wire::{
    Address, AttributeId, Class, Datagram, LocalChange, Mad, Method, Notice, PRODUCER_CA, PortInfo, Status, Trap,
};

use crate::bench::{Bench, Did};

fn trap(lid: Lid) -> Datagram {
    let notice = Notice::new(PRODUCER_CA, lid, &Trap::LocalChange(LocalChange::default()));
    let mut mad = Mad::request(Class::SubnLid, Method::Trap, AttributeId::NOTICE, 0);
    mad.write(&notice);
    Datagram {
        address: Address::smi(lid),
        mad,
    }
}

fn names(commands: &[Command]) -> Vec<&'static str> {
    let name = |command: &Command| match command {
        Command::Reregister => "reregister",
        Command::ReregisterThese(_) => "reregister these",
        Command::Registered => "registered",
        Command::Unproven => "unproven",
        Command::HoldBack => "hold back",
        Command::Ready => "ready",
        Command::Told(_) => "told",
        Command::OutOfService(_) => "out of service",
        Command::Babbles { .. } => "babbles",
        _ => "other",
    };
    commands.iter().map(name).collect()
}

/// The administrator names the level that copies have in the plan, not the one of the bare partition file.
#[test]
fn groups_get_the_level_that_the_policy_gives_copies() {
    let policy = Policy {
        assume_sl_aware: true,
        lanes: 4,
        used_lanes: 2,
        multicast_lane: MulticastLane::Own,
        ..Policy::default()
    };
    let level = policy.copies_level().unwrap();
    assert_ne!(level, Sl::default());
    let mut bench = Bench::up(policy);
    assert_eq!(bench.join(0)[0].mad.status(), Status::OK);
    bench.run_for(Duration::from_secs(1));
    let of_members = bench.groups.iter().rfind(|group| !group.members.is_empty());
    assert_eq!(of_members.map(|group| group.sl), Some(level));
}

#[test]
fn what_a_manager_must_know_comes_before_its_start() {
    let begun = |change: fn(&mut selvedge_coordinator::Administrated)| {
        let mut bench = Bench::with(Policy::default(), change);
        bench.hand(In::Start);
        names(&bench.commands)
    };
    assert_eq!(begun(|_| {}), ["hold back"]);
    assert_eq!(begun(|with| with.is_lost = true), ["reregister", "hold back"]);
    let lost_once = |with: &mut selvedge_coordinator::Administrated| {
        (with.is_lost, with.has_hosts) = (true, false);
    };
    assert!(begun(lost_once).is_empty(), "no host comes to it");
}

/// Carries the requests of a standby at this LID to the master at LID 1, and the answers back, until nothing is in
/// flight.
fn exchange(standby: &mut Bench, master: &mut Bench, own: Lid) {
    let from = |lid| Address::gsi(lid, Sl::default());
    let master_lid = Lid(1);
    while !standby.sent.is_empty() || !master.sent.is_empty() {
        for asked in std::mem::take(&mut standby.sent) {
            if !asked.mad.class().is_smp() {
                let address = from(own);
                master.hand(In::Arrived(Datagram { address, ..asked }));
                continue;
            }
            let mut mad = asked.mad;
            mad.set_method(Method::GetResp);
            mad.write(&PortInfo {
                lid: own,
                sm_lid: master_lid,
                ..PortInfo::default()
            });
            let answer = Datagram { mad, ..asked };
            assert!(!standby.coordinator.is_answer_to_manager(&answer), "it is the copier's");
            standby.hand(In::Arrived(answer));
        }
        if master.coordinator.next_wake().is_some_and(|at| at <= master.now) {
            master.hand(In::Wake);
        }
        for answer in std::mem::take(&mut master.sent) {
            let address = from(master_lid);
            standby.hand(In::Arrived(Datagram { address, ..answer }));
        }
    }
}

/// The copy of the master's registrations: the hosts to ask and the service levels of senders arrive before the manager
/// may take over.
#[test]
fn a_standby_knows_levels_and_whom_to_ask_before_it_is_ready() {
    let mut master = Bench::up(Policy::default());
    assert_eq!(master.join(0)[0].mad.status(), Status::OK);
    let mut standby = Bench::new(Policy::default());
    master.sent.clear();
    standby.now = master.now;
    standby.hand(In::Milestone(Milestone::RoleChanged { role: Role::Standby }));
    assert_eq!(names(&standby.commands), ["reregister"]);
    standby.commands.clear();
    let (own, _) = master.host(1);
    for _ in 0..1_000 {
        exchange(&mut standby, &mut master, own);
        if names(&standby.commands).contains(&"ready") {
            break;
        }
        standby.now = standby.coordinator.next_wake().unwrap().max(standby.now);
        master.now = standby.now;
        standby.hand(In::Wake);
    }
    assert_eq!(
        names(&standby.commands),
        ["reregister these", "out of service", "told", "registered", "ready"],
        "{:?}",
        standby.commands
    );
    let members = |bench: &Bench| bench.coordinator.administrator().unwrap().registered()[3];
    assert_eq!((members(&standby), members(&master)), (1, 1));
}

/// A driver hands an answer to the manager's own requests on directly, so the coordinator has no other output for it.
#[test]
fn an_answer_to_the_manager_has_no_other_output() {
    let mut bench = Bench::up(Policy::default());
    let of = |class, method, attribute| Datagram {
        address: Address::smi(Lid(1)),
        mad: Mad::request(class, method, attribute, 0),
    };
    let mut check = |datagram: Datagram, want: bool| {
        assert_eq!(bench.coordinator.is_answer_to_manager(&datagram), want, "{datagram:?}");
        let mut out = Vec::new();
        bench.coordinator.handle(bench.now, In::Arrived(datagram), &mut out);
        let is_handed_on = matches!(&out[..], [Out::Manager(Input::Received(handed))] if *handed == datagram);
        assert!(is_handed_on || !want, "{datagram:?}");
    };
    check(of(Class::SubnDirected, Method::GetResp, AttributeId::PORT_INFO), true);
    check(of(Class::SubnLid, Method::GetResp, AttributeId::SM_INFO), true);
    check(of(Class::SubnLid, Method::Get, AttributeId::SM_INFO), false);
    check(of(Class::SubnAdm, Method::GetResp, AttributeId::NODE_INFO), false);
    check(trap(Lid(2)), false);
}

/// A subscriber gets a report of a trap that the manager received.
#[test]
fn a_trap_that_the_master_takes_is_reported() {
    let mut bench = Bench::up(Policy::default());
    assert_eq!(bench.subscribe(0)[0].mad.status(), Status::OK);
    let (lid, _) = bench.host(1);
    bench.sent.clear();
    bench.hand(In::Arrived(trap(lid)));
    let reports = bench.sent.iter().filter(|sent| sent.mad.method() == Method::Report);
    assert_eq!(reports.count(), 1, "{:?}", bench.sent);
}

#[test]
fn traps_above_the_limit_are_repressed_with_the_key_in_force() {
    let mut bench = Bench::up(Policy::default());
    let (lid, _) = bench.host(1);
    // A proposed policy does not change the key; the manager reports when most agents have another one.
    bench.hand(In::Milestone(Milestone::KeyChanged(SecretKey::new(7))));
    bench.sent.clear();
    for _ in 0..40 {
        bench.hand(In::Arrived(trap(lid)));
    }
    let repressed = bench
        .sent
        .iter()
        .filter(|sent| sent.mad.method() == Method::TrapRepress);
    assert!(repressed.clone().count() > 0);
    assert!(repressed.clone().all(|sent| sent.mad.m_key() == 7));
    assert_eq!(
        names(&bench.commands).iter().filter(|name| **name == "babbles").count(),
        1
    );
    // A standby reacts to no trap.
    bench.hand(In::Milestone(Milestone::RoleChanged { role: Role::Standby }));
    bench.did.clear();
    for _ in 0..40 {
        bench.hand(In::Arrived(trap(lid)));
    }
    assert!(!bench.did.contains(&Did::Repressed));
}

/// Indexing takes long. If the manager was not master all the time, the index is of no use, even if the manager is
/// master again.
#[test]
fn a_plan_of_an_earlier_mastership_is_not_answered_from() {
    let mut bench = Bench::new(Policy::default());
    bench.indexes = false;
    bench.hand(In::Start);
    bench.run_for(Duration::from_secs(1));
    let sources = bench.sources.pop().unwrap();
    let indexed = |sources: &selvedge_sa::Sources| In::Indexed(Some(Arc::new(Snapshot::new(sources.clone()))));
    bench.hand(In::Milestone(Milestone::RoleChanged { role: Role::Standby }));
    bench.hand(indexed(&sources));
    assert!(!bench.administrator_answers(), "a standby answers nobody");
    bench.hand(In::Milestone(Milestone::RoleChanged { role: Role::Master }));
    bench.hand(indexed(&sources));
    assert!(!bench.administrator_answers(), "no plan of this mastership is in force");
    bench.hand(In::Command(Command::Sweep));
    bench.run_for(Duration::from_secs(5));
    let newest = bench.sources.pop().unwrap();
    bench.hand(indexed(&newest));
    assert!(bench.administrator_answers());
}

/// Groups are collected: a thousand hosts may join at once, and each change makes the manager plan trees again.
#[test]
fn the_manager_gets_groups_together() {
    let mut bench = Bench::up(Policy::default());
    bench.run_for(Duration::from_secs(1));
    bench.groups.clear();
    let members = |bench: &Bench| -> Vec<usize> { bench.groups.iter().map(|group| group.members.len()).collect() };
    bench.join(0);
    bench.join(1);
    assert!(bench.groups.is_empty(), "more may have arrived");
    assert!(bench.coordinator.next_wake().unwrap() <= bench.now);
    bench.hand(In::Wake);
    assert_eq!(members(&bench), [2], "both at once");
    bench.join(2);
    bench.hand(In::Wake);
    assert_eq!(members(&bench), [2], "not before 10 ms have passed");
    assert_eq!(
        bench.coordinator.next_wake(),
        Some(bench.now + Duration::from_millis(10))
    );
    bench.run_for(Duration::from_millis(20));
    assert_eq!(members(&bench), [2, 3]);
}
