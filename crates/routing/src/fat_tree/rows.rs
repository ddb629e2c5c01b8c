//! Rows in short form: every switch's entries as pieces of repeating patterns.

use std::collections::BTreeMap;

use selvedge_sim::Par;

use super::rule::Rule;
use super::shape::Slot;
use super::targets::Targets;
use crate::graph::Lists;

/// Longest period of a pattern; entries of a longer one are worked out one by one. 16 KiB: it should stay in a cache.
const PERIOD_MAX: u64 = 1 << 14;
/// Entries after the end of a pattern, so that a block can be copied from any place: one block.
const OVERHANG: usize = 64;
/// Class of a piece without a pattern.
pub(super) const SLOW: u32 = u32::MAX;

/// Entries towards the leaves `from..to` (places in the order of leaves).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub from: u32,
    pub to: u32,
    /// Where its pattern starts in [`Rows::patterns`]: the entry of number 0.
    pub pattern: u32,
    /// Which period it has; [`SLOW`] if there is no pattern.
    pub class: u32,
}

/// Short forms of all rows.
#[derive(Clone, Debug, Default)]
pub(super) struct Rows {
    pub pieces: Lists<Piece>,
    pub patterns: Vec<u8>,
    /// By class.
    pub periods: Vec<u32>,
    /// Egress of every switch towards every upper destination, switch by switch.
    pub uppers: Vec<u8>,
}

/// A pattern with its period.
type Pattern = (u32, Vec<u8>);

impl Rows {
    /// Works out the patterns.
    pub fn new(rule: &Rule, targets: &Targets, par: Par) -> Self {
        let drafts = par.map(rule.net.real, |s| draft(rule, s));
        let mut rows = Self::default();
        let mut known: BTreeMap<Pattern, (u32, u32)> = BTreeMap::new();
        for (pieces, patterns) in drafts {
            let at: Vec<(u32, u32)> = patterns
                .into_iter()
                .map(|p| *known.entry(p).or_insert_with_key(|p| rows.add(p)))
                .collect();
            rows.pieces.push(pieces.into_iter().map(|(from, to, pattern)| {
                let (pattern, class) = pattern.map_or((0, SLOW), |i| at[i]);
                Piece {
                    from,
                    to,
                    pattern,
                    class,
                }
            }));
        }
        rows.uppers = par.map(rule.net.real, |s| towards_uppers(rule, targets, s)).concat();
        rows
    }

    fn add(&mut self, (period, bytes): &Pattern) -> (u32, u32) {
        let at = self.patterns.len();
        self.patterns.extend_from_slice(bytes);
        self.patterns.extend((0..OVERHANG).map(|i| bytes[i % bytes.len()]));
        let class = self.periods.iter().position(|p| p == period).unwrap_or_else(|| {
            self.periods.push(*period);
            self.periods.len() - 1
        });
        (
            u32::try_from(at).unwrap_or(u32::MAX),
            u32::try_from(class).unwrap_or(SLOW),
        )
    }
}

/// Pieces (from, to, which pattern) and patterns of one switch.
type Draft = (Vec<(u32, u32, Option<usize>)>, Vec<Pattern>);

fn draft(rule: &Rule, s: usize) -> Draft {
    let mut patterns = Vec::new();
    let up = up_pattern(rule, s).map(|p| {
        patterns.push(p);
        patterns.len() - 1
    });
    let mut of_child: BTreeMap<u32, Option<usize>> = BTreeMap::new();
    let mut pieces: Vec<(u32, u32, Option<usize>)> = Vec::new();
    let live: Vec<&Slot> = rule.shape.up.get(s).iter().filter(|slot| slot.live).collect();
    let regular = Regular::new(rule, &live);
    for (i, &leaf) in (0_u32..).zip(&rule.shape.leaves) {
        let to = leaf as usize;
        let kind = if to == s {
            None
        } else if rule.below.has(s, to) {
            let mut leads = rule
                .shape
                .down
                .get(s)
                .iter()
                .filter(|c| c.live && rule.below.has(c.peer as usize, to));
            match (leads.next(), leads.next()) {
                (Some(child), None) => *of_child.entry(child.peer).or_insert_with(|| {
                    let pattern = down_pattern(rule, s, child, to)?;
                    patterns.push(pattern);
                    Some(patterns.len() - 1)
                }),
                _ => None,
            }
        } else if regular.has(to) {
            up
        } else {
            None
        };
        match pieces.last_mut() {
            Some(last) if last.2 == kind => last.1 = i + 1,
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
    let period = u64::from(rule.shape.power[rule.shape.level[s] as usize]) * n * spread;
    let period = period * slots.iter().map(|slot| bundle_period(rule, slot)).max().unwrap_or(1);
    pattern(period, |t| rule.up(s, t, None, |_| true, |_| true))
}

fn down_pattern(rule: &Rule, s: usize, child: &Slot, to: usize) -> Option<Pattern> {
    let period = u64::from(rule.shape.power[rule.shape.level[s] as usize]) * bundle_period(rule, child);
    pattern(period, |t| rule.down(s, to, t, None))
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

fn pattern(period: u64, egress: impl Fn(u32) -> u8) -> Option<Pattern> {
    let period = u32::try_from(period)
        .ok()
        .filter(|&p| p > 0 && u64::from(p) <= PERIOD_MAX)?;
    let bytes: Vec<u8> = (0..period).map(egress).collect();
    let constant = bytes.iter().all(|&b| b == bytes[0]);
    Some(if constant { (1, vec![bytes[0]]) } else { (period, bytes) })
}

/// Egress of one switch towards every upper destination.
fn towards_uppers(rule: &Rule, targets: &Targets, s: usize) -> Vec<u8> {
    let numbered = (0_u32..).zip(&targets.uppers);
    numbered
        .map(|(t, upper)| rule.towards_upper(s, *upper, t, None))
        .collect()
}
