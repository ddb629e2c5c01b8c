//! Hostile files, and the stored corpus of the fuzz target.
use std::path::PathBuf;

use selvedge_experiment::fuzz_body::read_and_draw;

const SEED2: &str = include_str!("../../../../experiments/seed2.toml");
const EVERYTHING: &str = r#"
title = "everything that a file may have"
seeds = "1-2"
figures = ["accepted_load", "deadlock?"]
[common]
load = 0.5
grh = true
job = ["a", "b"]
[vary]
fabric = ["sx6536", "ring"]
vls = [1, 2, 4]
[[together]]
queue = "fifo"
label.buffers = "small"
[[together]]
queue = "voq"
label.buffers = "large"
[[picture]]
file = "a.svg"
title = "A chart"
x = "vls"
y = "accepted_load"
series = ["queue", "buffers"]
panel = "fabric"
mark = "deadlock?"
[[picture]]
file = "b.svg"
x = "fabric"
y = "accepted_load"
series = "vls"
panel = ["queue", "buffers"]
kind = "bars"
scale = "panel"
"#;
const RESULTS: &str = "{\"results\":1,\"maker\":\"me\"}\n\
    {\"cell\":{\"vls\":1},\"seed\":2,\"figures\":{\"accepted_load\":0.5,\"latency_ns\":{\"p99\":7}}}\n\
    {\"cell\":{},\"seed\":18446744073709551615,\"refused\":\"no such engine\"}\n";
/// Numbers at the ends of what a chart may be asked to draw.
const FAR: &str = "[vary]\nload = [1e308, -1e308, 0.0]\nvls = [\"nan\", \"inf\", 9223372036854775807]\n\
    [[picture]]\nfile = \"a.svg\"\nx = \"load\"\ny = \"y\"\nseries = \"vls\"\n\
    [[picture]]\nfile = \"b.svg\"\nx = \"vls\"\ny = \"y\"\npanel = \"load\"\n";
const NEAR: &str = "[vary]\nload = [1.0, 1.0000000000000002, 1e-308]\n\
    [[picture]]\nfile = \"a.svg\"\nx = \"load\"\ny = \"y\"\n";

#[test]
fn every_prefix_and_every_byte_changed() {
    for text in [EVERYTHING, RESULTS] {
        for at in 0..text.len() {
            read_and_draw(&text.as_bytes()[..at]);
            for with in *b"\0\n\"[]=.9{~\xFF" {
                let mut bytes = text.as_bytes().to_vec();
                bytes[at] = with;
                read_and_draw(&bytes);
            }
        }
    }
}

fn corpus() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/corpus")
}

/// Returns the inputs that a fuzzer starts from: whole files, and the same files with lines left out, doubled and
/// changed.
///
/// The changes come from a fixed multiplicative generator, so that the files are the same wherever they are made.
fn seeds() -> Vec<(String, String)> {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut random = |below: usize| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    let whole = [
        ("seed2", SEED2),
        ("everything", EVERYTHING),
        ("results", RESULTS),
        ("far", FAR),
        ("near", NEAR),
    ];
    let mut seeds: Vec<_> = whole
        .map(|(name, text)| (format!("{name}.txt"), text.to_owned()))
        .into();
    for (name, text) in &whole[1..] {
        for index in 0..8 {
            let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
            for _ in 0..1 + random(3) {
                let (at, from) = (random(lines.len()), random(lines.len()));
                match random(3) {
                    0 => drop(lines.remove(at)),
                    1 => lines.insert(at, lines[from].clone()),
                    _ => lines[at] = lines[at].replace(['1', '"'], "[2, 2]"),
                }
                if lines.is_empty() {
                    lines.push(String::new());
                }
            }
            seeds.push((format!("{name}-{index}.txt"), lines.join("\n")));
        }
    }
    seeds
}

/// Runs the stored corpus. `SELVEDGE_BLESS=1` writes the seeds; inputs that a fuzzer found are added by hand and stay.
#[test]
fn the_stored_corpus_holds() {
    if std::env::var_os("SELVEDGE_BLESS").is_some() {
        std::fs::create_dir_all(corpus()).unwrap();
        for (name, text) in seeds() {
            std::fs::write(corpus().join(name), text).unwrap();
        }
    }
    let mut count = 0;
    for entry in std::fs::read_dir(corpus()).unwrap() {
        let path = entry.unwrap().path();
        println!("{}", path.display());
        read_and_draw(&std::fs::read(path).unwrap());
        count += 1;
    }
    assert!(count >= seeds().len(), "{count} files");
}
