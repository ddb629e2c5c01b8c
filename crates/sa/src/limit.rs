//! Limits the requests of each client.

use selvedge_sim::Time;
use selvedge_types::Lid;

use crate::config::Config;

/// Token bucket of one LID.
#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    /// Requests that the LID may still send, at time `at`. Negative after answers that took long to find.
    left: i32,
    /// Time in milliseconds since the start of the clock; 0: no request yet.
    at: u32,
    /// Number of requests above the limit.
    over: u32,
}

/// Number of examined rows that count as one request: they take as long as the cheapest request.
const ROWS_PER_REQUEST: u32 = 16;

/// A bucket for each LID.
#[derive(Debug, Default)]
pub(crate) struct Limits {
    /// Buckets by LID, up to the highest LID that sent a request: at most 49,152 × 12 bytes.
    buckets: Vec<Bucket>,
    /// Number of requests above the limit, of all clients.
    pub over: u64,
    /// The client with the most requests above its limit, and their number.
    pub most: Option<(Lid, u32)>,
}

impl Limits {
    /// Takes a request out of a client's bucket. False if the bucket is empty.
    pub fn take(&mut self, config: &Config, now: Time, lid: Lid) -> bool {
        if self.buckets.len() <= lid.index() {
            self.buckets.resize(lid.index() + 1, Bucket::default());
        }
        let bucket = &mut self.buckets[lid.index()];
        let burst = i32::try_from(config.burst).unwrap_or(i32::MAX);
        let now_ms = u32::try_from(now.0 / 1_000_000 + 1).unwrap_or(u32::MAX);
        if bucket.at == 0 {
            (bucket.left, bucket.at) = (burst, now_ms);
        }
        let passed = u64::from(now_ms.saturating_sub(bucket.at));
        if passed > 0 {
            let more = passed * u64::from(config.rate_per_s) / 1_000;
            // Time worth less than one request is not lost, because the bucket's clock does not advance for it.
            if more > 0 {
                let more = i32::try_from(more).unwrap_or(i32::MAX);
                (bucket.left, bucket.at) = (bucket.left.saturating_add(more).min(burst), now_ms);
            }
        }
        let has_one = bucket.left > 0;
        bucket.left -= i32::from(has_one);
        if !has_one {
            bucket.over = bucket.over.saturating_add(1);
            self.over += 1;
            if self.most.is_none_or(|(_, most)| most < bucket.over) {
                self.most = Some((lid, bucket.over));
            }
        }
        has_one
    }

    /// Charges a client for examined rows: they count as requests, so the client may send fewer in the time that
    /// follows. At most one second's worth of requests is charged, so that the client is not locked out for long.
    pub fn charge(&mut self, config: &Config, lid: Lid, rows: u32) {
        let most = i32::try_from(config.rate_per_s).unwrap_or(i32::MAX);
        let cost = i32::try_from(rows / ROWS_PER_REQUEST).unwrap_or(i32::MAX);
        if let Some(bucket) = self.buckets.get_mut(lid.index()) {
            bucket.left = bucket.left.saturating_sub(cost).max(-most);
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
            limits.take(&config, now, Lid(lid))
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

    #[test]
    fn who_makes_work_pays_for_it() {
        let config = Config {
            burst: 10,
            rate_per_s: 1_000,
            ..Config::default()
        };
        let mut limits = Limits::default();
        let check = |limits: &mut Limits, ms: u64, want: bool| {
            let now = Time::ZERO + Duration::from_millis(ms);
            assert_eq!(limits.take(&config, now, Lid(1)), want, "{ms}");
        };
        check(&mut limits, 0, true);
        limits.charge(&config, Lid(1), 15);
        check(&mut limits, 0, true);
        limits.charge(&config, Lid(1), 2_000);
        // 8 were left, 125 are paid.
        check(&mut limits, 117, false);
        check(&mut limits, 118, true);
        check(&mut limits, 118, false);
        limits.charge(&config, Lid(1), u32::MAX);
        check(&mut limits, 1_118, false);
        check(&mut limits, 1_119, true);
        assert_eq!((limits.over, limits.most), (3, Some((Lid(1), 3))));
        // No client has sent a request from this LID.
        limits.charge(&config, Lid(2), 5);
    }
}
