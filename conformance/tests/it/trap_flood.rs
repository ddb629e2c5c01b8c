//! A host floods the manager with traps: a cut link is repaired and hosts are answered as without the flood.
//!
//! `cargo test -p selvedge-conformance --test it trap_flood -- --nocapture` prints the figures. Answer times depend on
//! the machine and are only checked with `SELVEDGE_QUIET_MACHINE=1`. `SELVEDGE_EACH_TRAP=1` adds a flood of each kind
//! of trap, which takes two minutes more.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use selvedge_conformance::{HeavyLock, PeerLab, until};
use selvedge_transport::ibsim::IbsimPort;
use selvedge_types::Lid;
use selvedge_wire::{
    Address, AttributeId, BadKey, BadMKey, Class, Datagram, LocalChange, Mad, MadPort, Method, Notice, PRODUCER_CA,
    SwitchBadPKey, Trap,
};

use crate::hostile_hosts::{path, told};
use crate::support::{LIMIT, emulate, lid_of, port};

const SPEC: &str = "mport:m=4,n=2";
const MASTER: &str = "H-0";
const FLOODER: &str = "H-5";
const OTHER: &str = "H-2";
const CABLE: &str = "\"S-L1-1\"[3]";
/// Traps a second: as many as in the report of a user.
const RATE: u64 = 14_000;
/// Number of cuts in each phase: the quiet one and the flood.
const CUTS: usize = 5;
/// Pause before a cut. After it no packet is in flight by old entries, so that a repair need not wait for such packets.
const REST: Duration = Duration::from_millis(2_700);
/// Largest number of log bytes a second during a flood.
const LOG_BYTES_PER_S: f64 = 10_000.0;
/// Largest factor by which a flood may slow down a repair.
const CUT_FACTOR: f64 = 3.0;
/// Time that is added to this limit on a machine where other tests run.
const CUT_MORE: Duration = Duration::from_millis(2);
/// Time by which the 99th percentile of SA answers may grow during a flood: the emulator handles one datagram after
/// another, and five threads share the processors.
const ANSWER_MORE: Duration = Duration::from_millis(1);

/// The figures of a phase.
struct Figures {
    cut: Duration,
    answer_p99: Duration,
    log_bytes_per_s: f64,
    per_s: f64,
}

/// Returns one trap of every number that an agent may send, and three invalid ones: an unknown number, a vendor's, and
/// a trap in another host's name.
fn traps(own: u16) -> Vec<(&'static str, Notice)> {
    let lid = Lid(own);
    let of = |trap: &Trap| Notice::new(PRODUCER_CA, lid, trap);
    let bad_m_key = BadMKey {
        lid,
        dr_slid: lid,
        method: 1,
        attribute: 0x15,
        modifier: 0,
        m_key: 7,
        directed: false,
        truncated: false,
        hop_count: 0,
        return_path: [0; 30],
    };
    let mut vendor = of(&Trap::LinkState { lid });
    vendor.source = selvedge_wire::NoticeSource::Vendor {
        vendor_id: 0x2C9,
        device_id: 9,
    };
    let mut unknown = of(&Trap::LinkState { lid });
    unknown.source = selvedge_wire::NoticeSource::Generic {
        producer: PRODUCER_CA,
        trap: 999,
    };
    let guid = selvedge_types::Guid(7);
    vec![
        ("128", of(&Trap::LinkState { lid })),
        ("129", of(&Trap::LinkIntegrity { lid, port: 1 })),
        ("130", of(&Trap::BufferOverrun { lid, port: 1 })),
        ("131", of(&Trap::FlowControl { lid, port: 1 })),
        (
            "144",
            of(&Trap::LocalChange(LocalChange {
                lid,
                ..LocalChange::default()
            })),
        ),
        ("145", of(&Trap::SystemImageGuid { lid, guid })),
        ("256", of(&Trap::BadMKey(bad_m_key))),
        ("257", of(&Trap::BadPKey(BadKey::default()))),
        ("258", of(&Trap::BadQKey(BadKey::default()))),
        ("259", of(&Trap::SwitchBadPKey(SwitchBadPKey::default()))),
        ("a vendor's", vendor),
        ("999", unknown),
    ]
}

/// Sends these traps in turn at [`RATE`], until `stop` is set. Counts them in `sent`.
fn flood(base: &str, to: u16, notices: &[Notice], (stop, sent): (&AtomicBool, &AtomicU64)) {
    let mut port = IbsimPort::open(base, FLOODER).unwrap();
    let address = Address::smi(Lid(to));
    let began = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        let due = (began.elapsed().as_secs_f64() * RATE as f64) as u64;
        while sent.load(Ordering::Relaxed) < due {
            let number = sent.fetch_add(1, Ordering::Relaxed);
            let mut mad = Mad::request(Class::SubnLid, Method::Trap, AttributeId::NOTICE, 0);
            mad.set_transaction(selvedge_types::TransactionId(number & 0xFFFF_FFFF));
            mad.write(&notices[number as usize % notices.len()]);
            // A trap that finds no room in the port is dropped.
            let _ = port.send(&Datagram { address, mad }, Duration::ZERO);
        }
        // Short, so that traps are spread evenly: a burst would wait for the emulator, which is one thread.
        while port.receive(Duration::from_micros(20)).unwrap().is_some() {}
    }
}

/// A fabric, its manager, and the test's probes.
struct Bench<'a> {
    lab: &'a PeerLab,
    log: PathBuf,
    sm: u16,
    other: u16,
}

/// Tells a thread of the test to end when the test goes on, or fails.
struct Stops<'a>(&'a AtomicBool);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Bench<'_> {
    fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    fn ups(&self) -> usize {
        self.log().matches("SUBNET UP").count()
    }

    /// Injects a fault without the start-up time of a process. Returns when the emulator has applied it.
    fn fault(&self, fault: &str) -> Instant {
        let folders = fs::read_dir(self.lab.folder()).unwrap();
        let mut sockets = folders.map(|entry| entry.unwrap().path().join("api.sock"));
        let socket = sockets.find(|path| path.exists()).unwrap();
        let body = format!("{{\"fault\":\"{}\"}}", fault.replace('"', "\\\""));
        let mut stream = UnixStream::connect(socket).unwrap();
        let head = "POST /api/v1/fault HTTP/1.1\r\nHost: selvedge\r\nConnection: close\r\n";
        let request = format!("{head}Content-Length: {}\r\n\r\n{body}", body.len());
        let since = Instant::now();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        since
    }

    /// Injects a fault. Returns the time until SUBNET UP.
    fn mended(&self, fault: &str) -> Duration {
        let before = self.ups();
        let since = self.fault(fault);
        let end = since + LIMIT;
        while self.ups() == before {
            assert!(Instant::now() < end, "{fault} is not mended: {}", self.log());
            thread::yield_now();
        }
        since.elapsed()
    }

    /// Cuts and restores a cable while a host requests paths.
    fn measure(&self, sent: &AtomicU64) -> Figures {
        let (began, bytes) = (Instant::now(), fs::metadata(&self.log).unwrap().len());
        let from = sent.load(Ordering::Relaxed);
        let is_over = AtomicBool::new(false);
        let (mut cuts, answers) = thread::scope(|scope| {
            let stops = Stops(&is_over);
            let asking = scope.spawn(|| self.ask(&is_over));
            let mut cuts = Vec::new();
            while cuts.len() < CUTS {
                thread::park_timeout(REST);
                cuts.push(self.mended(&format!("cut {CABLE}")));
                self.mended(&format!("restore {CABLE}"));
            }
            drop(stops);
            (cuts, asking.join().unwrap())
        });
        let took = began.elapsed().as_secs_f64();
        cuts.sort_unstable();
        let traps = sent.load(Ordering::Relaxed) - from;
        Figures {
            cut: cuts[cuts.len() / 2],
            answer_p99: answers[answers.len() * 99 / 100],
            log_bytes_per_s: (fs::metadata(&self.log).unwrap().len() - bytes) as f64 / took,
            per_s: traps as f64 / took,
        }
    }

    /// Requests paths until it is stopped. Returns the answer times, shortest first.
    fn ask(&self, is_over: &AtomicBool) -> Vec<Duration> {
        let mut client = IbsimPort::open(self.lab.base(), OTHER).unwrap();
        let (mut took, mut number) = (Vec::new(), 0);
        while !is_over.load(Ordering::Relaxed) {
            number += 1;
            let since = Instant::now();
            told(&mut client, Lid(self.sm), path(self.other, self.sm, number));
            took.push(since.elapsed());
            thread::park_timeout(Duration::from_millis(1));
        }
        took.sort_unstable();
        took
    }
}

fn print(what: &str, of: &Figures) {
    println!(
        "{what:>10}: {:6.0} traps/s, cut to SUBNET UP {:7.2} ms, answers p99 {:6.2} ms, log {:7.0} B/s",
        of.per_s,
        of.cut.as_secs_f64() * 1e3,
        of.answer_p99.as_secs_f64() * 1e3,
        of.log_bytes_per_s
    );
}

/// Compares a flood with the quiet phase: repair time, log size and, on a quiet machine, answer time.
fn assert_bounded(name: &str, of: &Figures, quiet: &Figures) {
    assert!(of.per_s > RATE as f64 / 4.0, "{name}: no flood");
    // The log of a quiet phase has events of cuts, too.
    let log_bytes_per_s = of.log_bytes_per_s - quiet.log_bytes_per_s;
    assert!(
        log_bytes_per_s <= LOG_BYTES_PER_S,
        "{name}: {log_bytes_per_s} B/s of log"
    );
    let (cut, answer) = (of.cut, of.answer_p99);
    let is_quiet = std::env::var_os("SELVEDGE_QUIET_MACHINE").is_some();
    let more = if is_quiet { Duration::ZERO } else { CUT_MORE };
    assert!(
        cut <= quiet.cut.mul_f64(CUT_FACTOR) + more,
        "{name}: {cut:?}, quiet {:?}",
        quiet.cut
    );
    if is_quiet {
        let most = quiet.answer_p99 + ANSWER_MORE;
        assert!(answer <= most, "{name}: {answer:?}, quiet {:?}", quiet.answer_p99);
    }
}

#[test]
fn a_flood_of_traps_delays_no_repair() {
    let _heavy = HeavyLock::acquire().unwrap();
    let lab = PeerLab::new().unwrap();
    let _emulator = emulate(&lab, SPEC);
    let log = lab.folder().join("manager.log");
    let socket = lab.folder().join("manager.sock");
    // The same cable goes down in each phase, more often than `flap_downs` allows.
    let config = lab.folder().join("no-quarantine.toml");
    fs::write(&config, "[routing]\nflap_downs = 0\n").unwrap();
    let seat = port(lab.base(), MASTER);
    let files = [
        "--config",
        config.to_str().unwrap(),
        "--log-file",
        log.to_str().unwrap(),
        "--socket",
        socket.to_str().unwrap(),
    ];
    let mut manager = lab
        .start_selvedge(&[&["run", "--port", &seat], &files[..]].concat())
        .unwrap();
    let text = || fs::read_to_string(&log).unwrap_or_default();
    until("SUBNET UP", LIMIT, text, || {
        Ok(text().contains("SUBNET UP").then_some(()))
    })
    .unwrap();
    let [sm, own, other] = [MASTER, FLOODER, OTHER].map(|node| lid_of(&lab, node));
    let bench = Bench {
        lab: &lab,
        log: log.clone(),
        sm,
        other,
    };
    let nothing = AtomicU64::new(0);
    // The first run warms up.
    bench.measure(&nothing);
    let quiet = bench.measure(&nothing);
    print("quiet", &quiet);
    let kinds = traps(own);
    let all: Vec<Notice> = kinds.iter().map(|(_, notice)| *notice).collect();
    // A trap that causes a sweep, a trap that is only reported, and all traps in turn.
    let is_each = std::env::var_os("SELVEDGE_EACH_TRAP").is_some();
    let kinds = kinds
        .iter()
        .filter(|(name, _)| is_each || ["144", "256"].contains(name));
    let mut floods: Vec<(&str, Vec<Notice>)> = kinds.map(|(name, notice)| (*name, vec![*notice])).collect();
    floods.push(("all in turn", all));
    for (name, notices) in floods {
        let (stop, sent) = (AtomicBool::new(false), AtomicU64::new(0));
        let of = thread::scope(|scope| {
            let _stops = Stops(&stop);
            scope.spawn(|| flood(lab.base(), sm, &notices, (&stop, &sent)));
            let of = bench.measure(&sent);
            // The verdict is degraded, because the link that is cut again and again flaps.
            let status = lab.selvedge(&["status", "--socket", socket.to_str().unwrap()]).unwrap();
            let status = status.stdout;
            let wanted = format!("LID {own} (\"{FLOODER}\"[1])");
            assert!(
                status.contains("babbles") && status.contains(&wanted),
                "{name}: {status}"
            );
            of
        });
        print(name, &of);
        assert_bounded(name, &of, &quiet);
    }
    manager.must_run().unwrap();
    assert!(text().contains("SLV-SM-0091"), "the babbling host is named");
}

#[test]
fn the_port_of_a_babbling_host_is_disabled_if_that_is_wanted() {
    let _heavy = HeavyLock::acquire().unwrap();
    let lab = PeerLab::new().unwrap();
    let _emulator = emulate(&lab, SPEC);
    let file = |name: &str| lab.folder().join(name).to_str().unwrap().to_owned();
    let (config, log) = (file("babble.toml"), file("manager.log"));
    fs::write(&config, "[manager]\ndisable_babbling_ports = true\n").unwrap();
    let seat = port(lab.base(), MASTER);
    let words = ["run", "--port", &seat, "--config", &config, "--log-file", &log];
    let mut manager = lab.start_selvedge(&words).unwrap();
    let text = || fs::read_to_string(&log).unwrap_or_default();
    let wait = |word: &str| until(word, LIMIT, text, || Ok(text().contains(word).then_some(()))).unwrap();
    wait("SUBNET UP");
    let [sm, own] = [MASTER, FLOODER].map(|node| lid_of(&lab, node));
    let state = |node: &str| lab.output(node, "smpquery", &["-D", "portinfo", "0"]).unwrap();
    assert!(state(FLOODER).contains("LinkUp"));
    let (stop, sent) = (AtomicBool::new(false), AtomicU64::new(0));
    let change = Trap::LocalChange(LocalChange::default());
    let notices = [Notice::new(PRODUCER_CA, Lid(own), &change)];
    thread::scope(|scope| {
        let _stops = Stops(&stop);
        scope.spawn(|| flood(lab.base(), sm, &notices, (&stop, &sent)));
        wait("SLV-SM-0093");
        // The repair follows. The babble ends, because traps of a disabled port do not arrive.
        wait("SLV-SM-0092");
    });
    assert!(!state(FLOODER).contains("LinkUp"), "{}", state(FLOODER));
    assert!(state(OTHER).contains("LinkUp"));
    manager.must_run().unwrap();
}
