//! What is kept of the plan in force besides LIDs: a TOML file that people can read.

use std::collections::BTreeMap;

use selvedge_types::Guid;
use serde::Deserialize;

use crate::error::PlanStateError;

/// The format this version reads and writes.
const FORMAT: u32 = 1;
/// Lanes for data are 0 to 14; 15 is that of management. Source: IBA vol 1 §3.5.7.
const LANE_MAX: u8 = 14;

/// What is kept of the plan in force besides LIDs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlanState {
    /// No plan of a generation above this one has been sent.
    pub generation: u64,
    /// Lane of the LIDs behind each switch, by the switch's GUID: hosts hold it in their connections.
    pub lanes: BTreeMap<Guid, u8>,
}

/// The file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(rename = "format")]
    _format: u32,
    generation: u64,
    #[serde(default)]
    lanes: BTreeMap<String, u8>,
}

/// Only the first key: all else may mean something else in another format.
#[derive(Deserialize)]
struct Head {
    format: u32,
}

/// Reads plan state.
pub fn parse_plan_state(bytes: &[u8]) -> Result<PlanState, PlanStateError> {
    let text = std::str::from_utf8(bytes).map_err(|_| PlanStateError::NoText)?;
    let toml = |error: toml::de::Error| PlanStateError::Toml {
        what: error.to_string().trim_end().to_owned(),
    };
    let head: Head = toml::from_str(text).map_err(toml)?;
    if head.format != FORMAT {
        return Err(PlanStateError::Format {
            found: head.format,
            known: FORMAT,
        });
    }
    let File { generation, lanes, .. } = toml::from_str(text).map_err(toml)?;
    let lanes: Result<_, _> = lanes.into_iter().map(|(name, lane)| entry(name, lane)).collect();
    Ok(PlanState {
        generation,
        lanes: lanes?,
    })
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
    let PlanState { generation, lanes } = state;
    let mut text = format!(
        "# Written by selvedge beside guid2lid: what a restart must not forget of the plan in force.\n\
         format = {FORMAT}\n\
         # No plan of a generation above this one has been sent.\n\
         generation = {generation}\n"
    );
    if !lanes.is_empty() {
        text.push_str("\n# Lane of the LIDs behind each switch, by its GUID.\n[lanes]\n");
        for (guid, lane) in lanes {
            text.push_str(&format!("\"{guid}\" = {lane}\n"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_is_read() {
        let check = |lanes: &[(u64, u8)]| {
            let state = PlanState {
                generation: u64::from(u32::MAX) + 9,
                lanes: lanes.iter().map(|&(guid, lane)| (Guid(guid), lane)).collect(),
            };
            assert_eq!(parse_plan_state(print_plan_state(&state).as_bytes()), Ok(state));
        };
        check(&[]);
        check(&[(1, 0), (0xffff_ffff_ffff_fffe, 14)]);
    }

    #[test]
    fn what_is_not_ours_is_refused() {
        let check = |text: &[u8], want: &str| {
            let error = parse_plan_state(text).unwrap_err().to_string();
            assert!(error.contains(want), "{error:?} has no {want:?}");
        };
        check(b"\xff", "no text");
        check(b"", "missing field `format`");
        check(b"format = 1", "missing field `generation`");
        check(b"format = 2\nnew = 1", "format 2");
        check(b"format = 1\ngeneration = -1", "line 2");
        check(b"format = 1\ngeneration = 1\nother = 1", "unknown field `other`");
        check(b"format = 1\ngeneration = 1\n[lanes]\n\"0x1\" = 15", "has lane 15");
        check(b"format = 1\ngeneration = 1\n[lanes]\nhere = 1", "'here' is no GUID");
    }
}
