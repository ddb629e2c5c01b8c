//! Conditions: faults of a subnet or its manager, each with the facts that an operator needs to mend it.

use std::fmt;

use crate::{Place, Since};

/// The severity of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The subnet works, but a part of it does not: the verdict is at least degraded.
    Warning,
    /// The manager cannot do its work: the verdict is failed.
    Error,
}

/// The kind of a condition. Each kind has a stable code, a severity, and an event that clears it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum What {
    /// A known node is missing. A warning until it returns, or until `selvedge forget NAME` removes it.
    NodeMissing,
    /// A known link is missing, although both of its nodes are there. A warning until it returns, or until `selvedge
    /// forget` with one of its ends removes it.
    LinkMissing,
    /// A management agent does not answer, and its link is up. A warning until it answers.
    AgentSilent,
    /// The judge accepted no plan for the fabric. An error until a plan is accepted; a warning if an earlier plan stays
    /// in force.
    PlanRefused,
    /// Ports have another M_Key, so the manager cannot set them. Until they have the manager's M_Key, or none, an error
    /// if nothing is sent because another manager may have taken them; a warning if the other ports are managed.
    MKeyForeign,
    /// Ports got a Set of the configured M_Key and still have a former one. A warning until a sweep finds every port
    /// with the configured one.
    MKeyFormer,
    /// Agents refused Sets of the plan in force, or did not answer them. A warning until the next sweep's Sets are
    /// acknowledged.
    SetsFailed,
    /// By the plan in force some hosts do not reach each other, or directed routes do not reach all nodes. A warning
    /// until a plan connects all hosts.
    HostsApart,
    /// State cannot be stored. A warning until it is stored.
    NotStored,
    /// The manager's own port has no link, or its node does not answer; meanwhile no condition of the fabric is
    /// reported. An error until the port has a link.
    OwnPortDown,
    /// Another manager disabled this one by SMInfo. An error until the other manager sends the SMInfo control STANDBY,
    /// or this one is restarted.
    Disabled,
    /// A node or link of the expected topology is missing. A warning until it is found.
    ExpectedMissing,
    /// A node or link is not in the expected topology. A warning until it is gone.
    Additional,
    /// A link is slower than in the expected topology. A warning until it trains as expected.
    Slow,
    /// A link has fewer lanes than in the expected topology. A warning until it trains as expected.
    Narrow,
    /// A cable is plugged into another port than in the expected topology. A warning until it is plugged in as
    /// expected.
    WrongPort,
    /// The expected topology has no node of this fabric. A warning until the expected topology of this fabric is given.
    OtherTopology,
    /// The last change of policy was refused and rolled back. A warning until the next change is kept.
    ChangeRolledBack,
    /// The manager's own port does not show IsSM, as after a reset of its driver, so other managers do not find this
    /// one. A warning until the port shows IsSM: the manager sets it again.
    IsSmCleared,
    /// A manager that stood by is gone. A warning until it answers again, or until `selvedge forget NAME` removes its
    /// node.
    StandbyGone,
    /// Another manager is master of this subnet too. An error until one of the two gives way, or is stopped.
    SecondMaster,
    /// Another manager shows another SM_Key, so the two ignore each other. A warning (an error if it is master) until
    /// it shows this manager's SM_Key, or is stopped.
    OtherSmKey,
    /// The file of the expected topology can no longer be read. A warning until it has a topology again.
    ExpectedUnread,
    /// A port counts errors faster than its threshold. A warning until it counts fewer, or until the alarm is
    /// acknowledged.
    PortErrors,
    /// A link goes down again and again. A warning until it stays up, or until the alarm is acknowledged.
    LinkFlaps,
    /// A link has more bit errors than the standard allows. A warning until it has fewer, or until the alarm is
    /// acknowledged.
    BitErrors,
    /// Counters or events are not stored. A warning until they are stored again; a folder that was refused is opened at
    /// the next start.
    HistoryStopped,
}

impl What {
    /// All kinds.
    pub const ALL: [Self; 27] = [
        Self::NodeMissing,
        Self::LinkMissing,
        Self::AgentSilent,
        Self::PlanRefused,
        Self::MKeyForeign,
        Self::MKeyFormer,
        Self::SetsFailed,
        Self::HostsApart,
        Self::NotStored,
        Self::OwnPortDown,
        Self::Disabled,
        Self::ExpectedMissing,
        Self::Additional,
        Self::Slow,
        Self::Narrow,
        Self::WrongPort,
        Self::OtherTopology,
        Self::ChangeRolledBack,
        Self::IsSmCleared,
        Self::StandbyGone,
        Self::SecondMaster,
        Self::OtherSmKey,
        Self::ExpectedUnread,
        Self::PortErrors,
        Self::LinkFlaps,
        Self::BitErrors,
        Self::HistoryStopped,
    ];

    /// Returns the stable code of this kind.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::NodeMissing => "SLV-HEALTH-0001",
            Self::LinkMissing => "SLV-HEALTH-0002",
            Self::AgentSilent => "SLV-HEALTH-0003",
            Self::PlanRefused => "SLV-HEALTH-0004",
            Self::MKeyForeign => "SLV-HEALTH-0005",
            Self::MKeyFormer => "SLV-HEALTH-0030",
            Self::SetsFailed => "SLV-HEALTH-0006",
            Self::HostsApart => "SLV-HEALTH-0007",
            Self::NotStored => "SLV-HEALTH-0008",
            Self::OwnPortDown => "SLV-HEALTH-0009",
            Self::Disabled => "SLV-HEALTH-0010",
            Self::ExpectedMissing => "SLV-HEALTH-0011",
            Self::Additional => "SLV-HEALTH-0012",
            Self::Slow => "SLV-HEALTH-0013",
            Self::Narrow => "SLV-HEALTH-0014",
            Self::WrongPort => "SLV-HEALTH-0015",
            Self::OtherTopology => "SLV-HEALTH-0016",
            Self::ChangeRolledBack => "SLV-HEALTH-0017",
            Self::IsSmCleared => "SLV-HEALTH-0020",
            Self::StandbyGone => "SLV-HEALTH-0021",
            Self::SecondMaster => "SLV-HEALTH-0022",
            Self::OtherSmKey => "SLV-HEALTH-0023",
            Self::ExpectedUnread => "SLV-HEALTH-0024",
            Self::PortErrors => "SLV-HEALTH-0025",
            Self::LinkFlaps => "SLV-HEALTH-0026",
            Self::BitErrors => "SLV-HEALTH-0027",
            Self::HistoryStopped => "SLV-HEALTH-0028",
        }
    }

    /// Returns the name of the kind in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::NodeMissing => "node_missing",
            Self::LinkMissing => "link_missing",
            Self::AgentSilent => "agent_silent",
            Self::PlanRefused => "plan_refused",
            Self::MKeyForeign => "m_key_foreign",
            Self::MKeyFormer => "m_key_former",
            Self::SetsFailed => "sets_failed",
            Self::HostsApart => "hosts_apart",
            Self::NotStored => "not_stored",
            Self::OwnPortDown => "own_port_down",
            Self::Disabled => "disabled",
            Self::ExpectedMissing => "expected_missing",
            Self::Additional => "additional",
            Self::Slow => "slow",
            Self::Narrow => "narrow",
            Self::WrongPort => "wrong_port",
            Self::OtherTopology => "other_topology",
            Self::ChangeRolledBack => "change_rolled_back",
            Self::IsSmCleared => "is_sm_cleared",
            Self::StandbyGone => "standby_gone",
            Self::SecondMaster => "second_master",
            Self::OtherSmKey => "other_sm_key",
            Self::ExpectedUnread => "expected_unread",
            Self::PortErrors => "port_errors",
            Self::LinkFlaps => "link_flaps",
            Self::BitErrors => "bit_errors",
            Self::HistoryStopped => "history_stopped",
        }
    }

    /// Returns, in words, the event that clears a condition of this kind.
    #[must_use]
    pub const fn clears(self) -> &'static str {
        match self {
            Self::NodeMissing => "the node returns, or 'selvedge forget NAME'",
            Self::LinkMissing => "the link returns, or 'selvedge forget NAME' with one of its ends",
            Self::AgentSilent => "the agent answers; restart the node's firmware if it does not",
            Self::PlanRefused => "a plan is accepted; 'selvedge status findings' lists what the judge found",
            Self::MKeyForeign => "the ports have the manager's M_Key, or none",
            Self::MKeyFormer => "a sweep finds every port with the configured M_Key; reset nodes that keep another one",
            Self::SetsFailed => "the next sweep's Sets are acknowledged",
            Self::HostsApart => "a plan connects all hosts; 'selvedge status findings' names those that are apart",
            Self::NotStored => "the state is stored; the manager tries again every few seconds",
            Self::OwnPortDown => "the port has a link: plug the cable in, load the driver, or choose another port",
            Self::ExpectedMissing => "it is found, or the expected topology is corrected",
            Self::Additional => "it is gone, or the expected topology is corrected",
            Self::Slow => "the link trains at the expected speed: reseat or replace the cable",
            Self::Narrow => "the link trains at the expected width: reseat or replace the cable",
            Self::WrongPort => "the cable is plugged in as expected, or the expected topology is corrected",
            Self::OtherTopology => "the expected topology of this fabric is given",
            Self::ChangeRolledBack => "the next change that is kept: correct the configuration, then 'selvedge reload'",
            Self::Disabled => "the other manager sends the SMInfo control STANDBY, or this one is restarted",
            Self::IsSmCleared => "the port shows IsSM; the manager sets it again with each sweep that finds it cleared",
            Self::StandbyGone => "the manager answers again, or 'selvedge forget NAME' with its node",
            Self::SecondMaster => "one of the two managers gives way or is stopped; check their priorities",
            Self::OtherSmKey => "it shows this manager's SM_Key (keys.sm_key in both), or is stopped",
            Self::ExpectedUnread => "the file is a topology again; 'selvedge topology approve' writes one",
            Self::PortErrors => "it counts less than half of its threshold, or the alarm is acknowledged",
            Self::LinkFlaps => "it stays up: reseat or replace the cable; or the alarm is acknowledged",
            Self::BitErrors => "its bit errors are within the limit: replace the cable; or the alarm is acknowledged",
            Self::HistoryStopped => {
                "counters and events are stored again; a refused folder is opened at the next start"
            }
        }
    }
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::NodeMissing | Self::LinkMissing => "missing",
            Self::AgentSilent => "agent does not answer",
            Self::PlanRefused => "no plan accepted",
            Self::MKeyForeign => "foreign M_Key",
            Self::MKeyFormer => "former M_Key",
            Self::SetsFailed => "Sets failed",
            Self::HostsApart => "hosts are apart",
            Self::NotStored => "state is not stored",
            Self::OwnPortDown => "own port is down",
            Self::Disabled => "disabled by another manager",
            Self::ExpectedMissing => "expected and missing",
            Self::Additional => "not expected",
            Self::Slow => "slow",
            Self::Narrow => "narrow",
            Self::WrongPort => "in the wrong port",
            Self::OtherTopology => "expected topology is of another fabric",
            Self::ChangeRolledBack => "last change rolled back",
            Self::IsSmCleared => "IsSM is cleared at its port",
            Self::StandbyGone => "gone (it stood by)",
            Self::SecondMaster => "master too",
            Self::OtherSmKey => "with another SM_Key",
            Self::ExpectedUnread => "expected topology cannot be read",
            Self::PortErrors => "with errors",
            Self::LinkFlaps => "flapping",
            Self::BitErrors => "with bit errors",
            Self::HistoryStopped => "history is not stored",
        })
    }
}

/// A fault of the subnet or its manager.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// Kind of the condition.
    pub what: What,
    /// Place of the condition; a link is given by both ends.
    pub place: Place,
    /// When the condition began.
    pub since: Since,
    /// The evidence, in words.
    pub evidence: String,
    /// Severity of the condition.
    pub severity: Severity,
}

impl Condition {
    /// Returns, in words, the event that clears the condition.
    #[must_use]
    pub const fn clears(&self) -> &'static str {
        self.what.clears()
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.what)?;
        match self.evidence.as_str() {
            "" => Ok(()),
            evidence => write!(f, "; {evidence}"),
        }
    }
}
