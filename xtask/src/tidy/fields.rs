//! No struct of many fields in the crates of the manager: state that grows there is to be split.

use super::MANAGER_ROOMS;
use super::ratchet::{Limit, Measure};
use crate::modules::Modules;
use crate::rust_items::structs;
use crate::tree::Tree;

/// Number of named fields of a struct outside tests. `Sm` is counted like all others, with an exception that shrinks
/// with it.
const FIELDS: Limit = Limit {
    rule: "struct-fields",
    unit: "fields",
    most: 12,
    most_hard: usize::MAX,
    advice: "split its state by subject",
};

/// The number of fields of each struct.
pub fn measures(tree: &Tree) -> Vec<Measure> {
    let mut measures = Vec::new();
    for room in MANAGER_ROOMS {
        for (file, module) in Modules::of(tree, room).files() {
            let structs = structs(&module.source).into_iter();
            measures.extend(structs.map(|item| Measure {
                limit: &FIELDS,
                file: file.to_owned(),
                line: item.line + 1,
                item: item.name,
                size: item.fields.len(),
                detail: String::new(),
            }));
        }
    }
    measures
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::ratchet;

    fn check(path: &str, text: &str, want: &[&str]) {
        let tree = Tree::of(&[
            ("crates/sm/src/lib.rs", "mod a;\n#[cfg(test)]\nmod made;"),
            (path, text),
        ]);
        let found = ratchet::findings(&tree, &measures(&tree));
        let found: Vec<_> = found.iter().map(|f| format!("{} {}", f.line, f.what)).collect();
        assert_eq!(found, want, "{path}: {text}");
    }

    fn of_fields(count: usize) -> String {
        let fields: String = (0..count)
            .map(|n| format!("    /// One, two.\n    pub f{n}: BTreeMap<u8, (u8, [u8; 4])>,\n"))
            .collect();
        format!("\npub struct A<'a> {{\n{fields}}}\n")
    }

    #[test]
    fn fields_are_counted() {
        check("crates/sm/src/a.rs", &of_fields(12), &[]);
        let want = &["2 A: 13 fields, limit 12"];
        check("crates/sm/src/a.rs", &of_fields(13), want);
        check("crates/planner/src/a.rs", &of_fields(13), want);
        check("crates/routing/src/a.rs", &of_fields(13), &[]);
    }

    #[test]
    fn tests_may_have_many() {
        check("crates/sm/src/a/tests.rs", &of_fields(13), &[]);
        check("crates/sm/src/made.rs", &of_fields(13), &[]);
        check("crates/sm/tests/it/bench.rs", &of_fields(13), &[]);
        let inside = format!("#[cfg(test)]\nmod tests {{{}}}\n", of_fields(13));
        check("crates/sm/src/a.rs", &inside, &[]);
    }
}
