//! Registrations of hosts outlive their manager: a restart with the same state folder, and a take-over from Selvedge or
//! OpenSM by another manager.

use std::path::PathBuf;
use std::sync::mpsc::Receiver;

use selvedge_conformance::{HeavyLock, OpenSmOptions, PeerLab, Probe, Relay, Running, Seen, Survey, until};
use selvedge_transport::ibsim::Way;
use selvedge_types::Guid;

use crate::support::{LIMIT, emulate, fault, lid_of, port, wait_sm_state};
use selvedge_wire::sa::records::{self, member};
use selvedge_wire::{AttributeId, Class, Mad, Method, PortInfo, Status};

const SPEC: &str = "mport:m=4,n=2";
/// The hosts of the two managers.
const SEATS: [&str; 2] = ["H-0", "H-7"];
/// The host at which the diagnostics run. It also joins a group.
const OBSERVER: &str = "H-3";

/// A manager that is restarted with the same state folder sets nothing, asks no host to register again, and knows the
/// members. A manager that was killed before it wrote the state folder asks every host to register again.
#[test]
fn what_hosts_registered_outlives_a_kill() {
    let _heavy = HeavyLock::acquire().unwrap();
    let lab = PeerLab::new().unwrap();
    let _simulator = emulate(&lab, SPEC);
    let (observer, seen) = std::sync::mpsc::channel();
    let state = lab.folder().join("state");
    // A relay of its own for each process: the simulator learns of an end when it writes to the client.
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
    let mark = state.join("registrations.stored");
    // Its tree comes after the answer, and is the next one's to write if it has not.
    let asked = std::cell::Cell::new(0);
    until("the tree of the group", LIMIT, String::new, || {
        let (sent, asking) = sets(&seen);
        asked.set(asked.get() + asking);
        let is_tree = |of: &(AttributeId, u32)| of.0 == AttributeId::MULTICAST_FORWARDING;
        Ok(sent.iter().any(is_tree).then_some(()))
    })
    .unwrap();
    assert!(asked.get() > 0, "the first start on an empty folder asks");
    // On a busy machine answers may come so late that hosts are missed and found again, which is stored as well.
    until("the store", LIMIT, String::new, || Ok(mark.exists().then_some(()))).unwrap();
    drop(ours); // SIGKILL
    wait_for(&members(), None);
    let ours = start();
    wait_for(&members(), Some(Status::OK));
    assert_eq!(sets(&seen), (Vec::new(), 0), "all was known");
    // The next one is killed before it has stored the registration that it confirmed.
    drop(ours);
    std::fs::remove_file(&mark).unwrap();
    wait_for(&members(), None);
    let ours = start();
    wait_for(&members(), Some(Status::OK));
    until("hosts to be asked", LIMIT, String::new, || {
        Ok((sets(&seen).1 > 0).then_some(()))
    })
    .unwrap();
    drop(ours);
}

/// Returns the SubnSets that a manager has sent since the last call, by attribute and modifier, and how many of them
/// ask a host to register again.
fn sets(seen: &Receiver<Seen>) -> (Vec<(AttributeId, u32)>, usize) {
    let sent = seen.try_iter().filter(|seen| seen.way == Way::Up);
    let sent = sent.filter(|seen| seen.packet.mad.class().is_smp() && seen.packet.mad.method() == Method::Set);
    let asks = |mad: &Mad| {
        let info = mad.read::<PortInfo>();
        mad.attribute() == AttributeId::PORT_INFO && info.is_ok_and(|info| info.client_reregister)
    };
    sent.fold((Vec::new(), 0), |(mut all, asking), seen| {
        let mad = &seen.packet.mad;
        all.push((mad.attribute(), mad.modifier()));
        (all, asking + usize::from(asks(mad)))
    })
}

/// A Selvedge manager with a state folder of its own, behind a relay with an observer.
struct Ours {
    process: Running,
    seen: Receiver<Seen>,
    _relay: Relay,
    state: PathBuf,
    log: PathBuf,
}

impl Ours {
    fn start(lab: &PeerLab, seat: usize, priority: &str) -> Self {
        Self::start_with(lab, seat, priority, &[])
    }

    fn start_with(lab: &PeerLab, seat: usize, priority: &str, more: &[&str]) -> Self {
        let (observer, seen) = std::sync::mpsc::channel();
        let relay = lab.observed_relay(observer).unwrap();
        let state = lab.folder().join(format!("state-{seat}"));
        let port = port(relay.base(), SEATS[seat]);
        let log = lab.folder().join(format!("log-{seat}"));
        let [folder, log_text] = [&state, &log].map(|path| path.to_str().unwrap());
        let arguments = ["run", "--port", &port, "--state", folder, "--priority", priority];
        let arguments = [&arguments[..], &["--log-file", log_text], more].concat();
        Self {
            process: lab.start_daemon(&arguments).unwrap(),
            seen,
            _relay: relay,
            state,
            log,
        }
    }

    /// Waits until the manager's state folder has this number of members of groups.
    fn wait_members(&self, want: usize) {
        let file = self.state.join("registrations.txt");
        let text = || std::fs::read_to_string(&file).unwrap_or_default();
        let members = || text().lines().filter(|line| line.starts_with("member ")).count();
        until("what hosts registered to be stored", LIMIT, text, || {
            Ok((members() == want).then_some(()))
        })
        .unwrap();
    }

    /// Returns the manager's log.
    fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Waits until the log, from position `since` on, shows that entries have changed and that the manager is idle.
    /// (Between two steps of a change the manager may wait for seconds.)
    fn wait_changed(&self, since: usize) {
        let last = |text: &str, codes: &[&str]| codes.iter().filter_map(|code| text.rfind(code)).max();
        let is_done = |text: &str| {
            let ended = last(text, &["SLV-SM-0007", "SLV-DAEMON-0107"]);
            let begun = last(text, &["SLV-SM-0001", "SLV-SM-0016", "SLV-SM-0030"]);
            text.contains("SLV-DAEMON-0107") && ended > begun
        };
        let new = || self.log().get(since..).unwrap_or_default().to_owned();
        until("the repair", LIMIT, new, || Ok(is_done(&new()).then_some(()))).unwrap();
    }

    /// Waits until the manager has asked hosts to register again.
    fn wait_asked(&self, who: &str) {
        let what = format!("{who} to ask hosts");
        until(&what, LIMIT, String::new, || Ok((sets(&self.seen).1 > 0).then_some(()))).unwrap();
    }
}

/// Waits until the ports of the two managers and of the observer have LIDs; returns these.
fn lids(lab: &PeerLab) -> [u16; 3] {
    until("LIDs", LIMIT, String::new, || {
        let lids = [SEATS[0], SEATS[1], OBSERVER].map(|node| lid_of(lab, node));
        Ok((!lids.contains(&0)).then_some(lids))
    })
    .unwrap()
}

/// Repeats a request to an administrator until the answer has the status `want`.
fn wait_for(probe: &mut Probe, lid: u16, mad: &Mad, want: Option<Status>) {
    let last = std::cell::Cell::new(None);
    let said = || format!("{:?}", last.get());
    until("the administrator's answer", LIMIT, said, || {
        last.set(probe.administration(lid, *mad).unwrap().map(|mad| mad.status()));
        Ok((last.get() == want).then_some(()))
    })
    .unwrap();
}

/// Returns the GUID of the port that has a LID.
fn guid_of(lab: &PeerLab, lid: u16) -> Guid {
    let survey = Survey::take(lab, OBSERVER).unwrap();
    survey.lids().into_iter().find(|&(_, of)| of == lid).unwrap().0
}

/// Cuts and restores a link. The manager must send Sets, but none that asks a host to register again.
fn flap(lab: &PeerLab, seen: &Receiver<Seen>) {
    let _ = sets(seen);
    for verb in ["cut", "restore"] {
        fault(lab, &format!("{verb} \"S-L1-1\"[3]"));
        let count = std::cell::Cell::new(0);
        until("the link's Sets", LIMIT, String::new, || {
            let (all, asking) = sets(seen);
            assert_eq!(asking, 0, "nothing is lost by a link");
            count.set(count.get() + all.len());
            Ok((count.get() > 0).then_some(()))
        })
        .unwrap();
    }
}

/// With two Selvedge managers, the standby knows the registrations of hosts. When it takes over, it asks no host to
/// register again, unless something was registered in the last moment that it could not copy. Links that fail and come
/// back never cause a request to register again.
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
    assert_eq!(sets(&second.seen), (Vec::new(), 0), "who stands by sets nothing");
    drop(first); // SIGKILL
    wait_sm_state(&lab, OBSERVER, second_lid, "SMINFO_MASTER");
    wait_for(&mut probe, second_lid, &members(), Some(Status::OK));
    assert_eq!(sets(&second.seen).1, 0, "all was copied");
    flap(&lab, &second.seen);
    // The better one comes back, on an empty folder: it lets itself be given the subnet when it has copied everything.
    std::fs::remove_dir_all(lab.folder().join("state-0")).unwrap();
    let first = Ours::start(&lab, 0, "5");
    wait_sm_state(&lab, OBSERVER, first_lid, "SMINFO_MASTER");
    wait_sm_state(&lab, OBSERVER, second_lid, "SMINFO_STANDBY");
    wait_for(&mut probe, first_lid, &members(), Some(Status::OK));
    assert_eq!(sets(&first.seen).1, 0, "all was copied before");
    second.wait_members(1);
    let _ = sets(&second.seen);
    // The standby is stopped; a second host joins, and is answered; the master dies.
    second.process.signal("STOP").unwrap();
    let mut other = Probe::open(lab.base(), "H-5").unwrap();
    let late = join(guid_of(&lab, lid_of(&lab, "H-5")));
    wait_for(&mut other, first_lid, &late, Some(Status::OK));
    drop(first);
    second.process.signal("CONT").unwrap();
    second.wait_asked("the second, which has not copied what was registered last,");
    wait_for(&mut probe, second_lid, &members(), Some(Status::OK));
}

/// With OpenSM as master, the standby is not told when something is registered. After the take-over it uses its copy,
/// and always asks the hosts to register again.
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
    assert_eq!(sets(&ours.seen), (Vec::new(), 0), "who stands by sets nothing");
    drop(opensm); // SIGKILL
    wait_sm_state(&lab, OBSERVER, second_lid, "SMINFO_MASTER");
    wait_for(&mut probe, second_lid, &members(), Some(Status::OK));
    ours.wait_asked("ours, which cannot know what was registered last,");
    ours.wait_members(1);
}

/// Waits until the administrator answers with a path from `from` to each LID in `to`. Returns the service levels of
/// these paths.
fn all_levels(probe: &mut Probe, sa: u16, from: u16, to: &[u16]) -> Vec<Option<u64>> {
    until("the administrator's answers", LIMIT, String::new, || {
        let now = levels(probe, sa, from, to);
        Ok(now.iter().all(Option::is_some).then_some(now))
    })
    .unwrap()
}

/// Returns the service level of the path from `from` to each LID in `to`, as the administrator answers; `None` where it
/// gives no path.
fn levels(probe: &mut Probe, sa: u16, from: u16, to: &[u16]) -> Vec<Option<u64>> {
    use records::path as f;
    let level = |lid: &u16| {
        let mut mad = Mad::request(Class::SubnAdm, Method::Get, records::PATH.id, 0);
        mad.set_component_mask(f::SLID.mask() | f::DLID.mask());
        f::SLID.set(mad.sa_data_mut(), u64::from(from));
        f::DLID.set(mad.sa_data_mut(), u64::from(*lid));
        let told = probe.administration(sa, mad).unwrap();
        told.filter(|mad| mad.status() == Status::OK)
            .map(|mad| f::SL.get(mad.sa_data()))
    };
    to.iter().map(level).collect()
}

/// Returns the service level of IPoIB's group from the answer to a host that joins the group, or has joined it. The
/// request is repeated until it is answered: the answer to a join may wait for a standby, and a busy machine is slow.
fn joined_level(probe: &mut Probe, sa: u16, guid: Guid) -> u64 {
    let mut mad = join(guid);
    mad.set_component_mask(member::MGID.mask() | member::PORT_GID.mask() | member::JOIN_STATE.mask());
    until("the answer to a join", LIMIT, String::new, || {
        let told = probe.administration(sa, mad)?;
        let told = told.filter(|mad| mad.status() == Status::OK);
        Ok(told.map(|mad| member::SL.get(mad.sa_data())))
    })
    .unwrap()
}

/// A host joins IPoIB's group without giving a service level. It gets the level that the agents' SLtoVL tables map to
/// the lane reserved for multicast. Every other level uses the lanes of unicast routes.
fn joins_on_its_own_lane(lab: &PeerLab, probe: &mut Probe, (ours, sa): (&Ours, u16), host: Guid) {
    let _ = sets(&ours.seen);
    assert_eq!(joined_level(probe, sa, host), 14);
    let lid = lid_of(lab, "S-1-1").to_string();
    let rows = lab.output(OBSERVER, "smpquery", &["sl2vl", &lid, "1"]).unwrap();
    let row = |line: &str| line.split('|').filter_map(|cell| cell.trim().parse().ok()).collect();
    let rows: Vec<Vec<u8>> = rows
        .lines()
        .filter(|line| line.contains("ports: in"))
        .map(row)
        .collect();
    let want: Vec<u8> = (0..16).map(|sl| if sl == 14 { 4 } else { sl % 4 }).collect();
    assert!(rows.iter().filter(|row| **row == want).count() >= 4, "{rows:?}");
    until("the switch that copies to it", LIMIT, String::new, || {
        Ok((!sets(&ours.seen).0.is_empty()).then_some(()))
    })
    .unwrap();
}

/// Routes that need service levels: a manager that takes over or is restarted gives senders the same levels and changes
/// no entry, although an engine that plans from scratch would.
#[test]
fn what_senders_were_told_outlives_a_kill_and_a_take_over() {
    const RELIES: [&str; 5] = ["-R", "weave", "--lanes", "4", "--assume-sl-aware"];
    let _heavy = HeavyLock::acquire().unwrap();
    let lab = PeerLab::new().unwrap();
    let _simulator = emulate(&lab, "torus:4x4,hosts=1");
    let start = |seat, priority| Ours::start_with(&lab, seat, priority, &RELIES);
    let first = start(0, "5");
    first.wait_asked("the first, whose folder is empty,");
    let [first_lid, second_lid, own] = lids(&lab);
    wait_sm_state(&lab, OBSERVER, first_lid, "SMINFO_MASTER");
    let mut probe = Probe::open(lab.base(), OBSERVER).unwrap();
    // A fault leaves routes that weave would not make, and they are not rebalanced so soon.
    let since = first.log().len();
    fault(&lab, "cut \"S-0-1\"[3]");
    first.wait_changed(since);
    let settled = lab.folder().join("state-0/plan-state.toml");
    let text = || std::fs::read_to_string(&settled).unwrap_or_default();
    let is_stored = || Ok(text().contains("lane_count = 4").then_some(()));
    until("the lanes to be stored", LIMIT, text, is_stored).unwrap();
    let mark = lab.folder().join("state-0/registrations.stored");
    until("the store", LIMIT, String::new, || Ok(mark.exists().then_some(()))).unwrap();
    let before = Survey::take(&lab, OBSERVER).unwrap();
    let ends: Vec<u16> = before.lids().into_values().collect();
    let told = all_levels(&mut probe, first_lid, own, &ends);
    assert!(told.iter().any(|level| *level > Some(0)), "{told:?}");
    let host = guid_of(&lab, own);
    joins_on_its_own_lane(&lab, &mut probe, (&first, first_lid), host);
    until("the store", LIMIT, String::new, || Ok(mark.exists().then_some(()))).unwrap();
    let mut is_same = |sa: u16, what: &str| {
        assert_eq!(all_levels(&mut probe, sa, own, &ends), told, "{what}");
        assert_eq!(joined_level(&mut probe, sa, host), 14, "{what}");
        let after = Survey::take(&lab, OBSERVER).unwrap();
        let exits = |survey: &Survey| -> Vec<_> { survey.tables.values().map(|table| table.exits.clone()).collect() };
        assert_eq!(exits(&after), exits(&before), "{what}");
    };
    drop(first); // SIGKILL
    let first = start(0, "5");
    is_same(first_lid, "a restart");
    assert_eq!(sets(&first.seen), (Vec::new(), 0), "all was known");
    let second = start(1, "1");
    // It shows STANDBY when its copy is complete, or after five seconds, which a busy machine may need.
    wait_sm_state(&lab, OBSERVER, second_lid, "SMINFO_STANDBY");
    second.wait_members(1);
    drop(first);
    wait_sm_state(&lab, OBSERVER, second_lid, "SMINFO_MASTER");
    is_same(second_lid, "a take-over");
    assert_eq!(sets(&second.seen).1, 0, "hosts had registered nothing else");
    let first = start(0, "5");
    wait_sm_state(&lab, OBSERVER, first_lid, "SMINFO_MASTER");
    is_same(first_lid, "the subnet handed over");
    drop((first, second));
}

/// IPoIB's broadcast group of the default partition.
const IPOIB: u128 = 0xFF12_401B_FFFF_0000_0000_0000_FFFF_FFFF;

/// Makes a request to set an MCMemberRecord: the port with this GUID creates the group and is its first member.
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

/// Makes a request for the members of IPoIB's group.
fn members() -> Mad {
    let mut mad = Mad::request(Class::SubnAdm, Method::Get, records::MEMBER.id, 0);
    mad.set_component_mask(member::MGID.mask());
    member::MGID.put(mad.sa_data_mut(), &IPOIB.to_be_bytes());
    mad
}
