//! Accumulation of a port's counters to 64 bits that never go back.

use crate::group::{Group, Row, WIDEST};

/// The result of a reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// How much each counter grew.
    pub grown: Row,
    /// Counters that were lower than before: they were reset, by a reboot or by another program.
    pub reset: u32,
    /// Counters that reached their maximum with this reading. What they missed from now on is not known.
    pub filled: u32,
}

/// The reasons for which a reading is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// A data counter grew by more than the link can carry.
    Implausible,
}

/// The counters of one port and group.
///
/// A total is never more than what really happened: events that a counter missed while it stood at its maximum, or
/// between a reset and the next reading, are not added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    totals: Row,
    /// Totals by readings alone. The difference to `totals` was derived from the other end of the link.
    measured: Row,
    /// The last reading; `None` before the first one.
    raw: Option<Row>,
    /// A reading that was refused as implausible. The next one is taken if it continues this one.
    doubtful: Option<Box<Row>>,
    /// Counters of which the last reading did not continue the previous one, so that it is unknown from where the
    /// device counts. If such a counter falls back, the reading may have come from another device.
    rebased: u32,
    resets: u32,
    full: u32,
    /// Counters that were read or derived at least once.
    known: u32,
}

impl Default for Account {
    fn default() -> Self {
        Self {
            totals: [0; WIDEST],
            measured: [0; WIDEST],
            raw: None,
            doubtful: None,
            rebased: 0,
            resets: 0,
            full: 0,
            known: 0,
        }
    }
}

impl Account {
    /// Returns an account that continues an earlier one, of which the last totals and the last reading were stored. A
    /// counter with a total was known, even if the last sample did not show it.
    #[must_use]
    pub fn resumed(totals: Row, raw: Option<Row>, resets: u32, known: u32) -> Self {
        let counted = (0..WIDEST).filter(|i| totals[*i] > 0);
        Self {
            totals,
            measured: totals,
            raw,
            resets,
            known: counted.fold(known, |mask, i| mask | 1 << i),
            ..Self::default()
        }
    }

    /// Takes a reading of the counters in `known`. `most` is the largest growth that a data counter can have.
    pub fn take(&mut self, group: Group, raw: &Row, known: u32, most: Option<u64>) -> Result<Taken, Refusal> {
        let Some(last) = self.raw else {
            return Ok(self.begin(group, raw, known, most));
        };
        let step = self.step(group, &last, raw, known);
        if most.is_some_and(|most| too_much(group, &step.grown, most)) {
            if !self.continues_doubt(raw) {
                self.doubtful = Some(Box::new(*raw));
                return Err(Refusal::Implausible);
            }
            // Twice the same surprise: the device counts from another point, and how it came there is not known.
            self.resets = self.resets.saturating_add(1);
            self.raw = Some(*raw);
            self.doubtful = None;
            self.rebased |= known;
            return Ok(Taken {
                grown: [0; WIDEST],
                reset: known,
                filled: 0,
            });
        }
        self.doubtful = None;
        // After a true reset a device has counted no more than its link carried since.
        let is_new = |i: &usize| most.is_some_and(|most| raw[*i] <= most);
        let new = (0..WIDEST).filter(is_new).fold(0, |mask, i| mask | 1 << i);
        self.rebased &= !(step.reset & new);
        self.raw = Some(*raw);
        self.known |= known;
        self.resets = self.resets.saturating_add(u32::from(step.reset != 0));
        self.full = full(group, raw, known);
        for (i, grown) in step.grown.iter().enumerate() {
            self.measured[i] = self.measured[i].saturating_add(*grown);
            self.totals[i] = self.totals[i].max(self.measured[i]);
        }
        Ok(step)
    }

    /// Handles the first reading. The device's own counts are the totals; a counter that has a total already keeps it,
    /// unless the device's own count continues it.
    fn begin(&mut self, group: Group, raw: &Row, known: u32, most: Option<u64>) -> Taken {
        for i in (0..WIDEST).filter(|i| known >> i & 1 != 0) {
            let grown = raw[i].checked_sub(self.totals[i]);
            let continues = grown.zip(most).is_some_and(|(grown, most)| grown <= most);
            if self.known >> i & 1 == 0 || continues {
                self.totals[i] = raw[i];
            }
            self.rebased |= u32::from(self.totals[i] != raw[i]) << i;
        }
        self.measured = self.totals;
        self.raw = Some(*raw);
        self.known |= known;
        self.full = full(group, raw, known);
        Taken {
            grown: [0; WIDEST],
            reset: 0,
            filled: self.full,
        }
    }

    fn step(&self, group: Group, last: &Row, raw: &Row, known: u32) -> Taken {
        let mut taken = Taken {
            grown: [0; WIDEST],
            reset: 0,
            filled: full(group, raw, known) & !self.full,
        };
        for i in (0..group.counters()).filter(|i| known >> i & 1 != 0) {
            let wrapped = group.bits(i) == 64 && last[i] > u64::MAX / 2;
            taken.grown[i] = match raw[i].checked_sub(last[i]) {
                Some(grown) => grown,
                None if wrapped => raw[i].wrapping_sub(last[i]),
                None => {
                    taken.reset |= 1 << i;
                    if self.rebased >> i & 1 == 0 { raw[i] } else { 0 }
                }
            };
        }
        taken
    }

    /// True if no counter of a reading is below that of the doubtful reading.
    fn continues_doubt(&self, raw: &Row) -> bool {
        let doubt = self.doubtful.as_deref();
        doubt.is_some_and(|doubt| doubt.iter().zip(raw).all(|(before, now)| before <= now))
    }

    /// Adds the counts of the port at the other end of the link. `totals` are its totals, for a port that was never
    /// read.
    pub fn derive(&mut self, grown: &Row, totals: &Row, known: u32) {
        let is_first = self.known & known == 0;
        for i in (0..WIDEST).filter(|i| known >> i & 1 != 0) {
            self.totals[i] = match is_first {
                true => self.totals[i].max(totals[i]),
                false => self.totals[i].saturating_add(grown[i]),
            };
        }
        self.known |= known;
    }

    /// True if it was read before, so that the next reading shows the growth since then and nothing else.
    #[must_use]
    pub const fn was_read(&self) -> bool {
        self.raw.is_some()
    }

    /// Returns the totals.
    #[must_use]
    pub const fn totals(&self) -> &Row {
        &self.totals
    }

    /// Returns the last reading, if the totals follow from it alone: no counts were derived since.
    #[must_use]
    pub fn raw(&self) -> Option<&Row> {
        let belongs = self.totals == self.measured && self.rebased == 0;
        self.raw.as_ref().filter(|_| belongs)
    }

    /// Returns how many readings showed a reset.
    #[must_use]
    pub const fn resets(&self) -> u32 {
        self.resets
    }

    /// Returns the counters that stand at their maximum.
    #[must_use]
    pub const fn full(&self) -> u32 {
        self.full
    }

    /// Returns the counters that were read or derived at least once.
    #[must_use]
    pub const fn known(&self) -> u32 {
        self.known
    }
}

/// Returns the counters that stand at their maximum.
fn full(group: Group, raw: &Row, known: u32) -> u32 {
    let counters = (0..group.counters()).filter(|i| known >> i & 1 != 0);
    counters
        .filter(|i| raw[*i] == u64::MAX >> (64 - group.bits(*i)))
        .fold(0, |mask, i| mask | 1 << i)
}

fn too_much(group: Group, grown: &Row, most: u64) -> bool {
    use crate::Metric::{RcvData, RcvPackets, XmitData, XmitPackets};
    // A packet has at least one word.
    let limited = [XmitData, RcvData, XmitPackets, RcvPackets].into_iter();
    limited
        .filter_map(|metric| group.place(metric))
        .any(|i| grown[i] > most)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Metric;

    fn row(values: &[u64]) -> Row {
        let mut row = [0; WIDEST];
        row[..values.len()].copy_from_slice(values);
        row
    }

    fn take(account: &mut Account, group: Group, values: &[u64]) -> Taken {
        account.take(group, &row(values), group.mask(), None).expect("no limit")
    }

    /// Reads the first counter of a group again and again, and compares the totals.
    fn check(group: Group, readings: &[u64], totals: &[u64], resets: u32) {
        let mut account = Account::default();
        for (reading, total) in readings.iter().zip(totals) {
            take(&mut account, group, &[*reading]);
            assert_eq!(account.totals()[0], *total, "{group:?} {readings:?}");
        }
        assert_eq!(account.resets(), resets, "{group:?} {readings:?}");
    }

    #[test]
    fn totals_grow_by_what_was_counted() {
        check(Group::Extended, &[7, 10, 10, 25], &[7, 10, 10, 25], 0);
        check(Group::Extended, &[100, 130, 20, 50], &[100, 130, 150, 180], 1);
        check(Group::Extended, &[u64::MAX - 4, 5], &[u64::MAX - 4, u64::MAX], 0);
        check(
            Group::Base,
            &[65_530, 65_535, 65_535, 3],
            &[65_530, 65_535, 65_535, 65_538],
            1,
        );
        check(Group::VlData, &[10, 5, 5], &[10, 15, 15], 1);
    }

    #[test]
    fn a_full_counter_is_said_once() {
        let mut account = Account::default();
        assert_eq!(take(&mut account, Group::Base, &[65_534]).filled, 0);
        assert_eq!(take(&mut account, Group::Base, &[65_535]).filled, 1);
        assert_eq!(
            (account.full(), take(&mut account, Group::Base, &[65_535]).filled),
            (1, 0)
        );
        assert_eq!(take(&mut account, Group::Base, &[1]).reset, 1);
        assert_eq!(account.full(), 0);
    }

    #[test]
    fn a_partial_reset_adds_nothing_twice() {
        let mut account = Account::default();
        take(&mut account, Group::Extended, &[1000, 1000]);
        let taken = take(&mut account, Group::Extended, &[10, 1010]);
        assert_eq!((taken.grown[0], taken.grown[1], taken.reset), (10, 10, 1));
        assert_eq!(account.totals()[..2], [1010, 1010]);
    }

    #[test]
    fn more_than_the_link_carries_is_doubted() {
        let (group, most) = (Group::Extended, Some(100));
        let mut account = Account::default();
        let read = |account: &mut Account, words| account.take(group, &row(&[words]), group.mask(), most);
        assert!(read(&mut account, 50).is_ok());
        assert_eq!(read(&mut account, 1000), Err(Refusal::Implausible));
        // It was another port's answer: the next one is right again.
        assert!(read(&mut account, 90).is_ok());
        assert_eq!(account.totals()[0], 90);
        // It was not: the device counts from there.
        assert_eq!(read(&mut account, 5000), Err(Refusal::Implausible));
        assert!(read(&mut account, 5010).is_ok());
        assert_eq!((account.totals()[0], account.resets()), (90, 1));
        assert!(read(&mut account, 5030).is_ok());
        assert_eq!(account.totals()[0], 110);
        // It was another device's after all: its own count is no growth.
        assert!(read(&mut account, 95).is_ok());
        assert!(read(&mut account, 99).is_ok());
        assert_eq!((account.totals()[0], account.resets()), (114, 2));
    }

    #[test]
    fn derived_and_measured_values_never_go_back() {
        let group = Group::Extended;
        let data = group.mask_of(|metric| metric.mirror().is_some());
        let mut account = Account::default();
        take(&mut account, group, &[100]);
        account.derive(&row(&[30]), &row(&[900]), data);
        assert_eq!(account.totals()[0], 130);
        // The port itself counted one packet less: the total waits for it.
        take(&mut account, group, &[125]);
        assert_eq!(account.totals()[0], 130);
        take(&mut account, group, &[140]);
        assert_eq!(account.totals()[0], 140);
        // A port that was only derived so far continues from there.
        let mut account = Account::default();
        account.derive(&row(&[30]), &row(&[900]), data);
        assert_eq!((account.totals()[0], account.known()), (900, data));
        take(&mut account, group, &[5]);
        take(&mut account, group, &[9]);
        assert_eq!(account.totals()[0], 904);
        assert_eq!(group.metric(0), Some(Metric::XmitData));
    }

    #[test]
    fn a_resumed_account_goes_on() {
        let mut account = Account::resumed(row(&[500]), Some(row(&[40])), 2, 1);
        take(&mut account, Group::Extended, &[45]);
        assert_eq!((account.totals()[0], account.resets()), (505, 2));
    }
}
