//! A disk in memory: with a size, with seeded failures, and with a process that is killed in the middle of a write.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use selvedge_sim::{Ratio, Rng, Seed};

use crate::disk::{Content, Disk, Source};

/// Files in memory. Like files on a disk, they outlive the process that wrote them.
#[derive(Debug, Default)]
pub struct MemoryDisk(Mutex<Memory>);

#[derive(Debug, Default)]
struct Memory {
    files: BTreeMap<String, Arc<Vec<u8>>>,
    /// Bytes that all files together may have.
    room: Option<u64>,
    /// Work that is done before the process is killed: a byte written, a rename, a removal are one each.
    fuel: Option<u64>,
    /// True once the fuel was used up.
    is_killed: bool,
    /// Share of calls that fail, and where the choice comes from.
    trouble: Option<(Ratio, Rng)>,
}

/// Bytes of a file when it was opened.
#[derive(Debug)]
struct Bytes(Arc<Vec<u8>>);

impl MemoryDisk {
    /// Limits the bytes of all files together.
    pub fn set_room(&self, bytes: Option<u64>) {
        self.memory().room = bytes;
    }

    /// Kills the process after this much work: one for each byte written, rename and removal. Each later call fails.
    pub fn kill_after(&self, work: u64) {
        self.memory().fuel = Some(work);
    }

    /// Starts another process on the same files. True if the one before was killed.
    pub fn revive(&self) -> bool {
        let mut memory = self.memory();
        memory.fuel = None;
        std::mem::take(&mut memory.is_killed)
    }

    /// Starts or stops the injection of failures: each call fails with this probability, with or without its effect.
    pub fn set_trouble(&self, trouble: Option<(Ratio, Seed)>) {
        self.memory().trouble = trouble.map(|(share, seed)| (share, seed.rng()));
    }

    /// Returns the bytes of a file.
    #[must_use]
    pub fn bytes(&self, name: &str) -> Option<Vec<u8>> {
        self.memory().files.get(name).map(|bytes| bytes.to_vec())
    }

    /// Replaces a file, for a test that damages it.
    pub fn put(&self, name: &str, bytes: Vec<u8>) {
        self.memory().files.insert(name.to_owned(), Arc::new(bytes));
    }

    /// Returns the bytes of all files together.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.memory().used()
    }

    /// Returns the memory. A thread that panicked with the lock held has left whole files.
    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Source: Linux errno(3), ENOSPC.
fn no_room() -> io::Error {
    io::Error::from_raw_os_error(28)
}

/// Source: Linux errno(3), EIO.
fn broken() -> io::Error {
    io::Error::from_raw_os_error(5)
}

impl Memory {
    fn used(&self) -> u64 {
        self.files.values().map(|bytes| bytes.len() as u64).sum()
    }

    /// Fails if the process was killed, or if this call is to fail before it has any effect.
    fn begin(&mut self) -> io::Result<()> {
        if self.is_killed {
            return Err(io::Error::other("killed"));
        }
        match self.trouble.as_mut().is_some_and(|(share, rng)| rng.chance(*share)) {
            true => Err(broken()),
            false => Ok(()),
        }
    }

    /// Fails if this call is to fail after it had its effect.
    fn end(&mut self) -> io::Result<()> {
        match self.trouble.as_mut().is_some_and(|(share, rng)| rng.chance(*share)) {
            true => Err(broken()),
            false => Ok(()),
        }
    }

    /// Uses fuel; returns how much of the work is done before the process is killed.
    fn burn(&mut self, work: u64) -> u64 {
        let Some(fuel) = &mut self.fuel else { return work };
        let done = work.min(*fuel);
        *fuel -= done;
        self.is_killed |= done < work;
        done
    }

    /// Writes bytes at the end of a file, as many as there is room and fuel for.
    fn extend(&mut self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let left = self.room.map_or(u64::MAX, |room| room.saturating_sub(self.used()));
        let fits = left.min(bytes.len() as u64);
        let done = self.burn(fits);
        let file = self.files.entry(name.to_owned()).or_default();
        Arc::make_mut(file).extend_from_slice(&bytes[..usize::try_from(done).unwrap_or(bytes.len())]);
        match (done < fits, fits < bytes.len() as u64) {
            (true, _) => Err(io::Error::other("killed")),
            (false, true) => Err(no_room()),
            (false, false) => Ok(()),
        }
    }

    /// Makes a change of names, which is done as a whole or not at all.
    fn change(&mut self, act: impl FnOnce(&mut BTreeMap<String, Arc<Vec<u8>>>) -> io::Result<()>) -> io::Result<()> {
        self.begin()?;
        if self.burn(1) == 0 {
            return Err(io::Error::other("killed"));
        }
        act(&mut self.files)?;
        self.end()
    }
}

fn missing() -> io::Error {
    io::Error::from(io::ErrorKind::NotFound)
}

impl Source for Bytes {
    fn len(&self) -> u64 {
        self.0.len() as u64
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let from = usize::try_from(offset).unwrap_or(usize::MAX).min(self.0.len());
        let read = buffer.len().min(self.0.len() - from);
        buffer[..read].copy_from_slice(&self.0[from..from + read]);
        Ok(read)
    }
}

/// A file that is being written.
struct Writing<'a> {
    disk: &'a MemoryDisk,
    name: &'a str,
}

impl Write for Writing<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.disk.memory().extend(self.name, bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Disk for MemoryDisk {
    fn list(&self) -> io::Result<Vec<(String, u64)>> {
        let mut memory = self.memory();
        memory.begin()?;
        let files = memory.files.iter();
        Ok(files.map(|(name, bytes)| (name.clone(), bytes.len() as u64)).collect())
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn Source>> {
        let mut memory = self.memory();
        memory.begin()?;
        let bytes = memory.files.get(name).cloned().ok_or_else(missing)?;
        Ok(Arc::new(Bytes(bytes)))
    }

    fn append(&self, name: &str, at: u64, bytes: &[u8]) -> io::Result<()> {
        let mut memory = self.memory();
        memory.begin()?;
        let file = memory.files.entry(name.to_owned()).or_default();
        Arc::make_mut(file).truncate(usize::try_from(at).unwrap_or(usize::MAX));
        memory.extend(name, bytes)?;
        memory.end()
    }

    fn write(&self, name: &str, content: Content<'_>) -> io::Result<u64> {
        {
            let mut memory = self.memory();
            memory.begin()?;
            memory.files.insert(name.to_owned(), Arc::default());
        }
        content(&mut Writing { disk: self, name })?;
        let mut memory = self.memory();
        memory.end()?;
        Ok(memory.files.get(name).map_or(0, |bytes| bytes.len() as u64))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.memory().change(|files| {
            let bytes = files.remove(from).ok_or_else(missing)?;
            files.insert(to.to_owned(), bytes);
            Ok(())
        })
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.memory()
            .change(|files| files.remove(name).map(drop).ok_or_else(missing))
    }

    fn sync(&self) -> io::Result<()> {
        self.memory().begin()
    }
}
