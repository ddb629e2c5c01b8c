//! Reads the output of `ibroute` and `dump_fts`: linear forwarding tables.

use std::collections::BTreeMap;

use selvedge_types::Guid;

use super::{between, guid, unread};
use crate::LabError;

/// A switch's linear forwarding table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// GUID of the switch.
    pub guid: Guid,
    /// Description of the switch.
    pub name: String,
    /// LinearFDBTop; in a dump of OpenSM, the highest LID.
    pub top: u16,
    /// Exit port by destination LID.
    pub exits: BTreeMap<u16, u8>,
}

/// Reads the output of `ibroute` (one table) or `dump_fts` (all).
pub fn tables(text: &str) -> Result<Vec<Table>, LabError> {
    let mut tables: Vec<Table> = Vec::new();
    let mut announced = None;
    for line in text.lines() {
        if line.starts_with("Unicast lids") {
            check_count(announced.take(), tables.last(), line)?;
            tables.push(header(line).ok_or_else(|| unread("a table's switch", line))?);
        } else if line.starts_with("0x") {
            let (lid, exit) = entry(line).ok_or_else(|| unread("a table's entry", line))?;
            let table = tables
                .last_mut()
                .ok_or_else(|| unread("a switch before its entries", line))?;
            table.exits.insert(lid, exit);
        } else if let Some(count) = line.strip_suffix(" valid lids dumped ") {
            announced = Some(count.parse().map_err(|_| unread("a number of entries", line))?);
        }
    }
    check_count(announced, tables.last(), "end of output")?;
    Ok(tables)
}

/// Checks the number of entries against the number that the listing itself announces, so that a listing that was cut is
/// not taken for a small table.
fn check_count(announced: Option<usize>, table: Option<&Table>, line: &str) -> Result<(), LabError> {
    let Some(table) = table else { return Ok(()) };
    if announced == Some(table.exits.len()) {
        return Ok(());
    }
    Err(unread("as many entries as announced before this", line))
}

/// Reads the highest LID in `[0x0-0x6]` (`ibroute`) or `[0-6]` (OpenSM).
pub(super) fn top(line: &str) -> Option<u16> {
    let last = between(line, "[", "]")?.split_once('-')?.1;
    match last.strip_prefix("0x") {
        Some(digits) => u16::from_str_radix(digits, 16).ok(),
        None => last.parse().ok(),
    }
}

/// Reads the first line of a table: `Unicast lids [0x0-0x6] of switch Lid 2 guid 0x0000000000200000 (S1):`
fn header(line: &str) -> Option<Table> {
    let rest = line.split_once(" guid ")?.1;
    let (number, name) = rest.split_once(' ')?;
    Some(Table {
        guid: guid(number)?,
        top: top(line)?,
        name: name.strip_prefix('(')?.strip_suffix("):")?.to_owned(),
        exits: BTreeMap::new(),
    })
}

/// Reads an entry: `0x0001 003 : (Channel Adapter portguid 0x0000000000100001: 'H1')`
fn entry(line: &str) -> Option<(u16, u8)> {
    let lid = u16::from_str_radix(between(line, "0x", " ")?, 16).ok()?;
    let exit = line.split_whitespace().nth(1)?.parse().ok()?;
    Some((lid, exit))
}
