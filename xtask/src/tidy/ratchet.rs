//! Limits as ratchets: an exception stands in a file with its reason and the size that it allows. The size must be
//! the real one, so an exception shrinks with its subject and goes when it is no longer needed.

use crate::finding::Finding;
use crate::tree::Tree;

/// The list of exceptions.
pub const FILE: &str = "xtask/tidy-exceptions.toml";
const RULE: &str = "exception";

/// A measured thing with a limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Measure {
    /// Rule that set the limit.
    pub rule: &'static str,
    /// Where.
    pub file: String,
    /// 1-based; 0 for the whole file.
    pub line: usize,
    /// What in the file: a function's name; empty for the file itself.
    pub item: String,
    /// Its size, in lines.
    pub lines: usize,
    /// What it may have, in lines.
    pub limit: usize,
    /// What not even an exception may allow, in lines.
    pub limit_hard: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Exception {
    rule: String,
    file: String,
    item: String,
    lines: usize,
}

/// What is over its limit and not excepted, and every exception that is not exact.
pub fn findings(tree: &Tree, measures: &[Measure]) -> Vec<Finding> {
    let exceptions = match read(tree.text(FILE).unwrap_or_default()) {
        Ok(exceptions) => exceptions,
        Err(finding) => return vec![finding],
    };
    let mut found = Vec::new();
    for measure in measures.iter().filter(|measure| measure.lines > measure.limit) {
        let allowed = exceptions.iter().find(|e| e.is_for(measure)).map_or(0, |e| e.lines);
        if measure.lines > measure.limit_hard || measure.lines > allowed {
            found.push(measure.over_limit());
        }
    }
    for exception in &exceptions {
        found.extend(exception.check(measures));
    }
    found
}

impl Measure {
    fn over_limit(&self) -> Finding {
        let (limit, hard) = if self.lines > self.limit_hard {
            (self.limit_hard, ", no exceptions")
        } else {
            (self.limit, "")
        };
        let what = match self.item.as_str() {
            "" => format!("{} lines, limit {limit}{hard}", self.lines),
            item => format!("{item} has {} lines, limit {limit}{hard}", self.lines),
        };
        Finding::new(
            self.rule,
            self.file.as_str(),
            self.line,
            what,
            "split it: one subject each",
        )
    }
}

impl Exception {
    fn is_for(&self, measure: &Measure) -> bool {
        self.rule == measure.rule && self.file == measure.file && self.item == measure.item
    }

    fn check(&self, measures: &[Measure]) -> Option<Finding> {
        let needed = measures
            .iter()
            .filter(|measure| self.is_for(measure) && measure.lines > measure.limit)
            .map(|measure| measure.lines)
            .max();
        let subject = format!("{} {}", self.file, self.item);
        let (what, advice) = match needed {
            None => (
                format!("no longer needed: {} {subject}", self.rule),
                "remove it".to_owned(),
            ),
            Some(lines) if lines < self.lines => (
                format!("{subject} may have {} lines and has {lines}", self.lines),
                format!("write lines = {lines}"),
            ),
            Some(_) => return None,
        };
        Some(Finding::new(RULE, FILE, 0, what, advice))
    }
}

fn read(text: &str) -> Result<Vec<Exception>, Finding> {
    let bad = |what: String| {
        Finding::new(
            RULE,
            FILE,
            0,
            what,
            "write rule, file, item (if a function), lines and reason",
        )
    };
    let table: toml::Table = text.parse().map_err(|error| bad(format!("is no TOML: {error}")))?;
    let entries = match table.get("exception") {
        None => return Ok(Vec::new()),
        Some(toml::Value::Array(entries)) => entries,
        Some(_) => return Err(bad("exception is no list of tables".to_owned())),
    };
    let read_one = |entry: &toml::Value| {
        let text = |key: &str| entry.get(key).and_then(toml::Value::as_str).map(str::to_owned);
        let lines = entry.get("lines").and_then(toml::Value::as_integer);
        text("reason").filter(|reason| !reason.is_empty())?;
        Some(Exception {
            rule: text("rule")?,
            file: text("file")?,
            item: text("item").unwrap_or_default(),
            lines: usize::try_from(lines?).ok()?,
        })
    };
    entries
        .iter()
        .map(|entry| read_one(entry).ok_or_else(|| bad(format!("incomplete: {entry}"))))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(lines: usize, exceptions: &str, want: &[&str]) {
        let measure = Measure {
            rule: "function-length",
            file: "a.rs".to_owned(),
            line: 3,
            item: "f".to_owned(),
            lines,
            limit: 70,
            limit_hard: 100,
        };
        let found = findings(&Tree::of(&[(FILE, exceptions)]), &[measure]);
        let found: Vec<_> = found.iter().map(|f| format!("{} {}", f.file, f.what)).collect();
        assert_eq!(found, want);
    }

    fn exception(lines: usize) -> String {
        format!("[[exception]]\nrule='function-length'\nfile='a.rs'\nitem='f'\nlines={lines}\nreason='x'\n")
    }

    #[test]
    fn without_exceptions() {
        check(70, "", &[]);
        check(71, "", &["a.rs f has 71 lines, limit 70"]);
        check(101, "", &["a.rs f has 101 lines, limit 100, no exceptions"]);
    }

    #[test]
    fn an_exact_exception_allows() {
        check(80, &exception(80), &[]);
        check(81, &exception(80), &["a.rs f has 81 lines, limit 70"]);
        check(
            101,
            &exception(101),
            &["a.rs f has 101 lines, limit 100, no exceptions"],
        );
    }

    #[test]
    fn an_exception_only_shrinks() {
        check(
            79,
            &exception(80),
            &["xtask/tidy-exceptions.toml a.rs f may have 80 lines and has 79"],
        );
        check(
            70,
            &exception(80),
            &["xtask/tidy-exceptions.toml no longer needed: function-length a.rs f"],
        );
    }

    #[test]
    fn an_exception_has_a_reason() {
        let found = findings(&Tree::of(&[(FILE, &exception(80).replace("'x'", "''"))]), &[]);
        assert!(found[0].what.starts_with("incomplete"), "{found:?}");
        let found = findings(&Tree::of(&[(FILE, "[[exception")]), &[]);
        assert!(found[0].what.starts_with("is no TOML"), "{found:?}");
    }
}
