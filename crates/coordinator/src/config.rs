//! Configuration of a coordinator.

use selvedge_sa::{CopyConfig, Registrations};

/// Initial values of the administrator.
#[derive(Clone, Debug)]
pub struct Administrated {
    /// Limits and identity of the administrator.
    pub administrator: selvedge_sa::Config,
    /// The registrations that an earlier process stored.
    pub registrations: Registrations,
    /// True if hosts may have made other registrations than the stored ones.
    pub is_lost: bool,
    /// True if there is a state folder, where registrations are stored.
    pub has_folder: bool,
    /// True if hosts register with this process. A process that sets a fabric up once and ends asks no host to register
    /// again, and waits for no copy of the master's registrations.
    pub has_hosts: bool,
}

/// Returns the configuration of the copier, by which a standby reads the master's registrations.
#[must_use]
pub(crate) fn copy_config(manager: &selvedge_sm::Config, administrator: &selvedge_sa::Config) -> CopyConfig {
    CopyConfig {
        sa_key: administrator.sa_key,
        m_key: manager.policy.m_key,
        port: manager.local.port.get(),
        interval: manager.poll_interval,
    }
}
