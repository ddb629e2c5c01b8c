//! The coordinator: routes arrivals, milestones and stored state between the manager and the administrator.

use std::sync::Arc;

use selvedge_health::Known;
use selvedge_sa::{JobError, Sa};
use selvedge_sim::Time;
use selvedge_sm::{Command, Input, Intake, IntakeOut, Milestone, PersistentState, Role};
use selvedge_telemetry::Group;
use selvedge_telemetry::Sampler;
use selvedge_wire::{Class, Datagram, Method};

use crate::administration::Administration;
use crate::config::{Administrated, copy_config};
use crate::io::{In, Out};
use crate::retry::Retry;
use crate::sampling::Sampling;
use crate::saver::Saver;

/// Connects a manager, its administrator, the port and the disk.
#[derive(Debug)]
pub struct Coordinator {
    role: Role,
    /// The M_Key for TrapRepress while the manager is master.
    m_key: u64,
    intake: Intake,
    saver: Saver<PersistentState>,
    /// Stores the nodes and links that the manager has found.
    known: Saver<Known>,
    /// Number of the last request to store these nodes and links.
    known_number: u64,
    administration: Option<Administration>,
    sampling: Option<Sampling>,
}

/// Failures of storing since the last success.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retries {
    /// Retries of storing the manager's state.
    pub state: Retry,
    /// Retries of storing the nodes and links that the manager has found.
    pub known: Retry,
    /// Retries of storing the registrations of hosts.
    pub registrations: Retry,
    /// Retries of writing or removing the mark that shows that all registrations are stored.
    pub mark: Retry,
}

impl Coordinator {
    /// Returns a coordinator for a manager with this configuration, and for its administrator, if there is one.
    #[must_use]
    pub fn new(now: Time, manager: &selvedge_sm::Config, administrated: Option<Administrated>) -> Self {
        let administration = administrated.map(|with| {
            let copy = copy_config(manager, &with.administrator);
            Administration::new(now, with, copy)
        });
        Self {
            role: Role::default(),
            m_key: manager.policy.m_key,
            intake: Intake::default(),
            saver: Saver::default(),
            known: Saver::default(),
            known_number: 0,
            administration,
            sampling: None,
        }
    }

    /// Returns the coordinator with a sampler, which reads ports while the manager is master.
    #[must_use]
    pub fn sampling(mut self, sampler: Option<Sampler>) -> Self {
        self.sampling = sampler.map(Sampling::new);
        self
    }

    /// Handles one input. Appends the outputs.
    pub fn handle(&mut self, now: Time, input: In, out: &mut Vec<Out>) {
        match input {
            In::Start => {
                if let Some(administration) = &mut self.administration {
                    administration.begin(out);
                }
                out.push(Out::Manager(Input::Start));
            }
            In::Arrived(datagram) => self.arrived(now, datagram, out),
            // The administrator repeats requests by its own timers.
            In::Returned(datagram) if datagram.mad.class() == Class::SubnAdm => {}
            In::Returned(datagram) if Group::is_class(datagram.mad.class()) => self.sample(now, input, out),
            In::Returned(datagram) => out.push(Out::Manager(Input::Returned(datagram))),
            In::Milestone(milestone) => self.reached(now, milestone, out),
            In::Command(command) => {
                // A manager that has stopped represses no trap.
                if matches!(command, Command::Stop) {
                    self.role = Role::NotActive;
                }
                out.push(Out::Manager(Input::Command(command)));
            }
            In::Persist { id, state } => {
                self.saver.want(id, Arc::new(state));
                self.store_state(now, out);
            }
            In::StateStored { id, is_stored } => {
                self.saver.saved(now, id, is_stored);
                out.push(Out::Manager(match is_stored {
                    true => Input::Persisted { id },
                    false => Input::NotPersisted { id },
                }));
                self.store_state(now, out);
            }
            In::KnownStored { id, is_stored } => {
                self.known.saved(now, id, is_stored);
                self.store_known(now, out);
            }
            In::Wake => {
                self.wake(now, out);
                self.sample(now, In::Wake, out);
            }
            In::Surveyed { .. } | In::Resume(_) | In::Clock(_) => self.sample(now, input, out),
            In::Job { ticket, .. } if self.administration.is_none() => {
                let answer = Box::new(Err(JobError::NoClasses));
                out.push(Out::JobAnswered { ticket, answer });
            }
            In::Job { .. }
            | In::RegistrationsStored { .. }
            | In::MarkRemoved { .. }
            | In::MarkSet { .. }
            | In::Indexed(_)
            | In::End => {
                if let Some(administration) = &mut self.administration {
                    administration.handle(now, input, out);
                }
            }
        }
    }

    /// Returns true if a datagram that arrived is an answer to an SMP of the manager. [`Self::handle`] would give it to
    /// the manager and have no other output. Since nearly all arrivals are of this kind, a driver may hand them on
    /// directly.
    #[must_use]
    pub fn is_answer_to_manager(&self, datagram: &Datagram) -> bool {
        let is_answer = datagram.mad.class().is_smp() && datagram.mad.method() == Method::GetResp;
        let administration = self.administration.as_ref();
        is_answer && !administration.is_some_and(Administration::is_copying)
    }

    /// Returns when [`In::Wake`] is due, if no other input comes.
    #[must_use]
    pub fn next_wake(&self) -> Option<Time> {
        let administration = self.administration.as_ref().and_then(Administration::next_wake);
        let wakes = [
            self.intake.next_wake(),
            self.saver.next_wake(),
            self.known.next_wake(),
            administration,
            self.sampling.as_ref().and_then(Sampling::next_wake),
        ];
        wakes.into_iter().flatten().min()
    }

    /// Returns the limits for what sources may send to the manager.
    #[must_use]
    pub const fn intake(&self) -> &Intake {
        &self.intake
    }

    /// Returns the administrator, if there is one.
    #[must_use]
    pub fn administrator(&self) -> Option<&Sa> {
        self.administration.as_ref().map(Administration::administrator)
    }

    /// Returns the sampler, if there is one.
    #[must_use]
    pub fn sampler(&self) -> Option<&Sampler> {
        self.sampling.as_ref().map(Sampling::sampler)
    }

    /// True if the sampler reads ports at present.
    #[must_use]
    pub fn is_sampling(&self) -> bool {
        self.sampling.as_ref().is_some_and(Sampling::is_reading)
    }

    /// Returns the failures of storing since the last success.
    #[must_use]
    pub fn retries(&self) -> Retries {
        let of_hosts = self.administration.as_ref().map(Administration::retries);
        let [registrations, mark] = of_hosts.unwrap_or_default();
        Retries {
            state: *self.saver.retry(),
            known: *self.known.retry(),
            registrations,
            mark,
        }
    }

    fn sample(&mut self, now: Time, input: In, out: &mut Vec<Out>) {
        if let Some(sampling) = &mut self.sampling {
            sampling.handle(now, input, out);
        }
    }

    fn arrived(&mut self, now: Time, datagram: Datagram, out: &mut Vec<Out>) {
        if self.sampling.is_some() && Sampling::takes(&datagram) {
            return self.sample(now, In::Arrived(datagram), out);
        }
        let is_taken = self
            .administration
            .as_mut()
            .is_some_and(|administration| administration.takes(now, &datagram, out));
        if is_taken || datagram.mad.class() == Class::SubnAdm {
            return;
        }
        self.serve_intake();
        let mut wanted = Vec::new();
        let is_admitted = self.intake.take(now, &datagram, &mut wanted);
        out.extend(wanted.into_iter().map(of_intake));
        if is_admitted {
            out.push(Out::Manager(Input::Received(datagram)));
        }
        self.accuse(out);
    }

    fn reached(&mut self, now: Time, milestone: Milestone, out: &mut Vec<Out>) {
        match &milestone {
            Milestone::RoleChanged { role } => self.role = *role,
            Milestone::KeyChanged(key) => self.m_key = key.expose(),
            Milestone::KnownChanged(known) => {
                self.known_number += 1;
                self.known.want(self.known_number, Arc::clone(known));
                self.store_known(now, out);
            }
            _ => {}
        }
        if matches!(milestone, Milestone::Committed(_) | Milestone::RoleChanged { .. }) && self.sampling.is_some() {
            self.sample(now, In::Milestone(milestone.clone()), out);
        }
        if let Some(administration) = &mut self.administration {
            administration.reached(now, milestone, out);
        }
    }

    fn wake(&mut self, now: Time, out: &mut Vec<Out>) {
        if let Some(administration) = &mut self.administration {
            administration.handle(now, In::Wake, out);
        }
        self.store_state(now, out);
        self.store_known(now, out);
        self.serve_intake();
        let mut wanted = Vec::new();
        let released = self.intake.wake(now, &mut wanted);
        out.extend(wanted.into_iter().map(of_intake));
        let released = released.into_iter();
        out.extend(released.map(|datagram| Out::Manager(Input::Received(datagram))));
        self.accuse(out);
    }

    /// Lets the intake repress traps as the manager does: with its M_Key, and only while it is master.
    fn serve_intake(&mut self) {
        let m_key = (self.role == Role::Master).then_some(self.m_key);
        self.intake.serve(m_key);
    }

    /// Reports sources that babble to the manager.
    fn accuse(&mut self, out: &mut Vec<Out>) {
        for babbler in self.intake.take_accused() {
            let (lid, port) = (babbler.lid, babbler.port);
            out.push(Out::Manager(Input::Command(Command::Babbles { lid, port })));
        }
    }

    fn store_state(&mut self, now: Time, out: &mut Vec<Out>) {
        if let Some((id, state)) = self.saver.begin(now) {
            out.push(Out::StoreState { id, state });
        }
    }

    fn store_known(&mut self, now: Time, out: &mut Vec<Out>) {
        if let Some((id, known)) = self.known.begin(now) {
            out.push(Out::StoreKnown { id, known });
        }
    }
}

fn of_intake(wanted: IntakeOut) -> Out {
    match wanted {
        IntakeOut::Repress(datagram) => Out::Repress(datagram),
        IntakeOut::Event(event) => Out::Event(event),
    }
}
