//! `selvedge telemetry` beside a running manager: every command in each of its forms, and Prometheus by TCP.

use crate::support::{Lab, Process, wait_for};

const SETTINGS: &str = "[telemetry]\ninterval_ms = 1000\nerrors_interval_ms = 1000\ndetail_interval_ms = 0\n";

fn sampling(lab: &Lab, settings: &str) -> Process {
    lab.write("selvedge.toml", settings);
    let process = lab.start(&["run", "--fabric", "mport:m=4,n=2", "--config", "selvedge.toml"]);
    wait_for("two slots", || {
        let ran = lab.run(&["telemetry", "status", "--json"]);
        let status = (!ran.out.is_empty()).then(|| ran.json())?;
        let slots = status["classes"][0]["slots"].as_u64()?;
        (slots >= 2).then_some(())
    });
    process
}

#[test]
fn each_command_has_its_forms() {
    let lab = Lab::new("telemetry");
    let process = sampling(&lab, SETTINGS);
    lab.run(&["telemetry", "status"]).exits(0).says("sampling").says("data");
    let csv = lab.run(&["telemetry", "status", "--csv"]).exits(0);
    assert!(csv.out.starts_with("class,interval_s,ends,slots,"), "{}", csv.out);
    let top = lab.run(&["telemetry", "top", "--top", "3"]).exits(0);
    assert_eq!(top.out.lines().count(), 4, "{}", top.out);
    let top = lab.run(&["telemetry", "top", "errors", "--json"]).exits(0).json();
    assert_eq!(top["ports"].as_array().map(Vec::len), Some(0), "no port has errors");
    lab.run(&["telemetry", "top", "PortXmitDiscards", "--csv"])
        .exits(0)
        .says("portxmitdiscards,portxmitdiscards_per_s,age");
    let port = lab.run(&["telemetry", "port", "H-1", "1", "--all"]).exits(0);
    let port = port.says("\"H-1\"[1] ACTIVE").says("PortXmitData").says("4-byte words");
    assert_eq!(port.out.matches("PortXmitWait").count(), 2, "both ends: {}", port.out);
    let watched = lab
        .run(&["telemetry", "watch", "wait", "--slots", "2", "--json"])
        .exits(0);
    assert_eq!(watched.out.lines().count(), 2, "{}", watched.out);
    lab.run(&["telemetry", "sets"]).exits(0).says("ibfabric/H-1");
    lab.write("metrics.conf", "Remote_LID\n#symbol_error\nport_xmit_data\n");
    let set = lab.run(&[
        "telemetry",
        "sets",
        "ibfabric/H-1",
        "--metrics",
        "metrics.conf",
        "--job-id",
        "533",
    ]);
    let set = set.exits(0).says("Metric Count : 4").says("D u64 job_id 533");
    assert!(!set.out.contains("symbol_error"), "{}", set.out);
    let row = lab
        .run(&["telemetry", "sets", "ibfabric/H-1", "--csv", "--no-header"])
        .exits(0);
    assert_eq!(row.out.lines().count(), 1);
    drop(process);
}

/// A list of alarms, trees or cables as soon as it has anything.
fn listed(lab: &Lab, what: &str, list: &str) -> serde_json::Value {
    wait_for(what, || {
        let found = lab.run(&["telemetry", what, "--json"]).exits(0).json();
        found[list]
            .as_array()
            .is_some_and(|all| !all.is_empty())
            .then_some(found)
    })
}

#[test]
fn errors_become_an_alarm_that_an_operator_acknowledges() {
    let lab = Lab::new("telemetry-alarms");
    let process = sampling(&lab, SETTINGS);
    lab.run(&["telemetry", "alarms"]).exits(0).says("no alarms");
    let cables = lab.run(&["telemetry", "cables"]).exits(0);
    assert_eq!(cables.out.lines().count(), 1, "{}", cables.out);
    lab.run(&["fault", "errors H-1 rcv 5000"]).exits(0);
    let alarms = listed(&lab, "alarms", "alarms");
    assert_eq!(
        (&alarms["warning"], &alarms["alarms"][0]["port"]["node_name"]),
        (&1.into(), &"H-1".into())
    );
    lab.run(&["telemetry", "alarms", "H-1", "--level", "warning", "--open"])
        .exits(0)
        .says("PortRcvErrors grew by 5000");
    lab.run(&["health"]).exits(1).says("PortRcvErrors");
    let top = lab.run(&["telemetry", "top", "errors", "--csv"]).exits(0);
    assert_eq!(top.out.lines().count(), 2, "{}", top.out);
    lab.run(&["telemetry", "cables", "worst", "--csv"])
        .exits(0)
        .says("H-1")
        .says(",5000,");
    lab.run(&["telemetry", "ack", "H-1", "--note", "known"])
        .exits(0)
        .says("1 alarm acknowledged");
    lab.run(&["health"]).exits(0);
    let open = lab.run(&["telemetry", "alarms", "--open", "--csv"]).exits(0);
    assert_eq!(open.out.lines().count(), 1, "{}", open.out);
    lab.run(&["telemetry", "ack", "--all", "--clear"])
        .exits(0)
        .says("1 alarm cleared");
    lab.run(&["telemetry", "alarms"]).exits(0).says("no alarms");
    lab.run(&["telemetry", "ack", "H-1"])
        .exits(2)
        .complains("there is no such alarm");
    lab.run(&["telemetry", "ack"]).exits(2);
    lab.run(&["telemetry", "alarms", "H-111"])
        .exits(2)
        .complains("SLV-API-0014");
    let events = lab.run(&["status", "events"]).exits(0);
    for code in ["SLV-TELEMETRY-0201", "SLV-TELEMETRY-0203"] {
        assert!(events.out.contains(code), "{code}: {}", events.out);
    }
    drop(process);
}

#[test]
fn a_link_that_everybody_waits_for_is_found() {
    let lab = Lab::new("telemetry-congestion");
    let process = sampling(&lab, SETTINGS);
    lab.run(&["telemetry", "congestion"]).exits(0).says("no port waits");
    lab.run(&["fault", "load incast:H-0 100%"]).exits(0);
    let found = listed(&lab, "congestion", "trees");
    let tree = &found["trees"][0];
    assert_eq!(tree["to"]["node_name"], "H-0", "{found}");
    assert_eq!(tree["cause"], "saturated", "{found}");
    // Every other host has a route over the link to this one, and no other pair has.
    assert_eq!(tree["pairs_found"], 7, "{found}");
    lab.run(&["telemetry", "congestion", "--pairs", "9", "--csv"])
        .exits(0)
        .says("node,port,from,to,lid")
        .says("H-7,H-0");
    lab.run(&["telemetry", "congestion"]).exits(0).says("slows down");
    let pictures = ["--svg", "waits.svg", "--dot", "links.dot", "--with-hosts"];
    lab.run(&[&["telemetry", "congestion"][..], &pictures].concat())
        .exits(0);
    let (svg, dot) = (lab.read("waits.svg"), lab.read("links.dot"));
    assert!(svg.starts_with("<svg ") && svg.contains("S-L1-0"), "{svg}");
    assert!(dot.starts_with("graph fabric {") && dot.contains("H-0"), "{dot}");
    let top = lab.run(&["telemetry", "top", "wait", "--top", "1", "--csv"]).exits(0);
    let row = top.out.lines().nth(1).unwrap().split(',').nth(8).unwrap().to_owned();
    assert!(
        row.parse::<f64>().is_ok_and(|share| share > 10.0 && share <= 100.0),
        "{}",
        top.out
    );
    lab.run(&["fault", "load off"]).exits(0);
    wait_for("rest", || {
        let ran = lab.run(&["telemetry", "congestion"]).exits(0);
        ran.out.contains("no port waits").then_some(())
    });
    drop(process);
}

#[test]
fn mistakes_are_named() {
    let lab = Lab::new("telemetry-mistakes");
    let process = sampling(&lab, SETTINGS);
    lab.run(&["telemetry", "top", "PortXmitDate"])
        .exits(2)
        .complains("did you mean PortXmitData?");
    lab.run(&["telemetry", "port", "H-111"])
        .exits(2)
        .complains("SLV-API-0014");
    lab.write("metrics.conf", "port_xmit_date\n");
    lab.run(&["telemetry", "sets", "ibfabric", "--metrics", "metrics.conf"])
        .exits(2)
        .complains("metrics.conf: SLV-TELEMETRY-0101: line 1")
        .complains("did you mean port_xmit_data?");
    drop(process);
    lab.write("selvedge.toml", "[telemetry]\nends = \"none\"\n");
    lab.run(&[
        "run",
        "--fabric",
        "mport:m=4,n=2",
        "--config",
        "selvedge.toml",
        "--check-config",
    ])
    .exits(2);
}

#[test]
fn a_manager_that_does_not_sample_says_so() {
    let lab = Lab::new("telemetry-off");
    lab.write("selvedge.toml", "[telemetry]\nenabled = false\n");
    let process = lab.start(&["run", "--fabric", "mport:m=4,n=2", "--config", "selvedge.toml"]);
    wait_for("answer", || {
        let ran = lab.run(&["telemetry", "status"]);
        (ran.code == 1).then_some(ran)
    })
    .says("off");
    lab.run(&["telemetry", "top"]).exits(2).complains("SLV-API-0015");
    drop(process);
}

/// A manager that stores each second. Waits until so many slots of a port are stored.
fn storing(lab: &Lab, slots: usize) -> Process {
    let settings = format!("{SETTINGS}history_interval_ms = 1000\n[daemon]\nstate_dir = \"state\"\n");
    let process = sampling(lab, &settings);
    wait_for("stored slots", || (points(lab)?.len() >= slots).then_some(()));
    process
}

/// Returns time and total of each stored slot of a port.
fn points(lab: &Lab) -> Option<Vec<(u64, u64)>> {
    let ran = lab.run(&["telemetry", "plot", "H-1", "1", "--json"]);
    let series = (!ran.out.is_empty()).then(|| ran.json())?;
    let points = series["points"].as_array()?.iter();
    let known = points.map(|point| Some((point["at_ms"].as_u64()?, point["total"].as_u64()?)));
    known.collect()
}

#[test]
fn stored_counters_are_drawn() {
    let lab = Lab::new("telemetry-plot");
    let process = storing(&lab, 5);
    let text = lab.run(&["telemetry", "plot", "H-1", "1", "--since", "30s"]).exits(0);
    let text = text
        .says("\"H-1\"[1] PortXmitData in bytes a second")
        .says("0 ┼")
        .says("mean ");
    assert!(text.out.lines().all(|line| line.chars().count() <= 112), "{}", text.out);
    let csv = lab
        .run(&["telemetry", "plot", "H-1", "1", "PortXmitWait", "--csv"])
        .exits(0);
    assert!(
        csv.out.starts_with("time,total,increase,per_s,how\n") && csv.out.lines().count() > 3,
        "{}",
        csv.out
    );
    lab.run(&["telemetry", "plot", "H-1", "1", "--svg", "plot.svg"])
        .exits(0);
    assert!(lab.read("plot.svg").contains("PortXmitData"));
    let history = lab.run(&["telemetry", "history"]).exits(0);
    history
        .says("storing")
        .says("state/history")
        .says("emulated mport:m=4,n=2");
    let history = lab.run(&["telemetry", "history", "--json"]).exits(0).json();
    assert!(
        history["rows"].as_u64() > Some(0) && history["rows_lost"] == 0,
        "{history}"
    );
    lab.run(&["telemetry", "history", "--csv"])
        .exits(0)
        .says("interval_ms,1000");
    // Nothing is stored of that time, and mistakes are named.
    lab.run(&[
        "telemetry",
        "plot",
        "H-1",
        "1",
        "--since",
        "2001-01-01",
        "--until",
        "2001-01-02",
    ])
    .exits(1)
    .says("fewer than two slots");
    lab.run(&["telemetry", "plot", "H-1", "1", "PortXmitDate"])
        .exits(2)
        .complains("did you mean PortXmitData?");
    lab.run(&["telemetry", "plot", "H-1", "9"])
        .exits(2)
        .complains("SLV-API-0014");
    lab.run(&["telemetry", "plot", "H-1", "1", "--since", "soon"])
        .exits(2)
        .complains("want a time ago");
    lab.run(&["telemetry", "plot", "H-1", "1", "--since", "1m", "--until", "2m"])
        .exits(2)
        .complains("is after");
    drop(process);
}

#[test]
fn what_is_stored_is_listed() {
    let lab = Lab::new("telemetry-stored");
    let process = storing(&lab, 3);
    wait_for("a stored topology", || {
        let ran = lab.run(&["telemetry", "history", "topology", "--csv"]);
        (ran.out.lines().count() == 2).then_some(())
    });
    let links = lab
        .run(&["telemetry", "history", "topology", "--at", "0s", "--csv"])
        .exits(0);
    let links = links.says("node,port,peer,peer_port,rate").says("H-1,1,");
    assert!(links.out.lines().count() > 16, "{}", links.out);
    lab.run(&["telemetry", "history", "topology", "--at", "2001-01-01"])
        .exits(2)
        .complains("no topology is stored of that time");
    let events = lab.run(&["telemetry", "history", "events"]).exits(0);
    events.says("SUBNET UP");
    let events = lab.run(&["telemetry", "history", "events", "--severity", "error", "--csv"]);
    assert_eq!(events.exits(0).out, "time,severity,code,event\n");
    lab.run(&["telemetry", "history", "events", "--severity", "loud"])
        .exits(2);
    let slice = lab
        .run(&["telemetry", "history", "slice", "PortXmitPkts", "--json"])
        .exits(0)
        .json();
    let ports = slice["ports"].as_array().unwrap();
    assert!(ports.len() > 16 && ports[0]["increase"].is_null(), "{slice}");
    let top = lab
        .run(&["telemetry", "history", "slice", "--since", "1m", "--top", "3", "--csv"])
        .exits(0);
    assert_eq!(top.out.lines().count(), 4, "{}", top.out);
    lab.run(&["telemetry", "history", "slice", "PortXmitDate"])
        .exits(2)
        .complains("did you mean PortXmitData?");
    lab.run(&["telemetry", "history", "--csv", "events"]).exits(2);
    drop(process);
}

#[test]
fn thresholds_change_with_a_reload_and_ended_alarms_are_listed() {
    let lab = Lab::new("telemetry-thresholds");
    let settings = format!("{SETTINGS}exclude = [\"H-3\", \"X*\"]\n[daemon]\nstate_dir = \"state\"\n");
    let process = sampling(&lab, &settings);
    lab.run(&["telemetry", "port", "H-3"])
        .exits(2)
        .complains("SLV-API-0014");
    lab.run(&["status", "events"])
        .exits(0)
        .says("telemetry.exclude has \"X*\"");
    lab.run(&["fault", "errors H-1 rcv 5000"]).exits(0);
    listed(&lab, "alarms", "alarms");
    let table = "[telemetry.alarms]\nttl_s = 1\nwindow_s = 10\nPortRcvErrors = ";
    lab.write(
        "selvedge.toml",
        &format!("{settings}{table}{{ warning = 5, clear = 6 }}\n"),
    );
    lab.run(&["reload"])
        .exits(2)
        .complains("SLV-CONFIG-0013")
        .complains("line 11");
    lab.write("selvedge.toml", &format!("{settings}{table}false\n"));
    lab.run(&["reload"]).exits(0);
    let ended = wait_for("the end of the alarm", || {
        let ran = lab.run(&["telemetry", "alarms", "--cleared", "--csv"]).exits(0);
        ran.out.contains(",below,").then_some(ran)
    });
    ended.says("PortRcvErrors,H-1,1,");
    lab.run(&["telemetry", "alarms"]).exits(0).says("no alarms");
    lab.run(&["telemetry", "alarms", "--since", "1h"])
        .exits(2)
        .complains("--cleared");
    drop(process);
}

#[test]
fn ports_are_counted_from_a_baseline_on() {
    let lab = Lab::new("telemetry-baseline");
    let process = storing(&lab, 1);
    let set = lab.run(&["telemetry", "baseline", "H-1", "1"]).exits(0);
    let set = set.says("1 port: counted from 20");
    assert!(!set.out.contains("not stored"), "{}", set.out);
    lab.run(&["telemetry", "port", "H-1", "1", "--all"])
        .exits(0)
        .says("baseline of 20")
        .says("SINCE BASELINE");
    let cleared = lab.run(&["telemetry", "baseline", "--clear", "--json"]).exits(0).json();
    assert!(
        cleared["at_ms"].is_null() && cleared["ports"].as_u64() > Some(10),
        "{cleared}"
    );
    lab.run(&["telemetry", "baseline", "H-111"])
        .exits(2)
        .complains("SLV-API-0014");
    drop(process);
}

#[test]
fn a_manager_that_was_killed_loses_no_stored_slot() {
    let lab = Lab::new("telemetry-killed");
    let process = storing(&lab, 3);
    let before = points(&lab).unwrap();
    process.signal("KILL");
    drop(process);
    let process = storing(&lab, before.len() + 2);
    let after = points(&lab).unwrap();
    // A slot that was shown may not have been written: the one in progress.
    let written = &before[..before.len() - 1];
    assert!(
        written.iter().all(|point| after.contains(point)),
        "{before:?} {after:?}"
    );
    // The emulated devices begin with 0 again, the totals do not.
    assert!(
        after.windows(2).all(|two| two[0].0 < two[1].0 && two[0].1 <= two[1].1),
        "{after:?}"
    );
    assert!(
        after.last().unwrap().1 > before.last().unwrap().1,
        "{before:?} {after:?}"
    );
    drop(process);
}

#[test]
fn without_a_state_folder_nothing_is_stored() {
    let lab = Lab::new("telemetry-no-history");
    let process = sampling(&lab, SETTINGS);
    lab.run(&["telemetry", "history"]).exits(1).says("off");
    lab.run(&["telemetry", "plot", "H-1", "1"])
        .exits(2)
        .complains("SLV-API-0016")
        .complains("--state");
    drop(process);
}
