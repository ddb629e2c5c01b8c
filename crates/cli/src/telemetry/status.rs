//! `selvedge telemetry status`: whether all ports are sampled, and which samples are missing.

use clap::Args;
use selvedge_api::{Telemetry, TelemetryClass, TelemetryState};
use selvedge_daemon::utc_text;

use crate::ask::SocketArgs;
use crate::exit::{CliError, Exit};
use crate::out::{Cell, Facts, Format, Grid, Out};

/// Silent nodes that text names.
const NAMED: usize = 8;

/// Show how sampling goes: slots, what is missing in them and why, requests
#[derive(Args, Debug)]
pub struct StatusArgs {
    #[command(flatten)]
    socket: SocketArgs,
    #[command(flatten)]
    pub(super) format: Format,
}

/// Runs the command. The exit code is 0 if every port has its samples.
pub fn run(args: &StatusArgs) -> Result<Exit, CliError> {
    let telemetry: Telemetry = args.socket.client().get("telemetry")?;
    let mut out = Out::new(args.format);
    let exit = match is_whole(&telemetry) {
        true => Exit::Good,
        false => Exit::NotGood,
    };
    match args.format {
        Format { json: true, .. } => out.document(telemetry)?,
        Format { csv: true, .. } => out.grid(&classes(&telemetry))?,
        _ => text(&mut out, &telemetry)?,
    }
    out.flush()?;
    Ok(exit)
}

/// True if counters are sampled in step with the clock, and no port is missing.
fn is_whole(telemetry: &Telemetry) -> bool {
    let has_all = |class: &TelemetryClass| class.in_step && class.last.as_ref().is_none_or(|slot| slot.missing == 0);
    telemetry.state == TelemetryState::Sampling && telemetry.classes.iter().all(has_all)
}

fn text(out: &mut Out, telemetry: &Telemetry) -> Result<(), CliError> {
    out.facts(&facts(telemetry))?;
    if telemetry.classes.is_empty() {
        return Ok(());
    }
    out.line("")?;
    out.grid(&classes(telemetry))?;
    for class in &telemetry.classes {
        if !class.in_step {
            let lost = format!("class {} is not in step with its interval", class.name);
            let lost = out.bad(&lost);
            out.line(format!(
                "\n{lost}: lengthen the interval, or see which nodes are silent"
            ))?;
        }
    }
    unexpected(out, telemetry)?;
    if !telemetry.silent.is_empty() {
        out.line("\nnodes that do not answer:")?;
    }
    for node in telemetry.silent.iter().take(NAMED) {
        out.line(format!(
            "    {} ({}), {} ports without samples",
            node.node_name, node.node_guid, node.ports
        ))?;
    }
    match telemetry.silent.len().saturating_sub(NAMED) {
        0 => Ok(()),
        more => out.line(format!("    and {more} more: --json lists all")),
    }
}

/// Names nodes and ports that are of another type than expected.
fn unexpected(out: &mut Out, telemetry: &Telemetry) -> Result<(), CliError> {
    if !telemetry.unexpected.is_empty() {
        out.line(format!("\n{}:", out.bad("hardware that is not as expected")))?;
    }
    for difference in telemetry.unexpected.iter().take(NAMED) {
        out.line(format!("    {difference}"))?;
    }
    match telemetry.unexpected.len().saturating_sub(NAMED) {
        0 => Ok(()),
        more => out.line(format!("    and {more} more: --json lists all")),
    }
}

fn facts(telemetry: &Telemetry) -> Facts {
    let mut facts = Facts::new();
    let requests = telemetry.requests;
    facts.add("state", telemetry.state.to_string());
    facts.add("nodes", telemetry.nodes);
    facts.named("ports_up", "ports that are read", telemetry.ports_up);
    facts.named("ports_down", "ports that are down", telemetry.ports_down);
    facts.named("requests_sent", "requests sent", requests.sent);
    facts.named("requests_repeated", "repeats among them", requests.repeats);
    facts.named("requests_unanswered", "not answered", requests.timeouts);
    if telemetry.clock_sets > 0 {
        facts.named("clock_sets", "the clock was set", telemetry.clock_sets);
    }
    if telemetry.slots_lost > 0 {
        facts.named("slots_lost", "slots lost by slow stores", telemetry.slots_lost);
    }
    facts
}

/// Returns the classes as a table.
fn classes(telemetry: &Telemetry) -> Grid {
    let mut grid = Grid::new(&[
        "class",
        "interval_s",
        "ends",
        "slots",
        "last",
        "took_ms",
        "read",
        "unchanged",
        "derived",
        "missing",
        "requests",
        "overruns",
        "skipped",
        "in_step",
    ]);
    for class in &telemetry.classes {
        let last = class.last.as_ref();
        grid.row([
            (&class.name).into(),
            Cell::Real(
                class.interval_ms as f64 / 1e3,
                if class.interval_ms % 1_000 == 0 { 0 } else { 1 },
            ),
            (&class.ends).into(),
            class.slots.into(),
            last.map(|slot| utc_text(slot.begin_ms)).into(),
            last.map_or(Cell::None, |slot| Cell::Real(slot.took_us as f64 / 1e3, 1)),
            last.map(|slot| slot.read).into(),
            last.map(|slot| slot.unchanged).into(),
            last.map(|slot| slot.derived).into(),
            last.map(|slot| slot.missing).into(),
            last.map(|slot| slot.requests).into(),
            class.overruns.into(),
            class.skipped.into(),
            class.in_step.into(),
        ]);
    }
    grid.lose_first(&["derived", "unchanged", "skipped", "overruns", "ends"])
}

#[cfg(test)]
mod tests {
    use selvedge_api::TelemetrySlot;

    use super::*;

    fn telemetry(missing: u64, in_step: bool) -> Telemetry {
        Telemetry {
            state: TelemetryState::Sampling,
            nodes: 3,
            classes: vec![TelemetryClass {
                name: "data".to_owned(),
                interval_ms: 30_000,
                ends: "both".to_owned(),
                slots: 7,
                in_step,
                last: Some(TelemetrySlot {
                    begin_ms: 1_600_000_000_000,
                    took_us: 12_345,
                    read: 20,
                    missing,
                    ..TelemetrySlot::default()
                }),
                ..TelemetryClass::default()
            }],
            ..Telemetry::default()
        }
    }

    #[test]
    fn a_port_without_samples_or_a_late_slot_is_not_good() {
        assert!(is_whole(&telemetry(0, true)));
        assert!(!is_whole(&telemetry(1, true)));
        assert!(!is_whole(&telemetry(0, false)));
        let waiting = Telemetry {
            state: TelemetryState::Waiting,
            ..telemetry(0, true)
        };
        assert!(!is_whole(&waiting));
    }

    #[test]
    fn classes_are_a_table() {
        let csv = classes(&telemetry(2, true)).csv();
        let lines: Vec<&str> = csv.lines().collect();
        let want = "data,30,both,7,2020-09-13T12:26:40.000Z,12.345,20,0,0,2,0,0,0,true";
        assert_eq!(lines[1], want);
        assert_eq!(lines[0].split(',').count(), want.split(',').count());
    }
}
