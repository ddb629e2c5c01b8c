//! Looks at the ports of switches that said that something changed, until that is explained.
//!
//! Trap 128 names the switch, not the port. A link that went down is enough of an explanation, at either of its ends:
//! the manager acts on it at once and looks at the other ports afterwards.
//!
//! A switch that died says nothing, and nobody waits for its agent: a lost link is reason to doubt the switch behind it
//! unless that has just said something itself, and its other neighbours are asked for their ends of its links. Two to
//! begin with: if one says that its link is up, there is nothing more to it. If all are down the switch is gone.

mod doubt;
mod order;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use selvedge_fabric::{NodeIdx, PortRef};
use selvedge_plan::partition::with_pkey_block;
use selvedge_planner::{Damage, Inventory, Returned, is_behind};
use selvedge_sim::Time;
use selvedge_types::{IdxVec, PKey, PortNum, PortState};
use selvedge_wire::{Attribute, AttributeId, DirectedRoute, NodeInfo, PKeyTable, PortInfo, SmpData};

use crate::event::SweepReason;
use crate::smp;
use order::Pace;

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
    /// When it began.
    pub began: Time,
    /// Every port is looked at, whatever is found: what was repaired is checked.
    pub is_check: bool,
    /// Ports of links that are left out, whatever they do.
    held: BTreeSet<PortRef>,
    /// Switches that said that something changed.
    suspects: BTreeSet<NodeIdx>,
    /// Suspects that show PortStateChange: something did happen.
    flagged: BTreeSet<NodeIdx>,
    /// Suspects of which something was found.
    explained: BTreeSet<NodeIdx>,
    /// Ports whose answer came.
    known: BTreeSet<PortRef>,
    /// Ports that were asked and have not answered, and since when.
    open: BTreeMap<PortRef, Time>,
    /// How long the slowest answer took.
    slowest: Duration,
    /// When those that say nothing are to be doubted, if nobody answers until then.
    doubts_at: Option<Time>,
    /// Who may be asked now.
    pace: Pace,
    /// Ports of links of which both ends are suspects.
    likely: BTreeSet<PortRef>,
    /// Ports to ask, those first that most likely explain something; made anew if `is_stale`.
    todo: Vec<PortRef>,
    is_stale: bool,
    /// Switches that answered anything.
    heard: BTreeSet<NodeIdx>,
    /// Switches that may be gone, as they say nothing.
    doubted: BTreeSet<NodeIdx>,
    /// Ways around lost links and doubted switches, if somebody had to be asked that way.
    ways: Option<IdxVec<NodeIdx, Option<DirectedRoute>>>,
    /// Ports whose agents did not answer.
    silent: usize,
    /// Links that came back, by the end that was asked first.
    returns: BTreeMap<PortRef, Return>,
    /// Those whose far end is yet to be asked.
    unasked: Vec<PortRef>,
    /// Our own port was asked and has not answered. If its cable was moved, every way leads to somebody else.
    is_own_open: bool,
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
            began: Time::ZERO,
            is_check,
            suspects: BTreeSet::new(),
            flagged: BTreeSet::new(),
            explained: BTreeSet::new(),
            known: BTreeSet::new(),
            open: BTreeMap::new(),
            slowest: Duration::ZERO,
            doubts_at: None,
            pace: Pace::All,
            likely: BTreeSet::new(),
            todo: Vec::new(),
            is_stale: true,
            heard: BTreeSet::new(),
            doubted: BTreeSet::new(),
            ways: None,
            silent: 0,
            returns: BTreeMap::new(),
            unasked: Vec::new(),
            is_own_open: false,
            damage: Damage::default(),
            is_strange: false,
        }
    }

    /// Takes suspects in. `flagged` show PortStateChange; others only sent a trap, which may be an old one.
    pub fn suspect(&mut self, nodes: &BTreeSet<NodeIdx>, flagged: &BTreeSet<NodeIdx>) {
        self.suspects.extend(nodes);
        self.flagged.extend(flagged);
        self.is_stale = true;
        self.note_likely(nodes);
    }

    /// Our own port is asked as well.
    pub const fn await_own_port(&mut self) {
        self.is_own_open = true;
    }

    /// Takes what our own port says: whether it is still what it was.
    pub fn own_port(&mut self, is_as_known: bool) -> Looked {
        self.is_own_open = false;
        self.is_strange |= !is_as_known;
        self.looked()
    }

    /// Links of a switch to others that were up: both ends.
    fn links_to_switches(&self, node: NodeIdx) -> impl Iterator<Item = (PortRef, PortRef)> + '_ {
        let fabric = &self.inventory.fabric;
        let up = fabric.node(node).external_ports().filter(|(_, seen)| seen.is_up());
        let links = up.filter_map(move |(port, seen)| Some((PortRef { node, port }, seen.peer?)));
        links.filter(|(_, peer)| fabric.switch_index(peer.node).is_some())
    }

    fn is_lost(&self, at: PortRef, peer: PortRef) -> bool {
        self.damage.lost.contains(&at) || self.damage.lost.contains(&peer)
    }

    /// The way to an agent, around what is lost or doubted.
    fn way_to(&mut self, node: NodeIdx) -> DirectedRoute {
        let route = self.inventory.agents[node].route;
        if !self.leads_through(node) {
            return route;
        }
        // Nearly always somebody next to it is reached as ever, and looking at all links takes a millisecond.
        let is_bad = |at: PortRef, far: PortRef| {
            self.is_lost(at, far) || self.doubted.contains(&far.node) || self.leads_through(far.node)
        };
        if let Some(way) = self.inventory.way_beside(node, is_bad) {
            return way;
        }
        let ways = match self.ways.take() {
            Some(ways) => ways,
            None => self
                .inventory
                .ways_around(&self.damage.ends(&self.inventory.fabric), &self.doubted),
        };
        let way = ways.get(node).copied().flatten().unwrap_or(route);
        self.ways = Some(ways);
        way
    }

    /// True if the usual way to an agent leads over a lost link or through a doubted switch.
    fn leads_through(&self, node: NodeIdx) -> bool {
        if self.doubted.is_empty() && self.damage.lost.is_empty() {
            return false;
        }
        let fabric = &self.inventory.fabric;
        let hops = self.inventory.hops(&self.inventory.agents[node].route);
        hops.into_iter().any(|at| {
            let is_through = fabric.peer(at).is_none_or(|peer| self.is_lost(at, peer));
            is_through || at.node != node && self.doubted.contains(&at.node)
        })
    }

    /// Something was lost: who was asked by that way is asked again by another.
    fn ask_again(&mut self) {
        self.ways = None;
        self.is_stale = true;
        let open: Vec<PortRef> = self.open.keys().copied().collect();
        for at in open {
            if !self.doubted.contains(&at.node) && self.leads_through(at.node) {
                self.open.remove(&at);
            }
        }
    }

    /// Takes the answer of a port; `None`: nobody answered.
    pub fn answered(&mut self, at: PortRef, info: Option<&PortInfo>, now: Time) -> Looked {
        let asked = self.open.remove(&at);
        if let Some(asked) = asked.filter(|_| info.is_some()) {
            self.slowest = now.since(asked).max(self.slowest);
        }
        if !self.known.insert(at) {
            return self.looked();
        }
        let inventory = Arc::clone(&self.inventory);
        let fabric = &inventory.fabric;
        // An answer that nobody can read is none.
        let info = info.filter(|info| !info.is_contradictory());
        let (Some(info), Some(port)) = (info, fabric.port(at)) else {
            if self.is_cut_off(at.node) {
                return self.looked();
            }
            // An agent that is behind a lost link will be asked by another way.
            self.silent += 1;
            self.is_stale = true;
            self.is_strange |= self.is_check;
            return self.looked();
        };
        if self.heard.insert(at.node) && self.doubted.remove(&at.node) {
            self.ways = None;
        }
        let state = info.state.unwrap_or(PortState::Down);
        match (port.is_up(), info.is_up()) {
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
                far.filter(|&far| !self.is_alive(far))
                    .into_iter()
                    .for_each(|far| self.doubt(far));
                self.ask_again();
            }
            // It came back, or went and came back before anybody looked.
            (false, true) if self.stays_out(at) => {
                let far = port.peer.map(|peer| peer.node);
                for node in [at.node].into_iter().chain(far) {
                    self.explained.insert(node);
                    self.damage.flagged.insert(node);
                }
            }
            (false, true) => self.came_back(at, info),
            (true, true) if state != port.link.state => self.came_back(at, info),
            (true, true) | (false, false) => {}
        }
        self.looked()
    }

    /// True if a link that is back is left out all the same. What it leads to must be reached without it, so that
    /// nobody may be gone or unknown: a sweep finds whether there is another way.
    fn stays_out(&self, at: PortRef) -> bool {
        let far = self.inventory.fabric.peer(at);
        let is_there = |far: PortRef| ![at.node, far.node].iter().any(|&node| self.inventory.is_gone(node));
        self.held.contains(&at) && far.is_some_and(is_there)
    }

    /// A link is up that was not. Without a cable known there, before the hosts of a new switch, or if a switch was
    /// gone (who knows what its tables hold), only a sweep helps.
    fn came_back(&mut self, at: PortRef, info: &PortInfo) {
        let is_right = |far: &PortRef| {
            let was_gone = [at.node, far.node].iter().any(|&node| self.inventory.is_gone(node));
            info.state != Some(PortState::Active) && !was_gone
        };
        let Some(far) = self.inventory.fabric.peer(at).filter(is_right) else {
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
            let port = smp::known_port(&self.inventory.fabric, back.far);
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
            Behind::Node => NodeInfo::parse(data).is_ok_and(|info| is_behind(fabric, far, &info)),
            Behind::Port => PortInfo::parse(data).is_ok_and(|info| {
                back.info = Some(info);
                info.is_up() && info.state != Some(PortState::Active)
            }),
            Behind::Agent(node) => PortInfo::parse(data).is_ok_and(|info| {
                let port = PortNum::MANAGEMENT;
                let known = fabric
                    .port(PortRef { node, port })
                    .map(|p| (p.settings.lids.base, p.settings.sm_lid));
                known == Some((info.lid, info.sm_lid))
            }),
            Behind::PKeys => PKeyTable::parse(data).is_ok_and(|table| {
                back.pkeys = Some(with_pkey_block(&[], 0, &table.keys));
                // More than that is for a sweep to read.
                !smp::more_pkeys(&table, 0, fabric.node(far.node).partition_cap)
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

    /// True if nothing is left open: every suspect is explained, or everybody answered and nothing has changed. Where
    /// PortStateChange is set and nothing found explains it, a cable was moved while it was asked about: what is known
    /// is half of the old cables and half of the new.
    pub fn is_settled(&self) -> bool {
        let is_explained = |nodes: &BTreeSet<NodeIdx>| nodes.iter().all(|node| self.explains(*node));
        !self.is_strange && is_explained(&self.flagged) && (self.silent == 0 || is_explained(&self.suspects))
    }

    /// True if there is nothing to repair.
    pub fn found_nothing(&self) -> bool {
        self.damage.lost.is_empty()
            && self.damage.returned.is_empty()
            && (self.is_check || self.damage.flagged.is_empty())
    }

    /// True if something was found that made a suspect say that something changed.
    fn explains(&self, node: NodeIdx) -> bool {
        self.explained.contains(&node) || self.is_cut_off(node)
    }

    fn looked(&self) -> Looked {
        let is_explained = || {
            let suspects = self.suspects.iter();
            suspects.copied().all(|node| self.explains(node)) && self.doubted.iter().all(|&node| self.is_resolved(node))
        };
        if self.is_strange {
            Looked::Strange
        } else if self.is_own_open || self.returns.values().any(|back| back.open > 0) {
            Looked::Further
        } else if !self.is_check && is_explained() {
            Looked::Explained
        } else {
            Looked::Further
        }
    }

    /// True if nobody is left to answer but switches that are gone: there is nothing to wait for.
    pub fn is_over(&self) -> bool {
        if self.is_stale || self.is_own_open || self.returns.values().any(|back| back.open > 0) {
            return false;
        }
        // Nearly always the first is not even doubted.
        let left = || self.todo.iter().chain(self.open.keys()).map(|at| at.node);
        left().all(|node| self.doubted.contains(&node)) && {
            let left: BTreeSet<NodeIdx> = left().collect();
            left.into_iter().all(|node| self.is_cut_off(node))
        }
    }

    /// Number of answers, and of those still expected.
    pub fn answers(&self) -> u64 {
        self.known.len() as u64
    }
}
