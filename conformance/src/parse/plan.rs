//! Reads the plan that a manager reports: OpenSM's `opensm-lfts.dump` and `guid2lid`, and Selvedge's files in the same
//! form.

use std::collections::BTreeMap;

use selvedge_types::Guid;

use super::{Table, guid, unread};
use crate::LabError;

/// The plan that a manager reports as written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Forwarding tables by the switch's GUID.
    pub tables: BTreeMap<Guid, Table>,
    /// First and last LID by port GUID.
    pub lids: BTreeMap<Guid, (u16, u16)>,
}

impl Plan {
    /// Reads the texts of both files.
    pub fn parse(lfts: &str, lids: &str) -> Result<Self, LabError> {
        Ok(Self {
            tables: dumped_tables(lfts)?,
            lids: guid_to_lid(lids)?,
        })
    }

    /// Returns the highest LID.
    #[must_use]
    pub fn top(&self) -> u16 {
        self.lids.values().map(|&(_, last)| last).max().unwrap_or_default()
    }
}

/// Reads the tables: lines `Unicast lids [0-23] of switch Lid 1 guid 0x…0000 ('S-L1-0'):`, `0x0004 001 # …` and `23
/// lids dumped`.
fn dumped_tables(text: &str) -> Result<BTreeMap<Guid, Table>, LabError> {
    let mut done = BTreeMap::new();
    let mut open: Option<Table> = None;
    for line in text.lines() {
        if line.starts_with("Unicast lids") {
            if open.is_some() {
                return Err(unread("the table's end before this", line));
            }
            open = Some(header(line).ok_or_else(|| unread("a table's switch", line))?);
        } else if line.starts_with("0x") {
            let table = open
                .as_mut()
                .ok_or_else(|| unread("a switch before its entries", line))?;
            let (lid, exit) = entry(line).ok_or_else(|| unread("a table's entry", line))?;
            table.exits.extend(exit.map(|exit| (lid, exit)));
        } else if line.contains(" lids dumped") {
            let table = open.take().ok_or_else(|| unread("a table before its end", line))?;
            if done.insert(table.guid, table).is_some() {
                return Err(unread("each switch once before this", line));
            }
        }
    }
    match open {
        Some(_) => Err(unread("a table's end", text.lines().last().unwrap_or_default())),
        None => Ok(done),
    }
}

fn header(line: &str) -> Option<Table> {
    let rest = line.split_once(" guid ")?.1;
    let (number, name) = rest.split_once(' ')?;
    Some(Table {
        guid: guid(number)?,
        top: super::tables::top(line)?,
        name: name.strip_prefix("('")?.strip_suffix("'):")?.to_owned(),
        exits: BTreeMap::new(),
    })
}

/// Reads a LID and its exit. There is no exit if the line has `UNREACHABLE`, as OpenSM writes it, or port 255.
fn entry(line: &str) -> Option<(u16, Option<u8>)> {
    let mut words = line.split_whitespace();
    let lid = u16::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok()?;
    let exit = words.next()?;
    if exit == "UNREACHABLE" {
        return Some((lid, None));
    }
    let exit: u8 = exit.parse().ok()?;
    Some((lid, (exit != u8::MAX).then_some(exit)))
}

/// Reads lines `0xguid 0xfirst 0xlast`, with blank lines between them.
fn guid_to_lid(text: &str) -> Result<BTreeMap<Guid, (u16, u16)>, LabError> {
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    lines
        .map(|line| guid_and_lids(line).ok_or_else(|| unread("a GUID and two LIDs", line)))
        .collect()
}

fn guid_and_lids(line: &str) -> Option<(Guid, (u16, u16))> {
    let mut words = line.split_whitespace();
    let guid = guid(words.next()?)?;
    let mut lid = || u16::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok();
    Some((guid, (lid()?, lid()?)))
}
