//! Client re-registration (PortInfo.ClientReregister): which hosts a plan asks to register again, because their
//! registrations are lost.
//!
//! The manager does not know what hosts register. The coordinator reports that all registrations are lost
//! ([`In::AllLost`]), or those of some ports ([`In::Lost`]). The next plan of the whole fabric then has a Set for each
//! of these host ports that supports re-registration, even if nothing else changes at the port. The ports are removed
//! from the list when such a plan is applied and no Set of it has failed ([`In::Applied`]).
//!
//! A host that was absent from the plan for a while has lost its registrations too: only that host is asked to register
//! again.
//!
//! Hosts are also asked to register again if another manager became master between the election of a sweep and the end
//! of the sweep's plan: a host may have registered with that manager before the plan's Set of its port named this one
//! again. So hosts with a Set in a plan are kept in a list until an election has found that no other manager was
//! master. If there was another master, these hosts are asked to register again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use selvedge_fabric::{Fabric, Port, PortRef};
use selvedge_plan::{Generation, Op, Plan};
use selvedge_planner::{Asks, Inventory, Outcome};
use selvedge_types::{Guid, LidRange, PortNum, PortState};

use crate::config::Mode;
use crate::election::Role;

/// The hosts that must register again.
#[derive(Debug, Default)]
pub struct Registration {
    /// Whether all hosts must register again.
    all: AllHosts,
    /// Ports with hosts that must register again, by GUID.
    ports: Arc<BTreeSet<Guid>>,
    /// End ports of the plan in force, saved when it was dropped.
    served: Option<BTreeMap<Guid, Served>>,
    /// Hosts that got Sets of plans without a request to register again, since an election in which no other manager
    /// was master.
    renamed: BTreeSet<Guid>,
    /// The fabric in which this manager last stood by; `None` if it never did in this run. It also becomes `None` if,
    /// after it became master, this manager was cut off, or found another master while it had no plan in force.
    stood_by_in: Option<Arc<Fabric>>,
}

/// Whether all hosts must register again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum AllHosts {
    /// No: the registrations are known.
    #[default]
    Known,
    /// Yes: the next plan asks the hosts.
    Lost,
    /// Yes: the plan of this generation asks the hosts.
    Asked(Generation),
}

/// An end port as the plan describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Served {
    lids: LidRange,
    /// The port at the other end of the cable.
    peer: Option<(Guid, PortNum)>,
}

impl Served {
    fn of(fabric: &Fabric, port: &Port, lids: LidRange) -> Self {
        let peer = port.peer.map(|peer| (fabric.node(peer.node).guid, peer.port));
        Self { lids, peer }
    }
}

/// The inputs that decide which hosts must register again.
#[derive(Clone, Copy, Debug)]
pub struct Ctx<'a> {
    /// The mode of the manager.
    pub mode: Mode,
    /// The role of the manager.
    pub role: Role,
    /// The plan in force, with its fabric.
    pub in_force: Option<(&'a Fabric, &'a Plan)>,
}

/// The inputs of this sub-machine.
#[derive(Debug)]
pub enum In<'a> {
    /// The registrations of hosts are lost.
    AllLost,
    /// The registrations of these ports are lost. Sent to a manager that is not master, it replaces an earlier list.
    Lost(BTreeSet<Guid>),
    /// The registrations of hosts are known after all.
    Known,
    /// The plan in force is about to be dropped, and there was no other master: the registrations of its hosts stay.
    Dropped,
    /// Another manager is or was master, and the plan in force is about to be dropped.
    OtherMaster,
    /// An election has shown that no other manager is master.
    NoOtherMaster,
    /// The manager stands by in this fabric.
    StoodBy(Arc<Fabric>),
    /// The SMInfo state of the manager has changed.
    RoleChanged,
    /// A plan of the whole fabric is about to be made. [`Registration::asks`] then returns the hosts to ask.
    Planning {
        /// The inventory of the sweep.
        inventory: &'a Inventory,
        /// The generation of the plan.
        generation: Generation,
        /// Ports that hold other LIDs than are stored for them. Empty if none are stored, or a plan is in force.
        strangers: BTreeSet<PortRef>,
    },
    /// A plan is about to be applied. Hosts with a Set in it have this manager as their master from now on.
    Applying {
        /// The fabric that the plan is for.
        fabric: &'a Fabric,
        /// The plan.
        outcome: &'a Outcome,
    },
    /// A plan has been applied, and none of its Sets failed.
    Applied {
        /// The fabric as the plan left it.
        fabric: &'a Fabric,
        /// The plan.
        outcome: &'a Outcome,
        /// Every port with known LIDs, if the plan asked all hosts.
        known: Vec<Guid>,
    },
}

impl Registration {
    /// Handles one input. There is no immediate effect: the next plan asks hosts.
    pub fn handle(&mut self, ctx: &Ctx<'_>, input: In<'_>) {
        match input {
            In::AllLost => self.all = AllHosts::Lost,
            In::Lost(ports) => {
                if ctx.role != Role::Master {
                    self.ports = Arc::default();
                }
                Arc::make_mut(&mut self.ports).extend(ports);
            }
            In::Known => self.all = AllHosts::Known,
            In::Dropped => self.remember_served(ctx),
            In::OtherMaster => self.meet_master(ctx),
            In::NoOtherMaster => self.renamed.clear(),
            In::StoodBy(fabric) => self.stood_by_in = Some(fabric),
            In::RoleChanged => match ctx.role {
                Role::Master => {}
                // Its own link is down: what hosts had registered is known still, but for hosts that name another
                // manager when it is back.
                Role::Discovering => self.stood_by_in = None,
                Role::Standby | Role::NotActive => self.served = None,
            },
            In::Planning {
                inventory,
                generation,
                strangers,
            } => {
                self.note_returned(ctx, inventory, &strangers);
                if ctx.mode == Mode::Manage && self.asks_all() {
                    self.all = AllHosts::Asked(generation);
                }
            }
            In::Applying { fabric, outcome } => self.note_renamed(fabric, outcome),
            In::Applied { fabric, outcome, known } => self.forget_asked(fabric, outcome, known),
        }
    }

    /// Returns the hosts that a plan made now asks.
    pub fn asks(&self, mode: Mode) -> Asks {
        match mode {
            Mode::Manage if self.asks_all() => Asks::All,
            Mode::Manage if !self.ports.is_empty() => Asks::These(Arc::clone(&self.ports)),
            Mode::Manage | Mode::DryRun | Mode::Watch => Asks::Nobody,
        }
    }

    /// Returns true if every host must still be asked to register again.
    pub fn asks_all(&self) -> bool {
        self.all != AllHosts::Known
    }

    /// Returns the ports of hosts that must still be asked to register again.
    pub const fn unasked(&self) -> &Arc<BTreeSet<Guid>> {
        &self.ports
    }

    /// Adds hosts that the plan in force does not have, although their links are ACTIVE. They were behind a switch that
    /// was cut off, or belonged to another manager, and their registrations were dropped when the hosts were gone. (A
    /// host registers again by itself after its own link went down and came up.)
    ///
    /// Adds also:
    /// - a host with other LIDs than the plan gives it: when cables were moved, Sets for another host reached it, and
    ///   it registered with the LIDs of the other host;
    /// - a host at another place than in the plan, if it has not lost its link: so the plan has another host with the
    ///   same GUID;
    /// - a host of the plan with the MasterSMLID of another master: there were two masters for a while, and
    ///   registrations with the other master are lost when that manager leaves.
    ///
    /// Before the first plan of a run, each port's MasterSMLID shows which manager it belonged to: the stored state
    /// does not include all ports of another master. A manager that has stood by knows the hosts of its former master.
    /// Of these, only hosts on switches that it found when it began to stand by count, because its own cable may have
    /// been moved to another subnet since. If two subnets are joined, both masters may have had the same LID: a port
    /// with another LID than the one stored for it belongs to the other master, if any LIDs are stored.
    fn note_returned(&mut self, ctx: &Ctx<'_>, inventory: &Inventory, strangers: &BTreeSet<PortRef>) {
        let fabric = &inventory.fabric;
        let known = in_plan(ctx).or_else(|| self.served.clone());
        let own = fabric.port(inventory.local).map(|port| port.settings.lids);
        let hangs_on = |port: &Port| {
            port.peer
                .map(|peer| fabric.node(peer.node))
                .filter(|node| node.is_switch())
        };
        let was_there = |port: &Port, then: &Fabric| hangs_on(port).is_none_or(|node| then.find(node.guid).is_some());
        let names_us = |port: &Port| own.is_none_or(|own| own.contains(port.settings.sm_lid));
        let served = |port: &Port| Served::of(fabric, port, port.settings.lids);
        let is_ours = |at: PortRef, port: &Port| match (&known, &self.stood_by_in) {
            (Some(known), _) => known.get(&port.guid) == Some(&served(port)) && names_us(port),
            (None, Some(then)) => was_there(port, then),
            (None, None) => names_us(port) && !strangers.contains(&at),
        };
        let is_host = |at: PortRef| !fabric.node(at.node).is_switch() && at != inventory.local;
        let ends = fabric
            .end_ports()
            .filter(|(at, port)| is_host(*at) && port.link.state == PortState::Active);
        let returned = ends.filter(|(at, port)| !is_ours(*at, port));
        Arc::make_mut(&mut self.ports).extend(returned.map(|(_, port)| port.guid));
    }

    fn remember_served(&mut self, ctx: &Ctx<'_>) {
        self.served = in_plan(ctx).or_else(|| self.served.take());
    }

    /// Adds hosts that got a Set while there was another master.
    fn meet_master(&mut self, ctx: &Ctx<'_>) {
        self.remember_served(ctx);
        let renamed = std::mem::take(&mut self.renamed);
        if ctx.role == Role::Master {
            Arc::make_mut(&mut self.ports).extend(renamed);
        }
        // Without a plan in force, hosts that name the other master may be known ones or new ones.
        if self.served.is_none() {
            self.stood_by_in = None;
        }
    }

    fn note_renamed(&mut self, fabric: &Fabric, outcome: &Outcome) {
        let ops = outcome.changes.value().phases.iter().flat_map(|phase| &phase.ops);
        let hosts = ops.filter_map(|op| match op {
            Op::Port { port, .. } if !fabric.node(port.node).is_switch() => Some(*port),
            _ => None,
        });
        let unasked = hosts.filter(|at| !outcome.asks.includes(fabric, *at));
        let guids = unasked.filter_map(|at| fabric.port(at).map(|port| port.guid));
        self.renamed.extend(guids);
    }

    /// Removes the hosts that the Sets of a plan have asked to register again.
    fn forget_asked(&mut self, fabric: &Fabric, outcome: &Outcome, known: Vec<Guid>) {
        let plan = &outcome.plan;
        let is_in_plan = |guid: &Guid| {
            let at = fabric.find_port(*guid);
            at.is_some_and(|at| fabric.node(at.node).is_switch() || plan.ports.contains_key(&at))
        };
        match &outcome.asks {
            Asks::Nobody => {}
            Asks::All => {
                // An absent host was not asked, and its registrations are unknown.
                self.ports = Arc::new(known.into_iter().filter(|guid| !is_in_plan(guid)).collect());
                if self.all == AllHosts::Asked(plan.generation) {
                    self.all = AllHosts::Known;
                }
            }
            Asks::These(asked) => {
                let is_left = |guid: &Guid| !asked.contains(guid) || !is_in_plan(guid);
                Arc::make_mut(&mut self.ports).retain(is_left);
            }
        }
    }
}

/// Returns the end ports of the plan in force.
fn in_plan(ctx: &Ctx<'_>) -> Option<BTreeMap<Guid, Served>> {
    let (fabric, plan) = ctx.in_force?;
    let named = |(at, lids)| fabric.port(at).map(|port| (port.guid, Served::of(fabric, port, lids)));
    Some(plan.lids.iter().filter_map(named).collect())
}

#[cfg(test)]
mod tests;
