//! Lower bound for the SMPs that any manager needs after a fault: the LFT blocks that every legal new plan must change.
//!
//! # Which plans are legal
//! LIDs stay unchanged, and so does every host with a link that is left. Packets from hosts must reach every LID, and
//! packets from switch agents must reach every host, wherever a cable path is left. There are no forwarding loops. On a
//! fabric with links only between neighbouring levels, packets from hosts must go up, then down ([`Rule::UpThenDown`]).
//! This applies to each LID that the old tables reach by such a path, if such a path is left after the fault. The
//! reason: a path that turns up again below the top can close a cycle of channel dependencies, and then levels alone do
//! not prove the repair. Elsewhere any path is legal ([`Rule::AnyWay`]). Any path is also legal to a switch agent that
//! the tables reach by a detour because of an earlier fault.
//!
//! # What must change
//! Let n(s) be the entry of switch s towards a LID, and let its old path lead over a lost link. Remove all other exits
//! of s from the remaining graph.
//!
//! * If some source, with packets that must be delivered, then has no legal path left, every plan that keeps n(s) loses
//!   these packets: *n(s) must change*.
//! * Otherwise *a plan that keeps n(s) exists*. Every switch with a downward path in this graph uses it. Every other
//!   switch with an up-then-down path goes up to one of these. Every other switch takes a shortest path to one of
//!   these. (With any path legal, all switches follow a tree of shortest paths.) These choices do not conflict at any
//!   switch, and each of them is legal.
//!
//! So the list is exact for single entries. The tests compare it with all possible plans on small fabrics.
//!
//! # Choices
//! Often one of two entries must change, but neither one in particular: packets of a host on the way up may take
//! another link at the leaf switch or at the next switch. Three rules find such sets of entries, of which at least one
//! must change:
//!
//! * Under up-then-down: if the old path of a host comes to a switch without a legal path onwards, some entry before
//!   that switch must change.
//! * If the old path of a source that must be served led over a lost link, some entry before the lost link must change.
//! * The new path of such a source leaves the set of switches that all had broken old paths. One of the switches in
//!   this set with a neighbour outside must change its entry.
//!
//! Sets that share no block with each other, nor with the single entries above, cost one SMP each. They are chosen
//! greedily, so the true bound may be higher.
//!
//! # Two numbers
//! [`Least::by_layout`] counts the blocks with the current LIDs. [`Least::by_fabric`] allows other LIDs, the best for
//! this fault: at each switch the n entries that must change fill at least ⌈n ÷ 64⌉ blocks, and each set at different
//! switches costs one SMP. Both are lower bounds for every way of making a plan.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use selvedge_fabric::PortRef;
use selvedge_plan::BLOCK_LIDS;
use selvedge_types::Lid;
use serde::Serialize;

use crate::ground::{Ground, Owner, Way};
use crate::subject::Subject;

/// Paths that packets of hosts may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Rule {
    /// Any path.
    AnyWay,
    /// Paths go up, then down.
    UpThenDown,
    /// Paths go up, then down, to some LIDs; any path is legal to the others.
    Both,
}

/// The entries and SMPs that every legal new plan must change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Least {
    /// The paths that were allowed.
    pub rule: Rule,
    /// Entries that must change: switch by index, and LID.
    pub entries: Vec<(u32, Lid)>,
    /// Fewest SMPs with the current LIDs: blocks with these entries, and one for each set of alternatives.
    pub by_layout: u64,
    /// Fewest SMPs with the best LIDs for this fault.
    pub by_fabric: u64,
}

/// Returns the least change when all links at the ports `lost` are lost. `before` is the fabric with these links and
/// the tables in force.
#[must_use]
pub fn least_change(before: Subject<'_>, lost: &[PortRef]) -> Least {
    let ground = Ground::new(before);
    if before.tables.switches() != ground.switches {
        return Least::of(Rule::AnyWay, Vec::new(), Vec::new());
    }
    let search = Search::new(&ground, lost);
    let goals = search.goals();
    let (mut entries, mut choices) = (Vec::new(), Vec::new());
    for (&home, goals) in &goals {
        let ways = search.ways(home, None);
        search.destination((home, &ways), goals, &mut entries, &mut choices);
    }
    entries.sort_unstable();
    let rules = goals.values().flatten().map(|goal| goal.rule);
    let rule = rules.reduce(|a, b| if a == b { a } else { Rule::Both });
    Least::of(rule.unwrap_or(Rule::AnyWay), entries, choices)
}

impl Least {
    fn of(rule: Rule, entries: Vec<(u32, Lid)>, mut choices: Vec<Choice>) -> Self {
        let block = |&(switch, lid): &(u32, Lid)| (switch, lid.index() / BLOCK_LIDS);
        let switch = |&(switch, _): &(u32, Lid)| (switch, 0);
        choices.sort_by_key(Vec::len);
        let blocks: BTreeSet<(u32, usize)> = entries.iter().map(block).collect();
        let switches: BTreeSet<(u32, usize)> = entries.iter().map(switch).collect();
        let of_switch = entries.chunk_by(|a, b| a.0 == b.0);
        let filled: u64 = of_switch.map(|of| of.len().div_ceil(BLOCK_LIDS) as u64).sum();
        Self {
            rule,
            by_layout: blocks.len() as u64 + apart(blocks, &choices, block),
            by_fabric: filled + apart(switches, &choices, switch),
            entries,
        }
    }
}

/// Entries of which at least one must change: switch by index, and LID.
type Choice = Vec<(u32, Lid)>;

/// Returns how many of the choices share nothing with each other and nothing with the blocks in `taken`.
fn apart(mut taken: BTreeSet<(u32, usize)>, choices: &[Choice], place: impl Fn(&(u32, Lid)) -> (u32, usize)) -> u64 {
    let mut count = 0;
    for choice in choices {
        if choice.iter().all(|entry| !taken.contains(&place(entry))) {
            count += 1;
            taken.extend(choice.iter().map(&place));
        }
    }
    count
}

/// A LID that some entry sends over a lost link.
#[derive(Clone, Copy)]
struct Goal {
    lid: Lid,
    is_host: bool,
    /// The paths that packets of hosts must take to the LID.
    rule: Rule,
}

struct Search<'g> {
    ground: &'g Ground<'g>,
    /// By channel: true if it is lost.
    dead: Vec<bool>,
    /// Channels that enter each switch and are not lost.
    into: Vec<Vec<u32>>,
    /// Links to the nearest switch with hosts, before the fault.
    level: Vec<u32>,
    /// Host ports with a lost link.
    cut_off: BTreeSet<PortRef>,
}

/// Stands for no level, or not reached.
const NONE: u32 = u32::MAX;

impl<'g> Search<'g> {
    fn new(ground: &'g Ground<'g>, lost: &[PortRef]) -> Self {
        let fabric = ground.subject.fabric;
        let ends: BTreeSet<PortRef> = lost
            .iter()
            .flat_map(|&at| std::iter::once(at).chain(fabric.peer(at)))
            .collect();
        let mut search = Self {
            ground,
            dead: vec![false; ground.channels.len()],
            into: vec![Vec::new(); ground.switches],
            level: levels(ground),
            cut_off: ground
                .hosts
                .iter()
                .map(|host| host.at)
                .filter(|at| ends.contains(at))
                .collect(),
        };
        for (channel, number) in ground.channels.iter().zip(0_u32..) {
            let is_lost = ends.iter().any(|end| {
                let is_port = fabric.switch_index(end.node).map(|s| s.0) == Some(channel.src);
                is_port && end.port.get() == channel.out
            });
            search.dead[number as usize] = is_lost;
            if !is_lost {
                search.into[channel.dst as usize].push(number);
            }
        }
        search
    }

    /// Returns the LIDs that some entry sends over a lost link, by the switch that their port is attached to. LIDs of
    /// hosts that lost their own link are left out.
    fn goals(&self) -> BTreeMap<u32, Vec<Goal>> {
        let mut goals: BTreeMap<u32, Vec<Goal>> = BTreeMap::new();
        let losing: Vec<_> = (0..self.ground.channels.len()).filter(|&c| self.dead[c]).collect();
        let is_step = |c: &crate::ground::Channel| {
            let [a, b] = [c.src, c.dst].map(|s| self.level[s as usize]);
            a != NONE && b != NONE && a.abs_diff(b) == 1
        };
        let has_levels = self.ground.channels.iter().all(is_step);
        for (lid, at) in self.ground.subject.lids.by_lid() {
            let (home, is_host) = match self.ground.owner(at) {
                Owner::Host(host) if !self.cut_off.contains(&at) => (self.ground.hosts[host as usize].switch, true),
                Owner::Switch(switch) => (switch, false),
                Owner::Host(_) | Owner::Dead | Owner::Nobody => continue,
            };
            let is_hit = losing.iter().any(|&c| {
                let channel = &self.ground.channels[c];
                channel.src != home && self.egress(channel.src, lid) == Some(c)
            });
            if is_hit {
                let rule = if has_levels && self.is_up_then_down(lid) {
                    Rule::UpThenDown
                } else {
                    Rule::AnyWay
                };
                goals.entry(home).or_default().push(Goal { lid, is_host, rule });
            }
        }
        goals
    }

    /// Returns the channel on which a switch sends to a LID.
    fn egress(&self, switch: u32, lid: Lid) -> Option<usize> {
        match self.ground.route(switch as usize, lid).1.way() {
            Way::Channel(channel) => Some(channel),
            Way::Host(_) | Way::Own | Way::Dead(_) => None,
        }
    }

    /// True if packets from hosts to a LID go up, then down.
    fn is_up_then_down(&self, lid: Lid) -> bool {
        let ground = self.ground;
        let turns_once = |first: u32| {
            let (mut at, mut is_down) = (first, false);
            for _ in 0..=ground.switches {
                let Some(channel) = self.egress(at, lid) else {
                    return true;
                };
                let next = ground.channels[channel].dst;
                let down = self.level[next as usize] < self.level[at as usize];
                if is_down && !down {
                    return false;
                }
                (at, is_down) = (next, down);
            }
            false
        };
        let mut senders = (0..ground.switches).filter(|&s| ground.host_count[s] > 0);
        senders.all(|s| turns_once(s as u32))
    }

    /// For the LIDs at one switch, adds the entries that must change, and the sets of entries of which at least one
    /// must change.
    fn destination(
        &self,
        (home, ways): (u32, &Ways),
        goals: &[Goal],
        entries: &mut Vec<(u32, Lid)>,
        choices: &mut Vec<Choice>,
    ) {
        let mut known: BTreeMap<(u32, usize, bool, bool), bool> = BTreeMap::new();
        for &goal in goals {
            let Goal { lid, is_host, rule } = goal;
            let broken = self.broken(home, lid);
            for s in (0..self.ground.switches as u32).filter(|&s| broken[s as usize]) {
                // A broken path begins with a channel.
                let Some(channel) = self.egress(s, lid) else { continue };
                let must = || match self.at_a_glance(s, channel, is_host, rule, ways) {
                    Some(must) => must,
                    None => self.is_missed(home, s, channel, is_host, rule, ways),
                };
                let of_kind = (s, channel, is_host, rule == Rule::UpThenDown);
                if *known.entry(of_kind).or_insert_with(must) {
                    entries.push((s, lid));
                }
            }
            self.turned_once(home, goal, ways, choices);
            self.led_over(goal, &broken, ways, choices);
            self.ways_out(goal, &broken, ways, choices);
        }
    }

    /// Follows the old path of each switch with hosts to the first switch from which no up-then-down path leads on. One
    /// of the entries on the path before that switch must change: adds the set of these entries.
    fn turned_once(&self, home: u32, goal: Goal, ways: &Ways, choices: &mut Vec<Choice>) {
        let senders = (0..self.ground.switches as u32).filter(|&s| self.must_turn_once(s, goal.rule, ways));
        for first in senders {
            let (mut at, mut is_down, mut before) = (first, false, Vec::new());
            while at != home && before.len() < self.ground.switches {
                let goes_on = if is_down { &ways.below } else { &ways.reach };
                if !goes_on[at as usize] {
                    choices.push(before);
                    break;
                }
                before.push((at, goal.lid));
                // A lost link means an entry that must change, or a switch that the search left out because its entry
                // need not change.
                let Some(channel) = self.egress(at, goal.lid).filter(|&c| !self.dead[c]) else {
                    break;
                };
                let next = self.ground.channels[channel].dst;
                is_down |= self.level[next as usize] < self.level[at as usize];
                at = next;
            }
        }
    }

    /// For each switch with packets that must be delivered and with an old path over a lost link: adds the set of
    /// entries of that path. If the path passes another such switch, the set of that switch is enough.
    fn led_over(&self, goal: Goal, broken: &[bool], ways: &Ways, choices: &mut Vec<Choice>) {
        for first in self.senders(goal, broken, ways) {
            let (mut at, mut before) = (first, vec![(first, goal.lid)]);
            while let Some(channel) = self.egress(at, goal.lid).filter(|&c| !self.dead[c]) {
                at = self.ground.channels[channel].dst;
                if self.must_arrive(at, goal.is_host, ways) {
                    before.clear();
                    break;
                }
                before.push((at, goal.lid));
            }
            choices.extend((!before.is_empty()).then_some(before));
        }
    }

    /// For each group of adjacent switches that all had broken paths and include a source that must be served: adds the
    /// set of entries of those switches in the group with a neighbour outside.
    fn ways_out(&self, goal: Goal, broken: &[bool], ways: &Ways, choices: &mut Vec<Choice>) {
        let mut out: BTreeSet<u32> = BTreeSet::new();
        for (channel, number) in self.ground.channels.iter().zip(0_usize..) {
            if !self.dead[number] && broken[channel.src as usize] && !broken[channel.dst as usize] {
                out.insert(channel.src);
            }
        }
        let mut met = vec![false; self.ground.switches];
        for first in self.senders(goal, broken, ways) {
            if met[first as usize] {
                continue;
            }
            let near = self.spread(only_at(first, self.ground.switches), |_, to, from| {
                broken[to as usize] && broken[from as usize]
            });
            let is_near = |s: &&u32| near[**s as usize];
            choices.push(out.iter().filter(is_near).map(|&s| (s, goal.lid)).collect());
            met.iter_mut().zip(near).for_each(|(met, near)| *met |= near);
        }
    }

    /// Returns the switches with packets that must be delivered and an old path over a lost link.
    fn senders<'a>(&'a self, goal: Goal, broken: &'a [bool], ways: &'a Ways) -> impl Iterator<Item = u32> + 'a {
        let all = 0..self.ground.switches as u32;
        all.filter(move |&s| broken[s as usize] && self.must_arrive(s, goal.is_host, ways))
    }

    /// True if packets of the switch, or of its hosts, must be delivered. Traffic between switches need not be.
    fn must_arrive(&self, s: u32, is_host: bool, ways: &Ways) -> bool {
        ways.joined[s as usize] && (is_host || self.ground.host_count[s as usize] > 0)
    }

    /// True if packets of a switch's hosts must go up, then down.
    fn must_turn_once(&self, s: u32, rule: Rule, ways: &Ways) -> bool {
        rule == Rule::UpThenDown && ways.reach[s as usize] && self.ground.host_count[s as usize] > 0
    }

    /// Returns the answer if it needs no search. That is nearly always the case.
    fn at_a_glance(&self, s: u32, channel: usize, is_host: bool, rule: Rule, ways: &Ways) -> Option<bool> {
        if self.dead[channel] {
            return self.must_arrive(s, is_host, ways).then_some(true);
        }
        if rule == Rule::AnyWay {
            return None;
        }
        let next = self.ground.channels[channel].dst;
        let goes_down = self.level[next as usize] < self.level[s as usize];
        let leads = if goes_down { &ways.below } else { &ways.reach };
        if !leads[next as usize] {
            return self.must_turn_once(s, rule, ways).then_some(true);
        }
        // Levels only decrease after `next`, or they rise where the downward path does not pass s. A switch with a path
        // to s can therefore continue.
        (goes_down || !ways.below[s as usize]).then_some(false)
    }

    /// True if some source loses its path when all other exits of the switch are removed.
    fn is_missed(&self, home: u32, s: u32, channel: usize, is_host: bool, rule: Rule, all: &Ways) -> bool {
        let left = self.ways(home, Some((s, channel)));
        (0..self.ground.switches as u32).any(|other| {
            let at = other as usize;
            let is_lost = self.must_arrive(other, is_host, all) && !left.joined[at];
            is_lost || (self.must_turn_once(other, rule, all) && !left.reach[at])
        })
    }

    /// Returns the switches with an old path to the LID over a lost link.
    fn broken(&self, home: u32, lid: Lid) -> Vec<bool> {
        const UNKNOWN: u8 = 0;
        const WHOLE: u8 = 1;
        const BROKEN: u8 = 2;
        let mut fate = vec![UNKNOWN; self.ground.switches];
        fate[home as usize] = WHOLE;
        for first in 0..self.ground.switches as u32 {
            let (mut at, mut path) = (first, Vec::new());
            let end = loop {
                if fate[at as usize] != UNKNOWN {
                    break fate[at as usize];
                }
                // Ends a forwarding loop. Such tables are not in force for long.
                fate[at as usize] = WHOLE;
                path.push(at);
                match self.egress(at, lid) {
                    None => break WHOLE,
                    Some(channel) if self.dead[channel] => break BROKEN,
                    Some(channel) => at = self.ground.channels[channel].dst,
                }
            };
            path.into_iter().for_each(|at| fate[at as usize] = end);
        }
        fate.into_iter().map(|fate| fate == BROKEN).collect()
    }

    /// Returns the paths to `home` in the remaining graph; `only` names a switch and the single exit that it may use.
    fn ways(&self, home: u32, only: Option<(u32, usize)>) -> Ways {
        let is_there = |channel: u32| {
            let src = self.ground.channels[channel as usize].src;
            only.is_none_or(|(s, exit)| src != s || channel as usize == exit)
        };
        let is_up = |to: u32, from: u32| self.level[to as usize] < self.level[from as usize];
        let joined = self.spread(only_at(home, self.ground.switches), |c, _, _| is_there(c));
        let below = self.spread(only_at(home, self.ground.switches), |c, to, from| {
            is_there(c) && is_up(to, from)
        });
        let reach = self.spread(below.clone(), |c, to, from| is_there(c) && is_up(from, to));
        Ways { joined, below, reach }
    }

    /// Returns all switches with allowed channels that lead to the switches marked in `met`.
    fn spread(&self, mut met: Vec<bool>, allowed: impl Fn(u32, u32, u32) -> bool) -> Vec<bool> {
        let begin = (0..self.ground.switches as u32).filter(|&s| met[s as usize]);
        let mut open: VecDeque<u32> = begin.collect();
        while let Some(at) = open.pop_front() {
            for &channel in &self.into[at as usize] {
                let from = self.ground.channels[channel as usize].src;
                if !met[from as usize] && allowed(channel, at, from) {
                    met[from as usize] = true;
                    open.push_back(from);
                }
            }
        }
        met
    }
}

/// Switches that have a path to a destination.
struct Ways {
    /// By switch: true if any path leads from it to the LID's switch.
    joined: Vec<bool>,
    /// By switch: true if such a path only goes down.
    below: Vec<bool>,
    /// By switch: true if such a path goes up, then down.
    reach: Vec<bool>,
}

fn only_at(home: u32, switches: usize) -> Vec<bool> {
    let mut met = vec![false; switches];
    met[home as usize] = true;
    met
}

/// Returns the number of links between each switch and the nearest one with hosts.
fn levels(ground: &Ground<'_>) -> Vec<u32> {
    let mut next: Vec<Vec<u32>> = vec![Vec::new(); ground.switches];
    for channel in &ground.channels {
        next[channel.src as usize].push(channel.dst);
    }
    let first = (0..ground.switches as u32).filter(|&s| ground.host_count[s as usize] > 0);
    let mut open: VecDeque<u32> = first.collect();
    let mut level = vec![NONE; ground.switches];
    open.iter().for_each(|&s| level[s as usize] = 0);
    while let Some(at) = open.pop_front() {
        for &to in &next[at as usize] {
            if level[to as usize] == NONE {
                level[to as usize] = level[at as usize] + 1;
                open.push_back(to);
            }
        }
    }
    level
}
