//! Channel dependencies between switches: of unicast routes, and of multicast copies together with them.
//!
//! # Copies
//! A switch that copies a packet keeps it in the input buffer until every output has taken it. An output takes it when
//! there is room for the whole packet beyond (packets are not cut). So a packet in the channel into a switch waits for
//! each channel out of it that the group uses there: one dependency for each pair. Without a cycle of dependencies, the
//! channels can be ordered so that packets wait only for later channels; then the packets in the last full channel
//! always move on. So if a lane has no cycle among all dependencies of routes and copies, it has no deadlock. This
//! holds whether a packet waits for one output or for several.
//!
//! # Routes
//! As elsewhere in the judge, packets from hosts to any LID and from switches to hosts count. If old and new entries
//! may both be in force, every one of them counts at every switch, which covers every possible mix. Whether such mixes
//! have cycles of unicast packets alone is judged elsewhere. A cycle counts here only if one of its turns is made by a
//! copy and by no route at that moment.
//!
//! # Cost
//! O(LIDs × switches) once for the routes of a plan. After that a tree costs its turns, plus one topological sort of
//! the graph if some of them are not already turns of routes.

use std::collections::{BTreeMap, VecDeque};

use selvedge_fabric::{Fabric, PortRef, SwitchIdx};
use selvedge_plan::multicast::{MFT_LIDS, MFT_PORTS, MulticastTables, PortMask};
use selvedge_plan::{BLOCK_LIDS, ServiceLevels};
use selvedge_types::{Idx, Lid, PortNum, Sl, Vl};

use crate::subject::Subject;

/// Stands for no link to another switch.
const NOWHERE: u32 = u32::MAX;

/// A block of a switch with entries that may be in force besides those of the tables.
pub type OtherBlock<'a> = (SwitchIdx, u16, &'a [u8; BLOCK_LIDS]);

/// Channel dependencies of unicast routes, by lane. See the module's page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteTurns {
    switches: usize,
    /// Port count of the largest switch, including port 0.
    stride: usize,
    /// By cell (switch × stride + port): the cell of the port at the other end of the cable; [`NOWHERE`] if no switch
    /// is there.
    beyond: Vec<u32>,
    /// 64-bit words of a cell.
    words: usize,
    /// By lane and egress cell: the ports by which packets leave the next switch.
    bits: Vec<Vec<u64>>,
    /// The bits of `bits` that routes set under every mix of old and new entries. `None`: all of them.
    sure: Option<Vec<Vec<u64>>>,
    /// The lane of each service level, if lanes are distinguished.
    lane_of: [u8; Sl::COUNT],
    /// For each lane, the lane that it is merged into. Packets on a merged lane may be on different real lanes.
    counts_as: [u8; Sl::COUNT],
}

/// A turn: on this lane, packets that left by this cell leave the next switch by this port.
pub type Turn = (u8, u32, u8);

/// Turns of copies, each with a group that makes it, ascending.
pub type Copied = Vec<(Turn, Lid)>;

impl RouteTurns {
    /// Follows every LID of a subject. Entries of `others` count as well.
    #[must_use]
    pub fn new(subject: Subject<'_>, others: &[OtherBlock<'_>]) -> Self {
        let (lane_of, counts_as) = lanes(&subject);
        let mut turns = Self {
            counts_as,
            ..Self::on_lanes(subject.fabric, lane_of)
        };
        turns.follow(&subject, others);
        turns
    }

    /// Returns the turns of a fabric without unicast routes: copies wait for copies only.
    #[must_use]
    pub fn none(fabric: &Fabric) -> Self {
        Self::on_lanes(fabric, [0; Sl::COUNT])
    }

    fn on_lanes(fabric: &Fabric, lane_of: [u8; Sl::COUNT]) -> Self {
        let switches = fabric.switches().len();
        let ports = |node| usize::from(fabric.node(node).port_count()) + 1;
        let stride = fabric.switches().iter().map(|&node| ports(node)).max().unwrap_or(1);
        let lanes = lane_of.iter().max().map_or(1, |most| usize::from(*most) + 1);
        let words = stride.div_ceil(64);
        Self {
            switches,
            stride,
            beyond: beyond(fabric, stride),
            words,
            bits: vec![vec![0; switches * stride * words]; lanes],
            sure: None,
            lane_of,
            counts_as: EACH,
        }
    }

    fn follow(&mut self, subject: &Subject<'_>, others: &[OtherBlock<'_>]) {
        let (fabric, tables) = (subject.fabric, subject.tables);
        let mut by_lid: BTreeMap<Lid, BTreeMap<usize, Vec<u8>>> = BTreeMap::new();
        for &(switch, block, data) in others {
            let first = usize::from(block) * BLOCK_LIDS;
            for (i, &egress) in data.iter().enumerate() {
                let Ok(lid) = u16::try_from(first + i).map(Lid) else {
                    continue;
                };
                let is_known = switch.to_usize() < self.switches && usize::from(block) < tables.blocks();
                if switch.to_usize() < self.switches && !(is_known && tables.get(switch, lid) == egress) {
                    let values = by_lid.entry(lid).or_default().entry(switch.to_usize()).or_default();
                    values.push(egress);
                }
            }
        }
        let has_host: Vec<bool> = (fabric.switches().iter())
            .map(|&node| {
                let is_host = |port: PortNum| {
                    let at = PortRef { node, port };
                    let peer = fabric.peer(at).filter(|_| fabric.link_is_up(at));
                    peer.is_some_and(|peer| fabric.switch_index(peer.node).is_none())
                };
                fabric.node(node).external_ports().any(|(port, _)| is_host(port))
            })
            .collect();
        let none = BTreeMap::new();
        let mut column = vec![0; self.switches];
        if !by_lid.is_empty() {
            self.sure = Some(self.bits.clone());
        }
        for index in 0..tables.blocks() * BLOCK_LIDS {
            let Ok(lid) = u16::try_from(index).map(Lid) else { break };
            let other = by_lid.remove(&lid);
            let owner = subject.lids.owner(lid);
            if owner.is_none() && other.is_none() {
                continue;
            }
            let tile = tables.tile(index / BLOCK_LIDS);
            column
                .iter_mut()
                .zip(tile)
                .for_each(|(at, row)| *at = row[index % BLOCK_LIDS]);
            let of_switch = owner.is_some_and(|at| fabric.switch_index(at.node).is_some());
            let from = of_switch.then_some(&has_host[..]);
            self.column(
                lid,
                subject.service_levels,
                (&column, other.as_ref().unwrap_or(&none)),
                from,
            );
        }
        // Entries beyond the current tables.
        column.fill(u8::MAX);
        for (lid, other) in &by_lid {
            self.column(*lid, subject.service_levels, (&column, other), None);
        }
    }

    /// Follows one LID: the dependencies of packets that begin at every switch, or only at the switches of `from`.
    fn column(
        &mut self,
        lid: Lid,
        levels: &ServiceLevels,
        (column, other): (&[u8], &BTreeMap<usize, Vec<u8>>),
        from: Option<&[bool]>,
    ) {
        let lane = usize::from(self.lane_of[usize::from(levels.to(lid).get())]);
        let Self {
            stride,
            beyond,
            words,
            bits,
            sure,
            ..
        } = self;
        let mut sure = sure.as_mut().filter(|_| other.is_empty());
        let values = |switch: usize| {
            let more = other.get(&switch).into_iter().flatten();
            std::iter::once(&column[switch])
                .chain(more)
                .map(|&egress| usize::from(egress))
        };
        let next = |switch: usize, egress: usize| {
            let there = (egress < *stride).then(|| beyond[switch * *stride + egress]);
            there
                .filter(|there| *there != NOWHERE)
                .map(|there| there as usize / *stride)
        };
        let mut reached: Vec<bool> = match from {
            Some(from) => from.to_vec(),
            None => vec![true; column.len()],
        };
        if from.is_some() {
            let mut todo: Vec<usize> = (0..column.len()).filter(|&switch| reached[switch]).collect();
            while let Some(switch) = todo.pop() {
                for to in values(switch).filter_map(|egress| next(switch, egress)) {
                    if !std::mem::replace(&mut reached[to], true) {
                        todo.push(to);
                    }
                }
            }
        }
        for switch in (0..column.len()).filter(|&switch| reached[switch]) {
            for egress in values(switch) {
                let Some(to) = next(switch, egress) else { continue };
                let row = (switch * *stride + egress) * *words;
                for on in values(to).filter(|&on| next(to, on).is_some()) {
                    bits[lane][row + on / 64] |= 1 << (on % 64);
                    if let Some(sure) = &mut sure {
                        sure[lane][row + on / 64] |= 1 << (on % 64);
                    }
                }
            }
        }
    }

    /// Returns the lane of a service level. All levels use one lane if the routes are proved on a single lane.
    #[must_use]
    pub const fn lane(&self, sl: Sl) -> u8 {
        self.lane_of[sl.get() as usize]
    }

    /// Returns the lanes that are merged into this one.
    pub(crate) fn lanes_as(&self, lane: u8) -> impl Iterator<Item = u8> + '_ {
        let all = self.counts_as.iter().zip(0_u8..);
        all.filter(move |(as_one, _)| **as_one == lane).map(|(_, lane)| lane)
    }

    /// Returns the number of lanes that are distinguished.
    #[must_use]
    pub fn lanes(&self) -> u8 {
        self.bits.len() as u8
    }

    /// Iterates over all dependencies of a lane: the switch and port by which packets leave, and the port by which they
    /// leave the next switch.
    pub fn on(&self, lane: u8) -> impl Iterator<Item = ((SwitchIdx, PortNum), PortNum)> + '_ {
        let bits = self.bits.get(usize::from(lane)).into_iter().flatten().enumerate();
        bits.filter(|(_, bits)| **bits != 0).flat_map(move |(place, &bits)| {
            let (cell, word) = (place / self.words, place % self.words);
            let from = (SwitchIdx::from_usize(cell / self.stride), port(cell % self.stride));
            let set = (0..64).filter(move |bit| bits >> bit & 1 != 0);
            set.map(move |bit| (from, port(word * 64 + bit)))
        })
    }

    /// True if routes make the turn on the same lane, under every mix of entries in force.
    fn has(&self, (lane, cell, egress): Turn) -> bool {
        if self.lanes_as(lane).count() > 1 {
            return false;
        }
        let row = &self.sure.as_ref().unwrap_or(&self.bits)[usize::from(lane)];
        row[cell as usize * self.words + usize::from(egress) / 64] >> (egress % 64) & 1 != 0
    }

    /// Returns the turns of copies, ascending, each with the first group that makes it. Groups for which `level`
    /// returns no service level are left out. A turn counts if a packet may arrive by any table in `before` and be
    /// copied by any table in `now`.
    pub(crate) fn of_copies(
        &self,
        level: impl Fn(Lid) -> Option<Sl>,
        (before, now): (&[&MulticastTables], &[&MulticastTables]),
    ) -> Copied {
        let (ins, outs) = (self.masks(before), self.masks(now));
        let mut copied = Copied::new();
        for (&mlid, outs) in &outs {
            if let (Some(sl), Some(ins)) = (level(mlid), ins.get(&mlid)) {
                self.of_group((self.lane(sl), mlid), (ins, outs), &mut copied);
            }
        }
        copied.sort_unstable();
        copied.dedup_by_key(|(turn, _)| *turn);
        copied
    }

    /// Returns the masks of each group by switch, merged over some tables.
    fn masks(&self, tables: &[&MulticastTables]) -> BTreeMap<Lid, Vec<PortMask>> {
        let mut masks: BTreeMap<Lid, Vec<PortMask>> = BTreeMap::new();
        for switch in 0..self.switches {
            let blocks = tables
                .iter()
                .filter_map(|tables| tables.blocks(SwitchIdx::from_usize(switch)));
            for (&(block, position), data) in blocks.flatten() {
                for (entry, &bits) in data.iter().enumerate().filter(|(_, bits)| **bits != 0) {
                    let index = usize::from(block) * MFT_LIDS + entry;
                    let lid = Lid::MULTICAST_MIN
                        .0
                        .saturating_add(u16::try_from(index).unwrap_or(u16::MAX));
                    let none = || vec![PortMask::default(); self.switches];
                    let mask = &mut masks.entry(Lid(lid)).or_insert_with(none)[switch];
                    let set = (0..MFT_PORTS).filter(|bit| bits >> bit & 1 != 0);
                    set.for_each(|bit| mask.insert(port(usize::from(position) * MFT_PORTS + bit)));
                }
            }
        }
        masks
    }

    fn of_group(&self, (lane, mlid): (u8, Lid), (ins, outs): (&[PortMask], &[PortMask]), copied: &mut Copied) {
        for (switch, out) in outs.iter().enumerate().filter(|(_, out)| !out.is_empty()) {
            let is_way = |port: &usize| self.beyond[switch * self.stride + port] != NOWHERE;
            let ways: Vec<usize> = (out.iter().map(|port| port.index()))
                .filter(|port| *port < self.stride && is_way(port))
                .collect();
            if ways.is_empty() {
                continue;
            }
            for into in (0..self.stride).filter(is_way) {
                let cell = self.beyond[switch * self.stride + into];
                let (from, by) = (cell as usize / self.stride, cell as usize % self.stride);
                if !ins[from].contains(port(by)) {
                    continue;
                }
                let onward = ways.iter().filter(|egress| **egress != into);
                copied.extend(onward.map(|&egress| ((lane, cell, egress as u8), mlid)));
            }
        }
    }

    /// Returns the turns of `copies` that are part of a cycle on their lane, at most `most`. A cycle is a list of cells
    /// (egress ports): each waits for the next, and the last for the first. The turn's own cell comes first.
    pub(super) fn circles(&self, copies: &Copied, most: usize) -> Vec<((Turn, Lid), Vec<u32>)> {
        let mut circles = Vec::new();
        for lane in 0..self.lanes() {
            let is_own = |(turn, _): &&(Turn, Lid)| turn.0 == lane && !self.has(*turn);
            let own: Vec<(Turn, Lid)> = copies.iter().filter(is_own).copied().collect();
            if own.is_empty() {
                continue;
            }
            let graph = Graph::new(self, lane, copies);
            if !graph.left.contains(&true) {
                continue;
            }
            for turn in own {
                let way = self.target(turn.0).and_then(|to| graph.way(to, turn.0.1));
                circles.extend(way.map(|way| (turn, way)));
                if circles.len() >= most {
                    return circles;
                }
            }
        }
        circles
    }

    /// Returns the cell that a turn leads to.
    fn target(&self, (_, cell, egress): Turn) -> Option<u32> {
        let there = self.beyond[cell as usize];
        (there != NOWHERE).then(|| there / self.stride as u32 * self.stride as u32 + u32::from(egress))
    }

    /// Returns the switch and port of a cell.
    pub(crate) fn place(&self, cell: u32) -> (SwitchIdx, PortNum) {
        let cell = cell as usize;
        (SwitchIdx::from_usize(cell / self.stride), port(cell % self.stride))
    }
}

/// Dependencies of routes and copies on one lane.
struct Graph {
    next: Vec<Vec<u32>>,
    /// Cells that are part of a cycle or reachable from one.
    left: Vec<bool>,
}

impl Graph {
    fn new(turns: &RouteTurns, lane: u8, copies: &Copied) -> Self {
        let mut next = vec![Vec::new(); turns.beyond.len()];
        for (from, on) in turns.on(lane) {
            let cell = (from.0.to_usize() * turns.stride + from.1.index()) as u32;
            next[cell as usize].extend(turns.target((lane, cell, on.get())));
        }
        for &(turn, _) in copies.iter().filter(|(turn, _)| turn.0 == lane && !turns.has(*turn)) {
            next[turn.1 as usize].extend(turns.target(turn));
        }
        let mut waiting = vec![0_u32; next.len()];
        next.iter().flatten().for_each(|&to| waiting[to as usize] += 1);
        let mut open: Vec<usize> = (0..next.len()).filter(|&cell| waiting[cell] == 0).collect();
        while let Some(cell) = open.pop() {
            for &to in &next[cell] {
                waiting[to as usize] -= 1;
                if waiting[to as usize] == 0 {
                    open.push(to as usize);
                }
            }
        }
        let left = waiting.iter().map(|&n| n > 0).collect();
        Self { next, left }
    }

    /// Returns the shortest path between two cells that may lie in a cycle, both ends included.
    fn way(&self, from: u32, to: u32) -> Option<Vec<u32>> {
        let is_left = |cell: u32| self.left[cell as usize];
        if !is_left(from) || !is_left(to) {
            return None;
        }
        let mut by = vec![NOWHERE; self.next.len()];
        by[from as usize] = from;
        let mut open = VecDeque::from([from]);
        while let Some(cell) = open.pop_front() {
            if cell == to {
                let mut way = vec![to];
                while let Some(&at) = way.last().filter(|at| **at != from) {
                    way.push(by[at as usize]);
                }
                // Starts at the turn's own cell, which waits for `from`.
                way.rotate_left(1);
                way.reverse();
                return Some(way);
            }
            for &next in self.next[cell as usize].iter().filter(|next| is_left(**next)) {
                if by[next as usize] == NOWHERE {
                    by[next as usize] = cell;
                    open.push_back(next);
                }
            }
        }
        None
    }
}

/// Every lane maps to itself.
const EACH: [u8; Sl::COUNT] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];

fn port(index: usize) -> PortNum {
    u8::try_from(index).ok().and_then(PortNum::new).unwrap_or_default()
}

/// Returns the lane of each service level, and the merged lane of each lane. If packets use only one lane, all levels
/// get that lane. If some hops map a level to different lanes, these lanes are merged into the lowest of them. A cycle
/// over separate lanes is also a cycle over the merged lane, so none is missed.
fn lanes(subject: &Subject<'_>) -> ([u8; Sl::COUNT], [u8; Sl::COUNT]) {
    if matches!(subject.service_levels, ServiceLevels::Uniform(_)) {
        return ([0; Sl::COUNT], EACH);
    }
    let map = subject.sl_to_vl;
    // A packet put on lane 15 is dropped, so no packet waits for it.
    let lane = |vl: Vl| if vl == Vl::MANAGEMENT { 0 } else { vl.get() };
    let mut as_one = EACH;
    for row in map.exceptions.values() {
        for (&usual, &here) in map.default.iter().zip(row).filter(|(_, here)| **here != Vl::MANAGEMENT) {
            let (a, b) = (as_one[usize::from(lane(usual))], as_one[usize::from(lane(here))]);
            let merged = |of: &mut u8| *of = if *of == a.max(b) { a.min(b) } else { *of };
            as_one.iter_mut().for_each(merged);
        }
    }
    (map.default.map(|vl| as_one[usize::from(lane(vl))]), as_one)
}

fn beyond(fabric: &Fabric, stride: usize) -> Vec<u32> {
    let mut beyond = vec![NOWHERE; fabric.switches().len() * stride];
    for (switch, &node) in fabric.switches().iter_enumerated() {
        for (port, _) in fabric.node(node).external_ports() {
            let at = PortRef { node, port };
            let peer = fabric.peer(at).filter(|_| fabric.link_is_up(at));
            let far = peer.and_then(|peer| Some((fabric.switch_index(peer.node)?, peer.port)));
            if let Some((far, far_port)) = far.filter(|(far, _)| *far != switch) {
                beyond[switch.to_usize() * stride + port.index()] = (far.to_usize() * stride + far_port.index()) as u32;
            }
        }
    }
    beyond
}
