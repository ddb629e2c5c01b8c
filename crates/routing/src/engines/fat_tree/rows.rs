//! Rows in short form: every switch's entries as pieces of repeating patterns.

use std::collections::BTreeMap;

use selvedge_graph::Lists;
use selvedge_plan::NO_PATH;
use selvedge_sim::Par;

use super::bits::{BitSets, ones};
use super::rule::Rule;
use super::shape::Slot;
use super::targets::Targets;

/// Longest period of a pattern; entries of a longer one are worked out one by one. 16 KiB: it should stay in a cache.
const PERIOD_MAX: u64 = 1 << 14;
/// Number of entries that are stored after the end of a pattern, so that whole blocks can be copied: a block may start
/// at any entry of the pattern, and a copy may start at any entry of that block.
const OVERHANG: usize = 128;
/// Class of a piece without a pattern.
pub(super) const SLOW: u32 = u32::MAX;

/// Class of the piece of a leaf's own hosts.
pub(super) const OWN: u32 = u32::MAX - 1;

/// Entries towards the leaves `from..to` (places in the order of leaves).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub from: u32,
    pub to: u32,
    /// Where the pattern of the piece starts in [`Rows::patterns`]: the entry for number 0.
    pub pattern: u32,
    /// The class of the period; [`SLOW`] if there is no pattern, [`OWN`] if the switch is the leaf.
    pub class: u32,
}

/// Short forms of all rows.
#[derive(Clone, Debug, Default)]
pub(super) struct Rows {
    pub pieces: Lists<Piece>,
    pub patterns: Vec<u8>,
    /// The periods, by class.
    pub periods: Vec<u32>,
    /// Egress of every switch towards every upper destination, switch by switch, and [`OVERHANG`] bytes more.
    pub uppers: Vec<u8>,
}

/// A pattern with its period.
type Pattern = (u32, Vec<u8>);

impl Rows {
    /// Works out the patterns.
    pub fn new(rule: &Rule, targets: &Targets, par: Par) -> Self {
        /// Number of switches of one job, which share its working memory.
        const AT_ONCE: usize = 64;
        let real = rule.net.real;
        let drafts = par.map(real.div_ceil(AT_ONCE), |job| {
            let mut leads = Leads::new(rule);
            let mut uppers = Vec::with_capacity(AT_ONCE * targets.uppers.len());
            let mut drafts = Vec::with_capacity(AT_ONCE);
            for s in job * AT_ONCE..real.min((job + 1) * AT_ONCE) {
                leads.look_from(rule, s);
                drafts.push(draft(rule, s, &leads));
                towards_uppers(rule, targets, s, &leads, &mut uppers);
            }
            (drafts, uppers)
        });
        let mut rows = Self::default();
        let mut known = Known::default();
        for (drafts, uppers) in drafts {
            rows.uppers.extend_from_slice(&uppers);
            for (pieces, patterns) in drafts {
                let at: Vec<(u32, u32)> = patterns.into_iter().map(|p| known.find(&mut rows, p)).collect();
                let own = rows.pieces.len();
                rows.pieces.push(pieces.into_iter().map(|(from, to, pattern)| {
                    let is_own = rule.shape.leaves[from as usize] as usize == own;
                    let none = (0, if is_own { OWN } else { SLOW });
                    let (pattern, class) = pattern.map_or(none, |i| at[i]);
                    Piece {
                        from,
                        to,
                        pattern,
                        class,
                    }
                }));
            }
        }
        rows.uppers.extend([NO_PATH; OVERHANG]);
        rows
    }

    fn add(&mut self, period: u32, bytes: &[u8]) -> (u32, u32) {
        let at = self.patterns.len();
        self.patterns.extend_from_slice(bytes);
        self.patterns.extend((0..OVERHANG).map(|i| bytes[i % bytes.len()]));
        let class = self.periods.iter().position(|&p| p == period).unwrap_or_else(|| {
            self.periods.push(period);
            self.periods.len() - 1
        });
        (
            u32::try_from(at).unwrap_or(u32::MAX),
            u32::try_from(class).unwrap_or(SLOW),
        )
    }
}

/// Patterns found so far, each with its position and class.
#[derive(Default)]
struct Known {
    constant: BTreeMap<u8, (u32, u32)>,
    other: BTreeMap<Pattern, (u32, u32)>,
}

impl Known {
    fn find(&mut self, rows: &mut Rows, pattern: Pattern) -> (u32, u32) {
        match pattern.1[..] {
            [port] => *self.constant.entry(port).or_insert_with(|| rows.add(1, &[port])),
            _ => *self.other.entry(pattern).or_insert_with_key(|p| rows.add(p.0, &p.1)),
        }
    }
}

/// By destination switch: the neighbours of one switch that lead to it.
struct Leads {
    /// The index of the neighbour below through which the destination is reached; [`NO_NEIGHBOUR`] or [`SEVERAL`] if
    /// there is not exactly one.
    down: Vec<u16>,
    /// The position of the upper neighbour that leads to the destination: of the only one that is above the
    /// destination, or else of the only one that reaches it. [`NO_NEIGHBOUR`], [`SEVERAL`] or [`SEVERAL_FAR`] if there
    /// is not exactly one.
    up: Vec<u16>,
    once: Vec<u64>,
    more: Vec<u64>,
}

const NO_NEIGHBOUR: u16 = u16::MAX;
const SEVERAL: u16 = u16::MAX - 1;
/// There are several positions from which the switch is reached, but none of them is above it.
const SEVERAL_FAR: u16 = u16::MAX - 2;

impl Leads {
    fn new(rule: &Rule) -> Self {
        let total = rule.net.total();
        let words = rule.below.row(0).len();
        Self {
            down: vec![NO_NEIGHBOUR; total],
            up: vec![NO_NEIGHBOUR; total],
            once: vec![0; words],
            more: vec![0; words],
        }
    }

    fn look_from(&mut self, rule: &Rule, s: usize) {
        let (mut down, mut up) = (core::mem::take(&mut self.down), core::mem::take(&mut self.up));
        down.fill(NO_NEIGHBOUR);
        up.fill(NO_NEIGHBOUR);
        self.look(rule.shape.down.get(s), &rule.below, SEVERAL, &mut down);
        // Positions directly above the destination come first, as in the rule.
        let slots = rule.shape.up.get(s);
        self.look(slots, &rule.reach, SEVERAL_FAR, &mut up);
        self.look(slots, &rule.below, SEVERAL, &mut up);
        (self.down, self.up) = (down, up);
    }

    /// For each switch in the sets of the neighbours `slots`: writes to `lead` the only neighbour with that switch in
    /// its set, or `several` if there is more than one such neighbour.
    fn look(&mut self, slots: &[Slot], sets: &BitSets, several: u16, lead: &mut [u16]) {
        let live = || slots.iter().enumerate().filter(|(_, slot)| slot.live);
        self.once.fill(0);
        self.more.fill(0);
        for (_, slot) in live() {
            for ((once, more), &set) in self
                .once
                .iter_mut()
                .zip(&mut self.more)
                .zip(sets.row(slot.peer as usize))
            {
                *more |= *once & set;
                *once |= set;
            }
        }
        ones(self.more.iter().copied()).for_each(|to| lead[to] = several);
        for (i, slot) in live() {
            let only = sets.row(slot.peer as usize).iter().zip(&self.more);
            ones(only.map(|(&set, &more)| set & !more)).for_each(|to| lead[to] = i as u16);
        }
    }
}

/// Pieces (from, to, which pattern) and patterns of one switch.
type Draft = (Vec<(u32, u32, Option<usize>)>, Vec<Pattern>);

fn draft(rule: &Rule, s: usize, leads: &Leads) -> Draft {
    let mut patterns = Vec::new();
    let up = up_pattern(rule, s).map(|p| {
        patterns.push(p);
        patterns.len() - 1
    });
    let children = rule.shape.down.get(s);
    let mut of_child: Vec<Option<Option<usize>>> = vec![None; children.len()];
    let mut pieces: Vec<(u32, u32, Option<usize>)> = Vec::new();
    let live: Vec<&Slot> = rule.shape.up.get(s).iter().filter(|slot| slot.live).collect();
    let regular = Regular::new(rule, &live);
    for (i, &leaf) in (0_u32..).zip(&rule.shape.leaves) {
        let to = leaf as usize;
        let kind = match leads.down[to] {
            _ if to == s => None,
            NO_NEIGHBOUR if regular.has(to) => up,
            NO_NEIGHBOUR | SEVERAL => None,
            child => *of_child[usize::from(child)].get_or_insert_with(|| {
                let pattern = down_pattern(rule, s, &children[usize::from(child)])?;
                patterns.push(pattern);
                Some(patterns.len() - 1)
            }),
        };
        match pieces.last_mut() {
            Some(last) if last.2 == kind && to != s && rule.shape.leaves[i as usize - 1] as usize != s => {
                last.1 = i + 1;
            }
            _ => pieces.push((i, i + 1, kind)),
        }
    }
    (pieces, patterns)
}

/// Leaves towards which all positions upwards are equally good.
struct Regular(Vec<u64>);

impl Regular {
    fn new(rule: &Rule, live: &[&Slot]) -> Self {
        let words = rule.below.row(0).len();
        let regular = (0..words).map(|w| {
            let below = live.iter().map(|slot| rule.below.row(slot.peer as usize)[w]);
            let reach = live.iter().map(|slot| rule.reach.row(slot.peer as usize)[w]);
            let all_below = below.clone().fold(u64::MAX, |a, b| a & b);
            let any_below = below.fold(0, |a, b| a | b);
            let all_reach = reach.fold(u64::MAX, |a, b| a & b);
            let frayed = live.iter().map(|slot| rule.frayed.row(slot.peer as usize)[w]);
            (all_below | !any_below & all_reach) & !frayed.fold(0, |a, b| a | b)
        });
        Self(if live.is_empty() {
            vec![0; words]
        } else {
            regular.collect()
        })
    }

    fn has(&self, s: usize) -> bool {
        self.0[s / 64] >> (s % 64) & 1 == 1
    }
}

fn up_pattern(rule: &Rule, s: usize) -> Option<Pattern> {
    let slots = rule.shape.up.get(s);
    let n = slots.len() as u64;
    let whole = slots
        .iter()
        .all(|slot| slot.live && !rule.shape.ports(slot).contains(&0));
    let spread = if whole { 1 } else { n.saturating_sub(1).max(1) };
    let turns = n * spread * slots.iter().map(|slot| bundle_period(rule, slot)).max().unwrap_or(1);
    pattern(rule, s, turns, |q| rule.up(s, q, None, |_| true, |_| true))
}

fn down_pattern(rule: &Rule, s: usize, child: &Slot) -> Option<Pattern> {
    pattern(rule, s, bundle_period(rule, child), |q| rule.link(child, q, None))
}

fn bundle_period(rule: &Rule, slot: &Slot) -> u64 {
    let ports = rule.shape.ports(slot);
    let width = ports.len().max(1) as u64;
    if ports.contains(&0) {
        width * (width - 1).max(1)
    } else {
        width
    }
}

/// Returns a pattern that repeats after a number of turns: all numbers with the same q of the rule make one turn.
fn pattern(rule: &Rule, s: usize, turns: u64, of_turn: impl Fn(u32) -> u8) -> Option<Pattern> {
    let power = rule.power(s);
    let period = u64::from(power).checked_mul(turns)?;
    let period = u32::try_from(period).ok().filter(|&p| p > 0)?;
    let of_turns = || (0..period / power).map(&of_turn);
    let first = of_turn(0);
    if of_turns().all(|port| port == first) {
        return Some((1, vec![first]));
    }
    if u64::from(period) > PERIOD_MAX {
        return None;
    }
    let mut bytes = Vec::with_capacity(period as usize);
    of_turns().for_each(|port| bytes.extend(core::iter::repeat_n(port, power as usize)));
    Some((period, bytes))
}

/// Appends the egress of one switch towards every upper destination, as [`Rule::towards_upper`] returns it.
fn towards_uppers(rule: &Rule, targets: &Targets, s: usize, leads: &Leads, out: &mut Vec<u8>) {
    let (above, children) = (rule.shape.up.get(s), rule.shape.down.get(s));
    let n = u32::try_from(above.len()).unwrap_or(0).max(1);
    let power = rule.power(s);
    out.extend((0_u32..).zip(&targets.uppers).map(|(t, &upper)| {
        let to = upper.switch as usize;
        match (leads.down[to], leads.up[to]) {
            _ if to == s => upper.egress,
            (NO_NEIGHBOUR, SEVERAL_FAR) => match rule.up(s, t, None, |p| rule.reach.has(p as usize, to), |_| true) {
                NO_PATH => rule.towards_upper(s, upper, t, None),
                port => port,
            },
            (NO_NEIGHBOUR, NO_NEIGHBOUR) if !rule.reach.has(s, to) && !rule.stranded[to] => NO_PATH,
            (NO_NEIGHBOUR, NO_NEIGHBOUR | SEVERAL) | (SEVERAL, _) => rule.towards_upper(s, upper, t, None),
            (NO_NEIGHBOUR, slot) => rule.link(&above[usize::from(slot)], t / n, None),
            (child, _) => rule.link(&children[usize::from(child)], t / power, None),
        }
    }));
}
