//! Words that may not stand in pages and doc comments. The list is data: `xtask/banned-words.toml`.

use super::ratchet::{Limit, Measure};
use crate::finding::Finding;
use crate::rust_source::{RustSource, words};
use crate::tree::{Tree, room_of};

/// The list of words, each with what to write instead.
const FILE: &str = "xtask/banned-words.toml";
const RULE: &str = "banned-prose";

/// Number of banned words of a page, or of all doc comments of a crate. Old comments are exceptions that can only
/// shrink.
const PROSE: Limit = Limit {
    rule: RULE,
    unit: "banned words",
    most: 0,
    most_hard: usize::MAX,
    advice: "docs/vocabulary.md has the terms",
};

/// A word and what to write instead.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Banned {
    word: String,
    instead: String,
}

/// Returns a finding if the list of words cannot be read.
pub fn findings(tree: &Tree) -> Vec<Finding> {
    read(tree).err().into_iter().collect()
}

/// The number of banned words of each page and of each crate; only those with some.
pub fn measures(tree: &Tree) -> Vec<Measure> {
    let list = read(tree).unwrap_or_default();
    let mut measures: Vec<Measure> = Vec::new();
    for (path, text) in tree.files() {
        let Some((subject, lines)) = prose_of(path, text) else {
            continue;
        };
        for (at, line) in lines {
            for banned in places(&line, &list) {
                match measures.iter_mut().find(|measure| measure.file == subject) {
                    Some(measure) => measure.size += 1,
                    None => measures.push(Measure {
                        limit: &PROSE,
                        file: subject.clone(),
                        line: if subject == path { at + 1 } else { 0 },
                        item: String::new(),
                        size: 1,
                        detail: format!("`{}` at {path}:{}: {}", banned.word, at + 1, banned.instead),
                    }),
                }
            }
        }
    }
    measures
}

/// Returns what the words of a file count for (the page itself, or the crate) and its lines of prose; `None` for other
/// files.
fn prose_of(path: &str, text: &str) -> Option<(String, Vec<(usize, String)>)> {
    let is_page = match path.rsplit_once('/') {
        None => matches!(path, "README.md" | "ARCHITECTURE.md" | "CHANGELOG.md"),
        Some((folder, name)) => folder == "docs" && name.ends_with(".md"),
    };
    if is_page {
        return Some((path.to_owned(), page_lines(text)));
    }
    if !path.ends_with(".rs") {
        return None;
    }
    let room = room_of(path)?;
    let crate_folder = &path[..path.find(room)? + room.len()];
    Some((crate_folder.to_owned(), doc_comments(text)))
}

/// Lines outside of code blocks.
fn page_lines(text: &str) -> Vec<(usize, String)> {
    let mut is_code = false;
    let lines = text.lines().enumerate().filter(|(_, line)| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    });
    lines.map(|(at, line)| (at, line.to_owned())).collect()
}

/// Lines of doc comments, of items and of modules.
fn doc_comments(text: &str) -> Vec<(usize, String)> {
    let source = RustSource::new(text);
    let lines = source.code_and_comments.into_iter().enumerate();
    lines
        .filter(|(_, line)| matches!(line.trim_start().get(..3), Some("///" | "//!")))
        .collect()
}

/// Returns the banned words of a line. Text in backquotes is left out.
fn places<'a>(line: &str, list: &'a [Banned]) -> Vec<&'a Banned> {
    let prose: Vec<&str> = line.split('`').step_by(2).collect();
    let prose = prose.join("`").to_lowercase();
    list.iter()
        .flat_map(|banned| words(&prose, &banned.word).map(move |_| banned))
        .collect()
}

fn read(tree: &Tree) -> Result<Vec<Banned>, Finding> {
    let bad = |what: String| {
        Finding::new(
            RULE,
            FILE,
            0,
            what,
            "write banned = [{ words = [\"…\"], instead = \"…\" }]",
        )
    };
    let text = tree.text(FILE).ok_or_else(|| bad("is not there".to_owned()))?;
    let table: toml::Table = text.parse().map_err(|error| bad(format!("is no TOML: {error}")))?;
    let entries = table.get("banned").and_then(toml::Value::as_array);
    let entries = entries.ok_or_else(|| bad("has no list `banned`".to_owned()))?;
    let mut list = Vec::new();
    for entry in entries {
        let words = entry.get("words").and_then(toml::Value::as_array);
        let instead = entry.get("instead").and_then(toml::Value::as_str);
        let (Some(words), Some(instead)) = (words, instead) else {
            return Err(bad(format!("incomplete: {entry}")));
        };
        for word in words {
            let word = word
                .as_str()
                .filter(|word| !word.is_empty() && *word == word.to_lowercase());
            let word = word.ok_or_else(|| bad(format!("a word that is no lower-case text: {entry}")))?;
            list.push(Banned {
                word: word.to_owned(),
                instead: instead.to_owned(),
            });
        }
    }
    Ok(list)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::ratchet;

    const LIST: &str = "banned = [{ words = ['who', 'whose'], instead = 'name it' }]";

    fn check(path: &str, text: &str, want: &[&str]) {
        let tree = Tree::of(&[(FILE, LIST), (path, text)]);
        let found = ratchet::findings(&tree, &measures(&tree));
        let found: Vec<_> = found
            .iter()
            .map(|f| format!("{}:{} {}", f.file, f.line, f.what))
            .collect();
        assert_eq!(found, want, "{path}: {text}");
    }

    #[test]
    fn pages() {
        let one = "docs/a.md:2 1 banned words, limit 0: `who` at docs/a.md:2: name it";
        check("docs/a.md", "Ports.\nWho answers?\n", &[one]);
        let two = "README.md:1 2 banned words, limit 0: `whose` at README.md:1: name it";
        check("README.md", "A port whose LID\nis known, whose.\n", &[two]);
        check("docs/a.md", "The whole, `who`, whom.\n", &[]);
        check("docs/a.md", "```\nwho\n```\n", &[]);
        check("docs/reference/a.md", "Who?\n", &[]);
        check("bench/runs/a/README.md", "Who?\n", &[]);
    }

    #[test]
    fn doc_comments_of_a_crate() {
        let want = "crates/sm:0 2 banned words, limit 0: `who` at crates/sm/src/a.rs:1: name it";
        check("crates/sm/src/a.rs", "//! Who.\nfn f() {}\n    /// Whose.\n", &[want]);
        check("crates/sm/src/a.rs", "// who\nlet who = \"/// who\"; // who\n", &[]);
        let want = "xtask:0 1 banned words, limit 0: `who` at xtask/src/a.rs:1: name it";
        check("xtask/src/a.rs", "/// Who.\n", &[want]);
    }

    #[test]
    fn old_comments_can_only_shrink() {
        let check = |size: usize, want: &[&str]| {
            let list =
                format!("exception = [{{ rule = '{RULE}', file = 'crates/sm', size = {size}, reason = 'old' }}]");
            let code = "/// Who.\n/// Who.\nfn f() {}\n";
            let tree = Tree::of(&[(FILE, LIST), (ratchet::FILE, &list), ("crates/sm/src/a.rs", code)]);
            let found = ratchet::findings(&tree, &measures(&tree));
            let found: Vec<_> = found.iter().map(|f| f.what.as_str()).collect();
            assert_eq!(found, want, "{size}");
        };
        check(2, &[]);
        check(3, &["crates/sm  may have 3 banned words and has 2"]);
        check(1, &["2 banned words, limit 0: `who` at crates/sm/src/a.rs:1: name it"]);
    }

    #[test]
    fn lists_that_cannot_be_read() {
        let check = |list: &str, want: &str| {
            let found = findings(&Tree::of(&[(FILE, list)]));
            let found: Vec<_> = found.iter().map(|f| f.what.as_str()).collect();
            assert!(found.iter().any(|what| what.contains(want)), "{list}: {found:?}");
        };
        check("banned = [", "is no TOML");
        check("words = []", "has no list");
        check("banned = [{ words = ['who'] }]", "incomplete");
        check("banned = [{ words = ['Who'], instead = 'x' }]", "lower-case");
        assert_eq!(findings(&Tree::default()).len(), 1);
        assert_eq!(findings(&Tree::of(&[(FILE, LIST)])), []);
    }
}
