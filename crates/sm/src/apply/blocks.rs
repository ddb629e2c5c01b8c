//! Gets and Sets of tables on which forwarding of unicast does not depend: MFT and GUIDInfo.

use std::collections::VecDeque;
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

/// A block of a table with its contents; `None` if they are unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Block {
    /// A block of an MFT.
    Mft {
        /// The switch.
        switch: Guid,
        /// Number of the block (32 MLIDs) and its position (16 ports).
        place: (u16, u8),
        /// The port masks of the block.
        holds: Option<MftBlock>,
    },
    /// A block of GUIDInfo.
    Guids {
        /// The port, and the number of the block.
        place: (Guid, u8),
        /// The GUIDs.
        holds: Option<GuidBlock>,
    },
}

impl Block {
    /// Returns true if the contents are known.
    const fn is_known(&self) -> bool {
        match self {
            Self::Mft { holds, .. } => holds.is_some(),
            Self::Guids { holds, .. } => holds.is_some(),
        }
    }

    /// Returns the block with the contents of an answer.
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

/// Blocks to read or to write. A block with given contents is written.
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

    /// Leaves out this phase and all later ones, and requests a new plan for their blocks.
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

    /// Begins a phase. If a request of an earlier phase has failed, leaves out this phase and all later ones: an alias
    /// must not be given to one port before it is removed from another.
    fn begin(&mut self, _: &Ctx<'_>, phase: usize, so_far: Counts, effects: &mut Vec<Effect>) -> Result<(), usize> {
        if so_far.failed == 0 {
            return Ok(());
        }
        self.give_up(phase, effects);
        Err(self.phases.iter().skip(phase).map(Vec::len).sum())
    }

    fn request(&mut self, _: &Ctx<'_>, id: SetId) -> Option<Request> {
        let (at, block) = self.at(id);
        let agent = self.inventory.agents.get(at.node)?;
        let smp = match block {
            Block::Mft { place, holds, .. } => {
                let modifier = MulticastForwardingTable::modifier(place.0, place.1);
                let table = holds.map(|masks| MulticastForwardingTable { masks });
                get_or_set(table, modifier, &agent.route)
            }
            Block::Guids { place, holds } => {
                let table = holds.map(|guids| GuidInfo { guids });
                let smp = get_or_set(table, place.1.into(), agent.route_to(at.port));
                smp.shown(smp::shown_by(&self.inventory.fabric, at))
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

    fn interrupted(&mut self, in_flight: &VecDeque<SetId>, effects: &mut Vec<Effect>) {
        effects.extend(in_flight.iter().map(|id| Effect::Unknown(self.at(*id).1)));
        self.give_up(0, effects);
    }
}

/// Returns a Set if the new contents of a block are given, else a Get.
fn get_or_set<A: Attribute>(shall_hold: Option<A>, modifier: u32, route: &DirectedRoute) -> Smp {
    match shall_hold {
        Some(table) => smp::set(&table, modifier, route),
        None => smp::get(A::ID, modifier, route),
    }
}

#[cfg(test)]
mod tests {
    use selvedge_sim::Time;
    use selvedge_types::SecretKey;
    use selvedge_wire::Status;

    use super::*;
    use crate::apply::In;
    use crate::made::{FIRST, NEAR, config, guid, inventory, place, row};

    /// Returns an MFT block of the first switch, or a GUIDInfo block of the near host, with this number in its first
    /// entry.
    fn block(is_mft: bool, first: Option<u16>) -> Block {
        match is_mft {
            true => Block::Mft {
                switch: guid(FIRST),
                place: (3, 1),
                holds: first.map(|first| core::array::from_fn(|at| if at == 0 { first } else { 0 })),
            },
            false => Block::Guids {
                place: (Guid(guid(NEAR).0 + 1), 3),
                holds: first.map(|first| core::array::from_fn(|at| Guid(if at == 0 { first.into() } else { 0 }))),
            },
        }
    }

    /// Returns work of two phases with one block each: the block is written with 5, then with 6, or is read twice.
    fn begun(is_mft: bool, writes: bool) -> Apply<Blocks> {
        let inventory = Arc::new(inventory(row()));
        let at = place(&inventory, if is_mft { FIRST } else { NEAR }, u8::from(!is_mft));
        let phase = |first| vec![(at, block(is_mft, Some(first).filter(|_| writes)))];
        let phases = vec![phase(5), phase(6)];
        Apply::of(Blocks {
            inventory,
            phases,
            writes,
        })
    }

    fn give(apply: &mut Apply<Blocks>, input: In<'_>) -> (Vec<Effect>, Option<(SetId, Request)>) {
        let (config, mut effects) = (config(), Vec::new());
        let ctx = Ctx {
            now: Time::ZERO,
            config: &config,
        };
        let request = apply.handle(&ctx, input, &mut effects);
        (effects, request)
    }

    fn describe(effect: &Effect) -> String {
        let first = |block: &Block| match block {
            Block::Mft { holds, .. } => holds.map_or(0, |masks| masks[0].into()),
            Block::Guids { holds, .. } => holds.map_or(0, |guids| guids[0].0),
        };
        match effect {
            Effect::Holds { block, acknowledged } => format!("{} {acknowledged}", first(block)),
            Effect::Refuses { block, .. } => format!("refuses {}", first(block)),
            Effect::Unknown(block) => format!("doubt {}", first(block)),
            Effect::GaveUp(block) => format!("gave up {}", first(block)),
            other => panic!("{other:?}"),
        }
    }

    /// Checks the effects if agents answer each request with a block that begins with this entry. `None`: no answer; 0:
    /// an answer with an error. After the last answer the work is interrupted.
    fn check(writes: bool, answers: &[Option<u16>], want: &[&str]) {
        for is_mft in [true, false] {
            let (mut apply, mut found, mut answers) = (begun(is_mft, writes), Vec::new(), answers.iter());
            while !apply.is_done() {
                let (effects, request) = give(&mut apply, In::Room);
                found.extend(effects.iter().map(describe));
                let Some((id, request)) = request else { continue };
                found.push("sent".to_owned());
                let (effects, early) = give(&mut apply, In::Room);
                assert!(effects.is_empty() && early.is_none(), "the next phase waits");
                let Some(first) = answers.next() else {
                    found.extend(give(&mut apply, In::Interrupted).0.iter().map(describe));
                    break;
                };
                let mut mad = request.smp.datagram(SecretKey::default()).mad;
                match block(is_mft, *first) {
                    Block::Mft { holds, .. } => {
                        let table = holds.map(|masks| MulticastForwardingTable { masks });
                        table.iter().for_each(|table| mad.set_smp_data(&table.emit()));
                    }
                    Block::Guids { holds, .. } => {
                        let table = holds.map(|guids| GuidInfo { guids });
                        table.iter().for_each(|table| mad.set_smp_data(&table.emit()));
                    }
                }
                if *first == Some(0) {
                    mad.set_status(Status(0x1c));
                }
                let answer = first.map(|_| &mad);
                found.extend(give(&mut apply, In::Ended(id, answer)).0.iter().map(describe));
            }
            assert_eq!(found, want, "{is_mft} {writes}");
        }
    }

    #[test]
    fn what_is_read_is_told() {
        check(false, &[Some(7), Some(8)], &["sent", "7 false", "sent", "8 false"]);
        check(false, &[Some(7)], &["sent", "7 false", "sent", "doubt 0"]);
        check(false, &[None], &["sent", "refuses 0"]);
        check(false, &[Some(0)], &["sent", "refuses 0"]);
    }

    #[test]
    fn after_a_failure_no_phase_begins() {
        check(true, &[Some(5), Some(6)], &["sent", "5 true", "sent", "6 true"]);
        check(true, &[Some(7)], &["sent", "refuses 7", "gave up 6"]);
        check(true, &[None], &["sent", "refuses 0", "gave up 6"]);
        check(true, &[Some(5), Some(0)], &["sent", "5 true", "sent", "refuses 0"]);
        // All is planned again, what was acknowledged included.
        check(
            true,
            &[Some(5)],
            &["sent", "5 true", "sent", "doubt 6", "gave up 5", "gave up 6"],
        );
        check(true, &[], &["sent", "doubt 5", "gave up 5", "gave up 6"]);
    }
}
