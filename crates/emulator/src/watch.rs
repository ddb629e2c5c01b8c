//! Changes of the hardware, for observers such as tests.

use std::collections::BTreeSet;

use selvedge_chassis::PortIdx;
use selvedge_fabric::NodeIdx;
use selvedge_types::TransactionId;
use selvedge_wire::{AttributeId, Mad};

use crate::{ClientId, Emulator};

/// A possible change of the hardware.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// An agent accepted a Set.
    Set {
        /// Node of the agent.
        node: NodeIdx,
        /// The client that sent the Set; `None`: another agent.
        by: Option<ClientId>,
        /// The attribute.
        attribute: AttributeId,
        /// Attribute modifier.
        modifier: u32,
        /// Transaction id of the request.
        transaction: TransactionId,
    },
    /// An agent answered a Get of an LFT block, and the switch is watched or has acknowledged blocks without storing
    /// them. So the requester now knows the real contents.
    Read {
        /// Node of the agent.
        node: NodeIdx,
        /// The client that sent the Get; `None`: another agent.
        by: Option<ClientId>,
        /// The block.
        modifier: u32,
    },
    /// A fault began, a link trained, or a command of the caller was carried out.
    Happened,
}

/// Changes since the last call; empty while nothing is watched.
#[derive(Clone, Debug, Default)]
pub(crate) struct Watch {
    on: bool,
    seen: Vec<Change>,
    lost: Vec<(ClientId, Mad)>,
    lied: BTreeSet<NodeIdx>,
    /// Ports that were asked to register again, if watched.
    reregistered: Option<Vec<PortIdx>>,
}

impl Watch {
    #[inline]
    pub fn note(&mut self, change: Change) {
        if self.on {
            self.seen.push(change);
        }
    }

    /// Records that the medium lost a client's request, or the response to it.
    #[inline]
    pub fn note_lost(&mut self, by: Option<ClientId>, mad: &Mad) {
        if let (true, Some(by)) = (self.on, by) {
            self.lost.push((by, *mad));
        }
    }

    /// Records that a port accepted a Set with ClientReregister.
    pub fn note_reregistered(&mut self, port: PortIdx) {
        if let Some(ports) = &mut self.reregistered {
            ports.push(port);
        }
    }

    /// Records Gets of a switch's tables, too, from now on.
    pub fn note_liar(&mut self, node: NodeIdx) {
        self.lied.insert(node);
    }

    pub fn has_lied(&self, node: NodeIdx) -> bool {
        self.on && self.lied.contains(&node)
    }

    #[inline]
    pub const fn has_seen(&self) -> bool {
        !self.seen.is_empty()
    }
}

impl Emulator {
    /// Records Gets of a switch's forwarding table, too, from now on, because the table may differ from what the switch
    /// acknowledged last.
    pub fn watch_table(&mut self, node: NodeIdx) {
        self.watch.note_liar(node);
    }

    /// Records every accepted Set and every other change for [`Self::take_changes`] from now on.
    /// [`Self::advance_to_delivery`] stops at each of them.
    pub fn watch_changes(&mut self) {
        self.watch.on = true;
    }

    /// Records the ports that accept PortInfo.ClientReregister for [`Self::take_reregistered`] from now on.
    pub fn watch_reregistration(&mut self) {
        self.watch.reregistered.get_or_insert_default();
    }

    /// Returns the ports that were asked to register again since the last call.
    pub fn take_reregistered(&mut self) -> Vec<PortIdx> {
        self.watch.reregistered.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Returns the switches that currently acknowledge tables without storing them.
    pub const fn liars(&self) -> &BTreeSet<NodeIdx> {
        &self.liars
    }

    /// Moves the changes since the last call into `into`, first to last.
    pub fn take_changes(&mut self, into: &mut Vec<Change>) {
        into.append(&mut self.watch.seen);
    }

    /// Moves the clients' requests, and the responses to them, that the medium has lost since the last call into
    /// `into`. They do not stop [`Self::advance_to_delivery`].
    pub fn take_lost(&mut self, into: &mut Vec<(ClientId, Mad)>) {
        into.append(&mut self.watch.lost);
    }
}
