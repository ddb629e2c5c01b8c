//! Forwarding tables.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use selvedge_fabric::{Fabric, Node, PortRef, SwitchIdx};
use selvedge_plan::{BLOCK_LIDS, Lids, NO_PATH, Tables};
use selvedge_types::{Guid, Lid, LidRange, Lmc, NodeKind, PortNum};

use super::{DumpError, DumpWarning, Forwarding};
use crate::Place;
use crate::text::{leading_guid, leading_number, printable, shorten};

/// The format to write. Both formats are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LftStyle {
    /// `opensm-lfts.dump`, which OpenSM's `file` engine reads.
    Opensm,
    /// What `ibroute` prints for each switch.
    Ibroute,
}

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
    reader.end_table();
    if !reader.has_header {
        return Err(DumpError::NoTables { file: file.to_owned() });
    }
    Ok(reader.finish(known))
}

/// A table that is being read.
struct Current {
    line: usize,
    guid: Guid,
    /// `None`: not in the fabric.
    switch: Option<SwitchIdx>,
}

struct Reader<'a> {
    file: &'a str,
    fabric: &'a Fabric,
    line: usize,
    has_header: bool,
    current: Option<Current>,
    top: Lid,
    /// Ranges in hexadecimal: ibroute or dump_fts.
    is_diags: bool,
    tables: BTreeMap<SwitchIdx, Vec<(Lid, u8)>>,
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
            self.end_table();
            return self.header(rest);
        }
        if line.starts_with("Multicast mlids") {
            // dump_fts -M and ibroute -M: other tables.
            self.end_table();
            return Ok(());
        }
        if line.ends_with("lids dumped") {
            self.current = None;
            return Ok(());
        }
        match (line.starts_with("0x"), &self.current) {
            (true, Some(_)) => self.entry(line),
            _ => Ok(()),
        }
    }

    /// A table that another one or the file's end follows without a last line.
    fn end_table(&mut self) {
        if let Some(current) = self.current.take() {
            self.warnings.push(DumpWarning::CutOff {
                place: self.place(current.line),
                guid: current.guid,
            });
        }
    }

    /// ` [0-12] of switch Lid 3 guid 0x0002c90000000001 ('leaf 1'):`
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
        let place = self.place(self.line);
        match switch {
            None => self.warnings.push(DumpWarning::UnknownSwitch { place, guid }),
            Some(switch) if self.tables.insert(switch, Vec::new()).is_some() => {
                self.warnings.push(DumpWarning::SecondTable { place, guid });
            }
            Some(_) => {}
        }
        self.current = Some(Current {
            line: self.line,
            guid,
            switch,
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
            self.own(own, PortRef { node, port }, guid);
        }
        Ok(())
    }

    /// `0x0002 001 # Channel Adapter portguid 0x0002c90000000002: 'host'`
    fn entry(&mut self, line: &str) -> Result<(), DumpError> {
        let want = "a LID and an egress port (0-255), as in: 0x0004 012";
        let (number, rest) = leading_number(line).ok_or_else(|| self.syntax(line, want))?;
        let lid = lid(number).ok_or_else(|| self.syntax(line, want))?;
        let word = rest.split_ascii_whitespace().next();
        let egress: u8 = word
            .and_then(|w| w.parse().ok())
            .ok_or_else(|| self.syntax(line, want))?;
        self.top = self.top.max(lid);
        if let Some((_, text)) = rest.split_once("portguid ") {
            match leading_guid(text) {
                Some(guid) => self.owner(lid, guid),
                None => return Err(self.syntax(line, "a GUID after portguid")),
            }
        }
        let Some(switch) = self.current.as_ref().and_then(|current| current.switch) else {
            return Ok(());
        };
        let node = self.fabric.switch(switch);
        if egress > node.port_count() && egress != NO_PATH {
            self.warnings.push(DumpWarning::NoSuchPort {
                place: self.place(self.line),
                name: node.description.clone(),
                lid,
                port: egress,
                count: node.port_count(),
            });
        }
        self.tables.entry(switch).or_default().push((lid, egress));
        Ok(())
    }

    fn owner(&mut self, lid: Lid, guid: Guid) {
        if let Some(at) = self.fabric.find_port(guid) {
            return self.own(lid, at, guid);
        }
        self.foreign.insert(lid);
        // One warning per port, not per table.
        if self.unknown_ports.insert(guid) {
            self.warnings.push(DumpWarning::UnknownPort {
                place: self.place(self.line),
                guid,
                lid,
            });
        }
    }

    fn own(&mut self, lid: Lid, at: PortRef, guid: Guid) {
        let known = *self.owners.entry(lid).or_insert(at);
        if known != at {
            self.warnings.push(DumpWarning::OwnerConflict {
                place: self.place(self.line),
                lid,
                guid,
            });
        }
    }

    fn finish(mut self, known: Option<&Lids>) -> Forwarding {
        let mut tables = Tables::new(self.fabric.switches().len(), self.top);
        let mut routed = BTreeSet::new();
        for (&switch, entries) in &self.tables {
            for &(lid, egress) in entries {
                tables.set(switch, lid, egress);
                routed.insert(lid);
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
                if let Err(source) = lids.insert(at, range) {
                    self.warnings.push(DumpWarning::Refused {
                        source_name: source_name.to_owned(),
                        port: self.fabric.port_name(at),
                        source,
                    });
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

/// Returns the smallest aligned range that holds both LIDs; `first` alone if there is none.
fn smallest(first: Lid, last: Lid) -> LidRange {
    let ranges = (0..=7).filter_map(Lmc::new).map(|lmc| LidRange {
        base: Lid(first.0 / lmc.lids() * lmc.lids()),
        lmc,
    });
    let range = ranges.into_iter().find(|range| range.contains(last));
    range.unwrap_or(LidRange::single(first))
}

/// 0 or a unicast LID.
fn lid(number: u64) -> Option<Lid> {
    let lid = u16::try_from(number).ok().map(Lid)?;
    (lid <= Lid::UNICAST_MAX).then_some(lid)
}

/// Writes the tables of all switches.
#[must_use]
pub fn write_lfts(fabric: &Fabric, lids: &Lids, tables: &Tables, style: LftStyle) -> String {
    let mut order: Vec<SwitchIdx> = fabric.switches().indices().collect();
    if style == LftStyle::Opensm {
        order.sort_by_key(|&switch| fabric.switch(switch).guid.opensm_order());
    }
    let owners: Vec<Option<PortRef>> = (0..=tables.top().0).map(|lid| lids.owner(Lid(lid))).collect();
    let mut text = String::new();
    for switch in order {
        match style {
            LftStyle::Opensm => write_opensm(&mut text, fabric, lids, tables, &owners, switch),
            LftStyle::Ibroute => write_ibroute(&mut text, fabric, lids, tables, &owners, switch),
        }
    }
    text
}

// Writing to a String cannot fail, so the results of `write!` are dropped from here on.

fn write_opensm(
    text: &mut String,
    fabric: &Fabric,
    lids: &Lids,
    tables: &Tables,
    owners: &[Option<PortRef>],
    switch: SwitchIdx,
) {
    let (node, top) = (fabric.switch(switch), tables.top());
    let _ = writeln!(
        text,
        "Unicast lids [0-{top}] of switch Lid {} guid {} ('{}'):",
        own_lid(fabric, lids, switch),
        node.guid,
        print_description(node)
    );
    for (lid, egress, owner) in entries(tables, owners, switch, node) {
        let _ = match owner {
            Some(at) => writeln!(text, "{:#06x} {egress:03} # {}", lid.0, owner_name(fabric, at)),
            None => writeln!(text, "{:#06x} {egress:03} # unknown node and type", lid.0),
        };
    }
    let _ = writeln!(text, "{top} lids dumped");
}

fn write_ibroute(
    text: &mut String,
    fabric: &Fabric,
    lids: &Lids,
    tables: &Tables,
    owners: &[Option<PortRef>],
    switch: SwitchIdx,
) {
    let (node, top) = (fabric.switch(switch), tables.top());
    let _ = writeln!(
        text,
        "Unicast lids [0x0-{:#x}] of switch Lid {} guid {} ({}):\n  Lid  Out   Destination\n       Port     Info ",
        top.0,
        own_lid(fabric, lids, switch),
        node.guid,
        print_description(node)
    );
    let mut count = 0;
    for (lid, egress, owner) in entries(tables, owners, switch, node) {
        let range = owner.and_then(|at| lids.range(at)).unwrap_or(LidRange::single(lid));
        let _ = write!(text, "{:#06x} {egress:03} : ", lid.0);
        let _ = match owner {
            Some(at) if lid == range.base => writeln!(text, "({})", owner_name(fabric, at)),
            Some(at) => writeln!(
                text,
                "(path #{} out of {}: portguid {})",
                lid.0 - range.base.0 + 1,
                range.lmc.lids(),
                fabric.port(at).map(|port| port.guid).unwrap_or_default()
            ),
            None => writeln!(text, "(unknown node and type)"),
        };
        count += 1;
    }
    let _ = writeln!(text, "{count} valid lids dumped ");
}

/// Entries that lead to a port of the switch.
fn entries<'a>(
    tables: &'a Tables,
    owners: &'a [Option<PortRef>],
    switch: SwitchIdx,
    node: &Node,
) -> impl Iterator<Item = (Lid, u8, Option<PortRef>)> + use<'a> {
    let count = node.port_count();
    owners
        .iter()
        .zip(0_u16..)
        .map(move |(&owner, lid)| (Lid(lid), tables.get(switch, Lid(lid)), owner))
        .filter(move |&(_, egress, _)| egress <= count)
}

fn own_lid(fabric: &Fabric, lids: &Lids, switch: SwitchIdx) -> Lid {
    let node = fabric.switches()[switch];
    let port = PortNum::MANAGEMENT;
    lids.base(PortRef { node, port }).unwrap_or(Lid::NONE)
}

fn owner_name(fabric: &Fabric, at: PortRef) -> String {
    let node = fabric.node(at.node);
    let guid = fabric.port(at).map(|port| port.guid).unwrap_or_default();
    format!(
        "{} portguid {guid}: '{}'",
        kind_name(node.kind),
        print_description(node)
    )
}

/// OpenSM's and infiniband-diags' word.
pub(super) const fn kind_name(kind: NodeKind) -> &'static str {
    match kind {
        NodeKind::Ca => "Channel Adapter",
        NodeKind::Switch => "Switch",
        NodeKind::Router => "Router",
    }
}

/// A description that stays on its line.
pub(super) fn print_description(node: &Node) -> String {
    node.description.chars().map(printable).collect()
}
