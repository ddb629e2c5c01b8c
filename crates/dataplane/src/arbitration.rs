//! Arbitration between the lanes of an output: high- and low-priority tables with weights, and the limit of high
//! priority.
//!
//! Source: IBA vol 1 §7.6.9, interpreted as follows. The arbiter goes through a table entry by entry. An entry may send
//! while some of its weight is left. A packet uses up its length in units of 64 bytes, rounded up, and may use more
//! than is left. An entry without a packet that can be sent loses its turn, and what is left of its weight. High
//! priority goes first, until it has used up its limit or has no packet that can be sent. Then the limit starts again,
//! and a low-priority packet may be sent. So the limit starts again in an idle time, too.
//!
//! The tests compare choices with these sentences, followed one by one.

use serde::{Deserialize, Serialize};

use crate::sets::next_bit;
use crate::settings::SettingsError;

/// Tables of an output: entries (lane, weight) in order. Weights are in units of 64 bytes; an entry of weight 0 is
/// skipped.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VlArb {
    /// High priority.
    pub high: Vec<(u8, u8)>,
    /// Low priority. If both tables are empty, every lane in use has an entry of weight 1 here: lanes take turns, one
    /// packet each.
    pub low: Vec<(u8, u8)>,
    /// Amount of high-priority traffic before a low-priority packet, in units of 4,096 bytes; 0: one packet; 255:
    /// unlimited.
    pub high_limit: u8,
}

/// 64-byte units in one unit of the limit. Source: IBA vol 1 §7.6.9.
const LIMIT_UNITS: i32 = 4_096 / 64;

/// Most entries of a table. Source: IBA vol 1 §7.6.9.
const ENTRIES_MAX: usize = 64;

impl VlArb {
    /// True if both tables are empty: then lanes take turns.
    #[must_use]
    pub const fn is_default(&self) -> bool {
        self.high.is_empty() && self.low.is_empty()
    }

    /// Fails if a table is too long or names a lane that is not in use, or if a lane is in no table.
    pub fn check(&self, vls: u8) -> Result<(), SettingsError> {
        if self.is_default() {
            return Ok(());
        }
        for (table, entries) in [("high", &self.high), ("low", &self.low)] {
            if entries.len() > ENTRIES_MAX {
                let found = entries.len();
                return Err(SettingsError::ArbitrationLength { table, found });
            }
        }
        let all = || self.high.iter().chain(&self.low);
        if let Some(&(vl, _)) = all().find(|(vl, _)| *vl >= vls) {
            return Err(SettingsError::ArbitrationLane { vl, last: vls - 1 });
        }
        match (0..vls).find(|lane| !all().any(|(vl, weight)| vl == lane && *weight > 0)) {
            Some(vl) => Err(SettingsError::Unserved { vl }),
            None => Ok(()),
        }
    }

    /// Returns the tables, or the default ones if they are empty.
    #[must_use]
    pub fn filled(&self, vls: u8) -> Self {
        let mut tables = self.clone();
        if self.is_default() {
            tables.low = (0..vls).map(|vl| (vl, 1)).collect();
        }
        tables
    }

    /// Returns the tables in the form that an arbiter uses: the first 64 entries of each, without those of lanes that
    /// are not in use.
    #[must_use]
    pub fn compiled(&self, vls: u8) -> Compiled {
        let mut tables = self.filled(vls);
        for table in [&mut tables.high, &mut tables.low] {
            table.truncate(ENTRIES_MAX);
            table.retain(|(vl, _)| *vl < vls);
        }
        let limit = match self.high_limit {
            255 => i32::MAX,
            // "One packet": any packet uses it up.
            0 => 1,
            limit => i32::from(limit) * LIMIT_UNITS,
        };
        Compiled {
            high: Table::new(&tables.high),
            low: Table::new(&tables.low),
            limit,
        }
    }
}

/// One table without entries of weight 0.
#[derive(Clone, Debug, Default)]
struct Table {
    entries: Vec<(u8, u8)>,
    /// Bit mask of the lanes in the table.
    lanes: u16,
    /// True if the entries are lanes 0, 1, 2 and so on, as by default. The next lane can then be computed.
    in_order: bool,
}

impl Table {
    fn new(entries: &[(u8, u8)]) -> Self {
        let entries: Vec<_> = entries.iter().copied().filter(|(_, weight)| *weight > 0).collect();
        let lanes = entries.iter().fold(0, |lanes, (vl, _)| lanes | 1 << vl);
        let in_order = (0..).zip(&entries).all(|(entry, &(vl, _))| entry == vl);
        Self {
            entries,
            lanes,
            in_order,
        }
    }

    /// Returns the lane that sends next. At least one lane of `ready` must be in the table.
    #[inline]
    fn next(&self, turn: &mut Turn, ready: u16) -> u8 {
        let entries = self.entries.len();
        if turn.left > 0 {
            let (vl, _) = self.entries[usize::from(turn.entry)];
            if ready >> vl & 1 != 0 {
                return vl;
            }
        }
        if self.in_order
            && let Some(port) = next_bit(u64::from(ready), turn.entry + 1)
            && let Some(&(vl, weight)) = self.entries.get(usize::from(port - 1))
        {
            (turn.entry, turn.left) = (vl, i32::from(weight));
            return vl;
        }
        for _ in 0..entries {
            turn.entry += 1;
            if usize::from(turn.entry) >= entries {
                turn.entry = 0;
            }
            let (vl, weight) = self.entries[usize::from(turn.entry)];
            if ready >> vl & 1 != 0 {
                turn.left = i32::from(weight);
                return vl;
            }
        }
        // Not reached: the caller makes sure that a ready lane is in the table.
        0
    }
}

/// Both tables, shared by all outputs that have the same.
#[derive(Clone, Debug)]
pub struct Compiled {
    high: Table,
    low: Table,
    limit: i32,
}

#[derive(Clone, Copy, Debug, Default)]
struct Turn {
    entry: u8,
    left: i32,
}

/// Current position of an output in its tables.
#[derive(Clone, Copy, Debug)]
pub struct Arbiter {
    high: Turn,
    low: Turn,
    /// Amount that high priority may send before low priority may send, in 64-byte units.
    budget: i32,
    /// True if the last lane was chosen from the high-priority table.
    from_high: bool,
    /// The output's own tables, counted from 1; 0: those of the settings.
    pub tables: u32,
}

impl Compiled {
    /// Returns the state of an arbiter that has sent nothing yet, with the number of these tables.
    #[must_use]
    pub fn arbiter(&self, tables: u32) -> Arbiter {
        // Before the first entry.
        let at_end = |table: &Table| Turn {
            entry: u8::try_from(table.entries.len().saturating_sub(1)).unwrap_or(u8::MAX),
            left: 0,
        };
        Arbiter {
            high: at_end(&self.high),
            low: at_end(&self.low),
            budget: self.limit,
            from_high: false,
            tables,
        }
    }

    /// Records that the output had nothing to send.
    #[inline]
    pub const fn idle(&self, arbiter: &mut Arbiter) {
        arbiter.budget = self.limit;
    }

    /// Chooses a lane out of `ready`, which has at least one bit. A lane in no table sends if no other lane can.
    #[inline]
    pub fn choose(&self, arbiter: &mut Arbiter, ready: u16) -> u8 {
        let (high, low) = (ready & self.high.lanes, ready & self.low.lanes);
        if low == 0 && high == 0 {
            return 15.min(ready.trailing_zeros() as u8);
        }
        arbiter.from_high = high != 0 && (arbiter.budget > 0 || low == 0);
        if arbiter.from_high {
            self.high.next(&mut arbiter.high, high)
        } else {
            self.low.next(&mut arbiter.low, low)
        }
    }

    /// Records that the chosen lane sends this many 64-byte units.
    #[inline]
    pub fn sent(&self, arbiter: &mut Arbiter, units: u32) {
        let units = units as i32;
        if arbiter.from_high {
            arbiter.high.left -= units;
            if self.limit != i32::MAX {
                // If the limit was used up and no low-priority packet could be sent, low priority has lost its turn.
                arbiter.budget = if arbiter.budget > 0 {
                    arbiter.budget - units
                } else {
                    self.limit - units
                };
            }
        } else {
            arbiter.low.left -= units;
            arbiter.budget = self.limit;
        }
    }
}

#[cfg(test)]
mod tests {
    use selvedge_sim::{Rng, Seed};

    use super::*;

    /// Returns the units that each lane sends in `packets` packets of `units` each, if all lanes always have packets.
    fn shares(arb: &VlArb, vls: u8, units: u32, packets: usize) -> Vec<u32> {
        let tables = arb.compiled(vls);
        let mut arbiter = tables.arbiter(0);
        let mut sent = vec![0; usize::from(vls)];
        for _ in 0..packets {
            let vl = tables.choose(&mut arbiter, (1 << vls) - 1);
            tables.sent(&mut arbiter, units);
            sent[usize::from(vl)] += units;
        }
        sent
    }

    #[test]
    fn low_priority_shares_are_the_weights() {
        let check = |low: &[(u8, u8)], units, packets, want: &[u32]| {
            let arb = VlArb {
                low: low.to_vec(),
                ..VlArb::default()
            };
            assert_eq!(shares(&arb, want.len() as u8, units, packets), want, "{low:?}");
        };
        check(&[(0, 33), (1, 99)], 33, 400, &[3_300, 9_900]);
        check(&[(0, 10), (1, 30)], 1, 400, &[100, 300]);
        // A packet may use more than is left: 33 units of a weight of 1 or of 34 (two packets).
        check(&[(0, 1), (1, 34)], 33, 300, &[3_300, 6_600]);
        check(&[(0, 8), (1, 8), (0, 8)], 8, 300, &[1_600, 800]);
        check(&[], 33, 4, &[66, 66]);
    }

    #[test]
    fn the_limit_of_high_priority() {
        let check = |high_limit, units, packets, want: &[u32]| {
            let arb = VlArb {
                high: vec![(1, 255)],
                low: vec![(0, 255)],
                high_limit,
            };
            assert_eq!(shares(&arb, 2, units, packets), want, "{high_limit}");
        };
        check(255, 32, 100, &[0, 3_200]);
        // One packet each.
        check(0, 32, 100, &[1_600, 1_600]);
        // 4,096 bytes are two packets of 32 units: two high, one low.
        check(1, 32, 300, &[3_200, 6_400]);
        check(2, 32, 500, &[3_200, 12_800]);
    }

    #[test]
    fn the_limit_starts_again_in_an_idle_time() {
        let arb = VlArb {
            high: vec![(1, 255)],
            low: vec![(0, 255)],
            high_limit: 1,
        };
        let tables = arb.compiled(2);
        // Of 64 units high priority has used 40; with 40 more they are used up.
        let next = |was_idle| {
            let mut arbiter = tables.arbiter(0);
            let order = [(0b10, false), (0b11, was_idle), (0b11, false)];
            order.map(|(ready, was_idle)| {
                if was_idle {
                    tables.idle(&mut arbiter);
                }
                let vl = tables.choose(&mut arbiter, ready);
                tables.sent(&mut arbiter, 40);
                vl
            })
        };
        assert_eq!(next(false), [1, 1, 0]);
        assert_eq!(next(true), [1, 1, 1]);
    }

    /// The sentences at the top of this file, one after the other, on the tables as they were written.
    struct Literal {
        tables: [Vec<(u8, u8)>; 2],
        limit: Option<i64>,
        counter: i64,
        /// Of each table: the entry that has the turn, and what is left of its weight.
        turns: [(usize, i64); 2],
        from: usize,
    }

    impl Literal {
        fn new(arb: &VlArb) -> Self {
            let limit = match arb.high_limit {
                255 => None,
                0 => Some(1),
                limit => Some(i64::from(limit) * 4_096 / 64),
            };
            Self {
                tables: [arb.high.clone(), arb.low.clone()],
                limit,
                counter: limit.unwrap_or(1),
                turns: [arb.high.len(), arb.low.len()].map(|entries| (entries.max(1) - 1, 0)),
                from: 0,
            }
        }

        /// Goes through a table. `None`: no entry has a packet that can be sent.
        fn go_through(&mut self, table: usize, ready: u16) -> Option<u8> {
            let entries = &self.tables[table];
            let (entry, left) = &mut self.turns[table];
            let (vl, _) = *entries.get(*entry)?;
            if *left > 0 && ready >> vl & 1 == 1 {
                return Some(vl);
            }
            for _ in 0..entries.len() {
                *entry = (*entry + 1) % entries.len();
                let (vl, weight) = entries[*entry];
                if weight > 0 && ready >> vl & 1 == 1 {
                    *left = i64::from(weight);
                    return Some(vl);
                }
            }
            None
        }

        fn choose(&mut self, ready: u16, was_idle: bool) -> Option<u8> {
            if was_idle {
                self.counter = self.limit.unwrap_or(1);
            }
            for _ in 0..2 {
                if self.counter > 0
                    && let Some(vl) = self.look(0, ready)
                {
                    return Some(vl);
                }
                self.counter = self.limit.unwrap_or(1);
                if let Some(vl) = self.look(1, ready) {
                    return Some(vl);
                }
            }
            None
        }

        /// Looks for a packet in a table, which keeps its turn if there is none.
        fn look(&mut self, table: usize, ready: u16) -> Option<u8> {
            let before = self.turns[table];
            let found = self.go_through(table, ready);
            match found {
                Some(_) => self.from = table,
                None => self.turns[table] = before,
            }
            found
        }

        fn sent(&mut self, units: u32) {
            self.turns[self.from].1 -= i64::from(units);
            if self.from == 0 && self.limit.is_some() {
                self.counter -= i64::from(units);
            }
        }
    }

    /// Random tables for lanes 0 to `vls - 1`; each lane is in one of them.
    fn random(rng: &mut Rng, vls: u8) -> VlArb {
        let mut entries = |most: u64| -> Vec<(u8, u8)> {
            let weights = [0, 1, 3, 33, 64, 255, 7, 100];
            let entry = |rng: &mut Rng| (rng.below(u64::from(vls)) as u8, weights[rng.below(8) as usize]);
            (0..rng.below(most)).map(|_| entry(rng)).collect()
        };
        let (high, mut low) = (entries(9), entries(64));
        let is_served = |vl: u8| high.iter().chain(&low).any(|&(of, weight)| of == vl && weight > 0);
        let missing: Vec<(u8, u8)> = (0..vls).filter(|vl| !is_served(*vl)).map(|vl| (vl, 20)).collect();
        low.truncate(64 - missing.len());
        low.extend(missing);
        let high_limit = [0, 0, 1, 2, 10, 254, 255][rng.below(7) as usize];
        VlArb { high, low, high_limit }
    }

    #[test]
    fn choices_follow_the_standard_word_for_word() {
        for seed in 0..2_000 {
            let mut rng = Seed(seed).rng();
            let vls = 1 + rng.below(15) as u8;
            let arb = random(&mut rng, vls);
            if arb.check(vls).is_err() {
                continue;
            }
            let tables = arb.compiled(vls);
            let (mut arbiter, mut literal) = (tables.arbiter(0), Literal::new(&arb));
            let all = (1 << vls) - 1;
            let mut ready = all;
            for step in 0..300 {
                if rng.below(3) == 0 {
                    ready = 1 + rng.below(u64::from(all)) as u16;
                }
                let (was_idle, units) = (rng.below(9) == 0, 1 + rng.below(66) as u32);
                if was_idle {
                    tables.idle(&mut arbiter);
                }
                let found = tables.choose(&mut arbiter, ready);
                assert_eq!(
                    Some(found),
                    literal.choose(ready, was_idle),
                    "seed {seed}, step {step}: {arb:?}"
                );
                tables.sent(&mut arbiter, units);
                literal.sent(units);
            }
        }
    }

    /// What holds for the lanes of a table if all lanes always have packets, whatever the tables are.
    #[test]
    fn backlogged_lanes_get_the_shares_of_their_weights() {
        for seed in 0..500 {
            let mut rng = Seed(seed).rng();
            let vls = 1 + rng.below(15) as u8;
            let arb = random(&mut rng, vls);
            let units = 1 + rng.below(66) as u32;
            let tables = arb.compiled(vls);
            let mut arbiter = tables.arbiter(0);
            let mut sent = [[0_u64; 16]; 2];
            // Packets of high priority since the last one of low priority, in units.
            let (mut run, mut longest) = (0, 0);
            for _ in 0..200_000 {
                let vl = usize::from(tables.choose(&mut arbiter, (1 << vls) - 1));
                tables.sent(&mut arbiter, units);
                sent[usize::from(!arbiter.from_high)][vl] += 1;
                run = if arbiter.from_high { run + u64::from(units) } else { 0 };
                longest = longest.max(run);
            }
            let has = |table: &[(u8, u8)]| table.iter().any(|(_, weight)| *weight > 0);
            if has(&arb.high) && has(&arb.low) && arb.high_limit < 255 {
                let limit = (u64::from(arb.high_limit) * 64).max(1);
                assert!(longest < limit + u64::from(units), "seed {seed}: {longest} of {limit}");
                assert!(longest >= limit, "seed {seed}: high priority may use up its limit");
            }
            for (of, table) in sent.iter().zip([&arb.high, &arb.low]) {
                // An entry sends packets until its weight is used up.
                let packets = |weight: u8| u64::from(u32::from(weight).div_ceil(units));
                let round: u64 = table.iter().map(|&(_, weight)| packets(weight)).sum();
                let all: u64 = of.iter().sum();
                for lane in 0..vls {
                    let own = table.iter().filter(|(vl, _)| *vl == lane);
                    let own: u64 = own.map(|&(_, weight)| packets(weight)).sum();
                    // A table may stop in the middle of a round.
                    let fair = own * all / round.max(1);
                    let found = of[usize::from(lane)];
                    assert!(
                        found.abs_diff(fair) <= own + 1,
                        "seed {seed}, lane {lane}: {found} of {fair}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_table_has_64_entries_at_most() {
        let long = VlArb {
            low: (0..65).map(|at| (at % 2, 1)).collect(),
            ..VlArb::default()
        };
        let error = long.check(2).unwrap_err().to_string();
        assert!(error.starts_with("SLV-DATA-0013"), "{error}");
        let first = VlArb {
            low: vec![(0, 1); 64].into_iter().chain([(1, 200)]).collect(),
            ..VlArb::default()
        };
        assert_eq!(
            shares(&first, 2, 1, 100),
            [100, 0],
            "entries beyond the table are not there"
        );
    }
}
