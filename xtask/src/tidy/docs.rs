//! Checks text: module docs, merge markers, white space, links that lead nowhere.

use crate::finding::Finding;
use crate::tree::Tree;

/// Ends of names of files with text of ours. Captures and golden files have text of other programs, and must stay
/// unchanged.
const OUR_TEXT: [&str; 10] = [
    ".rs", ".toml", ".md", ".sh", ".py", ".yml", ".service", "Makefile", "/run", "/setup",
];
/// Folders of captured or generated data.
const DATA_FOLDERS: [&str; 6] = ["golden", "captures", "corpus", "data", "runs", "proptest-regressions"];

/// Returns all findings of the rules in this file.
pub fn findings(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for (path, text) in tree.files().filter(|(path, _)| is_our_text(path)) {
        found.extend(check_lines(path, text));
        if path.ends_with(".rs") {
            found.extend(check_module_docs(path, text));
        }
        if path.ends_with(".md") {
            found.extend(check_links(tree, path, text));
        }
        if path.ends_with(".md") || path.ends_with(".rs") {
            found.extend(check_examples(tree, path, text));
        }
    }
    found
}

fn is_our_text(path: &str) -> bool {
    let is_data = path.split('/').any(|part| DATA_FOLDERS.contains(&part));
    let is_text = OUR_TEXT.iter().any(|end| path.ends_with(end));
    is_text && (!is_data || path.ends_with(".rs") || path.ends_with(".md"))
}

fn check_lines(path: &str, text: &str) -> Vec<Finding> {
    let mut found = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let is_marker = ["<<<<<<<", "|||||||", "=======", ">>>>>>>"].iter().any(|marker| {
            line.strip_prefix(marker)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
        });
        // A line of seven equals signs may underline a Markdown heading.
        if is_marker && !(path.ends_with(".md") && line == "=======") {
            found.push(Finding::new(
                "merge-marker",
                path,
                at + 1,
                "left from a merge",
                "resolve it",
            ));
        }
        if line.ends_with([' ', '\t', '\r']) {
            found.push(Finding::new(
                "white-space",
                path,
                at + 1,
                "space at the end of the line",
                "remove it",
            ));
        }
    }
    if !text.is_empty() && !text.ends_with('\n') {
        found.push(Finding::new(
            "white-space",
            path,
            text.lines().count(),
            "no line break at the end",
            "add one",
        ));
    }
    found
}

fn check_module_docs(path: &str, text: &str) -> Option<Finding> {
    let mut lines = text.lines().map(str::trim);
    // Inner attributes and a shebang may stand before.
    let first = lines.find(|line| !line.is_empty() && !line.starts_with("#!"));
    let is_documented = first.is_some_and(|line| line.starts_with("//! ") || line.starts_with("/*!"));
    let advice = "start the file with `//! ` and one sentence that describes it";
    (!is_documented).then(|| Finding::new("module-docs", path, 1, "no module documentation", advice))
}

/// Relative links, `[text](path)` or `[text](path#part)`, outside code blocks.
fn check_links(tree: &Tree, path: &str, text: &str) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut in_code = false;
    for (at, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        }
        if in_code {
            continue;
        }
        for rest in line.split("](").skip(1) {
            let target = rest.split([')', '#', ' ']).next().unwrap_or_default();
            if target.is_empty() || target.contains(':') {
                continue;
            }
            if !resolve(path, target).is_some_and(|resolved| tree.has(&resolved)) {
                let what = format!("link to {target}, which is not there");
                found.push(Finding::new("dead-link", path, at + 1, what, "correct or remove it"));
            }
        }
    }
    found
}

/// Checks the programs that a command names with `--example`, also if the name is on the next line.
fn check_examples(tree: &Tree, path: &str, text: &str) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut is_named = false;
    let is_prose = |line: &str| path.ends_with(".md") || line.trim_start().starts_with("//");
    for (at, line) in text.lines().enumerate().filter(|(_, line)| is_prose(line)) {
        let words = line.split_whitespace();
        for word in words.filter(|word| !matches!(*word, "//!" | "///" | "//")) {
            if !std::mem::replace(&mut is_named, word == "--example") {
                continue;
            }
            let is_of_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
            let name = word.split(|c| !is_of_name(c)).next().unwrap_or_default();
            let file = format!("/examples/{name}.rs");
            if !name.is_empty() && !tree.rust_files().any(|(path, _)| path.ends_with(&file)) {
                let what = format!("no crate has an example {name}");
                let advice = "correct the command or add it";
                found.push(Finding::new("dead-example", path, at + 1, what, advice));
            }
        }
    }
    found
}

/// Returns the path of `target` as seen from the file `from`; `None` if it leads out of the project.
fn resolve(from: &str, target: &str) -> Option<String> {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(path: &str, text: &str, want: &[&str]) {
        let tree = Tree::of(&[(path, text), ("docs/there.md", "")]);
        let found: Vec<_> = findings(&tree)
            .iter()
            .map(|f| format!("{} {}", f.line, f.rule))
            .collect();
        assert_eq!(found, want, "{path}: {text}");
    }

    #[test]
    fn module_docs() {
        check("a.rs", "//! What it is.\n", &[]);
        check("a.rs", "#![allow(x)]\n\n//! What it is.\n", &[]);
        check("a.rs", "use b;\n", &["1 module-docs"]);
        check("a.rs", "", &["1 module-docs"]);
    }

    #[test]
    fn white_space() {
        check("a.toml", "a \nb\n", &["1 white-space"]);
        check("a.toml", "a\nb", &["2 white-space"]);
        check("a.toml", "a\r\n", &[]);
        check("tests/golden/a.toml", "a \n", &[]);
        check("a.net", "a \n", &[]);
    }

    #[test]
    fn merge_markers() {
        check(
            "a.toml",
            "<<<<<<< HEAD\n=======\n>>>>>>> b\n",
            &["1 merge-marker", "2 merge-marker", "3 merge-marker"],
        );
        check("a.toml", "========\n", &[]);
        check("a.md", "Title\n=======\n", &[]);
    }

    #[test]
    fn examples() {
        let check = |text: &str, want: &[&str]| {
            let tree = Tree::of(&[("a.md", text), ("crates/a/examples/speed.rs", "//! How fast.\n")]);
            let found: Vec<_> = findings(&tree)
                .iter()
                .map(|f| format!("{} {}", f.line, f.rule))
                .collect();
            assert_eq!(found, want, "{text}");
        };
        check(
            "`cargo run --example speed`, `--example\nspeed -- SPEC` and `--example` alone.\n",
            &[],
        );
        check("`cargo run --example gone`\n", &["1 dead-example"]);
        check("`cargo run --example\ngone -- SPEC`\n", &["2 dead-example"]);
    }

    #[test]
    fn links() {
        check(
            "docs/a.md",
            "[x](there.md) [y](there.md#part) [z](https://a.b) [w](#here)\n",
            &[],
        );
        check("a.md", "[x](docs/there.md) [y](docs)\n", &[]);
        check("docs/a.md", "[x](gone.md)\n", &["1 dead-link"]);
        check("docs/a.md", "[x](../../out.md)\n", &["1 dead-link"]);
        check("docs/a.md", "```\n[x](gone.md)\n```\n", &[]);
    }
}
