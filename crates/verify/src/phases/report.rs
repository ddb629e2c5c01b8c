//! What is said about a proposal.

use std::fmt;

use selvedge_types::Lid;
use serde::Serialize;

use crate::finding::{Place, Severity, Sources, Step, Traffic};

/// When packets met the entries of a turn.
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
    /// An earlier step replaced it, or what led there, and no wait has let its packets drain since.
    Ghost,
}

/// One dependency of a mixed graph, and when it comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MixedStep {
    /// Who holds what and waits for what.
    pub step: Step,
    /// When its packets met the entries.
    pub era: Era,
}

/// What is wrong with a proposal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum PhaseFault {
    /// SLV-JUDGE-0040: traffic can deadlock while a step is under way.
    MixedCycle {
        /// Whose traffic.
        traffic: Traffic,
        /// Dependencies of the cycle.
        length: u32,
        /// Those of them that a wait before the step would end.
        ghosts: u32,
    },
    /// SLV-JUDGE-0041: packets of a LID can go in circles while a step is under way.
    MixedLoop {
        /// Whose traffic.
        traffic: Traffic,
        /// The LID.
        lid: Lid,
        /// Who has it.
        owner: Place,
        /// The switches, each leading to the next and the last to the first.
        switches: Vec<Place>,
    },
    /// SLV-JUDGE-0042: a step writes an entry twice, in an order that nobody knows.
    WrittenTwice {
        /// The switch.
        switch: Place,
        /// The LID.
        lid: Lid,
        /// One entry.
        one: u8,
        /// The other.
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
    /// The code, which never changes its meaning.
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
    /// How bad it is.
    pub severity: Severity,
    /// The first step that has it, from 1; 0: the tables in force have it already.
    pub step: u32,
    /// What is wrong.
    pub fault: PhaseFault,
    /// The dependencies of a cycle, each waiting for the next and the last for the first; else empty.
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

/// One step of a proposal, measured.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StepFigures {
    /// Its number, from 1.
    pub step: u32,
    /// Entries it changes.
    pub entries: u64,
    /// Dependencies that may exist in it, all traffic.
    pub turns: u64,
    /// Those of them that only packets under way from earlier steps make.
    pub ghosts: u64,
    /// Pairs of a source and a LID that had a way before the transition and have one after it, but may lose packets in
    /// this step: they did not need to.
    pub live_dropped: Sources,
    /// Pairs that had no way before, have one after, and may still have none in this step.
    pub waiting: Sources,
    /// Some of `live_dropped`: a LID, and a switch whose sources are hit.
    pub live_examples: Vec<Dropped>,
}

/// Sources of a switch that may lose packets to a LID.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Dropped {
    /// The LID.
    pub lid: Lid,
    /// Where they send.
    pub switch: Place,
}

/// A transition, measured.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TransitionFigures {
    /// LIDs that change an entry or a lane.
    pub lids: u64,
    /// Entries that change, each as often as it does.
    pub entries: u64,
    /// Blocks of switches that are written in more than one step without a wait between: should a copy of the earlier
    /// Set be late, it brings the earlier entries back.
    pub blocks_rewritten: u64,
    /// Dependencies in the largest mixed graph, all traffic.
    pub turns_max: u64,
    /// Dependencies of packets under way from earlier steps, where they are most.
    pub ghosts_max: u64,
    /// Steps before which a long enough wait is declared.
    pub waits: Vec<u32>,
    /// Those of them that may be left out, all together.
    pub waits_spare: Vec<u32>,
    /// Steps before which a wait is declared that is shorter than the drain bound: it counts as none.
    pub waits_short: Vec<u32>,
    /// Lifetimes that the longest of the declared waits must last, as packets may be in so many switches one after the
    /// other before only dependencies are left that the entries then in force make: what the drain bound counts. 0
    /// without a wait.
    pub lifetimes_max: u32,
    /// Pairs that had a way before the transition and have none after it.
    pub lost: Sources,
    /// Every step.
    pub steps: Vec<StepFigures>,
}

/// A transition that has been proved: whatever the order in which the Sets of a step arrive, no packet goes in circles
/// and no cycle of dependencies exists.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TransitionProof {
    /// What was measured.
    pub figures: TransitionFigures,
    /// What concerns only traffic from switch to switch, unless the options say that this is an error.
    pub warnings: Vec<PhaseFinding>,
}

/// A transition that has been refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TransitionRefusal {
    /// Why, errors first, by step; at least one.
    pub findings: Vec<PhaseFinding>,
}

impl TransitionRefusal {
    /// True if all it says is that the tables in force, or the first `taken` steps, which have been done already, have
    /// cycles of their own: from the first wait on nothing is wrong, and before it no smaller traffic than already has
    /// a cycle. Whoever takes over from tables that can deadlock may accept that; what the steps before the first wait
    /// (without one: all) add to those cycles is not said.
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
    /// SLV-JUDGE-0201: how many findings, and the first of them.
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
