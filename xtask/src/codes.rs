//! Stable codes (`SLV-<AREA>-<NNNN>`): where each is defined, that none is defined twice, and the page that lists them.
//!
//! A code is *defined* by the doc comment of its enum variant, which starts `/// SLV-WIRE-0001: …`; or, where an enum
//! has a function for its codes, by the arm `Self::Variant … => "SLV-SM-0001"`, and the variant's doc comment explains
//! it. Everything else (an `#[error("SLV-WIRE-0001: …")]`, a test, a page of documentation) only *mentions* it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use crate::finding::Finding;
use crate::tree::{Tree, room_of};

/// The generated page.
pub const PAGE: &str = "docs/reference/codes.md";

const RULE: &str = "error-code";
const PAGE_HEAD: &str = "\
# Codes of errors and events

Every error, event and finding starts with a code that never changes its meaning. This page is written by
`cargo xtask codes` from the doc comments in the code; edit those. The text after a code explains it; what the
program prints adds where it happened and what to do.
";

/// Where a code is defined and what it means.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Definition<'a> {
    file: &'a str,
    line: usize,
    text: String,
}

/// A code where it is used, not defined.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Mention<'a> {
    code: &'a str,
    file: &'a str,
    line: usize,
    /// True in an `#[error("…")]` attribute.
    in_error: bool,
}

#[derive(Debug, Default)]
struct Codes<'a> {
    defined: BTreeMap<&'a str, Vec<Definition<'a>>>,
    mentions: Vec<Mention<'a>>,
}

/// Returns findings about codes that are defined twice, reported twice, mentioned but not defined, or never reported,
/// and about a stale page.
pub fn findings(tree: &Tree) -> Vec<Finding> {
    let codes = Codes::read(tree);
    let mut found = codes.conflicts();
    found.extend(codes.loose_ends());
    if !codes.defined.is_empty() && tree.text(PAGE) != Some(page(&codes).as_str()) {
        found.push(Finding::new(
            RULE,
            PAGE,
            0,
            "differs from the code",
            "run `cargo xtask codes`",
        ));
    }
    found
}

/// Writes the page of codes.
pub fn write(root: &Path, tree: &Tree) -> Result<Vec<Finding>, Finding> {
    let path = root.join(PAGE);
    let text = page(&Codes::read(tree));
    let written = fs::create_dir_all(path.parent().unwrap_or(root)).and_then(|()| fs::write(&path, text));
    match written {
        Ok(()) => Ok(Vec::new()),
        Err(error) => Err(Finding::new(
            RULE,
            PAGE,
            0,
            format!("cannot write it: {error}"),
            "check the folder",
        )),
    }
}

impl<'a> Codes<'a> {
    fn read(tree: &'a Tree) -> Self {
        let mut codes = Self::default();
        for (file, text) in tree.files() {
            // xtask's own tests speak of invented codes; the page is made from the definitions.
            if file.starts_with("xtask/") || file == PAGE {
                continue;
            }
            let lines: Vec<&str> = text.lines().collect();
            for (at, line) in lines.iter().enumerate() {
                codes.read_line(file, &lines, at, line);
            }
        }
        codes
    }

    fn read_line(&mut self, file: &'a str, lines: &[&'a str], at: usize, line: &'a str) {
        let definition = file
            .ends_with(".rs")
            .then(|| line.trim_start().strip_prefix("/// "))
            .flatten()
            .and_then(|doc| code_at(doc).map(|code| (code, &doc[code.len()..])))
            .and_then(|(code, rest)| rest.strip_prefix(": ").map(|text| (code, text)));
        if let Some((code, text)) = definition {
            self.defined.entry(code).or_default().push(Definition {
                file,
                line: at + 1,
                text: doc_paragraph(text, &lines[at + 1..]),
            });
            return;
        }
        if let Some(code) = line.split_once("=> \"").and_then(|(_, text)| code_at(text))
            && file.ends_with(".rs")
            && !is_documented(lines, code)
        {
            self.defined.entry(code).or_default().push(Definition {
                file,
                line: at + 1,
                text: variant_doc(lines, line).unwrap_or_default(),
            });
        }
        for (column, _) in line.match_indices("SLV-") {
            if let Some(code) = code_at(&line[column..]) {
                // rustfmt puts a long attribute's text on a line of its own.
                let in_error =
                    line.contains("#[error(\"") || (at > 0 && lines[at - 1].trim_end().ends_with("#[error("));
                self.mentions.push(Mention {
                    code,
                    file,
                    line: at + 1,
                    in_error,
                });
            }
        }
    }

    /// Returns findings about codes that are defined or reported more than once.
    fn conflicts(&self) -> Vec<Finding> {
        let mut found = Vec::new();
        for (code, definitions) in &self.defined {
            let first = &definitions[0];
            for again in &definitions[1..] {
                let what = format!("{code} is already defined at {}:{}", first.file, first.line);
                found.push(Finding::new(
                    RULE,
                    again.file,
                    again.line,
                    what,
                    "take the next free number",
                ));
            }
        }
        let mut reported: BTreeMap<&str, &Mention<'_>> = BTreeMap::new();
        for mention in self.mentions.iter().filter(|mention| mention.in_error) {
            if let Some(first) = reported.insert(mention.code, mention) {
                let what = format!("{} is already reported at {}:{}", mention.code, first.file, first.line);
                found.push(Finding::new(
                    RULE,
                    mention.file,
                    mention.line,
                    what,
                    "give it a code of its own",
                ));
            }
        }
        found
    }

    /// Returns findings about codes that are mentioned but not defined, or defined but never reported.
    fn loose_ends(&self) -> Vec<Finding> {
        let mut found = Vec::new();
        for mention in &self.mentions {
            if !self.defined.contains_key(mention.code) {
                let what = format!("{} is defined nowhere", mention.code);
                let advice = format!("start its variant's doc comment with `/// {}: `", mention.code);
                found.push(Finding::new(RULE, mention.file, mention.line, what, advice));
            }
        }
        for (code, definitions) in &self.defined {
            let first = &definitions[0];
            if first.text.is_empty() {
                let what = format!("{code} has no meaning");
                let advice = "write the doc comment of its variant in the same file";
                found.push(Finding::new(RULE, first.file, first.line, what, advice));
            }
            let is_reported = self
                .mentions
                .iter()
                .any(|mention| mention.code == *code && mention.file.ends_with(".rs"));
            if !is_reported {
                let what = format!("{code} is defined but no code reports it");
                found.push(Finding::new(
                    RULE,
                    first.file,
                    first.line,
                    what,
                    "report it, or delete it",
                ));
            }
        }
        found
    }
}

/// Returns the code at the start of `text`: `SLV-`, letters, `-` and four digits. `None` if a further character makes
/// it longer.
fn code_at(text: &str) -> Option<&str> {
    let rest = text.strip_prefix("SLV-")?;
    let (room, rest) = rest.split_once('-')?;
    let room_is_valid = !room.is_empty() && room.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit());
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    (room_is_valid && digits == 4).then(|| &text[.."SLV-".len() + room.len() + 1 + digits])
}

/// True if a doc comment of the file defines the code.
fn is_documented(lines: &[&str], code: &str) -> bool {
    let start = format!("/// {code}: ");
    lines.iter().any(|line| line.trim_start().starts_with(&start))
}

/// Returns the doc comment of the variant that a match arm `Self::Variant … =>` names.
fn variant_doc(lines: &[&str], arm: &str) -> Option<String> {
    let name = arm.trim_start().strip_prefix("Self::")?;
    let name = &name[..name.find(|c: char| !c.is_alphanumeric())?];
    let is_variant = |line: &str| {
        let rest = line.trim_start().strip_prefix(name);
        rest.is_some_and(|rest| rest.starts_with([',', ' ', '(']))
    };
    let variant = lines.iter().position(|line| is_variant(line))?;
    let is_doc = |line: &&str| line.trim_start().starts_with("/// ");
    let first = variant - lines[..variant].iter().rev().take_while(|line| is_doc(line)).count();
    let text = lines.get(first)?.trim_start().strip_prefix("/// ")?;
    Some(doc_paragraph(text, &lines[first + 1..]))
}

/// Returns the first paragraph of a doc comment: `first` and the following lines of the same paragraph.
fn doc_paragraph(first: &str, rest: &[&str]) -> String {
    let mut text = first.trim_end().to_owned();
    for line in rest {
        match line.trim().strip_prefix("/// ") {
            Some(more) => {
                text.push(' ');
                text.push_str(more.trim());
            }
            None => break,
        }
    }
    text
}

fn page(codes: &Codes<'_>) -> String {
    let mut page = PAGE_HEAD.to_owned();
    let mut last_prefix = "";
    for (code, definitions) in &codes.defined {
        let prefix = code.rsplit_once('-').map_or(*code, |(prefix, _)| prefix);
        let first = &definitions[0];
        if prefix != last_prefix {
            let _ = write!(page, "\n## {prefix}\n\n| code | meaning | room |\n|---|---|---|\n");
            last_prefix = prefix;
        }
        let room = room_of(first.file).unwrap_or_default();
        let _ = writeln!(page, "| {code} | {} | `{room}` |", first.text.replace('|', "\\|"));
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(files: &[(&str, &str)], want: &[&str]) {
        let mut tree: Vec<_> = files.to_vec();
        let page = page(&Codes::read(&Tree::of(files)));
        tree.push((PAGE, &page));
        let found = findings(&Tree::of(&tree));
        let found: Vec<_> = found
            .iter()
            .map(|f| format!("{}:{} {}", f.file, f.line, f.what))
            .collect();
        assert_eq!(found, want);
    }

    const GOOD: &str = "/// SLV-X-0001: bad.\n#[error(\"SLV-X-0001: bad\")]\n";

    #[test]
    fn a_code_defined_once_and_reported_is_fine() {
        check(&[("crates/x/src/a.rs", GOOD)], &[]);
        check(
            &[
                ("crates/x/src/a.rs", GOOD),
                ("docs/a.md", "see SLV-X-0001"),
                ("crates/x/tests/t.rs", "assert!(s.contains(\"SLV-X-0001\"))"),
            ],
            &[],
        );
    }

    #[test]
    fn a_code_defined_twice() {
        check(
            &[
                ("crates/x/src/a.rs", GOOD),
                ("crates/x/src/b.rs", "/// SLV-X-0001: worse."),
            ],
            &["crates/x/src/b.rs:1 SLV-X-0001 is already defined at crates/x/src/a.rs:1"],
        );
    }

    #[test]
    fn a_code_reported_twice() {
        check(
            &[
                ("crates/x/src/a.rs", GOOD),
                ("crates/x/src/b.rs", "#[error(\n    \"SLV-X-0001: worse\"\n)]"),
            ],
            &["crates/x/src/b.rs:2 SLV-X-0001 is already reported at crates/x/src/a.rs:2"],
        );
    }

    #[test]
    fn a_code_defined_nowhere() {
        check(
            &[("docs/a.md", "see SLV-X-0002.")],
            &["docs/a.md:1 SLV-X-0002 is defined nowhere"],
        );
    }

    #[test]
    fn a_code_that_nothing_reports() {
        check(
            &[("crates/x/src/a.rs", "/// SLV-X-0001: bad.\nBad,\n")],
            &["crates/x/src/a.rs:1 SLV-X-0001 is defined but no code reports it"],
        );
    }

    const ARMS: &str = "\
enum Event {
    /// Something began,
    /// at last.
    Began,
}
fn code(&self) -> &'static str {
    match self {
        Self::Began => \"SLV-X-0003\",
    }
}
";

    #[test]
    fn a_code_defined_by_a_match_arm() {
        check(&[("crates/x/src/a.rs", ARMS)], &[]);
        let tree = Tree::of(&[("crates/x/src/a.rs", ARMS)]);
        let page = page(&Codes::read(&tree));
        assert!(
            page.contains("| SLV-X-0003 | Something began, at last. | `x` |"),
            "{page}"
        );
        let twice = ARMS.replace("    }\n}\n", "        Self::Ended => \"SLV-X-0003\",\n    }\n}\n");
        check(
            &[("crates/x/src/a.rs", &twice)],
            &["crates/x/src/a.rs:9 SLV-X-0003 is already defined at crates/x/src/a.rs:8"],
        );
        let documented = ARMS.replace("Something", "SLV-X-0003: Something");
        check(&[("crates/x/src/a.rs", &documented)], &[]);
    }

    #[test]
    fn a_code_without_a_meaning() {
        check(
            &[("crates/x/src/a.rs", "Self::Gone => \"SLV-X-0003\"")],
            &["crates/x/src/a.rs:1 SLV-X-0003 has no meaning"],
        );
    }

    #[test]
    fn a_stale_page_is_found() {
        let tree = Tree::of(&[("crates/x/src/a.rs", GOOD), (PAGE, "old")]);
        assert_eq!(findings(&tree).len(), 1);
        assert!(page(&Codes::read(&tree)).contains("| SLV-X-0001 | bad. | `x` |"));
    }

    #[test]
    fn what_is_a_code() {
        let check = |text: &str, want: Option<&str>| assert_eq!(code_at(text), want, "{text}");
        check("SLV-SM-0101: x", Some("SLV-SM-0101"));
        check("SLV-SM-010", None);
        check("SLV-SM-01011", None);
        check("SLV-XXX-NNNN", None);
        check("SLV--0001", None);
    }
}
