//! A link that goes down, in every output of telemetry: it is shown as down, with rates of 0, and nothing of it
//! vanishes.

use selvedge_api::{
    CableQuery, Cables, CounterQuery, FaultRequest, MetricsQuery, SeriesQuery, SetForm, SetQuery, TelemetryPort,
};
use selvedge_daemon::{Manager, Service, TelemetryService as _};
use selvedge_types::{NodeKind, PortState};

use crate::emulated::{stop, wait_for};
use crate::history::{begin, scratch};
use crate::telemetry::port_of;

fn fault(manager: &Manager, text: String) {
    manager.fault(&FaultRequest { fault: text }).unwrap();
}

/// A port of a switch to another switch, once it has rates.
fn uplink(manager: &Manager) -> TelemetryPort {
    wait_for("rates", || {
        let ports = manager.counters(&CounterQuery::default()).ok()?.ports;
        let name = |of: &TelemetryPort| of.peer.as_ref().map(|peer| peer.node_name.clone());
        ports.into_iter().find(|port| {
            let to_switch = name(port).is_some_and(|name| name.starts_with('S'));
            port.kind == NodeKind::Switch && to_switch && port.xmit_bytes_per_s > Some(1_000_000)
        })
    })
}

fn set(manager: &Manager, name: &str, form: SetForm) -> Vec<String> {
    let query = SetQuery {
        name: name.to_owned(),
        form,
        ..SetQuery::default()
    };
    let text = manager.metric_set(&query).unwrap();
    text.lines().map(str::to_owned).collect()
}

/// The value of a metric of a port on a page.
fn value(page: &str, name: &str, port: &TelemetryPort) -> Option<String> {
    let labels = format!("{name}{{guid=\"{}\",port=\"{}\"", port.node_guid, port.port);
    let line = page.lines().find(|line| line.starts_with(&labels))?;
    line.rsplit_once(' ').map(|(_, value)| value.to_owned())
}

fn page(manager: &Manager, query: &MetricsQuery) -> String {
    let mut text = String::new();
    manager.metrics(query, false).unwrap().write(&mut text).unwrap();
    text
}

const SHARES: [&str; 3] = [
    "infiniband_port_transmit_utilisation_ratio",
    "infiniband_port_receive_utilisation_ratio",
    "infiniband_port_transmit_wait_ratio",
];

fn cables(manager: &Manager, all: bool) -> Cables {
    let query = CableQuery {
        all,
        ..CableQuery::default()
    };
    manager.cables(&query).unwrap()
}

/// The outputs before the link goes down.
struct Before {
    cables: u64,
    set: String,
    header: String,
}

impl Before {
    fn of(manager: &Manager, up: &TelemetryPort) -> Self {
        wait_for("bit errors", || {
            let first = cables(manager, false).cables.into_iter().next();
            first.filter(|cable| cable.symbol_errors > 0)
        });
        let page = page(manager, &MetricsQuery::default());
        assert!(value(&page, SHARES[0], up).is_some_and(|value| value != "0"), "{page}");
        let name = format!("ibfabric/{}", up.node_name);
        Self {
            cables: cables(manager, true).cables_total,
            header: set(manager, &name, SetForm::Csv)[0].clone(),
            set: name,
        }
    }
}

#[test]
fn a_link_that_is_down_is_data_in_every_output() {
    let folder = scratch("down");
    let running = begin(&folder);
    let manager = &running.manager;
    fault(manager, "load uniform 40%".to_owned());
    let up = uplink(manager);
    let at = format!("\"{}\"[{}]", up.node_name, up.port);
    fault(manager, format!("ber {at} 1e-5 1e-8"));
    let before = Before::of(manager, &up);
    fault(manager, format!("cut {at}"));
    in_ports(manager, &up);
    in_metrics(manager, &up);
    in_sets(manager, &up, &before);
    in_cables(manager, &up, &before);
    in_history(manager, &up);
    fault(manager, format!("restore {at}"));
    wait_for("the port that is up again", || {
        let port = port_of(manager, &up.node_name, up.port);
        (port.state == PortState::Active && port.how.as_deref() == Some("read")).then_some(())
    });
    assert!(cables(manager, false).cables.iter().all(|cable| !cable.is_down));
    stop(running);
    std::fs::remove_dir_all(&folder).unwrap();
}

/// What `port`, `top` and `watch` show: rates of 0, counters as they were, the age of the knowledge.
fn in_ports(manager: &Manager, up: &TelemetryPort) {
    let down = wait_for("the port that is down", || {
        let port = port_of(manager, &up.node_name, up.port);
        Some(port).filter(|port| port.state == PortState::Down && port.how.as_deref() == Some("down"))
    });
    let shares = (down.load_ppm, down.wait_ppm);
    assert_eq!((shares, down.peer.as_ref()), ((Some(0), Some(0)), None));
    let later = wait_for("a slot in which nothing grew", || {
        let port = port_of(manager, &up.node_name, up.port);
        Some(port).filter(|port| port.xmit_bytes_per_s == Some(0) && port.rcv_bytes_per_s == Some(0))
    });
    let has_counted = later.counters.iter().any(|counter| counter.total > 0);
    assert!(later.age_ms < Some(5_000) && has_counted, "{later:?}");
}

/// Its series stay, shares are 0, the state is DOWN.
fn in_metrics(manager: &Manager, up: &TelemetryPort) {
    let after = page(manager, &MetricsQuery::default());
    for share in SHARES {
        assert_eq!(value(&after, share, up).as_deref(), Some("0"), "{share}");
    }
    assert_eq!(value(&after, "infiniband_port_state", up).as_deref(), Some("1"));
    // The bit error rate is that of what it received before.
    for name in [
        "infiniband_switch_port_transmit_data_bytes_total",
        "infiniband_port_ber",
    ] {
        assert!(value(&after, name, up).is_some(), "{name}");
    }
    let influx = MetricsQuery {
        influx: true,
        ..MetricsQuery::default()
    };
    let line = format!("infiniband_port,guid={},port={},", up.node_guid, up.port);
    let influx = page(manager, &influx);
    let line = influx.lines().find(|found| found.starts_with(&line)).unwrap();
    assert!(
        line.contains(" port_state=1i,") && !line.contains("peer_guid"),
        "{line}"
    );
}

/// Text set and LDMS CSV: the same columns, the state, no remote end.
fn in_sets(manager: &Manager, up: &TelemetryPort, before: &Before) {
    let csv = set(manager, &before.set, SetForm::Csv);
    assert_eq!(csv[0], before.header);
    assert_eq!(csv[0].split(',').count(), csv[1].split(',').count());
    let text = set(manager, &before.set, SetForm::Ldms).join("\n");
    for end in ["port_state 1", "Remote_LID 0", "Remote_port 0"] {
        let metric = format!("_port_{}_{end}\n", up.port);
        assert!(text.contains(&metric), "{end}: {text}");
    }
}

/// The cable that is down comes first, and is one of as many as before.
fn in_cables(manager: &Manager, up: &TelemetryPort, before: &Before) {
    let listed = cables(manager, false);
    let worst = &listed.cables[0];
    assert!(
        worst.is_down && worst.rate.is_some() && worst.ber.is_some(),
        "{worst:?}"
    );
    let mut ends = [&worst.a, &worst.b].into_iter();
    assert!(
        ends.any(|end| (end.node_guid, end.port) == (up.node_guid, up.port)),
        "{worst:?}"
    );
    assert_eq!(cables(manager, true).cables_total, before.cables);
}

/// History, of which plots are made: points that say `down`, with a rate of 0.
fn in_history(manager: &Manager, up: &TelemetryPort) {
    let points = wait_for("stored slots", || {
        let query = SeriesQuery {
            node: up.node_name.clone(),
            port: up.port,
            ..SeriesQuery::default()
        };
        let series = manager.history_series(&query).ok()?;
        let down: Vec<_> = series.points.into_iter().filter(|point| point.how == "down").collect();
        (down.len() >= 2).then_some(down)
    });
    assert!(points[1..].iter().all(|point| point.per_s == Some(0.0)), "{points:?}");
}
