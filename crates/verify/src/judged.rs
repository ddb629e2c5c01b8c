//! The one thing that may be sent: a change set that the judge has passed.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use selvedge_fabric::Fabric;
use selvedge_plan::{ChangeSet, Installed, Plan};
use selvedge_sim::Par;

use crate::figures::Figures;
use crate::finding::Severity;
use crate::kind::Kind;
use crate::phases::{Measured, Passage, StandingTurns, passage};
use crate::subject::Subject;
use crate::transition;
use crate::verdict::{Docket, Verdict};

/// Whose packets are followed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Senders {
    /// Hosts and port 0 of every switch.
    #[default]
    All,
    /// Hosts alone, to all LIDs: for figures of quality, in a third of the time. Says nothing of traps and answers
    /// that agents in switches send, so [`judge`] does not take it.
    Hosts,
}

/// How to judge.
#[derive(Clone, Debug)]
pub struct JudgeOptions {
    /// Whether destinations may be followed on several threads. The verdict is the same. Default: sequential.
    pub par: Par,
    /// Findings listed of each kind and severity, at least 1; all are counted. Each listed one costs a search for a
    /// witness. Default 100: more than anybody reads.
    pub findings_max: usize,
    /// Severity of losses and cycles that concern only traffic from switch to switch. Default: warning, since no
    /// agent sends such traffic; use error if a manager sits on a switch and talks to others over data lanes.
    pub switch_pairs: Severity,
    /// Whose packets [`crate::verify`] follows. Default: everybody's.
    pub senders: Senders,
    /// Kinds whose errors the operator accepts: they stay in the verdict, as warnings. Danger: what is accepted is
    /// sent. Default: none. Kinds for which [`Kind::is_acceptable`] is false stay errors.
    pub accept: BTreeSet<Kind>,
    /// The dependencies of the tables in force, if somebody keeps them: then most ways to a plan are proved by what
    /// they add. Must be those of what `installed` says. Default: none, every LID is followed.
    pub turns: Option<Arc<StandingTurns>>,
    /// What is measured of a way to a plan that is proved. Default: everything.
    pub measured: Measured,
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
        }
    }
}

impl JudgeOptions {
    /// Findings to keep of each kind and severity.
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
    /// What was judged.
    #[must_use]
    pub const fn value(&self) -> &T {
        &self.value
    }

    /// What the judge said: warnings and figures.
    #[must_use]
    pub const fn verdict(&self) -> &Verdict {
        &self.verdict
    }

    /// What was found of the way to the plan: how it is safe, step by step.
    #[must_use]
    pub const fn passage(&self) -> &Passage {
        &self.passage
    }

    /// Gives the value away; it is then no longer known to be judged.
    #[must_use]
    pub fn into_value(self) -> T {
        self.value
    }
}

/// The judge's no.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal {
    /// Why.
    pub verdict: Verdict,
}

impl fmt::Display for Refusal {
    /// SLV-JUDGE-0200: how many errors, and the first of them.
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

/// Judges a plan and the change set that shall lead to it from what the agents of `fabric` hold.
///
/// `installed` is what is known of the forwarding tables: a block that is not known to equal the plan must be
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

/// The same for a change set that is made meanwhile: the plan is judged beside.
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
    // The two parts know nothing of each other.
    let plan_alone = || {
        let mut docket = Docket::new(options);
        let figures = docket.try_subject(Subject::plan(fabric, plan), Senders::All);
        (docket, figures)
    };
    let way = || {
        let changes = changes();
        let findings = transition::findings(fabric, installed, plan, &changes);
        let passage = passage(fabric, installed, plan, &changes, None, options);
        (changes, findings, passage)
    };
    let ((mut docket, figures), (changes, findings, passage)) = options.par.join(plan_alone, way);
    findings.into_iter().for_each(|finding| docket.add(finding));
    sentence(docket, figures, changes, passage)
}

/// Lets a change set pass whose way was proved, if the verdict has no error.
pub(crate) fn proved(verdict: Verdict, changes: ChangeSet, passage: Passage) -> Option<Judged<ChangeSet>> {
    verdict.is_ok().then_some(Judged {
        value: changes,
        verdict,
        passage,
    })
}

/// Lets something else than a change set of plans pass if the verdict has no error.
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

/// Lets a change set pass if the verdict has no error.
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
