//! Lists of a running manager: rows that fit, their order, partitions, and events as they happen.

use crate::support::{Lab, Process, wait_for};

fn up(lab: &Lab, words: &[&str]) -> Process {
    let process = lab.start(words);
    wait_for("subnet that is up", || (lab.run(&["status"]).code == 0).then_some(()));
    process
}

/// A column of a list as CSV, without its header.
fn column(lab: &Lab, words: &[&str], name: &str) -> Vec<String> {
    let words: Vec<&str> = ["status"].iter().chain(words).chain(&["--csv"]).copied().collect();
    let csv = lab.run(&words).exits(0).out;
    let mut lines = csv.lines();
    let place = lines.next().unwrap().split(',').position(|key| key == name).unwrap();
    lines
        .map(|line| line.split(',').nth(place).unwrap().to_owned())
        .collect()
}

#[test]
fn rows_are_selected_and_sorted() {
    let lab = Lab::new("rows");
    let process = up(&lab, &["run", "--fabric", "mport:m=4,n=2"]);
    let all = column(&lab, &["nodes"], "name");
    assert_eq!(all.len(), 14);
    let hosts = column(
        &lab,
        &["nodes", "--kind", "host", "--sort", "name", "--reverse"],
        "name",
    );
    assert_eq!(hosts, ["H-7", "H-6", "H-5", "H-4", "H-3", "H-2", "H-1", "H-0"]);
    let lids: Vec<u16> = column(&lab, &["nodes", "--sort", "lid"], "lid")
        .iter()
        .map(|lid| lid.parse().unwrap())
        .collect();
    assert!(lids.is_sorted() && lids.len() == 14, "{lids:?}");
    // A name is one of either end, in any case.
    let links = column(&lab, &["links", "--name", "s-l1-0"], "node");
    assert_eq!(links.len(), 4, "two spines and two hosts");
    let ports = column(
        &lab,
        &["ports", "--name", "H-*", "--name", "S-L1-1", "--where", "port=1"],
        "node",
    );
    assert_eq!(ports.len(), 9);

    lab.run(&["fault", "cut", "S-L1-0[3]"]).exits(0);
    wait_for("port without a link", || {
        (column(&lab, &["ports", "--state", "down"], "node").len() == 2).then_some(())
    });
    let both = column(&lab, &["links", "--state", "down,unknown"], "state");
    assert_eq!(both, ["DOWN"]);
    let rest = column(&lab, &["links", "--speed", "hdr", "--width", "4x"], "rate");
    assert_eq!(rest.len(), 15, "the lost one has no speed");
    // JSON has the same rows.
    let json = lab
        .run(&["status", "ports", "--state", "DOWN", "--json"])
        .exits(0)
        .json();
    assert_eq!(json["ports"].as_array().unwrap().len(), 2);
    lab.run(&["status", "nodes", "--name", "nothing"]).exits(0).says("none");

    // What a list does not have is refused, never ignored.
    let refused = |words: &[&str], want: &str| drop(lab.run(words).exits(2).complains(want));
    refused(
        &["status", "links", "--sort", "lid"],
        "links have no field 'lid': there are node, port,",
    );
    refused(&["status", "nodes", "--state", "down"], "nodes have no field 'state'");
    refused(&["status", "--name", "H-0"], "SLV-CLI-0007");
    refused(&["status", "ports", "--since", "1h"], "SLV-CLI-0007");
    refused(&["status", "ports", "--state", "dwn"], "'down'");
    process.signal("TERM");
    assert_eq!(process.exit_code(), Some(0));
}

#[test]
fn partitions_name_their_members_and_rules_without_any() {
    let lab = Lab::new("partitions");
    let config = lab.write(
        "fm.toml",
        "[fabric]\npartitions = [\"Default=0x7fff: ALL=limited, SELF=full;\", \
         \"Storage=0x11: ALL_CAS=full, 0x00000000000000ad=full;\", \"Far=0x12: ALL_ROUTERS=full;\"]\n",
    );
    let process = up(&lab, &["run", "--fabric", "mport:m=4,n=2", "--config", &config]);
    let shown = lab.run(&["status", "partitions"]).exits(0);
    let rows: Vec<Vec<&str>> = shown
        .out
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    let row = |key: &str| {
        rows.iter()
            .find(|row| row.first() == Some(&key))
            .unwrap_or_else(|| panic!("{}", shown.out))
    };
    assert_eq!(row("0x7fff")[..5], ["0x7fff", "Default", "1", "13", "0"]);
    assert_eq!(row("0x0011")[..5], ["0x0011", "Storage", "8", "0", "0"]);
    assert_eq!(row("0x0012")[..5], ["0x0012", "Far", "0", "0", "0"]);
    let idle = shown.out.split_once("rules that match nothing:").unwrap().1;
    assert!(
        idle.contains("0x00000000000000ad=full") && idle.contains("ALL_ROUTERS=full"),
        "{idle}"
    );
    assert!(!idle.contains("ALL_CAS"), "{idle}");
    // The names of a few, or of more.
    assert!(
        shown.out.contains("H-0[1], H-1[1], H-2[1], and 5 more"),
        "{}",
        shown.out
    );
    lab.run(&["status", "partitions", "--top", "8"])
        .exits(0)
        .says("H-6[1], H-7[1]");
    assert_eq!(column(&lab, &["partitions"], "membership").len(), 14 + 8);
    assert_eq!(column(&lab, &["partitions"], "set"), vec!["true"; 22]);
    let json = lab.run(&["status", "partitions", "--json"]).exits(0).json();
    assert_eq!(json["schema"], "selvedge.partitions");
    let storage = &json["partitions"][0];
    assert_eq!((&storage["pkey"], &storage["name"]), (&0x11.into(), &"Storage".into()));
    assert_eq!(storage["rules"][0]["matches"], 8);
    assert_eq!(
        storage["rules"][1],
        serde_json::json!({"rule": "0x00000000000000ad=full", "matches": 0, "decides": 0})
    );
    process.signal("TERM");
    assert_eq!(process.exit_code(), Some(0));
}

#[test]
fn events_are_followed_and_selected() {
    let lab = Lab::new("follow");
    let process = up(&lab, &["run", "--fabric", "mport:m=4,n=2"]);
    let all = column(&lab, &["events"], "severity");
    assert!(all.iter().any(|severity| severity == "info"), "{all:?}");
    let warned = || column(&lab, &["events", "--severity", "warning"], "severity");
    assert!(!warned().contains(&"info".to_owned()));
    let hour = column(&lab, &["events", "--since", "1h"], "severity");
    assert!(hour.len() >= all.len(), "{hour:?}");
    assert_eq!(column(&lab, &["events", "--since", "2100-01-01"], "number"), [""; 0]);

    let text = lab.start_into("text", &["status", "events", "--follow"]);
    let json = lab.start_into(
        "json",
        &["status", "events", "--follow", "--json", "--severity", "warning"],
    );
    let csv = lab.start_into("csv", &["status", "events", "--follow", "--csv", "--since", "0s"]);
    wait_for("events so far", || lab.read("text").contains("SLV-SM-").then_some(()));
    // Its first row is written when it knows what "0s" means: a fault from now on is in its list.
    wait_for("a reader since now", || {
        lab.read("csv").starts_with("number,").then_some(())
    });
    assert!(!lab.read("text").contains("SLV-DAEMON-0104"));
    lab.run(&["fault", "cut", "S-L1-0[3]"]).exits(0);
    // The fault is a warning, and each of the three readers has it.
    for file in ["text", "json", "csv"] {
        wait_for("the fault", || lab.read(file).contains("SLV-DAEMON-0104").then_some(()));
    }
    for line in lab.read("json").lines() {
        let event: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(event["schema"], "selvedge.event");
        assert_ne!(event["severity"], "info");
    }
    let rows = lab.read("csv");
    assert!(rows.starts_with("number,time,severity,code,event\n"), "{rows}");
    assert_eq!(rows.matches("number,time").count(), 1, "one header: {rows}");
    // No event comes twice.
    let lines = lab.read("text");
    assert_eq!(lines.matches("SLV-DAEMON-0104").count(), 1, "{lines}");
    process.signal("TERM");
    assert_eq!(process.exit_code(), Some(0));
    // The manager has ended: there is nothing left to follow.
    for follower in [text, json, csv] {
        assert_eq!(follower.exit_code(), Some(3));
    }
}
