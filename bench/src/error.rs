//! What can go wrong while measuring.

use std::fmt;
use std::io;

use selvedge_conformance::LabError;
use selvedge_experiment::{ExperimentError, ResultsError};
use selvedge_model::NoSeat;
use selvedge_topology::SpecError;
use selvedge_wire::PortError;

/// A measurement that cannot be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BenchError {
    /// A peer does not do its part.
    #[error(transparent)]
    Lab(#[from] LabError),
    /// The port into the simulated fabric does not work.
    #[error(transparent)]
    Port(#[from] PortError),
    /// A fabric in which no manager can sit.
    #[error(transparent)]
    Seat(#[from] NoSeat),
    /// The fabric's text is wrong.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// The file of an experiment is wrong.
    #[error(transparent)]
    Experiment(#[from] ExperimentError),
    /// Results of an experiment cannot be stored or read.
    #[error(transparent)]
    Results(#[from] ResultsError),
    /// SLV-BENCH-0001: the benchmark needs a generated fabric with at least one host, and this is none.
    #[error("SLV-BENCH-0001: {spec}: {problem}; name a generated fabric with at least one host, as sx6536")]
    NoCase {
        /// The specification as given.
        spec: String,
        /// Why not.
        problem: &'static str,
    },
    /// SLV-BENCH-0002: the subnet did not come up.
    #[error("SLV-BENCH-0002: {manager} did not bring {fabric} up: {cause}")]
    NotUp {
        /// Name of the manager.
        manager: String,
        /// The fabric.
        fabric: String,
        /// Why, as far as known.
        cause: String,
    },
    /// SLV-BENCH-0003: the simulator loses more MADs than the load generator (blaster) can repeat.
    #[error("SLV-BENCH-0003: {answered} of {wanted} MADs answered within {limit_s} s; is the machine overloaded?")]
    Silent {
        /// Answers so far.
        answered: usize,
        /// Number of answers expected.
        wanted: usize,
        /// Time limit in seconds.
        limit_s: u64,
    },
    /// SLV-BENCH-0013: a program to compare with is not installed.
    #[error("SLV-BENCH-0013: {peer} is not on the path; install it: {install}")]
    NoPeer {
        /// Name of the program.
        peer: &'static str,
        /// How to get it.
        install: &'static str,
    },
    /// SLV-BENCH-0014: a simulator ended without results.
    #[error("SLV-BENCH-0014: {simulator} gave no results: {cause}")]
    NotSimulated {
        /// Name of the simulator.
        simulator: &'static str,
        /// Why, as far as known.
        cause: String,
    },
    /// SLV-BENCH-0006: an agent refuses a request of the load generator (blaster).
    #[error("SLV-BENCH-0006: refused: {mad}; report it, for the ceiling would be wrong")]
    Refused {
        /// The answer.
        mad: String,
    },
    /// SLV-BENCH-0007: the program to be measured is not there.
    #[error("SLV-BENCH-0007: no '{program}' beside this program: run 'cargo build --workspace', or 'make bench'")]
    NotBuilt {
        /// The program.
        program: &'static str,
    },
    /// SLV-BENCH-0008: an engine of Selvedge refuses the fabric that it is timed on.
    #[error("SLV-BENCH-0008: {engine} does not route {fabric}: {cause}; report it, there is nothing to time")]
    NotRouted {
        /// Name of the engine.
        engine: String,
        /// The fabric.
        fabric: String,
        /// Why.
        cause: String,
    },
    /// SLV-BENCH-0009: a manager does not become idle.
    #[error("SLV-BENCH-0009: on {fabric} the manager is still at work after {limit_s} s; is the machine overloaded?")]
    NotQuiet {
        /// The fabric.
        fabric: String,
        /// Time limit in seconds.
        limit_s: u64,
    },
    /// SLV-BENCH-0004: a result cannot be stored.
    #[error("SLV-BENCH-0004: {operation} {what}: {cause}; choose another folder with --out")]
    Store {
        /// The operation.
        operation: &'static str,
        /// The result that could not be stored.
        what: String,
        /// Why not.
        cause: io::Error,
    },
    /// SLV-BENCH-0005: a chart cannot be drawn.
    #[error("SLV-BENCH-0005: cannot draw the chart: {cause}")]
    Chart {
        /// The message of the library.
        cause: String,
    },
}

impl BenchError {
    /// Wraps an error of storing.
    pub fn store(operation: &'static str, what: impl fmt::Display) -> impl FnOnce(io::Error) -> Self {
        move |cause| Self::Store {
            operation,
            what: what.to_string(),
            cause,
        }
    }
}
