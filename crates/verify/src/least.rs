//! The fewest SMPs that a fault costs anybody: blocks with an entry that every legal new plan must change.
//!
//! # Which plans are legal
//! LIDs stay as they are, and so does every host that still has its link. Packets of hosts must reach every LID, and
//! packets of switches' agents every host, wherever a cable still leads; nothing goes in a circle. On a fabric whose
//! links all join neighbouring levels, packets of hosts must go on up, then down, to each LID to which the tables lead
//! them so, where such a way is left ([`Rule::UpThenDown`]): a way that turns up again below the top can close a circle
//! of waiting channels, and a repair that uses one has to be proved by more than its levels. Elsewhere any way will do
//! ([`Rule::AnyWay`]), as to the agent of a switch that is reached by a detour since an earlier fault.
//!
//! # What must change
//! The entry n(s) of a switch s towards a LID, if the old way from s led over what is lost, and no legal plan keeps it.
//! Take all other entries of s out of the graph of what is left: if somebody whose packets must arrive has no way any
//! more (up, then down, where that is his duty), every plan that keeps n(s) loses his packets, so *n(s) must change*.
//! Else *a plan that keeps it exists*: let every switch that can go down in this graph do so; every other from which a
//! way up, then down leads go up to one that can; every other go along a shortest way to one of these (any way: all go
//! along a tree of shortest ways). No two of these ways disagree at a switch, and each does its duty.
//!
//! So the list is exact for single entries; the tests compare it with all plans there are, on small fabrics.
//!
//! # Choices
//! Often either this entry or that one must change, and neither alone must: packets of a host on the way up may turn
//! off at its leaf or one switch further. Up, then down, where the old way of a host comes to a switch from which no
//! such way goes on, some entry before that switch must change. Two more hold for any way. The old way of somebody who
//! must arrive led over what is lost: some entry on it, as far as the loss, must change. And his new way leaves the
//! switches whose old ways were all broken somewhere: from one that has a neighbour outside, whose entry must change.
//! Such sets of entries that have no block in common with each other, nor with the entries above, cost an SMP each.
//! They are picked greedily, so there may be more.
//!
//! # Two numbers
//! [`Least::by_layout`] counts the blocks with the LIDs in force. [`Least::by_fabric`] allows other LIDs, the best for
//! this fault: at each switch the entries that must change fill ⌈n ÷ 64⌉ blocks at least, and choices of different
//! switches are one each. Both are bounds from below, however a plan is made.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use selvedge_fabric::PortRef;
use selvedge_plan::BLOCK_LIDS;
use selvedge_types::Lid;
use serde::Serialize;

use crate::ground::{Ground, Owner, Way};
use crate::subject::Subject;

/// Which ways packets of hosts may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Rule {
    /// Any.
    AnyWay,
    /// Up, then down.
    UpThenDown,
    /// Up, then down to some LIDs, any way to others.
    Both,
}

/// What every legal new plan must change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Least {
    /// Which ways were allowed.
    pub rule: Rule,
    /// Entries: switch by position, and LID.
    pub entries: Vec<(u32, Lid)>,
    /// SMPs at least, with the LIDs in force: blocks that hold these entries, and choices.
    pub by_layout: u64,
    /// SMPs at least, with the best LIDs for this fault.
    pub by_fabric: u64,
}

/// The least change when all links at these ports are lost. `before` is the fabric with these links and the tables in
/// force.
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

/// Entries of which one must change at least: switch by position, and LID.
type Choice = Vec<(u32, Lid)>;

/// How many of the choices have nothing in common with each other, nor with what is sent anyway.
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

/// A LID that some entry sends over what is lost.
#[derive(Clone, Copy)]
struct Goal {
    lid: Lid,
    is_host: bool,
    /// How packets of hosts must go there.
    rule: Rule,
}

struct Search<'g> {
    ground: &'g Ground<'g>,
    /// Whether each channel is lost.
    dead: Vec<bool>,
    /// Channels that enter each switch and are not lost.
    into: Vec<Vec<u32>>,
    /// Links to the nearest switch with hosts, while nothing was lost.
    level: Vec<u32>,
    /// Host ports that are lost.
    cut_off: BTreeSet<PortRef>,
}

/// No level, or not met.
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

    /// LIDs that some entry sends over what is lost, by the switch at which they are. Those of hosts that have lost
    /// their own link are nobody's any more.
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

    /// The channel by which a switch sends towards a LID.
    fn egress(&self, switch: u32, lid: Lid) -> Option<usize> {
        match self.ground.route(switch as usize, lid).1.way() {
            Way::Channel(channel) => Some(channel),
            Way::Host(_) | Way::Own | Way::Dead(_) => None,
        }
    }

    /// Whether packets of hosts to a LID turn down once.
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

    /// Adds the entries towards the LIDs at one switch that must change, and sets of entries of which one must.
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
                // A broken way begins with a channel.
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

    /// Adds, for each switch with hosts whose way comes to where no way up, then down goes on, the entries before that.
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
                // A lost link is an entry that must change, or its switch was passed over as one that must not.
                let Some(channel) = self.egress(at, goal.lid).filter(|&c| !self.dead[c]) else {
                    break;
                };
                let next = self.ground.channels[channel].dst;
                is_down |= self.level[next as usize] < self.level[at as usize];
                at = next;
            }
        }
    }

    /// Adds, for each switch whose packets must arrive and came to what is lost, the entries of that way. Where it
    /// leads past another such switch those of the other one say as much.
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

    /// Adds, for each set of neighbours whose old ways were all broken, and of which somebody must arrive, the entries
    /// of those that have a neighbour outside.
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

    /// Switches whose packets must arrive, and whose old way led over what is lost.
    fn senders<'a>(&'a self, goal: Goal, broken: &'a [bool], ways: &'a Ways) -> impl Iterator<Item = u32> + 'a {
        let all = 0..self.ground.switches as u32;
        all.filter(move |&s| broken[s as usize] && self.must_arrive(s, goal.is_host, ways))
    }

    /// Whether packets of a switch, or of its hosts, must arrive; switches that talk to switches are nobody's worry.
    fn must_arrive(&self, s: u32, is_host: bool, ways: &Ways) -> bool {
        ways.joined[s as usize] && (is_host || self.ground.host_count[s as usize] > 0)
    }

    /// Whether packets of a switch's hosts must go up, then down.
    fn must_turn_once(&self, s: u32, rule: Rule, ways: &Ways) -> bool {
        rule == Rule::UpThenDown && ways.reach[s as usize] && self.ground.host_count[s as usize] > 0
    }

    /// The answer where it needs no search: nearly always.
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
        // Levels only fall behind `next`, or rise where s cannot be met on the way down: whoever came to s can go on.
        (goes_down || !ways.below[s as usize]).then_some(false)
    }

    /// Whether somebody misses the other entries of a switch.
    fn is_missed(&self, home: u32, s: u32, channel: usize, is_host: bool, rule: Rule, all: &Ways) -> bool {
        let left = self.ways(home, Some((s, channel)));
        (0..self.ground.switches as u32).any(|other| {
            let at = other as usize;
            let is_lost = self.must_arrive(other, is_host, all) && !left.joined[at];
            is_lost || (self.must_turn_once(other, rule, all) && !left.reach[at])
        })
    }

    /// Switches whose way to a LID led over what is lost.
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
                // So that a circle ends; no such table is in force for long.
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

    /// Where ways to `home` begin in what is left, if a switch has one exit only.
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

    /// All switches from which allowed channels lead to where it begins.
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

/// Switches from which ways lead to a destination.
struct Ways {
    /// Any way.
    joined: Vec<bool>,
    /// Down all the way.
    below: Vec<bool>,
    /// Up, then down.
    reach: Vec<bool>,
}

fn only_at(home: u32, switches: usize) -> Vec<bool> {
    let mut met = vec![false; switches];
    met[home as usize] = true;
    met
}

/// Links between each switch and the nearest one with hosts.
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
