//! Words that may not stand in the code, each with what to write instead.

use super::imports;
use crate::finding::Finding;
use crate::rust_source::{RustSource, is_test_file, words};
use crate::tree::{Tree, room_of};

/// Where a word is searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Where {
    /// Code of every file.
    Code,
    /// Code and comments of every file.
    CodeAndComments,
    /// Code of tests.
    Tests,
    /// Code of the cores, except their tests.
    Cores,
    /// Code of the cores and of their tests.
    CoresAndTheirTests,
    /// Code of every room but `transport`.
    OutsideTransport,
}

struct Banned {
    word: &'static str,
    place: Where,
    instead: &'static str,
}

const fn banned(place: Where, word: &'static str, instead: &'static str) -> Banned {
    Banned { word, place, instead }
}

const UNFINISHED: &str = "finish it, or leave it out and note it in the issue";
const NO_CLOCK: &str = "a core gets `now` as a sim::Time from its caller";
const NO_IO: &str = "a core does no I/O: take bytes or text, give bytes or text back";
const NO_CHANCE: &str = "draw from a named generator of sim::Seed";
const NO_THREADS: &str = "use sim::Par, or an Output::Compute job";
const NO_PRINT: &str = "return it as a value or an event";
const SEEDED_HASH: &str = "std's hash order differs from run to run: use BTreeMap, BTreeSet or an index vector";

const BANNED: &[Banned] = &[
    banned(Where::Code, "todo!", UNFINISHED),
    banned(Where::Code, "unimplemented!", UNFINISHED),
    banned(Where::CodeAndComments, "FIXME", UNFINISHED),
    banned(Where::CodeAndComments, "XXX", UNFINISHED),
    banned(Where::Code, "dbg!", "remove it"),
    banned(
        Where::Code,
        "#[ignore",
        "assert today's answer with a note why it is wrong",
    ),
    banned(Where::Code, "#[should_panic", "assert the error that is returned"),
    banned(
        Where::Code,
        "cfg!(test)",
        "pass what differs as a value; ship what is tested",
    ),
    banned(
        Where::Code,
        "cfg(not(test))",
        "pass what differs as a value; ship what is tested",
    ),
    banned(Where::Code, "std::time::SystemTime::now", "pass the time in"),
    banned(Where::Tests, "thread::sleep", "wait for a condition with a deadline"),
    banned(Where::Tests, "time::sleep", "wait for a condition with a deadline"),
    banned(
        Where::OutsideTransport,
        "unsafe",
        "only room transport holds unsafe code",
    ),
    banned(
        Where::OutsideTransport,
        "unsafe_code",
        "only room transport holds unsafe code",
    ),
    banned(Where::CoresAndTheirTests, "Instant", NO_CLOCK),
    banned(Where::CoresAndTheirTests, "SystemTime", NO_CLOCK),
    banned(Where::CoresAndTheirTests, "sleep", NO_CLOCK),
    banned(Where::Cores, "std::fs", NO_IO),
    banned(Where::Cores, "std::net", NO_IO),
    banned(Where::Cores, "std::os", NO_IO),
    banned(Where::Cores, "std::env", NO_IO),
    banned(Where::Cores, "std::process", NO_IO),
    banned(Where::Cores, "File::open", NO_IO),
    banned(Where::Cores, "File::create", NO_IO),
    banned(Where::Cores, "stdin", NO_IO),
    banned(Where::Cores, "stdout", NO_IO),
    banned(Where::Cores, "stderr", NO_IO),
    banned(Where::Cores, "thread::spawn", NO_THREADS),
    banned(Where::Cores, "thread::Builder", NO_THREADS),
    banned(Where::Cores, "println!", NO_PRINT),
    banned(Where::Cores, "print!", NO_PRINT),
    banned(Where::Cores, "eprintln!", NO_PRINT),
    banned(Where::Cores, "eprint!", NO_PRINT),
    banned(Where::Cores, "HashMap", SEEDED_HASH),
    banned(Where::Cores, "HashSet", SEEDED_HASH),
    banned(Where::CoresAndTheirTests, "RandomState", NO_CHANCE),
    banned(Where::CoresAndTheirTests, "thread_rng", NO_CHANCE),
    banned(Where::CoresAndTheirTests, "rand::rng", NO_CHANCE),
    banned(Where::CoresAndTheirTests, "from_os_rng", NO_CHANCE),
];

/// Modules of std that a core may not name inside `use std::{…}` either.
const STD_MODULES: [&str; 5] = ["fs", "net", "os", "env", "process"];

/// Returns findings about all banned words.
pub fn findings(tree: &Tree) -> Vec<Finding> {
    let cores = imports::cores(tree);
    let mut found = Vec::new();
    for (path, text) in tree.rust_files() {
        let source = RustSource::new(text);
        let room = room_of(path).unwrap_or_default();
        let file = FileKind {
            // An example is a program of its own, which may time and print what a core does.
            is_core: cores.contains(room) && !path.contains("/examples/"),
            is_transport: room == "transport",
            is_test: is_test_file(path),
        };
        found.extend(check_words(path, &source, file));
        if file.is_core && !file.is_test {
            found.extend(check_std_groups(path, &source));
        }
    }
    found
}

#[derive(Clone, Copy, Debug)]
struct FileKind {
    is_core: bool,
    is_transport: bool,
    is_test: bool,
}

impl Banned {
    fn applies(&self, file: FileKind, is_test: bool) -> bool {
        match self.place {
            Where::Code | Where::CodeAndComments => true,
            Where::Tests => is_test,
            Where::Cores => file.is_core && !is_test,
            Where::CoresAndTheirTests => file.is_core,
            Where::OutsideTransport => !file.is_transport,
        }
    }
}

fn check_words(path: &str, source: &RustSource<'_>, file: FileKind) -> Vec<Finding> {
    let mut found = Vec::new();
    for (at, code) in source.code.iter().enumerate() {
        let is_test = file.is_test || source.is_test[at];
        for banned in BANNED.iter().filter(|banned| banned.applies(file, is_test)) {
            let line = match banned.place {
                Where::CodeAndComments => &source.code_and_comments[at],
                _ => code,
            };
            if words(line, banned.word).next().is_some() {
                let what = format!("`{}`", banned.word);
                found.push(Finding::new("banned-word", path, at + 1, what, banned.instead));
            }
        }
    }
    found
}

/// Finds modules in `use std::{fs, …}`, which names them without the text `std::fs`.
fn check_std_groups(path: &str, source: &RustSource<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut depth_of_group = None;
    for (at, code) in source.code.iter().enumerate() {
        let line = code.trim();
        if !source.is_test[at] && line.contains("use std::{") {
            depth_of_group = Some(at);
        }
        if depth_of_group.is_some() {
            for module in STD_MODULES {
                if words(line, module).next().is_some() {
                    let what = format!("`std::{module}`");
                    found.push(Finding::new("banned-word", path, at + 1, what, NO_IO));
                }
            }
        }
        if line.ends_with(';') {
            depth_of_group = None;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
<!-- import table, read by `cargo xtask tidy` -->
| room | kind | what it is | may import | never |
|---|---|---|---|---|
| `core` | core | first | – | – |
| `transport` | edge | second | – | – |
";

    fn check(path: &str, text: &str, want: &[&str]) {
        let found = findings(&Tree::of(&[("ARCHITECTURE.md", TABLE), (path, text)]));
        let found: Vec<_> = found.iter().map(|f| format!("{} {}", f.line, f.what)).collect();
        assert_eq!(found, want, "{path}: {text}");
    }

    #[test]
    fn banned_everywhere() {
        let path = "crates/cli/src/main.rs";
        check(path, "fn f() {\n    todo!()\n}", &["2 `todo!`"]);
        check(path, "// todo!", &[]);
        check(path, "let a = \"todo!\";", &[]);
        check(path, "// FIXME later", &["1 `FIXME`"]);
        check(path, "dbg!(1)", &["1 `dbg!`"]);
        check(path, "unsafe { f() }", &["1 `unsafe`"]);
        check("crates/transport/src/umad.rs", "unsafe { f() }", &[]);
    }

    #[test]
    fn banned_in_tests() {
        let module = "fn f() { std::thread::sleep(a); }\n#[cfg(test)]\nmod tests {\n    thread::sleep(a);\n}";
        check("crates/cli/src/a.rs", module, &["4 `thread::sleep`"]);
        check(
            "conformance/tests/a.rs",
            "std::thread::sleep(a)",
            &["1 `thread::sleep`"],
        );
        check("crates/cli/src/a.rs", "#[ignore = \"slow\"]", &["1 `#[ignore`"]);
    }

    #[test]
    fn banned_in_cores() {
        let check_core = |text: &str, want: &[&str]| {
            check("crates/core/src/a.rs", text, want);
            check("crates/cli/src/a.rs", text, &[]);
        };
        check_core("Instant::now()", &["1 `Instant`"]);
        check_core("std::fs::read(a)", &["1 `std::fs`"]);
        check_core("use std::{\n    fmt,\n    fs,\n};\nlet fs = 1;", &["3 `std::fs`"]);
        check_core("println!()", &["1 `println!`"]);
        check_core("HashMap::new()", &["1 `HashMap`"]);
        check_core("rand::rng()", &["1 `rand::rng`"]);
        check("crates/core/examples/speed.rs", "println!(a, Instant::now())", &[]);
    }

    #[test]
    fn tests_of_cores_read_files_but_no_clock() {
        check("crates/core/tests/a.rs", "std::fs::read(a)", &[]);
        check("crates/core/tests/a.rs", "Instant::now()", &["1 `Instant`"]);
        check(
            "crates/core/src/a.rs",
            "#[cfg(test)]\nmod tests {\n    println!();\n}",
            &[],
        );
    }
}
