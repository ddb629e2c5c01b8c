//! An observer on a relay before ibsim, by the machine's clock.

use std::fs;
use std::sync::mpsc::Receiver;
use std::thread;
use std::time::{Duration, Instant};

use selvedge_conformance::Seen;
use selvedge_transport::ibsim::Way;

use crate::case::Case;
use crate::error::BenchError;
use crate::failover::observer::{Observer, Passing, Span};

/// After this silence the manager is done in any case: no change was needed, and the manager's log does not report
/// that.
const LONG_SILENCE: Duration = Duration::from_secs(20);
/// Time between two checks.
const STEP: Duration = Duration::from_millis(20);
/// Processor time, in hundredths of a second, that an idle manager may use in a second while it is silent.
const IDLE_TICKS: f64 = 5.0;
/// Smallest processor time that counts, in hundredths of a second: the clock of processor time is no finer.
const TICKS_MIN: f64 = 3.0;

/// An observer, and its source of packets.
pub struct Watch<'c> {
    case: &'c Case,
    seen: Receiver<Seen>,
    /// The client that is watched: a process id.
    client: u32,
    /// The start of the clock.
    start: Instant,
    /// How long a manager must neither send nor use its processor before it counts as done.
    silence: Duration,
    /// The observer.
    pub observer: Observer<'c>,
}

impl<'c> Watch<'c> {
    /// Watches the packets of the client with this process id, from a relay; the clock begins at `start`.
    #[must_use]
    pub const fn new(case: &'c Case, seen: Receiver<Seen>, client: u32, start: Instant) -> Self {
        Self {
            case,
            seen,
            client,
            start,
            silence: Duration::ZERO,
            observer: Observer::new(case),
        }
    }

    /// Sets how long a manager must neither send nor use its processor before it counts as done.
    pub const fn set_silence(&mut self, silence: Duration) {
        self.silence = silence;
    }

    /// Waits until the manager has neither sent nor used its processor for this time.
    pub fn rest_for(&mut self, silence: Duration, limit: Duration) -> Result<(), BenchError> {
        self.set_silence(silence);
        self.settle(limit, |_| true)
    }

    /// Begins a new span.
    pub fn begin(&mut self) {
        self.drain();
        self.observer.begin();
    }

    /// Returns the span so far.
    pub fn span(&mut self) -> &Span {
        self.drain();
        &self.observer.span
    }

    /// Returns the time of the clock.
    #[must_use]
    pub fn now(&self) -> Duration {
        self.start.elapsed()
    }

    /// Waits until the manager is done: it neither sends nor uses its processor any more, and `is_done` returns true.
    /// It may still wait for packets in flight, and continue then.
    pub fn settle(&mut self, limit: Duration, mut is_done: impl FnMut(&Span) -> bool) -> Result<(), BenchError> {
        let (start, mut silent) = (Instant::now(), None);
        loop {
            let packets = self.drain();
            let (now, ticks) = (Instant::now(), ticks(self.client));
            let (since, first) = match silent {
                Some(silent) if packets == 0 => silent,
                _ => (now, ticks),
            };
            silent = Some((since, first));
            if now.duration_since(since) >= self.silence {
                let idle = (IDLE_TICKS * self.silence.as_secs_f64()).max(TICKS_MIN);
                if (ticks - first) as f64 > idle {
                    silent = None;
                } else if is_done(&self.observer.span) || now.duration_since(since) >= LONG_SILENCE {
                    return Ok(());
                }
            }
            if start.elapsed() > limit {
                return Err(BenchError::NotQuiet {
                    fabric: self.case.spec.clone(),
                    limit_s: limit.as_secs(),
                });
            }
            thread::park_timeout(STEP);
        }
    }

    /// Handles the packets that have arrived. Returns the number of packets of the manager.
    fn drain(&mut self) -> usize {
        let mut packets = 0;
        while let Ok(seen) = self.seen.try_recv() {
            let at = seen.at.saturating_duration_since(self.start);
            let packet = &seen.packet;
            if seen.client == self.client {
                packets += 1;
                self.observer.take(&Passing {
                    at,
                    way: seen.way,
                    address: packet.to.into(),
                    is_returned: seen.way == Way::Down && packet.status != 0,
                    mad: &packet.mad,
                });
            } else {
                let others = &mut self.observer.span.others;
                *others = Some((others.map_or(at, |(first, _)| first), at));
            }
        }
        packets
    }
}

/// Processor time that a process has used, in hundredths of a second; 0 if it is gone.
fn ticks(pid: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The second field is a name in brackets and may hold anything; utime and stime are the 12th and 13th after it.
    let fields = text.rsplit_once(')').map_or("", |(_, rest)| rest);
    let times = fields.split_whitespace().skip(11).take(2);
    times.filter_map(|field| field.parse::<u64>().ok()).sum()
}
