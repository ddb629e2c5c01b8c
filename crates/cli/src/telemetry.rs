//! `selvedge telemetry`: counters of all ports, from the running manager that samples them.

mod alarms;
mod baseline;
mod cables;
mod congestion;
mod history;
mod live;
mod plot;
mod port;
mod sets;
mod status;
mod top;

use clap::{Args, Subcommand};

use crate::exit::{CliError, Exit};

/// Show the counters of all ports, which the running master samples
#[derive(Args, Debug)]
pub struct TelemetryArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Status(status::StatusArgs),
    Top(top::TopArgs),
    Port(port::PortArgs),
    Watch(live::WatchArgs),
    Congestion(congestion::CongestionArgs),
    Cables(cables::CablesArgs),
    Alarms(alarms::AlarmsArgs),
    Ack(alarms::AckArgs),
    Plot(plot::PlotArgs),
    History(history::HistoryArgs),
    Baseline(baseline::BaselineArgs),
    Sets(sets::SetsArgs),
}

impl TelemetryArgs {
    /// True if errors are printed as JSON.
    pub const fn json(&self) -> bool {
        match &self.command {
            Command::Status(args) => args.format.json,
            Command::Top(args) => args.format.json,
            Command::Port(args) => args.format.json,
            Command::Watch(args) => args.format.json,
            Command::Congestion(args) => args.format.json,
            Command::Cables(args) => args.format.json,
            Command::Alarms(args) => args.format.json,
            Command::Ack(args) => args.format.json,
            Command::Plot(args) => args.format.json,
            Command::History(args) => args.json(),
            Command::Baseline(args) => args.format.json,
            Command::Sets(args) => args.format.json,
        }
    }
}

/// Runs the command.
pub fn run(args: &TelemetryArgs) -> Result<Exit, CliError> {
    match &args.command {
        Command::Status(args) => status::run(args),
        Command::Top(args) => top::run(args),
        Command::Port(args) => port::run(args),
        Command::Watch(args) => live::run(args),
        Command::Congestion(args) => congestion::run(args),
        Command::Cables(args) => cables::run(args),
        Command::Alarms(args) => alarms::run(args),
        Command::Ack(args) => alarms::ack(args),
        Command::Plot(args) => plot::run(args),
        Command::History(args) => history::run(args),
        Command::Baseline(args) => baseline::run(args),
        Command::Sets(args) => sets::run(args),
    }
}

/// Returns bytes in a second in the unit that has one to three digits before the point: `12.5 GB/s`.
fn bytes_per_s(value: u64) -> String {
    let units = [("GB/s", 1e9), ("MB/s", 1e6), ("kB/s", 1e3)];
    let unit = units.into_iter().find(|(_, size)| value as f64 >= *size);
    unit.map_or_else(
        || format!("{value} B/s"),
        |(name, size)| format!("{:.1} {name}", value as f64 / size),
    )
}

/// Returns an age: `0.4 s`, `35 s`, `12 min`, `3 h`.
fn age(ms: u64) -> String {
    match ms {
        0..10_000 => format!("{:.1} s", ms as f64 / 1e3),
        10_000..120_000 => format!("{} s", ms / 1_000),
        120_000..7_200_000 => format!("{} min", ms / 60_000),
        _ => format!("{} h", ms / 3_600_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_and_ages_are_short() {
        let rates = [0, 999, 1_000, 12_345_678, 12_500_000_000, 200_000_000_000];
        let want = ["0 B/s", "999 B/s", "1.0 kB/s", "12.3 MB/s", "12.5 GB/s", "200.0 GB/s"];
        assert_eq!(rates.map(bytes_per_s), want);
        let ages = [0, 450, 9_999, 35_000, 900_000, 10_800_000];
        assert_eq!(ages.map(age), ["0.0 s", "0.5 s", "10.0 s", "35 s", "15 min", "3 h"]);
    }
}
