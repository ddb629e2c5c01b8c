//! Violations: conditions that must never occur.

use selvedge_sm::{Mode, Timer};
use selvedge_types::Lid;

/// A violation: something that must never happen.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Violation {
    /// SLV-REHEARSAL-0101: a manager gave two ports of one subnet the same LID.
    #[error("SLV-REHEARSAL-0101: {first} and {second} both hold LID {lid} and can reach each other")]
    LidTwice {
        /// The LID.
        lid: Lid,
        /// One port.
        first: String,
        /// Name of the other port.
        second: String,
    },
    /// SLV-REHEARSAL-0102: packets to a port that is up go round in a loop.
    #[error("SLV-REHEARSAL-0102: packets to LID {lid} loop at {switch}")]
    Loop {
        /// The LID.
        lid: Lid,
        /// A switch of the loop.
        switch: String,
    },
    /// SLV-REHEARSAL-0103: a subnet has had two masters for too long.
    #[error("SLV-REHEARSAL-0103: {first} and {second} have both been master of one subnet for {seconds} s")]
    TwoMasters {
        /// Name of one manager.
        first: String,
        /// Name of the other manager.
        second: String,
        /// How long the subnet has had two masters, in seconds.
        seconds: u64,
    },
    /// SLV-REHEARSAL-0104: a manager without an accepted plan sent Sets.
    #[error("SLV-REHEARSAL-0104: {manager} ({mode:?}) sent {sets} Sets without an accepted plan")]
    UnjudgedSet {
        /// Name of the manager.
        manager: String,
        /// Mode of the manager.
        mode: Mode,
        /// Sets sent.
        sets: u64,
    },
    /// SLV-REHEARSAL-0105: a port became ACTIVE while its switch did not hold the tables of the plan.
    #[error("SLV-REHEARSAL-0105: {port} is ACTIVE, but block {block} of {switch} is not as planned")]
    ActiveTooEarly {
        /// Name of the port.
        port: String,
        /// Switch of the port.
        switch: String,
        /// The first block that differs.
        block: usize,
    },
    /// SLV-REHEARSAL-0106: a manager has more open requests or jobs than a fabric of this size can need.
    #[error("SLV-REHEARSAL-0106: {manager} has {open} open requests or jobs; its fabric can need at most {limit}")]
    Memory {
        /// Name of the manager.
        manager: String,
        /// Requests waiting or in flight, or jobs that are not done.
        open: usize,
        /// The largest allowed number.
        limit: usize,
    },
    /// SLV-REHEARSAL-0107: a credit loop: channels wait for each other in a cycle.
    #[error("SLV-REHEARSAL-0107: credit loop: {channels}")]
    Cycle {
        /// The ports by which packets leave, first to last.
        channels: String,
    },
    /// SLV-REHEARSAL-0108: a Set took a route away.
    #[error(
        "SLV-REHEARSAL-0108: a Set at {at} took away the route from {from} to LID {lid}, which the plan does not change"
    )]
    RouteLost {
        /// The LID.
        lid: Lid,
        /// The switch where packets to the LID come from.
        from: String,
        /// The switch where the Set was executed.
        at: String,
    },
    /// SLV-REHEARSAL-0109: the master is idle and reports no error, but packets of a port do not reach a LID.
    #[error("SLV-REHEARSAL-0109: the master is idle, but packets from {from} do not reach LID {lid}")]
    NoRoute {
        /// The LID.
        lid: Lid,
        /// The place where packets come from.
        from: String,
    },
    /// SLV-REHEARSAL-0110: a port got another LID without a request of the operator.
    #[error("SLV-REHEARSAL-0110: {port} had LID {before} and now has {now}")]
    LidChanged {
        /// Name of the port.
        port: String,
        /// LID of the port before.
        before: Lid,
        /// LID of the port now.
        now: Lid,
    },
    /// SLV-REHEARSAL-0111: a manager sent a Set that the judge had not accepted.
    #[error("SLV-REHEARSAL-0111: {manager} sent a Set that no judge accepted: {what}")]
    NeverJudged {
        /// Name of the manager.
        manager: String,
        /// The Set.
        what: String,
    },
    /// SLV-REHEARSAL-0112: a manager has more requests in flight than its window allows.
    #[error("SLV-REHEARSAL-0112: {manager} has {open} requests in flight, at most {limit} are allowed")]
    Window {
        /// Name of the manager.
        manager: String,
        /// Number of requests without an answer that are not given up.
        open: usize,
        /// The largest allowed number.
        limit: usize,
    },
    /// SLV-REHEARSAL-0117: packets that an old entry has forwarded and packets of a new entry may wait for each other.
    #[error("SLV-REHEARSAL-0117: credit loop that includes packets forwarded by former entries: {channels}")]
    Undrained {
        /// The ports by which packets leave, first to last.
        channels: String,
    },
    /// SLV-REHEARSAL-0118: a Set changed a route on which every entry was as planned.
    #[error("SLV-REHEARSAL-0118: a Set at {at} changed the route from {from} to LID {lid}, which was as planned")]
    RouteMoved {
        /// The LID.
        lid: Lid,
        /// The place where packets to the LID come from.
        from: String,
        /// The switch where the Set was executed, with the entry before and after it.
        at: String,
    },
    /// SLV-REHEARSAL-0119: while all managers are idle, a port uses other lanes than planned, or its arbiter never
    /// serves one of them.
    #[error("SLV-REHEARSAL-0119: the master is idle, but lanes are not as planned: {what}")]
    Lanes {
        /// The row or the lane.
        what: String,
    },
    /// SLV-REHEARSAL-0115: a port got a LID that the manager had not stored.
    #[error("SLV-REHEARSAL-0115: {manager} gave {port} LID {lid} before the LID was stored")]
    NotStored {
        /// Name of the manager.
        manager: String,
        /// Name of the port.
        port: String,
        /// The LID.
        lid: Lid,
    },
    /// SLV-REHEARSAL-0116: a master did not react to a trap.
    #[error("SLV-REHEARSAL-0116: {manager} is master and has not repressed a trap for {millis} ms")]
    TrapIgnored {
        /// Name of the manager.
        manager: String,
        /// How long the manager has not repressed the trap, in milliseconds.
        millis: u64,
    },
    /// SLV-REHEARSAL-0114: the time limit after the last fault has passed, and the fabric is not yet as it should be.
    #[error("SLV-REHEARSAL-0114: {seconds} s after the last fault, {when}: {what}")]
    NotConverged {
        /// The condition that is not met.
        what: String,
        /// The faults that had stopped.
        when: &'static str,
        /// How long the run had waited, in seconds.
        seconds: u64,
    },
    /// SLV-REHEARSAL-0113: a switch does not hold a block that it acknowledged, and no manager read it back.
    #[error(
        "SLV-REHEARSAL-0113: {switch} has not held block {block} as acknowledged for {seconds} s, and {manager} has \
         not read it back"
    )]
    NotReadBack {
        /// Name of the manager.
        manager: String,
        /// Name of the switch.
        switch: String,
        /// The block.
        block: u32,
        /// How long the switch has not held the block.
        seconds: u64,
    },
    /// SLV-REHEARSAL-0120: the administrator of a master has not answered a host's request.
    #[error("SLV-REHEARSAL-0120: {manager} is master and has not answered {host} for {millis} ms")]
    Unanswered {
        /// Name of the manager.
        manager: String,
        /// The host that asked.
        host: String,
        /// How long the host has waited, in milliseconds.
        millis: u64,
    },
    /// SLV-REHEARSAL-0121: a host gets a path that is not in the plan in force, or no path.
    #[error("SLV-REHEARSAL-0121: the path record from LID {from} to LID {to} is wrong: {what}")]
    WrongPath {
        /// The LID of the host that asked.
        from: Lid,
        /// The LID to which the path leads.
        to: Lid,
        /// The error of the path.
        what: String,
    },
    /// SLV-REHEARSAL-0122: a registration was confirmed to a host, but the master does not know it.
    #[error("SLV-REHEARSAL-0122: {what} was confirmed to {host}, but the master {manager} does not know it")]
    RegistrationLost {
        /// Name of the master.
        manager: String,
        /// The host's port.
        host: String,
        /// The registration.
        what: &'static str,
    },
    /// SLV-REHEARSAL-0123: packets to a multicast group do not arrive once at each member, or arrive elsewhere.
    #[error("SLV-REHEARSAL-0123: the master is idle, but of packets from {sender} to LID {mlid} {what}")]
    WrongCopies {
        /// LID of the group.
        mlid: Lid,
        /// The sender.
        sender: String,
        /// The error of the copies.
        what: String,
    },
    /// SLV-REHEARSAL-0124: a subscriber got no Report of an event.
    #[error("SLV-REHEARSAL-0124: {host} has subscribed and got no Report that {what}")]
    NotReported {
        /// The subscriber.
        host: String,
        /// What the subscriber did not learn.
        what: String,
    },
    /// SLV-REHEARSAL-0125: a host cannot register what it wants, although all else is well.
    #[error("SLV-REHEARSAL-0125: {seconds} s after all else was well, {when}: {what}")]
    NotServed {
        /// The host, and the registration.
        what: String,
        /// The faults that had stopped.
        when: &'static str,
        /// How long the run had waited, in seconds.
        seconds: u64,
    },
    /// SLV-REHEARSAL-0126: a manager was woken for a timer, had no output, and the timer is still due.
    #[error("SLV-REHEARSAL-0126: {manager} was woken for its timer {timer:?}, which is still due: nothing serves it")]
    TimerNotServed {
        /// Name of the manager.
        manager: String,
        /// The timer that is due.
        timer: Timer,
    },
    /// SLV-REHEARSAL-0127: a master lost its plan in force because a change of policy was refused.
    #[error("SLV-REHEARSAL-0127: {manager} is master and has no plan in force any more, because {change} was refused")]
    PlanLost {
        /// Name of the manager.
        manager: String,
        /// The change, in words.
        change: String,
    },
}
