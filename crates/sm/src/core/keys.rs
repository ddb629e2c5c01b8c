//! Connects the key ring with the rest of the manager: which keys are stored, which key plans use, which keys sweeps
//! found.

use std::collections::BTreeSet;
use std::sync::Arc;

use selvedge_fabric::{Fabric, Port};
use selvedge_plan::Policy;
use selvedge_types::{Guid, Lid, PortNum, SecretKey};
use selvedge_wire::Datagram;

use super::Sm;
use crate::commit::NoPlan;
use crate::config::{Config, Mode};
use crate::event::{Event, SweepReason};
use crate::io::{Output, PersistentState};
use crate::key_ring::{Effect, Found, In, KeyEvent, KeyRing, PortId, StoredKeys};
use crate::milestone::Milestone;
use crate::smp::Smp;
use crate::stage::Stage;
use crate::{commit, persist, report, sm_keys};

/// Returns the key ring of a manager. Until the M_Key of its policy is stored, the policy gets the former M_Key.
pub(super) fn ring(config: &mut Config, state: &PersistentState) -> KeyRing {
    let wanted = SecretKey::new(config.policy.m_key);
    let stored = StoredKeys {
        held: state.m_keys.clone(),
        retired: state.m_keys_retired.clone(),
    };
    let ring = KeyRing::new(wanted, &stored, config.mode == Mode::Manage);
    config.policy = with_m_key(Arc::clone(&config.policy), ring.present());
    ring
}

/// Returns the policy with this M_Key.
pub(super) fn with_m_key(mut policy: Arc<Policy>, key: SecretKey) -> Arc<Policy> {
    if policy.m_key != key.expose() {
        Arc::make_mut(&mut policy).m_key = key.expose();
    }
    policy
}

/// Returns the M_Key that ports hold; 0: none. Ports without a key do not count if others have one, because ports that
/// return have lost it. `None`: they hold several keys, or do not show them.
pub(super) fn held_by_ports(fabric: &Fabric) -> Option<SecretKey> {
    let in_use = fabric.end_ports().filter(report::is_in_use);
    let settings = in_use.map(|(_, port)| &port.settings);
    let shown = settings.filter(|settings| settings.m_key != 0 || settings.m_key_protect == 0);
    let keys: BTreeSet<u64> = shown.map(|settings| settings.m_key).collect();
    let is_one = keys.iter().filter(|key| **key != 0).count() <= 1;
    keys.last().filter(|_| is_one).copied().map(SecretKey::new)
}

impl Sm {
    /// Makes plans with another policy from now on. If its M_Key is new, ports keep the present one until the new one
    /// is stored.
    pub(crate) fn set_policy(&mut self, policy: Arc<Policy>, out: &mut Vec<Output>) {
        let key = SecretKey::new(policy.m_key);
        let policy = with_m_key(policy, self.keys.present());
        self.tell_in_force(commit::In::Wanted(&policy));
        self.config.policy = policy;
        self.want_key(key, out);
    }

    /// Takes over the keys that an earlier run has stored.
    pub(super) fn load_keys(&mut self, out: &mut Vec<Output>) {
        let (wanted, usual) = (self.keys.wanted(), self.keys.usual());
        if usual != wanted {
            out.push(Output::Milestone(Milestone::KeyChanged(usual)));
        }
        self.want_key(wanted, out);
        let stored = self.persist.sm_keys().to_vec();
        let present = SecretKey::new(self.config.sm_key);
        self.run_sm_keys(
            sm_keys::In::Loaded {
                present,
                stored: &stored,
            },
            out,
        );
    }

    /// Shows another SM_Key from now on. For a while, managers that show the former key are trusted too.
    pub(super) fn set_sm_key(&mut self, to: SecretKey, out: &mut Vec<Output>) {
        let from = SecretKey::new(std::mem::replace(&mut self.config.sm_key, to.expose()));
        if from != to {
            self.run_sm_keys(sm_keys::In::Changed { from, to }, out);
            out.push(Output::Event(Event::Keys(KeyEvent::SmKeyChanged)));
        }
    }

    fn run_sm_keys(&mut self, input: sm_keys::In<'_>, out: &mut Vec<Output>) {
        let mut effects = Vec::new();
        self.sm_keys.handle(self.now, input, &mut effects);
        for sm_keys::Effect::Store(keys) in effects {
            self.update_stored(persist::In::SmKeys(keys), out);
        }
    }

    pub(super) fn want_key(&mut self, key: SecretKey, out: &mut Vec<Output>) {
        let stores = self.config.mode == Mode::Manage;
        self.run_keys(In::Wanted { key, stores }, out);
        self.keys_stored(out);
    }

    /// Called when state is on the disk: a key that waits for it can be given to ports.
    pub(super) fn keys_stored(&mut self, out: &mut Vec<Output>) {
        let keys = self.persist.keys_on_disk().to_vec();
        self.run_keys(In::OnDisk(&keys), out);
    }

    fn store_keys(&mut self, keys: StoredKeys, at_once: bool, out: &mut Vec<Output>) {
        let StoredKeys { held, retired } = keys;
        self.update_stored(persist::In::Keys { held, retired, at_once }, out);
    }

    /// Hands an input to the key ring, and carries out its effects.
    pub(super) fn run_keys(&mut self, input: In<'_>, out: &mut Vec<Output>) {
        let mut effects = Vec::new();
        self.keys.handle(self.now, input, &mut effects);
        for effect in effects {
            match effect {
                Effect::Store(keys) => self.store_keys(keys, true, out),
                Effect::Note(keys) => self.store_keys(keys, false, out),
                Effect::Use(key) => {
                    self.config.policy = with_m_key(Arc::clone(&self.config.policy), key);
                    // A sweep that has begun will plan with it.
                    if !matches!(self.stage, Stage::Discovering(_) | Stage::Electing | Stage::Reading) {
                        self.want_sweep_unless_due(SweepReason::MKey);
                    }
                }
                Effect::Confirm => self.want_sweep_unless_due(SweepReason::MKey),
                Effect::Usual(key) => out.push(Output::Milestone(Milestone::KeyChanged(key))),
                Effect::Event(event) => out.push(Output::Event(Event::Keys(event))),
            }
        }
    }

    /// Returns the ports that the last heavy sweep found with an M_Key that they are to lose: a manager that takes over
    /// now may know only the new one. There are none if ports were set and kept it, or hold a key that this manager
    /// lacks too.
    pub(super) fn ports_that_change_keys(&self) -> Vec<PortId> {
        let proposed = self.changes.wanted().map(|policy| SecretKey::new(policy.m_key));
        let wanted = proposed.unwrap_or_else(|| self.keys.wanted());
        let is_former =
            |held: u64| held != 0 && SecretKey::new(held) != wanted && self.keys.opens(SecretKey::new(held));
        let fabric = self.inventory.as_ref().map(|inventory| &inventory.fabric);
        let is_locked_out = matches!(self.in_force.no_plan(), Some(NoPlan::MKey));
        let Some(fabric) = fabric.filter(|_| !is_locked_out && self.keys.left().is_none()) else {
            return Vec::new();
        };
        let in_use = fabric.end_ports().filter(report::is_in_use);
        let changing = in_use.filter(|(_, port)| is_former(port.settings.m_key));
        changing.map(|(at, _)| PortId::of(fabric, at)).collect()
    }

    /// Shows the key ring what a heavy sweep found, if there are former keys.
    pub(super) fn note_keys_found(&mut self, fabric: &Fabric, out: &mut Vec<Output>) {
        if !self.keys.is_open() {
            return;
        }
        let present = self.keys.present().expose();
        let has_present = |port: &Port| match port.settings.m_key {
            0 => present == 0 && port.settings.m_key_protect == 0,
            held => held == present,
        };
        let former = self.keys.former();
        let has_former = |port: &Port| former.iter().any(|key| key.expose() == port.settings.m_key);
        let in_use = || fabric.end_ports().filter(report::is_in_use);
        let with_former = in_use().filter(|(_, port)| has_former(port));
        let with_former = with_former.map(|(at, _)| (PortId::of(fabric, at), fabric.port_name(at)));
        let absent = self.presence.absent();
        // Ports at both ends of a link between switches are guarded by keys that were read.
        let is_of_host = |guid: Guid| {
            fabric
                .find(guid)
                .is_some_and(|node| fabric.switch_index(node).is_none())
        };
        let links = absent.links.iter();
        let links = links.filter(|link| is_of_host(link.ends.0.node) || is_of_host(link.ends.1.node));
        let found = Found {
            former: with_former.collect(),
            is_complete: in_use().all(|(_, port)| has_present(port)),
            missing: absent.nodes.len() + links.count() + absent.silent.len(),
        };
        self.run_keys(In::Found(found), out);
    }

    /// Returns the datagram of a request that is sent without waiting for an answer.
    pub(super) fn with_key(&self, smp: &Smp) -> Datagram {
        smp.datagram(self.keys.key_for(smp))
    }

    /// Returns the M_Key that guards the port with a LID.
    pub(super) fn key_of_lid(&self, lid: Lid) -> SecretKey {
        let route = || {
            let owner = self.in_force.plan()?.lids.owner(lid)?;
            let agent = self.inventory.as_ref()?.agents.get(owner.node)?;
            let is_switch = owner.port == PortNum::MANAGEMENT;
            Some(if is_switch {
                agent.route
            } else {
                *agent.route_to(owner.port)
            })
        };
        match self.keys.is_open().then(route).flatten() {
            Some(route) => self.keys.of_route(&route),
            None => self.keys.usual(),
        }
    }
}

#[cfg(test)]
mod tests {
    use selvedge_fabric::{FabricBuilder, Node};
    use selvedge_types::NodeKind;

    use super::*;

    #[test]
    fn the_key_of_ports_is_what_they_show_if_it_is_one() {
        let check = |ports: &[(u64, u8)], want: Option<u64>| {
            let mut b = FabricBuilder::new();
            for (guid, &(m_key, m_key_protect)) in (1..).zip(ports) {
                let mut node = Node::new(NodeKind::Switch, Guid(guid), 1, format!("s{guid}"));
                let port = node.port_mut(PortNum::MANAGEMENT).unwrap();
                (port.settings.m_key, port.settings.m_key_protect) = (m_key, m_key_protect);
                b.add(node);
            }
            let held = held_by_ports(&b.finish().unwrap());
            assert_eq!(held.map(SecretKey::expose), want, "{ports:?}");
        };
        check(&[(0, 0), (0, 0)], Some(0));
        check(&[(7, 0), (7, 1)], Some(7));
        // One has come back without its key.
        check(&[(7, 0), (0, 0)], Some(7));
        // The former master was changing it.
        check(&[(7, 0), (8, 0)], None);
        // It is hidden from other keys.
        check(&[(0, 1)], None);
    }
}
