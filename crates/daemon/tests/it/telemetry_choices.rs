//! What the operator may choose of telemetry: attributes, metrics, expected types, counters of the host; and what is
//! said when slots end late.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use selvedge_api::{CounterQuery, FaultRequest, MetricsQuery, SetQuery, TelemetryState};
use selvedge_daemon::{Manager, Options, Service, start};
use selvedge_sm::Mode;
use selvedge_types::NodeKind;

use crate::emulated::{fabric, options, stop, wait_for};

/// Nine hosts, three leaves, three spines.
const FABRIC: &str = "karytree:k=3,n=2";

/// A folder that is deleted at the end.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let next = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("selvedge-choices-it-{}-{next}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn every_second() -> Options {
    let mut options = options(Mode::Manage, FABRIC);
    let telemetry = &mut options.settings.telemetry;
    telemetry.interval = Duration::from_secs(1);
    telemetry.errors_interval = Duration::from_secs(1);
    telemetry.detail_interval = Some(Duration::from_secs(1));
    options
}

fn wait_for_slots(manager: &Manager, class: usize, more: u64) {
    let slots = || manager.telemetry().unwrap().classes[class].slots;
    let before = slots();
    wait_for("slots", || (slots() >= before + more).then_some(()));
}

fn page(manager: &Manager) -> String {
    let mut text = String::new();
    let metrics = manager.metrics(&MetricsQuery::default(), false).unwrap();
    metrics.write(&mut text).unwrap();
    text
}

#[test]
fn hardware_of_another_type_is_reported() {
    let folder = Folder::new();
    let built = fabric(FABRIC);
    let of = |kind: NodeKind| {
        let node = built.nodes().iter().find(|node| node.kind == kind).unwrap();
        format!("{:#08x}:{:#06x}", node.vendor_id, node.device_id)
    };
    let text = format!(
        "switches = {}\nhosts = ConnectX-6\nH-1 = {}\nH-77 = Quantum\n",
        of(NodeKind::Switch),
        of(NodeKind::Ca)
    );
    let mut options = every_second();
    options.settings.telemetry_choices.expected_types = Some(folder.write("types", &text));
    let running = start(options).unwrap();
    let manager = &running.manager;
    let unexpected = wait_for("differences", || {
        Some(manager.telemetry().unwrap().unexpected).filter(|found| !found.is_empty())
    });
    // Eight of nine hosts, and the one that does not exist.
    assert_eq!(unexpected.len(), 9, "{unexpected:?}");
    assert!(
        unexpected[0].starts_with("SLV-TELEMETRY-0218: there is no node \"H-77\""),
        "{unexpected:?}"
    );
    assert!(
        unexpected[1].contains("and ConnectX-6 (0x0002c9:0x101b) was expected"),
        "{unexpected:?}"
    );
    // One more plan finds nothing new.
    let count = |code: &str| {
        let events = manager.events(0).events;
        events.iter().filter(|event| event.code == code).count()
    };
    assert_eq!((count("SLV-TELEMETRY-0218"), count("SLV-TELEMETRY-0212")), (1, 4));
    let sweeps = || {
        manager
            .events(0)
            .events
            .iter()
            .filter(|event| event.text.starts_with("SUBNET UP"))
            .count()
    };
    let before = sweeps();
    manager.sweep().unwrap();
    wait_for("a sweep", || (sweeps() > before).then_some(()));
    wait_for_slots(manager, 0, 2);
    assert_eq!((count("SLV-TELEMETRY-0218"), count("SLV-TELEMETRY-0212")), (1, 4));
    let page = page(manager);
    let brands = page.lines().filter(|line| line.starts_with("infiniband_node_info{"));
    assert_eq!(brands.count(), 15, "{page}");
    stop(running);
}

#[test]
fn a_selection_file_is_the_default_of_every_set() {
    let folder = Folder::new();
    let mut options = every_second();
    let file = folder.write("metrics.conf", "Remote_LID\n#symbol_error\nport_xmit_data\n");
    options.settings.telemetry_choices.metrics = Some(file);
    let running = start(options).unwrap();
    let manager = &running.manager;
    wait_for("samples", || {
        (manager.telemetry().unwrap().state == TelemetryState::Sampling).then_some(())
    });
    wait_for_slots(manager, 0, 2);
    let mut query = SetQuery {
        name: "ibfabric/H-1".to_owned(),
        ..SetQuery::default()
    };
    let set = manager.metric_set(&query).unwrap();
    assert!(
        set.contains("Metric Count : 4\n") && set.contains("_port_1_port_xmit_data "),
        "{set}"
    );
    assert!(!set.contains("symbol_error"), "{set}");
    // An aggregator may ask for others.
    query.metrics = Some("symbol_error".to_owned());
    let set = manager.metric_set(&query).unwrap();
    assert!(
        set.contains("Metric Count : 3\n") && set.contains("symbol_error 0\n"),
        "{set}"
    );
    stop(running);
    let mut options = every_second();
    options.settings.telemetry_choices.metrics = Some(folder.write("metrics.conf", "port_xmit_date\n"));
    let error = start(options).map(stop).unwrap_err().to_string();
    assert!(
        error.contains("SLV-TELEMETRY-0101") && error.contains("did you mean port_xmit_data?"),
        "{error}"
    );
}

#[test]
fn attributes_are_chosen_and_counters_of_the_host_shown() {
    let folder = Folder::new();
    let built = fabric(FABRIC);
    let host = built.nodes().iter().find(|node| node.description == "H-1").unwrap();
    let digits = format!("{:016x}", host.guid.0);
    let grouped: Vec<&str> = (0..4).map(|at| &digits[4 * at..4 * at + 4]).collect();
    folder.write("mlx5_0/node_guid", &(grouped.join(":") + "\n"));
    folder.write("mlx5_0/ports/1/hw_counters/rnr_nak_retry_err", "42\n");
    let mut options = every_second();
    let choices = &mut options.settings.telemetry_choices;
    choices.host_counters = Some(folder.0.clone());
    choices.detail = ["PortOpRcvCounters", "PortFlowCtlCounters", "PortExtendedSpeedsCounters"]
        .map(str::to_owned)
        .into();
    let running = start(options).unwrap();
    let manager = &running.manager;
    wait_for("samples", || {
        (manager.telemetry().unwrap().state == TelemetryState::Sampling).then_some(())
    });
    for fault in ["load shift:1 40%", "ber H-1[1] 1e-6 2e-9"] {
        manager
            .fault(&FaultRequest {
                fault: fault.to_owned(),
            })
            .unwrap();
    }
    let query = CounterQuery {
        node: Some("H-1".to_owned()),
        port: Some(1),
        counters: true,
        ..CounterQuery::default()
    };
    let names = [
        "PortOpRcvCounters[0]",
        "PortOpRcvCounters[1]",
        "PortFlowCtlCounters[0]",
        "PortExtendedSpeedsCounters[14]",
        "PortExtendedSpeedsCounters[15]",
    ];
    let port = wait_for("counters that moved", || {
        let port = manager.counters(&query).unwrap().ports.remove(0);
        let moved = |name: &&str| port.counters.iter().any(|of| of.name == **name && of.total > 0);
        names.iter().all(moved).then_some(port)
    });
    let own = port
        .counters
        .iter()
        .find(|of| of.name == "mlx5_0/rnr_nak_retry_err")
        .unwrap();
    assert_eq!((own.total, own.unit.as_str()), (42, "events"));
    assert!(
        !port
            .counters
            .iter()
            .any(|of| of.name.starts_with("PortRcvErrorDetails")),
        "{port:?}"
    );
    let want = format!(
        "{{guid=\"{}\",port=\"1\",device=\"mlx5_0\",counter=\"rnr_nak_retry_err\"}} 42\n",
        host.guid
    );
    let page = page(manager);
    assert!(page.contains(&want), "{page}");
    stop(running);
}

/// The seed: samplers "report when there are synchronization issues".
#[test]
fn slots_that_end_late_are_said() {
    let mut options = every_second();
    options.settings.telemetry.detail_interval = None;
    // An answer is waited for longer than a slot lasts.
    options.settings.telemetry.timeout = Duration::from_secs(3);
    options.settings.telemetry.retries = 0;
    let running = start(options).unwrap();
    let manager = &running.manager;
    wait_for("samples", || {
        (manager.telemetry().unwrap().state == TelemetryState::Sampling).then_some(())
    });
    wait_for_slots(manager, 0, 2);
    let fault = "hang H-4".to_owned();
    manager.fault(&FaultRequest { fault }).unwrap();
    let event = wait_for("a slot that ended late", || {
        let events = manager.events(0).events;
        events.into_iter().find(|event| event.code == "SLV-TELEMETRY-0009")
    });
    assert!(
        event.text.contains("was not complete when the next one began"),
        "{event:?}"
    );
    let status = wait_for("its status", || {
        let telemetry = manager.telemetry().unwrap();
        telemetry
            .classes
            .iter()
            .any(|class| class.overruns > 0)
            .then_some(telemetry)
    });
    assert!(status.classes[0].slots > 2, "{status:?}");
    stop(running);
}
