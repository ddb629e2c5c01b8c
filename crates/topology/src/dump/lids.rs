//! LIDs by port GUID: OpenSM's `guid2lid`.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use selvedge_fabric::Fabric;
use selvedge_plan::{Lids, SharedLid, shared_lids};
use selvedge_types::{Guid, Lid, LidRange, Lmc};

use super::row::{Row, Words};
use super::{DumpError, DumpWarning, first_names};
use crate::Place;
use crate::text::{leading_number, shorten};

/// LIDs by port GUID from a guid2lid file, with their line numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KnownLids {
    file: String,
    rows: BTreeMap<Guid, Row<LidRange>>,
}

/// Reads lines of the form `0xguid 0xmin 0xmax`, one per port, with blank lines between them.
pub fn read_guid2lid(file: &str, bytes: &[u8]) -> Result<KnownLids, DumpError> {
    let mut rows: BTreeMap<Guid, Row<LidRange>> = BTreeMap::new();
    for (at, line) in String::from_utf8_lossy(bytes).lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let place = Place {
            file: file.to_owned(),
            line: at + 1,
        };
        let Some((guid, first, last)) = guid_and_lids(line) else {
            return Err(DumpError::Syntax {
                place,
                what: shorten(line),
                want: "a port GUID and its lowest and highest LID, as in: 0x0002c90000000001 0x0004 0x0007",
            });
        };
        let Some(range) = range(first, last) else {
            return Err(DumpError::BadRange { place, first, last });
        };
        let stated = rows.entry(guid).or_insert_with(|| Row::new(range, at + 1));
        stated.agrees(&range, file, at + 1, |there| Words {
            what: format!("the LID range of {guid}"),
            here: span(&range),
            there: span(there),
        })?;
    }
    let file = file.to_owned();
    Ok(KnownLids { file, rows })
}

impl KnownLids {
    /// Returns the values of `Policy::known_lids`.
    #[must_use]
    pub fn ranges(&self) -> BTreeMap<Guid, LidRange> {
        self.rows.iter().map(|(&guid, row)| (guid, row.value)).collect()
    }

    /// Returns the pairs of GUIDs that share a LID, ordered by LID.
    #[must_use]
    pub fn conflicts(&self) -> Vec<DumpWarning> {
        let line = |guid: Guid| self.rows.get(&guid).map_or(0, |row| row.line as usize);
        let warning = |shared: SharedLid| {
            let mut ends = [shared.first, shared.second];
            ends.sort_by_key(|&guid| line(guid));
            let [first, second] = ends;
            DumpWarning::OneLid {
                place: Place {
                    file: self.file.clone(),
                    line: line(second),
                },
                lid: shared.lid,
                first,
                first_line: line(first),
                second,
            }
        };
        let ranges = self.rows.iter().map(|(&guid, row)| (guid, row.value));
        shared_lids(ranges).into_iter().map(warning).collect()
    }

    /// Returns one warning about all GUIDs that no port of the fabric has.
    #[must_use]
    pub fn strangers(&self, fabric: &Fabric) -> Option<DumpWarning> {
        let unknown = self.rows.iter().filter(|(guid, _)| fabric.find_port(**guid).is_none());
        let names: Vec<String> = unknown
            .map(|(&guid, row)| {
                let node = fabric.find(guid).map(|node| &fabric.node(node).description);
                let node = node.map_or_else(String::new, |name| format!(", the node GUID of \"{name}\""));
                format!("{guid} (line {}, LID {}{node})", row.line, span(&row.value))
            })
            .collect();
        (!names.is_empty()).then(|| DumpWarning::NoSuchPorts {
            file: self.file.clone(),
            count: names.len(),
            names: first_names(names.into_iter()),
        })
    }

    /// Returns the LIDs of the fabric's ports, with all warnings. If ports share a LID, the lowest GUID gets it.
    #[must_use]
    pub fn on(&self, fabric: &Fabric) -> (Lids, Vec<DumpWarning>) {
        let mut lids = Lids::new();
        for (&guid, row) in &self.rows {
            if let Some(at) = fabric.find_port(guid) {
                // The conflict is among the warnings.
                let _ = lids.insert(at, row.value);
            }
        }
        let mut warnings = self.conflicts();
        warnings.extend(self.strangers(fabric));
        (lids, warnings)
    }
}

/// Returns a range as `4`, or as `4-7`.
fn span(range: &LidRange) -> String {
    match range.lmc.lids() {
        1 => range.base.to_string(),
        _ => format!("{}-{}", range.base, range.last()),
    }
}

fn guid_and_lids(line: &str) -> Option<(Guid, u64, u64)> {
    let mut words = line.split_ascii_whitespace();
    let guid = words.next()?.parse().ok()?;
    let mut number = || {
        leading_number(words.next()?)
            .filter(|(_, rest)| rest.is_empty())
            .map(|(n, _)| n)
    };
    let (first, last) = (number()?, number()?);
    words.next().is_none().then_some((guid, first, last))
}

/// Returns the range if it has `2^lmc` aligned unicast LIDs.
fn range(first: u64, last: u64) -> Option<LidRange> {
    let count = last.checked_sub(first)?.checked_add(1)?;
    let lmc = u8::try_from(count.trailing_zeros()).ok().and_then(Lmc::new)?;
    let range = LidRange {
        base: Lid(u16::try_from(first).ok()?),
        lmc,
    };
    let is_whole = count.is_power_of_two() && first.is_multiple_of(count);
    (is_whole && range.base.is_unicast() && last <= u64::from(Lid::UNICAST_MAX.0)).then_some(range)
}

/// Writes the text that [`read_guid2lid`] and OpenSM read, by port GUID.
#[must_use]
pub fn write_guid2lid(fabric: &Fabric, lids: &Lids) -> String {
    let by_guid: BTreeMap<Guid, LidRange> = lids
        .iter()
        .filter_map(|(at, range)| Some((fabric.port(at)?.guid, range)))
        .collect();
    let mut text = String::new();
    for (guid, range) in by_guid {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{guid} {:#06x} {:#06x}\n", range.base.0, range.last().0);
    }
    text
}

/// Returns the current LIDs of the ports of a fabric, as discovered or as in the topology file.
#[must_use]
pub fn seen_lids(fabric: &Fabric) -> (Lids, Vec<DumpWarning>) {
    let (mut lids, mut warnings) = (Lids::new(), Vec::new());
    for (at, port) in fabric
        .end_ports()
        .filter(|(_, port)| port.settings.lids.base != Lid::NONE)
    {
        if let Err(conflict) = lids.insert(at, port.settings.lids) {
            warnings.push(DumpWarning::refused("the fabric's own LIDs", fabric, at, conflict));
        }
    }
    (lids, warnings)
}
