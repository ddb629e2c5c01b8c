//! Converts the manager's view into the answers of front ends.

use std::collections::BTreeMap;
use std::sync::Arc;

use selvedge_api::{self as api, Changes, ReasonCount, RebalanceRequest, count_reasons};
use selvedge_config::{Finding, Treatment};
use selvedge_fabric::{Fabric, PortRef};
use selvedge_health::{Facts, How};
use selvedge_plan::Phase;
use selvedge_planner::rebalance::{Difference, Preview};
use selvedge_sim::Time;
use selvedge_sm::{Balancing, Role, StageName, View};
use selvedge_types::NodeKind;
use selvedge_verify::{Load, Severity, Verdict};

use crate::names::Names;

/// Returns a finding of a configuration check as the API writes it, without the values of secret keys.
#[must_use]
pub fn config_line(finding: &Finding) -> api::OpenSmLine {
    api::OpenSmLine {
        line: finding.line as u64,
        option: finding.name.clone(),
        value: finding.value.clone(),
        treatment: finding.treatment.name().to_owned(),
        key: finding.key.map(str::to_owned),
        why: finding.why.clone(),
        error: finding.error.clone(),
    }
}

/// Returns the answer of a running manager to a check or reload. It contains no values, because the file may hold keys.
pub(crate) fn check(verdict: &selvedge_config::Verdict) -> api::Check {
    let is_simple = |found: &&Finding| {
        let simple = [
            Treatment::Default,
            Treatment::Honoured,
            Treatment::Mapped,
            Treatment::Moot,
        ];
        !simple.contains(&found.treatment)
    };
    let lines = verdict.findings.iter().filter(is_simple).map(|found| api::OpenSmLine {
        value: String::new(),
        ..config_line(found)
    });
    api::Check {
        ok: verdict.is_ok(),
        findings: lines.collect(),
    }
}

pub(crate) fn role(role: Role) -> api::Role {
    match role {
        Role::Discovering => api::Role::Discovering,
        Role::Standby => api::Role::Standby,
        Role::Master => api::Role::Master,
        Role::NotActive => api::Role::NotActive,
    }
}

pub(crate) fn stage(stage: StageName) -> api::Stage {
    match stage {
        StageName::Idle => api::Stage::Idle,
        StageName::Discovering => api::Stage::Discovering,
        StageName::ReadingTables => api::Stage::ReadingTables,
        StageName::Planning => api::Stage::Planning,
        StageName::Persisting => api::Stage::Persisting,
        StageName::Applying => api::Stage::Applying,
        StageName::LightSweep => api::Stage::LightSweep,
        StageName::Probing => api::Stage::Probing,
    }
}

/// Returns node and port of the master, if it is another manager and its port was found.
pub(crate) fn master_name(view: &View, names: &Names) -> Option<String> {
    let (fabric, guid) = (view.seen.as_ref().or(view.fabric.as_ref())?, view.master?);
    let at = fabric.find_port(guid)?;
    Some(names.apply_text(&fabric.port_name(at)))
}

pub(crate) fn mads(view: &View) -> api::MadCounts {
    let mads = &view.mads;
    api::MadCounts {
        gets: mads.gets,
        sets: mads.sets,
        others: mads.others,
        repeats: mads.repeats,
        failures: mads.failures,
        received: mads.received,
        dropped: mads.dropped + mads.late,
        late: mads.late,
    }
}

pub(crate) fn changes(view: &View) -> Changes {
    Changes::of(view.changes, view.acknowledged, view.failed)
}

/// Returns the change that is being applied. A view that is slightly old may show a wait that has just ended.
pub(crate) fn application(view: &View, now: Time) -> Option<api::Application> {
    let (outcome, at) = view.applying.as_ref()?;
    let phases = &outcome.changes.value().phases;
    let step = |phase: &Phase| api::ApplicationStep {
        what: phase.label.to_owned(),
        sets: phase.ops.len() as u64,
        wait_before_ns: phase.wait_before_ns,
    };
    Some(api::Application {
        step: (at + 1).min(phases.len()) as u64,
        steps: phases.iter().map(step).collect(),
        sets_done: view.progress.done,
        sets: view.progress.total,
        wait: view.wait.map(|wait| api::ApplicationWait {
            why: "packets that old entries have sent on must be gone".to_owned(),
            wait_ns: wait.wait_ns,
            left_ms: wait.until.since(now).as_millis() as u64,
            until_ms: wait.until.0 / 1_000_000,
        }),
    })
}

/// Returns the state of rebalancing.
pub(crate) fn rebalance(view: &View) -> Option<api::RebalanceStatus> {
    let balance = &view.balance;
    let (state, due) = match balance.state {
        Balancing::Even => ("even", None),
        Balancing::Waiting { until } => ("waiting", until),
        Balancing::Planning => ("planning", None),
        Balancing::Applying => ("applying", None),
    };
    Some(api::RebalanceStatus {
        policy: view.policy.as_ref()?.rebalance.name().to_owned(),
        state: state.to_owned(),
        due_ms: due.map(|at| at.0 / 1_000_000),
        steps: balance.steps.into(),
        blocks_left: balance.blocks_left as u64,
        load_max: balance.load_max.map(|(began, now, end)| [began, now, end]),
    })
}

/// Returns the effect of rebalancing load.
pub(crate) fn preview(preview: &Preview, engine: &str, request: RebalanceRequest) -> api::Rebalance {
    let load = |load: Load| api::LinkLoad {
        max: load.max,
        mean: load.mean,
        sd: load.sd,
    };
    let (change, after) = match &preview.change {
        Some((change, goal)) => (*change, goal.after),
        None => (Difference::default(), preview.load),
    };
    let steps = match request.at_once {
        true => usize::from(change.blocks > 0),
        false => change.blocks.div_ceil(preview.blocks.max(1)),
    };
    let needed = preview.change.is_some();
    api::Rebalance {
        engine: engine.to_owned(),
        needed,
        started: needed && !request.dry_run,
        at_once: request.at_once,
        entries: change.entries as u64,
        blocks: change.blocks as u64,
        pairs_moved: change.pairs,
        blocks_per_step: preview.blocks as u64,
        steps: steps as u64,
        load_before: load(preview.load),
        load_after: load(after),
    }
}

/// Returns the known nodes that are not found because an agent does not answer.
pub(crate) fn silent(facts: &Facts) -> api::SilentNodes {
    let mut silent = api::SilentNodes::default();
    let missed = facts.absent.nodes.iter();
    for absent in missed.filter(|absent| !absent.is_out_of_service(&facts.out_of_service)) {
        let is_switch = absent.node.kind == NodeKind::Switch;
        let count = match (&absent.how, is_switch) {
            (How::Silent(_), true) => &mut silent.switches,
            (How::Silent(_), false) => &mut silent.hosts,
            (How::Behind(_), true) => &mut silent.switches_behind,
            (How::Behind(_), false) => &mut silent.hosts_behind,
            (How::NoLink | How::Unknown, _) => continue,
        };
        *count += 1;
    }
    silent
}

/// Counts why ports are not ACTIVE, reason by reason.
pub(crate) fn reasons(fabric: Option<&Arc<Fabric>>, view: &View) -> Vec<ReasonCount> {
    let Some(fabric) = fabric else { return Vec::new() };
    let reports = view.ports.iter();
    count_reasons(reports.map(|r| (fabric.port_name(r.port), r.reason.code(), r.reason.to_string())))
}

/// Returns every port, or only those that are not ACTIVE, with the reasons.
pub(crate) fn ports(fabric: &Fabric, view: &View, all: bool) -> api::Ports {
    let reasons: BTreeMap<PortRef, _> = view.ports.iter().map(|report| (report.port, report.reason)).collect();
    api::ports(
        fabric,
        |at| all || reasons.contains_key(&at),
        |at| reasons.get(&at).map(|reason| (reason.code(), reason.to_string())),
    )
}

/// Returns the judge's findings.
#[must_use]
pub fn findings(verdict: &Verdict, names: &Names) -> api::Findings {
    let findings: Vec<api::Finding> = verdict
        .findings
        .iter()
        .map(|finding| api::Finding {
            code: finding.code.to_owned(),
            kind: finding.fault.kind().name().to_owned(),
            severity: severity(finding.severity),
            accepted: finding.accepted,
            text: names.apply_text(&finding.to_string()),
            witness: names.apply_text(&finding.witness.to_string()),
            detail: serde_json::to_value(finding).unwrap_or_default(),
        })
        .collect();
    api::Findings {
        ok: verdict.is_good(),
        errors: verdict.count(Severity::Error),
        warnings: verdict.count(Severity::Warning),
        infos: verdict.count(Severity::Info),
        figures: serde_json::to_value(&verdict.figures).unwrap_or_default(),
        refused: None,
        findings,
    }
}

const fn severity(severity: Severity) -> api::Severity {
    match severity {
        Severity::Info => api::Severity::Info,
        Severity::Warning => api::Severity::Warning,
        Severity::Error => api::Severity::Error,
    }
}
