//! Events for operators; each kind has a stable code.

mod manager;
mod reason;
mod words;

use std::fmt;
use std::time::Duration;

use selvedge_planner::{PlanEvent, Severity};
use selvedge_routing::Difference;
use selvedge_types::Guid;
use selvedge_wire::SmControl;

use crate::aliases::AliasEvent;
use crate::apply::Wait;
use crate::change::ChangeEvent;
use crate::intake::IntakeEvent;
use crate::key_ring::KeyEvent;
use crate::listed::Absent;
use crate::multicast::MulticastEvent;
pub use manager::ManagerName;
pub use reason::SweepReason;

/// Something that happened. The code in [`Event::code`] is stable; `docs/reference/codes.md` has cause and advice.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// Discovery began.
    SweepStarted {
        /// The reason for the sweep.
        reason: SweepReason,
    },
    /// Discovery ended.
    Discovered {
        /// Switches.
        switches: usize,
        /// Number of hosts and other end nodes.
        hosts: usize,
        /// Cables.
        links: usize,
    },
    /// The fabric has changed since the last sweep.
    FabricChanged {
        /// The first difference.
        change: String,
    },
    /// Every agent has acknowledged the judged plan.
    SubnetUp {
        /// Sets sent.
        sets: usize,
    },
    /// The plan was sent, but some Sets failed.
    SubnetUpWithErrors {
        /// Number of Sets that failed.
        failed: usize,
    },
    /// A Set failed.
    SetFailed {
        /// The Set: attribute and port.
        what: String,
        /// Status of the answer; none if no answer came.
        why: String,
    },
    /// An agent does not answer.
    Silent {
        /// Directed route to the agent.
        what: String,
    },
    /// A datagram was dropped because it cannot be decoded.
    BadDatagram {
        /// The reason.
        why: String,
    },
    /// Two nodes have the same GUID.
    DuplicateGuid {
        /// The GUID.
        guid: Guid,
        /// The two places.
        what: String,
    },
    /// An M_Key forbids Sets.
    MKeyRefused {
        /// The ports.
        what: String,
    },
    /// A trap arrived.
    Trap {
        /// Text of the trap, in one line.
        what: String,
    },
    /// This manager's role changed.
    Role {
        /// The new role.
        role: crate::Role,
        /// The manager that caused the change, if any.
        other: Option<ManagerName>,
    },
    /// The next phase waits until packets in flight are gone.
    Draining {
        /// The wait.
        wait: Wait,
    },
    /// A wait ends early because a sweep is due. The new plan takes the packets in flight into account.
    WaitEnded {
        /// The wait.
        wait: Wait,
    },
    /// The Set of a table was not acknowledged, so later steps were left out.
    StepsLeftOut {
        /// Sets not sent.
        sets: usize,
    },
    /// The local port is not usable.
    LocalPortDown {
        /// The reason: the state of the port, or the missing answer.
        what: String,
    },
    /// No port that was found has a stored LID: unless only a few ports were found, the state belongs to another fabric
    /// and is not used.
    ForeignState {
        /// Ports with a stored LID.
        stored: usize,
        /// Ports found.
        found: usize,
        /// True if too few ports were found to decide: the state is used.
        are_few: bool,
    },
    /// A link went down and is planned around, without a sweep.
    LinkLost {
        /// Both ends of the link.
        what: String,
    },
    /// A link went down too often.
    LinkLeftOut {
        /// Both ends of the link.
        what: String,
        /// How often the link went down.
        downs: usize,
        /// Length of the window in seconds.
        window_s: u32,
        /// The link is left out until this number of seconds has passed since it last went down.
        hold_s: u32,
    },
    /// A switch is gone: none of its links is left.
    SwitchLost {
        /// Name of the switch.
        what: String,
    },
    /// A repair for lost or returned links was planned, and the judge accepted it.
    Repaired {
        /// Links that were lost.
        lost: usize,
        /// Number of links that came back.
        returned: usize,
        /// LFT blocks that change.
        blocks: usize,
        /// The time that planning took; with a virtual clock, the modelled time of planning and judging.
        took: Duration,
        /// Time of the judgement; 0 on a virtual clock.
        judged: Duration,
        /// True if the repair had been planned and judged before the link was lost.
        was_known: bool,
    },
    /// A switch does not hold a table block that it acknowledged: it is written again.
    ReadBackDiffers {
        /// Name of the switch.
        what: String,
        /// The block.
        block: u16,
        /// Entries that differ.
        entries: usize,
        /// The LID of the first entry that differs.
        lid: usize,
        /// The port that this manager had written there.
        wrote: u8,
        /// The port that was read.
        read: u8,
    },
    /// A port does not hold a lane table that its agent acknowledged: the table is written again.
    LanesDiffer {
        /// Name of the port.
        what: String,
        /// Name of the table.
        table: &'static str,
    },
    /// A switch repeatedly acknowledges table blocks that it does not hold: packets take other routes than planned.
    SwitchLies {
        /// Name of the switch.
        what: String,
        /// Number of light sweeps in a row with that finding.
        times: u32,
    },
    /// A step of rebalancing begins.
    RebalanceStep {
        /// Number of the step, from 1.
        step: u32,
        /// The change.
        changed: Difference,
        /// Host pairs on the busiest link before and after the step.
        load: (u64, u64),
        /// LFT blocks that later steps have to write.
        left: usize,
    },
    /// Load is balanced at least as well as in a new plan of the engine.
    Rebalanced {
        /// Number of steps taken.
        steps: u32,
        /// Host pairs on the busiest link.
        load: u64,
    },
    /// Load could be balanced better, but no step is safe.
    RebalanceHeld {
        /// The reason.
        why: String,
    },
    /// A sweep or a repair interrupts the steps of rebalancing.
    RebalanceInterrupted {
        /// Steps taken.
        steps: u32,
    },
    /// Links lead beyond the longest directed route: nodes behind them are not managed.
    BeyondReach {
        /// Ports at which such a link was found.
        ports: usize,
        /// Name of the first of these ports.
        what: String,
    },
    /// An event about a plan.
    Plan(PlanEvent),
    /// A list names GUIDs that are not in the fabric.
    ListedAbsent(Absent),
    /// An event about multicast trees.
    Multicast(MulticastEvent),
    /// An event about alias GUIDs.
    Aliases(AliasEvent),
    /// An event about a change of policy.
    Change(ChangeEvent),
    /// An event about sources that send too much.
    Intake(IntakeEvent),
    /// An event about the change of the M_Key.
    Keys(KeyEvent),
    /// A link came back and is set up, without a sweep.
    LinkReturned {
        /// Both ends of the link.
        what: String,
    },
    /// A better manager (higher priority, then lower GUID) was found: it is offered the subnet.
    HandingOver {
        /// The better manager.
        to: ManagerName,
    },
    /// A better manager did not accept HANDOVER: this manager stays master.
    HandoverRefused {
        /// The manager that did not accept.
        by: ManagerName,
    },
    /// Another manager sent an SMInfo command, and this manager obeys it.
    Told {
        /// The command.
        control: SmControl,
        /// The manager that sent the command.
        by: ManagerName,
    },
    /// The master did not answer a poll of this standby; after enough missed polls this manager sweeps.
    PollMissed {
        /// The master.
        master: ManagerName,
        /// Polls in a row without an answer.
        missed: u32,
        /// Number of missed polls after which this manager sweeps.
        of: u32,
    },
    /// Another manager shows another SM_Key: it is ignored.
    StrangeManager {
        /// The manager with the other SM_Key.
        manager: ManagerName,
    },
}

impl Event {
    /// Returns the stable code of this event.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::SweepStarted { .. } => "SLV-SM-0001",
            Self::Discovered { .. } => "SLV-SM-0002",
            Self::FabricChanged { .. } => "SLV-SM-0003",
            Self::SubnetUp { .. } => "SLV-SM-0007",
            Self::SubnetUpWithErrors { .. } => "SLV-SM-0008",
            Self::SetFailed { .. } => "SLV-SM-0009",
            Self::Silent { .. } => "SLV-SM-0010",
            Self::BadDatagram { .. } => "SLV-SM-0011",
            Self::DuplicateGuid { .. } => "SLV-SM-0012",
            Self::MKeyRefused { .. } => "SLV-SM-0015",
            Self::Trap { .. } => "SLV-SM-0016",
            Self::Role { .. } => "SLV-SM-0017",
            Self::LocalPortDown { .. } => "SLV-SM-0018",
            Self::LinkLost { .. } => "SLV-SM-0020",
            Self::LinkReturned { .. } => "SLV-SM-0021",
            Self::LinkLeftOut { .. } => "SLV-SM-0022",
            Self::Repaired { .. } => "SLV-SM-0023",
            Self::SwitchLost { .. } => "SLV-SM-0024",
            Self::BeyondReach { .. } => "SLV-SM-0029",
            Self::Draining { .. } => "SLV-SM-0030",
            Self::StepsLeftOut { .. } => "SLV-SM-0031",
            Self::WaitEnded { .. } => "SLV-SM-0032",
            Self::ForeignState { .. } => "SLV-SM-0040",
            Self::ReadBackDiffers { .. } => "SLV-SM-0042",
            Self::SwitchLies { .. } => "SLV-SM-0043",
            Self::RebalanceStep { .. } => "SLV-SM-0050",
            Self::Rebalanced { .. } => "SLV-SM-0051",
            Self::RebalanceHeld { .. } => "SLV-SM-0052",
            Self::RebalanceInterrupted { .. } => "SLV-SM-0053",
            Self::LanesDiffer { .. } => "SLV-SM-0046",
            Self::ListedAbsent(_) => "SLV-SM-0048",
            Self::Plan(event) => event.code(),
            Self::Multicast(event) => event.code(),
            Self::Aliases(event) => event.code(),
            Self::Change(event) => event.code(),
            Self::Intake(event) => event.code(),
            Self::Keys(event) => event.code(),
            Self::HandingOver { .. } => "SLV-SM-0060",
            Self::HandoverRefused { .. } => "SLV-SM-0061",
            Self::Told { .. } => "SLV-SM-0062",
            Self::StrangeManager { .. } => "SLV-SM-0063",
            Self::PollMissed { .. } => "SLV-SM-0064",
        }
    }

    /// True if the text of this event contains a measured time, so that it differs from run to run.
    #[must_use]
    pub const fn is_measured(&self) -> bool {
        matches!(self, Self::Repaired { .. })
    }

    /// Returns the severity of this event.
    #[must_use]
    pub const fn severity(&self) -> Severity {
        match self {
            Self::SweepStarted { .. }
            | Self::Repaired { .. }
            | Self::LinkReturned { .. }
            | Self::Discovered { .. }
            | Self::FabricChanged { .. }
            | Self::SubnetUp { .. }
            | Self::Trap { .. }
            | Self::Draining { .. }
            | Self::WaitEnded { .. }
            | Self::RebalanceStep { .. }
            | Self::Rebalanced { .. }
            | Self::RebalanceInterrupted { .. }
            | Self::HandingOver { .. }
            | Self::Told { .. }
            | Self::Role { .. } => Severity::Info,
            Self::LinkLost { .. }
            | Self::SwitchLost { .. }
            | Self::LinkLeftOut { .. }
            | Self::Silent { .. }
            | Self::BadDatagram { .. }
            | Self::ReadBackDiffers { .. }
            | Self::LanesDiffer { .. }
            | Self::RebalanceHeld { .. }
            | Self::BeyondReach { .. }
            | Self::HandoverRefused { .. }
            | Self::ListedAbsent(_)
            | Self::StrangeManager { .. }
            | Self::PollMissed { .. }
            | Self::ForeignState { .. } => Severity::Warning,
            Self::Plan(event) => event.severity(),
            Self::Multicast(event) => event.severity(),
            Self::Aliases(event) => event.severity(),
            Self::Change(event) => event.severity(),
            Self::Intake(event) => event.severity(),
            Self::Keys(event) => event.severity(),
            Self::StepsLeftOut { .. }
            | Self::SubnetUpWithErrors { .. }
            | Self::SetFailed { .. }
            | Self::DuplicateGuid { .. }
            | Self::SwitchLies { .. }
            | Self::MKeyRefused { .. }
            | Self::LocalPortDown { .. } => Severity::Error,
        }
    }
}

impl Event {
    fn fmt_other(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SweepStarted { reason } => write!(f, "sweep started because of {reason}"),
            Self::Discovered { switches, hosts, links } => {
                write!(f, "discovered {switches} switches, {hosts} hosts, {links} links")
            }
            Self::FabricChanged { change: text } | Self::Trap { what: text } => f.write_str(text),
            Self::Plan(event) => write!(f, "{event}"),
            Self::SubnetUp { sets } => write!(f, "SUBNET UP after {sets} Sets"),
            Self::SubnetUpWithErrors { failed } => write!(f, "SUBNET UP with errors: {failed} Sets failed"),
            Self::SetFailed { what, why } => write!(f, "Set of {what} failed: {why}"),
            Self::Silent { what } => write!(f, "no answer from {what}"),
            Self::BadDatagram { why } => write!(f, "datagram dropped: {why}"),
            Self::DuplicateGuid { guid, what } => write!(
                f,
                "two nodes have the GUID {guid}: {what}; correct one GUID; until then the second of two hosts is left \
                 out, or both switches"
            ),
            Self::Draining { .. } | Self::WaitEnded { .. } | Self::StepsLeftOut { .. } => self.of_steps(f),
            Self::LinkLost { .. }
            | Self::LinkReturned { .. }
            | Self::LinkLeftOut { .. }
            | Self::SwitchLost { .. }
            | Self::Repaired { .. } => Ok(()),
            Self::ReadBackDiffers { .. }
            | Self::LanesDiffer { .. }
            | Self::SwitchLies { .. }
            | Self::MKeyRefused { .. }
            | Self::BeyondReach { .. }
            | Self::ForeignState { .. } => self.of_agents(f),
            Self::RebalanceStep { .. }
            | Self::Rebalanced { .. }
            | Self::RebalanceHeld { .. }
            | Self::RebalanceInterrupted { .. } => self.of_balance(f),
            Self::ListedAbsent(absent) => write!(f, "{absent}"),
            Self::Multicast(event) => write!(f, "{event}"),
            Self::Aliases(event) => write!(f, "{event}"),
            Self::Change(event) => write!(f, "{event}"),
            Self::Intake(event) => write!(f, "{event}"),
            Self::Keys(event) => write!(f, "{event}"),
            Self::HandingOver { .. }
            | Self::HandoverRefused { .. }
            | Self::Told { .. }
            | Self::Role { .. }
            | Self::PollMissed { .. }
            | Self::StrangeManager { .. } => self.of_managers(f),
            Self::LocalPortDown { what } => write!(f, "the local port cannot be used: {what}"),
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.code())?;
        self.fmt_link(f)
    }
}
