//! Connects client re-registration with the rest of the manager.

use std::collections::BTreeSet;

use selvedge_fabric::{Fabric, PortRef};
use selvedge_planner::{Asks, Inventory, Outcome};

use super::Sm;
use crate::registration::{Ctx, In, Registration};

impl Sm {
    /// Returns which hosts must register again, for queries.
    pub(crate) const fn registration(&self) -> &Registration {
        &self.registration
    }

    /// Hands an input to client re-registration.
    pub(crate) fn update_registration(&mut self, input: In<'_>) {
        let ctx = Ctx {
            mode: self.config.mode,
            role: self.role(),
            in_force: self.in_force.with_fabric(),
        };
        self.registration.handle(&ctx, input);
    }

    /// Returns the hosts that the next plan of the whole fabric asks to register again.
    pub(crate) fn plan_to_ask_hosts(&mut self, inventory: &Inventory) -> Asks {
        let strangers = self.hosts_with_unstored_lids(&inventory.fabric);
        self.update_registration(In::Planning {
            inventory,
            generation: self.tickets.generation(),
            strangers,
        });
        self.registration.asks(self.config.mode)
    }

    /// Returns ports that hold other LIDs than those stored for them. Once a plan is in force, returns none, because
    /// the plan has the LIDs that ports hold now.
    fn hosts_with_unstored_lids(&self, fabric: &Fabric) -> BTreeSet<PortRef> {
        if self.in_force.plan().is_some() || self.lids.is_empty() {
            return BTreeSet::new();
        }
        let ports = fabric.end_ports().filter(|(_, port)| !self.lids.is_stored(port));
        ports.map(|(at, _)| at).collect()
    }

    /// Notes that a plan was applied, with this number of failed Sets.
    pub(crate) fn hosts_asked(&mut self, fabric: &Fabric, outcome: &Outcome, failed: usize) {
        if failed > 0 {
            return;
        }
        let known = match outcome.asks {
            Asks::All => self.lids.guids().collect(),
            Asks::Nobody | Asks::These(_) => Vec::new(),
        };
        self.update_registration(In::Applied { fabric, outcome, known });
    }
}
