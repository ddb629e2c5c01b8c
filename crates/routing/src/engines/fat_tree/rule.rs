//! The rule itself: the egress of a switch towards a destination, in closed form.
//!
//! Let t be the destination's number, P the product of the numbers of positions on the levels below a switch, and `q =
//! t / P`. Upwards, the packet takes position `q mod n` of n, and link `q / n` of it. Downwards it takes link `q` of
//! the bundle that leads there. Link numbers count modulo the width of the bundle. In a full tree each downward link
//! then carries one destination.
//!
//! If the position is a hole, or does not lead to the destination, the packet takes another position. The search for it
//! starts `1 + (q / n + place of the switch among its peers) mod (n - 1)` positions further on and takes the first good
//! one. So only destinations that used the missing position change. Every switch starts its search at another position,
//! so the routes that one destination loses are spread over all other positions. The same is done if one of several
//! parallel links is lost, at the switch itself or on the first link down behind the position. Otherwise another link
//! of the bundle would have to carry twice as much.

use super::bits::BitSets;
use super::net::Net;
use super::shape::{NONE, Shape, Slot, by_level};
use super::targets::Upper;
use selvedge_plan::NO_PATH;

/// The port of a local link that counts as lost.
pub(super) type Lost = Option<u8>;

/// A tree ready to be routed.
#[derive(Clone, Debug)]
pub(super) struct Rule {
    pub net: Net,
    pub shape: Shape,
    /// By switch: the switches below it over live links, and the switch itself.
    pub below: BitSets,
    /// By switch: the switches that it can reach by a path up, then down.
    pub reach: BitSets,
    /// By switch: the switches below it that it reaches over bundles with a lost link.
    pub frayed: BitSets,
    /// By switch: the meeting leaf, through which the switch reaches destinations to which it has no path up, then
    /// down. [`NONE`] if there is none.
    pub meeting: Vec<u32>,
    /// By switch: true for a destination that some switch reaches only over the meeting leaf.
    pub stranded: Vec<bool>,
    /// For each switch that does not reach its meeting leaf by a path up, then down: the neighbour that is nearer to
    /// that leaf.
    pub climb: Vec<u32>,
    /// By (switch, destination), sorted: the egress on routes from the meeting leaf to destinations that it does not
    /// reach by a path up, then down.
    pub descent: Vec<((u32, u32), u8)>,
}

impl Rule {
    /// Computes, for each switch, the set of switches below it and the set of switches that it reaches.
    pub fn new(net: Net, shape: Shape, levels: usize) -> Self {
        let total = net.total();
        let mut below = BitSets::new(total, total);
        let order = by_level(&shape.level, levels);
        for &s in &order {
            below.insert(s, s);
            for link in net.links.get(s).iter().filter(|k| k.alive) {
                if shape.level[link.peer as usize] < shape.level[s] {
                    below.merge(s, link.peer as usize);
                }
            }
        }
        let mut reach = below.clone();
        for &s in order.iter().rev() {
            for link in net.links.get(s).iter().filter(|k| k.alive) {
                if shape.level[link.peer as usize] > shape.level[s] {
                    reach.merge(s, link.peer as usize);
                }
            }
        }
        let mut frayed = BitSets::new(total, total);
        for s in 0..total {
            for slot in shape
                .down
                .get(s)
                .iter()
                .filter(|c| c.live && shape.ports(c).contains(&0))
            {
                frayed.merge_from(s, &below, slot.peer as usize);
            }
        }
        Self {
            net,
            shape,
            below,
            reach,
            frayed,
            meeting: vec![NONE; total],
            stranded: vec![false; total],
            climb: vec![NONE; total],
            descent: Vec::new(),
        }
    }

    /// Updates the sets `below` and `reach` after the switches `ends` have lost links; `order` lists the lowest
    /// switches first. Sets that do not depend on these links stay as they are.
    pub fn shrink_sets(&mut self, order: &[usize], ends: &[usize]) {
        let Self {
            net,
            shape,
            below,
            reach,
            ..
        } = self;
        let mut row = Vec::new();
        let (mut due, mut changed) = (vec![false; net.total()], vec![false; net.total()]);
        ends.iter().for_each(|&s| due[s] = true);
        for &s in order {
            if !due[s] {
                continue;
            }
            below.gather(
                &mut row,
                &[s],
                net.links
                    .get(s)
                    .iter()
                    .filter(|k| k.alive && shape.level[k.peer as usize] < shape.level[s])
                    .map(|k| k.peer as usize),
            );
            if below.replace(s, &row) {
                changed[s] = true;
                let above = net
                    .links
                    .get(s)
                    .iter()
                    .filter(|k| shape.level[k.peer as usize] > shape.level[s]);
                above.for_each(|k| due[k.peer as usize] = true);
            }
        }
        due = changed;
        ends.iter().for_each(|&s| due[s] = true);
        for &s in order.iter().rev() {
            if !due[s] {
                continue;
            }
            let above = net
                .links
                .get(s)
                .iter()
                .filter(|k| k.alive && shape.level[k.peer as usize] > shape.level[s]);
            reach.gather(&mut row, &[], above.map(|k| k.peer as usize));
            row.iter_mut().zip(below.row(s)).for_each(|(into, more)| *into |= more);
            if reach.replace(s, &row) {
                let lower = net
                    .links
                    .get(s)
                    .iter()
                    .filter(|k| shape.level[k.peer as usize] < shape.level[s]);
                lower.for_each(|k| due[k.peer as usize] = true);
            }
        }
    }

    /// Egress of switch `s` towards destination number `t` at leaf `leaf`, which is not `s` itself.
    pub fn towards_leaf(&self, s: usize, leaf: usize, t: u32, lost: Lost) -> u8 {
        if self.below.has(s, leaf) {
            return self.down(s, leaf, t, lost);
        }
        let slots = self.shape.up.get(s);
        let q = t / self.power(s);
        let beside = |peer: u32| self.below.has(peer as usize, leaf);
        let mut egress = NO_PATH;
        if slots.iter().any(|slot| slot.live && beside(slot.peer)) {
            egress = self.up(s, q, lost, beside, |peer| self.is_clear(peer as usize, leaf, t));
        }
        if egress == NO_PATH {
            egress = self.up(s, q, lost, |peer| self.reach.has(peer as usize, leaf), |_| true);
        }
        if egress != NO_PATH {
            return egress;
        }
        let stray = self.any_up(s, t, lost, leaf);
        if stray == NO_PATH {
            self.detour(s, leaf, lost)
        } else {
            stray
        }
    }

    /// Returns the egress of switch `s` towards an upper switch. `t` is a number that distinguishes the destinations
    /// behind that switch.
    pub fn towards_upper(&self, s: usize, upper: Upper, t: u32, lost: Lost) -> u8 {
        let to = upper.switch as usize;
        if s == to {
            return upper.egress;
        }
        if self.below.has(s, to) {
            return self.down(s, to, t, lost);
        }
        if self.reach.has(s, to) {
            let near = self.up(s, t, lost, |peer| self.below.has(peer as usize, to), |_| true);
            let far = || self.up(s, t, lost, |peer| self.reach.has(peer as usize, to), |_| true);
            let found = if near == NO_PATH { far() } else { near };
            let found = if found == NO_PATH {
                self.any_up(s, t, lost, to)
            } else {
                found
            };
            if found != NO_PATH {
                return found;
            }
        }
        self.detour(s, to, lost)
    }

    /// True if `s` may send packets for switch `to` to its neighbour `peer`. If `to` is below `s`, `peer` must be below
    /// `s`. Otherwise it must be above `s`, and directly above `to` if `s` has such a neighbour.
    pub fn leads(&self, s: usize, peer: usize, to: usize) -> bool {
        let level = &self.shape.level;
        if self.below.has(s, to) {
            return level[peer] < level[s] && self.below.has(peer, to);
        }
        if level[peer] <= level[s] || !self.reach.has(peer, to) {
            return false;
        }
        let beside = |slot: &Slot| slot.live && self.below.has(slot.peer as usize, to);
        self.below.has(peer, to) || !self.shape.up.get(s).iter().any(beside)
    }

    /// Returns the product of the positions on the levels below a switch.
    pub fn power(&self, s: usize) -> u32 {
        self.shape.power[self.shape.level[s] as usize]
    }

    /// Egress upwards over positions that lead there, preferably over those where no link of a bundle is missing.
    pub fn up(&self, s: usize, q: u32, lost: Lost, leads: impl Fn(u32) -> bool, is_clear: impl Fn(u32) -> bool) -> u8 {
        let slots = self.shape.up.get(s);
        let n = u32::try_from(slots.len()).unwrap_or(0);
        if n == 0 {
            return NO_PATH;
        }
        let (wanted, rest) = (q % n, q / n);
        let others = n - 1;
        let width = u32::try_from(self.shape.ports(&slots[wanted as usize]).len())
            .unwrap_or(1)
            .max(1);
        let start = if others == 0 {
            0
        } else {
            (rest / width + self.shape.index[s]) % others
        };
        let order = || core::iter::once(wanted).chain((0..others).map(|i| (wanted + 1 + (start + i) % others) % n));
        let leading = || {
            order()
                .map(|at| &slots[at as usize])
                .filter(|slot| slot.live && leads(slot.peer))
        };
        let exact = leading().filter(|slot| is_clear(slot.peer)).find_map(|slot| {
            let ports = self.shape.ports(slot);
            ports
                .get(rest as usize % ports.len().max(1))
                .copied()
                .filter(|&port| port != 0 && Some(port) != lost)
        });
        exact.unwrap_or_else(|| {
            let mut near = leading().map(|slot| self.link(slot, rest, lost));
            near.find(|&port| port != NO_PATH).unwrap_or(NO_PATH)
        })
    }

    /// True if no link is missing where `s` sends destination number `t` down towards a leaf.
    fn is_clear(&self, s: usize, leaf: usize, t: u32) -> bool {
        if !self.frayed.has(s, leaf) {
            return true;
        }
        let q = t / self.power(s);
        let mut bundles = self
            .shape
            .down
            .get(s)
            .iter()
            .filter(|c| c.live && self.below.has(c.peer as usize, leaf));
        bundles.all(|c| {
            let ports = self.shape.ports(c);
            ports
                .get(q as usize % ports.len().max(1))
                .is_some_and(|&port| port != 0)
        })
    }

    /// Egress downwards to a switch that is below.
    pub fn down(&self, s: usize, to: usize, t: u32, lost: Lost) -> u8 {
        let q = t / self.power(s);
        let leads = |slot: &&Slot| slot.live && self.below.has(slot.peer as usize, to);
        let mut all = self.shape.down.get(s).iter().filter(leads);
        let Some(only) = all.next() else { return NO_PATH };
        let more = all.count();
        if more == 0 {
            return self.link(only, q, lost);
        }
        let count = more + 1;
        let (first, rest) = (q as usize % count, q / u32::try_from(count).unwrap_or(1));
        let good = self
            .shape
            .down
            .get(s)
            .iter()
            .filter(leads)
            .cycle()
            .skip(first)
            .take(count);
        let mut ports = good.map(|slot| self.link(slot, rest, lost));
        ports.find(|&port| port != NO_PATH).unwrap_or(NO_PATH)
    }

    /// Returns parallel link `q` of a bundle, or the next one that is live.
    #[inline]
    pub fn link(&self, slot: &Slot, q: u32, lost: Lost) -> u8 {
        match *self.shape.ports(slot) {
            [0] => NO_PATH,
            [port] if Some(port) != lost => port,
            ref ports => Self::link_of(ports, q, lost),
        }
    }

    fn link_of(ports: &[u8], q: u32, lost: Lost) -> u8 {
        let width = ports.len();
        let usable = |port: u8| port != 0 && Some(port) != lost;
        let wanted = q as usize % width.max(1);
        match ports.get(wanted) {
            Some(&port) if usable(port) => port,
            Some(_) | None => {
                let start = q as usize / width.max(1);
                let others = width.saturating_sub(1).max(1);
                let mut next = (0..others).map(|i| ports.get((wanted + 1 + (start + i) % others) % width.max(1)));
                next.find_map(|p| p.copied().filter(|&p| usable(p))).unwrap_or(NO_PATH)
            }
        }
    }

    /// Returns an egress upwards by any live link, even to a switch through which no additional leaf is reached
    /// (`stray`). A link to a switch directly above the destination is preferred.
    fn any_up(&self, s: usize, t: u32, lost: Lost, to: usize) -> u8 {
        let live = || {
            let links = self.net.links.get(s).iter();
            links.filter(|k| k.alive && Some(k.port) != lost && self.shape.level[k.peer as usize] > self.shape.level[s])
        };
        let pick = |set: &BitSets| {
            let leads = || live().filter(|k| set.has(k.peer as usize, to));
            let count = leads().count();
            (count > 0)
                .then(|| leads().nth(t as usize % count))
                .flatten()
                .map(|k| k.port)
        };
        pick(&self.below).or_else(|| pick(&self.reach)).unwrap_or(NO_PATH)
    }

    /// Returns the egress towards the meeting leaf, through which switches without a path up, then down, reach each
    /// other.
    pub fn detour(&self, s: usize, to: usize, lost: Lost) -> u8 {
        // Parts that no link joins have no meeting leaf in common.
        if !self.stranded[to] || self.meeting[s] == NONE || self.meeting[s] != self.meeting[to] {
            return NO_PATH;
        }
        let key = (s as u32, to as u32);
        if let Ok(at) = self.descent.binary_search_by_key(&key, |d| d.0) {
            return self.descent[at].1;
        }
        let meeting = self.meeting[s] as usize;
        if s == meeting {
            return NO_PATH;
        }
        if self.reach.has(s, meeting) {
            return self.towards_meeting(s, meeting, lost);
        }
        self.any_link(s, self.climb[s], lost)
    }

    /// Returns the egress on a path up, then down, towards a switch that has such a path; of several paths always the
    /// first.
    pub fn towards_meeting(&self, s: usize, to: usize, lost: Lost) -> u8 {
        if self.below.has(s, to) {
            return self.down(s, to, 0, lost);
        }
        match self.up(s, 0, lost, |peer| self.below.has(peer as usize, to), |_| true) {
            NO_PATH => self.any_up(s, 0, lost, to),
            port => port,
        }
    }

    /// Returns the first live link to a neighbour.
    pub fn any_link(&self, s: usize, peer: u32, lost: Lost) -> u8 {
        let mut links = self.net.links.get(s).iter();
        let found = links.find(|k| k.alive && k.peer == peer && Some(k.port) != lost);
        found.map_or(NO_PATH, |k| k.port)
    }
}
