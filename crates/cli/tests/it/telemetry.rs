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
    assert_eq!(top["ports"].as_array().map(Vec::len), Some(20));
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
