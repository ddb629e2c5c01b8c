//! `cargo xtask test`: every test of the workspace, the slowest parts, and the sums.

use std::fmt;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

use serde_json::Value;

/// How many of the slowest parts are printed.
const SLOWEST: usize = 10;

/// The text before the name of each started test program.
const RUNNING: &str = "     Running ";

/// A test program built by cargo.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Program {
    /// Name of the crate's folder, and `unit` or the name of the integration test.
    name: String,
    /// Folder of its crate.
    folder: PathBuf,
    executable: PathBuf,
}

/// One test program, or the doc tests of one crate.
#[derive(Clone, Debug, PartialEq)]
struct Part {
    name: String,
    passed: u64,
    failed: u64,
    ignored: u64,
    seconds: f64,
    /// False until the `test result:` line has come. A program that dies never prints that line.
    ended: bool,
}

/// Everything read from cargo's output so far.
#[derive(Clone, Debug, Default)]
struct Summary {
    parts: Vec<Part>,
}

/// Builds and runs all tests, then prints the sums.
pub fn run(root: &Path) -> ExitCode {
    let started = Instant::now();
    let programs = match build(root) {
        Ok(programs) => programs,
        Err(why) => {
            println!("test: {why}");
            println!("0 passed, 1 failed");
            return ExitCode::FAILURE;
        }
    };
    println!("build: {:.1} s", started.elapsed().as_secs_f64());
    let started = Instant::now();
    let mut summary = Summary::default();
    let result = programs
        .iter()
        .try_for_each(|program| run_program(program, &mut summary))
        .and_then(|()| run_doc_tests(root, &mut summary));
    let cargo_succeeded = match result {
        Ok(succeeded) => succeeded,
        Err(error) => {
            println!("test: cannot run a test program: {error}");
            false
        }
    };
    println!("tests: {:.1} s", started.elapsed().as_secs_f64());
    print!("{summary}");
    let (passed, failed) = summary.sums(cargo_succeeded);
    println!("{passed} passed, {failed} failed");
    if failed == 0 && passed > 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Builds the test programs of every crate, and the binaries that they start. Leaves out examples, which `make check`
/// compiles.
fn build(root: &Path) -> Result<Vec<Program>, String> {
    let mut command = Command::new("cargo");
    command
        .args(["test", "--workspace", "--lib", "--bins", "--tests", "--no-run"])
        .arg("--message-format=json-render-diagnostics")
        .current_dir(root)
        .stdout(Stdio::piped());
    let cannot = |error| format!("cannot run cargo: {error}; install Rust with rustup");
    let mut child = command.spawn().map_err(cannot)?;
    let mut programs = Vec::new();
    for line in child
        .stdout
        .take()
        .map(BufReader::new)
        .into_iter()
        .flat_map(BufRead::lines)
    {
        programs.extend(program(&line.map_err(cannot)?));
    }
    if !child.wait().map_err(cannot)?.success() {
        return Err("the build failed; correct what cargo says above".to_owned());
    }
    // Cargo's order depends on timing.
    programs.sort();
    Ok(programs)
}

/// Returns the test program that a line of cargo's JSON output announces, if any.
fn program(line: &str) -> Option<Program> {
    let message: Value = serde_json::from_str(line).ok()?;
    if message["reason"] != "compiler-artifact" || message["profile"]["test"] != true {
        return None;
    }
    let folder = Path::new(message["manifest_path"].as_str()?).parent()?;
    let target = &message["target"];
    let kind = match target["kind"][0].as_str()? {
        "test" => target["name"].as_str()?,
        _ => "unit",
    };
    Some(Program {
        name: format!("{} {kind}", folder.file_name()?.to_str()?),
        folder: folder.to_path_buf(),
        executable: message["executable"].as_str()?.into(),
    })
}

/// Runs one test program in the folder of its crate, as `cargo test` does.
fn run_program(program: &Program, summary: &mut Summary) -> std::io::Result<()> {
    println!("{RUNNING}{}", program.name);
    summary.start(&program.name);
    let mut command = Command::new(&program.executable);
    command
        .current_dir(&program.folder)
        .env("CARGO_MANIFEST_DIR", &program.folder);
    read_all(command, summary).map(|_| ())
}

/// Runs the doc tests of every crate. Returns true if cargo succeeded.
fn run_doc_tests(root: &Path, summary: &mut Summary) -> std::io::Result<bool> {
    let mut command = Command::new("cargo");
    command
        .args(["test", "--workspace", "--doc", "--no-fail-fast"])
        .current_dir(root);
    read_all(command, summary)
}

/// Runs a command until it ends, passes its output on, and parses it. Returns true if it succeeded.
fn read_all(mut command: Command, summary: &mut Summary) -> std::io::Result<bool> {
    // One pipe for both streams keeps their lines in order.
    let (reader, writer) = std::io::pipe()?;
    command
        .env("CARGO_TERM_COLOR", "never")
        .stdout(writer.try_clone()?)
        .stderr(writer);
    let mut child = command.spawn()?;
    drop(command); // and with it our ends of the pipe
    for line in BufReader::new(reader).split(b'\n') {
        let line = String::from_utf8_lossy(&line?).into_owned();
        println!("{line}");
        summary.read_line(&line);
    }
    Ok(child.wait()?.success())
}

impl Summary {
    fn start(&mut self, name: &str) {
        self.parts.push(Part {
            name: name.to_owned(),
            passed: 0,
            failed: 0,
            ignored: 0,
            seconds: 0.0,
            ended: false,
        });
    }

    fn read_line(&mut self, line: &str) {
        if let Some(name) = line.trim_start().strip_prefix("Doc-tests ") {
            self.start(&format!("{name} doc tests"));
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

    /// Returns the numbers of passed and failed tests. A program that died counts as a failed test. An ignored test
    /// counts as failed too, because a test that does not run proves nothing. If nothing else failed, a failure of
    /// cargo itself counts.
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

    const OUTPUT: [(&str, &str); 2] = [
        (
            "wire unit",
            "test a ... ok\n\
             test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.50s\n",
        ),
        (
            "wire it",
            "test result: FAILED. 10 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.25s\n\
             \x20  Doc-tests selvedge_wire\n\
             test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 3.00s\n",
        ),
    ];

    /// Returns the summary of these programs, each with its output.
    fn read<'a>(output: impl IntoIterator<Item = (&'a str, &'a str)>) -> Summary {
        let mut summary = Summary::default();
        for (name, text) in output {
            summary.start(name);
            text.lines().for_each(|line| summary.read_line(line));
        }
        summary
    }

    #[test]
    fn a_program_is_named_by_crate_and_kind() {
        let line = |kind: &str, test: bool| {
            format!(
                r#"{{"reason":"compiler-artifact","manifest_path":"/a/crates/wire/Cargo.toml","executable":"/a/t/x-1",
                "target":{{"kind":["{kind}"],"name":"it"}},"profile":{{"test":{test}}}}}"#
            )
        };
        let name = |line: &str| program(line).map(|program| program.name);
        assert_eq!(name(&line("test", true)).as_deref(), Some("wire it"));
        assert_eq!(name(&line("lib", true)).as_deref(), Some("wire unit"));
        assert_eq!(name(&line("bin", false)), None);
        assert_eq!(name("   Compiling selvedge-wire"), None);
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
        assert_eq!(lines[2], "    1.50 s     3 tests  wire unit");
        assert_eq!(lines[4], "FAILED: 2 of wire it");
    }

    #[test]
    fn what_did_not_end_failed() {
        let died = [OUTPUT[0], ("wire it", "test a ... ok\n")];
        assert_eq!(read(died).sums(false), (3, 1));
        assert!(read(died).to_string().contains("DIED: wire it"));
    }

    #[test]
    fn an_ignored_test_is_no_pass() {
        let ignored = OUTPUT.map(|(name, text)| (name, text.replace("0 ignored", "1 ignored")));
        let ignored = ignored.iter().map(|(name, text)| (*name, text.as_str()));
        assert_eq!(read(ignored).sums(true), (14, 5));
    }

    #[test]
    fn a_complaint_of_cargo_is_a_failure() {
        assert_eq!(read([]).sums(false), (0, 1));
        assert_eq!(read([]).sums(true), (0, 0));
    }
}
