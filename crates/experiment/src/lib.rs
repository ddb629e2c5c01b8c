//! Declarative runs: a file has the combinations of settings and the seeds, a runner of the caller does one run, and
//! every result is stored as soon as it is there, so that an interrupted experiment goes on where it was.
//!
//! ```text
//! file ──► Experiment ──► cells × seeds ──► run, in parallel ──► results, a line each ──► Summary ──► table, charts
//!            checked against the runner's fields       already there: skipped
//! ```
//!
//! This crate knows nothing about fabrics: the runner defines the settings and the figures. The grammar of files stands
//! in `docs/experiments.md`.

pub mod axis;
mod chart;
mod error;
mod figures;
mod file;
pub mod fuzz_body;
mod matrix;
pub mod misfits;
mod palette;
mod results;
mod run;
mod schema;
mod summary;

pub use chart::svg;
pub use error::{ExperimentError, FieldError, ResultsError};
pub use figures::Figures;
pub use file::{Experiment, Picture, PictureKind, Scale};
pub use matrix::{Cell, Run};
pub use palette::colour;
pub use results::{Outcome, Record, ResultsFile};
pub use run::{Progress, Runner, run};
pub use schema::{Field, Kind, Schema, Value};
pub use summary::{Figure, Row, Summary, summarise};
