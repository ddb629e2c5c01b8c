//! Times and memory, measured by the caller: a study reads no clock.

use selvedge_sim::Time;

/// Measures time and memory for a study.
pub trait Meter: Sync {
    /// Returns the time since a fixed moment. It never goes back.
    fn now(&self) -> Time;

    /// Returns the highest resident memory of the process so far, in bytes; `None` where the system does not state it.
    fn peak_rss_bytes(&self) -> Option<u64>;

    /// Returns the processor time of the calling thread so far, in ns; `None` where the system does not state it.
    fn thread_cpu_ns(&self) -> Option<u64>;
}

/// Measures nothing: all times are 0.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoMeter;

impl Meter for NoMeter {
    fn now(&self) -> Time {
        Time::ZERO
    }

    fn peak_rss_bytes(&self) -> Option<u64> {
        None
    }

    fn thread_cpu_ns(&self) -> Option<u64> {
        None
    }
}

/// Returns the milliseconds since an earlier reading of a meter.
pub(crate) fn ms_since(meter: &dyn Meter, start: Time) -> f64 {
    meter.now().since(start).as_secs_f64() * 1e3
}

/// Returns the last of `times` results, and the median time of a run in milliseconds.
pub(crate) fn timed<T>(meter: &dyn Meter, times: u32, mut run: impl FnMut() -> T) -> (T, f64) {
    let mut all = Vec::new();
    let mut once = || {
        let start = meter.now();
        let result = run();
        all.push(ms_since(meter, start));
        result
    };
    let mut last = once();
    for _ in 1..times {
        last = once();
    }
    (last, median(&mut all))
}

/// Returns the middle value; of an even number of values the mean of the two in the middle; 0 of none.
pub fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    match (values.len(), values.len() / 2) {
        (0, _) => 0.0,
        (count, half) if count.is_multiple_of(2) => f64::midpoint(values[half - 1], values[half]),
        (_, half) => values[half],
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    /// Counts a millisecond for each reading.
    #[derive(Default)]
    pub(crate) struct Ticking(AtomicU64);

    impl Meter for Ticking {
        fn now(&self) -> Time {
            Time::from_millis(self.0.fetch_add(1, Ordering::Relaxed))
        }

        fn peak_rss_bytes(&self) -> Option<u64> {
            Some(4_096)
        }

        fn thread_cpu_ns(&self) -> Option<u64> {
            Some(self.now().0)
        }
    }

    #[test]
    fn medians() {
        let check = |values: &[f64], want: f64| assert_eq!(median(&mut values.to_vec()), want);
        check(&[], 0.0);
        check(&[3.0], 3.0);
        check(&[9.0, 1.0, 2.0], 2.0);
        check(&[4.0, 1.0, 2.0, 9.0], 3.0);
    }

    #[test]
    fn each_run_is_timed_alone() {
        let mut runs = 0;
        let (last, ms) = timed(&Ticking::default(), 3, || {
            runs += 1;
            runs
        });
        assert_eq!((last, ms), (3, 1.0));
    }
}
