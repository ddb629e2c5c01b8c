//! No decoder without proofs: each wire attribute has golden bytes and stands in the fuzz body.

use crate::finding::Finding;
use crate::rust_source::words;
use crate::tree::Tree;

const RULE: &str = "attribute-proofs";
const WIRE: &str = "crates/wire/";
const FOLDER: &str = "crates/wire/src/attribute/";

/// Attributes that no file about golden bytes, or none about fuzzing, names.
pub fn findings(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for (path, text) in tree.rust_files().filter(|(path, _)| path.starts_with(FOLDER)) {
        for (at, line) in text.lines().enumerate() {
            let Some(name) = line
                .strip_prefix("impl Attribute for ")
                .and_then(|rest| rest.split([' ', '<', '{']).next())
            else {
                continue;
            };
            for proof in ["golden", "fuzz"] {
                if !is_named(tree, proof, name) {
                    let what = format!("{name} has no {proof} test");
                    let advice = "see docs/adding-an-attribute.md";
                    found.push(Finding::new(RULE, path, at + 1, what, advice));
                }
            }
        }
    }
    found
}

/// True if a Rust file of wire with `proof` in its path, other than the attribute's own, names the type.
fn is_named(tree: &Tree, proof: &str, name: &str) -> bool {
    let mut files = tree
        .rust_files()
        .filter(|(path, _)| path.starts_with(WIRE) && path.contains(proof));
    files.any(|(_, text)| words(text, name).next().is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(golden: &str, fuzz: &str, want: &[&str]) {
        let tree = Tree::of(&[
            (
                "crates/wire/src/attribute/node_info.rs",
                "\nimpl Attribute for NodeInfo {\n",
            ),
            ("crates/wire/tests/golden.rs", golden),
            ("crates/wire/src/fuzz.rs", fuzz),
        ]);
        let found: Vec<_> = findings(&tree)
            .iter()
            .map(|f| format!("{} {}", f.line, f.what))
            .collect();
        assert_eq!(found, want);
    }

    #[test]
    fn both_proofs_are_needed() {
        check("check::<NodeInfo>()", "decode::<NodeInfo>()", &[]);
        check(
            "check::<NodeInfo2>()",
            "decode::<NodeInfo>()",
            &["2 NodeInfo has no golden test"],
        );
        check("check::<NodeInfo>()", "", &["2 NodeInfo has no fuzz test"]);
    }
}
