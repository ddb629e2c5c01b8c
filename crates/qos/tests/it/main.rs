//! The stored corpus of the fuzz target, and files that are cut and changed at each place.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use std::path::PathBuf;

use selvedge_qos::fuzz_body::read;

fn corpus() -> Vec<(PathBuf, Vec<u8>)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
    let paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    paths.map(|path| (path.clone(), std::fs::read(path).unwrap())).collect()
}

#[test]
fn the_stored_corpus_holds() {
    let corpus = corpus();
    assert!(corpus.len() >= 4, "{} files", corpus.len());
    for (path, bytes) in corpus {
        println!("{}", path.display());
        read(&bytes);
    }
}

#[test]
fn files_cut_and_changed_at_each_place_do_no_harm() {
    for (_, bytes) in corpus() {
        for at in 0..bytes.len() {
            read(&bytes[..at]);
            for with in *b"\n\":\xFF" {
                let mut changed = bytes.clone();
                changed[at] = with;
                read(&changed);
            }
        }
    }
}
