//! What packages bring beside the program: units that systemd takes, with options that the program has.

use std::path::Path;
use std::process::Command;

use crate::support::Lab;

/// `file` as it is installed, and the name of the unit it is started by.
fn check(file: &str, unit: &str) {
    let lab = Lab::new(unit);
    let installed = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../packaging/systemd")
        .join(file);
    let text = std::fs::read_to_string(installed).unwrap();
    let path = lab.path(unit);
    // The one of this build stands where the installed one would.
    std::fs::write(&path, text.replace("/usr/bin/selvedge", env!("CARGO_BIN_EXE_selvedge"))).unwrap();
    let said = Command::new("systemd-analyze")
        .args(["verify", "--man=no", &path])
        .output()
        .unwrap();
    // A word that systemd does not know it only ignores, and says so.
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
