//! Standing flows: the number of host pairs with packets that leave a switch towards a LID, for each switch and LID,
//! and the dependencies that these packets make.
//!
//! Entries are removed ([`Flows::detach`]) and added ([`Flows::attach`]) one at a time. Each operation changes the
//! turns at the entry's switch and at the next switch, and the flows on the path from there to the owner of the LID.

use std::cmp::Ordering;

use selvedge_plan::{BLOCK_LIDS, NO_PATH};

use crate::standing::shape::{Goal, NOWHERE, Shape};

/// Number of LIDs that make a dependency, by kind of sender and destination.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Number of LIDs to which packets from hosts make this turn.
    pub from_hosts: u16,
    /// Number of LIDs of hosts, and of LIDs without a live owner, to which packets from any switch or host make this
    /// turn.
    pub to_hosts: u16,
    /// Number of LIDs of switches to which packets from any switch or host make this turn.
    pub to_switches: u16,
}

impl Count {
    /// Returns whether there is a dependency in traffic of hosts and agents, and in all traffic.
    pub const fn edges(self) -> [bool; 2] {
        let agents = self.from_hosts > 0 || self.to_hosts > 0;
        [agents, agents || self.to_switches > 0]
    }

    /// Adds or removes a LID.
    #[inline]
    pub fn change(&mut self, goal: Goal, by_any: bool, by_hosts: bool, sign: Sign) {
        let all = match goal {
            Goal::Switch(_) => &mut self.to_switches,
            Goal::Host { .. } | Goal::Dead | Goal::Stray | Goal::Unused => &mut self.to_hosts,
        };
        let (all_by, hosts_by) = (u16::from(by_any), u16::from(by_hosts));
        match sign {
            Sign::Add => (*all, self.from_hosts) = (*all + all_by, self.from_hosts + hosts_by),
            Sign::Take => (*all, self.from_hosts) = (*all - all_by, self.from_hosts - hosts_by),
        }
    }
}

/// The greatest load, and the number of channels that have it. If that number is 0, the load is only an upper bound.
#[derive(Clone, Copy, Debug, Default)]
struct Greatest {
    load: u32,
    channels: u32,
}

impl Greatest {
    fn of(loads: &[u32]) -> Self {
        let load = loads.iter().copied().max().unwrap_or(0);
        let channels = loads.iter().filter(|&&of| of == load).count() as u32;
        Self { load, channels }
    }

    /// Records that a channel's load has changed.
    #[inline]
    fn change(&mut self, before: u32, after: u32) {
        if before == self.load {
            self.channels = self.channels.saturating_sub(1);
        }
        match after.cmp(&self.load) {
            Ordering::Less => {}
            Ordering::Equal => self.channels += 1,
            Ordering::Greater => {
                *self = Self {
                    load: after,
                    channels: 1,
                }
            }
        }
    }
}

/// Where a packet ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Owner,
    Lost,
    /// The packet is dropped, as expected.
    Nobody,
}

/// Sums over all flows. The caller supplies [`Shape`] and the tables.
#[derive(Clone, Debug, Default)]
pub struct Sums {
    /// Host pairs by vertex: lane × cells + cell.
    pub loads: Vec<u32>,
    /// Sum of the loads, and sum of their squares, by lane.
    pub load_sums: Vec<(u64, u128)>,
    /// The greatest load, by lane.
    greatest: Vec<Greatest>,
    /// Counts by vertex, then by egress port of the switch that the vertex leads to.
    pub counts: Vec<Count>,
    /// Dependencies in traffic of hosts, by lane.
    pub dependencies: Vec<u64>,
    /// Number of dependencies in traffic of hosts from or to each vertex.
    degrees: Vec<u16>,
    /// Vertices with such a dependency, by lane.
    pub channels: Vec<u64>,
    /// Pairs of hosts with packets that are delivered.
    pub host_pairs: u64,
    /// Packets from hosts that are not delivered, one to each LID.
    pub lost: u64,
    /// Number of pairs (switch, LID) for which packets at the switch are dropped or delivered to a wrong port.
    pub dead_ends: u64,
}

impl Sums {
    /// Returns sums without any flow.
    pub fn empty(shape: &Shape) -> Self {
        let vertices = shape.lane_count * shape.total();
        Self {
            loads: vec![0; vertices],
            load_sums: vec![(0, 0); shape.lane_count],
            greatest: vec![Greatest::default(); shape.lane_count],
            counts: vec![Count::default(); vertices * shape.ports()],
            dependencies: vec![0; shape.lane_count],
            degrees: vec![0; vertices],
            channels: vec![0; shape.lane_count],
            ..Self::default()
        }
    }

    /// Adds the flows to other LIDs. Sums per lane are left to [`Self::complete`].
    pub fn add(&mut self, other: &Self) {
        self.loads
            .iter_mut()
            .zip(&other.loads)
            .for_each(|(sum, more)| *sum += more);
        for (sum, more) in self.counts.iter_mut().zip(&other.counts) {
            sum.from_hosts += more.from_hosts;
            sum.to_hosts += more.to_hosts;
            sum.to_switches += more.to_switches;
        }
        self.host_pairs += other.host_pairs;
        self.lost += other.lost;
        self.dead_ends += other.dead_ends;
    }

    /// Computes dependencies in traffic of hosts and sums of loads, after all LIDs are added up.
    pub fn complete(&mut self, shape: &Shape) {
        let squared = |load: u32| u128::from(u64::from(load) * u64::from(load));
        self.greatest = self.loads.chunks(shape.total().max(1)).map(Greatest::of).collect();
        for (sums, loads) in self.load_sums.iter_mut().zip(self.loads.chunks(shape.total().max(1))) {
            sums.0 = loads.iter().map(|&load| u64::from(load)).sum();
            sums.1 = loads.iter().map(|&load| squared(load)).sum();
        }
        for position in 0..self.counts.len() {
            if self.counts[position].from_hosts > 0 {
                let (vertex, port) = (position / shape.ports(), position % shape.ports());
                self.dependency(shape, vertex, port, Sign::Add);
            }
        }
    }

    /// Adds or removes host pairs on the link of a cell, on the lane with vertices from `first` on.
    #[inline]
    fn load(&mut self, shape: &Shape, (first, cell): (usize, usize), pairs: u16, sign: Sign) {
        let lane = if first == 0 { 0 } else { first / shape.total() };
        let load = &mut self.loads[first + cell];
        let (sum, squares) = &mut self.load_sums[lane];
        let before = u64::from(*load);
        *squares -= u128::from(before * before);
        sign.apply(sum, u64::from(pairs));
        match sign {
            Sign::Add => *load += u32::from(pairs),
            Sign::Take => *load -= u32::from(pairs),
        }
        let after = u64::from(*load);
        *squares += u128::from(after * after);
        self.greatest[lane].change(before as u32, *load);
    }

    /// Returns the greatest load on a lane. Costs nothing unless all channels with that load have lost some of it.
    pub fn greatest(&self, shape: &Shape, lane: usize) -> u32 {
        match self.greatest.get(lane) {
            Some(known) if known.channels > 0 => known.load,
            _ => Greatest::of(&self.loads[lane * shape.total()..][..shape.total()]).load,
        }
    }

    /// Adds or removes a dependency in traffic of hosts.
    fn dependency(&mut self, shape: &Shape, vertex: usize, port: usize, sign: Sign) {
        let (lane, cell) = (vertex / shape.total(), vertex % shape.total());
        let wanted = lane * shape.total() + usize::from(shape.behind(cell)) * shape.cells + port;
        sign.apply(&mut self.dependencies[lane], 1);
        for vertex in [vertex, wanted] {
            let degree = &mut self.degrees[vertex];
            if sign == Sign::Take {
                *degree -= 1;
            }
            if *degree == 0 {
                sign.apply(&mut self.channels[lane], 1);
            }
            if sign == Sign::Add {
                *degree += 1;
            }
        }
    }

    /// Adds or removes the contribution of one (switch, LID) at which packets end.
    pub fn end(&mut self, shape: &Shape, at: (usize, u8), goal: Goal, pairs: u64, sign: Sign) {
        let is_base = shape.counts_pairs(goal);
        match end_of(shape, at, goal) {
            End::Owner if is_base => sign.apply(&mut self.host_pairs, pairs),
            End::Lost => sign.apply(&mut self.lost, pairs),
            End::Owner | End::Nobody => {}
        }
    }

    /// Adds or removes one (switch, LID) at which packets end without being delivered.
    pub fn dead_end(&mut self, shape: &Shape, at: (usize, u8), goal: Goal, sign: Sign) {
        if end_of(shape, at, goal) == End::Lost {
            sign.apply(&mut self.dead_ends, 1);
        }
    }
}

fn end_of(shape: &Shape, (switch, entry): (usize, u8), goal: Goal) -> End {
    if shape.gone[switch] || goal == Goal::Stray {
        return End::Nobody;
    }
    let owns = match goal {
        _ if shape.is_gone(goal) => None,
        Goal::Host { switch, port, .. } => Some((usize::from(switch), port)),
        Goal::Switch(switch) => Some((usize::from(switch), 0)),
        Goal::Unused | Goal::Dead | Goal::Stray => None,
    };
    match owns {
        Some(owner) if owner == (switch, entry) => End::Owner,
        None if !shape.takes[shape.cell(switch, entry)] => End::Nobody,
        Some(_) | None => End::Lost,
    }
}

/// Whether a contribution is added or removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sign {
    /// Added.
    Add,
    /// Removed.
    Take,
}

impl Sign {
    fn apply(self, sum: &mut u64, by: u64) {
        match self {
            Self::Add => *sum += by,
            Self::Take => *sum -= by,
        }
    }
}

/// Tables and all flows under them.
#[derive(Clone, Debug)]
pub struct Flows {
    /// The parts that entries and links do not change.
    pub shape: Shape,
    /// Next switch by cell. [`NOWHERE`] if the port leads to no switch now.
    pub next: Vec<u16>,
    /// Links that are down, by index, ascending.
    pub down: Vec<u32>,
    /// Entries, block-major as in `Tables`.
    pub rows: Vec<[u8; BLOCK_LIDS]>,
    /// Number of hosts with packets that leave a switch, by switch and LID, in the layout of `rows`.
    pub pairs: Vec<[u16; BLOCK_LIDS]>,
    /// One bit for each count: 1 if the count is not 0. The bits need a sixteenth of the memory of the counts and are
    /// enough for most look-ups.
    pub carries: Vec<u64>,
    /// Sums over the flows.
    pub sums: Sums,
    /// Dependencies of which the count became 0, or stopped being 0, since the caller last read this list: vertex and
    /// egress port.
    pub touched: Vec<(u32, u8)>,
    /// Number of entries read.
    pub walked: u64,
    /// Cached result of [`Self::coming_in`].
    pub coming: Coming,
}

/// Cache of the links by which packets to LIDs of a block enter a switch.
#[derive(Clone, Debug, Default)]
pub struct Coming {
    /// First row of the block, and the switch; `None`: empty.
    of: Option<(usize, usize)>,
    /// Number of LIDs that were requested so far.
    asked: u32,
    /// Indexes of links on which packets to any LID of the block enter. Filled only after [`Coming::MANY`] requests.
    links: Vec<u32>,
}

impl Coming {
    /// If this many LIDs of one block are asked for, all entries of the block are read at once. If fewer are asked for,
    /// only the entry of the LID itself is read at each link.
    pub const MANY: u32 = 3;
}

/// A LID: where its entries and counts are stored.
#[derive(Clone, Copy, Debug)]
struct Spot {
    /// Index of the first row of the LID's block.
    tile: usize,
    column: usize,
    goal: Goal,
    /// First vertex of the LID's lane.
    lane: usize,
}

impl Flows {
    fn spot(&self, lid: u16) -> Spot {
        let lid = usize::from(lid);
        Spot {
            tile: lid / BLOCK_LIDS * self.shape.switches,
            column: lid % BLOCK_LIDS,
            goal: self.shape.goals[lid],
            lane: usize::from(self.shape.lanes[lid]) * self.shape.total(),
        }
    }

    /// Returns the entry of a LID at a switch.
    pub fn entry(&self, switch: u16, lid: u16) -> u8 {
        let lid = usize::from(lid);
        self.rows[lid / BLOCK_LIDS * self.shape.switches + usize::from(switch)][lid % BLOCK_LIDS]
    }

    /// True if packets from hosts leave a row's switch towards the LID of a column.
    #[inline]
    pub fn carries_hosts(&self, row: usize, column: usize) -> bool {
        self.carries[row] >> column & 1 != 0
    }

    /// Marks one direction of a link, by index, as up or down.
    pub fn flip(&mut self, position: u32, is_up: bool) {
        let arc = self.shape.arcs[position as usize];
        self.next[arc.cell as usize] = if is_up { arc.dst } else { NOWHERE };
        match self.down.binary_search(&position) {
            Ok(place) if is_up => drop(self.down.remove(place)),
            Err(place) if !is_up => self.down.insert(place, position),
            Ok(_) | Err(_) => {}
        }
    }

    fn is_used(&self, lid: u16) -> bool {
        self.shape.goals[usize::from(lid)] != Goal::Unused
    }

    #[inline]
    fn read(&mut self, spot: Spot, switch: usize) -> (u8, usize, u16) {
        self.walked += 1;
        let entry = self.rows[spot.tile + switch][spot.column];
        let cell = self.shape.cell(switch, entry);
        (entry, cell, self.next[cell])
    }

    /// Removes an entry: until [`Self::attach`], its packets are dropped at this switch.
    pub fn detach(&mut self, switch: u16, lid: u16) {
        self.replace(switch, lid, NO_PATH);
    }

    /// Adds an entry. Returns false, with nothing changed, if its packets would loop.
    pub fn attach(&mut self, switch: u16, lid: u16, entry: u8) -> bool {
        if self.is_used(lid) {
            let spot = self.spot(lid);
            let mut at = self.next[self.shape.cell(usize::from(switch), entry)];
            while at != NOWHERE {
                if at == switch {
                    return false;
                }
                at = self.read(spot, usize::from(at)).2;
            }
        }
        self.replace(switch, lid, entry);
        true
    }

    /// Replaces an entry and all its contributions: turns at both ends of its link, and its flow from there on.
    fn replace(&mut self, switch: u16, lid: u16, entry: u8) {
        let (spot, switch) = (self.spot(lid), usize::from(switch));
        if spot.goal == Goal::Unused {
            self.rows[spot.tile + switch][spot.column] = entry;
            return;
        }
        let (old, _, old_next) = self.read(spot, switch);
        let new_next = self.next[self.shape.cell(switch, entry)];
        let [leaves, enters] = [(old, old_next), (entry, new_next)].map(|(e, next)| (next != NOWHERE).then_some(e));
        self.flow(spot, switch, Sign::Take);
        self.turns_into(spot, switch, leaves, enters);
        self.rows[spot.tile + switch][spot.column] = entry;
        self.flow(spot, switch, Sign::Add);
    }

    /// Adds or removes the contribution of an entry, from its switch onwards.
    fn flow(&mut self, spot: Spot, switch: usize, sign: Sign) {
        let (entry, cell, next) = self.read(spot, switch);
        let pairs = self.pairs[spot.tile + switch][spot.column];
        if next == NOWHERE {
            let at = (switch, entry);
            self.sums.dead_end(&self.shape, at, spot.goal, sign);
            self.sums.end(&self.shape, at, spot.goal, u64::from(pairs), sign);
            return;
        }
        self.turn_after(spot, cell, usize::from(next), pairs > 0, sign);
        if pairs > 0 {
            self.flow_on(spot, (cell, next), pairs, sign);
        }
    }

    /// Marks switches without any link left as gone, or as present again. Packets from and to a gone switch and its
    /// hosts are not counted as lost. Dependencies of packets on their way to it remain.
    pub fn set_gone(&mut self, switches: &[u16], is_gone: bool) {
        self.count_gone(switches, Sign::Take);
        switches
            .iter()
            .for_each(|&switch| self.shape.gone[usize::from(switch)] = is_gone);
        self.count_gone(switches, Sign::Add);
    }

    /// Adds or removes the counts that depend on whether some switches are gone.
    fn count_gone(&mut self, switches: &[u16], sign: Sign) {
        for lid in 0..self.shape.goals.len() as u16 {
            let spot = self.spot(lid);
            let owner = match spot.goal {
                Goal::Unused => continue,
                Goal::Host { switch, .. } | Goal::Switch(switch) => Some(switch),
                Goal::Dead | Goal::Stray => None,
            };
            if owner.is_some_and(|owner| switches.contains(&owner)) {
                (0..self.shape.switches).for_each(|switch| self.count_spot(spot, switch, sign));
            } else {
                for &switch in switches {
                    self.count_spot(spot, usize::from(switch), sign);
                }
            }
        }
    }

    /// Adds or removes the contribution of one (switch, LID) to these counts: its end, or its load.
    fn count_spot(&mut self, spot: Spot, switch: usize, sign: Sign) {
        let (entry, cell, next) = self.read(spot, switch);
        let pairs = self.pairs[spot.tile + switch][spot.column];
        if next == NOWHERE {
            let at = (switch, entry);
            self.sums.dead_end(&self.shape, at, spot.goal, sign);
            self.sums.end(&self.shape, at, spot.goal, u64::from(pairs), sign);
        } else if self.shape.counts_pairs(spot.goal) {
            self.sums.load(&self.shape, (spot.lane, cell), pairs, sign);
        }
    }

    /// Changes the turns at a switch for all links on which packets to the LID enter: removes turns to egress port
    /// `leave`, and adds turns to egress port `enter`.
    fn turns_into(&mut self, spot: Spot, switch: usize, leave: Option<u8>, enter: Option<u8>) {
        if leave == enter {
            return;
        }
        // Entries of one switch and block usually change in sequence. No other row has changed since the last request.
        let mut coming = std::mem::take(&mut self.coming);
        if coming.of != Some((spot.tile, switch)) {
            (coming.of, coming.asked) = (Some((spot.tile, switch)), 0);
        }
        coming.asked += 1;
        if coming.asked == Coming::MANY {
            coming.links.clear();
            self.coming_in(spot.tile, switch, &mut coming.links);
        }
        if coming.asked < Coming::MANY {
            for i in self.shape.entering_from[switch]..self.shape.entering_from[switch + 1] {
                self.turn_into(spot, i, leave, enter);
            }
        } else {
            coming.links.iter().for_each(|&i| self.turn_into(spot, i, leave, enter));
        }
        if coming.asked == 1 {
            // The entries of one LID were part of the rows just read.
            self.walked += u64::from(self.shape.entering_from[switch + 1] - self.shape.entering_from[switch]);
        }
        self.coming = coming;
    }

    /// Changes the turn of one link, by index, if packets to the LID enter on it.
    #[inline]
    fn turn_into(&mut self, spot: Spot, link: u32, leave: Option<u8>, enter: Option<u8>) {
        let arc = self.shape.entering[link as usize];
        let before = usize::from(arc.src);
        let cell = arc.cell as usize;
        // A port has one cell. An entry that is no port number has none that a link leaves by.
        if self.rows[spot.tile + before][spot.column] != arc.port || self.next[cell] == NOWHERE {
            return;
        }
        let by_hosts = self.carries_hosts(spot.tile + before, spot.column);
        if let Some(entry) = leave {
            self.turn(spot, (cell, entry), true, by_hosts, Sign::Take);
        }
        if let Some(entry) = enter {
            self.turn(spot, (cell, entry), true, by_hosts, Sign::Add);
        }
    }

    /// Finds the links on which a LID is sent to a switch, up or down: indexes in `entering`.
    pub fn coming_in_to(&self, lid: u16, switch: usize, found: &mut Vec<u32>) {
        let (tile, column) = (
            usize::from(lid) / BLOCK_LIDS * self.shape.switches,
            usize::from(lid) % BLOCK_LIDS,
        );
        let entering = self.shape.entering_from[switch]..self.shape.entering_from[switch + 1];
        found.extend(entering.filter(|&i| {
            let arc = self.shape.entering[i as usize];
            self.rows[tile + usize::from(arc.src)][column] == arc.port
        }));
    }

    /// Finds the links for any LID of a block.
    pub fn coming_in(&self, tile: usize, switch: usize, found: &mut Vec<u32>) {
        let entering = self.shape.entering_from[switch]..self.shape.entering_from[switch + 1];
        found.extend(entering.filter(|&i| {
            let arc = self.shape.entering[i as usize];
            let row = &self.rows[tile + usize::from(arc.src)];
            // Reads all of them without a branch, which takes only a few instructions.
            row.iter().fold(false, |any, &entry| any | (entry == arc.port))
        }));
    }

    /// Adds or removes the turn from the link of a cell at the switch that it leads to.
    fn turn_after(&mut self, spot: Spot, cell: usize, switch: usize, by_hosts: bool, sign: Sign) {
        let (entry, _, next) = self.read(spot, switch);
        if next != NOWHERE {
            self.turn(spot, (cell, entry), true, by_hosts, sign);
        }
    }

    /// Adds or removes host pairs on a link and on the rest of their path. If a switch on that path then forwards its
    /// first pair, or no longer forwards any, turns of hosts are added or removed too.
    fn flow_on(&mut self, spot: Spot, link: (usize, u16), pairs: u16, sign: Sign) {
        let is_counted = self.shape.counts_pairs(spot.goal);
        let (mut cell, mut to) = link;
        let mut alone = false;
        loop {
            let switch = usize::from(to);
            let (entry, onward, next) = self.read(spot, switch);
            if is_counted {
                self.sums.load(&self.shape, (spot.lane, cell), pairs, sign);
            }
            if alone && next != NOWHERE {
                self.turn(spot, (cell, entry), false, true, sign);
            }
            let sum = &mut self.pairs[spot.tile + switch][spot.column];
            alone = match sign {
                Sign::Add => *sum == 0,
                Sign::Take => *sum == pairs,
            };
            match sign {
                Sign::Add => *sum += pairs,
                Sign::Take => *sum -= pairs,
            }
            if alone {
                self.carries[spot.tile + switch] ^= 1 << spot.column;
            }
            if next == NOWHERE {
                let at = (switch, entry);
                return self.sums.end(&self.shape, at, spot.goal, u64::from(pairs), sign);
            }
            (cell, to) = (onward, next);
        }
    }

    /// Adds or removes a LID of a dependency: for all senders (`by_any`), for hosts (`by_hosts`), or for both.
    fn turn(&mut self, spot: Spot, (cell, entry): (usize, u8), by_any: bool, by_hosts: bool, sign: Sign) {
        let vertex = spot.lane + cell;
        let count = &mut self.sums.counts[vertex * self.shape.ports() + usize::from(entry)];
        let before = *count;
        count.change(spot.goal, by_any, by_hosts, sign);
        let after = *count;
        if (before.from_hosts == 0) != (after.from_hosts == 0) {
            self.sums.dependency(&self.shape, vertex, usize::from(entry), sign);
        }
        if before.edges() != after.edges() {
            self.touched.push((vertex as u32, entry));
        }
    }
}
