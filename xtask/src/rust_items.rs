//! Structs, `impl` blocks and the heads of functions in the text of a Rust file, tests left out.

use std::ops::Range;

use crate::rust_source::{Function, RustSource, body_end, is_ident, words};

/// A struct with named fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Struct {
    /// Its name.
    pub name: String,
    /// Its line, counted from 0.
    pub line: usize,
    /// Its fields as written, with attributes and visibility.
    pub fields: Vec<String>,
}

/// An `impl` block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Impl {
    /// The type it stands for, without path and parameters.
    pub name: String,
    /// True if it implements a trait.
    pub is_of_trait: bool,
    /// Its lines, counted from 0.
    pub lines: Range<usize>,
}

/// Every struct with named fields.
pub fn structs(source: &RustSource<'_>) -> Vec<Struct> {
    let mut found = Vec::new();
    for (line, column) in places(source, "struct") {
        let text = text_from(source, line, column + "struct".len());
        let Some((head, body)) = text.split_once('{').filter(|(head, _)| !head.contains(';')) else {
            continue;
        };
        found.push(Struct {
            name: head.trim().chars().take_while(|&c| is_ident(c)).collect(),
            line,
            fields: fields(body),
        });
    }
    found
}

/// Every `impl` block that begins a line.
pub fn impls(source: &RustSource<'_>) -> Vec<Impl> {
    let mut found = Vec::new();
    for (line, column) in places(source, "impl") {
        if !source.code[line][..column].trim().is_empty() {
            continue; // an `impl Trait` type
        }
        let Some(end) = body_end(&source.code, line, column) else {
            continue;
        };
        let text = text_from(source, line, column + "impl".len());
        let head = without_angles(text.split('{').next().unwrap_or_default());
        let (is_of_trait, of) = match head.split_once(" for ") {
            Some((_, of)) => (true, of),
            None => (false, head.as_str()),
        };
        let path = of.split_whitespace().next().unwrap_or_default();
        found.push(Impl {
            name: path.rsplit("::").next().unwrap_or_default().to_owned(),
            is_of_trait,
            lines: line..end + 1,
        });
    }
    found
}

/// Returns a function's head in one line: from its visibility to its body.
pub fn head(source: &RustSource<'_>, function: &Function) -> String {
    let start = function.lines.start;
    let text = text_from(source, start, 0);
    let words: Vec<_> = text.split('{').next().unwrap_or_default().split_whitespace().collect();
    words.join(" ")
}

/// Returns the places of a word in code outside tests: line and column.
pub fn places<'a>(source: &'a RustSource<'_>, word: &'a str) -> impl Iterator<Item = (usize, usize)> + 'a {
    let lines = source.code.iter().enumerate();
    lines
        .filter(|(at, _)| !source.is_test[*at])
        .flat_map(move |(at, line)| words(line, word).map(move |column| (at, column)))
}

fn text_from(source: &RustSource<'_>, line: usize, column: usize) -> String {
    let rest = source.code[line + 1..].iter().map(String::as_str);
    let lines: Vec<&str> = std::iter::once(&source.code[line][column..]).chain(rest).collect();
    lines.join("\n")
}

/// Returns the fields of a struct: the parts between commas of its body, up to its closing brace.
fn fields(body: &str) -> Vec<String> {
    let mut found = vec![String::new()];
    let mut depth = 0_usize;
    let mut before = ' ';
    for c in body.chars() {
        match c {
            '(' | '[' | '{' | '<' => depth += 1,
            '}' if depth == 0 => break,
            '>' if before == '-' => {}
            ')' | ']' | '}' | '>' => depth = depth.saturating_sub(1),
            _ => {}
        }
        match (c, found.last_mut()) {
            (',', _) if depth == 0 => found.push(String::new()),
            (_, Some(field)) => field.push(c),
            (_, None) => {}
        }
        before = c;
    }
    let fields = found.iter().map(|field| field.trim().to_owned());
    fields.filter(|field| !field.is_empty()).collect()
}

/// Returns a text without the parts in angle brackets.
fn without_angles(text: &str) -> String {
    let mut depth = 0_usize;
    let mut kept = String::new();
    let mut before = ' ';
    for c in text.chars() {
        match c {
            '<' => depth += 1,
            '>' if before != '-' => depth = depth.saturating_sub(1),
            _ if depth == 0 => kept.push(c),
            _ => {}
        }
        before = c;
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structs_have_fields() {
        let check = |text: &str, want: &[(&str, &[&str])]| {
            let found = structs(&RustSource::new(text));
            let found: Vec<_> = found.iter().map(|s| (s.name.as_str(), s.fields.clone())).collect();
            let want: Vec<_> = want
                .iter()
                .map(|(name, fields)| (*name, fields.iter().map(|&f| f.to_owned()).collect()))
                .collect();
            assert_eq!(found, want, "{text}");
        };
        check("struct A { a: u8, pub b: u8 }", &[("A", &["a: u8", "pub b: u8"])]);
        check(
            "struct A<T: X<u8>> where T: Y {\n a: F<u8, u8>,\n}",
            &[("A", &["a: F<u8, u8>"])],
        );
        check(
            "struct A { f: fn(u8, u8) -> u8, b: u8 }",
            &[("A", &["f: fn(u8, u8) -> u8", "b: u8"])],
        );
        check("struct A;\nstruct B([u8; 4]);\nstruct C {}", &[("C", &[])]);
        check("#[cfg(test)]\nmod tests {\n struct A { a: u8 }\n}", &[]);
    }

    #[test]
    fn impls_have_types() {
        let check = |text: &str, want: &[(&str, bool, Range<usize>)]| {
            let found = impls(&RustSource::new(text));
            let found: Vec<_> = found
                .iter()
                .map(|i| (i.name.as_str(), i.is_of_trait, i.lines.clone()))
                .collect();
            assert_eq!(found, want, "{text}");
        };
        check("impl Sm {\n}\n", &[("Sm", false, 0..2)]);
        check("impl<T: A<B>> core::Sm<T> {}", &[("Sm", false, 0..1)]);
        check("impl fmt::Display for crate::Sm {}", &[("Sm", true, 0..1)]);
        check("fn f(a: impl Sm) {}\nfn g() -> u8\nwhere\n    u8: A,\n{\n}", &[]);
    }

    #[test]
    fn heads_are_whole() {
        let source = RustSource::new("impl A {\n    pub fn f(\n        &mut self,\n    ) -> u8 {\n    }\n}");
        let functions = source.functions();
        assert_eq!(head(&source, &functions[0]), "pub fn f( &mut self, ) -> u8");
    }
}
