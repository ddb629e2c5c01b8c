//! Stores managers' state on disks in memory that may fail, with the code that the daemon uses.

use std::sync::Arc;

use selvedge_coordinator::In;
use selvedge_sm::{Input, PersistentState};
use selvedge_store::{MemoryDisk, StoreError};

use super::Rehearsal;
use crate::RehearsalError;
use crate::checkers::Seen;
use crate::manager::{Folder, Manager, ManagerId, open_folder};

impl Manager {
    /// Opens the state folder for a new process, which knows only the state on the disk.
    pub(super) fn open_folder(&mut self) -> Result<Option<Folder>, RehearsalError> {
        let Some(disk) = &self.disk else { return Ok(None) };
        let load = || -> Result<_, StoreError> {
            let dir = open_folder(disk)?;
            let (state, _) = dir.load_state()?;
            Ok((dir, state))
        };
        let (dir, state) = load().map_err(|error| RehearsalError::Disk {
            name: self.name.clone(),
            why: error.to_string(),
        })?;
        self.stored = state;
        Ok(Some(Folder { dir, last: None }))
    }
}

impl Rehearsal {
    /// Gives a manager its own disk, and returns the disk.
    pub(crate) fn give_disk(&mut self, id: ManagerId) -> Option<Arc<MemoryDisk>> {
        let manager = self.managers.get_mut(id.0)?;
        Some(Arc::clone(manager.disk.get_or_insert_default()))
    }

    /// Returns the error of a manager that cannot read its stored state.
    pub(crate) fn cannot_start(&self, id: ManagerId, error: &StoreError) -> RehearsalError {
        RehearsalError::Disk {
            name: self.managers.get(id.0).map(|m| m.name.clone()).unwrap_or_default(),
            why: error.to_string(),
        }
    }

    /// Ends a save after the time that it takes.
    pub(super) fn saved(
        &mut self,
        id: ManagerId,
        number: u64,
        state: Arc<PersistentState>,
    ) -> Result<(), RehearsalError> {
        let life = self.managers.get_mut(id.0).and_then(|manager| manager.life.as_mut());
        let Some(folder) = life.and_then(|life| life.folder.as_mut()) else {
            return Ok(());
        };
        let is_stored = folder.dir.save_state(&state, folder.last.as_deref()).is_ok();
        folder.last = is_stored.then(|| Arc::clone(&state));
        if is_stored {
            self.note_stored(id, PersistentState::clone(&state))?;
        }
        self.coordinate(id, In::StateStored { id: number, is_stored })
    }

    /// Records that a manager's state is stored.
    pub(super) fn note_stored(&mut self, id: ManagerId, state: PersistentState) -> Result<(), RehearsalError> {
        self.observe(&Seen::Stored { id, state: &state })?;
        self.managers[id.0].stored = state;
        Ok(())
    }

    /// Records that the state of a manager without a disk is stored, and informs the manager.
    pub(super) fn stored_now(
        &mut self,
        id: ManagerId,
        number: u64,
        state: PersistentState,
    ) -> Result<(), RehearsalError> {
        self.note_stored(id, state)?;
        self.hand(id, Input::Persisted { id: number })
    }
}
