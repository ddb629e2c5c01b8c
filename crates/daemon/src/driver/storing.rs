//! State on its way to the disk: handed to the thread that stores, and again after a failure.

use selvedge_sim::Time;
use selvedge_sm::{Input, PersistentState};
use selvedge_store::StoreError;

use super::Driver;
use crate::DaemonError;
use crate::storing::Promise;
use crate::worker::ToStore;

impl Driver {
    /// Takes what the manager wants stored.
    pub(super) fn store(&mut self, now: Time, id: u64, state: PersistentState) {
        self.saver.want(id, state);
        self.store_what_is_due(now);
    }

    /// Hands on what is to be stored now, for the first time or again.
    pub(super) fn store_what_is_due(&mut self, now: Time) {
        if let Some((id, state)) = self.saver.begin(now) {
            self.busy += 1;
            self.storer.hand(ToStore::State(id, state));
        }
        let mut desk = self.seat.desk();
        desk.mark_if_due(now);
        if desk.keeper.is_due(now) {
            let (revision, all) = (desk.administrator.revision(), desk.administrator.registrations());
            self.storer.hand(ToStore::Registrations(revision, Box::new(all)));
        }
    }

    /// The manager's state is stored, or could not be: no Set that depends on it is sent before it is.
    pub(super) fn state_stored(&mut self, id: u64, result: Result<(), StoreError>) -> Result<(), DaemonError> {
        let now = self.shared.clock.now();
        let has_worked = result.is_ok();
        self.saver.saved(now, id, has_worked);
        self.shared.store_ended(now, Promise::State, self.saver.retry(), result);
        self.feed(match has_worked {
            true => Input::Persisted { id },
            false => Input::NotPersisted { id },
        })?;
        self.store_what_is_due(now);
        Ok(())
    }

    /// What hosts have registered is stored, or could not be.
    pub(super) fn registrations_stored(&self, revision: u64, result: Result<(), StoreError>) {
        let now = self.shared.clock.now();
        let mut desk = self.seat.desk();
        let kept = desk.keeper.saved(now, revision, result);
        let [saving, _] = desk.keeper.retries();
        self.shared.store_ended(now, Promise::Registrations, saving, kept);
    }
}
