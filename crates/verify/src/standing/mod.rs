//! A standing proof: it is kept from one judgement to the next, and updated where entries and links change.
//!
//! A full judgement follows every LID from every source. [`Standing`] stores the result: how many hosts' packets leave
//! each switch towards each LID, how many LIDs make each channel dependency, and a topological order of the channels. A
//! changed entry moves one flow from one path to another.
//!
//! # Cost
//! For each changed entry, the entries along the old and the new path are read, and one entry of each neighbour of the
//! switch. For a link that is lost or returns, all entries of the switches at its two ends are read too. If a new
//! dependency is against the order of channels, the channels between its two ends are moved (Pearce and Kelly 2007).
//! The entries of one LID in all switches are never read.
//!
//! # Memory
//! Entries and host counts: 3 bytes for every (switch, LID). Dependencies: 6 bytes and two bits for every (port of a
//! switch, port of the next switch, lane in use). 5,832 hosts on 972 switches with one lane: 30 MB. 27,648 hosts on
//! 2,880 switches: 310 MB.
//!
//! # What it covers
//! One service level and lane for a whole route (any number of lanes), links that all have all of these lanes, one
//! connected fabric, and tables without a loop. [`StandingError`] lists what is rejected. If a subject is rejected, or
//! its [`Proof`] does not hold, use [`crate::verify`], which finds all faults and returns witnesses.

mod backup;
mod copies;
mod error;
mod flows;
mod graph;
mod judge;
mod left;
mod order;
mod prepared;
mod raise;
mod repair;
mod room;
mod shape;
mod state;
mod take;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use selvedge_fabric::SwitchIdx;
use selvedge_plan::BLOCK_LIDS;
use selvedge_sim::Par;
use selvedge_types::{Idx, Lid, PortNum};
use serde::Serialize;

pub use backup::Backup;
pub use copies::CopyTurns;
pub use error::StandingError;
pub use judge::judge;
pub use left::Replaced;
pub use repair::{judge_repair, wait_ns};
pub use room::Turn;
pub use state::State;

use crate::figures::{LaneFigures, Load};
use crate::finding::Traffic;
use crate::ground::Ground;
use crate::standing::flows::{Coming, Flows};
use crate::standing::graph::Edges;
use crate::standing::prepared::Prepared;
use crate::standing::raise::raise;
use crate::standing::shape::{NOWHERE, Shape};
use crate::subject::Subject;

/// A new entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The switch.
    pub switch: SwitchIdx,
    /// The LID.
    pub lid: Lid,
    /// The new egress port; 255: drop.
    pub egress: u8,
}

/// A link between switches that goes down or comes up, in both directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkChange {
    /// The switch at one end of the link.
    pub switch: SwitchIdx,
    /// The port at this end.
    pub port: PortNum,
    /// True if packets can cross the link from now on.
    pub is_up: bool,
}

/// Changes that happen together. States between the first and the last of them are not judged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// Changed links. The last of several changes of one link counts.
    pub links: Vec<LinkChange>,
    /// Changed entries. The last of several changes of one entry counts.
    pub entries: Vec<Entry>,
}

/// What the standing proof shows about the current tables.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Proof {
    /// Pairs (switch, LID) for which packets are dropped or delivered to a wrong port, whether a host sends such
    /// packets or not.
    pub dead_ends: u64,
    /// Packets from hosts that are not delivered, one from each host port to each LID.
    pub lost: u64,
    /// Pairs of host ports with packets to the base LID that are delivered.
    pub host_pairs_reached: u64,
    /// The first class of traffic with a dependency cycle. Cycles of hosts and cycles of agents are not distinguished:
    /// both are [`Traffic::Agents`].
    pub cyclic: Option<Traffic>,
    /// Host pairs on each directed link between switches that is up, including pairs that are lost further on.
    pub load: Load,
    /// Mean number of links between switches over all host pairs on different switches. Correct only if all packets are
    /// delivered.
    pub hops_mean: f64,
    /// Lanes that carry host pairs or have dependencies.
    pub lanes: Vec<LaneFigures>,
}

impl Proof {
    /// True if every packet is delivered and no traffic of hosts or agents can deadlock.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.dead_ends == 0 && self.lost == 0 && matches!(self.cyclic, None | Some(Traffic::Switches))
    }
}

/// Total cost of all updates so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Work {
    /// Entries read along paths and of neighbours.
    pub entries: u64,
    /// Rows read at the ends of links, in blocks of 64 entries.
    pub blocks: u64,
    /// Channels visited by searches for a new order.
    pub channels: u64,
}

/// A standing proof. See the module's page.
#[derive(Clone, Debug)]
pub struct Standing {
    flows: Flows,
    /// Dependencies in traffic of hosts and agents, and in all traffic.
    graphs: [Edges; 2],
    /// Number of pairs of hosts on one switch. They load no link.
    near: u64,
    /// Number of directed links that are up.
    up: usize,
    blocks: u64,
    /// Dependencies that the second graph does not have yet: see [`Standing::catch_up`].
    untold: Vec<(u32, u8)>,
    /// Turns of packets in flight, if they were computed for the current state.
    prepared: Option<Prepared>,
    /// Memory of the last transition proof, which the next proof reuses. One record for each cell (egress port of a
    /// switch): the running number of the LID, the senders with packets that may be on the channel, and the first phase
    /// in which these packets may be there.
    scratch: Vec<(u32, (u8, u16))>,
    /// Number of LIDs followed in transition proofs.
    round: u32,
    /// Multicast copies that the graphs contain too, and the turns that they make.
    copies: Option<Arc<CopyTurns>>,
    copied: Vec<(u32, u8)>,
    /// Identifies the proved state.
    state: State,
}

/// An entry that changes from one value to another.
#[derive(Clone, Copy, Debug)]
struct Move {
    lid: u16,
    switch: u16,
    old: u8,
    new: u8,
}

impl Standing {
    /// Follows all LIDs of a subject once. Takes about as long as [`crate::verify`].
    ///
    /// # Errors
    /// [`StandingError`] if the subject is not covered.
    pub fn new(subject: Subject<'_>, par: Par) -> Result<Self, StandingError> {
        let need = subject.lids.top();
        let (tables, switches) = (subject.tables, subject.fabric.switches().len());
        if tables.switches() != switches || tables.top() < need {
            return Err(StandingError::Tables { need });
        }
        let ground = Ground::new(subject);
        let shape = Shape::of(&ground, need)?;
        let mut next = vec![NOWHERE; shape.total()];
        for arc in &shape.arcs {
            next[arc.cell as usize] = arc.dst;
        }
        let rows: Vec<[u8; BLOCK_LIDS]> = (0..tables.blocks()).flat_map(|b| tables.tile(b)).copied().collect();
        let (pairs, sums) = raise(&shape, &next, &rows, par).map_err(|(lid, switch)| StandingError::Circle {
            lid: Lid(lid),
            switch: SwitchIdx(switch.into()),
        })?;
        let graphs = [0, 1].map(|which| Edges::new(&shape, &sums.counts, which));
        Ok(Self {
            state: State::of(&shape, &rows, par),
            near: near(&shape),
            up: shape.arcs.len(),
            graphs,
            flows: Flows {
                shape,
                next,
                down: Vec::new(),
                rows,
                carries: pairs.iter().map(carried).collect(),
                pairs,
                sums,
                touched: Vec::new(),
                walked: 0,
                coming: Coming::default(),
            },
            blocks: 0,
            untold: Vec::new(),
            prepared: None,
            scratch: Vec::new(),
            round: 0,
            copies: None,
            copied: Vec::new(),
        })
    }

    /// Applies a change and returns the change that undoes it.
    ///
    /// # Errors
    /// [`StandingError::Circle`], `NoSuchEntry` or `NoSuchLink`; nothing has changed then.
    pub fn apply(&mut self, change: &Change) -> Result<Change, StandingError> {
        let undo = self.apply_quickly(change);
        self.catch_up();
        undo
    }

    /// Does the same as [`Self::apply`], but leaves the search for cycles in traffic between switches to
    /// [`Self::catch_up`].
    fn apply_quickly(&mut self, change: &Change) -> Result<Change, StandingError> {
        self.prepared = None;
        let flips = self.flips(&change.links)?;
        let moves = self.moves(&change.entries, &flips)?;
        let (alone, together) = sorted(&self.flows.shape, &moves, &flips);
        if let Some(at) = alone.iter().position(|step| !self.put(step)) {
            alone[..at].iter().for_each(|step| self.put_back(step));
            self.settle();
            return Err(circle(alone[at]));
        }
        together
            .iter()
            .for_each(|step| self.flows.detach(step.switch, step.lid));
        self.flip(&flips);
        if let Some(at) = together.iter().position(|step| !self.put(step)) {
            together[..at]
                .iter()
                .for_each(|step| self.flows.detach(step.switch, step.lid));
            let back: Vec<_> = flips.iter().map(|&(arc, is_up)| (arc, !is_up)).collect();
            self.flip(&back);
            together.iter().chain(&alone).for_each(|step| self.put_back(step));
            self.settle();
            return Err(circle(together[at]));
        }
        self.settle();
        let changed = || moves.iter().filter(|step| step.old != step.new);
        for step in changed() {
            for (egress, is_there) in [(step.old, false), (step.new, true)] {
                self.state.entry(step.switch, usize::from(step.lid), egress, is_there);
            }
        }
        let entries = changed().map(|step| Entry {
            switch: SwitchIdx(step.switch.into()),
            lid: Lid(step.lid),
            egress: step.old,
        });
        let links = flips.iter().map(|&(arc, is_up)| self.link_change(arc, !is_up));
        Ok(Change {
            entries: entries.collect(),
            links: links.collect(),
        })
    }

    /// Marks switches as gone, or as present again. Their links must be lost.
    fn set_gone(&mut self, switches: &[u16], is_gone: bool) {
        if !switches.is_empty() {
            switches.iter().for_each(|&switch| self.state.gone(switch, is_gone));
            self.flows.set_gone(switches, is_gone);
            self.near = near(&self.flows.shape);
        }
    }

    /// Returns the current proof. With several lanes this reads the load of every channel; with one lane it costs
    /// almost nothing.
    #[must_use]
    pub fn proof(&self) -> Proof {
        let sums = &self.flows.sums;
        let lanes = (0..self.flows.shape.lane_count)
            .zip(0_u8..)
            .map(|(lane, vl)| LaneFigures {
                vl,
                load: self.load_on(lane),
                channels: sums.channels[lane],
                dependencies: sums.dependencies[lane],
            });
        let lanes: Vec<LaneFigures> = lanes.collect();
        let load = match &lanes[..] {
            [only] => only.load,
            _ => self.load_on_all(),
        };
        let on_links: u64 = sums.load_sums.iter().map(|(sum, _)| sum).sum();
        let [agents, all] = &self.graphs;
        let far = sums.host_pairs.saturating_sub(self.near);
        Proof {
            dead_ends: sums.dead_ends,
            lost: sums.lost,
            host_pairs_reached: sums.host_pairs,
            cyclic: match (agents.order.is_acyclic(), all.order.is_acyclic()) {
                (false, _) => Some(Traffic::Agents),
                (true, false) => Some(Traffic::Switches),
                (true, true) => None,
            },
            hops_mean: if far == 0 { 0.0 } else { on_links as f64 / far as f64 },
            load,
            lanes: lanes
                .into_iter()
                .filter(|lane| lane.load.max > 0 || lane.dependencies > 0)
                .collect(),
        }
    }

    /// Returns the loads on one lane of links that are up. A link that is down has load 0.
    fn load_on(&self, lane: usize) -> Load {
        let sums = &self.flows.sums;
        let (sum, squares) = sums.load_sums[lane];
        let max = sums.greatest(&self.flows.shape, lane);
        Load::from_sums(self.up, max.into(), (sum.into(), squares))
    }

    /// Returns the loads of all lanes together.
    fn load_on_all(&self) -> Load {
        let (shape, sums) = (&self.flows.shape, &self.flows.sums);
        let cells = shape.arcs.iter().map(|arc| arc.cell as usize);
        let up: Vec<usize> = cells.filter(|&cell| self.flows.next[cell] != NOWHERE).collect();
        let on = |lane: usize, cell: usize| u64::from(sums.loads[lane * shape.total() + cell]);
        Load::of(
            up.iter()
                .map(|&cell| (0..shape.lane_count).map(|lane| on(lane, cell)).sum()),
        )
    }

    /// Returns the address ranges of the largest parts of the proof, so that the caller can ask for larger memory
    /// pages.
    #[must_use]
    pub fn memory(&self) -> [Range<usize>; 3] {
        let Flows { rows, pairs, sums, .. } = &self.flows;
        [extent(rows), extent(pairs), extent(&sums.counts)]
    }

    /// Returns the identity of the proved state: tables, links and owners. If another standing proof has an equal
    /// state, its proof also holds for this one.
    #[must_use]
    pub const fn state(&self) -> State {
        self.state
    }

    /// Returns the total cost of all changes so far.
    #[must_use]
    pub fn work(&self) -> Work {
        Work {
            entries: self.flows.walked,
            blocks: self.blocks,
            channels: self.graphs.iter().map(|graph| graph.order.searched).sum(),
        }
    }

    /// Returns the current entry of a LID at a switch; `None` if there is none.
    #[must_use]
    pub fn entry(&self, switch: SwitchIdx, lid: Lid) -> Option<u8> {
        let exists = switch.to_usize() < self.flows.shape.switches && lid.index() < self.flows.shape.goals.len();
        exists.then(|| self.flows.entry(switch.0 as u16, lid.0))
    }

    /// Returns the current entries of a block at a switch; `None` if there are none.
    #[must_use]
    pub fn row(&self, switch: SwitchIdx, block: usize) -> Option<&[u8; BLOCK_LIDS]> {
        let switches = self.flows.shape.switches;
        let exists = switch.to_usize() < switches;
        exists
            .then(|| self.flows.rows.get(block * switches + switch.to_usize()))
            .flatten()
    }

    /// Returns the links with a state that really changes: the index of one of the two arcs.
    fn flips(&self, links: &[LinkChange]) -> Result<Vec<(usize, bool)>, StandingError> {
        let shape = &self.flows.shape;
        let mut flips = BTreeMap::new();
        for link in links {
            let (switch, port) = (link.switch, link.port);
            let exists = switch.to_usize() < shape.switches && port.index() < shape.ports();
            let cell = switch.to_usize() * shape.cells + port.index();
            let arc = exists.then(|| shape.arc_of[cell]).filter(|&arc| arc != u32::MAX);
            let arc = arc.ok_or(StandingError::NoSuchLink { switch, port })? as usize;
            let back = shape.arc_of[shape.arcs[arc].back as usize];
            flips.insert(arc.min(back as usize), link.is_up);
        }
        let is_up = |arc: usize| self.flows.next[shape.arcs[arc].cell as usize] != NOWHERE;
        Ok(flips.into_iter().filter(|&(arc, up)| is_up(arc) != up).collect())
    }

    fn flip(&mut self, flips: &[(usize, bool)]) {
        for &(arc, is_up) in flips {
            let shape = &self.flows.shape;
            let back = shape.arc_of[shape.arcs[arc].back as usize];
            for position in [arc as u32, back] {
                self.state.link(shape.arcs[position as usize], is_up);
            }
            for position in [arc as u32, back] {
                self.flows.flip(position, is_up);
            }
            self.up = if is_up { self.up + 2 } else { self.up - 2 };
        }
    }

    /// Returns the changed entries and the entries that point at a changed link. They are sorted by switch, because all
    /// entries of a switch need the same neighbours.
    fn moves(&mut self, entries: &[Entry], flips: &[(usize, bool)]) -> Result<Vec<Move>, StandingError> {
        let mut moves = Vec::with_capacity(entries.len());
        for (&Entry { switch, lid, egress }, age) in entries.iter().zip(1_u32..) {
            let old = self
                .entry(switch, lid)
                .ok_or(StandingError::NoSuchEntry { switch, lid })?;
            let (switch, lid, new) = (switch.0 as u16, lid.0, egress);
            moves.push((age, Move { lid, switch, old, new }));
        }
        for &(arc, _) in flips {
            let back = self.flows.shape.arcs[arc].back;
            for cell in [self.flows.shape.arcs[arc].cell, back] {
                self.pointing_at(cell as usize, &mut moves);
            }
        }
        // The last of several changes of one entry counts. Those caused by links are the first.
        moves.sort_unstable_by_key(|&(age, step)| (step.switch, step.lid, Reverse(age)));
        let mut moves: Vec<Move> = moves.into_iter().map(|(_, step)| step).collect();
        moves.dedup_by_key(|step| (step.lid, step.switch));
        Ok(moves)
    }

    /// Adds all LIDs with an entry that is the port of a cell.
    fn pointing_at(&mut self, cell: usize, moves: &mut Vec<(u32, Move)>) {
        let shape = &self.flows.shape;
        let (switch, port) = (cell / shape.cells, (cell % shape.cells) as u8);
        for (block, tile) in self.flows.rows.chunks(shape.switches).enumerate() {
            self.blocks += 1;
            let row = tile[switch].iter().enumerate().filter(|(_, entry)| **entry == port);
            moves.extend(row.map(|(column, _)| {
                let lid = (block * BLOCK_LIDS + column) as u16;
                let (switch, old, new) = (switch as u16, port, port);
                (0, Move { lid, switch, old, new })
            }));
        }
    }

    fn put(&mut self, step: &Move) -> bool {
        self.flows.attach(step.switch, step.lid, step.new)
    }

    /// Undoes a step that is done or half done. The tables had no loop before.
    fn put_back(&mut self, step: &Move) {
        self.flows.attach(step.switch, step.lid, step.old);
    }

    /// Updates the graphs to the counts.
    fn settle(&mut self) {
        let touched = std::mem::take(&mut self.flows.touched);
        self.graphs[0].settle(&self.flows.shape, &touched, &self.flows.sums.counts, 0);
        if self.untold.is_empty() {
            self.untold = touched;
        } else {
            self.untold.extend(touched);
        }
    }

    /// Does the work that repairs have postponed: finds out whether traffic from switch to switch has a cycle. No
    /// repair depends on it. Call this when no repair is pending.
    pub fn catch_up(&mut self) {
        let untold = std::mem::take(&mut self.untold);
        self.graphs[1].settle(&self.flows.shape, &untold, &self.flows.sums.counts, 1);
    }

    fn link_change(&self, arc: usize, is_up: bool) -> LinkChange {
        let arc = self.flows.shape.arcs[arc];
        let port = arc.cell as usize % self.flows.shape.cells;
        LinkChange {
            switch: SwitchIdx(arc.src.into()),
            // Ports come from the fabric, so they are at most 254.
            port: u8::try_from(port).ok().and_then(PortNum::new).unwrap_or_default(),
            is_up,
        }
    }
}

/// Returns a bit mask of the columns with packets from hosts.
fn carried(pairs: &[u16; BLOCK_LIDS]) -> u64 {
    (0..)
        .zip(pairs)
        .fold(0, |bits, (column, &pairs)| bits | u64::from(pairs > 0) << column)
}

/// Returns the address range of a part.
fn extent<T>(of: &[T]) -> Range<usize> {
    let Range { start, end } = of.as_ptr_range();
    start.addr()..end.addr()
}

/// Returns the number of pairs of hosts on one switch.
fn near(shape: &Shape) -> u64 {
    let live = shape.own.iter().zip(&shape.gone).filter(|(_, gone)| !**gone);
    live.map(|(&own, _)| u64::from(own) * u64::from(own).saturating_sub(1))
        .sum()
}

fn circle(step: Move) -> StandingError {
    StandingError::Circle {
        lid: Lid(step.lid),
        switch: SwitchIdx(step.switch.into()),
    }
}

/// Divides changes of entries into two lists: changes that can be made at once, before the links change, and changes
/// before which other entries of their LID must be removed. If a LID has one changed entry, and it leads to a link that
/// does not change, the entry is replaced directly. Then the neighbours of its switch are looked up once instead of
/// twice.
fn sorted(shape: &Shape, moves: &[Move], flips: &[(usize, bool)]) -> (Vec<Move>, Vec<Move>) {
    let flipping: Vec<u32> = flips
        .iter()
        .flat_map(|&(arc, _)| [shape.arcs[arc].cell, shape.arcs[arc].back])
        .collect();
    let mut of_lid = vec![0_u8; shape.goals.len()];
    for step in moves {
        let count = &mut of_lid[usize::from(step.lid)];
        *count = count.saturating_add(1);
    }
    moves.iter().partition(|step| {
        let cell = shape.cell(step.switch.into(), step.new) as u32;
        of_lid[usize::from(step.lid)] == 1 && !flipping.contains(&cell)
    })
}
