//! Isolates links because of alarms, if the operator wants that: on a thread of its own, because a plan is made and
//! judged first. `selvedge_telemetry::isolation` decides; what follows is the same as for `selvedge isolate`.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use selvedge_api::{Error, ErrorKind, OutOfServiceChange, OutOfServiceRequest, Severity};
use selvedge_plan::out_of_service::{Place, PortId, Service};
use selvedge_sim::Time;
use selvedge_telemetry::End;
use selvedge_telemetry::alarm::{Alarm, AlarmId, AlarmNews};
use selvedge_telemetry::isolation::{Known, Link, WhyNot, decide};

use crate::{DaemonError, Manager};

/// Time after which the manager tries again to act upon an alarm.
const AGAIN: Duration = Duration::from_secs(30);
/// How the reason begins of a place that an alarm has taken out of service.
const REASON: &str = "alarm: ";

/// What was done because of an alarm.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Event {
    /// SLV-TELEMETRY-0231: an alarm isolates a link. 'selvedge enable' puts it back in service.
    Isolates {
        /// The link.
        link: String,
        /// The alarm.
        alarm: String,
        /// Links that were isolated within 24 hours, this one included, and how many may be.
        count: (usize, u32),
    },
    /// SLV-TELEMETRY-0232: an alarm would isolate a link, and the link stays in service.
    Stays {
        /// The link.
        link: String,
        /// The alarm.
        alarm: String,
        /// Why.
        why: String,
    },
}

impl Event {
    const fn code(&self) -> &'static str {
        match self {
            Self::Isolates { .. } => "SLV-TELEMETRY-0231",
            Self::Stays { .. } => "SLV-TELEMETRY-0232",
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Isolates {
                link,
                alarm,
                count: (count, per_day),
            } => write!(
                f,
                "link {link} is isolated because of {alarm} ({count} of {per_day} within 24 hours); replace the cable, \
                 then 'selvedge enable' puts it back in service"
            ),
            Self::Stays { link, alarm, why } => write!(
                f,
                "link {link} stays in service in spite of {alarm}: {why}; see 'selvedge isolate --help'"
            ),
        }
    }
}

/// Takes alarms to the thread.
#[derive(Debug)]
pub(super) struct Alarms(Sender<AlarmNews>);

impl Alarms {
    /// Hands over what has become of an alarm. The caller does not wait for what follows.
    pub(super) fn take(&self, news: &AlarmNews) {
        // A thread that has ended takes nothing more.
        let _ = self.0.send(news.clone());
    }
}

/// Starts the thread, if alarms may isolate links. It ends when the result is dropped.
pub(super) fn start(manager: Manager, per_day: u32) -> Result<Option<Alarms>, DaemonError> {
    if per_day == 0 {
        return Ok(None);
    }
    let (to, news) = channel();
    let isolator = Isolator {
        isolated: isolated_before(&manager),
        waiting: BTreeMap::new(),
        manager,
        per_day,
    };
    let thread = thread::Builder::new().name("isolation".to_owned());
    thread
        .spawn(move || isolator.run(&news))
        .map_err(|cause| DaemonError::Thread { cause })?;
    Ok(Some(Alarms(to)))
}

/// Returns the links that an earlier process isolated because of alarms, as far as they are still out of service.
fn isolated_before(manager: &Manager) -> Vec<(Time, Link)> {
    let list = manager.roster.list();
    let listed = list.iter().filter_map(|(place, notice)| {
        let is_ours = notice.service == Service::Isolate && notice.reason.starts_with(REASON);
        let at = Time::from_millis(notice.since_ms);
        link_of(place).filter(|_| is_ours).map(|link| (at, link))
    });
    let mut isolated: Vec<(Time, Link)> = listed.collect();
    isolated.sort_unstable();
    isolated
}

fn link_of(place: &Place) -> Option<Link> {
    let end = |port: &PortId| End {
        node: port.node,
        port: port.port.get(),
    };
    match place {
        Place::Link(a, b) => Some(Link::between(end(a), end(b))),
        Place::Switch(_) | Place::Port(_) => None,
    }
}

struct Isolator {
    manager: Manager,
    per_day: u32,
    /// Links that were isolated because of alarms, in the order of time.
    isolated: Vec<(Time, Link)>,
    /// Alarms on which the manager tries to act again.
    waiting: BTreeMap<AlarmId, Alarm>,
}

impl Isolator {
    fn run(mut self, news: &Receiver<AlarmNews>) {
        loop {
            let looked_at = match news.recv_timeout(AGAIN) {
                Ok(AlarmNews::Began(alarm) | AlarmNews::Rose(alarm)) => vec![alarm],
                Ok(AlarmNews::Cleared(alarm, _) | AlarmNews::Acknowledged(alarm)) => {
                    self.waiting.remove(&alarm.id);
                    continue;
                }
                Err(RecvTimeoutError::Timeout) => std::mem::take(&mut self.waiting).into_values().collect(),
                Err(RecvTimeoutError::Disconnected) => return,
            };
            for alarm in looked_at {
                self.look_at(alarm);
            }
        }
    }

    fn look_at(&mut self, alarm: Alarm) {
        let (now, snapshot) = (
            Time(self.manager.shared.clock.unix_ns()),
            self.manager.shared.telemetry.snapshot(),
        );
        let list = self.manager.roster.list();
        let out: Vec<Link> = list.iter().filter_map(|(place, _)| link_of(place)).collect();
        let shown = self.manager.show_service();
        let known = Known {
            per_day: self.per_day,
            inventory: &snapshot.inventory,
            isolated: &self.isolated,
            out_of_service: &out,
            is_moving: shown.is_ok_and(|list| list.places.iter().any(|place| place.state == "moving")),
        };
        match decide(now, &alarm, &known) {
            Ok(link) => self.isolate(now, link, alarm),
            Err(WhyNot::Moving) => drop(self.waiting.insert(alarm.id, alarm)),
            Err(why) if why.is_told() => {
                let at = Link(alarm.id.at, alarm.peer.unwrap_or(alarm.id.at));
                self.report(&Event::Stays {
                    link: words(at),
                    alarm: cause(&alarm),
                    why: why.to_string(),
                });
            }
            Err(_) => {}
        }
    }

    fn isolate(&mut self, now: Time, link: Link, alarm: Alarm) {
        match self.propose(link, &alarm) {
            Ok(_) => {
                self.isolated.push((now, link));
                let of_day = self
                    .isolated
                    .iter()
                    .filter(|(at, _)| now.since(*at) < Duration::from_secs(86_400));
                let count = (of_day.count(), self.per_day);
                self.report(&Event::Isolates {
                    link: words(link),
                    alarm: cause(&alarm),
                    count,
                });
            }
            Err(error) if error.code == ErrorKind::Busy.code() || error.code == ErrorKind::NotYet.code() => {
                self.waiting.insert(alarm.id, alarm);
            }
            Err(error) => self.report(&Event::Stays {
                link: words(link),
                alarm: cause(&alarm),
                why: format!("{} ({})", error.message, error.code),
            }),
        }
    }

    /// Has the change planned and judged, and begins it.
    fn propose(&self, link: Link, alarm: &Alarm) -> Result<OutOfServiceChange, Error> {
        self.manager.propose_service(&OutOfServiceRequest {
            place: format!("{}[{}]", link.0.node, link.0.port),
            service: Service::Isolate.name().to_owned(),
            dry_run: false,
            force: false,
            reason: format!("{REASON}{}", cause(alarm)),
        })
    }

    fn report(&self, event: &Event) {
        let shared = &self.manager.shared;
        let now = shared.clock.now();
        shared.event(now, Severity::Warning, event.code(), &event.to_string());
    }
}

/// Returns what an alarm is about.
fn cause(alarm: &Alarm) -> String {
    let End { node, port } = alarm.id.at;
    format!("{} at {node}[{port}]", alarm.id.subject)
}

fn words(Link(a, b): Link) -> String {
    format!("{}[{}] - {}[{}]", a.node, a.port, b.node, b.port)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Instant;

    use selvedge_health::Since;
    use selvedge_sm::Mode;
    use selvedge_telemetry::Metric;
    use selvedge_telemetry::alarm::{Level, Subject};
    use selvedge_topology::Spec;
    use selvedge_types::NodeKind;

    use super::*;
    use crate::{Door, EmulationOptions, Options, Running, Service as _};

    fn wait_for<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> T {
        let begin = Instant::now();
        loop {
            if let Some(value) = found() {
                return value;
            }
            assert!(begin.elapsed() < Duration::from_secs(60), "no {what}");
            thread::yield_now();
        }
    }

    fn running(per_day: u32) -> Running {
        let Spec::Generated(recipe) = "karytree:k=3,n=2".parse().unwrap() else {
            unreachable!("a generator")
        };
        let door = Door::Emulated {
            fabric: Arc::new(recipe.fabric().unwrap()),
            options: EmulationOptions::default(),
            name: "test".to_owned(),
        };
        let mut options = Options::new(Mode::Manage, door);
        options.settings.telemetry_choices.isolate_per_day = per_day;
        let running = crate::start(options).unwrap();
        wait_for("inventory", || {
            let snapshot = running.manager.shared.telemetry.snapshot();
            (!snapshot.inventory.nodes.is_empty()).then_some(())
        });
        running
    }

    /// Returns ports of switches: of links between switches, or of links of hosts.
    fn ends(manager: &Manager, to: NodeKind) -> Vec<End> {
        let inventory = &manager.shared.telemetry.snapshot().inventory;
        let switches = inventory.nodes.iter().filter(|(_, node)| node.kind == NodeKind::Switch);
        let ports = switches.flat_map(|(guid, node)| node.ports.iter().map(|port| (*guid, port)));
        let ends = ports.filter_map(|(node, port)| {
            let peer = inventory.nodes.get(&port.peer?.node)?;
            let end = End { node, port: port.num };
            (peer.kind == to).then_some(end)
        });
        ends.collect()
    }

    fn alarm(manager: &Manager, at: End) -> AlarmNews {
        let inventory = &manager.shared.telemetry.snapshot().inventory;
        AlarmNews::Began(Alarm {
            id: AlarmId {
                at,
                subject: Subject::Counter(Metric::SymbolErrors),
            },
            peer: inventory.port(at).and_then(|port| port.peer),
            level: Level::Critical,
            since: Since::default(),
            last: Since::default(),
            evidence: "many".to_owned(),
            clears: "few".to_owned(),
            ack: None,
        })
    }

    fn texts(manager: &Manager, code: &str) -> Vec<String> {
        let events = manager.events(0).events.into_iter();
        events
            .filter(|event| event.code == code)
            .map(|event| event.text)
            .collect()
    }

    #[test]
    fn a_bad_link_is_isolated_and_the_budget_holds() {
        let running = running(1);
        let manager = &running.manager;
        let telemetry = &manager.shared.telemetry;
        let (links, hosts) = (ends(manager, NodeKind::Switch), ends(manager, NodeKind::Ca));
        telemetry.alarmed(&alarm(manager, hosts[0]));
        telemetry.alarmed(&alarm(manager, links[0]));
        let place = wait_for("a place", || manager.show_service().ok()?.places.into_iter().next());
        assert_eq!((place.kind.as_str(), place.service.as_str()), ("link", "isolate"));
        assert!(place.reason.starts_with("alarm: SymbolErrorCounter at "), "{place:?}");
        let told = wait_for("event", || texts(manager, "SLV-TELEMETRY-0231").into_iter().next());
        assert!(told.contains("(1 of 1 within 24 hours)"), "{told}");
        wait_for("the end of the change", || {
            let list = manager.show_service().unwrap();
            (list.places[0].state == "out").then_some(())
        });
        // The same link again, and another one for which there is no budget.
        telemetry.alarmed(&alarm(manager, links[0]));
        let other = *links.last().unwrap();
        telemetry.alarmed(&alarm(manager, other));
        let told = wait_for("event", || texts(manager, "SLV-TELEMETRY-0232").into_iter().next());
        assert!(told.contains("the budget of 1 within 24 hours is spent"), "{told}");
        assert_eq!(manager.show_service().unwrap().count, 1);
        assert_eq!(texts(manager, "SLV-TELEMETRY-0232").len(), 1);
        assert_eq!(isolated_before(manager).len(), 1, "a successor knows what was spent");
        running.manager.stop();
        running.join().unwrap();
    }

    #[test]
    fn a_link_that_is_needed_stays() {
        let running = running(100);
        let manager = &running.manager;
        let links = ends(manager, NodeKind::Switch);
        let first = links[0].node;
        // All links of a switch but the last: then nothing else leads to it.
        for end in links.iter().filter(|end| end.node == first) {
            let done = || texts(manager, "SLV-TELEMETRY-0231").len() + texts(manager, "SLV-TELEMETRY-0232").len();
            let before = done();
            manager.shared.telemetry.alarmed(&alarm(manager, *end));
            wait_for("the decision", || (done() > before).then_some(()));
            wait_for("the end of the change", || {
                let list = manager.show_service().ok()?;
                list.places.iter().all(|place| place.state != "moving").then_some(())
            });
        }
        let stays = texts(manager, "SLV-TELEMETRY-0232");
        assert_eq!(
            (texts(manager, "SLV-TELEMETRY-0231").len(), stays.len()),
            (2, 1),
            "{stays:?}"
        );
        assert!(stays[0].contains("SLV-API-0013"), "{stays:?}");
        running.manager.stop();
        running.join().unwrap();
    }

    #[test]
    fn nothing_is_isolated_by_default() {
        let running = running(0);
        let manager = &running.manager;
        let links = ends(manager, NodeKind::Switch);
        manager.shared.telemetry.alarmed(&alarm(manager, links[0]));
        assert_eq!(manager.show_service().unwrap().count, 0);
        assert!(start(manager.clone(), 0).unwrap().is_none());
        running.manager.stop();
        running.join().unwrap();
    }
}
