//! Repairs a tree with tables in force after links are lost: which entries must change, and to what.
//!
//! Only destinations with an entry over a lost link are examined. For each destination, the switches that sent packets
//! over the lost link are followed backwards from it. A switch that still has a path up, then down, keeps its entry if
//! that path uses it. Other switches take the entry that the rule gives for the tree as it is now.
//!
//! There is one exception. If only packets of the switch's own agent use an entry, and these still arrive by a detour
//! further on, the entry stays: there are many such entries, and changing them would improve no route.
//!
//! Between agents of upper switches there may be no path up, then down. Then a switch keeps its entry if the next
//! switch has found a route. Otherwise it sends to the first neighbour that has a route, chosen so that such detours
//! make no cycle (`turns`). If necessary, the switch at which a detour turns gets another entry. The judge decides
//! whether the result is free of cycles.
//!
//! A switch that has lost all its links is gone: it gets no entries, and hosts behind it get no route.
//!
//! Unlike in [`FatTree::fill`], the other links of a bundle carry the load of a lost link: that changes one switch
//! instead of all switches that send over the lost link.
//!
//! The work: the sets of switches below and above are updated where they change; the tables of two switches are
//! scanned; for each destination, the switches that sent over the link and their neighbours are visited.

mod detours;
mod turns;

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::BTreeMap;

use selvedge_fabric::SwitchIdx;
use selvedge_graph::Lists;
use selvedge_plan::{BLOCK_LIDS, Lids, NO_PATH, Tables};
use selvedge_types::{Idx, Lid, PortNum};

use super::FatTree;
use super::net::Link;
use super::rule::Rule;
use super::shape::{NONE, by_level};
use super::targets::Target;
use turns::{Arrow, Care, Turns};

/// A tree that is updated with the faults of the fabric, for repairs.
#[derive(Clone, Debug)]
pub struct TreeMender {
    tree: FatTree,
    /// All switches, lowest level first.
    order: Vec<usize>,
    /// The neighbour behind each port, whether its link is live or not, at index switch × `stride` + port. [`NONE`] if
    /// the port leads to no switch.
    behind: Vec<u32>,
    /// As `behind`, but counts live links only.
    live: Vec<u32>,
    stride: usize,
    /// Links of each switch, by neighbour.
    near: Lists<Link>,
    /// The far ends of the links of each switch, live or not.
    facing: Lists<Facing>,
    /// Detours in force.
    turns: Turns,
    /// By switch: true if it lost a link and has no live link left.
    gone: Vec<bool>,
}

/// A port that faces a switch.
#[derive(Clone, Copy, Debug)]
struct Facing {
    /// The switch of the port.
    peer: u32,
    port: u8,
    /// True if this switch is above the switch that the port leads to.
    is_above: bool,
}

/// An entry that a repair changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moved {
    /// The switch.
    pub switch: SwitchIdx,
    /// The LID.
    pub lid: Lid,
    /// The new egress port.
    pub egress: u8,
    /// The former egress port.
    pub before: u8,
    /// The step in which the entry is written. An entry of step 1 or higher is written when all entries of lower steps
    /// are in force. If it were written earlier, it would send packets back.
    pub step: u8,
}

/// A turn that repairs may need: packets come down to a switch over one link, and go up again over another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LikelyTurn {
    /// The upper switch from which the packets come down.
    pub from: SwitchIdx,
    /// The port of the upper switch.
    pub port: PortNum,
    /// The port by which the packets go up again, at the switch where they turn.
    pub onward: PortNum,
}

/// All entries over lost links towards one destination: the target of the LIDs (`None` if their port is of another
/// fabric), then each LID with each switch at which its entry leads over a lost link.
type Group<'a> = (Option<Target>, &'a [(Lid, usize)]);

impl TreeMender {
    /// Returns a mender that is ready for losses of links of `tree`.
    #[must_use]
    pub fn new(tree: FatTree) -> Self {
        let net = &tree.rule.net;
        let most = (0..net.total()).flat_map(|s| net.links.get(s).iter().map(|k| usize::from(k.port)));
        let stride = most.max().unwrap_or(0) + 1;
        let mut behind = vec![NONE; net.total() * stride];
        let mut live = behind.clone();
        for s in 0..net.total() {
            for link in net.links.get(s) {
                behind[s * stride + usize::from(link.port)] = link.peer;
                if link.alive {
                    live[s * stride + usize::from(link.port)] = link.peer;
                }
            }
        }
        let facing = facing(&tree.rule.shape.level, &behind, stride);
        let mut near = Lists::default();
        for s in 0..net.total() {
            let mut links = net.links.get(s).to_vec();
            links.sort_unstable_by_key(|k| (k.peer, k.port));
            near.push(links);
        }
        Self {
            near,
            facing,
            order: by_level(&tree.rule.shape.level, tree.shape.levels),
            turns: Turns::new(net, &tree.rule.shape.level, tree.shape.levels),
            gone: vec![false; net.total()],
            behind,
            live,
            stride,
            tree,
        }
    }

    /// Records the detours that the tables already have: the tables of a damaged tree have some, and so do tables that
    /// were repaired before lost links came back. `by_hosts` returns true if packets of hosts to a LID leave a switch.
    /// Traffic between switches may turn anywhere, and the judge reports its cycles separately. Reads all entries.
    ///
    /// Later detours turn at the *meeting leaf*, where most detours turn now, including detours of agents: packets that
    /// go up from this leaf by old or new detours do not come back down to it.
    #[must_use]
    pub fn with_detours(mut self, lids: &Lids, tables: &Tables, by_hosts: impl Fn(SwitchIdx, Lid) -> bool) -> Self {
        let real = self.tree.rule.net.real;
        if tables.switches() != real {
            return self;
        }
        let mut turned_at = vec![0_u64; real];
        for block in 0..tables.blocks() {
            let lid = |i: usize| u16::try_from(block * BLOCK_LIDS + i).map(Lid).unwrap_or(Lid::NONE);
            let targets = (0..BLOCK_LIDS).map(|i| self.tree.target(lids, lid(i)).unwrap_or(Target::Nowhere));
            let targets: Vec<Target> = targets.collect();
            for s in (0..real).filter(|&s| self.tree.rule.shape.level[s] > 0) {
                let switch = SwitchIdx::from_usize(s);
                for (i, &egress) in tables.block(switch, block).iter().enumerate() {
                    let Some(n) = self.peer(s, egress).filter(|&n| n < real && self.is_above(s, n)) else {
                        continue;
                    };
                    let onward = tables.block(SwitchIdx::from_usize(n), block)[i];
                    let Some(next) = self.peer(n, onward).filter(|&next| self.is_above(next, n)) else {
                        continue;
                    };
                    if targets[i] == Target::Nowhere {
                        continue;
                    }
                    turned_at[n] += 1;
                    if self.is_of_host(targets[i]) || by_hosts(switch, lid(i)) {
                        let arrow = self.arrow(n, s, next);
                        arrow.into_iter().for_each(|arrow| self.turns.add(arrow, false));
                    }
                }
            }
        }
        let Rule { net, shape, .. } = &self.tree.rule;
        let leaves = shape.leaves.iter().map(|&leaf| leaf as usize);
        // Of several leaves with as many turns, the first.
        if let Some(leaf) = leaves.min_by_key(|&leaf| Reverse(turned_at.get(leaf).copied())) {
            self.turns.meet_at(net, &shape.level, leaf);
        }
        self
    }

    /// Returns the turns that most later detours make: at the meeting leaf, where most detours turn, and straight above
    /// it. All of them together make no cycle.
    pub fn likely_turns(&self) -> impl Iterator<Item = LikelyTurn> {
        let real = self.tree.rule.net.real;
        let turns_at = move |at: usize| {
            let ends = self.facing.get(at).iter();
            let down = ends.filter(move |end| end.is_above && (end.peer as usize) < real);
            let up = self.near.get(at).iter();
            let up = up.filter(move |k| k.alive && self.is_above(k.peer as usize, at));
            down.flat_map(move |from| {
                let others = up.clone().filter(|k| k.peer != from.peer);
                others.filter_map(move |onward| {
                    Some(LikelyTurn {
                        from: SwitchIdx(from.peer),
                        port: PortNum::new(from.port)?,
                        onward: PortNum::new(onward.port)?,
                    })
                })
            })
        };
        (0..real).filter(|&s| self.turns.is_meeting(s)).flat_map(turns_at)
    }

    fn is_of_host(&self, target: Target) -> bool {
        match target {
            Target::Nowhere => false,
            Target::Leaf { egress, .. } => egress != 0,
            Target::Upper { upper } => self.tree.targets.uppers[upper as usize].egress != 0,
        }
    }

    #[inline]
    fn is_above(&self, s: usize, other: usize) -> bool {
        let level = &self.tree.rule.shape.level;
        level[s] > level[other]
    }

    /// Returns a turn at switch `at`.
    fn arrow(&self, at: usize, from: usize, to: usize) -> Option<Arrow> {
        self.turns.arrow((self.tree.rule.shape.level[at], at), from, to)
    }

    /// Removes links, given by both their ends, and moves the entries that used them in `tables`, the tables in force.
    /// `by_hosts` returns true if packets of hosts to a LID leave a switch by these tables.
    ///
    /// `None` if that is impossible: `tables` are unchanged then, and this value must not be used again.
    pub fn lose(
        &mut self,
        lids: &Lids,
        tables: &mut Tables,
        ends: &[(SwitchIdx, PortNum)],
        by_hosts: impl Fn(SwitchIdx, Lid) -> bool,
    ) -> Option<Vec<Moved>> {
        if tables.switches() != self.tree.rule.net.real {
            return None;
        }
        for &(switch, port) in ends {
            self.cut(switch.to_usize(), port.get())?;
        }
        let mut switches: Vec<usize> = ends.iter().map(|(switch, _)| switch.to_usize()).collect();
        switches.sort_unstable();
        switches.dedup();
        for &s in &switches {
            self.gone[s] = !self.tree.rule.net.links.get(s).iter().any(|k| k.alive);
        }
        self.tree.rule.shrink_sets(&self.order, &switches);
        let mut victims: Vec<(Lid, usize)> = Vec::new();
        for &(switch, port) in ends.iter().filter(|(switch, _)| !self.gone[switch.to_usize()]) {
            for block in 0..tables.blocks() {
                let row = tables.block(switch, block);
                // All entries of a block are compared without a branch: a link down carries few LIDs, so most blocks
                // have none.
                if !row.iter().fold(false, |any, &egress| any | (egress == port.get())) {
                    continue;
                }
                let hit = row.iter().zip(0_usize..).filter(|(egress, _)| **egress == port.get());
                let lid = |i: usize| u16::try_from(block * BLOCK_LIDS + i).map(Lid).unwrap_or(Lid::NONE);
                victims.extend(hit.map(|(_, i)| (lid(i), switch.to_usize())));
            }
        }
        victims.sort_unstable();
        let met = self.tree.rule.net.total();
        let mut repair = Repair {
            mender: self,
            tables,
            by_hosts: &by_hosts,
            moved: Vec::new(),
            first: 0,
            met: vec![0; met],
            round: 0,
            known: RefCell::default(),
        };
        let groups = victims.chunk_by(|a, b| a.0 == b.0);
        let mut groups: Vec<Group<'_>> = groups
            .map(|group| (repair.mender.tree.target(lids, group[0].0).ok(), group))
            .collect();
        // Destinations at upper switches first: routes to their agents have the least choice of switches to turn at.
        groups.sort_by_key(|(target, _)| !matches!(target, Some(Target::Upper { .. })));
        for (target, group) in groups {
            let starts: Vec<usize> = group.iter().map(|&(_, s)| s).collect();
            let done = target.and_then(|target| repair.destination((group[0].0, target), &starts));
            if done.is_none() {
                let Repair { moved, tables, .. } = repair;
                moved.iter().rev().for_each(|m| tables.set(m.switch, m.lid, m.before));
                return None;
            }
        }
        Some(repair.moved)
    }

    /// Marks one end of a link as dead.
    fn cut(&mut self, s: usize, port: u8) -> Option<()> {
        let rule = &mut self.tree.rule;
        if s >= rule.net.real {
            return None;
        }
        let start = rule.net.links.start(s);
        let links = rule.net.links.get(s);
        let found = links.binary_search_by_key(&port, |k| k.port).ok()?;
        let peer = links[found].peer;
        rule.net.links.items_mut()[start + found].alive = false;
        self.live[s * self.stride + usize::from(port)] = NONE;
        let start = self.near.start(s);
        let found = self.near.get(s).iter().position(|k| k.port == port)?;
        self.near.items_mut()[start + found].alive = false;
        rule.shape.cut(s, peer, port);
        Some(())
    }

    #[inline]
    fn peer(&self, s: usize, egress: u8) -> Option<usize> {
        if usize::from(egress) >= self.stride {
            return None;
        }
        let peer = self.behind[s * self.stride + usize::from(egress)];
        (peer != NONE).then_some(peer as usize)
    }

    /// Returns the neighbour behind an egress port, over a live link only.
    #[inline]
    fn live_peer(&self, s: usize, egress: u8) -> Option<usize> {
        if usize::from(egress) >= self.stride {
            return None;
        }
        let peer = self.live[s * self.stride + usize::from(egress)];
        (peer != NONE).then_some(peer as usize)
    }
}

/// The far ends of the links of each switch, by neighbour, then port. `behind` is the neighbour behind each port.
fn facing(level: &[u32], behind: &[u32], stride: usize) -> Lists<Facing> {
    let mut of: Vec<Vec<Facing>> = vec![Vec::new(); level.len()];
    for (place, &to) in behind.iter().enumerate().filter(|(_, to)| **to != NONE) {
        let peer = place / stride;
        of[to as usize].push(Facing {
            peer: peer as u32,
            port: (place % stride) as u8,
            is_above: level[peer] > level[to as usize],
        });
    }
    let mut facing = Lists::default();
    of.into_iter().for_each(|ends| facing.push(ends));
    facing
}

/// The number of detours in force, and for each arrow that was examined whether it may be added to them.
type Known = (usize, BTreeMap<(Arrow, bool, Care), bool>);

/// One repair.
struct Repair<'a> {
    mender: &'a mut TreeMender,
    tables: &'a mut Tables,
    /// True if packets of hosts to a LID leave a switch.
    by_hosts: &'a dyn Fn(SwitchIdx, Lid) -> bool,
    moved: Vec<Moved>,
    /// Number of entries of `moved` that belong to earlier destinations.
    first: usize,
    /// By switch: the round in which it was reached.
    met: Vec<u32>,
    round: u32,
    /// Answers about arrows, each valid for a number of detours in force.
    known: RefCell<Known>,
}

impl Repair<'_> {
    const fn rule(&self) -> &Rule {
        &self.mender.tree.rule
    }

    /// True if a path up, then down, leads from one switch to the other.
    fn has_way(&self, s: usize, to: usize) -> bool {
        self.rule().below.has(s, to) || self.rule().reach.has(s, to)
    }

    /// Repairs the routes to one LID: its entries at the switches `starts` lead over lost links.
    fn destination(&mut self, (lid, target): (Lid, Target), starts: &[usize]) -> Option<()> {
        let to = self.mender.tree.switch_of(target);
        let Some(to) = to.filter(|&to| !self.mender.gone[to]) else {
            // No port has the LID, or its switch is gone: whatever the entry is, packets are dropped.
            return Some(());
        };
        self.first = self.moved.len();
        self.round += 1;
        let mut open: Vec<usize> = starts.to_vec();
        let (mut stuck, mut kept) = (Vec::new(), Vec::new());
        starts.iter().for_each(|&s| self.met[s] = self.round);
        while let Some(s) = open.pop() {
            let egress = self.tables.get(SwitchIdx::from_usize(s), lid);
            let next = self.mender.live_peer(s, egress);
            let rule = self.rule();
            if s == to || next.is_some_and(|next| rule.leads(s, next, to)) {
                continue;
            }
            let has_way = self.has_way(s, to);
            // A switch below that sends up to this one may go on to do so: this one sends up in any case, by another
            // link.
            let goes_on_up = has_way
                && !rule.below.has(s, to)
                && self
                    .mender
                    .peer(s, egress)
                    .is_some_and(|before| self.mender.is_above(before, s));
            if has_way && next.is_some() && !self.carries_hosts(s, lid) {
                // Only packets of its own agent leave by this entry. If they still arrive, their route is longer from
                // now on.
                kept.push(s);
            } else if has_way {
                self.take_way(s, lid, target)?;
            } else if next.is_none() {
                stuck.push(s);
            }
            self.look_behind(s, lid, goes_on_up, &mut open);
        }
        stuck.sort_unstable();
        let is_of_host = self.mender.is_of_host(target);
        let mut turns = is_of_host;
        for s in stuck {
            // If the entry led there on the tree until now, packets of hosts may be in flight by it, to whatever port
            // the LID belongs.
            let was_on_tree = is_of_host || self.carries_hosts(s, lid) || self.led_there(s, lid, to);
            turns |= was_on_tree;
            let mut is_done = was_on_tree && self.any_detour(s, lid, to);
            if !is_done && !kept.is_empty() {
                for s in std::mem::take(&mut kept) {
                    self.take_way(s, lid, target)?;
                }
                is_done = was_on_tree && self.any_detour(s, lid, to);
            }
            if !is_done {
                self.unstick(s, lid, to)?;
            }
        }
        for s in kept {
            if !self.arrives(s, lid, &[], to) {
                self.take_way(s, lid, target)?;
            }
        }
        if turns {
            self.note_turns(lid, (to, is_of_host));
        }
        Some(())
    }

    /// Adds to `open` the switches that send packets for a LID to this switch and have not been visited in this round:
    /// all of them, or only those above.
    fn look_behind(&mut self, s: usize, lid: Lid, only_above: bool, open: &mut Vec<usize>) {
        let (rows, column) = (self.tables.tile(lid.index() / BLOCK_LIDS), lid.index() % BLOCK_LIDS);
        let facing = self.mender.facing.get(s).iter();
        for from in facing.filter(|from| from.is_above || !only_above) {
            let peer = from.peer as usize;
            // Most entries lead elsewhere. Remembered switches that are gone have no row.
            let leads_here = rows.get(peer).is_some_and(|row| row[column] == from.port);
            if leads_here && self.met[peer] != self.round && !self.mender.gone[peer] {
                self.met[peer] = self.round;
                open.push(peer);
            }
        }
    }

    /// Gives a switch the entry that the tree's rule gives for the target. `None` if the rule gives none.
    fn take_way(&mut self, s: usize, lid: Lid, target: Target) -> Option<()> {
        let new = self.entry(s, target);
        if new == NO_PATH {
            return None;
        }
        let level = |peer: Option<usize>| peer.map(|peer| self.rule().shape.level[peer]);
        let mine = self.rule().shape.level[s];
        let goes_up = level(self.mender.peer(s, new)).is_some_and(|l| l > mine);
        let went_down = level(self.next(s, lid)).is_some_and(|l| l < mine);
        // Switches above may still send down to this one; its new entry would send their packets up again.
        self.set(s, lid, new, u8::from(goes_up && went_down));
        Some(())
    }

    fn carries_hosts(&self, s: usize, lid: Lid) -> bool {
        (self.by_hosts)(SwitchIdx::from_usize(s), lid)
    }

    /// Returns the neighbour to which an entry leads.
    fn next(&self, s: usize, lid: Lid) -> Option<usize> {
        self.mender.peer(s, self.tables.get(SwitchIdx::from_usize(s), lid))
    }

    fn entry(&self, s: usize, target: Target) -> u8 {
        match target {
            Target::Nowhere => NO_PATH,
            Target::Leaf { leaf, number, egress } => self.mender.tree.leaf_entry(s, leaf, number, egress, None),
            Target::Upper { upper } => {
                let to = self.mender.tree.targets.uppers[upper as usize];
                self.rule().towards_upper(s, to, upper, None)
            }
        }
    }

    fn set(&mut self, s: usize, lid: Lid, egress: u8, step: u8) {
        let switch = SwitchIdx::from_usize(s);
        let before = self.tables.get(switch, lid);
        if before != egress {
            self.tables.set(switch, lid, egress);
            self.moved.push(Moved {
                switch,
                lid,
                egress,
                before,
                step,
            });
        }
    }

    /// Returns the live neighbours, each with the port to it, in ascending order. `wanted` decides by the level of this
    /// switch and the level of the neighbour.
    fn neighbours(&self, s: usize, wanted: impl Fn(u32, u32) -> bool) -> impl Iterator<Item = (usize, u8)> {
        let level = &self.rule().shape.level;
        let live = self.mender.near.get(s).iter().filter(|k| k.alive);
        let live = live.filter(move |k| wanted(level[s], level[k.peer as usize]));
        live.map(|k| (k.peer as usize, k.port))
    }

    /// True if, by the tables, a packet reaches switch `to` without passing any switch of `not_by`.
    fn arrives(&self, from: usize, lid: Lid, not_by: &[usize], to: usize) -> bool {
        let mut at = from;
        for _ in 0..self.rule().net.real {
            if at == to {
                return true;
            }
            if not_by.contains(&at) {
                return false;
            }
            let egress = self.tables.get(SwitchIdx::from_usize(at), lid);
            match self.mender.live_peer(at, egress) {
                Some(next) => at = next,
                None => return false,
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use selvedge_fabric::PortRef;
    use selvedge_sim::{Par, Seed};
    use selvedge_topology::Spec;

    use super::super::FatTreeOptions;
    use super::*;

    #[test]
    fn sets_after_losses_are_those_of_the_tree_that_is_left() {
        for spec in [
            "sx6536",
            "karytree:k=4,n=3",
            "karytree:k=3,n=4",
            "mport:m=8,n=3",
            "pgft:m=4x4x4,w=1x2x2,p=1x2x2",
        ] {
            let Ok(Spec::Generated(recipe)) = spec.parse() else {
                panic!("{spec} is not a recipe");
            };
            let fabric = recipe.fabric().unwrap();
            let tree = FatTree::detect(&fabric, &FatTreeOptions::default(), Par::Sequential).unwrap();
            let levels = tree.shape.levels;
            let mut mender = TreeMender::new(tree);
            let mut rng = Seed(7).child("sets").rng();
            let mut links: Vec<[PortRef; 2]> = Vec::new();
            for &node in fabric.switches().iter() {
                let ports = fabric
                    .node(node)
                    .external_ports()
                    .map(|(port, _)| PortRef { node, port });
                links.extend(ports.filter_map(|at| Some([at, fabric.peer(at)?])));
            }
            links.retain(|[at, peer]| at < peer && fabric.switch_index(peer.node).is_some());
            rng.shuffle(&mut links);
            for (number, ends) in links.iter().take(40).enumerate() {
                let ends = ends.map(|at| (fabric.switch_index(at.node).unwrap().to_usize(), at.port.get()));
                ends.into_iter().for_each(|(s, port)| mender.cut(s, port).unwrap());
                let [s, peer] = ends.map(|(s, _)| s);
                mender.tree.rule.shrink_sets(&mender.order, &[s, peer]);
                let Rule { net, shape, .. } = &mender.tree.rule;
                let anew = Rule::new(net.clone(), shape.clone(), levels);
                for s in 0..net.total() {
                    let sets = (mender.tree.rule.below.row(s), mender.tree.rule.reach.row(s));
                    assert_eq!(
                        sets,
                        (anew.below.row(s), anew.reach.row(s)),
                        "{spec}, loss {number}, {s}"
                    );
                }
            }
        }
    }
}
