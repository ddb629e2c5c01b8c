//! What an earlier life of a process left of registrations.

use selvedge_sa::Registrations;

use crate::{StateDir, StoreError};

/// What an earlier life left.
#[derive(Clone, Debug)]
pub struct Found {
    /// What hosts had registered.
    pub registrations: Registrations,
    /// Hosts may have registered more than that.
    pub is_lost: bool,
}

impl Found {
    /// Reads it from a state folder, if there is one.
    pub fn read(folder: Option<&StateDir>) -> Result<Self, StoreError> {
        let kept = folder.map(StateDir::load_registrations).transpose()?.flatten();
        let (registrations, is_all) = kept.unwrap_or_default();
        let is_lost = !is_all;
        Ok(Self { registrations, is_lost })
    }
}
