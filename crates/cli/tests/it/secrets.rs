//! Tests the sources of keys, and that no output shows a key.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use crate::support::{Lab, wait_for};

/// A key that occurs nowhere else.
const KEY: &str = "0xfeedc0de0badcafe";
const PART: &str = "c0de0bad";

const FABRIC: [&str; 4] = ["run", "--fabric", "ring:switches=3,hosts=1", "--once"];

#[track_caller]
fn hides(texts: &[&str]) {
    for text in texts {
        assert!(!text.to_ascii_lowercase().contains(PART), "{text}");
    }
}

#[test]
fn a_mistyped_key_is_not_quoted() {
    let lab = Lab::new("mistyped");
    let check = |args: &[&str], code: &str| {
        let ran = lab.run(args).exits(2).complains(code);
        hides(&[&ran.out, &ran.err]);
    };
    for wrong in [
        "0xfeedc0de0badcafe00",
        "0xfeedc0de0badcafg",
        "feedc0de0badcafe",
        "c0de0bad",
    ] {
        let config = lab.write("fm.toml", &format!("[keys]\nm_key = \"{wrong}\"\n"));
        check(&["config", "check", &config], "SLV-CONFIG-0004");
        let conf = lab.write("opensm.conf", &format!("sm_key {wrong} # mine\n"));
        check(&[&FABRIC[..], &["-F", &conf]].concat(), "SLV-CONFIG-0004");
        check(&[&FABRIC[..], &["--m-key", wrong]].concat(), "SLV-CONFIG-0040");
        let file = lab.write("key", wrong);
        check(&[&FABRIC[..], &["--sa-key-file", &file]].concat(), "SLV-CONFIG-0040");
    }
    // A valid key in a wrong line is not quoted either.
    for text in [
        format!("[keys]\nm_key = {KEY} {KEY}\n"),
        format!("[keys]\nm_key {KEY}\n"),
        format!("[keys]\nm_key = 0x{KEY}\n"),
        format!("[keys]\nm_key = '{KEY}\n"),
        format!("[keys]\nm_key = [\"{KEY}\"]\n"),
        format!("[keys]\nm_keys = \"{KEY}\"\n"),
        format!("[keys]\nm_key = {{ value = \"{KEY}\" }}\n"),
        format!("keys.m_key = \"{KEY}\"\nkeys = \"{KEY}\"\n"),
    ] {
        let config = lab.write("fm.toml", &text);
        check(&["config", "check", &config], "SLV-CONFIG-000");
    }
    for args in [["--mkey", KEY], ["--m-key-file", KEY], ["--m_key", KEY]] {
        let ran = lab.run(&[&FABRIC[..], &args].concat()).exits(2);
        // A file name is no secret: the error must state it.
        if args[0] != "--m-key-file" {
            hides(&[&ran.out, &ran.err]);
        }
    }
    let conf = lab.write("opensm.conf", &format!("mkey {KEY}\ncc_key {KEY}\nvs_key {KEY}\n"));
    let ran = lab.run(&["run", "--check-config", "-F", &conf]);
    hides(&[&ran.out, &ran.err]);
}

#[test]
fn a_reload_does_not_tell_a_key() {
    let lab = Lab::new("reload-key");
    let config = lab.write("fm.toml", "[keys]\nm_key = \"0x12\"\n");
    let process = lab.start(&[
        "run",
        "--fabric",
        "ring:switches=3,hosts=1",
        "--config",
        &config,
        "--log-file",
        "log",
    ]);
    wait_for("subnet that is up", || (lab.run(&["status"]).code == 0).then_some(()));
    lab.write("fm.toml", &format!("[keys]\nm_key = \"{KEY}zz\"\n"));
    let ran = lab.run(&["reload"]).exits(2).complains("SLV-CONFIG-0004");
    let json = lab.run(&["reload", "--json"]).exits(2);
    process.signal("HUP");
    let events = wait_for("complaint", || {
        let events = lab.run(&["status", "events", "--json"]).exits(0);
        events.out.contains("SLV-DAEMON-0108").then_some(events)
    });
    hides(&[&ran.err, &json.err, &events.out, &lab.read("log")]);
    lab.write("fm.toml", &format!("[keys]\nsm_key = \"{KEY}\"\n"));
    lab.run(&["reload"]);
    hides(&[&lab.run(&["status", "events", "--json"]).out, &lab.read("log")]);
    process.signal("TERM");
    assert_eq!(process.exit_code(), Some(0));
}

#[test]
fn a_checked_configuration_hides_its_keys() {
    let lab = Lab::new("checked");
    let config = lab.write(
        "fm.toml",
        &format!("[keys]\nm_key = \"{KEY}\"\nsm_key = \"{KEY}\"\nsa_key = \"{KEY}\"\n"),
    );
    for args in [&["config", "check"][..], &["config", "check", "--json"]] {
        let ran = lab.run(&[args, &[&config]].concat()).exits(0).says("(not shown)");
        hides(&[&ran.out, &ran.err]);
    }
    let conf = lab.write("opensm.conf", &format!("m_key {KEY}\nsm_key {KEY}\nsa_key {KEY}\n"));
    for args in [
        &["run", "--check-config", "-F"][..],
        &["run", "--json", "--check-config", "-F"],
    ] {
        let ran = lab.run(&[args, &[&conf]].concat()).exits(0).says("(not shown)");
        hides(&[&ran.out, &ran.err]);
    }
    // A default value is public, so it is shown.
    lab.run(&["config", "check", &lab.write("empty.toml", "")])
        .exits(0)
        .says("sm_key = \"0x0000000000000001\"");
    // A hidden key is refused when the file is read back, never taken for another key.
    let shown = lab.run(&["config", "check", &config]).exits(0).out;
    let again = lab.write("again.toml", &shown);
    lab.run(&["config", "check", &again])
        .exits(2)
        .complains("SLV-CONFIG-0004");
}

#[test]
fn keys_come_from_files_and_the_environment() {
    let lab = Lab::new("sources");
    let base = format!("selvedge-keys-{}", std::process::id());
    let emulator = lab.start(&["emulate", "--fabric", "ring:switches=3,hosts=1", "--serve", &base]);
    let port = format!("ibsim:{base}");
    wait_for("emulator", || {
        let asked = lab.run(&["status", "fabric", "--socket", "selvedge/emulator.sock"]);
        (asked.code == 0).then_some(())
    });
    let run = ["run", "--port", &port, "--once"];
    let file = lab.write("key", &format!("{KEY}\n"));
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    // From here on the ports have a key: without it the manager can set nothing.
    let ran = lab.run(&[&run[..], &["--m-key-file", &file]].concat()).exits(0);
    hides(&[&ran.out, &ran.err]);
    assert!(!ran.err.contains("SLV-CONFIG-0041"), "{}", ran.err);
    lab.run(&run).exits(4).complains("SLV-SM-0015");
    let with = |variable: &str, key: &str, args: &[&str]| {
        let mut command = lab.command(&[&run[..], args].concat());
        command.env(variable, key);
        crate::support::Ran::of(command.output().unwrap())
    };
    with("SELVEDGE_M_KEY", KEY, &[]).exits(0);
    with("SELVEDGE_M_KEY", "0x1", &[]).exits(4);
    // A file goes before the environment, a flag before all.
    with("SELVEDGE_M_KEY", "0x1", &["--m-key-file", &file]).exits(0);
    with("SELVEDGE_M_KEY", "0x1", &["--m-key", KEY]).exits(0);
    with("SELVEDGE_M_KEY", "", &[])
        .exits(2)
        .complains("SLV-CONFIG-0040: SELVEDGE_M_KEY");
    with("SELVEDGE_SM_KEY", "c0de0bad", &[])
        .exits(2)
        .complains("SLV-CONFIG-0040: SELVEDGE_SM_KEY");
    emulator.signal("TERM");
    assert_eq!(emulator.exit_code(), Some(0));
}

#[test]
fn files_with_keys_that_others_may_read_are_named() {
    let lab = Lab::new("open-keys");
    let check = |name: &str, text: &str, flag: &str, warns: bool| {
        let file = lab.write(name, text);
        for (mode, is_open) in [(0o644, true), (0o640, false)] {
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
            let ran = lab.run(&[&FABRIC[..], &[flag, &file]].concat()).exits(0);
            assert_eq!(
                ran.err.contains("SLV-CONFIG-0041"),
                is_open && warns,
                "{name} {mode:o}: {}",
                ran.err
            );
        }
    };
    check("fm.toml", &format!("[keys]\nm_key = \"{KEY}\"\n"), "--config", true);
    check("plain.toml", "[routing]\nlmc = 1\n", "--config", false);
    check("opensm.conf", &format!("sm_key {KEY}\n"), "-F", true);
    check("key", KEY, "--m-key-file", true);
    let file = lab.write("fm.toml", &format!("[keys]\nm_key = \"{KEY}\"\n"));
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    lab.run(&["config", "check", &file])
        .exits(0)
        .complains("SLV-CONFIG-0041");
}
