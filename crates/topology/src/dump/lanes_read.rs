//! Reads service levels and lanes, as written by `lanes` and dumped by OpenSM.

use std::collections::BTreeMap;

use selvedge_fabric::{Fabric, PortRef, SwitchIdx};
use selvedge_plan::{Lids, ServiceLevels, SlToVl};
use selvedge_types::{Lid, PortNum, Sl, Vl};

use super::row::{Row, Words};
use super::{DumpError, DumpWarning, first_names};
use crate::Place;
use crate::text::{leading_guid, leading_number, shorten};

/// Reads `0xDLID SL` lines. Every LID in use needs one, because nothing else states its service level.
pub fn read_service_levels(file: &str, bytes: &[u8], fabric: &Fabric, lids: &Lids) -> Result<ServiceLevels, DumpError> {
    let mut stated: BTreeMap<Lid, Row<Sl>> = BTreeMap::new();
    for (place, line) in lines(file, &String::from_utf8_lossy(bytes)) {
        let Some((lid, sl)) = lid_and_level(line) else {
            return Err(DumpError::Syntax {
                place,
                what: shorten(line),
                want: "a LID and its service level 0-15, as in: 0x0004 2",
            });
        };
        let first = stated.entry(lid).or_insert_with(|| Row::new(sl, place.line));
        first.agrees(&sl, file, place.line, |there| Words {
            what: format!("the service level of LID {lid}"),
            here: sl.get().to_string(),
            there: there.get().to_string(),
        })?;
    }
    let missing: Vec<_> = lids.by_lid().filter(|(lid, _)| !stated.contains_key(lid)).collect();
    if missing.is_empty() {
        let top = stated.last_key_value().map_or(0, |(lid, _)| lid.index() + 1);
        let mut levels = vec![Sl::default(); top];
        for (lid, row) in &stated {
            levels[lid.index()] = row.value;
        }
        return Ok(ServiceLevels::PerDestination(levels));
    }
    Err(DumpError::NoLevels {
        file: file.to_owned(),
        count: missing.len(),
        names: first_names(
            missing
                .iter()
                .map(|&(lid, at)| format!("LID {lid} of {}", fabric.port_name(at))),
        ),
    })
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

/// The beginning of a table, before the GUID of its port.
const KINDS: [&str; 3] = ["Switch ", "Channel Adapter ", "Router "];

/// The SL2VL row of each (switch, ingress, egress).
type Rows = BTreeMap<(SwitchIdx, PortNum, PortNum), Row<[Vl; Sl::COUNT]>>;

/// Reads `opensm-sl2vl.dump`. Every pair of ports with a link needs a row, because the file has no default for a
/// missing row. Tables of switches outside the fabric are dropped with a warning. Tables of hosts are skipped, as hosts
/// forward no packets.
pub fn read_sl_to_vl(file: &str, bytes: &[u8], fabric: &Fabric) -> Result<(SlToVl, Vec<DumpWarning>), DumpError> {
    let (mut switch, mut rows, mut warnings) = (None, Rows::new(), Vec::new());
    for (place, line) in lines(file, &String::from_utf8_lossy(bytes)) {
        let syntax = |want| DumpError::Syntax {
            place: place.clone(),
            what: shorten(line),
            want,
        };
        if let Some((kind, rest)) = KINDS.iter().find_map(|kind| Some((kind, line.strip_prefix(kind)?))) {
            let guid = leading_guid(rest)
                .ok_or_else(|| syntax("a port, as in: Switch 0x0002c90000000001, base LID 1, \"name\""))?;
            let node = fabric.find_port(guid).map(|at| at.node).or_else(|| fabric.find(guid));
            let is_switch = *kind == KINDS[0];
            switch = node.filter(|_| is_switch).and_then(|node| fabric.switch_index(node));
            if is_switch && switch.is_none() {
                warnings.push(DumpWarning::UnknownSwitch { place, guid });
            }
            continue;
        }
        let (ingress, egress, lanes) =
            row(line).ok_or_else(|| syntax("ports and 16 lanes, as in: 0 1 : 0 1 2 3 0 1 2 3 0 1 2 3 0 1 2 3"))?;
        if let Some(switch) = switch {
            let key = (switch, ingress, egress);
            let first = rows.entry(key).or_insert_with(|| Row::new(lanes, place.line));
            first.agrees(&lanes, file, place.line, |there| {
                let node = fabric.switch(switch);
                let (ingress, egress) = (ingress.get(), egress.get());
                Words {
                    what: format!(
                        "the row {ingress} {egress} of switch {} \"{}\"",
                        node.guid, node.description
                    ),
                    here: print_lanes(&lanes),
                    there: print_lanes(there),
                }
            })?;
        }
    }
    check_rows(file, fabric, &rows, &warnings)?;
    // The most frequent row becomes the default, so that only other rows take memory.
    let mut count: BTreeMap<[Vl; Sl::COUNT], usize> = BTreeMap::new();
    rows.values().for_each(|row| *count.entry(row.value).or_default() += 1);
    let most = count.iter().max_by_key(|(_, rows)| **rows).map(|(row, _)| *row);
    let default = most.unwrap_or(SlToVl::default().default);
    let others = rows.into_iter().filter(|(_, row)| row.value != default);
    let map = SlToVl {
        default,
        exceptions: others.map(|(key, row)| (key, row.value)).collect(),
    };
    Ok((map, warnings))
}

/// Fails if a packet can pass a switch by two ports without a row. Port 0 sends packets, too.
fn check_rows(file: &str, fabric: &Fabric, rows: &Rows, warnings: &[DumpWarning]) -> Result<(), DumpError> {
    let (mut needed, mut missing, mut names) = (0, 0, Vec::new());
    for (switch, &node) in fabric.switches().iter_enumerated() {
        let is_up = |port: &PortNum| fabric.link_is_up(PortRef { node, port: *port });
        let ports = fabric.node(node).external_ports().map(|(port, _)| port);
        let up: Vec<PortNum> = ports.filter(is_up).collect();
        let before = missing;
        for &egress in &up {
            let others = up.iter().filter(|ingress| **ingress != egress);
            for &ingress in others.chain(&[PortNum::MANAGEMENT]) {
                needed += 1;
                missing += usize::from(!rows.contains_key(&(switch, ingress, egress)));
            }
        }
        if missing > before {
            let node = fabric.node(node);
            names.push(format!("{} \"{}\" ({})", node.guid, node.description, missing - before));
        }
    }
    if missing == 0 {
        return Ok(());
    }
    let foreign = warnings.iter().filter_map(|warning| match warning {
        DumpWarning::UnknownSwitch { guid, .. } => Some(guid.to_string()),
        _ => None,
    });
    let foreign: Vec<String> = foreign.collect();
    Err(DumpError::NoLanes {
        file: file.to_owned(),
        missing,
        needed,
        names: first_names(names.into_iter()),
        foreign: match foreign.len() {
            0 => String::new(),
            _ => format!("; the fabric has no switch {}", first_names(foreign.into_iter())),
        },
    })
}

/// Returns the lanes of service levels 0 to 15, separated by commas.
fn print_lanes(lanes: &[Vl; Sl::COUNT]) -> String {
    let lanes: Vec<String> = lanes.iter().map(|lane| lane.get().to_string()).collect();
    lanes.join(",")
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

/// Returns lines with their places, without comments and blank lines.
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
