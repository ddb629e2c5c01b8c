//! `selvedge telemetry history`: how storing of counters goes, and what is stored.

mod stored;

use clap::{Args, Subcommand};
use selvedge_api::{HistoryState, TelemetryHistory};
use selvedge_daemon::utc_text;

use crate::ask::SocketArgs;
use crate::exit::{CliError, Exit};
use crate::out::{Facts, Format, Out};

/// Show the store of counters: where, how much, how far back, what was lost; or what is stored
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub struct HistoryArgs {
    #[command(flatten)]
    socket: SocketArgs,
    #[command(flatten)]
    format: Format,
    #[command(subcommand)]
    stored: Option<Stored>,
}

#[derive(Debug, Subcommand)]
enum Stored {
    Events(stored::EventsArgs),
    Topology(stored::TopologyArgs),
    Slice(stored::SliceArgs),
}

impl HistoryArgs {
    /// True if errors are printed as JSON.
    pub(super) const fn json(&self) -> bool {
        match &self.stored {
            None => self.format.json,
            Some(Stored::Events(args)) => args.format.json,
            Some(Stored::Topology(args)) => args.format.json,
            Some(Stored::Slice(args)) => args.format.json,
        }
    }
}

/// Runs the command.
pub fn run(args: &HistoryArgs) -> Result<Exit, CliError> {
    match &args.stored {
        None => state(args),
        Some(Stored::Events(args)) => stored::events(args),
        Some(Stored::Topology(args)) => stored::topology(args),
        Some(Stored::Slice(args)) => stored::slice(args),
    }
}

/// Shows how storing goes. The exit code says whether everything is stored.
fn state(args: &HistoryArgs) -> Result<Exit, CliError> {
    let history: TelemetryHistory = args.socket.client().get("telemetry/history")?;
    let mut out = Out::new(args.format);
    let exit = match history.state == HistoryState::Storing && history.why.is_none() {
        true => Exit::Good,
        false => Exit::NotGood,
    };
    match args.format.json {
        true => out.document(history)?,
        false => text(&mut out, &history)?,
    }
    out.flush()?;
    Ok(exit)
}

fn text(out: &mut Out, history: &TelemetryHistory) -> Result<(), CliError> {
    out.facts(&facts(history))?;
    match &history.why {
        Some(why) if out.format().is_text() => {
            let line = out.bad(&format!("not stored: {why}"));
            out.line(format!("\n{line}"))
        }
        _ => Ok(()),
    }
}

fn facts(history: &TelemetryHistory) -> Facts {
    let mut facts = Facts::new();
    facts.add("state", history.state.to_string());
    let Some(folder) = &history.folder else { return facts };
    facts.add("folder", folder);
    facts.add("fabric", history.fabric.clone());
    let rule = format!(
        "the first sample of every {} s, for {} days, at most {}",
        history.interval_ms as f64 / 1e3,
        history.keep_s / 86_400,
        size(history.limit_bytes)
    );
    facts.several(
        "stored",
        rule,
        [
            ("interval_ms", history.interval_ms.into()),
            ("keep_s", history.keep_s.into()),
            ("limit_bytes", history.limit_bytes.into()),
        ],
    );
    let files = format!(
        "{} in {} complete hours and those in progress",
        size(history.bytes),
        history.files
    );
    facts.several(
        "files",
        files,
        [("files", history.files.into()), ("bytes", history.bytes.into())],
    );
    facts.add("oldest", history.oldest_ms.map(utc_text));
    facts.add("newest", history.newest_ms.map(utc_text));
    let rows = format!("{} in {}", history.rows, size(history.written_bytes));
    let written = [
        ("rows", history.rows.into()),
        ("written_bytes", history.written_bytes.into()),
    ];
    facts.several("rows since the start", rows, written);
    facts.named("rows_lost", "rows lost", history.rows_lost);
    let window = format!(
        "{} rows, {} with hours in progress",
        history.window_rows,
        size(history.memory_bytes)
    );
    let memory = [
        ("window_rows", history.window_rows.into()),
        ("memory_bytes", history.memory_bytes.into()),
    ];
    facts.several("in memory", window, memory);
    facts.named("events", "events since the start", history.events);
    facts.named("topologies", "topology versions", history.topologies);
    facts
}

/// Returns bytes in the unit that has one to three digits before the point: `12.5 MiB`.
fn size(bytes: u64) -> String {
    let units = [("GiB", 30), ("MiB", 20), ("KiB", 10)];
    let unit = units.into_iter().find(|(_, bits)| bytes >> bits > 0);
    unit.map_or_else(
        || format!("{bytes} B"),
        |(name, bits)| format!("{:.1} {name}", bytes as f64 / (1_u64 << bits) as f64),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_are_short_as_text_and_whole_as_csv() {
        let history = TelemetryHistory {
            state: HistoryState::Storing,
            folder: Some("/var/lib/selvedge/history".to_owned()),
            fabric: Some("port 0x1".to_owned()),
            interval_ms: 30_000,
            keep_s: 14 * 86_400,
            limit_bytes: 64 << 30,
            files: 4,
            bytes: 5 << 20,
            oldest_ms: Some(1_600_000_000_000),
            rows: 9,
            ..TelemetryHistory::default()
        };
        let text = facts(&history).shown().lines(None).join("\n");
        for want in [
            "every 30 s, for 14 days, at most 64.0 GiB",
            "5.0 MiB in 4",
            "2020-09-13T12:26:40.000Z",
        ] {
            assert!(text.contains(want), "{text}");
        }
        let csv = facts(&history).plain().csv();
        for want in ["interval_ms,30000", "bytes,5242880", "rows_lost,0"] {
            assert!(csv.contains(want), "{csv}");
        }
        let off = facts(&TelemetryHistory::default()).plain().csv();
        assert!(off.contains("state,off") && !off.contains("folder"), "{off}");
        assert_eq!(
            [0, 1_023, 1_024, 3 << 30].map(size),
            ["0 B", "1023 B", "1.0 KiB", "3.0 GiB"]
        );
    }
}
