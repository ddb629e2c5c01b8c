//! Texts of events about links, steps, agents and balance.

use std::fmt;
use std::time::Duration;

use super::Event;

impl Event {
    /// Writes the text of an event about a link that goes down or comes back. Other kinds of events have functions of
    /// their own.
    pub(super) fn fmt_link(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LinkLeftOut {
                what,
                downs,
                window_s,
                hold_s,
            } => write!(
                f,
                "link {what} went down {downs} times within {window_s} s and is left out for {hold_s} s; 'selvedge \
                 sweep' includes it at once"
            ),
            Self::Repaired {
                lost,
                returned,
                blocks,
                took,
                judged,
                was_known,
            } => write!(
                f,
                "links lost {lost}, back {returned}: {blocks} LFT blocks change, {}planned in {} us, judged in {} us",
                if *was_known { "from a backup, " } else { "" },
                took.as_micros(),
                judged.as_micros()
            ),
            Self::SwitchLost { what } => {
                write!(
                    f,
                    "switch \"{what}\" is gone, with all nodes reached only through it: none of its links is up; check \
                     its power, then its cables"
                )
            }
            Self::LinkReturned { what } => write!(f, "link {what} is back"),
            Self::LinkLost { what } => write!(f, "link {what} lost"),
            _ => self.fmt_other(f),
        }
    }

    /// Writes events of balance.
    pub(super) fn of_balance(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RebalanceStep {
                step,
                changed,
                load: (before, after),
                left,
            } => write!(
                f,
                "rebalancing, step {step}: {} entries in {} LFT blocks move, {} host pairs take another route; host \
                 pairs on the busiest link {before} -> {after}; {left} blocks left",
                changed.entries, changed.blocks, changed.pairs
            ),
            Self::Rebalanced { steps: 0, load } => {
                write!(f, "nothing to rebalance: {load} host pairs on the busiest link")
            }
            Self::Rebalanced { steps, load } => {
                write!(f, "rebalanced in {steps} steps: {load} host pairs on the busiest link")
            }
            Self::RebalanceHeld { why } => write!(
                f,
                "load could be balanced better, but no step within the budget is safe under traffic: {why}; 'selvedge \
                 rebalance --at-once' balances it in one change"
            ),
            Self::RebalanceInterrupted { steps } => write!(
                f,
                "rebalancing is interrupted after {steps} steps by a sweep or a repair"
            ),
            _ => Ok(()),
        }
    }

    /// Writes events of the steps of a change.
    pub(super) fn of_steps(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Draining { wait } => write!(
                f,
                "waiting {} until packets in flight are gone, then phase {} of {}: {}",
                seconds(wait.wait_ns),
                wait.phase,
                wait.phases,
                wait.label
            ),
            Self::WaitEnded { wait } => write!(
                f,
                "a sweep is due: phase {} of {} is planned again, and the time already waited counts",
                wait.phase, wait.phases
            ),
            Self::StepsLeftOut { sets } => write!(
                f,
                "a table was not acknowledged: {sets} Sets of later steps are not sent; the next sweep plans them again"
            ),
            _ => Ok(()),
        }
    }

    /// Writes the text of events about other managers.
    pub(super) fn of_managers(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BeyondReach { ports, what } => write!(
                f,
                "links at {ports} ports lead beyond the 63 hops of a directed route, the first is {what}: nodes behind \
                 them are not managed; add links that shorten the route, or move the manager"
            ),
            Self::Role {
                role,
                other: Some(other),
            } => write!(f, "SMInfo state is now {role}, because of the manager at {other}"),
            Self::Role { role, other: None } => write!(f, "now {role}"),
            Self::HandingOver { to } => write!(f, "the manager at {to} is better: the subnet is handed over to it"),
            Self::HandoverRefused { by } => write!(
                f,
                "the manager at {by} is better but did not accept HANDOVER: this manager stays master and offers the \
                 subnet again after the next sweep"
            ),
            Self::Told { control, by } => write!(f, "the manager at {by} sent {control}"),
            Self::PollMissed { master, missed, of } => {
                write!(
                    f,
                    "the master at {master} did not answer: {missed} of {of} polls missed"
                )
            }
            Self::StrangeManager { manager } => write!(
                f,
                "the manager at {manager} shows another SM_Key and is ignored: there may be two masters; give both \
                 managers the same key (keys.sm_key), or stop one of them"
            ),
            _ => Ok(()),
        }
    }

    /// Writes events of agents' contents.
    pub(super) fn of_agents(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ReadBackDiffers {
                what,
                block,
                entries,
                lid,
                wrote,
                read,
            } => write!(
                f,
                "\"{what}\" does not hold LinearForwardingTable block {block} as it acknowledged it: {entries} entries \
                 differ, the first of LID {lid}: port {wrote} written, {read} read; it is written again"
            ),
            Self::ForeignState { stored, found, are_few } => write!(
                f,
                "{found} ports were found, but none of the {stored} ports with stored LIDs: {}",
                foreign_state(*are_few)
            ),
            Self::LanesDiffer { what, table } => write!(
                f,
                "{what} does not hold the {table} that its agent acknowledged: the table is written again"
            ),
            Self::SwitchLies { what, times } => write!(
                f,
                "\"{what}\" acknowledges tables but does not hold them, {times} light sweeps in a row: packets through \
                 it may be misrouted; reset or remove this switch; its tables are written again at each light sweep"
            ),
            Self::MKeyRefused { what } => write!(
                f,
                "an unknown M_Key forbids Sets at {what}: give the key (m_key), or reset these ports"
            ),
            _ => Ok(()),
        }
    }
}

/// Returns what happens to the stored state if none of its ports is found.
const fn foreign_state(are_few: bool) -> &'static str {
    match are_few {
        true => {
            "too few to decide whether the state belongs to another fabric, so the stored LIDs stay reserved until \
             more ports are found; if it does, stop the manager and give the right folder (--state)"
        }
        false => {
            "the state belongs to another fabric and is set aside, ports keep the LIDs they hold; if it belongs to \
             this fabric, stop the manager and give the right folder (--state)"
        }
    }
}

/// Returns nanoseconds as seconds, with two digits after the point.
fn seconds(ns: u64) -> String {
    format!("{:.2} s", Duration::from_nanos(ns).as_secs_f64())
}
