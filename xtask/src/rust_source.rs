//! A simple reader of Rust text for line rules: it finds code, comments and tests, and where functions begin and end. A
//! full parser would find more, but would need more code than all the tools together.

use std::ops::Range;

/// A Rust file in three forms, line by line.
#[derive(Debug)]
pub struct RustSource<'a> {
    /// The lines as written.
    pub raw: Vec<&'a str>,
    /// The lines without comments and without the contents of texts; columns stay the same.
    pub code: Vec<String>,
    /// The lines with comments, but without the contents of texts.
    pub code_and_comments: Vec<String>,
    /// True for lines inside a `#[cfg(test)]` module.
    pub is_test: Vec<bool>,
}

/// A function with a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// Its lines from `fn` to the closing brace, counted from 0.
    pub lines: Range<usize>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Code,
    Comment,
    Text,
}

impl<'a> RustSource<'a> {
    /// Reads a file.
    pub fn new(text: &'a str) -> Self {
        let chars: Vec<char> = text.chars().collect();
        let parts = classify(&chars);
        let keep = |wanted: &[Part]| -> Vec<String> {
            let masked: String = chars
                .iter()
                .zip(&parts)
                .map(|(&c, part)| if c == '\n' || wanted.contains(part) { c } else { ' ' })
                .collect();
            masked.split('\n').map(str::to_owned).collect()
        };
        let code = keep(&[Part::Code]);
        let is_test = test_lines(&code);
        Self {
            raw: text.split('\n').collect(),
            code_and_comments: keep(&[Part::Code, Part::Comment]),
            code,
            is_test,
        }
    }

    /// Returns the number of lines outside test modules. The empty text after the last line break does not count as a
    /// line.
    pub fn lines_without_tests(&self) -> usize {
        self.line_count() - self.is_test.iter().filter(|&&test| test).count()
    }

    /// All lines.
    pub fn line_count(&self) -> usize {
        match self.raw.last() {
            Some(&"") => self.raw.len() - 1,
            _ => self.raw.len(),
        }
    }

    /// Every function that has a body, nested ones too.
    pub fn functions(&self) -> Vec<Function> {
        let mut found = Vec::new();
        for (start, line) in self.code.iter().enumerate() {
            for column in words(line, "fn") {
                let name: String = line[column + 2..]
                    .trim_start()
                    .chars()
                    .take_while(|&c| is_ident(c))
                    .collect();
                if name.is_empty() {
                    continue; // a function pointer type
                }
                if let Some(end) = body_end(&self.code, start, column) {
                    found.push(Function {
                        name,
                        lines: start..end + 1,
                    });
                }
            }
        }
        found
    }
}

/// True if the whole file is a test or an example: a file under `tests/`, `benches/` or `examples/`, or `tests.rs`.
pub fn is_test_file(path: &str) -> bool {
    path.split('/')
        .any(|part| matches!(part, "tests" | "benches" | "examples" | "tests.rs"))
}

/// Returns the columns of `line` at which `word` stands by itself, not as a part of a longer identifier.
pub fn words<'a>(line: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    let joins = |edge: Option<char>, outside: Option<char>| edge.is_some_and(is_ident) && outside.is_some_and(is_ident);
    line.match_indices(word).map(|(at, _)| at).filter(move |&at| {
        !joins(word.chars().next(), line[..at].chars().next_back())
            && !joins(word.chars().next_back(), line[at + word.len()..].chars().next())
    })
}

/// True if a name may have this character.
pub fn is_ident(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Returns for each character what it is a part of. Quotes count as code, so that an empty text stays visible.
fn classify(chars: &[char]) -> Vec<Part> {
    let mut parts = vec![Part::Code; chars.len()];
    let mut at = 0;
    while at < chars.len() {
        let (part, end) = match chars[at] {
            '/' if chars.get(at + 1) == Some(&'/') => (Part::Comment, line_comment_end(chars, at)),
            '/' if chars.get(at + 1) == Some(&'*') => (Part::Comment, block_comment_end(chars, at)),
            '"' => (Part::Text, text_end(chars, at)),
            '\'' => (Part::Text, char_end(chars, at)),
            _ => (Part::Code, at + 1),
        };
        let end = end.min(chars.len());
        let range = if part == Part::Text { at + 1..end } else { at..end };
        for slot in parts.get_mut(range).into_iter().flatten() {
            *slot = part;
        }
        at = end;
    }
    parts
}

fn line_comment_end(chars: &[char], start: usize) -> usize {
    let length = chars[start..].iter().position(|&c| c == '\n');
    length.map_or(chars.len(), |length| start + length)
}

fn block_comment_end(chars: &[char], start: usize) -> usize {
    let mut depth = 0;
    let mut at = start;
    while at < chars.len() {
        match (chars[at], chars.get(at + 1)) {
            ('/', Some('*')) => {
                depth += 1;
                at += 2;
            }
            ('*', Some('/')) => {
                depth -= 1;
                at += 2;
                if depth == 0 {
                    return at;
                }
            }
            _ => at += 1,
        }
    }
    at
}

/// Returns the end of a text that opens at `start`; of a raw text if `r` and hashes stand before it.
fn text_end(chars: &[char], start: usize) -> usize {
    let hashes = chars[..start].iter().rev().take_while(|&&c| c == '#').count();
    let before = &chars[..start - hashes];
    let raw = before.last() == Some(&'r') && {
        // `r`, `br` or `cr` that is not the end of a longer name.
        let rest = &before[..before.len() - 1];
        let rest = match rest.last() {
            Some('b' | 'c') => &rest[..rest.len() - 1],
            _ => rest,
        };
        !rest.last().copied().is_some_and(is_ident)
    };
    let mut at = start + 1;
    while at < chars.len() {
        match chars[at] {
            '\\' if !raw => at += 2,
            '"' if !raw => return at + 1,
            '"' if chars[at + 1..].iter().take_while(|&&c| c == '#').count() >= hashes => return at + 1 + hashes,
            _ => at += 1,
        }
    }
    at
}

/// Returns the end of a character literal, or the place after the quote if it begins a lifetime.
fn char_end(chars: &[char], start: usize) -> usize {
    match (chars.get(start + 1), chars.get(start + 2)) {
        (Some('\\'), _) => {
            let close = chars[start + 3..].iter().position(|&c| c == '\'');
            close.map_or(chars.len(), |length| start + 3 + length + 1)
        }
        (Some(_), Some('\'')) => start + 3,
        _ => start + 1,
    }
}

/// Marks the lines of `#[cfg(test)] mod … { … }`.
fn test_lines(code: &[String]) -> Vec<bool> {
    let mut marks = vec![false; code.len()];
    for start in 0..code.len() {
        if marks[start] || code[start].trim() != "#[cfg(test)]" {
            continue;
        }
        let module = (start + 1..code.len()).find(|&at| !code[at].trim().starts_with("#["));
        let Some(module) = module.filter(|&at| words(&code[at], "mod").next().is_some()) else {
            continue;
        };
        if let Some(end) = body_end(code, module, 0) {
            marks[start..=end].fill(true);
        }
    }
    marks
}

/// Returns the line of the brace that closes the item starting at `line` and `column`; `None` if the item ends with a
/// semicolon.
pub fn body_end(code: &[String], line: usize, column: usize) -> Option<usize> {
    let mut braces = 0_usize;
    let mut brackets = 0_usize;
    for (at, text) in code.iter().enumerate().skip(line) {
        let text = if at == line { &text[column..] } else { text };
        for c in text.chars() {
            match c {
                '(' | '[' => brackets += 1,
                ')' | ']' => brackets = brackets.saturating_sub(1),
                '{' => braces += 1,
                '}' => {
                    braces = braces.checked_sub(1)?;
                    if braces == 0 && brackets == 0 {
                        return Some(at);
                    }
                }
                ';' if braces == 0 && brackets == 0 => return None,
                _ => {}
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_told_from_comments_and_texts() {
        let check = |text: &str, want: &str| {
            let source = RustSource::new(text);
            let words: Vec<_> = source.code.iter().flat_map(|line| line.split_whitespace()).collect();
            assert_eq!(words.join(" "), want, "{text}");
        };
        check("a // b", "a");
        check("a /* b /* c */ d */ e", "a e");
        check(r#"f("x\"y", z)"#, r#"f(" , z)"#);
        check(r##"f(r#"a"b"#, z)"##, "f(r#\" , z)");
        check(r#"f(r"\", z)"#, "f(r\" , z)");
        check(r"for 'a x('b', '\'') y", "for 'a x(' , ' ) y");
        check("\"// no comment\" + 1", "\" + 1");
        check("\"two\nlines\" + 1", "\" + 1");
        check(r#"var"x\"y" z"#, "var\" z");
    }

    #[test]
    fn comments_stay_where_asked_for() {
        let source = RustSource::new("let a = \"secret\"; // why");
        assert!(source.code_and_comments[0].ends_with("// why"));
        assert!(!source.code_and_comments[0].contains("secret"));
    }

    #[test]
    fn test_modules_are_marked() {
        let source = RustSource::new("fn a() {}\n#[cfg(test)]\nmod tests {\n    fn b() {}\n}\nfn c() {}\n");
        assert_eq!(source.is_test, [false, true, true, true, true, false, false]);
        assert_eq!(source.lines_without_tests(), 2);
        let declared = RustSource::new("#[cfg(test)]\nmod tests;\nfn c() {}\n");
        assert_eq!(declared.lines_without_tests(), 3);
    }

    #[test]
    fn functions_have_names_and_lines() {
        let text =
            "trait T {\n    fn none(a: [u8; 4]);\n    fn one() {}\n}\nfn two(\n    f: fn(u8),\n) {\n    \"}\";\n}\n";
        let functions = RustSource::new(text).functions();
        let found: Vec<_> = functions.iter().map(|f| (f.name.as_str(), f.lines.clone())).collect();
        assert_eq!(found, [("one", 2..3), ("two", 4..9)]);
    }

    #[test]
    fn words_are_whole() {
        let check = |line: &str, word: &str, want: &[usize]| {
            assert_eq!(words(line, word).collect::<Vec<_>>(), want, "{word} in {line}");
        };
        check("fn fnord() fn", "fn", &[0, 11]);
        check("std::fs::read", "std::fs", &[0]);
        check("std::fs2", "std::fs", &[]);
        check("my_dbg!(dbg!(1))", "dbg!", &[8]);
    }

    #[test]
    fn test_files_by_path() {
        let check = |path: &str, want: bool| assert_eq!(is_test_file(path), want, "{path}");
        check("crates/wire/tests/golden.rs", true);
        check("crates/wire/src/mad/tests.rs", true);
        check("crates/wire/examples/decode.rs", true);
        check("crates/wire/src/latest.rs", false);
    }
}
