//! `cargo xtask test`: every test of the workspace, the slowest parts, and the sums.

use std::fmt;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Instant;

/// How many of the slowest parts are printed.
const SLOWEST: usize = 10;

/// One test program, or the doc tests of one crate.
#[derive(Clone, Debug, PartialEq)]
struct Part {
    name: String,
    passed: u64,
    failed: u64,
    ignored: u64,
    seconds: f64,
    /// False until its `test result:` line came; a program that dies never prints one.
    ended: bool,
}

/// Everything read from cargo's output so far.
#[derive(Clone, Debug, Default)]
struct Summary {
    parts: Vec<Part>,
}

/// Builds everything, runs everything, prints the sums last.
pub fn run(root: &Path) -> ExitCode {
    // The conformance tests start the `selvedge` binary, which `cargo test` alone would not build.
    let started = Instant::now();
    let built = Command::new("cargo")
        .args(["build", "--workspace"])
        .current_dir(root)
        .status();
    if !built.is_ok_and(|status| status.success()) {
        println!("test: the build failed; correct what cargo says above");
        println!("0 passed, 1 failed");
        return ExitCode::FAILURE;
    }
    println!("build: {:.1} s", started.elapsed().as_secs_f64());
    let started = Instant::now();
    let (summary, cargo_succeeded) = match run_tests(root) {
        Ok(done) => done,
        Err(error) => {
            println!("test: cannot run cargo test: {error}; install Rust with rustup");
            println!("0 passed, 1 failed");
            return ExitCode::FAILURE;
        }
    };
    println!(
        "tests: {:.1} s, building them included",
        started.elapsed().as_secs_f64()
    );
    print!("{summary}");
    let (passed, failed) = summary.sums(cargo_succeeded);
    println!("{passed} passed, {failed} failed");
    if failed == 0 && passed > 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Runs `cargo test`, passes its output on, and reads it. True if cargo was content.
fn run_tests(root: &Path) -> std::io::Result<(Summary, bool)> {
    // One pipe for both streams: which program runs is on stderr, its result on stdout, and their order matters.
    let (reader, writer) = std::io::pipe()?;
    let mut command = Command::new("cargo");
    command
        .args(["test", "--workspace", "--no-fail-fast"])
        .current_dir(root)
        .env("CARGO_TERM_COLOR", "never")
        .stdout(writer.try_clone()?)
        .stderr(writer);
    let mut child = command.spawn()?;
    drop(command); // and with it our ends of the pipe
    let mut summary = Summary::default();
    for line in BufReader::new(reader).split(b'\n') {
        let line = String::from_utf8_lossy(&line?).into_owned();
        println!("{line}");
        summary.read_line(&line);
    }
    let succeeded = child.wait()?.success();
    Ok((summary, succeeded))
}

impl Summary {
    fn read_line(&mut self, line: &str) {
        if let Some(name) = part_name(line) {
            self.parts.push(Part {
                name,
                passed: 0,
                failed: 0,
                ignored: 0,
                seconds: 0.0,
                ended: false,
            });
        } else if let Some(result) = line.strip_prefix("test result: ")
            && let Some(part) = self.parts.last_mut()
        {
            part.passed += number_before(result, " passed").unwrap_or(0);
            part.failed += number_before(result, " failed").unwrap_or(0);
            part.ignored += number_before(result, " ignored").unwrap_or(0);
            part.seconds += seconds(result).unwrap_or(0.0);
            part.ended = true;
        }
    }

    /// Tests passed and failed. A program that died counts as a failed test; so does an ignored test, because a test
    /// that does not run proves nothing; and cargo's own complaint counts if nothing else failed.
    fn sums(&self, cargo_succeeded: bool) -> (u64, u64) {
        let passed = self.parts.iter().map(|part| part.passed).sum();
        let failed = self
            .parts
            .iter()
            .map(|part| part.failed + part.ignored + u64::from(!part.ended))
            .sum::<u64>();
        (passed, failed.max(u64::from(!cargo_succeeded)))
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut slowest: Vec<&Part> = self.parts.iter().collect();
        slowest.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
        writeln!(f, "slowest parts:")?;
        for part in slowest.iter().take(SLOWEST) {
            writeln!(
                f,
                "{:>8.2} s  {:>4} tests  {}",
                part.seconds,
                part.passed + part.failed,
                part.name
            )?;
        }
        for part in &self.parts {
            if !part.ended {
                writeln!(f, "DIED: {}", part.name)?;
            } else if part.failed > 0 {
                writeln!(f, "FAILED: {} of {}", part.failed, part.name)?;
            } else if part.ignored > 0 {
                writeln!(f, "IGNORED: {} of {}", part.ignored, part.name)?;
            }
        }
        Ok(())
    }
}

/// `     Running tests/golden.rs (target/debug/deps/golden-0123456789abcdef)`, or `   Doc-tests selvedge_wire`.
fn part_name(line: &str) -> Option<String> {
    let line = line.trim_start();
    if let Some(name) = line.strip_prefix("Doc-tests ") {
        return Some(format!("{name} doc tests"));
    }
    let (source, program) = line.strip_prefix("Running ")?.strip_suffix(')')?.split_once(" (")?;
    let program = program.rsplit('/').next()?;
    let crate_name = program.rsplit_once('-').map_or(program, |(name, _)| name);
    Some(format!("{crate_name} {source}"))
}

/// The number in front of `label`.
fn number_before(text: &str, label: &str) -> Option<u64> {
    let before = &text[..text.find(label)?];
    before.rsplit([' ', ';']).next()?.parse().ok()
}

/// The seconds in `finished in 1.23s`.
fn seconds(text: &str) -> Option<f64> {
    text.split_once("finished in ")?.1.trim_end_matches('s').parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "\
     Running unittests src/lib.rs (target/debug/deps/selvedge_wire-0123456789abcdef)
test a ... ok
test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.50s
     Running tests/golden.rs (target/debug/deps/golden-0123456789abcdef)
test result: FAILED. 10 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.25s
   Doc-tests selvedge_wire
test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 3.00s
";

    fn read(output: &str) -> Summary {
        let mut summary = Summary::default();
        output.lines().for_each(|line| summary.read_line(line));
        summary
    }

    #[test]
    fn results_are_summed() {
        assert_eq!(read(OUTPUT).sums(false), (14, 2));
    }

    #[test]
    fn the_slowest_come_first_and_failures_are_named() {
        let text = read(OUTPUT).to_string();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[1], "    3.00 s     1 tests  selvedge_wire doc tests");
        assert_eq!(lines[2], "    1.50 s     3 tests  selvedge_wire unittests src/lib.rs");
        assert_eq!(lines[4], "FAILED: 2 of golden tests/golden.rs");
    }

    #[test]
    fn what_did_not_end_failed() {
        let died = OUTPUT.split_inclusive('\n').take(4).collect::<String>();
        assert_eq!(read(&died).sums(false), (3, 1));
        assert!(read(&died).to_string().contains("DIED: golden tests/golden.rs"));
    }

    #[test]
    fn an_ignored_test_is_no_pass() {
        assert_eq!(read(&OUTPUT.replace("0 ignored", "1 ignored")).sums(true), (14, 5));
    }

    #[test]
    fn a_complaint_of_cargo_is_a_failure() {
        assert_eq!(read("").sums(false), (0, 1));
        assert_eq!(read("").sums(true), (0, 0));
    }
}
