//! A manager that samples counters of an emulated fabric, in real time.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use selvedge_api::{CounterQuery, FaultRequest, TelemetryClass, TelemetryPort, TelemetryState};
use selvedge_daemon::{Door, EmulationOptions, Manager, Options, Service, emulate, start};
use selvedge_sm::Mode;
use selvedge_telemetry::{Consumer, SlotData};
use selvedge_transport::PortSpec;
use selvedge_transport::ibsim::IbsimPort;
use selvedge_types::{Lid, Sl};
use selvedge_wire::{
    Address, Arrival, AttributeId, Class, Datagram, Mad, MadPort, Method, PortCountersExtended, Status,
};

use crate::emulated::{fabric, options, stop, wait_for};

/// Two leaves with three hosts each, three spines.
const FABRIC: &str = "karytree:k=3,n=2";

/// Base names of sockets are unique on a machine.
pub(crate) fn socket_name() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let next = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("slv-telemetry-{}-{next}", std::process::id())
}

pub(crate) fn every_second(mut options: Options) -> Options {
    let telemetry = &mut options.settings.telemetry;
    telemetry.interval = Duration::from_secs(1);
    telemetry.errors_interval = Duration::from_secs(1);
    telemetry.detail_interval = Some(Duration::from_secs(1));
    options
}

/// More words than the sampler's own requests and answers have in any of these tests, which counters count, too.
pub(crate) const MANY: u64 = 1_000_000_000;

/// An emulated fabric that other programs may attach to.
fn served(name: &str) -> Options {
    let options = Options::new(
        Mode::Manage,
        Door::Emulated {
            fabric: fabric(FABRIC),
            options: EmulationOptions {
                serve: Some(name.to_owned()),
                ..EmulationOptions::default()
            },
            name: FABRIC.to_owned(),
        },
    );
    every_second(options)
}

fn class(manager: &Manager, name: &str) -> TelemetryClass {
    let classes = manager.telemetry().unwrap().classes;
    classes.into_iter().find(|class| class.name == name).unwrap()
}

/// Waits for a slot of data that ends after now.
fn next_slot(manager: &Manager) -> TelemetryClass {
    let before = class(manager, "data").slots;
    // One may be half over.
    wait_for("slots", || {
        Some(class(manager, "data")).filter(|class| class.slots >= before + 2)
    })
}

pub(crate) fn port_of(manager: &Manager, node: &str, port: u8) -> TelemetryPort {
    let query = CounterQuery {
        node: Some(node.to_owned()),
        port: Some(port),
        counters: true,
        ..CounterQuery::default()
    };
    manager.counters(&query).unwrap().ports.remove(0)
}

fn total(port: &TelemetryPort, counter: &str) -> u64 {
    let found = port.counters.iter().find(|of| of.name == counter);
    found.unwrap_or_else(|| panic!("{counter} in {port:?}")).total
}

/// Writes PortXmitData of a port, as a tool beside the manager may.
pub(crate) fn write_counter(tool: &mut IbsimPort, lid: u16, port: u8, words: u64) {
    let mut mad = Mad::request(Class::PerfMgt, Method::Set, AttributeId::PORT_COUNTERS_EXTENDED, 0);
    mad.write_gmp(&PortCountersExtended {
        port_select: port,
        counter_select: 1,
        xmit_data: words,
        ..PortCountersExtended::default()
    });
    let address = Address::gsi(Lid(lid), Sl::default());
    tool.send(&Datagram { address, mad }, Duration::from_secs(1)).unwrap();
    let answer = tool.receive(Duration::from_secs(10)).unwrap();
    let Some(Arrival::Received(answer)) = answer else {
        panic!("{answer:?}");
    };
    assert_eq!(answer.mad.status(), Status::OK);
}

#[test]
fn every_port_is_sampled_out_of_the_box() {
    let running = start(every_second(options(Mode::Manage, FABRIC))).unwrap();
    let manager = &running.manager;
    next_slot(manager);
    let telemetry = manager.telemetry().unwrap();
    assert_eq!(telemetry.state, TelemetryState::Sampling);
    let fabric = manager.status().unwrap().fabric.unwrap();
    assert_eq!(telemetry.ports_up, 2 * fabric.links_active);
    let last = class(manager, "data").last.unwrap();
    assert_eq!((last.read, last.missing), (telemetry.ports_up, 0), "{telemetry:?}");
    assert_eq!(telemetry.requests.timeouts, 0);
    let ports = manager.counters(&CounterQuery::default()).unwrap();
    let up = ports.ports.iter().filter(|port| port.rate.is_some());
    // The newest sample may be that of the errors class, by the sum of all ports of a switch.
    let is_known = |how: &str| how == "read" || how == "unchanged";
    assert!(
        up.clone()
            .all(|port| port.how.as_deref().is_some_and(is_known) && port.xmit_bytes_per_s.is_some())
    );
    assert_eq!(up.count() as u64, telemetry.ports_up);
    stop(running);
}

#[test]
fn counters_that_move_are_shown_as_totals_and_rates() {
    let name = socket_name();
    let running = start(served(&name)).unwrap();
    let manager = &running.manager;
    next_slot(manager);
    let host = port_of(manager, "H-1", 1);
    assert!(
        total(&host, "PortXmitData") < MANY && host.xmit_bytes_per_s < Some(MANY),
        "{host:?}"
    );
    let mut tool = IbsimPort::open(&name, "H-2").unwrap();
    write_counter(&mut tool, host.lid, 1, MANY);
    let moved = wait_for("totals", || {
        Some(port_of(manager, "H-1", 1)).filter(|port| total(port, "PortXmitData") >= MANY)
    });
    assert!(total(&moved, "PortXmitData") < 2 * MANY, "{moved:?}");
    // A rate is that of the last slot, so it is seen until the next one only.
    let busiest = || {
        let query = CounterQuery {
            by: Some("xmit".to_owned()),
            limit: Some(1),
            ..CounterQuery::default()
        };
        let top = manager.counters(&query).unwrap().ports.remove(0);
        (top.xmit_bytes_per_s > Some(MANY / 100)).then_some(top)
    };
    let top = wait_for("load", || {
        let now = total(&port_of(manager, "H-1", 1), "PortXmitData");
        write_counter(&mut tool, host.lid, 1, now + MANY / 100);
        let slots = class(manager, "data").slots;
        while class(manager, "data").slots <= slots + 1 {
            if let Some(top) = busiest() {
                return Some(top);
            }
            std::thread::yield_now();
        }
        None
    });
    assert_eq!((top.node_name.as_str(), top.port), ("H-1", 1));
    stop(running);
}

#[test]
fn a_silent_host_delays_no_other() {
    let mut options = every_second(options(Mode::Manage, FABRIC));
    options.settings.telemetry.detail_interval = None;
    let running = start(options).unwrap();
    let manager = &running.manager;
    next_slot(manager);
    let fault = "hang H-4".to_owned();
    manager.fault(&FaultRequest { fault }).unwrap();
    wait_for("silent node", || {
        let silent = manager.telemetry().unwrap().silent;
        silent.iter().any(|node| node.node_name == "H-4").then_some(())
    });
    // It is left alone now: the slots end at once, with every other port.
    let last = next_slot(manager).last.unwrap();
    let up = manager.telemetry().unwrap().ports_up;
    assert_eq!((last.read, last.missing), (up - 1, 1), "{last:?}");
    assert!(last.took_us < 1_000_000, "{last:?}");
    let events = manager.events(0).events;
    let silent = events.iter().filter(|event| event.code == "SLV-TELEMETRY-0001");
    assert_eq!(silent.count(), 1);
    let healthy = port_of(manager, "H-3", 1);
    assert!(healthy.age_ms < Some(10_000), "{healthy:?}");
    stop(running);
}

/// Counts slots and samples.
#[derive(Clone, Default)]
struct Counting(Arc<Mutex<Vec<(u8, u64, usize)>>>);

impl Consumer for Counting {
    fn take(&mut self, slot: &SlotData) {
        let report = &slot.report;
        let counted = (report.class, report.slot.number, slot.samples.len());
        self.0.lock().unwrap().push(counted);
    }
}

#[test]
fn a_manager_that_was_killed_samples_on() {
    let name = socket_name();
    let door = EmulationOptions {
        serve: Some(name.clone()),
        ..EmulationOptions::default()
    };
    let emulated = emulate(&fabric(FABRIC), &door, 100, Box::new(selvedge_daemon::NoLog)).unwrap();
    let begin = |consumer: &Counting| {
        let port = PortSpec::Ibsim {
            base: name.clone(),
            node: "H-0".to_owned(),
        };
        let mut options = every_second(Options::new(Mode::Manage, Door::Port(port)));
        options.consumers = vec![Box::new(consumer.clone())];
        start(options).unwrap()
    };
    let seen = Counting::default();
    let first = begin(&seen);
    next_slot(&first.manager);
    let host = port_of(&first.manager, "H-1", 1);
    let mut tool = IbsimPort::open(&name, "H-2").unwrap();
    write_counter(&mut tool, host.lid, 1, MANY);
    stop(first);
    let second = begin(&seen);
    next_slot(&second.manager);
    let again = port_of(&second.manager, "H-1", 1);
    let words = total(&again, "PortXmitData");
    assert!((MANY..2 * MANY).contains(&words), "the device was reset: {words}");
    stop(second);
    // No consumer saw a slot twice, and each of data has all ports.
    let mut data: Vec<_> = seen
        .0
        .lock()
        .unwrap()
        .iter()
        .copied()
        .filter(|(class, ..)| *class == 0)
        .collect();
    assert!(data.len() >= 3, "{data:?}");
    let count = data.len();
    data.dedup_by_key(|(_, number, _)| *number);
    assert_eq!(data.len(), count);
    assert!(data.iter().all(|(.., samples)| *samples == data[0].2), "{data:?}");
    emulated.emulation.stop();
    emulated.join().unwrap();
}

#[test]
fn a_manager_that_watches_or_is_told_not_to_samples_nothing() {
    let mut options = options(Mode::Manage, FABRIC);
    options.settings.telemetry.enabled = false;
    let running = start(options).unwrap();
    let manager = &running.manager;
    wait_for("a plan", || manager.status().unwrap().up.then_some(()));
    assert_eq!(manager.telemetry().unwrap().state, TelemetryState::Off);
    let refused = manager.counters(&CounterQuery::default()).unwrap_err();
    assert_eq!(refused.code, "SLV-API-0015");
    stop(running);
}

#[test]
fn wrong_questions_are_refused_with_advice() {
    let running = start(every_second(options(Mode::Manage, FABRIC))).unwrap();
    let manager = &running.manager;
    next_slot(manager);
    let check = |node: Option<&str>, port, by: Option<&str>, want: &str| {
        let query = CounterQuery {
            node: node.map(str::to_owned),
            port,
            by: by.map(str::to_owned),
            ..CounterQuery::default()
        };
        let error = manager.counters(&query).unwrap_err();
        assert!(error.message.contains(want), "{error}");
    };
    check(Some("H-11"), None, None, "there is no node 'H-11'; did you mean H-");
    check(Some("H-1"), Some(9), None, "node 'H-1' has 1 ports, and no port 9");
    check(None, None, Some("PortXmitDate"), "did you mean PortXmitData?");
    stop(running);
}
