//! Arbitration between the lanes of an output: high- and low-priority tables with weights, and the limit of high
//! priority.
//!
//! Source: IBA vol 1 §7.6.9, interpreted as follows. The arbiter goes through a table entry by entry. An entry may send
//! while some of its weight is left. A packet uses up its length in units of 64 bytes, rounded up, and may use more
//! than is left. An entry without a packet that can be sent loses its turn. High priority goes first, until it has used
//! up its limit. Then a low-priority packet may be sent, and the limit starts again.

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

impl VlArb {
    /// True if both tables are empty: then lanes take turns.
    #[must_use]
    pub const fn is_default(&self) -> bool {
        self.high.is_empty() && self.low.is_empty()
    }

    /// Fails if a table names a lane that is not in use, or if a lane is in no table.
    pub fn check(&self, vls: u8) -> Result<(), SettingsError> {
        if self.is_default() {
            return Ok(());
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

    /// Returns the tables in the form that an arbiter uses.
    #[must_use]
    pub fn compiled(&self, vls: u8) -> Compiled {
        let mut tables = self.filled(vls);
        for table in [&mut tables.high, &mut tables.low] {
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
    /// Index of the output's tables.
    pub tables: u32,
}

impl Compiled {
    /// Returns the state of an arbiter that has sent nothing yet, with the index of these tables.
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

    /// Chooses a lane out of `ready`, which has at least one bit; each of its lanes is in a table.
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
}
