//! Axes and words of charts: round ticks with distinct labels, and words that fit their space.
//!
//! Every chart of the project takes its ticks from [`Axis`] and measures words with [`width`].
//! [`misfits`](crate::misfits::misfits) finds faults in a finished picture.

use std::ops::Range;

use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};
use plotters::coord::types::RangedCoordf64;

/// Factor by which plotters' SVG text is smaller than the requested size. Source: plotters-svg 0.3 (`svg.rs`).
pub(crate) const SVG_SHRINKS: f64 = 1.24;
/// Relative tolerance within which one step counts as a multiple of another.
const NEARLY: f64 = 1e-9;

/// An axis of numbers: its ends, and the distance of its ticks, which is 1, 2 or 5 times a power of ten.
///
/// It is a coordinate for plotters: `build_cartesian_2d` accepts it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Axis {
    low: f64,
    high: f64,
    /// Distance of ticks; infinite for no ticks.
    step: f64,
    /// True if the axis shows exponents of ten.
    is_power: bool,
}

impl Axis {
    /// Returns an axis of any numbers with about `ticks` ticks.
    #[must_use]
    pub fn new(low: f64, high: f64, ticks: usize) -> Self {
        Self::with(low, high, ticks, 0.0)
    }

    /// Returns an axis of counts, with ticks at whole numbers only.
    #[must_use]
    pub fn whole(low: f64, high: f64, ticks: usize) -> Self {
        Self::with(low, high, ticks, 1.0)
    }

    /// Returns an axis of powers of ten, from exponent `low` to exponent `high`.
    #[must_use]
    pub fn powers(low: f64, high: f64, ticks: usize) -> Self {
        Self {
            is_power: true,
            ..Self::whole(low, high, ticks)
        }
    }

    /// Returns an axis without ticks, for words instead of numbers.
    #[must_use]
    pub fn bare(low: f64, high: f64) -> Self {
        Self {
            step: f64::INFINITY,
            ..Self::new(low, high, 1)
        }
    }

    fn with(low: f64, high: f64, ticks: usize, least: f64) -> Self {
        let high = if high > low { high } else { low + 1.0 };
        let raw = ((high - low) / ticks.max(1) as f64).max(least);
        let power = 10_f64.powf(raw.log10().floor());
        let steps = [1.0, 2.0, 5.0].map(|times| times * power);
        let step = steps.into_iter().find(|step| *step >= raw * (1.0 - NEARLY));
        let step = step.unwrap_or(10.0 * power);
        Self {
            low,
            high,
            step,
            is_power: false,
        }
    }

    /// Returns the positions of the axis' ticks.
    #[must_use]
    pub fn ticks(&self) -> Vec<f64> {
        if self.step.is_infinite() {
            return Vec::new();
        }
        let first = (self.low / self.step - NEARLY).ceil() as i64;
        let last = (self.high / self.step + NEARLY).floor() as i64;
        (first..=last).map(|tick| tick as f64 * self.step).collect()
    }

    /// Returns the label of a tick, with enough decimals to differ from the next one.
    #[must_use]
    pub fn label(&self, value: f64) -> String {
        if self.is_power {
            return power_of_ten(value);
        }
        let decimals = (-self.step.log10() - NEARLY).ceil().max(0.0) as usize;
        let sign = if value < -self.step * NEARLY { "-" } else { "" };
        let digits = match decimals {
            0 => thousands(value.abs().round() as u64),
            decimals => format!("{:.decimals$}", value.abs()),
        };
        format!("{sign}{digits}")
    }
}

impl Ranged for Axis {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        RangedCoordf64::from(self.low..self.high).map(value, limit)
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        match hint.weight().allow_light_points() {
            true => Vec::new(),
            false => self.ticks(),
        }
    }

    fn range(&self) -> Range<f64> {
        self.low..self.high
    }
}

impl ValueFormatter<f64> for Axis {
    fn format_ext(&self, value: &f64) -> String {
        self.label(*value)
    }
}

fn power_of_ten(exponent: f64) -> String {
    let value = 10_f64.powf(exponent.round());
    if value < 1.0 {
        format!("{value}")
    } else {
        thousands(value as u64)
    }
}

/// Returns `1234567` as `1,234,567`.
#[must_use]
pub fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Returns the width of words in pixels, rounded up, for a font size that is given to `plotters`. Assumes DejaVu Sans,
/// the widest usual sans-serif font.
#[must_use]
pub fn width(words: &str, size: u32) -> u32 {
    let em: f64 = words.chars().map(advance).sum();
    (em * f64::from(size) / SVG_SHRINKS).ceil() as u32
}

/// Returns the width of a letter as a share of the font height. Source: DejaVu Sans 2.37, rounded up by class.
const fn advance(letter: char) -> f64 {
    match letter {
        'i' | 'j' | 'l' => 0.28,
        ' ' | '.' | ',' | '\'' => 0.32,
        'f' | 'r' | 't' | 'I' | 'J' | '(' | ')' | '[' | ']' | ':' | ';' | '/' | '-' | '|' | '!' => 0.41,
        '"' | '*' | '_' => 0.5,
        '+' | '=' | '<' | '>' | '~' => 0.84,
        'm' | 'M' | 'W' | '%' | '@' | '…' => 1.0,
        'w' | 'A'..='Z' => 0.82,
        _ => 0.65,
    }
}

/// Returns the words. If they are wider than `room` pixels, they are cut and end with an ellipsis.
#[must_use]
pub fn fit(words: &str, size: u32, room: u32) -> String {
    if width(words, size) <= room {
        return words.to_owned();
    }
    let fits = |end: usize| width(&words[..end], size) + width("…", size) <= room;
    let ends = words.char_indices().map(|(at, _)| at).take_while(|&end| fits(end));
    let end = ends.last().unwrap_or(0);
    format!("{}…", words[..end].trim_end())
}

/// Returns the words in at most `lines` lines of `room` pixels, broken at spaces. Cuts the last line if they do not
/// fit.
#[must_use]
pub fn wrap(words: &str, size: u32, room: u32, lines: usize) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for word in words.split_whitespace() {
        let full = all.len() >= lines;
        match all.last_mut() {
            Some(line) if full || width(&format!("{line} {word}"), size) <= room => {
                line.push(' ');
                line.push_str(word);
            }
            _ => all.push(word.to_owned()),
        }
    }
    all.into_iter().map(|line| fit(&line, size, room)).collect()
}

/// Returns the readable name of a setting or figure: `compute (ms)` for `compute_ms`. `deadlock?` is the share of runs
/// with a deadlock.
#[must_use]
pub fn title(name: &str) -> String {
    const UNITS: [&str; 9] = ["ns", "us", "ms", "s", "bytes", "gbps", "ppm", "bits", "pairs"];
    const NAMES: [(&str, &str); 10] = [
        ("ebb", "effective bisection bandwidth"),
        ("lfts", "LFTs"),
        ("lids", "LIDs"),
        ("mads", "MADs"),
        ("mtu", "MTU"),
        ("sets", "Sets"),
        ("sl", "SL"),
        ("smps", "SMPs"),
        ("vl", "VL"),
        ("vls", "VLs"),
    ];
    let (name, is_share) = match name.strip_suffix('?') {
        Some(name) => (name, true),
        None => (name, false),
    };
    let (mut parts, mut unit) = (Vec::new(), None);
    // A figure within another has both names: `latency_ns.p99`.
    for name in name.split('.') {
        let mut words: Vec<&str> = name.split(['_', '-']).collect();
        if words.len() > 1 && words.last().is_some_and(|last| UNITS.contains(last)) {
            unit = words.pop();
        }
        parts.extend(words);
    }
    let word = |part: &str| {
        let known = NAMES.iter().find(|(name, _)| *name == part);
        known.map_or_else(|| part.to_owned(), |(_, word)| (*word).to_owned())
    };
    let words = parts.into_iter().map(word).collect::<Vec<_>>().join(" ");
    let unit = unit.map(|unit| if unit == "us" { "µs" } else { unit });
    match (is_share, unit) {
        (true, _) => format!("share of runs: {words}"),
        (false, Some(unit)) => format!("{words} ({unit})"),
        (false, None) => words,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_their_labels_differ() {
        let check = |axis: Axis, want: &[&str]| {
            let labels: Vec<String> = axis.ticks().into_iter().map(|tick| axis.label(tick)).collect();
            assert_eq!(labels, want, "{axis:?}");
        };
        // A ring loses at most three blocks.
        check(Axis::whole(0.0, 3.15, 8), &["0", "1", "2", "3"]);
        check(
            Axis::new(0.0, 3.15, 8),
            &["0.0", "0.5", "1.0", "1.5", "2.0", "2.5", "3.0"],
        );
        check(Axis::whole(0.0, 0.4, 8), &["0"]);
        check(Axis::whole(0.0, 0.0, 8), &["0", "1"]);
        check(Axis::whole(950.0, 2_100.0, 5), &["1,000", "1,500", "2,000"]);
        check(
            Axis::new(0.97, 1.03, 6),
            &["0.97", "0.98", "0.99", "1.00", "1.01", "1.02", "1.03"],
        );
        check(Axis::new(-1.0, 1.0, 4), &["-1.0", "-0.5", "0.0", "0.5", "1.0"]);
        check(Axis::new(0.0, 3e6, 3), &["0", "1,000,000", "2,000,000", "3,000,000"]);
        check(Axis::powers(-2.0, 3.2, 8), &["0.01", "0.1", "1", "10", "100", "1,000"]);
        check(Axis::bare(0.0, 5.0), &[]);
        check(
            Axis::new(0.0, 3e-6, 3),
            &["0.000000", "0.000001", "0.000002", "0.000003"],
        );
    }

    #[test]
    fn words_fit_their_room() {
        let long = "change entries of 128 switches that lie in order of their distance";
        for room in [40, 100, 300] {
            assert!(width(&fit(long, 12, room), 12) <= room);
            let lines = wrap(long, 12, room, 2);
            assert_eq!(lines.len(), 2, "{room}");
            assert!(lines.iter().all(|line| width(line, 12) <= room), "{lines:?}");
        }
        assert_eq!(fit("short", 12, 100), "short");
        assert_eq!(fit(long, 12, 40), "chan…");
        assert_eq!(wrap("two words", 12, 100, 2), ["two words"]);
        assert_eq!(fit("µµµµ", 12, 20), "µ…");
    }

    #[test]
    fn names_are_said_in_words() {
        let check = |name, want| assert_eq!(title(name), want);
        check("accepted_load", "accepted load");
        check("compute_ms", "compute (ms)");
        check("latency_us", "latency (µs)");
        check("vls", "VLs");
        check("host-vls", "host VLs");
        check("latency_ns.p99", "latency p99 (ns)");
        check("sent.data_bytes", "sent data (bytes)");
        check("latency_ns.mean_us", "latency mean (µs)");
        check("deadlock?", "share of runs: deadlock");
        check("s", "s");
        check("lost", "lost");
    }

    #[test]
    fn numbers_for_people() {
        let check = |number: u64, want: &str| assert_eq!(thousands(number), want);
        check(0, "0");
        check(999, "999");
        check(1_000, "1,000");
        check(1_234_567, "1,234,567");
    }
}
