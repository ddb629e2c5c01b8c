//! Reads the registrations that an earlier process left.

use selvedge_sa::Registrations;

use crate::{StateDir, StoreError};

/// The registrations that an earlier process left.
#[derive(Clone, Debug)]
pub struct Found {
    /// The stored registrations.
    pub registrations: Registrations,
    /// True if hosts may have registered more than is stored.
    pub is_lost: bool,
}

impl Found {
    /// Reads the registrations from a state folder, if there is one.
    pub fn read(folder: Option<&StateDir>) -> Result<Self, StoreError> {
        let kept = folder.map(StateDir::load_registrations).transpose()?.flatten();
        let (registrations, is_all) = kept.unwrap_or_default();
        let is_lost = !is_all;
        Ok(Self { registrations, is_lost })
    }
}
