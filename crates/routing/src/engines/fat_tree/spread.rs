//! Spreads loads in a tree that has lost links, for a plan that need not keep entries in force.
//!
//! It starts from the closed form, which is the optimum of a whole tree. On request, `meet` changes entries of a tree
//! of two levels so that fewer flows share a link. Then full channels are relieved: a switch with packets that cross a
//! full channel sends them by another legal route, on which no channel then carries more than a limit. The limit is
//! first the least load that some link must carry in any case. If this limit cannot be kept, the lowest limit that can
//! be kept is found by bisection. In small trees, exchanges of entries (`exchange`) then try to reach a lower one.
//!
//! Work: counting follows each destination's packets over the switches that they pass. To relieve a channel, the
//! destinations behind it are tried, and for each of them the switches in front of the channel: nearest first, because
//! most packets come through those.

mod exchange;
mod meet;
mod relief;

use selvedge_fabric::SwitchIdx;
use selvedge_graph::Lists;
use selvedge_plan::{BLOCK_LIDS, Lids, Tables};
use selvedge_sim::Par;
use selvedge_types::{Idx, Lid, LidRange};

use super::FatTree;
use super::rule::Rule;
use super::shape::by_level;
use crate::error::EngineError;
use meet::Meet;
use relief::{Move, Source};

/// Destinations of one kind: LIDs of hosts with the same offset from their base LID. Each kind is spread separately,
/// because a host uses one of its LIDs at a time.
struct Layer {
    lids: Vec<Lid>,
    /// By destination: all LIDs of its host port.
    ranges: Vec<LidRange>,
    /// The switch of each destination.
    to: Vec<u32>,
    /// By LID: its destination, or [`NOWHERE`].
    of: Vec<u32>,
}

/// Working state for one layer.
struct Spread<'a> {
    rule: &'a Rule,
    tables: &'a mut Tables,
    /// Host ports of each switch.
    hosts: Vec<u32>,
    /// By switch and port: the switch that the port leads to, or [`NOWHERE`].
    peer: Vec<u32>,
    /// Number of places per switch in `peer` and `load`, one for each port.
    stride: usize,
    /// By switch: the switches to which it has live links.
    near: Lists<u32>,
    /// By switch and port: number of host pairs.
    load: Vec<u64>,
    /// Switches, lowest level first.
    order: Vec<usize>,
    layer: Layer,
    /// Working memory: the sources of one destination.
    sources: Vec<Source>,
    /// Number of sources found so far, as a measure of work.
    work: usize,
    /// Changes of entries that can be undone.
    moves: Vec<Move>,
}

/// The entries of all switches for one destination.
#[derive(Clone, Copy)]
struct Column<'a> {
    tile: &'a [[u8; BLOCK_LIDS]],
    place: usize,
    /// As `peer` of [`Spread`].
    peer: &'a [u32],
    stride: usize,
}

impl Column<'_> {
    /// Returns the channel by which a switch sends, and the switch at its end; none at the destination's own switch.
    #[inline]
    fn hop(&self, s: usize) -> Option<(usize, u32)> {
        let egress = usize::from(self.tile[s][self.place]);
        let channel = s * self.stride + egress;
        let next = if egress < self.stride {
            self.peer[channel]
        } else {
            NOWHERE
        };
        (next != NOWHERE).then_some((channel, next))
    }
}

const NOWHERE: u32 = u32::MAX;

impl FatTree {
    /// True if links or switches of the tree seem to be missing: it has holes, or switches of one level have different
    /// numbers of links up.
    pub(super) fn is_damaged(&self) -> bool {
        let (net, level) = (&self.rule.net, &self.rule.shape.level);
        let mut known: Vec<Option<usize>> = vec![None; self.shape.levels];
        let is_odd = |s: usize| {
            let up = net.links.get(s).iter();
            let up = up.filter(|k| k.alive && level[k.peer as usize] > level[s]).count();
            known
                .get_mut(level[s] as usize)
                .is_some_and(|known| *known.get_or_insert(up) != up)
        };
        self.shape.holes > 0 || (0..net.real).any(is_odd)
    }

    /// Spreads the loads of `tables`, which [`Self::fill`] wrote, as evenly as possible. This is for a tree with
    /// missing links. Entries towards switches stay. Entries for which the tree has only one route stay too.
    pub fn spread(&self, lids: &Lids, tables: &mut Tables, par: Par) -> Result<(), EngineError> {
        self.spread_layers(lids, tables, true, par)
    }

    /// Relieves the fullest links of `tables`, which [`Self::fill`] wrote, but skips the search for fewer shared links
    /// (`meet`), which takes longer. This is for the first plan of a tree with missing links, which should not wait.
    pub fn relieve(&self, lids: &Lids, tables: &mut Tables, par: Par) -> Result<(), EngineError> {
        self.spread_layers(lids, tables, false, par)
    }

    fn spread_layers(&self, lids: &Lids, tables: &mut Tables, is_thorough: bool, par: Par) -> Result<(), EngineError> {
        let (have, want) = (tables.switches(), self.rule.net.real);
        if have != want {
            return Err(EngineError::ForeignPrevious { have, want });
        }
        let mut offset = 0;
        loop {
            let layer = self.layer(lids, offset, tables)?;
            if layer.lids.is_empty() {
                return Ok(());
            }
            let mut spread = Spread::new(&self.rule, tables, layer);
            let meet = is_thorough.then(|| Meet::new(&spread)).flatten();
            let floor = match meet {
                Some(meet) => {
                    let most = meet.most();
                    meet.run(&mut spread);
                    most
                }
                None => spread.floor(),
            };
            spread.count(par);
            spread.even_out(floor);
            offset += 1;
        }
    }

    fn layer(&self, lids: &Lids, offset: u16, tables: &Tables) -> Result<Layer, EngineError> {
        let mut layer = Layer {
            lids: Vec::new(),
            ranges: Vec::new(),
            to: Vec::new(),
            of: vec![NOWHERE; tables.blocks() * BLOCK_LIDS],
        };
        for (port, range) in lids.iter() {
            let lid = Lid(range.base.0.saturating_add(offset));
            if port.port.get() == 0 || offset >= range.lmc.lids() || lid > tables.top() {
                continue;
            }
            if let Some(to) = self.switch_of(self.target(lids, lid)?) {
                layer.of[lid.index()] = u32::try_from(layer.lids.len()).unwrap_or(NOWHERE);
                layer.lids.push(lid);
                layer.ranges.push(range);
                layer.to.push(u32::try_from(to).unwrap_or(NOWHERE));
            }
        }
        Ok(layer)
    }
}

impl<'a> Spread<'a> {
    fn new(rule: &'a Rule, tables: &'a mut Tables, layer: Layer) -> Self {
        let real = rule.net.real;
        let ports = (0..real).flat_map(|s| rule.net.links.get(s)).map(|k| k.port).max();
        let stride = usize::from(ports.unwrap_or(0)) + 1;
        let mut peer = vec![NOWHERE; real * stride];
        let mut near = Lists::default();
        for s in 0..real {
            let mut peers = Vec::new();
            for link in rule.net.links.get(s).iter().filter(|k| k.alive) {
                peer[s * stride + usize::from(link.port)] = link.peer;
                peers.push(link.peer);
            }
            peers.sort_unstable();
            peers.dedup();
            near.push(peers);
        }
        let mut order = by_level(&rule.shape.level, rule.shape.power.len());
        order.retain(|&s| s < real);
        Self {
            rule,
            tables,
            hosts: (0..real).map(|s| rule.net.hosts.get(s).len() as u32).collect(),
            load: vec![0; peer.len()],
            peer,
            stride,
            near,
            order,
            layer,
            sources: Vec::new(),
            work: 0,
            moves: Vec::new(),
        }
    }

    /// Counts the loads.
    fn count(&mut self, par: Par) {
        /// Number of jobs: enough to share the work, but few, because each job has loads of its own.
        const JOBS: usize = 8;
        let all = self.layer.to.len();
        let at_once = match par {
            Par::Sequential => all,
            Par::Rayon => all.div_ceil(JOBS),
        };
        let at_once = at_once.max(1);
        let this = &*self;
        let parts = par.map(all.div_ceil(at_once), |job| {
            this.loads(job * at_once..all.min((job + 1) * at_once))
        });
        for part in parts {
            self.load
                .iter_mut()
                .zip(part)
                .for_each(|(sum, more)| *sum += u64::from(more));
        }
    }

    /// Returns the loads of all channels by packets for some destinations; all packets go up, then down.
    fn loads(&self, destinations: std::ops::Range<usize>) -> Vec<u32> {
        let mut load = vec![0; self.peer.len()];
        let mut flow = self.hosts.clone();
        let (mut way, mut known): (Vec<usize>, u32) = (Vec::new(), NOWHERE);
        for d in destinations {
            let to = self.layer.to[d];
            if to != known {
                known = to;
                way.clear();
                let is_above = |s: &&usize| self.rule.below.has(**s, to as usize);
                way.extend(self.order.iter().filter(|s| !is_above(s)));
                way.extend(self.order.iter().rev().filter(is_above));
            }
            flow.copy_from_slice(&self.hosts);
            let column = self.column(d);
            for &s in &way {
                let pairs = flow[s];
                if let Some((channel, next)) = column.hop(s).filter(|_| pairs > 0) {
                    load[channel] += pairs;
                    flow[next as usize] += pairs;
                }
            }
        }
        load
    }

    /// Returns the entries of all switches for a destination.
    fn column(&self, d: usize) -> Column<'_> {
        let lid = self.layer.lids[d].index();
        Column {
            tile: self.tables.tile(lid / BLOCK_LIDS),
            place: lid % BLOCK_LIDS,
            peer: &self.peer,
            stride: self.stride,
        }
    }

    fn set(&mut self, d: usize, s: usize, egress: u8) {
        self.tables.set(SwitchIdx::from_usize(s), self.layer.lids[d], egress);
    }

    /// Returns the channel by which switch `s` sends packets for destination `d`; none at the destination's own switch.
    fn channel(&self, d: usize, s: usize) -> Option<usize> {
        self.column(d).hop(s).map(|(channel, _)| channel)
    }

    /// Returns the load that some link must carry in any case. For a leaf this is its hosts × the destinations
    /// elsewhere, divided by its remaining links up; the result is the largest value of all leaves. Channels with no
    /// more than this load are not relieved, so that entries change only for the fullest channels.
    fn floor(&self) -> u64 {
        let leaves = || self.rule.shape.leaves.iter().map(|&leaf| leaf as usize);
        let of_leaf = |s: usize| {
            let Some(&hosts) = self.hosts.get(s) else { return 0 };
            let reached = leaves().filter(|&to| self.rule.reach.has(s, to));
            let all: u64 = reached
                .filter_map(|to| self.hosts.get(to).copied().map(u64::from))
                .sum();
            let links = self.rule.net.links.get(s).iter();
            let links = links
                .filter(|k| k.alive && !self.rule.shape.stray[k.peer as usize])
                .count();
            u64::from(hosts) * all.saturating_sub(u64::from(hosts)).div_ceil(links.max(1) as u64)
        };
        leaves().map(of_leaf).max().unwrap_or(0)
    }

    /// True if another LID of the same host leaves the leaf by this port: different LIDs should take different paths.
    fn is_taken(&self, d: usize, s: usize, egress: u8) -> bool {
        let range = self.layer.ranges[d];
        let others = || range.iter().filter(|&lid| lid != self.layer.lids[d]);
        self.rule.shape.level[s] == 0
            && range.lmc.lids() > 1
            && others().any(|lid| self.tables.get(SwitchIdx::from_usize(s), lid) == egress)
    }
}
