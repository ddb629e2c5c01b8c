//! What is stored, and when: what is given out before any Set of it, what is in force once it is.

use std::sync::Arc;

use selvedge_fabric::Fabric;
use selvedge_plan::{Generation, Installed};
use selvedge_planner::told::others;
use selvedge_planner::{Inventory, Outcome};
use selvedge_routing::lanes_in_force;

use crate::core::Sm;
use crate::event::Event;
use crate::io::{Output, PersistentState};
use crate::stage::Stage;

/// Generations stored at once: one write in so many plans.
pub(crate) const GENERATIONS_AHEAD: u64 = 1000;

impl Sm {
    /// Stored LIDs of another fabric would only keep LIDs from being given out: the fabric itself tells the truth. What
    /// this life has met once is its own fabric's, though it may see nobody but itself now, under another GUID. And
    /// fewer than half as many ports as are stored may be a part that was added and is cut off with this manager: it is
    /// decided when more are found. Where fewer than half as many ports are stored as are found, it is the other way
    /// about: the earlier life saw a part that is away now. Those few keep their LIDs.
    pub(crate) fn set_foreign_state_aside(&mut self, fabric: &Fabric, out: &mut Vec<Output>) {
        let Some(stored) = self.lids.none_met(fabric) else {
            self.lids.is_doubted = false;
            return;
        };
        let found = fabric.end_ports().count();
        if stored * 2 < found {
            self.lids.keep_untried();
            return;
        }
        let are_few = found * 2 < stored;
        if !are_few || !self.lids.is_doubted {
            out.push(Output::Event(Event::ForeignState { stored, found, are_few }));
        }
        self.lids.is_doubted = are_few;
        if !are_few {
            self.lids.set_untried_aside();
            // Unless this life has planned something already: then that is what is stored.
            if self.lids.is_empty() {
                self.stored = PersistentState::default();
            }
        }
    }

    /// What is given out is stored first, so that a crash cannot forget it. A repair gives out nothing new and does
    /// not wait for a disk.
    pub(crate) fn persist(
        &mut self,
        inventory: Arc<Inventory>,
        installed: Arc<Installed>,
        outcome: Arc<Outcome>,
        out: &mut Vec<Output>,
    ) {
        self.lids.plan(&inventory.fabric, &outcome.plan.lids);
        let plan = &outcome.plan;
        let lane_count = self.lanes_known_with(&inventory, plan);
        let relied_on = (plan.lanes > 1).then_some(&plan.service_levels);
        let by_switch = relied_on.map(|levels| lanes_in_force(&inventory.fabric, &plan.lids, levels));
        let lanes = by_switch.unwrap_or_default();
        let of_ports = relied_on.map(|levels| others(&inventory.fabric, &plan.lids, levels, &lanes));
        let mut state = PersistentState {
            lids: self.lids.claims().into_owned(),
            lids_before: self.lids.befores().into_owned(),
            lids_aside: self.lids.aside.clone(),
            generation: self.stored.generation,
            lanes,
            levels: of_ports.unwrap_or_default(),
            // Those of a plan that is yet to come into force: see `store_in_force`.
            engines: self.stored.engines.clone(),
            lane_count,
            lanes_wanted: self.stored.lanes_wanted,
        };
        if plan.generation > state.generation {
            state.generation = Generation(plan.generation.0 + GENERATIONS_AHEAD);
        }
        let gives_out =
            self.unstored.is_failing && self.gives_out_unstored(&inventory.fabric, &outcome.plan.lids, &state);
        if state != self.stored {
            let before = std::mem::replace(&mut self.stored, state.clone());
            self.unstored.before.get_or_insert(before);
            self.persist_id += 1;
            out.push(Output::Persist {
                id: self.persist_id,
                state,
            });
        }
        // What gives out nothing new does not wait for a disk that takes nothing.
        let waits = !self.unstored.is_failing || gives_out;
        self.stage = Stage::Persisting {
            id: if waits { self.persist_id } else { self.persisted_id },
            inventory,
            installed,
            outcome,
        };
        self.apply_if_stored(out);
    }

    /// Stores that a plan of this generation is in force, before long: a repair does not wait for it, as it gives out
    /// no LIDs and no service levels.
    pub(crate) fn store_generation(&mut self, generation: Generation, out: &mut Vec<Output>) {
        if generation > self.stored.generation {
            self.stored.generation = Generation(generation.0 + GENERATIONS_AHEAD);
            self.persist_id += 1;
            out.push(Output::Persist {
                id: self.persist_id,
                state: self.stored.clone(),
            });
        }
    }

    /// Stores what a plan that was applied has brought into force. Which engines were to make the tables: a manager
    /// that dies half way finishes what it was about, and does not take some of both for right. And who has taken its
    /// LIDs: what such a port held before is nothing that it is to get back, however long no other plan is made.
    pub(crate) fn store_in_force(&mut self, out: &mut Vec<Output>) {
        let is_theirs = !self.is_repairing() && self.sweep_due.is_none();
        let (claims, befores) = (self.lids.claims(), self.lids.befores());
        let have_taken = self.stored.lids_before != *befores
            || self.stored.lids != *claims
            || self.stored.lids_aside != self.lids.aside;
        if have_taken {
            self.stored.lids.clone_from(&claims);
            self.stored.lids_aside.clone_from(&self.lids.aside);
            self.stored.lids_before.clone_from(&befores);
        }
        if is_theirs && self.note_in_force() || have_taken {
            self.persist_id += 1;
            out.push(Output::Persist {
                id: self.persist_id,
                state: self.stored.clone(),
            });
        }
    }

    /// Nothing of a plan that was to be stored first is sent: a sweep takes its place.
    pub(crate) fn withdraw(&mut self, inventory: &Inventory, outcome: &Outcome) {
        self.superseded += 1;
        self.lids.withdraw(&inventory.fabric, &outcome.plan.lids);
    }
}
