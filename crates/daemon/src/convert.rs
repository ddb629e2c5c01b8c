//! From the manager's view to what front ends show.

use std::collections::BTreeMap;
use std::sync::Arc;

use selvedge_api::{self as api, Changes, ReasonCount, count_reasons};
use selvedge_fabric::{Fabric, PortRef};
use selvedge_sm::{Role, StageName, View};
use selvedge_verify::{Severity, Verdict};

use crate::names::Names;

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

pub(crate) fn mads(view: &View) -> api::MadCounts {
    let mads = &view.mads;
    api::MadCounts {
        gets: mads.gets,
        sets: mads.sets,
        others: mads.others,
        repeats: mads.repeats,
        failures: mads.failures,
        received: mads.received,
        dropped: mads.dropped,
    }
}

pub(crate) fn changes(view: &View) -> Changes {
    Changes::of(view.changes, view.acknowledged, view.failed)
}

/// Why ports are not ACTIVE, summed up.
pub(crate) fn reasons(fabric: Option<&Arc<Fabric>>, view: &View) -> Vec<ReasonCount> {
    let Some(fabric) = fabric else { return Vec::new() };
    let reports = view.ports.iter();
    count_reasons(reports.map(|r| (fabric.port_name(r.port), r.reason.code(), r.reason.to_string())))
}

/// Every port, or only those that are not ACTIVE, with the reason of each that is not.
pub(crate) fn ports(fabric: &Fabric, view: &View, all: bool) -> api::Ports {
    let reasons: BTreeMap<PortRef, _> = view.ports.iter().map(|report| (report.port, report.reason)).collect();
    api::ports(
        fabric,
        |at| all || reasons.contains_key(&at),
        |at| reasons.get(&at).map(|reason| (reason.code(), reason.to_string())),
    )
}

/// What the judge said.
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
        ok: verdict.is_ok(),
        errors: verdict.count(Severity::Error),
        warnings: verdict.count(Severity::Warning),
        infos: verdict.count(Severity::Info),
        figures: serde_json::to_value(&verdict.figures).unwrap_or_default(),
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
