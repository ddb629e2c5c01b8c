//! The status of a manager as a table.

use selvedge_api::{Administration, Application, Intake, MadCounts, NotStored, Progress, RebalanceStatus, Status};

use crate::out::{Cell, Facts, count, thousands};
use crate::report;

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

/// Adds the current step of a change, the number of Sets sent, and what the change waits for.
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

/// Returns the state of rebalancing, as text; `None` if there is nothing to report.
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

/// Returns the number of MADs received, and why some were not used, as text.
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
