//! The fixed part of a standing proof: switches, hosts, cables, owners of LIDs, lanes.

use selvedge_plan::BLOCK_LIDS;
use selvedge_types::Lid;

use crate::ground::{Channel, Ground, Owner, Way};
use crate::reach::destinations;
use crate::sl_vl::{LaneMap, level};
use crate::standing::StandingError;

/// Stands for no next switch.
pub const NOWHERE: u16 = u16::MAX;

/// A directed link: the cells of its ports, and the switch that it leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arc {
    /// Cell of the egress port.
    pub cell: u32,
    /// The egress port.
    pub port: u8,
    /// Switch where the link begins.
    pub src: u16,
    /// Switch where the link ends.
    pub dst: u16,
    /// Cell of the ingress port: the egress cell of the opposite direction.
    pub back: u32,
}

/// Owner of a LID, as far as flows are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Goal {
    /// No owner, and no switch has an entry for it, so it is not followed.
    Unused,
    /// A host port, behind a port of a switch.
    Host {
        /// The switch.
        switch: u16,
        /// Port of the host.
        port: u8,
        /// True for the first LID of the port, on which host pairs are counted.
        is_base: bool,
    },
    /// Port 0 of a switch.
    Switch(u16),
    /// A port that packets cannot reach. They are dropped, and this is allowed.
    Dead,
    /// The LID has no owner, but switches have entries for it. Packets to it are lost wherever the entries lead, and
    /// this is allowed.
    Stray,
}

/// The part of the state that does not change with entries and links.
#[derive(Clone, Debug)]
pub struct Shape {
    /// Number of switches.
    pub switches: usize,
    /// Cells of a switch: its ports, and one more for entries that are no port number.
    pub cells: usize,
    /// Cells that end at a host or at port 0, where a packet is delivered, to its owner or not.
    pub takes: Vec<bool>,
    /// Links between switches, up or not, by `cell`.
    pub arcs: Vec<Arc>,
    /// Index in `arcs` of each cell's link; `u32::MAX`: none.
    pub arc_of: Vec<u32>,
    /// By cell: the switch behind it, if it has a cable to one, up or not; [`NOWHERE`] otherwise.
    pub far: Vec<u16>,
    /// By cell: the cell at the other end of its cable to a switch; `u32::MAX` if there is none.
    pub opposite: Vec<u32>,
    /// By switch: the index in `entering` of the first link that enters it. At the end: the total number.
    pub entering_from: Vec<u32>,
    /// All of `arcs`, by switch entered.
    pub entering: Vec<Arc>,
    /// Host ports of each switch.
    pub own: Vec<u16>,
    /// Owner of each LID.
    pub goals: Vec<Goal>,
    /// Lane towards each LID.
    pub lanes: Vec<u8>,
    /// Number of lanes that are distinguished.
    pub lane_count: usize,
    /// By switch: true if the switch and its hosts are gone. Packets from and to them are not counted.
    pub gone: Vec<bool>,
}

impl Shape {
    /// True if the switch of a destination is gone.
    pub fn is_gone(&self, goal: Goal) -> bool {
        match goal {
            Goal::Host { switch, .. } | Goal::Switch(switch) => self.gone[usize::from(switch)],
            Goal::Unused | Goal::Dead | Goal::Stray => false,
        }
    }

    /// True if host pairs are counted on a LID.
    pub fn counts_pairs(&self, goal: Goal) -> bool {
        matches!(goal, Goal::Host { is_base: true, .. }) && !self.is_gone(goal)
    }

    /// Returns the cell of an entry.
    #[inline]
    pub fn cell(&self, switch: usize, entry: u8) -> usize {
        switch * self.cells + usize::from(entry).min(self.cells - 1)
    }

    /// Returns the number of cells of all switches.
    pub const fn total(&self) -> usize {
        self.switches * self.cells
    }

    /// Returns the switch behind a cell that has a cable to a switch.
    #[inline]
    pub fn behind(&self, cell: usize) -> u16 {
        self.far[cell]
    }

    /// Returns the cell (number of an egress port) of `port`, if it leads to a switch from which port `onward` leads to
    /// another switch. The cables may be up or down.
    pub fn turn(&self, switch: usize, port: u8, onward: u8) -> Option<usize> {
        let is_link = |switch: usize, port: u8| {
            let exists = switch < self.switches && usize::from(port) < self.ports();
            exists && self.arc_of[switch * self.cells + usize::from(port)] != u32::MAX
        };
        let cell = is_link(switch, port).then(|| switch * self.cells + usize::from(port))?;
        is_link(usize::from(self.behind(cell)), onward).then_some(cell)
    }

    /// Returns the number of ports of a vertex.
    pub const fn ports(&self) -> usize {
        self.cells - 1
    }
}

impl Shape {
    /// Reads the ground. `need` is the highest LID.
    pub fn of(ground: &Ground<'_>, need: Lid) -> Result<Self, StandingError> {
        let (switches, cells) = (ground.switches, ground.stride + 1);
        let limit = u64::from(u16::MAX) - 1;
        let count = switches.max(ground.hosts.len()) as u64;
        if count > limit {
            return Err(StandingError::Size { count, limit });
        }
        if ground.parts != 1 {
            let parts = ground.parts as u64;
            return Err(StandingError::Parts { parts });
        }
        if ground.lowest_top() < need {
            return Err(StandingError::Tables { need });
        }
        let (goals, lanes) = goals(ground)?;
        let arcs = arcs(ground, cells);
        let mut arc_of = vec![u32::MAX; switches * cells];
        let mut far = vec![NOWHERE; switches * cells];
        let mut opposite = arc_of.clone();
        for (arc, position) in arcs.iter().zip(0..) {
            arc_of[arc.cell as usize] = position;
            far[arc.cell as usize] = arc.dst;
            opposite[arc.cell as usize] = arc.back;
        }
        let mut entering = arcs.clone();
        entering.sort_by_key(|arc| arc.dst);
        let before = |switch| entering.partition_point(|arc| u32::from(arc.dst) < switch) as u32;
        let takes = |cell: usize| {
            let port = u8::try_from(cell % cells).unwrap_or(u8::MAX);
            matches!(ground.exit(cell / cells, port).way(), Way::Host(_) | Way::Own)
        };
        Ok(Self {
            switches,
            cells,
            takes: (0..switches * cells).map(takes).collect(),
            arc_of,
            far,
            opposite,
            entering_from: (0..=switches as u32).map(before).collect(),
            entering,
            arcs,
            own: ground.host_count.iter().map(|&own| own as u16).collect(),
            lane_count: lanes.iter().max().map_or(1, |&lane| usize::from(lane) + 1),
            goals,
            lanes,
            gone: vec![false; switches],
        })
    }

    /// Returns which cables of this shape are up in the other shape, by index in `arcs`. `None` if anything else
    /// differs, or if the other shape has a cable that this one lacks.
    pub fn links_of(&self, other: &Self) -> Option<Vec<bool>> {
        let alike = (self.switches, self.cells, self.lane_count) == (other.switches, other.cells, other.lane_count)
            && (&self.takes, &self.own, &self.goals, &self.lanes)
                == (&other.takes, &other.own, &other.goals, &other.lanes);
        if !alike {
            return None;
        }
        let mut is_up = vec![false; self.arcs.len()];
        for arc in &other.arcs {
            let known = self.arc_of[arc.cell as usize];
            if *self.arcs.get(known as usize)? != *arc {
                return None;
            }
            is_up[known as usize] = true;
        }
        Some(is_up)
    }
}

/// Returns the owner and lane of each LID.
fn goals(ground: &Ground<'_>) -> Result<(Vec<Goal>, Vec<u8>), StandingError> {
    let map = LaneMap::new(ground);
    let lids = ground.subject.tables.blocks() * BLOCK_LIDS;
    let (mut goals, mut lanes) = (vec![Goal::Unused; lids], vec![0; lids]);
    for to in destinations(ground) {
        goals[to.lid.index()] = match to.owner {
            Owner::Host(host) => {
                let host = ground.hosts[host as usize];
                Goal::Host {
                    switch: host.switch as u16,
                    port: host.port,
                    is_base: to.is_base,
                }
            }
            Owner::Switch(switch) => Goal::Switch(switch as u16),
            Owner::Dead => Goal::Dead,
            Owner::Nobody => Goal::Stray,
        };
        let lane = map.uniform(level(ground, to.lid)).everywhere_on();
        let lane = lane.filter(|_| map.is_uniform());
        lanes[to.lid.index()] = lane.ok_or(StandingError::Lanes { lid: to.lid })? as u8;
    }
    Ok((goals, lanes))
}

fn arcs(ground: &Ground<'_>, cells: usize) -> Vec<Arc> {
    let cell = |switch: u32, port: u8| (switch as usize * cells + usize::from(port)) as u32;
    let arc = |channel: &Channel| Arc {
        cell: cell(channel.src, channel.out),
        port: channel.out,
        src: channel.src as u16,
        dst: channel.dst as u16,
        back: cell(channel.dst, channel.into),
    };
    ground.channels.iter().map(arc).collect()
}
