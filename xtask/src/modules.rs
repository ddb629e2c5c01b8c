//! The modules of a crate, as its files define them, and what each module names of its own crate: enough to find out
//! which file imports which. Paths that begin with an imported name are not followed, because the import itself is read
//! already.

use std::collections::{BTreeMap, BTreeSet};

use crate::rust_source::{RustSource, is_ident, is_test_file, words};
use crate::tree::Tree;

/// Largest number of re-exports in a row that are followed; a path with more counts as unknown.
const REEXPORTS_MAX: usize = 8;

/// The modules of one crate by their path from its root, which is the empty path.
#[derive(Debug)]
pub struct Modules<'a>(BTreeMap<Vec<String>, Module<'a>>);

/// One module with a file of its own.
#[derive(Debug)]
pub struct Module<'a> {
    /// Path of the module's file.
    pub file: &'a str,
    /// The file's text.
    pub source: RustSource<'a>,
    /// True if the module is built for tests only.
    is_test: bool,
    /// What `use` brings into the module, by the name that it has there.
    imports: BTreeMap<String, Vec<String>>,
    /// Each path in the module that leads into its own crate, from the root, with the line (from 0).
    paths: Vec<(usize, Vec<String>)>,
}

/// A module or item of the crate that another module names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Named<'a> {
    /// The line that names it, counted from 0.
    pub line: usize,
    /// The module that defines it.
    pub module: &'a [String],
    /// The item of that module; `None` if the module itself is named, or all its items.
    pub item: Option<String>,
}

impl<'a> Modules<'a> {
    /// Reads the modules of the crate with the name `room`.
    pub fn of(tree: &'a Tree, room: &str) -> Self {
        let folder = format!("crates/{room}/src/");
        let mut modules = BTreeMap::new();
        for (file, text) in tree.rust_files() {
            let Some(name) = file.strip_prefix(&folder).and_then(|name| name.strip_suffix(".rs")) else {
                continue;
            };
            let mut path: Vec<String> = name.split('/').map(str::to_owned).collect();
            if matches!(name, "lib" | "main") || path.last().is_some_and(|last| last == "mod") {
                path.pop();
            }
            modules.insert(path, Module::new(file, text));
        }
        let all: BTreeSet<Vec<String>> = modules.keys().cloned().collect();
        let for_tests: Vec<Vec<String>> = modules
            .iter()
            .flat_map(|(at, module)| module.test_modules(at))
            .collect();
        for (at, module) in &mut modules {
            module.is_test = is_test_file(module.file) || for_tests.iter().any(|test| at.starts_with(test));
            module.read_paths(at, &all);
        }
        Self(modules)
    }

    /// Each module that is no test, by its path.
    pub fn iter(&self) -> impl Iterator<Item = (&[String], &Module<'a>)> {
        let modules = self.0.iter().filter(|(_, module)| !module.is_test);
        modules.map(|(at, module)| (at.as_slice(), module))
    }

    /// Each module that is no test, by its file.
    pub fn files(&self) -> impl Iterator<Item = (&'a str, &Module<'a>)> {
        self.iter().map(|(_, module)| (module.file, module))
    }

    /// The file of a module.
    pub fn file(&self, at: &[String]) -> Option<&'a str> {
        self.0.get(at).map(|module| module.file)
    }

    /// Returns what a module names of its crate. Re-exports are followed, and tests are left out.
    pub fn named_by(&self, module: &Module<'a>) -> Vec<Named<'_>> {
        let named = module.paths.iter().filter_map(|(line, path)| {
            let (module, item) = self.resolve(path, REEXPORTS_MAX)?;
            let is_test = self.0.get(module).is_none_or(|module| module.is_test);
            (!is_test).then_some(Named {
                line: *line,
                module,
                item,
            })
        });
        named.collect()
    }

    /// Returns the module that defines what a path from the root leads to, and the item in it.
    fn resolve(&self, path: &[String], reexports: usize) -> Option<(&[String], Option<String>)> {
        let length = (0..=path.len())
            .rev()
            .find(|&length| self.0.contains_key(&path[..length]))?;
        let (at, module) = self.0.get_key_value(&path[..length])?;
        let Some(item) = path.get(length) else {
            return Some((at, None));
        };
        match module.imports.get(item) {
            Some(target) if reexports > 0 && !path.starts_with(target) => {
                let path: Vec<String> = target.iter().chain(&path[length + 1..]).cloned().collect();
                self.resolve(&path, reexports - 1)
            }
            _ => Some((at, Some(item.clone()))),
        }
    }
}

impl<'a> Module<'a> {
    fn new(file: &'a str, text: &'a str) -> Self {
        Self {
            file,
            source: RustSource::new(text),
            is_test: false,
            imports: BTreeMap::new(),
            paths: Vec::new(),
        }
    }

    /// Returns the modules that the module at this path declares behind `#[cfg(test)]`.
    fn test_modules(&self, at: &[String]) -> Vec<Vec<String>> {
        let mut found = Vec::new();
        let mut is_for_test = false;
        for line in self.source.code.iter().map(|line| line.trim()) {
            if line.starts_with("#[") {
                is_for_test |= line == "#[cfg(test)]";
                continue;
            }
            let declared = words(line, "mod")
                .next()
                .and_then(|column| line[column + 3..].strip_suffix(';'));
            if let Some(name) = declared.filter(|_| is_for_test) {
                found.push(below(at, name.trim()));
            }
            is_for_test = false;
        }
        found
    }

    fn read_paths(&mut self, at: &[String], all: &BTreeSet<Vec<String>>) {
        let tokens = tokens(&self.source);
        let mut next = 0;
        while next < tokens.len() {
            let is_use = next > 0 && tokens[next - 1].text == "use";
            let follows = next > 0 && matches!(tokens[next - 1].text.as_str(), "::" | ".");
            if !follows && tokens[next].is_name() {
                let mut read = Vec::new();
                let end = read_tree(&tokens, next, &[], &mut read);
                for leaf in read.iter().filter(|leaf| is_use || leaf.path.len() > 1) {
                    if let Some(path) = from_root(&leaf.path, at, all) {
                        if is_use && !leaf.name.is_empty() {
                            self.imports.insert(leaf.name.clone(), path.clone());
                        }
                        self.paths.push((leaf.line, path));
                    }
                }
                next = end.max(next + 1);
            } else {
                next += 1;
            }
        }
    }
}

/// A word, `::`, or one other character of code outside tests.
#[derive(Debug)]
struct Token {
    line: usize,
    text: String,
}

impl Token {
    fn is_name(&self) -> bool {
        self.text.chars().all(is_ident)
    }
}

/// One path out of a tree of paths, and the name that a `use` gives it; no name if it stands for all items of a module.
#[derive(Debug)]
struct Leaf {
    line: usize,
    path: Vec<String>,
    name: String,
}

fn tokens(source: &RustSource<'_>) -> Vec<Token> {
    let mut found: Vec<Token> = Vec::new();
    for (line, code) in source.code.iter().enumerate().filter(|(at, _)| !source.is_test[*at]) {
        let mut joins = false;
        for c in code.chars() {
            match found.last_mut().filter(|_| joins) {
                Some(last) if is_ident(c) && last.is_name() => last.text.push(c),
                Some(last) if c == ':' && last.text == ":" => last.text.push(c),
                _ if c.is_whitespace() => {}
                _ => found.push(Token {
                    line,
                    text: c.to_string(),
                }),
            }
            joins = !c.is_whitespace();
        }
    }
    found
}

/// Reads a path with all its branches. Returns the place of the token after it.
fn read_tree(tokens: &[Token], start: usize, before: &[String], read: &mut Vec<Leaf>) -> usize {
    let is = |at: usize, text: &str| tokens.get(at).is_some_and(|token| token.text == text);
    let mut path = before.to_vec();
    let mut at = start;
    let line = tokens.get(start).map_or(0, |token| token.line);
    while let Some(token) = tokens.get(at) {
        if token.text == "{" {
            at += 1;
            while at < tokens.len() && !is(at, "}") {
                at = read_tree(tokens, at, &path, read).max(at + 1);
                at += usize::from(is(at, ","));
            }
            return at + 1;
        }
        if !token.is_name() {
            let name = String::new();
            read.push(Leaf { line, path, name });
            return at + usize::from(token.text == "*");
        }
        if token.text != "self" || path.is_empty() {
            path.push(token.text.clone());
        }
        at += 1;
        if !is(at, "::") {
            break;
        }
        at += 1;
    }
    let mut name = path.last().cloned().unwrap_or_default();
    if let Some(renamed) = tokens.get(at + 1).filter(|_| is(at, "as")) {
        name.clone_from(&renamed.text);
        at += 2;
    }
    read.push(Leaf { line, path, name });
    at
}

/// Returns a path in the module `at` as a path from the root of its crate; `None` if it leads to another crate.
fn from_root(path: &[String], at: &[String], all: &BTreeSet<Vec<String>>) -> Option<Vec<String>> {
    let mut base = at.to_vec();
    let (first, mut rest) = path.split_first()?;
    match first.as_str() {
        "crate" => base.clear(),
        "self" => {}
        "super" => {
            base.pop();
            while let Some(("super", more)) = rest.split_first().map(|(next, more)| (next.as_str(), more)) {
                base.pop();
                rest = more;
            }
        }
        child if all.contains(&below(at, child)) => base.push(child.to_owned()),
        _ => return None,
    }
    base.extend_from_slice(rest);
    Some(base)
}

fn below(at: &[String], name: &str) -> Vec<String> {
    let mut path = at.to_vec();
    path.push(name.to_owned());
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOT: &str = "mod a;\n#[cfg(test)]\nmod made;\nmod b;\npub use b::{Deep, own as other};\n";

    fn check(text: &str, want: &[&str]) {
        let tree = Tree::of(&[
            ("crates/x/src/lib.rs", ROOT),
            ("crates/x/src/a.rs", text),
            (
                "crates/x/src/b/mod.rs",
                "mod deep;\npub use deep::Deep;\npub fn own() {}",
            ),
            ("crates/x/src/b/deep.rs", "pub struct Deep;"),
            ("crates/x/src/made.rs", ""),
        ]);
        let modules = Modules::of(&tree, "x");
        let (_, module) = modules.files().find(|(file, _)| file.ends_with("/a.rs")).unwrap();
        let named = modules.named_by(module);
        let named: Vec<_> = named
            .iter()
            .map(|n| {
                format!(
                    "{} {} {}",
                    n.line + 1,
                    n.module.join("/"),
                    n.item.as_deref().unwrap_or("-")
                )
            })
            .collect();
        assert_eq!(named, want, "{text}");
    }

    #[test]
    fn paths_lead_to_modules() {
        check("use crate::b::own;", &["1 b own"]);
        check("use super::b::own;", &["1 b own"]);
        check("use crate::{\n    b::{own, self},\n};", &["2 b own", "2 b -"]);
        check("use crate::b::deep::*;", &["1 b/deep -"]);
        check("fn f() {\n    crate::b::own();\n}", &["2 b own"]);
        check("use std::b::own;\nfn f() { x.b() + T::b() }", &[]);
    }

    #[test]
    fn re_exports_are_followed() {
        check("use crate::b::Deep;", &["1 b/deep Deep"]);
        check("use crate::Deep;", &["1 b/deep Deep"]);
        check("use crate::other;", &["1 b own"]);
    }

    #[test]
    fn tests_are_left_out() {
        check("#[cfg(test)]\nmod tests {\n    use crate::b::own;\n}", &[]);
        check("use crate::made::x;", &[]);
    }
}
