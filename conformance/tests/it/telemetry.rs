//! On ibsim, the manager shows the same port counters as `perfquery`.

use std::collections::BTreeMap;
use std::time::Duration;

use selvedge_conformance::{Ibsim, PeerLab, until};
use serde_json::Value;

/// Counters that no MAD changes, by the names that both programs print.
const NAMES: [&str; 9] = [
    "LinkDownedCounter",
    "LinkErrorRecoveryCounter",
    "PortRcvErrors",
    "PortRcvRemotePhysicalErrors",
    "PortRcvSwitchRelayErrors",
    "PortXmitDiscards",
    "PortXmitWait",
    "SymbolErrorCounter",
    "VL15Dropped",
];

/// Reads the counters that `perfquery` prints: `SymbolErrorCounter:..............3`.
fn counters(text: &str) -> BTreeMap<String, u64> {
    let lines = text.lines().filter_map(|line| line.split_once(':'));
    let counters = lines.filter_map(|(name, rest)| Some((name.to_owned(), rest.trim_start_matches('.').parse().ok()?)));
    counters.collect()
}

/// Sets two counters of each port to values that no other port has.
fn set_counters(ibsim: &mut Ibsim, up: &[&Value]) {
    for (at, port) in up.iter().enumerate() {
        let name = format!("\"{}\"[{}]", port["node_name"].as_str().unwrap(), port["port"]);
        for (counter, value) in [("SymbolErrorCounter", at + 1), ("PortXmitWait", at + 3)] {
            let told = ibsim
                .console(&format!("PerformanceSet {name} PortCounters.{counter}={value}"))
                .unwrap();
            assert!(!told.contains("rror:"), "{told}");
        }
    }
}

#[test]
fn counters_are_those_of_perfquery() {
    let lab = PeerLab::new().unwrap();
    let net = include_str!("../../fabrics/mport-4-2.net");
    let mut ibsim = lab.ibsim(net).unwrap();
    let settings = lab.folder().join("selvedge.toml");
    let text = "[telemetry]\ninterval_ms = 500\nerrors_interval_ms = 500\ndetail_interval_ms = 0\n";
    std::fs::write(&settings, text).unwrap();
    let socket = lab.folder().join("telemetry.sock");
    let (settings, socket) = (settings.to_str().unwrap(), socket.to_str().unwrap());
    let port = format!("ibsim:{}", lab.base());
    let _manager = lab
        .start_selvedge(&["run", "--port", &port, "--config", settings, "--socket", socket])
        .unwrap();
    let ask = |command: &[&str]| -> Option<Value> {
        let asked = [&["telemetry"], command, &["--json", "--socket", socket]].concat();
        serde_json::from_str(&lab.selvedge(&asked).unwrap().stdout).ok()
    };
    let limit = Duration::from_secs(60);
    let wait_for_slots = |more_than: Option<u64>| {
        until("slots", limit, String::new, || {
            let slots = ask(&["status"]).and_then(|status| status["classes"][1]["slots"].as_u64());
            Ok(slots.filter(|_| slots > more_than))
        })
        .unwrap()
    };
    let before = wait_for_slots(Some(1));
    let all = ask(&["top", "load", "--top", "1000"]).unwrap();
    let ports = all["ports"].as_array().unwrap();
    let up: Vec<&Value> = ports.iter().filter(|port| port["rate"].is_string()).collect();
    assert!(up.len() > 20, "{all}");
    set_counters(&mut ibsim, &up);
    // One slot may have been half over.
    let now = wait_for_slots(Some(before));
    wait_for_slots(Some(now + 1));
    let mut compared = 0;
    for port in up {
        let (node, number) = (port["node_name"].as_str().unwrap(), port["port"].to_string());
        let ours = ask(&["port", node, &number, "--all"]).unwrap();
        let ours: BTreeMap<&str, u64> = ours["ports"][0]["counters"]
            .as_array()
            .unwrap()
            .iter()
            .map(|of| (of["name"].as_str().unwrap(), of["total"].as_u64().unwrap()))
            .collect();
        let theirs = counters(
            &lab.output("", "perfquery", &[&port["lid"].to_string(), &number])
                .unwrap(),
        );
        for name in NAMES {
            let Some(their_value) = theirs.get(name) else { continue };
            assert_eq!(
                ours.get(name),
                Some(their_value),
                "{name} of {node}[{number}]: {ours:?} {theirs:?}"
            );
            compared += 1;
        }
        assert!(
            theirs["SymbolErrorCounter"] > 0 && theirs["PortXmitWait"] > 2,
            "{theirs:?}"
        );
    }
    assert!(compared > 100, "{compared}");
}
