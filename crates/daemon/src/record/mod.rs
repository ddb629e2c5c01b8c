//! Records of everything that went into a manager, and replaying them.
//!
//! A record begins with what the manager was made of ([`Header`]). Then comes each input with its time and, after the
//! manager handled it, the number of outputs and their digest. Results of jobs are not stored: a job is a pure
//! function, so the replay runs it again. What hosts and the administrator say to each other stands between them, for
//! people.

mod bytes;
mod digest;
mod format;
mod replay;
mod writer;

pub use format::{Entry, Header, RecordedInput};
pub use replay::{Difference, Replay, Torn, read, replay};
pub use writer::Recorder;
