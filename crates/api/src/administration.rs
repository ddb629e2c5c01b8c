//! Requests of hosts to the subnet administrator, as counts.

use selvedge_types::Lid;
use serde::{Deserialize, Serialize};

/// Requests of hosts to the subnet administrator since the start, and the registrations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Administration {
    /// Datagrams taken.
    pub received: u64,
    /// Requests answered with success.
    pub answered: u64,
    /// Requests that were refused with a status other than BUSY.
    pub refused: u64,
    /// Number of these requests with a wrong SM_Key.
    pub bad_key: u64,
    /// Requests answered with BUSY.
    pub busy: u64,
    /// Number of these requests above the limit of one client.
    pub limited: u64,
    /// LID of the client with the most requests above its limit.
    pub most_limited: Option<Lid>,
    /// Dropped datagrams: this manager is not master, they are no requests, or they are stray parts of a transfer.
    pub dropped: u64,
    /// Transfers that ended early.
    pub failed: u64,
    /// Events reported to subscribers.
    pub reports: u64,
    /// Events that were not reported: too many were waiting, or the subscriber did not answer.
    pub reports_lost: u64,
    /// Services registered.
    pub services: u64,
    /// Subscriptions registered.
    pub subscriptions: u64,
    /// Multicast groups.
    pub groups: u64,
    /// Memberships in these groups.
    pub members: u64,
    /// Alias GUIDs of ports.
    pub aliases: u64,
}
