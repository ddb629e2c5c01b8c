//! Handover and take-over between our manager and OpenSM: who starts first, who is better, who is killed by `kill -9`
//! and comes back. Each cell of the matrix is a test; with `--nocapture` it prints its rows of the table in
//! `docs/standby.md`.
//!
//! Whoever is better gets the subnet. No LID ever changes, and when ours takes over, no entry does either: what OpenSM
//! does to tables that it did not make is its own, and printed.

// Helpers of tests panic as tests do; clippy knows only functions marked #[test].
#![allow(clippy::unwrap_used)]

mod support;

use std::collections::BTreeSet;
use std::fmt;
use std::time::{Duration, Instant};

use selvedge_conformance::{HeavyLock, OpenSm, OpenSmOptions, PeerLab, Probe, Relay, Running, Survey, until};
use selvedge_transport::ibsim::Way;
use selvedge_types::Guid;
use selvedge_wire::sa::records::{self, member};
use selvedge_wire::{AttributeId, Class, Mad, Method, PortInfo, SmState, Status};
use support::{LIMIT, emulate, lid_of, port};

const SPEC: &str = "mport:m=4,n=2";
/// Where who starts first sits, and who comes second.
const SEATS: [&str; 2] = ["H-0", "H-7"];
/// From where is looked.
const OBSERVER: &str = "H-3";
/// Nothing is sent for so long: a change is done.
const QUIET: Duration = Duration::from_millis(400);

/// Whose manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Who {
    Ours,
    OpenSm,
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ours => "ours",
            Self::OpenSm => "OpenSM",
        })
    }
}

/// Ends when dropped.
#[allow(dead_code)]
enum Process {
    Ours(Running),
    OpenSm(OpenSm),
}

/// A manager that comes and goes.
struct Seat {
    who: Who,
    node: &'static str,
    priority: u8,
    lid: u16,
    relay: Relay,
    process: Option<Process>,
}

impl Seat {
    fn start(&mut self, lab: &PeerLab) {
        let priority = self.priority.to_string();
        self.process = Some(match self.who {
            Who::Ours => {
                let port = port(self.relay.base(), self.node);
                let arguments = ["run", "--port", &port, "--priority", &priority];
                Process::Ours(lab.start_daemon(&arguments).unwrap())
            }
            Who::OpenSm => {
                // As ours by default: a poll a second, two of them missed.
                let options = OpenSmOptions {
                    lines: vec![
                        format!("sm_priority {priority}"),
                        "sminfo_polling_timeout 1000".to_owned(),
                        "polling_retry_number 1".to_owned(),
                    ],
                    ..OpenSmOptions::default()
                };
                Process::OpenSm(lab.opensm_through(self.relay.base(), self.node, &options).unwrap())
            }
        });
    }

    fn kill(&mut self) {
        // By SIGKILL.
        self.process = None;
    }
}

/// What was sent by both.
#[derive(Clone, Copy)]
struct Sent {
    smps: u64,
    sets: u64,
}

/// A cell of the matrix.
struct Cell {
    lab: PeerLab,
    _simulator: Running,
    seats: [Seat; 2],
    /// Which of them is better.
    better: usize,
    probe: Probe,
    hosts: BTreeSet<u16>,
    before: Survey,
}

impl Cell {
    /// The first is master and all is up.
    fn new(first: Who, second: Who, better: usize) -> Self {
        let lab = PeerLab::new().unwrap();
        let simulator = emulate(&lab, SPEC);
        let seat = |at: usize, who| Seat {
            who,
            node: SEATS[at],
            priority: if at == better { 10 } else { 5 },
            lid: 0,
            relay: lab.relay().unwrap(),
            process: None,
        };
        let mut seats = [seat(0, first), seat(1, second)];
        seats[0].start(&lab);
        until("the first manager to give LIDs", LIMIT, String::new, || {
            for seat in &mut seats {
                seat.lid = lid_of(&lab, seat.node);
            }
            Ok(seats.iter().all(|seat| seat.lid != 0).then_some(()))
        })
        .unwrap();
        let mut cell = Self {
            probe: Probe::open(lab.base(), OBSERVER).unwrap(),
            before: Survey::take(&lab, OBSERVER).unwrap(),
            lab,
            _simulator: simulator,
            seats,
            better,
            hosts: BTreeSet::new(),
        };
        cell.settle(0);
        cell.before = Survey::take(&cell.lab, OBSERVER).unwrap();
        let ends = cell.before.end_ports().into_iter();
        cell.hosts = ends.filter(|((_, port), _)| *port != 0).map(|(_, lid)| lid).collect();
        assert!(!cell.hosts.is_empty());
        cell
    }

    fn state(&mut self, seat: usize) -> Option<SmState> {
        let lid = self.seats[seat].lid;
        self.probe.sm_info(lid).unwrap().map(|info| info.state)
    }

    /// Waits until a manager is in a state; how long that took.
    fn wait(&mut self, seat: usize, state: SmState) -> Duration {
        let began = Instant::now();
        let what = format!("{} at {} to be {state}", self.seats[seat].who, self.seats[seat].node);
        until(&what, LIMIT, String::new, || {
            Ok((self.state(seat) == Some(state)).then_some(()))
        })
        .unwrap();
        began.elapsed()
    }

    /// Waits until a manager is master, every host says so, and nothing more is sent.
    fn settle(&mut self, master: usize) {
        self.wait(master, SmState::Master);
        let lid = self.seats[master].lid;
        let hosts: Vec<u16> = self.hosts.iter().copied().collect();
        let what = format!("every host to know {}", self.seats[master].node);
        until(&what, LIMIT, String::new, || {
            let knows = |probe: &mut Probe, host: u16| {
                let info = probe.port_info(host)?;
                Ok(info.is_some_and(|info| info.sm_lid.0 == lid))
            };
            for &host in &hosts {
                if !knows(&mut self.probe, host)? {
                    return Ok(None);
                }
            }
            Ok(Some(()))
        })
        .unwrap();
        let mut last = (self.sent().smps, Instant::now());
        until("managers to be quiet", LIMIT, String::new, || {
            let smps = self.sent().smps;
            if smps != last.0 {
                last = (smps, Instant::now());
            }
            Ok((last.1.elapsed() >= QUIET).then_some(()))
        })
        .unwrap();
    }

    /// SMPs beside what watches: a standby's polls and their answers.
    fn sent(&self) -> Sent {
        let mut sent = Sent { smps: 0, sets: 0 };
        for seat in &self.seats {
            let counts = seat.relay.sent();
            let is_watch = |attribute: u16| attribute == AttributeId::SM_INFO.code();
            sent.smps += counts.count(|kind| kind.class.is_smp() && !is_watch(kind.attribute));
            let is_set = |method: Method| method == Method::Set;
            sent.sets += counts.count(|kind| kind.class.is_smp() && is_set(kind.method) && !is_watch(kind.attribute));
        }
        sent
    }

    /// Does something after which `master` is to be master, and prints what it took.
    fn step(&mut self, what: &str, master: usize, act: impl FnOnce(&mut Self)) {
        let sent = self.sent();
        act(self);
        let took = self.wait(master, SmState::Master);
        self.settle(master);
        let after = Survey::take(&self.lab, OBSERVER).unwrap();
        let now = self.sent();
        let entries = changed_entries(&self.before, &after);
        println!(
            "| {what} | {} | {:.2} s | {} | {} | {entries} |",
            self.seats[master].who,
            took.as_secs_f64(),
            now.smps - sent.smps,
            now.sets - sent.sets,
        );
        assert_eq!(after.lids(), self.before.lids(), "{what}");
        if self.seats[master].who == Who::Ours {
            assert_eq!(entries, 0, "{what}: ours moved entries");
        }
        assert!(after.links.iter().all(|line| line.peer.is_none() || line.is_active()));
        self.before = after;
    }

    fn run(&mut self) {
        let (better, worse) = (self.better, 1 - self.better);
        let name = |cell: &Self, seat: usize| cell.seats[seat].who.to_string();
        let (first, good, bad) = (name(self, 0), name(self, better), name(self, worse));
        println!("| *{first} first, {good} better* | | | | | |");
        self.step("the second comes", better, |cell| {
            let lab = &cell.lab;
            cell.seats[1].start(lab);
            // A worse one takes its time to find the master and stand by.
            if better == 0 {
                cell.wait(1, SmState::Standby);
            }
        });
        self.wait(worse, SmState::Standby);
        self.step(&format!("{good} is killed"), worse, |cell| cell.seats[better].kill());
        self.step(&format!("{good} comes back"), better, |cell| {
            let lab = &cell.lab;
            cell.seats[better].start(lab);
        });
        self.wait(worse, SmState::Standby);
        let sets = self.sent().sets;
        self.step(&format!("{bad} is killed and comes back"), better, |cell| {
            cell.seats[worse].kill();
            let lab = &cell.lab;
            cell.seats[worse].start(lab);
            cell.wait(worse, SmState::Standby);
        });
        if self.seats.iter().all(|seat| seat.who == Who::Ours) {
            assert_eq!(
                self.sent().sets,
                sets,
                "a standby's return is no reason to set anything"
            );
        }
    }
}

/// Entries that differ, of all switches.
fn changed_entries(before: &Survey, after: &Survey) -> usize {
    let of = |survey: &Survey| -> BTreeSet<(u64, u16, u8)> {
        let tables = survey.tables.iter();
        let entries = tables.flat_map(|(guid, table)| table.exits.iter().map(|(&lid, &exit)| (guid.0, lid, exit)));
        entries.collect()
    };
    let (before, after) = (of(before), of(after));
    let places = |a: &BTreeSet<(u64, u16, u8)>, b: &BTreeSet<(u64, u16, u8)>| -> BTreeSet<(u64, u16)> {
        a.difference(b).map(|&(guid, lid, _)| (guid, lid)).collect()
    };
    places(&before, &after).union(&places(&after, &before)).count()
}

fn cell(first: Who, second: Who, better: usize) {
    let _heavy = HeavyLock::acquire().unwrap();
    Cell::new(first, second, better).run();
}

#[test]
fn ours_then_a_worse_opensm() {
    cell(Who::Ours, Who::OpenSm, 0);
}

#[test]
fn ours_then_a_better_opensm() {
    cell(Who::Ours, Who::OpenSm, 1);
}

#[test]
fn opensm_then_a_worse_one_of_ours() {
    cell(Who::OpenSm, Who::Ours, 0);
}

#[test]
fn opensm_then_a_better_one_of_ours() {
    cell(Who::OpenSm, Who::Ours, 1);
}

#[test]
fn ours_then_a_worse_one_of_ours() {
    cell(Who::Ours, Who::Ours, 0);
}

#[test]
fn ours_then_a_better_one_of_ours() {
    cell(Who::Ours, Who::Ours, 1);
}

/// A restart on the same state folder sets nothing and asks nobody, and knows who joined; one that came too early for
/// the store asks every host to register again.
#[test]
fn what_hosts_registered_outlives_a_kill() {
    let _heavy = HeavyLock::acquire().unwrap();
    let lab = PeerLab::new().unwrap();
    let _simulator = emulate(&lab, SPEC);
    let (observer, seen) = std::sync::mpsc::channel();
    let relay = lab.observed_relay(observer).unwrap();
    let state = lab.folder().join("state");
    let port = port(relay.base(), SEATS[0]);
    let arguments = ["run", "--port", &port, "--state", state.to_str().unwrap()];
    let start = || Some(lab.start_daemon(&arguments).unwrap());
    let mut ours = start();
    assert!(ours.is_some());
    until("the manager to give LIDs", LIMIT, String::new, || {
        Ok((lid_of(&lab, SEATS[0]) != 0 && lid_of(&lab, OBSERVER) != 0).then_some(()))
    })
    .unwrap();
    let lid = lid_of(&lab, SEATS[0]);
    let mut probe = Probe::open(lab.base(), OBSERVER).unwrap();
    let mut ask = |mad: &Mad| -> Option<Status> { probe.administration(lid, *mad).unwrap().map(|mad| mad.status()) };
    let mut answered = |mad: &Mad, want: Status| {
        until("the administrator's answer", LIMIT, String::new, || {
            Ok((ask(mad) == Some(want)).then_some(()))
        })
        .unwrap();
    };
    // SubnSet(PortInfo) with ClientReregister, since last looked.
    let asked = || {
        let is_asking = |seen: &selvedge_conformance::Seen| {
            let mad = &seen.packet.mad;
            let is_set = mad.method() == Method::Set && mad.attribute() == AttributeId::PORT_INFO;
            is_set && mad.read::<PortInfo>().is_ok_and(|info| info.client_reregister)
        };
        seen.try_iter()
            .filter(|seen| seen.way == Way::Up && is_asking(seen))
            .count()
    };
    let guid = Survey::take(&lab, OBSERVER).unwrap();
    let guid = guid
        .lids()
        .into_iter()
        .find(|(_, lid)| *lid == lid_of(&lab, OBSERVER))
        .unwrap()
        .0;
    answered(&join(guid), Status::OK);
    let mark = state.join("registrations.unstored");
    until("the store", LIMIT, String::new, || Ok((!mark.exists()).then_some(()))).unwrap();
    assert!(asked() > 0, "the first start on an empty folder asks");
    let sets = relay.sent().subnet_sets();
    drop(ours.take()); // SIGKILL
    ours = start();
    answered(&members(), Status::OK);
    assert_eq!((asked(), relay.sent().subnet_sets() - sets), (0, 0), "all was known");
    // The next one is killed before it has stored what it answered.
    std::fs::write(&mark, "").unwrap();
    drop(ours.take());
    ours = start();
    until("hosts to be asked", LIMIT, String::new, || {
        Ok((asked() > 0).then_some(()))
    })
    .unwrap();
    answered(&members(), Status::OK);
    drop(ours);
}

/// IPoIB's broadcast group of the default partition.
const IPOIB: u128 = 0xFF12_401B_FFFF_0000_0000_0000_FFFF_FFFF;

/// MCMemberRecord: the port with a GUID makes the group and is its first member.
fn join(guid: Guid) -> Mad {
    use member as f;
    let mut mad = Mad::request(Class::SubnAdm, Method::Set, records::MEMBER.id, 0);
    let gid = 0xFE80_u128 << 112 | u128::from(guid.0);
    let mut mask = f::MGID.mask() | f::PORT_GID.mask();
    f::MGID.put(mad.sa_data_mut(), &IPOIB.to_be_bytes());
    f::PORT_GID.put(mad.sa_data_mut(), &gid.to_be_bytes());
    for (field, value) in [
        (f::JOIN_STATE, 1),
        (f::QKEY, 0xB1B),
        (f::PKEY, 0xFFFF),
        (f::TRAFFIC_CLASS, 0),
        (f::SL, 0),
        (f::FLOW_LABEL, 0),
    ] {
        mask |= field.mask();
        field.set(mad.sa_data_mut(), value);
    }
    mad.set_component_mask(mask);
    mad
}

/// Asks for that group.
fn members() -> Mad {
    let mut mad = Mad::request(Class::SubnAdm, Method::Get, records::MEMBER.id, 0);
    mad.set_component_mask(member::MGID.mask());
    member::MGID.put(mad.sa_data_mut(), &IPOIB.to_be_bytes());
    mad
}
