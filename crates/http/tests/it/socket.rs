//! The API over a real socket, in front of a real manager on an emulated fabric.
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use selvedge_api::{
    Events, Fabric, FaultRequest, Findings, Links, Nodes, Partitions, Plan, Ports, RebalanceRequest, Stage, Status,
};
use selvedge_daemon::{Door, EmulationOptions, Options, Service, start};
use selvedge_http::{Client, Front, HttpError, Socket};
use selvedge_sm::Mode;
use selvedge_topology::Spec;

fn path(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("selvedge-http-{}-{name}.sock", std::process::id()))
}

fn refusal_code(result: Result<impl Sized, HttpError>) -> String {
    match result {
        Err(HttpError::Refused(error)) => error.code,
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("not refused"),
    }
}

/// Conditions and orders of lists, with names that need escapes in a URL.
fn select(client: &Client, before: &Events) {
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    // Names are encoded and decoded.
    let named: Nodes = client
        .select("nodes", &[pair("name", "H-&=% +"), pair("name", "S-*")])
        .unwrap();
    assert_eq!(named.nodes.len(), 4);
    let sorted: Nodes = client
        .select("nodes", &[pair("sort", "lid"), pair("order", "descending")])
        .unwrap();
    assert!(sorted.nodes.len() == 8 && sorted.nodes.is_sorted_by(|a, b| a.lid > b.lid));
    let none: Events = client
        .select("events", &[pair("since_ms", &u64::MAX.to_string())])
        .unwrap();
    assert!(none.events.is_empty() && none.last >= before.last);
    for query in [
        "nodes?nam=x",
        "ports?sort=colour",
        "links?order=up",
        "events?severity=loud",
    ] {
        assert_eq!(refusal_code(client.get::<Nodes>(query)), "SLV-API-0002", "{query}");
    }
}

#[test]
fn every_path_answers() {
    let Spec::Generated(recipe) = "ring:switches=4,hosts=1".parse().unwrap() else {
        unreachable!()
    };
    let door = Door::Emulated {
        fabric: Arc::new(recipe.fabric().unwrap()),
        options: EmulationOptions::default(),
        name: "ring".to_owned(),
    };
    let running = start(Options::new(Mode::Manage, door)).unwrap();
    let path = path("paths");
    let front = Front::open(Some(Socket::bind(&path).unwrap()), Arc::new(running.manager.clone())).unwrap();
    let client = Client::new(&path);
    let begin = Instant::now();
    while !client.get::<Status>("status").unwrap().up {
        assert!(begin.elapsed() < Duration::from_secs(60), "not up after a minute");
    }
    assert_eq!(client.get::<Fabric>("fabric").unwrap().switches, 4);
    assert_eq!(client.get::<Nodes>("nodes").unwrap().nodes.len(), 8);
    assert!(client.get::<Ports>("ports").unwrap().ports.len() > 8);
    assert_eq!(client.get::<Links>("links").unwrap().links.len(), 8);
    assert!(client.get::<Plan>("plan").unwrap().lids >= 8);
    assert!(client.get::<Findings>("findings").unwrap().ok);
    let events: Events = client.get("events").unwrap();
    let middle = events.events[events.events.len() / 2].number;
    let later: Events = client.get(&format!("events?since={middle}")).unwrap();
    assert_eq!(later.events[0].number, middle + 1, "those after it, and not it");
    assert!(later.events.is_sorted_by(|a, b| a.number < b.number) && later.last >= events.last);
    let partitions: Partitions = client.get("partitions").unwrap();
    assert_eq!(
        (partitions.partitions.len(), partitions.partitions[0].members.len()),
        (1, 8)
    );
    select(&client, &events);
    client.post("sweep").unwrap();
    assert!(
        !client
            .rebalance(RebalanceRequest {
                dry_run: true,
                at_once: true
            })
            .unwrap()
            .started
    );
    let fault = |text: &str| client.fault(&FaultRequest { fault: text.to_owned() });
    assert_eq!(refusal_code(fault("cut nobody[1]")), "SLV-EMU-0004");
    assert_eq!(refusal_code(fault("explode")), "SLV-EMU-0008");
    assert_eq!(refusal_code(client.reload()), "SLV-API-0007");
    assert_eq!(refusal_code(client.get::<Status>("nothing")), "SLV-API-0001");
    assert_eq!(refusal_code(client.post("status")), "SLV-API-0020");
    assert_eq!(refusal_code(client.get::<Events>("events?since=x")), "SLV-API-0002");
    running.manager.stop();
    running.join().unwrap();
    drop(front);
    assert!(!path.exists());
    assert!(matches!(
        client.get::<Status>("status"),
        Err(HttpError::Unreachable { .. })
    ));
}

#[test]
fn a_leftover_socket_is_replaced_and_a_live_one_is_not() {
    let path = path("leftover");
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    assert!(path.exists(), "nobody listens there any more");
    let Spec::Generated(recipe) = "single:ports=4,hosts=2".parse().unwrap() else {
        unreachable!()
    };
    let fabric = recipe.fabric().unwrap();
    let log = Box::new(selvedge_daemon::NoLog);
    let running = selvedge_daemon::emulate(&fabric, &EmulationOptions::default(), 10, log).unwrap();
    let service: Arc<dyn Service> = Arc::new(running.emulation.clone());
    let front = Front::open(Some(Socket::bind(&path).unwrap()), service).unwrap();
    assert!(matches!(Socket::bind(&path), Err(HttpError::InUse { .. })));
    let client = Client::new(&path);
    assert_eq!(client.get::<Fabric>("fabric").unwrap().hosts, 2);
    assert_eq!(refusal_code(client.get::<Status>("status")), "SLV-API-0004");
    running.emulation.stop();
    running.join().unwrap();
    drop(front);
}

#[test]
fn only_a_socket_is_replaced() {
    let path = path("no-socket");
    std::fs::write(&path, "somebody's work").unwrap();
    assert!(matches!(Socket::bind(&path), Err(HttpError::NoSocket { .. })));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "somebody's work");
    assert!(matches!(
        Client::new(&path).get::<Status>("status"),
        Err(HttpError::NoSocket { .. })
    ));
    std::fs::remove_file(&path).unwrap();
}

/// Waits until a condition holds, one minute at most.
fn until(what: &str, holds: impl Fn() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < Duration::from_secs(60), "not after a minute: {what}");
        // The manager under test needs the processor too.
        thread::park_timeout(Duration::from_millis(5));
    }
}

#[test]
fn load_is_spread_anew_on_request() {
    let Spec::Generated(recipe) = "karytree:k=3,n=3".parse().unwrap() else {
        unreachable!()
    };
    let door = Door::Emulated {
        fabric: Arc::new(recipe.fabric().unwrap()),
        options: EmulationOptions::default(),
        name: "tree".to_owned(),
    };
    let running = start(Options::new(Mode::Manage, door)).unwrap();
    let path = path("rebalance");
    let front = Front::open(Some(Socket::bind(&path).unwrap()), Arc::new(running.manager.clone())).unwrap();
    let client = Client::new(&path);
    let asked = |dry_run| {
        client.rebalance(RebalanceRequest {
            dry_run,
            at_once: false,
        })
    };
    let has = |code: &str| {
        let events: Events = client.get("events").unwrap();
        events.events.iter().any(|event| event.code == code)
    };
    let rests = || {
        let status: Status = client.get("status").unwrap();
        status.up && status.stage == Stage::Idle
    };
    until("up", rests);
    assert!(!asked(true).unwrap().needed, "made afresh a moment ago");
    for (fault, code) in [("cut", "SLV-SM-0020"), ("restore", "SLV-SM-0021")] {
        let fault = format!("{fault} \"S-L2-1\"[4]");
        client.fault(&FaultRequest { fault }).unwrap();
        until(code, || has(code));
        until("repaired", rests);
    }
    let status: Status = client.get("status").unwrap();
    let rebalance = status.rebalance.unwrap();
    assert_eq!(
        (rebalance.policy.as_str(), rebalance.state.as_str()),
        ("later", "waiting")
    );
    assert!(rebalance.due_ms.is_some_and(|at| at > status.uptime_ms));
    let before = asked(true).unwrap();
    assert!(before.needed && !before.started);
    assert_eq!((before.load_before.max, before.load_after.max), (45, 24));
    assert!(before.pairs_moved > 0 && before.blocks <= before.blocks_per_step && before.steps == 1);
    assert!(!has("SLV-SM-0050"), "nothing was done");
    let begun = asked(false).unwrap();
    assert!(begun.started);
    assert_eq!(begun.entries, before.entries);
    until("rebalanced", || has("SLV-SM-0051"));
    assert!(!asked(true).unwrap().needed);
    running.manager.stop();
    running.join().unwrap();
    drop(front);
}
