//! Commands that need no fabric: topologies, tables, datagrams, configuration.

use crate::support::Lab;
use selvedge_experiment::misfits::misfits;

/// A PortInfo Get, directed route 0,1: 256 bytes.
fn mad() -> String {
    let mut bytes = [0_u8; 256];
    bytes[..4].copy_from_slice(&[1, 0x81, 1, 1]);
    bytes[7] = 1;
    bytes[15] = 0x1F;
    bytes[17] = 0x15;
    bytes[23] = 2;
    bytes[32..36].fill(0xFF);
    bytes[129] = 1;
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn fabrics_are_made_converted_shown_and_compared() {
    let lab = Lab::new("topology");
    let net = lab.path("net");
    lab.run(&["topology", "generate", "sx6536", "-o", &net]).exits(0);
    let listing = lab.path("listing");
    lab.run(&["topology", "convert", &net, "--to", "ibnetdiscover", "-o", &listing])
        .exits(0);
    let shown = lab.run(&["topology", "show", &listing, "--json"]).exits(0).json();
    assert_eq!(shown["schema"], "selvedge.fabric");
    assert_eq!(
        (&shown["switches"], &shown["hosts"], &shown["links"]),
        (&27.into(), &324.into(), &648.into())
    );
    lab.run(&["topology", "show", &listing])
        .exits(0)
        .says("links between switches")
        .says("324");
    let nodes = lab
        .run(&["topology", "show", "sx6536", "--nodes", "--csv"])
        .exits(0)
        .out;
    assert_eq!(nodes.lines().count(), 1 + 27 + 324);
    lab.run(&["topology", "generate", "ring:switches=4,hosts=1", "--to", "dot"])
        .exits(0)
        .says("graph");
    let ring = ["topology", "diff", "ring:switches=4,hosts=1"];
    lab.run(&[ring[0], ring[1], ring[2], ring[2]]).exits(0);
    lab.run(&[ring[0], ring[1], ring[2], "ring:switches=5,hosts=1"])
        .exits(1)
        .says("+ node");
}

#[test]
fn names_of_the_operator_are_used() {
    let lab = Lab::new("names");
    let nodes = lab
        .run(&["topology", "show", "ring:switches=3,hosts=1", "--nodes", "--json"])
        .exits(0)
        .json();
    let guid = nodes["nodes"][0]["guid"].as_str().unwrap().to_owned();
    let map = lab.write("map", &format!("# names\n{guid} \"rack 7, top\"\n"));
    let named = [
        "topology",
        "show",
        "ring:switches=3,hosts=1",
        "--nodes",
        "--csv",
        "--node-name-map",
        &map,
    ];
    lab.run(&named).exits(0).says("\"rack 7, top\"");
    lab.run(&[
        "topology",
        "show",
        "ring:switches=3,hosts=1",
        "--node-name-map",
        "missing",
    ])
    .exits(2)
    .complains("missing");
    let bad = lab.write("bad", "not a guid\n");
    lab.run(&["topology", "show", "ring:switches=3,hosts=1", "--node-name-map", &bad])
        .exits(2)
        .complains("bad:1");
}

#[test]
fn fabrics_that_cannot_be_had_are_refused_with_advice() {
    let lab = Lab::new("bad-fabrics");
    let check = |spec: &str, code: &str, what: &str| {
        lab.run(&["topology", "show", spec])
            .exits(2)
            .complains(code)
            .complains(what);
    };
    check("karitree:k=2,n=2", "SLV-TOPOLOGY-0001", "did you mean 'karytree'?");
    check("karytree:k=2,m=2", "SLV-TOPOLOGY-0002", "known:");
    check("missing.net", "SLV-CLI-0001", "missing.net");
    check("sx6356", "SLV-CLI-0005", "did you mean 'sx6536'?");
    let cut = "Switch 8 \"S-1\"\n[1] \"H-1\"[1]\n[2] \"H-";
    check(&lab.write("cut.net", cut), "SLV-TOPOLOGY-", "cut.net");
    check(&lab.write("empty.net", ""), "SLV-TOPOLOGY-0010", "no node");
    let twice = "Switch 2 \"S-1\"\n[1] \"H-1\"[1]\n[1] \"H-2\"[1]\n\nHca 1 \"H-1\"\n\nHca 1 \"H-2\"\n";
    check(&lab.write("twice.net", twice), "SLV-TOPOLOGY-", "twice.net");
    let error = lab
        .run(&["topology", "show", "karitree:k=2,n=2", "--json"])
        .exits(2)
        .err;
    let error: serde_json::Value = serde_json::from_str(&error).unwrap();
    assert_eq!(
        (&error["schema"], &error["code"]),
        (&"selvedge.error".into(), &"SLV-TOPOLOGY-0001".into())
    );
}

#[test]
fn tables_are_routed_dumped_and_judged() {
    let lab = Lab::new("route");
    let (lfts, lids) = (lab.path("lfts"), lab.path("lids"));
    let fabric = "mport:m=4,n=2";
    let outputs = [
        "--lfts-out",
        &lfts,
        "--lids-out",
        &lids,
        "--sl-out",
        "sl",
        "--sl2vl-out",
        "sl2vl",
    ];
    let route = ["route", "--fabric", fabric, "--engine", "updn"];
    lab.run(&[&route[..], &outputs[..]].concat())
        .exits(0)
        .says("judged good")
        .says("56 of 56");
    assert!(lab.read("lids").starts_with("0x"));
    let levels = lab.read("sl");
    assert!(levels.lines().count() >= 8, "{levels}");
    assert!(levels.lines().all(|line| line.ends_with(" 0")), "{levels}");
    let verify = ["verify", "--fabric", fabric, "--lfts", &lfts, "--lids", &lids];
    let judged = lab.run(&[&verify[..], &["--json"]].concat()).exits(0).json();
    assert_eq!(
        (&judged["schema"], &judged["ok"]),
        (&"selvedge.findings".into(), &true.into())
    );
    // One entry points elsewhere: found, with the place.
    let dump = lab.read("lfts");
    let entry = dump
        .lines()
        .find(|line| line.starts_with("0x") && line.contains("Channel"))
        .unwrap();
    let words: Vec<&str> = entry.splitn(3, ' ').collect();
    let other = if words[1] == "001" { "002" } else { "001" };
    lab.write(
        "lfts",
        &dump.replacen(entry, &format!("{} {other} {}", words[0], words[2]), 1),
    );
    lab.run(&verify).exits(1).says("judged not good").says("SLV-JUDGE-");
    lab.run(&["verify", "--fabric", fabric, "--lfts", "missing"])
        .exits(2)
        .complains("SLV-CLI-0001");
    lab.run(&["verify", "--fabric", fabric, "--lfts", &lids])
        .exits(2)
        .complains("SLV-TOPOLOGY-0030");
    let accept = [&verify[..], &["--accept", "no-such-kind"]].concat();
    let error = lab.run(&accept).exits(2).complains("is no kind of finding").err;
    assert_eq!(error.matches("SLV-").count(), 1, "{error}");
    for slip in ["hostcycle", "host-cycl"] {
        lab.run(&[&verify[..], &["--accept", slip]].concat())
            .exits(2)
            .complains("did you mean 'host-cycle'?");
    }
    lab.run(&["route", "--fabric", fabric, "--engine", "updm"])
        .exits(2)
        .complains("did you mean 'updn'?");
}

#[test]
fn an_engine_that_can_deadlock_is_not_good() {
    let lab = Lab::new("deadlock");
    let ring = ["route", "--fabric", "ring:switches=5,hosts=1", "--engine"];
    lab.run(&[&ring[..], &["minhop"]].concat())
        .exits(1)
        .says("SLV-JUDGE-0006");
    lab.run(&[&ring[..], &["dnup"]].concat())
        .exits(1)
        .says("SLV-JUDGE-0006");
    lab.run(&[&ring[..], &["updn"]].concat()).exits(0);
    lab.run(&[&ring[..], &["dfsssp"]].concat()).exits(0);
    lab.run(&[&ring[..], &["dfsssp", "--vls", "1"]].concat())
        .exits(2)
        .complains("SLV-ROUTE-0006");
    lab.run(&[&ring[..], &["ftree"]].concat())
        .exits(2)
        .complains("SLV-ROUTE-0004");
}

#[test]
fn tables_that_were_written_are_loaded() {
    let lab = Lab::new("listed");
    let lfts = lab.path("lfts");
    let tree = ["route", "--fabric", "karytree:k=3,n=2", "--engine"];
    lab.run(&[&tree[..], &["ftree", "--lfts-out", &lfts]].concat()).exits(0);
    let again = lab.path("again");
    lab.run(&[&tree[..], &["file", "--lfts", &lfts, "--lfts-out", &again]].concat())
        .exits(0);
    assert_eq!(std::fs::read(&lfts).unwrap(), std::fs::read(&again).unwrap());
    lab.run(&[&tree[..], &["file"]].concat())
        .exits(2)
        .complains("SLV-ROUTE-0007");
}

#[test]
fn more_lids_than_there_are_are_refused() {
    let lab = Lab::new("lids");
    let wanted = ["route", "--fabric", "karytree:k=8,n=3", "--lmc", "7"];
    lab.run(&wanted)
        .exits(2)
        .complains("a subnet has 49151")
        .complains("lower the LMC");
}

#[test]
fn datagrams_are_decoded() {
    let lab = Lab::new("decode");
    let line = "SubnGet PortInfo tid=0x1f dr=0,1 mod=0x2\n";
    assert_eq!(lab.run(&["decode", &mad(), &mad()]).exits(0).out, line.repeat(2));
    let text = format!("# captured\n{}  # second\n\n", mad());
    assert_eq!(lab.run_with_input(&["decode"], &text).exits(0).out, line);
    let file = lab.write("mads", &text);
    assert_eq!(lab.run(&["decode", "--file", &file]).exits(0).out, line);
    for nothing in ["", "\n\n", "# a comment\n"] {
        let file = lab.write("nothing", nothing);
        lab.run(&["decode", "--file", &file])
            .exits(2)
            .complains("SLV-CLI-0003")
            .complains("holds no datagram");
        lab.run(&["decode", "--json", "--file", &file]).exits(2);
        lab.run_with_input(&["decode"], nothing)
            .exits(2)
            .complains("standard input");
    }
    for length in [0, 2, 254, 510, 514] {
        let hex = mad().repeat(2)[..length].to_owned();
        lab.run(&["decode", &hex])
            .exits(2)
            .complains("SLV-CLI-0003")
            .complains("argument 1");
    }
    lab.run_with_input(&["decode"], "\n01 zz\n")
        .exits(2)
        .complains("line 2")
        .complains("'z' is no digit");
}

#[test]
fn names_of_devices_are_escaped_in_text_and_whole_in_json() {
    let lab = Lab::new("hidden-names");
    for (name, shown) in [
        ("S\u{202e}\u{1b}[31mX", "S\\u{202e}\\u{1b}[31mX"),
        ("a\u{200b}\u{9b}2Jb", "a\\u{200b}\\u{9b}2Jb"),
    ] {
        let net = format!("Switch 4 \"{name}\"\n[1] \"H\"[1]\n\nHca 1 \"H\"\n[1] \"{name}\"[1]\n");
        let file = lab.write("bidi.net", &net);
        let found = lab.run(&["run", "--fabric", &file, "--once"]);
        for text in [&found.out, &found.err] {
            let is_hidden = |c: char| c.is_control() && c != '\n' || name.contains(c) && !c.is_ascii();
            assert!(!text.contains(is_hidden), "{text:?}");
        }
        assert!(found.out.contains(shown), "{}", found.out);
        let json = lab
            .run(&["run", "--fabric", &file, "--once", "--json"])
            .json()
            .to_string();
        let exact = serde_json::Value::from(name).to_string();
        assert!(json.contains(exact.trim_matches('"')), "{json}");
    }
}

#[test]
fn configurations_are_printed_and_checked() {
    let lab = Lab::new("config");
    let defaults = lab.run(&["config", "defaults"]).exits(0).says("# lmc = 0").out;
    let file = lab.write("fm.toml", &defaults);
    lab.run(&["config", "check", &file]).exits(0).says("lmc = 0");
    let file = lab.write("bad.toml", "[routing]\nengine = \"updn\"\n");
    let check = lab.run(&["config", "check", &file]).exits(2);
    check
        .complains("bad.toml, line 2")
        .complains("did you mean 'routing.engines'?");
    let run = [
        "run",
        "--fabric",
        "ring:switches=3,hosts=1",
        "--once",
        "--config",
        &file,
    ];
    lab.run(&run).exits(2).complains("did you mean");
}

#[test]
fn a_closed_pipe_ends_quietly() {
    let lab = Lab::new("pipe");
    let mut command = lab.command(&["topology", "generate", "karytree:k=10,n=3"]);
    command
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped());
    let mut child = command.spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]));
}

#[test]
fn help_completions_and_manual_come_from_one_definition() {
    let lab = Lab::new("help");
    lab.run(&["--help"]).exits(0).says("demo").says("proves every change");
    lab.run(&["run", "--help"]).exits(0).says("--dry-run");
    lab.run(&["completions", "bash"]).exits(0).says("--dry-run");
    lab.run(&["man"]).exits(0).says(".TH");
    lab.run(&["man", &lab.folder().display().to_string()]).exits(0);
    assert!(lab.read("selvedge-run.1").contains("dry"));
    lab.run(&["--version"]).exits(0).says("selvedge 0");
    lab.run(&["frobnicate"]).exits(2).complains("unrecognized");
    lab.run(&["run", "--lmc", "8"]).exits(2).complains("8");
}

#[test]
fn what_is_not_text_is_not_read_as_text() {
    let lab = Lab::new("binary");
    std::fs::write(lab.path("binary"), [0x7F, b'E', b'L', b'F', 0, 0xFF, 0]).unwrap();
    let fabric = "ring:switches=3,hosts=1";
    let check = |args: &[&str]| {
        lab.run(args).exits(2).complains("binary").complains("is not text");
    };
    check(&["topology", "show", "./binary"]);
    check(&["topology", "show", fabric, "--node-name-map", "binary"]);
    check(&["verify", "--fabric", fabric, "--lfts", "binary"]);
    check(&["route", "--fabric", fabric, "--lids", "binary"]);
    check(&["route", "--fabric", fabric, "--roots", "binary"]);
    check(&["config", "check", "binary"]);
}

#[test]
fn commands_without_tables_speak_json_too() {
    let lab = Lab::new("json");
    let (three, four) = ("ring:switches=3,hosts=1", "ring:switches=4,hosts=1");
    let diff = lab.run(&["topology", "diff", three, four, "--json"]).exits(1).json();
    assert_eq!(
        (&diff["schema"], &diff["equal"]),
        (&"selvedge.diff".into(), &false.into())
    );
    assert!(!diff["changes"].as_array().unwrap().is_empty());
    let decoded = lab.run(&["decode", &mad(), "--json"]).exits(0).json();
    assert_eq!(decoded["mads"][0], "SubnGet PortInfo tid=0x1f dr=0,1 mod=0x2");
    lab.run(&["run", "--fabric", three, "--once", "--record", "record"])
        .exits(0);
    let replayed = lab.run(&["replay", "record", "--json"]).exits(0).json();
    assert_eq!(
        (&replayed["schema"], &replayed["same"]),
        (&"selvedge.replay".into(), &true.into())
    );
    let file = lab.write("fm.toml", "[routing]\nlmc = 2\n");
    let settings = lab.run(&["config", "check", &file, "--json"]).exits(0).json();
    assert_eq!(settings["settings"]["routing.lmc"], 2);
    let error = |args: &[&str], code: i32| -> serde_json::Value {
        serde_json::from_str(&lab.run(args).exits(code).err).unwrap()
    };
    for command in ["sweep", "reload"] {
        assert_eq!(error(&[command, "--json"], 3)["code"], "SLV-HTTP-0003");
    }
    let usage = error(&["run", "--frobnicate", "--json"], 2);
    assert_eq!(
        (&usage["schema"], &usage["code"]),
        (&"selvedge.error".into(), &"SLV-CLI-0007".into())
    );
    assert!(usage["message"].as_str().unwrap().contains("--frobnicate"));
    let usage = error(&["route", "--json"], 2);
    assert!(usage["message"].as_str().unwrap().contains("--fabric <SPEC>"));
}

#[test]
fn costs_are_predicted() {
    let lab = Lab::new("model");
    let svg = lab.path("svg");
    let ask = ["model", "--fabric", "sx6536", "--mad-us", "20", "--window", "32"];
    lab.run(&[&ask[..], &["--svg", &svg]].concat())
        .exits(0)
        .says("27 switches, 324 hosts, 351 LIDs, 6 blocks a table")
        .says("5,834");
    let picture = std::fs::read_to_string(&svg).unwrap();
    assert!(picture.contains("switch fault"));
    assert_eq!(misfits(&picture), [] as [&str; 0]);
    let said = lab.run(&[&ask[..], &["--json"]].concat()).exits(0).json();
    assert_eq!(said["schema"], "selvedge.model");
    let answers = said["answers"].as_array().unwrap();
    let of = |question: &str| answers.iter().filter(|a| a["question"] == question).count();
    assert_eq!((of("bring-up"), of("link fault"), of("switch fault")), (2, 3, 2));
    for answer in answers {
        let stages = answer["stages"].as_array().unwrap();
        let sum: f64 = stages.iter().map(|stage| stage["time_ms"].as_f64().unwrap()).sum();
        assert!((answer["time_ms"].as_f64().unwrap() - sum).abs() < 1e-6, "{answer}");
        let counts = answer["counts"].as_array().unwrap();
        let sum: u64 = counts.iter().map(|count| count["count"].as_u64().unwrap()).sum();
        assert_eq!(answer["mads"], sum);
    }
    // Twice the time of an agent is nearly twice the time of reading.
    let slower = lab
        .run(&["model", "--fabric", "sx6536", "--mad-us", "40", "--json"])
        .exits(0)
        .json();
    let reading = |said: &serde_json::Value| said["answers"][0]["stages"][0]["time_ms"].as_f64().unwrap();
    let ratio = reading(&slower) / reading(&said);
    assert!((1.8..2.0).contains(&ratio), "{ratio}");
    lab.run(&["model", "--fabric", "karytree:k=36,n=3"])
        .exits(0)
        .says("more LIDs than a subnet has");
    lab.run(&["model", "--fabric", "sx6536", "--seat", "\"S-L1-0\"[3]"])
        .exits(2);
    lab.run(&["model"]).exits(2);
}

#[test]
fn the_published_model_is_printed_beside_the_papers_figures() {
    let lab = Lab::new("paper");
    let folder = lab.path("paper");
    let said = lab.run(&["model", "--paper", &folder, "--csv"]).exits(0).out;
    assert!(said.contains("2,\"(4, 2)\",t_TD,22.4,21.6,20.17,-6.6,"), "{said}");
    let figures = std::fs::read_to_string(format!("{folder}/figures-10-12.csv")).unwrap();
    assert!(figures.contains("8,6,8192,11264,196608,154624,135168,"), "{figures}");
    for number in [10, 11, 12] {
        let svg = std::fs::read_to_string(format!("{folder}/figure-{number}.svg")).unwrap();
        assert!(svg.contains("24-port switches"), "figure {number}");
        assert_eq!(misfits(&svg), [] as [&str; 0], "figure {number}");
    }
}
