//! The five situations that misled a new operator, as `selvedge status` shows them: stored transcripts.
//! `SELVEDGE_BLESS=1` rewrites them.

use std::path::{Path, PathBuf};

use crate::support::{Lab, Process, wait_for};

const TREE: [&str; 7] = [
    "run",
    "--fabric",
    "mport:m=4,n=2",
    "--sweep-interval",
    "1",
    "--seed=1",
    "--at=H-0",
];

/// Rows of the summary with figures that differ from run to run.
const VOLATILE: [&str; 5] = ["MADs sent", "MADs received", "up time", "sweeps", "rebalance"];

/// Commands and what they print.
struct Transcript<'a> {
    lab: &'a Lab,
    text: String,
}

impl<'a> Transcript<'a> {
    const fn new(lab: &'a Lab) -> Self {
        Self {
            lab,
            text: String::new(),
        }
    }

    /// Runs a command, and adds what it prints.
    fn run(&mut self, words: &[&str]) {
        let ran = self.lab.run(words);
        let lines = ran
            .out
            .lines()
            .filter(|line| !VOLATILE.iter().any(|row| line.trim_start().starts_with(row)));
        let lines: String = lines.map(|line| format!("{}\n", steady(line))).collect();
        let shown: Vec<&str> = words
            .iter()
            .copied()
            .filter(|word| !word.starts_with("ibsim:"))
            .collect();
        self.text += &format!("$ selvedge {}\n{lines}exit code {}\n\n", shown.join(" "), ran.code);
    }

    /// Compares all with the stored transcript.
    #[track_caller]
    fn is(&self, name: &str) {
        let path = file(name);
        if std::env::var_os("SELVEDGE_BLESS").is_some() {
            std::fs::write(&path, &self.text).unwrap();
        }
        let stored = std::fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(self.text, stored, "{name}; SELVEDGE_BLESS=1 rewrites it");
        assert!(self.text.contains("exit code"), "{name} shows nothing");
    }
}

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/misled/{name}.txt"))
}

/// Replaces times and the numbers of processes.
fn steady(line: &str) -> String {
    let mut words: Vec<String> = Vec::new();
    for word in line.split(' ') {
        let digits = word.bytes().filter(u8::is_ascii_digit).count();
        let is_time = word.contains(':') && word.contains('-') && digits >= 12;
        let tail = word.trim_start_matches(|c: char| !matches!(c, ';' | ','));
        words.push(match is_time {
            true => format!("TIME{tail}"),
            false => word.replace(&std::process::id().to_string(), "PID"),
        });
    }
    words.join(" ")
}

/// Starts a manager, and waits for its verdict.
fn up(lab: &Lab, more: &[&str]) -> Process {
    let process = lab.start(&[&TREE, more].concat());
    wait_for_verdict(lab, "healthy");
    process
}

#[track_caller]
fn wait_for_verdict(lab: &Lab, verdict: &str) {
    wait_for(verdict, || {
        let ran = lab.run(&["health", "--json"]);
        (!ran.out.is_empty() && ran.json()["verdict"] == verdict).then_some(())
    });
}

/// Waits until the conditions are so many.
#[track_caller]
fn wait_for_conditions(lab: &Lab, count: u64) {
    wait_for("conditions", || {
        let ran = lab.run(&["health", "--json"]);
        (!ran.out.is_empty() && ran.json()["count"] == count).then_some(())
    });
}

/// Waits until the manager is idle.
fn wait_for_rest(lab: &Lab) {
    wait_for("rest", || {
        (lab.run(&["status", "--json"]).json()["stage"] == "idle").then_some(())
    });
}

#[test]
fn a_leaf_is_cut_off() {
    let lab = Lab::new("misled-leaf");
    let _process = up(&lab, &[]);
    for port in ["S-L1-1[3]", "S-L1-1[4]"] {
        lab.run(&["fault", "cut", port]).exits(0);
    }
    wait_for_conditions(&lab, 3);
    wait_for_rest(&lab);
    let mut shown = Transcript::new(&lab);
    shown.run(&["status"]);
    shown.run(&["health"]);
    shown.is("cut_leaf");
}

#[test]
fn a_switch_hangs() {
    let lab = Lab::new("misled-hung");
    let _process = up(&lab, &[]);
    lab.run(&["fault", "hang", "S-L2-1"]).exits(0);
    wait_for_conditions(&lab, 1);
    wait_for_rest(&lab);
    let mut shown = Transcript::new(&lab);
    shown.run(&["status"]);
    shown.run(&["health"]);
    shown.is("hung_switch");
}

#[test]
fn a_dry_run_beside_a_master() {
    let lab = Lab::new("misled-dry");
    let base = format!("selvedge-misled-dry-{}", std::process::id());
    let _process = up(&lab, &["--serve", &base, "-R", "updn"]);
    let port = format!("ibsim:{base}/H-3");
    let mut shown = Transcript::new(&lab);
    shown.run(&["run", "--dry-run", "--port", &port]);
    shown.is("dry_run");
    assert!(shown.text.contains("tables were found, and are kept"), "{}", shown.text);
    let json = lab.run(&["run", "--dry-run", "--port", &port, "--json"]).json();
    let found = &json["found_tables"];
    assert_eq!(found["kept"], found["entries"], "{json}");
    assert!(found["engines"].as_array().unwrap().contains(&"updn".into()), "{json}");
    // On a fabric that nobody has set up there are no tables.
    let none = lab
        .run(&["run", "--dry-run", "--fabric", "mport:m=4,n=2", "--json"])
        .json();
    assert_eq!(none["found_tables"], serde_json::Value::Null, "{none}");
}

#[test]
fn a_standby_is_healthy() {
    let lab = Lab::new("misled-standby");
    let base = format!("selvedge-misled-standby-{}", std::process::id());
    let _master = up(&lab, &["--serve", &base, "--priority", "9"]);
    let port = format!("ibsim:{base}/H-3");
    let _standby = lab.start(&["run", "--port", &port, "--priority", "1", "--socket", "standby"]);
    wait_for("standby", || {
        let ran = lab.run(&["health", "--socket", "standby", "--json"]);
        (!ran.out.is_empty() && ran.json()["verdict"] == "standby_ready").then_some(())
    });
    let mut shown = Transcript::new(&lab);
    shown.run(&["status", "--socket", "standby"]);
    shown.run(&["health", "--socket", "standby"]);
    shown.is("standby");
}

#[test]
fn a_plan_is_refused() {
    let lab = Lab::new("misled-refused");
    let _process = lab.start(&["run", "--fabric", "ring:switches=5,hosts=1", "-R", "minhop", "--seed=1"]);
    wait_for_verdict(&lab, "failed");
    wait_for_rest(&lab);
    let mut shown = Transcript::new(&lab);
    shown.run(&["status"]);
    shown.run(&["status", "findings"]);
    shown.run(&["health"]);
    shown.is("refused_plan");
}
