//! A host floods the administrator with all kinds of datagrams: other hosts are answered, faults are repaired, and the
//! manager names that host.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::{LIMIT, emulate, fault, lid_of, port};
use selvedge_conformance::{HeavyLock, PeerLab, until};
use selvedge_transport::ibsim::IbsimPort;
use selvedge_types::{Lid, Sl, TransactionId};
use selvedge_wire::sa::{Rmpp, RmppFlags, records};
use selvedge_wire::{Address, Arrival, Class, Datagram, Mad, MadPort, Method};

const SPEC: &str = "mport:m=4,n=2";
const MASTER: &str = "H-0";
const FLOODER: &str = "H-5";
const OTHER: &str = "H-2";
/// A cable between switches of `SPEC`.
const CABLE: &str = "\"S-L1-1\"[3]";
/// Least number of queries from the host `OTHER`.
const QUESTIONS: u64 = 500;
/// Least number of datagrams in the flood: as many as one host may send here in twenty seconds.
const FLOOD: u64 = 20_000;

fn ask(method: Method, transaction: u64) -> Mad {
    let mut mad = Mad::request(Class::SubnAdm, method, records::PATH.id, 0);
    mad.set_transaction(TransactionId(transaction & 0xFFFF_FFFF));
    mad
}

pub fn path(from: u16, to: u16, transaction: u64) -> Mad {
    use records::path as f;
    let mut mad = ask(Method::Get, transaction);
    f::SLID.set(mad.sa_data_mut(), u64::from(from));
    f::DLID.set(mad.sa_data_mut(), u64::from(to));
    mad.set_component_mask(f::SLID.mask() | f::DLID.mask());
    mad
}

/// Makes one of the kinds of datagram that no host should send: `turn` selects the kind.
fn nasty(own: u16, turn: u64) -> Mad {
    match turn % 8 {
        0 | 1 => path(own, own, turn),
        // A mask without end.
        2 => {
            let mut mad = path(own, own, turn);
            mad.set_component_mask(u64::MAX);
            mad
        }
        // Another's key.
        3 => {
            let mut mad = path(own, own, turn);
            mad.set_sm_key(7);
            mad
        }
        // All pairs, never acknowledged.
        4 => ask(Method::GetTable, turn),
        // A question that announces four thousand million bytes.
        5 => {
            let mut mad = ask(Method::GetMulti, turn);
            mad.set_rmpp(Some(Rmpp::data(1, RmppFlags::ACTIVE.with(RmppFlags::FIRST), u32::MAX)));
            mad
        }
        // A window that goes backwards, of an answer that was never sent.
        6 => {
            let mut mad = ask(Method::GetTable, turn - 2);
            mad.set_rmpp(Some(Rmpp::ack(9, 3)));
            mad
        }
        _ => Mad::request(Class::SubnAdm, Method::from_code(0x7B), records::NODE.id, 0),
    }
}

/// Sends such datagrams until it is stopped, as fast as the emulator takes them (about a hundred thousand a second).
/// Counts them in `sent`.
fn flood(base: &str, own: u16, to: Lid, (stop, sent): (&AtomicBool, &AtomicU64)) {
    let mut port = IbsimPort::open(base, FLOODER).unwrap();
    let address = Address::gsi(to, Sl::default());
    while !stop.load(Ordering::Relaxed) {
        for _ in 0..16 {
            let mad = nasty(own, sent.load(Ordering::Relaxed));
            if port.send(&Datagram { address, mad }, Duration::ZERO).is_ok() {
                sent.fetch_add(1, Ordering::Relaxed);
            }
        }
        while port.receive(Duration::ZERO).unwrap().is_some() {}
    }
}

/// Requests a path until it gets one; returns how many answers were BUSY.
pub fn told(port: &mut IbsimPort, to: Lid, mad: Mad) -> u64 {
    let address = Address::gsi(to, Sl::default());
    let (end, mut busy) = (Instant::now() + LIMIT, 0);
    while Instant::now() < end {
        port.send(&Datagram { address, mad }, Duration::ZERO).unwrap();
        while let Some(arrival) = port.receive(Duration::from_millis(200)).unwrap() {
            let Arrival::Received(found) = arrival else { continue };
            if found.mad.transaction() != mad.transaction() {
                continue;
            }
            match found.mad.status().0 {
                0 => return busy,
                1 => busy += 1,
                other => panic!("status {other:#06x}: {}", found.mad),
            }
        }
    }
    panic!("no answer to {mad}");
}

/// Reads a number from the manager's status.
fn number(status: &str, key: &str) -> u64 {
    let (_, behind) = status
        .split_once(&format!("\"{key}\":"))
        .unwrap_or_else(|| panic!("{key} in {status}"));
    let digits: String = behind.trim_start().chars().take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap()
}

/// Returns the administrator's part of the manager's status.
fn administration(lab: &PeerLab, socket: &str) -> String {
    let status = lab.selvedge(&["status", "--json", "--socket", socket]).unwrap();
    let status = status.success().unwrap();
    status.split_once("\"administration\"").unwrap().1.to_owned()
}

/// Prints how long the host `OTHER` waited for its answers, for `docs/sa.md`.
fn print_times(per_s: f64, mut took: Vec<Duration>) {
    took.sort_unstable();
    let rank = |share: usize| took[(took.len() * share / 1_000).min(took.len() - 1)];
    println!(
        "{per_s:.0} datagrams a second; the other asked {} times: p50 {:?}, p99 {:?}, longest {:?}",
        took.len(),
        rank(500),
        rank(990),
        rank(1_000)
    );
}

#[test]
fn a_flood_from_one_host_starves_nobody() {
    let _heavy = HeavyLock::acquire().unwrap();
    let lab = PeerLab::new().unwrap();
    let _emulator = emulate(&lab, SPEC);
    let file = |name: &str| lab.folder().join(name).to_str().unwrap().to_owned();
    let (config, log, socket) = (file("limits.toml"), file("manager.log"), file("manager.sock"));
    fs::write(&config, "[sa]\nrate_per_s = 1000\nburst = 1000\n").unwrap();
    let seat = port(lab.base(), MASTER);
    let files = ["--config", &config, "--log-file", &log, "--socket", &socket];
    let words = [&["run", "--port", &seat], &files[..]].concat();
    let mut manager = lab.start_selvedge(&words).unwrap();
    let ups = || {
        fs::read_to_string(&log)
            .unwrap_or_default()
            .matches("SUBNET UP")
            .count()
    };
    let wait_up = |before: usize| {
        let what = || fs::read_to_string(&log).unwrap_or_default();
        until("SUBNET UP", LIMIT, what, || Ok((ups() > before).then_some(()))).unwrap();
    };
    wait_up(0);
    let [sm, own, other] = [MASTER, FLOODER, OTHER].map(|node| lid_of(&lab, node));
    let (stop, sent) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let flooder = thread::spawn({
        let (stop, sent, base) = (Arc::clone(&stop), Arc::clone(&sent), lab.base().to_owned());
        move || flood(&base, own, Lid(sm), (&stop, &sent))
    });
    let mut client = IbsimPort::open(lab.base(), OTHER).unwrap();
    let (mut busy, mut asked, mut took) = (0, 0, Vec::new());
    let began = Instant::now();
    let end = Instant::now() + LIMIT;
    while (asked < QUESTIONS || sent.load(Ordering::Relaxed) < FLOOD) && Instant::now() < end {
        asked += 1;
        // In the midst of it a cable is pulled and plugged in again: SMPs get their turn as well.
        if asked == QUESTIONS / 3 || asked == 2 * QUESTIONS / 3 {
            let (before, verb) = (ups(), if asked == QUESTIONS / 3 { "cut" } else { "restore" });
            fault(&lab, &format!("{verb} {CABLE}"));
            wait_up(before);
        }
        let since = Instant::now();
        busy += told(&mut client, Lid(sm), path(other, own, asked));
        took.push(since.elapsed());
        // A thousand a second are its own limit.
        thread::park_timeout(Duration::from_millis(2));
    }
    stop.store(true, Ordering::Relaxed);
    flooder.join().unwrap();
    let sent = sent.load(Ordering::Relaxed);
    print_times(sent as f64 / began.elapsed().as_secs_f64(), took);
    assert_eq!(busy, 0, "the other asked for little");
    manager.must_run().unwrap();
    let status = administration(&lab, &socket);
    let [received, limited, bad_key, refused] =
        ["received", "limited", "bad_key", "refused"].map(|key| number(&status, key));
    assert!(
        asked >= QUESTIONS && sent >= FLOOD && received > FLOOD / 4,
        "{asked} asked, {sent} sent: {status}"
    );
    assert!(limited > 0 && bad_key > 0 && refused > bad_key, "{status}");
    assert_eq!(number(&status, "most_limited"), u64::from(own), "{status}");
}
