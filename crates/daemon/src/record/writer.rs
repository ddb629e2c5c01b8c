//! Writes a record beside a running manager.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, BufWriter, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use selvedge_sim::Time;
use selvedge_sm::{Input, Output};
use selvedge_wire::Datagram;

use super::digest;
use super::format::{Header, put_input, put_said};
use crate::{DaemonError, notice::Notice};

/// Writes a record until a limit is reached.
#[derive(Debug)]
pub struct Recorder {
    file: Option<BufWriter<File>>,
    bytes: u64,
    limit: u64,
    entry: Vec<u8>,
    /// Of these, what hosts and the administrator said.
    said: u64,
}

/// The part of a record that they may take: a host that floods must not end the record of the manager.
const SAID_SHARE: u64 = 4;

impl Recorder {
    /// Default limit: two bring-ups of 5,832 hosts and some hours of operation.
    pub const LIMIT_BYTES: u64 = 256 << 20;

    /// Begins a record in a new file, which only its owner may read: it holds the M_Key, as every Set carries it.
    pub fn create(path: &Path, header: &Header, limit: u64) -> Result<Self, DaemonError> {
        let mut bytes = Vec::new();
        header.put(&mut bytes);
        let write = || -> io::Result<BufWriter<File>> {
            let mut file = BufWriter::with_capacity(1 << 16, create_private(path)?);
            file.write_all(&bytes)?;
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
        })
    }

    /// An input that the manager is about to handle.
    pub(crate) fn input(&mut self, now: Time, input: &Input) {
        if self.file.is_some() {
            put_input(&mut self.entry, now, input);
        }
    }

    /// What a host said to the administrator beside the manager, or that to it: for people; nothing comes of it here.
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

    /// What came of it. Says so if recording ends here.
    pub(crate) fn outputs(&mut self, outputs: &[Output]) -> Option<Notice> {
        let file = self.file.as_mut()?;
        let count = u32::try_from(outputs.len()).unwrap_or(u32::MAX);
        self.entry.extend(count.to_le_bytes());
        self.entry.extend(digest::outputs(outputs).to_le_bytes());
        let result = file.write_all(&self.entry);
        self.bytes += self.entry.len() as u64;
        self.entry.clear();
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

    /// Writes what is still in memory.
    pub(crate) fn flush(&mut self) -> Option<Notice> {
        self.file.as_mut()?.flush().err().map(Notice::RecordBroken)
    }
}

/// Creates or empties a file, and takes from others what they may do with it.
fn create_private(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().write(true).create(true).truncate(true).mode(PRIVATE).open(path)?;
    // The mode above is that of a new file; this one may have been there.
    if file.metadata()?.is_file() {
        file.set_permissions(Permissions::from_mode(PRIVATE))?;
    }
    Ok(file)
}

/// Read and written by its owner alone.
const PRIVATE: u32 = 0o600;

#[cfg(test)]
mod tests {
    use std::fs;

    use selvedge_sm::{Mode, PersistentState};
    use selvedge_types::{Guid, PortNum};
    use selvedge_wire::LocalPort;

    use super::*;
    use crate::record::read;

    #[test]
    fn a_record_ends_at_its_limit() {
        let path = std::env::temp_dir().join(format!("selvedge-recorder-{}", std::process::id()));
        let header = Header {
            mode: Mode::Watch,
            local: LocalPort {
                node_guid: Guid(1),
                port_guid: Guid(2),
                port: PortNum::default(),
            },
            settings: selvedge_config::Settings::default(),
            state: PersistentState::default(),
        };
        fs::write(&path, "an older record, open to all").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        let mut recorder = Recorder::create(&path, &header, 2_000).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, PRIVATE);
        let mut notices = Vec::new();
        for time in 0..1_000 {
            recorder.input(Time(time), &Input::Wake);
            notices.extend(recorder.outputs(&[]));
        }
        assert!(matches!(notices[..], [Notice::RecordFull { .. }]), "{notices:?}");
        assert!(fs::metadata(&path).unwrap().len() < 2_100);
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
