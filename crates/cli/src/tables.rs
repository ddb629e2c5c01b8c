//! Shows the answers of a running manager as tables.

use selvedge_api::{Events, Findings, Links, Nodes, Ports, ReasonCount};
use selvedge_daemon::utc_text;
use selvedge_study::measure::Answer;
use selvedge_types::NodeKind;
use selvedge_verify::{Contention, Figures};

use crate::out::{Cell, Facts, Grid, thousands};

/// Returns a cell for a value, or for an unknown value that no agent stated.
fn known(value: Option<impl Into<Cell>>) -> Cell {
    value.map_or(Cell::Unknown, Into::into)
}

/// Returns a table of nodes, one per row.
pub fn nodes(nodes: &Nodes) -> Grid {
    let mut grid = Grid::new(&["guid", "kind", "lid", "ports", "active", "name"]);
    for node in &nodes.nodes {
        let kind = match node.kind {
            NodeKind::Ca => "host",
            NodeKind::Switch => "switch",
            NodeKind::Router => "router",
        };
        grid.row([
            node.guid.to_string().into(),
            kind.into(),
            known(node.lid.map(|lid| lid.to_string())),
            Cell::id(node.ports),
            Cell::id(node.ports_active),
            (&node.name).into(),
        ]);
    }
    grid
}

/// Returns a table of cables, one per row.
pub fn links(links: &Links) -> Grid {
    let mut grid = Grid::new(&["node", "port", "state", "rate", "peer", "peer_port", "peer_state"]);
    for link in &links.links {
        grid.row([
            (&link.a.node_name).into(),
            Cell::id(link.a.port),
            known(link.state_a.map(|state| state.to_string())),
            link.rate.clone().into(),
            (&link.b.node_name).into(),
            Cell::id(link.b.port),
            known(link.state_b.map(|state| state.to_string())),
        ]);
    }
    grid
}

/// Returns a table of ports, one per row.
pub fn ports(ports: &Ports) -> Grid {
    let keys = [
        "node",
        "port",
        "lid",
        "state",
        "rate",
        "mtu_bytes",
        "peer",
        "peer_port",
        "reason",
    ];
    let mut grid = Grid::new(&keys).lose_first(&["mtu_bytes", "peer_port", "lid", "rate"]);
    for port in &ports.ports {
        let rate = port.width.zip(port.speed);
        let reason: Vec<String> = port.reason_code.iter().chain(&port.reason).cloned().collect();
        grid.row([
            (&port.node_name).into(),
            Cell::id(port.port),
            known(port.lid.map(Cell::id)),
            known(port.state.map(|state| state.to_string())),
            rate.map(|(width, speed)| format!("{width}{speed}")).into(),
            known(port.mtu_bytes.map(Cell::id)),
            port.peer.as_ref().map(|peer| &peer.node_name).into(),
            port.peer.as_ref().map(|peer| Cell::id(peer.port)).into(),
            reason.join(" ").into(),
        ]);
    }
    grid
}

/// Returns a table of events, one per row.
pub fn events(events: &Events) -> Grid {
    let mut grid = Grid::new(&["number", "time", "severity", "code", "event"]).lose_first(&["number", "code", "time"]);
    for event in &events.events {
        grid.row([
            Cell::id(event.number),
            utc_text(event.time_ms).into(),
            event.severity.to_string().into(),
            (&event.code).into(),
            (&event.text).into(),
        ]);
    }
    grid
}

/// Returns a table of findings, one per row.
pub fn findings(findings: &Findings) -> Grid {
    let mut grid = Grid::new(&["severity", "code", "kind", "accepted", "finding", "witness"]).lose_first(&["code"]);
    for finding in &findings.findings {
        grid.row([
            finding.severity.to_string().into(),
            (&finding.code).into(),
            (&finding.kind).into(),
            finding.accepted.into(),
            (&finding.text).into(),
            (&finding.witness).into(),
        ]);
    }
    grid
}

/// Returns a table of the reasons for which ports are not ACTIVE.
pub fn reasons(reasons: &[ReasonCount]) -> Grid {
    let mut grid = Grid::new(&["ports", "code", "not_active_because", "where"]);
    for reason in reasons {
        let more = reason.ports.saturating_sub(reason.examples.len() as u64);
        let mut places = reason.examples.join(", ");
        if more > 0 {
            places.push_str(&format!(" and {} more", thousands(more)));
        }
        grid.row([
            reason.ports.into(),
            (&reason.code).into(),
            (&reason.reason).into(),
            places.into(),
        ]);
    }
    grid
}

/// Returns the judge's figures.
pub fn figures(figures: &Figures) -> Facts {
    let mut facts = Facts::new();
    facts.add("switches", figures.switches);
    facts.add("host_ports", figures.host_ports);
    facts.named("lids", "LIDs", figures.lids);
    facts.add("parts", figures.parts);
    let (reached, pairs) = (figures.host_pairs_reached, figures.host_pairs);
    facts.several(
        "host pairs that reach each other",
        format!("{} of {}", thousands(reached), thousands(pairs)),
        [("host_pairs_reached", reached.into()), ("host_pairs", pairs.into())],
    );
    facts.several(
        "links between switches, mean and most",
        format!("{:.3}, {}", figures.hops_mean, figures.hops_max),
        [
            ("hops_mean", Cell::Real(figures.hops_mean, 3)),
            ("hops_max", figures.hops_max.into()),
        ],
    );
    let load = figures.load;
    facts.several(
        "host pairs per directed link, mean and most",
        format!("{:.1}, {}", load.mean, thousands(load.max)),
        [("load_mean", Cell::Real(load.mean, 1)), ("load_max", load.max.into())],
    );
    facts.named("load_sd", "standard deviation of that", Cell::Real(load.sd, 2));
    for lane in &figures.lanes {
        let (channels, dependencies) = (lane.channels, lane.dependencies);
        facts.several(
            &format!("lane {}", lane.vl),
            format!(
                "{} channels, {} dependencies",
                thousands(channels),
                thousands(dependencies)
            ),
            [
                (&format!("lane_{}_channels", lane.vl), channels.into()),
                (&format!("lane_{}_dependencies", lane.vl), dependencies.into()),
            ],
        );
    }
    facts
}

/// Returns the figures of `route` besides those of the judge.
pub fn routing(measured: &Answer) -> Facts {
    let mut facts = Facts::new();
    facts.named("deadlock_free", "free of deadlocks", measured.quality().deadlock_free);
    if let Some(found) = &measured.contention {
        contention(found, &mut facts);
    }
    facts.add("engine", &measured.routed.engine.0);
    let cost = &measured.cost;
    let times = match cost.repeats {
        0 => "first run".to_owned(),
        runs => format!("median of {runs}"),
    };
    let mut time = |key: &str, words: &str, ms: f64| {
        facts.several(words, format!("{ms:.3} ms"), [(key, Cell::Real(ms, 3))]);
    };
    time("compute_ms", &format!("time to route, {times}"), cost.compute_ms);
    if let Some(detect) = cost.detect_ms {
        time("detect_ms", "time to detect the tree", detect);
    }
    time("cold_ms", "time of the first run, with everything", cost.cold_ms);
    time("verify_ms", "time to judge", cost.verify_ms);
    facts.add("threads", cost.threads);
    if let Some(bytes) = cost.peak_rss_bytes {
        let text = format!("{:.1} MB", bytes as f64 / 1e6);
        facts.several("highest memory", text, [("peak_rss_bytes", bytes.into())]);
    }
    facts
}

fn contention(found: &Contention, facts: &mut Facts) {
    let (shift, bisection, stretch) = (found.shift, found.bisection, found.stretch);
    facts.several(
        "host pairs per cable, mean and most",
        format!("{:.1}, {}", found.cables.mean, thousands(found.cables.max)),
        [
            ("cable_load_mean", Cell::Real(found.cables.mean, 1)),
            ("cable_load_max", found.cables.max.into()),
        ],
    );
    let all = if shift.tried == shift.shifts {
        format!("all {}", thousands(shift.shifts))
    } else {
        format!("{} of {}", thousands(shift.tried), thousands(shift.shifts))
    };
    facts.several(
        &format!("most flows on a link in {all} shifts, mean and most"),
        format!("{:.2}, {}", shift.mean, thousands(shift.max)),
        [
            ("shifts_tried", shift.tried.into()),
            ("shift_mean", Cell::Real(shift.mean, 2)),
            ("shift_max", shift.max.into()),
        ],
    );
    facts.several(
        &format!(
            "effective bisection bandwidth, {} pairings",
            thousands(bisection.pairings)
        ),
        format!(
            "{:.4}, 95 % in {:.4} to {:.4}",
            bisection.mean, bisection.low, bisection.high
        ),
        [
            ("pairings", bisection.pairings.into()),
            ("ebb", Cell::Real(bisection.mean, 4)),
            ("ebb_low", Cell::Real(bisection.low, 4)),
            ("ebb_high", Cell::Real(bisection.high, 4)),
        ],
    );
    facts.several(
        "links over fewest links, mean and most",
        format!("{:.3}, {:.2}", stretch.mean, stretch.max),
        [
            ("stretch_mean", Cell::Real(stretch.mean, 3)),
            ("stretch_max", Cell::Real(stretch.max, 2)),
        ],
    );
}
