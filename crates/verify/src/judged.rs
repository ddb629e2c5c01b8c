//! [`Judged`] change sets: the only changes that may be sent.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use selvedge_fabric::{Fabric, PortRef};
use selvedge_plan::{ChangeSet, Installed, Plan};
use selvedge_sim::Par;

use crate::figures::Figures;
use crate::finding::Severity;
use crate::kind::Kind;
use crate::phases::{Measured, Passage, StandingTurns, passage};
use crate::subject::Subject;
use crate::verdict::{Docket, Verdict};
use crate::{out_of_service, transition};

/// Sources of the packets that are followed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Senders {
    /// Hosts and port 0 of every switch.
    #[default]
    All,
    /// Only packets of hosts, to all LIDs: enough for quality figures, and three times as fast. Traps and answers of
    /// switch agents are left out, so [`judge`] ignores this value.
    Hosts,
}

/// Options of the judge.
#[derive(Clone, Debug)]
pub struct JudgeOptions {
    /// Whether destinations may be followed on several threads. The verdict is the same. Default: sequential.
    pub par: Par,
    /// Largest number of findings that are listed of each kind and severity, at least 1. All findings are counted. Each
    /// listed finding costs a search for a witness. Default 100: more than an operator reads.
    pub findings_max: usize,
    /// Severity of losses and cycles that concern only traffic from switch to switch. Default: warning, because agents
    /// do not send such traffic. Use error if a manager runs on a switch and talks to other switches over data lanes.
    pub switch_pairs: Severity,
    /// Sources of the packets that [`crate::verify`] follows. Default: all end ports.
    pub senders: Senders,
    /// Kinds of findings that the operator accepts as warnings instead of errors. Danger: an accepted fault is sent.
    /// Default: none. Kinds for which [`Kind::is_acceptable`] is false stay errors.
    pub accept: BTreeSet<Kind>,
    /// Channel dependencies of the tables in force, if they are kept between calls. Most transitions are then proved
    /// from the dependencies that they add. They must match the tables in `installed`. Default: none, so every LID is
    /// followed.
    pub turns: Option<Arc<StandingTurns>>,
    /// Figures to measure for a transition that is proved. Default: all.
    pub measured: Measured,
    /// Ports of places that are out of service: no packet of a host may leave by one. Default: none.
    pub kept_off: Arc<BTreeSet<PortRef>>,
}

impl Default for JudgeOptions {
    fn default() -> Self {
        Self {
            par: Par::Sequential,
            findings_max: 100,
            switch_pairs: Severity::Warning,
            senders: Senders::All,
            accept: BTreeSet::new(),
            turns: None,
            measured: Measured::All,
            kept_off: Arc::default(),
        }
    }
}

impl JudgeOptions {
    /// Returns the number of findings to keep of each kind and severity.
    pub(crate) fn kept(&self) -> usize {
        self.findings_max.max(1)
    }
}

/// A value that the judge has passed. Only [`judge`] makes one:
///
/// ```
/// use selvedge_plan::{ChangeSet, EngineName, Generation, Installed, Lids, Plan, ServiceLevels, SlToVl, Tables};
/// use selvedge_types::Lid;
/// use selvedge_verify::{JudgeOptions, judge};
///
/// let plan = Plan {
///     generation: Generation::default(),
///     engine: EngineName("none".to_owned()),
///     lids: Lids::new(),
///     tables: Tables::new(0, Lid::NONE),
///     service_levels: ServiceLevels::default(),
///     sl_to_vl: SlToVl::default(),
///     lanes: 1,
///     lane_tables: None,
///     ports: Default::default(),
///     end_ports: Default::default(),
///     switches: Default::default(),
/// };
/// let (fabric, options) = (selvedge_fabric::Fabric::default(), JudgeOptions::default());
/// let judged = judge(&fabric, &Installed::unknown(0), &plan, ChangeSet::default(), &options)?;
/// assert!(judged.value().is_empty());
/// # Ok::<(), Box<selvedge_verify::Refusal>>(())
/// ```
///
/// Nothing else does:
///
/// ```compile_fail,E0451
/// let unjudged = selvedge_plan::ChangeSet::default();
/// let forged = selvedge_verify::Judged {
///     value: unjudged,
///     verdict: selvedge_verify::Verdict::default(),
///     passage: selvedge_verify::phases::Passage::Still,
/// };
/// ```
///
/// ```compile_fail,E0599
/// let unjudged = selvedge_plan::ChangeSet::default();
/// let forged = selvedge_verify::Judged::new(unjudged);
/// ```
///
/// ```compile_fail,E0277
/// let unjudged = selvedge_plan::ChangeSet::default();
/// let forged: selvedge_verify::Judged<_> = unjudged.into();
/// ```
#[derive(Clone, Debug)]
pub struct Judged<T> {
    value: T,
    verdict: Verdict,
    passage: Passage,
}

impl<T> Judged<T> {
    /// Returns the judged value.
    #[must_use]
    pub const fn value(&self) -> &T {
        &self.value
    }

    /// Returns the verdict: warnings and figures.
    #[must_use]
    pub const fn verdict(&self) -> &Verdict {
        &self.verdict
    }

    /// Returns the proof that the transition to the plan is safe, step by step.
    #[must_use]
    pub const fn passage(&self) -> &Passage {
        &self.passage
    }

    /// Returns the value without the evidence that it was judged.
    #[must_use]
    pub fn into_value(self) -> T {
        self.value
    }
}

/// The error of a judge that rejects a plan or change set.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal {
    /// The verdict with the errors.
    pub verdict: Verdict,
}

impl fmt::Display for Refusal {
    /// SLV-JUDGE-0200: the judge refuses a plan or change; the message has the number of errors and the first of them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let errors = self.verdict.count(Severity::Error);
        write!(f, "SLV-JUDGE-0200: the judge refuses the plan, errors: {errors}")?;
        match self.verdict.errors().next() {
            Some(first) => write!(f, "; the first: {first}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Refusal {}

/// Judges a plan, and the change set that leads to it from the tables and settings that the agents of `fabric` have.
///
/// `installed` is the known contents of the forwarding tables. A block that is not known to equal the plan must be
/// written.
///
/// # Errors
/// A refusal with the whole verdict, if there is any error.
pub fn judge(
    fabric: &Fabric,
    installed: &Installed,
    plan: &Plan,
    changes: ChangeSet,
    options: &JudgeOptions,
) -> Result<Judged<ChangeSet>, Box<Refusal>> {
    judge_made(fabric, installed, plan, || changes, options)
}

/// Does the same as [`judge`] for a change set that is computed in parallel with the judgement of the plan.
///
/// # Errors
/// A refusal with the whole verdict, if there is any error.
pub fn judge_made(
    fabric: &Fabric,
    installed: &Installed,
    plan: &Plan,
    changes: impl FnOnce() -> ChangeSet + Send,
    options: &JudgeOptions,
) -> Result<Judged<ChangeSet>, Box<Refusal>> {
    // The two parts are independent.
    let plan_alone = || {
        let mut docket = Docket::new(options);
        let figures = docket.try_subject(Subject::plan(fabric, plan), Senders::All);
        (docket, figures)
    };
    let way = || {
        let changes = changes();
        let mut findings = transition::findings(fabric, installed, plan, &changes);
        findings.extend(out_of_service::findings(fabric, plan, &changes, &options.kept_off));
        let passage = passage(fabric, installed, plan, &changes, None, options);
        (changes, findings, passage)
    };
    let ((mut docket, figures), (changes, findings, passage)) = options.par.join(plan_alone, way);
    findings.into_iter().for_each(|finding| docket.add(finding));
    sentence(docket, figures, changes, passage)
}

/// Accepts a change set with a proved transition, if the verdict has no error.
pub(crate) fn proved(verdict: Verdict, changes: ChangeSet, passage: Passage) -> Option<Judged<ChangeSet>> {
    verdict.is_ok().then_some(Judged {
        value: changes,
        verdict,
        passage,
    })
}

/// Accepts a value other than a change set of plans, if the verdict has no error.
pub(crate) fn passed<T>(value: T, verdict: Verdict) -> Result<Judged<T>, Box<Refusal>> {
    match verdict.is_ok() {
        true => Ok(Judged {
            value,
            verdict,
            passage: Passage::Still,
        }),
        false => Err(Box::new(Refusal { verdict })),
    }
}

/// Accepts a change set, if the verdict has no error.
pub(crate) fn sentence(
    mut docket: Docket<'_>,
    figures: Figures,
    changes: ChangeSet,
    passage: Passage,
) -> Result<Judged<ChangeSet>, Box<Refusal>> {
    passage.finding().into_iter().for_each(|finding| docket.add(finding));
    let verdict = docket.verdict(figures);
    if verdict.is_ok() {
        Ok(Judged {
            value: changes,
            verdict,
            passage,
        })
    } else {
        Err(Box::new(Refusal { verdict }))
    }
}
