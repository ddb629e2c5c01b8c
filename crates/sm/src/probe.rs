//! Looks at the ports of switches that said that something changed, until that is explained.
//!
//! Trap 128 names the switch, not the port. A link that went down is enough of an explanation, at either of its ends:
//! the manager acts on it at once and looks at the other ports afterwards.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use selvedge_fabric::{NodeIdx, PortRef};
use selvedge_types::{PhysState, PortState};
use selvedge_wire::PortInfo;

use crate::damage::Damage;
use crate::event::SweepReason;
use crate::inventory::Inventory;

/// A look at the ports of some switches.
#[derive(Debug)]
pub struct Probe {
    /// What was known before.
    pub inventory: Arc<Inventory>,
    /// What made us look; the reason of the sweep that may follow.
    pub reason: SweepReason,
    /// Every port is looked at, whatever is found: what was repaired is checked.
    pub is_check: bool,
    /// Switches that said that something changed.
    suspects: BTreeSet<NodeIdx>,
    /// Suspects of which something was found.
    explained: BTreeSet<NodeIdx>,
    /// Ports whose answer came.
    known: BTreeSet<PortRef>,
    /// Ports whose agents did not answer.
    silent: usize,
    /// What was found.
    pub damage: Damage,
    /// Something that no lost link explains: only a sweep can tell.
    pub is_strange: bool,
}

/// How a look goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Looked {
    /// Not all answers are there.
    Further,
    /// Every suspect is explained.
    Explained,
    /// Something else than lost links.
    Strange,
}

impl Probe {
    /// A look that has not begun.
    pub fn new(inventory: Arc<Inventory>, reason: SweepReason, is_check: bool) -> Self {
        Self {
            inventory,
            reason,
            is_check,
            suspects: BTreeSet::new(),
            explained: BTreeSet::new(),
            known: BTreeSet::new(),
            silent: 0,
            damage: Damage::default(),
            is_strange: false,
        }
    }

    /// Takes suspects in; true if any of them is new.
    pub fn suspect(&mut self, nodes: &BTreeSet<NodeIdx>) -> bool {
        let before = self.suspects.len();
        self.suspects.extend(nodes);
        self.damage.flagged.extend(nodes);
        self.suspects.len() > before
    }

    /// Ports to ask, those first that most likely explain something.
    pub fn questions(&self) -> Vec<PortRef> {
        let fabric = &self.inventory.fabric;
        let mut ranked: BTreeMap<PortRef, u8> = BTreeMap::new();
        for &node in &self.suspects {
            if !self.is_check && self.explained.contains(&node) {
                continue;
            }
            // Its agent may be silent because the way to it is what was lost.
            for at in self.inventory.hops(&self.inventory.agents[node].route) {
                if fabric.switch_index(at.node).is_some() {
                    ranked.insert(at, 1);
                }
            }
            for (port, seen) in fabric.node(node).external_ports() {
                let rank = match seen.peer {
                    Some(peer) if self.suspects.contains(&peer.node) && seen.is_up() => 0,
                    Some(peer) if seen.is_up() && fabric.switch_index(peer.node).is_some() => 2,
                    Some(_) if seen.is_up() => 3,
                    Some(_) => 4,
                    None => 5,
                };
                let at = PortRef { node, port };
                ranked.entry(at).and_modify(|old| *old = rank.min(*old)).or_insert(rank);
            }
        }
        let mut asked: Vec<(u8, PortRef)> = ranked
            .into_iter()
            .filter(|(at, _)| !self.known.contains(at))
            .map(|(at, rank)| (rank, at))
            .collect();
        asked.sort_unstable();
        asked.into_iter().map(|(_, at)| at).collect()
    }

    /// Takes the answer of a port; `None`: nobody answered.
    pub fn answered(&mut self, at: PortRef, info: Option<&PortInfo>) -> Looked {
        self.known.insert(at);
        let fabric = &self.inventory.fabric;
        let (Some(info), Some(port)) = (info, fabric.port(at)) else {
            // An agent that is behind a lost link will be asked by another way.
            self.silent += 1;
            self.is_strange |= self.is_check;
            return self.looked();
        };
        let state = info.state.unwrap_or(PortState::Down);
        let is_up = info.phys_state == Some(PhysState::LinkUp) && state != PortState::Down;
        match (port.is_up(), is_up) {
            (true, false) => {
                self.damage.lost.insert(at);
                self.damage.seen.push((at, *info));
                self.explained.insert(at.node);
                let far = port.peer.map(|peer| peer.node);
                self.explained.extend(far);
                // Its trap may have been lost with the link.
                let far = far.filter(|node| fabric.switch_index(*node).is_some());
                self.damage.flagged.extend([at.node].into_iter().chain(far));
                // Our own link: whatever was sent by it is gone.
                self.is_strange |= at == self.inventory.local || port.peer == Some(self.inventory.local);
            }
            // Something came, or went and came back.
            (false, true) => self.is_strange = true,
            (true, true) => self.is_strange |= state != port.link.state,
            (false, false) => {}
        }
        self.looked()
    }

    /// True if nothing is left open: every suspect is explained, or everybody answered and nothing has changed.
    pub fn is_settled(&self) -> bool {
        !self.is_strange && (self.silent == 0 || self.suspects.is_subset(&self.explained))
    }

    fn looked(&self) -> Looked {
        if self.is_strange {
            Looked::Strange
        } else if !self.is_check && self.suspects.is_subset(&self.explained) {
            Looked::Explained
        } else {
            Looked::Further
        }
    }

    /// Number of answers, and of those still expected.
    pub fn answers(&self) -> u64 {
        self.known.len() as u64
    }
}
