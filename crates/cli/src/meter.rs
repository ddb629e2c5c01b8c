//! What the process provides to studies: threads, the clock, and the figures of its memory.

use std::fs;
use std::time::Instant;

use selvedge_sim::Time;
use selvedge_study::{Meter, Threads};

use crate::exit::CliError;

/// Starts this number of threads; 0: as many as there are cores. A process starts them once.
pub fn start_threads(count: u16) -> Result<Threads, CliError> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(usize::from(count));
    pool.build_global().map_err(|cause| CliError::Usage {
        what: format!("--threads {count}: {cause}"),
    })?;
    Ok(all_threads())
}

/// Returns the threads of this process.
pub fn all_threads() -> Threads {
    Threads::new(rayon::current_num_threads())
}

/// The clock and the memory of this process.
pub struct Process {
    start: Instant,
}

impl Process {
    /// Returns a meter that counts time from now on.
    pub fn new() -> Self {
        Self { start: Instant::now() }
    }
}

impl Meter for Process {
    fn now(&self) -> Time {
        Time::ZERO + self.start.elapsed()
    }

    fn peak_rss_bytes(&self) -> Option<u64> {
        peak_rss_bytes()
    }

    fn thread_cpu_ns(&self) -> Option<u64> {
        thread_cpu_ns()
    }
}

/// Returns the highest resident memory of this process so far, in bytes, if the system states it (Linux: VmHWM).
pub fn peak_rss_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

/// Returns the processor time of this thread so far, in ns, if the system states it (Linux).
fn thread_cpu_ns() -> Option<u64> {
    // Until another thread could run, the system counts in whole ticks of some milliseconds.
    std::thread::yield_now();
    let text = fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split(' ').next()?.parse().ok()
}

/// Returns the processor time of this process so far, in seconds, if the system states it (Linux).
pub fn cpu_seconds() -> Option<f64> {
    /// Number of ticks of /proc in a second, the same on every Linux.
    const TICKS_PER_S: f64 = 100.0;
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // The name, in brackets, may hold anything.
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut fields = fields.split(' ').skip(11);
    let user: f64 = fields.next()?.parse().ok()?;
    let system: f64 = fields.next()?.parse().ok()?;
    Some((user + system) / TICKS_PER_S)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_processor_was_used() {
        assert!(cpu_seconds().is_none_or(|seconds| seconds >= 0.0));
    }
}
