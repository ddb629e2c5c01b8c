//! Priorities of lines on standard error, where systemd's journal reads them.
//!
//! The journal takes `<N>` at the start of a line as its syslog priority. Source: sd-daemon(3); systemd.exec(5) for
//! `$JOURNAL_STREAM`, which holds the device and the inode of the stream in decimal.

use std::fs::File;
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::fs::MetadataExt as _;

use selvedge_api::Severity;

/// Puts priorities in front of lines, if standard error is the journal.
#[derive(Clone, Copy, Debug)]
pub struct Journal {
    is_read: bool,
}

impl Journal {
    /// Finds out whether standard error is the journal. The environment variable alone does not prove it: a process may
    /// have inherited the variable and have its standard error elsewhere.
    #[must_use]
    pub fn of_stderr() -> Self {
        let stream = std::env::var("JOURNAL_STREAM").unwrap_or_default();
        let of_file = || {
            let stderr = File::from(io::stderr().as_fd().try_clone_to_owned()?);
            let meta = stderr.metadata()?;
            Ok::<_, io::Error>((meta.dev(), meta.ino()))
        };
        Self {
            is_read: !stream.is_empty() && of_file().is_ok_and(|file| is_stream(&stream, file)),
        }
    }

    /// Returns the prefix of a log line for the journal; empty if the log does not go to the journal.
    #[must_use]
    pub const fn prefix(self, severity: Severity) -> &'static str {
        match (self.is_read, severity) {
            (false, _) => "",
            (true, Severity::Error) => "<3>",
            (true, Severity::Warning) => "<4>",
            (true, Severity::Info) => "<6>",
        }
    }
}

/// Returns true if the text of the environment variable names this file.
fn is_stream(stream: &str, (device, inode): (u64, u64)) -> bool {
    stream
        .split_once(':')
        .and_then(|(device, inode)| Some((device.parse().ok()?, inode.parse().ok()?)))
        == Some((device, inode))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_names_a_device_and_an_inode() {
        let check = |stream: &str, want| assert_eq!(is_stream(stream, (8, 123_456)), want, "{stream}");
        check("8:123456", true);
        check("8:123457", false);
        check("9:123456", false);
        check("", false);
        check("8", false);
        check("8:", false);
        check("8:x", false);
    }

    #[test]
    fn priorities_are_those_of_syslog() {
        let prefixes =
            |journal: Journal| [Severity::Error, Severity::Warning, Severity::Info].map(|of| journal.prefix(of));
        assert_eq!(prefixes(Journal { is_read: true }), ["<3>", "<4>", "<6>"]);
        assert_eq!(prefixes(Journal { is_read: false }), ["", "", ""]);
    }
}
