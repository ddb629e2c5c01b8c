//! Migration because of congestion: when the primary path is so busy that the alternate one is worth a try.
//!
//! A path is congested in a sample if its port had to wait for credits for a large share of the time (PortXmitWait), or
//! if the bandwidth measured on it fell below a share of what is expected. Several congested samples in a row ask for a
//! migration. After one, nothing is asked for during the hold-off, nor before the path now in use has had as many calm
//! samples in a row: two congested paths do not make a connection swing.

use selvedge_hca::Ps;

use crate::error::ToleranceError;

/// Thresholds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thresholds {
    /// A sample is congested from this share of time waited on, in thousandths. Default 300.
    pub wait_high: u32,
    /// A sample is calm up to this share, in thousandths. Default 100.
    pub wait_low: u32,
    /// A sample is congested below this share of the expected bandwidth, in thousandths; 0: bandwidth does not count.
    /// Default 500.
    pub bandwidth_low: u32,
    /// A sample is calm from this share on, in thousandths. Default 800.
    pub bandwidth_high: u32,
    /// Samples in a row that decide. Default 3.
    pub samples: u32,
    /// Shortest time between two migrations. Default 1 s.
    pub hold_off_ps: Ps,
}

impl Default for Thresholds {
    fn default() -> Self {
        Self {
            wait_high: 300,
            wait_low: 100,
            bandwidth_low: 500,
            bandwidth_high: 800,
            samples: 3,
            hold_off_ps: 1_000_000_000_000,
        }
    }
}

/// What was measured on the path in use since the sample before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Share of the time in which the port waited for credits, in thousandths.
    pub wait: u32,
    /// Bytes per second that got through; `None`: nothing was to be sent, so bandwidth says nothing.
    pub bandwidth: Option<u64>,
    /// Bytes per second that the path should give.
    pub expected: u64,
}

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Nothing.
    Stay,
    /// Call the path migration module.
    Migrate,
}

/// Counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CongestionCounts {
    /// Samples.
    pub samples: u64,
    /// Congested samples.
    pub congested: u64,
    /// Migrations asked for.
    pub asked: u64,
    /// Times at which enough congested samples had come during the hold-off.
    pub held_off: u64,
    /// Times at which they had come before the path had been calm since the last migration.
    pub not_calm_yet: u64,
    /// Times at which the connection was not ARMED.
    pub not_armed: u64,
}

/// The policy for one connection.
#[derive(Clone, Debug)]
pub struct Congestion {
    thresholds: Thresholds,
    congested: u32,
    calm: u32,
    migrated_at: Option<Ps>,
    counts: CongestionCounts,
}

impl Congestion {
    /// Returns a policy, or the threshold that contradicts another.
    pub const fn new(thresholds: Thresholds) -> Result<Self, ToleranceError> {
        let t = thresholds;
        let wrong = if t.wait_high > 1_000 || t.wait_high == 0 {
            Some(("wait_high", t.wait_high, "1 to 1000 thousandths"))
        } else if t.wait_low >= t.wait_high {
            Some(("wait_low", t.wait_low, "less than wait_high"))
        } else if t.bandwidth_high > 1_000 {
            Some(("bandwidth_high", t.bandwidth_high, "0 to 1000 thousandths"))
        } else if t.bandwidth_low > 0 && t.bandwidth_low >= t.bandwidth_high {
            Some(("bandwidth_low", t.bandwidth_low, "less than bandwidth_high, or 0"))
        } else if t.samples == 0 {
            Some(("samples", t.samples, "1 or more"))
        } else {
            None
        };
        if let Some((what, found, want)) = wrong {
            return Err(ToleranceError::Policy {
                what,
                found: found as u64,
                want,
            });
        }
        Ok(Self {
            thresholds,
            congested: 0,
            calm: 0,
            migrated_at: None,
            counts: CongestionCounts {
                samples: 0,
                congested: 0,
                asked: 0,
                held_off: 0,
                not_calm_yet: 0,
                not_armed: 0,
            },
        })
    }

    /// Takes a sample; `armed` is what the shared state shows.
    pub fn handle(&mut self, now: Ps, sample: &Sample, armed: bool) -> Decision {
        let t = &self.thresholds;
        let share = |bandwidth: u64| u128::from(bandwidth) * 1_000 / u128::from(sample.expected.max(1));
        let share = sample.bandwidth.map(share);
        let slow = t.bandwidth_low > 0 && share.is_some_and(|share| share < u128::from(t.bandwidth_low));
        let fast = t.bandwidth_low == 0 || share.is_none_or(|share| share >= u128::from(t.bandwidth_high));
        self.counts.samples += 1;
        if sample.wait >= t.wait_high || slow {
            self.counts.congested += 1;
            (self.congested, self.calm) = (self.congested + 1, 0);
        } else {
            self.congested = 0;
            self.calm = if sample.wait <= t.wait_low && fast {
                self.calm + 1
            } else {
                0
            };
            if self.calm >= t.samples
                && self
                    .migrated_at
                    .is_some_and(|at| now >= at.saturating_add(t.hold_off_ps))
            {
                self.migrated_at = None;
            }
        }
        if self.congested < t.samples {
            return Decision::Stay;
        }
        // Whatever is decided now, the next decision needs new samples.
        self.congested = 0;
        match self.migrated_at {
            Some(at) if now < at.saturating_add(t.hold_off_ps) => self.counts.held_off += 1,
            Some(_) => self.counts.not_calm_yet += 1,
            None if !armed => self.counts.not_armed += 1,
            None => {
                self.counts.asked += 1;
                (self.migrated_at, self.calm) = (Some(now), 0);
                return Decision::Migrate;
            }
        }
        Decision::Stay
    }

    /// Returns the counters.
    #[must_use]
    pub const fn counts(&self) -> CongestionCounts {
        self.counts
    }
}
