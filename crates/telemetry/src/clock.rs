//! Wall time as a value, and slots aligned to it.

use core::fmt;
use core::time::Duration;

use selvedge_sim::Time;

/// Nanoseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Wall(pub u64);

impl Wall {
    /// Returns the time that is this number of seconds after the Unix epoch.
    #[must_use]
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs * 1_000_000_000)
    }
}

/// A slot of a sampling class: the interval with this number since the Unix epoch.
///
/// The epoch grows when the clock was set back so far that numbers have to be used again: so no slot is used twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot {
    /// Number of times that slot numbers began again.
    pub epoch: u32,
    /// Start of the slot, in intervals since the Unix epoch.
    pub number: u64,
}

impl Slot {
    /// Returns when the slot begins.
    #[must_use]
    pub fn begin(self, interval: Duration) -> Wall {
        Wall(self.number.saturating_mul(nanos(interval)))
    }
}

impl fmt::Display for Slot {
    /// Prints the number, and the epoch if it is not the first.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.epoch {
            0 => write!(f, "{}", self.number),
            epoch => write!(f, "{}/{epoch}", self.number),
        }
    }
}

/// The wall clock: how it differs from the time of the machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct Clock {
    /// One moment, in both times.
    known: Option<(Time, Wall)>,
}

impl Clock {
    /// Records the wall time. Returns by how many nanoseconds the clock was set; forward is positive.
    pub fn set(&mut self, now: Time, wall: Wall) -> i64 {
        let expected = self.wall(now);
        self.known = Some((now, wall));
        expected.map_or(0, |expected| {
            let by = i128::from(wall.0) - i128::from(expected.0);
            i64::try_from(by).unwrap_or(if by < 0 { i64::MIN } else { i64::MAX })
        })
    }

    /// Returns the wall time; `None` before it is known.
    #[must_use]
    pub fn wall(&self, now: Time) -> Option<Wall> {
        let (at, wall) = self.known?;
        Some(Wall(wall.0.saturating_add(nanos(now.since(at)))))
    }

    /// Returns when the wall clock will show `wall`; if that time has passed, the last moment at which the clock was
    /// set.
    #[must_use]
    pub fn when(&self, wall: Wall) -> Option<Time> {
        let (at, known) = self.known?;
        Some(at + Duration::from_nanos(wall.0.saturating_sub(known.0)))
    }
}

/// What happens in a class at a certain time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tick {
    /// No slot begins.
    Wait,
    /// This slot begins; the slots between the previous one and this one were missed.
    Begin {
        /// The slot.
        slot: Slot,
        /// Number of slots without a sample.
        missed: u64,
    },
    /// The clock was set back too far to wait for it: numbers begin again in a new epoch.
    Renumber,
}

/// The slots of one class.
#[derive(Clone, Copy, Debug)]
pub struct Slots {
    interval: Duration,
    /// The slot that began last. A slot in progress at the start counts as begun: it may have been sampled before.
    last: Option<Slot>,
    /// Longest wait for a clock that was set back.
    wait_max: Duration,
}

impl Slots {
    /// Returns the slots of `interval`, which is at least 1 ms.
    #[must_use]
    pub fn new(interval: Duration, wait_max: Duration) -> Self {
        Self {
            interval: interval.max(Duration::from_millis(1)),
            last: None,
            wait_max,
        }
    }

    /// Excludes a slot that was used before a restart, and all earlier ones.
    pub fn resume(&mut self, used: Slot) {
        self.last = self.last.max(Some(used));
    }

    /// Returns what begins at this time.
    pub fn tick(&mut self, wall: Wall) -> Tick {
        let number = wall.0 / nanos(self.interval);
        let Some(last) = self.last else {
            self.last = Some(Slot { epoch: 0, number });
            return Tick::Wait;
        };
        if number > last.number {
            let slot = Slot { number, ..last };
            self.last = Some(slot);
            let missed = number - last.number - 1;
            return Tick::Begin { slot, missed };
        }
        let back = Duration::from_nanos((last.number - number).saturating_mul(nanos(self.interval)));
        if back > self.wait_max {
            let epoch = last.epoch.saturating_add(1);
            self.last = Some(Slot { epoch, number });
            return Tick::Renumber;
        }
        Tick::Wait
    }

    /// Returns when the next slot begins; `None` before the first tick.
    #[must_use]
    pub fn next(&self) -> Option<Wall> {
        let last = self.last?;
        let next = Slot {
            number: last.number.saturating_add(1),
            ..last
        };
        Some(next.begin(self.interval))
    }

    /// Returns the interval.
    #[must_use]
    pub const fn interval(&self) -> Duration {
        self.interval
    }
}

/// Nanoseconds of a duration, 584 years at most.
pub(crate) fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn begin(number: u64, missed: u64) -> Tick {
        let slot = Slot { epoch: 0, number };
        Tick::Begin { slot, missed }
    }

    #[test]
    fn slots_follow_the_wall_clock() {
        let mut slots = Slots::new(SECOND, Duration::from_secs(10));
        assert_eq!(slots.next(), None);
        assert_eq!(slots.tick(Wall(5_700_000_000)), Tick::Wait, "slot 5 is in progress");
        assert_eq!(slots.next(), Some(Wall::from_secs(6)));
        assert_eq!(slots.tick(Wall(5_999_999_999)), Tick::Wait);
        assert_eq!(slots.tick(Wall(6_000_000_000)), begin(6, 0));
        assert_eq!(slots.tick(Wall(6_500_000_000)), Tick::Wait);
        assert_eq!(slots.tick(Wall(9_100_000_000)), begin(9, 2));
    }

    #[test]
    fn a_clock_that_was_set_back() {
        let mut slots = Slots::new(SECOND, Duration::from_secs(10));
        slots.resume(Slot { epoch: 0, number: 100 });
        assert_eq!(slots.tick(Wall::from_secs(95)), Tick::Wait);
        assert_eq!(slots.tick(Wall::from_secs(100)), Tick::Wait, "used before");
        assert_eq!(slots.tick(Wall::from_secs(101)), begin(101, 0));
        assert_eq!(slots.tick(Wall::from_secs(90)), Tick::Renumber);
        let slot = Slot { epoch: 1, number: 91 };
        assert_eq!(slots.tick(Wall::from_secs(91)), Tick::Begin { slot, missed: 0 });
        assert_eq!(slot.to_string(), "91/1");
    }

    #[test]
    fn clocks_differ() {
        let mut clock = Clock::default();
        assert_eq!((clock.wall(Time(5)), clock.when(Wall(5))), (None, None));
        assert_eq!(clock.set(Time(100), Wall(1_000)), 0);
        assert_eq!(clock.wall(Time(150)), Some(Wall(1_050)));
        assert_eq!(clock.when(Wall(1_200)), Some(Time(300)));
        assert_eq!(clock.set(Time(200), Wall(1_090)), -10);
        assert_eq!(clock.set(Time(210), Wall(2_100)), 1_000);
        assert_eq!(clock.when(Wall(3)), Some(Time(210)));
    }
}
