//! Limits with exceptions that can only shrink. An exception stands in a file with its reason and its size. The size
//! must be exact, so an exception shrinks with its subject, and is removed when it is no longer needed.

use std::collections::BTreeMap;

use crate::finding::Finding;
use crate::tree::Tree;

/// The list of exceptions.
pub const FILE: &str = "xtask/tidy-exceptions.toml";
const RULE: &str = "exception";

/// A rule that sets a limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limit {
    /// Name of the rule.
    pub rule: &'static str,
    /// The unit of the count: lines, fields, places.
    pub unit: &'static str,
    /// Largest size of a subject without an exception.
    pub most: usize,
    /// Largest size that an exception may allow.
    pub most_hard: usize,
    /// What to do about a subject over its limit.
    pub advice: &'static str,
}

/// The size of one thing that has a limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Measure {
    /// The limit for this size.
    pub limit: &'static Limit,
    /// Path of the file.
    pub file: String,
    /// Line, counted from 1; 0 for the whole file.
    pub line: usize,
    /// The item in the file, such as the name of a function; empty for the file itself.
    pub item: String,
    /// Its size, in the unit of the limit.
    pub size: usize,
    /// Further words for the finding; may be empty.
    pub detail: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Exception {
    rule: String,
    file: String,
    item: String,
    size: usize,
}

/// Returns findings about sizes over their limit without an exception, and about exceptions that are not exact.
pub fn findings(tree: &Tree, measures: &[Measure]) -> Vec<Finding> {
    let exceptions = match read(tree.text(FILE).unwrap_or_default()) {
        Ok(exceptions) => exceptions,
        Err(finding) => return vec![finding],
    };
    let mut found = Vec::new();
    for measure in measures.iter().filter(|measure| measure.is_over()) {
        let allowed = exceptions.iter().find(|e| e.is_for(measure)).map_or(0, |e| e.size);
        if measure.size > measure.limit.most_hard || measure.size > allowed {
            found.push(measure.over_limit());
        }
    }
    for exception in &exceptions {
        found.extend(exception.check(measures));
    }
    found
}

impl Measure {
    /// Counts the places of each file and item. Returns one measure for each item, at its first line.
    pub fn count(limit: &'static Limit, file: &str, places: impl IntoIterator<Item = (usize, String)>) -> Vec<Self> {
        let mut counted: BTreeMap<String, Self> = BTreeMap::new();
        for (line, item) in places {
            let measure = counted.entry(item.clone()).or_insert_with(|| Self {
                limit,
                file: file.to_owned(),
                line,
                item,
                size: 0,
                detail: String::new(),
            });
            measure.size += 1;
        }
        counted.into_values().collect()
    }

    const fn is_over(&self) -> bool {
        self.size > self.limit.most
    }

    fn over_limit(&self) -> Finding {
        let limit = self.limit;
        let (most, hard) = if self.size > limit.most_hard {
            (limit.most_hard, ", no exceptions")
        } else {
            (limit.most, "")
        };
        let item = match self.item.as_str() {
            "" => String::new(),
            item => format!("{item}: "),
        };
        let detail = match self.detail.as_str() {
            "" => String::new(),
            detail => format!(": {detail}"),
        };
        let what = format!("{item}{} {}, limit {most}{hard}{detail}", self.size, limit.unit);
        Finding::new(limit.rule, self.file.as_str(), self.line, what, limit.advice)
    }
}

impl Exception {
    fn is_for(&self, measure: &Measure) -> bool {
        self.rule == measure.limit.rule && self.file == measure.file && self.item == measure.item
    }

    fn check(&self, measures: &[Measure]) -> Option<Finding> {
        let needed = measures
            .iter()
            .filter(|measure| self.is_for(measure) && measure.is_over())
            .max_by_key(|measure| measure.size);
        let subject = format!("{} {}", self.file, self.item);
        let (what, advice) = match needed {
            None => (
                format!("no longer needed: {} {subject}", self.rule),
                "remove it".to_owned(),
            ),
            Some(Measure { limit, size, .. }) if *size < self.size => (
                format!("{subject} may have {} {} and has {size}", self.size, limit.unit),
                format!("write size = {size}"),
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
            "write rule, file, item (if it is not the file), size and reason",
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
        let size = entry.get("size").and_then(toml::Value::as_integer);
        text("reason").filter(|reason| !reason.is_empty())?;
        Some(Exception {
            rule: text("rule")?,
            file: text("file")?,
            item: text("item").unwrap_or_default(),
            size: usize::try_from(size?).ok()?,
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

    const LIMIT: Limit = Limit {
        rule: "function-length",
        unit: "lines",
        most: 70,
        most_hard: 100,
        advice: "split it",
    };

    fn check(size: usize, exceptions: &str, want: &[&str]) {
        let measure = Measure {
            limit: &LIMIT,
            file: "a.rs".to_owned(),
            line: 3,
            item: "f".to_owned(),
            size,
            detail: String::new(),
        };
        let found = findings(&Tree::of(&[(FILE, exceptions)]), &[measure]);
        let found: Vec<_> = found.iter().map(|f| format!("{} {}", f.file, f.what)).collect();
        assert_eq!(found, want);
    }

    fn exception(size: usize) -> String {
        format!("[[exception]]\nrule='function-length'\nfile='a.rs'\nitem='f'\nsize={size}\nreason='x'\n")
    }

    #[test]
    fn without_exceptions() {
        check(70, "", &[]);
        check(71, "", &["a.rs f: 71 lines, limit 70"]);
        check(101, "", &["a.rs f: 101 lines, limit 100, no exceptions"]);
    }

    #[test]
    fn an_exact_exception_allows() {
        check(80, &exception(80), &[]);
        check(81, &exception(80), &["a.rs f: 81 lines, limit 70"]);
        check(101, &exception(101), &["a.rs f: 101 lines, limit 100, no exceptions"]);
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
    fn places_are_counted_by_item() {
        let places = [(3, "f"), (4, "g"), (9, "f")].map(|(line, item)| (line, item.to_owned()));
        let counted = Measure::count(&LIMIT, "a.rs", places);
        let counted: Vec<_> = counted.iter().map(|m| (m.item.as_str(), m.line, m.size)).collect();
        assert_eq!(counted, [("f", 3, 2), ("g", 4, 1)]);
    }

    #[test]
    fn an_exception_has_a_reason() {
        let found = findings(&Tree::of(&[(FILE, &exception(80).replace("'x'", "''"))]), &[]);
        assert!(found[0].what.starts_with("incomplete"), "{found:?}");
        let found = findings(&Tree::of(&[(FILE, "[[exception")]), &[]);
        assert!(found[0].what.starts_with("is no TOML"), "{found:?}");
    }
}
