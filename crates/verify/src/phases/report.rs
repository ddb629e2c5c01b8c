//! The report on a proposal: faults, figures, proof and refusal.

use std::fmt;

use selvedge_types::Lid;
use serde::Serialize;

use crate::finding::{Place, Severity, Sources, Step, Traffic};

/// The time at which packets used the entries of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Era {
    /// The LID is not part of the transition.
    Standing,
    /// The entry is in force before, in and after this step.
    InForce,
    /// The step replaces the entry.
    Old,
    /// The step writes the entry.
    New,
    /// An earlier step replaced the entry, or an entry that led to it, and no wait has let its packets drain since.
    Ghost,
}

/// One dependency of a mixed graph, and the time that it comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MixedStep {
    /// The packet, the lane that it occupies and the lane that it waits for.
    pub step: Step,
    /// When the packets used the entries that make this dependency.
    pub era: Era,
}

/// A fault of a proposal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum PhaseFault {
    /// SLV-JUDGE-0040: traffic can deadlock while a step is under way.
    MixedCycle {
        /// Class of traffic.
        traffic: Traffic,
        /// Number of dependencies in the cycle.
        length: u32,
        /// Number of these dependencies that a wait before the step would end.
        ghosts: u32,
    },
    /// SLV-JUDGE-0041: packets of a LID can loop while a step is under way.
    MixedLoop {
        /// Class of traffic.
        traffic: Traffic,
        /// The LID.
        lid: Lid,
        /// The port that the LID belongs to.
        owner: Place,
        /// The switches, each leading to the next and the last to the first.
        switches: Vec<Place>,
    },
    /// SLV-JUDGE-0042: a step writes an entry twice, in an unknown order.
    WrittenTwice {
        /// The switch.
        switch: Place,
        /// The LID.
        lid: Lid,
        /// The egress port of one of the two writes.
        one: u8,
        /// The egress port of the other write.
        other: u8,
    },
    /// SLV-JUDGE-0043: a step writes to a switch that does not exist.
    NoSuchSwitch {
        /// The number of the switch.
        switch: u32,
        /// The LID.
        lid: Lid,
    },
}

impl PhaseFault {
    /// Returns the code. A code never changes its meaning.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::MixedCycle { .. } => "SLV-JUDGE-0040",
            Self::MixedLoop { .. } => "SLV-JUDGE-0041",
            Self::WrittenTwice { .. } => "SLV-JUDGE-0042",
            Self::NoSuchSwitch { .. } => "SLV-JUDGE-0043",
        }
    }
}

/// A fault of a proposal with its witness.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PhaseFinding {
    /// The fault's code.
    pub code: &'static str,
    /// Severity of the finding.
    pub severity: Severity,
    /// The first step with the fault, from 1. 0: the tables in force have it already.
    pub step: u32,
    /// The fault.
    pub fault: PhaseFault,
    /// The dependencies of a cycle: each waits for the next, and the last for the first. Empty for other faults.
    pub witness: Vec<MixedStep>,
}

impl PhaseFinding {
    pub(super) const fn plain(severity: Severity, step: u32, fault: PhaseFault) -> Self {
        Self::proven(severity, step, fault, Vec::new())
    }

    pub(super) const fn proven(severity: Severity, step: u32, fault: PhaseFault, witness: Vec<MixedStep>) -> Self {
        Self {
            code: fault.code(),
            severity,
            step,
            fault,
            witness,
        }
    }
}

/// Figures of one step of a proposal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StepFigures {
    /// Number of the step, from 1.
    pub step: u32,
    /// Number of entries that the step changes.
    pub entries: u64,
    /// Dependencies that may exist in the step, all traffic.
    pub turns: u64,
    /// Turns that come only from packets in flight since earlier steps; they are part of `turns`.
    pub ghosts: u64,
    /// Pairs of a source and a LID with a path before and after the transition that may lose packets in this step. A
    /// better order of writes could avoid this.
    pub live_dropped: Sources,
    /// Pairs without a path before the transition and with a path after it, that may have none in this step.
    pub waiting: Sources,
    /// Some of `live_dropped`: a LID, and an affected switch.
    pub live_examples: Vec<Dropped>,
}

/// Sources of a switch that may lose packets to a LID.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Dropped {
    /// The LID.
    pub lid: Lid,
    /// The switch that the sources are attached to.
    pub switch: Place,
}

/// Figures of a transition.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TransitionFigures {
    /// LIDs that change an entry or a lane.
    pub lids: u64,
    /// Entries that change, counted once for each change.
    pub entries: u64,
    /// LFT blocks that are written in more than one step without a wait between. A late copy of the earlier Set would
    /// restore the earlier entries.
    pub blocks_rewritten: u64,
    /// Dependencies in the largest mixed graph, all traffic.
    pub turns_max: u64,
    /// Largest number of dependencies from packets in flight since earlier steps, in any step.
    pub ghosts_max: u64,
    /// Steps that come after a declared wait of sufficient length.
    pub waits: Vec<u32>,
    /// Waits of `waits` that may be left out, all together.
    pub waits_spare: Vec<u32>,
    /// Steps with a declared wait before them that is shorter than the drain bound. Such a wait counts as none.
    pub waits_short: Vec<u32>,
    /// Number of packet lifetimes that the longest declared wait must last. A packet may pass that many switches in a
    /// row before all its dependencies are dependencies of the entries in force.
    /// [`drain_bound_ns`](super::drain_bound_ns) turns this number into a time. 0 without a wait.
    pub lifetimes_max: u32,
    /// Pairs with a path before the transition and none after it.
    pub lost: Sources,
    /// Every step.
    pub steps: Vec<StepFigures>,
}

/// A transition that has been proved: in whatever order the Sets of a step arrive, no packet loops and there is no
/// cycle of dependencies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TransitionProof {
    /// Figures of the transition.
    pub figures: TransitionFigures,
    /// Cycles and loops that concern only traffic from switch to switch, unless the options make these errors.
    pub warnings: Vec<PhaseFinding>,
}

/// A transition that has been refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TransitionRefusal {
    /// The faults, errors first, by step; at least one.
    pub findings: Vec<PhaseFinding>,
}

impl TransitionRefusal {
    /// True if the only faults are cycles of the tables in force, or of the first `taken` steps, which have been done
    /// already. Then there is no fault from the first wait on, and before it no class of traffic has a cycle that it
    /// did not have already. A manager that takes over such tables may accept this. Before the first wait (in all
    /// steps, if there is no wait) the steps may still add to those cycles.
    #[must_use]
    pub fn is_inherited(&self, taken: usize) -> bool {
        let mut errors = self
            .findings
            .iter()
            .filter(|finding| finding.severity == Severity::Error);
        errors.all(|finding| finding.step as usize <= taken)
    }
}

impl fmt::Display for TransitionRefusal {
    /// SLV-JUDGE-0201: the judge refuses a transition; the message has the number of findings and the first of them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "SLV-JUDGE-0201: the judge refuses the transition, findings: {}",
            self.findings.len()
        )?;
        match self.findings.first() {
            Some(first) => write!(f, "; the first: {first}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for TransitionRefusal {}

impl fmt::Display for PhaseFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.code)?;
        match self.step {
            0 => f.write_str("before the first step, ")?,
            step => write!(f, "in step {step}, ")?,
        }
        write!(f, "{}", self.fault)
    }
}

impl fmt::Display for PhaseFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MixedCycle {
                traffic,
                length,
                ghosts,
            } => {
                write!(f, "{traffic} can deadlock: a cycle of {length} channel dependencies, ")?;
                match ghosts {
                    0 => f.write_str("none of them from earlier steps; split the step or drop packets first"),
                    _ => write!(
                        f,
                        "{ghosts} of them from earlier steps; let packets drain before this step"
                    ),
                }
            }
            Self::MixedLoop {
                lid, owner, switches, ..
            } => {
                write!(f, "packets to LID {lid} of {owner} can go round: ")?;
                for switch in switches {
                    write!(f, "{switch} > ")?;
                }
                match switches.first() {
                    Some(first) => write!(f, "{first}; write the switch nearest to the LID first"),
                    None => Ok(()),
                }
            }
            Self::WrittenTwice {
                switch,
                lid,
                one,
                other,
            } => write!(
                f,
                "the entry of LID {lid} at {switch} is written as {one} and as {other}; use two steps"
            ),
            Self::NoSuchSwitch { switch, lid } => {
                write!(
                    f,
                    "the entry of LID {lid} is to be written at switch number {switch}, which does not exist"
                )
            }
        }
    }
}

impl fmt::Display for Era {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Standing => "standing",
            Self::InForce => "in force",
            Self::Old => "old",
            Self::New => "new",
            Self::Ghost => "still draining",
        })
    }
}

impl fmt::Display for MixedStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.era, self.step)
    }
}
