//! Reads forwarding tables.

use std::collections::{BTreeMap, BTreeSet};

use selvedge_fabric::{Fabric, PortRef, SwitchIdx};
use selvedge_plan::{BLOCK_LIDS, Lids, NO_PATH, Tables};
use selvedge_types::{Guid, Lid, LidRange, Lmc, PortNum};

use super::row::{Row, Words};
use super::{DumpError, DumpWarning, Forwarding};
use crate::Place;
use crate::text::{leading_guid, leading_number, shorten};

/// Reads the forwarding tables of `fabric`.
///
/// Switches are matched by GUID. The LIDs of a port come from `known`, else from lines of the dump that name its GUID,
/// else from the fabric.
pub fn read_lfts(file: &str, bytes: &[u8], fabric: &Fabric, known: Option<&Lids>) -> Result<Forwarding, DumpError> {
    let mut reader = Reader::new(file, fabric);
    for (at, line) in String::from_utf8_lossy(bytes).lines().enumerate() {
        reader.line = at + 1;
        reader.read(line.trim())?;
    }
    reader.end_table(false)?;
    if !reader.has_header {
        return Err(DumpError::NoTables { file: file.to_owned() });
    }
    Ok(reader.finish(known))
}

/// The table that is being read.
struct Current {
    line: usize,
    guid: Guid,
    /// Switch of the table; `None`: it is not in the fabric.
    switch: Option<SwitchIdx>,
    /// Egress ports by LID.
    rows: Vec<Option<Row<u8>>>,
    /// The last row so far. It is accepted when another line follows, because a file may end inside a row.
    last: Option<Entry>,
    /// The first line that is neither a row nor known text, and the number of others.
    junk: Option<(usize, String, usize)>,
}

/// A row of a table.
struct Entry {
    line: usize,
    lid: Lid,
    egress: u8,
    owner: Option<Guid>,
}

/// A table of a switch of the fabric.
struct Table {
    line: usize,
    rows: Vec<Option<Row<u8>>>,
    /// False if the file ends inside the table.
    is_whole: bool,
}

struct Reader<'a> {
    file: &'a str,
    fabric: &'a Fabric,
    line: usize,
    has_header: bool,
    current: Option<Current>,
    top: Lid,
    /// True if LID ranges are in hexadecimal, as ibroute and dump_fts print them.
    is_diags: bool,
    tables: BTreeMap<SwitchIdx, Table>,
    owners: BTreeMap<Lid, PortRef>,
    unknown_ports: BTreeSet<Guid>,
    /// LIDs that the dump gives to ports outside the fabric.
    foreign: BTreeSet<Lid>,
    warnings: Vec<DumpWarning>,
}

impl<'a> Reader<'a> {
    const fn new(file: &'a str, fabric: &'a Fabric) -> Self {
        Self {
            file,
            fabric,
            line: 0,
            has_header: false,
            current: None,
            top: Lid::NONE,
            is_diags: false,
            tables: BTreeMap::new(),
            owners: BTreeMap::new(),
            unknown_ports: BTreeSet::new(),
            foreign: BTreeSet::new(),
            warnings: Vec::new(),
        }
    }

    fn read(&mut self, line: &str) -> Result<(), DumpError> {
        if let Some(rest) = line.strip_prefix("Unicast lids") {
            self.end_table(false)?;
            return self.header(rest);
        }
        if line.starts_with("Multicast mlids") {
            // Multicast tables of dump_fts -M and ibroute -M.
            return self.end_table(false);
        }
        if line.ends_with("lids dumped") {
            return self.end_table(true);
        }
        if self.current.is_none() {
            return Ok(());
        }
        if line.starts_with("0x") {
            let entry = self.entry(line)?;
            self.commit(Some(entry))?;
        } else if let Some(current) = &mut self.current
            && !is_heading(line)
        {
            match &mut current.junk {
                Some((_, _, more)) => *more += 1,
                None => current.junk = Some((self.line, shorten(line), 0)),
            }
        }
        Ok(())
    }

    /// Accepts the pending row and keeps `next` pending.
    fn commit(&mut self, next: Option<Entry>) -> Result<(), DumpError> {
        let Some(current) = &mut self.current else {
            return Ok(());
        };
        let Some(entry) = std::mem::replace(&mut current.last, next) else {
            return Ok(());
        };
        let Entry {
            line,
            lid,
            egress,
            owner,
        } = entry;
        self.top = self.top.max(lid);
        if let Some(switch) = current.switch {
            if current.rows.len() <= lid.index() {
                current.rows.resize(lid.index() + 1, None);
            }
            let first = current.rows[lid.index()].get_or_insert_with(|| Row::new(egress, line));
            first.agrees(&egress, self.file, line, |&there| {
                words(self.fabric, switch, lid, (egress, there))
            })?;
            let node = self.fabric.switch(switch);
            if egress > node.port_count() && egress != NO_PATH {
                self.warnings.push(DumpWarning::NoSuchPort {
                    place: self.place(line),
                    name: node.description.clone(),
                    lid,
                    port: egress,
                    count: node.port_count(),
                });
            }
        }
        if let Some(guid) = owner {
            self.owner(lid, guid, line);
        }
        Ok(())
    }

    /// Ends a table: at its last line, or because another table or the end of the file follows.
    fn end_table(&mut self, is_whole: bool) -> Result<(), DumpError> {
        if is_whole {
            self.commit(None)?;
        }
        let Some(current) = self.current.take() else {
            return Ok(());
        };
        let (line, guid) = (current.line, current.guid);
        if !is_whole {
            let last = current.last.as_ref().map(|entry| entry.lid);
            let place = self.place(line);
            let last = last.map_or_else(String::new, |lid| format!("; its last row, of LID {lid}, is left out"));
            self.warnings.push(DumpWarning::CutOff { place, guid, last });
        }
        if let Some((line, text, more)) = current.junk {
            let place = self.place(line);
            self.warnings.push(DumpWarning::JunkLines {
                place,
                guid,
                text,
                more,
            });
        }
        let Some(switch) = current.switch else {
            return Ok(());
        };
        let later = Table {
            line,
            rows: current.rows,
            is_whole,
        };
        let Some(mut first) = self.tables.remove(&switch) else {
            self.tables.insert(switch, later);
            return Ok(());
        };
        self.check_second((switch, guid), &first, &later)?;
        // If one of the tables is cut off, the other one supplies the missing rows.
        if first.rows.len() < later.rows.len() {
            first.rows.resize(later.rows.len(), None);
        }
        for (known, row) in first.rows.iter_mut().zip(later.rows) {
            *known = known.or(row);
        }
        first.is_whole |= later.is_whole;
        self.tables.insert(switch, first);
        Ok(())
    }

    /// Fails if a second table of a switch contradicts the first. A LID without a row in a whole table has no route.
    fn check_second(
        &mut self,
        (switch, guid): (SwitchIdx, Guid),
        first: &Table,
        later: &Table,
    ) -> Result<(), DumpError> {
        for at in 0..first.rows.len().max(later.rows.len()) {
            let row = |table: &Table| {
                let row = table.rows.get(at).copied().flatten();
                row.or_else(|| table.is_whole.then(|| Row::new(NO_PATH, table.line)))
            };
            let (Some(there), Some(here)) = (row(first), row(later)) else {
                continue;
            };
            let lid = Lid(u16::try_from(at).unwrap_or(u16::MAX));
            there.agrees(&here.value, self.file, here.line as usize, |&there| {
                words(self.fabric, switch, lid, (here.value, there))
            })?;
        }
        let place = self.place(later.line);
        self.warnings.push(DumpWarning::SecondTable {
            place,
            guid,
            first_line: first.line,
        });
        Ok(())
    }

    /// Parses ` [0-12] of switch Lid 3 guid 0x0002c90000000001 ('leaf 1'):`
    fn header(&mut self, rest: &str) -> Result<(), DumpError> {
        let want = "a table's first line, as in: Unicast lids [0-12] of switch Lid 3 guid 0x0002c90000000001 ('leaf'):";
        let failed = || self.syntax(rest, want);
        let guid = rest.split_once(" guid ").and_then(|(_, text)| leading_guid(text));
        let guid = guid.ok_or_else(failed)?;
        let range = rest
            .trim_start()
            .strip_prefix('[')
            .and_then(|text| text.split_once(']'));
        let top = range.and_then(|(range, _)| range.split_once('-')).map(|(_, top)| top);
        self.is_diags |= top.is_some_and(|top| top.starts_with("0x"));
        let top = top
            .and_then(leading_number)
            .and_then(|(top, _)| lid(top))
            .ok_or_else(|| self.syntax(rest, want))?;
        self.has_header = true;
        self.top = self.top.max(top);
        let node = self.fabric.find(guid);
        let switch = node.and_then(|idx| self.fabric.switch_index(idx));
        if switch.is_none() {
            let place = self.place(self.line);
            self.warnings.push(DumpWarning::UnknownSwitch { place, guid });
        }
        self.current = Some(Current {
            line: self.line,
            guid,
            switch,
            rows: Vec::new(),
            last: None,
            junk: None,
        });
        let own = rest
            .split_once("switch Lid ")
            .and_then(|(_, text)| leading_number(text));
        if let Some((own, node)) = own
            .and_then(|(own, _)| lid(own))
            .filter(|lid| *lid != Lid::NONE)
            .zip(node)
        {
            let port = PortNum::MANAGEMENT;
            self.own(own, PortRef { node, port }, guid, self.line);
        }
        Ok(())
    }

    /// Parses `0x0002 001 # Channel Adapter portguid 0x0002c90000000002: 'host'`
    fn entry(&self, line: &str) -> Result<Entry, DumpError> {
        let want = "a LID and an egress port (0-255), as in: 0x0004 012";
        let (number, rest) = leading_number(line).ok_or_else(|| self.syntax(line, want))?;
        let lid = lid(number).ok_or_else(|| self.syntax(line, want))?;
        let word = rest.split_ascii_whitespace().next();
        let egress: u8 = word
            .and_then(|w| w.parse().ok())
            .ok_or_else(|| self.syntax(line, want))?;
        let owner = match rest.split_once("portguid ") {
            Some((_, text)) => {
                let guid = leading_guid(text);
                Some(guid.ok_or_else(|| self.syntax(line, "a GUID after portguid"))?)
            }
            None => None,
        };
        Ok(Entry {
            line: self.line,
            lid,
            egress,
            owner,
        })
    }

    fn owner(&mut self, lid: Lid, guid: Guid, line: usize) {
        if let Some(at) = self.fabric.find_port(guid) {
            return self.own(lid, at, guid, line);
        }
        self.foreign.insert(lid);
        // One warning per port, not per table.
        if self.unknown_ports.insert(guid) {
            self.warnings.push(DumpWarning::UnknownPort {
                place: self.place(line),
                guid,
                lid,
            });
        }
    }

    fn own(&mut self, lid: Lid, at: PortRef, guid: Guid, line: usize) {
        let known = *self.owners.entry(lid).or_insert(at);
        if known != at {
            self.warnings.push(DumpWarning::OwnerConflict {
                place: self.place(line),
                lid,
                guid,
                owner: self.fabric.port_name(known),
            });
        }
    }

    fn finish(mut self, known: Option<&Lids>) -> Forwarding {
        let mut tables = Tables::new(self.fabric.switches().len(), self.top);
        let mut routed = BTreeSet::new();
        for (&switch, table) in &self.tables {
            for (row, lid) in table.rows.iter().zip(0_u16..) {
                if let Some(row) = row {
                    tables.set(switch, Lid(lid), row.value);
                    routed.insert(Lid(lid));
                }
            }
        }
        for switch in self
            .fabric
            .switches()
            .indices()
            .filter(|s| !self.tables.contains_key(s))
        {
            let node = self.fabric.switch(switch);
            self.warnings.push(DumpWarning::MissingTable {
                file: self.file.to_owned(),
                guid: node.guid,
                name: node.description.clone(),
            });
        }
        let lids = self.lids(known);
        if self.is_diags && self.top.0 > 0 && self.top.index().is_multiple_of(BLOCK_LIDS) && !routed.contains(&self.top)
        {
            self.warnings.push(DumpWarning::LastLidLost {
                file: self.file.to_owned(),
                lid: self.top,
            });
        }
        let ownerless = || {
            routed
                .iter()
                .filter(|lid| **lid != Lid::NONE && lids.owner(**lid).is_none())
        };
        if let Some(&lowest) = ownerless().next() {
            self.warnings.push(DumpWarning::Ownerless {
                file: self.file.to_owned(),
                count: ownerless().count(),
                lowest,
            });
        }
        Forwarding {
            lids,
            tables,
            warnings: self.warnings,
        }
    }

    /// Returns the LIDs of every port, each from the first source that states them.
    fn lids(&mut self, known: Option<&Lids>) -> Lids {
        let mut lids = known.cloned().unwrap_or_default();
        let mut named: BTreeMap<PortRef, (Lid, Lid)> = BTreeMap::new();
        for (&lid, &at) in &self.owners {
            let (_, last) = named.entry(at).or_insert((lid, lid));
            *last = lid;
        }
        let (mut ranges, mut of_fabric) = (Vec::new(), Vec::new());
        for (at, port) in self.fabric.end_ports().filter(|(at, _)| lids.range(*at).is_none()) {
            let held = Some(port.settings.lids).filter(|range| range.base != Lid::NONE);
            let held = held.filter(|range| range.iter().all(|lid| self.may_own(at, lid)));
            match named.get(&at) {
                // `ibroute -n` names only the base LID of its own switch.
                Some(&(first, last)) => ranges.push((
                    at,
                    held.filter(|r| r.contains(first) && r.contains(last))
                        .unwrap_or_else(|| smallest(first, last)),
                )),
                None => of_fabric.extend(held.map(|range| (at, range))),
            }
        }
        for (source_name, ranges) in [(self.file, ranges), ("the fabric's own LIDs", of_fabric)] {
            for (at, range) in ranges {
                if let Err(conflict) = lids.insert(at, range) {
                    let warning = DumpWarning::refused(source_name, self.fabric, at, conflict);
                    self.warnings.push(warning);
                }
            }
        }
        lids
    }

    /// True unless the dump gives the LID to another port.
    fn may_own(&self, at: PortRef, lid: Lid) -> bool {
        self.owners.get(&lid).is_none_or(|owner| *owner == at) && !self.foreign.contains(&lid)
    }

    fn place(&self, line: usize) -> Place {
        Place {
            file: self.file.to_owned(),
            line,
        }
    }

    fn syntax(&self, what: &str, want: &'static str) -> DumpError {
        DumpError::Syntax {
            place: self.place(self.line),
            what: shorten(what),
            want,
        }
    }
}

/// True for lines that may occur between the first and the last line of a table, other than rows.
fn is_heading(line: &str) -> bool {
    let mut words = line.split_ascii_whitespace();
    let is_columns = matches!(
        (words.next(), words.next()),
        (Some("Lid"), Some("Out")) | (Some("Port"), Some("Info"))
    );
    line.is_empty() || line.starts_with('#') || is_columns
}

/// Returns the text of an error about two egress ports of one LID.
fn words(fabric: &Fabric, switch: SwitchIdx, lid: Lid, (here, there): (u8, u8)) -> Words {
    let node = fabric.switch(switch);
    let name = |egress: u8| match egress {
        NO_PATH => "none".to_owned(),
        egress => egress.to_string(),
    };
    Words {
        what: format!("the port of LID {lid} at switch {} \"{}\"", node.guid, node.description),
        here: name(here),
        there: name(there),
    }
}

/// Returns the smallest aligned range that holds both LIDs; `first` alone if there is none.
fn smallest(first: Lid, last: Lid) -> LidRange {
    let ranges = (0..=7).filter_map(Lmc::new).map(|lmc| LidRange {
        base: Lid(first.0 / lmc.lids() * lmc.lids()),
        lmc,
    });
    let range = ranges.into_iter().find(|range| range.contains(last));
    range.unwrap_or(LidRange::single(first))
}

/// Returns a LID that is 0 or unicast.
fn lid(number: u64) -> Option<Lid> {
    let lid = u16::try_from(number).ok().map(Lid)?;
    (lid <= Lid::UNICAST_MAX).then_some(lid)
}
