//! `selvedge telemetry alarms` and `ack`: what counters and links show that an operator should know.

use std::time::{Duration, SystemTime};

use clap::{Args, ValueEnum};
use selvedge_api::{Alarm, AlarmAction, AlarmQuery, AlarmRequest, Alarms, End, TimeRange};
use selvedge_daemon::utc_text;

use crate::ask::SocketArgs;
use crate::exit::{CliError, Exit};
use crate::out::{Cell, Format, Grid, Out, count};
use crate::times::{When, when};

/// How long alarms that have ended are listed, unless a time is given.
const DAY: Duration = Duration::from_secs(86_400);

/// The lowest level of listed alarms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Level {
    /// All alarms
    Info,
    /// Warnings and critical alarms
    Warning,
    /// Critical alarms only
    Critical,
}

impl Level {
    const fn name(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Critical => "critical",
        }
    }
}

/// List the alarms of counters and links, the gravest first
#[derive(Args, Debug)]
pub struct AlarmsArgs {
    /// Name or GUID of a node at either end of the link (default: all nodes)
    #[arg(value_name = "NODE")]
    node: Option<String>,
    /// The lowest level
    #[arg(long, value_name = "LEVEL", value_enum)]
    level: Option<Level>,
    /// Only alarms that are not acknowledged
    #[arg(long)]
    open: bool,
    /// Also alarms that have ended, the latest first, from the store of counters
    #[arg(long)]
    cleared: bool,
    /// Alarms that ended since then: 90s, 10m, 2h or 3d ago, or a UTC date, as 2026-03-30T12:34 (default: 1d)
    #[arg(long, value_name = "TIME", value_parser = when, requires = "cleared")]
    since: Option<When>,
    #[command(flatten)]
    socket: SocketArgs,
    #[command(flatten)]
    pub(super) format: Format,
}

/// Acknowledge alarms, so that they are no conditions of health any more unless they rise; or clear them
#[derive(Args, Debug)]
pub struct AckArgs {
    /// Name or GUID of a node at either end of the link
    #[arg(value_name = "NODE", required_unless_present = "all")]
    node: Option<String>,
    /// Number of the node's port (default: all of them)
    #[arg(value_name = "PORT", value_parser = clap::value_parser!(u8).range(1..=254))]
    port: Option<u8>,
    /// What the alarms are about: a counter, as SymbolErrorCounter; flaps, bit_errors or congestion (default: anything)
    #[arg(long, value_name = "WHAT")]
    about: Option<String>,
    /// The alarms of all nodes
    #[arg(long, conflicts_with = "node")]
    all: bool,
    /// End the alarms; they begin again with the next evidence
    #[arg(long)]
    clear: bool,
    /// A note for the list
    #[arg(long, value_name = "TEXT", default_value = "")]
    note: String,
    #[command(flatten)]
    socket: SocketArgs,
    #[command(flatten)]
    pub(super) format: Format,
}

/// Lists alarms.
pub fn run(args: &AlarmsArgs) -> Result<Exit, CliError> {
    let since = args.since.unwrap_or(When::Ago(DAY));
    let query = AlarmQuery {
        level: args.level.map(|level| level.name().to_owned()),
        node: args.node.clone(),
        open: args.open,
        cleared: args.cleared,
        range: TimeRange {
            from_ms: args.cleared.then(|| since.unix_ms(SystemTime::now())),
            to_ms: None,
        },
        limit: None,
    };
    let alarms: Alarms = args.socket.client().select("telemetry/alarms", &query.parameters())?;
    let mut out = Out::new(args.format);
    match args.format {
        Format { json: true, .. } => out.document(alarms)?,
        Format { csv: true, .. } => out.grid(&table(&alarms.alarms))?,
        _ => {
            out.line(summary(&alarms))?;
            if !alarms.alarms.is_empty() {
                out.grid(&table(&alarms.alarms))?;
            }
        }
    }
    out.flush()?;
    Ok(Exit::Good)
}

/// Acknowledges or clears alarms.
pub fn ack(args: &AckArgs) -> Result<Exit, CliError> {
    let request = AlarmRequest {
        action: match args.clear {
            true => AlarmAction::Clear,
            false => AlarmAction::Acknowledge,
        },
        node: args.node.clone(),
        port: args.port,
        about: args.about.clone(),
        all: args.all,
        by: operator(),
        note: args.note.clone(),
    };
    let changed = args.socket.client().change_alarms(&request)?;
    let mut out = Out::new(args.format);
    match args.format {
        Format { json: true, .. } => out.document(changed)?,
        Format { csv: true, .. } => out.grid(&table(&changed.alarms))?,
        _ => {
            let what = if args.clear { "cleared" } else { "acknowledged" };
            out.line(format!("{} {what}:", count(changed.alarms.len() as u64, "alarm")))?;
            out.grid(&table(&changed.alarms))?;
        }
    }
    out.flush()?;
    Ok(Exit::Good)
}

/// Returns the operator's name for the list: that of the user that called sudo, if one did.
fn operator() -> String {
    let names = ["SUDO_USER", "USER", "LOGNAME"].into_iter();
    let name = names
        .filter_map(|name| std::env::var(name).ok())
        .find(|name| !name.is_empty());
    name.unwrap_or_else(|| "operator".to_owned())
}

fn summary(alarms: &Alarms) -> String {
    if alarms.critical + alarms.warning + alarms.info == 0 {
        return "no alarms".to_owned();
    }
    format!(
        "{} critical, {} warning, {} info; {} acknowledged",
        alarms.critical, alarms.warning, alarms.info, alarms.acknowledged
    )
}

fn table(alarms: &[Alarm]) -> Grid {
    let mut grid = Grid::new(&[
        "level",
        "about",
        "node",
        "port",
        "peer",
        "peer_port",
        "since",
        "ended",
        "why",
        "acknowledged",
        "evidence",
    ]);
    for alarm in alarms {
        let peer = alarm.peer.as_ref();
        grid.row([
            (&alarm.level).into(),
            (&alarm.about).into(),
            name(&alarm.port).into(),
            Cell::id(alarm.port.port),
            peer.map(name).into(),
            peer.map_or(Cell::None, |peer| Cell::id(peer.port)),
            utc_text(alarm.since_ms).into(),
            alarm.cleared.as_ref().map(|cleared| utc_text(cleared.at_ms)).into(),
            alarm.cleared.as_ref().map(|cleared| cleared.why.clone()).into(),
            alarm.acknowledged.as_ref().map(|ack| ack.by.clone()).into(),
            (&alarm.evidence).into(),
        ]);
    }
    grid.lose_first(&["why", "ended", "acknowledged", "since", "peer_port", "peer"])
}

/// Returns the name of the node at an end; of one that has left the fabric, its GUID.
fn name(end: &End) -> String {
    match end.node_name.as_str() {
        "" => end.node_guid.to_string(),
        name => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use selvedge_api::{Acknowledged, AlarmCleared};
    use selvedge_types::Guid;

    use super::*;

    fn alarm(acknowledged: bool) -> Alarm {
        let end = |guid: u64, name: &str, port| End {
            node_guid: Guid(guid),
            node_name: name.to_owned(),
            port,
        };
        Alarm {
            level: "warning".to_owned(),
            about: "SymbolErrorCounter".to_owned(),
            port: end(1, "leaf 1", 7),
            peer: Some(end(2, "host 2", 1)),
            since_ms: 1_600_000_000_000,
            last_ms: 1_600_000_001_000,
            evidence: "SymbolErrorCounter grew by 12 within 300 s; the threshold is 10".to_owned(),
            clears: "it grows by less than 5 within 300 s".to_owned(),
            advice: "reseat the cable".to_owned(),
            acknowledged: acknowledged.then(|| Acknowledged {
                at_ms: 1_600_000_002_000,
                by: "ada".to_owned(),
                note: String::new(),
            }),
            cleared: None,
        }
    }

    #[test]
    fn alarms_are_a_table() {
        let ended = Alarm {
            port: End {
                node_guid: Guid(9),
                node_name: String::new(),
                port: 7,
            },
            cleared: Some(AlarmCleared {
                at_ms: 1_600_000_300_000,
                why: "gone".to_owned(),
            }),
            ..alarm(false)
        };
        let csv = table(&[alarm(false), alarm(true), ended]).csv();
        let rows: Vec<&str> = csv.lines().collect();
        let evidence = "SymbolErrorCounter grew by 12 within 300 s; the threshold is 10";
        let want = |node: &str, end: &str| {
            format!("warning,SymbolErrorCounter,{node},7,host 2,1,2020-09-13T12:26:40.000Z,{end},{evidence}")
        };
        let ended = want("0x0000000000000009", "2020-09-13T12:31:40.000Z,gone,");
        assert_eq!(rows[1..], [want("leaf 1", ",,"), want("leaf 1", ",,ada"), ended]);
    }

    #[test]
    fn the_summary_counts_levels() {
        assert_eq!(summary(&Alarms::default()), "no alarms");
        let alarms = Alarms {
            critical: 1,
            info: 3,
            acknowledged: 2,
            ..Alarms::default()
        };
        assert_eq!(summary(&alarms), "1 critical, 0 warning, 3 info; 2 acknowledged");
    }
}
