//! Gets and Sets of tables on which forwarding of unicast does not depend: MFT and GUIDInfo.

use std::collections::BTreeSet;
use std::sync::Arc;

use selvedge_fabric::{PortRef, SwitchIdx};
use selvedge_mad::AgentId;
use selvedge_plan::aliases::{AliasChange, GuidBlock, GuidSet};
use selvedge_plan::multicast::{MftBlock, MftSet, MulticastChange};
use selvedge_planner::Inventory;
use selvedge_types::{Guid, PortNum};
use selvedge_verify::Judged;
use selvedge_wire::{Attribute, DirectedRoute, GuidInfo, Mad, MulticastForwardingTable};

use super::{Apply, Counts, Ctx, Effect, Request, SetId, Work};
use crate::smp::{self, Smp};

/// A block of a table, and what it holds; `None` if that is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Block {
    /// Of an MFT.
    Mft {
        /// The switch.
        switch: Guid,
        /// Number and position of the block.
        place: (u16, u8),
        /// The masks.
        holds: Option<MftBlock>,
    },
    /// Of GUIDInfo.
    Guids {
        /// The port, and the number of the block.
        place: (Guid, u8),
        /// The GUIDs.
        holds: Option<GuidBlock>,
    },
}

impl Block {
    /// Returns true if it is known what it holds.
    const fn is_known(&self) -> bool {
        match self {
            Self::Mft { holds, .. } => holds.is_some(),
            Self::Guids { holds, .. } => holds.is_some(),
        }
    }

    /// Returns the block as an answer says it is.
    fn answered(self, answer: Option<&Mad>) -> Self {
        let data = answer.filter(|mad| mad.status().0 == 0).map(Mad::smp_data);
        match self {
            Self::Mft { switch, place, .. } => {
                let held = data.and_then(|data| MulticastForwardingTable::parse(data).ok());
                let holds = held.map(|held| held.masks);
                Self::Mft { switch, place, holds }
            }
            Self::Guids { place, .. } => {
                let held = data.and_then(|data| GuidInfo::parse(data).ok());
                let holds = held.map(|held| held.guids);
                Self::Guids { place, holds }
            }
        }
    }
}

/// Blocks to read, or to write: one that is known is set to what it shall hold.
#[derive(Debug)]
pub struct Blocks {
    inventory: Arc<Inventory>,
    phases: Vec<Vec<(PortRef, Block)>>,
    writes: bool,
}

impl Apply<Blocks> {
    /// Reads blocks of MFTs.
    pub fn read_mfts(inventory: Arc<Inventory>, blocks: Vec<(SwitchIdx, (u16, u8))>) -> Self {
        let block = |(switch, place)| mft(&inventory, switch, place, None);
        // The last is read first.
        let blocks = blocks.into_iter().rev().map(block).collect();
        Self::reading(inventory, blocks)
    }

    /// Reads blocks of GUIDInfo.
    pub fn read_guids(inventory: Arc<Inventory>, blocks: Vec<(PortRef, (Guid, u8))>) -> Self {
        let block = |(at, place)| (at, Block::Guids { place, holds: None });
        Self::reading(inventory, blocks.into_iter().map(block).collect())
    }

    fn reading(inventory: Arc<Inventory>, blocks: Vec<(PortRef, Block)>) -> Self {
        Self::of(Blocks {
            inventory,
            phases: vec![blocks],
            writes: false,
        })
    }

    /// Writes blocks of MFTs.
    pub fn write_mfts(inventory: Arc<Inventory>, change: &Judged<MulticastChange>) -> Self {
        let phases = change.value().phases.iter();
        let phases = phases.map(|sets| {
            let sets = sets.iter();
            let block = |set: &MftSet| mft(&inventory, set.switch, (set.block, set.position), Some(set.data));
            sets.map(block).collect()
        });
        let phases = phases.collect();
        Self::writing(inventory, phases)
    }

    /// Writes blocks of GUIDInfo.
    pub fn write_guids(inventory: Arc<Inventory>, change: &Judged<AliasChange>) -> Self {
        let phases = change.value().phases.iter();
        let block = |set: &GuidSet| {
            let place = (inventory.fabric.port(set.port)?.guid, set.block);
            let holds = Some(set.guids);
            Some((set.port, Block::Guids { place, holds }))
        };
        let phases = phases.map(|sets| sets.iter().filter_map(block).collect()).collect();
        Self::writing(inventory, phases)
    }

    fn writing(inventory: Arc<Inventory>, phases: Vec<Vec<(PortRef, Block)>>) -> Self {
        Self::of(Blocks {
            inventory,
            phases,
            writes: true,
        })
    }

    /// Returns true if blocks are written.
    pub const fn writes(&self) -> bool {
        self.work.writes
    }
}

fn mft(inventory: &Inventory, switch: SwitchIdx, place: (u16, u8), holds: Option<MftBlock>) -> (PortRef, Block) {
    let node = inventory.fabric.switches()[switch];
    let switch = inventory.fabric.node(node).guid;
    let port = PortNum::MANAGEMENT;
    (PortRef { node, port }, Block::Mft { switch, place, holds })
}

impl Blocks {
    fn at(&self, id: SetId) -> (PortRef, Block) {
        self.phases[id.phase][id.op]
    }

    /// What is written by phases from this one on is to be planned anew.
    fn give_up(&self, phase: usize, effects: &mut Vec<Effect>) {
        if self.writes {
            let blocks = self.phases.iter().skip(phase).flatten();
            effects.extend(blocks.map(|(_, block)| Effect::GaveUp(*block)));
        }
    }
}

impl Work for Blocks {
    fn phases(&self) -> usize {
        self.phases.len()
    }

    fn requests(&self, phase: usize) -> usize {
        self.phases[phase].len()
    }

    /// A block is taken away from one table before it is added to another: what is not given up must not be another's.
    fn begin(&mut self, _: &Ctx<'_>, phase: usize, so_far: Counts, effects: &mut Vec<Effect>) -> Result<(), usize> {
        if so_far.failed == 0 {
            return Ok(());
        }
        self.give_up(phase, effects);
        Err(self.phases.iter().skip(phase).map(Vec::len).sum())
    }

    fn request(&mut self, ctx: &Ctx<'_>, id: SetId) -> Option<Request> {
        let (at, block) = self.at(id);
        let agent = self.inventory.agents.get(at.node)?;
        let m_key = ctx.config.policy.m_key;
        let smp = match block {
            Block::Mft { place, holds, .. } => {
                let modifier = MulticastForwardingTable::modifier(place.0, place.1);
                let table = holds.map(|masks| MulticastForwardingTable { masks });
                get_or_set(table, modifier, (&agent.route, m_key))
            }
            Block::Guids { place, holds } => {
                let m_key = smp::key_of(&self.inventory.fabric, at, m_key);
                let table = holds.map(|guids| GuidInfo { guids });
                get_or_set(table, place.1.into(), (agent.route_to(at.port), m_key))
            }
        };
        Some(Request {
            agent: AgentId(at.node.0),
            smp,
            is_first: false,
        })
    }

    fn ended(&mut self, id: SetId, answer: Option<&Mad>, effects: &mut Vec<Effect>) -> bool {
        let (at, asked) = self.at(id);
        let block = asked.answered(answer);
        let is_right = block.is_known() && (!asked.is_known() || block == asked);
        effects.push(match (is_right, block) {
            (true, _) => Effect::Holds {
                block,
                acknowledged: self.writes,
            },
            (false, Block::Mft { .. }) => Effect::Refuses {
                block,
                what: self.inventory.fabric.node(at.node).description.clone(),
            },
            (false, Block::Guids { .. }) => Effect::Refuses {
                block,
                what: self.inventory.fabric.port_name(at),
            },
        });
        is_right
    }

    fn interrupted(&mut self, in_flight: &BTreeSet<SetId>, effects: &mut Vec<Effect>) {
        effects.extend(in_flight.iter().map(|id| Effect::Doubt(self.at(*id).1)));
        self.give_up(0, effects);
    }
}

/// A Set of what a block shall hold; a Get if that is not known.
fn get_or_set<A: Attribute>(shall_hold: Option<A>, modifier: u32, (route, m_key): (&DirectedRoute, u64)) -> Smp {
    match shall_hold {
        Some(table) => smp::set(&table, modifier, route, m_key),
        None => smp::get(A::ID, modifier, route, m_key),
    }
}
