//! The sampler of counters beside the manager. It reads the ports of the plan in force, and only while the manager is
//! master: a standby reads nothing that the master reads already.

use std::sync::Arc;

use selvedge_plan::{Plan, ServiceLevels};
use selvedge_sim::Time;
use selvedge_sm::{Committed, Milestone, Role};
use selvedge_telemetry::{Group, In as Input, Inventory, Out as Output, Sampler, Wall};
use selvedge_wire::Datagram;

use crate::io::{In, Out, Sampled};

/// What is read at present.
#[derive(Debug)]
enum Reading {
    /// Nothing: this manager is not master.
    Nothing,
    /// Nothing yet: this manager is master, but the inventory of its plan does not exist yet. Holds the plan in force,
    /// if there is one.
    Soon(Option<Arc<Plan>>),
    /// The ports of this plan.
    Ports(Arc<Plan>),
}

/// The sampler beside the manager.
#[derive(Debug)]
pub(crate) struct Sampling {
    sampler: Sampler,
    reading: Reading,
    /// The time of the last reading of the wall clock, and what it showed.
    clock: Option<(Time, Wall)>,
    /// The outputs of the sampler for one input; empty between inputs, kept for its memory.
    out: Vec<Output>,
}

impl Sampling {
    pub(crate) const fn new(sampler: Sampler) -> Self {
        Self {
            sampler,
            reading: Reading::Nothing,
            clock: None,
            out: Vec::new(),
        }
    }

    /// Returns the sampler, for display.
    pub(crate) const fn sampler(&self) -> &Sampler {
        &self.sampler
    }

    /// True if ports are read at present.
    pub(crate) const fn is_reading(&self) -> bool {
        matches!(self.reading, Reading::Ports(_))
    }

    pub(crate) fn next_wake(&self) -> Option<Time> {
        self.sampler.next_wake().filter(|_| self.is_reading())
    }

    /// True if a datagram that arrived is an answer to the sampler.
    pub(crate) fn takes(datagram: &Datagram) -> bool {
        Group::is_class(datagram.mad.class()) && datagram.mad.method().is_response()
    }

    /// Handles one input and appends the outputs. Every input of the sampler passes here.
    pub(crate) fn handle(&mut self, now: Time, input: In, out: &mut Vec<Out>) {
        match input {
            In::Arrived(datagram) => self.sample(now, Input::Received(datagram), out),
            In::Returned(datagram) => self.sample(now, Input::Returned(datagram), out),
            In::Wake if self.next_wake().is_some_and(|at| at <= now) => self.sample(now, Input::Wake, out),
            In::Clock(wall) => {
                self.clock = Some((now, wall));
                self.sample(now, Input::Clock(wall), out);
            }
            In::Resume(samples) => samples.iter().for_each(|sample| self.sampler.resume(sample)),
            In::Surveyed { generation, inventory } => {
                let plan = match &self.reading {
                    Reading::Soon(Some(plan)) | Reading::Ports(plan) => Arc::clone(plan),
                    Reading::Nothing | Reading::Soon(None) => return,
                };
                // Another one follows if the plan is not in force any more.
                if plan.generation == generation {
                    self.begin(now, plan, inventory, out);
                }
            }
            In::Milestone(Milestone::Committed(committed)) => self.committed(*committed, out),
            In::Milestone(Milestone::RoleChanged { role }) => self.role_changed(now, role, out),
            In::Wake
            | In::Start
            | In::Milestone(_)
            | In::Command(_)
            | In::Persist { .. }
            | In::StateStored { .. }
            | In::KnownStored { .. }
            | In::RegistrationsStored { .. }
            | In::MarkRemoved { .. }
            | In::MarkSet { .. }
            | In::Job { .. }
            | In::Indexed(_)
            | In::End => {}
        }
    }

    /// Reads the ports of this inventory from now on.
    fn begin(&mut self, now: Time, plan: Arc<Plan>, inventory: Arc<Inventory>, out: &mut Vec<Out>) {
        let was_reading = self.is_reading();
        self.reading = Reading::Ports(plan);
        if let Some((at, wall)) = self.clock.filter(|_| !was_reading) {
            let since = u64::try_from(now.since(at).as_nanos()).unwrap_or(u64::MAX);
            self.sample(now, Input::Clock(Wall(wall.0.saturating_add(since))), out);
        }
        out.push(Out::Sampled(Sampled::Inventory(Arc::clone(&inventory))));
        self.sample(now, Input::Inventory(inventory), out);
    }

    fn committed(&mut self, committed: Committed, out: &mut Vec<Out>) {
        let plan = Arc::clone(&committed.plan);
        self.reading = match &self.reading {
            Reading::Nothing => return,
            Reading::Soon(_) => Reading::Soon(Some(plan)),
            Reading::Ports(_) => Reading::Ports(plan),
        };
        out.push(Out::Survey(committed.fabric, committed.plan));
    }

    fn role_changed(&mut self, now: Time, role: Role, out: &mut Vec<Out>) {
        match (role, &self.reading) {
            (Role::Master, Reading::Nothing) => self.reading = Reading::Soon(None),
            (Role::Master, Reading::Soon(_) | Reading::Ports(_)) => {}
            (Role::Discovering | Role::Standby | Role::NotActive, Reading::Ports(_)) => {
                let none = Arc::new(Inventory::default());
                self.sample(now, Input::Inventory(Arc::clone(&none)), out);
                self.reading = Reading::Nothing;
                out.push(Out::Sampled(Sampled::Inventory(none)));
            }
            (Role::Discovering | Role::Standby | Role::NotActive, Reading::Nothing | Reading::Soon(_)) => {
                self.reading = Reading::Nothing;
            }
        }
    }

    fn sample(&mut self, now: Time, input: Input, out: &mut Vec<Out>) {
        let Reading::Ports(plan) = &self.reading else { return };
        self.sampler.handle(now, input, &mut self.out);
        let levels = plan.told_levels();
        out.extend(self.out.drain(..).map(|output| wanted(output, levels)));
    }
}

/// Returns the output for the driver. Requests use the service level of their path, as all packets to a LID do.
fn wanted(output: Output, levels: &ServiceLevels) -> Out {
    match output {
        Output::Send(mut datagram, timeout) => {
            datagram.address.sl = levels.to(datagram.address.lid);
            Out::Request { datagram, timeout }
        }
        Output::Sample(sample) => Out::Sampled(Sampled::Sample(sample)),
        Output::Cable(reading) => Out::Sampled(Sampled::Cable(reading)),
        Output::Ended(report) => Out::Sampled(Sampled::Ended(Box::new(report))),
        Output::Event(event) => Out::Sampled(Sampled::Event(event)),
    }
}
