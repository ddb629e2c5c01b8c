//! Tracks connections and their phases, and decides which connection is closed for a new one.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::sync::Notify;

use crate::limits::{HEAD_MAX, Limits, SILENT_MAX, STALLED};

/// The phase of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// No byte of a request has arrived since the connection was made.
    Silent,
    /// A part of a request's head has arrived.
    Head,
    /// The head has arrived, and the body is under way.
    Body,
    /// The answer is under construction.
    Working,
    /// The client reads its answer, or has read it and sends no further request.
    Answer,
}

/// The phase of a connection, and its start. The connection and the list of connections share it.
#[derive(Debug)]
pub(crate) struct Pulse {
    state: Mutex<(Phase, Instant)>,
    close: Notify,
}

impl Pulse {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            state: Mutex::new((Phase::Silent, now)),
            close: Notify::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, (Phase, Instant)> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the phase, and when it began or when the last byte passed.
    pub(crate) fn state(&self) -> (Phase, Instant) {
        *self.lock()
    }

    /// Starts a new phase.
    pub(crate) fn begin(&self, phase: Phase) {
        *self.lock() = (phase, Instant::now());
    }

    /// Records bytes from the client. Returns true if they begin a request.
    pub(crate) fn received(&self) -> bool {
        let mut state = self.lock();
        match state.0 {
            Phase::Silent | Phase::Answer => {
                *state = (Phase::Head, Instant::now());
                return true;
            }
            Phase::Body => state.1 = Instant::now(),
            Phase::Head | Phase::Working => {}
        }
        false
    }

    /// Records that the client has read bytes.
    pub(crate) fn sent(&self) {
        self.begin(Phase::Answer);
    }

    /// Completes when the connection must close.
    pub(crate) async fn closed(&self) {
        self.close.notified().await;
    }

    /// True if the connection may be closed for a new one.
    fn makes_room(&self, now: Instant) -> bool {
        let (phase, since) = self.state();
        match phase {
            Phase::Silent | Phase::Head | Phase::Body => true,
            Phase::Answer => now.duration_since(since) >= STALLED,
            Phase::Working => false,
        }
    }

    /// True if the client has been silent beyond its limit.
    fn is_over(&self, now: Instant) -> bool {
        let (phase, since) = self.state();
        let silent = now.duration_since(since);
        match phase {
            Phase::Silent | Phase::Answer => silent >= SILENT_MAX,
            Phase::Head => silent >= HEAD_MAX,
            // Reading the body has its own time-out.
            Phase::Body | Phase::Working => false,
        }
    }
}

/// All connections.
#[derive(Debug)]
pub(crate) struct Seats {
    limits: Limits,
    table: Mutex<Table>,
    /// Signals that a connection has ended.
    freed: Notify,
}

#[derive(Debug, Default)]
struct Table {
    taken: BTreeMap<u64, Taken>,
    /// Number of the next connection; no number is used twice.
    next: u64,
}

#[derive(Debug)]
struct Taken {
    user: u32,
    pulse: Arc<Pulse>,
}

/// A connection's entry in the list. Dropping it frees the entry.
#[derive(Debug)]
pub(crate) struct Seat {
    seats: Arc<Seats>,
    number: u64,
    pub(crate) pulse: Arc<Pulse>,
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.seats.lock().taken.remove(&self.number);
        self.seats.freed.notify_one();
    }
}

impl Seats {
    pub(crate) fn new(limits: Limits) -> Arc<Self> {
        Arc::new(Self {
            limits,
            table: Mutex::default(),
            freed: Notify::new(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Completes when a connection has ended.
    pub(crate) async fn freed(&self) {
        self.freed.notified().await;
    }

    /// True if a new connection fits, or another one can be closed for it.
    pub(crate) fn has_room(&self) -> bool {
        let (table, now) = (self.lock(), Instant::now());
        table.taken.len() < self.limits.connections || table.taken.values().any(|one| one.pulse.makes_room(now))
    }

    /// Returns a seat for a connection of `user`, or `None`. If all seats, or all seats of this user, are taken, closes
    /// the connection with the longest silence. The flag is true if a connection was closed.
    pub(crate) fn take(self: &Arc<Self>, user: u32) -> Option<(Seat, bool)> {
        let (mut table, now) = (self.lock(), Instant::now());
        let of_user = table.taken.values().filter(|one| one.user == user).count();
        let closes = if of_user >= self.limits.per_user {
            Some(table.close_oldest(now, |one| one.user == user)?)
        } else if table.taken.len() >= self.limits.connections {
            Some(table.close_oldest(now, |_| true)?)
        } else {
            None
        };
        let pulse = Arc::new(Pulse::new(now));
        let number = table.next;
        table.next += 1;
        let one = Taken {
            user,
            pulse: Arc::clone(&pulse),
        };
        table.taken.insert(number, one);
        drop(table);
        let seat = Seat {
            seats: Arc::clone(self),
            number,
            pulse,
        };
        Some((seat, closes.is_some()))
    }

    /// Closes the connection with the longest silence, if one is silent.
    pub(crate) fn make_room(&self) {
        let _ = self.lock().close_oldest(Instant::now(), |_| true);
    }

    /// Closes connections that were silent beyond their limit.
    pub(crate) fn close_silent(&self) {
        let now = Instant::now();
        let table = self.lock();
        let over = table.taken.values().filter(|one| one.pulse.is_over(now));
        over.for_each(|one| one.pulse.close.notify_one());
    }
}

impl Table {
    fn close_oldest(&mut self, now: Instant, of: impl Fn(&Taken) -> bool) -> Option<()> {
        let silent = self
            .taken
            .iter()
            .filter(|(_, one)| of(one) && one.pulse.makes_room(now));
        let (&number, _) = silent.min_by_key(|(_, one)| one.pulse.state().1)?;
        self.taken.remove(&number)?.pulse.close.notify_one();
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const LIMITS: Limits = Limits {
        connections: 4,
        per_user: 3,
    };

    /// Sets a phase that began `age` ago.
    fn set(seat: &Seat, phase: Phase, age: Duration) {
        *seat.pulse.lock() = (phase, Instant::now().checked_sub(age).unwrap());
    }

    fn is_closed(seat: &Seat) -> bool {
        !seat.seats.lock().taken.contains_key(&seat.number)
    }

    #[test]
    fn the_connection_that_is_silent_for_longest_makes_room() {
        let seats = Seats::new(LIMITS);
        let take = |user| seats.take(user).map(|(seat, _)| seat);
        let (first, second, third) = (take(7).unwrap(), take(7).unwrap(), take(7).unwrap());
        let other = take(8).unwrap();
        set(&first, Phase::Working, Duration::from_secs(60));
        set(&second, Phase::Head, Duration::from_secs(5));
        set(&third, Phase::Silent, Duration::from_secs(1));
        set(&other, Phase::Silent, Duration::from_secs(9));
        // A user has three seats: the oldest silent connection of the same user is closed.
        let fourth = take(7).unwrap();
        assert!(is_closed(&second) && !is_closed(&first) && !is_closed(&other));
        drop(second);
        // All four seats are taken: for a third user, the oldest silent connection of all users is closed.
        let fifth = take(9).unwrap();
        assert!(is_closed(&other));
        for seat in [&third, &fourth, &fifth] {
            set(seat, Phase::Answer, Duration::ZERO);
        }
        assert!(take(10).is_none() && !seats.has_room(), "no connection is silent");
        set(&fourth, Phase::Answer, STALLED);
        assert!(seats.has_room() && take(10).is_some() && is_closed(&fourth));
        drop(other);
        // The seats of closed connections are not freed a second time.
        drop(fourth);
        assert_eq!(seats.lock().taken.len(), 3);
    }

    #[test]
    fn of_bodies_under_way_the_one_without_new_bytes_makes_room() {
        let seats = Seats::new(LIMITS);
        let take = |user| seats.take(user).map(|(seat, _)| seat);
        let (cut, whole, arriving) = (take(7).unwrap(), take(7).unwrap(), take(7).unwrap());
        for (seat, phase) in [(&cut, Phase::Body), (&whole, Phase::Working), (&arriving, Phase::Body)] {
            set(seat, phase, Duration::from_millis(200));
        }
        assert!(!arriving.pulse.received(), "no new request begins");
        let next = take(7).unwrap();
        assert!(is_closed(&cut) && !is_closed(&whole) && !is_closed(&arriving) && !is_closed(&next));
    }

    #[test]
    fn silence_has_an_end() {
        let check = |phase, age, want| {
            let (seat, _) = Seats::new(LIMITS).take(0).unwrap();
            set(&seat, phase, age);
            assert_eq!(seat.pulse.is_over(Instant::now()), want, "{phase:?} for {age:?}");
        };
        let second = Duration::from_secs(1);
        check(Phase::Silent, SILENT_MAX, true);
        check(Phase::Silent, SILENT_MAX - second, false);
        check(Phase::Head, HEAD_MAX, true);
        check(Phase::Head, HEAD_MAX - second, false);
        check(Phase::Answer, SILENT_MAX, true);
        check(Phase::Working, 10 * SILENT_MAX, false);
    }
}
