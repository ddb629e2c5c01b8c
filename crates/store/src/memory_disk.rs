//! A disk in memory with injected failures, for simulated managers.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use selvedge_sim::{Ratio, Rng, Seed};

use crate::Disk;

/// Temporary failures of a disk. Whether a call fails depends on its kind, on its file, and on how often the same call
/// was made before, but not on calls for other files.
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
    trouble: Option<Trouble>,
    /// Number of calls since the failures began, by kind and file.
    calls: BTreeMap<(&'static str, String), u64>,
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
        let mut memory = self.memory();
        memory.trouble = trouble;
        memory.calls.clear();
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
    /// Draws at random whether a call fails, and in which of these ways. The caller draws further properties of the
    /// failure from the returned generator.
    fn failure(&mut self, call: &'static str, name: &str, ways: &[Failure]) -> Option<(Failure, Rng)> {
        let trouble = self.trouble.as_ref()?;
        let calls = self.calls.entry((call, name.to_owned())).or_default();
        let mut rng = trouble.seed.child(call).child(name).nth(*calls).rng();
        *calls += 1;
        if !rng.chance(trouble.share) {
            return None;
        }
        self.failed += 1;
        let at = rng.below(ways.len() as u64);
        let failure = usize::try_from(at).ok().and_then(|at| ways.get(at)).copied();
        failure.map(|failure| (failure, rng))
    }

    /// Draws a failure and returns it before any change is made.
    fn or_fail(&mut self, call: &'static str, name: &str, ways: &[Failure]) -> io::Result<()> {
        let failure = self.failure(call, name, ways);
        failure.map_or(Ok(()), |(failure, _)| Err(failure.error()))
    }

    fn write(&mut self, call: &'static str, name: &str, bytes: &[u8]) -> io::Result<()> {
        use Failure::{Done, NoDescriptor, NoSpace, NotDone};
        let failure = self.failure(call, name, &[NoDescriptor, NoSpace, NotDone, Done]);
        let (written, result) = match failure {
            None => (Some(bytes.len()), Ok(())),
            Some((failure, mut rng)) => {
                let written = match failure {
                    Done => Some(bytes.len()),
                    NoDescriptor | NotDone => None,
                    NoSpace => usize::try_from(rng.below(bytes.len() as u64 + 1)).ok(),
                };
                (written, Err(failure.error()))
            }
        };
        if let Some(written) = written {
            self.files.insert(name.to_owned(), bytes[..written].to_vec());
        }
        result
    }

    /// Makes a change of file names, or draws a failure: without the change, or after it.
    fn rename_or(
        &mut self,
        (call, name): (&'static str, &str),
        act: impl FnOnce(&mut BTreeMap<String, Vec<u8>>) -> io::Result<()>,
    ) -> io::Result<()> {
        match self.failure(call, name, &[Failure::NotDone, Failure::Done]) {
            Some((failure @ Failure::Done, _)) => act(&mut self.files).and(Err(failure.error())),
            Some((failure, _)) => Err(failure.error()),
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
        memory.or_fail("read", name, &[Failure::NoDescriptor, Failure::NotDone])?;
        memory.files.get(name).cloned().ok_or_else(missing)
    }

    fn has(&self, name: &str) -> io::Result<bool> {
        let mut memory = self.memory();
        memory.or_fail("has", name, &[Failure::NotDone])?;
        Ok(memory.files.contains_key(name))
    }

    fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.memory().write("write", name, bytes)
    }

    fn note(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.memory().write("note", name, bytes)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.memory().rename_or(("rename", to), |files| {
            let bytes = files.remove(from).ok_or_else(missing)?;
            files.insert(to.to_owned(), bytes);
            Ok(())
        })
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.memory().rename_or(("remove", name), |files| {
            files.remove(name).map(drop).ok_or_else(missing)
        })
    }

    fn sync(&self) -> io::Result<()> {
        self.memory().or_fail("sync", "", &[Failure::NotDone])
    }

    fn boot(&self) -> String {
        "memory".to_owned()
    }
}
