//! Exemptions: what a checker lets pass, each with a name and a reason, and counted.

use std::collections::BTreeMap;
use std::fmt;

/// Why something that a checker found is not held against a manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Rule {
    /// A bit of a MAD was flipped on its way and no check sum saw it: real links discard such a packet.
    CorruptMedium,
    /// A Set arrived after a later one to the same place: the medium kept or doubled it. Or one that a manager had sent
    /// before it was killed arrived after its next life had read the tables, which sets by what it read.
    LateSet,
    /// Two managers set one subnet while neither knew of the other, or one did before the other's next sweep.
    SeveralMasters,
    /// Links or nodes changed after the manager had looked: its Sets were right for what it saw.
    Overtaken,
    /// A table was taken by another switch than it was meant for, as a cable had been moved and no trap about that had
    /// come, and none been repeated yet: packets go by what neither switch was to have.
    Unheard,
    /// A switch acknowledged a block that it did not take, and no light sweep could have found out yet.
    LyingAgent,
    /// Two nodes show one GUID: the fabric cannot say which of them is meant.
    ClonedGuid,
    /// The operator asked for other LIDs (another LMC), with which a port may be unable to keep its base LID; or did
    /// while the port was away, and another one that kept its base LID got those of the port as well.
    OtherLids,
    /// A port got another LID because two held the same: of fabrics that were joined, say, or because one got it from
    /// a manager that had never seen the other, which was off; then the one that came back without it has no claim on
    /// a port that holds it.
    LidConflict,
    /// A Set that another rule excuses, as it went astray over a cable that was being moved, had given the port a LID
    /// that its manager had never stored for it, and now it gets its own back.
    PutRight,
    /// The route was to become another one: between its old and its new entries packets may be dropped.
    AnotherRoute,
    /// A switch that the manager cannot see forwards by old entries: its agent hangs, or two show its GUID.
    Unseen,
    /// A link through which no answer has come since the manager started, as what it asked through it was lost, or
    /// whether it is up: it carries packets by old entries.
    UnseenLink,
    /// Nobody who can be reached holds the LID: no packet is meant for it.
    LidOfNobody,
    /// Neither what the manager stored nor the fabric told it which LID the port once had.
    NeverKnown,
    /// Packets were under way by what another manager, or an earlier life of this one, had set a moment before.
    Predecessor,
    /// A flipped bit gave a port an M_Key that nobody can read: it may be set again when the lease of the key runs out.
    Locked,
    /// A link that went down too often within a short time is left out until an operator asks for a sweep.
    LeftOut,
}

impl Rule {
    /// Its name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::CorruptMedium => "corrupt medium",
            Self::LateSet => "late Set",
            Self::SeveralMasters => "several masters",
            Self::Overtaken => "overtaken by events",
            Self::Unheard => "unheard move",
            Self::LyingAgent => "lying agent",
            Self::ClonedGuid => "cloned GUID",
            Self::OtherLids => "other LIDs wanted",
            Self::LidConflict => "LID conflict",
            Self::PutRight => "LID put right",
            Self::AnotherRoute => "another route",
            Self::Unseen => "unseen switch",
            Self::UnseenLink => "unseen link",
            Self::LidOfNobody => "LID of nobody",
            Self::NeverKnown => "LID never known",
            Self::Predecessor => "predecessor's packets",
            Self::Locked => "locked by a corrupt Set",
            Self::LeftOut => "link left out",
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What a checker looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Checker {
    /// No packet goes in circles.
    Loops,
    /// No circle of channels that wait for each other.
    Cycles,
    /// No circle of channels with packets that an entry sent on which has changed since.
    Ghosts,
    /// No Set takes a route away.
    Routes,
    /// No Set moves a route that nothing touched.
    Untouched,
    /// A port keeps its LID.
    Lids,
    /// No port gets a LID that is not stored.
    Stored,
    /// No trap is ignored.
    Traps,
    /// No LID belongs to two ports.
    LidsUnique,
    /// No port goes ACTIVE before its switch has its tables.
    Activation,
    /// Every Set is one that a judge has passed.
    Judged,
    /// No more requests on the wire than the window allows.
    Window,
    /// A switch that does not hold what it acknowledged is read back.
    ReadBack,
    /// Everything is well some time after the last fault.
    Convergence,
}

impl Checker {
    /// Its name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Loops => "no loop",
            Self::Cycles => "no cycle",
            Self::Ghosts => "drained first",
            Self::Routes => "no route lost",
            Self::Untouched => "untouched routes stay",
            Self::Lids => "LIDs stay",
            Self::Stored => "LIDs stored first",
            Self::Traps => "traps repressed",
            Self::LidsUnique => "LIDs unique",
            Self::Activation => "tables before ACTIVE",
            Self::Judged => "nothing unjudged",
            Self::Window => "window kept",
            Self::ReadBack => "read back",
            Self::Convergence => "convergence",
        }
    }
}

impl fmt::Display for Checker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How often each rule excused what a checker found.
pub type Exemptions = BTreeMap<(Checker, Rule), u64>;
