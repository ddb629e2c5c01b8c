//! Patterns by name, with their parameters.

use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Serialize};

/// Choice of receivers. Hosts are numbered as in the fabric: by node GUID, then port.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Pattern {
    /// Each message goes to a random other host. `senders=N`: only the first N hosts send, and only to the others.
    Uniform {
        /// Number of hosts that send; 0: all.
        senders: u32,
    },
    /// Host `i` to host `i + by`, cyclically.
    Shift {
        /// The distance.
        by: u32,
    },
    /// The hosts form a square: host `(row, column)` sends to host `(column, row)`. Hosts beyond the largest square,
    /// and those on its diagonal, send nothing.
    Transpose,
    /// Host `i` to host `hosts - 1 - i`, which is the bit complement if the number of hosts is a power of two.
    BitComplement,
    /// A random half of the hosts sends to the other half, one to one, in both directions.
    Bisection,
    /// Each message to one host with a given probability, else to a random other host.
    HotSpot {
        /// The host that receives.
        to: u32,
        /// Share of messages to this host, per million.
        share_ppm: u32,
    },
    /// Several hosts all send to one host.
    Incast {
        /// The host that receives.
        to: u32,
        /// Number of senders: the hosts after the receiver, cyclically; 0: all.
        from: u32,
    },
    /// Every host sends to every other in turn; host `i` begins with `i + 1`. Other hosts than these send nothing.
    AllToAll {
        /// Number of hosts, which are drawn; 0: all.
        hosts: u32,
        /// Number of hosts to which each one sends, at distances that are spread over all of them; 0: all others.
        partners: u32,
    },
    /// Pairs of sender and receiver; each sender has one receiver.
    Pairs(Vec<(u32, u32)>),
}

/// SLV-WORKLOAD-0001: the text is not a pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("SLV-WORKLOAD-0001: '{text}' is no traffic pattern: {what}; known: {KNOWN}")]
pub struct PatternError {
    /// The text given.
    pub text: String,
    /// The problem.
    pub what: String,
}

/// The syntax of every pattern.
const KNOWN: &str = "uniform[:senders=N], shift[:by=N], transpose, bit-complement, bisection, \
                     hotspot[:to=N,share=5%], incast[:to=N,from=N], all-to-all[:hosts=N,partners=N], \
                     pairs:0>1,1>0,…; ring-all-reduce, recursive-doubling, exchange, stencil-1d, stencil-2d, \
                     stencil-3d, each [:bytes=N,repeat=N]";
const NAMES: [&str; 15] = [
    "uniform",
    "shift",
    "transpose",
    "bit-complement",
    "bisection",
    "hotspot",
    "incast",
    "all-to-all",
    "pairs",
    "ring-all-reduce",
    "recursive-doubling",
    "exchange",
    "stencil-1d",
    "stencil-2d",
    "stencil-3d",
];

/// Default share of a hot spot, per million.
const HOT_SHARE_PPM: u32 = 50_000;

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uniform { senders: 0 } => f.write_str("uniform"),
            Self::Uniform { senders } => write!(f, "uniform:senders={senders}"),
            Self::Shift { by } => write!(f, "shift:by={by}"),
            Self::Transpose => f.write_str("transpose"),
            Self::BitComplement => f.write_str("bit-complement"),
            Self::Bisection => f.write_str("bisection"),
            Self::HotSpot { to, share_ppm } => {
                write!(f, "hotspot:to={to},share={}%", f64::from(*share_ppm) / 1e4)
            }
            Self::Incast { to, from } => write!(f, "incast:to={to},from={from}"),
            Self::AllToAll { hosts, partners } => {
                let fields = [("hosts", hosts), ("partners", partners)];
                f.write_str("all-to-all")?;
                for (place, (key, value)) in fields.iter().filter(|(_, value)| **value > 0).enumerate() {
                    write!(f, "{}{key}={value}", if place > 0 { "," } else { ":" })?;
                }
                Ok(())
            }
            Self::Pairs(pairs) => {
                f.write_str("pairs:")?;
                for (place, (from, to)) in pairs.iter().enumerate() {
                    write!(f, "{}{from}>{to}", if place > 0 { "," } else { "" })?;
                }
                Ok(())
            }
        }
    }
}

impl FromStr for Pattern {
    type Err = PatternError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = |what: String| PatternError {
            text: text.to_owned(),
            what,
        };
        let (name, rest) = text.split_once(':').unwrap_or((text, ""));
        if name == "pairs" {
            return pairs(rest).map(Self::Pairs).map_err(error);
        }
        let mut fields = Fields::read(rest).map_err(error)?;
        let pattern = match name {
            "uniform" => fields.number("senders", 0).map(|senders| Self::Uniform { senders }),
            "shift" => fields.number("by", 1).map(|by| Self::Shift { by }),
            "transpose" => Ok(Self::Transpose),
            "bit-complement" => Ok(Self::BitComplement),
            "bisection" => Ok(Self::Bisection),
            "hotspot" => fields.number("to", 0).and_then(|to| {
                let share_ppm = fields.share("share", HOT_SHARE_PPM)?;
                Ok(Self::HotSpot { to, share_ppm })
            }),
            "incast" => fields.number("to", 0).and_then(|to| {
                let from = fields.number("from", 0)?;
                Ok(Self::Incast { to, from })
            }),
            "all-to-all" => fields.number("hosts", 0).and_then(|hosts| {
                let partners = fields.number("partners", 0)?;
                Ok(Self::AllToAll { hosts, partners })
            }),
            _ => Err(format!("there is no '{name}'{}", nearest(name, &NAMES))),
        };
        let pattern = pattern.map_err(error)?;
        fields.end(name).map_err(error)?;
        Ok(pattern)
    }
}

/// Returns `; did you mean '…'?`, or an empty text.
fn nearest(name: &str, known: &[&'static str]) -> String {
    // Two names are similar if one becomes the other by two changes or exchanges of letters.
    let near = known
        .iter()
        .map(|&k| (distance(name, k), k))
        .filter(|&(d, _)| d <= 2)
        .min();
    near.map_or(String::new(), |(_, k)| format!("; did you mean '{k}'?"))
}

/// Returns the number of letters to insert, remove, replace or exchange with their neighbour.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    for i in 0..=a.len() {
        for j in 0..=b.len() {
            rows[i][j] = match (i, j) {
                (0, n) | (n, 0) => n,
                _ => {
                    let same = usize::from(a[i - 1] != b[j - 1]);
                    let swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
                    let swap = if swapped { rows[i - 2][j - 2] + 1 } else { usize::MAX };
                    (rows[i - 1][j] + 1)
                        .min(rows[i][j - 1] + 1)
                        .min(rows[i - 1][j - 1] + same)
                        .min(swap)
                }
            };
        }
    }
    rows[a.len()][b.len()]
}

impl From<Pattern> for String {
    fn from(pattern: Pattern) -> Self {
        pattern.to_string()
    }
}

impl TryFrom<String> for Pattern {
    type Error = PatternError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

/// `key=value` fields; each is read once.
pub(crate) struct Fields(Vec<(String, String)>, Vec<&'static str>);

impl Fields {
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        let mut fields: Vec<(String, String)> = Vec::new();
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let Some((key, value)) = part.split_once('=') else {
                return Err(format!("'{part}' is no key=value"));
            };
            if fields.iter().any(|(found, _)| found == key) {
                return Err(format!("'{key}' occurs twice"));
            }
            fields.push((key.to_owned(), value.to_owned()));
        }
        Ok(Self(fields, Vec::new()))
    }

    fn take(&mut self, key: &'static str) -> Option<String> {
        self.1.push(key);
        let place = self.0.iter().position(|(found, _)| found == key)?;
        Some(self.0.remove(place).1)
    }

    pub(crate) fn number(&mut self, key: &'static str, default: u32) -> Result<u32, String> {
        match self.take(key) {
            None => Ok(default),
            Some(text) => text
                .parse()
                .map_err(|_| format!("{key}={text}: want a whole number from 0 to {}", u32::MAX)),
        }
    }

    fn share(&mut self, key: &'static str, default_ppm: u32) -> Result<u32, String> {
        let Some(text) = self.take(key) else {
            return Ok(default_ppm);
        };
        let value = match text.strip_suffix('%') {
            Some(percent) => percent.parse().map(|p: f64| p / 100.0),
            None => text.parse(),
        };
        match value {
            Ok(share) if (0.0..=1.0).contains(&share) => Ok((share * 1e6).round() as u32),
            _ => Err(format!("{key}={text}: want a share from 0 to 1, or from 0% to 100%")),
        }
    }

    /// Refuses fields that the pattern does not use.
    pub(crate) fn end(self, name: &str) -> Result<(), String> {
        match self.0.first() {
            None => Ok(()),
            Some((key, _)) if self.1.is_empty() => Err(format!("'{name}' has no fields, so no '{key}'")),
            Some((key, _)) => {
                let allowed = self.1.join(", ");
                let meant = nearest(key, &self.1);
                Err(format!("'{name}' has no field '{key}'{meant}; it has: {allowed}"))
            }
        }
    }
}

fn pairs(text: &str) -> Result<Vec<(u32, u32)>, String> {
    let pair = |part: &str| {
        let (from, to) = part.split_once('>')?;
        Some((from.parse().ok()?, to.parse().ok()?))
    };
    text.split(',')
        .filter(|part| !part.is_empty())
        .map(|part| pair(part).ok_or_else(|| format!("'{part}' is no pair; want SENDER>RECEIVER")))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let check = |text: &str, want: &str| {
            let pattern: Pattern = text.parse().unwrap();
            assert_eq!(pattern.to_string(), want);
            assert_eq!(want.parse::<Pattern>().unwrap(), pattern);
        };
        check("uniform", "uniform");
        check("uniform:senders=4", "uniform:senders=4");
        check("shift", "shift:by=1");
        check("hotspot", "hotspot:to=0,share=5%");
        check("hotspot:share=0.015,to=7", "hotspot:to=7,share=1.5%");
        check("incast:from=3", "incast:to=0,from=3");
        check("pairs:0>1,5>2", "pairs:0>1,5>2");
        check("all-to-all", "all-to-all");
        check("all-to-all:partners=4", "all-to-all:partners=4");
        check("all-to-all:partners=2,hosts=8", "all-to-all:hosts=8,partners=2");
    }

    #[test]
    fn what_is_wrong_is_refused_with_what_is_right() {
        let check = |text: &str, want: &str| {
            let error = text.parse::<Pattern>().unwrap_err().to_string();
            assert!(error.contains(want) && error.contains("bit-complement"), "{error}");
        };
        check("unifrom", "did you mean 'uniform'?");
        check("uniform:sender=3", "did you mean 'senders'?");
        check("transpose:by=3", "'transpose' has no fields");
        check("shift:by=x", "want a whole number");
        check("shift:by=1,by=2", "twice");
        check("hotspot:share=101%", "want a share");
        check("pairs:1-2", "want SENDER>RECEIVER");
        check("shift:3", "no key=value");
    }
}
