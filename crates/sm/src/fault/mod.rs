//! Faults: links and switches that are lost, or come back, and are dealt with without a sweep.
//!
//! [`repair`] keeps the switches that are to be probed, what is prepared before a fault, and the repair on its way.
//! [`probe`] asks the ports of these switches until it is explained what they said. [`backups`] has repairs of links
//! planned that are up. Links that go down again and again are counted elsewhere, by the flap quarantine.

use std::collections::BTreeSet;

use selvedge_fabric::NodeIdx;

use crate::event::SweepReason;

pub mod backups;
mod late;
pub mod probe;
pub mod repair;

/// Switches that said that something changed, and are to be probed.
#[derive(Clone, Debug, Default)]
pub struct Suspects {
    nodes: BTreeSet<NodeIdx>,
    /// Those of them that show PortStateChange: something did happen. The others only sent a trap, which may be an old
    /// one.
    flagged: BTreeSet<NodeIdx>,
    /// Why the first of them is to be probed.
    reason: Option<SweepReason>,
}

#[cfg(test)]
mod tests;
