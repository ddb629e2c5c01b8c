//! For who looks at the hardware from outside: what changed it just now.

use std::collections::BTreeSet;

use selvedge_chassis::PortIdx;
use selvedge_fabric::NodeIdx;
use selvedge_types::TransactionId;
use selvedge_wire::{AttributeId, Mad};

use crate::{ClientId, Emulator};

/// Something that may have changed the hardware.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// An agent took a Set.
    Set {
        /// Whose agent.
        node: NodeIdx,
        /// Who sent it; `None`: another agent.
        by: Option<ClientId>,
        /// What was set.
        attribute: AttributeId,
        /// Attribute modifier.
        modifier: u32,
        /// Transaction id of the request.
        transaction: TransactionId,
    },
    /// An agent that has lied, or that somebody looks at, answered a Get of a block of its forwarding table: whoever
    /// asked knows now.
    Read {
        /// Whose agent.
        node: NodeIdx,
        /// Who asked; `None`: another agent.
        by: Option<ClientId>,
        /// The block.
        modifier: u32,
    },
    /// A fault struck, a link trained, or a command of the caller was carried out.
    Happened,
}

/// Changes since somebody looked; nothing is kept while nobody does.
#[derive(Clone, Debug, Default)]
pub(crate) struct Watch {
    on: bool,
    seen: Vec<Change>,
    lost: Vec<(ClientId, Mad)>,
    lied: BTreeSet<NodeIdx>,
    /// Ports that were asked to register again, if anybody wants to know.
    reregistered: Option<Vec<PortIdx>>,
}

impl Watch {
    #[inline]
    pub fn note(&mut self, change: Change) {
        if self.on {
            self.seen.push(change);
        }
    }

    /// The medium lost a client's request, or the answer to it.
    #[inline]
    pub fn note_lost(&mut self, by: Option<ClientId>, mad: &Mad) {
        if let (true, Some(by)) = (self.on, by) {
            self.lost.push((by, *mad));
        }
    }

    /// A port took a Set that asks its clients to register again.
    pub fn note_reregistered(&mut self, port: PortIdx) {
        if let Some(ports) = &mut self.reregistered {
            ports.push(port);
        }
    }

    /// From now on Gets of a switch's tables are noted as well.
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
    /// From now on Gets of a switch's forwarding table are kept as well: it may not hold what it acknowledged last.
    pub fn watch_table(&mut self, node: NodeIdx) {
        self.watch.note_liar(node);
    }

    /// From now on every Set that is taken and everything that happens by itself is kept for [`Self::take_changes`],
    /// and [`Self::advance_to_delivery`] stops there.
    pub fn watch_changes(&mut self) {
        self.watch.on = true;
    }

    /// From now on ports whose agents were asked to have clients register again (PortInfo.ClientReregister) are kept
    /// for [`Self::take_reregistered`].
    pub fn watch_reregistration(&mut self) {
        self.watch.reregistered.get_or_insert_default();
    }

    /// Those since the last call.
    pub fn take_reregistered(&mut self) -> Vec<PortIdx> {
        self.watch.reregistered.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Switches that acknowledge tables just now and do not take them.
    pub const fn liars(&self) -> &BTreeSet<NodeIdx> {
        &self.liars
    }

    /// Moves the changes since the last call into `into`, first to last.
    pub fn take_changes(&mut self, into: &mut Vec<Change>) {
        into.append(&mut self.watch.seen);
    }

    /// Moves the clients' requests, and the answers to them, that the medium has lost since the last call into `into`.
    /// Nothing stops for them.
    pub fn take_lost(&mut self, into: &mut Vec<(ClientId, Mad)>) {
        into.append(&mut self.watch.lost);
    }
}
