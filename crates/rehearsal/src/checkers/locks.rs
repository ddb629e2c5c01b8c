//! Ports with an M_Key that a manager does not know: a flipped bit gave it to them, or the manager was never given it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use selvedge_chassis::{Chassis, PortIdx};

use super::check::{Check, Ctx};
use super::holders::end_ports;
use super::ledger::Ledger;
use super::seen::{Scene, Seen};
use crate::Violation;
use crate::manager::ManagerId;

/// The M_Keys that each manager has ever stored. A manager that forgets one of them too early has no excuse.
#[derive(Debug, Default)]
pub(super) struct KeysGiven {
    stored: BTreeMap<ManagerId, BTreeSet<u64>>,
}

impl Check for KeysGiven {
    fn see(&mut self, _ctx: &Ctx<'_>, seen: &Seen<'_>, _found: &mut Ledger) -> Result<(), Violation> {
        if let Seen::Stored { id, state } = seen {
            let keys = state.m_keys.iter().map(|key| key.expose());
            self.stored.entry(*id).or_default().extend(keys);
        }
        Ok(())
    }
}

impl KeysGiven {
    /// Returns unknown M_Keys: ports in reach of manager `id` hold them, but neither this manager nor another running
    /// manager in its reach was ever given them.
    pub fn missing(&self, scene: &Scene<'_>, id: ManagerId) -> BTreeSet<u64> {
        let place = |id: ManagerId| scene.emulator.port_of(scene.life(id)?.client);
        let Some(at) = place(id) else { return BTreeSet::new() };
        let is_near = |port: PortIdx| scene.subnets.connected(at, port);
        let ids = (0..scene.managers.len()).map(ManagerId);
        let near: Vec<ManagerId> = ids.filter(|&id| place(id).is_some_and(is_near)).collect();
        let is_given = |key: u64| {
            let is_stored = |id: &ManagerId| self.stored.get(id).is_some_and(|keys| keys.contains(&key));
            let is_configured = |id: &ManagerId| scene.managers[id.0].config.policy.m_key == key;
            near.iter().any(|id| is_stored(id) || is_configured(id))
        };
        let chassis = scene.chassis();
        let held = end_ports(chassis).filter(|port| is_near(*port));
        let held = held.map(|port| chassis.port(port).settings().m_key);
        held.filter(|&key| key != 0 && !is_given(key)).collect()
    }
}

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
