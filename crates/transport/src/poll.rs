//! Waiting for several descriptors, which std does not offer.

use std::io;
use std::os::fd::RawFd;
use std::time::Duration;

/// Descriptors to wait for, and the result.
#[derive(Default)]
pub(crate) struct PollSet {
    entries: Vec<libc::pollfd>,
}

impl PollSet {
    /// Removes all descriptors.
    pub(crate) fn clear(&mut self) {
        self.entries.clear();
    }

    /// Adds a descriptor to read from.
    pub(crate) fn readable(&mut self, fd: RawFd) {
        self.push(fd, libc::POLLIN);
    }

    /// Adds a descriptor to write to.
    pub(crate) fn writable(&mut self, fd: RawFd) {
        self.push(fd, libc::POLLOUT);
    }

    /// Adds a descriptor to read from or write to.
    pub(crate) fn readable_or_writable(&mut self, fd: RawFd) {
        self.push(fd, libc::POLLIN | libc::POLLOUT);
    }

    /// True if `fd` is ready for any operation, or has an error.
    pub(crate) fn is_ready(&self, fd: RawFd) -> bool {
        self.entries.iter().any(|entry| entry.fd == fd && entry.revents != 0)
    }

    /// Waits at most `wait`. A signal counts as no descriptor ready.
    ///
    /// Uses `ppoll` instead of `poll`: it takes nanoseconds, and libumad2sim intercepts only `poll`, with a
    /// lock of its own.
    pub(crate) fn wait(&mut self, wait: Duration) -> io::Result<()> {
        let timeout = libc::timespec {
            tv_sec: libc::time_t::try_from(wait.as_secs()).unwrap_or(libc::time_t::MAX),
            tv_nsec: wait.subsec_nanos().into(),
        };
        // SAFETY: `entries` is a live, exclusively borrowed array of `len` pollfd; `timeout` outlives the call; a null
        // signal mask means "leave the mask alone".
        let result = unsafe {
            libc::ppoll(
                self.entries.as_mut_ptr(),
                self.entries.len() as libc::nfds_t,
                &raw const timeout,
                std::ptr::null(),
            )
        };
        if result >= 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        self.entries.iter_mut().for_each(|entry| entry.revents = 0);
        if error.kind() == io::ErrorKind::Interrupted {
            Ok(())
        } else {
            Err(error)
        }
    }

    fn push(&mut self, fd: RawFd, events: libc::c_short) {
        self.entries.push(libc::pollfd { fd, events, revents: 0 });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixDatagram;

    #[test]
    fn sees_the_one_that_has_something() {
        let (a, b) = UnixDatagram::pair().unwrap();
        let (c, _d) = UnixDatagram::pair().unwrap();
        b.send(b"x").unwrap();
        let mut set = PollSet::default();
        set.readable(a.as_raw_fd());
        set.readable(c.as_raw_fd());
        set.wait(Duration::from_secs(5)).unwrap();
        assert!(set.is_ready(a.as_raw_fd()));
        assert!(!set.is_ready(c.as_raw_fd()));
    }
}
