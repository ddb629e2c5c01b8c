//! The standing flows: how many host pairs leave every switch towards every LID, and which dependencies they make.
//!
//! An entry is taken out ([`Flows::detach`]) and put back ([`Flows::attach`]) one at a time. Either touches the turns
//! at its own switch and the next, and the flow from there down to the owner: the length of one path.

use selvedge_plan::{BLOCK_LIDS, NO_PATH};

/// No next switch.
pub const NOWHERE: u16 = u16::MAX;

/// A directed link: the cells of its ports, and where it leads.
#[derive(Clone, Copy, Debug)]
pub struct Arc {
    /// Cell of the port it leaves by.
    pub cell: u32,
    /// Port it leaves by.
    pub port: u8,
    /// Switch it leaves.
    pub src: u16,
    /// Switch it enters.
    pub dst: u16,
    /// Cell of the port it enters by: that of the way back.
    pub back: u32,
}

/// Who owns a LID, as far as flows care.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    /// Nobody: entries of it are not followed.
    Unused,
    /// A host port, behind a port of a switch.
    Host {
        /// The switch.
        switch: u16,
        /// Its port.
        port: u8,
        /// Pairs of hosts are counted on this LID: the first of its port.
        is_base: bool,
    },
    /// Port 0 of a switch.
    Switch(u16),
    /// A port that nothing can reach: packets are dropped, and may be.
    Dead,
}

/// LIDs that make a dependency, told apart by who sends and where to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// LIDs that hosts send to this way.
    pub from_hosts: u16,
    /// LIDs of hosts (and of nobody alive) that any switch or host sends to this way.
    pub to_hosts: u16,
    /// LIDs of switches, likewise.
    pub to_switches: u16,
}

impl Count {
    /// Whether there is a dependency in traffic of hosts and agents, and in all traffic.
    pub const fn edges(self) -> [bool; 2] {
        let agents = self.from_hosts > 0 || self.to_hosts > 0;
        [agents, agents || self.to_switches > 0]
    }

    /// Counts a LID more or less.
    #[inline]
    pub fn change(&mut self, goal: Goal, by_any: bool, by_hosts: bool, change: Change) {
        let all = match goal {
            Goal::Switch(_) => &mut self.to_switches,
            Goal::Host { .. } | Goal::Dead | Goal::Unused => &mut self.to_hosts,
        };
        let (all_by, hosts_by) = (u16::from(by_any), u16::from(by_hosts));
        match change {
            Change::Add => (*all, self.from_hosts) = (*all + all_by, self.from_hosts + hosts_by),
            Change::Take => (*all, self.from_hosts) = (*all - all_by, self.from_hosts - hosts_by),
        }
    }
}

/// What does not change with entries and links.
#[derive(Clone, Debug)]
pub struct Shape {
    /// Number of switches.
    pub switches: usize,
    /// Cells of a switch: its ports, and one more for entries that are no port.
    pub cells: usize,
    /// Cells that end at a host or at port 0: a packet there is taken, by its owner or not.
    pub takes: Vec<bool>,
    /// Links between switches, up or not, by `cell`.
    pub arcs: Vec<Arc>,
    /// Position in `arcs` of each cell's; `u32::MAX`: none.
    pub arc_of: Vec<u32>,
    /// Links that enter each switch: first position in `entering`, and the end.
    pub entering_from: Vec<u32>,
    /// All of `arcs`, by switch entered.
    pub entering: Vec<Arc>,
    /// Host ports of each switch.
    pub own: Vec<u16>,
    /// Owner of each LID.
    pub goals: Vec<Goal>,
    /// Lane towards each LID.
    pub lanes: Vec<u8>,
    /// Number of lanes told apart.
    pub lane_count: usize,
}

impl Shape {
    /// The cell of an entry.
    #[inline]
    pub fn cell(&self, switch: usize, entry: u8) -> usize {
        switch * self.cells + usize::from(entry).min(self.cells - 1)
    }

    /// Cells of all switches.
    pub const fn total(&self) -> usize {
        self.switches * self.cells
    }

    /// Ports of a vertex.
    pub const fn ports(&self) -> usize {
        self.cells - 1
    }
}

/// Where a packet ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Owner,
    Lost,
    /// Dropped, and rightly.
    Nobody,
}

/// Sums over everything that flows; the caller brings [`Shape`] and tables.
#[derive(Clone, Debug, Default)]
pub struct Sums {
    /// Host pairs by vertex: lane × cells + cell.
    pub loads: Vec<u32>,
    /// LIDs by vertex, then egress port of the switch it leads to.
    pub counts: Vec<Count>,
    /// Dependencies in traffic of hosts, by lane.
    pub dependencies: Vec<u64>,
    /// Pairs of hosts whose packets arrive.
    pub host_pairs: u64,
    /// Packets of hosts that do not arrive, one to each LID.
    pub lost: u64,
    /// (Switch, LID) where packets end that should not.
    pub dead_ends: u64,
}

impl Sums {
    /// Nothing flows.
    pub fn empty(shape: &Shape) -> Self {
        let vertices = shape.lane_count * shape.total();
        Self {
            loads: vec![0; vertices],
            counts: vec![Count::default(); vertices * shape.ports()],
            dependencies: vec![0; shape.lane_count],
            ..Self::default()
        }
    }

    /// Adds what flows to other LIDs. The dependencies of lanes are not sums: see [`Self::count_dependencies`].
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

    /// Counts dependencies in traffic of hosts afresh.
    pub fn count_dependencies(&mut self, shape: &Shape) {
        let of_lane = shape.total() * shape.ports();
        for (sum, counts) in self.dependencies.iter_mut().zip(self.counts.chunks(of_lane.max(1))) {
            *sum = counts.iter().filter(|count| count.from_hosts > 0).count() as u64;
        }
    }

    /// What one (switch, LID) where packets end contributes.
    pub fn end(&mut self, shape: &Shape, at: (usize, u8), goal: Goal, pairs: u64, change: Change) {
        let is_base = matches!(goal, Goal::Host { is_base: true, .. });
        match end_of(shape, at, goal) {
            End::Owner if is_base => change.apply(&mut self.host_pairs, pairs),
            End::Lost => change.apply(&mut self.lost, pairs),
            End::Owner | End::Nobody => {}
        }
    }

    /// One (switch, LID) where packets end is there, or no longer.
    pub fn dead_end(&mut self, shape: &Shape, at: (usize, u8), goal: Goal, change: Change) {
        if end_of(shape, at, goal) == End::Lost {
            change.apply(&mut self.dead_ends, 1);
        }
    }
}

fn end_of(shape: &Shape, (switch, entry): (usize, u8), goal: Goal) -> End {
    let owns = match goal {
        Goal::Host { switch, port, .. } => Some((usize::from(switch), port)),
        Goal::Switch(switch) => Some((usize::from(switch), 0)),
        Goal::Unused | Goal::Dead => None,
    };
    match owns {
        Some(owner) if owner == (switch, entry) => End::Owner,
        None if !shape.takes[shape.cell(switch, entry)] => End::Nobody,
        Some(_) | None => End::Lost,
    }
}

/// More or less of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// More.
    Add,
    /// Less.
    Take,
}

impl Change {
    fn apply(self, sum: &mut u64, by: u64) {
        match self {
            Self::Add => *sum += by,
            Self::Take => *sum -= by,
        }
    }
}

/// Tables and everything that flows by them.
#[derive(Clone, Debug)]
pub struct Flows {
    /// What does not change.
    pub shape: Shape,
    /// Next switch by cell; [`NOWHERE`] if the port leads to none now.
    pub next: Vec<u16>,
    /// Entries, block-major as in `Tables`.
    pub rows: Vec<[u8; BLOCK_LIDS]>,
    /// Hosts whose packets leave a switch, one each, in the places of entries.
    pub pairs: Vec<[u16; BLOCK_LIDS]>,
    /// Sums of it.
    pub sums: Sums,
    /// Dependencies whose counts went to or from 0 since the caller looked: vertex and egress port.
    pub touched: Vec<(u32, u8)>,
    /// Entries read.
    pub walked: u64,
}

/// One LID at one switch.
#[derive(Clone, Copy, Debug)]
struct Spot {
    /// First row of the LID's block.
    tile: usize,
    column: usize,
    goal: Goal,
    /// Start of its lane's vertices.
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

    /// The entry of a LID at a switch.
    pub fn entry(&self, switch: u16, lid: u16) -> u8 {
        let lid = usize::from(lid);
        self.rows[lid / BLOCK_LIDS * self.shape.switches + usize::from(switch)][lid % BLOCK_LIDS]
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

    /// Takes an entry out: its packets are dropped here until [`Self::attach`].
    pub fn detach(&mut self, switch: u16, lid: u16) {
        self.replace(switch, lid, NO_PATH);
    }

    /// Puts an entry in; false, and nothing changed, if its packets would go in a circle.
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

    /// Changes an entry and all that it contributes: turns at both ends of its link, and its flow from there on.
    fn replace(&mut self, switch: u16, lid: u16, entry: u8) {
        let (spot, switch) = (self.spot(lid), usize::from(switch));
        if spot.goal == Goal::Unused {
            self.rows[spot.tile + switch][spot.column] = entry;
            return;
        }
        let (old, _, old_next) = self.read(spot, switch);
        let new_next = self.next[self.shape.cell(switch, entry)];
        let [leaves, enters] = [(old, old_next), (entry, new_next)].map(|(e, next)| (next != NOWHERE).then_some(e));
        self.flow(spot, switch, Change::Take);
        self.turns_into(spot, switch, leaves, enters);
        self.rows[spot.tile + switch][spot.column] = entry;
        self.flow(spot, switch, Change::Add);
    }

    /// Adds or takes what an entry contributes from its switch on.
    fn flow(&mut self, spot: Spot, switch: usize, change: Change) {
        let (entry, cell, next) = self.read(spot, switch);
        let pairs = self.pairs[spot.tile + switch][spot.column];
        if next == NOWHERE {
            let at = (switch, entry);
            self.sums.dead_end(&self.shape, at, spot.goal, change);
            self.sums.end(&self.shape, at, spot.goal, u64::from(pairs), change);
            return;
        }
        self.turn_after(spot, cell, usize::from(next), pairs > 0, change);
        if pairs > 0 {
            self.flow_on(spot, (cell, next), pairs, change);
        }
    }

    /// Turns at a switch from all links whose packets come to it: they leave one port and enter another.
    fn turns_into(&mut self, spot: Spot, switch: usize, leave: Option<u8>, enter: Option<u8>) {
        if leave == enter {
            return;
        }
        let entering = self.shape.entering_from[switch] as usize..self.shape.entering_from[switch + 1] as usize;
        for i in entering {
            let arc = self.shape.entering[i];
            let before = usize::from(arc.src);
            self.walked += 1;
            let cell = arc.cell as usize;
            // A port has one cell, an entry that is no port has none that a link leaves by.
            let points_here = self.rows[spot.tile + before][spot.column] == arc.port && self.next[cell] != NOWHERE;
            if !points_here {
                continue;
            }
            let by_hosts = self.pairs[spot.tile + before][spot.column] > 0;
            if let Some(entry) = leave {
                self.turn(spot, (cell, entry), true, by_hosts, Change::Take);
            }
            if let Some(entry) = enter {
                self.turn(spot, (cell, entry), true, by_hosts, Change::Add);
            }
        }
    }

    /// The turn from the link of a cell, at the switch it leads to.
    fn turn_after(&mut self, spot: Spot, cell: usize, switch: usize, by_hosts: bool, change: Change) {
        let (entry, _, next) = self.read(spot, switch);
        if next != NOWHERE {
            self.turn(spot, (cell, entry), true, by_hosts, change);
        }
    }

    /// Host pairs flow over a link and on to where they end. Where they are all there is, hosts' turns come and go.
    fn flow_on(&mut self, spot: Spot, link: (usize, u16), pairs: u16, change: Change) {
        let is_counted = matches!(spot.goal, Goal::Host { is_base: true, .. });
        let (mut cell, mut to) = link;
        let mut alone = false;
        loop {
            let switch = usize::from(to);
            let (entry, onward, next) = self.read(spot, switch);
            if is_counted {
                let load = &mut self.sums.loads[spot.lane + cell];
                match change {
                    Change::Add => *load += u32::from(pairs),
                    Change::Take => *load -= u32::from(pairs),
                }
            }
            if alone && next != NOWHERE {
                self.turn(spot, (cell, entry), false, true, change);
            }
            let sum = &mut self.pairs[spot.tile + switch][spot.column];
            alone = match change {
                Change::Add => *sum == 0,
                Change::Take => *sum == pairs,
            };
            match change {
                Change::Add => *sum += pairs,
                Change::Take => *sum -= pairs,
            }
            if next == NOWHERE {
                let at = (switch, entry);
                return self.sums.end(&self.shape, at, spot.goal, u64::from(pairs), change);
            }
            (cell, to) = (onward, next);
        }
    }

    /// A LID makes a dependency, or no longer: for all who send (`by_any`), for hosts (`by_hosts`), or both.
    fn turn(&mut self, spot: Spot, (cell, entry): (usize, u8), by_any: bool, by_hosts: bool, change: Change) {
        let vertex = spot.lane + cell;
        let count = &mut self.sums.counts[vertex * self.shape.ports() + usize::from(entry)];
        let before = *count;
        count.change(spot.goal, by_any, by_hosts, change);
        if (before.from_hosts == 0) != (count.from_hosts == 0) {
            let lane = vertex / self.shape.total();
            change.apply(&mut self.sums.dependencies[lane], 1);
        }
        if before.edges() != count.edges() {
            self.touched.push((vertex as u32, entry));
        }
    }
}
