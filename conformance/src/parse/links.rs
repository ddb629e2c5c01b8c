//! Reads the output of `iblinkinfo -l`.

use selvedge_types::Guid;

use super::{between, guid, unread};
use crate::LabError;

/// One port of the listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkLine {
    /// GUID of the node (switches) or port (hosts).
    pub guid: Guid,
    /// Description of the node.
    pub name: String,
    /// LID of the port; 0 if it has none.
    pub lid: u16,
    /// Number of the port.
    pub port: u8,
    /// Logical state: for example `Active`.
    pub state: String,
    /// Physical state: for example `LinkUp`.
    pub physical: String,
    /// The other end, if there is one.
    pub peer: Option<LinkEnd>,
}

/// The other end of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkEnd {
    /// GUID at the other end: of the node (switches) or of the port (hosts).
    pub guid: Guid,
    /// Number of the port at the other end.
    pub port: u8,
    /// Description of the node at the other end.
    pub name: String,
}

impl LinkLine {
    /// True if the link carries traffic.
    #[must_use]
    pub fn is_active(&self) -> bool {
        self.state == "Active" && self.physical == "LinkUp"
    }
}

/// Reads the output of `iblinkinfo -l`.
pub fn link_lines(text: &str) -> Result<Vec<LinkLine>, LabError> {
    text.lines()
        .filter(|line| line.contains("==>"))
        .map(|line| link_line(line).ok_or_else(|| unread("a link", line)))
        .collect()
}

/// Reads a line: `0x…0007 " H4" 6 1[ ] ==( 4X 2.5 Gbps Active/ LinkUp)==> 0x…0001 3 2[ ] "S2" (Could be …)`
fn link_line(line: &str) -> Option<LinkLine> {
    let (near, rest) = line.split_once("==(")?;
    let (middle, far) = rest.split_once(")==>")?;
    let (first, rest) = near.trim_start().split_once(char::is_whitespace)?;
    let (name, rest) = rest.split_once('"')?.1.rsplit_once('"')?;
    let (states, physical) = middle.rsplit_once('/')?;
    let mut numbers = numbers(rest);
    Some(LinkLine {
        guid: guid(first)?,
        name: name.trim().to_owned(),
        lid: numbers.next()?.parse().ok()?,
        port: numbers.next()?.parse().ok()?,
        state: states.split_whitespace().last()?.to_owned(),
        physical: physical.trim().to_owned(),
        peer: link_end(far),
    })
}

fn link_end(far: &str) -> Option<LinkEnd> {
    let mut words = numbers(far);
    let guid = guid(words.next().filter(|word| word.starts_with("0x"))?)?;
    let port = words.nth(1)?.parse().ok()?;
    Some(LinkEnd {
        guid,
        port,
        name: between(far, "\"", "\"")?.trim().to_owned(),
    })
}

/// Returns the words before the first `[`: the LID (if there is one) and the port number.
fn numbers(text: &str) -> impl Iterator<Item = &str> {
    text.split_once('[')
        .map_or(text, |(numbers, _)| numbers)
        .split_whitespace()
}
