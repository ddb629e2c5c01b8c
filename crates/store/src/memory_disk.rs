//! A disk in memory with injected failures, for simulated managers.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use selvedge_sim::{Ratio, Rng, Seed};

use crate::Disk;

/// The failures that are injected for a time.
#[derive(Clone, Debug)]
pub struct Trouble {
    /// Share of calls that fail.
    pub share: Ratio,
    /// Seed of all random choices.
    pub seed: Seed,
}

/// Files in memory. Like files on a disk, they outlive the process that wrote them.
#[derive(Debug, Default)]
pub struct MemoryDisk(Mutex<Memory>);

#[derive(Debug, Default)]
struct Memory {
    files: BTreeMap<String, Vec<u8>>,
    trouble: Option<(Ratio, Rng)>,
    failed: u64,
}

/// Ways in which a call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Failure {
    /// No descriptor is left; nothing was done.
    NoDescriptor,
    /// No room is left; a part was written, or nothing.
    NoSpace,
    /// The medium failed before the call had any effect.
    NotDone,
    /// The medium failed after the call had its full effect.
    Done,
}

impl Failure {
    fn error(self) -> io::Error {
        // Source: Linux errno(3): EMFILE, ENOSPC, EIO.
        io::Error::from_raw_os_error(match self {
            Self::NoDescriptor => 24,
            Self::NoSpace => 28,
            Self::NotDone | Self::Done => 5,
        })
    }
}

impl MemoryDisk {
    /// Starts or stops the injection of failures.
    pub fn set_trouble(&self, trouble: Option<Trouble>) {
        self.memory().trouble = trouble.map(|trouble| (trouble.share, trouble.seed.rng()));
    }

    /// Returns how many calls have failed so far.
    #[must_use]
    pub fn failed(&self) -> u64 {
        self.memory().failed
    }

    /// Returns the memory. A thread that panicked with the lock held has left whole files.
    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Memory {
    /// Draws whether a call fails, and in which of `ways`.
    fn failure(&mut self, ways: &[Failure]) -> Option<Failure> {
        let (share, rng) = self.trouble.as_mut()?;
        if !rng.chance(*share) {
            return None;
        }
        self.failed += 1;
        let at = rng.below(ways.len() as u64);
        usize::try_from(at).ok().and_then(|at| ways.get(at)).copied()
    }

    fn write(&mut self, name: &str, bytes: &[u8]) -> io::Result<()> {
        use Failure::{Done, NoDescriptor, NoSpace, NotDone};
        let failure = self.failure(&[NoDescriptor, NoSpace, NotDone, Done]);
        let written = match failure {
            None | Some(Done) => Some(bytes.len()),
            Some(NoDescriptor | NotDone) => None,
            Some(NoSpace) => {
                let drawn = self.trouble.as_mut().map(|(_, rng)| rng.below(bytes.len() as u64 + 1));
                drawn.and_then(|part| usize::try_from(part).ok())
            }
        };
        if let Some(written) = written {
            self.files.insert(name.to_owned(), bytes[..written].to_vec());
        }
        failure.map_or(Ok(()), |failure| Err(failure.error()))
    }

    /// Runs `act` on the file names; may skip it, or run it and return an error nevertheless.
    fn rename_or(&mut self, act: impl FnOnce(&mut BTreeMap<String, Vec<u8>>) -> io::Result<()>) -> io::Result<()> {
        match self.failure(&[Failure::NotDone, Failure::Done]) {
            Some(failure @ Failure::Done) => act(&mut self.files).and(Err(failure.error())),
            Some(failure) => Err(failure.error()),
            None => act(&mut self.files),
        }
    }
}

fn missing() -> io::Error {
    io::Error::from(io::ErrorKind::NotFound)
}

impl Disk for MemoryDisk {
    fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        let mut memory = self.memory();
        match memory.failure(&[Failure::NoDescriptor, Failure::NotDone]) {
            Some(failure) => Err(failure.error()),
            None => memory.files.get(name).cloned().ok_or_else(missing),
        }
    }

    fn has(&self, name: &str) -> io::Result<bool> {
        let mut memory = self.memory();
        match memory.failure(&[Failure::NotDone]) {
            Some(failure) => Err(failure.error()),
            None => Ok(memory.files.contains_key(name)),
        }
    }

    fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.memory().write(name, bytes)
    }

    fn note(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.memory().write(name, bytes)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.memory().rename_or(|files| {
            let bytes = files.remove(from).ok_or_else(missing)?;
            files.insert(to.to_owned(), bytes);
            Ok(())
        })
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.memory()
            .rename_or(|files| files.remove(name).map(drop).ok_or_else(missing))
    }

    fn sync(&self) -> io::Result<()> {
        match self.memory().failure(&[Failure::NotDone]) {
            Some(failure) => Err(failure.error()),
            None => Ok(()),
        }
    }

    fn boot(&self) -> String {
        "memory".to_owned()
    }
}
