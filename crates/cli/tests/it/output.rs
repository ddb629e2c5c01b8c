//! Tests output that programs rely on: failed writes, whole files, unique names, no early report of success.

use std::fs::{self, File};
use std::process::{Command, Stdio};

use crate::support::{Lab, wait_for};
use crate::tables::World;

const TREE: &str = "mport:m=4,n=2";

/// Runs a command with standard output on a full disk.
fn on_a_full_disk(lab: &Lab, words: &[&str]) -> (Option<i32>, String) {
    let full = File::options().write(true).open("/dev/full").unwrap();
    let output = lab.command(words).stdout(full).output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn a_full_disk_is_an_error_and_a_closed_pipe_is_none() {
    let world = World::new("output-full");
    let lab = &world.lab;
    let more = [
        "topology generate sx6536",
        "config defaults",
        "completions bash",
        "man",
        "--help",
        "--version",
    ];
    let more = more.iter().map(|words| World::words(words, ""));
    let tables = World::commands();
    let all = tables
        .iter()
        .map(|(command, rest)| World::words(command, rest))
        .chain(more);
    for words in all {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let (code, err) = on_a_full_disk(lab, &words);
        assert_eq!(code, Some(2), "{words:?}: {err}");
        assert!(err.contains("SLV-CLI-0040"), "{words:?}: {err}");
    }
    for words in [
        ["run", "--fabric", TREE, "--once", "--json"],
        ["route", "--fabric", TREE, "--no-contention", "--json"],
    ] {
        let (code, err) = on_a_full_disk(lab, &words);
        let last = err.lines().last().unwrap_or_default().to_owned();
        let error: serde_json::Value = serde_json::from_str(&last).unwrap();
        assert_eq!((code, &error["code"]), (Some(2), &"SLV-CLI-0040".into()), "{err}");
    }
    for words in [
        &["topology", "generate", "sx6536"][..],
        &["status", "ports"],
        &["--help"],
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = lab.command(words).stdout(writer).output().unwrap();
        let err = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), err.as_str()), (Some(0), ""), "{words:?}");
    }
}

#[test]
fn a_note_that_cannot_be_written_is_no_panic() {
    let lab = Lab::new("output-stderr");
    let full = || File::options().write(true).open("/dev/full").unwrap();
    for words in [
        &["status"][..],
        &["route", "--fabric", TREE, "--cn", "missing"],
        &["nothing"],
    ] {
        let code = lab
            .command(words)
            .stdout(full())
            .stderr(full())
            .status()
            .unwrap()
            .code();
        assert!(matches!(code, Some(2 | 3)), "{words:?}: {code:?}");
    }
}

#[test]
fn a_file_that_does_not_fit_leaves_the_old_one() {
    let lab = Lab::new("output-replace");
    lab.write(
        "e.toml",
        "[common]\nfabric = \"ring:switches=4,hosts=1\"\nduration = \"2us\"\n",
    );
    let check = |words: &str, files: &[&str]| {
        for file in files {
            lab.write(file, "old");
        }
        let program = env!("CARGO_BIN_EXE_selvedge");
        // Files cannot grow, as on a full disk. The signal for that (SIGXFSZ) must not end the program.
        let script = format!("ulimit -f 0; exec {program} {words}");
        let output = Command::new("bash")
            .args(["-c", &script])
            .current_dir(lab.folder())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let err = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{words}: {err}");
        assert!(err.contains("SLV-CLI-0002"), "{words}: {err}");
        for file in files {
            assert_eq!(lab.read(file), "old", "{words}: {file}");
        }
    };
    check(&format!("route --fabric {TREE} --no-contention --lids-out a"), &["a"]);
    check(&format!("route --fabric {TREE} --no-contention --lfts-out a"), &["a"]);
    check(&format!("route --fabric {TREE} --no-contention --sl-out a"), &["a"]);
    check(&format!("route --fabric {TREE} --no-contention --sl2vl-out a"), &["a"]);
    check(&format!("topology generate {TREE} -o a"), &["a"]);
    check(
        &format!("compare --fabric {TREE} --engines minhop --no-contention --runs a"),
        &["a"],
    );
    check(&format!("model --fabric {TREE} --svg a"), &["a"]);
    check("man .", &["selvedge.1"]);
    let left = fs::read_dir(lab.folder()).unwrap();
    let left: Vec<_> = left
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert!(left.iter().all(|name| !name.contains(".new")), "{left:?}");
}

/// A log that meets the limit of file size loses lines, as on a full disk; the manager goes on.
#[test]
fn a_full_log_does_not_stop_a_manager() {
    let lab = Lab::new("output-log-limit");
    let program = env!("CARGO_BIN_EXE_selvedge");
    let script = format!("ulimit -f 0; exec {program} run --fabric {TREE} --once --log-file log");
    let output = Command::new("bash")
        .args(["-c", &script])
        .current_dir(lab.folder())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert_eq!(output.status.code(), Some(0), "{out}{err}");
    assert_eq!(lab.read("log"), "");
}

#[test]
fn wrong_usage_has_a_code_as_text_and_as_json() {
    let lab = Lab::new("output-usage");
    let wrong = [
        &["route", "--fabrik", "x"][..],
        &["route"],
        &["nothing"],
        &["topology"],
        &[],
        &["route", "--fabric", "x", "--vls", "99"],
    ];
    for words in wrong {
        let err = lab.run(words).exits(2).err;
        assert!(err.starts_with("SLV-CLI-0007: "), "{words:?}: {err}");
        let err = lab.run(&[words, &["--json"]].concat()).exits(2).err;
        let error: serde_json::Value = serde_json::from_str(&err).unwrap_or_else(|e| panic!("{words:?}: {e}: {err}"));
        assert_eq!(
            (&error["schema"], &error["code"]),
            (&"selvedge.error".into(), &"SLV-CLI-0007".into())
        );
        assert!(!error["message"].as_str().unwrap().is_empty(), "{err}");
    }
}

#[test]
fn an_old_spelling_works_and_says_so_once() {
    let lab = Lab::new("output-names");
    lab.write("hosts", "");
    for flag in ["--cn hosts", "--cn=hosts"] {
        let words = format!("route --fabric {TREE} --no-contention {flag}");
        let words: Vec<&str> = words.split(' ').collect();
        let err = lab.run(&words).exits(0).err;
        assert_eq!(err.matches("--cn is an old name of --compute").count(), 1, "{err}");
    }
    let words = ["route", "--fabric", TREE, "--no-contention", "--compute", "hosts"];
    assert!(!lab.run(&words).exits(0).err.contains("old name"));
    let help = lab.run(&["route", "--help"]).exits(0).out;
    assert!(help.contains("--compute") && !help.contains("--cn"), "{help}");
    let file = "[common]\nfabric = \"ring:switches=4,hosts=1\"\nduration = \"2us\"\ncn = \"hosts\"\n";
    lab.write("e.toml", file);
    lab.run(&["experiment", "--check", "e.toml"])
        .exits(0)
        .complains("'cn' is an old name of 'compute'");
}

#[test]
fn an_old_section_works_and_says_so_once() {
    let lab = Lab::new("output-section");
    lab.write("old.toml", "[administrator]\nburst = 77\n");
    let ran = lab.run(&["config", "check", "old.toml"]).exits(0);
    assert_eq!(
        ran.err.matches("[administrator] is an old name of [sa]").count(),
        1,
        "{}",
        ran.err
    );
    ran.says("[sa]").says("burst = 77");
    let words = ["run", "--fabric", TREE, "--once", "--config", "old.toml"];
    let err = lab.run(&words).exits(0).err;
    assert_eq!(
        err.matches("[administrator] is an old name of [sa]").count(),
        1,
        "{err}"
    );
}

#[test]
fn help_names_every_fault() {
    let lab = Lab::new("output-faults");
    let help = lab.run(&["fault", "--help"]).exits(0).out;
    for fault in [
        "cut PORT",
        "slow NODE by=5ms",
        "lie NODE",
        "honest NODE",
        "shy NODE",
        "clone NODE of NODE",
    ] {
        assert!(help.contains(fault), "{fault}");
    }
    for form in selvedge_emulator::FAULT_FORMS {
        assert!(help.contains(form.form) && help.contains(form.what), "{form:?}");
    }
}

#[test]
fn a_manager_in_the_background_has_its_port_before_success_is_said() {
    let lab = Lab::new("output-background");
    let ran = lab
        .run(&["run", "-B", "--port", "ibsim:nobody-is-there", "-f", "log"])
        .exits(3);
    assert!(
        ran.err.contains("SLV-PORT-0001") && !ran.err.contains("background"),
        "{}",
        ran.err
    );
    let ran = lab
        .run(&["run", "-B", "--json", "--port", "ibsim:nobody-is-there", "-f", "log"])
        .exits(3);
    assert!(ran.err.contains("\"code\":\"SLV-PORT-0001\""), "{}", ran.err);
    // State that cannot be read.
    fs::create_dir(lab.path("state")).unwrap();
    lab.write("state/guid2lid", "nonsense\n");
    lab.run(&["run", "-B", "--fabric", TREE, "--state", "state", "-f", "log"])
        .exits(2)
        .complains("SLV-STORE-");
    // An error that the check of the settings finds earlier.
    let file = lab.write("taken", "no socket");
    for place in ["--socket", "--state"] {
        lab.run(&["run", "-B", "--fabric", TREE, place, &file, "-f", "log"])
            .exits(2)
            .complains("SLV-CONFIG-0009");
    }
}

#[test]
fn a_one_shot_run_leaves_the_log_of_a_running_manager_alone() {
    let lab = Lab::new("output-log");
    let log = lab.write("opensm.log", "OpenSM's lines\n");
    let conf = lab.write(
        "opensm.conf",
        &format!("log_file {log}\ndump_files_dir {}\n", lab.path("")),
    );
    let toml = lab.write("fm.toml", &format!("[daemon]\nlog_file = \"{log}\"\n"));
    for words in [
        &["run", "--fabric", TREE, "-F", &conf, "--once"][..],
        &["run", "--fabric", TREE, "-F", &conf, "--dry-run"],
        &["run", "--fabric", TREE, "--config", &toml, "--once"],
        &["watch", "--fabric", TREE, "--config", &toml, "--once"],
    ] {
        let ran = lab.run(words);
        assert!(matches!(ran.code, 0 | 1), "{ran:?}");
        assert_eq!(lab.read("opensm.log"), "OpenSM's lines\n", "{words:?}");
    }
    lab.run(&["run", "--fabric", TREE, "-F", &conf, "--once", "-f", "own.log"])
        .exits(0);
    assert!(lab.read("own.log").contains("SUBNET UP"));
}

#[test]
fn findings_are_grouped_counted_and_bounded() {
    let lab = Lab::new("output-findings");
    let fabric = ["--fabric", "sx6536"];
    lab.run(
        &[
            &["route"][..],
            &fabric,
            &[
                "--engine",
                "updn",
                "--no-contention",
                "--lids-out",
                "lids",
                "--lfts-out",
                "lfts",
            ],
        ]
        .concat(),
    );
    let all = lab.read("lfts");
    // Half of every switch's entries are removed.
    let kept: String = (all.lines().enumerate())
        .filter(|(at, line)| !line.starts_with("0x") || at % 2 == 0)
        .map(|(_, line)| format!("{line}\n"))
        .collect();
    lab.write("half", &kept);
    let verify = [&["verify"][..], &fabric, &["--lfts", "half", "--lids", "lids"]].concat();
    let text = lab.run(&verify).exits(1).out;
    assert!(text.lines().count() < 60, "{text}");
    assert!(
        text.contains("SEVERITY") && text.contains("KIND") && text.contains("COUNT"),
        "{text}"
    );
    assert!(text.contains("--top N lists more"), "{text}");
    let json = lab.run(&[&verify[..], &["--json"]].concat()).exits(1).json();
    let found = json["findings"].as_array().unwrap().len();
    let csv = lab.run(&[&verify[..], &["--csv"]].concat()).exits(1).out;
    assert_eq!(csv.lines().count(), 1 + found);
    assert!(
        csv.starts_with("severity,code,kind,accepted,finding,witness\n"),
        "{csv}"
    );
    let errors = |text: &str| text.lines().filter(|line| line.starts_with(" error")).count();
    let more = lab.run(&[&verify[..], &["--top", "20"]].concat()).exits(1).out;
    assert!(errors(&more) > errors(&text) && errors(&more) <= found, "{more}");
    let none = lab.run(&[&verify[..], &["--top", "0"]].concat()).exits(1).out;
    assert!(none.contains("0 of ") && none.contains("judged not good"), "{none}");
}

#[test]
fn a_client_finds_the_server_whatever_folders_each_of_them_has() {
    let lab = Lab::new("output-socket");
    let manager = lab.start(&["run", "--fabric", TREE]);
    wait_for("subnet that is up", || (lab.run(&["status"]).code == 0).then_some(()));
    let log = lab.read("run.log");
    assert!(
        log.contains(&format!("API on {}/selvedge/selvedge.sock", lab.folder().display())),
        "{log}"
    );
    manager.signal("TERM");
    assert_eq!(manager.exit_code(), Some(0));
    let missing = lab.run(&["status"]).exits(3).err;
    for place in ["/run/selvedge/selvedge.sock", "/tmp/selvedge-"] {
        assert!(missing.contains(place), "{missing}");
    }
    let named = lab.run(&["status", "--socket", "own.sock"]).exits(3).err;
    assert!(
        named.contains("own.sock") && !named.contains("/run/selvedge"),
        "{named}"
    );
}

#[test]
fn a_fault_does_not_wait_in_silence() {
    let lab = Lab::new("output-fault");
    let _manager = lab.start(&["run", "--fabric", TREE]);
    wait_for("API", || (lab.run(&["status", "--json"]).code <= 1).then_some(()));
    for fault in ["loss 10%", "loss 0%", "delay 5% max=2ms", "duplicate 5%"] {
        let start = std::time::Instant::now();
        let ran = lab.run(&["fault", fault]).exits(0);
        let took = start.elapsed().as_secs();
        assert!(
            took < 3 || ran.err.contains("waits for the manager"),
            "{fault}: {took} s: {ran:?}"
        );
        assert!(took < 30, "{fault}: {took} s: {ran:?}");
    }
}
