//! What packages bring beside the program: units that systemd takes, with options that the program has.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::{Lab, wait_for};

fn packaged(file: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging");
    std::fs::read_to_string(folder.join(file)).unwrap()
}

/// Checks a unit file as it is installed. `unit` is the name of the unit by which it is started.
fn check(file: &str, unit: &str) {
    let lab = Lab::new(unit);
    let text = packaged(&format!("systemd/{file}"));
    let path = lab.path(unit);
    // The one of this build stands where the installed one would.
    std::fs::write(&path, text.replace("/usr/bin/selvedge", env!("CARGO_BIN_EXE_selvedge"))).unwrap();
    let said = Command::new("systemd-analyze")
        .args(["verify", "--man=no", &path])
        .output()
        .unwrap();
    // systemd ignores a word that it does not know, and reports it.
    let complaints = String::from_utf8(said.stderr).unwrap();
    assert!(said.status.success() && !complaints.contains(unit), "{complaints}");

    let start = text
        .lines()
        .find_map(|line| line.strip_prefix("ExecStart=/usr/bin/selvedge "));
    let words = start.unwrap().split(' ').filter(|word| *word != "$SELVEDGE_OPTIONS");
    let mut words: Vec<String> = words
        .map(|word| word.replace("%I", "none/1").replace("%i", "none-1"))
        .map(|word| match word.strip_prefix('/') {
            Some(path) => lab.path(path),
            None => word,
        })
        .collect();
    if !words.contains(&"--port".to_owned()) {
        words.extend(["--port".to_owned(), "none/1".to_owned()]);
    }
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    // Every flag is known; only the port does not exist.
    lab.run(&words).exits(3).complains("SLV-PORT-0001");
}

#[test]
fn systemd_and_the_program_take_the_units() {
    check("selvedge.service", "selvedge.service");
    check("selvedge@.service", "selvedge@mlx5_0-1.service");
}

/// Standard error of a command, in a file that `JOURNAL_STREAM` names, or that it does not name.
fn on_stderr(lab: &Lab, words: &[&str], is_journal: bool) -> String {
    let file = std::fs::File::create(lab.path("err")).unwrap();
    let meta = file.metadata().unwrap();
    let inode = if is_journal { meta.ino() } else { meta.ino() + 1 };
    let mut command = lab.command(words);
    command.env("JOURNAL_STREAM", format!("{}:{inode}", meta.dev()));
    command.stderr(file).stdout(Stdio::null()).status().unwrap();
    lab.read("err")
}

#[test]
fn lines_have_priorities_where_the_journal_reads_them() {
    let lab = Lab::new("journal");
    let wrong = ["run", "--fabric", "mport:m=4,n=2", "--lmc", "9"];
    let said = on_stderr(&lab, &wrong, true);
    assert!(said.starts_with("<3>SLV-CLI-0007: "), "{said}");
    assert!(said.lines().all(|line| line.starts_with("<3>")), "{said}");
    let said = on_stderr(&lab, &wrong, false);
    assert!(said.starts_with("SLV-CLI-0007: "), "{said}");

    let none = ["watch", "--port", "none/1", "--once"];
    assert!(on_stderr(&lab, &none, true).starts_with("<3>SLV-PORT-0001"));
    assert!(on_stderr(&lab, &none, false).starts_with("SLV-PORT-0001"));

    let file = std::fs::File::create(lab.path("log")).unwrap();
    let meta = file.metadata().unwrap();
    let mut command = lab.command(&["run", "--fabric", "mport:m=4,n=2"]);
    command.env("JOURNAL_STREAM", format!("{}:{}", meta.dev(), meta.ino()));
    let mut child = command.stderr(file).stdout(Stdio::null()).spawn().unwrap();
    let event = wait_for("an event", || {
        let log = lab.read("log");
        log.lines().find(|line| line.contains("SLV-SM-0007")).map(str::to_owned)
    });
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(event.starts_with("<6>2"), "{event}");
}

#[test]
fn logs_are_rotated_where_the_units_have_them_by_the_signal_that_opens_them_again() {
    let text = packaged("logrotate/selvedge");
    for unit in ["selvedge.service", "selvedge@.service"] {
        assert!(
            packaged(&format!("systemd/{unit}")).contains("\nLogsDirectory=selvedge\n"),
            "{unit}"
        );
        assert!(
            text.contains(&format!("'{}'", unit.replace('@', "@*"))),
            "{unit}: {text}"
        );
    }
    let (folder, _) = text.split_once("/*.log {\n").unwrap();
    assert!(folder.ends_with("\n/var/log/selvedge"), "{text}");
    let signal = text.split("--signal=").nth(1).unwrap().split(' ').next().unwrap();

    // What logrotate does: it moves the file away, and sends the signal.
    let lab = Lab::new("rotate");
    let process = lab.start(&["run", "--fabric", "mport:m=4,n=2", "--log-file", "fm.log"]);
    wait_for("an event", || {
        let log = std::fs::read_to_string(lab.path("fm.log")).unwrap_or_default();
        log.contains("SLV-SM-0007").then_some(())
    });
    std::fs::rename(lab.path("fm.log"), lab.path("fm.log.1")).unwrap();
    process.signal(signal);
    let opened = wait_for("a new log file", || std::fs::metadata(lab.path("fm.log")).ok());
    assert_eq!(opened.mode() & 0o777, 0o640);
    lab.run(&["fault", "cut", "S-L1-0[3]"]).exits(0);
    wait_for("the fault in the new file", || {
        lab.read("fm.log").contains("SLV-DAEMON-0104").then_some(())
    });
    assert!(!lab.read("fm.log.1").contains("SLV-DAEMON-0104"));
    process.signal("TERM");
    assert_eq!(process.exit_code(), Some(0));
}
