//! Our emulator as a server of the ibsim protocol: managers die, foreign messages arrive, and the server itself dies.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::{Duration, Instant};

use selvedge_conformance::{HeavyLock, OpenSmOptions, PeerLab, Running, until};
use selvedge_transport::ibsim::SLOTS;
use selvedge_transport::ibsim::protocol::{CONTROL_LEN, Control, Kind};

use crate::support::{LIMIT, emulate, is_sm, lid_of, port, wait_sm_state};

const SPEC: &str = "mport:m=4,n=2";
const MASTER: &str = "H-0";
const OBSERVER: &str = "H-3";
/// A time longer than the emulator needs to notice a dead client (half a second).
const NOTICED: Duration = Duration::from_millis(1_500);

/// Starts our manager, and waits until it is master and answers the observer.
fn start(lab: &PeerLab, state: &str) -> (Running, u16) {
    let manager = lab
        .start_daemon(&["run", "--port", &port(lab.base(), MASTER), "--state", state])
        .unwrap();
    until("LIDs", LIMIT, String::new, || {
        Ok([MASTER, OBSERVER]
            .iter()
            .all(|node| lid_of(lab, node) != 0)
            .then_some(()))
    })
    .unwrap();
    let lid = lid_of(lab, MASTER);
    wait_sm_state(lab, OBSERVER, lid, "SMINFO_MASTER");
    (manager, lid)
}

/// A manager can send and receive if it starts at a port right after another manager there was killed by SIGKILL.
/// infiniband-diags check that before and after the emulator notices the dead client.
#[test]
fn a_manager_started_after_a_kill_is_not_deaf() {
    let _heavy = HeavyLock::acquire().unwrap();
    let lab = PeerLab::new().unwrap();
    let _emulator = emulate(&lab, SPEC);
    let state = lab.folder().join("state");
    let state = state.to_str().unwrap();
    for _ in 0..3 {
        let (killed, _) = start(&lab, state);
        drop(killed); // SIGKILL
    }
    let (mut manager, lid) = start(&lab, state);
    let end = Instant::now() + NOTICED;
    let mut rounds = 0;
    while Instant::now() < end || rounds == 0 {
        assert!(is_sm(&lab, MASTER), "the port's IsSM bit is cleared");
        let said = lab.output(OBSERVER, "sminfo", &[&lid.to_string()]).unwrap();
        assert!(said.contains("SMINFO_MASTER"), "{said}");
        manager.must_run().unwrap();
        rounds += 1;
    }
}

/// Messages that a foreign process sends under the names of clients have no effect: OpenSM and our manager continue.
#[test]
fn strangers_detach_nobody() {
    let _heavy = HeavyLock::acquire().unwrap();
    let lab = PeerLab::new().unwrap();
    let _emulator = emulate(&lab, SPEC);
    let mut opensm = lab.opensm(MASTER, &OpenSmOptions::default()).unwrap();
    opensm.wait_up(1, LIMIT).unwrap();
    let lid = lid_of(&lab, MASTER);
    wait_sm_state(&lab, OBSERVER, lid, "SMINFO_MASTER");
    let name = |end: &str| SocketAddr::from_abstract_name(format!("{}:{end}\0", lab.base())).unwrap();
    let stranger = UnixDatagram::bind_addr(&name("stranger")).unwrap();
    stranger.set_read_timeout(Some(LIMIT)).unwrap();
    stranger.connect_addr(&name("ctl")).unwrap();
    let mut refused = 0;
    for slot in 0..SLOTS as u32 {
        for message in [
            Control::new(Kind::SetIsSm, slot, &0_u32.to_ne_bytes()),
            Control::new(Kind::Disconnect, slot, &[]),
        ] {
            stranger.send(&message.emit()).unwrap();
            let mut answer = [0; CONTROL_LEN];
            stranger.recv(&mut answer).unwrap();
            let is_free = message.kind == Kind::Disconnect;
            let kind = Control::parse(&answer).unwrap().kind;
            assert!(kind == Kind::Error || is_free && kind == Kind::Disconnect, "{kind:?}");
            refused += usize::from(kind == Kind::Error && is_free);
        }
    }
    assert_eq!(refused, 1, "one client is attached, and stays");
    assert!(is_sm(&lab, MASTER));
    let said = lab.output(OBSERVER, "sminfo", &[&lid.to_string()]).unwrap();
    assert!(said.contains("SMINFO_MASTER"), "{said}");
    opensm.heavy_sweep().unwrap();
    opensm.wait_up(2, LIMIT).unwrap();
}

/// When their emulator dies, our master and our standby keep running and say that their ports are down. They end when
/// they are told to.
#[test]
fn managers_outlive_their_server() {
    let _heavy = HeavyLock::acquire().unwrap();
    let lab = PeerLab::new().unwrap();
    let emulator = emulate(&lab, SPEC);
    let state = lab.folder().join("state");
    let (master, _) = start(&lab, state.to_str().unwrap());
    let standby = lab
        .start_daemon(&["run", "--port", &port(lab.base(), OBSERVER), "--priority", "0"])
        .unwrap();
    let lid = lid_of(&lab, OBSERVER);
    wait_sm_state(&lab, "H-5", lid, "SMINFO_STANDBY");
    drop(emulator); // SIGKILL
    for mut manager in [master, standby] {
        let said = || manager.output_tail();
        until("a condition", LIMIT, said, || {
            Ok(said().contains("SLV-PORT-0002").then_some(()))
        })
        .unwrap();
        manager.must_run().unwrap();
        manager.signal("TERM").unwrap();
        manager.finish(LIMIT).unwrap().success().unwrap();
    }
}
