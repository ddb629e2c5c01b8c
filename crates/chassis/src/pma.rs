//! The abilities of a node's performance management agent.

use selvedge_fabric::NodeIdx;

use crate::{Chassis, DetailRow, PortIdx};

/// The part of PortCountersExtended that an agent supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ExtendedCounters {
    /// The attribute is refused.
    None,
    /// Data and packets.
    NoIetf,
    /// Data, packets, unicast and multicast packets.
    Traffic,
    /// The traffic counters and the error counters, PortXmitWait and QP1Dropped.
    All,
}

/// The behaviour of a counter at its maximum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtMaximum {
    /// The counter stops. Source: IBA vol 1 §16.1.3.5.
    Stops,
    /// The counter continues at 0, as counters of some devices do.
    Wraps,
}

/// The abilities of a node's performance management agent. Default: everything, as for the agent of a current switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PmaAbilities {
    /// The part of PortCountersExtended that the agent supports.
    pub extended: ExtendedCounters,
    /// True if port 255 means the sum of all ports; on switches only.
    pub all_port_select: bool,
    /// True if PortCounters has PortXmitWait.
    pub xmit_wait: bool,
    /// True if the agent supports the optional attributes of [`DetailRow`].
    pub details: bool,
    /// The behaviour of counters of fewer than 64 bits at their maximum.
    pub at_maximum: AtMaximum,
}

impl Default for PmaAbilities {
    fn default() -> Self {
        Self {
            extended: ExtendedCounters::All,
            all_port_select: true,
            xmit_wait: true,
            details: true,
            at_maximum: AtMaximum::Stops,
        }
    }
}

impl Chassis {
    /// Returns the abilities of a node's performance management agent.
    #[must_use]
    pub fn pma(&self, node: NodeIdx) -> PmaAbilities {
        self.pma.get(&node).copied().unwrap_or_default()
    }

    /// Changes the abilities of a node's performance management agent. They survive a power cycle.
    pub fn set_pma(&mut self, node: NodeIdx, abilities: PmaAbilities) {
        self.pma.insert(node, abilities);
    }

    /// Returns a row of a port's counters. Counters after the last one of the row are 0.
    ///
    /// # Panics
    /// If the index is of another, larger chassis.
    #[must_use]
    pub fn detail(&self, port: PortIdx, row: DetailRow) -> [u64; 16] {
        self.ports[port].details.row(row)
    }

    /// Returns a row of a port's counters for changes.
    ///
    /// # Panics
    /// If the index is of another, larger chassis.
    pub fn detail_mut(&mut self, port: PortIdx, row: DetailRow) -> &mut [u64; 16] {
        self.ports[port].details.row_mut(row)
    }
}
