//! Slots in progress: at most one per class.

use selvedge_sim::Time;

use crate::clock::{Slot, Slots, Tick, Wall};
use crate::config::Config;
use crate::io::{How, Missing, SampleKey, SlotReport, Why};

/// A slot in progress.
#[derive(Debug)]
pub(super) struct Round {
    /// The results of the slot so far.
    pub report: SlotReport,
    /// Ports and groups without a sample.
    pub open: u32,
    /// When the slot began.
    pub began: Time,
}

impl Round {
    /// Counts a sample.
    pub(super) const fn count(&mut self, how: How) {
        let report = &mut self.report;
        match how {
            How::Read => report.read += 1,
            How::Unchanged => report.unchanged += 1,
            How::Derived => report.derived += 1,
            How::Down => report.down += 1,
        }
    }
}

#[derive(Debug)]
struct Class {
    slots: Slots,
    round: Option<Round>,
}

/// The slots of all classes.
#[derive(Debug)]
pub(super) struct Rounds(Vec<Class>);

impl Rounds {
    pub(super) fn new(config: &Config) -> Self {
        let classes = config.classes.iter().take(usize::from(u8::MAX));
        let class = |interval| Class {
            slots: Slots::new(interval, config.clock_wait_max),
            round: None,
        };
        Self(classes.map(|of| class(of.interval)).collect())
    }

    /// Returns the numbers of all classes.
    pub(super) fn classes(&self) -> impl Iterator<Item = u8> + use<> {
        // `new` takes at most 255.
        (0..self.0.len()).map(|class| class as u8)
    }

    /// Returns what begins in a class.
    pub(super) fn tick(&mut self, class: u8, wall: Wall) -> Tick {
        self.0[usize::from(class)].slots.tick(wall)
    }

    /// Excludes a slot that was used before a restart.
    pub(super) fn resume(&mut self, class: u8, slot: Slot) {
        if let Some(class) = self.0.get_mut(usize::from(class)) {
            class.slots.resume(slot);
        }
    }

    /// Begins a slot. Returns the previous one if it is not complete.
    pub(super) fn begin(&mut self, now: Time, class: u8, slot: Slot, skipped: u64) -> Option<Round> {
        let report = SlotReport {
            class,
            slot,
            skipped,
            ..SlotReport::default()
        };
        let round = Round {
            report,
            open: 0,
            began: now,
        };
        self.0[usize::from(class)].round.replace(round)
    }

    /// Returns the slot in progress.
    pub(super) fn current(&mut self, class: u8) -> Option<&mut Round> {
        self.0.get_mut(usize::from(class))?.round.as_mut()
    }

    /// Returns the slot in progress and since when, in wall time.
    pub(super) fn slot(&self, class: u8) -> Option<(Slot, Wall)> {
        let class = self.0.get(usize::from(class))?;
        let slot = class.round.as_ref()?.report.slot;
        Some((slot, slot.begin(class.slots.interval())))
    }

    /// Returns when a slot of a class began.
    pub(super) fn begin_of(&self, class: u8, slot: Slot) -> Option<Wall> {
        let class = self.0.get(usize::from(class))?;
        Some(slot.begin(class.slots.interval()))
    }

    /// Notes that a port has no sample.
    pub(super) fn miss(&mut self, class: u8, key: SampleKey, why: Why) {
        if let Some(round) = self.current(class) {
            round.report.missing.push(Missing { key, why });
            round.open = round.open.saturating_sub(1);
        }
    }

    /// Returns the slot of a class if it is complete.
    pub(super) fn completed(&mut self, class: u8) -> Option<Round> {
        self.0
            .get_mut(usize::from(class))?
            .round
            .take_if(|round| round.open == 0)
    }

    /// Returns when the next slot of any class begins.
    pub(super) fn next(&self) -> Option<Wall> {
        self.0.iter().filter_map(|class| class.slots.next()).min()
    }
}
