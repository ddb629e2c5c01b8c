//! Inputs and outputs of a coordinator.

use std::sync::Arc;
use std::time::Duration;

use selvedge_fabric::Fabric;
use selvedge_health::Known;
use selvedge_plan::{Generation, Plan};
use selvedge_sa::{JobAnswer, JobError, JobRequest, Registrations, Snapshot, Sources};
use selvedge_sm::{Command, Event, Input, Milestone, PersistentState};
use selvedge_telemetry::cable::CableReading;
use selvedge_telemetry::{self as telemetry, Inventory, Sample, SlotReport, Wall};
use selvedge_wire::Datagram;

/// An input of a coordinator.
#[derive(Clone, Debug)]
pub enum In {
    /// The first input: the process begins.
    Start,
    /// A datagram arrived at the port.
    Arrived(Datagram),
    /// The lower layer returned a request without a response.
    Returned(Datagram),
    /// The manager reached a milestone ([`selvedge_sm::Output::Milestone`]).
    Milestone(Milestone),
    /// A command of the operator for the manager.
    Command(Command),
    /// A command of the operator for the administrator; [`Out::JobAnswered`] follows when it is stored.
    Job {
        /// Number of the request.
        ticket: u64,
        /// What the job does.
        request: JobRequest,
    },
    /// The manager wants its state stored ([`selvedge_sm::Output::Persist`]).
    Persist {
        /// Number of the request.
        id: u64,
        /// The state to store.
        state: PersistentState,
    },
    /// [`Out::StoreState`] ended.
    StateStored {
        /// Number of the request.
        id: u64,
        /// False if the attempt failed.
        is_stored: bool,
    },
    /// [`Out::StoreKnown`] ended.
    KnownStored {
        /// Number of the request.
        id: u64,
        /// False if the attempt failed.
        is_stored: bool,
    },
    /// [`Out::StoreRegistrations`] ended.
    RegistrationsStored {
        /// The revision that was to be stored.
        revision: u64,
        /// False if the attempt failed.
        is_stored: bool,
    },
    /// [`Out::RemoveMark`] ended. No other input may come in between.
    MarkRemoved {
        /// False if the attempt failed.
        is_done: bool,
    },
    /// [`Out::SetMark`] ended. No other input may come in between.
    MarkSet {
        /// False if the attempt failed.
        is_done: bool,
    },
    /// [`Out::Index`] ended; `None` if indexing failed.
    Indexed(Option<Arc<Snapshot>>),
    /// [`Out::Survey`] ended.
    Surveyed {
        /// Generation of the plan.
        generation: Generation,
        /// What [`crate::survey`] returned.
        inventory: Arc<Inventory>,
    },
    /// Where stored counters stood when an earlier process ended: the sampler goes on from there. To be handed in
    /// before the first [`In::Surveyed`].
    Resume(Vec<Sample>),
    /// The wall clock shows this now. To be handed in at the start, and about every second if there is a sampler: slots
    /// are aligned to this clock.
    Clock(Wall),
    /// [`crate::Coordinator::next_wake`] is due.
    Wake,
    /// The process ends: data that is not stored yet is stored now.
    End,
}

/// An output of a coordinator. A driver carries outputs out in order.
#[derive(Clone)]
pub enum Out {
    /// Pass this input to the manager.
    Manager(Input),
    /// Send a datagram of the administrator or of the copier.
    Send {
        /// The datagram.
        datagram: Datagram,
        /// How long the lower layer may wait for the response; zero if no response is expected.
        timeout: Duration,
    },
    /// Send the answer to a trap that the intake keeps from the manager. The driver drops it if the port has no room:
    /// it must never delay the manager's own MADs.
    Repress(Datagram),
    /// The answer to [`In::Job`].
    JobAnswered {
        /// Number of the request.
        ticket: u64,
        /// The answer, or the reason for a refusal.
        answer: Box<Result<JobAnswer, JobError>>,
    },
    /// An event of the intake.
    Event(Event),
    /// Index a plan that is in force, then hand in [`In::Indexed`]. A newer plan supersedes this one.
    Index(Sources),
    /// Make the inventory of the sampler from a plan in force with [`crate::survey`], then hand in [`In::Surveyed`]. A
    /// newer request supersedes this one.
    Survey(Arc<Fabric>, Arc<Plan>),
    /// Send a request of the sampler, after everything else that waits to be sent. The number of requests without an
    /// answer is bounded by [`selvedge_telemetry::Config::window`].
    Request {
        /// The datagram.
        datagram: Datagram,
        /// How long the lower layer may wait for the response.
        timeout: Duration,
    },
    /// What the sampler found.
    Sampled(Sampled),
    /// Store the manager's state, then hand in [`In::StateStored`].
    StoreState {
        /// Number of the request.
        id: u64,
        /// The state to store.
        state: Arc<PersistentState>,
    },
    /// Store the nodes and links that the manager has found, then hand in [`In::KnownStored`]. No Set waits for this.
    StoreKnown {
        /// Number of the request.
        id: u64,
        /// The state to store.
        known: Arc<Known>,
    },
    /// Store the registrations of hosts, then hand in [`In::RegistrationsStored`].
    StoreRegistrations {
        /// Revision of the registrations.
        revision: u64,
        /// The state to store.
        registrations: Box<Registrations>,
    },
    /// Remove the mark in the state folder that shows that all registrations are stored. Hand in [`In::MarkRemoved`]
    /// without delay: answers to hosts wait for it.
    RemoveMark,
    /// Set this mark again, and hand in [`In::MarkSet`] at once.
    SetMark {
        /// True at the end of the process: the mark must survive a crash of the machine.
        has_ended: bool,
    },
}

/// What the sampler found, for those that keep it, show it or judge it.
#[derive(Clone, Debug)]
pub enum Sampled {
    /// The ports that the sampler reads from now on; none while this manager is not master.
    Inventory(Arc<Inventory>),
    /// The counters of a port.
    Sample(Box<Sample>),
    /// What a port read from its cable.
    Cable(Box<CableReading>),
    /// The samples of a time slot are complete.
    Ended(Box<SlotReport>),
    /// An event for operators.
    Event(telemetry::Event),
}
