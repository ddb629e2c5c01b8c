//! Traps: sent to the subnet manager by LID on VL15, repeated until TrapRepress.

use std::collections::BTreeMap;

use selvedge_chassis::PortIdx;
use selvedge_fabric::NodeIdx;
use selvedge_types::{Lid, NodeKind, PKey, Sl, TransactionId};
use selvedge_wire::{
    AttributeId, CapabilityMask, Class, LocalChange, Mad, Method, Notice, PRODUCER_CA, PRODUCER_ROUTER,
    PRODUCER_SWITCH, Trap,
};

use crate::config::nanos;
use crate::emulator::{Emulator, Event};
use crate::fault::Action;
use crate::flight::Flight;

/// Largest number of unacknowledged traps of one node; further traps are suppressed. A switch has at most one trap of
/// each kind, and of security traps one for each offender.
const PENDING_MAX: usize = 64;

#[derive(Clone, Debug)]
struct Pending {
    serial: u32,
    port: PortIdx,
    notice: Notice,
    sends_left: u32,
}

/// All unacknowledged traps, by node.
#[derive(Clone, Debug, Default)]
pub(crate) struct TrapTable {
    pending: BTreeMap<NodeIdx, Vec<Pending>>,
    serial: u32,
}

impl TrapTable {
    pub fn forget(&mut self, node: NodeIdx) {
        self.pending.remove(&node);
    }
}

impl Emulator {
    /// Sends a trap about an event at the end port `own` to the subnet manager. A trap equal to an unacknowledged one
    /// is not sent again.
    pub(crate) fn raise_trap(&mut self, own: PortIdx, trap: &Trap) {
        let data = self.chassis.port(own);
        let settings = data.settings();
        let wanted = CapabilityMask(data.capability_mask).contains(CapabilityMask::TRAP);
        if !wanted || settings.sm_lid == Lid::NONE {
            self.counts.traps_suppressed += 1;
            return;
        }
        let node = self.chassis.wire(own).node();
        let producer = match self.chassis.fabric().node(node).kind {
            NodeKind::Ca => PRODUCER_CA,
            NodeKind::Switch => PRODUCER_SWITCH,
            NodeKind::Router => PRODUCER_ROUTER,
        };
        let notice = Notice::new(producer, settings.lids.base, trap);
        let pending = self.traps.pending.entry(node).or_default();
        if pending.iter().any(|p| p.port == own && p.notice == notice) {
            return;
        }
        if pending.len() >= PENDING_MAX {
            self.counts.traps_suppressed += 1;
            return;
        }
        self.traps.serial = self.traps.serial.wrapping_add(1);
        let serial = self.traps.serial;
        pending.push(Pending {
            serial,
            port: own,
            notice,
            sends_left: self.config.trap_sends_max,
        });
        self.repeat_trap(node, serial);
    }

    /// Sends trap 144 after a change of a port's capability mask, if the capabilities include it.
    pub(crate) fn raise_capability_trap(&mut self, own: PortIdx) {
        let data = self.chassis.port(own);
        let capabilities = CapabilityMask(data.capability_mask);
        if !capabilities.contains(CapabilityMask::CAPABILITY_MASK_NOTICE) {
            return;
        }
        let trap = Trap::LocalChange(LocalChange {
            lid: data.settings().lids.base,
            capabilities,
            ..LocalChange::default()
        });
        self.raise_trap(own, &trap);
    }

    /// Sends an unacknowledged trap again, and schedules its repetition.
    pub(crate) fn repeat_trap(&mut self, node: NodeIdx, serial: u32) {
        let Some(pending) = self.traps.pending.get_mut(&node) else {
            return;
        };
        let Some(index) = pending.iter().position(|p| p.serial == serial) else {
            return;
        };
        let trap = &mut pending[index];
        if trap.sends_left == 0 {
            pending.remove(index);
            self.counts.traps_given_up += 1;
            return;
        }
        trap.sends_left -= 1;
        let (port, notice) = (trap.port, trap.notice);
        let interval = self.trap_interval(port);
        self.command_in(interval, Action::TrapDue { node, serial });
        self.send_trap(port, serial, &notice);
    }

    /// Handles a TrapRepress: the trap is no longer repeated.
    pub(crate) fn repress_trap(&mut self, node: NodeIdx, transaction: TransactionId) {
        if let Some(pending) = self.traps.pending.get_mut(&node) {
            pending.retain(|p| u64::from(p.serial) != transaction.0);
        }
    }

    fn send_trap(&mut self, port: PortIdx, serial: u32, notice: &Notice) {
        let settings = self.chassis.port(port).settings();
        let mut mad = Mad::request(Class::SubnLid, Method::Trap, AttributeId::NOTICE, 0);
        mad.set_transaction(TransactionId(u64::from(serial)));
        mad.write(notice);
        let flight = Flight {
            mad,
            slid: settings.lids.base,
            dlid: settings.sm_lid,
            at: port,
            origin: None,
            qp: 0,
            boot: 0,
            hops: 0,
            pkey: PKey(0),
            sl: Sl::default(),
        };
        self.counts.traps += 1;
        match self.launch(&flight) {
            Some(slot) => self.schedule(0, port, Event::Inject(slot)),
            None => self.count_drop(&mad, crate::DropReason::Crowded),
        }
    }

    /// Returns the longer of the configured interval and the port's SubnetTimeOut.
    ///
    /// Source: IBA vol 1 §14.2.5.6: SubnetTimeOut is the shortest time between traps, 4.096 µs × 2^value.
    fn trap_interval(&self, port: PortIdx) -> u64 {
        let timeout = 4_096_u64 << self.chassis.port(port).settings().subnet_timeout.min(31);
        timeout.max(nanos(self.config.trap_interval))
    }
}
