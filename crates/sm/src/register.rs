//! Hosts asked to register again (PortInfo.ClientReregister), where what they had registered is lost.
//!
//! The manager does not know what that is: whoever keeps registrations says by [`Command::Reregister`] that they are
//! gone. The next plan then has a Set of every host port that understands it, whether or not anything else changes
//! there.
//!
//! What a host had registered is lost as well if it was gone from the plan for a while: only that one is asked.
//!
//! Or if another manager became master after a sweep had looked and before its plan was applied: the host registered
//! with that one, and the plan's Set of its port names this manager again. So hosts that a plan writes to are kept until
//! an election has shown that nobody else was master; if somebody was, they are asked.

use std::collections::BTreeMap;
use std::sync::Arc;

use selvedge_fabric::{Fabric, Port, PortRef};
use selvedge_plan::{Generation, Op};
use selvedge_planner::{Asks, Inventory, Outcome};
use selvedge_types::{Guid, LidRange, PortNum, PortState};

use crate::config::Mode;
use crate::core::Sm;
#[cfg(doc)]
use crate::io::Command;
use crate::view::Role;

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

/// An end port as a plan has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Served {
    lids: LidRange,
    /// The other end of its cable.
    peer: Option<(Guid, PortNum)>,
}

impl Served {
    fn of(fabric: &Fabric, port: &Port, lids: LidRange) -> Self {
        let peer = port.peer.map(|peer| (fabric.node(peer.node).guid, peer.port));
        Self { lids, peer }
    }
}

impl Sm {
    /// A plan of the whole fabric is made: whom it is to ask.
    pub(crate) fn plan_to_ask_hosts(&mut self, inventory: &Inventory) -> Asks {
        self.note_returned(inventory);
        let is_managing = self.config.mode == Mode::Manage;
        if is_managing && self.reregister != Reregister::Not {
            self.reregister = Reregister::Planned(self.generation);
            return Asks::All;
        }
        match is_managing && !self.returned.is_empty() {
            true => Asks::These(Arc::clone(&self.returned)),
            false => Asks::Nobody,
        }
    }

    /// Hosts that the plan in force does not have, and whose links carry packets all the same: they were cut off behind
    /// some switch, or another manager's, and what they had registered was forgotten when they were gone. Of a link
    /// that went down and came up a host knows by itself.
    ///
    /// The same of a host with other LIDs than the plan gives it, as Sets for another one got there when cables were
    /// moved: it registered in that one's name. Of one that is elsewhere than the plan has it and has not lost its
    /// link: what the plan has was another one with its GUID. And of hosts that the plan has and that name another
    /// master: there were two for a while, and what they registered with the other one is lost when that leaves.
    ///
    /// Before the first plan of a life the ports tell whose they were: what is stored is not all of those that name
    /// another master, unless this manager has stood by, and knows. It knows of hosts on switches that it saw when it
    /// began to stand by: its own cable may have been moved to another subnet since. Masters of two subnets that
    /// became one may have had the same LID: a port with a LID that was never stored for it here is the other's, if any
    /// was stored.
    fn note_returned(&mut self, inventory: &Inventory) {
        let fabric = &inventory.fabric;
        let known = self.in_plan().or_else(|| self.served.clone());
        let own = fabric.port(inventory.local).map(|port| port.settings.lids);
        let stood_by_in = self.others.stood_by_in.as_ref();
        let hangs_on = |port: &Port| {
            port.peer
                .map(|peer| fabric.node(peer.node))
                .filter(|node| node.is_switch())
        };
        let was_there = |port: &Port, then: &Fabric| hangs_on(port).is_none_or(|node| then.find(node.guid).is_some());
        let names_us = |port: &Port| own.is_none_or(|own| own.contains(port.settings.sm_lid));
        let served = |port: &Port| Served::of(fabric, port, port.settings.lids);
        let is_ours = |port: &Port| match &known {
            Some(known) => known.get(&port.guid) == Some(&served(port)) && names_us(port),
            None => match stood_by_in {
                Some(then) => was_there(port, then),
                None => names_us(port) && (self.lids.is_empty() || self.lids.is_stored(port)),
            },
        };
        let is_host = |at: PortRef| !fabric.node(at.node).is_switch() && at != inventory.local;
        let ends = fabric
            .end_ports()
            .filter(|(at, port)| is_host(*at) && port.link.state == PortState::Active);
        let returned: Vec<Guid> = ends
            .filter(|(_, port)| !is_ours(port))
            .map(|(_, port)| port.guid)
            .collect();
        if !returned.is_empty() {
            Arc::make_mut(&mut self.returned).extend(returned);
        }
    }

    /// End ports that the plan in force has.
    fn in_plan(&self) -> Option<BTreeMap<Guid, Served>> {
        let (plan, fabric) = self.view.plan.as_ref().zip(self.view.fabric.as_ref())?;
        let named = |(at, lids)| fabric.port(at).map(|port| (port.guid, Served::of(fabric, port, lids)));
        Some(plan.lids.iter().filter_map(named).collect())
    }

    /// The plan in force is about to be forgotten, by a master that stays one: what its hosts had registered is not.
    pub(crate) fn remember_served(&mut self) {
        self.served = self.in_plan().or_else(|| self.served.take());
    }

    /// A plan is on its way: hosts that it writes to name this manager from now on, whoever they named.
    pub(crate) fn note_renamed(&mut self, fabric: &Fabric, outcome: &Outcome) {
        let ops = outcome.changes.value().phases.iter().flat_map(|phase| &phase.ops);
        let hosts = ops.filter_map(|op| match op {
            Op::Port { port, .. } if !fabric.node(port.node).is_switch() => Some(*port),
            _ => None,
        });
        let unasked = hosts.filter(|at| !outcome.asks.includes(fabric, *at));
        let guids = unasked.filter_map(|at| fabric.port(at).map(|port| port.guid));
        self.others.renamed.extend(guids);
    }

    /// There was another master meanwhile.
    pub(crate) fn doubt_renamed(&mut self) {
        let renamed = std::mem::take(&mut self.others.renamed);
        if self.view.role == Role::Master && !renamed.is_empty() {
            Arc::make_mut(&mut self.returned).extend(renamed);
        }
    }

    /// A plan is applied, with so many Sets that failed.
    pub(crate) fn hosts_asked(&mut self, fabric: &Fabric, outcome: &Outcome, failed: usize) {
        if failed > 0 {
            return;
        }
        let plan = &outcome.plan;
        let is_in_plan = |guid: &Guid| {
            let at = fabric.find_port(*guid);
            at.is_some_and(|at| fabric.node(at.node).is_switch() || plan.ports.contains_key(&at))
        };
        match &outcome.asks {
            Asks::Nobody => {}
            Asks::All => {
                // Who is away was not asked, and it is not known what he had registered.
                self.returned = Arc::new(self.lids.guids().filter(|guid| !is_in_plan(guid)).collect());
                if self.reregister == Reregister::Planned(outcome.plan.generation) {
                    self.reregister = Reregister::Not;
                }
            }
            Asks::These(asked) => {
                let is_left = |guid: &Guid| !asked.contains(guid) || !is_in_plan(guid);
                Arc::make_mut(&mut self.returned).retain(is_left);
            }
        }
    }
}
