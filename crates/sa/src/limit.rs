//! How much one client may ask.

use selvedge_sim::Time;
use selvedge_types::Lid;

use crate::config::Config;

/// What one LID has left.
#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    /// Requests it may still send, at `at`.
    left: u32,
    /// In milliseconds, from the clock's start; 0: never asked.
    at: u32,
}

/// A bucket for each LID.
#[derive(Debug, Default)]
pub(crate) struct Limits {
    /// By LID; grows to the highest that ever asked: at most 49,152 × 8 bytes.
    buckets: Vec<Bucket>,
}

impl Limits {
    /// Takes `cost` requests out of a client's bucket; false if there are not so many in it.
    pub fn take(&mut self, config: &Config, now: Time, lid: Lid, cost: u32) -> bool {
        if self.buckets.len() <= lid.index() {
            self.buckets.resize(lid.index() + 1, Bucket::default());
        }
        let bucket = &mut self.buckets[lid.index()];
        let now_ms = u32::try_from(now.0 / 1_000_000 + 1).unwrap_or(u32::MAX);
        if bucket.at == 0 {
            *bucket = Bucket {
                left: config.burst,
                at: now_ms,
            };
        }
        let passed = u64::from(now_ms.saturating_sub(bucket.at));
        if passed > 0 {
            let more = passed * u64::from(config.rate_per_s) / 1_000;
            let left = (u64::from(bucket.left) + more).min(u64::from(config.burst));
            // What a millisecond is worth less than a request is not lost: the clock of the bucket stands still.
            if more > 0 {
                *bucket = Bucket {
                    left: u32::try_from(left).unwrap_or(u32::MAX),
                    at: now_ms,
                };
            }
        }
        match bucket.left.checked_sub(cost) {
            Some(left) => {
                bucket.left = left;
                true
            }
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn each_client_has_its_own_bucket() {
        let config = Config {
            burst: 3,
            rate_per_s: 500,
            ..Config::default()
        };
        let mut limits = Limits::default();
        let mut take = |lid: u16, ms: u64| {
            let now = Time::ZERO + Duration::from_millis(ms);
            limits.take(&config, now, Lid(lid), 1)
        };
        assert_eq!(
            [take(1, 0), take(1, 0), take(1, 0), take(1, 0)],
            [true, true, true, false]
        );
        assert!(take(2, 0), "the other has lost nothing");
        assert!(!take(1, 1), "half a request");
        assert!(take(1, 2));
        assert!(!take(1, 2));
        assert_eq!(
            [take(1, 9_000), take(1, 9_000), take(1, 9_000), take(1, 9_000)],
            [true, true, true, false]
        );
    }
}
