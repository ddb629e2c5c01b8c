//! The micro-benchmarks of the paper, on two hosts with two ports each: port 1 primary, port 2 alternate, each on a
//! switch of its own.
//!
//! Where the paper leaves something open, this is what is done:
//! - An ARMED event needs a packet from the other end (IBA vol 1 §17.2.8). So in the test of the transition to ARMED
//!   each end sends a message of 8 bytes over a queue pair once REARM was requested for it.
//! - REARM is requested at both ends, migration at the sender only; the other end follows.
//! - In the latency test with a transition, an iteration requests it for its queue pair before it sends; iterations go
//!   on until the sender's thread has handled the events of all queue pairs, and all of them are averaged.
//! - The sender's cable is pulled between its port and the switch. Its port leaves ACTIVE, and its HCA migrates all
//!   queue pairs on it; those of the other end follow with the first packet by the second port.
//! - Computation lost is the time that the asynchronous thread takes from the processor: interrupts, wake-ups,
//!   handling.

mod bed;
mod latency;
mod transition;

use selvedge_hca::{Costs, PS_PER_NS, Ps};

use crate::error::ToleranceError;
use crate::rails::RailSettings;
use crate::thread::ThreadCosts;
use bed::Bed;

pub use latency::{Case, Latency, latency};
pub use transition::{computation, transition};

/// Transitions that are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transition {
    /// MIGRATED to ARMED.
    MigratedArmed,
    /// ARMED to MIGRATED.
    ArmedMigrated,
}

/// Share by which INIT to RTS takes longer with an alternate path. Source: the paper, section 4.2.
pub const INIT_RTS_LONGER: f64 = 0.15;
/// Share by which ARMED to MIGRATED takes longer than MIGRATED to ARMED, for a small number of queue pairs.
pub const FEW_LONGER: f64 = 0.30;
/// The same for a large number.
pub const MANY_LONGER: f64 = 0.16;
/// Number of queue pairs that stands for "a small number": the smallest of the paper's figures.
pub const FEW: usize = 2;

/// Returns the settings with costs fitted to [`INIT_RTS_LONGER`] and [`FEW_LONGER`]; all others are the defaults.
///
/// The first determines `alternate_ps` and `path_state_ps`, in the ratio of their defaults; the second `migrate_ps`.
/// [`MANY_LONGER`] fits nothing: with many queue pairs both transitions take the time of their commands, and the two
/// commands modify the same attribute.
pub fn fitted() -> Result<RailSettings, ToleranceError> {
    let mut costs = Costs::default();
    let settings = |costs| RailSettings {
        costs,
        ..RailSettings::default()
    };
    let plain = init_rts(&settings(costs), 1, false)?;
    let extra = (plain as f64 * INIT_RTS_LONGER) as Ps;
    let of_state = costs.path_state_ps as f64 / (costs.path_state_ps + costs.alternate_ps) as f64;
    costs.path_state_ps = (extra as f64 * of_state) as Ps;
    costs.alternate_ps = extra - costs.path_state_ps;
    let to_armed = transition(&settings(costs), FEW, Transition::MigratedArmed)?;
    let want = (to_armed as f64 * (1.0 + FEW_LONGER)) as Ps;
    // The time of the transition grows with this cost one to one: a few rounds are enough.
    for _ in 0..8 {
        let found = transition(&settings(costs), FEW, Transition::ArmedMigrated)?;
        costs.migrate_ps = (costs.migrate_ps + want).saturating_sub(found).max(PS_PER_NS);
    }
    Ok(settings(costs))
}

/// Returns how long one host takes to bring so many queue pairs from INIT to RTS, with an alternate path and a loading
/// request or without.
pub fn init_rts(settings: &RailSettings, qps: usize, with_alternate: bool) -> Result<Ps, ToleranceError> {
    let mut bed = Bed::in_init(settings, qps)?;
    if with_alternate {
        bed.specify_and_load()?;
    }
    Ok(bed.connect()?)
}

/// Costs of the asynchronous threads.
const THREAD: ThreadCosts = ThreadCosts {
    handle_ps: 1_000 * PS_PER_NS,
};
