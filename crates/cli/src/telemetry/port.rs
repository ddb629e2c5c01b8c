//! `selvedge telemetry port`: all counters of a port, or of the ports of a node.

use clap::Args;
use selvedge_api::{CounterQuery, TelemetryPort, TelemetryPorts};
use selvedge_daemon::utc_text;

use super::{age, bytes_per_s};
use crate::ask::SocketArgs;
use crate::exit::{CliError, Exit};
use crate::out::{Cell, Format, Grid, Out};

/// Show all counters of a port, with those of the other end of its link
#[derive(Args, Debug)]
pub struct PortArgs {
    /// Name or GUID of the node
    #[arg(value_name = "NODE")]
    node: String,
    /// Number of the port (default: all ports of the node)
    #[arg(value_name = "PORT", value_parser = clap::value_parser!(u8).range(1..=254))]
    port: Option<u8>,
    /// Show counters that are 0, too
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    socket: SocketArgs,
    #[command(flatten)]
    pub(super) format: Format,
}

/// Runs the command.
pub fn run(args: &PortArgs) -> Result<Exit, CliError> {
    let query = CounterQuery {
        node: Some(args.node.clone()),
        port: args.port,
        counters: true,
        peers: args.port.is_some(),
        ..CounterQuery::default()
    };
    let client = args.socket.client();
    let mut ports: TelemetryPorts = client.select("telemetry/counters", &query.parameters())?;
    let mut out = Out::new(args.format);
    if args.format.json {
        out.document(ports)?;
        out.flush()?;
        return Ok(Exit::Good);
    }
    if !args.all {
        for port in &mut ports.ports {
            port.counters.retain(|counter| counter.total > 0);
        }
    }
    match args.format.csv {
        true => out.grid(&table(&ports.ports))?,
        false => ports.ports.iter().try_for_each(|port| text(&mut out, port))?,
    }
    out.flush()?;
    Ok(Exit::Good)
}

fn text(out: &mut Out, port: &TelemetryPort) -> Result<(), CliError> {
    let title = format!("\"{}\"[{}]", port.node_name, port.port);
    let title = out.bold(&title);
    out.line(format!("{title} {}", heading(port)))?;
    if !port.counters.is_empty() {
        let has_baseline = port.baseline_ms.is_some();
        let mut keys = vec!["counter", "total", "per_s", "unit"];
        // Without a baseline there is no such column.
        keys.splice(2..2, has_baseline.then_some("since_baseline"));
        let mut grid = Grid::new(&keys);
        for counter in &port.counters {
            let mut cells: Vec<Cell> = vec![
                (&counter.name).into(),
                counter.total.into(),
                counter.per_s.into(),
                (&counter.unit).into(),
            ];
            cells.splice(2..2, has_baseline.then(|| counter.since_baseline.into()));
            grid.row_of(cells);
        }
        out.grid(&grid)?;
    }
    out.line("")
}

/// Returns the line about a port without its name: state, peer, rates, load, and age of the sample.
fn heading(port: &TelemetryPort) -> String {
    let mut parts = vec![port.state.to_string()];
    parts.extend(port.rate.clone());
    let peer = port.peer.as_ref();
    parts.extend(peer.map(|peer| format!("to \"{}\"[{}]", peer.node_name, peer.port)));
    if let (Some(xmit), Some(rcv)) = (port.xmit_bytes_per_s, port.rcv_bytes_per_s) {
        parts.push(format!("sends {}, receives {}", bytes_per_s(xmit), bytes_per_s(rcv)));
    }
    parts.extend(port.load_ppm.map(|ppm| format!("load {:.1} %", ppm as f64 / 1e4)));
    parts.extend(port.baseline_ms.map(|ms| format!("baseline of {}", utc_text(ms))));
    parts.push(match (&port.how, port.age_ms) {
        (Some(how), _) if how == "down" => "not read, because the link is down".to_owned(),
        (Some(how), Some(ms)) => format!("{how} {} ago", age(ms)),
        _ => "without a sample".to_owned(),
    });
    parts.join(", ")
}

/// Returns a row for each counter of each port.
fn table(ports: &[TelemetryPort]) -> Grid {
    let mut grid = Grid::new(&["node", "port", "counter", "total", "per_s", "unit", "since_baseline"]);
    for port in ports {
        for counter in &port.counters {
            grid.row([
                (&port.node_name).into(),
                Cell::id(port.port),
                (&counter.name).into(),
                counter.total.into(),
                counter.per_s.into(),
                (&counter.unit).into(),
                counter.since_baseline.into(),
            ]);
        }
    }
    grid
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::top::tests::{down, port};

    #[test]
    fn a_port_says_what_it_does_and_how_old_that_is() {
        let want = "ACTIVE, 4xHDR, to \"host 2\"[1], sends 12.5 GB/s, receives 400 B/s, load 50.0 %, \
                    baseline of 2020-09-13T12:26:40.000Z, read 1.5 s ago";
        assert_eq!(heading(&port()).to_uppercase(), want.to_uppercase());
        let want = "Down, sends 0 B/s, receives 0 B/s, load 0.0 %, baseline of 2020-09-13T12:26:40.000Z, \
                    not read, because the link is down";
        assert_eq!(heading(&down()).to_uppercase(), want.to_uppercase());
        let csv = table(&[port()]).csv();
        assert_eq!(csv.lines().nth(1), Some("leaf 1,7,PortXmitDiscards,9,1,events,4"));
    }
}
