//! The state that survives a restart, and when it is stored.
//!
//! LIDs and service levels are stored before the first Set of their plan, so that a crash never loses a LID that an
//! agent may hold. Engines and lanes are stored once the plan is in force. If storing fails, ports without a stored LID
//! are left out of the planned fabric: see [`leave_out`].
//!
//! After the first failure a sweep replaces a plan that waits to be stored. Further failures change nothing: the
//! coordinator tries again after 250 ms, and then after twice as long each time, up to 5 s. The first success ends this
//! state.

use std::collections::BTreeMap;

use selvedge_fabric::Fabric;
use selvedge_plan::{Generation, Lids, Plan};
use selvedge_planner::Inventory;
use selvedge_planner::told::others;
use selvedge_routing::lanes_in_force;
use selvedge_types::{Guid, Lid, LidRange, SecretKey};

use crate::config::Config;
use crate::io::{PersistentState, ToldLevels};

mod leave_out;
mod levels;

/// How far the stored generation runs ahead of plans, so that one write suffices for this number of plans.
pub const GENERATIONS_AHEAD: u64 = 1000;

/// The state to be stored, and how much of it has been stored.
#[derive(Debug)]
pub struct Persist {
    /// The state that was handed out last, with the service levels that a standby has copied from the master.
    state: PersistentState,
    /// The number of the newest request to store.
    newest: u64,
    /// The number of the newest request that is on the disk.
    on_disk: u64,
    /// Number of the store request that the last accepted plan waits for.
    awaited: u64,
    /// True if the last attempt to store has failed.
    is_failing: bool,
    /// The state on the disk, if a newer state was handed out and is not completely on the disk.
    before: Option<PersistentState>,
    /// True if the last heavy sweep left out ports without a stored LID.
    leaves_out: bool,
    /// LID of the other manager that gave out the service levels of the state; `None` if this manager did.
    levels_by: Option<Lid>,
}

/// The state of other sub-machines that this one may read.
#[derive(Clone, Copy, Debug)]
pub struct Ctx<'a> {
    /// The configuration.
    pub config: &'a Config,
    /// The plan in force, with its fabric.
    pub in_force: Option<(&'a Fabric, &'a Plan)>,
}

/// The LIDs of ports for a later run.
#[derive(Debug)]
pub struct KnownLids<'a> {
    /// The LIDs of each port.
    pub claims: BTreeMap<Guid, LidRange>,
    /// The former LIDs of ports.
    pub befores: BTreeMap<Guid, LidRange>,
    /// LIDs that were taken to belong to another fabric, by port GUID.
    pub aside: &'a BTreeMap<Guid, LidRange>,
}

/// The inputs of this sub-machine.
#[derive(Debug)]
pub enum In<'a> {
    /// The judge accepted a plan, which may give out LIDs and service levels.
    Accepted {
        /// The fabric that the plan is for.
        inventory: &'a Inventory,
        /// The plan.
        plan: &'a Plan,
        /// The LIDs, including those of the plan.
        lids: KnownLids<'a>,
    },
    /// A repair of this generation is about to be applied: it has no new LIDs and no new service levels.
    Repair(Generation),
    /// A plan is in force.
    Committed {
        /// True if the plan is one of the whole fabric, and no sweep that may replace it is due.
        is_whole: bool,
        /// The LIDs that ports have taken.
        lids: KnownLids<'a>,
    },
    /// This manager stands by. These are the LIDs that ports hold.
    StoodBy(KnownLids<'a>),
    /// The master's administrator has reported the service levels that senders got.
    Copied(ToldLevels),
    /// The stored state belongs to another fabric, and no plan was made in this run.
    Foreign,
    /// The M_Keys of this manager.
    Keys {
        /// Those that ports may hold, newest first.
        held: Vec<SecretKey>,
        /// Retired ones, newest first.
        retired: Vec<SecretKey>,
        /// True if a port may not get the newest one before they are stored; else they are stored with the next plan.
        at_once: bool,
    },
    /// The SM_Keys that are believed, newest first.
    SmKeys(Vec<SecretKey>),
    /// A heavy sweep leaves out ports without a stored LID, or leaves out none.
    LeavesOut(bool),
    /// The state of this store request has been stored.
    Stored(u64),
    /// The state of this store request could not be stored. The coordinator tries again.
    NotStored(u64),
}

/// The effects that the outer machine carries out.
#[derive(Debug)]
pub enum Effect {
    /// Store a state.
    Store {
        /// The number of the request.
        id: u64,
        /// The state.
        state: Box<PersistentState>,
    },
    /// The state cannot be stored. A plan that waits for it must be replaced by one that needs no storing.
    ReplacePlan,
    /// The state can be stored again. A sweep gives LIDs to the ports that were left out.
    AdmitPorts,
}

impl Persist {
    /// Begins with the state that an earlier run has stored.
    pub const fn new(state: PersistentState) -> Self {
        Self {
            state,
            newest: 0,
            on_disk: 0,
            awaited: 0,
            is_failing: false,
            before: None,
            leaves_out: false,
            levels_by: None,
        }
    }

    /// Handles one input and appends its effects.
    pub fn handle(&mut self, ctx: &Ctx<'_>, input: In<'_>, effects: &mut Vec<Effect>) {
        match input {
            In::Accepted { inventory, plan, lids } => self.store_first(ctx, (inventory, plan), lids, effects),
            In::Repair(generation) => {
                if !self.covers(generation) {
                    self.state.generation = ahead_of(generation);
                    self.store(effects);
                }
            }
            In::Committed { is_whole, lids } => {
                let have_taken = self.take_lids(&lids);
                if is_whole && self.take_in_force(ctx) || have_taken {
                    self.store(effects);
                }
            }
            In::StoodBy(lids) => self.stand_by(&lids, effects),
            In::Copied(levels) => self.take_levels(levels),
            In::Foreign => {
                let state = std::mem::take(&mut self.state);
                self.state = PersistentState {
                    m_keys: state.m_keys,
                    m_keys_retired: state.m_keys_retired,
                    sm_keys: state.sm_keys,
                    ..PersistentState::default()
                };
            }
            In::Keys { held, retired, at_once } => self.take_keys(held, retired, at_once, effects),
            In::SmKeys(keys) => {
                if std::mem::replace(&mut self.state.sm_keys, keys.clone()) != keys {
                    self.store(effects);
                }
            }
            In::LeavesOut(leaves_out) => self.leaves_out = leaves_out,
            In::Stored(id) => self.stored(id, effects),
            In::NotStored(id) => {
                if id >= self.newest && !std::mem::replace(&mut self.is_failing, true) {
                    effects.push(Effect::ReplacePlan);
                }
            }
        }
    }

    /// Returns true if the last accepted plan does not wait for the disk.
    pub const fn is_plan_stored(&self) -> bool {
        self.on_disk >= self.awaited
    }

    /// Returns true if the last attempt to store has failed.
    pub const fn is_failing(&self) -> bool {
        self.is_failing
    }

    /// Returns true if a plan of this generation may be sent without storing its generation first.
    pub fn covers(&self, generation: Generation) -> bool {
        generation <= self.state.generation
    }

    /// Returns the M_Keys on the disk.
    pub fn keys_on_disk(&self) -> &[SecretKey] {
        &self.state_on_disk().m_keys
    }

    /// Returns the SM_Keys that an earlier run has stored.
    pub fn sm_keys(&self) -> &[SecretKey] {
        &self.state.sm_keys
    }

    /// Takes the M_Keys that ports may hold, and retired ones.
    fn take_keys(&mut self, held: Vec<SecretKey>, retired: Vec<SecretKey>, at_once: bool, effects: &mut Vec<Effect>) {
        if held == self.state.m_keys && retired == self.state.m_keys_retired {
            return;
        }
        let before = self.state.clone();
        (self.state.m_keys, self.state.m_keys_retired) = (held, retired);
        if at_once {
            self.before.get_or_insert(before);
            self.store(effects);
        }
    }

    /// Stores the LIDs and service levels of a plan before any Set of it is sent. If the state cannot be stored, a plan
    /// without new LIDs or levels does not wait.
    fn store_first(
        &mut self,
        ctx: &Ctx<'_>,
        (inventory, plan): (&Inventory, &Plan),
        lids: KnownLids<'_>,
        effects: &mut Vec<Effect>,
    ) {
        let fabric = &inventory.fabric;
        let lane_count = self.lanes_known_with(ctx, inventory, plan);
        let relied_on = (plan.lanes > 1).then_some(&plan.service_levels);
        let by_switch = relied_on.map(|levels| lanes_in_force(fabric, &plan.lids, levels));
        let lanes = by_switch.unwrap_or_default();
        let of_ports = relied_on.map(|levels| others(fabric, &plan.lids, levels, &lanes));
        let mut state = PersistentState {
            lids: lids.claims,
            lids_before: lids.befores,
            lids_aside: lids.aside.clone(),
            generation: self.state.generation,
            lanes,
            levels: of_ports.unwrap_or_default(),
            // Those of a plan that is yet to come into force: see `take_in_force`.
            engines: self.state.engines.clone(),
            lane_count,
            lanes_wanted: self.state.lanes_wanted,
            m_keys: self.state.m_keys.clone(),
            m_keys_retired: self.state.m_keys_retired.clone(),
            sm_keys: self.state.sm_keys.clone(),
        };
        if !self.covers(plan.generation) {
            state.generation = ahead_of(plan.generation);
        }
        let gives_out = self.is_failing && self.gives_out_unstored(fabric, &plan.lids, &state);
        if state != self.state {
            let before = std::mem::replace(&mut self.state, state);
            self.before.get_or_insert(before);
            self.store(effects);
        }
        let waits = !self.is_failing || gives_out;
        self.awaited = if waits { self.newest } else { self.on_disk };
    }

    /// Returns true if a plan gives out LIDs or service levels that are not stored yet. LIDs that the port already
    /// holds do not count.
    fn gives_out_unstored(&self, fabric: &Fabric, lids: &Lids, state: &PersistentState) -> bool {
        let on_disk = self.state_on_disk();
        let mut ports = lids.iter().filter_map(|(at, range)| Some((fabric.port(at)?, range)));
        (&state.lanes, &state.levels) != (&on_disk.lanes, &on_disk.levels)
            || ports.any(|(port, range)| port.settings.lids != range && on_disk.lids.get(&port.guid) != Some(&range))
    }

    const fn state_on_disk(&self) -> &PersistentState {
        match &self.before {
            Some(before) => before,
            None => &self.state,
        }
    }

    /// Records the LIDs of ports. Returns true if any differ from the stored ones. A port that has taken its new LIDs
    /// must not get its former ones back after a restart, even if no further plan is made for a long time.
    fn take_lids(&mut self, lids: &KnownLids<'_>) -> bool {
        let state = &mut self.state;
        let is_new = state.lids_before != lids.befores || state.lids != lids.claims || state.lids_aside != *lids.aside;
        if is_new {
            state.lids.clone_from(&lids.claims);
            state.lids_aside.clone_from(lids.aside);
            state.lids_before.clone_from(&lids.befores);
        }
        is_new
    }

    /// Called when another manager is master: its service levels and engines are not known here. This fact is stored,
    /// so that after a restart its tables are not mistaken for this manager's. The LIDs that ports hold are stored too,
    /// because ports may be absent when a later run sweeps.
    fn stand_by(&mut self, lids: &KnownLids<'_>, effects: &mut Vec<Effect>) {
        let before = self.state.clone();
        self.take_lids(lids);
        self.state.engines.clear();
        self.state.lanes_wanted = 0;
        self.take_levels(ToldLevels::default());
        if self.state != before {
            self.store(effects);
        }
    }

    /// Records that a state is on the disk. If it is the newest one, ports that were left out can get their LIDs.
    fn stored(&mut self, id: u64, effects: &mut Vec<Effect>) {
        self.on_disk = self.on_disk.max(id);
        if self.on_disk < self.newest {
            return;
        }
        self.before = None;
        self.is_failing = false;
        if std::mem::take(&mut self.leaves_out) {
            effects.push(Effect::AdmitPorts);
        }
    }

    fn store(&mut self, effects: &mut Vec<Effect>) {
        self.newest += 1;
        effects.push(Effect::Store {
            id: self.newest,
            state: Box::new(self.state.clone()),
        });
    }
}

/// Returns the generation to store for a plan: higher than that of the plan, so that not every plan needs a write of
/// its own.
const fn ahead_of(generation: Generation) -> Generation {
    Generation(generation.0 + GENERATIONS_AHEAD)
}

#[cfg(test)]
mod tests;
