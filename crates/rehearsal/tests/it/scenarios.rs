//! Runs every text scenario; `SELVEDGE_BLESS=1` rewrites their transcripts, and their digests in `tests/digests`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use selvedge_fabric::Fabric;
use selvedge_rehearsal::{Digests, Script};
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

/// The scenarios with `SELVEDGE_SCENARIO` in their names, or all.
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

fn name(path: &Path) -> String {
    path.file_name().unwrap().to_string_lossy().into_owned()
}

/// Runs one scenario: its failure, if any, and its digests.
fn check(path: &Path) -> (Option<String>, Digests) {
    let name = name(path);
    let script = Script::parse(&std::fs::read_to_string(path).unwrap());
    let transcript = script.run(&load);
    let digests = transcript.digests;
    if std::env::var_os("SELVEDGE_BLESS").is_some() {
        std::fs::write(path, script.with_transcript(&transcript)).unwrap();
    } else if transcript.text != script.expected {
        let mut lines = transcript
            .text
            .lines()
            .zip(script.expected.lines().chain(std::iter::repeat("(nothing)")));
        let (found, want) = lines.find(|(a, b)| a != b).unwrap_or(("(nothing more)", "more"));
        let wrong = format!("{name}: the transcript differs, first\n  found: {found}\n  want:  {want}");
        return (Some(wrong), digests);
    }
    let failure = transcript.failures.first();
    (failure.map(|failure| format!("{name}: {failure}")), digests)
}

fn digests_file() -> PathBuf {
    folder().join("../digests/scenarios.txt")
}

/// The stored digests, by scenario.
fn stored() -> BTreeMap<String, Digests> {
    let text = std::fs::read_to_string(digests_file()).unwrap();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let entry = |line: &str| {
        let (name, digests) = line.split_once(' ').unwrap();
        (name.to_owned(), digests.parse().unwrap())
    };
    lines.map(entry).collect()
}

#[test]
fn every_scenario_gives_its_transcript_and_its_digests() {
    let scenarios = scenarios();
    assert!(!scenarios.is_empty());
    let mut wrong = Vec::new();
    let (mut want, mut found) = (stored(), BTreeMap::new());
    for path in &scenarios {
        let (failure, digests) = check(path);
        wrong.extend(failure);
        found.insert(name(path), digests);
    }
    if std::env::var_os("SELVEDGE_BLESS").is_some() {
        want.retain(|name, _| folder().join(name).exists());
        want.extend(found);
        let lines = want.iter().map(|(name, digests)| format!("{name} {digests}\n"));
        let head = "# name, digest of what managers sent, digest of what agents held at the end\n".to_owned();
        let text: String = std::iter::once(head).chain(lines).collect();
        std::fs::write(digests_file(), text).unwrap();
        return;
    }
    for (name, digests) in &found {
        match want.get(name) {
            Some(stored) if stored == digests => {}
            stored => wrong.push(format!("{name}: digests {digests}, stored are {stored:x?}")),
        }
    }
    assert!(
        wrong.is_empty(),
        "{}\n(SELVEDGE_BLESS=1 rewrites transcripts and digests)",
        wrong.join("\n")
    );
}
