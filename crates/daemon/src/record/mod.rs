//! Records of all inputs of a manager, and their replay.
//!
//! A record begins with the configuration and state of the manager ([`Header`]). Then comes each input with its time
//! and, after the manager handled it, the number of outputs and their digest. Results of jobs are not stored: a job is
//! a pure function, so the replay runs it again. Between the inputs are datagrams between hosts and the administrator,
//! for people to read.

mod bytes;
mod digest;
mod format;
mod job_partitions;
mod replay;
mod settings_text;
mod writer;

pub use format::{Entry, Header, RecordedInput};
pub use replay::{Difference, Replay, Torn, read, replay};
pub use writer::Recorder;
