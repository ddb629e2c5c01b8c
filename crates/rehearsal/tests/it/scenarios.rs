//! Runs every text scenario; `SELVEDGE_BLESS=1` rewrites their transcripts.

use std::path::{Path, PathBuf};

use selvedge_fabric::Fabric;
use selvedge_rehearsal::Script;
use selvedge_topology::Spec;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/scenarios")
}

/// A generator's SPEC, or a topology file beside the scenarios.
fn load(spec: &str) -> Result<Fabric, String> {
    match spec.parse::<Spec>().map_err(|e| e.to_string())? {
        Spec::Generated(recipe) => recipe.fabric().map_err(|e| e.to_string()),
        Spec::File(path) => {
            let bytes = std::fs::read(folder().join(&path)).map_err(|e| format!("{}: {e}", path.display()))?;
            let loaded = selvedge_topology::read(spec, &bytes).map_err(|e| e.to_string())?;
            Ok(loaded.fabric)
        }
    }
}

/// The scenarios whose names contain `SELVEDGE_SCENARIO`, or all.
fn scenarios() -> Vec<PathBuf> {
    let wanted = std::env::var("SELVEDGE_SCENARIO").unwrap_or_default();
    let files = std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path());
    let mut texts: Vec<PathBuf> = files
        .filter(|path| path.extension().is_some_and(|e| e == "txt"))
        .collect();
    texts.retain(|path| path.to_string_lossy().contains(&wanted));
    texts.sort();
    texts
}

/// What is wrong with one scenario, if anything.
fn check(path: &Path) -> Option<String> {
    let name = path.file_name().unwrap().to_string_lossy().into_owned();
    let script = Script::parse(&std::fs::read_to_string(path).unwrap());
    let transcript = script.run(&load);
    if std::env::var_os("SELVEDGE_BLESS").is_some() {
        std::fs::write(path, script.with_transcript(&transcript)).unwrap();
    } else if transcript.text != script.expected {
        let mut lines = transcript
            .text
            .lines()
            .zip(script.expected.lines().chain(std::iter::repeat("(nothing)")));
        let (found, want) = lines.find(|(a, b)| a != b).unwrap_or(("(nothing more)", "more"));
        return Some(format!(
            "{name}: the transcript differs, first\n  found: {found}\n  want:  {want}"
        ));
    }
    transcript.failures.first().map(|failure| format!("{name}: {failure}"))
}

#[test]
fn every_scenario_gives_its_transcript() {
    let scenarios = scenarios();
    assert!(!scenarios.is_empty());
    let wrong: Vec<String> = scenarios.iter().filter_map(|path| check(path)).collect();
    assert!(
        wrong.is_empty(),
        "{}\n(SELVEDGE_BLESS=1 rewrites the transcripts)",
        wrong.join("\n")
    );
}
