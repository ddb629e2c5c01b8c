//! Checks that each wire attribute has golden bytes and a property test, and that the fuzz body reaches it.

use crate::finding::Finding;
use crate::rust_source::words;
use crate::tree::Tree;

const RULE: &str = "attribute-proofs";
const WIRE: &str = "crates/wire/";
const FOLDER: &str = "crates/wire/src/attribute/";

/// Kinds of proofs, with the files in which the name of an attribute counts as its proof. The fuzz body decodes all
/// attributes that `Payload` has.
const PROOFS: [(&str, &str); 3] = [
    ("golden test", "golden"),
    ("property test", "properties"),
    ("place in Payload, which is what is fuzzed", "src/payload"),
];

/// Returns the attributes that lack a proof.
pub fn findings(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for (path, text) in tree.rust_files().filter(|(path, _)| path.starts_with(FOLDER)) {
        for (at, line) in text.lines().enumerate() {
            let Some(name) = attribute_name(line) else {
                continue;
            };
            for (proof, _) in PROOFS.iter().filter(|(_, files)| !is_named(tree, files, name)) {
                let what = format!("{name} has no {proof}");
                found.push(Finding::new(
                    RULE,
                    path,
                    at + 1,
                    what,
                    "see docs/adding-an-attribute.md",
                ));
            }
        }
    }
    found
}

/// The type in `impl Attribute for Type {` or `impl GmpAttribute for Type {`.
fn attribute_name(line: &str) -> Option<&str> {
    let rest = line
        .strip_prefix("impl Attribute for ")
        .or_else(|| line.strip_prefix("impl GmpAttribute for "))?;
    rest.split([' ', '<', '{']).next()
}

/// True if a Rust file of `wire` with `part` in its path names the type.
fn is_named(tree: &Tree, part: &str, name: &str) -> bool {
    let mut files = tree
        .rust_files()
        .filter(|(path, _)| path.starts_with(WIRE) && path.contains(part));
    files.any(|(_, text)| words(text, name).next().is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(golden: &str, properties: &str, payload: &str, want: &[&str]) {
        let tree = Tree::of(&[
            (
                "crates/wire/src/attribute/node_info.rs",
                "\nimpl Attribute for NodeInfo {\n",
            ),
            ("crates/wire/tests/golden.rs", golden),
            ("crates/wire/tests/properties.rs", properties),
            ("crates/wire/src/payload.rs", payload),
        ]);
        let found: Vec<_> = findings(&tree)
            .iter()
            .map(|f| format!("{} {}", f.line, f.what))
            .collect();
        assert_eq!(found, want);
    }

    #[test]
    fn all_proofs_are_needed() {
        let (test, place) = ("check::<NodeInfo>()", "NodeInfo(NodeInfo)");
        check(test, test, place, &[]);
        check("check::<NodeInfo2>()", test, place, &["2 NodeInfo has no golden test"]);
        check(test, "", place, &["2 NodeInfo has no property test"]);
        check(
            test,
            test,
            "",
            &["2 NodeInfo has no place in Payload, which is what is fuzzed"],
        );
    }
}
