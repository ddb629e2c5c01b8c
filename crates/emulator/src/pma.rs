//! Access to performance management agents from outside: what counters count, and what agents support.

use selvedge_chassis::{Counters, DetailRow, PmaAbilities, PortIdx};
use selvedge_fabric::NodeIdx;

use crate::load::congestion;
use crate::{Congestion, Emulator};

impl Emulator {
    /// Returns the counters of a port for changes: traffic, errors.
    ///
    /// # Panics
    /// If the index is of another, larger fabric.
    pub fn counters_mut(&mut self, port: PortIdx) -> &mut Counters {
        self.settle(port);
        self.chassis.counters_mut(port)
    }

    /// Returns a row of a port's detailed counters for changes.
    ///
    /// # Panics
    /// If the index is of another, larger fabric.
    pub fn detail_mut(&mut self, port: PortIdx, row: DetailRow) -> &mut [u64; 16] {
        self.settle(port);
        self.chassis.detail_mut(port, row)
    }

    /// Changes what the performance management agent of a node supports.
    pub fn set_pma(&mut self, node: NodeIdx, abilities: PmaAbilities) {
        self.chassis.set_pma(node, abilities);
    }

    /// Brings all counters up to now. Those of loads and injected errors advance only here and when an agent is asked
    /// for them.
    pub fn settle_counters(&mut self) {
        self.traffic.settle_all(&mut self.chassis, self.now);
        for port in self.errors.ports() {
            self.errors.settle(&mut self.chassis, self.now, port);
        }
    }

    /// Returns the links that the load in force saturates, with the flows that they hold back and the ports that wait,
    /// along the tables that switches hold now. Sorted by port; empty without a load.
    #[must_use]
    pub fn congestion(&self) -> Vec<Congestion> {
        let demands = self.traffic.demands();
        demands.map_or_else(Vec::new, |demands| congestion(&self.chassis, demands))
    }

    /// Brings the counters up to now that a request for `select` at the port `at` reads.
    pub(crate) fn settle_selected(&mut self, at: PortIdx, select: u8) {
        if !self.traffic.is_on() && !self.errors.is_on() {
            return;
        }
        let node = self.chassis.wire(at).node();
        let ports = match select {
            255 => 1..=254,
            num => num..=num,
        };
        for port in ports
            .map_while(|num| self.chassis.port_at(node, num))
            .collect::<Vec<_>>()
        {
            self.settle(port);
        }
    }

    /// Forgets what loads and errors have counted at a port, because its counters are lost.
    pub(crate) fn forget_counts(&mut self, port: PortIdx) {
        self.traffic.forget(self.now, port);
        self.errors.forget(self.now, port);
    }

    fn settle(&mut self, port: PortIdx) {
        if self.traffic.is_on() {
            self.traffic.settle(&mut self.chassis, self.now, port);
        }
        if self.errors.is_on() {
            self.errors.settle(&mut self.chassis, self.now, port);
        }
    }
}
