//! Accepted load over time, and the time from which it is steady.

use crate::units::Ps;

/// Number of steps of a simulation.
pub(crate) const STEPS: u64 = 200;
/// Largest share of the steps that may count as warm-up. A series that is not steady by then is not steady.
const WARMUP_MAX: (usize, usize) = (3, 4);

/// Offered, accepted and dropped traffic in equal steps over the simulation.
#[derive(Clone, Debug)]
pub(crate) struct Series {
    step: Ps,
    /// Step of the last delivery, and its start. Avoids a division, which takes as long as everything else here.
    current: (usize, Ps),
    /// Payload bytes that were due.
    pub offered: Vec<u64>,
    /// Payload bytes delivered.
    pub accepted: Vec<u64>,
    /// Packets dropped.
    pub dropped: Vec<u64>,
}

impl Series {
    pub fn new(end: Ps) -> Self {
        let step = end.div_ceil(STEPS).max(1);
        Self {
            step,
            current: (0, 0),
            offered: vec![0; STEPS as usize],
            accepted: vec![0; STEPS as usize],
            dropped: vec![0; STEPS as usize],
        }
    }

    /// Returns the step of a time.
    #[inline]
    fn place(&mut self, at: Ps) -> usize {
        let (place, start) = self.current;
        if at >= start && at - start < self.step {
            return place;
        }
        let place = (at / self.step) as usize;
        self.current = (place, place as u64 * self.step);
        place
    }

    #[inline]
    pub fn accept(&mut self, now: Ps, bytes: u64) {
        let place = self.place(now);
        if let Some(sum) = self.accepted.get_mut(place) {
            *sum += bytes;
        }
    }

    #[inline]
    pub fn offer(&mut self, at: Ps, bytes: u64) {
        let place = self.place(at);
        if let Some(sum) = self.offered.get_mut(place) {
            *sum += bytes;
        }
    }

    pub fn drop(&mut self, now: Ps) {
        let place = self.place(now);
        if let Some(sum) = self.dropped.get_mut(place) {
            *sum += 1;
        }
    }

    pub const fn step(&self) -> Ps {
        self.step
    }

    /// Returns how many steps have ended by `now`.
    pub fn ended(&self, now: Ps) -> usize {
        ((now / self.step) as usize).min(self.accepted.len())
    }
}

/// Returns how many of the first values to leave out so that the standard error of the mean of the rest is smallest:
/// the marginal standard error rule (White 1997). `None` if no beginning is short enough, or if the rest still rises or
/// falls.
#[must_use]
pub fn steady_from(values: &[u64]) -> Option<usize> {
    let (share, of) = WARMUP_MAX;
    let most = values.len() * share / of;
    // Sums from the end give each error from two numbers.
    let (mut sum, mut squares) = (0.0, 0.0);
    let mut best: Option<(f64, usize)> = None;
    for (first, &value) in values.iter().enumerate().rev() {
        let value = value as f64;
        sum += value;
        squares += value * value;
        let count = (values.len() - first) as f64;
        let error = (squares - sum * sum / count).max(0.0) / (count * count);
        if first <= most && count > 1.0 && best.is_none_or(|(least, _)| error <= least) {
            best = Some((error, first));
        }
    }
    // At the limit itself the error might fall further.
    best.map(|(_, first)| first)
        .filter(|&first| first < most && is_level(&values[first..]))
}

/// True if the means of both halves differ by at most 5 %. A steady rise, which the error alone does not show, fails.
fn is_level(values: &[u64]) -> bool {
    let (a, b) = values.split_at(values.len() / 2);
    let mean = |half: &[u64]| half.iter().sum::<u64>() as f64 / half.len().max(1) as f64;
    let (a, b) = (mean(a), mean(b));
    (a - b).abs() <= 0.05 * (a + b) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_beginning_is_found() {
        let check = |values: &[u64], want| assert_eq!(steady_from(values), want, "{values:?}");
        check(&[100; 20], Some(0));
        let mut ramp = vec![0, 20, 50, 80];
        ramp.extend([
            100, 102, 99, 101, 98, 100, 101, 99, 100, 102, 100, 99, 101, 100, 98, 100,
        ]);
        check(&ramp, Some(4));
        let growing: Vec<u64> = (0..20).map(|i| i * i * i).collect();
        check(&growing, None);
        check(&[], None);
    }

    #[test]
    fn bytes_fall_into_steps() {
        let mut series = Series::new(2_000);
        for at in [0, 9, 10, 1_999, 2_000] {
            series.accept(at, 5);
        }
        series.offer(15, 7);
        series.drop(20);
        assert_eq!(series.accepted[..3], [10, 5, 0]);
        assert_eq!(
            (series.ended(1_999), series.ended(2_000), series.accepted[199]),
            (199, 200, 5)
        );
        assert_eq!((series.offered[1], series.dropped[2]), (7, 1));
    }
}
