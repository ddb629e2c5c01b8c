//! Ports with an M_Key that no manager knows, because of a flipped bit: they are locked.

use std::time::Duration;

use selvedge_chassis::{Chassis, PortIdx};

use super::holders::end_ports;

/// Returns how long a port may be locked that has none of these known M_Keys: the longest lease.
pub(super) fn longest(chassis: &Chassis, known: &[u64]) -> Option<Duration> {
    let settings = end_ports(chassis).map(|port| chassis.port(port).settings());
    let is_locked = |held: u64, protect: u8| held != 0 && !known.contains(&held) && protect > 0;
    let locked = settings.filter(|held| is_locked(held.m_key, held.m_key_protect));
    let lease = locked.map(|held| held.m_key_lease_s).filter(|lease| *lease > 0).max()?;
    Some(Duration::from_secs(lease.into()))
}

/// Returns end ports with an M_Key that differs in one bit from a known key, and is not itself known.
pub(super) fn one_bit_off(chassis: &Chassis, known: &[u64]) -> Vec<PortIdx> {
    let is_off = |port: &PortIdx| {
        let held = chassis.port(*port).settings().m_key;
        !known.contains(&held) && known.iter().any(|key| (held ^ key).is_power_of_two())
    };
    end_ports(chassis).filter(is_off).collect()
}
