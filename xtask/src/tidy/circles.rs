//! Files of a crate that import each other in circles: none of them can be read, tested or moved without the others.

use std::collections::{BTreeMap, BTreeSet};

use super::MANAGER_ROOMS;
use super::ratchet::{Limit, Measure};
use crate::modules::Modules;
use crate::tree::Tree;

/// Number of files of a crate that are part of a circle of imports.
const CIRCLES: Limit = Limit {
    rule: "import-circle",
    unit: "files in circles",
    most: 0,
    most_hard: usize::MAX,
    advice: "let the file further down name nothing of the file further up",
};

/// By file: the files that it imports.
type Imports<'a> = BTreeMap<&'a str, BTreeSet<&'a str>>;

/// Returns for each crate the number of files in circles.
pub fn measures(tree: &Tree) -> Vec<Measure> {
    let rooms = MANAGER_ROOMS.into_iter();
    rooms
        .map(|room| {
            let circles = circles(&imports(&Modules::of(tree, room)));
            let folder = format!("crates/{room}/src/");
            let name = |file: &&str| file.trim_start_matches(&folder).to_owned();
            let names = |circle: &BTreeSet<&str>| circle.iter().map(name).collect::<Vec<_>>().join(" ↔ ");
            Measure {
                limit: &CIRCLES,
                file: format!("crates/{room}"),
                line: 0,
                item: String::new(),
                size: circles.iter().map(BTreeSet::len).sum(),
                detail: circles.iter().map(names).collect::<Vec<_>>().join("; "),
            }
        })
        .collect()
}

/// Returns by file the files that define what it names. A file and its own submodules count as one subject: a submodule
/// may name the items around it.
fn imports<'a>(modules: &Modules<'a>) -> Imports<'a> {
    let mut imports = Imports::new();
    for (at, module) in modules.iter() {
        let named = modules.named_by(module).into_iter();
        let others = named.filter(|named| !at.starts_with(named.module));
        let files = others.filter_map(|named| modules.file(named.module));
        imports.entry(module.file).or_default().extend(files);
    }
    imports
}

/// The sets of files in which each file reaches each other one.
fn circles<'a>(imports: &Imports<'a>) -> BTreeSet<BTreeSet<&'a str>> {
    let reached: Imports<'_> = imports.keys().map(|&file| (file, reached(imports, file))).collect();
    let reaches = |from: &str, to: &str| reached.get(from).is_some_and(|files| files.contains(to));
    let circle = |file: &str| -> BTreeSet<&'a str> {
        let others = imports.keys().copied();
        others
            .filter(|other| reaches(file, other) && reaches(other, file))
            .collect()
    };
    let circles = imports.keys().map(|&file| circle(file));
    circles.filter(|circle| circle.len() > 1).collect()
}

/// Returns the files that a file imports, directly or through other files.
fn reached<'a>(imports: &Imports<'a>, file: &'a str) -> BTreeSet<&'a str> {
    let mut seen = BTreeSet::new();
    let mut open = vec![file];
    while let Some(file) = open.pop() {
        let next = imports.get(file).into_iter().flatten();
        open.extend(next.filter(|&&file| seen.insert(file)));
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::ratchet;

    fn check(files: &[(&str, &str)], want: &[&str]) {
        let files: Vec<_> = files
            .iter()
            .map(|(name, text)| (format!("crates/sm/src/{name}"), *text))
            .collect();
        let files: Vec<_> = files.iter().map(|(name, text)| (name.as_str(), *text)).collect();
        let tree = Tree::of(&files);
        let found = ratchet::findings(&tree, &measures(&tree));
        let found: Vec<_> = found.iter().map(|f| format!("{} {}", f.file, f.what)).collect();
        assert_eq!(found, want, "{files:?}");
    }

    #[test]
    fn circles_are_found() {
        let lib = ("lib.rs", "mod a;\nmod b;\nmod c;\npub use a::A;");
        let a = ("a.rs", "use crate::b::B;\npub struct A(B);");
        check(&[lib, a, ("b.rs", "pub struct B;"), ("c.rs", "use crate::A;")], &[]);
        let two = &["crates/sm 2 files in circles, limit 0: a.rs ↔ b.rs"];
        check(&[lib, a, ("b.rs", "use crate::A;\npub struct B;")], two);
        let three = &["crates/sm 3 files in circles, limit 0: a.rs ↔ b.rs ↔ c.rs"];
        check(
            &[lib, a, ("b.rs", "use crate::c::C;"), ("c.rs", "use super::a::A;")],
            three,
        );
        let tests = "#[cfg(test)]\nmod tests {\n    use crate::a::A;\n}";
        check(&[lib, a, ("b.rs", tests)], &[]);
    }

    #[test]
    fn submodules_may_name_what_stands_around_them() {
        let parent = ("a/mod.rs", "mod deep;\nuse deep::Deep;\npub struct A;");
        check(&[("lib.rs", "mod a;"), parent, ("a/deep.rs", "use super::A;")], &[]);
        let outside = ("b.rs", "use crate::a::A;");
        let two = &["crates/sm 3 files in circles, limit 0: a/deep.rs ↔ a/mod.rs ↔ b.rs"];
        check(
            &[
                ("lib.rs", "mod a;\nmod b;"),
                parent,
                ("a/deep.rs", "use crate::b::B;"),
                outside,
            ],
            two,
        );
    }
}
