//! Kinds of findings: stable codes and names.

use std::str::FromStr;

use serde::Serialize;

macro_rules! kinds {
    ($($(#[$doc:meta])+ $variant:ident, $code:literal, $name:literal;)+) => {
        /// Kind of fault that a finding is about.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
        #[serde(rename_all = "kebab-case")]
        #[non_exhaustive]
        pub enum Kind {
            $($(#[$doc])+ $variant,)+
        }

        impl Kind {
            /// All kinds, by code.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// Returns the code. A code never changes its meaning.
            #[must_use]
            pub const fn code(self) -> &'static str {
                match self {
                    $(Self::$variant => $code,)+
                }
            }

            /// Returns the name, as in `--accept <name>`.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }
        }
    };
}

kinds! {
    /// SLV-JUDGE-0001: a switch drops the packets of a LID: no entry, or an egress port without a trained link.
    BlackHole, "SLV-JUDGE-0001", "black-hole";
    /// SLV-JUDGE-0002: packets of a LID loop.
    Loop, "SLV-JUDGE-0002", "loop";
    /// SLV-JUDGE-0003: packets of a LID end at a port that does not own it.
    WrongDelivery, "SLV-JUDGE-0003", "wrong-delivery";
    /// SLV-JUDGE-0004: a switch's entry for its own LID is not port 0.
    OwnLid, "SLV-JUDGE-0004", "own-lid";
    /// SLV-JUDGE-0005: an SL2VL entry sends packets to VL15 or to a lane that the link does not have: they are
    /// dropped.
    LaneDrop, "SLV-JUDGE-0005", "lane-drop";
    /// SLV-JUDGE-0006: traffic sent by hosts can deadlock: its channel dependencies form a cycle.
    HostCycle, "SLV-JUDGE-0006", "host-cycle";
    /// SLV-JUDGE-0007: traffic of agents in switches to hosts can deadlock, alone or together with traffic of hosts.
    AgentCycle, "SLV-JUDGE-0007", "agent-cycle";
    /// SLV-JUDGE-0008: traffic from switch to switch can deadlock, alone or together with traffic of hosts and agents.
    SwitchCycle, "SLV-JUDGE-0008", "switch-cycle";
    /// SLV-JUDGE-0009: LinearFDBTop hides LIDs that are in use.
    LinearTopLow, "SLV-JUDGE-0009", "linear-top-low";
    /// SLV-JUDGE-0010: LIDs in use, or LinearFDBTop, exceed the entries a switch has.
    LinearCap, "SLV-JUDGE-0010", "linear-cap";
    /// SLV-JUDGE-0011: switches have entries for LIDs that no port owns.
    StrayEntries, "SLV-JUDGE-0011", "stray-entries";
    /// SLV-JUDGE-0012: the tables are for another number of switches than the fabric has; routes are not judged.
    TableShape, "SLV-JUDGE-0012", "table-shape";
    /// SLV-JUDGE-0013: an end port with a trained link has no LID.
    LidMissing, "SLV-JUDGE-0013", "lid-missing";
    /// SLV-JUDGE-0014: a LID belongs to a port that does not exist or cannot have one.
    LidOfNoPort, "SLV-JUDGE-0014", "lid-of-no-port";
    /// SLV-JUDGE-0015: the plan gives two ports the same LID.
    LidDuplicate, "SLV-JUDGE-0015", "lid-duplicate";
    /// SLV-JUDGE-0016: a port's settings carry other LIDs than the plan assigns.
    LidMismatch, "SLV-JUDGE-0016", "lid-mismatch";
    /// SLV-JUDGE-0017: the LIDs of a port are not unicast LIDs aligned to 2^LMC.
    LidRange, "SLV-JUDGE-0017", "lid-range";
    /// SLV-JUDGE-0018: the plan gives the two ends of a link different MTUs.
    MtuMismatch, "SLV-JUDGE-0018", "mtu-mismatch";
    /// SLV-JUDGE-0019: the plan gives the two ends of a link different numbers of lanes.
    LanesMismatch, "SLV-JUDGE-0019", "lanes-mismatch";
    /// SLV-JUDGE-0020: a setting is outside what the standard or the hardware allows.
    SettingRange, "SLV-JUDGE-0020", "setting-range";
    /// SLV-JUDGE-0021: the plan has no settings for a port or switch that is in use.
    Unplanned, "SLV-JUDGE-0021", "unplanned";
    /// SLV-JUDGE-0022: the plan names a port or switch that does not exist.
    NoSuchPlace, "SLV-JUDGE-0022", "no-such-place";
    /// SLV-JUDGE-0023: the fabric falls into parts that cannot reach each other.
    Separated, "SLV-JUDGE-0023", "separated";
    /// SLV-JUDGE-0024: a host has no trained link, or its link leads to no other node than itself.
    HostAlone, "SLV-JUDGE-0024", "host-alone";
    /// SLV-JUDGE-0025: nodes are beyond the 63 hops of a directed route, wherever the manager is.
    OutOfReach, "SLV-JUDGE-0025", "out-of-reach";
    /// SLV-JUDGE-0030: after the change set, some tables or settings would differ from the plan.
    ChangeMissing, "SLV-JUDGE-0030", "change-missing";
    /// SLV-JUDGE-0031: the change set writes something that is not in the plan.
    ChangeBeyond, "SLV-JUDGE-0031", "change-beyond";
    /// SLV-JUDGE-0032: a port becomes ACTIVE before, or together with, tables and settings that it depends on.
    EarlyActivation, "SLV-JUDGE-0032", "early-activation";
    /// SLV-JUDGE-0033: the change set requests a port state that the agent must refuse.
    IllegalState, "SLV-JUDGE-0033", "illegal-state";
    /// SLV-JUDGE-0034: the change set belongs to another plan.
    Generation, "SLV-JUDGE-0034", "generation";
    /// SLV-JUDGE-0035: while the change set is applied, traffic can deadlock or packets can loop.
    UnsafeWay, "SLV-JUDGE-0035", "unsafe-way";
    /// SLV-JUDGE-0036: the tables in force can deadlock or make packets loop before anything is changed; the change set
    /// ends this.
    InheritedCycle, "SLV-JUDGE-0036", "inherited-cycle";
    /// SLV-JUDGE-0037: a switch port would enforce partitions with other P_Keys than those of the host behind it, or
    /// without a host behind it.
    Enforcement, "SLV-JUDGE-0037", "enforcement";
    /// SLV-JUDGE-0038: a port would begin to enforce partitions before its P_Keys are written, while packets pass.
    EarlyEnforcement, "SLV-JUDGE-0038", "early-enforcement";
    /// SLV-JUDGE-0039: a service level is mapped to a lane that its link does not have, that its arbiter does not
    /// serve, or that is not part of the proof; or it is mapped too early.
    Lane, "SLV-JUDGE-0039", "lane";
    /// SLV-JUDGE-0048: packets of hosts cross a link that the operator has taken out of service.
    OutOfService, "SLV-JUDGE-0048", "out-of-service";
    /// SLV-JUDGE-0049: tables of a port do not give a class of traffic what the plan promises it: a lane, a turn, its
    /// share, its priority; or they mix layers of routing.
    Quality, "SLV-JUDGE-0049", "quality";
    /// SLV-JUDGE-0050: a member of a multicast group does not receive packets of other members, or they do not receive
    /// its packets.
    MulticastMissed, "SLV-JUDGE-0050", "multicast-missed";
    /// SLV-JUDGE-0051: packets of a multicast group loop, or are delivered twice.
    MulticastLoop, "SLV-JUDGE-0051", "multicast-loop";
    /// SLV-JUDGE-0052: a switch copies packets of a multicast group to a port that needs none.
    MulticastStray, "SLV-JUDGE-0052", "multicast-stray";
    /// SLV-JUDGE-0053: no tree reaches a member of a multicast group: its link is down, or the multicast table of its
    /// switch is full.
    MulticastUnreached, "SLV-JUDGE-0053", "multicast-unreached";
    /// SLV-JUDGE-0054: while multicast tables are written, packets of a group can loop.
    MulticastWay, "SLV-JUDGE-0054", "multicast-way";
    /// SLV-JUDGE-0055: the Sets of multicast tables leave out planned contents, or write others.
    MulticastChange, "SLV-JUDGE-0055", "multicast-change";
    /// SLV-JUDGE-0056: multicast copies can deadlock with each other or with unicast packets.
    MulticastCircle, "SLV-JUDGE-0056", "multicast-circle";
    /// SLV-JUDGE-0057: a member of a multicast group is left out, because every tree that includes it could deadlock.
    MulticastApart, "SLV-JUDGE-0057", "multicast-apart";
    /// SLV-JUDGE-0058: a Set of GUIDInfo does not write what is planned, or two ports would have the same GUID.
    AliasChange, "SLV-JUDGE-0058", "alias-change";
}

impl Kind {
    /// True if a warning of this kind means that a part of the fabric is isolated or beyond the manager's reach. A plan
    /// with such a warning may be sent, because it serves the other parts, but its verdict is not good.
    #[must_use]
    pub const fn is_of_the_whole(self) -> bool {
        matches!(self, Self::Separated | Self::HostAlone | Self::OutOfReach)
    }

    /// True if an operator may accept findings of this kind. Findings that a change set does not lead to the plan
    /// cannot be accepted, because such a change set has no use.
    #[must_use]
    pub const fn is_acceptable(self) -> bool {
        !matches!(
            self,
            Self::ChangeMissing
                | Self::ChangeBeyond
                | Self::EarlyActivation
                | Self::IllegalState
                | Self::Generation
                | Self::Lane
                | Self::Quality
                | Self::OutOfService
                | Self::TableShape
                | Self::MulticastLoop
                | Self::MulticastWay
                | Self::MulticastChange
                | Self::AliasChange
        )
    }
}

/// A name that cannot be accepted as a kind of finding.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UnknownKind {
    /// SLV-JUDGE-0100: no kind of finding has this name.
    #[error("SLV-JUDGE-0100: '{name}' is no kind of finding; known: {}", names())]
    Unknown {
        /// The name given.
        name: String,
    },
    /// SLV-JUDGE-0101: an operator cannot accept findings of this kind (`--accept`).
    #[error("SLV-JUDGE-0101: findings of kind '{name}' cannot be accepted; make a new plan")]
    NotAcceptable {
        /// The name given.
        name: String,
    },
}

fn names() -> String {
    let names: Vec<_> = Kind::ALL
        .iter()
        .filter(|k| k.is_acceptable())
        .map(|k| k.name())
        .collect();
    names.join(", ")
}

impl FromStr for Kind {
    type Err = UnknownKind;

    /// Parses the name of a kind that may be accepted.
    fn from_str(text: &str) -> Result<Self, UnknownKind> {
        match Self::ALL.iter().find(|k| k.name() == text) {
            Some(kind) if kind.is_acceptable() => Ok(*kind),
            Some(_) => Err(UnknownKind::NotAcceptable { name: text.to_owned() }),
            None => Err(UnknownKind::Unknown { name: text.to_owned() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_names_are_unique_and_ascending() {
        for pair in Kind::ALL.windows(2) {
            assert!(pair[0].code() < pair[1].code(), "{pair:?}");
            assert_ne!(pair[0].name(), pair[1].name());
        }
        for kind in Kind::ALL {
            let json = serde_json::to_string(kind).unwrap();
            assert_eq!(json, format!("\"{}\"", kind.name()));
        }
    }

    #[test]
    fn names_to_accept() {
        let check = |text: &str, want: &str| {
            let got = text
                .parse::<Kind>()
                .map_or_else(|e| e.to_string(), |k| k.code().to_owned());
            assert!(got.contains(want), "{text}: {got}");
        };
        check("host-cycle", "SLV-JUDGE-0006");
        check("change-beyond", "SLV-JUDGE-0101");
        check("nonsense", "known: black-hole, loop");
    }
}
