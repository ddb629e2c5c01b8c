//! Telemetry over HTTP: figures and sets on the Unix socket, metrics there and by TCP.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use flate2::read::GzDecoder;
use selvedge_api::{Telemetry, TelemetryPorts, TelemetryState};
use selvedge_daemon::{Door, EmulationOptions, Options, Running, Service, start};
use selvedge_http::{Client, Front, HttpError, MetricsAddress, MetricsServer, Socket};
use selvedge_sm::Mode;
use selvedge_topology::Spec;

/// Longest time to wait for anything here.
const PATIENCE: Duration = Duration::from_secs(60);

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < PATIENCE, "no {what} after {PATIENCE:?}");
        std::thread::yield_now();
    }
}

/// A manager that has sampled each port at least twice.
fn sampling() -> Running {
    let spec = "karytree:k=2,n=2";
    let Spec::Generated(recipe) = spec.parse().unwrap() else {
        unreachable!("a generator")
    };
    let door = Door::Emulated {
        fabric: Arc::new(recipe.fabric().unwrap()),
        options: EmulationOptions::default(),
        name: spec.to_owned(),
    };
    let mut options = Options::new(Mode::Manage, door);
    options.settings.telemetry.interval = Duration::from_secs(1);
    options.settings.telemetry.errors_interval = Duration::from_secs(1);
    let running = start(options).unwrap();
    wait_until("two slots", || {
        let telemetry = running.manager.telemetry().unwrap();
        telemetry.state == TelemetryState::Sampling && telemetry.classes.iter().take(2).all(|class| class.slots >= 2)
    });
    running
}

fn end(running: Running) {
    running.manager.stop();
    running.join().unwrap();
}

/// A response: its head in small letters, and its body.
fn ask(at: SocketAddr, path: &str, headers: &str) -> (String, Vec<u8>) {
    let mut stream = TcpStream::connect(at).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: here\r\n{headers}\r\n").unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    let head = bytes.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
    let text = String::from_utf8(bytes[..head].to_vec()).unwrap().to_lowercase();
    (text, bytes[head + 4..].to_vec())
}

fn body(at: SocketAddr, path: &str) -> String {
    let (head, body) = ask(at, path, "");
    assert!(head.starts_with("http/1.1 200"), "{head}");
    String::from_utf8(body).unwrap()
}

#[test]
fn figures_and_sets_are_on_the_socket() {
    let running = sampling();
    let path = std::env::temp_dir().join(format!("selvedge-http-{}-telemetry.sock", std::process::id()));
    let front = Front::open(Some(Socket::bind(&path).unwrap()), Arc::new(running.manager.clone())).unwrap();
    let client = Client::new(&path);
    let telemetry: Telemetry = client.get("telemetry").unwrap();
    // Four hosts, four leaves and spines with two links each between them.
    assert_eq!(telemetry.ports_up, 2 * (4 + 4));
    let by = [
        ("by".to_owned(), "load".to_owned()),
        ("limit".to_owned(), "3".to_owned()),
    ];
    let ports: TelemetryPorts = client.select("telemetry/counters", &by).unwrap();
    assert_eq!((ports.ports.len(), ports.found > 3), (3, true));
    let of = |name: &str| vec![("name".to_owned(), name.to_owned())];
    let set = client.text("telemetry/set", &of("ibfabric/H-1")).unwrap();
    assert!(
        set.starts_with("METADATA --------\n") && set.contains("Consistent : TRUE"),
        "{set}"
    );
    assert!(set.contains("_port_1_port_xmit_discards 0\n"), "{set}");
    let refused = client.text("telemetry/set", &of("ibfabric/H-9")).unwrap_err();
    assert!(
        matches!(&refused, HttpError::Refused(error) if error.message.contains("did you mean")),
        "{refused}"
    );
    let metrics = [
        of("ibfabric"),
        vec![("metrics".to_owned(), "port_xmit_date".to_owned())],
    ]
    .concat();
    let refused = client.text("telemetry/set", &metrics).unwrap_err().to_string();
    assert!(
        refused.contains("SLV-TELEMETRY-0101") && refused.contains("port_xmit_data"),
        "{refused}"
    );
    drop(front);
    end(running);
}

/// Other pages than the usual one.
fn parts_are_asked_for(at: SocketAddr, plain: &str) {
    // What is not there unless it is asked for.
    assert!(!plain.contains("infiniband_symbolerrorcounter_total"));
    let guilbaults = body(at, "/metrics?collect=guilbaults");
    assert!(guilbaults.contains("infiniband_symbolerrorcounter_total{component="));
    assert!(!guilbaults.contains("infiniband_switch_port"), "{guilbaults}");
    let lines = body(at, "/metrics?format=influx&metrics=port_xmit_data");
    let line = lines.lines().next().unwrap();
    assert!(
        line.starts_with("infiniband_port,guid=0x") && line.contains(" port_state=4i,port_xmit_data="),
        "{line}"
    );
    assert!(!lines.contains("symbol_error"), "{lines}");
    let chosen = body(at, "/metrics?collect=data,errors&metrics=symbol_error");
    assert!(chosen.contains("infiniband_hca_port_symbol_error_total{"));
    assert!(!chosen.contains("transmit_data_bytes_total"), "{chosen}");
}

#[test]
fn prometheus_finds_metrics_by_tcp_and_nothing_else() {
    let running = sampling();
    let address = MetricsAddress::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let at = address.local().unwrap();
    let taken = MetricsAddress::bind(at).unwrap_err().to_string();
    assert!(
        taken.starts_with("SLV-HTTP-0008: cannot listen on 127.0.0.1"),
        "{taken}"
    );
    let server = MetricsServer::open(address, Arc::new(running.manager.clone())).unwrap();
    let plain = body(at, "/metrics");
    for name in [
        "infiniband_switch_port_transmit_data_bytes_total{",
        "infiniband_hca_port_symbol_error_total{",
        "infiniband_switch_uplink_info{",
        "infiniband_port_state{",
        "infiniband_switch_collect_timeout{guid=\"0x",
        "infiniband_hca_collect_error{guid=\"0x",
        "infiniband_sampler_slots_total{class=\"data\"} ",
        "infiniband_exporter_collect_timeouts 0\n",
        "infiniband_port_transmit_wait_ratio{guid=\"0x",
        "infiniband_port_transmit_utilisation_ratio{guid=\"0x",
        "infiniband_congestion_trees 0\n",
        "infiniband_alarms{level=\"critical\"} 0\n",
    ] {
        assert!(plain.contains(name), "{name}\n{plain}");
    }
    parts_are_asked_for(at, &plain);
    // The formats that a client asks for.
    let (head, _) = ask(at, "/metrics", "");
    assert!(head.contains("content-type: text/plain; version=0.0.4"), "{head}");
    let (head, open) = ask(
        at,
        "/metrics",
        "Accept: application/openmetrics-text;version=1.0.0,text/plain;q=0.5\r\n",
    );
    assert!(head.contains("content-type: application/openmetrics-text"), "{head}");
    assert!(open.ends_with(b"# EOF\n"));
    let (head, zipped) = ask(at, "/metrics?collect=info", "Accept-Encoding: gzip\r\n");
    assert!(head.contains("content-encoding: gzip"), "{head}");
    let mut unzipped = String::new();
    GzDecoder::new(&zipped[..]).read_to_string(&mut unzipped).unwrap();
    assert!(unzipped.contains("infiniband_port_state{") && !unzipped.contains("transmit_data_bytes_total"));
    assert!(zipped.len() * 4 < unzipped.len(), "{} {}", zipped.len(), unzipped.len());
    // Shards have each series once, together all.
    let series = |text: &str| -> BTreeSet<String> {
        let lines = text.lines().filter(|line| line.contains("guid="));
        lines.map(|line| line.split('}').next().unwrap().to_owned()).collect()
    };
    let shards = ["/metrics?shard=1/3", "/metrics?shard=2/3", "/metrics?shard=3/3"].map(|path| series(&body(at, path)));
    let total: usize = shards.iter().map(BTreeSet::len).sum();
    let union: BTreeSet<String> = shards.into_iter().flatten().collect();
    assert_eq!((total, union), (series(&plain).len(), series(&plain)));
    // Nothing else is served here.
    let status = |path: &str| ask(at, path, "").0.split_whitespace().nth(1).unwrap().to_owned();
    assert_eq!(status("/api/v1/status"), "404");
    assert_eq!(status("/metrics?colect=data"), "400");
    assert_eq!(status("/metrics?metrics=port_xmit_date"), "400");
    assert_eq!(status("/api/v1/telemetry/alarms"), "404");
    drop(server);
    assert!(TcpStream::connect(at).is_err());
    end(running);
}
