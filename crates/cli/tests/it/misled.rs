//! Five situations that have misled operators of other managers: `selvedge status` of the real program shows the true
//! state.
//!
//! Each test compares the whole text with a file in `tests/status`, with the exit code in its first line. Times, GUIDs
//! and counts of MADs and sweeps differ from run to run, so words stand for them. `SELVEDGE_BLESS=1` writes the files.
//! The scenarios `tests/scenarios/misled_*.txt` test the same under virtual time, without the program.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::support::{Lab, Process, Ran, wait_for};

const TREE: [&str; 6] = ["run", "--fabric", "mport:m=4,n=2", "--sweep-interval", "1", "--seed=1"];

/// Lines of the status with numbers that depend on the speed of the machine.
const COUNTS: [&str; 7] = [
    "rebalance",
    "plan",
    "last changes",
    "sweeps",
    "MADs",
    "questions of hosts",
    "up time",
];

fn daemon(lab: &Lab, more: &[&str]) -> Process {
    let process = lab.start(&[&TREE, more].concat());
    wait_for("healthy subnet", || (lab.run(&["health"]).code == 0).then_some(()));
    process
}

/// True if the text begins with the pattern, in which `d` is a digit and `x` a hexadecimal digit.
fn begins(text: &str, pattern: &str) -> bool {
    let fits = |(byte, want): (u8, u8)| match want {
        b'd' => byte.is_ascii_digit(),
        b'x' => byte.is_ascii_hexdigit(),
        _ => byte == want,
    };
    text.len() >= pattern.len() && text.bytes().zip(pattern.bytes()).all(fits)
}

/// Returns the word that stands for the beginning of a text, and the length of that beginning.
fn stand_in(text: &str, is_count: bool) -> Option<(&'static str, usize)> {
    let number = |of: &str| {
        of.len()
            - of.trim_start_matches(|c: char| c.is_ascii_digit() || ".,".contains(c))
                .len()
    };
    let date = "dddd-dd-dd dd:dd:dd";
    if begins(text, date) || begins(text, &date.replace(' ', "T")) {
        return Some(("TIME", date.len() + number(&text[date.len()..])));
    }
    if text.starts_with("0x") && begins(&text[2..], "xxxxxxxxxxxxxxxx") {
        return Some(("GUID", 18));
    }
    let is_number = is_count && text.starts_with(|c: char| c.is_ascii_digit());
    is_number.then(|| ("N", number(text)))
}

/// Returns a line with words in place of times and GUIDs, and of numbers if it is a line of counts.
fn normal(line: &str) -> String {
    let is_count = COUNTS.iter().any(|label| line.trim_start().starts_with(label));
    let (mut text, mut rest) = (String::new(), line);
    while let Some(first) = rest.chars().next() {
        let length = match stand_in(rest, is_count) {
            Some((word, length)) => {
                text.push_str(word);
                length
            }
            None => {
                text.push(first);
                first.len_utf8()
            }
        };
        rest = &rest[length..];
    }
    text.trim_end().to_owned()
}

/// Returns a line without the process id in the base name of a simulator's sockets.
fn without_id(line: &str) -> String {
    line.replace(&format!("-{}/", std::process::id()), "-ID/")
}

/// Returns the exit code and the text of a status, without what differs from run to run.
fn transcript(ran: &Ran) -> String {
    let mut text = format!("exit code {}\n", ran.code);
    for line in ran.out.lines() {
        // How many answers came late, and how many sweeps were repeated, depends on the speed of the machine.
        let line = ["; not used: ", " begun, "]
            .iter()
            .fold(line, |line, tail| line.split_once(tail).map_or(line, |(head, _)| head));
        text.push_str(&normal(&without_id(line)));
        text.push('\n');
    }
    text
}

/// Returns the path of a stored text; with `SELVEDGE_BLESS=1`, writes it first.
fn stored(file: &str, text: impl FnOnce() -> String) -> PathBuf {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/status").join(file);
    if std::env::var_os("SELVEDGE_BLESS").is_some() {
        fs::write(&path, text()).unwrap();
    }
    path
}

/// Waits until the status is that of the file. `is_so` accepts the health that the file is written for.
#[track_caller]
fn status_is(lab: &Lab, file: &str, socket: &[&str], is_so: impl Fn(&serde_json::Value) -> bool) {
    let ask = |words: &[&str]| lab.run(&[words, socket].concat());
    wait_for("health", || {
        let ran = ask(&["status", "--json"]);
        // A manager that starts does not listen yet.
        let status = (!ran.out.is_empty()).then(|| ran.json())?;
        (status["stage"] == "idle" && is_so(&status["health"])).then_some(())
    });
    // Repairs are prepared within a few light sweeps. A light sweep may be under way at any moment.
    let at_rest = || {
        std::thread::park_timeout(Duration::from_secs(8));
        wait_for("manager at rest", || {
            let text = transcript(&ask(&["status"]));
            (!text.contains(" light sweep\n")).then_some(text)
        })
    };
    let want = fs::read_to_string(stored(file, at_rest)).unwrap();
    let mut last = String::new();
    for _ in 0..1_000 {
        last = transcript(&ask(&["status"]));
        if last == want {
            return;
        }
        std::thread::park_timeout(Duration::from_millis(10));
    }
    assert_eq!(last, want, "the status is not that of {file}");
}

#[test]
fn a_leaf_that_is_cut_off() {
    let lab = Lab::new("misled-cut-leaf");
    let _process = daemon(&lab, &[]);
    for port in ["S-L1-1[3]", "S-L1-1[4]"] {
        lab.run(&["fault", "cut", port]).exits(0);
    }
    status_is(&lab, "misled_cut_leaf.txt", &[], |health| {
        let conditions = health["conditions"].as_array().unwrap();
        conditions.len() == 3 && conditions.iter().all(|of| of["kind"] == "node_missing")
    });
}

#[test]
fn a_switch_that_hangs() {
    let lab = Lab::new("misled-hung-switch");
    let _process = daemon(&lab, &[]);
    lab.run(&["fault", "hang", "S-L2-1"]).exits(0);
    status_is(&lab, "misled_hung_switch.txt", &[], |health| {
        health["verdict"] == "degraded" && health["conditions"][0]["kind"] == "agent_silent"
    });
}

#[test]
fn a_dry_run_and_a_watch_beside_a_master() {
    let lab = Lab::new("misled-dry-run");
    let base = format!("selvedge-misled-dry-{}", std::process::id());
    let _master = daemon(&lab, &["--at", "H-0", "--serve", &base]);
    let port = format!("ibsim:{base}/H-3");
    // A dry run ends by itself: it prints what `status` would.
    let dry = lab.run(&["run", "--dry-run", "--port", &port]);
    let path = stored("misled_dry_run.txt", || transcript(&dry));
    assert_eq!(
        transcript(&dry),
        fs::read_to_string(&path).unwrap(),
        "{}",
        path.display()
    );
    let socket = ["--socket", "watch"];
    let _watch = lab.start(&[&["watch", "--port", &port, "--sweep-interval", "1"], &socket[..]].concat());
    let is_watching = |health: &serde_json::Value| health["verdict"] == "watching";
    status_is(&lab, "misled_watch.txt", &socket, is_watching);
}

#[test]
fn a_standby_while_a_host_is_missing() {
    let lab = Lab::new("misled-standby");
    let base = format!("selvedge-misled-standby-{}", std::process::id());
    let _master = daemon(&lab, &["--at", "H-0", "--serve", &base, "--priority", "5"]);
    let port = format!("ibsim:{base}/H-3");
    let socket = ["--socket", "standby"];
    let _standby = lab.start(&[&["run", "--port", &port, "--sweep-interval", "1"], &socket[..]].concat());
    let is_ready = |health: &serde_json::Value| health["verdict"] == "standby_ready";
    status_is(&lab, "misled_standby.txt", &socket, is_ready);
    // What is wrong with the fabric is its master's to report.
    lab.run(&["fault", "kill", "H-5"]).exits(0);
    status_is(&lab, "misled_standby_master.txt", &[], |health| {
        health["verdict"] == "degraded"
    });
    status_is(&lab, "misled_standby.txt", &socket, is_ready);
}

#[test]
fn a_plan_that_the_judge_refuses() {
    let lab = Lab::new("misled-refused");
    let _process = lab.start(&["run", "--fabric", "ring:switches=5,hosts=1", "-R", "minhop"]);
    status_is(&lab, "misled_refused_plan.txt", &[], |health| {
        health["verdict"] == "failed"
    });
}
