//! A manager on the emulated fabric, in real time, through the same doors as the command line.
use std::sync::Arc;
use std::time::{Duration, Instant};

use selvedge_api::FaultRequest;
use selvedge_daemon::record::{read, replay};
use selvedge_daemon::{Door, EmulationOptions, Options, Running, Service, Until, start};
use selvedge_fabric::Fabric;
use selvedge_sm::{Mode, Role};
use selvedge_topology::Spec;
use selvedge_types::PortState;

/// Longest time to wait for anything here.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn fabric(spec: &str) -> Arc<Fabric> {
    match spec.parse().unwrap() {
        Spec::Generated(recipe) => Arc::new(recipe.fabric().unwrap()),
        Spec::File(_) => unreachable!("generators only"),
    }
}

pub(crate) fn options(mode: Mode, spec: &str) -> Options {
    let door = Door::Emulated {
        fabric: fabric(spec),
        options: EmulationOptions::default(),
        name: spec.to_owned(),
    };
    Options::new(mode, door)
}

pub(crate) fn wait_for<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(value) = found() {
            return value;
        }
        assert!(start.elapsed() < PATIENCE, "no {what} after {PATIENCE:?}");
        std::thread::yield_now();
    }
}

pub(crate) fn stop(running: Running) {
    running.manager.stop();
    running.join().unwrap();
}

#[test]
fn a_fabric_comes_up_once() {
    let running = start(Options {
        until: Until::Idle,
        ..options(Mode::Manage, "sx6536")
    })
    .unwrap();
    let manager = running.manager.clone();
    let view = running.join().unwrap();
    assert!(view.is_up());
    let status = manager.status().unwrap();
    assert!(status.up);
    let fabric = status.fabric.unwrap();
    assert_eq!((fabric.switches, fabric.hosts, fabric.links), (27, 324, 648));
    assert_eq!(fabric.links_active, 648, "{fabric:?}");
    assert_eq!(status.judged_ok, Some(true));
    assert!(manager.findings().unwrap().ok);
    assert!(
        manager
            .events(0)
            .events
            .iter()
            .any(|event| event.text.starts_with("SUBNET UP"))
    );
}

#[test]
fn a_cut_link_is_routed_around_and_comes_back() {
    let running = start(options(Mode::Manage, "karytree:k=3,n=2")).unwrap();
    let manager = &running.manager;
    let up_since = |since: u64| {
        let events = manager.events(since).events;
        events
            .iter()
            .any(|event| event.text.starts_with("SUBNET UP"))
            .then_some(())
    };
    // A fault that comes sooner is found by a sweep. The state is shown before its events.
    wait_for("repairs", || manager.status().unwrap().repairs_ready.then_some(()));
    wait_for("first plan", || up_since(0));
    let before = manager.links().unwrap();
    let cable = before
        .links
        .iter()
        .find(|l| l.a.node_name.starts_with('S') && l.b.node_name.starts_with('S'));
    let cable = cable.unwrap_or_else(|| panic!("no cable between switches: {:?}", before.links[0]));
    let port = format!("\"{}\"[{}]", cable.a.node_name, cable.a.port);
    let fault = |what: &str| {
        let request = FaultRequest {
            fault: format!("{what} {port}"),
        };
        manager.fault(&request).unwrap()
    };
    let cut = fault("cut");
    assert_eq!(cut.done, format!("cut {port}"));
    let active = || {
        let links = manager.links().unwrap().links;
        let is_active = |state| state == Some(PortState::Active);
        links
            .iter()
            .filter(|l| is_active(l.state_a) && is_active(l.state_b))
            .count()
    };
    // The cable is known and down.
    wait_for("plan around the cut", || {
        up_since(cut.events_since).filter(|()| active() == before.links.len() - 1)
    });
    let of_code = |code: &str| {
        let events = manager.events(cut.events_since).events;
        events.into_iter().find(|event| event.code == code)
    };
    // Each event has its own time, and a condition is reported after its cause.
    let missing = wait_for("condition", || of_code("SLV-DAEMON-0140"));
    let [trap, lost, up] = ["SLV-SM-0016", "SLV-SM-0020", "SLV-SM-0007"].map(|code| of_code(code).unwrap());
    assert!(trap.uptime_ns < up.uptime_ns, "{trap:?} {up:?}");
    assert!(lost.number < missing.number, "{lost:?} {missing:?}");
    let restored = fault("restore");
    wait_for("plan with the cable", || {
        up_since(restored.events_since).filter(|()| active() == before.links.len())
    });
    let wrong = FaultRequest {
        fault: "cut nobody[1]".to_owned(),
    };
    assert_eq!(manager.fault(&wrong).unwrap_err().code, "SLV-EMU-0004");
    stop(running);
}

#[test]
fn a_dry_run_sends_no_set() {
    let running = start(Options {
        until: Until::Idle,
        ..options(Mode::DryRun, "karytree:k=3,n=2")
    })
    .unwrap();
    let view = running.join().unwrap();
    assert!(view.plan.is_some());
    assert_eq!(view.mads.sets, 0);
    assert_eq!(view.role, Role::NotActive);
}

#[test]
fn a_record_replays_to_the_same_outputs() {
    let path = std::env::temp_dir().join(format!("selvedge-record-{}", std::process::id()));
    let running = start(Options {
        until: Until::Idle,
        record: Some(path.clone()),
        ..options(Mode::Manage, "mport:m=4,n=2")
    })
    .unwrap();
    assert!(running.join().unwrap().is_up());
    let mut record = read(&path).unwrap();
    std::fs::remove_file(path).unwrap();
    assert!(record.entries.len() > 100);
    assert_eq!(replay(&record), None);
    // An input that never came makes a difference, so the comparison is real.
    record.entries.remove(3);
    assert!(replay(&record).is_some());
}
