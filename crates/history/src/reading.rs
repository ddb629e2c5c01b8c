//! What is stored of a sample, and its bytes: differences of differences, as most counters of most ports stand still or
//! grow evenly.

use core::fmt;

use selvedge_telemetry::{How, Row, Sample, WIDEST, Wall};

/// Largest number of rows that one byte repeats.
const STILL_MAX: u8 = 0x7f;
/// Marks the head of a row that differs from the one before. Heads without it are counts of rows that do not.
const MOVED: u8 = 0x80;
/// The time since the row before is another one than the row before had.
const UNEVEN: u8 = 0x01;
/// The epoch is another one than in the row before.
const EPOCH: u8 = 0x02;
/// How the values are known, which are known, which are full, or the number of resets is another one.
const STATE: u8 = 0x04;
/// The counters that grew unevenly are those of the row before.
const SAME_MASK: u8 = 0x08;
/// The offset in the slot is another one than in the row before.
const OFFSET: u8 = 0x10;
/// The differences between totals and the device's own counters are others than in the row before.
const LEAD: u8 = 0x20;

/// When a slot began. The epoch grows when the wall clock was set back, so moments never repeat.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment {
    /// How often slots were numbered anew.
    pub epoch: u32,
    /// Begin of the slot, in microseconds since the Unix epoch.
    pub at_us: u64,
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = crate::calendar::Utc(self.at_us);
        match self.epoch {
            0 => write!(f, "{time}"),
            epoch => write!(f, "{time} (epoch {epoch})"),
        }
    }
}

/// Counters of one port and group in one slot, as they are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The slot.
    pub moment: Moment,
    /// From the start of the slot to when the values were known, in microseconds. A row without a change keeps that
    /// of the row before.
    pub offset_us: u32,
    /// How the values are known.
    pub how: How,
    /// Which counters have a value.
    pub known: u32,
    /// Which counters stand at their maximum.
    pub full: u32,
    /// How many readings showed a reset.
    pub resets: u32,
    /// Accumulated counters.
    pub totals: Row,
    /// Totals less the last reading of the device, if that is known: with it, a new sampler continues the totals.
    pub lead: Option<Row>,
}

impl Reading {
    /// Nothing was read: what the first row of a port is compared with.
    const NONE: Self = Self {
        moment: Moment { epoch: 0, at_us: 0 },
        offset_us: 0,
        how: How::Read,
        known: 0,
        full: 0,
        resets: 0,
        totals: [0; WIDEST],
        lead: None,
    };

    /// Returns what is stored of a sample in a slot that began at `begin`.
    #[must_use]
    pub fn of(sample: &Sample, begin: Wall) -> Self {
        let lead = |raw: Row| core::array::from_fn(|i| sample.totals[i].wrapping_sub(raw[i]));
        Self {
            moment: Moment {
                epoch: sample.slot.epoch,
                at_us: begin.0 / 1_000,
            },
            offset_us: sample.offset_us,
            how: sample.how,
            known: sample.known,
            full: sample.full,
            resets: sample.resets,
            totals: sample.totals,
            lead: sample.raw.map(lead),
        }
    }

    /// Returns when the values were known, in microseconds since the Unix epoch.
    #[must_use]
    pub const fn known_at_us(&self) -> u64 {
        self.moment.at_us.saturating_add(self.offset_us as u64)
    }

    fn has_state_of(&self, other: &Self) -> bool {
        self.how == other.how
            && self.known == other.known
            && self.full == other.full
            && self.resets == other.resets
            && self.lead == other.lead
    }
}

/// Turns rows of one port and group into bytes, and back. The state after a row is the same on both ways.
#[derive(Clone, Debug)]
pub(crate) struct Codec {
    last: Reading,
    /// Time between the last two rows.
    step_us: u64,
    /// What the counters grew by between the last two rows.
    grown: Row,
    /// Counters that grew unevenly.
    mask: u32,
}

/// Bytes that are no row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoRow;

impl Codec {
    pub const fn new() -> Self {
        Self {
            last: Reading::NONE,
            step_us: 0,
            grown: [0; WIDEST],
            mask: 0,
        }
    }

    /// Returns the last row.
    pub const fn last(&self) -> &Reading {
        &self.last
    }

    /// Appends the bytes of a row.
    pub fn encode(&mut self, row: &Reading, out: &mut Vec<u8>) {
        let last = &self.last;
        let step_us = row.moment.at_us.wrapping_sub(last.moment.at_us);
        let is_even = step_us == self.step_us && row.moment.epoch == last.moment.epoch;
        let has_state = row.has_state_of(last);
        if is_even && has_state && row.totals == last.totals {
            out.push(1);
            self.still();
            return;
        }
        let mut grown = [0; WIDEST];
        let mut mask = 0;
        for (i, grown) in grown.iter_mut().enumerate() {
            *grown = row.totals[i].wrapping_sub(last.totals[i]);
            mask |= u32::from(*grown != self.grown[i]) << i;
        }
        let head = MOVED
            | if step_us == self.step_us { 0 } else { UNEVEN }
            | if row.moment.epoch == last.moment.epoch {
                0
            } else {
                EPOCH
            }
            | if has_state { 0 } else { STATE }
            | if mask == self.mask { SAME_MASK } else { 0 }
            | if row.offset_us == last.offset_us { 0 } else { OFFSET }
            | if row.lead == last.lead { 0 } else { LEAD };
        out.push(head);
        if head & UNEVEN != 0 {
            put_signed(out, step_us.wrapping_sub(self.step_us));
        }
        if head & EPOCH != 0 {
            put(out, row.moment.epoch.into());
        }
        if head & STATE != 0 {
            put_state(out, row);
        }
        if head & SAME_MASK == 0 {
            put(out, mask.into());
        }
        if head & OFFSET != 0 {
            put_signed(out, u64::from(row.offset_us).wrapping_sub(last.offset_us.into()));
        }
        if head & LEAD != 0 {
            put_lead(out, row.lead.as_ref());
        }
        for i in ones(mask) {
            put_signed(out, grown[i].wrapping_sub(self.grown[i]));
        }
        (self.last, self.step_us, self.grown, self.mask) = (*row, step_us, grown, mask);
    }

    /// Takes a row that repeats the last one.
    fn still(&mut self) {
        self.last.moment.at_us = self.last.moment.at_us.wrapping_add(self.step_us);
        self.grown = [0; WIDEST];
        self.mask = 0;
    }

    /// Reads one head, and the row that follows it. `still` counts rows of that head that are still to be returned.
    pub fn decode(&mut self, bytes: &mut &[u8], still: &mut u8) -> Result<(), NoRow> {
        if *still > 0 {
            *still -= 1;
            self.still();
            return Ok(());
        }
        let head = take_byte(bytes)?;
        if head & MOVED == 0 {
            *still = head.checked_sub(1).ok_or(NoRow)?;
            self.still();
            return Ok(());
        }
        let mut row = self.last;
        if head & UNEVEN != 0 {
            self.step_us = self.step_us.wrapping_add(take_signed(bytes)?);
        }
        row.moment.at_us = row.moment.at_us.wrapping_add(self.step_us);
        if head & EPOCH != 0 {
            row.moment.epoch = take_u32(bytes)?;
        }
        if head & STATE != 0 {
            take_state(bytes, &mut row)?;
        }
        if head & SAME_MASK == 0 {
            self.mask = take_u32(bytes)?;
        }
        if head & OFFSET != 0 {
            let offset_us = u64::from(row.offset_us).wrapping_add(take_signed(bytes)?);
            row.offset_us = u32::try_from(offset_us).map_err(|_| NoRow)?;
        }
        if head & LEAD != 0 {
            row.lead = take_lead(bytes)?;
        }
        for i in ones(self.mask) {
            let grown = self.grown.get_mut(i).ok_or(NoRow)?;
            *grown = grown.wrapping_add(take_signed(bytes)?);
        }
        for (total, grown) in row.totals.iter_mut().zip(self.grown) {
            *total = total.wrapping_add(grown);
        }
        self.last = row;
        Ok(())
    }
}

/// Adds a row without change to the last byte, if that is a count with room.
pub(crate) fn repeat(last: &mut u8) -> bool {
    let can = *last & MOVED == 0 && *last < STILL_MAX;
    *last += u8::from(can);
    can
}

/// Returns the positions of the ones in a mask.
pub(crate) fn ones(mut mask: u32) -> impl Iterator<Item = usize> {
    core::iter::from_fn(move || {
        (mask != 0).then(|| {
            let at = mask.trailing_zeros();
            mask &= mask - 1;
            at as usize
        })
    })
}

fn put_state(out: &mut Vec<u8>, row: &Reading) {
    out.push(row.how as u8);
    for value in [row.known, row.full, row.resets] {
        put(out, value.into());
    }
}

fn take_state(bytes: &mut &[u8], row: &mut Reading) -> Result<(), NoRow> {
    row.how = match take_byte(bytes)? {
        0 => How::Read,
        1 => How::Unchanged,
        2 => How::Derived,
        3 => How::Down,
        _ => return Err(NoRow),
    };
    row.known = take_u32(bytes)?;
    row.full = take_u32(bytes)?;
    row.resets = take_u32(bytes)?;
    Ok(())
}

fn put_lead(out: &mut Vec<u8>, lead: Option<&Row>) {
    let Some(lead) = lead else { return put(out, 0) };
    let mask = (0..WIDEST).fold(0_u32, |mask, i| mask | u32::from(lead[i] != 0) << i);
    // The lowest bit shows whether zeros lead.
    put(out, u64::from(mask) << 1 | 1);
    for i in ones(mask) {
        put(out, lead[i]);
    }
}

fn take_lead(bytes: &mut &[u8]) -> Result<Option<Row>, NoRow> {
    let mask = take(bytes)?;
    if mask & 1 == 0 {
        return Ok(None);
    }
    let mut lead = [0; WIDEST];
    for i in ones(u32::try_from(mask >> 1).map_err(|_| NoRow)?) {
        *lead.get_mut(i).ok_or(NoRow)? = take(bytes)?;
    }
    Ok(Some(lead))
}

/// Appends a number, 7 bits a byte, lowest first.
pub(crate) fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a difference: small ones of either sign are short.
pub(crate) fn put_signed(out: &mut Vec<u8>, value: u64) {
    let value = value.cast_signed();
    put(out, (value << 1 ^ value >> 63).cast_unsigned());
}

fn take_byte(bytes: &mut &[u8]) -> Result<u8, NoRow> {
    let (first, rest) = bytes.split_first().ok_or(NoRow)?;
    *bytes = rest;
    Ok(*first)
}

/// Reads what [`put`] wrote.
pub(crate) fn take(bytes: &mut &[u8]) -> Result<u64, NoRow> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = take_byte(bytes)?;
        let bits = u64::from(byte & 0x7f);
        value |= bits << shift;
        if bits << shift >> shift != bits {
            return Err(NoRow);
        }
        if byte < 0x80 {
            return Ok(value);
        }
    }
    Err(NoRow)
}

/// Reads what [`put_signed`] wrote.
pub(crate) fn take_signed(bytes: &mut &[u8]) -> Result<u64, NoRow> {
    let value = take(bytes)?;
    Ok(value >> 1 ^ (value & 1).wrapping_neg())
}

fn take_u32(bytes: &mut &[u8]) -> Result<u32, NoRow> {
    u32::try_from(take(bytes)?).map_err(|_| NoRow)
}

#[cfg(test)]
mod tests {
    use selvedge_sim::Seed;

    use super::*;

    fn round_trip(rows: &[Reading]) -> usize {
        let (mut codec, mut bytes, mut is_still) = (Codec::new(), Vec::new(), false);
        for row in rows {
            let mut encoded = Vec::new();
            codec.encode(row, &mut encoded);
            let repeats = encoded == [1];
            if !(repeats && is_still && bytes.last_mut().is_some_and(repeat)) {
                bytes.extend(encoded);
            }
            is_still = repeats;
        }
        let (mut codec, mut left, mut still) = (Codec::new(), &bytes[..], 0);
        for (at, row) in rows.iter().enumerate() {
            codec.decode(&mut left, &mut still).unwrap();
            assert_eq!(codec.last(), row, "row {at}");
        }
        assert_eq!((left.len(), still), (0, 0));
        bytes.len()
    }

    fn row(second: u64, totals: &[u64]) -> Reading {
        let mut reading = Reading {
            moment: Moment {
                epoch: 0,
                at_us: second * 1_000_000,
            },
            ..Reading::NONE
        };
        reading.known = 7;
        reading.totals[..totals.len()].copy_from_slice(totals);
        reading
    }

    #[test]
    fn a_port_that_does_nothing_costs_a_byte_in_127_rows() {
        let rows: Vec<_> = (100..1_100).map(|second| row(second, &[5, 6])).collect();
        let first = round_trip(&rows[..1]);
        // The second row still has to store the interval.
        assert!(round_trip(&rows) < first + 16);
    }

    #[test]
    fn even_growth_costs_a_byte_a_row() {
        let rows: Vec<_> = (100..200)
            .map(|second| row(second, &[second * 1_000_000_007]))
            .collect();
        assert!(round_trip(&rows) < 40 + 100);
    }

    #[test]
    fn every_change_comes_back() {
        let mut rng = Seed(38).rng();
        let mut rows = Vec::new();
        let mut now = row(1_000, &[0]);
        for _ in 0..5_000 {
            now.moment.at_us = now
                .moment
                .at_us
                .wrapping_add([1_000_000, 1_000_000, 1_000_000, 7][rng.below(4) as usize]);
            match rng.below(12) {
                0 => now.how = [How::Read, How::Unchanged, How::Derived, How::Down][rng.below(4) as usize],
                1 => now.lead = Some(core::array::from_fn(|i| if i % 3 == 0 { rng.next_u64() } else { 0 })),
                2 => now.lead = None,
                3 => now.moment.epoch += 1,
                4 => now.known = rng.next_u64() as u32,
                5 => now.resets += 1,
                6 => now.full ^= 4,
                7 => now.totals = core::array::from_fn(|_| rng.next_u64()),
                8 => {
                    now.totals[3] += rng.below(1_000);
                    now.offset_us = rng.below(1_000_000) as u32;
                }
                _ => {}
            }
            rows.push(now);
        }
        round_trip(&rows);
    }

    #[test]
    fn bytes_that_are_no_row_are_refused() {
        let mut rng = Seed(3).rng();
        for _ in 0..20_000 {
            let bytes: Vec<u8> = (0..rng.below(40)).map(|_| rng.next_u64() as u8).collect();
            let (mut codec, mut left, mut still) = (Codec::new(), &bytes[..], 0);
            while codec.decode(&mut left, &mut still).is_ok() {}
        }
        assert_eq!(Codec::new().decode(&mut &[0][..], &mut 0), Err(NoRow));
        assert_eq!(take(&mut &[0xff; 10][..]), Err(NoRow));
        let mut most = Vec::new();
        put(&mut most, u64::MAX);
        assert_eq!(take(&mut &most[..]), Ok(u64::MAX));
    }
}
