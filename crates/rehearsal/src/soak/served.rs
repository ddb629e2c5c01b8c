//! Clients of subnet administration in a schedule: present if the setup has them, with a seed of their own.

use std::time::Duration;

use selvedge_sim::{Seed, Time};
use selvedge_sm::Role;

use super::action::Action;
use super::world::{CONVERGE_REST, SWEEPS_TO_CONVERGE, World};
use crate::RehearsalError;
use crate::clients::Clients;

/// How long a node is off for the check of Reports, in addition to the time that a light sweep takes to find this.
const GONE: Duration = Duration::from_secs(5);

/// Longest time until the last subscriber gets a Report: Reports are repeated.
const TOLD: Duration = Duration::from_secs(20);

impl World<'_> {
    /// Adds clients, if the setup asks for them.
    pub(super) fn invite_clients(&mut self) {
        if !self.schedule.setup.sa || self.rehearsal.is_open() {
            return;
        }
        let seats: Vec<_> = self
            .managers
            .ids()
            .iter()
            .filter_map(|&id| Some((id, self.rehearsal.seat_of(id)?)))
            .collect();
        let seed = Seed(self.schedule.seed).child("administration");
        self.clients = Some(Box::new(Clients::new(
            &mut self.rehearsal,
            &seats,
            seed,
            self.desk_defect,
        )));
    }

    /// Limits a step to the next call of the clients.
    pub(super) fn until_clients(&self, limit: Time) -> Time {
        self.clients.as_ref().map_or(limit, |clients| limit.min(clients.next()))
    }

    /// Calls the clients after a step.
    pub(super) fn clients_go_on(&mut self) -> Result<(), RehearsalError> {
        let Some(clients) = &mut self.clients else {
            return Ok(());
        };
        let went = clients.after_step(&mut self.rehearsal);
        for (_, what) in clients.take_notes() {
            self.observer.happened(&self.rehearsal, &what);
        }
        went
    }

    /// Waits until all hosts are served, within a bounded time, and checks that their answers stay true. From now on
    /// hosts do not change their wishes.
    pub(super) fn serve(&mut self, when: &'static str) -> Result<(), RehearsalError> {
        if self.clients.is_none() {
            return Ok(());
        }
        self.act(Action::HostsSettle)?;
        let bound = SWEEPS_TO_CONVERGE * self.schedule.setup.sweep() + CONVERGE_REST;
        let is_content = |world: &Self| {
            let clients = world.clients.as_ref();
            // Cheapest first: this is asked after every step.
            world.rehearsal.is_quiet() && clients.is_none_or(|clients| clients.is_content(&world.rehearsal))
        };
        let served = self.run_until(bound, is_content)?;
        if let Some(clients) = self.clients.as_ref().filter(|_| !served) {
            let violation = clients.complaint(&self.rehearsal, when, bound.as_secs());
            return Err(self.rehearsal.violated(violation));
        }
        self.act(Action::HostsCheck)
    }

    /// Does the last checks of a run with clients. A host is switched off and on again, and subscribers must get
    /// Reports. Then the master ends, and the other manager must know all registrations.
    pub(super) fn last_questions(&mut self) -> Result<(), RehearsalError> {
        let Some(clients) = &mut self.clients else {
            return Ok(());
        };
        if let Some(gone) = clients.expect_reports(&self.rehearsal) {
            self.fault(&format!("kill \"{gone}\""))?;
            self.run_for(self.schedule.setup.sweep() + GONE)?;
            self.fault(&format!("revive \"{gone}\""))?;
            self.all_well("when a host had come back")?;
            // A report that was lost while tables had no route yet is repeated.
            let are_told = |world: &Self| {
                let clients = world.clients.as_ref();
                clients.is_none_or(|clients| clients.are_reported(&world.rehearsal, &gone))
            };
            self.run_until(TOLD, are_told)?;
            if let Some(clients) = &self.clients {
                clients.check_reports(&mut self.rehearsal, &gone)?;
            }
        }
        let (master, bound) = (
            self.master(),
            SWEEPS_TO_CONVERGE * self.schedule.setup.sweep() + CONVERGE_REST,
        );
        self.act(Action::Kill(master))?;
        let leads = |world: &Self| {
            let mut others = world
                .managers
                .ids()
                .iter()
                .enumerate()
                .filter(|(which, _)| *which != master);
            others.all(|(_, &id)| world.rehearsal.life_of(id).is_some_and(|sm| sm.role() == Role::Master))
        };
        self.run_until(bound, leads)?;
        self.serve("when the master had ended")?;
        self.well()?;
        self.act(Action::Start(master))?;
        self.all_well("when the master had come back")
    }
}
