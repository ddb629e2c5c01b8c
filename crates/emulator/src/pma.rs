//! Access to performance management agents from outside: what counters count, and what agents support.

use selvedge_chassis::{Counters, DetailRow, PmaAbilities, PortIdx};
use selvedge_fabric::{Node, NodeIdx, PortRef};
use selvedge_wire::CableInfo;

use crate::attribute::port_counters::{slots, values};
use crate::load::wait_ticks;
use crate::{Congestion, Emulator, EmulatorError};

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

    /// Adds to the counters of a port, which stop at their maximum. A port that the fabric does not have is refused.
    pub fn count(&mut self, at: PortRef, more: &Counters) -> Result<(), EmulatorError> {
        let port = self.chassis.port_idx(at).ok_or_else(|| EmulatorError::NoSuchPort {
            node: format!("node {}", at.node.0),
            port: at.port.get(),
            count: self.chassis.fabric().nodes().get(at.node).map_or(0, Node::port_count),
        })?;
        let counters = self.counters_mut(port);
        for (counter, count) in slots(counters).into_iter().zip(values(more)) {
            *counter = counter.saturating_add(count);
        }
        Ok(())
    }

    /// Returns the ticks of PortXmitWait in a time at a port, as long as those of its device.
    #[must_use]
    pub fn wait_ticks(&self, at: PortRef, ns: u64) -> u64 {
        let port = self.chassis.port_idx(at);
        port.map_or(0, |port| wait_ticks(&self.chassis, port, ns))
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
        for port in self.cables.ports() {
            self.cables.settle(&mut self.chassis, self.now, port);
        }
    }

    /// Returns the links that the load in force saturates. Each has the flows that it holds back and the ports that
    /// wait for it. Flows follow the tables that switches hold now. Sorted by port; empty without a load.
    #[must_use]
    pub fn congestion(&self) -> Vec<Congestion> {
        self.traffic.congestion(&self.chassis)
    }

    /// Returns what the vendor class shows of a port's cable.
    ///
    /// # Panics
    /// If the index is of another, larger fabric.
    #[must_use]
    pub fn cable(&self, port: PortIdx) -> CableInfo {
        self.cables.info(&self.chassis, port)
    }

    /// Brings the counters up to now that a request for `select` at the port `at` reads.
    pub(crate) fn settle_selected(&mut self, at: PortIdx, select: u8) {
        if !self.traffic.is_on() && !self.errors.is_on() && !self.cables.has_errors() {
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
        self.cables.forget(&self.chassis, self.now, port);
    }

    fn settle(&mut self, port: PortIdx) {
        if self.traffic.is_on() {
            self.traffic.settle(&mut self.chassis, self.now, port);
        }
        if self.errors.is_on() {
            self.errors.settle(&mut self.chassis, self.now, port);
        }
        self.cables.settle(&mut self.chassis, self.now, port);
    }
}
