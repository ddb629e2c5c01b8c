//! Responses as tables.

use selvedge_api::{
    Administration, Application, Events, Findings, Intake, Links, MadCounts, Nodes, NotStored, Ports, Progress,
    ReasonCount, RebalanceStatus, Status,
};
use selvedge_daemon::utc_text;
use selvedge_study::measure::Answer;
use selvedge_types::NodeKind;
use selvedge_verify::{Contention, Figures};

use crate::out::{Cell, Facts, Grid, count, thousands};
use crate::report;

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

fn under_way(status: &Status, facts: &mut Facts) {
    if let Some(application) = &status.application {
        application_rows(application, facts);
    }
    let rebalance = status.rebalance.as_ref();
    if let Some((of, words)) = rebalance.and_then(|r| Some((r, rebalance_words(r, status.uptime_ms)?))) {
        facts.several(
            "rebalance",
            words,
            [
                ("rebalance", (&of.state).into()),
                ("rebalance_steps", of.steps.into()),
                ("rebalance_blocks_left", of.blocks_left.into()),
            ],
        );
    }
}

/// The current step of a change, the Sets sent, and what the change waits for.
fn application_rows(application: &Application, facts: &mut Facts) {
    let steps = application.steps.len();
    let at = usize::try_from(application.step).unwrap_or(1).saturating_sub(1);
    let what = application.steps.get(at).map_or("", |step| step.what.as_str());
    facts.several(
        "change",
        format!(
            "step {} of {steps}: {what}; {} of {} Sets answered",
            application.step,
            thousands(application.sets_done),
            thousands(application.sets)
        ),
        [
            ("change_step", Cell::id(application.step)),
            ("change_steps", steps.into()),
            ("change_sets_answered", application.sets_done.into()),
            ("change_sets", application.sets.into()),
        ],
    );
    if let Some(wait) = &application.wait {
        let [left, all] = [wait.left_ms as f64 / 1e3, wait.wait_ns as f64 / 1e9];
        facts.several(
            "waits",
            format!("{left:.1} s more of {all:.1} s: {}", wait.why),
            [
                ("wait_left_ms", wait.left_ms.into()),
                ("wait_ns", wait.wait_ns.into()),
                ("wait_why", wait.why.to_string().into()),
            ],
        );
    }
}

/// The state of rebalancing, as text; `None` if there is nothing to report.
fn rebalance_words(rebalance: &RebalanceStatus, uptime_ms: u64) -> Option<String> {
    let due = rebalance.due_ms.map(|at| at.saturating_sub(uptime_ms) / 1000);
    let state = match (rebalance.state.as_str(), due, rebalance.steps) {
        ("even", ..) | ("waiting", None, 0) => return None,
        ("waiting", Some(s), 0) => format!("checks in {s} s whether load should be rebalanced"),
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

/// Returns the state of a manager.
pub fn status(status: &Status) -> Facts {
    let mut facts = Facts::new();
    crate::health::verdict(&status.health, &mut facts);
    let master = status
        .master
        .map_or_else(String::new, |guid| match &status.master_name {
            Some(name) => format!(" (master: {name}, port GUID {guid})"),
            None => format!(" (master: port GUID {guid})"),
        });
    facts.several(
        "role",
        format!("{}{master}", status.role),
        [
            ("role", status.role.to_string().into()),
            ("master_port_guid", status.master.map(|guid| guid.to_string()).into()),
        ],
    );
    let Progress { done, total, .. } = status.progress;
    let progress = match total {
        0 => String::new(),
        _ => format!(" {done} of {total}"),
    };
    facts.several(
        "stage",
        format!("{}{progress}", status.stage),
        [
            ("stage", status.stage.to_string().into()),
            ("progress_done", done.into()),
            ("progress_total", total.into()),
        ],
    );
    under_way(status, &mut facts);
    facts.several(
        "port",
        format!("{} (port GUID {})", status.port, status.local.port_guid),
        [
            ("port", (&status.port).into()),
            ("port_guid", status.local.port_guid.to_string().into()),
        ],
    );
    planned(status, &mut facts);
    traffic(status, &mut facts);
    facts
}

/// Adds nodes of a kind: those that are found, those that do not answer, and those that are behind such a node.
fn found(facts: &mut Facts, kind: &str, found: u64, (silent, behind): (u64, u64)) {
    let text = thousands(found) + &report::missed(silent, behind);
    let (key, key_behind) = (format!("{kind}_silent"), format!("{kind}_behind_silent"));
    let values = [
        (kind, found.into()),
        (&*key, silent.into()),
        (&*key_behind, behind.into()),
    ];
    facts.several(kind, text, values);
}

/// Adds the fabric, its plan, and the judge's verdict.
fn planned(status: &Status, facts: &mut Facts) {
    if let Some(fabric) = &status.fabric {
        let silent = &status.silent;
        found(
            facts,
            "switches",
            fabric.switches,
            (silent.switches, silent.switches_behind),
        );
        found(facts, "hosts", fabric.hosts, (silent.hosts, silent.hosts_behind));
        let (active, links) = (fabric.links_active, fabric.links);
        facts.several(
            "links ACTIVE",
            format!("{} of {}", thousands(active), thousands(links)),
            [("links_active", active.into()), ("links", links.into())],
        );
    }
    if let Some(plan) = &status.plan {
        facts.several(
            "plan",
            format!(
                "{} by {}: {} LIDs, {} entries",
                plan.generation,
                plan.engine,
                thousands(plan.lids),
                thousands(plan.lft_entries)
            ),
            [
                ("generation", Cell::id(plan.generation)),
                ("engine", (&plan.engine).into()),
                ("lids", plan.lids.into()),
                ("lft_entries", plan.lft_entries.into()),
            ],
        );
        let changes = &plan.changes;
        facts.several(
            "last changes",
            format!("{} Sets, {} failed", thousands(changes.sets), thousands(changes.failed)),
            [("sets", changes.sets.into()), ("sets_failed", changes.failed.into())],
        );
    }
    if let Some(ok) = status.judged_ok {
        let words = match ok {
            true => "no errors",
            false => "not good: see 'selvedge status findings'",
        };
        facts.several("judged", words.to_owned(), [("judged_ok", ok.into())]);
    }
    if status.plan.is_some() {
        let words = repairs(status).to_owned();
        facts.several("repairs", words, [("repairs_ready", status.repairs_ready.into())]);
    }
}

/// Returns how a lost link would be handled.
const fn repairs(status: &Status) -> &'static str {
    match status.repairs_ready {
        true => "in place, prepared",
        false => "by a sweep: nothing prepared",
    }
}

/// MADs received, and why some were not used.
fn received(mads: &MadCounts) -> String {
    let received = thousands(mads.received);
    let other = mads.dropped.saturating_sub(mads.late);
    let late = (mads.late > 0).then(|| format!("{} answers to requests that had ended", thousands(mads.late)));
    let other = (other > 0).then(|| format!("{} not for this manager now", thousands(other)));
    let why: Vec<String> = late.into_iter().chain(other).collect();
    match why.is_empty() {
        true => received,
        false => format!("{received}; not used: {}", why.join(", ")),
    }
}

/// Adds the manager's MADs so far.
fn traffic(status: &Status, facts: &mut Facts) {
    let (begun, ended) = (status.sweeps_begun, status.sweeps);
    let words = match begun.saturating_sub(ended) {
        0 => format!("{begun}"),
        _ => format!("{begun} begun, {ended} of them came to an end"),
    };
    facts.several(
        "sweeps",
        words,
        [("sweeps", ended.into()), ("sweeps_begun", begun.into())],
    );
    let mads = &status.mads;
    facts.several(
        "MADs sent",
        format!(
            "{} Gets, {} Sets, {} repeated",
            thousands(mads.gets),
            thousands(mads.sets),
            thousands(mads.repeats)
        ),
        [
            ("mads_gets", mads.gets.into()),
            ("mads_sets", mads.sets.into()),
            ("mads_repeats", mads.repeats.into()),
        ],
    );
    facts.several(
        "MADs received",
        received(mads),
        [
            ("mads_received", mads.received.into()),
            ("mads_dropped", mads.dropped.into()),
            ("mads_late", mads.late.into()),
        ],
    );
    if let Some(of) = &status.administration {
        administration(of, facts);
    }
    if let Some(of) = &status.intake {
        intake(of, facts);
    }
    for failing in &status.not_stored {
        not_stored(failing, status.uptime_ms, facts);
    }
    facts.several(
        "up time",
        format!("{}.{:03} s", status.uptime_ms / 1_000, status.uptime_ms % 1_000),
        [("uptime_ms", status.uptime_ms.into())],
    );
}

/// Adds the sources that exceed the manager's limits.
fn intake(of: &Intake, facts: &mut Facts) {
    if of.held > 0 {
        let words = format!("{} traps and commands", thousands(of.held));
        facts.several("above the limit", words, [("intake_held", of.held.into())]);
    }
    for babbler in &of.babbling {
        let port = babbler.port.as_deref().unwrap_or("unknown port");
        let text = format!(
            "LID {} ({port}): {} of {}",
            babbler.lid,
            thousands(babbler.came),
            babbler.what
        );
        let key = format!("babbles_lid_{}_{}", babbler.lid, babbler.what);
        facts.several("babbles", text, [(&key, babbler.came.into())]);
    }
}

/// Adds data that must survive a restart and cannot be stored at present.
fn not_stored(failing: &NotStored, uptime_ms: u64, facts: &mut Facts) {
    let (what, lasts_ms) = (&failing.what, uptime_ms.saturating_sub(failing.since_ms));
    let text = format!(
        "for {} s, {} attempts failed: {}",
        lasts_ms / 1_000,
        thousands(failing.failures.into()),
        failing.error
    );
    facts.several(
        &format!("{what} not stored"),
        text,
        [
            (&format!("{what}_not_stored_ms"), lasts_ms.into()),
            (&format!("{what}_not_stored_failures"), failing.failures.into()),
            (&format!("{what}_not_stored_error"), (&failing.error).into()),
        ],
    );
}

/// Counts of requests of hosts to the subnet administrator.
fn administration(of: &Administration, facts: &mut Facts) {
    facts.several(
        "questions of hosts",
        format!(
            "{} answered, {} refused ({} wrong keys), {} BUSY",
            thousands(of.answered),
            thousands(of.refused),
            thousands(of.bad_key),
            thousands(of.busy)
        ),
        [
            ("sa_answered", of.answered.into()),
            ("sa_refused", of.refused.into()),
            ("sa_bad_key", of.bad_key.into()),
            ("sa_busy", of.busy.into()),
        ],
    );
    if let Some(lid) = of.most_limited {
        facts.several(
            "above the limit",
            format!("{} questions, most of them from LID {lid}", thousands(of.limited)),
            [
                ("sa_limited", of.limited.into()),
                ("sa_most_limited_lid", lid.to_string().into()),
            ],
        );
    }
    facts.several(
        "registered",
        format!(
            "{} services, {} subscriptions, {} members of {} multicast groups, {} alias GUIDs",
            thousands(of.services),
            thousands(of.subscriptions),
            thousands(of.members),
            thousands(of.groups),
            thousands(of.aliases)
        ),
        [
            ("sa_services", of.services.into()),
            ("sa_subscriptions", of.subscriptions.into()),
            ("sa_members", of.members.into()),
            ("sa_groups", of.groups.into()),
            ("sa_aliases", of.aliases.into()),
        ],
    );
}
