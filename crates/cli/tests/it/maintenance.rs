//! `selvedge drain`, `isolate`, `enable`, and the list of what is out of service: the real program on the emulator.

use serde_json::Value;

use crate::support::{Lab, Process, wait_for};

/// Four leaf switches with four hosts each, four spines. Load is balanced again at once.
const TREE: [&str; 7] = [
    "run",
    "--fabric",
    "karytree:k=4,n=2",
    "--sweep-interval",
    "1",
    "--seed=1",
    "--state",
];

fn daemon(lab: &Lab) -> Process {
    let process = lab.start(&[&TREE[..], &["state"]].concat());
    wait_for("healthy", || (lab.run(&["health"]).code == 0).then_some(()));
    process
}

/// The links of the fabric, as pairs of (node, port).
fn links(lab: &Lab) -> Vec<[(String, u64); 2]> {
    let all = lab.run(&["status", "links", "--json"]).exits(0).json();
    let end = |of: &Value| {
        (
            of["node_name"].as_str().unwrap().to_owned(),
            of["port"].as_u64().unwrap(),
        )
    };
    let links = all["links"].as_array().unwrap().iter();
    links.map(|link| [end(&link["a"]), end(&link["b"])]).collect()
}

/// A switch without hosts, and the ports of others that lead to it.
fn spine(lab: &Lab) -> (String, Vec<String>) {
    let links = links(lab);
    let is_host = |name: &str| name.starts_with('H');
    let is_spine = |name: &str| {
        let mut of = links.iter().filter(|ends| ends.iter().any(|end| end.0 == name));
        !is_host(name) && of.all(|ends| ends.iter().all(|end| !is_host(&end.0)))
    };
    let mut names = links.iter().flatten().map(|end| end.0.clone());
    let spine = names.find(|name| is_spine(name)).unwrap();
    let far = links.iter().filter_map(|[a, b]| match (a.0 == spine, b.0 == spine) {
        (true, false) => Some(b),
        (false, true) => Some(a),
        _ => None,
    });
    let far = far.map(|(node, port)| format!("{node}[{port}]")).collect();
    (spine, far)
}

fn places(lab: &Lab) -> Vec<(String, String)> {
    let list = lab.run(&["status", "out-of-service", "--json"]).exits(0).json();
    assert_eq!(
        list["count"].as_u64().unwrap() as usize,
        list["places"].as_array().unwrap().len()
    );
    let word = |of: &Value, key: &str| of[key].as_str().unwrap().to_owned();
    let places = list["places"].as_array().unwrap().iter();
    places
        .map(|place| (word(place, "service"), word(place, "state")))
        .collect()
}

fn wait_for_places(lab: &Lab, want: &[(&str, &str)]) {
    wait_for("the list", || {
        let found = places(lab);
        let found: Vec<(&str, &str)> = found.iter().map(|(a, b)| (&**a, &**b)).collect();
        (found == want).then_some(())
    });
}

/// Returns state and reason of a port.
fn port(lab: &Lab, name: &str) -> (String, String) {
    let (node, number) = name.strip_suffix(']').unwrap().rsplit_once('[').unwrap();
    let all = lab.run(&["status", "ports", "--json"]).exits(0).json();
    let mut ports = all["ports"].as_array().unwrap().iter();
    let number: u64 = number.parse().unwrap();
    let found = ports
        .find(|port| port["node_name"] == node && port["port"].as_u64() == Some(number))
        .unwrap();
    (found["phys_state"].to_string(), found["reason"].to_string())
}

/// Checks the Sets that dry runs list for a spine: a drain changes tables, and an isolation also disables this number
/// of ports.
fn dry_runs_list_each_set(lab: &Lab, spine: &str, ports: usize) {
    let dry = lab.run_in_turn(&["drain", spine, "--dry-run"]).exits(0);
    dry.says("no host loses a connection")
        .says("nothing was changed")
        .says("LinearForwardingTable")
        .says("LIDs 0 to 63");
    let dry = lab
        .run_in_turn(&["isolate", spine, "--dry-run", "--json"])
        .exits(0)
        .json();
    let sets = dry["sets"].as_array().unwrap();
    let of = |attribute: &str| sets.iter().filter(|set| set["attribute"] == attribute).count();
    assert!(of("LinearForwardingTable") > 0, "{dry}");
    let disables = sets.iter().filter(|set| set["what"] == "PortPhysicalState Disabled");
    assert_eq!(disables.count(), ports, "{dry}");
}

#[test]
fn a_spine_is_drained_isolated_kept_over_a_kill_and_enabled() {
    let lab = Lab::new("drain-spine");
    let process = daemon(&lab);
    let (spine, far) = spine(&lab);

    dry_runs_list_each_set(&lab, &spine, far.len());
    assert_eq!(places(&lab), []);
    let change = lab
        .run_in_turn(&["drain", &spine, "--reason", "fan", "--json"])
        .exits(0)
        .json();
    assert_eq!(
        (&change["started"], &change["service"]),
        (&Value::Bool(true), &Value::from("drain"))
    );
    assert!(change.get("sets").is_none(), "only a dry run lists Sets");
    let figures = &change["figures"];
    assert!(
        figures["entries"].as_u64() > Some(0) && figures["pairs_moved"].as_u64() > Some(0),
        "{change}"
    );
    assert!(
        figures["load_max_after"].as_u64() >= figures["load_max_before"].as_u64(),
        "{change}"
    );
    wait_for_places(&lab, &[("drain", "out")]);
    lab.run(&["health"]).exits(0);
    lab.run(&["status", "out-of-service"]).exits(0).says(&spine).says("fan");
    lab.run(&["status", "out-of-service", "--csv"])
        .exits(0)
        .says("service,state,kind");
    lab.run_in_turn(&["drain", &spine])
        .exits(2)
        .complains("SLV-API-0012")
        .complains("already");
    assert!(lab.read("state/out-of-service.txt").contains("drain switch 0x"));

    lab.run_in_turn(&["isolate", &spine])
        .exits(0)
        .says("ports to be disabled: ");
    wait_for("disabled ports", || {
        far.iter()
            .all(|far| port(&lab, far).0.to_lowercase().contains("disabled"))
            .then_some(())
    });
    wait_for_places(&lab, &[("isolate", "out")]);
    wait_for("healthy", || (lab.run(&["health"]).code == 0).then_some(()));

    // The list is there after a kill. The emulated fabric is in the killed process, so it is whole again, and the
    // switch is taken out once more.
    process.signal("KILL");
    drop(process);
    let _process = daemon(&lab);
    wait_for_places(&lab, &[("isolate", "out")]);

    lab.run_in_turn(&["enable", &spine])
        .exits(0)
        .says("ports to be enabled: ");
    wait_for_places(&lab, &[]);
    wait_for("the switch", || {
        let whole = links(&lab).iter().flatten().filter(|end| end.0 == spine).count();
        (whole == far.len() && lab.run(&["health"]).code == 0).then_some(())
    });
    lab.run_in_turn(&["enable", &spine]).exits(2).complains("SLV-API-0012");
}

#[test]
fn losses_are_named_and_bad_names_are_refused() {
    let lab = Lab::new("drain-losses");
    let _process = daemon(&lab);
    let host = |n: usize| {
        let all = links(&lab);
        let mut links = all.iter().filter(|ends| ends.iter().any(|end| end.0.starts_with('H')));
        links.nth(n).cloned().unwrap()
    };
    let last = host(15);
    let name = last.iter().find(|end| end.0.starts_with('H')).unwrap().0.clone();
    let leaf = last.iter().find(|end| !end.0.starts_with('H')).unwrap().clone();
    lab.run_in_turn(&["drain", &name])
        .exits(2)
        .complains("SLV-API-0013")
        .complains("1 host would lose")
        .complains(&name)
        .complains("--force");
    lab.run_in_turn(&["drain", &leaf.0])
        .exits(2)
        .complains("4 hosts would lose");
    lab.run_in_turn(&["drain", &name, "--dry-run"])
        .exits(0)
        .says("1 host without any other connection");
    lab.run_in_turn(&["drain", &name, "--force"]).exits(0).says(&name);
    wait_for_places(&lab, &[("drain", "out")]);
    lab.run(&["health"]).exits(0);
    // By the other end of its link.
    lab.run_in_turn(&["enable", &format!("{}[{}]", leaf.0, leaf.1)])
        .exits(0);
    wait_for_places(&lab, &[]);

    let own = host(0).iter().find(|end| end.0.starts_with('H')).unwrap().0.clone();
    let check = |args: &[&str], words: &[&str]| {
        let ran = lab.run_in_turn(args).exits(2);
        words.iter().fold(ran, |ran, word| ran.complains(word));
    };
    check(&["isolate", &own, "--force"], &["SLV-API-0012", "manager's own"]);
    check(&["drain", &format!("{}x", leaf.0)], &["SLV-API-0014", "did you mean"]);
    check(&["drain", &format!("{}[99]", leaf.0)], &["SLV-API-0014", "ports 1 to"]);
    check(&["drain", "0xdead"], &["SLV-API-0014"]);
    check(&["enable", &leaf.0], &["SLV-API-0012", "not out of service"]);
    let long = "x".repeat(300);
    check(
        &["drain", &name, "--force", "--reason", &long],
        &["SLV-API-0002", "reason"],
    );
    assert_eq!(places(&lab), []);
}
