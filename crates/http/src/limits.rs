//! Limits: number of connections, silent time of each, size of requests.

use std::fs;
use std::time::Duration;

/// Longest time from the first to the last byte of a request's head. A client on this machine needs less than a
/// millisecond.
pub(crate) const HEAD_MAX: Duration = Duration::from_secs(10);
/// Longest time for a request's body.
pub(crate) const BODY_MAX: Duration = Duration::from_secs(10);
/// Longest time that a connection may be open without a request, or that a client may read no byte of its answer.
pub(crate) const SILENT_MAX: Duration = Duration::from_secs(30);
/// How long a client may stop reading an answer before its connection may be closed for a new one.
pub(crate) const STALLED: Duration = Duration::from_secs(2);
/// Largest request body. The longest fault that the emulator accepts has 100 bytes.
pub(crate) const BODY_BYTES_MAX: usize = 64 << 10;
/// Largest body with a configuration. A file with one line for each port of a large fabric has 2 MB.
pub(crate) const CONFIGURATION_BYTES_MAX: usize = 16 << 20;
/// Largest request head.
pub(crate) const HEAD_BYTES_MAX: usize = 16 << 10;
/// Longest path with its query.
pub(crate) const URI_BYTES_MAX: usize = 8 << 10;
/// Total size in KiB of answers that clients have not read yet. The list of all ports of 27,648 hosts has 50 MB. An
/// answer that many clients share counts once.
pub(crate) const UNREAD_KIB_MAX: usize = 128 << 10;
/// Number of large answers built at a time. Each takes a processor and, with 5,832 hosts, 60 MB.
pub(crate) const MADE_AT_ONCE: usize = 2;
/// Number of threads for requests that may block.
pub(crate) const THREADS: usize = 8;
/// Time after which an answer is dropped if no client requests it again.
pub(crate) const KEPT: Duration = Duration::from_secs(2);

/// Largest number of connections, whatever the limit of open files is.
const CONNECTIONS_MAX: usize = 1_024;
/// Assumed soft limit of open files if the system states none: the value of most systems.
const DESCRIPTORS: usize = 1_024;

/// Limits of the number of connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// All connections together.
    pub(crate) connections: usize,
    /// Largest number of connections of one user, so that one user cannot lock out all others.
    pub(crate) per_user: usize,
}

impl Limits {
    /// Returns limits of half the files that this process may open. Ports, state and log then always find a descriptor.
    pub(crate) fn of_this_process() -> Self {
        let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
        Self::of(soft_limit(&limits).unwrap_or(DESCRIPTORS))
    }

    fn of(descriptors: usize) -> Self {
        let connections = (descriptors / 2).clamp(4, CONNECTIONS_MAX);
        Self {
            connections,
            per_user: connections * 3 / 4,
        }
    }
}

/// Returns the soft limit of open files from the text of `/proc/self/limits`.
fn soft_limit(limits: &str) -> Option<usize> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    match line.split_whitespace().next()? {
        "unlimited" => Some(usize::MAX),
        number => number.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_the_descriptors_stay_free() {
        let check = |descriptors: usize, connections: usize, per_user: usize| {
            let want = Limits { connections, per_user };
            assert_eq!(Limits::of(descriptors), want, "{descriptors}");
        };
        check(0, 4, 3);
        check(64, 32, 24);
        check(256, 128, 96);
        check(1_024, 512, 384);
        check(usize::MAX, 1_024, 768);
    }

    #[test]
    fn the_soft_limit_is_found() {
        let text =
            |soft: &str| format!("Limit  Soft Limit  Hard Limit  Units\nMax open files  {soft}  524288  files\n");
        let check = |text: &str, want: Option<usize>| assert_eq!(soft_limit(text), want, "{text}");
        check(&text("256"), Some(256));
        check(&text("unlimited"), Some(usize::MAX));
        check(&text("many"), None);
        check("", None);
        assert!(Limits::of_this_process().connections >= 4);
    }
}
