//! Looks at the ports of switches that said that something changed, until that is explained.
//!
//! Trap 128 names the switch, not the port. A link that went down is enough of an explanation, at either of its ends:
//! the manager acts on it at once and looks at the other ports afterwards.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use selvedge_fabric::{NodeIdx, PortRef};
use selvedge_types::{PKey, PhysState, PortNum, PortState};
use selvedge_wire::{Attribute, AttributeId, DirectedRoute, NodeInfo, PKeyTable, PortInfo, SmpData};

use crate::damage::{Damage, Returned};
use crate::event::SweepReason;
use crate::inventory::Inventory;

/// What is asked of the far end of a link that came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behind {
    /// Who it is.
    Node,
    /// The port.
    Port,
    /// Its P_Keys, of a host.
    PKeys,
    /// Port 0 of a switch, at the near end or the far one: a switch that was off in between has forgotten its LID, and
    /// its tables.
    Agent(NodeIdx),
}

/// What has been answered about a link that came back.
#[derive(Clone, Debug)]
struct Return {
    near: PortInfo,
    far: PortRef,
    info: Option<PortInfo>,
    pkeys: Option<Vec<PKey>>,
    /// Answers that are missing.
    open: u8,
}

/// A look at the ports of some switches.
#[derive(Debug)]
pub struct Probe {
    /// What was known before.
    pub inventory: Arc<Inventory>,
    /// What made us look; the reason of the sweep that may follow.
    pub reason: SweepReason,
    /// Every port is looked at, whatever is found: what was repaired is checked.
    pub is_check: bool,
    /// Ports of links that are left out, whatever they do.
    held: BTreeSet<PortRef>,
    /// Switches that said that something changed.
    suspects: BTreeSet<NodeIdx>,
    /// Suspects of which something was found.
    explained: BTreeSet<NodeIdx>,
    /// Ports whose answer came.
    known: BTreeSet<PortRef>,
    /// Ports whose agents did not answer.
    silent: usize,
    /// Links that came back, by the end that was asked first.
    returns: BTreeMap<PortRef, Return>,
    /// Those whose far end is yet to be asked.
    unasked: Vec<PortRef>,
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
    pub fn new(inventory: Arc<Inventory>, held: BTreeSet<PortRef>, reason: SweepReason, is_check: bool) -> Self {
        Self {
            inventory,
            held,
            reason,
            is_check,
            suspects: BTreeSet::new(),
            explained: BTreeSet::new(),
            known: BTreeSet::new(),
            silent: 0,
            returns: BTreeMap::new(),
            unasked: Vec::new(),
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
            // It came back, or went and came back before anybody looked.
            (false, true) if self.held.contains(&at) => {
                self.explained.insert(at.node);
                self.explained.extend(port.peer.map(|peer| peer.node));
            }
            (false, true) => self.came_back(at, info),
            (true, true) if state != port.link.state => self.came_back(at, info),
            (true, true) | (false, false) => {}
        }
        self.looked()
    }

    /// A link is up that was not. Without a cable known there, or before the hosts of a new switch, only a sweep helps.
    fn came_back(&mut self, at: PortRef, info: &PortInfo) {
        let Some(far) = self
            .inventory
            .fabric
            .peer(at)
            .filter(|_| info.state != Some(PortState::Active))
        else {
            self.is_strange = true;
            return;
        };
        self.explained.extend([at.node, far.node]);
        self.damage.flagged.insert(at.node);
        if self.inventory.fabric.switch_index(far.node).is_some() {
            self.damage.flagged.insert(far.node);
        }
        if self.returns.contains_key(&far) {
            return;
        }
        self.unasked.push(at);
        let near = *info;
        let (info, pkeys, open) = (None, None, 4);
        self.returns.insert(
            at,
            Return {
                near,
                far,
                info,
                pkeys,
                open,
            },
        );
    }

    /// Questions about links that came back.
    pub fn more_questions(&mut self) -> Vec<(PortRef, Behind, AttributeId, u32, DirectedRoute)> {
        let mut asked = Vec::new();
        for at in std::mem::take(&mut self.unasked) {
            let agents = &self.inventory.agents;
            let (Some(back), Some(through)) = (self.returns.get_mut(&at), agents[at.node].route.then(at.port)) else {
                self.is_strange = true;
                continue;
            };
            let port = u32::from(back.far.port.get());
            asked.push((at, Behind::Node, AttributeId::NODE_INFO, 0, through));
            asked.push((at, Behind::Port, AttributeId::PORT_INFO, port, through));
            let near = agents[at.node].route;
            asked.push((at, Behind::Agent(at.node), AttributeId::PORT_INFO, 0, near));
            if self.inventory.fabric.switch_index(back.far.node).is_some() {
                let far = back.far.node;
                asked.push((at, Behind::Agent(far), AttributeId::PORT_INFO, 0, through));
            } else {
                asked.push((at, Behind::PKeys, AttributeId::PKEY_TABLE, 0, through));
            }
        }
        asked
    }

    /// Takes what the far end of a link that came back says; nothing or nonsense needs a sweep.
    pub fn behind(&mut self, at: PortRef, what: Behind, data: Option<&SmpData>) -> Looked {
        let fabric = &self.inventory.fabric;
        let Some(back) = self.returns.get_mut(&at) else {
            return self.looked();
        };
        let far = back.far;
        let is_right = data.is_some_and(|data| match what {
            Behind::Node => NodeInfo::parse(data).is_ok_and(|info| {
                let guid = fabric.port(far).map(|port| port.guid);
                let is_switch = fabric.switch_index(far.node).is_some();
                let is_same_port = info.local_port == far.port.get() && (is_switch || guid == Some(info.port_guid));
                info.node_guid == fabric.node(far.node).guid && is_same_port
            }),
            Behind::Port => PortInfo::parse(data).is_ok_and(|info| {
                back.info = Some(info);
                let is_up = info.phys_state == Some(PhysState::LinkUp);
                is_up && !matches!(info.state, None | Some(PortState::Down | PortState::Active))
            }),
            Behind::Agent(node) => PortInfo::parse(data).is_ok_and(|info| {
                let port = PortNum::MANAGEMENT;
                let known = fabric
                    .port(PortRef { node, port })
                    .map(|p| (p.settings.lids.base, p.settings.sm_lid));
                known == Some((info.lid, info.sm_lid))
            }),
            Behind::PKeys => PKeyTable::parse(data).is_ok_and(|table| {
                let used = table.keys.iter().rposition(|k| k.0 != 0).map_or(0, |last| last + 1);
                back.pkeys = Some(table.keys[..used].to_vec());
                true
            }),
        });
        self.is_strange |= !is_right;
        back.open -= 1;
        if let (0, Some(info)) = (back.open, back.info) {
            self.damage.returned.push(Returned {
                near: (at, back.near),
                far: (far, info),
                pkeys: back.pkeys.take(),
            });
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
        } else if self.returns.values().any(|back| back.open > 0) {
            Looked::Further
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
