//! Checks against real peers: ibsim, OpenSM and infiniband-diags, over the wire only.
//!
//! - [`PeerLab`]: a scratch folder and a socket name of its own; starts peers in it and ends them with it.
//! - [`Ibsim`]: a running simulator, with its console.
//! - [`OpenSm`]: a running subnet manager.
//! - [`binary`]: the subject, `selvedge`; [`PeerLab::selvedge`] runs it.
//! - [`Probe`]: a client for requests that no diagnostic sends.
//! - [`Relay`]: stands between clients and a simulator and counts what they send.
//! - [`Survey`]: a fabric as the diagnostics see it, and its differences from a file and a plan.
//! - [`parse`]: reads what the peers print.
//!
//! Labs run side by side: each has its own socket name. Heavy ones (whole fabrics) hold a [`HeavyLock`], because ibsim
//! takes a whole core. Each wait is for a condition, with a deadline; none is for a fixed time.
//!
//! A peer that is not installed is an error that names its Debian package, never a skipped test.

mod error;
mod ibsim;
mod lab;
mod lock;
mod opensm;
pub mod parse;
mod probe;
mod process;
mod relay;
mod selvedge;
mod survey;
mod wait;
mod walk;

pub use error::LabError;
pub use ibsim::{Ibsim, NetSize};
pub use lab::PeerLab;
pub use lock::HeavyLock;
pub use opensm::{OpenSm, OpenSmOptions};
pub use probe::Probe;
pub use process::{Finished, Running};
pub use relay::{MadCounts, MadKind, Relay, Seen};
pub use selvedge::binary;
pub use survey::{EndPort, Survey};
pub use wait::until;
pub use walk::walk;
