//! The flags of measurements that `route` and `compare` share.

use clap::Args;
use selvedge_study::Threads;
use selvedge_study::measure::{How, PAIRINGS};

use crate::args::{PAIRINGS_MAX, THREADS_MAX};
use crate::exit::CliError;
use crate::meter;

/// How to measure.
#[derive(Args, Clone, Copy, Debug)]
pub struct MeasureArgs {
    /// Threads to use; 0: as many as there are cores
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u16).range(0..=THREADS_MAX))]
    threads: u16,
    /// Random pairings for the effective bisection bandwidth
    #[arg(long, value_name = "N", default_value_t = PAIRINGS)]
    #[arg(value_parser = clap::value_parser!(u32).range(0..=PAIRINGS_MAX))]
    pairings: u32,
    /// Leave shifts, pairings and stretch out: on large fabrics they take longer than the proof
    #[arg(long)]
    no_contention: bool,
}

impl MeasureArgs {
    /// Starts the threads.
    pub fn start(self, repeats: u32) -> Result<How, CliError> {
        let threads = meter::start_threads(self.threads)?;
        Ok(How {
            threads: if self.threads == 1 { Threads::ONE } else { threads },
            repeats,
            pairings: (!self.no_contention).then_some(self.pairings),
        })
    }
}
