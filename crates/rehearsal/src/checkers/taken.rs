//! A Set on its way, and as an agent has taken it.

use selvedge_chassis::PortIdx;
use selvedge_emulator::ClientId;
use selvedge_fabric::NodeIdx;
use selvedge_sim::Time;
use selvedge_wire::AttributeId;

use super::rules::Rule;
use crate::manager::ManagerId;

/// A table on a way that is not what its manager takes it for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Astray {
    /// Whom it is meant for.
    pub meant: NodeIdx,
    /// The first port on the way whose cable leads elsewhere, and the nodes where it did and does.
    pub port: PortIdx,
    pub ends: [NodeIdx; 2],
}

/// A Set as it left its manager.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    pub manager: ManagerId,
    /// Of its data.
    pub content: u64,
    /// How many were sent before it.
    pub serial: u64,
    /// When it was sent.
    pub at: Time,
    /// When its manager had last begun to look: it is right for what was there then, however late it arrives.
    pub looked_at: Option<Time>,
    /// The switch that it is meant for, if it is a table.
    pub to: Option<NodeIdx>,
    /// Whether its way is another one than its manager knows, if it is a table, or for a port.
    pub astray: Option<Astray>,
}

/// A Set that an agent has taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taken {
    pub node: NodeIdx,
    pub attribute: AttributeId,
    pub modifier: u32,
    /// The client that sent it, unless a flipped bit made its transaction id one that no client sent.
    pub by: Option<ClientId>,
    pub sent: Option<Sent>,
    /// A later one to the same place was taken before it.
    pub is_late: bool,
    /// Why it may do harm, if it may.
    pub excuse: Option<Rule>,
    /// It gave a port other LIDs.
    pub is_renumbering: bool,
}

impl Taken {
    /// The switch and block, if it is of a linear table.
    pub fn block(&self) -> Option<(NodeIdx, u32)> {
        (self.attribute == AttributeId::LINEAR_FORWARDING).then_some((self.node, self.modifier))
    }
}
