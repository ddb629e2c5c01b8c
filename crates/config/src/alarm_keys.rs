//! Configuration keys about the thresholds of alarms.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::{Key, Value, closest};

/// Longest window and time to live: a week.
const WEEK_S: u64 = 7 * 86_400;
/// The table of the keys.
pub(crate) const SECTION: &str = "telemetry.alarms";
/// Entries of a counter's table.
const ENTRIES: [&str; 5] = ["info", "warning", "critical", "clear", "ttl_s"];

/// Thresholds of alarms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlarmOptions {
    /// Growth of counters is summed over this time.
    pub window: Duration,
    /// An alarm ends no earlier than this after its last evidence; `ZERO`: only an operator ends it.
    pub ttl: Duration,
    /// By the name of a counter in the standard; a counter without thresholds has no alarms.
    pub counters: BTreeMap<&'static str, CounterThresholds>,
    /// A link flaps if it goes down so often within `flap_window`.
    pub flaps: u64,
    /// See `flaps`.
    pub flap_window: Duration,
    /// A bit error rate above this is a warning.
    pub bit_errors: ErrorRate,
    /// A bit error rate above this is critical.
    pub bit_errors_critical: ErrorRate,
    /// A link that is the root of congestion for this long is an alarm.
    pub congested_for: Duration,
}

impl Default for AlarmOptions {
    /// Returns the thresholds that `telemetry::alarm` gives with their sources.
    fn default() -> Self {
        let warning = |from| CounterThresholds::new([None, Some(from), None]);
        let info = |from| CounterThresholds::new([Some(from), None, None]);
        let both = |from, critical| CounterThresholds::new([None, Some(from), Some(critical)]);
        let counters = [
            ("SymbolErrorCounter", both(10, 10_000)),
            ("LinkErrorRecoveryCounter", warning(10)),
            ("LinkDownedCounter", info(1)),
            ("PortRcvErrors", both(10, 10_000)),
            ("PortRcvRemotePhysicalErrors", info(100)),
            ("PortRcvSwitchRelayErrors", info(100)),
            ("PortXmitDiscards", warning(200)),
            ("PortXmitConstraintErrors", warning(200)),
            ("PortRcvConstraintErrors", warning(100)),
            ("LocalLinkIntegrityErrors", warning(10)),
            ("ExcessiveBufferOverrunErrors", warning(10)),
            ("VL15Dropped", warning(50)),
        ];
        Self {
            window: Duration::from_secs(300),
            ttl: Duration::from_secs(300),
            counters: counters.into_iter().collect(),
            flaps: 3,
            flap_window: Duration::from_secs(600),
            bit_errors: ErrorRate::of(1e-12),
            bit_errors_critical: ErrorRate::of(1e-9),
            congested_for: Duration::from_secs(60),
        }
    }
}

/// Thresholds of a counter: its growth within the window from which an alarm is of a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CounterThresholds {
    /// Thresholds of the levels info, warning and critical; `None`: no alarm is of this level.
    pub levels: [Option<u64>; 3],
    /// The alarm may end when the growth is below this.
    pub clear: u64,
    /// Time to live; `None`: that of all alarms.
    pub ttl: Option<Duration>,
}

impl CounterThresholds {
    /// Returns thresholds of alarms that end below half of the lowest.
    fn new(levels: [Option<u64>; 3]) -> Self {
        let lowest = levels.into_iter().flatten().next().unwrap_or(1);
        Self {
            levels,
            clear: lowest.div_ceil(2),
            ttl: None,
        }
    }

    /// Reads a table; an error says what is wrong with it.
    fn read(entries: &[(String, u64)]) -> Result<Self, String> {
        if let Some((name, _)) = entries.iter().find(|(name, _)| !ENTRIES.contains(&name.as_str())) {
            return Err(match closest(name, ENTRIES) {
                Some(meant) => format!("unknown entry '{name}'; did you mean '{meant}'?"),
                None => format!("unknown entry '{name}'; there are: {}", ENTRIES.join(", ")),
            });
        }
        let entry = |name: &str| entries.iter().find(|(of, _)| of == name).map(|(_, value)| *value);
        let is_zero = |name: &&&str| **name != "ttl_s" && entry(name) == Some(0);
        if let Some(name) = ENTRIES.iter().find(is_zero) {
            return Err(format!(
                "{name} = 0; want at least 1, or false instead of the table for no alarms"
            ));
        }
        let names = ["info", "warning", "critical"];
        let levels = names.map(entry);
        let set: Vec<(&str, u64)> = names
            .into_iter()
            .filter_map(|name| Some((name, entry(name)?)))
            .collect();
        let next_to = set.iter().zip(set.iter().skip(1));
        if let Some(((low, low_at), (high, high_at))) = next_to.into_iter().find(|(low, high)| low.1 > high.1) {
            return Err(format!(
                "{high} = {high_at} is below {low} = {low_at}; want a graver level at the same growth or a higher one"
            ));
        }
        let Some((name, begins_at)) = set.first() else {
            return Err("it names no level; want at least one of info, warning and critical".to_owned());
        };
        let defaults = Self::new(levels);
        let clear = entry("clear").unwrap_or(defaults.clear);
        if clear > *begins_at {
            return Err(format!(
                "clear = {clear} is above {name} = {begins_at}, at which the alarm begins; want at most {begins_at}"
            ));
        }
        let ttl = entry("ttl_s");
        match ttl {
            Some(seconds @ WEEK_S..) if seconds > WEEK_S => {
                Err(format!("ttl_s = {seconds}; want 0 to {WEEK_S} seconds"))
            }
            _ => Ok(Self {
                clear,
                ttl: ttl.map(Duration::from_secs),
                ..defaults
            }),
        }
    }

    fn show(&self) -> Value {
        let names = ["info", "warning", "critical"].into_iter();
        let levels = names.zip(self.levels).filter_map(|(name, at)| Some((name, at?)));
        let rest = [
            ("clear", Some(self.clear)),
            ("ttl_s", self.ttl.map(|ttl| ttl.as_secs())),
        ];
        let rest = rest.into_iter().filter_map(|(name, value)| Some((name, value?)));
        Value::Table(
            levels
                .chain(rest)
                .map(|(name, value)| (name.to_owned(), value))
                .collect(),
        )
    }
}

/// A share of bits that are wrong, above 0 and below 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorRate(u64);

impl ErrorRate {
    const fn of(rate: f64) -> Self {
        Self(rate.to_bits())
    }

    /// Reads a rate, as `1e-12`.
    fn read(text: &str) -> Option<Self> {
        let rate: f64 = text.parse().ok()?;
        (rate > 0.0 && rate < 1.0).then(|| Self::of(rate))
    }

    /// Returns the rate.
    #[must_use]
    pub const fn get(self) -> f64 {
        f64::from_bits(self.0)
    }

    fn show(self) -> Value {
        Value::Text(format!("{:e}", self.get()))
    }
}

/// Returns what is wrong with the value of a counter's key; `None` for other keys and other mistakes.
pub(crate) fn mistake(key: &Key, value: &Value) -> Option<String> {
    match value {
        Value::Table(entries) if key.section == SECTION => CounterThresholds::read(entries).err(),
        _ => None,
    }
}

/// Growth of a counter.
macro_rules! counter {
    ($name:literal, $doc:literal) => {
        Key {
            section: SECTION,
            name: $name,
            want: "false, or a table of whole numbers, as { warning = 10, critical = 10000, clear = 5, ttl_s = 300 }",
            doc: $doc,
            set: |s, v| {
                match v {
                    Value::Bool(false) => drop(s.alarms.counters.remove($name)),
                    Value::Table(entries) => {
                        let thresholds = CounterThresholds::read(entries).ok()?;
                        s.alarms.counters.insert($name, thresholds);
                    }
                    _ => return None,
                }
                Some(())
            },
            show: |s| {
                let thresholds = s.alarms.counters.get($name);
                Some(thresholds.map_or(Value::Bool(false), CounterThresholds::show))
            },
        }
    };
}

/// A time in seconds.
macro_rules! seconds {
    ($name:literal, $field:ident, $least:literal, $want:literal, $doc:literal) => {
        Key {
            section: SECTION,
            name: $name,
            want: $want,
            doc: $doc,
            set: |s, v| {
                s.alarms.$field = Duration::from_secs(v.int_up_to(WEEK_S).filter(|s| ($least..=WEEK_S).contains(s))?);
                Some(())
            },
            show: |s| Some(Value::Int(s.alarms.$field.as_secs())),
        }
    };
}

/// Over which time growth is summed.
pub const WINDOW: Key = seconds!(
    "window_s",
    window,
    10,
    "10 to 604800 seconds",
    "Growth of a counter is summed over this time."
);

/// How long an alarm stays.
pub const TTL: Key = seconds!(
    "ttl_s",
    ttl,
    0,
    "0 to 604800 seconds (0: until an operator clears it)",
    "An alarm ends when this time has passed since its last evidence and the growth is below clear."
);

/// Symbol errors.
pub const SYMBOL_ERRORS: Key = counter!(
    "SymbolErrorCounter",
    "Growth within window_s from which there is an alarm of level info, warning or critical; below clear it may end \
        (default: half of the lowest); ttl_s of this counter alone. false: no alarms. The same holds for the other \
        counters."
);

/// All other counters.
pub const COUNTERS: [Key; 12] = [
    counter!("LinkErrorRecoveryCounter", "See SymbolErrorCounter."),
    counter!(
        "LinkDownedCounter",
        "See SymbolErrorCounter; flaps counts losses of links, too."
    ),
    counter!("PortRcvErrors", "See SymbolErrorCounter."),
    counter!("PortRcvRemotePhysicalErrors", "See SymbolErrorCounter."),
    counter!("PortRcvSwitchRelayErrors", "See SymbolErrorCounter."),
    counter!("PortXmitDiscards", "See SymbolErrorCounter."),
    counter!("PortXmitConstraintErrors", "See SymbolErrorCounter."),
    counter!("PortRcvConstraintErrors", "See SymbolErrorCounter."),
    counter!("LocalLinkIntegrityErrors", "See SymbolErrorCounter."),
    counter!("ExcessiveBufferOverrunErrors", "See SymbolErrorCounter."),
    counter!("VL15Dropped", "See SymbolErrorCounter."),
    counter!("QP1Dropped", "See SymbolErrorCounter."),
];

/// Losses of a link.
pub const FLAPS: Key = Key {
    section: SECTION,
    name: "flaps",
    want: "2 to 1000 times",
    doc: "A link that goes down this many times within flap_window_s is a warning.",
    set: |s, v| {
        s.alarms.flaps = v.int_up_to(1_000).filter(|&flaps| flaps >= 2)?;
        Some(())
    },
    show: |s| Some(Value::Int(s.alarms.flaps)),
};

/// Window of losses.
pub const FLAP_WINDOW: Key = seconds!("flap_window_s", flap_window, 10, "10 to 604800 seconds", "See flaps.");

/// Bit errors.
pub const BIT_ERRORS: Key = Key {
    section: SECTION,
    name: "bit_errors",
    want: "a rate above 0 and below 1, as \"1e-12\"",
    doc: "A link with a higher bit error rate, with 95 % confidence, is a warning.",
    set: |s, v| {
        s.alarms.bit_errors = ErrorRate::read(v.text()?)?;
        Some(())
    },
    show: |s| Some(s.alarms.bit_errors.show()),
};

/// Bit errors that are critical.
pub const BIT_ERRORS_CRITICAL: Key = Key {
    section: SECTION,
    name: "bit_errors_critical",
    want: "a rate above 0 and below 1, as \"1e-9\"",
    doc: "A link with a higher bit error rate, with 95 % confidence, is critical.",
    set: |s, v| {
        s.alarms.bit_errors_critical = ErrorRate::read(v.text()?)?;
        Some(())
    },
    show: |s| Some(s.alarms.bit_errors_critical.show()),
};

/// Congestion.
pub const CONGESTED: Key = seconds!(
    "congestion_s",
    congested_for,
    1,
    "1 to 604800 seconds",
    "A link that ports have waited for so long is an alarm of level info."
);

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::parse;

    fn of(line: &str) -> Result<AlarmOptions, String> {
        let text = format!("[telemetry]\nwindow = 9\n\n[telemetry.alarms]\n{line}\n");
        match parse(&text, Path::new("fm.toml")) {
            Ok(settings) => {
                assert_eq!(settings.telemetry.window, 9);
                Ok(settings.alarms)
            }
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn thresholds_are_read() {
        let rule = |line: &str, name: &str| of(line).unwrap().counters.get(name).copied();
        let new = CounterThresholds::new;
        let name = "PortRcvErrors";
        assert_eq!(rule("PortRcvErrors = false", name), None);
        assert_eq!(
            rule("PortRcvErrors = { warning = 7 }", name),
            Some(new([None, Some(7), None]))
        );
        let all = CounterThresholds {
            clear: 1,
            ttl: Some(Duration::ZERO),
            ..new([Some(3), Some(3), Some(9)])
        };
        let text = "PortRcvErrors = { critical = 9, info = 3, warning = 3, clear = 1, ttl_s = 0 }";
        assert_eq!(rule(text, name), Some(all));
        // The others keep their defaults.
        assert_eq!(of(text).unwrap().counters.len(), AlarmOptions::default().counters.len());
        assert_eq!(of("bit_errors = \"2e-13\"").unwrap().bit_errors.get(), 2e-13);
        assert_eq!(of("ttl_s = 0\nflaps = 5").unwrap().flaps, 5);
        assert_eq!(of("").unwrap(), AlarmOptions::default());
        let dotted = parse("[telemetry]\nalarms.flaps = 7\n", Path::new("x")).unwrap();
        assert_eq!(dotted.alarms.flaps, 7);
    }

    #[test]
    fn mistakes_come_with_line_and_advice() {
        let check = |line: &str, want: &str| {
            let error = of(line).unwrap_err();
            assert!(
                error.contains("fm.toml, line 5: ") && error.contains(want),
                "{line}: {error}"
            );
        };
        check(
            "PortRcvError = { warning = 7 }",
            "did you mean 'telemetry.alarms.PortRcvErrors'?",
        );
        check(
            "PortRcvErrors = { warnings = 7 }",
            "unknown entry 'warnings'; did you mean 'warning'?",
        );
        check("PortRcvErrors = { warning = 0 }", "SLV-CONFIG-0013");
        check("PortRcvErrors = { warning = 0 }", "warning = 0; want at least 1");
        check(
            "PortRcvErrors = { warning = -4 }",
            "want false, or a table of whole numbers",
        );
        check("PortRcvErrors = 4", "want false, or a table");
        check("PortRcvErrors = true", "want false, or a table");
        check("PortRcvErrors = { clear = 4 }", "it names no level");
        check(
            "PortRcvErrors = { warning = 10, clear = 11 }",
            "telemetry.alarms.PortRcvErrors: clear = 11 is above warning = 10, at which the alarm begins; want at most \
             10",
        );
        check(
            "PortRcvErrors = { warning = 10, critical = 9 }",
            "critical = 9 is below warning = 10",
        );
        check(
            "PortRcvErrors = { info = 10, ttl_s = 700000 }",
            "want 0 to 604800 seconds",
        );
        check("bit_errors = \"1\"", "a rate above 0");
        check("flaps = 1", "2 to 1000 times");
        check("window_s = 0", "10 to 604800 seconds");
        let error = parse("[telemetry.alarm]\nflaps = 3\n", Path::new("x"))
            .unwrap_err()
            .to_string();
        assert!(error.contains("did you mean 'telemetry.alarms'?"), "{error}");
    }
}
