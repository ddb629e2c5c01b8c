//! `selvedge telemetry top`: the ports with the highest load, the longest waits or the most errors.

use clap::Args;
use selvedge_api::{CounterQuery, TelemetryPort, TelemetryPorts};

use selvedge_types::PortState;

use super::{age, bytes_per_s};
use crate::ask::SocketArgs;
use crate::exit::{CliError, Exit};
use crate::out::{Cell, Format, Grid, Out};

/// Orders that are no counters.
const SHORT: [&str; 5] = ["load", "xmit", "rcv", "wait", "errors"];

/// Show the ports with the highest load, the longest waits or the most errors
#[derive(Args, Clone, Debug)]
pub struct TopArgs {
    /// What ports are ordered by: load, xmit, rcv, wait, errors, or a counter, as PortXmitDiscards
    #[arg(value_name = "WHAT", default_value = "load")]
    pub(super) by: String,
    /// How many ports are shown
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(super) top: u64,
    #[command(flatten)]
    pub(super) socket: SocketArgs,
    #[command(flatten)]
    pub(super) format: Format,
}

impl TopArgs {
    /// Returns the question for the manager.
    pub(super) fn query(&self) -> CounterQuery {
        CounterQuery {
            by: Some(self.by.clone()),
            limit: Some(self.top),
            counters: !SHORT.contains(&self.by.as_str()),
            ..CounterQuery::default()
        }
    }
}

/// Runs the command.
pub fn run(args: &TopArgs) -> Result<Exit, CliError> {
    let ports: TelemetryPorts = args
        .socket
        .client()
        .select("telemetry/counters", &args.query().parameters())?;
    let mut out = Out::new(args.format);
    match args.format.json {
        true => out.document(ports)?,
        false => out.grid(&table(&ports.ports, Some(&args.by), args.format.csv))?,
    }
    out.flush()?;
    Ok(Exit::Good)
}

/// Returns ports as a table. If `by` is the name of a counter, it has a column for it.
pub(super) fn table(ports: &[TelemetryPort], by: Option<&String>, is_plain: bool) -> Grid {
    let by = by.filter(|by| !SHORT.contains(&by.as_str()));
    let mut keys = vec!["node", "port", "peer", "peer_port", "rate", "load_percent"];
    keys.extend([
        "xmit_bytes_per_s",
        "rcv_bytes_per_s",
        "wait_percent",
        "errors_per_s",
        "errors",
    ]);
    let of_counter = by.map(|by| [by.clone(), format!("{by}_per_s")]);
    keys.extend(of_counter.iter().flatten().map(String::as_str));
    keys.push("age");
    let bytes = |value: Option<u64>| match value {
        Some(value) if !is_plain => bytes_per_s(value).into(),
        value => value.into(),
    };
    let mut grid = Grid::new(&keys);
    for port in ports {
        let peer = port.peer.as_ref();
        let mut row = vec![
            (&port.node_name).into(),
            Cell::id(port.port),
            peer.map(|peer| peer.node_name.clone()).into(),
            peer.map_or(Cell::None, |peer| Cell::id(peer.port)),
            rate(port).into(),
            port.load_ppm.map_or(Cell::None, |ppm| Cell::Real(ppm as f64 / 1e4, 1)),
            bytes(port.xmit_bytes_per_s),
            bytes(port.rcv_bytes_per_s),
            port.wait_ppm.map_or(Cell::None, |ppm| Cell::Real(ppm as f64 / 1e4, 1)),
            port.errors_per_s.into(),
            port.errors.into(),
        ];
        if let Some(by) = by {
            let counter = port.counters.iter().find(|of| of.name.eq_ignore_ascii_case(by));
            row.push(counter.map(|of| of.total).into());
            row.push(counter.and_then(|of| of.per_s).into());
        }
        row.push(match port.age_ms {
            Some(ms) if !is_plain => age(ms).into(),
            ms => ms.into(),
        });
        grid.row_of(row);
    }
    grid.lose_first(&["rate", "age", "peer_port", "errors_per_s", "wait_percent"])
}

/// Returns the rate of a port's link, or that it is down.
fn rate(port: &TelemetryPort) -> Option<String> {
    match port.state {
        PortState::Down => Some("down".to_owned()),
        _ => port.rate.clone(),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use selvedge_api::{End, TelemetryCounter};
    use selvedge_types::{Guid, NodeKind};

    use super::*;

    pub fn port() -> TelemetryPort {
        TelemetryPort {
            node_guid: Guid(0x10),
            node_name: "leaf 1".to_owned(),
            kind: NodeKind::Switch,
            port: 7,
            lid: 3,
            state: PortState::Active,
            peer: Some(End {
                node_guid: Guid(0x20),
                node_name: "host 2".to_owned(),
                port: 1,
            }),
            rate: Some("4xHDR".to_owned()),
            capacity_bytes_per_s: Some(25_000_000_000),
            how: Some("read".to_owned()),
            sampled_ms: Some(1_600_000_000_000),
            age_ms: Some(1_500),
            xmit_bytes_per_s: Some(12_500_000_000),
            rcv_bytes_per_s: Some(400),
            load_ppm: Some(500_000),
            wait_per_s: Some(1_234),
            wait_ppm: Some(123_000),
            errors_per_s: Some(0),
            errors: Some(2),
            baseline_ms: Some(1_600_000_000_000),
            counters: vec![TelemetryCounter {
                name: "PortXmitDiscards".to_owned(),
                unit: "events".to_owned(),
                total: 9,
                per_s: Some(1),
                since_baseline: Some(4),
            }],
        }
    }

    #[test]
    fn text_has_units_and_csv_has_plain_numbers() {
        let mut bare = port();
        bare.counters.clear();
        let csv = table(&[bare.clone()], None, true).csv();
        let want = "leaf 1,7,host 2,1,4xHDR,50,12500000000,400,12.3,0,2,1500";
        assert_eq!(csv.lines().nth(1), Some(want));
        let text = table(&[bare], None, false).lines(None).join("\n");
        assert!(text.contains("12.5 GB/s") && text.contains("1.5 s"), "{text}");
    }

    /// The port of [`port`], as the manager shows it when its link is down.
    pub fn down() -> TelemetryPort {
        TelemetryPort {
            state: PortState::Down,
            peer: None,
            rate: None,
            capacity_bytes_per_s: None,
            how: Some("down".to_owned()),
            xmit_bytes_per_s: Some(0),
            rcv_bytes_per_s: Some(0),
            load_ppm: Some(0),
            wait_per_s: Some(0),
            wait_ppm: Some(0),
            ..port()
        }
    }

    #[test]
    fn a_port_that_is_down_says_so_and_has_no_load() {
        let csv = table(&[down()], None, true).csv();
        assert_eq!(csv.lines().nth(1), Some("leaf 1,7,,,down,0,0,0,0,0,2,1500"));
        let text = table(&[down()], None, false).lines(None).join("\n");
        assert!(text.contains("down"), "{text}");
    }

    #[test]
    fn a_counter_has_columns_of_its_own() {
        let by = "portxmitdiscards".to_owned();
        let csv = table(&[port()], Some(&by), true).csv();
        assert!(csv.starts_with("node,port,peer,"), "{csv}");
        assert!(
            csv.lines()
                .next()
                .is_some_and(|head| head.ends_with(",portxmitdiscards,portxmitdiscards_per_s,age"))
        );
        assert!(
            csv.lines().nth(1).is_some_and(|row| row.ends_with(",2,9,1,1500")),
            "{csv}"
        );
    }
}
