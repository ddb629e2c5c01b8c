//! Reads the output of `ibtracert`.

use selvedge_types::Guid;

use super::{between, guid, unread};
use crate::LabError;

/// One cable of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hop {
    /// Port by which the path leaves the previous node.
    pub exit: u8,
    /// GUID of the node that the path reaches; for a host, GUID of its port.
    pub guid: Guid,
    /// Port by which the path enters that node.
    pub entry: u8,
}

/// Reads the output of `ibtracert`: the cables from source to destination.
pub fn hops(text: &str) -> Result<Vec<Hop>, LabError> {
    if !text.lines().any(|line| line.starts_with("To ")) {
        return Err(unread("a path's end", text.lines().last().unwrap_or_default()));
    }
    text.lines()
        .filter(|line| line.starts_with('['))
        .map(|line| hop(line).ok_or_else(|| unread("a hop", line)))
        .collect()
}

/// Reads the line of a cable: `[1] -> switch port {0x0000000000200000}[1] lid 2-2 "S1"`
fn hop(line: &str) -> Option<Hop> {
    let rest = line.split_once('}')?.1;
    Some(Hop {
        exit: between(line, "[", "]")?.parse().ok()?,
        guid: guid(between(line, "{", "}")?)?,
        entry: between(rest, "[", "]")?.parse().ok()?,
    })
}
