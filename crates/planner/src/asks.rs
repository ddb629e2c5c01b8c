//! Sets that ask hosts to register again (PortInfo.ClientReregister).

use std::collections::BTreeSet;
use std::sync::Arc;

use selvedge_fabric::{Fabric, PortRef};
use selvedge_plan::{ChangeSet, Op, Phase, Plan};
use selvedge_types::{Guid, PortState};
use selvedge_wire::CapabilityMask;

/// Hosts that a plan asks to register again.
#[derive(Clone, Debug, Default)]
pub enum Asks {
    /// No host.
    #[default]
    Nobody,
    /// Every host.
    All,
    /// Ports with these GUIDs.
    These(Arc<BTreeSet<Guid>>),
}

impl Asks {
    /// True if a port is asked and supports re-registration.
    pub fn includes(&self, fabric: &Fabric, at: PortRef) -> bool {
        let is_meant = match self {
            Self::Nobody => false,
            Self::All => true,
            Self::These(ports) => fabric.port(at).is_some_and(|port| ports.contains(&port.guid)),
        };
        is_meant && understands(fabric, at)
    }
}

/// True if a port supports client re-registration. Source: IBA vol 1 §14.2.5.6 (IsClientReregistrationSupported).
fn understands(fabric: &Fabric, at: PortRef) -> bool {
    let port = fabric.port(at).filter(|_| !fabric.node(at.node).is_switch());
    port.is_some_and(|port| CapabilityMask(port.capability.mask).contains(CapabilityMask::CLIENT_REREGISTRATION))
}

/// Appends a last phase with a Set for every port that is asked to register again and has no Set yet. This phase comes
/// last: when hosts register again, the SA already answers from the new plan.
pub(crate) fn ask(asks: &Asks, fabric: &Fabric, plan: &Plan, changes: &mut ChangeSet) {
    let ops = changes.phases.iter().flat_map(|phase| &phase.ops);
    let set: BTreeSet<PortRef> = ops
        .filter_map(|op| match op {
            Op::Port { port, .. } => Some(*port),
            Op::Lft { .. }
            | Op::Switch { .. }
            | Op::PKeys { .. }
            | Op::SlToVl { .. }
            | Op::Arbitration { .. }
            | Op::Link { .. } => None,
        })
        .collect();
    let is_active = |at: PortRef| {
        let port = fabric.port(at);
        port.is_some_and(|port| port.link.state == PortState::Active)
    };
    let left = plan.ports.iter().filter(|(at, _)| !set.contains(at) && is_active(**at));
    let left = left.filter(|(at, _)| asks.includes(fabric, **at));
    let ops: Vec<Op> = left
        .map(|(&port, &settings)| Op::Port {
            port,
            settings,
            state: None,
        })
        .collect();
    if !ops.is_empty() {
        changes.phases.push(Phase {
            label: "ask hosts to register again",
            wait_before_ns: 0,
            ops,
        });
    }
}
