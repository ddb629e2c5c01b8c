//! Changes the order so that a turn against the order fits. Either the turn's first channel is moved before its second,
//! with all channels that lead to the first; or the second channel is moved after the first, with all channels that
//! follow the second.
//!
//! While a fabric is routed, a search may visit a limited number of channels, and goes in one direction. In the order
//! of tables in force it goes in both directions in turn, as in Haeupler, Kavitha, Mathew, Sen and Tarjan, "Incremental
//! Cycle Detection, Topological Ordering, and Strong Component Maintenance", ACM Transactions on Algorithms 8(1), 2012.
//! The search ends as soon as one direction is finished, so it visits at most twice the channels of the smaller side.

use super::{Net, Order};

impl Order {
    /// Changes the order so that a turn against the order fits. Returns false if the turn would close a cycle, leads
    /// back over more than `window` places, or needs visits to more than `most` channels.
    pub(super) fn reorder(&mut self, net: &Net, (from, to): (u32, u32), window: u32, most: usize) -> bool {
        if self.visits_max == usize::MAX {
            // The order of tables in force: nothing is counted.
            return self.make_room(net, from, to);
        }
        let (low, high) = (self.place[to as usize], self.place[from as usize]);
        if high - low > window {
            return false;
        }
        let (stamp, _) = self.new_stamps();
        let mut behind = core::mem::take(&mut self.behind);
        let fits = self.search_behind(net, (from, low), (stamp, most), &mut behind);
        if fits {
            self.move_before((low, high), stamp, &mut behind);
        }
        self.behind = behind;
        fits
    }

    /// Makes room for a turn against the order, however much work that takes; returns false if the turn would close a
    /// cycle.
    fn make_room(&mut self, net: &Net, from: u32, to: u32) -> bool {
        let range = (self.place[to as usize], self.place[from as usize]);
        let stamps = self.new_stamps();
        let (mut behind, mut ahead) = (core::mem::take(&mut self.behind), core::mem::take(&mut self.ahead));
        behind.clear();
        behind.push(from);
        ahead.clear();
        ahead.push(to);
        (self.seen[from as usize], self.seen[to as usize]) = stamps;
        let mut head = 0;
        let fits = loop {
            if head == behind.len() {
                self.move_before(range, stamps.0, &mut behind);
                break true;
            }
            if head == ahead.len() {
                self.move_after(range, stamps.1, &mut ahead);
                break true;
            }
            if !self.step_back(net, (behind[head], range.0), stamps, &mut behind)
                || !self.step_on(net, (ahead[head], range.1), stamps, &mut ahead)
            {
                break false;
            }
            head += 1;
        };
        (self.behind, self.ahead) = (behind, ahead);
        fits
    }

    /// Returns two marks that no channel has; the second is the mark of [`Order::is_marked`].
    pub(super) fn new_stamps(&mut self) -> (u32, u32) {
        if self.stamp > u32::MAX - 2 {
            self.stamp = 0;
            self.seen.fill(0);
        }
        self.stamp += 2;
        (self.stamp - 1, self.stamp)
    }

    /// Adds the channels that depend on a channel and stand after place `low`. Returns false if the search in the other
    /// direction has found one of these channels.
    fn step_back(&mut self, net: &Net, (at, low): (u32, u32), (mine, other): (u32, u32), found: &mut Vec<u32>) -> bool {
        let there = net.first[net.src[at as usize] as usize];
        for i in self.back.of(at as usize) {
            let before = net.rev[(there + i) as usize];
            let seen = &mut self.seen[before as usize];
            if *seen == other {
                return false;
            }
            if *seen != mine && self.place[before as usize] > low {
                *seen = mine;
                found.push(before);
            }
        }
        true
    }

    /// Adds the channels that a channel depends on and that stand before place `high`. Returns false if the search in
    /// the other direction has found one of these channels.
    fn step_on(&mut self, net: &Net, (at, high): (u32, u32), (other, mine): (u32, u32), found: &mut Vec<u32>) -> bool {
        let there = net.first[net.dst[at as usize] as usize];
        for i in self.onward.of(at as usize) {
            let next = there + i;
            let seen = &mut self.seen[next as usize];
            if *seen == other {
                return false;
            }
            if *seen != mine && self.place[next as usize] < high {
                *seen = mine;
                found.push(next);
            }
        }
        true
    }

    /// Moves marked channels between two places to the front of this range; the other channels move back.
    fn move_before(&mut self, (low, high): (u32, u32), stamp: u32, found: &mut [u32]) {
        found.sort_unstable_by_key(|&c| self.place[c as usize]);
        let mut room = 0;
        for place in (low as usize..=high as usize).rev() {
            let c = self.at[place];
            if self.seen[c as usize] == stamp {
                room += 1;
            } else {
                self.at[place + room] = c;
                self.place[c as usize] = (place + room) as u32;
            }
        }
        for (place, &c) in (low..).zip(&*found) {
            self.at[place as usize] = c;
            self.place[c as usize] = place;
        }
    }

    /// Moves marked channels between two places to the end of this range; the other channels move forward.
    fn move_after(&mut self, (low, high): (u32, u32), stamp: u32, found: &mut [u32]) {
        found.sort_unstable_by_key(|&c| self.place[c as usize]);
        let mut room = 0;
        for place in low as usize..=high as usize {
            let c = self.at[place];
            if self.seen[c as usize] == stamp {
                room += 1;
            } else {
                self.at[place - room] = c;
                self.place[c as usize] = (place - room) as u32;
            }
        }
        for (place, &c) in (high + 1 - found.len() as u32..).zip(&*found) {
            self.at[place as usize] = c;
            self.place[c as usize] = place;
        }
    }

    /// Collects the channels from which packets may wait for `start`, down to place `low` in the order. Returns false
    /// if the channel at that place is one of them, or if there are too many.
    fn search_behind(
        &mut self,
        net: &Net,
        (start, low): (u32, u32),
        (stamp, most): (u32, usize),
        found: &mut Vec<u32>,
    ) -> bool {
        found.clear();
        found.push(start);
        self.seen[start as usize] = stamp;
        let mut head = 0;
        while let Some(&at) = found.get(head) {
            head += 1;
            let there = net.first[net.src[at as usize] as usize];
            for i in self.back.of(at as usize) {
                let before = net.rev[(there + i) as usize];
                let place = self.place[before as usize];
                if place < low || self.seen[before as usize] == stamp {
                    continue;
                }
                if place == low || found.len() > most {
                    return false;
                }
                self.seen[before as usize] = stamp;
                found.push(before);
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use selvedge_sim::Seed;
    use selvedge_topology::Spec;

    use super::*;
    use selvedge_graph::Graph;

    /// True if a channel depends on another by turns that are counted.
    fn leads_to(net: &Net, counts: &[u32], from: u32, to: u32) -> bool {
        let mut met = vec![false; net.channels()];
        let mut line = vec![from];
        while let Some(at) = line.pop() {
            if at == to {
                return true;
            }
            if !std::mem::replace(&mut met[at as usize], true) {
                let next = net.out(net.dst[at as usize] as usize).map(|next| next as u32);
                line.extend(next.filter(|&next| counts[net.turn(at, next)] > 0));
            }
        }
        false
    }

    #[test]
    fn a_turn_fits_unless_it_closes_a_cycle() {
        for seed in 1..20 {
            let spec = format!("random:switches=10,degree=4,hosts=1,seed={seed}");
            let Ok(Spec::Generated(recipe)) = spec.parse() else {
                panic!("{spec}")
            };
            let fabric = recipe.fabric().unwrap();
            let net = Net::new(&fabric, &Graph::new(&fabric), &[]);
            let mut counts = vec![0; net.turn_first[net.channels()] as usize];
            let mut order = Order::of_turns(&net, counts.clone()).unwrap();
            let mut rng = Seed(seed).rng();
            let (mut fitted, mut refused) = (0, 0);
            for _ in 0..400 {
                let from = rng.below(net.channels() as u64) as u32;
                let outs = net.out(net.dst[from as usize] as usize);
                let to = (outs.start as u64 + rng.below(outs.len() as u64)) as u32;
                let turn = net.turn(from, to);
                if counts[turn] > 0 && rng.below(3) == 0 {
                    order.remove(&net, from, to);
                    order.unblock();
                    counts[turn] -= 1;
                    continue;
                }
                let fits = !leads_to(&net, &counts, to, from);
                assert_eq!(order.add(&net, from, to), fits, "seed {seed}");
                counts[turn] += u32::from(fits);
                (fitted, refused) = (fitted + u32::from(fits), refused + u32::from(!fits));
            }
            assert_eq!(order.counts(&net), Some(counts), "seed {seed}");
            assert!(fitted > 50 && refused > 50, "{fitted} fitted, {refused} did not");
        }
    }
}
