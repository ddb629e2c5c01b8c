//! The shape of the tree: which switches are above which, in which position, with holes where a link or switch is
//! missing.
//!
//! Consider two levels of a tree, and a connected piece of them. In a full tree, every lower switch of the piece has a
//! link to every upper switch. So a missing link is found even if no earlier state is known, as long as its piece stays
//! connected. It is a hole in the positions, and the other positions do not change.

use std::collections::BTreeMap;

use selvedge_graph::Lists;

use super::bits::BitSets;
use super::levels::Levels;
use super::net::Net;
use super::pieces::{Joined, slots_of_pieces};

/// Stands for no switch.
pub(super) const NONE: u32 = u32::MAX;

/// All parallel links to one neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot {
    /// The neighbour; [`NONE`] in a hole.
    pub peer: u32,
    /// Index of its first port in [`Shape::ports`].
    first: u32,
    count: u32,
    /// True if one of the links is live.
    pub live: bool,
}

/// Positions of all switches.
#[derive(Clone, Debug, Default)]
pub(super) struct Shape {
    pub level: Vec<u32>,
    /// Positions above each switch.
    pub up: Lists<Slot>,
    /// Neighbours below each switch.
    pub down: Lists<Slot>,
    ports: Vec<u8>,
    /// By switch: its index among the switches with the same upper neighbours.
    pub index: Vec<u32>,
    /// By level: product of the numbers of positions above all lower levels.
    pub power: Vec<u32>,
    /// Leaves, ordered so that leaves with common upper switches stand together.
    pub leaves: Vec<u32>,
    /// By switch: true for an upper switch that is not needed, because the switches below it reach the same leaves
    /// without it.
    pub stray: Vec<bool>,
}

impl Shape {
    /// Works out all positions.
    pub fn new(net: &Net, levels: Levels) -> Self {
        let level = levels.level;
        let by_guid = ranks(net);
        let stray = strays(net, &level, levels.count);
        let pieces = slots_of_pieces(net, &level, levels.count, &stray, &by_guid);
        let mut shape = Self {
            leaves: leaf_order(net, &level, levels.count, &by_guid),
            level,
            stray,
            ..Self::default()
        };
        shape.power = vec![1; levels.count + 1];
        for l in 0..levels.count {
            let most = (0..net.real).filter(|&s| shape.level[s] as usize == l);
            let most = most.map(|s| pieces.positions[s]).max().unwrap_or(1).max(1);
            shape.power[l + 1] = shape.power[l].saturating_mul(most);
        }
        let mut order: Vec<u32> = (0..net.total()).map(|s| s as u32).collect();
        let place: BTreeMap<u32, usize> = shape.leaves.iter().enumerate().map(|(i, &s)| (s, i)).collect();
        order.sort_by_key(|&s| (place.get(&s).copied().unwrap_or(usize::MAX), by_guid[s as usize]));
        shape.index = vec![0; net.total()];
        let mut count_of_piece: BTreeMap<usize, u32> = BTreeMap::new();
        for &s in &order {
            let next = count_of_piece.entry(pieces.piece[s as usize]).or_default();
            shape.index[s as usize] = *next;
            *next += 1;
        }
        for s in 0..net.total() {
            let up = shape.slots_above(net, s, &pieces);
            shape.up.push(up);
            let down = shape.slots_below(net, s, &pieces);
            shape.down.push(down);
        }
        shape
    }

    /// Ports of a slot by position of the parallel link; 0 where the link is down or missing.
    pub fn ports(&self, slot: &Slot) -> &[u8] {
        &self.ports[slot.first as usize..][..slot.count as usize]
    }

    /// Takes a link out of the slot of a neighbour, if it is in one.
    pub fn cut(&mut self, s: usize, peer: u32, port: u8) {
        for lists in [&mut self.up, &mut self.down] {
            let range = lists.range(s);
            for slot in lists.items_mut()[range].iter_mut().filter(|slot| slot.peer == peer) {
                let ports = &mut self.ports[slot.first as usize..][..slot.count as usize];
                ports.iter_mut().filter(|p| **p == port).for_each(|p| *p = 0);
                slot.live = ports.iter().any(|&p| p != 0);
            }
        }
    }

    fn slots_above(&mut self, net: &Net, s: usize, pieces: &Joined) -> Vec<Slot> {
        let hole = self.slot(NONE, &[], pieces.width[s], None);
        let mut slots = vec![hole; pieces.positions[s] as usize];
        let groups = groups(net, s, |p| self.level[p] > self.level[s] && !self.stray[p]);
        let width = pieces.width[s];
        let residue = residue(&groups, width);
        for (i, (peer, links)) in groups.iter().enumerate() {
            let at = pieces.slot_of(s, *peer, i);
            slots[at] = self.slot(*peer, links, width, residue);
        }
        slots
    }

    fn slots_below(&mut self, net: &Net, s: usize, pieces: &Joined) -> Vec<Slot> {
        let groups = groups(net, s, |p| self.level[p] < self.level[s]);
        let width = groups.iter().map(|g| pieces.width[g.0 as usize]).max().unwrap_or(1);
        let residue = residue(&groups, width);
        let all = groups.iter();
        all.map(|(peer, links)| self.slot(*peer, links, width, residue))
            .collect()
    }

    fn slot(&mut self, peer: u32, links: &[(u8, bool)], width: u32, residue: Option<u32>) -> Slot {
        let width = width.max(u32::try_from(links.len()).unwrap_or(u32::MAX));
        let first = self.ports.len();
        self.ports.resize(first + width as usize, 0);
        for (i, &(port, alive)) in links.iter().enumerate() {
            let at = match residue {
                Some(base) if links.len() < width as usize => (u32::from(port) + width - base) % width,
                Some(_) | None => u32::try_from(i).unwrap_or(0),
            };
            if alive {
                self.ports[first + at as usize] = port;
            }
        }
        Slot {
            peer,
            first: u32::try_from(first).unwrap_or(u32::MAX),
            count: width,
            live: links.iter().any(|l| l.1),
        }
    }
}

/// Returns the links of a switch, grouped by neighbour in ascending order: for each link its port and whether it is
/// live, by ascending port.
fn groups(net: &Net, s: usize, wanted: impl Fn(usize) -> bool) -> Vec<(u32, Vec<(u8, bool)>)> {
    let mut groups: BTreeMap<u32, Vec<(u8, bool)>> = BTreeMap::new();
    for link in net.links.get(s).iter().filter(|l| wanted(l.peer as usize)) {
        groups.entry(link.peer).or_default().push((link.port, link.alive));
    }
    groups.into_iter().collect()
}

/// A bundle is the parallel links of two switches. If the ports of every complete bundle are consecutive, and their
/// first port numbers all have the same remainder modulo `width`, returns this remainder. It shows which link of an
/// incomplete bundle is missing.
fn residue(groups: &[(u32, Vec<(u8, bool)>)], width: u32) -> Option<u32> {
    let complete = groups.iter().filter(|(_, links)| links.len() == width as usize);
    let mut starts = complete.map(|(_, links)| {
        let first = u32::from(links[0].0);
        let in_row = links.iter().zip(first..).all(|(l, want)| u32::from(l.0) == want);
        in_row.then_some(first % width)
    });
    let first = starts.next()??;
    let regular = starts.all(|s| s == Some(first));
    // Two links of one bundle must not fall on one position.
    let distinct = groups.iter().all(|(_, links)| {
        let mut at: Vec<u32> = links.iter().map(|l| u32::from(l.0) % width).collect();
        at.sort_unstable();
        at.windows(2).all(|w| w[0] != w[1])
    });
    (regular && distinct).then_some(first)
}

/// Returns the place of each switch in the order of GUIDs.
fn ranks(net: &Net) -> Vec<u32> {
    let mut order: Vec<usize> = (0..net.total()).collect();
    order.sort_by_key(|&s| net.guid[s]);
    let mut rank = vec![0; net.total()];
    for (i, s) in order.into_iter().enumerate() {
        rank[s] = u32::try_from(i).unwrap_or(u32::MAX);
    }
    rank
}

/// Returns the order of leaves: leaves of one pod of the highest level are together, within them the leaves of one
/// smaller pod are together, and so on. Leaves that the tree does not distinguish are ordered by GUID.
fn leaf_order(net: &Net, level: &[u32], count: usize, by_guid: &[u32]) -> Vec<u32> {
    let mut leaves: Vec<u32> = (0..net.total() as u32).filter(|&s| level[s as usize] == 0).collect();
    let mut keys: BTreeMap<u32, Vec<u32>> = leaves.iter().map(|&s| (s, vec![by_guid[s as usize]])).collect();
    let mut pods = super::pieces::Union::new(net.total());
    for l in 0..count.saturating_sub(1) {
        for s in (0..net.total()).filter(|&s| level[s] as usize == l) {
            for link in net
                .links
                .get(s)
                .iter()
                .filter(|k| level[k.peer as usize] as usize == l + 1)
            {
                pods.join(s, link.peer as usize);
            }
        }
        let mut least: BTreeMap<usize, u32> = BTreeMap::new();
        for &s in &leaves {
            let pod = least.entry(pods.find(s as usize)).or_insert(u32::MAX);
            *pod = (*pod).min(by_guid[s as usize]);
        }
        for (&s, key) in &mut keys {
            key.push(least[&pods.find(s as usize)]);
        }
    }
    keys.values_mut().for_each(|key| key.reverse());
    leaves.sort_by(|a, b| keys[a].cmp(&keys[b]));
    leaves
}

/// Finds stray switches: upper switches without hosts and with nothing above them, if all their lower neighbours reach
/// the same leaves without them.
fn strays(net: &Net, level: &[u32], count: usize) -> Vec<bool> {
    let mut below = BitSets::new(net.total(), net.total());
    let order = by_level(level, count);
    for &s in &order {
        if level[s] == 0 {
            below.insert(s, s);
        }
        for link in net.links.get(s).iter().filter(|k| level[k.peer as usize] < level[s]) {
            below.merge(s, link.peer as usize);
        }
    }
    let mut stray = vec![false; net.total()];
    for &s in order
        .iter()
        .rev()
        .filter(|&&s| level[s] > 0 && net.nominal_ports[s].is_empty())
    {
        let mut near = net.links.get(s).iter();
        let is_useless = near.all(|k| {
            let peer = k.peer as usize;
            stray[peer] || level[peer] == level[s] || level[peer] < level[s] && below.row(peer) == below.row(s)
        });
        stray[s] = is_useless;
    }
    stray
}

/// Returns all switches, lowest level first.
pub(super) fn by_level(level: &[u32], count: usize) -> Vec<usize> {
    let at = |l: usize| (0..level.len()).filter(move |&s| level[s] as usize == l);
    (0..count).flat_map(at).collect()
}
