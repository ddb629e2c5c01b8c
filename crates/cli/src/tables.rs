//! Responses as tables.

use selvedge_api::{
    Administration, Application, Events, Findings, Intake, Links, Nodes, Ports, ReasonCount, RebalanceStatus, Status,
};
use selvedge_daemon::utc_text;
use selvedge_types::NodeKind;
use selvedge_verify::Figures;

use crate::measure::Measured;
use crate::out::{Grid, count, thousands};

/// What an agent said, or that it did not say it.
fn known(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "unknown".to_owned(), |value| value.to_string())
}

/// Nodes, one a row.
pub fn nodes(nodes: &Nodes) -> Grid {
    let mut grid = Grid::new(&["guid", "kind", "lid", "ports", "active", "name"]);
    for node in &nodes.nodes {
        let kind = match node.kind {
            NodeKind::Ca => "host",
            NodeKind::Switch => "switch",
            NodeKind::Router => "router",
        };
        grid.row([
            node.guid.to_string(),
            kind.to_owned(),
            known(node.lid),
            node.ports.to_string(),
            node.ports_active.to_string(),
            node.name.clone(),
        ]);
    }
    grid
}

/// Cables, one a row.
pub fn links(links: &Links) -> Grid {
    let mut grid = Grid::new(&["node", "port", "state", "rate", "peer", "peer port", "peer state"]);
    for link in &links.links {
        grid.row([
            link.a.node_name.clone(),
            link.a.port.to_string(),
            known(link.state_a),
            link.rate.clone().unwrap_or_else(|| "-".to_owned()),
            link.b.node_name.clone(),
            link.b.port.to_string(),
            known(link.state_b),
        ]);
    }
    grid
}

/// Ports, one a row.
pub fn ports(ports: &Ports) -> Grid {
    let mut grid = Grid::new(&[
        "node",
        "port",
        "lid",
        "state",
        "rate",
        "mtu",
        "peer",
        "peer port",
        "reason",
    ]);
    for port in &ports.ports {
        let dash = || "-".to_owned();
        let rate = port
            .width
            .zip(port.speed)
            .map(|(width, speed)| format!("{width}{speed}"));
        grid.row([
            port.node_name.clone(),
            port.port.to_string(),
            known(port.lid),
            known(port.state),
            rate.unwrap_or_else(dash),
            known(port.mtu_bytes),
            port.peer.as_ref().map_or_else(dash, |peer| peer.node_name.clone()),
            port.peer.as_ref().map_or_else(dash, |peer| peer.port.to_string()),
            port.reason_code
                .iter()
                .chain(&port.reason)
                .cloned()
                .collect::<Vec<_>>()
                .join(" "),
        ]);
    }
    grid
}

/// Events, one a row.
pub fn events(events: &Events) -> Grid {
    let mut grid = Grid::new(&["number", "time", "severity", "code", "event"]);
    for event in &events.events {
        grid.row([
            event.number.to_string(),
            utc_text(event.time_ms),
            event.severity.to_string(),
            event.code.clone(),
            event.text.clone(),
        ]);
    }
    grid
}

/// Findings, one a row.
pub fn findings(findings: &Findings) -> Grid {
    let mut grid = Grid::new(&["severity", "finding", "witness"]);
    for finding in &findings.findings {
        let accepted = if finding.accepted { " (accepted)" } else { "" };
        grid.row([
            format!("{}{accepted}", finding.severity),
            finding.text.clone(),
            finding.witness.clone(),
        ]);
    }
    grid
}

/// Why ports are not ACTIVE.
pub fn reasons(reasons: &[ReasonCount]) -> Grid {
    let mut grid = Grid::new(&["ports", "code", "not active because", "where"]);
    for reason in reasons {
        let more = reason.ports.saturating_sub(reason.examples.len() as u64);
        let mut places = reason.examples.join(", ");
        if more > 0 {
            places.push_str(&format!(" and {} more", thousands(more)));
        }
        grid.row([
            thousands(reason.ports),
            reason.code.clone(),
            reason.reason.clone(),
            places,
        ]);
    }
    grid
}

/// The judge's figures.
pub fn figures(figures: &Figures) -> Grid {
    let mut grid = Grid::new(&["figure", "value"]);
    let mut row = |name: &str, value: String| grid.row([name.to_owned(), value]);
    row("switches", thousands(figures.switches));
    row("host ports", thousands(figures.host_ports));
    row("LIDs", thousands(figures.lids));
    row("parts", thousands(figures.parts));
    let (reached, pairs) = (thousands(figures.host_pairs_reached), thousands(figures.host_pairs));
    row("host pairs that reach each other", format!("{reached} of {pairs}"));
    row(
        "links between switches, mean and most",
        format!("{:.3}, {}", figures.hops_mean, figures.hops_max),
    );
    let load = figures.load;
    row(
        "host pairs per directed link, mean and most",
        format!("{:.1}, {}", load.mean, load.max),
    );
    row("standard deviation of that", format!("{:.2}", load.sd));
    for lane in &figures.lanes {
        let (channels, dependencies) = (thousands(lane.channels), thousands(lane.dependencies));
        row(
            &format!("lane {}", lane.vl),
            format!("{channels} channels, {dependencies} dependencies"),
        );
    }
    grid
}

/// Says how many hosts do not reach each other; empty if all do.
pub fn apart(figures: &Figures) -> String {
    let (reached, pairs) = (figures.host_pairs_reached, figures.host_pairs);
    if reached == pairs {
        return String::new();
    }
    format!(
        "; {} of {} host pairs reach each other, in {}",
        thousands(reached),
        thousands(pairs),
        count(figures.parts, "part")
    )
}

/// What `route` knows beside the judge's figures.
pub fn routing(measured: &Measured) -> Grid {
    let mut grid = Grid::new(&["figure", "value"]);
    let mut row = |name: &str, value: String| grid.row([name.to_owned(), value]);
    let quality = measured.quality();
    let word = if quality.deadlock_free { "yes" } else { "no" };
    row("free of deadlocks", word.to_owned());
    if let Some(found) = &measured.contention {
        let (shift, bisection, stretch) = (found.shift, found.bisection, found.stretch);
        row(
            "host pairs per cable, mean and most",
            format!("{:.1}, {}", found.cables.mean, thousands(found.cables.max)),
        );
        let all = if shift.tried == shift.shifts {
            format!("all {}", thousands(shift.shifts))
        } else {
            format!("{} of {}", thousands(shift.tried), thousands(shift.shifts))
        };
        row(
            &format!("most flows on a link in {all} shifts, mean and most"),
            format!("{:.2}, {}", shift.mean, thousands(shift.max)),
        );
        row(
            &format!(
                "effective bisection bandwidth, {} pairings",
                thousands(bisection.pairings)
            ),
            format!(
                "{:.4}, 95 % in {:.4} to {:.4}",
                bisection.mean, bisection.low, bisection.high
            ),
        );
        row(
            "links over fewest links, mean and most",
            format!("{:.3}, {:.2}", stretch.mean, stretch.max),
        );
    }
    row("engine", measured.routed.engine.0.clone());
    let cost = &measured.cost;
    let times = match cost.repeats {
        0 => "first run".to_owned(),
        runs => format!("median of {runs}"),
    };
    row(&format!("time to route, {times}"), format!("{:.3} ms", cost.compute_ms));
    if let Some(detect) = cost.detect_ms {
        row("time to detect the tree", format!("{detect:.3} ms"));
    }
    row(
        "time of the first run, with everything",
        format!("{:.3} ms", cost.cold_ms),
    );
    row("time to judge", format!("{:.3} ms", cost.verify_ms));
    row("threads", cost.threads.to_string());
    if let Some(bytes) = cost.peak_rss_bytes {
        row("highest memory", format!("{:.1} MB", bytes as f64 / 1e6));
    }
    grid
}

fn under_way(status: &Status, row: &mut impl FnMut(&str, String)) {
    if let Some(application) = &status.application {
        application_rows(application, row);
    }
    let rebalance = status.rebalance.as_ref();
    if let Some(words) = rebalance.and_then(|r| rebalance_words(r, status.uptime_ms)) {
        row("rebalance", words);
    }
}

/// The step that a change is at, what is sent of it, and what it waits for.
fn application_rows(application: &Application, row: &mut impl FnMut(&str, String)) {
    let steps = application.steps.len();
    let at = usize::try_from(application.step).unwrap_or(1).saturating_sub(1);
    let what = application.steps.get(at).map_or("", |step| step.what.as_str());
    row(
        "change",
        format!(
            "step {} of {steps}: {what}; {} of {} SMPs answered",
            application.step,
            thousands(application.sets_done),
            thousands(application.sets)
        ),
    );
    if let Some(wait) = &application.wait {
        let [left, all] = [wait.left_ms as f64 / 1e3, wait.wait_ns as f64 / 1e9];
        row("waits", format!("{left:.1} s more of {all:.1} s: {}", wait.why));
    }
}

/// What is done about load that is spread unevenly; `None` if there is nothing to say.
fn rebalance_words(rebalance: &RebalanceStatus, uptime_ms: u64) -> Option<String> {
    let due = rebalance.due_ms.map(|at| at.saturating_sub(uptime_ms) / 1000);
    let state = match (rebalance.state.as_str(), due, rebalance.steps) {
        ("even", ..) | ("waiting", None, 0) => return None,
        ("waiting", Some(s), 0) => format!("looks in {s} s whether load should be spread anew"),
        ("waiting", Some(s), steps) => format!("next step in {s} s, {steps} taken"),
        (state, _, steps) => format!("{state}, {}", count(steps, "step")),
    };
    let load = rebalance.load_max.map(|[began, now, end]| {
        format!(
            "; {} left; host pairs on the busiest link: {began} at first, {now} now, {end} in the end",
            count(rebalance.blocks_left, "LFT block")
        )
    });
    Some(state + &load.unwrap_or_default())
}

/// How a manager is doing.
pub fn status(status: &Status) -> Grid {
    let mut grid = Grid::new(&["what", "value"]);
    let mut row = |name: &str, value: String| grid.row([name.to_owned(), value]);
    row(
        "state",
        if status.up {
            "up".to_owned()
        } else {
            "not up".to_owned()
        },
    );
    let master = status
        .master
        .map_or_else(String::new, |guid| format!(" (master: {guid})"));
    row("role", format!("{}{master}", status.role));
    let progress = match status.progress {
        progress if progress.total > 0 => format!(" {} of {}", progress.done, progress.total),
        _ => String::new(),
    };
    row("stage", format!("{}{progress}", status.stage));
    under_way(status, &mut row);
    row(
        "port",
        format!("{} (port GUID {})", status.port, status.local.port_guid),
    );
    if let Some(fabric) = &status.fabric {
        row("switches", thousands(fabric.switches));
        row("hosts", thousands(fabric.hosts));
        row(
            "links ACTIVE",
            format!("{} of {}", thousands(fabric.links_active), thousands(fabric.links)),
        );
    }
    if let Some(plan) = &status.plan {
        let entries = thousands(plan.lft_entries);
        row(
            "plan",
            format!(
                "{} by {}: {} LIDs, {entries} entries",
                plan.generation,
                plan.engine,
                thousands(plan.lids)
            ),
        );
        let changes = &plan.changes;
        row(
            "last changes",
            format!("{} Sets, {} failed", thousands(changes.sets), thousands(changes.failed)),
        );
    }
    if let Some(ok) = status.judged_ok {
        row(
            "judged",
            if ok {
                "no errors".to_owned()
            } else {
                "not good: see 'selvedge status findings'".to_owned()
            },
        );
    }
    if status.plan.is_some() {
        row("repairs", repairs(status).to_owned());
    }
    traffic(status, row);
    grid
}

/// How a lost link would be answered.
const fn repairs(status: &Status) -> &'static str {
    match status.repairs_ready {
        true => "in place, prepared",
        false => "by a sweep: nothing prepared",
    }
}

/// What it took so far.
fn traffic(status: &Status, mut row: impl FnMut(&str, String)) {
    row("sweeps", thousands(status.sweeps));
    let mads = &status.mads;
    let sent = format!(
        "{} Gets, {} Sets, {} repeated",
        thousands(mads.gets),
        thousands(mads.sets),
        thousands(mads.repeats)
    );
    row("MADs sent", sent);
    row(
        "MADs received",
        format!("{}, {} dropped", thousands(mads.received), thousands(mads.dropped)),
    );
    if let Some(of) = &status.administration {
        administration(of, &mut row);
    }
    if let Some(of) = &status.intake {
        intake(of, &mut row);
    }
    for failing in &status.not_stored {
        let lasts_s = status.uptime_ms.saturating_sub(failing.since_ms) / 1_000;
        let text = format!(
            "for {lasts_s} s, {} attempts failed: {}",
            thousands(failing.failures.into()),
            failing.error
        );
        row(&format!("{} not stored", failing.what), text);
    }
    row(
        "up time",
        format!("{}.{:03} s", status.uptime_ms / 1_000, status.uptime_ms % 1_000),
    );
}

/// Sources that send the manager more than it handles.
fn intake(of: &Intake, row: &mut impl FnMut(&str, String)) {
    if of.held > 0 {
        row("above the limit", format!("{} traps and commands", thousands(of.held)));
    }
    for babbler in &of.babbling {
        let port = babbler.port.as_deref().unwrap_or("unknown port");
        let text = format!(
            "LID {} ({port}): {} of {}",
            babbler.lid,
            thousands(babbler.came),
            babbler.what
        );
        row("babbles", text);
    }
}

/// What hosts asked of the subnet administrator.
fn administration(of: &Administration, row: &mut impl FnMut(&str, String)) {
    row(
        "questions of hosts",
        format!(
            "{} answered, {} refused ({} wrong keys), {} BUSY",
            thousands(of.answered),
            thousands(of.refused),
            thousands(of.bad_key),
            thousands(of.busy)
        ),
    );
    if let Some(lid) = of.most_limited {
        let text = format!("{} questions, most of them from LID {lid}", thousands(of.limited));
        row("above the limit", text);
    }
    row(
        "registered",
        format!(
            "{} services, {} subscriptions, {} members of {} multicast groups, {} alias GUIDs",
            thousands(of.services),
            thousands(of.subscriptions),
            thousands(of.members),
            thousands(of.groups),
            thousands(of.aliases)
        ),
    );
}
