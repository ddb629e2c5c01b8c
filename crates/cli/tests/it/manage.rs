//! Managing emulated fabrics: once, as a daemon, from outside.

use crate::support::{Lab, Process, wait_for};
use serde_json::Value;

#[test]
fn a_fabric_comes_up_once() {
    let lab = Lab::new("once");
    let outputs = [
        "--lfts-out",
        "lfts",
        "--lids-out",
        "lids",
        "--sl2vl-out",
        "sl2vl",
        "--sl-out",
        "sl",
    ];
    let run = ["run", "--fabric", "sx6536", "--once", "--json"];
    let report = lab.run(&[&run[..], &outputs[..]].concat()).exits(0).json();
    assert_eq!(
        (&report["schema"], &report["outcome"]),
        (&"selvedge.run".into(), &"good".into())
    );
    let fabric = &report["status"]["fabric"];
    assert_eq!((&fabric["links"], &fabric["links_active"]), (&648.into(), &648.into()));
    assert_eq!(report["status"]["role"], "master");
    let verify = ["verify", "--fabric", "sx6536", "--lfts", "lfts", "--lids", "lids"];
    lab.run(&verify).exits(0).says("judged good");
    lab.run(&["run", "--fabric", "sx6536", "--once"])
        .exits(0)
        .says("648 of 648 links ACTIVE");
}

#[test]
fn fabrics_of_odd_shapes() {
    let lab = Lab::new("odd");
    let switch = |id: usize, ports: usize| format!("Switch {ports} \"S-{id}\"\n");
    let check = |name: &str, net: &str, code: i32, says: &str| {
        let file = lab.write(name, net);
        lab.run(&["run", "--fabric", &file, "--once"]).exits(code).says(says);
    };
    check("alone.net", &switch(1, 8), 0, "1 switch, 0 hosts");
    check(
        "large.net",
        &(switch(1, 254) + "[254]\t\"H-1\"[1]\n\nHca 1 \"H-1\"\n[1] \"S-1\"[254]\n"),
        0,
        "1 of 1 link ",
    );
    let pair = "Switch 4 \"S-1\"\n[1] \"H-1\"[1]\n\nHca 1 \"H-1\"\n[1] \"S-1\"[1]\n\n";
    let other = "Switch 4 \"S-2\"\n[1] \"H-2\"[1]\n\nHca 1 \"H-2\"\n[1] \"S-2\"[1]\n";
    // The manager's host is in one of two parts: the manager manages it and reports the other one missing.
    let parts = pair.to_owned() + other;
    check("parts.net", &parts, 1, "1 switch, 1 host,");
    check("parts.net", &parts, 1, "not found 1 host: H-2;");
}

#[test]
fn a_dry_run_changes_nothing() {
    let lab = Lab::new("dry");
    let report = lab
        .run(&["run", "--fabric", "mport:m=4,n=2", "--dry-run", "--json"])
        .exits(0)
        .json();
    assert_eq!(report["status"]["mads"]["sets"], 0);
    assert!(report["status"]["plan"]["changes"]["sets"].as_u64().unwrap() > 0);
    let report = lab
        .run(&["watch", "--fabric", "mport:m=4,n=2", "--once", "--json"])
        .exits(1)
        .json();
    assert_eq!(report["outcome"], "unmanaged");
    assert_eq!(report["status"]["mads"]["sets"], 0);
}

#[test]
fn auto_takes_an_engine_and_says_why() {
    let lab = Lab::new("auto");
    let check = |fabric: &str, engines: &str, taken: &str, said: &[&str]| {
        let log = lab.path("log");
        let run = [
            "run",
            "--fabric",
            fabric,
            "--engine",
            engines,
            "--once",
            "--json",
            "--log-file",
            &log,
        ];
        let ran = lab.run(&run).exits(0);
        assert_eq!(ran.json()["status"]["plan"]["engine"], taken, "{fabric}");
        let log = lab.read("log");
        for text in said {
            assert!(log.contains(text), "{fabric}: no '{text}' in {log}");
        }
    };
    let torus = "torus:5x4,hosts=1";
    check(
        torus,
        "auto",
        "weave",
        &["SLV-SM-0019 SLV-ROUTE-0131", "torus of 5x4", "auto takes weave"],
    );
    check("karytree:k=3,n=2", "auto", "fat-tree", &["auto takes fat-tree"]);
    check(
        torus,
        "fat-tree,weave",
        "weave",
        &["SLV-SM-0005 plan by fat-tree refused: SLV-ROUTE-0011"],
    );
}

#[test]
fn refusals_change_nothing_and_say_why() {
    let lab = Lab::new("refused");
    let cycle = [
        "run",
        "--fabric",
        "ring:switches=5,hosts=1",
        "--engine",
        "minhop",
        "--once",
        "--json",
    ];
    let ran = lab
        .run(&cycle)
        .exits(4)
        .complains("SLV-SM-0005")
        .complains("SLV-SM-0006");
    let report = ran.json();
    assert_eq!(
        (&report["outcome"], &report["status"]["mads"]["sets"]),
        (&"refused".into(), &0.into())
    );
    let lids = ["run", "--fabric", "karytree:k=8,n=3", "--lmc", "7", "--once"];
    lab.run(&lids).exits(4).complains("SLV-SM-0014").says("refused");
    lab.run(&["run", "--fabric", "sx6536", "--once", "--engine", "none"])
        .exits(2)
        .complains("known engines");
    lab.run(&["run", "--fabric", "sx6536", "--once", "--at", "nobody"])
        .exits(2)
        .complains("no node \"nobody\"");
    lab.run(&["run", "--port", "ibsim:nobody-there", "--once"])
        .exits(3)
        .complains("SLV-PORT-0001");
    lab.run(&["run", "--port", "tcp:x", "--once"])
        .exits(2)
        .complains("SLV-PORT-0107");
}

#[test]
fn lids_survive_in_the_state_folder() {
    let lab = Lab::new("state");
    let run = [
        "run",
        "--fabric",
        "ring:switches=3,hosts=1",
        "--once",
        "--state",
        "state",
    ];
    lab.run(&run).exits(0);
    let lids = lab.read("state/guid2lid");
    let (seal, entries) = lids.split_once("\n\n").unwrap();
    assert!(seal.starts_with("# selvedge: generation 1,"), "{seal}");
    assert_eq!(entries.lines().filter(|line| !line.is_empty()).count(), 6);
    // An edited file with its seal is refused; without the seal, the port gets LID 77.
    let first = entries.lines().next().unwrap();
    let guid = first.split(' ').next().unwrap();
    let edited = lids.replace(first, &format!("{guid} 0x004d 0x004d"));
    lab.write("state/guid2lid", &edited);
    lab.run(&run)
        .exits(2)
        .complains("SLV-STORE-0006")
        .complains("delete its first line");
    assert_eq!(lab.read("state/guid2lid"), edited);
    lab.write("state/guid2lid", &edited.replace(seal, ""));
    lab.run(&[&run[..], &["--lids-out", "lids"]].concat()).exits(0);
    assert!(
        lab.read("lids").contains(&format!("{guid} 0x004d 0x004d")),
        "{}",
        lab.read("lids")
    );
    lab.write("state/guid2lid", "somebody else's\n");
    lab.run(&run).exits(2).complains("SLV-STORE-0003").complains("line 1");
    assert_eq!(lab.read("state/guid2lid"), "somebody else's\n");
}

#[test]
fn a_record_replays() {
    let lab = Lab::new("replay");
    lab.run(&["run", "--fabric", "mport:m=4,n=2", "--once", "--record", "record"])
        .exits(0);
    lab.run(&["replay", "record"]).exits(0).says("every output is the same");
    lab.run(&["replay", "--print", "record"])
        .exits(0)
        .says("SubnGetResp NodeInfo");
    lab.write("no-record", "text");
    lab.run(&["replay", "no-record"]).exits(2).complains("SLV-DAEMON-0004");
}

fn daemon(lab: &Lab, args: &[&str]) -> Process {
    let process = lab.start(args);
    wait_for("subnet that is up", || (lab.run(&["status"]).code == 0).then_some(()));
    process
}

fn events(lab: &Lab) -> Vec<Value> {
    let events = lab.run(&["status", "events", "--json"]).exits(0).json();
    events["events"].as_array().unwrap().clone()
}

#[test]
fn a_daemon_answers_breaks_heals_and_ends() {
    let lab = Lab::new("daemon");
    lab.run(&["status"]).exits(3).complains("SLV-HTTP-0003");
    let error = lab.run(&["status", "--json"]).exits(3).err;
    assert!(error.contains(r#""schema":"selvedge.error""#), "{error}");
    let map = lab.write("map", "0x025e1e0100000000 \"rack 7\"\n");
    let log = lab.path("log");
    let run = [
        "run",
        "--fabric",
        "sx6536",
        "--node-name-map",
        &map,
        "--log-file",
        &log,
        "--state",
        "state",
    ];
    let process = daemon(&lab, &run);
    lab.run(&["status"]).exits(0).says("648 of 648").says("master");
    for what in ["fabric", "nodes", "ports", "links", "plan", "findings", "events"] {
        let schema = format!("\"schema\": \"selvedge.{what}\"");
        lab.run(&["status", what, "--json"]).exits(0).says(&schema);
        lab.run(&["status", what, "--csv"]).exits(0);
    }
    lab.run(&["status", "nodes"]).exits(0).says("rack 7");
    lab.run(&["run", "--fabric", "sx6536", "--once", "--state", "state"])
        .exits(2)
        .complains("SLV-STORE-0002");
    lab.run(&["run", "--fabric", "sx6536"])
        .exits(3)
        .complains("SLV-HTTP-0002");
    // Repairs are prepared when the subnet is up; before that a sweep answers.
    wait_for("repairs", || {
        let status = lab.run(&["status", "--json"]).exits(0).json();
        (status["repairs_ready"] == true).then_some(())
    });
    let cut = lab.run(&["fault", "cut", "S-L1-1[19]"]).exits(0);
    cut.says("lost")
        .says("links lost 1, back 0")
        .says("forwarding entries changed")
        .says("SUBNET UP");
    lab.run(&["status", "fabric"]).exits(0).says("647");
    lab.run(&["fault", "restore", "S-L1-1[19]"])
        .exits(0)
        .says("links lost 0, back 1");
    lab.run(&["fault", "cut", "0x025e1e0100000000[19]"])
        .exits(0)
        .says("links lost 1, back 0");
    lab.run(&["fault", "kill", "nobody"]).exits(2).complains("SLV-EMU-0004");
    lab.run(&["fault", "explode"]).exits(2).complains("SLV-EMU-0008");
    // A file that only a flag names is read again, too.
    lab.write("map", "0x025e1e0100000000 \"rack 8\"\n");
    lab.run(&["reload"]).exits(0);
    lab.run(&["status", "nodes"]).exits(0).says("rack 8");
    let before = events(&lab).len();
    process.signal("HUP");
    wait_for("sweep after SIGHUP", || {
        let new = events(&lab).split_off(before);
        new.iter().any(|event| event["code"] == "SLV-SM-0007").then_some(())
    });
    std::fs::rename(&log, lab.path("log.old")).unwrap();
    process.signal("USR1");
    wait_for("new log file", || lab.folder().join("log").exists().then_some(()));
    assert!(lab.read("log.old").contains("SUBNET UP"));
    process.signal("TERM");
    assert_eq!(process.exit_code(), Some(0));
    lab.run(&["status"]).exits(3);
}

#[test]
fn an_emulated_fabric_is_managed_from_outside() {
    let lab = Lab::new("emulate");
    let base = format!("selvedge-{}", std::process::id());
    let emulator = lab.start(&["emulate", "--fabric", "mport:m=4,n=2", "--serve", &base]);
    let port = format!("ibsim:{base}");
    let socket = "selvedge/emulator.sock";
    wait_for("emulator", || {
        (lab.run(&["status", "fabric", "--socket", socket]).code == 0).then_some(())
    });
    lab.run(&["watch", "--port", &port, "--once"])
        .exits(1)
        .says("unmanaged");
    lab.run(&["run", "--port", &port, "--once"])
        .exits(0)
        .says("16 of 16 links ACTIVE");
    let manager = daemon(&lab, &["run", "--port", &port, "--sweep-interval", "1"]);
    // The emulator has no manager inside; the one on the default socket reports its reaction.
    lab.run(&["fault", "kill", "H-3"])
        .exits(0)
        .says("done: kill \"H-3\"")
        .says("link \"S-L1-1\"[2] - \"H-3\"[1] lost")
        .says("SUBNET UP");
    assert_eq!(lab.run(&["status", "--json"]).exits(1).json()["fabric"]["hosts"], 7);
    lab.run(&["fault", "load", "incast:H-1", "90%", "among", "S-L1-0", "--no-wait"])
        .exits(0)
        .says("done: load incast:\"H-1\" 90% among \"S-L1-0\"");
    lab.run(&["fault", "load", "incats:H-1", "90%"])
        .exits(2)
        .complains("SLV-EMU-0010: there is no pattern 'incats' (did you mean 'incast'?)");
    lab.run(&["fault", "load", "incast:H-77", "90%"])
        .exits(2)
        .complains("SLV-EMU-0004");
    manager.signal("INT");
    assert_eq!(manager.exit_code(), Some(0));
    emulator.signal("TERM");
    assert_eq!(emulator.exit_code(), Some(0));
}

#[test]
fn the_demo_tells_its_story() {
    let lab = Lab::new("demo");
    let ran = lab.run(&["demo"]).exits(0);
    ran.says("648 of 648 links ACTIVE")
        .says("$ selvedge fault 'load uniform 40%'")
        .says("links lost 1, back 0")
        .says("forwarding entries changed")
        .says("links lost 0, back 1");
}

#[test]
fn a_guarded_fabric_is_left_alone() {
    let lab = Lab::new("mkey");
    let base = format!("selvedge-mkey-{}", std::process::id());
    let emulator = lab.start(&["emulate", "--fabric", "ring:switches=3,hosts=1", "--serve", &base]);
    let port = format!("ibsim:{base}");
    wait_for("emulator", || {
        let asked = lab.run(&["status", "fabric", "--socket", "selvedge/emulator.sock"]);
        (asked.code == 0).then_some(())
    });
    lab.run(&["run", "--port", &port, "--once", "--m-key", "0x1234"])
        .exits(0);
    let refused = lab
        .run(&["run", "--port", &port, "--once", "--json"])
        .exits(4)
        .complains("SLV-SM-0015");
    assert_eq!(refused.json()["status"]["mads"]["sets"], 0);
    lab.run(&["run", "--port", &port, "--once", "--m-key", "0x1234"])
        .exits(0);
    emulator.signal("TERM");
    assert_eq!(emulator.exit_code(), Some(0));
}

#[test]
fn a_taken_socket_is_noticed_before_anything_is_sent() {
    let lab = Lab::new("taken");
    let taken = lab.path("taken.sock");
    let _listener = std::os::unix::net::UnixListener::bind(&taken).unwrap();
    let run = ["run", "--fabric", "ring:switches=3,hosts=1", "--record", "record"];
    lab.run(&[&run[..], &["--socket", &taken]].concat())
        .exits(3)
        .complains("SLV-HTTP-0002");
    // A manager that had begun would have begun its record.
    assert!(!lab.folder().join("record").exists());
    let file = lab.write("file", "somebody's work");
    lab.run(&[&run[..], &["--socket", &file]].concat())
        .exits(2)
        .complains("is not a socket");
    assert_eq!(lab.read("file"), "somebody's work");
    for path in [&file, &lab.folder().display().to_string()] {
        lab.run(&["status", "--socket", path])
            .exits(2)
            .complains("is no socket");
    }
}

#[test]
fn a_reload_keeps_what_the_command_line_says() {
    let lab = Lab::new("reload");
    let config = lab.write("fm.toml", "[routing]\nengines = [\"minhop\"]\n");
    let run = ["run", "--fabric", "mport:m=4,n=2", "--config", &config, "--lmc", "1"];
    let process = daemon(&lab, &run);
    let plan = || lab.run(&["status", "plan", "--json"]).exits(0).json();
    let before = plan();
    assert_eq!(before["engine"], "minhop");
    lab.write("fm.toml", "[routing]\nengines = [\"updn\"]\nlmc = 0\n");
    let accepted = lab.run(&["reload", "--json"]).exits(0).json();
    assert_eq!(
        (&accepted["schema"], &accepted["state"]),
        (&"selvedge.change".into(), &"kept".into())
    );
    assert_eq!(accepted["changed"], serde_json::json!(["routing.engines"]));
    let after = plan();
    assert_eq!(after["engine"], "updn");
    assert_eq!(after["lids"], before["lids"]);
    lab.run(&["status", "findings"]).exits(0).says("none");

    lab.write("fm.toml", "[routing]\nengines = [\"minhop\"]\n");
    process.signal("HUP");
    wait_for("plan after SIGHUP", || {
        Some(plan()).filter(|plan| plan["engine"] == "minhop")
    });
    lab.write("fm.toml", "[routing]\nengine = 1\n");
    process.signal("HUP");
    let told = wait_for("complaint after SIGHUP", || {
        events(&lab)
            .into_iter()
            .find(|event| event["code"] == "SLV-DAEMON-0108")
    });
    assert!(told["text"].as_str().unwrap().contains("fm.toml"), "{told}");
    assert_eq!(plan()["engine"], "minhop");
    process.signal("TERM");
    assert_eq!(process.exit_code(), Some(0));
}

#[test]
fn an_interrupted_run_says_how_far_it_was() {
    let lab = Lab::new("interrupted");
    let base = format!("selvedge-slow-{}", std::process::id());
    let emulate = [
        "emulate",
        "--fabric",
        "sx6536",
        "--service-time-us",
        "100000",
        "--serve",
        &base,
    ];
    let emulator = lab.start(&emulate);
    wait_for("emulator", || {
        let asked = lab.run(&["status", "fabric", "--socket", "selvedge/emulator.sock"]);
        (asked.code == 0).then_some(())
    });
    let port = format!("ibsim:{base}");
    let socket = lab.path("run.sock");
    let mut command = lab.command(&["run", "--port", &port, "--once", "--socket", &socket]);
    let mut child = command.stdout(std::process::Stdio::piped()).spawn().unwrap();
    wait_for("run", || {
        (lab.run(&["status", "--socket", &socket]).code == 1).then_some(())
    });
    let id = child.id().to_string();
    let killed = std::process::Command::new("kill").args(["-INT", &id]).status();
    assert!(killed.unwrap().success());
    let mut text = String::new();
    std::io::Read::read_to_string(child.stdout.as_mut().unwrap(), &mut text).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{text}");
    assert!(text.contains("interrupted while in stage discovering, "), "{text}");
    emulator.signal("TERM");
    assert_eq!(emulator.exit_code(), Some(0));
}

#[test]
fn a_damaged_record_is_no_replay() {
    let lab = Lab::new("damaged");
    lab.run(&[
        "run",
        "--fabric",
        "ring:switches=3,hosts=1",
        "--once",
        "--record",
        "record",
    ])
    .exits(0);
    let bytes = std::fs::read(lab.path("record")).unwrap();
    let check = |name: &str, bytes: &[u8], what: &str| {
        std::fs::write(lab.path(name), bytes).unwrap();
        lab.run(&["replay", name])
            .exits(2)
            .complains("SLV-DAEMON-0004")
            .complains(what)
            .complains("at byte ");
    };
    check(
        "more",
        &[&bytes[..], &[0xEE; 20]].concat(),
        "an input of kind 238 is unknown",
    );
    check(
        "short",
        &[&bytes[..], &[0xEE; 3]].concat(),
        "an input of kind 238 is unknown",
    );
    // If a killed process left a truncated record, the whole entries are replayed.
    for cut in [1, 3, 12, 13, 40] {
        std::fs::write(lab.path("torn"), &bytes[..bytes.len() - cut]).unwrap();
        lab.run(&["replay", "torn"]).exits(0).says("every output is the same");
        lab.run(&["replay", "--print", "torn"]).exits(0);
    }
    std::fs::write(lab.path("torn"), &bytes[..bytes.len() - 1]).unwrap();
    lab.run(&["replay", "torn"])
        .exits(0)
        .says("ends inside an entry at byte ");
    let torn = &lab.run(&["replay", "--json", "torn"]).exits(0).json()["torn"];
    assert!(torn["at_byte"].as_u64().unwrap() + torn["left_out_bytes"].as_u64().unwrap() == bytes.len() as u64 - 1);
    // The length of the first entry with a text is wrong: nothing after it can be read.
    let torn_at = torn["at_byte"].as_u64().unwrap() as usize;
    let policy = [&bytes[..torn_at], &[7], &[0; 8], &[0xFF; 4], &bytes[torn_at / 2..]].concat();
    std::fs::write(lab.path("damaged"), policy).unwrap();
    for words in [&["replay"][..], &["replay", "--print"], &["replay", "--json"]] {
        lab.run(&[words, &["damaged"]].concat()).exits(1);
    }
    lab.run(&["replay", "damaged"]).exits(1).says("damaged at byte ");
    lab.run(&["decode", "--file", "damaged"])
        .exits(1)
        .complains("damaged at byte ");
    std::fs::write(lab.path("head"), &bytes[..30]).unwrap();
    lab.run(&["replay", "head"])
        .exits(2)
        .complains("ends inside its header");
}

#[test]
fn a_bad_name_to_serve_is_wrong_usage() {
    let lab = Lab::new("serve");
    for command in ["run", "emulate"] {
        lab.run(&[command, "--fabric", "ring:switches=3,hosts=1", "--serve", "a:b"])
            .exits(2)
            .complains("SLV-PORT-0104");
    }
}

#[test]
fn results_that_cannot_be_written_are_noticed_first() {
    let lab = Lab::new("unwritable");
    let fabric = ["--fabric", "ring:switches=3,hosts=1"];
    let run = ["run", "--once", "--record", "record", "--lfts-out", "missing/lfts"];
    lab.run(&[&run[..], &fabric[..]].concat())
        .exits(2)
        .complains("SLV-CLI-0002")
        .complains("missing/lfts");
    assert!(!lab.folder().join("record").exists());
    lab.run(&[&["route", "--sl-out", "."][..], &fabric[..]].concat())
        .exits(2)
        .complains("SLV-CLI-0002");
    // A check leaves no file behind.
    lab.write("old", "old");
    let run = [
        "run",
        "--once",
        "--lids-out",
        "new",
        "--lfts-out",
        "old",
        "--sl-out",
        "missing/sl",
    ];
    lab.run(&[&run[..], &fabric[..]].concat()).exits(2);
    assert_eq!(lab.read("old"), "old");
    assert!(!lab.folder().join("new").exists());
}

#[test]
fn tables_are_written_as_opensm_or_ibroute_does() {
    let lab = Lab::new("styles");
    let fabric = ["--fabric", "ring:switches=3,hosts=1"];
    let check = |command: &[&str]| {
        for style in ["opensm", "ibroute"] {
            let args = ["--lfts-out", "lfts", "--lids-out", "lids", "--lfts-style", style];
            lab.run(&[command, &fabric, &args].concat()).exits(0);
            let text = lab.read("lfts");
            let has_count = text.contains("valid lids dumped");
            assert_eq!(has_count, style == "ibroute", "{text}");
            let verify = ["verify", "--lfts", "lfts", "--lids", "lids"];
            lab.run(&[&verify[..], &fabric].concat()).exits(0);
        }
    };
    check(&["route"]);
    check(&["run", "--once"]);
}
