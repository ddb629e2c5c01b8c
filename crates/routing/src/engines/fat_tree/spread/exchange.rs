//! Exchanges. Where single moves can no longer relieve a full channel, one entry moves to a route on which another
//! channel becomes too full, and then other entries leave that channel.
//!
//! If a limit is not reached, its moves are undone, so no channel ever carries more than the fullest did before. Trees
//! of up to [`ENTRIES_MAX`] entries get exchanges, with limited work.

use super::Spread;
use super::relief::{ENTRIES_MAX, Source, Way};

/// Largest number of sources that exchanges may find; in a tree with fewer entries, as many as it has entries. To find
/// 1,000 sources takes 0.3 to 0.6 ms. Measured on ten shapes with 3 % and 10 % of the links missing: trees that reached
/// the least load needed at most 18,386 sources, and at most 0.4 sources for each entry. More work helps tapered trees
/// only: a hundred times as much makes the fullest link of `xgft:m=8x8x6,w=1x4x4` 0.3 % less full.
const WORK_MAX: usize = 20_000;

impl Spread<'_> {
    /// Returns the value of `work` (the sources found so far) at which exchanges end. In large trees it is the present
    /// value, so they get no exchanges.
    pub(super) fn end_of_exchanges(&self) -> usize {
        let entries = self.entries();
        let work = if entries > ENTRIES_MAX {
            0
        } else {
            entries.min(WORK_MAX)
        };
        self.work + work
    }

    /// Moves and exchanges entries until no channel carries more than `limit`. Returns false, and restores entries and
    /// loads, if a channel still carries more after `end` sources were found, or if no exchange is left.
    pub(super) fn exchange_all(&mut self, limit: u64, end: usize) -> bool {
        self.moves.clear();
        let mut attempt = Attempt {
            limit,
            end,
            in_vain: vec![u64::MAX; self.load.len()],
            sources: Vec::new(),
        };
        while self.work < end {
            let full = (0..self.load.len()).filter(|&c| self.load[c] > limit);
            let full: Vec<usize> = full.collect();
            let exchanges = full
                .into_iter()
                .filter(|&channel| attempt.exchange(self, channel))
                .count();
            if self.relieve_all(limit) {
                return true;
            }
            if exchanges == 0 {
                break;
            }
        }
        self.undo(0);
        false
    }
}

/// The exchanges that are tried for one limit.
struct Attempt {
    limit: u64,
    /// Number of found sources at which the attempt ends.
    end: usize,
    /// By channel: the smallest excess over the limit that single moves could not remove since the last exchange.
    in_vain: Vec<u64>,
    /// Working memory: the sources of one destination.
    sources: Vec<Source>,
}

impl Attempt {
    /// Moves an entry from a full channel to a route on which one other channel becomes too full by it. Then moves
    /// entries off the other channel until it is within the limit. Returns false, and leaves entries and loads as they
    /// were, if no such exchange is found.
    fn exchange(&mut self, spread: &mut Spread<'_>, channel: usize) -> bool {
        let (from, egress) = (channel / spread.stride, channel % spread.stride);
        for d in 0..spread.layer.to.len() {
            let column = spread.column(d);
            if usize::from(column.tile[from][column.place]) != egress || spread.layer.to[d] as usize == from {
                continue;
            }
            spread.find_sources(d, from);
            self.sources.clone_from(&spread.sources);
            for i in 0..self.sources.len() {
                let Source { switch, pairs, .. } = self.sources[i];
                let place = (d, switch as usize);
                while let Some((port, crowded)) = self.crowded_way(spread, place, pairs, channel) {
                    if spread.work >= self.end {
                        return false;
                    }
                    let before = spread.moves.len();
                    spread.take(place, pairs, port);
                    let excess = spread.load[crowded].saturating_sub(self.limit);
                    if spread.relieve(crowded, self.limit) {
                        self.in_vain.fill(u64::MAX);
                        return true;
                    }
                    spread.undo(before);
                    self.in_vain[crowded] = excess;
                }
            }
        }
        false
    }

    /// Returns a legal egress of a switch, and a channel. The route by this egress avoids `channel`; exactly one
    /// channel on it would carry more than the limit, which is the returned one. A channel that was tried in vain with
    /// the same or a smaller excess does not count.
    fn crowded_way(
        &self,
        spread: &Spread<'_>,
        (d, s): (usize, usize),
        pairs: u64,
        channel: usize,
    ) -> Option<(u8, usize)> {
        let (column, to) = (spread.column(d), spread.layer.to[d]);
        let now = Way::new(column, column.hop(s), to);
        let after = |c: usize| spread.load[c] + pairs;
        let excess = |c: usize| after(c).saturating_sub(self.limit);
        let is_in_vain = |c: usize| spread.load[c] > self.limit || excess(c) >= self.in_vain[c];
        let links = spread.rule.net.links.get(s).iter().filter(|k| k.alive && pairs > 0);
        for link in links {
            let first = s * spread.stride + usize::from(link.port);
            let leads = || spread.rule.leads(s, link.peer as usize, to as usize);
            if is_in_vain(first) || now.contains(first) || !leads() {
                continue;
            }
            let new = Way::new(column, Some((first, link.peer)), to);
            let mut crowded = new.iter().filter(|&c| !now.contains(c) && after(c) > self.limit);
            let one = crowded.next().filter(|&c| !is_in_vain(c) && crowded.next().is_none());
            if let Some(one) = one.filter(|_| !new.contains(channel) && !spread.is_taken(d, s, link.port)) {
                return Some((link.port, one));
            }
        }
        None
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "test code")]
mod tests {
    use selvedge_plan::{Lids, Tables};
    use selvedge_sim::Par;
    use selvedge_topology::Spec;
    use selvedge_types::{Lid, LidRange};

    use super::super::super::{FatTree, FatTreeOptions};
    use super::Spread;

    /// Runs `check` on the working state of a tree with its loads counted.
    fn with_spread(spec: &str, check: impl FnOnce(&mut Spread<'_>)) {
        let Ok(Spec::Generated(recipe)) = spec.parse() else {
            panic!("{spec}")
        };
        let fabric = recipe.fabric().unwrap();
        let mut lids = Lids::new();
        for ((at, _), lid) in fabric.end_ports().zip(1..) {
            lids.insert(at, LidRange::single(Lid(lid))).unwrap();
        }
        let tree = FatTree::detect(&fabric, &FatTreeOptions::default(), Par::Sequential).unwrap();
        let mut tables = Tables::new(fabric.switches().len(), lids.top());
        tree.fill(&lids, &mut tables, Par::Sequential).unwrap();
        let layer = tree.layer(&lids, 0, &tables).unwrap();
        let mut spread = Spread::new(&tree.rule, &mut tables, layer);
        spread.count(Par::Sequential);
        check(&mut spread);
    }

    const DAMAGED: [&str; 3] = [
        "sx6536:remove-links=3,seed=1",
        "pgft:m=6x4,w=1x2,p=1x3,remove-links=2,seed=3",
        "karytree:k=6,n=3,remove-links=3%,seed=5",
    ];

    #[test]
    fn a_limit_that_is_not_reached_leaves_entries_and_loads_as_they_were() {
        for spec in [DAMAGED[0], DAMAGED[2]] {
            with_spread(spec, |spread| {
                let (tables, load) = (spread.tables.clone(), spread.load.clone());
                // Some link must carry more than one pair less than the floor.
                let limit = spread.floor() - 1;
                assert!(!spread.exchange_all(limit, usize::MAX), "{spec}");
                assert!(spread.load == load && *spread.tables == tables, "{spec}");
                spread.relieve_all(limit);
                assert!(spread.load != load, "{spec}: entries were moved");
            });
        }
    }

    #[test]
    fn loads_are_those_of_the_entries_after_exchanges() {
        for spec in DAMAGED {
            with_spread(spec, |spread| {
                let before = spread.fullest();
                spread.even_out(spread.floor());
                let load = std::mem::take(&mut spread.load);
                spread.load = vec![0; load.len()];
                spread.count(Par::Sequential);
                assert_eq!(load, spread.load, "{spec}");
                assert!(spread.fullest() < before, "{spec}: {before}");
            });
        }
    }

    #[test]
    fn exchanges_end_with_their_budget() {
        with_spread(DAMAGED[2], |spread| {
            let limit = spread.floor() - 1;
            let mut used = |budget: usize| {
                let before = spread.work;
                assert!(!spread.exchange_all(limit, before.saturating_add(budget)));
                spread.work - before
            };
            let all = used(usize::MAX);
            assert_eq!(used(0), 0);
            let some = used(all / 2);
            assert!((all / 2..all).contains(&some), "{some} of {all}");
        });
    }
}
