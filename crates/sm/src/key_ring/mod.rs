//! The M_Key that ports get, and the former ones that ports may still hold: the manager changes the key of each port
//! without losing access to any port.
//!
//! - A new key is first stored, together with all former keys. Then plans give it to ports.
//! - A request has the key that its agent is known to have. If no answer comes, or one without M_Key, each other key is
//!   tried once.
//! - A Set that changes the key has the agent's key in the header and the new key in the data. If it is lost, the
//!   repeat has the new key in both.
//! - When every port has the present key, the former keys are retired, unless nodes are missing or another manager
//!   still asks with a former key. No request has a retired key, and no other manager is trusted with it. If a port
//!   comes into sight that shows a retired key, or that hides its key, retired keys are former keys again: another
//!   manager may have given this port such a key while this manager could not see it.
//!
//! Each agent checks the key of its own SMPs only, so the keys of ports may be changed in any order. Source: IBA vol 1
//! §14.2.4.

mod event;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use selvedge_fabric::{Fabric, PortRef};
use selvedge_sim::Time;
use selvedge_types::{Guid, PortNum, SecretKey};
use selvedge_wire::{DirectedRoute, Mad, PortInfo, SmInfo};

pub use event::KeyEvent;

use crate::report;
use crate::smp::Smp;

/// Most former and retired keys: more than rotations between two sweeps that find every node. The oldest one is
/// dropped.
pub const FORMER_MAX: usize = 8;
/// Largest number of heavy sweeps in a row that begin at once to confirm a rotation; later ones come by their own
/// reasons.
const CONFIRMS_MAX: u8 = 3;
/// If another manager has asked with a former key within this time, it counts as still having that key.
const PEER_ASKS_WITHIN: Duration = Duration::from_secs(60);

/// A port: the GUID of its node, its number, and those of the port at the other end of its link. Without the other end,
/// two nodes that show the same GUID would be one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PortId {
    /// Node and number.
    pub at: (Guid, PortNum),
    /// The other end; none if there is no link.
    pub peer: Option<(Guid, PortNum)>,
}

impl PortId {
    /// Returns the identity of a port of a fabric.
    pub fn of(fabric: &Fabric, at: PortRef) -> Self {
        let end = |at: PortRef| (fabric.node(at.node).guid, at.port);
        let peer = fabric.port(at).and_then(|port| port.peer);
        Self {
            at: end(at),
            peer: peer.map(end),
        }
    }
}

/// The present M_Key, the former ones, and which agent holds which key.
#[derive(Debug)]
pub struct KeyRing {
    /// The key that plans give to ports; 0: none.
    present: SecretKey,
    /// The key of the policy. It differs from `present` until the key is stored.
    wanted: SecretKey,
    /// Former keys that ports may still hold, newest first: neither 0 nor the present one.
    former: Vec<SecretKey>,
    /// Former keys that no port in sight held when a change was complete, newest first.
    retired: Vec<SecretKey>,
    /// The key that an agent was last seen with. At an unknown agent it is tried first.
    usual: SecretKey,
    /// The key that the agent at the end of a directed route is known to have, since the last heavy sweep began; with
    /// `true`, the key of the manager there. Filled only while there are former keys.
    known: BTreeMap<(DirectedRoute, bool), SecretKey>,
    rotation: Rotation,
    /// When another manager last sent a request with a former key.
    peer_asked: Option<Time>,
}

/// The work that remains before former keys are retired.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Rotation {
    /// No work: there are no former keys, or this manager has not been master since they were loaded.
    #[default]
    None,
    /// Ports get the present key.
    Changing {
        /// True once the number of ports was reported.
        is_reported: bool,
        /// Number of heavy sweeps that may still begin at once to confirm the keys.
        confirms_left: u8,
        /// True if the last heavy sweep found ports without the present key: after its plan, another sweep confirms the
        /// change.
        is_due: bool,
        /// Ports that the last heavy sweep found with a former key: its plan gives them the present one.
        found: BTreeSet<PortId>,
        /// Ports that any heavy sweep of this change found with a former key.
        ever_found: BTreeSet<PortId>,
        /// Ports that a sweep found with a former key although their Sets had been sent.
        left: Option<Arc<str>>,
    },
    /// Every port that was found has the present key. The former keys are kept.
    Kept {
        /// Nodes and links that are missing; 0: the keys are kept because another manager has asked with one of them.
        missing: usize,
    },
}

/// The M_Keys that a heavy sweep of the master found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Ports with a former key, with their names.
    pub former: BTreeMap<PortId, String>,
    /// True if every port in use has the present key.
    pub is_complete: bool,
    /// Nodes that are missing or do not answer, and links that are gone.
    pub missing: usize,
}

/// The M_Keys that a manager stores.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredKeys {
    /// Keys that ports may hold, newest first.
    pub held: Vec<SecretKey>,
    /// Retired keys, newest first.
    pub retired: Vec<SecretKey>,
}

/// The inputs of this sub-machine.
#[derive(Debug)]
pub enum In<'a> {
    /// The operator's policy has this M_Key. `stores`: it must be stored before a port gets it.
    Wanted {
        /// The key; 0: none.
        key: SecretKey,
        /// False for a manager that sends no Sets.
        stores: bool,
    },
    /// These keys have been stored.
    OnDisk(&'a [SecretKey]),
    /// A heavy sweep begins: a cable that was moved may have changed where each route leads.
    SweepBegins,
    /// A heavy sweep of the master has found these keys.
    Found(Found),
    /// The plan that followed that sweep has been applied.
    Applied,
    /// A light sweep of the master begins.
    LightSweep,
    /// A request was answered, and may be repeated with another key.
    Answered(&'a Smp, &'a Mad),
    /// A request has ended, with this answer or without one, and is not repeated.
    Ended(&'a Smp, Option<&'a Mad>),
    /// Another manager has sent a Get of SMInfo with this M_Key.
    PeerAsked(SecretKey),
}

/// The effects that the outer machine carries out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Store these keys.
    Store(StoredKeys),
    /// Store these keys with the next plan.
    Note(StoredKeys),
    /// Use this key in plans, and begin a sweep.
    Use(SecretKey),
    /// Sweep, to confirm that every port has the present key.
    Confirm,
    /// Use this key to repress traps from now on, because most agents have it.
    Usual(SecretKey),
    /// Report this event.
    Event(KeyEvent),
}

impl KeyRing {
    /// Makes a key ring of the policy's key and the keys that an earlier run has stored. `stores`: a key must be stored
    /// before a port gets it; false for a manager that sends no Sets.
    pub fn new(wanted: SecretKey, stored: &StoredKeys, stores: bool) -> Self {
        let held = &stored.held;
        let is_safe = !stores || is_none(wanted) || held.is_empty() || held.contains(&wanted);
        let present = match held.first() {
            Some(&newest) if !is_safe => newest,
            _ => wanted,
        };
        let mut ring = Self {
            present,
            wanted,
            former: Vec::new(),
            retired: stored.retired.clone(),
            usual: present,
            known: BTreeMap::new(),
            rotation: Rotation::None,
            peer_asked: None,
        };
        ring.retired.retain(|key| *key != present);
        ring.retired.truncate(FORMER_MAX);
        held.iter().rev().for_each(|&key| ring.remember(key));
        if !ring.former.is_empty() {
            ring.rotation = changing();
        }
        ring
    }

    /// Handles one input at this time, and appends its effects.
    pub fn handle(&mut self, now: Time, input: In<'_>, effects: &mut Vec<Effect>) {
        let usual = self.usual;
        match input {
            In::Wanted { key, stores } => self.want(key, stores, effects),
            In::OnDisk(keys) => self.on_disk(keys, effects),
            In::SweepBegins => self.known.clear(),
            In::Found(found) => self.found(now, found, effects),
            In::Applied => self.applied(effects),
            In::LightSweep => self.light_sweep(now, effects),
            In::Answered(smp, answer) => self.reopen(smp, answer),
            In::Ended(smp, answer) => self.learn(smp, answer),
            In::PeerAsked(key) => {
                if self.former.contains(&key) {
                    self.peer_asked = Some(now);
                }
            }
        }
        if self.usual != usual {
            effects.push(Effect::Usual(self.usual));
        }
    }

    /// Returns the key that plans give to ports; 0: none.
    pub const fn present(&self) -> SecretKey {
        self.present
    }

    /// Returns the key of the policy: the present one, unless it is not stored yet.
    pub const fn wanted(&self) -> SecretKey {
        self.wanted
    }

    /// Returns the key that most agents have.
    pub const fn usual(&self) -> SecretKey {
        self.usual
    }

    /// Returns the former keys, newest first.
    pub fn former(&self) -> &[SecretKey] {
        &self.former
    }

    /// Returns true if an agent with this key can be set: it is the present key, a former one, or none.
    pub fn opens(&self, key: SecretKey) -> bool {
        is_none(key) || key == self.present || key == self.wanted || self.former.contains(&key)
    }

    /// Returns the keys that requests of other managers may have, besides the present key: a new key that is not stored
    /// yet or that is only `proposed` (0: none, so that a request without a key is as good), and former keys.
    pub fn others(&self, proposed: Option<SecretKey>) -> Vec<SecretKey> {
        let coming = proposed.into_iter().chain([self.wanted]);
        let coming = coming.filter(|key| *key != self.present);
        coming.chain(self.former.iter().copied()).collect()
    }

    /// True if no heavy sweep of this change has found the port with a former key: it came into sight since.
    pub fn is_newly_found(&self, port: &PortId) -> bool {
        match &self.rotation {
            Rotation::Changing { ever_found, .. } => !ever_found.contains(port),
            Rotation::None | Rotation::Kept { .. } => true,
        }
    }

    /// Returns the ports that still have a former key although they were set, in words.
    pub const fn left(&self) -> Option<&Arc<str>> {
        match &self.rotation {
            Rotation::Changing { left, .. } => left.as_ref(),
            Rotation::Kept { .. } | Rotation::None => None,
        }
    }

    /// Returns the M_Key that the agent at the end of a directed route most likely has.
    pub fn of_route(&self, route: &DirectedRoute) -> SecretKey {
        match self.former.is_empty() {
            true => self.present,
            false => self.known.get(&(*route, false)).copied().unwrap_or(self.usual),
        }
    }

    /// Returns the key for a request: the key that its port showed, else the key that its agent is known to have, else
    /// the next key that was not tried with this request.
    pub fn key_for(&self, smp: &Smp) -> SecretKey {
        let likely = smp.shown_key().unwrap_or(self.present);
        match self.former.is_empty() {
            true => likely,
            false => self.untried(smp).unwrap_or(likely),
        }
    }

    /// Returns true while requests may have to be sent with several keys: there are former keys, or retired ones.
    pub const fn is_open(&self) -> bool {
        !self.former.is_empty() || !self.retired.is_empty()
    }

    /// Returns true if the request must be sent again with another key: it ended in a way that a wrong key explains,
    /// and there is a key that was not tried. A Get to an agent with a known key is not sent again, because its silence
    /// has another reason. A Set is sent again, because an earlier Set may have changed the agent's key, and the answer
    /// to that Set may have been lost.
    pub fn tries_again(&self, smp: &Smp, answer: Option<&Mad>) -> bool {
        if self.former.is_empty() {
            return false;
        }
        let is_refused = match answer {
            Some(mad) => hides_key(smp, mad),
            None => smp.is_set() || !self.known.get(&place(smp)).is_some_and(|key| smp.tried().contains(key)),
        };
        is_refused && self.untried(smp).is_some()
    }

    /// Returns the next key to try, the most likely one first; `None` if all were tried. For a request to another
    /// manager, that is the present key: a manager that accepts both keys then knows that the former key is no longer
    /// needed.
    fn untried(&self, smp: &Smp) -> Option<SecretKey> {
        let known = self.known.get(&place(smp)).copied();
        let first = match smp.is_to_manager() {
            true => Some(self.present),
            false => smp.shown_key(),
        };
        let first = first.into_iter().chain(known);
        let keys = first
            .chain([self.usual, self.present])
            .chain(self.former.iter().copied());
        let mut keys = keys.filter(|key| !smp.tried().contains(key));
        keys.next()
    }

    /// Makes retired keys former keys again that an agent may hold: the key that it shows, or all of them if it hides
    /// its key.
    fn reopen(&mut self, smp: &Smp, answer: &Mad) {
        if self.retired.is_empty() || smp.is_to_manager() {
            return;
        }
        let shown = match hides_key(smp, answer) {
            true => None,
            false => match answer.read::<PortInfo>() {
                Ok(info) if smp.reads_port() && answer.status().0 == 0 => Some(SecretKey::new(info.m_key)),
                Ok(_) | Err(_) => return,
            },
        };
        let may_hold = |key: &SecretKey| shown.is_none_or(|shown| shown == *key);
        let (held, retired): (Vec<_>, Vec<_>) = self.retired.iter().partition(|key| may_hold(key));
        if !held.is_empty() && matches!(self.rotation, Rotation::None) {
            self.rotation = changing();
        }
        self.retired = retired;
        // They are older than the former keys.
        self.former.extend(held);
    }

    /// Records what the end of a request shows about the key of its agent.
    fn learn(&mut self, smp: &Smp, answer: Option<&Mad>) {
        if self.former.is_empty() {
            return;
        }
        let Some(mad) = answer.filter(|mad| mad.status().0 == 0) else {
            // A Set that may have changed the key: the agent may have either.
            if answer.is_none() && smp.given_key().is_some() {
                self.known.remove(&place(smp));
            }
            return;
        };
        if hides_key(smp, mad) {
            return;
        }
        if smp.is_to_manager() {
            let key = smp.tried().last().copied();
            self.known.extend(key.map(|key| (place(smp), key)));
            return;
        }
        let shown = || {
            let info = mad.read::<PortInfo>().ok().filter(|_| smp.reads_port())?;
            Some(SecretKey::new(info.m_key)).filter(|key| !is_none(*key))
        };
        let was_opened = || smp.tried().last().copied().filter(|_| smp.tried().len() > 1);
        let key = smp.given_key().or_else(shown).or_else(was_opened);
        if let Some(key) = key.filter(|key| self.opens(*key)) {
            self.known.insert(place(smp), key);
            self.usual = key;
        }
    }

    /// Called when the operator wants another key. The key is stored before any port gets it. So a manager that is
    /// killed while ports get the key can access all ports after its restart, with the old or the new configuration. A
    /// key that was wanted before counts as a former one, although this manager may have given it to no port: another
    /// manager with the same configuration may have.
    fn want(&mut self, key: SecretKey, stores: bool, effects: &mut Vec<Effect>) {
        let before = std::mem::replace(&mut self.wanted, key);
        let is_new = before != key;
        if is_new {
            self.remember(before);
        }
        if !stores {
            if is_new {
                self.begin(effects);
            }
            return;
        }
        let keys = self.to_store();
        if is_new || self.wanted != self.present || !self.former.is_empty() {
            effects.push(Effect::Store(keys));
        } else {
            effects.push(Effect::Note(keys));
        }
    }

    fn on_disk(&mut self, keys: &[SecretKey], effects: &mut Vec<Effect>) {
        let is_stored = |key: SecretKey| is_none(key) || keys.contains(&key);
        if self.wanted != self.present && is_stored(self.wanted) && is_stored(self.present) {
            self.begin(effects);
        }
    }

    /// Begins to use the wanted key in plans.
    fn begin(&mut self, effects: &mut Vec<Effect>) {
        let before = std::mem::replace(&mut self.present, self.wanted);
        self.former.retain(|key| *key != self.wanted);
        self.retired.retain(|key| *key != self.wanted);
        self.remember(before);
        self.rotation = changing();
        if self.former.is_empty() {
            // Agents without a key take any: there is nothing to try, and nothing to wait for.
            (self.rotation, self.usual) = (Rotation::None, self.present);
        }
        effects.push(Effect::Use(self.present));
    }

    fn remember(&mut self, key: SecretKey) {
        if !is_none(key) && key != self.present {
            self.former.retain(|former| *former != key);
            self.retired.retain(|retired| *retired != key);
            self.former.insert(0, key);
            self.former.truncate(FORMER_MAX);
            self.retired.truncate(FORMER_MAX - self.former.len());
        }
    }

    fn found(&mut self, now: Time, found: Found, effects: &mut Vec<Effect>) {
        if self.former.is_empty() {
            return;
        }
        if !found.former.is_empty() {
            self.rotation = self.found_former(found.former, effects);
            return;
        }
        let missing = found.missing;
        if found.is_complete && missing == 0 && !self.is_asked_by_peer(now) {
            self.retire(effects);
        } else if found.is_complete {
            if !matches!(self.rotation, Rotation::Kept { .. }) {
                effects.push(Effect::Event(KeyEvent::Kept { missing }));
            }
            self.rotation = Rotation::Kept { missing };
        } else {
            // Ports are back without a key, whatever was known before: a sweep after their plan confirms it.
            if !matches!(self.rotation, Rotation::Changing { .. }) {
                self.rotation = changing();
            }
            if let Rotation::Changing { is_due, left, .. } = &mut self.rotation {
                (*is_due, *left) = (true, None);
            }
        }
    }

    /// Called when a sweep has found ports with a former key. Those that the sweep before found too have kept it,
    /// unless that sweep's plan was not applied: then they did not get their Sets yet. Others have come into sight
    /// since.
    fn found_former(&self, former: BTreeMap<PortId, String>, effects: &mut Vec<Effect>) -> Rotation {
        let (mut left, mut confirms_left) = (None, CONFIRMS_MAX);
        let (mut kept, mut ever_found) = (Vec::new(), BTreeSet::new());
        let mut is_news = true;
        if let Rotation::Changing {
            is_reported,
            confirms_left: confirms,
            is_due,
            found,
            ever_found: ever,
            left: before,
        } = &self.rotation
        {
            confirms_left = *confirms;
            ever_found.clone_from(ever);
            match (is_reported, is_due) {
                (true, true) => (is_news, left) = (false, before.clone()),
                (true, false) => kept.extend(former.iter().filter(|(port, _)| found.contains(port))),
                (false, _) => {}
            }
        }
        let ports = former.len();
        if !kept.is_empty() {
            let what = report::listed(kept.iter().map(|(_, name)| (*name).clone()));
            left = Some(what.as_str().into());
            let ports = kept.len();
            effects.push(Effect::Event(KeyEvent::Left { ports, what }));
        } else if is_news {
            effects.push(Effect::Event(KeyEvent::Begins { ports }));
        }
        ever_found.extend(former.keys().copied());
        Rotation::Changing {
            is_reported: true,
            confirms_left,
            is_due: true,
            found: former.into_keys().collect(),
            ever_found,
            left,
        }
    }

    /// Called when no other manager has needed a former key for a while, and no node is missing that may have one.
    fn light_sweep(&mut self, now: Time, effects: &mut Vec<Effect>) {
        if matches!(self.rotation, Rotation::Kept { missing: 0 }) && !self.is_asked_by_peer(now) {
            self.retire(effects);
        }
    }

    fn is_asked_by_peer(&self, now: Time) -> bool {
        self.peer_asked.is_some_and(|at| now.since(at) < PEER_ASKS_WITHIN)
    }

    /// Called when every port has the present key.
    fn retire(&mut self, effects: &mut Vec<Effect>) {
        self.retired.splice(0..0, self.former.drain(..));
        self.known.clear();
        (self.rotation, self.usual) = (Rotation::None, self.present);
        effects.extend([Effect::Store(self.to_store()), Effect::Event(KeyEvent::Done)]);
    }

    /// Called when every Set of the plan has ended: another sweep shows which ports have the present key.
    fn applied(&mut self, effects: &mut Vec<Effect>) {
        if let Rotation::Changing {
            confirms_left, is_due, ..
        } = &mut self.rotation
            && std::mem::take(is_due)
            && *confirms_left > 0
        {
            *confirms_left -= 1;
            effects.push(Effect::Confirm);
        }
    }

    /// Returns the keys to store.
    fn to_store(&self) -> StoredKeys {
        let mut held = vec![self.wanted];
        for &key in [self.present].iter().chain(&self.former) {
            if !held.contains(&key) {
                held.push(key);
            }
        }
        held.retain(|key| !is_none(*key));
        let mut retired = self.retired.clone();
        retired.retain(|key| *key != self.wanted);
        StoredKeys { held, retired }
    }
}

/// Returns the state in which ports are about to get the present key.
const fn changing() -> Rotation {
    Rotation::Changing {
        is_reported: false,
        confirms_left: CONFIRMS_MAX,
        is_due: false,
        found: BTreeSet::new(),
        ever_found: BTreeSet::new(),
        left: None,
    }
}

fn is_none(key: SecretKey) -> bool {
    key == SecretKey::default()
}

/// Returns the target of a request: its directed route, and whether it goes to a manager instead of an agent.
fn place(smp: &Smp) -> (DirectedRoute, bool) {
    (smp.route, smp.is_to_manager())
}

/// True if an answer hides a key because the request had the wrong M_Key: PortInfo with protection bits and without the
/// M_Key, SMInfo without the SM_Key. Source: IBA vol 1 §14.2.4.1; OpenSM.
fn hides_key(smp: &Smp, mad: &Mad) -> bool {
    if mad.status().0 != 0 || smp.is_set() {
        return false;
    }
    if smp.is_to_manager() {
        return mad.read::<SmInfo>().is_ok_and(|info| info.sm_key == 0);
    }
    let info = mad.read::<PortInfo>().ok().filter(|_| smp.reads_port());
    info.is_some_and(|info| info.m_key == 0 && info.m_key_protect.get() != 0)
}

#[cfg(test)]
mod tests;
