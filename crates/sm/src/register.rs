//! Hosts asked to register again (PortInfo.ClientReregister), where what they had registered is lost.
//!
//! The manager does not know what that is: whoever keeps registrations says by [`Command::Reregister`] that they are
//! gone. The next plan then has a Set of every host port that understands it, whether or not anything else changes
//! there.
//!
//! What a host had registered is lost as well if it was gone from the plan for a while: only that one is asked.

use std::collections::BTreeSet;
use std::sync::Arc;

use selvedge_fabric::{Fabric, Port, PortRef};
use selvedge_plan::{ChangeSet, Generation, Op, Phase, Plan};
use selvedge_types::{Guid, PortState};
use selvedge_wire::CapabilityMask;

use crate::config::Mode;
use crate::core::Sm;
use crate::inventory::Inventory;
#[cfg(doc)]
use crate::io::Command;
use crate::job::Outcome;

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

/// Whom a plan asks to register again.
#[derive(Clone, Debug, Default)]
pub enum Asks {
    /// Nobody.
    #[default]
    Nobody,
    /// Every host.
    All,
    /// Ports with these GUIDs.
    These(Arc<BTreeSet<Guid>>),
}

impl Asks {
    /// True if a port is asked, and understands it.
    pub fn includes(&self, fabric: &Fabric, at: PortRef) -> bool {
        let is_meant = match self {
            Self::Nobody => false,
            Self::All => true,
            Self::These(ports) => fabric.port(at).is_some_and(|port| ports.contains(&port.guid)),
        };
        is_meant && understands(fabric, at)
    }
}

impl Sm {
    /// A plan of the whole fabric is made: whom it is to ask.
    pub(crate) fn plan_to_ask_hosts(&mut self, inventory: &Inventory) -> Asks {
        self.note_returned(&inventory.fabric);
        let is_managing = self.config.mode == Mode::Manage;
        if is_managing && self.reregister != Reregister::Not {
            self.reregister = Reregister::Planned(self.generation);
            return Asks::All;
        }
        match is_managing && !self.returned.is_empty() {
            true => Asks::These(Arc::new(self.returned.clone())),
            false => Asks::Nobody,
        }
    }

    /// Hosts that the plan in force does not have, and whose links carry packets all the same: they were cut off behind
    /// some switch, or another manager's, and what they had registered was forgotten when they were gone. Of a link
    /// that went down and came up a host knows by itself.
    fn note_returned(&mut self, fabric: &Fabric) {
        let (Some(plan), Some(old)) = (&self.view.plan, &self.view.fabric) else {
            return;
        };
        let guid_of = |(at, _)| old.port(at).map(|port| port.guid);
        let known: BTreeSet<Guid> = plan.lids.iter().filter_map(guid_of).collect();
        let is_new = |(at, port): &(PortRef, &Port)| {
            let is_active = port.link.state == PortState::Active;
            is_active && !fabric.node(at.node).is_switch() && !known.contains(&port.guid)
        };
        self.returned
            .extend(fabric.end_ports().filter(is_new).map(|(_, port)| port.guid));
    }

    /// A plan is applied, with so many Sets that failed.
    pub(crate) fn hosts_asked(&mut self, outcome: &Outcome, failed: usize) {
        if failed > 0 {
            return;
        }
        match &outcome.asks {
            Asks::Nobody => {}
            Asks::All => {
                self.returned.clear();
                if self.reregister == Reregister::Planned(outcome.plan.generation) {
                    self.reregister = Reregister::Not;
                }
            }
            Asks::These(asked) => self.returned.retain(|guid| !asked.contains(guid)),
        }
    }
}

/// True if a port has clients that understand it. Source: IBA vol 1 §14.2.5.6 (IsClientReregistrationSupported).
fn understands(fabric: &Fabric, at: PortRef) -> bool {
    let port = fabric.port(at).filter(|_| !fabric.node(at.node).is_switch());
    port.is_some_and(|port| CapabilityMask(port.capability.mask).contains(CapabilityMask::CLIENT_REREGISTRATION))
}

/// Adds a Set of every port that is asked and has none, when all else is done: they are answered from the new plan then.
pub fn ask(asks: &Asks, fabric: &Fabric, plan: &Plan, changes: &mut ChangeSet) {
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
