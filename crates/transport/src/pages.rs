//! Memory that goes back to the system as soon as it is freed, whatever the allocator keeps.

use std::ffi::c_long;
use std::io;
use std::ptr::NonNull;
use std::sync::{Mutex, PoisonError};

use crate::memory::PURGE_DELAY;

/// Bytes in pages of their own. They are unmapped when this is dropped, by whichever thread.
#[derive(Debug)]
pub struct Pages {
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: the pages belong to this value alone, and nothing writes into them once it is made.
unsafe impl Send for Pages {}
// SAFETY: as above; shared references only read.
unsafe impl Sync for Pages {}

impl Pages {
    /// A copy of `bytes`, at least one.
    pub fn copy_of(bytes: &[u8]) -> io::Result<Self> {
        // SAFETY: asks for new pages at an address of the system's choice; no present memory changes.
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
        // SAFETY: these are the pages that `copy_of` mapped; no reference to them is left.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.length) };
    }
}

/// While a value of this type lives, the allocator marks what any thread frees. When one is dropped, marked memory goes
/// back to the system, and so does what the dropping thread has freed and kept.
///
/// For work that needs much memory for a moment, in a program that keeps freed memory otherwise
/// ([`keep_freed_memory`](crate::keep_freed_memory)). Drop it on the thread that did the work.
#[derive(Debug)]
pub struct GiveBack(());

/// How many values of [`GiveBack`] there are.
static HOLDERS: Mutex<usize> = Mutex::new(0);

/// A delay that never ends: freed memory is marked, and stays until it is asked for (24 days).
const NEVER_BY_ITSELF: c_long = i32::MAX as c_long;
/// Freed memory is not even marked.
const KEPT: c_long = -1;

impl GiveBack {
    /// From now on freed memory is marked, unless the environment has another wish (`MIMALLOC_PURGE_DELAY`).
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
        // SAFETY: frees what this thread's heap holds and no one uses, and unmaps marked memory that is free.
        unsafe { libmimalloc_sys::mi_collect(true) };
        *holders -= 1;
        if *holders == 0 {
            replace_delay(NEVER_BY_ITSELF, KEPT);
        }
    }
}

/// Sets the allocator's delay if it has the value `from`.
fn replace_delay(from: c_long, to: c_long) {
    // SAFETY: reads and sets an integer that the allocator reads whenever memory is freed; both values are valid.
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
