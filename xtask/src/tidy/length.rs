//! Lengths of files, functions and lines.

use super::ratchet::{Limit, Measure};
use crate::finding::Finding;
use crate::rust_source::{RustSource, is_test_file};
use crate::tree::Tree;

const SPLIT: &str = "split it: one subject each";

/// Number of lines of a file without its test modules.
const FILE: Limit = Limit {
    rule: "file-length",
    unit: "lines",
    most: 600,
    most_hard: 1_000,
    advice: SPLIT,
};
/// Number of lines of a file with its test modules; there are no exceptions.
const FILE_WITH_TESTS: Limit = Limit {
    most: FILE.most_hard,
    ..FILE
};
/// Number of lines of a function, from `fn` to its closing brace: one screen.
const FUNCTION: Limit = Limit {
    rule: "function-length",
    unit: "lines",
    most: 70,
    most_hard: 200,
    advice: SPLIT,
};
/// Number of characters of a line; rustfmt's `max_width` has no effect on comments and texts.
const LINE_CHARS_MAX: usize = 120;

/// Lines that are too long.
pub fn findings(tree: &Tree) -> Vec<Finding> {
    let files = tree.rust_files();
    files
        .flat_map(|(path, text)| long_lines(path, &RustSource::new(text)))
        .collect()
}

/// The lengths of files and functions.
pub fn measures(tree: &Tree) -> Vec<Measure> {
    let mut measures = Vec::new();
    for (path, text) in tree.rust_files() {
        let source = RustSource::new(text);
        measures.extend(measure_file(path, &source));
        measures.extend(measure_functions(path, &source));
    }
    measures
}

fn measure_file(path: &str, source: &RustSource<'_>) -> [Measure; 2] {
    let measure = |size, limit| Measure {
        limit,
        file: path.to_owned(),
        line: 0,
        item: String::new(),
        size,
        detail: String::new(),
    };
    let without_tests = if is_test_file(path) {
        0
    } else {
        source.lines_without_tests()
    };
    [
        measure(without_tests, &FILE),
        measure(source.line_count(), &FILE_WITH_TESTS),
    ]
}

fn measure_functions(path: &str, source: &RustSource<'_>) -> Vec<Measure> {
    let functions = source.functions().into_iter();
    functions
        .map(|function| Measure {
            limit: &FUNCTION,
            file: path.to_owned(),
            line: function.lines.start + 1,
            item: function.name,
            size: function.lines.len(),
            detail: String::new(),
        })
        .collect()
}

fn long_lines(path: &str, source: &RustSource<'_>) -> Vec<Finding> {
    let lines = source.raw.iter().enumerate();
    lines
        .map(|(at, line)| (at, line.chars().count()))
        .filter(|&(_, chars)| chars > LINE_CHARS_MAX)
        .map(|(at, chars)| {
            let what = format!("{chars} characters, limit {LINE_CHARS_MAX}");
            Finding::new("line-length", path, at + 1, what, "break it")
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::ratchet;

    fn check(path: &str, text: &str, want: &[&str]) {
        let tree = Tree::of(&[(path, text)]);
        let mut found = findings(&tree);
        found.extend(ratchet::findings(&tree, &measures(&tree)));
        let found: Vec<_> = found
            .iter()
            .map(|f| format!("{}:{} {}", f.rule, f.line, f.what))
            .collect();
        assert_eq!(found, want);
    }

    #[test]
    fn lines() {
        check("a.rs", &"x".repeat(120), &[]);
        check("a.rs", &"ü".repeat(120), &[]);
        check(
            "a.rs",
            &format!("\n{}", "x".repeat(121)),
            &["line-length:2 121 characters, limit 120"],
        );
    }

    #[test]
    fn files() {
        check("a.rs", &"//\n".repeat(600), &[]);
        check("a.rs", &"//\n".repeat(601), &["file-length:0 601 lines, limit 600"]);
        let tests = format!(
            "{}#[cfg(test)]\nmod tests {{\n{}}}\n",
            "//\n".repeat(600),
            "//\n".repeat(300)
        );
        check("a.rs", &tests, &[]);
    }

    #[test]
    fn test_files_have_the_hard_limit_only() {
        check("x/tests/a.rs", &"//\n".repeat(1_000), &[]);
        check(
            "x/tests/a.rs",
            &"//\n".repeat(1_001),
            &["file-length:0 1001 lines, limit 1000, no exceptions"],
        );
    }

    #[test]
    fn functions() {
        let function = |lines: usize| format!("\nfn f() {{\n{}}}\n", "    a();\n".repeat(lines - 2));
        check("a.rs", &function(70), &[]);
        check("a.rs", &function(71), &["function-length:2 f: 71 lines, limit 70"]);
    }
}
