//! One heavy test at a time, across all test programs of this machine.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use crate::{LabError, until};

/// The longest wait for other heavy tests: time for the longest one and a queue of a few more.
const PATIENCE: Duration = Duration::from_secs(20 * 60);

/// A lock that is held while a heavy test runs. The kernel releases it when the process ends, however it ends.
pub struct HeavyLock(#[allow(dead_code)] UnixDatagram);

impl HeavyLock {
    /// Waits until no other heavy test runs.
    pub fn acquire() -> Result<Self, LabError> {
        Self::acquire_named("selvedge-heavy-test", PATIENCE)
    }

    fn acquire_named(name: &str, patience: Duration) -> Result<Self, LabError> {
        let address = SocketAddr::from_abstract_name(name).map_err(LabError::io("naming", name))?;
        until("the other heavy test to end", patience, String::new, || {
            // Only one process can bind a socket name, which makes a lock, and no file is left behind.
            Ok(UnixDatagram::bind_addr(&address).ok().map(Self))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_holds_it() {
        let name = format!("selvedge-lock-test-{}", std::process::id());
        let held = HeavyLock::acquire_named(&name, Duration::ZERO).unwrap();
        assert!(HeavyLock::acquire_named(&name, Duration::ZERO).is_err());
        drop(held);
        HeavyLock::acquire_named(&name, Duration::ZERO).unwrap();
    }
}
