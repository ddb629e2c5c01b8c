//! `selvedge telemetry history events`, `topology` and `slice`: what is stored, of this and of earlier runs.

use std::collections::BTreeMap;
use std::time::SystemTime;

use clap::Args;
use selvedge_api::{
    Severity, SliceQuery, StoredEvent, StoredEventQuery, StoredEvents, TelemetrySlice, TelemetrySlicePort, TimeRange,
    Topology, TopologyQuery, TopologyVersion, TopologyVersions,
};
use selvedge_daemon::utc_text;
use selvedge_types::Guid;

use crate::ask::SocketArgs;
use crate::exit::{CliError, Exit};
use crate::out::{Cell, Format, Grid, Out, count};
use crate::times::{When, when};

/// List stored events, the latest first
#[derive(Args, Debug)]
pub struct EventsArgs {
    /// Events since then: 90s, 10m, 2h or 3d ago, or a UTC date, as 2026-03-30T12:34
    #[arg(long, value_name = "TIME", default_value = "1d", value_parser = when)]
    since: When,
    /// Events up to then (default: now)
    #[arg(long, value_name = "TIME", value_parser = when)]
    until: Option<When>,
    /// The lowest severity: info, warning or error
    #[arg(long, value_name = "SEVERITY")]
    severity: Option<Severity>,
    /// How many events are listed
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    top: u32,
    #[command(flatten)]
    socket: SocketArgs,
    #[command(flatten)]
    pub(super) format: Format,
}

/// List the versions of the topology, or the links of one
#[derive(Args, Debug)]
pub struct TopologyArgs {
    /// The links that there were then: 90s, 10m, 2h or 3d ago, or a UTC date, as 2026-03-30T12:34
    #[arg(long, value_name = "TIME", value_parser = when)]
    at: Option<When>,
    #[command(flatten)]
    socket: SocketArgs,
    #[command(flatten)]
    pub(super) format: Format,
}

/// List a counter of all ports in one stored slot, or what it grew by in a time, the most first
#[derive(Args, Debug)]
pub struct SliceArgs {
    /// The counter: xmit, rcv, wait, or a name, as PortXmitDiscards
    #[arg(value_name = "COUNTER", default_value = "xmit")]
    counter: String,
    /// The last slot up to then: 90s, 10m, 2h or 3d ago, or a UTC date, as 2026-03-30T12:34 (default: now)
    #[arg(long, value_name = "TIME", value_parser = when)]
    at: Option<When>,
    /// Growth since then
    #[arg(long, value_name = "TIME", value_parser = when, conflicts_with = "at")]
    since: Option<When>,
    /// Growth up to then (default: now)
    #[arg(long, value_name = "TIME", value_parser = when, requires = "since")]
    until: Option<When>,
    /// How many ports are listed (default: all)
    #[arg(long, value_name = "N")]
    top: Option<u64>,
    #[command(flatten)]
    socket: SocketArgs,
    #[command(flatten)]
    pub(super) format: Format,
}

/// Lists events.
pub fn events(args: &EventsArgs) -> Result<Exit, CliError> {
    let now = SystemTime::now();
    let query = StoredEventQuery {
        range: TimeRange {
            from_ms: Some(args.since.unix_ms(now)),
            to_ms: args.until.map(|until| until.unix_ms(now)),
        },
        severity: args.severity,
        limit: Some(args.top),
    };
    let client = args.socket.client();
    let found: StoredEvents = client.select("telemetry/history/events", &query.parameters())?;
    let mut out = Out::new(args.format);
    match args.format.json {
        true => out.document(found)?,
        false => out.grid(&event_table(&found.events))?,
    }
    out.flush()?;
    Ok(Exit::Good)
}

/// Lists versions of the topology, or the links of one.
pub fn topology(args: &TopologyArgs) -> Result<Exit, CliError> {
    let client = args.socket.client();
    let mut out = Out::new(args.format);
    let Some(at) = args.at else {
        let found: TopologyVersions = client.get("telemetry/history/topologies")?;
        match args.format.json {
            true => out.document(found)?,
            false => out.grid(&version_table(&found.versions))?,
        }
        out.flush()?;
        return Ok(Exit::Good);
    };
    let query = TopologyQuery {
        at_ms: Some(at.unix_ms(SystemTime::now())),
    };
    let found: Topology = client.select("telemetry/history/topology", &query.parameters())?;
    match args.format {
        Format { json: true, .. } => out.document(found)?,
        Format { csv: true, .. } => out.grid(&link_table(&found))?,
        _ => {
            let (nodes, links) = (found.nodes.len() as u64, found.links.len() as u64);
            let (nodes, links) = (count(nodes, "node"), count(links, "link"));
            out.line(format!("{nodes} and {links}, since {}", utc_text(found.at_ms)))?;
            out.grid(&link_table(&found))?;
        }
    }
    out.flush()?;
    Ok(Exit::Good)
}

/// Lists a counter of all ports. Files that could not be read are said, and make the exit code 1.
pub fn slice(args: &SliceArgs) -> Result<Exit, CliError> {
    let now = SystemTime::now();
    let query = SliceQuery {
        counter: Some(args.counter.clone()),
        at_ms: match args.since {
            None => Some(args.at.map_or_else(|| When::NOW.unix_ms(now), |at| at.unix_ms(now))),
            Some(_) => None,
        },
        range: TimeRange {
            from_ms: args.since.map(|since| since.unix_ms(now)),
            to_ms: args.until.map(|until| until.unix_ms(now)),
        },
        limit: args.top,
    };
    let client = args.socket.client();
    let found: TelemetrySlice = client.select("telemetry/history/ports", &query.parameters())?;
    let mut out = Out::new(args.format);
    let exit = match found.unread.is_empty() {
        true => Exit::Good,
        false => Exit::NotGood,
    };
    match args.format {
        Format { json: true, .. } => out.document(found)?,
        Format { csv: true, .. } => out.grid(&port_table(&found.ports))?,
        _ => {
            let ports = count(found.found, "port");
            out.line(format!("{} in {}, {ports}", found.counter, found.unit))?;
            out.grid(&port_table(&found.ports))?;
            for unread in &found.unread {
                let line = out.bad(&format!("not read: {unread}"));
                out.line(line)?;
            }
        }
    }
    out.flush()?;
    Ok(exit)
}

fn event_table(events: &[StoredEvent]) -> Grid {
    let mut grid = Grid::new(&["time", "severity", "code", "event"]);
    for event in events {
        grid.row([
            utc_text(event.time_ms).into(),
            event.severity.to_string().into(),
            (&event.code).into(),
            (&event.text).into(),
        ]);
    }
    grid.lose_first(&["severity"])
}

fn version_table(versions: &[TopologyVersion]) -> Grid {
    let mut grid = Grid::new(&["since", "digest"]);
    for version in versions {
        grid.row([utc_text(version.at_ms).into(), (&version.digest).into()]);
    }
    grid
}

fn link_table(topology: &Topology) -> Grid {
    let names: BTreeMap<Guid, &str> = topology
        .nodes
        .iter()
        .map(|node| (node.guid, node.name.as_str()))
        .collect();
    let name = |guid: Guid| {
        names
            .get(&guid)
            .map_or_else(|| guid.to_string(), |name| (*name).to_owned())
    };
    let mut grid = Grid::new(&["node", "port", "peer", "peer_port", "rate"]);
    for link in &topology.links {
        grid.row([
            name(link.a.0).into(),
            Cell::id(link.a.1),
            name(link.b.0).into(),
            Cell::id(link.b.1),
            link.rate.clone().into(),
        ]);
    }
    grid
}

fn port_table(ports: &[TelemetrySlicePort]) -> Grid {
    let mut grid = Grid::new(&["node", "port", "time", "total", "increase", "per_s"]);
    for port in ports {
        let name = match port.node_name.as_str() {
            "" => port.node_guid.to_string(),
            name => name.to_owned(),
        };
        grid.row([
            name.into(),
            Cell::id(port.port),
            utc_text(port.at_ms).into(),
            port.total.into(),
            port.increase.into(),
            port.per_s.map_or(Cell::None, |per_s| Cell::Real(per_s, 3)),
        ]);
    }
    grid.lose_first(&["time", "increase"])
}

#[cfg(test)]
mod tests {
    use selvedge_api::{TopologyLink, TopologyNode};
    use selvedge_types::NodeKind;

    use super::*;

    fn rows(grid: &Grid) -> Vec<String> {
        grid.csv().lines().skip(1).map(str::to_owned).collect()
    }

    #[test]
    fn stored_things_are_tables() {
        let event = StoredEvent {
            time_ms: 1_600_000_000_000,
            severity: Severity::Warning,
            code: "SLV-SM-0101".to_owned(),
            text: "a, b".to_owned(),
        };
        assert_eq!(
            rows(&event_table(&[event])),
            ["2020-09-13T12:26:40.000Z,warning,SLV-SM-0101,\"a, b\""]
        );
        let version = TopologyVersion {
            at_ms: 1_600_000_000_000,
            digest: "00ff".to_owned(),
        };
        assert_eq!(rows(&version_table(&[version])), ["2020-09-13T12:26:40.000Z,00ff"]);
        let topology = Topology {
            at_ms: 0,
            nodes: vec![TopologyNode {
                guid: Guid(1),
                kind: NodeKind::Switch,
                name: "leaf 1".to_owned(),
            }],
            links: vec![TopologyLink {
                a: (Guid(1), 7),
                b: (Guid(2), 1),
                rate: Some("4xHDR".to_owned()),
            }],
        };
        assert_eq!(rows(&link_table(&topology)), ["leaf 1,7,0x0000000000000002,1,4xHDR"]);
    }

    #[test]
    fn a_port_of_a_node_that_has_left_has_its_guid() {
        let port = TelemetrySlicePort {
            node_guid: Guid(9),
            node_name: String::new(),
            port: 3,
            at_ms: 1_600_000_000_000,
            total: 12,
            increase: Some(5),
            per_s: Some(0.25),
        };
        assert_eq!(
            rows(&port_table(&[port])),
            ["0x0000000000000009,3,2020-09-13T12:26:40.000Z,12,5,0.25"]
        );
    }
}
