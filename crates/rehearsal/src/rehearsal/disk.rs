//! Stores managers' state on disks in memory that may fail, with the code that the daemon uses.

use std::sync::Arc;

use selvedge_sm::{Input, PersistentState};
use selvedge_store::{MemoryDisk, Saver, StoreError};

use super::{PERSIST_COST, Rehearsal};
use crate::RehearsalError;
use crate::manager::{Folder, Manager, ManagerId, Pending, open_folder};

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
        Ok(Some(Folder {
            dir,
            saver: Saver::default(),
            last: None,
        }))
    }
}

impl Rehearsal {
    /// Gives a manager its own disk, and returns the disk.
    pub(crate) fn give_disk(&mut self, id: ManagerId) -> Option<Arc<MemoryDisk>> {
        let manager = self.managers.get_mut(id.0)?;
        Some(Arc::clone(manager.disk.get_or_insert_default()))
    }

    /// Returns a manager's disk, if it has one.
    pub(crate) fn disk_of(&self, id: ManagerId) -> Option<Arc<MemoryDisk>> {
        self.managers.get(id.0)?.disk.clone()
    }

    /// Returns the error of a manager that cannot read its stored state.
    pub(crate) fn cannot_start(&self, id: ManagerId, error: &StoreError) -> RehearsalError {
        RehearsalError::Disk {
            name: self.managers.get(id.0).map(|m| m.name.clone()).unwrap_or_default(),
            why: error.to_string(),
        }
    }

    /// Starts to store a manager's state if a save is due.
    pub(super) fn save(&mut self, id: ManagerId) {
        let now = self.now;
        let life = self.managers.get_mut(id.0).and_then(|manager| manager.life.as_mut());
        let Some(life) = life else { return };
        if let Some((number, state)) = life.folder.as_mut().and_then(|folder| folder.saver.begin(now)) {
            life.pending
                .push((now + PERSIST_COST, Pending::Saved { id: number, state }));
        }
    }

    /// Ends a save after the time that it takes.
    pub(super) fn saved(
        &mut self,
        id: ManagerId,
        number: u64,
        state: Arc<PersistentState>,
    ) -> Result<(), RehearsalError> {
        let now = self.now;
        let life = self.managers.get_mut(id.0).and_then(|manager| manager.life.as_mut());
        let Some((life, folder)) = life.and_then(|life| life.folder.take().map(|folder| (life, folder))) else {
            return Ok(());
        };
        let mut folder = folder;
        let has_worked = folder.dir.save_state(&state, folder.last.as_deref()).is_ok();
        folder.last = has_worked.then(|| Arc::clone(&state));
        folder.saver.saved(now, number, has_worked);
        if let Some(again) = folder.saver.next_wake() {
            life.pending.push((again, Pending::SaveAgain));
        }
        life.folder = Some(folder);
        match has_worked {
            true => self.stored_now(id, number, PersistentState::clone(&state))?,
            false => self.hand(id, Input::NotPersisted { id: number })?,
        }
        self.save(id);
        Ok(())
    }

    /// Notes that a manager's state is stored.
    pub(super) fn stored_now(
        &mut self,
        id: ManagerId,
        number: u64,
        state: PersistentState,
    ) -> Result<(), RehearsalError> {
        if let Some(watcher) = &mut self.watcher {
            let looked_at = self.managers[id.0].life.as_ref().and_then(|life| life.looked_at);
            watcher.stored(id, looked_at, &state, self.emulator.chassis());
        }
        self.managers[id.0].stored = state;
        self.hand(id, Input::Persisted { id: number })
    }
}
