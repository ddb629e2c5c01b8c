//! `selvedge telemetry watch`: shows the busiest ports, and shows them again whenever a sampling slot ends.

use std::time::Duration;

use clap::Args;
use selvedge_api::{Document, Telemetry, TelemetryPorts};
use selvedge_daemon::utc_text;

use super::top::{TopArgs, table};
use crate::exit::{CliError, Exit};
use crate::out::{Format, Out};

/// How often the manager is asked whether a slot has ended. The answer takes less than a millisecond.
const POLL: Duration = Duration::from_millis(200);
/// Clears the terminal. Source: ECMA-48, ED and CUP.
const CLEAR: &str = "\u{1b}[2J\u{1b}[H";

/// Show the busiest ports again with every slot, until interrupted; --json prints an object a line
#[derive(Args, Debug)]
pub struct WatchArgs {
    /// What ports are ordered by: load, xmit, rcv, wait, errors, or a counter, as PortXmitDiscards
    #[arg(value_name = "WHAT", default_value = "load")]
    by: String,
    /// How many ports are shown
    #[arg(long, value_name = "N", default_value_t = 20)]
    top: u64,
    /// End after this number of slots
    #[arg(long, value_name = "N")]
    slots: Option<u64>,
    #[command(flatten)]
    socket: crate::ask::SocketArgs,
    #[command(flatten)]
    pub(super) format: Format,
}

/// Runs the command.
pub fn run(args: &WatchArgs) -> Result<Exit, CliError> {
    let top = TopArgs {
        by: args.by.clone(),
        top: args.top,
        socket: args.socket.clone(),
        format: args.format,
    };
    let client = args.socket.client();
    let mut out = Out::new(args.format);
    let (mut seen, mut shown) = (None, 0);
    while args.slots.is_none_or(|slots| shown < slots) {
        let telemetry: Telemetry = client.get("telemetry")?;
        let newest = newest(&telemetry);
        if newest.is_none() || newest == seen {
            std::thread::park_timeout(POLL);
            continue;
        }
        seen = newest;
        let ports: TelemetryPorts = client.select("telemetry/counters", &top.query().parameters())?;
        print(&mut out, &telemetry, ports, args)?;
        out.flush()?;
        shown += 1;
    }
    Ok(Exit::Good)
}

/// Returns the number and the beginning of the last slot of the first class, which is that of data.
fn newest(telemetry: &Telemetry) -> Option<(u64, u64)> {
    let last = telemetry.classes.first()?.last.as_ref()?;
    Some((last.number, last.begin_ms))
}

fn print(out: &mut Out, telemetry: &Telemetry, ports: TelemetryPorts, args: &WatchArgs) -> Result<(), CliError> {
    if args.format.json {
        let line = Document::new(ports).to_json();
        return out.write(&(line + "\n"));
    }
    let grid = table(&ports.ports, Some(&args.by), args.format.csv);
    if args.format.csv {
        return out.write(&grid.csv());
    }
    if out.has_colours() {
        out.write(CLEAR)?;
    }
    let missing: u64 = telemetry
        .classes
        .iter()
        .filter_map(|class| class.last.as_ref())
        .map(|last| last.missing)
        .sum();
    let at = newest(telemetry).map_or_else(String::new, |(_, begin_ms)| utc_text(begin_ms));
    let state = match missing {
        0 => out.good("every port sampled"),
        missing => out.bad(&format!("{missing} samples missing")),
    };
    out.line(format!("slot of {at}, {} ports, {state}", telemetry.ports_up))?;
    out.grid(&grid)?;
    out.line("")
}
