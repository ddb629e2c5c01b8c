//! What a coordinator is made with.

use selvedge_sa::{CopyConfig, Registrations};

/// What the administrator beside the manager needs.
#[derive(Clone, Debug)]
pub struct Administrated {
    /// Limits and identity of the administrator.
    pub administrator: selvedge_sa::Config,
    /// What hosts registered in an earlier life.
    pub registrations: Registrations,
    /// Hosts may have registered more than that.
    pub is_lost: bool,
    /// There is a state folder: what hosts register is stored.
    pub has_folder: bool,
    /// Hosts register with this process. False for one that sets a fabric up once and ends: it asks no host to register
    /// again and waits for no copy of the master's registrations.
    pub has_hosts: bool,
}

/// Returns how a standby asks the master for what hosts have registered there.
#[must_use]
pub(crate) fn copy_config(manager: &selvedge_sm::Config, administrator: &selvedge_sa::Config) -> CopyConfig {
    CopyConfig {
        sa_key: administrator.sa_key,
        m_key: manager.policy.m_key,
        port: manager.local.port.get(),
        interval: manager.poll_interval,
    }
}
