//! Alarms on their way to the database, and from it into the book of a new run.
//!
//! Each change of the book of alarms is left in [`Waiting`]; the thread "history" stores it. While the database fails,
//! changes wait here, and no thread waits for them.

use std::collections::BTreeMap;
use std::sync::{MutexGuard, PoisonError};

use selvedge_api::Error;
use selvedge_health::Since;
use selvedge_history::{self as history, Acknowledgement, Database, HistoryError};
use selvedge_telemetry::Wall;
use selvedge_telemetry::alarm::{Ack, Alarm, AlarmId, AlarmNews};

use super::Store;
use crate::clock::Clock;

/// Most changes that wait for the database; further ones are dropped. Source: ours; five times the alarms that the book
/// keeps, some 15 MB.
const WAITING_MAX: usize = 50_000;

/// Alarms that have changed since they were stored: of each port and subject those that have ended, and then the one
/// that is in force.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    alarms: BTreeMap<AlarmId, Vec<history::Alarm>>,
    count: usize,
}

impl Waiting {
    fn add(&mut self, alarm: history::Alarm) {
        let of_id = self.alarms.entry(alarm.id).or_default();
        match of_id.last_mut() {
            // The alarm itself, as it was before.
            Some(last) if last.cleared.is_none() => *last = alarm,
            _ if self.count < WAITING_MAX => {
                of_id.push(alarm);
                self.count += 1;
            }
            _ => {}
        }
    }
}

impl Store {
    /// Takes what has become of alarms.
    pub(in crate::telemetry) fn take_alarms(&self, clock: Clock, news: &[AlarmNews]) {
        if self.place.is_none() || news.is_empty() {
            return;
        }
        let mut waiting = self.waiting();
        for news in news {
            let cleared = match news {
                AlarmNews::Cleared(_, why) => Some((Wall(clock.unix_ns()), *why)),
                AlarmNews::Began(_) | AlarmNews::Rose(_) | AlarmNews::Acknowledged(_) => None,
            };
            let stored = stored(news.alarm(), clock);
            waiting.add(history::Alarm { cleared, ..stored });
        }
    }

    /// Takes alarms that had evidence again.
    pub(super) fn refresh_alarms<'a>(&self, clock: Clock, alarms: impl Iterator<Item = &'a Alarm>) {
        let mut waiting = self.waiting();
        for alarm in alarms {
            waiting.add(stored(alarm, clock));
        }
    }

    /// Stores the alarms that have changed; false if there were none, or if there is no database.
    pub(super) fn write_alarms(&self) -> Result<bool, HistoryError> {
        // The database is locked meanwhile, so that older changes are never stored after newer ones.
        let written = self.database(|database| {
            let taken = std::mem::take(&mut *self.waiting());
            let alarms: Vec<history::Alarm> = taken.alarms.into_values().flatten().collect();
            if alarms.is_empty() {
                return Ok(false);
            }
            let written = database.put_alarms(&alarms);
            if written.is_err() {
                self.put_back(alarms);
            }
            written.map(|()| true)
        });
        written.unwrap_or(Ok(false))
    }

    /// Puts alarms back that could not be stored, in front of those that have come since.
    fn put_back(&self, alarms: Vec<history::Alarm>) {
        let mut waiting = self.waiting();
        let newer = std::mem::take(&mut *waiting);
        let newer = newer.alarms.into_values().flatten();
        alarms.into_iter().chain(newer).for_each(|alarm| waiting.add(alarm));
    }

    /// Returns the alarms that were in force when they were stored last; `None` while there is no database.
    pub(in crate::telemetry) fn alarms_in_force(&self) -> Option<Result<Vec<Alarm>, HistoryError>> {
        // This process may have been master before.
        let written = self.write_alarms();
        let found = self.database(Database::alarms)?;
        Some(written.and(found).map(|found| found.iter().map(resumed).collect()))
    }

    /// Returns the alarms that ended in a range of time, the latest first.
    pub(in crate::telemetry) fn ended_alarms(&self, from: Wall, to: Wall) -> Result<Vec<history::Alarm>, Error> {
        // Those of the last second may still wait. What a failing write says is a condition of health.
        let _ = self.write_alarms();
        self.read(|database| database.ended_alarms((from, to)))
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn wall(since: Since, clock: Clock) -> Wall {
    Wall(since.unix_ms(|time| clock.unix_ms(time)).saturating_mul(1_000_000))
}

fn stored(alarm: &Alarm, clock: Clock) -> history::Alarm {
    history::Alarm {
        id: alarm.id,
        peer: alarm.peer,
        level: alarm.level,
        evidence: alarm.evidence.clone(),
        clears: alarm.clears.clone(),
        raised: wall(alarm.since, clock),
        last: wall(alarm.last, clock),
        acknowledged: alarm.ack.as_ref().map(|ack| Acknowledgement {
            at: wall(ack.at, clock),
            by: ack.by.clone(),
            note: ack.note.clone(),
        }),
        cleared: None,
    }
}

/// Returns a stored alarm as the book of another run has it.
pub(in crate::telemetry) fn resumed(alarm: &history::Alarm) -> Alarm {
    let since = |wall: Wall| Since::Calendar(wall.0 / 1_000_000);
    Alarm {
        id: alarm.id,
        peer: alarm.peer,
        level: alarm.level,
        since: since(alarm.raised),
        last: since(alarm.last),
        evidence: alarm.evidence.clone(),
        clears: alarm.clears.clone(),
        ack: alarm.acknowledged.as_ref().map(|ack| Ack {
            at: since(ack.at),
            by: ack.by.clone(),
            note: ack.note.clone(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use selvedge_telemetry::End;
    use selvedge_telemetry::alarm::{Ended, Level, Subject};
    use selvedge_types::Guid;

    use super::*;

    fn alarm(port: u8, raised_s: u64, cleared_s: Option<u64>) -> history::Alarm {
        history::Alarm {
            id: AlarmId {
                at: End { node: Guid(1), port },
                subject: Subject::Flaps,
            },
            peer: None,
            level: Level::Warning,
            evidence: String::new(),
            clears: String::new(),
            raised: Wall::from_secs(raised_s),
            last: Wall::from_secs(raised_s),
            acknowledged: None,
            cleared: cleared_s.map(|s| (Wall::from_secs(s), Ended::Below)),
        }
    }

    #[test]
    fn what_cannot_be_stored_waits_in_order() {
        let store = Store::default();
        store.waiting().add(alarm(1, 10, None));
        store.waiting().add(alarm(1, 10, Some(20)));
        // There is no database.
        assert!(!store.write_alarms().unwrap());
        let taken = std::mem::take(&mut *store.waiting());
        store.waiting().add(alarm(1, 30, None));
        store.put_back(taken.alarms.into_values().flatten().collect());
        let waiting = store.waiting();
        let waits: Vec<_> = waiting.alarms.values().flatten().cloned().collect();
        assert_eq!(waits, [alarm(1, 10, Some(20)), alarm(1, 30, None)]);
        assert_eq!(waiting.count, 2);
    }

    #[test]
    fn what_waits_has_a_limit() {
        let mut waiting = Waiting::default();
        for second in 0..=WAITING_MAX as u64 {
            waiting.add(alarm(1, second, Some(second)));
        }
        // The state of an alarm that waits already is still taken.
        waiting.add(alarm(2, 1, None));
        assert_eq!((waiting.count, waiting.alarms.len()), (WAITING_MAX, 2));
    }
}
