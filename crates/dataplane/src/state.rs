//! A simulation: a subnet, what sits on its end ports, and the events of both.

use crate::calendar::Event;
use crate::change::Change;
use crate::deadlock::Deadlock;
use crate::endpoint::{EndPort, Endpoint};
use crate::layout::{BuildError, NOT_SET, Network};
use crate::log::EventLog;
use crate::settings::Settings;
use crate::subnet::{Subnet, kind};
use crate::units::Ps;

/// A packet simulation.
#[derive(Debug)]
pub struct Simulation<E: Endpoint> {
    pub(crate) subnet: Subnet<E::Header>,
    pub(crate) endpoint: E,
}

impl<E: Endpoint> Simulation<E> {
    /// Returns a simulation that is stepped from outside and has no planned end. Ports count from the start, and
    /// lifetimes are always checked; deadlocks are searched for by [`Self::find_deadlock`] only. Of the settings, those
    /// of messages (`sl`, `source_queue`, `transport`, `qp`, `warmup_ns`, `duration_ns`) mean nothing here.
    pub fn of_endpoint(network: &Network<'_>, settings: &Settings, endpoint: E) -> Result<Self, BuildError> {
        let mut simulation = Self {
            subnet: Subnet::new(network, settings, false)?,
            endpoint,
        };
        simulation.endpoint.begin(&mut simulation.subnet);
        Ok(simulation)
    }

    /// Handles every event up to and including `until`. Stops early at the end of the simulation.
    pub fn run_until(&mut self, until: Ps) {
        let mut goes_on = true;
        while goes_on {
            goes_on = if self.subnet.is_plain() {
                self.run_to_change::<true>(until)
            } else {
                self.run_to_change::<false>(until)
            };
        }
        if !self.is_over() {
            self.subnet.now = self.subnet.now.max(until);
        }
    }

    /// Handles events up to the next change or search for deadlocks. False if there are no more.
    fn run_to_change<const PLAIN: bool>(&mut self, until: Ps) -> bool {
        while !self.is_over() {
            let Some(event) = self.subnet.calendar.pop_until(until) else {
                return false;
            };
            if self.handle::<PLAIN>(event) {
                return true;
            }
        }
        false
    }

    /// Handles every event up to and including a time that the endpoint gives, and may bring forward with each event.
    /// The clock stays at the last event.
    pub fn run_towards(&mut self, until: impl Fn(&E) -> Ps) {
        while !self.is_over()
            && let Some(event) = self.subnet.calendar.pop_until(until(&self.endpoint))
        {
            if self.subnet.is_plain() {
                self.handle::<true>(event);
            } else {
                self.handle::<false>(event);
            }
        }
    }

    /// Handles the next event. Returns its time; `None` if there is none, or if the simulation has ended.
    pub fn step(&mut self) -> Option<Ps> {
        if self.is_over() {
            return None;
        }
        let event = self.subnet.calendar.pop_until(Ps::MAX)?;
        if self.subnet.is_plain() {
            self.handle::<true>(event);
        } else {
            self.handle::<false>(event);
        }
        Some(event.at)
    }

    /// Returns the time of the next event. `None`: nothing happens any more unless something is done from outside.
    #[must_use]
    pub fn next_event_at(&self) -> Option<Ps> {
        self.subnet.calendar.next_at()
    }

    /// Handles an event. True if the subnet may have become another, with or without rare features.
    #[inline(always)]
    fn handle<const PLAIN: bool>(&mut self, event: Event) -> bool {
        let first_host = self.subnet.layout.first_host();
        self.subnet.now = event.at;
        self.subnet.events += 1;
        if let Some(log) = &mut self.subnet.log {
            log.take();
        }
        let value = event.payload & ((1 << kind::SHIFT) - 1);
        match event.payload >> kind::SHIFT {
            kind::ARRIVE if event.component < first_host => {
                self.arrive::<PLAIN>(self.subnet.here(event.component), value);
            }
            kind::ARRIVE => self.deliver(event.component - first_host, value),
            kind::END => self.end_of_packet::<PLAIN>(self.subnet.here(event.component), value as u8),
            kind::CREDIT if event.component < first_host => {
                self.arbitrate::<PLAIN>(self.subnet.here(event.component), value as u8);
            }
            kind::CREDIT => self.subnet.pull(&mut self.endpoint, event.component - first_host),
            kind::HOST => self.wake(event.component - first_host),
            kind::LIFETIME => self.check_lifetime(self.subnet.here(event.component), value),
            kind::TIMER => self
                .endpoint
                .timer(event.component - first_host, value, &mut self.subnet),
            kind::LOOK => {
                self.subnet.look_for_deadlock();
                return true;
            }
            _ => {
                self.change_is_due(value);
                return true;
            }
        }
        false
    }

    /// Handles the wake-up of an end port. One that an earlier pull made unnecessary is ignored.
    #[inline]
    fn wake(&mut self, port: EndPort) {
        if self.subnet.wakes[port as usize] == self.subnet.now {
            self.subnet.wakes[port as usize] = NOT_SET;
            self.subnet.pull(&mut self.endpoint, port);
        }
    }

    /// Applies a change now, after all events that were handled so far.
    pub fn apply(&mut self, change: Change) {
        self.change(change);
    }

    /// Has a change applied at a time, before packets of that instant; at once, if the time has passed.
    pub fn apply_at(&mut self, at: Ps, change: Change) {
        self.subnet.schedule_change(at, change);
    }

    /// True if the simulation has ended: a deadlock was found, or the endpoint is done.
    #[must_use]
    #[inline]
    pub fn is_over(&self) -> bool {
        self.subnet.deadlock.is_some() || self.endpoint.is_over()
    }

    /// Searches for packets that wait for each other in a cycle.
    #[must_use]
    pub fn find_deadlock(&self) -> Option<Deadlock> {
        self.subnet.deadlocked()
    }

    /// Returns what sits on the end ports.
    #[must_use]
    pub const fn endpoint(&self) -> &E {
        &self.endpoint
    }

    /// Returns the subnet.
    #[must_use]
    pub const fn subnet(&self) -> &Subnet<E::Header> {
        &self.subnet
    }

    /// Returns both parts, to do something from outside between two steps: give the endpoint work, then wake its port.
    pub const fn parts_mut(&mut self) -> (&mut E, &mut Subnet<E::Header>) {
        (&mut self.endpoint, &mut self.subnet)
    }

    /// Returns the simulated time.
    #[must_use]
    pub const fn now(&self) -> Ps {
        self.subnet.now()
    }

    /// Returns the number of events handled so far.
    #[must_use]
    pub const fn events(&self) -> u64 {
        self.subnet.events()
    }

    /// Records events from now on, at most this number. Call it before the first event.
    pub fn note_events(&mut self, most: usize) {
        self.subnet.note_events(most);
    }

    /// Returns the recorded events.
    #[must_use]
    pub fn noted_events(&self) -> Option<&EventLog> {
        self.subnet.log.as_deref()
    }
}
