//! Ports with an M_Key that a manager does not know: a flipped bit gave it to them, or the manager was never given it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use selvedge_chassis::{Chassis, PortIdx};
use selvedge_sm::Role;
use selvedge_types::Guid;
use selvedge_wire::{AttributeId, Mad, Method, SmControl};

use super::check::{Check, Ctx};
use super::holders::end_ports;
use super::ledger::Ledger;
use super::seen::{Scene, Seen};
use crate::Violation;
use crate::manager::ManagerId;

/// The M_Keys that each manager had. A manager that forgets one of them too early has no excuse.
#[derive(Debug, Default)]
pub(super) struct KeysGiven {
    /// Keys that each manager has ever stored.
    stored: BTreeMap<ManagerId, BTreeSet<u64>>,
    /// Keys that ports held when each manager last handed the subnet over. A port that the manager could not see does
    /// not count.
    handed_over: BTreeMap<ManagerId, BTreeSet<u64>>,
}

impl Check for KeysGiven {
    fn see(&mut self, ctx: &Ctx<'_>, seen: &Seen<'_>, _found: &mut Ledger) -> Result<(), Violation> {
        match seen {
            Seen::Stored { id, state } => {
                let keys = state.m_keys.iter().chain(&state.m_keys_retired).map(|key| key.expose());
                self.stored.entry(*id).or_default().extend(keys);
            }
            Seen::Sends { id, datagram, .. } if hands_over(&datagram.mad) => {
                self.handed_over.insert(*id, held_and_seen(&ctx.scene, *id));
            }
            _ => {}
        }
        Ok(())
    }
}

impl KeysGiven {
    /// Returns M_Keys that ports in reach of a manager hold, if the manager was never given them, nor was another
    /// running manager in its reach that should have replaced them. A standby sets no port, so a key that it has does
    /// not count, unless it handed the subnet over while ports held that key: then it should have waited.
    pub fn missing(&self, scene: &Scene<'_>, id: ManagerId) -> BTreeSet<u64> {
        let mut held = held_near(scene, id, |_| true);
        held.retain(|&key| {
            let has = |of: ManagerId| {
                let is_stored = self.stored.get(&of).is_some_and(|keys| keys.contains(&key));
                is_stored || scene.managers[of.0].config.policy.m_key == key
            };
            let is_standby = |of: ManagerId| scene.life(of).is_some_and(|life| life.sm.role() == Role::Standby);
            let left_it = |of: ManagerId| self.handed_over.get(&of).is_some_and(|held| held.contains(&key));
            let counts = |of: ManagerId| of == id || is_near(scene, id, of) && (!is_standby(of) || left_it(of));
            !(0..scene.managers.len()).map(ManagerId).any(|of| counts(of) && has(of))
        });
        held
    }
}

/// True if the manager hands the subnet over with this MAD.
fn hands_over(mad: &Mad) -> bool {
    let is_control = mad.method() == Method::Set && mad.attribute() == AttributeId::SM_INFO;
    is_control && SmControl::from_modifier(mad.modifier()) == Some(SmControl::Handover)
}

/// Returns the M_Keys that ports in reach of a manager hold, of those nodes that its last sweep found. It sees only one
/// of several nodes that show one GUID, or none.
fn held_and_seen(scene: &Scene<'_>, id: ManagerId) -> BTreeSet<u64> {
    let found = scene.life(id).and_then(|life| life.sm.view().seen);
    let chassis = scene.chassis();
    let nodes = chassis.fabric().nodes().indices();
    let mut shown: BTreeMap<Guid, usize> = BTreeMap::new();
    nodes.for_each(|node| *shown.entry(chassis.node_guid(node)).or_default() += 1);
    let is_seen = |guid: Guid| shown.get(&guid) == Some(&1) && found.as_ref().is_some_and(|of| of.find(guid).is_some());
    held_near(scene, id, |port| is_seen(chassis.node_guid(chassis.wire(port).node())))
}

/// Returns the port of a running manager.
fn place(scene: &Scene<'_>, id: ManagerId) -> Option<PortIdx> {
    scene.emulator.port_of(scene.life(id)?.client)
}

/// True if two running managers reach each other.
fn is_near(scene: &Scene<'_>, one: ManagerId, other: ManagerId) -> bool {
    let ends = place(scene, one).zip(place(scene, other));
    ends.is_some_and(|(one, other)| scene.subnets.connected(one, other))
}

/// Returns the M_Keys that ports in reach of a manager hold, of those ports that count.
fn held_near(scene: &Scene<'_>, id: ManagerId, counts: impl Fn(PortIdx) -> bool) -> BTreeSet<u64> {
    let Some(at) = place(scene, id) else {
        return BTreeSet::new();
    };
    let chassis = scene.chassis();
    let near = end_ports(chassis).filter(|port| scene.subnets.connected(at, *port) && counts(*port));
    let held = near.map(|port| chassis.port(port).settings().m_key);
    held.filter(|&key| key != 0).collect()
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
