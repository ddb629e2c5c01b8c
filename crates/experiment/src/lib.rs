//! Declarative runs. A file defines combinations of settings and seeds; a runner that the caller supplies does one run.
//! Every result is stored as soon as it is known, so an interrupted experiment continues where it stopped.
//!
//! ```text
//! file ──► Experiment ──► cells × seeds ──► run, in parallel ──► results, a line each ──► Summary ──► table, charts
//!            checked against the runner's fields       already there: skipped
//! ```
//!
//! This crate knows nothing about fabrics: the runner defines the settings and the figures. The grammar of files is in
//! `docs/experiments.md`.

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
