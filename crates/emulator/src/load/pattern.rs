//! A load as a value and as text.

use core::fmt;

use selvedge_sim::Ratio;

use crate::text::{self, RatioText};
use crate::{EmulatorError, NodeName, PortName};

/// Traffic of hosts: parts that add up, all with packets of one size. A load without parts is no traffic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Load {
    parts: Vec<Part>,
    payload_bytes: u16,
}

/// A part of a load: a pattern, and the share of its link that each sender offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub pattern: Pattern,
    pub rate: Ratio,
    /// Hosts that take part, or the switch they are at; empty: all.
    pub among: Vec<NodeName>,
}

/// Choice of receivers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Pattern {
    /// Each host to every other host equally.
    Uniform,
    /// Host `i` to host `i + n`, cyclically.
    Shift(u32),
    /// A permutation drawn with this seed.
    Permutation(u64),
    /// Host `i` to the host with the bits of `i` in reverse order.
    BitReversal,
    /// All to one.
    Incast(PortName),
    /// Listed pairs.
    Pairs(Vec<(PortName, PortName)>),
}

impl Load {
    /// Default payload of a packet: the MTU that most fabrics use.
    const PAYLOAD_BYTES: u16 = 2_048;
    /// Largest payload. Source: IBA vol 1 §7.7.8.
    const PAYLOAD_BYTES_MAX: u16 = 4_096;

    /// No traffic.
    pub const OFF: Self = Self {
        parts: Vec::new(),
        payload_bytes: Self::PAYLOAD_BYTES,
    };

    /// Returns the parts.
    pub(super) fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Returns the payload of each packet in bytes.
    pub(super) const fn payload_bytes(&self) -> u16 {
        self.payload_bytes
    }
}

/// The names of patterns.
const PATTERNS: [&str; 7] = [
    "uniform",
    "all-to-all",
    "shift",
    "permutation",
    "bit-reversal",
    "incast",
    "pairs",
];

/// The syntax of a load behind its first word.
const WANT: &str = "'off', or PATTERN RATE [among NODE…] [+ PATTERN RATE …] [size=BYTES]";
const WANT_PATTERN: &str = "uniform, all-to-all, shift:N, permutation[:SEED], bit-reversal, incast:NODE or \
                            pairs:NODE>NODE,NODE>NODE,…";
const WANT_SIZE: &str = "size=BYTES, the payload of a packet, from 1 to 4096";
const WANT_SUM: &str = "RATEs of at most 100% together: a host sends no more than its link carries";

/// Parses what stands behind the word `load`.
pub(crate) fn parse(words: &[&str]) -> Result<Load, EmulatorError> {
    if words == ["off"] {
        return Ok(Load::OFF);
    }
    let (words, payload_bytes) = match words {
        [before @ .., last] if last.starts_with("size=") => (before, size(last)?),
        _ => (words, Load::PAYLOAD_BYTES),
    };
    let parts: Vec<Part> = words.split(|word| *word == "+").map(part).collect::<Result<_, _>>()?;
    let sum: u128 = parts.iter().map(|part| ppb(part.rate)).sum();
    if sum > 1_000_000_000 {
        return Err(text::no(&words.join(" "), WANT_SUM));
    }
    Ok(Load { parts, payload_bytes })
}

/// Returns a ratio per thousand million.
fn ppb(rate: Ratio) -> u128 {
    u128::from(rate.numerator) * 1_000_000_000 / u128::from(rate.denominator.max(1))
}

fn size(word: &str) -> Result<u16, EmulatorError> {
    let bytes = word.strip_prefix("size=").and_then(|bytes| bytes.parse().ok());
    let bytes = bytes.filter(|bytes| (1..=Load::PAYLOAD_BYTES_MAX).contains(bytes));
    bytes.ok_or_else(|| text::no(word, WANT_SIZE))
}

fn part(words: &[&str]) -> Result<Part, EmulatorError> {
    let (pattern, rate, among) = match *words {
        [pattern, rate] => (pattern, rate, &[][..]),
        [pattern, rate, "among", ref among @ ..] if !among.is_empty() => (pattern, rate, among),
        _ => return Err(text::no(&words.join(" "), WANT)),
    };
    let pattern = parse_pattern(pattern)?;
    let has_members = !matches!(pattern, Pattern::Pairs(_));
    if !among.is_empty() && !has_members {
        return Err(text::no(
            &words.join(" "),
            "pairs without 'among': they name their hosts",
        ));
    }
    Ok(Part {
        pattern,
        rate: text::ratio_word(rate)?,
        among: among.iter().map(|name| name.parse()).collect::<Result<_, _>>()?,
    })
}

fn parse_pattern(word: &str) -> Result<Pattern, EmulatorError> {
    let (name, detail) = match word.split_once(':') {
        Some((name, detail)) => (name, Some(detail)),
        None => (word, None),
    };
    let no = || text::no(word, WANT_PATTERN);
    Ok(match (name, detail) {
        ("uniform" | "all-to-all", None) => Pattern::Uniform,
        ("bit-reversal", None) => Pattern::BitReversal,
        ("shift", None) => Pattern::Shift(1),
        ("shift", Some(by)) => Pattern::Shift(by.parse().map_err(|_| no())?),
        ("permutation", None) => Pattern::Permutation(1),
        ("permutation", Some(seed)) => Pattern::Permutation(seed.parse().map_err(|_| no())?),
        ("incast", Some(to)) => Pattern::Incast(to.parse()?),
        ("pairs", Some(pairs)) => {
            let pair = |pair: String| match text::split(&pair, '>')[..] {
                [ref from, ref to] => Ok((from.parse()?, to.parse()?)),
                _ => Err(text::no(&pair, "NODE>NODE: the sender and the receiver")),
            };
            Pattern::Pairs(
                text::split(pairs, ',')
                    .into_iter()
                    .map(pair)
                    .collect::<Result<_, _>>()?,
            )
        }
        _ if PATTERNS.contains(&name) => return Err(no()),
        _ => return Err(text::unknown("pattern", name, &PATTERNS)),
    })
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.parts.is_empty() {
            return f.write_str("off");
        }
        for (at, part) in self.parts.iter().enumerate() {
            let between = if at == 0 { "" } else { " + " };
            write!(f, "{between}{} {}", part.pattern, RatioText(part.rate))?;
            for (at, name) in part.among.iter().enumerate() {
                write!(f, "{}{name}", if at == 0 { " among " } else { " " })?;
            }
        }
        match self.payload_bytes {
            Self::PAYLOAD_BYTES => Ok(()),
            bytes => write!(f, " size={bytes}"),
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uniform => f.write_str("uniform"),
            Self::Shift(by) => write!(f, "shift:{by}"),
            Self::Permutation(1) => f.write_str("permutation"),
            Self::Permutation(seed) => write!(f, "permutation:{seed}"),
            Self::BitReversal => f.write_str("bit-reversal"),
            Self::Incast(to) => write!(f, "incast:{to}"),
            Self::Pairs(pairs) => {
                f.write_str("pairs")?;
                for (at, (from, to)) in pairs.iter().enumerate() {
                    write!(f, "{}{from}>{to}", if at == 0 { ':' } else { ',' })?;
                }
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::Fault;

    #[test]
    fn loads_are_read_and_printed() {
        let check = |text: &str, printed: &str| {
            let fault: Fault = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(fault.to_string(), printed);
            assert_eq!(printed.parse::<Fault>().unwrap(), fault, "{printed}");
        };
        check("load off", "load off");
        check("load all-to-all 40%", "load uniform 40%");
        check("load shift 0.5% size=256", "load shift:1 0.5% size=256");
        check("load permutation:1 100%", "load permutation 100%");
        check("load bit-reversal 1/3", "load bit-reversal 1/3");
        check(
            "load incast:\"leaf 1\"[2] 90% among a 0x10",
            "load incast:\"leaf 1\"[2] 90% among \"a\" 0x0000000000000010",
        );
        check(
            "load uniform 20% among S + pairs:\"a > b\">c,d>\"e,f\" 80%",
            "load uniform 20% among \"S\" + pairs:\"a > b\">\"c\",\"d\">\"e,f\" 80%",
        );
    }

    #[test]
    fn errors_say_what_is_wanted() {
        let check = |text: &str, want: &str| {
            let error = text.parse::<Fault>().unwrap_err().to_string();
            assert!(error.contains(want), "{error}");
        };
        check("load", "'off', or PATTERN RATE");
        check("load off 40%", "there is no pattern 'off'");
        check("load shfit:1 40%", "did you mean 'shift'?");
        check(
            "load shift:one 40%",
            "cannot read 'shift:one': want uniform, all-to-all, shift:N",
        );
        check("load incast 40%", "incast:NODE");
        check("load uniform", "'off', or PATTERN RATE");
        check("load uniform 140%", "cannot read '140%': want a RATIO up to 100%");
        check("load uniform 60% + shift:1 60%", "at most 100% together");
        check("load uniform 60% among", "PATTERN RATE");
        check("load uniform 60% size=5000", "from 1 to 4096");
        check("load pairs:a-b 60%", "NODE>NODE");
        check("load pairs:a>b 60% among c", "without 'among'");
    }
}
