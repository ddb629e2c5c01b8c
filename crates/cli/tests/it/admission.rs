//! One check for a start, `config check`, `--check-config` and a reload.

use crate::support::{Lab, Ran, wait_for};

const FABRIC: &str = "ring:switches=3,hosts=1";

/// Returns the verdict on each option of an OpenSM file: the treatment by option.
fn verdicts(lab: &Lab, file: &str, code: i32) -> Vec<(String, String)> {
    let found = lab
        .run(&["run", "-F", file, "--check-config", "--json"])
        .exits(code)
        .json();
    let options = found["options"].as_array().unwrap().iter();
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    options
        .map(|line| (text(&line["option"]), text(&line["treatment"])))
        .collect()
}

fn once(lab: &Lab, words: &[&str]) -> Ran {
    lab.run(&[&["run", "--fabric", FABRIC, "--once"], words].concat())
}

#[test]
fn a_check_says_what_the_start_does() {
    let lab = Lab::new("admission-agree");
    let check = |text: &str, code: i32, said: &str| {
        let file = lab.write("opensm.conf", &format!("{text}\nlog_file {}\n", lab.path("log")));
        let checked = lab.run(&["run", "-F", &file, "--check-config"]).exits(code).says(said);
        let started = once(&lab, &["-F", &file]);
        assert_eq!(started.code == 0, code == 0, "{text}: {checked:?} {started:?}");
    };
    check("routing_engine ftree,updn,no_fallback", 0, "can take its place");
    check("routing_engine ar_updn", 1, "NVIDIA's fork");
    check("node_name_map_name /nonexistent/map", 0, "warning");
    check("routing_engine fattree", 2, "did you mean 'fat-tree'?");
    check(
        "partition_config_file /nonexistent/partitions",
        0,
        "full member of the default",
    );
    check("root_guid_file /nonexistent/roots", 2, "/nonexistent/roots");
    check("lmc 9", 2, "want 0 to 7");
    // TOML files.
    let toml = |text: &str, code: i32, said: &str| {
        let file = lab.write("fm.toml", text);
        let checked = lab.run(&["config", "check", &file]).exits(code);
        assert!(format!("{}{}", checked.out, checked.err).contains(said), "{checked:?}");
        assert_eq!(once(&lab, &["--config", &file]).code == 0, code == 0, "{text}");
    };
    toml(
        "[routing]\nengines = [\"fattree\"]\n",
        2,
        "line 2: routing.engines: unknown engine 'fattree'",
    );
    toml("[routing]\nengines = \"ftree, updn\"\n", 0, "[\"ftree\", \"updn\"]");
    toml("[routing]\nengines = [\"ar_updn\", \"updn\"]\n", 2, "NVIDIA's fork");
    toml("[daemon]\nnode_name_map = \"/nonexistent/map\"\n", 0, "warning");
    toml(
        "[daemon]\ndump_dir = \"/nonexistent\"\n",
        0,
        "no dump file can be written to /nonexistent",
    );
    check(
        "dump_files_dir /nonexistent",
        0,
        "no dump file can be written to /nonexistent",
    );
    // A run with --once leaves the configured log alone; a manager would write to it.
    let file = lab.write("fm.toml", "[daemon]\nlog_file = \"/nonexistent/log\"\n");
    lab.run(&["config", "check", &file])
        .exits(2)
        .complains("SLV-CONFIG-0009");
    lab.run(&["run", "--fabric", FABRIC, "--config", &file])
        .exits(2)
        .complains("SLV-CONFIG-0009");
    once(&lab, &["--config", &file]).exits(0);
}

#[test]
fn a_check_says_what_flags_lead_to() {
    let lab = Lab::new("admission-flag-files");
    let bad = lab.write("bad.lfts", "no table\n");
    let folder = lab.path("folder");
    std::fs::create_dir(&folder).unwrap();
    std::fs::create_dir(lab.path("state")).unwrap();
    let lids = lab.write("state/guid2lid", "nonsense\n");
    for words in [
        &["--lfts", &bad][..],
        &["--lfts", "/nonexistent/lfts"],
        &["--at", "NoSuch"],
        &["--serve", "127.0.0.1:18765"],
        &["--serve", ""],
        &["--serve", &"x".repeat(81)],
        &["--record", &folder],
        &["--record", "/nonexistent/record"],
        &["--state", "state"],
        &["-f", &folder],
    ] {
        let checked = lab.run(&[&["run", "--fabric", FABRIC, "--check-config"], words].concat());
        let started = once(&lab, words);
        assert_eq!(
            (checked.code, started.code),
            (2, 2),
            "{words:?}: {checked:?} {started:?}"
        );
        let code = started
            .err
            .split_whitespace()
            .find(|word| word.starts_with("SLV-"))
            .unwrap();
        assert!(checked.err.contains(code), "{words:?}: {checked:?} {started:?}");
    }
    assert_eq!(std::fs::read_to_string(lids).unwrap(), "nonsense\n");
    assert_eq!(std::fs::read_dir(lab.path("state")).unwrap().count(), 1, "no lock file");
    lab.run(&[
        "run",
        "--fabric",
        FABRIC,
        "--check-config",
        "--state",
        "new",
        "--record",
        "record",
    ])
    .exits(0);
    assert!(!std::path::Path::new(&lab.path("new")).exists());
    assert!(!std::path::Path::new(&lab.path("record")).exists());
}

#[test]
fn a_check_goes_on_after_a_mistake() {
    let lab = Lab::new("admission-table");
    let text = "partition_config_file /nonexistent/p\nroot_guid_file /nonexistent/r\nlmc 9\nsm_priority 3\n\
                congestion_control TRUE\n";
    let file = lab.write("opensm.conf", text);
    let found = verdicts(&lab, &file, 2);
    let found: Vec<(&str, &str)> = found.iter().map(|(option, is)| (&option[..], &is[..])).collect();
    let want = [
        ("partition_config_file", "warning"),
        ("root_guid_file", "wrong"),
        ("lmc", "wrong"),
        ("sm_priority", "honoured"),
        ("congestion_control", "refused"),
    ];
    assert_eq!(found[..5], want);
    let said = once(&lab, &["-F", &file]).exits(2);
    said.complains("line 3: lmc = 9")
        .complains("/nonexistent/r")
        .complains("SLV-CLI-0030");
    // The same holds for a TOML file.
    let file = lab.write(
        "fm.toml",
        "[routing]\nlmc = 9\nengine = \"updn\"\n[keys]\nm_key_protect = 4\n[rooting]\n",
    );
    let said = lab.run(&["config", "check", &file]).exits(2);
    let said = said
        .complains("line 2: routing.lmc")
        .complains("line 3: unknown key 'routing.engine'");
    said.complains("line 5: keys.m_key_protect")
        .complains("unknown key 'rooting'");
}

#[test]
fn options_of_a_feature_that_is_off_have_no_effect() {
    let lab = Lab::new("admission-off");
    let check = |text: &str, want: &str, code: i32| {
        let file = lab.write("opensm.conf", text);
        let found = verdicts(&lab, &file, code);
        assert_eq!(found.last().unwrap().1, want, "{text}");
    };
    check("dimn_ports_file (null)", "without effect", 0);
    check("torus_config (null)", "without effect", 0);
    check("console (null)", "without effect", 0);
    check("qos FALSE\nqos_max_vls 2", "without effect", 0);
    check("qos_ca_vlarb_high 0:64", "without effect", 0);
    check("qos TRUE\nqos_max_vls 2", "honoured", 0);
    check(
        "prefix_routes_file /usr/local/etc/opensm/prefix-routes.conf",
        "without effect",
        0,
    );
    let routes = lab.write("routes", "* *\n");
    check(&format!("prefix_routes_file {routes}"), "refused", 1);
    check("torus_config /etc/torus.conf", "without effect", 0);
    check(
        "routing_engine updn,torus-2QoS\ntorus_config /etc/torus.conf",
        "refused",
        1,
    );
    check("lash_start_vl 2", "without effect", 0);
}

#[test]
fn engines_by_flag_are_read_as_those_of_a_file() {
    let lab = Lab::new("admission-engines");
    for engines in [
        "lash",
        "dor",
        "nue",
        "torus-2QoS",
        "ftree, updn",
        "updn,no_fallback",
        "ftree updn",
    ] {
        let ran = once(&lab, &["-R", engines, "--json"]).exits(0).json();
        assert!(ran["status"]["plan"]["engine"].is_string(), "{engines}");
    }
    once(&lab, &["-R", "ar_updn"]).exits(2).complains("NVIDIA's fork");
    once(&lab, &["-R", "lsh"]).exits(2).complains("did you mean 'lash'?");
    for (flag, engine) in [("lash", "lash"), ("nue", "weave")] {
        lab.run(&["run", "-R", flag, "--check-config"])
            .exits(0)
            .says(&format!("engines = [\"{engine}\"]"));
    }
}

#[test]
fn a_definition_without_its_end_is_named() {
    let lab = Lab::new("admission-semicolon");
    let text = "Default=0x7fff,ipoib: ALL=full\nStorage=0x0002: 0x0002c90300000001=full;\n";
    let file = lab.write("no_semicolon.partitions", text);
    let said = once(&lab, &["-P", &file]).exits(2);
    said.complains("line 1: 'Default=0x7fff,ipoib: ALL=full'")
        .complains("want a ';'");
}

#[test]
fn flags_of_opensm_are_explained() {
    let lab = Lab::new("admission-flags");
    let said = lab
        .run(&["run", "--smkey", "0x5", "--port-shifting", "-t", "300", "-p", "3"])
        .exits(2);
    let said = said.complains("SLV-CLI-0007: OpenSM's flag --smkey (-k): here keys.sm_key");
    let said = said.complains("OpenSM's flag --port-shifting: here not available");
    let said = said.complains("OpenSM's flag --timeout (-t): here manager.timeout_ms");
    assert!(
        !said.err.contains("--priority") && !said.err.contains("similar"),
        "{}",
        said.err
    );
    lab.run(&["run", "-A"])
        .exits(2)
        .complains("--ucast_cache (-A): not needed");
    lab.run(&["run", "--frobnicate"])
        .exits(2)
        .complains("unexpected argument");
    let error: serde_json::Value = serde_json::from_str(&lab.run(&["run", "-Q", "--json"]).exits(2).err).unwrap();
    assert!(
        error["message"].as_str().unwrap().contains("OpenSM's flag --qos (-Q)"),
        "{error}"
    );
}

/// Returns a manager in the background that is up.
fn manager(lab: &Lab, words: &[&str]) -> crate::support::Process {
    let process = lab.start(&[&["run", "--fabric", FABRIC], words].concat());
    wait_for("subnet that is up", || (lab.run(&["status"]).code == 0).then_some(()));
    process
}

fn sets(lab: &Lab) -> u64 {
    let status = lab.run(&["status", "--json"]).exits(0).json();
    status["mads"]["sets"].as_u64().unwrap()
}

#[test]
fn files_that_only_flags_name_are_read_again() {
    let lab = Lab::new("admission-again");
    let partitions = lab.write("p.conf", "Default=0x7fff: ALL=full;\n");
    let roots = lab.write("roots", "0x1\n");
    let process = manager(&lab, &["-P", &partitions, "-a", &roots, "-X", &roots]);
    let before = sets(&lab);
    lab.write("p.conf", "Default=0x7fff: ALL=full;\nStorage=2: ALL=full;\n");
    process.signal("HUP");
    wait_for("Sets of P_Key tables", || (sets(&lab) > before).then_some(()));
    lab.write("roots", "spine\n");
    let refused = lab.run(&["reload"]).exits(2).complains("'spine' is no GUID");
    // Both flags name the file.
    assert_eq!(refused.err.matches("SLV-CONFIG-0005").count(), 2, "{}", refused.err);
    lab.write("roots", "0x2\n");
    lab.run(&["reload"]).exits(0);
    // Without its partition file, a fabric would be open to all.
    std::fs::remove_file(&partitions).unwrap();
    lab.run(&["reload"])
        .exits(2)
        .complains("SLV-CONFIG-0010")
        .complains("fabric.partitions");
    process.signal("TERM");
    assert_eq!(process.exit_code(), Some(0));
}

#[test]
fn what_a_reload_refuses_changes_nothing() {
    let lab = Lab::new("admission-refuses");
    let good = "[routing]\nengines = [\"updn\"]\n[keys]\nm_key = \"0x5\"\n";
    let config = lab.write("fm.toml", good);
    let process = manager(&lab, &["--config", &config]);
    let plan = || lab.run(&["status", "plan", "--json"]).exits(0).json();
    let before = plan();
    let socket = lab.path("selvedge/selvedge.sock");
    let check = |text: &str, code: i32, said: &str| {
        let other = lab.write("other.toml", text);
        // The signal of the check before may still be under way: one reload at a time.
        let asked = |words: &[&str]| lab.run_in_turn(words);
        let against = ["config", "check", &other, "--against", &socket];
        asked(&against).exits(code).complains(said);
        lab.write("fm.toml", text);
        asked(&["reload"]).exits(code).complains(said);
        process.signal("HUP");
        lab.run(&["status"]).exits(0);
        assert_eq!(plan()["engine"], before["engine"], "{text}");
    };
    check(
        "[routing]\nengines = [\"fattree\"]\n[keys]\nm_key = \"0x5\"\n",
        2,
        "did you mean 'fat-tree'?",
    );
    check("", 2, "SLV-CONFIG-0010: keys.m_key");
    check(
        "[routing]\nengines = [\"updn\"]\n",
        2,
        "m_key = 0 to take it from every port",
    );
    check("[keys]\nm_key = \"0x5\"\n[routing]\nlmc = 9\n", 2, "routing.lmc = 9");
    // Keys that cannot change at run time are named; all others are applied.
    let later = format!("{good}[daemon]\nstate_dir = \"state\"\n[manager]\npriority = 9\n");
    check(&later, 0, "daemon.state_dir: at the next start");
    check(&later, 0, "manager.priority: at the next start");
    process.signal("TERM");
    assert_eq!(process.exit_code(), Some(0));
}
