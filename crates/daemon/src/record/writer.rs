//! Writes the record of a running manager.

use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::path::Path;
use std::time::Duration;

use selvedge_planner::Severity;
use selvedge_sim::Time;
use selvedge_sm::{Input, Output};
use selvedge_wire::Datagram;

use super::digest;
use super::format::{Header, put_input, put_said};
use crate::files::{can_create_private, create_private};
use crate::{DaemonError, notice::Notice};

/// Writes a record until a limit is reached.
#[derive(Debug)]
pub struct Recorder {
    file: Option<BufWriter<File>>,
    bytes: u64,
    limit: u64,
    entry: Vec<u8>,
    /// Number of entries that are datagrams between hosts and the administrator.
    said: u64,
    /// Time of the last write to the file.
    flushed_at: Time,
    /// True if the buffer holds entries that were added since the last write.
    is_behind: bool,
    /// True if an event that an operator needs to see was added since the last write.
    is_urgent: bool,
}

/// Longest time between writes to the file. A killed process loses at most this, plus the longest wait of the manager's
/// thread: less than a second together.
const FLUSH: Duration = Duration::from_millis(500);

/// The part of a record that such datagrams may fill: a host that floods must not end the record of the manager.
const SAID_SHARE: u64 = 4;

impl Recorder {
    /// Default limit: two bring-ups of 5,832 hosts and some hours of operation.
    pub const LIMIT_BYTES: u64 = 256 << 20;

    /// Fails if no record can begin at the path. Changes nothing.
    pub fn check(path: &Path) -> Result<(), DaemonError> {
        can_create_private(path).map_err(|cause| DaemonError::Write {
            path: path.to_owned(),
            cause,
        })
    }

    /// Begins a record in a new file, which only its owner may read: it holds the M_Key, as every Set carries it.
    pub fn create(path: &Path, header: &Header, limit: u64) -> Result<Self, DaemonError> {
        let mut bytes = Vec::new();
        header.put(&mut bytes);
        let write = || -> io::Result<BufWriter<File>> {
            let mut file = BufWriter::with_capacity(1 << 16, create_private(path)?);
            file.write_all(&bytes)?;
            // Without its beginning, a record is unreadable.
            file.flush()?;
            Ok(file)
        };
        let file = write().map_err(|cause| DaemonError::Write {
            path: path.to_owned(),
            cause,
        })?;
        Ok(Self {
            file: Some(file),
            bytes: bytes.len() as u64,
            limit,
            entry: Vec::new(),
            said: 0,
            flushed_at: Time::ZERO,
            is_behind: false,
            is_urgent: false,
        })
    }

    /// Records an input that the manager is about to handle.
    pub(crate) fn input(&mut self, now: Time, input: &Input) {
        if self.file.is_some() {
            put_input(&mut self.entry, now, input);
        }
    }

    /// Records a datagram between a host and the administrator, for people to read. It has no outputs.
    pub(crate) fn said(&mut self, at: Time, is_ours: bool, datagram: &Datagram) -> Option<Notice> {
        if self.file.is_none() || self.said >= self.limit / SAID_SHARE {
            return None;
        }
        put_said(&mut self.entry, at, is_ours, datagram);
        let before = self.bytes;
        let notice = self.outputs(&[]);
        self.said += self.bytes - before;
        notice
    }

    /// Records the outputs. Returns a notice if the record ends here.
    pub(crate) fn outputs(&mut self, outputs: &[Output]) -> Option<Notice> {
        let file = self.file.as_mut()?;
        let count = u32::try_from(outputs.len()).unwrap_or(u32::MAX);
        self.entry.extend(count.to_le_bytes());
        self.entry.extend(digest::outputs(outputs).to_le_bytes());
        let result = file.write_all(&self.entry);
        self.bytes += self.entry.len() as u64;
        self.entry.clear();
        self.is_behind = true;
        self.is_urgent |= outputs.iter().any(is_fault);
        let notice = match result {
            Ok(()) if self.bytes < self.limit => return None,
            Ok(()) => match file.flush() {
                Ok(()) => Notice::RecordFull { bytes: self.bytes },
                Err(error) => Notice::RecordBroken(error),
            },
            Err(error) => Notice::RecordBroken(error),
        };
        self.file = None;
        Some(notice)
    }

    /// Writes the buffer to the file, if that is due.
    pub(crate) fn flush_due(&mut self, now: Time) -> Option<Notice> {
        let is_due = self.is_urgent || self.is_behind && now.since(self.flushed_at) >= FLUSH;
        if !is_due {
            return None;
        }
        self.flushed_at = now;
        self.flush()
    }

    /// Writes the entries that are still in memory.
    pub(crate) fn flush(&mut self) -> Option<Notice> {
        (self.is_behind, self.is_urgent) = (false, false);
        let error = self.file.as_mut()?.flush().err()?;
        self.file = None;
        Some(Notice::RecordBroken(error))
    }
}

impl Drop for Recorder {
    /// Writes the buffer also if the manager panics: the input that it handled matters most.
    fn drop(&mut self) {
        if let Some(file) = &mut self.file {
            let _ = file.write_all(&self.entry).and_then(|()| file.flush());
        }
    }
}

/// True for an event that an operator needs to see.
fn is_fault(output: &Output) -> bool {
    matches!(output, Output::Event(event) if event.severity() != Severity::Info)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::PathBuf;

    use selvedge_sm::{Mode, PersistentState};
    use selvedge_types::{Guid, PortNum};
    use selvedge_wire::LocalPort;

    use super::*;
    use crate::record::read;

    fn path(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("selvedge-recorder-{}-{name}", std::process::id()))
    }

    fn header() -> Header {
        Header {
            mode: Mode::Watch,
            local: LocalPort {
                node_guid: Guid(1),
                port_guid: Guid(2),
                port: PortNum::default(),
            },
            settings: selvedge_config::Settings::default(),
            state: PersistentState::default(),
            known: std::sync::Arc::default(),
        }
    }

    #[test]
    fn what_a_killed_process_leaves_can_be_read() {
        let path = path("killed");
        let mut recorder = Recorder::create(&path, &header(), 1 << 20).unwrap();
        let entries = || read(&path).unwrap().entries.len();
        assert_eq!(entries(), 0);
        let wake = |recorder: &mut Recorder, at: Time| {
            recorder.input(at, &Input::Wake);
            assert!(recorder.outputs(&[]).is_none());
            assert!(recorder.flush_due(at).is_none());
        };
        let start = Time::ZERO + Duration::from_secs(9);
        wake(&mut recorder, start);
        assert_eq!(entries(), 1, "the last time was long ago");
        wake(&mut recorder, start + Duration::from_millis(100));
        assert_eq!(entries(), 1);
        wake(&mut recorder, start + FLUSH);
        assert_eq!(entries(), 3);
        // A fault is written at once.
        recorder.input(start + FLUSH, &Input::Wake);
        let lost = selvedge_sm::Event::SubnetUpWithErrors { failed: 1 };
        assert!(recorder.outputs(&[Output::Event(lost)]).is_none());
        assert!(recorder.flush_due(start + FLUSH).is_none());
        assert_eq!(entries(), 4);
        // The input during which the manager panics is written, too.
        recorder.input(start + FLUSH, &Input::Wake);
        drop(recorder);
        let record = read(&path).unwrap();
        fs::remove_file(&path).unwrap();
        assert_eq!(record.entries.len(), 5);
        assert!(record.entries[4].outputs.is_none() && record.torn.is_none());
    }

    #[test]
    fn a_record_ends_at_its_limit() {
        let path = path("limit");
        let header = header();
        fs::write(&path, "an older record, open to all").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        let mut recorder = Recorder::create(&path, &header, 4_000).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let mut notices = Vec::new();
        for time in 0..1_000 {
            recorder.input(Time(time), &Input::Wake);
            notices.extend(recorder.outputs(&[]));
        }
        assert!(matches!(notices[..], [Notice::RecordFull { .. }]), "{notices:?}");
        assert!(fs::metadata(&path).unwrap().len() < 4_100);
        let record = read(&path).unwrap();
        fs::remove_file(path).unwrap();
        assert_eq!(record.header.local, header.local);
        assert!(record.entries.len() > 10);
        assert!(
            record
                .entries
                .iter()
                .all(|entry| entry.outputs.is_some_and(|(count, _)| count == 0))
        );
    }
}
