//! Service levels and lanes, read back: what `lanes` writes and OpenSM dumps.

use std::collections::BTreeMap;

use selvedge_fabric::{Fabric, SwitchIdx};
use selvedge_plan::{ServiceLevels, SlToVl};
use selvedge_types::{Guid, Lid, PortNum, Sl, Vl};

use super::DumpError;
use crate::Place;
use crate::text::{leading_number, shorten};

/// Reads `0xDLID SL` lines; LIDs without a line have SL 0.
pub fn read_service_levels(file: &str, bytes: &[u8]) -> Result<ServiceLevels, DumpError> {
    let mut levels = Vec::new();
    for (place, line) in lines(file, &String::from_utf8_lossy(bytes)) {
        let Some((lid, sl)) = lid_and_level(line) else {
            return Err(DumpError::Syntax {
                place,
                what: shorten(line),
                want: "a LID and its service level 0-15, as in: 0x0004 2",
            });
        };
        if levels.len() <= lid.index() {
            levels.resize(lid.index() + 1, Sl::default());
        }
        levels[lid.index()] = sl;
    }
    Ok(ServiceLevels::PerDestination(levels))
}

fn lid_and_level(line: &str) -> Option<(Lid, Sl)> {
    let mut words = line.split_ascii_whitespace();
    let mut number = || {
        leading_number(words.next()?)
            .filter(|(_, rest)| rest.is_empty())
            .map(|(n, _)| n)
    };
    let (lid, sl) = (number()?, number()?);
    let lid = Lid(u16::try_from(lid).ok()?);
    let is_pair = words.next().is_none() && lid <= Lid::UNICAST_MAX;
    Sl::new(u8::try_from(sl).ok()?).filter(|_| is_pair).map(|sl| (lid, sl))
}

/// What a table begins with, before the GUID of its port.
const KINDS: [&str; 3] = ["Switch ", "Channel Adapter ", "Router "];

/// Reads `opensm-sl2vl.dump`. Rows that most switches share become the default; tables of switches that the fabric does
/// not have, and those of hosts, are passed over: no packet is forwarded by them.
pub fn read_sl_to_vl(file: &str, bytes: &[u8], fabric: &Fabric) -> Result<SlToVl, DumpError> {
    let mut switch = None;
    let mut rows: BTreeMap<(SwitchIdx, PortNum, PortNum), [Vl; Sl::COUNT]> = BTreeMap::new();
    for (place, line) in lines(file, &String::from_utf8_lossy(bytes)) {
        let syntax = |want| DumpError::Syntax {
            place: place.clone(),
            what: shorten(line),
            want,
        };
        if let Some((kind, rest)) = KINDS.iter().find_map(|kind| Some((kind, line.strip_prefix(kind)?))) {
            let guid = rest.split([',', ' ']).next().and_then(|guid| guid.parse::<Guid>().ok());
            let guid = guid.ok_or_else(|| syntax("a port, as in: Switch 0x0002c90000000001, base LID 1, \"name\""))?;
            let node = fabric.find_port(guid).map(|at| at.node).or_else(|| fabric.find(guid));
            switch = node
                .filter(|_| *kind == KINDS[0])
                .and_then(|node| fabric.switch_index(node));
            continue;
        }
        let (ingress, egress, lanes) =
            row(line).ok_or_else(|| syntax("ports and 16 lanes, as in: 0 1 : 0 1 2 3 0 1 2 3 0 1 2 3 0 1 2 3"))?;
        if let Some(switch) = switch {
            rows.insert((switch, ingress, egress), lanes);
        }
    }
    let mut count: BTreeMap<[Vl; Sl::COUNT], usize> = BTreeMap::new();
    rows.values().for_each(|row| *count.entry(*row).or_default() += 1);
    let most = count.iter().max_by_key(|(_, rows)| **rows).map(|(row, _)| *row);
    let default = most.unwrap_or(SlToVl::default().default);
    rows.retain(|_, row| *row != default);
    Ok(SlToVl {
        default,
        exceptions: rows,
    })
}

fn row(line: &str) -> Option<(PortNum, PortNum, [Vl; Sl::COUNT])> {
    let (ports, lanes) = line.split_once(':')?;
    let mut ports = ports.split_ascii_whitespace().map(|n| PortNum::new(n.parse().ok()?));
    let (ingress, egress) = (ports.next()??, ports.next()??);
    let lanes: Vec<Vl> = lanes
        .split_ascii_whitespace()
        .map(|n| Vl::new(n.parse().ok()?))
        .collect::<Option<_>>()?;
    let lanes = lanes.try_into().ok()?;
    ports.next().is_none().then_some((ingress, egress, lanes))
}

/// Lines with their places, without comments and blank ones.
fn lines<'a>(file: &'a str, text: &'a str) -> impl Iterator<Item = (Place, &'a str)> {
    let all = text.lines().map(str::trim).enumerate();
    let meant = all.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    meant.map(move |(at, line)| {
        let place = Place {
            file: file.to_owned(),
            line: at + 1,
        };
        (place, line)
    })
}
