//! Medians and ranges: a number without its spread is not quoted.

use std::fmt;

/// Median, minimum and maximum of some samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// Middle sample; the mean of the two middle ones if their number is even.
    pub median: f64,
    /// Smallest sample.
    pub min: f64,
    /// Largest sample.
    pub max: f64,
    /// Arithmetic mean.
    pub mean: f64,
    /// Number of samples.
    pub count: usize,
}

impl Spread {
    /// Returns the spread of some samples; `None` without a sample.
    #[must_use]
    pub fn of(samples: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = samples.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        let (&min, &max) = (sorted.first()?, sorted.last()?);
        let middle = sorted.len() / 2;
        let median = if sorted.len().is_multiple_of(2) {
            f64::midpoint(sorted[middle - 1], sorted[middle])
        } else {
            sorted[middle]
        };
        Some(Self {
            median,
            min,
            max,
            mean: sorted.iter().sum::<f64>() / sorted.len() as f64,
            count: sorted.len(),
        })
    }
}

impl fmt::Display for Spread {
    /// Prints `1.23 (1.10–1.40)`. The precision of the format applies to all three numbers.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = f.precision().unwrap_or(2);
        write!(
            f,
            "{:.digits$} ({:.digits$}–{:.digits$})",
            self.median, self.min, self.max
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spreads() {
        let check = |samples: &[f64], want: &str| {
            let spread = Spread::of(samples.iter().copied());
            assert_eq!(
                spread.map(|s| format!("{s:.1}")).unwrap_or_default(),
                want,
                "{samples:?}"
            );
        };
        check(&[], "");
        check(&[2.0], "2.0 (2.0–2.0)");
        check(&[3.0, 1.0, 9.0], "3.0 (1.0–9.0)");
        check(&[4.0, 1.0, 9.0, 2.0], "3.0 (1.0–9.0)");
    }
}
