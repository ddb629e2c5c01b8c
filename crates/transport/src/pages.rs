//! Memory that returns to the system as soon as it is freed, independent of the allocator.

use std::ffi::c_long;
use std::io;
use std::ptr::NonNull;
use std::sync::{Mutex, PoisonError};

use crate::memory::PURGE_DELAY;

/// Bytes in their own pages. Dropping the value unmaps them, on any thread.
#[derive(Debug)]
pub struct Pages {
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: the pages belong to this value alone, and nothing writes to them after construction.
unsafe impl Send for Pages {}
// SAFETY: as above; shared references only read.
unsafe impl Sync for Pages {}

impl Pages {
    /// Returns a copy of `bytes`, which must not be empty.
    pub fn copy_of(bytes: &[u8]) -> io::Result<Self> {
        // SAFETY: requests new pages at an address that the system chooses; existing memory is unchanged.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes.len(),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast::<u8>()).ok_or(io::ErrorKind::OutOfMemory)?;
        // SAFETY: the new pages hold `bytes.len()` bytes, may be written, and overlap nothing.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), start.as_ptr(), bytes.len()) };
        Ok(Self {
            start,
            length: bytes.len(),
        })
    }
}

impl AsRef<[u8]> for Pages {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: the pages hold `length` initialised bytes until the value is dropped.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.length) }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: `copy_of` mapped these pages, and no reference to them is left.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.length) };
    }
}

/// While a value of this type lives, the allocator marks memory that any thread frees. Dropping a value returns the
/// marked memory to the system, and also the memory that the dropping thread has freed and kept.
///
/// It is for work that needs much memory for a short time, in a program that otherwise keeps freed memory
/// ([`keep_freed_memory`](crate::keep_freed_memory)). It must be dropped on the thread that did the work.
#[derive(Debug)]
pub struct GiveBack(());

/// Number of living [`GiveBack`] values.
static HOLDERS: Mutex<usize> = Mutex::new(0);

/// The longest delay (24 days): freed memory is marked, and stays until a purge is requested.
const NEVER_BY_ITSELF: c_long = i32::MAX as c_long;
/// The delay value with which freed memory is not marked.
const KEPT: c_long = -1;

impl GiveBack {
    /// Starts marking freed memory, unless the environment sets another delay (`MIMALLOC_PURGE_DELAY`).
    #[must_use]
    pub fn begin() -> Self {
        let mut holders = HOLDERS.lock().unwrap_or_else(PoisonError::into_inner);
        if *holders == 0 {
            replace_delay(KEPT, NEVER_BY_ITSELF);
        }
        *holders += 1;
        Self(())
    }
}

impl Drop for GiveBack {
    fn drop(&mut self) {
        let mut holders = HOLDERS.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: frees unused memory of this thread's heap, and unmaps marked memory that is free.
        unsafe { libmimalloc_sys::mi_collect(true) };
        *holders -= 1;
        if *holders == 0 {
            replace_delay(NEVER_BY_ITSELF, KEPT);
        }
    }
}

/// Replaces the allocator's delay if it has the value `from`.
fn replace_delay(from: c_long, to: c_long) {
    // SAFETY: reads and sets an integer that the allocator reads at each free; both values are valid.
    unsafe {
        if libmimalloc_sys::mi_option_get(PURGE_DELAY) == from {
            libmimalloc_sys::mi_option_set(PURGE_DELAY, to);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_hold_what_they_were_given() {
        let bytes: Vec<u8> = (0..=255).cycle().take(100_000).collect();
        let pages = Pages::copy_of(&bytes).unwrap();
        assert_eq!(pages.as_ref(), bytes);
        let other = std::thread::spawn(move || pages.as_ref().len());
        assert_eq!(other.join().unwrap(), bytes.len());
        assert!(Pages::copy_of(&[]).is_err());
    }
}
