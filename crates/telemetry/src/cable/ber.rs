//! Estimates of bit error rates from symbol errors.

use core::fmt;
use core::time::Duration;

use selvedge_types::{LinkSpeed, Rate};

/// Standard deviations of a two-sided interval of 95 %.
const Z: f64 = 1.96;

/// A bit error rate, estimated from symbol errors.
///
/// `rate = errors ÷ bits`, where `bits = time × signalling rate of a lane × lanes`: a link that is up always sends
/// symbols, whether or not there are packets. One symbol error is at least one bit error, so the true rate may be
/// higher. From HDR on a symbol error is what the forward error correction could not mend: the estimate is that of the
/// rate after correction, which vendors call effective or symbol BER.
///
/// The interval holds the true mean with 95 % confidence if errors are independent of each other (Poisson), by Wilson's
/// and Hilferty's approximation of the chi-squared quantiles, each ÷ bits:
/// `low = n (1 − 1/9n − z/3√n)³` and `high = m (1 − 1/9m + z/3√m)³` with `m = n + 1`.
/// Errors in bursts make it too narrow.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BerEstimate {
    /// Symbol errors.
    pub errors: u64,
    /// Bits received in the time.
    pub bits: f64,
    /// The estimate; 0 without errors.
    pub rate: f64,
    /// The true rate is at least this, with 95 % confidence.
    pub low: f64,
    /// The true rate is at most this, with 95 % confidence. Without errors it is the best rate that the time without
    /// errors proves.
    pub high: f64,
}

impl BerEstimate {
    /// Returns the estimate of a link on which so many symbol errors were counted in this time. `None`: no time has
    /// passed, or the speed of the link is not known.
    #[must_use]
    pub fn new(errors: u64, over: Duration, rate: Rate) -> Option<Self> {
        let bits = over.as_secs_f64() * f64::from(rate.mbit_per_s()) * 1e6;
        if bits <= 0.0 || rate.speed == LinkSpeed::Unknown {
            return None;
        }
        let n = errors as f64;
        let low = match errors {
            0 => 0.0,
            _ => n * (1.0 - 1.0 / (9.0 * n) - Z / (3.0 * n.sqrt())).max(0.0).powi(3),
        };
        let m = n + 1.0;
        let high = m * (1.0 - 1.0 / (9.0 * m) + Z / (3.0 * m.sqrt())).powi(3);
        Some(Self {
            errors,
            bits,
            rate: n / bits,
            low: low / bits,
            high: high / bits,
        })
    }
}

impl fmt::Display for BerEstimate {
    /// Prints the rate with its interval: `2.0e-11 (95 %: 9.6e-12 to 3.7e-11)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.errors {
            0 => write!(f, "below {:.1e} (95 %; no error yet)", self.high),
            _ => write!(f, "{:.1e} (95 %: {:.1e} to {:.1e})", self.rate, self.low, self.high),
        }
    }
}

#[cfg(test)]
mod tests {
    use selvedge_types::LinkWidth;

    use super::*;

    /// Garwood's exact 95 % intervals of a Poisson mean.
    #[test]
    fn the_interval_is_that_of_poisson() {
        let rate = Rate {
            width: LinkWidth::X4,
            speed: LinkSpeed::Qdr,
        };
        for (errors, low, high) in [
            (0, 0.0, 3.689),
            (1, 0.0253, 5.572),
            (5, 1.623, 11.668),
            (10, 4.795, 18.390),
            (100, 81.36, 121.63),
        ] {
            // 40 Gbit/s for 25 s: 1e12 bits.
            let found = BerEstimate::new(errors, Duration::from_secs(25), rate).expect("a known speed");
            assert_eq!(found.bits, 1e12);
            assert!((found.rate * 1e12 - errors as f64).abs() < 1e-9);
            let near = |found: f64, want: f64| (found * 1e12 - want).abs() <= 0.012 * want + 0.03;
            assert!(near(found.low, low) && near(found.high, high), "{errors}: {found:?}");
        }
        assert_eq!(BerEstimate::new(1, Duration::ZERO, rate), None);
        let unknown = Rate {
            speed: LinkSpeed::Unknown,
            ..rate
        };
        assert_eq!(BerEstimate::new(1, Duration::from_secs(1), unknown), None);
    }

    #[test]
    fn it_prints_with_its_interval() {
        let rate = Rate {
            width: LinkWidth::X4,
            speed: LinkSpeed::Qdr,
        };
        let check = |errors, want: &str| {
            let found = BerEstimate::new(errors, Duration::from_secs(25), rate).expect("a known speed");
            assert_eq!(found.to_string(), want);
        };
        check(0, "below 3.7e-12 (95 %; no error yet)");
        check(10, "1.0e-11 (95 %: 4.8e-12 to 1.8e-11)");
    }
}
