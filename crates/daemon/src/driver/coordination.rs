//! Carries out the coordinator's outputs on the manager's thread.

use selvedge_coordinator::{In, Out};
use selvedge_sim::Time;
use selvedge_sm::Input;
use selvedge_store::StoreError;

use super::{Driver, Untold};
use crate::DaemonError;
use crate::storing::Promise;
use crate::worker::ToStore;

impl Driver {
    /// Hands an input to the coordinator and carries out its outputs.
    pub(super) fn coordinate(&mut self, input: In) -> Result<(), DaemonError> {
        let mut desk = self.seat.desk();
        desk.handle(input)?;
        desk.give(&mut self.left);
        drop(desk);
        self.do_what_is_left()
    }

    /// Carries out the outputs that the desk has for this thread, in order.
    pub(super) fn do_what_is_left(&mut self) -> Result<(), DaemonError> {
        while let Some((at, wanted)) = self.left.pop_front() {
            self.do_wanted(at, wanted)?;
        }
        Ok(())
    }

    fn do_wanted(&mut self, at: Time, wanted: Out) -> Result<(), DaemonError> {
        match wanted {
            Out::Manager(input) => {
                if matches!(input, Input::Received(_)) {
                    self.heard_at = at;
                }
                self.feed(input)?;
            }
            Out::Event(event) => self.untold.push((at, Untold::Event(event))),
            Out::Index(sources) => {
                self.busy += 1;
                self.indexer.hand(sources);
            }
            Out::Survey(fabric, plan) => {
                self.busy += 1;
                self.surveyor.hand((fabric, plan));
            }
            Out::StoreState { id, state } => {
                self.busy += 1;
                self.storer.hand(ToStore::State(id, state));
            }
            Out::StoreKnown { id, known } => {
                self.busy += 1;
                self.storer.hand(ToStore::Known(id, known));
            }
            Out::StoreRegistrations {
                revision,
                registrations,
            } => self.storer.hand(ToStore::Registrations(revision, registrations)),
            Out::JobAnswered { ticket, answer } => self.tickets.answer(ticket, *answer),
            // The desk has done these.
            Out::Send { .. }
            | Out::Request { .. }
            | Out::Sampled(_)
            | Out::Repress(_)
            | Out::RemoveMark
            | Out::SetMark { .. } => {}
        }
        Ok(())
    }

    /// Handles the result of storing the manager's state. Sets that depend on it wait until it is stored.
    pub(super) fn state_stored(&mut self, id: u64, result: Result<(), StoreError>) -> Result<(), DaemonError> {
        let is_stored = result.is_ok();
        let mut desk = self.seat.desk();
        desk.handle(In::StateStored { id, is_stored })?;
        let retry = desk.retries().state;
        desk.give(&mut self.left);
        drop(desk);
        let now = self.shared.clock.now();
        self.shared.store_ended(now, Promise::State, &retry, result);
        self.do_what_is_left()
    }

    /// Handles the result of storing the nodes and links that were found.
    pub(super) fn known_stored(&mut self, id: u64, result: Result<(), StoreError>) -> Result<(), DaemonError> {
        let is_stored = result.is_ok();
        let mut desk = self.seat.desk();
        desk.handle(In::KnownStored { id, is_stored })?;
        let retry = desk.retries().known;
        desk.give(&mut self.left);
        drop(desk);
        let now = self.shared.clock.now();
        self.shared.store_ended(now, Promise::KnownFabric, &retry, result);
        self.do_what_is_left()
    }

    /// Records datagrams between hosts and the administrator, and due timers, unless a repair is in progress.
    pub(super) fn record_said(&mut self, hurries: bool) {
        let Some(recorder) = self.recorder.as_mut().filter(|_| !hurries) else {
            return;
        };
        let heard = self.seat.desk().take_heard();
        let notices = heard
            .into_iter()
            .filter_map(|(at, is_ours, what)| recorder.said(at, is_ours, &what));
        let mut notices: Vec<_> = notices.collect();
        notices.extend(recorder.flush_due(self.shared.clock.now()));
        for notice in notices {
            self.shared.notice(&notice);
        }
    }
}
