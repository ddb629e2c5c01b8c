//! Checks whether the remaining tree joins all hosts, and finds routes for switches that it does not join.

use super::bits::BitSets;
use super::error::NotATree;
use super::pieces::Union;
use super::rule::Rule;
use super::shape::NONE;

/// Pairs of switches without a path.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Unjoined {
    /// Pairs of upper switches without hosts.
    pub uppers: usize,
    /// Number of pairs without a path of which one switch has hosts.
    pub stranded: usize,
}

/// Refuses a tree in which leaves with hosts have no path up, then down, to each other, although links join them.
/// Chooses the *meeting leaf*, through which stranded switches are reached: if no switch above or below leads to the
/// destination of a packet, the packet goes to that leaf, which has a route.
///
/// This makes no credit loop. Think of the meeting leaf as the new root: turn the leaf and all switches above it upside
/// down and put them on top of the tree. Then all paths, also paths to and from the leaf, still go up first and down
/// last. This needs one condition: each switch above the leaf leads down to it by one neighbour only, as in a tree.
/// Where this does not hold, the pairs count as stranded.
///
/// A switch with no path up, then down, to the meeting leaf itself always sends to the same neighbour, one that has
/// such a path. This neighbour then counts as above the switch; therefore the switch may have no upper neighbour of its
/// own.
///
/// Returns the pairs that remain without a path.
pub(super) fn connect(rule: &mut Rule) -> Result<Unjoined, NotATree> {
    let real = rule.net.real;
    let mut union = Union::new(rule.net.total());
    for s in 0..real {
        for link in rule.net.links.get(s).iter().filter(|k| k.alive) {
            union.join(s, link.peer as usize);
        }
    }
    let part: Vec<usize> = (0..real).map(|s| union.find(s)).collect();
    let has_hosts = |s: usize| !rule.net.hosts.get(s).is_empty();
    let mut missing = Vec::new();
    let mut unjoined = Unjoined::default();
    let parts = masks(rule, &part);
    for (s, &in_part) in part.iter().enumerate() {
        let matters = has_hosts(s) || rule.shape.level[s] == 0;
        for (w, (&all, &have)) in parts.row(in_part).iter().zip(rule.reach.row(s)).enumerate() {
            let mut lost = all & !have;
            while lost != 0 {
                let to = w * 64 + lost.trailing_zeros() as usize;
                lost &= lost - 1;
                if matters || has_hosts(to) || rule.shape.level[to] == 0 {
                    missing.push((s, to));
                } else {
                    unjoined.uppers += 1;
                }
            }
        }
    }
    let between_leaves = |&&(s, to): &&(usize, usize)| {
        has_hosts(s) && has_hosts(to) && rule.shape.level[s] == 0 && rule.shape.level[to] == 0
    };
    if let Some(pair) = missing.iter().find(between_leaves) {
        return Err(apart(rule, *pair));
    }
    let mut meeting: Vec<u32> = vec![NONE; rule.net.total()];
    let mut parts_met: Vec<usize> = missing.iter().map(|&(s, _)| part[s]).collect();
    parts_met.sort_unstable();
    parts_met.dedup();
    for p in parts_met {
        let at = meeting_leaf(rule, &part, p, &missing);
        (0..real).filter(|&s| part[s] == p).for_each(|s| meeting[s] = at);
    }
    let mut stranded = vec![false; rule.net.total()];
    missing.iter().for_each(|&(_, to)| stranded[to] = true);
    rule.climb = climbs(rule, &part, &meeting);
    (rule.meeting, rule.stranded) = (meeting, stranded);
    if !is_safe(rule) {
        unjoined.stranded += missing.len();
        return Ok(unjoined);
    }
    rule.descent = descents(rule);
    for &(s, to) in &missing {
        let at = rule.meeting[s];
        let joined = |x: usize, reached: bool| reached || rule.climb[x] != NONE;
        let goes = at != NONE && joined(s, rule.reach.has(s, at as usize));
        if !goes || !joined(to, rule.reach.has(at as usize, to)) {
            if has_hosts(s) && has_hosts(to) {
                return Err(apart(rule, (s, to)));
            }
            unjoined.stranded += 1;
        }
    }
    Ok(unjoined)
}

/// True if routes over meeting leaves are free of deadlocks; see [`connect`].
fn is_safe(rule: &Rule) -> bool {
    let mut leaves: Vec<u32> = rule.meeting.iter().copied().filter(|&at| at != NONE).collect();
    leaves.sort_unstable();
    leaves.dedup();
    let climbs_from_top = |s: usize| rule.climb[s] == NONE || !has_upper(rule, s);
    leaves.iter().all(|&at| is_tree_above(rule, at as usize)) && (0..rule.net.real).all(climbs_from_top)
}

/// True if a switch has a live link upwards.
fn has_upper(rule: &Rule, s: usize) -> bool {
    let level = &rule.shape.level;
    let mut links = rule.net.links.get(s).iter();
    links.any(|k| k.alive && level[k.peer as usize] > level[s])
}

/// True if every switch above a leaf leads down to it by one neighbour only.
fn is_tree_above(rule: &Rule, leaf: usize) -> bool {
    let ways = |s: usize| {
        let links = rule.net.links.get(s).iter();
        let mut down: Vec<u32> = links
            .filter(|k| k.alive && rule.shape.level[k.peer as usize] < rule.shape.level[s])
            .filter(|k| rule.below.has(k.peer as usize, leaf))
            .map(|k| k.peer)
            .collect();
        down.sort_unstable();
        down.dedup();
        down.len()
    };
    let above = (0..rule.net.real).filter(|&s| s != leaf && rule.below.has(s, leaf));
    above.into_iter().all(|s| ways(s) <= 1)
}

/// For each switch that does not reach its meeting leaf by a path up, then down: returns the next switch on its route
/// to a switch that does.
fn climbs(rule: &Rule, part: &[usize], meeting: &[u32]) -> Vec<u32> {
    let mut climb = vec![NONE; rule.net.total()];
    let is_there = |s: usize| meeting[s] != NONE && rule.reach.has(s, meeting[s] as usize);
    let mut done: Vec<bool> = (0..part.len()).map(is_there).collect();
    loop {
        // All switches of one round at once: which of several equal ones is first must not depend on the order of
        // switches.
        let next = |s: usize| {
            let near = rule
                .net
                .links
                .get(s)
                .iter()
                .filter(|k| k.alive && done[k.peer as usize]);
            near.map(|k| k.peer).min().map(|peer| (s, peer))
        };
        let round: Vec<(usize, u32)> = (0..part.len())
            .filter(|&s| !done[s] && meeting[s] != NONE)
            .filter_map(next)
            .collect();
        if round.is_empty() {
            return climb;
        }
        for (s, peer) in round {
            climb[s] = peer;
            done[s] = true;
        }
    }
}

/// Returns the entries on routes from the meeting leaf to stranded switches that it cannot reach by a path up, then
/// down. Such a route goes up, then down to a switch of the path by which the stranded switch sends to the meeting
/// leaf: to the first such switch that the leaf can reach. From there it goes back along that path to the stranded
/// switch.
fn descents(rule: &Rule) -> Vec<((u32, u32), u8)> {
    let mut all = Vec::new();
    for to in (0..rule.net.real).filter(|&to| rule.stranded[to] && rule.climb[to] != NONE) {
        let meeting = rule.meeting[to] as usize;
        if rule.reach.has(meeting, to) {
            continue;
        }
        let mut way = vec![to];
        while let Some(&last) = way.last()
            && !rule.reach.has(meeting, last)
            && rule.climb[last] != NONE
        {
            way.push(rule.climb[last] as usize);
        }
        let Some(&first) = way.last().filter(|&&first| rule.reach.has(meeting, first)) else {
            continue;
        };
        let mut put = |s: usize, egress: u8| {
            if !rule.reach.has(s, to) {
                all.push(((s as u32, to as u32), egress));
            }
        };
        let mut at = meeting;
        while at != first {
            let egress = rule.towards_meeting(at, first, None);
            put(at, egress);
            let Some(link) = rule.net.links.get(at).iter().find(|k| k.port == egress && k.alive) else {
                break;
            };
            at = link.peer as usize;
        }
        for pair in way.windows(2) {
            put(pair[1], rule.any_link(pair[1], pair[0] as u32, None));
        }
    }
    all.sort_unstable();
    all
}

fn apart(rule: &Rule, (from, to): (usize, usize)) -> NotATree {
    NotATree::Apart {
        from: rule.net.guid[from],
        to: rule.net.guid[to],
    }
}

/// Returns the switches of each part, in the row of the switch that represents the part.
fn masks(rule: &Rule, part: &[usize]) -> BitSets {
    let mut sets = BitSets::new(part.len(), rule.net.total());
    for (s, &p) in part.iter().enumerate() {
        sets.insert(p, s);
    }
    sets
}

/// Returns the first leaf over which most of the missing pairs have a route.
fn meeting_leaf(rule: &Rule, part: &[usize], p: usize, missing: &[(usize, usize)]) -> u32 {
    /// Pairs that are examined: enough to find a good leaf.
    const SAMPLE: usize = 20_000;
    let step = missing.len().div_ceil(SAMPLE).max(1);
    let sample: Vec<(usize, usize)> = missing
        .iter()
        .copied()
        .filter(|&(s, _)| part[s] == p)
        .step_by(step)
        .collect();
    let mut best = (0, NONE);
    for &leaf in rule.shape.leaves.iter().filter(|&&s| part.get(s as usize) == Some(&p)) {
        let here = leaf as usize;
        let joins = |&&(s, to): &&(usize, usize)| rule.reach.has(s, here) && rule.reach.has(here, to);
        let score = sample.iter().filter(joins).count();
        if score > best.0 {
            best = (score, leaf);
        }
        if score == sample.len() {
            break;
        }
    }
    best.1
}
