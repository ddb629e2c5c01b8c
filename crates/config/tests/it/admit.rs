//! The check of a configuration: for a start, and against the settings of a running manager.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use selvedge_config::{
    Against, FlagFile, Key, LidsRead, Readers, Settings, SettingsFile, Sources, Treatment, Verdict, admit,
};

const READERS: Readers = Readers {
    names: |path| Err(format!("cannot read {}", path.display())),
    lids: |_| Ok(LidsRead::default()),
    topology: |path| match path.ends_with("bad.topo") {
        true => Err(format!("NO-TOPOLOGY {}", path.display())),
        false => Ok(()),
    },
    refuses: |name, policy| (name.0 == "ftree" && policy.lmc.get() > 0).then(|| "ftree and routing.lmc".to_owned()),
};

fn sources() -> Sources {
    Sources {
        file: SettingsFile::Toml(PathBuf::from("fm.toml")),
        ..Sources::new(READERS)
    }
}

fn reload(text: &str, running: &Settings) -> Verdict {
    let sources = sources().with_text(Path::new("fm.toml"), text);
    admit(&sources, Against::Running(running))
}

fn settings(text: &str) -> Settings {
    let verdict = admit(&sources().with_text(Path::new("fm.toml"), text), Against::Start);
    assert!(verdict.is_ok(), "{:?}", verdict.findings);
    verdict.settings
}

/// Returns a line that sets a key to a value other than its default.
fn other(key: &Key) -> String {
    let values = [
        "2",
        "3",
        "true",
        "false",
        "\"in\"",
        "\"own\"",
        "\"sequential\"",
        "\"never\"",
        "\"0x5\"",
        "[\"weave\"]",
        "[\"0x5\"]",
        "[\"A=1: ALL;\"]",
        "[\"A: default\"]",
        "[\"PortFlowCtlCounters\"]",
        "\"one\"",
        "\"127.0.0.1:9315\"",
        "\"http://p:9090/w\"",
        "\"another\"",
        "\"http://p:9090/w\"",
        "2048",
        "false",
        "{ info = 7 }",
        "\"1e-6\"",
        "7",
    ];
    let defaults = Settings::default();
    let line = |value: &str| format!("[{}]\n{} = {value}\n", key.section, key.name);
    let differs = |value: &&str| {
        let sources = sources().with_text(Path::new("fm.toml"), &line(value));
        let verdict = admit(&sources, Against::Start);
        verdict.is_ok() && key.value(&verdict.settings) != key.value(&defaults)
    };
    line(
        values
            .into_iter()
            .find(differs)
            .unwrap_or_else(|| panic!("no other value of {}", key.path())),
    )
}

#[test]
fn every_key_is_taken_or_named_by_a_reload() {
    let running = Settings::default();
    for key in Key::ALL {
        let text = other(key);
        let verdict = reload(&text, &running);
        assert!(verdict.is_ok(), "{text}: {:?}", verdict.findings);
        let named: Vec<&str> = verdict.at_next_start().map(|found| found.name.as_str()).collect();
        let is_policy = ["routing", "fabric", "qos"].contains(&key.section) && key.name != "expected";
        let is_policy = is_policy || key.name.starts_with("m_key");
        let is_taken =
            is_policy || ["node_name_map", "sm_key"].contains(&key.name) || key.section == "telemetry.alarms";
        let want = if is_taken { Vec::new() } else { vec![key.path()] };
        assert_eq!(named, want, "{text}");
        let changed = verdict.settings.policy.changed_from(&running.policy);
        let want = if is_policy { vec![key.path()] } else { Vec::new() };
        assert_eq!(changed, want, "{text}: a change is named by its keys");
    }
}

#[test]
fn a_key_of_ports_is_not_taken_back() {
    let running = settings("[keys]\nm_key = \"0x5\"\n");
    for text in ["", "[routing]\nlmc = 1\n", "[keys]\nsm_key = \"0x6\"\n"] {
        let verdict = reload(text, &running);
        let stops: Vec<_> = verdict
            .stops()
            .map(|found| (found.treatment, &found.name[..]))
            .collect();
        assert_eq!(stops, [(Treatment::NotNow, "keys.m_key")], "{text}");
        assert!(verdict.error().unwrap().starts_with("SLV-CONFIG-0010: keys.m_key"));
        // A start accepts it.
        settings(text);
    }
    assert!(reload("[keys]\nm_key = 5\n", &running).is_ok(), "the same key");
    // Another key, or expressly none: each port is changed. Without a state folder that is risky.
    for (text, risk) in [
        ("[keys]\nm_key = \"0x6\"\n", true),
        ("[keys]\nm_key = 0\n", true),
        ("[keys]\nm_key = 5\n", false),
    ] {
        let verdict = reload(text, &running);
        assert!(verdict.is_ok(), "{text}: {:?}", verdict.findings);
        let warned = verdict.warnings().any(|found| found.name == "keys.m_key");
        assert_eq!(warned, risk, "{text}: {:?}", verdict.findings);
        let mut stores = running.clone();
        stores.daemon.state_dir = Some("state".into());
        assert_eq!(reload(text, &stores).warnings().count(), 0, "{text}");
    }
    // A flag that gives the key overrules the file.
    let flagged = Sources {
        overrule: Arc::new(|settings| settings.policy.m_key = 5),
        ..sources().with_text(Path::new("fm.toml"), "")
    };
    assert!(admit(&flagged, Against::Running(&running)).is_ok());
}

#[test]
fn what_a_start_refuses_a_reload_refuses() {
    let running = Settings::default();
    let texts = [
        "[routing]\nengines = [\"fattree\"]\n",
        "[routing]\nlmc = 8\n",
        "[routing\n",
        "[routing]\nlmc = 1\nlmc = 2\n",
        "[daemon]\nlog_file = \"/nonexistent/log\"\n",
        "[daemon]\nstate_dir = \"/dev/null/state\"\n",
        "[daemon]\nsocket = \"/dev/null\"\n",
        "[fabric]\nexpected = \"bad.topo\"\n",
    ];
    for text in texts {
        let start = admit(&sources().with_text(Path::new("fm.toml"), text), Against::Start);
        let reloaded = reload(text, &running);
        assert!(!start.is_ok() && !reloaded.is_ok(), "{text}");
        assert_eq!(start.error(), reloaded.error(), "{text}");
    }
}

#[test]
fn each_flag_that_names_a_file_is_judged() {
    let missing = PathBuf::from("/nonexistent/list");
    let judge = |what| {
        let sources = Sources {
            flags: vec![("-x", what, missing.clone())],
            ..Sources::new(READERS)
        };
        let verdict = admit(&sources, Against::Start);
        assert!(sources.has_files());
        (
            verdict.is_ok(),
            verdict.findings.iter().map(|f| f.treatment).collect::<Vec<_>>(),
        )
    };
    for what in [FlagFile::Roots, FlagFile::Compute, FlagFile::Io, FlagFile::GuidOrder] {
        assert_eq!(judge(what), (false, vec![Treatment::Wrong]), "{what:?}");
    }
    assert_eq!(judge(FlagFile::Partitions), (true, vec![Treatment::Warned]));
    assert_eq!(judge(FlagFile::NodeNames), (true, vec![Treatment::Warned]));
    assert_eq!(judge(FlagFile::Guid2lid), (true, vec![]));
}

#[test]
fn partitions_in_force_do_not_go_with_their_file() {
    let file = std::env::temp_dir().join(format!("selvedge-admit-{}", std::process::id()));
    let sources = Sources {
        flags: vec![("-P", FlagFile::Partitions, file.clone())],
        ..Sources::new(READERS)
    };
    let open = admit(&sources, Against::Start);
    assert!(open.is_ok() && open.warnings().count() == 1, "as with OpenSM");
    assert!(admit(&sources, Against::Running(&open.settings)).is_ok(), "still none");
    std::fs::write(&file, "Default=0x7fff: ALL=full;\nA=2: 0x1;\n").unwrap();
    let closed = admit(&sources, Against::Start);
    assert_eq!(closed.settings.policy.partitions.partitions.len(), 2);
    std::fs::remove_file(&file).unwrap();
    let gone = admit(&sources, Against::Running(&closed.settings));
    let error = gone.error().unwrap();
    assert!(error.contains("SLV-CONFIG-0010: fabric.partitions"), "{error}");
}

#[test]
fn partitions_in_force_do_not_go_with_the_content_of_their_file() {
    let file = std::env::temp_dir().join(format!("selvedge-admit-{}-emptied", std::process::id()));
    let with_flag = || Sources {
        flags: vec![("-P", FlagFile::Partitions, file.clone())],
        ..Sources::new(READERS)
    };
    let opensm = || {
        let text = format!("partition_config_file {}\nlog_file (null)\n", file.display());
        Sources {
            file: SettingsFile::OpenSm(PathBuf::from("opensm.conf")),
            text: Some(text),
            ..Sources::new(READERS)
        }
    };
    for sources in [with_flag(), opensm()] {
        std::fs::write(&file, "Default=0x7fff: ALL=full;\nA=2: 0x1;\n").unwrap();
        let closed = admit(&sources, Against::Start);
        assert!(closed.is_ok(), "{:?}", closed.findings);
        for text in ["", "\n", "# nothing but a comment\n"] {
            std::fs::write(&file, text).unwrap();
            let error = admit(&sources, Against::Running(&closed.settings)).error().unwrap();
            let path = file.display().to_string();
            assert!(error.contains("SLV-CONFIG-0010") && error.contains(&path), "{error}");
            // A start takes it, with a warning; then it is in force.
            let open = admit(&sources, Against::Start);
            assert!(open.is_ok() && open.warnings().count() == 1, "{:?}", open.findings);
            assert!(admit(&sources, Against::Running(&open.settings)).is_ok());
        }
        std::fs::write(&file, "Default=0x7fff: ALL=full;\n").unwrap();
        assert!(
            admit(&sources, Against::Running(&closed.settings)).is_ok(),
            "on purpose"
        );
    }
    std::fs::remove_file(&file).unwrap();
    // The same holds for a configuration file with partitions in it; a file without that key opens on purpose.
    let running = settings("[fabric]\npartitions = [\"A=2: 0x1;\"]\n");
    assert!(reload("", &running).error().unwrap().contains("fm.toml is empty"));
    assert!(reload("[routing]\nlmc = 0\n", &running).is_ok());
}

#[test]
fn emptied_lists_are_warned_of() {
    let file = std::env::temp_dir().join(format!("selvedge-admit-{}-list", std::process::id()));
    let cases = [
        (FlagFile::Roots, "routing.roots"),
        (FlagFile::Compute, "routing.compute"),
        (FlagFile::Io, "routing.io"),
        (FlagFile::GuidOrder, "routing.guid_order"),
    ];
    for (what, key) in cases {
        let sources = Sources {
            flags: vec![("-x", what, file.clone())],
            ..Sources::new(READERS)
        };
        std::fs::write(&file, "0x1\n").unwrap();
        let full = admit(&sources, Against::Start).settings;
        std::fs::write(&file, "").unwrap();
        let verdict = admit(&sources, Against::Running(&full));
        let warned: Vec<&str> = verdict.warnings().map(|found| found.name.as_str()).collect();
        assert!(verdict.is_ok() && warned == [key], "{warned:?}");
        assert_eq!(admit(&sources, Against::Start).warnings().count(), 0);
    }
    std::fs::remove_file(&file).unwrap();
}

#[test]
fn one_check_names_every_path_with_its_line() {
    let text = "[daemon]\nstate_dir = \"/proc/x\"\nsocket = \"/proc/y\"\nlog_file = \"/\"\n";
    let verdict = admit(&sources().with_text(Path::new("fm.toml"), text), Against::Start);
    let error = verdict.error().unwrap();
    for want in [
        "SLV-CONFIG-0009: fm.toml, line 2: daemon.state_dir: cannot write /proc/x",
        "SLV-CONFIG-0009: fm.toml, line 3: daemon.socket: cannot write /proc/y",
        "SLV-CONFIG-0009: fm.toml, line 4: daemon.log_file: cannot write /",
    ] {
        assert!(error.contains(want), "{error}");
    }
    // A flag that overrules the key has no line.
    let flagged = Sources {
        overrule: Arc::new(|settings| settings.daemon.socket = Some(PathBuf::from("/proc/z"))),
        ..sources().with_text(Path::new("fm.toml"), text)
    };
    let error = admit(&flagged, Against::Start).error().unwrap();
    assert!(
        error.contains("SLV-CONFIG-0009: daemon.socket: cannot write /proc/z"),
        "{error}"
    );
}

#[test]
fn engines_that_contradict_other_settings_are_refused() {
    let check = |text: &str| admit(&sources().with_text(Path::new("fm.toml"), text), Against::Start);
    let wrong = check("[routing]\nlmc = 2\nengines = [\"ftree\"]\n");
    let error = wrong.error().unwrap();
    assert!(
        error.starts_with("SLV-CONFIG-0011: fm.toml, line 3: routing.engines: ftree and routing.lmc"),
        "{error}"
    );
    let left = check("[routing]\nlmc = 2\nengines = [\"ftree\", \"updn\"]\n");
    assert!(left.is_ok() && left.warnings().count() == 1, "{:?}", left.findings);
    assert_eq!(check("[routing]\nengines = [\"ftree\"]\n").findings, []);
}

#[test]
fn the_expected_topology_is_read_from_the_folder_of_the_file() {
    let path = Path::new("/etc/selvedge/fm.toml");
    let start = |file: &str, overrule: bool| {
        let text = format!("[fabric]\nexpected = \"{file}\"\n");
        let sources = Sources {
            file: SettingsFile::Toml(path.to_owned()),
            text: Some(text),
            overrule: Arc::new(move |settings| drop(settings.daemon.expected.take_if(|_| overrule))),
            ..Sources::new(READERS)
        };
        admit(&sources, Against::Start)
    };
    let good = start("our.topo", false);
    assert!(good.is_ok(), "{:?}", good.findings);
    let want = Some(Path::new("/etc/selvedge/our.topo"));
    assert_eq!(good.settings.daemon.expected.as_deref(), want);
    let error = start("bad.topo", false).error().unwrap();
    let want = "SLV-CONFIG-0012: /etc/selvedge/fm.toml, line 2: fabric.expected: NO-TOPOLOGY /etc/selvedge/bad.topo";
    assert_eq!(error, want);
    assert!(start("bad.topo", true).is_ok(), "a flag names another one");
    let none = start("", false).error().unwrap();
    assert!(none.contains("SLV-CONFIG-0004"), "{none}");
}

/// A start takes an M_Key from all ports if nothing names one. The file may have been cut short.
#[test]
fn a_start_that_takes_the_key_from_ports_says_so() {
    let folder = std::env::temp_dir().join(format!("selvedge-admit-{}-state", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let check = |keys: &str, text: &str, against: Against<'_>, want: bool| {
        let state = format!("format = 1\ngeneration = 1\nm_keys = [{keys}]\n");
        std::fs::write(folder.join("plan-state.toml"), state).unwrap();
        let text = format!("{text}[daemon]\nstate_dir = \"{}\"\n", folder.display());
        let verdict = admit(&sources().with_text(Path::new("fm.toml"), &text), against);
        assert!(verdict.is_ok(), "{:?}", verdict.findings);
        let warned = verdict
            .warnings()
            .any(|found| found.key == Some("keys.m_key") || found.name == "keys.m_key");
        assert_eq!(warned, want, "{keys} {text}: {:?}", verdict.findings);
    };
    let key = "\"0x0000000000000005\"";
    check(key, "", Against::Start, true);
    check(key, "[keys]\nm_key_protect = 1\n", Against::Start, true);
    check(key, "[keys]\nm_key = 0\n", Against::Start, false);
    check(key, "[keys]\nm_key = 6\n", Against::Start, false);
    check("", "", Against::Start, false);
    // Nothing is in force that a reload would take.
    let running = Settings::default();
    check(key, "", Against::Running(&running), false);
    std::fs::remove_dir_all(&folder).unwrap();
}
