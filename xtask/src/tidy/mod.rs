//! The project's own rules. One file per rule or family of rules; each has tests that make it fail.

mod attributes;
mod circles;
mod docs;
mod events;
mod fields;
mod imports;
mod length;
mod machines;
mod manifests;
mod prose;
mod ratchet;
mod words;

use crate::codes;
use crate::finding::Finding;
use crate::tree::Tree;

/// Crates of the manager and of its runners: here structs must not have many fields, and imports must have no circles.
const MANAGER_ROOMS: [&str; 4] = ["coordinator", "planner", "rehearsal", "sm"];

/// Returns all findings, by file and line.
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
    found.extend(prose::findings(tree));
    let mut measures = length::measures(tree);
    measures.extend(fields::measures(tree));
    measures.extend(machines::measures(tree));
    measures.extend(circles::measures(tree));
    measures.extend(prose::measures(tree));
    found.extend(ratchet::findings(tree, &measures));
    found.sort();
    found
}
