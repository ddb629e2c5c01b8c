//! Feeds a record to a new manager and compares.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use selvedge_planner::{DefaultJudge, Job, JobId};
use selvedge_sim::Par;
use selvedge_sm::{Command, Input, Output, Sm};
use selvedge_store::{DATA_MAX, read_file};

use super::bytes::Reader;
use super::digest;
use super::format::{Bad, Entry, Header, RecordedInput, take_entry};
use crate::{DaemonError, manager_config};

/// A record in memory.
#[derive(Clone, Debug)]
pub struct Replay {
    /// Configuration and state of the manager.
    pub header: Header,
    /// Inputs in their order.
    pub entries: Vec<Entry>,
    /// Present if the last entry is truncated, because the process was killed while writing it.
    pub torn: Option<Torn>,
}

/// The truncated end of a record, which replay skips.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Torn {
    /// Offset of the entry in the record, in bytes.
    pub at: usize,
    /// Length of the entry in bytes.
    pub bytes: usize,
}

/// Largest size in bytes of an incomplete last entry that a killed process may have left. It is larger than an entry
/// with a datagram. Entries with a policy or a list can be longer, but they are rare, so a longer remainder counts as
/// damage.
const REST_MAX: usize = 512;

impl Torn {
    /// Returns true if more is missing than the last entry: a length inside the record is wrong.
    #[must_use]
    pub const fn is_damage(&self) -> bool {
        self.bytes > REST_MAX
    }
}

impl std::fmt::Display for Torn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { at, bytes } = self;
        match self.is_damage() {
            true => write!(
                f,
                "the record is damaged at byte {at}: the last {bytes} bytes cannot be read and are left out; only the \
                 entries before them were read"
            ),
            false => write!(
                f,
                "the record ends inside an entry at byte {at}: {bytes} bytes are left out, and what came after is \
                 missing"
            ),
        }
    }
}

/// The first input to which the new manager reacted differently.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Position of the input, counted from 0.
    pub index: usize,
    /// The input as text.
    pub input: String,
    /// Number and digest of the recorded outputs.
    pub want: (u32, u64),
    /// Number and digest of the outputs now.
    pub have: (u32, u64),
}

/// Reads a record.
pub fn read(path: &Path) -> Result<Replay, DaemonError> {
    let bytes = read_file(path, DATA_MAX).map_err(|cause| DaemonError::BadRecord {
        path: path.to_owned(),
        what: cause.to_string(),
    })?;
    parse(&bytes).map_err(|what| DaemonError::BadRecord {
        path: path.to_owned(),
        what,
    })
}

fn parse(bytes: &[u8]) -> Result<Replay, String> {
    let mut reader = Reader::new(bytes);
    let header = Header::take(&mut reader)?;
    let (mut entries, mut torn) = (Vec::new(), None);
    loop {
        let at = bytes.len() - reader.left();
        match take_entry(&mut reader) {
            Ok(Some(entry)) => entries.push(entry),
            Ok(None) => break,
            Err(Bad::Cut) => {
                let bytes = bytes.len() - at;
                torn = Some(Torn { at, bytes });
                break;
            }
            Err(Bad::Kind(what)) => return Err(format!("{what} at byte {at}")),
        }
    }
    Ok(Replay { header, entries, torn })
}

/// Feeds `record` to a new manager. Returns the first difference, if there is one.
#[must_use]
pub fn replay(record: &Replay) -> Option<Difference> {
    let header = &record.header;
    let config = manager_config(header.mode, header.local, &header.settings);
    let sm = Sm::new(config, Arc::new(DefaultJudge::default()), header.state.clone());
    let mut sm = sm.remembering(Arc::clone(&header.known));
    let mut jobs: BTreeMap<JobId, Job> = BTreeMap::new();
    let mut out = Vec::new();
    for (index, entry) in record.entries.iter().enumerate() {
        // A result without a job in this replay: the manager already took another course.
        let Some(input) = input(&entry.input, &mut jobs) else {
            continue;
        };
        sm.handle(entry.time, input, &mut out);
        let have = (u32::try_from(out.len()).unwrap_or(u32::MAX), digest::outputs(&out));
        for output in out.drain(..) {
            if let Output::Compute(job) = output {
                jobs.insert(job.id, *job);
            }
        }
        if let Some(want) = entry.outputs.filter(|want| *want != have) {
            return Some(Difference {
                index,
                input: entry.input.to_string(),
                want,
                have,
            });
        }
    }
    None
}

fn input(recorded: &RecordedInput, jobs: &mut BTreeMap<JobId, Job>) -> Option<Input> {
    Some(match recorded {
        RecordedInput::Start => Input::Start,
        RecordedInput::Received(datagram) => Input::Received(*datagram),
        RecordedInput::Returned(datagram) => Input::Returned(*datagram),
        RecordedInput::Wake => Input::Wake,
        RecordedInput::Computed(id) => Input::Computed {
            id: *id,
            result: Box::new(jobs.remove(id)?.run(Par::Rayon)),
        },
        RecordedInput::Persisted(id) => Input::Persisted { id: *id },
        RecordedInput::NotPersisted(id) => Input::NotPersisted { id: *id },
        RecordedInput::Sweep => Input::Command(Command::Sweep),
        RecordedInput::Reregister => Input::Command(Command::Reregister),
        RecordedInput::ReregisterThese(ports) => Input::Command(Command::ReregisterThese(ports.clone())),
        RecordedInput::Doubt(ports) => Input::Command(Command::Doubt(ports.clone())),
        RecordedInput::Registered => Input::Command(Command::Registered),
        RecordedInput::Unproven => Input::Command(Command::Unproven),
        RecordedInput::HoldBack => Input::Command(Command::HoldBack),
        RecordedInput::Ready => Input::Command(Command::Ready),
        RecordedInput::Babbles(lid, port) => {
            let (lid, port) = (*lid, *port);
            Input::Command(Command::Babbles { lid, port })
        }
        RecordedInput::Told(told) => Input::Command(Command::Told(Box::new(told.clone()))),
        RecordedInput::Rebalance(asked) => Input::Command(Command::Rebalance(*asked)),
        RecordedInput::SetSmKey(key) => Input::Command(Command::SetSmKey(*key)),
        RecordedInput::OutOfService(list) => Input::Command(Command::OutOfService(Arc::clone(list))),
        RecordedInput::JobPartitions(list) => Input::Command(Command::JobPartitions(list.clone())),
        RecordedInput::SetPolicy(policy) => Input::Command(Command::SetPolicy(Arc::clone(policy))),
        RecordedInput::Aliases(ports) => Input::Aliases(ports.clone()),
        RecordedInput::Groups(groups) => Input::Groups(groups.clone()),
        RecordedInput::Forget(nodes, links) => Input::Command(Command::Forget {
            nodes: nodes.clone(),
            links: links.clone(),
        }),
        RecordedInput::Stop => Input::Command(Command::Stop),
        RecordedInput::Asked(_) | RecordedInput::Said(_) => return None,
    })
}

#[cfg(test)]
mod tests {
    use selvedge_sim::Time;
    use selvedge_sm::Asked;

    use super::super::format::put_input;
    use super::*;

    #[test]
    fn what_is_no_record_is_refused() {
        let check = |bytes: &[u8], want: &str| assert_eq!(parse(bytes).unwrap_err(), want);
        check(b"", "it does not begin with SLVREC05");
        check(b"SLVREC09", "it does not begin with SLVREC05");
        check(b"SLVREC05", "it ends inside its header");
        check(b"SLVREC05\x09", "mode 9 is unknown");
    }

    /// Commands without data: each has a tag of its own, is printed, and is carried out again.
    #[test]
    fn commands_come_back() {
        let check = |command: Command, want: &str| {
            let given = Input::Command(command);
            let mut bytes = Vec::new();
            put_input(&mut bytes, Time(7), &given);
            let entry = take_entry(&mut Reader::new(&bytes)).unwrap().unwrap();
            assert_eq!((entry.time, entry.input.to_string().as_str()), (Time(7), want));
            let again = input(&entry.input, &mut BTreeMap::new()).unwrap();
            assert_eq!(format!("{again:?}"), format!("{given:?}"));
            assert!(take_entry(&mut Reader::new(&bytes[..bytes.len() - 1])).is_err());
        };
        check(Command::Sweep, "command sweep");
        check(Command::Rebalance(Asked { at_once: false }), "command rebalance");
        check(Command::Rebalance(Asked { at_once: true }), "command rebalance at once");
        check(Command::Reregister, "command reregister");
        check(Command::Registered, "command registered");
        check(Command::Unproven, "command unproven");
        check(Command::HoldBack, "command hold back");
        check(Command::Ready, "command ready");
        check(Command::Stop, "command stop");
    }
}
