//! `cargo xtask check`: everything that is checked without running tests.

use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Instant;

use crate::finding;
use crate::licences;
use crate::tidy;
use crate::tree::Tree;

/// A step that is a command of its own.
struct Step {
    name: &'static str,
    arguments: &'static [&'static str],
    environment: &'static [(&'static str, &'static str)],
}

const STEPS: [Step; 3] = [
    Step {
        name: "fmt",
        arguments: &["fmt", "--all", "--check"],
        environment: &[],
    },
    Step {
        name: "clippy",
        arguments: &[
            "clippy",
            "--quiet",
            "--locked",
            "--workspace",
            "--all-targets",
            "--",
            "-D",
            "warnings",
        ],
        environment: &[],
    },
    Step {
        name: "docs",
        arguments: &["doc", "--quiet", "--locked", "--workspace", "--no-deps"],
        environment: &[("RUSTDOCFLAGS", "-D warnings")],
    },
];

/// Runs every step, also after one has failed, and prints which steps failed.
pub fn run(root: &Path) -> ExitCode {
    let mut failed = Vec::new();
    let mut note = |name: &'static str, started: Instant, passed: bool| {
        let result = if passed { "ok" } else { "FAILED" };
        println!("check {name}: {result} ({:.1} s)", started.elapsed().as_secs_f64());
        if !passed {
            failed.push(name);
        }
    };
    // The quick ones first.
    let started = Instant::now();
    let found = Tree::read(root).map_or_else(|one| vec![one], |tree| tidy::findings(&tree));
    note("tidy", started, finding::report("tidy", &found) == ExitCode::SUCCESS);
    let started = Instant::now();
    let found = licences::findings(root).unwrap_or_else(|one| vec![one]);
    note(
        "licences",
        started,
        finding::report("licences", &found) == ExitCode::SUCCESS,
    );
    for step in &STEPS {
        let started = Instant::now();
        note(step.name, started, step.run(root));
    }
    if failed.is_empty() {
        println!("check: everything passed");
        ExitCode::SUCCESS
    } else {
        println!("check: failed: {}", failed.join(", "));
        ExitCode::FAILURE
    }
}

impl Step {
    fn run(&self, root: &Path) -> bool {
        let mut command = Command::new("cargo");
        command
            .args(self.arguments)
            .envs(self.environment.iter().copied())
            .current_dir(root);
        match command.status() {
            Ok(status) => status.success(),
            Err(error) => {
                println!(
                    "check {}: cannot run cargo: {error}; install Rust with rustup",
                    self.name
                );
                false
            }
        }
    }
}
