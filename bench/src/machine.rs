//! The machine on which a figure was measured.

use std::fs;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

/// The properties of a machine that decide its speed.
#[derive(Clone, Debug)]
pub struct Machine {
    /// Model of its processor.
    pub cpu: String,
    /// Processors that this process may use.
    pub cores: usize,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// Release of its kernel.
    pub kernel: String,
}

impl Machine {
    /// Returns this machine; unknown values are "unknown" or 0.
    #[must_use]
    pub fn this() -> Self {
        let cpus = read("/proc/cpuinfo");
        let value = |text: &str, key: &str| {
            let line = text.lines().find(|line| line.starts_with(key))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        };
        let memory = value(&read("/proc/meminfo"), "MemTotal");
        let memory_kib = memory.and_then(|text| text.split(' ').next()?.parse::<u64>().ok());
        Self {
            cpu: value(&cpus, "model name").unwrap_or_else(|| "unknown".to_owned()),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory_bytes: memory_kib.unwrap_or(0) * 1024,
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
        }
    }

    /// Returns a short name for folders: `amd-epyc-2-cores`.
    #[must_use]
    pub fn slug(&self) -> String {
        let words = self.cpu.split(|c: char| !c.is_ascii_alphanumeric());
        let mut words: Vec<String> = words
            .filter(|word| !word.is_empty() && !["R", "TM", "CPU", "Processor"].contains(word))
            .take(4)
            .map(str::to_ascii_lowercase)
            .collect();
        words.push(format!("{}-cores", self.cores));
        words.join("-")
    }
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// Returns the number of processes that wanted to run, averaged over the last minute, including our own.
#[must_use]
pub fn load() -> f64 {
    let text = read("/proc/loadavg");
    text.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or(0.0)
}

/// Today in UTC, as `2026-01-31`.
#[must_use]
pub fn today() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    date_of_day(since.as_secs() / 86_400)
}

/// The date this number of days after 1970-01-01.
fn date_of_day(days: u64) -> String {
    let is_leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let (mut year, mut day) = (1970, days);
    while day >= 365 + u64::from(is_leap(year)) {
        day -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let february = 28 + u64::from(is_leap(year));
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if day < length {
            break;
        }
        day -= length;
        month += 1;
    }
    format!("{year}-{month:02}-{:02}", day + 1)
}

/// First line of a program's output; empty if it cannot be run.
#[must_use]
pub fn first_line_of(program: &str, arguments: &[&str]) -> String {
    let folders = ["", "/usr/sbin/"];
    let outputs = folders
        .iter()
        .map(|f| Command::new(format!("{f}{program}")).args(arguments).output());
    let output = outputs.flatten().next();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    text.unwrap_or_default()
        .lines()
        .next()
        .unwrap_or_default()
        .trim()
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        let check = |days: u64, want: &str| assert_eq!(date_of_day(days), want);
        check(0, "1970-01-01");
        check(59, "1970-03-01");
        check(789, "1972-02-29");
        check(11_016, "2000-02-29");
        check(11_017, "2000-03-01");
        check(20_453, "2025-12-31");
        check(20_454, "2026-01-01");
    }

    #[test]
    fn slugs() {
        let check = |cpu: &str, want: &str| {
            let machine = Machine {
                cpu: cpu.to_owned(),
                cores: 2,
                memory_bytes: 0,
                kernel: String::new(),
            };
            assert_eq!(machine.slug(), want);
        };
        check("AMD EPYC", "amd-epyc-2-cores");
        check(
            "Intel(R) Xeon(R) Gold 6248 CPU @ 2.50GHz",
            "intel-xeon-gold-6248-2-cores",
        );
    }
}
