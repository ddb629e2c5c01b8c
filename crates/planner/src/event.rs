//! Events of planning: what an operator should know about a plan, each kind with a stable code.

use std::fmt;

use selvedge_types::{Guid, Lid};

/// Severity of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Information only.
    Info,
    /// An operator should check.
    Warning,
    /// An error: something does not work.
    Error,
}

/// Something that planning found or decided. The code in [`PlanEvent::code`] is stable; `docs/reference/codes.md` has
/// cause and advice.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PlanEvent {
    /// A plan was made and accepted.
    Accepted {
        /// Engine of the plan.
        engine: String,
        /// Number of Sets needed.
        sets: usize,
        /// Number of LFT blocks among these Sets.
        lft_blocks: usize,
    },
    /// A plan was refused by the judge, or an engine gave up.
    Refused {
        /// Engine of the plan.
        engine: String,
        /// The reason, with a witness.
        why: String,
    },
    /// No engine's plan was accepted: nothing is sent.
    NoPlan,
    /// No engine's plan was accepted: the plan in force stays.
    PlanStays {
        /// Engine of the plan.
        engine: String,
        /// Number of Sets until agents hold the plan.
        sets: usize,
    },
    /// Two ports have the same LID. One of them gets another.
    LidConflict {
        /// The LID.
        lid: Lid,
        /// The port that keeps the LID.
        keeps: Guid,
        /// The port that gets another.
        loses: Guid,
    },
    /// The fabric needs more LIDs than a subnet has.
    OutOfLids {
        /// Number of LIDs wanted.
        wanted: usize,
    },
    /// Engine `auto` inspected the fabric and selected another engine for it.
    EngineChosen {
        /// The properties it found, or the engine it selected and why, with a code of the engine's.
        note: String,
    },
    /// The found tables are correct and stay in force.
    FoundKept {
        /// The engine that will plan when the fabric changes.
        engine: String,
    },
    /// Found tables are kept, except for wrong entries.
    FoundMended {
        /// The engine that plans from now on.
        engine: String,
        /// Number of entries that change.
        entries: usize,
    },
    /// The repair of every link is planned and judged in advance.
    BackupsMade {
        /// Number of links.
        links: usize,
        /// Number of links without a backup: their repair takes longer, or there was no memory left.
        lacking: usize,
        /// Memory of all backups, in KiB.
        kib: usize,
    },
    /// A change of tables takes several steps, or a wait.
    Way {
        /// The steps in words.
        what: String,
    },
    /// Ports keep fewer LIDs than the LMC asks for, because other ports have these LIDs now or had them a moment ago.
    LidsLater {
        /// Number of ports.
        ports: usize,
    },
    /// Ports are in more partitions than their P_Key tables have room for.
    PKeysFull {
        /// Number of ports.
        ports: usize,
        /// The first port without enough room.
        what: String,
        /// Number of P_Keys for which its table has room.
        room: u16,
    },
    /// Some links have fewer data lanes than the policy asks for. They use the lanes that they have.
    LanesShort {
        /// Number of lanes that the policy asks for.
        lanes: u8,
        /// Number of links with fewer.
        links: usize,
        /// The first of these links, with its number of lanes.
        first: (String, u8),
    },
    /// Links that the operator has taken out of service carry packets nevertheless, because some switch can be reached
    /// only over them.
    LinksNeeded {
        /// Number of links.
        links: usize,
        /// The first of these links, by both ends.
        first: String,
    },
    /// The classes of quality of service that the policy asks for are refused, and others are planned.
    QosRefused {
        /// The reason, and the classes that are possible.
        why: String,
        /// What is planned instead.
        instead: &'static str,
    },
    /// The promises of quality of service do not hold at some ports.
    QosShort {
        /// Number of ports.
        ports: usize,
        /// The first of these ports, and the class.
        first: (String, String),
    },
    /// The QoS policy file names something that the fabric or the partitions do not have.
    QosUnresolved {
        /// Number of such names.
        names: usize,
        /// The first of them.
        first: String,
    },
    /// The service levels that senders use are unknown, so routes do not depend on them for now.
    LevelsUnknown,
    /// The judge refuses new multicast trees, so those in force stay.
    TreesRefused {
        /// The reason.
        why: String,
    },
}

impl PlanEvent {
    /// Returns the stable code of the event.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Accepted { .. } => "SLV-SM-0004",
            Self::Refused { .. } => "SLV-SM-0005",
            Self::NoPlan => "SLV-SM-0006",
            Self::LidConflict { .. } => "SLV-SM-0013",
            Self::OutOfLids { .. } => "SLV-SM-0014",
            Self::EngineChosen { .. } => "SLV-SM-0019",
            Self::FoundKept { .. } => "SLV-SM-0025",
            Self::FoundMended { .. } => "SLV-SM-0026",
            Self::BackupsMade { .. } => "SLV-SM-0027",
            Self::Way { .. } => "SLV-SM-0033",
            Self::LidsLater { .. } => "SLV-SM-0041",
            Self::PKeysFull { .. } => "SLV-SM-0044",
            Self::LanesShort { .. } => "SLV-SM-0045",
            Self::LevelsUnknown => "SLV-SM-0047",
            Self::PlanStays { .. } => "SLV-SM-0104",
            Self::LinksNeeded { .. } => "SLV-SM-0112",
            Self::QosRefused { .. } => "SLV-SM-0120",
            Self::QosShort { .. } => "SLV-SM-0121",
            Self::QosUnresolved { .. } => "SLV-SM-0122",
            Self::TreesRefused { .. } => "SLV-SM-0071",
        }
    }

    /// Returns the severity of the event.
    #[must_use]
    pub const fn severity(&self) -> Severity {
        match self {
            Self::Accepted { .. }
            | Self::EngineChosen { .. }
            | Self::FoundKept { .. }
            | Self::FoundMended { .. }
            | Self::BackupsMade { .. }
            | Self::Way { .. }
            | Self::LidsLater { .. }
            | Self::LanesShort { .. } => Severity::Info,
            Self::Refused { .. }
            | Self::PlanStays { .. }
            | Self::LidConflict { .. }
            | Self::PKeysFull { .. }
            | Self::LinksNeeded { .. }
            | Self::QosRefused { .. }
            | Self::QosShort { .. }
            | Self::QosUnresolved { .. }
            | Self::LevelsUnknown => Severity::Warning,
            Self::NoPlan | Self::OutOfLids { .. } | Self::TreesRefused { .. } => Severity::Error,
        }
    }
}

impl fmt::Display for PlanEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Accepted {
                engine,
                sets,
                lft_blocks,
            } => write!(
                f,
                "plan by {engine} accepted: {sets} Sets, {lft_blocks} of them LFT blocks"
            ),
            Self::Refused { engine, why } => write!(f, "plan by {engine} refused: {why}"),
            Self::NoPlan => f.write_str("no engine's plan was accepted: nothing is sent, the fabric stays as it is"),
            Self::PlanStays { engine, sets } => write!(
                f,
                "no engine's plan was accepted: the plan in force, by {engine}, stays ({sets} Sets); the next sweeps \
                 try again"
            ),
            Self::EngineChosen { note } => f.write_str(note),
            Self::FoundKept { engine } => write!(
                f,
                "the tables that the switches hold are correct and stay; {engine} plans when the fabric changes or \
                 load is rebalanced"
            ),
            Self::FoundMended { engine, entries } => write!(
                f,
                "the found tables stay, except {entries} entries: packets of their LIDs did not arrive; {engine} plans \
                 when the fabric changes or load is rebalanced"
            ),
            Self::BackupsMade { links, lacking, kib } => {
                write!(
                    f,
                    "repairs of {links} links were planned and judged in advance; they take {kib} KiB"
                )?;
                match lacking {
                    0 => Ok(()),
                    _ => write!(
                        f,
                        "; {lacking} others have no backup: their repair is planned when they are lost"
                    ),
                }
            }
            Self::Way { what } => write!(f, "the transition to the plan: {what}"),
            Self::TreesRefused { why } => write!(f, "multicast trees refused, those in force stay: {why}"),
            Self::LidConflict { .. }
            | Self::OutOfLids { .. }
            | Self::LidsLater { .. }
            | Self::PKeysFull { .. }
            | Self::LanesShort { .. }
            | Self::LinksNeeded { .. }
            | Self::LevelsUnknown => self.of_ports(f),
            Self::QosRefused { why, instead } => write!(f, "{why}; planned instead: {instead}"),
            Self::QosShort {
                ports,
                first: (port, class),
            } => write!(
                f,
                "{ports} ports cannot keep a promise of quality of service, the first is {port}, class {class}: it \
                 shares a lane there with another class, or its share is smaller; use hardware with more lanes and \
                 longer arbitration tables, or fewer classes"
            ),
            Self::QosUnresolved { names, first } => {
                write!(
                    f,
                    "{names} names of the QoS policy file lead to nothing, the first: {first}"
                )
            }
        }
    }
}

impl PlanEvent {
    /// Writes the text of events about LIDs, partitions and lanes of ports.
    fn of_ports(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LidConflict { lid, keeps, loses } => write!(
                f,
                "two ports hold LID {lid}: port {keeps} keeps it, port {loses} gets another LID"
            ),
            Self::OutOfLids { wanted } => write!(
                f,
                "{wanted} LIDs wanted, a subnet has 49151: lower the LMC or split the subnet"
            ),
            Self::LidsLater { ports } => write!(
                f,
                "{ports} ports get their full LMC range only when the LIDs that other ports hold are free"
            ),
            Self::PKeysFull { ports, what, room } => write!(
                f,
                "{ports} ports are in more partitions than their P_Key tables have room for, among them {what} with \
                 room for {room} keys: they do not get the P_Keys of the last partitions; remove them from some \
                 partitions"
            ),
            Self::LanesShort {
                lanes,
                links,
                first: (what, has),
            } => write!(
                f,
                "{links} links have fewer than {lanes} data lanes, the first is that of {what} with {has}: packets use \
                 the lanes that exist; lower used_lanes, or use hardware with a higher VLCap at both ends"
            ),
            Self::LinksNeeded { links, first } => write!(
                f,
                "{links} links that are out of service carry packets all the same, the first is {first}: some switch \
                 is reached only over them; repair another link to it, or drain that switch too"
            ),
            Self::LevelsUnknown => f.write_str(
                "the service levels that senders use are unknown to this manager, so no change of routes that rely on \
                 several lanes can be proved: until the next plan routes are safe with any service level (give \
                 managers of one fabric the same SM_Key and sa_key, so that they can copy the service levels)",
            ),
            _ => Ok(()),
        }
    }
}
