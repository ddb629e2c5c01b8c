//! Exemptions: violations that a checker lets pass, each by a rule with a name and a reason, and counted.

use std::collections::BTreeMap;
use std::fmt;

/// The reasons for which a violation is excused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Rule {
    /// A bit of a MAD was flipped in flight without a CRC error: real links discard such a packet.
    CorruptMedium,
    /// A Set arrived after a later Set of the same node, attribute and modifier, because the medium delayed or
    /// duplicated it. Or a manager was killed after it had sent a Set. Its next process read the tables before that Set
    /// arrived, and plans from the tables that it read.
    LateSet,
    /// Two managers sent Sets to one subnet while neither knew of the other, or one of them did before the other's next
    /// sweep.
    SeveralMasters,
    /// Links or nodes changed after the manager's sweep or probe. The manager's Sets were right for the fabric that the
    /// sweep or probe had found.
    Overtaken,
    /// A wrong switch stored a block, because a cable had been moved and no trap about it had arrived or been repeated
    /// yet. Packets then use entries that were planned for neither switch.
    Unheard,
    /// A switch acknowledged a block that it did not store, and no light sweep has read the block back yet.
    LyingAgent,
    /// Two nodes show one GUID, so no manager can distinguish them.
    ClonedGuid,
    /// The operator asked for other LIDs (another LMC), with which a port may be unable to keep its base LID. Or the
    /// port was away when the operator did so, and another port that kept its base LID got the LIDs of the absent port
    /// as well.
    OtherLids,
    /// A port got another LID because two ports held the same LID. Either their fabrics were joined, or one port got
    /// the LID from a manager that had never seen the other port, which was off. In the second case, if a port comes
    /// back without the LID, it does not get the LID again as long as another port holds it.
    LidConflict,
    /// An earlier Set, excused by another rule because a cable was being moved, gave the port a LID that its manager
    /// had never stored for it. Now the port gets its own LID back.
    PutRight,
    /// The plan changes the route: between its old and its new entries packets may be dropped.
    AnotherRoute,
    /// A switch that the manager cannot see forwards by old entries: its agent hangs, or another node shows its GUID.
    Unseen,
    /// A link carries packets by old entries, but the manager has not seen the link since it started: MADs over the
    /// link, or the PortInfo that shows that it is up, were lost.
    UnseenLink,
    /// No port that can be reached holds the LID: no packet is meant for it.
    LidOfNobody,
    /// The manager could read the port's former LID neither from its stored state nor from the fabric.
    NeverKnown,
    /// Packets were in flight by entries that another manager, or an earlier process of this one, had set a moment
    /// before.
    Predecessor,
    /// A flipped bit gave a port an M_Key that no manager knows. The port can be set again when the lease of the key
    /// runs out.
    Locked,
    /// Ports hold a former M_Key, and the manager was never given it: it was first started after the key had changed,
    /// and the manager that knows the former key is cut off, stands by or does not run.
    KeyNeverGiven,
    /// A link that went down too often within a short time is left out until an operator asks for a sweep.
    LeftOut,
}

impl Rule {
    /// Returns the name of the rule in reports.
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
            Self::LidOfNobody => "LID that no port holds",
            Self::NeverKnown => "LID never known",
            Self::Predecessor => "predecessor's packets",
            Self::Locked => "locked by a corrupt Set",
            Self::KeyNeverGiven => "M_Key never given",
            Self::LeftOut => "link left out",
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The checkers, by the property that each checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Checker {
    /// No packet loops.
    Loops,
    /// Channels do not wait for each other in a cycle.
    Cycles,
    /// No channels wait for each other in a cycle that includes packets forwarded by a former entry.
    Ghosts,
    /// No Set takes a route away.
    Routes,
    /// No Set changes a route on which every entry was as planned.
    Untouched,
    /// A port keeps its LIDs.
    Lids,
    /// No port gets a LID that is not stored.
    Stored,
    /// Every trap is repressed.
    Traps,
    /// No LID belongs to two ports.
    LidsUnique,
    /// No port becomes ACTIVE before its switch has its tables.
    Activation,
    /// A judge has accepted every Set.
    Judged,
    /// No more requests on the wire than the window allows.
    Window,
    /// If a switch does not hold the contents that it acknowledged, they are read back.
    ReadBack,
    /// A bounded time after the last fault all subnets are configured as planned.
    Convergence,
}

impl Checker {
    /// Returns the name of the checker in reports.
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

/// Number of violations of each checker that each rule excused.
pub type Exemptions = BTreeMap<(Checker, Rule), u64>;
