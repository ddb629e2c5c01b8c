//! Handover and take-over between our manager and OpenSM: who starts first, who is better, who is killed by `kill -9`
//! and comes back. Each cell of the matrix is a test; with `--nocapture` it prints its rows of the table in
//! `docs/standby.md`.
//!
//! Whoever is better gets the subnet. No LID ever changes, and when ours takes over, no entry does either: what OpenSM
//! does to tables that it did not make is its own, and printed.

// Helpers of tests panic as tests do; clippy knows only functions marked #[test].
#![allow(clippy::unwrap_used)]

mod support;

use std::any::Any;
use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use selvedge_conformance::{HeavyLock, OpenSm, OpenSmOptions, PeerLab, Probe, Relay, Running, Seen, Survey, until};
use selvedge_transport::ibsim::Way;
use selvedge_types::Guid;
use selvedge_wire::sa::records::{self, member};
use selvedge_wire::{AttributeId, Class, Mad, Method, PortInfo, SmState, Status};
use support::{Fabric, LIMIT, emulate, fault, lid_of, port, wait_sm_state};

const SPEC: &str = "mport:m=4,n=2";
/// Where who starts first sits, and who comes second.
const SEATS: [&str; 2] = ["H-0", "H-7"];
/// From where is looked.
const OBSERVER: &str = "H-3";
/// Nothing is sent for so long: a change is done.
const QUIET: Duration = Duration::from_millis(400);

/// Whose simulator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum On {
    OurEmulator,
    Ibsim,
}

impl On {
    fn start(self, lab: &PeerLab) -> Box<dyn Any> {
        match self {
            Self::OurEmulator => Box::new(emulate(lab, SPEC)),
            Self::Ibsim => Box::new(lab.ibsim(&Fabric::new(lab, SPEC).text).unwrap()),
        }
    }
}

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
    /// What earlier lives sent.
    before: Sent,
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

    /// By SIGKILL. The simulator learns of it when it writes to the client, so nobody may stand in between.
    fn kill(&mut self, lab: &PeerLab) {
        self.process = None;
        self.before = self.sent();
        self.relay = lab.relay().unwrap();
    }

    /// SMPs beside what watches: a standby's polls and their answers.
    fn sent(&self) -> Sent {
        let counts = self.relay.sent();
        let is_watch = |attribute: u16| attribute == AttributeId::SM_INFO.code();
        let count = |is_meant: &dyn Fn(Method) -> bool| {
            counts.count(|kind| kind.class.is_smp() && is_meant(kind.method) && !is_watch(kind.attribute))
        };
        Sent {
            smps: self.before.smps + count(&|_| true),
            sets: self.before.sets + count(&|method| method == Method::Set),
        }
    }
}

/// What was sent by both.
#[derive(Clone, Copy, Default)]
struct Sent {
    smps: u64,
    sets: u64,
}

/// A cell of the matrix.
struct Cell {
    on: On,
    lab: PeerLab,
    _simulator: Box<dyn Any>,
    seats: [Seat; 2],
    /// Which of them is better.
    better: usize,
    probe: Probe,
    hosts: BTreeSet<u16>,
    before: Survey,
}

impl Cell {
    /// The first is master and all is up.
    fn new(on: On, first: Who, second: Who, better: usize) -> Self {
        let lab = PeerLab::new().unwrap();
        let simulator = on.start(&lab);
        let seat = |at: usize, who| Seat {
            who,
            node: SEATS[at],
            priority: if at == better { 10 } else { 5 },
            lid: 0,
            relay: lab.relay().unwrap(),
            before: Sent::default(),
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
            on,
            probe: Probe::open(lab.base(), OBSERVER).unwrap(),
            before: Survey::take(&lab, OBSERVER).unwrap(),
            lab,
            _simulator: simulator,
            seats,
            better,
            hosts: BTreeSet::new(),
        };
        cell.settle(0);
        cell.before = cell.look();
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

    fn sent(&self) -> Sent {
        let [a, b] = [self.seats[0].sent(), self.seats[1].sent()];
        Sent {
            smps: a.smps + b.smps,
            sets: a.sets + b.sets,
        }
    }

    /// The fabric as it is now, once every link is up: OpenSM takes links down whose lanes or MTU it changes.
    fn look(&self) -> Survey {
        until("all links to be ACTIVE", LIMIT, String::new, || {
            let survey = Survey::take(&self.lab, OBSERVER)?;
            let mut linked = survey.links.iter().filter(|line| line.peer.is_some());
            Ok(linked.all(|line| line.is_active()).then_some(survey))
        })
        .unwrap()
    }

    /// Does something after which `master` is to be master, and prints what it took.
    fn step(&mut self, what: &str, master: usize, act: impl FnOnce(&mut Self)) {
        let sent = self.sent();
        act(self);
        let took = self.wait(master, SmState::Master);
        self.settle(master);
        let after = self.look();
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
        self.before = after;
    }

    fn run(&mut self) {
        let (better, worse) = (self.better, 1 - self.better);
        let name = |cell: &Self, seat: usize| cell.seats[seat].who.to_string();
        let (first, good, bad) = (name(self, 0), name(self, better), name(self, worse));
        println!("| *{first} first, {good} better* | | | | | |");
        // A better OpenSM tells its master so by trap 144 and does nothing more until that is repressed; ibsim drops
        // every TrapRepress (observed with 0.12), so there it is master and never begins.
        let is_mute = self.on == On::Ibsim && self.seats[better].who == Who::OpenSm;
        if is_mute && first != good {
            return;
        }
        self.step("the second comes", better, |cell| {
            let lab = &cell.lab;
            cell.seats[1].start(lab);
            // A worse one takes its time to find the master and stand by.
            if better == 0 {
                cell.wait(1, SmState::Standby);
            }
        });
        self.wait(worse, SmState::Standby);
        self.step(&format!("{good} is killed"), worse, |cell| {
            let lab = &cell.lab;
            cell.seats[better].kill(lab);
        });
        if is_mute {
            return;
        }
        self.step(&format!("{good} comes back"), better, |cell| {
            let lab = &cell.lab;
            cell.seats[better].start(lab);
        });
        self.wait(worse, SmState::Standby);
        let sets = self.sent().sets;
        self.step(&format!("{bad} is killed and comes back"), better, |cell| {
            let lab = &cell.lab;
            cell.seats[worse].kill(lab);
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

/// On our emulator and on ibsim.
fn cell(first: Who, second: Who, better: usize) {
    let _heavy = HeavyLock::acquire().unwrap();
    for on in [On::OurEmulator, On::Ibsim] {
        println!("on {on:?}");
        Cell::new(on, first, second, better).run();
    }
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
    let state = lab.folder().join("state");
    // A relay of its own for each life: the simulator learns of an end when it writes to the client.
    let start = || {
        let relay = lab.observed_relay(observer.clone()).unwrap();
        let port = port(relay.base(), SEATS[0]);
        let arguments = ["run", "--port", &port, "--state", state.to_str().unwrap()];
        (lab.start_daemon(&arguments).unwrap(), relay)
    };
    let ours = start();
    until("the manager to give LIDs", LIMIT, String::new, || {
        Ok((lid_of(&lab, SEATS[0]) != 0 && lid_of(&lab, OBSERVER) != 0).then_some(()))
    })
    .unwrap();
    let lid = lid_of(&lab, SEATS[0]);
    let mut probe = Probe::open(lab.base(), OBSERVER).unwrap();
    let mut wait_for = |mad: &Mad, want: Option<Status>| wait_for(&mut probe, lid, mad, want);
    let guid = guid_of(&lab, lid_of(&lab, OBSERVER));
    wait_for(&join(guid), Some(Status::OK));
    let mark = state.join("registrations.unstored");
    until("the store", LIMIT, String::new, || Ok((!mark.exists()).then_some(()))).unwrap();
    assert!(sets(&seen).1 > 0, "the first start on an empty folder asks");
    drop(ours); // SIGKILL
    wait_for(&members(), None);
    let ours = start();
    wait_for(&members(), Some(Status::OK));
    assert_eq!(sets(&seen), (0, 0), "all was known");
    // The next one is killed before it has stored what it answered.
    drop(ours);
    std::fs::write(&mark, "").unwrap();
    wait_for(&members(), None);
    let ours = start();
    wait_for(&members(), Some(Status::OK));
    until("hosts to be asked", LIMIT, String::new, || {
        Ok((sets(&seen).1 > 0).then_some(()))
    })
    .unwrap();
    drop(ours);
}

/// SubnSets that a manager has sent since last looked, and those of them that ask a host to register again.
fn sets(seen: &Receiver<Seen>) -> (usize, usize) {
    let sent = seen.try_iter().filter(|seen| seen.way == Way::Up);
    let sent = sent.filter(|seen| seen.packet.mad.class().is_smp() && seen.packet.mad.method() == Method::Set);
    let asks = |mad: &Mad| {
        let info = mad.read::<PortInfo>();
        mad.attribute() == AttributeId::PORT_INFO && info.is_ok_and(|info| info.client_reregister)
    };
    sent.fold((0, 0), |(all, asking), seen| {
        (all + 1, asking + usize::from(asks(&seen.packet.mad)))
    })
}

/// A manager of ours with a state folder of its own, behind a relay that looks.
struct Ours {
    process: Running,
    seen: Receiver<Seen>,
    _relay: Relay,
    state: PathBuf,
}

impl Ours {
    fn start(lab: &PeerLab, seat: usize, priority: &str) -> Self {
        let (observer, seen) = std::sync::mpsc::channel();
        let relay = lab.observed_relay(observer).unwrap();
        let state = lab.folder().join(format!("state-{seat}"));
        let port = port(relay.base(), SEATS[seat]);
        let folder = state.to_str().unwrap();
        let arguments = ["run", "--port", &port, "--state", folder, "--priority", priority];
        Self {
            process: lab.start_daemon(&arguments).unwrap(),
            seen,
            _relay: relay,
            state,
        }
    }

    /// Waits until its folder says that so many ports are members of groups.
    fn wait_members(&self, want: usize) {
        let file = self.state.join("registrations.txt");
        let text = || std::fs::read_to_string(&file).unwrap_or_default();
        let members = || text().lines().filter(|line| line.starts_with("member ")).count();
        until("what hosts registered to be stored", LIMIT, text, || {
            Ok((members() == want).then_some(()))
        })
        .unwrap();
    }

    /// Waits until it has asked hosts to register again.
    fn wait_asked(&self, who: &str) {
        let what = format!("{who} to ask hosts");
        until(&what, LIMIT, String::new, || Ok((sets(&self.seen).1 > 0).then_some(()))).unwrap();
    }
}

/// LIDs of the two seats and of the observer, once they have some.
fn lids(lab: &PeerLab) -> [u16; 3] {
    until("LIDs", LIMIT, String::new, || {
        let lids = [SEATS[0], SEATS[1], OBSERVER].map(|node| lid_of(lab, node));
        Ok((!lids.contains(&0)).then_some(lids))
    })
    .unwrap()
}

/// Asks an administrator until it answers so.
fn wait_for(probe: &mut Probe, lid: u16, mad: &Mad, want: Option<Status>) {
    let last = std::cell::Cell::new(None);
    let said = || format!("{:?}", last.get());
    until("the administrator's answer", LIMIT, said, || {
        last.set(probe.administration(lid, *mad).unwrap().map(|mad| mad.status()));
        Ok((last.get() == want).then_some(()))
    })
    .unwrap();
}

/// GUID of the port that has a LID.
fn guid_of(lab: &PeerLab, lid: u16) -> Guid {
    let survey = Survey::take(lab, OBSERVER).unwrap();
    survey.lids().into_iter().find(|&(_, of)| of == lid).unwrap().0
}

/// A link goes and comes back: Sets, but none that asks.
fn flap(lab: &PeerLab, seen: &Receiver<Seen>) {
    let _ = sets(seen);
    for verb in ["cut", "restore"] {
        fault(lab, &format!("{verb} \"S-L1-1\"[3]"));
        let count = std::cell::Cell::new(0);
        until("the link's Sets", LIMIT, String::new, || {
            let (all, asking) = sets(seen);
            assert_eq!(asking, 0, "nothing is lost by a link");
            count.set(count.get() + all);
            Ok((count.get() > 0).then_some(()))
        })
        .unwrap();
    }
}

/// Two of ours. Who stands by knows what hosts have registered, and asks nobody when it takes over; unless something
/// was registered in the last moment that it could not copy. Links that go and come back ask nobody ever.
#[test]
fn a_standby_of_ours_takes_over_what_hosts_registered() {
    let _heavy = HeavyLock::acquire().unwrap();
    let lab = PeerLab::new().unwrap();
    let _simulator = emulate(&lab, SPEC);
    let first = Ours::start(&lab, 0, "5");
    first.wait_asked("the first, whose folder is empty,");
    let [first_lid, second_lid, own] = lids(&lab);
    wait_sm_state(&lab, OBSERVER, first_lid, "SMINFO_MASTER");
    let second = Ours::start(&lab, 1, "1");
    wait_sm_state(&lab, OBSERVER, second_lid, "SMINFO_STANDBY");
    let mut probe = Probe::open(lab.base(), OBSERVER).unwrap();
    wait_for(&mut probe, first_lid, &join(guid_of(&lab, own)), Some(Status::OK));
    flap(&lab, &first.seen);
    second.wait_members(1);
    assert_eq!(sets(&second.seen), (0, 0), "who stands by sets nothing");
    drop(first); // SIGKILL
    wait_sm_state(&lab, OBSERVER, second_lid, "SMINFO_MASTER");
    wait_for(&mut probe, second_lid, &members(), Some(Status::OK));
    assert_eq!(sets(&second.seen).1, 0, "all was copied");
    flap(&lab, &second.seen);
    // The better one comes back; it may have the subnet before it has copied anything.
    let first = Ours::start(&lab, 0, "5");
    wait_sm_state(&lab, OBSERVER, first_lid, "SMINFO_MASTER");
    wait_sm_state(&lab, OBSERVER, second_lid, "SMINFO_STANDBY");
    let joined = join(guid_of(&lab, own));
    wait_for(&mut probe, first_lid, &joined, Some(Status::OK));
    second.wait_members(1);
    let _ = sets(&second.seen);
    // Who stands by is stopped; a second host joins, and is answered; the master dies.
    second.process.signal("STOP").unwrap();
    let mut other = Probe::open(lab.base(), "H-5").unwrap();
    let late = join(guid_of(&lab, lid_of(&lab, "H-5")));
    wait_for(&mut other, first_lid, &late, Some(Status::OK));
    drop(first);
    second.process.signal("CONT").unwrap();
    second.wait_asked("the second, which has not copied what was registered last,");
    wait_for(&mut probe, second_lid, &members(), Some(Status::OK));
}

/// OpenSM as master does not tell what is registered when: what was copied is in force after the take-over, and hosts
/// are asked all the same.
#[test]
fn a_standby_of_ours_takes_over_what_hosts_registered_with_opensm() {
    let _heavy = HeavyLock::acquire().unwrap();
    let lab = PeerLab::new().unwrap();
    let _simulator = emulate(&lab, SPEC);
    let options = OpenSmOptions {
        lines: vec!["sm_priority 5".to_owned()],
        ..OpenSmOptions::default()
    };
    let opensm = lab.opensm(SEATS[0], &options).unwrap();
    let [first_lid, second_lid, own] = lids(&lab);
    wait_sm_state(&lab, OBSERVER, first_lid, "SMINFO_MASTER");
    let ours = Ours::start(&lab, 1, "1");
    wait_sm_state(&lab, OBSERVER, second_lid, "SMINFO_STANDBY");
    let mut probe = Probe::open(lab.base(), OBSERVER).unwrap();
    wait_for(&mut probe, first_lid, &join(guid_of(&lab, own)), Some(Status::OK));
    ours.wait_members(1);
    assert_eq!(sets(&ours.seen), (0, 0), "who stands by sets nothing");
    drop(opensm); // SIGKILL
    wait_sm_state(&lab, OBSERVER, second_lid, "SMINFO_MASTER");
    wait_for(&mut probe, second_lid, &members(), Some(Status::OK));
    ours.wait_asked("ours, which cannot know what was registered last,");
    ours.wait_members(1);
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
