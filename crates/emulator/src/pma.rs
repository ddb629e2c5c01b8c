//! Access to performance management agents from outside: what counters count, and what agents support.

use selvedge_chassis::{Counters, DetailRow, PmaAbilities, PortIdx};
use selvedge_fabric::NodeIdx;

use crate::Emulator;

impl Emulator {
    /// Returns the counters of a port for changes: traffic, errors.
    ///
    /// # Panics
    /// If the index is of another, larger fabric.
    pub fn counters_mut(&mut self, port: PortIdx) -> &mut Counters {
        self.chassis.counters_mut(port)
    }

    /// Returns a row of a port's detailed counters for changes.
    ///
    /// # Panics
    /// If the index is of another, larger fabric.
    pub fn detail_mut(&mut self, port: PortIdx, row: DetailRow) -> &mut [u64; 16] {
        self.chassis.detail_mut(port, row)
    }

    /// Changes what the performance management agent of a node supports.
    pub fn set_pma(&mut self, node: NodeIdx, abilities: PmaAbilities) {
        self.chassis.set_pma(node, abilities);
    }
}
