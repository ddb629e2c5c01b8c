//! Faults by trace: a file of times and links, or the exponential model of failures and repairs.
//!
//! ```text
//! # time   what  link or node
//! 0        down  L-1[3]
//! 12.5ms   up    L-1[3]
//! 1s       down  spine-2
//! ```

use selvedge_hca::Ps;
use selvedge_sim::{Rng, Seed};

use crate::error::TraceError;

/// What goes down and comes up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// A link, by the caller's number.
    Link(u32),
    /// A node with all its links, by the caller's number.
    Node(u32),
}

/// A fault or its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Time.
    pub at: Ps,
    /// Link or node.
    pub place: Place,
    /// False: it goes down.
    pub up: bool,
}

/// Faults in order of time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace(Vec<Fault>);

/// Largest number of faults of a trace: a million, some 24 MB.
const FAULTS_MAX: usize = 1_000_000;
/// Longest text of a line in an error.
const TEXT_MAX: usize = 60;
/// Longest time: about 28 hours of simulation.
const TIME_MAX: Ps = 100_000_000_000_000_000;

impl Trace {
    /// Reads a file. `find` returns the link or node of a name.
    pub fn parse(text: &str, find: impl Fn(&str) -> Option<Place>) -> Result<Self, TraceError> {
        let mut faults: Vec<Fault> = Vec::new();
        for (line, text) in (1..).zip(text.lines()) {
            let content = text.split('#').next().unwrap_or("").trim();
            if content.is_empty() {
                continue;
            }
            let malformed = |what| TraceError::Malformed {
                line,
                what,
                text: content.chars().take(TEXT_MAX).collect(),
            };
            let (time, rest) = content
                .split_once(char::is_whitespace)
                .ok_or_else(|| malformed("no event"))?;
            let (event, name) = rest
                .trim_start()
                .split_once(char::is_whitespace)
                .ok_or_else(|| malformed("no name"))?;
            let at = time_of(time).ok_or_else(|| malformed("no time such as 3us, 12.5ms or 1s"))?;
            let up = match event {
                "up" => true,
                "down" => false,
                _ => return Err(malformed("neither down nor up")),
            };
            let name = name.trim();
            let place = find(name).ok_or_else(|| TraceError::UnknownName {
                line,
                name: name.chars().take(TEXT_MAX).collect(),
            })?;
            if let Some(before) = faults.last().filter(|before| before.at > at) {
                return Err(TraceError::TimeGoesBack {
                    line,
                    found_ps: at,
                    before_ps: before.at,
                });
            }
            if faults.len() == FAULTS_MAX {
                return Err(TraceError::TooMany { most: FAULTS_MAX });
            }
            faults.push(Fault { at, place, up });
        }
        Ok(Self(faults))
    }

    /// Returns the faults.
    #[must_use]
    pub fn faults(&self) -> &[Fault] {
        &self.0
    }
}

/// Returns a time in picoseconds: digits, with a point if wanted, and a unit; 0 needs none.
fn time_of(text: &str) -> Option<Ps> {
    if text == "0" {
        return Some(0);
    }
    let units: [(&str, u64); 5] = [
        ("ps", 1),
        ("ns", 1_000),
        ("us", 1_000_000),
        ("ms", 1_000_000_000),
        ("s", 1_000_000_000_000),
    ];
    let (digits, unit) = units
        .iter()
        .find_map(|(name, unit)| text.strip_suffix(name).map(|digits| (digits, *unit)))?;
    let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !is_number(whole) || !is_number(part) || part.len() > 12 {
        return None;
    }
    let mut sum = u128::from(whole.parse::<u64>().ok()?) * u128::from(unit);
    if !part.is_empty() {
        let scale = 10_u128.pow(part.len() as u32);
        sum += u128::from(part.parse::<u64>().ok()?) * u128::from(unit) / scale;
    }
    Ps::try_from(sum).ok().filter(|at| *at <= TIME_MAX)
}

/// Each link works for a time and is then repaired for a time; both are exponential.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mtbf {
    /// Mean time between the end of a repair and the next failure, of one link.
    pub mtbf_ps: Ps,
    /// Mean time of a repair.
    pub mttr_ps: Ps,
}

impl Mtbf {
    /// Draws the faults of `links` links from time 0 to `until`. Each link has a generator of its own, so that one more
    /// link does not change the faults of the others.
    pub fn draw(&self, seed: Seed, links: u32, until: Ps) -> Result<Trace, TraceError> {
        for (what, found_ps) in [("MTBF", self.mtbf_ps), ("MTTR", self.mttr_ps)] {
            if found_ps == 0 || found_ps > TIME_MAX {
                return Err(TraceError::MeanTime {
                    what,
                    found_ps,
                    most_ps: TIME_MAX,
                });
            }
        }
        let mut faults = Vec::new();
        for link in 0..links {
            let mut rng = seed.child("mtbf").nth(u64::from(link)).rng();
            let (mut at, mut up) = (0, false);
            loop {
                let mean = if up { self.mttr_ps } else { self.mtbf_ps };
                at = exponential(&mut rng, mean).saturating_add(at);
                if at > until.min(TIME_MAX) {
                    break;
                }
                if faults.len() == FAULTS_MAX {
                    return Err(TraceError::TooMany { most: FAULTS_MAX });
                }
                let place = Place::Link(link);
                faults.push(Fault { at, place, up });
                up = !up;
            }
        }
        faults.sort_by_key(|fault| (fault.at, fault.place));
        Ok(Trace(faults))
    }
}

/// Returns an exponential number with a mean, in whole picoseconds, at least 1.
///
/// It compares uniform numbers and does no arithmetic that machines may round differently. Source: von Neumann,
/// "Various techniques used in connection with random digits" (1951).
fn exponential(rng: &mut Rng, mean: Ps) -> Ps {
    let mut whole: u64 = 0;
    loop {
        let first = rng.next_u64();
        let mut last = first;
        let mut length = 1_u32;
        loop {
            let drawn = rng.next_u64();
            if drawn > last {
                break;
            }
            last = drawn;
            length += 1;
        }
        if length % 2 == 1 {
            let part = (u128::from(first) * u128::from(mean)) >> 64;
            return whole.saturating_mul(mean).saturating_add(part as u64).max(1);
        }
        whole += 1;
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "in a test a panic is the report")]
mod tests {
    use super::*;

    fn find(name: &str) -> Option<Place> {
        match name {
            "L-1[3]" => Some(Place::Link(7)),
            "a spine" => Some(Place::Node(2)),
            _ => None,
        }
    }

    #[test]
    fn a_trace_has_times_links_nodes_and_comments() {
        let text = "# faults\n0 down L-1[3]\n\n1.25us\tup  L-1[3] # again\n1.25us down a spine\n2s up a spine\n";
        let trace = Trace::parse(text, find).unwrap();
        let fault = |at, place, up| Fault { at, place, up };
        let want = [
            fault(0, Place::Link(7), false),
            fault(1_250_000, Place::Link(7), true),
            fault(1_250_000, Place::Node(2), false),
            fault(2_000_000_000_000, Place::Node(2), true),
        ];
        assert_eq!(trace.faults(), want);
    }

    #[test]
    fn a_wrong_line_is_named() {
        let check = |line: &str, want: &str| {
            let text = format!("# one\n3us down L-1[3]\n{line}\n");
            let found = Trace::parse(&text, find).unwrap_err().to_string();
            assert!(found.contains(want) && found.contains("line 3"), "{line}: {found}");
        };
        check(
            "4us down L-9[3]",
            "SLV-TOLERANCE-0021: line 3: no link or node is called 'L-9[3]'",
        );
        check(
            "2us up L-1[3]",
            "SLV-TOLERANCE-0022: line 3: 2000000 ps come after 3000000 ps",
        );
        check("4us", "no event");
        check("4us down", "no name");
        check("4us sideways L-1[3]", "neither down nor up");
        for time in [
            "4",
            "us",
            "-1us",
            "1e3us",
            "4.us5",
            "99999999999999999999s",
            "1000000s",
            "0x4us",
            ".5us",
        ] {
            check(&format!("{time} down L-1[3]"), "no time");
        }
    }

    #[test]
    fn means_of_the_model_are_those_that_were_asked_for() {
        let model = Mtbf {
            mtbf_ps: 1_000_000,
            mttr_ps: 50_000,
        };
        let until = 1_000_000_000;
        let trace = model.draw(Seed(7), 20, until).unwrap();
        let downs = trace.faults().iter().filter(|fault| !fault.up).count() as f64;
        let want = 20.0 * until as f64 / 1_050_000.0;
        assert!((downs / want - 1.0).abs() < 0.03, "{downs} {want}");
        assert!(trace.faults().is_sorted_by_key(|fault| fault.at));
        for link in 0..20 {
            let of_link: Vec<_> = trace.faults().iter().filter(|f| f.place == Place::Link(link)).collect();
            let alternates = of_link.iter().enumerate().all(|(at, fault)| fault.up == (at % 2 == 1));
            assert!(alternates, "link {link}");
        }
        assert_eq!(trace, model.draw(Seed(7), 20, until).unwrap(), "the same seed");
        assert_ne!(trace, model.draw(Seed(8), 20, until).unwrap(), "another seed");
    }

    #[test]
    fn a_mean_of_zero_is_refused() {
        for (mtbf_ps, mttr_ps, what) in [(0, 1, "MTBF is 0"), (1, 0, "MTTR is 0"), (TIME_MAX + 1, 1, "MTBF is")] {
            let found = Mtbf { mtbf_ps, mttr_ps }.draw(Seed(1), 1, 1).unwrap_err().to_string();
            assert!(found.contains(what) && found.contains("SLV-TOLERANCE-0023"), "{found}");
        }
        let busy = Mtbf { mtbf_ps: 1, mttr_ps: 1 };
        let found = busy.draw(Seed(1), 2, 1_000_000).unwrap_err();
        assert_eq!(found, TraceError::TooMany { most: FAULTS_MAX });
    }
}
