//! LIDs by port GUID: OpenSM's `guid2lid`.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use selvedge_fabric::Fabric;
use selvedge_plan::Lids;
use selvedge_types::{Guid, Lid, LidRange, Lmc};

use super::{DumpError, DumpWarning};
use crate::Place;
use crate::text::{leading_number, shorten};

/// Reads `0xguid 0xmin 0xmax` lines, one per port, blank lines between; the same values as `Policy::known_lids`.
pub fn read_guid2lid(file: &str, bytes: &[u8]) -> Result<BTreeMap<Guid, LidRange>, DumpError> {
    let mut ranges = BTreeMap::new();
    let mut lines: BTreeMap<Guid, usize> = BTreeMap::new();
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
        if let Some(first_line) = lines.insert(guid, at + 1) {
            return Err(DumpError::RepeatedGuid {
                place,
                guid,
                first_line,
            });
        }
        ranges.insert(guid, range);
    }
    Ok(ranges)
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

/// `2^lmc` aligned unicast LIDs.
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

/// The text that [`read_guid2lid`] and OpenSM read, by port GUID.
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

/// The LIDs of a fabric's ports, by their GUIDs; GUIDs that the fabric does not have are passed over.
#[must_use]
pub fn lids_of(file: &str, fabric: &Fabric, ranges: &BTreeMap<Guid, LidRange>) -> (Lids, Vec<DumpWarning>) {
    let (mut lids, mut warnings) = (Lids::new(), Vec::new());
    for (&guid, &range) in ranges {
        let Some(at) = fabric.find_port(guid) else { continue };
        if let Err(source) = lids.insert(at, range) {
            warnings.push(DumpWarning::Refused {
                source_name: file.to_owned(),
                port: fabric.port_name(at),
                source,
            });
        }
    }
    (lids, warnings)
}

/// The LIDs that the ports of a fabric hold: what was discovered, or what the topology file says.
#[must_use]
pub fn seen_lids(fabric: &Fabric) -> (Lids, Vec<DumpWarning>) {
    let (mut lids, mut warnings) = (Lids::new(), Vec::new());
    for (at, port) in fabric
        .end_ports()
        .filter(|(_, port)| port.settings.lids.base != Lid::NONE)
    {
        if let Err(source) = lids.insert(at, port.settings.lids) {
            warnings.push(DumpWarning::Refused {
                source_name: "the fabric's own LIDs".to_owned(),
                port: fabric.port_name(at),
                source,
            });
        }
    }
    (lids, warnings)
}
