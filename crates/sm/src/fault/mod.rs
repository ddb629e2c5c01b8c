//! Faults: links and switches that are lost or come back, and are handled without a sweep.
//!
//! [`repair`] keeps the switches that are to be probed, the data prepared before a fault, and the current repair.
//! [`probe`] asks the ports of these switches until their traps are explained. [`backups`] has repairs planned in
//! advance for links that are up. The flap quarantine counts links that go down again and again.

use std::collections::BTreeSet;

use selvedge_fabric::NodeIdx;

use crate::event::SweepReason;

pub mod backups;
mod late;
pub mod probe;
pub mod repair;

/// Switches that reported a change, and are to be probed.
#[derive(Clone, Debug, Default)]
pub struct Suspects {
    nodes: BTreeSet<NodeIdx>,
    /// The suspected switches that show PortStateChange: one of their ports has changed. The other suspects only sent a
    /// trap, which may be an old one.
    flagged: BTreeSet<NodeIdx>,
    /// The reason for which the first of these switches is to be probed.
    reason: Option<SweepReason>,
}

#[cfg(test)]
mod tests;
