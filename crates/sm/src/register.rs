//! Hosts asked to register again (PortInfo.ClientReregister), where what they had registered is lost.
//!
//! The manager does not know what that is: whoever keeps registrations says by [`Command::Reregister`] that they are
//! gone. The next plan then has a Set of every host port that understands it, whether or not anything else changes
//! there.

use std::collections::BTreeSet;

use selvedge_fabric::{Fabric, PortRef};
use selvedge_plan::{ChangeSet, Generation, Op, Phase, Plan};
use selvedge_types::PortState;
use selvedge_wire::CapabilityMask;

use crate::config::Mode;
use crate::core::Sm;
#[cfg(doc)]
use crate::io::Command;

/// Whether hosts are to register again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reregister {
    /// What they registered is known.
    #[default]
    Not,
    /// They are, with the next plan.
    Wanted,
    /// The plan of this generation asks them.
    Planned(Generation),
}

impl Sm {
    /// A plan of the whole fabric is made: true if it is to ask hosts.
    pub(crate) fn plan_to_ask_hosts(&mut self) -> bool {
        let is_wanted = self.config.mode == Mode::Manage && self.reregister != Reregister::Not;
        if is_wanted {
            self.reregister = Reregister::Planned(self.generation);
        }
        is_wanted
    }

    /// True if the plan of this generation asks them.
    pub(crate) fn asks_hosts(&self, generation: Generation) -> bool {
        self.reregister == Reregister::Planned(generation)
    }

    /// A plan is applied, with so many Sets that failed.
    pub(crate) fn hosts_asked(&mut self, generation: Generation, failed: usize) {
        if failed == 0 && self.asks_hosts(generation) {
            self.reregister = Reregister::Not;
        }
    }
}

/// True if a port has clients that understand it. Source: IBA vol 1 §14.2.5.6 (IsClientReregistrationSupported).
pub fn understands(fabric: &Fabric, at: PortRef) -> bool {
    let port = fabric.port(at).filter(|_| !fabric.node(at.node).is_switch());
    port.is_some_and(|port| CapabilityMask(port.capability.mask).contains(CapabilityMask::CLIENT_REREGISTRATION))
}

/// Adds a Set of every such port that has none, when all else is done: they are answered from the new plan then.
pub fn ask_all(fabric: &Fabric, plan: &Plan, changes: &mut ChangeSet) {
    let ops = changes.phases.iter().flat_map(|phase| &phase.ops);
    let set: BTreeSet<PortRef> = ops
        .filter_map(|op| match op {
            Op::Port { port, .. } => Some(*port),
            Op::Lft { .. } | Op::Switch { .. } | Op::PKeys { .. } | Op::SlToVl { .. } | Op::Arbitration { .. } => None,
        })
        .collect();
    let is_active = |at: PortRef| {
        let port = fabric.port(at);
        port.is_some_and(|port| port.link.state == PortState::Active)
    };
    let left = plan.ports.iter().filter(|(at, _)| !set.contains(at) && is_active(**at));
    let left = left.filter(|(at, _)| understands(fabric, **at));
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
