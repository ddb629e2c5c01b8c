//! Times at which a host posts its messages.

use core::fmt;
use core::str::FromStr;

use selvedge_dataplane::Ps;
use selvedge_sim::Rng;
use serde::{Deserialize, Serialize};

use crate::pattern::Fields;

/// Distribution of times between messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Arrivals {
    /// In each interval of 64 bytes a message begins with the same probability.
    #[default]
    Bernoulli,
    /// Exponentially distributed intervals.
    Poisson,
    /// Equal intervals; each host begins at a random time.
    Even,
    /// Messages to the same receiver without a gap, then a pause. Numbers are geometric, pauses exponential.
    Bursts {
        /// Mean number of messages.
        mean: u32,
    },
    /// A fixed number of messages in flight: the next is posted when one has arrived. The load is ignored.
    Closed {
        /// Number of messages per host.
        window: u32,
    },
}

/// SLV-WORKLOAD-0005: the text does not name an arrival process: the times at which hosts get messages to send.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "SLV-WORKLOAD-0005: '{text}' is no arrival process: {what}; known: bernoulli, poisson, even, bursts[:mean=N], \
     closed[:window=N]"
)]
pub struct ArrivalsError {
    /// The text given.
    pub text: String,
    /// The problem.
    pub what: String,
}

/// SLV-WORKLOAD-0011: the load is out of range.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error(
    "SLV-WORKLOAD-0011: a load of {load}; want more than 0, and at most {LOAD_MAX}: at 1 every host sends without a \
     pause; a higher load only adds messages that wait"
)]
pub struct LoadError {
    /// The load.
    pub load: f64,
}

/// Largest load, as a fraction of the links' rate.
const LOAD_MAX: f64 = 100.0;

/// Returns the load if it is valid: above 0, and at most 100 times the rate of a link.
pub fn load(load: f64) -> Result<f64, LoadError> {
    match load > 0.0 && load <= LOAD_MAX {
        true => Ok(load),
        false => Err(LoadError { load }),
    }
}

/// Default number of messages per burst.
const BURST: u32 = 16;

impl FromStr for Arrivals {
    type Err = ArrivalsError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = |what: String| ArrivalsError {
            text: text.to_owned(),
            what,
        };
        let (name, rest) = text.split_once(':').unwrap_or((text, ""));
        let mut fields = Fields::read(rest).map_err(error)?;
        let positive = |number: u32| match number {
            0 => Err(error("want at least 1".to_owned())),
            number => Ok(number),
        };
        let arrivals = match name {
            "bernoulli" => Self::Bernoulli,
            "poisson" => Self::Poisson,
            "even" => Self::Even,
            "bursts" => Self::Bursts {
                mean: positive(fields.number("mean", BURST).map_err(error)?)?,
            },
            "closed" => Self::Closed {
                window: positive(fields.number("window", 1).map_err(error)?)?,
            },
            _ => return Err(error(format!("there is no '{name}'"))),
        };
        fields.end(name).map_err(error)?;
        Ok(arrivals)
    }
}

impl fmt::Display for Arrivals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bernoulli => f.write_str("bernoulli"),
            Self::Poisson => f.write_str("poisson"),
            Self::Even => f.write_str("even"),
            Self::Bursts { mean } => write!(f, "bursts:mean={mean}"),
            Self::Closed { window } => write!(f, "closed:window={window}"),
        }
    }
}

impl From<Arrivals> for String {
    fn from(arrivals: Arrivals) -> Self {
        arrivals.to_string()
    }
}

impl TryFrom<String> for Arrivals {
    type Error = ArrivalsError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

/// Returns a random number with mean 1 and density `e^-x`.
///
/// Uses only additions, multiplications and divisions, which give the same results on every machine; a library's
/// logarithm may not.
#[must_use]
pub fn exponential(rng: &mut Rng) -> f64 {
    // 1 to 2^53 of 2^53.
    let drawn = ((rng.next_u64() >> 11) + 1) as f64;
    // A number is m · 2^e with m from 1 to 2.
    let bits = drawn.to_bits();
    let e = (bits >> 52) as i64 - 1_023;
    let m = f64::from_bits(bits & ((1 << 52) - 1) | 1_023 << 52);
    // ln m = 2 artanh((m - 1) / (m + 1)), with an argument of at most 1/3.
    let t = (m - 1.0) / (m + 1.0);
    let square = t * t;
    let mut sum = 0.0;
    for term in ARTANH.iter().rev() {
        sum = sum * square + term;
    }
    (53 - e) as f64 * core::f64::consts::LN_2 - 2.0 * t * sum
}

/// 1/1, 1/3, 1/5 and so on: the series of artanh.
const ARTANH: [f64; 16] = {
    let mut terms = [0.0; 16];
    let mut n = 0;
    while n < terms.len() {
        terms[n] = 1.0 / (2 * n + 1) as f64;
        n += 1;
    }
    terms
};

/// Times of one host's messages.
#[derive(Clone, Debug)]
pub struct Pace {
    arrivals: Arrivals,
    /// Time of a message at the full payload rate, in ps.
    message: f64,
    /// Time of a message at the wanted load.
    mean: f64,
    /// Time of 64 bytes.
    unit: f64,
    /// Rate of the exponential numbers. Rounded down, such a number counts units without a message (Bernoulli), or
    /// further messages of a burst, before the next success.
    rate: f64,
    /// Time of the previous message, with fractions of a picosecond, so that rounding errors do not add up.
    at: f64,
    /// Number of messages left in the burst.
    left: u32,
    /// True if the load is so high that messages follow each other without random gaps.
    full: bool,
    begun: bool,
}

/// A time, and whether the message goes to the same receiver as the previous one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    /// The time.
    pub at: Ps,
    /// True within a burst.
    pub same_receiver: bool,
}

impl Pace {
    /// Returns the pace for messages with `bytes` of payload, at a fraction of the rate at which a byte takes
    /// `byte_ps`.
    #[must_use]
    pub fn new(arrivals: Arrivals, load: f64, bytes: u32, byte_ps: f64) -> Self {
        let message = f64::from(bytes.max(1)) * byte_ps;
        let (unit, mean) = (64.0 * byte_ps, message / load.max(1e-9));
        let rate = match arrivals {
            Arrivals::Bursts { mean } => geometric_rate(1.0 / f64::from(mean.max(1))),
            _ => geometric_rate((unit / mean).min(1.0)),
        };
        Self {
            arrivals,
            message,
            mean,
            unit,
            rate,
            at: 0.0,
            left: 0,
            full: load >= 1.0,
            begun: false,
        }
    }

    /// Returns when the next message is due.
    pub fn next(&mut self, rng: &mut Rng) -> Due {
        let first = !core::mem::replace(&mut self.begun, true);
        let mut same_receiver = false;
        let gap = match self.arrivals {
            // The host begins at a random time within its first message.
            _ if self.full && first => self.message * (rng.below(1 << 20) as f64 / (1_u64 << 20) as f64),
            Arrivals::Even if first => self.mean * (rng.below(1 << 20) as f64 / (1_u64 << 20) as f64),
            Arrivals::Bursts { mean } => {
                same_receiver = self.left > 0;
                if same_receiver {
                    self.left -= 1;
                    self.message
                } else {
                    // Geometric with this mean; the current message is the first.
                    self.left = (exponential(rng) / self.rate) as u32;
                    let pause = f64::from(mean) * (self.mean - self.message);
                    self.message + exponential(rng) * pause.max(0.0)
                }
            }
            _ if self.full || self.arrivals == Arrivals::Even => self.mean,
            Arrivals::Bernoulli => {
                // The number of units up to the first success.
                let units = (exponential(rng) / self.rate).floor() + 1.0;
                units * self.unit
            }
            _ => exponential(rng) * self.mean,
        };
        self.at += gap;
        Due {
            at: self.at as Ps,
            same_receiver,
        }
    }
}

/// Returns the rate for which exponential numbers, rounded down, are the failures before a success of probability `p`:
/// `-ln(1 - p)`.
fn geometric_rate(p: f64) -> f64 {
    if p >= 1.0 {
        return f64::INFINITY;
    }
    // -ln(1 - p) = 2 artanh(p / (2 - p)).
    let t = p / (2.0 - p);
    let square = t * t;
    let (mut power, mut sum) = (t, 0.0);
    for n in 0..256 {
        sum += power / f64::from(2 * n + 1);
        power *= square;
    }
    2.0 * sum
}

#[cfg(test)]
mod tests {
    use selvedge_sim::Seed;

    use super::*;

    #[test]
    fn exponential_numbers() {
        let mut rng = Seed(1).rng();
        let values: Vec<f64> = (0..200_000).map(|_| exponential(&mut rng)).collect();
        let share = |above: f64| values.iter().filter(|&&v| v > above).count() as f64 / values.len() as f64;
        let mean: f64 = values.iter().sum::<f64>() / values.len() as f64;
        assert!((mean - 1.0).abs() < 0.01, "{mean}");
        for above in [0.1, 1.0, 3.0] {
            assert!((share(above) - (-above).exp()).abs() < 0.005, "{above}");
        }
        assert!(values.iter().all(|&v| v >= 0.0));
        for p in [0.001, 0.3, 0.9] {
            assert!((geometric_rate(p) + (1.0 - p).ln()).abs() < 1e-9, "{p}");
        }
    }

    #[test]
    fn loads_have_limits() {
        for good in [1e-9, 0.5, 1.0, 100.0] {
            assert_eq!(load(good), Ok(good));
        }
        for bad in [0.0, -1.0, 100.1, 1e6, 1e308, f64::INFINITY, f64::NAN] {
            let error = load(bad).unwrap_err().to_string();
            assert!(error.contains("at most 100"), "{error}");
        }
    }

    #[test]
    fn every_pace_keeps_its_load() {
        let check = |text: &str, load: f64| {
            let mut pace = Pace::new(text.parse().unwrap(), load, 2_048, 40.0);
            let mut rng = Seed(3).rng();
            let count = 200_000;
            let last = (0..count).map(|_| pace.next(&mut rng).at).last().unwrap();
            let found = f64::from(count) * 2_048.0 * 40.0 / last as f64;
            assert!((found - load).abs() < 0.01 * load, "{text} {load}: {found}");
        };
        for load in [0.1, 0.5, 0.9, 1.0] {
            for text in ["bernoulli", "poisson", "even", "bursts:mean=8"] {
                check(text, load);
            }
        }
    }

    #[test]
    fn what_is_wrong_is_refused() {
        let check = |text: &str, want: &str| {
            let error = text.parse::<Arrivals>().unwrap_err().to_string();
            assert!(error.contains(want) && error.contains("poisson"), "{error}");
        };
        check("possion", "there is no 'possion'");
        check("bursts:mean=0", "at least 1");
        check("closed:size=3", "it has: window");
    }
}
