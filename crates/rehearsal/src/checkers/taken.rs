//! A Set: as its manager sent it, and as an agent executed it.

use selvedge_chassis::PortIdx;
use selvedge_emulator::ClientId;
use selvedge_fabric::NodeIdx;
use selvedge_sim::Time;
use selvedge_wire::AttributeId;

use super::rules::Rule;
use crate::manager::ManagerId;

/// A Set on a directed route that ends at another node than its manager believes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Astray {
    /// The intended node.
    pub meant: NodeIdx,
    /// The first port on the route with a moved cable; `ends` are the nodes at the other end of its cable, before and
    /// now.
    pub port: PortIdx,
    pub ends: [NodeIdx; 2],
}

/// A Set at the time when its manager sent it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    pub manager: ManagerId,
    /// Digest of the Set's data.
    pub content: u64,
    /// Number of the Set, by order of sending.
    pub serial: u64,
    /// When the Set was sent.
    pub at: Time,
    /// When the manager began its last sweep or probe before it sent the Set. The Set is judged by the fabric of that
    /// time, however late it arrives.
    pub looked_at: Option<Time>,
    /// The intended switch, if the Set writes a block of a linear table.
    pub to: Option<NodeIdx>,
    /// The intended and the real end of the directed route, if a cable on the route was moved. Known only for a Set of
    /// a linear table or of a port.
    pub astray: Option<Astray>,
}

/// A Set that an agent has taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taken {
    pub node: NodeIdx,
    pub attribute: AttributeId,
    pub modifier: u32,
    /// The client that sent the Set; `None` if a flipped bit made its transaction id one that no client has sent.
    pub by: Option<ClientId>,
    pub sent: Option<Sent>,
    /// True if a later Set of the same node, attribute and modifier was executed before this one.
    pub is_late: bool,
    /// The rule that excuses harm done by the Set, if there is one.
    pub excuse: Option<Rule>,
    /// True if the Set gave a port other LIDs.
    pub is_renumbering: bool,
}

impl Taken {
    /// Returns the switch and block, if the Set writes a linear table.
    pub fn block(&self) -> Option<(NodeIdx, u32)> {
        (self.attribute == AttributeId::LINEAR_FORWARDING).then_some((self.node, self.modifier))
    }
}
