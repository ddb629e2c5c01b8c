//! Stored state of the plan in force, without LIDs: a TOML file that people can read.

use std::collections::BTreeMap;

use selvedge_types::{Guid, Lid, LidRange, Lmc, SecretKey};
use serde::Deserialize;

use crate::error::PlanStateError;

/// The format that this version reads and writes.
const FORMAT: u32 = 1;
/// Highest data lane; lane 15 is for management. Source: IBA vol 1 §3.5.7.
const LANE_MAX: u8 = 14;

/// Stored state of the plan in force, without LIDs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlanState {
    /// No plan of a generation above this one has been sent.
    pub generation: u64,
    /// Lane of the LIDs behind each switch, by the switch's GUID. Hosts use it in their connections.
    pub lanes: BTreeMap<Guid, u8>,
    /// Service levels of the LIDs of ports, in order, by port GUID, if they differ from the lane of their switch.
    pub levels: BTreeMap<Guid, Vec<u8>>,
    /// Last known LIDs of ports, by port GUID, in two cases: the port has not been seen to accept the LIDs in guid2lid,
    /// or guid2lid has no LIDs for it, because another port was seen with its LIDs.
    pub lids_before: BTreeMap<Guid, LidRange>,
    /// LIDs of ports that were assumed to belong to another fabric, by port GUID.
    pub lids_aside: BTreeMap<Guid, LidRange>,
    /// Engines of the policy, in order.
    pub engines: Vec<String>,
    /// Number of lanes that the routes use; 1: independent of lanes, 0: not known.
    pub lane_count: u8,
    /// Number of lanes that routes were allowed to use under these engines; 0: not known.
    pub lanes_wanted: u8,
    /// M_Keys that ports may hold, newest first.
    pub m_keys: Vec<SecretKey>,
    /// Retired M_Keys, newest first.
    pub m_keys_retired: Vec<SecretKey>,
    /// SM_Keys that other managers may show, newest first.
    pub sm_keys: Vec<SecretKey>,
}

/// The contents of the TOML file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(rename = "format")]
    _format: u32,
    generation: u64,
    #[serde(default)]
    engines: Vec<String>,
    #[serde(default)]
    lane_count: u8,
    #[serde(default)]
    lanes_wanted: u8,
    #[serde(default)]
    lanes: BTreeMap<String, u8>,
    #[serde(default)]
    levels: BTreeMap<String, Vec<u8>>,
    #[serde(default)]
    lids_before: BTreeMap<String, [u16; 2]>,
    #[serde(default)]
    lids_aside: BTreeMap<String, [u16; 2]>,
    // Values of any type: the message of the TOML reader would quote a wrong one.
    m_keys: Option<toml::Value>,
    m_keys_retired: Option<toml::Value>,
    sm_keys: Option<toml::Value>,
}

/// Only the first key, because all others may have another meaning in another format.
#[derive(Deserialize)]
struct Head {
    format: u32,
}

/// Reads plan state.
pub fn parse_plan_state(bytes: &[u8]) -> Result<PlanState, PlanStateError> {
    let text = std::str::from_utf8(bytes).map_err(|_| PlanStateError::NoText)?;
    let toml = |error: toml::de::Error| PlanStateError::Toml {
        what: without_text(&error),
    };
    let head: Head = toml::from_str(text).map_err(toml)?;
    if head.format != FORMAT {
        return Err(PlanStateError::Format {
            found: head.format,
            known: FORMAT,
        });
    }
    let file: File = toml::from_str(text).map_err(toml)?;
    let lanes: Result<_, _> = file.lanes.into_iter().map(|(name, lane)| entry(name, lane)).collect();
    let of_ports = file.levels.into_iter();
    let levels: Result<_, _> = of_ports.map(|(name, levels)| of_port(name, levels)).collect();
    let ranges = |of: BTreeMap<String, [u16; 2]>| of.into_iter().map(|(name, lids)| range(name, lids)).collect();
    let lids_before: Result<_, _> = ranges(file.lids_before);
    let lids_aside: Result<_, _> = ranges(file.lids_aside);
    Ok(PlanState {
        generation: file.generation,
        lanes: lanes?,
        levels: levels?,
        lids_before: lids_before?,
        lids_aside: lids_aside?,
        engines: file.engines,
        lane_count: file.lane_count,
        lanes_wanted: file.lanes_wanted,
        m_keys: keys(file.m_keys.as_ref())?,
        m_keys_retired: keys(file.m_keys_retired.as_ref())?,
        sm_keys: keys(file.sm_keys.as_ref())?,
    })
}

/// Returns the place and the message of an error, without the line that it quotes: it may hold a key.
fn without_text(error: &toml::de::Error) -> String {
    let text = error.to_string();
    format!("{}: {}", text.lines().next().unwrap_or_default(), error.message())
}

/// Returns keys: `0x` and 16 hexadecimal digits each.
fn keys(value: Option<&toml::Value>) -> Result<Vec<SecretKey>, PlanStateError> {
    let Some(value) = value else {
        return Ok(Vec::new());
    };
    let key = |value: &toml::Value| {
        let digits = value.as_str()?.strip_prefix("0x").filter(|digits| digits.len() == 16)?;
        // The parser of the standard library would accept a sign.
        let is_hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        let key = is_hex.then(|| u64::from_str_radix(digits, 16).ok()).flatten()?;
        Some(SecretKey::new(key))
    };
    let keys = value.as_array().and_then(|keys| keys.iter().map(key).collect());
    keys.ok_or(PlanStateError::Key)
}

/// Returns the range from first to last LID of a port: aligned, with a length that an LMC allows.
fn range(name: String, [first, last]: [u16; 2]) -> Result<(Guid, LidRange), PlanStateError> {
    let guid: Guid = name.parse().map_err(|_| PlanStateError::Guid { found: name })?;
    let mut ranges = (0..=7)
        .filter_map(Lmc::new)
        .map(|lmc| LidRange { base: Lid(first), lmc });
    let is_right = |range: &LidRange| {
        range.base.is_unicast() && first.is_multiple_of(range.lmc.lids()) && range.last() == Lid(last)
    };
    let range = ranges.find(is_right);
    let range = range.ok_or(PlanStateError::Lids { guid, first, last })?;
    Ok((guid, range))
}

/// Returns a service level for each LID of a port.
fn of_port(name: String, levels: Vec<u8>) -> Result<(Guid, Vec<u8>), PlanStateError> {
    let first = levels.iter().copied().find(|level| *level > LANE_MAX);
    let (guid, _) = entry(name, first.unwrap_or(0))?;
    Ok((guid, levels))
}

fn entry(name: String, lane: u8) -> Result<(Guid, u8), PlanStateError> {
    let guid: Guid = name.parse().map_err(|_| PlanStateError::Guid { found: name })?;
    if lane > LANE_MAX {
        return Err(PlanStateError::Lane { guid, lane });
    }
    Ok((guid, lane))
}

/// Writes plan state, switches in ascending order of GUID.
#[must_use]
pub fn print_plan_state(state: &PlanState) -> String {
    let PlanState {
        generation,
        lanes,
        levels,
        lids_before,
        lids_aside,
        engines,
        lane_count,
        lanes_wanted,
        m_keys,
        m_keys_retired,
        sm_keys,
    } = state;
    let mut text = format!(
        "# Written by selvedge beside guid2lid: what a restart must not forget of the plan in force.\n\
         format = {FORMAT}\n\
         # No plan of a generation above this one has been sent.\n\
         generation = {generation}\n"
    );
    if !engines.is_empty() {
        // As strings of TOML, because engine names are not checked here.
        let names = toml::Value::from(engines.clone());
        text.push_str(&format!(
            "# The configured engines. If others are configured, the next start plans anew.\nengines = {names}\n"
        ));
    }
    if *lanes_wanted > 0 {
        text.push_str(&format!(
            "# Lanes that routes might rely on. If another number is configured, the next start plans anew.\n\
             lanes_wanted = {lanes_wanted}\n"
        ));
    }
    if *lane_count > 0 {
        text.push_str(&format!(
            "# Lanes that the routes rely on, with the service levels below; 1: on none.\nlane_count = {lane_count}\n"
        ));
    }
    put_keys(&mut text, "m_keys", m_keys, "M_Keys that ports may hold");
    let retired = "Former M_Keys that no port in sight held";
    put_keys(&mut text, "m_keys_retired", m_keys_retired, retired);
    put_keys(&mut text, "sm_keys", sm_keys, "SM_Keys that other managers may show");
    if !lanes.is_empty() {
        text.push_str("\n# Lane of the LIDs behind each switch, by its GUID.\n[lanes]\n");
        for (guid, lane) in lanes {
            text.push_str(&format!("\"{guid}\" = {lane}\n"));
        }
    }
    if !levels.is_empty() {
        text.push_str("\n# Service levels of the LIDs of ports that have others, by port GUID.\n[levels]\n");
        for (guid, levels) in levels {
            text.push_str(&format!("\"{guid}\" = {levels:?}\n"));
        }
    }
    put_ranges(
        &mut text,
        "# First and last LID of ports that have not taken those in guid2lid yet, or whose LIDs another port has, by \
         port GUID.\n[lids_before]\n",
        lids_before,
    );
    put_ranges(
        &mut text,
        "# First and last LID of ports that seemed to be of another fabric. They count again when one of these \
         ports is found.\n[lids_aside]\n",
        lids_aside,
    );
    text
}

fn put_keys(text: &mut String, name: &str, keys: &[SecretKey], what: &str) {
    if !keys.is_empty() {
        let keys: Vec<String> = keys.iter().map(|key| format!("\"{:#018x}\"", key.expose())).collect();
        text.push_str(&format!("# {what}, newest first.\n{name} = [{}]\n", keys.join(", ")));
    }
}

fn put_ranges(text: &mut String, title: &str, of: &BTreeMap<Guid, LidRange>) {
    if !of.is_empty() {
        text.push('\n');
        text.push_str(title);
    }
    for (guid, range) in of {
        text.push_str(&format!("\"{guid}\" = [{}, {}]\n", range.base.0, range.last().0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_is_read() {
        let check = |lanes: &[(u64, u8)], lids: &[(u64, u16, u8)]| {
            let range = |base, lmc| LidRange {
                base: Lid(base),
                lmc: Lmc::new(lmc).unwrap(),
            };
            let lids: BTreeMap<Guid, LidRange> = lids
                .iter()
                .map(|&(guid, base, lmc)| (Guid(guid), range(base, lmc)))
                .collect();
            let state = PlanState {
                generation: u64::from(u32::MAX) + 9,
                lanes: lanes.iter().map(|&(guid, lane)| (Guid(guid), lane)).collect(),
                levels: lanes.iter().map(|&(guid, lane)| (Guid(guid), vec![lane, 0])).collect(),
                lids_before: lids.clone(),
                lids_aside: lids.clone().into_iter().take(1).collect(),
                engines: lanes.iter().map(|(guid, _)| format!("en\"gine {guid}")).collect(),
                lane_count: lanes.len() as u8,
                lanes_wanted: lids.len() as u8,
                m_keys: lids.keys().map(|guid| SecretKey::new(guid.0)).collect(),
                m_keys_retired: lids.keys().map(|guid| SecretKey::new(guid.0 + 1)).take(1).collect(),
                sm_keys: lids
                    .keys()
                    .map(|guid| SecretKey::new(u64::MAX - guid.0))
                    .take(1)
                    .collect(),
            };
            assert_eq!(parse_plan_state(print_plan_state(&state).as_bytes()), Ok(state));
        };
        check(&[], &[]);
        check(&[(1, 0), (0xffff_ffff_ffff_fffe, 14)], &[(7, 5, 0), (9, 0xBF80, 6)]);
    }

    #[test]
    fn what_is_not_ours_is_refused() {
        let check = |text: &[u8], want: &str| {
            let error = parse_plan_state(text).unwrap_err().to_string();
            assert!(error.contains(want), "{error:?} has no {want:?}");
        };
        check(b"\xff", "not UTF-8 text");
        check(b"", "missing field `format`");
        check(b"format = 1", "missing field `generation`");
        check(b"format = 2\nnew = 1", "format 2");
        check(b"format = 1\ngeneration = -1", "line 2");
        check(b"format = 1\ngeneration = 1\nother = 1", "unknown field `other`");
        check(b"format = 1\ngeneration = 1\n[lanes]\n\"0x1\" = 15", "has lane 15");
        check(b"format = 1\ngeneration = 1\n[lanes]\nhere = 1", "'here' is no GUID");
        check(
            b"format = 1\ngeneration = 1\n[levels]\n\"0x1\" = [0, 15]",
            "has lane 15",
        );
        let refused = |keys: &str| {
            let text = format!("format = 1\ngeneration = 1\nm_keys = {keys}");
            let error = parse_plan_state(text.as_bytes()).unwrap_err().to_string();
            assert!(!error.contains("1234"), "{error}");
        };
        for keys in [
            "[\"0x1234\"]",
            "[1234]",
            "[\"0x+000000000001234\"]",
            "\"1234\"",
            "[\"1234",
            "1234z",
        ] {
            refused(keys);
        }
        let lids = |range: &str| format!("format = 1\ngeneration = 1\n[lids_before]\n\"0x1\" = {range}");
        for range in ["[0, 0]", "[5, 6]", "[4, 6]", "[6, 5]", "[49152, 49152]"] {
            check(lids(range).as_bytes(), "are no LIDs of one port");
        }
    }
}
