//! Findings of the judge.

use serde::{Deserialize, Serialize};

use crate::{Body, Severity};

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// Stable code.
    pub code: String,
    /// Name of the kind, as `black-hole`.
    pub kind: String,
    /// Severity of the finding.
    pub severity: Severity,
    /// True for a finding that would make `ok` false, but that the operator accepted.
    pub accepted: bool,
    /// The finding as text.
    pub text: String,
    /// The path or cycle that proves the finding, as text; empty if `text` is enough.
    pub witness: String,
    /// Details for programs: the fault's own fields and the witness.
    pub detail: serde_json::Value,
}

/// All findings on the plan in force, or on the plan that was refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Findings {
    /// True if no finding is an error, and no host is isolated from others or out of the manager's reach.
    pub ok: bool,
    /// Errors.
    pub errors: u64,
    /// Warnings.
    pub warnings: u64,
    /// Number of notes.
    pub infos: u64,
    /// The judge's figures: reachability, hops, loads, lanes.
    pub figures: serde_json::Value,
    /// Present if the findings are about a plan that the judge refused: the time since which the manager has made no
    /// new plan, and the plan that is still in force.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub refused: Option<RefusedPlan>,
    /// The findings; of a kind with very many only the first are listed.
    pub findings: Vec<Finding>,
}

/// A plan that the judge refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedPlan {
    /// The time since which the manager has made no new plan, in milliseconds since 1970-01-01 UTC.
    pub since_ms: u64,
    /// The reason, and what is in force instead, in words.
    pub why: String,
}

impl Body for Findings {
    const SCHEMA: &'static str = "selvedge.findings";
}
