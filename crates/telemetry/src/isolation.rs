//! Whether an alarm isolates a link: a decision, and why not. The change is planned and judged like any other, so a
//! link that is needed stays in service.

use core::fmt;
use core::time::Duration;

use selvedge_sim::Time;
use selvedge_types::NodeKind;

use crate::alarm::{Alarm, Level, Subject};
use crate::{End, Inventory, Metric};

/// The time for which the budget counts.
const DAY: Duration = Duration::from_secs(86_400);

/// A link, by its lower end and its higher end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Link(pub End, pub End);

impl Link {
    /// Returns the link between two ends.
    #[must_use]
    pub fn between(a: End, b: End) -> Self {
        Self(a.min(b), a.max(b))
    }
}

/// Why a link stays in service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhyNot {
    /// The operator does not want it: the budget is 0.
    Off,
    /// The alarm is not critical.
    Level,
    /// Another link would not be better: the cause is not the cable. Congestion, tables, partitions.
    Cause,
    /// An operator has acknowledged the alarm, and sees to it.
    Acknowledged,
    /// The link is not known, or not up.
    NotUp,
    /// It is the link of a host.
    Host,
    /// It is out of service already.
    OutOfService,
    /// A place is being taken out of service or put back. The alarm is checked again.
    Moving,
    /// The budget of the day is spent.
    Budget {
        /// Links within a day.
        per_day: u32,
        /// When the next one may follow.
        next: Time,
    },
}

impl WhyNot {
    /// True if the operator should know: the link would be isolated otherwise.
    #[must_use]
    pub const fn is_told(self) -> bool {
        matches!(self, Self::Budget { .. })
    }
}

impl fmt::Display for WhyNot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("telemetry.isolate_per_day is 0"),
            Self::Level => f.write_str("the alarm is not critical"),
            Self::Cause => f.write_str("the cable is not the cause"),
            Self::Acknowledged => f.write_str("an operator has acknowledged the alarm"),
            Self::NotUp => f.write_str("the link is not up"),
            Self::Host => f.write_str("it is the link of a host"),
            Self::OutOfService => f.write_str("it is out of service already"),
            Self::Moving => f.write_str("another place is being taken out of service or put back"),
            Self::Budget { per_day, .. } => {
                write!(
                    f,
                    "the budget of {per_day} within 24 hours is spent (telemetry.isolate_per_day)"
                )
            }
        }
    }
}

/// What is known when an alarm is checked.
#[derive(Clone, Copy, Debug)]
pub struct Known<'a> {
    /// Links that may be isolated within 24 hours.
    pub per_day: u32,
    /// The fabric.
    pub inventory: &'a Inventory,
    /// Links that were isolated because of alarms, each with its time, in the order of time.
    pub isolated: &'a [(Time, Link)],
    /// Links that are out of service.
    pub out_of_service: &'a [Link],
    /// True while a place is being taken out of service or put back.
    pub is_moving: bool,
}

/// Decides whether an alarm isolates its link: a link between two switches, of which the receiver finds so many errors
/// that the alarm is critical.
pub fn decide(now: Time, alarm: &Alarm, known: &Known<'_>) -> Result<Link, WhyNot> {
    if known.per_day == 0 {
        return Err(WhyNot::Off);
    }
    if alarm.level < Level::Critical {
        return Err(WhyNot::Level);
    }
    if !is_of_the_cable(alarm.id.subject) {
        return Err(WhyNot::Cause);
    }
    if alarm.ack.is_some() {
        return Err(WhyNot::Acknowledged);
    }
    let at = alarm.id.at;
    let port = known.inventory.port(at).filter(|port| port.is_up());
    let peer = port.and_then(|port| port.peer).ok_or(WhyNot::NotUp)?;
    let link = Link::between(at, peer);
    if known.out_of_service.contains(&link) {
        return Err(WhyNot::OutOfService);
    }
    let is_switch = |end: End| {
        let node = known.inventory.nodes.get(&end.node);
        node.is_some_and(|node| node.kind == NodeKind::Switch)
    };
    if !is_switch(at) || !is_switch(peer) {
        return Err(WhyNot::Host);
    }
    if known.is_moving {
        return Err(WhyNot::Moving);
    }
    let lately: Vec<Time> = known
        .isolated
        .iter()
        .map(|(at, _)| *at)
        .filter(|at| now.since(*at) < DAY)
        .collect();
    // The link that leaves the day first makes room.
    let spent = lately.len().checked_sub(known.per_day as usize);
    match spent.and_then(|at| lately.get(at)) {
        None => Ok(link),
        Some(first) => Err(WhyNot::Budget {
            per_day: known.per_day,
            next: *first + DAY,
        }),
    }
}

/// True if a cable or a connector is what causes the alarm.
const fn is_of_the_cable(subject: Subject) -> bool {
    match subject {
        Subject::BitErrors | Subject::Flaps => true,
        Subject::Counter(metric) => matches!(
            metric,
            Metric::SymbolErrors
                | Metric::LinkRecoveries
                | Metric::LinkDowned
                | Metric::RcvErrors
                | Metric::LocalLinkIntegrityErrors
        ),
        Subject::Congestion => false,
    }
}

#[cfg(test)]
mod tests {
    use selvedge_health::Since;
    use selvedge_types::{Guid, Lid, PortState};

    use super::*;
    use crate::alarm::{Ack, AlarmId};
    use crate::{NodeEntry, PortEntry};

    const HOUR: Duration = Duration::from_secs(3_600);

    fn end(node: u64, port: u8) -> End {
        End { node: Guid(node), port }
    }

    /// Switches 1 and 2 with two links, ports 1 and 2; host 3 at port 3 of switch 1; port 4 of switch 1 is down.
    fn inventory() -> Inventory {
        let port = |num, peer: Option<End>| PortEntry {
            num,
            lid: Lid(1),
            state: if peer.is_some() {
                PortState::Active
            } else {
                PortState::Down
            },
            peer,
            rate: None,
        };
        let node = |kind, ports| NodeEntry {
            kind,
            description: "node".to_owned(),
            ports,
        };
        let first = vec![
            port(1, Some(end(2, 1))),
            port(2, Some(end(2, 2))),
            port(3, Some(end(3, 1))),
            port(4, None),
        ];
        let second = vec![port(1, Some(end(1, 1))), port(2, Some(end(1, 2)))];
        let nodes = [
            (Guid(1), node(NodeKind::Switch, first)),
            (Guid(2), node(NodeKind::Switch, second)),
            (Guid(3), node(NodeKind::Ca, vec![port(1, Some(end(1, 3)))])),
        ];
        Inventory { nodes: nodes.into() }
    }

    fn alarm(at: End, subject: Subject) -> Alarm {
        Alarm {
            id: AlarmId { at, subject },
            peer: None,
            level: Level::Critical,
            since: Since::default(),
            last: Since::default(),
            evidence: String::new(),
            clears: String::new(),
            ack: None,
        }
    }

    const SYMBOLS: Subject = Subject::Counter(Metric::SymbolErrors);

    #[test]
    fn critical_errors_of_a_link_between_switches_isolate_it() {
        let inventory = inventory();
        let known = Known {
            per_day: 1,
            inventory: &inventory,
            isolated: &[],
            out_of_service: &[],
            is_moving: false,
        };
        let link = Link::between(end(2, 1), end(1, 1));
        let check = |alarm: &Alarm, known: &Known<'_>, want: Result<Link, WhyNot>| {
            assert_eq!(decide(Time::ZERO, alarm, known), want, "{alarm:?}");
        };
        // Either end names the same link.
        check(&alarm(end(1, 1), SYMBOLS), &known, Ok(link));
        check(&alarm(end(2, 1), Subject::BitErrors), &known, Ok(link));
        check(
            &alarm(end(1, 1), SYMBOLS),
            &Known { per_day: 0, ..known },
            Err(WhyNot::Off),
        );
        check(&alarm(end(1, 1), Subject::Congestion), &known, Err(WhyNot::Cause));
        let discards = Subject::Counter(Metric::XmitDiscards);
        check(&alarm(end(1, 1), discards), &known, Err(WhyNot::Cause));
        check(&alarm(end(1, 3), SYMBOLS), &known, Err(WhyNot::Host));
        check(&alarm(end(3, 1), SYMBOLS), &known, Err(WhyNot::Host));
        check(&alarm(end(1, 4), SYMBOLS), &known, Err(WhyNot::NotUp));
        check(&alarm(end(9, 1), SYMBOLS), &known, Err(WhyNot::NotUp));
        let mut warning = alarm(end(1, 1), SYMBOLS);
        warning.level = Level::Warning;
        check(&warning, &known, Err(WhyNot::Level));
        let mut seen = alarm(end(1, 1), SYMBOLS);
        seen.ack = Some(Ack {
            at: Since::default(),
            by: "op".to_owned(),
            note: String::new(),
        });
        check(&seen, &known, Err(WhyNot::Acknowledged));
        let out = [link];
        let listed = Known {
            out_of_service: &out,
            ..known
        };
        check(&alarm(end(1, 1), SYMBOLS), &listed, Err(WhyNot::OutOfService));
        check(
            &alarm(end(1, 1), SYMBOLS),
            &Known {
                is_moving: true,
                ..known
            },
            Err(WhyNot::Moving),
        );
    }

    #[test]
    fn the_budget_is_of_any_24_hours() {
        let inventory = inventory();
        let other = Link::between(end(1, 2), end(2, 2));
        let at = |hours: u32| Time::ZERO + HOUR * hours;
        let isolated = [(at(1), other), (at(10), other), (at(20), other)];
        let check = |per_day, hours, want: Result<(), u32>| {
            let known = Known {
                per_day,
                inventory: &inventory,
                isolated: &isolated,
                out_of_service: &[],
                is_moving: false,
            };
            let found = decide(at(hours), &alarm(end(1, 1), SYMBOLS), &known);
            let want = want.map(|()| Link::between(end(1, 1), end(2, 1)));
            let want = want.map_err(|next| WhyNot::Budget {
                per_day,
                next: at(next),
            });
            assert_eq!(found, want, "{per_day} a day, at {hours} h");
        };
        check(4, 20, Ok(()));
        check(3, 20, Err(25));
        check(3, 24, Err(25));
        check(3, 25, Ok(()));
        check(2, 24, Err(34));
        check(1, 24, Err(44));
        check(1, 43, Err(44));
        check(1, 44, Ok(()));
    }
}
