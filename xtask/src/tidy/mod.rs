//! The project's own rules. One file per rule or family of rules; each has tests that make it fail.

mod attributes;
mod docs;
mod events;
mod imports;
mod length;
mod manifests;
mod ratchet;
mod words;

use crate::codes;
use crate::finding::Finding;
use crate::tree::Tree;

/// Everything that is wrong, by file and line.
pub fn findings(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    found.extend(imports::findings(tree));
    found.extend(manifests::findings(tree));
    found.extend(length::findings(tree));
    found.extend(words::findings(tree));
    found.extend(codes::findings(tree));
    found.extend(attributes::findings(tree));
    found.extend(docs::findings(tree));
    found.extend(events::findings(tree));
    found.sort();
    found
}
