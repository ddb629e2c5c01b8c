//! The book of alarms: which are there, since when, and which began, rose or cleared.

use core::fmt;
use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::Arc;

use selvedge_health::Since;
use selvedge_sim::Time;

use crate::alarm::sums::Sum;
use crate::alarm::{Ack, Alarm, AlarmId, AlarmRules, CounterRule, Ended, Level, Subject};
use crate::cable::BerEstimate;
use crate::congestion::{Cause, Congestion, Tree};
use crate::rates::Growth;
use crate::{End, Inventory, Metric};

/// What happens to the book.
#[derive(Clone, Debug)]
pub enum AlarmIn<'a> {
    /// The fabric as the manager knows it. A link that was up before and is not now has gone down once; alarms of nodes
    /// that have left end.
    Inventory(Arc<Inventory>),
    /// Counters of ports grew: those of a slot together, each counter once.
    Grown(&'a [Growth]),
    /// The bit error rates of links, each as the port at its end receives it.
    BitErrors(&'a [(End, BerEstimate)]),
    /// The congestion of the whole fabric in a slot.
    Congestion(&'a Congestion),
    /// An operator has seen an alarm. It is no condition of health any more, unless it rises.
    Acknowledge {
        /// The alarm.
        id: AlarmId,
        /// The operator.
        by: String,
        /// What the operator wrote.
        note: String,
    },
    /// An operator clears an alarm. It begins again with the next evidence.
    Clear(AlarmId),
    /// Alarms that were in force when an earlier run ended. Each keeps its begin, and its acknowledgement unless it has
    /// risen since. It has its whole time to live to be seen again. Those of nodes that have left end.
    Resume(Vec<Alarm>),
    /// These thresholds hold from now on. An alarm that is below them ends when its time to live has passed.
    Rules(Box<AlarmRules>),
    /// The time of [`AlarmBook::next_wake`] has come.
    Wake,
}

/// A change of the alarms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AlarmNews {
    /// SLV-TELEMETRY-0201: an alarm began.
    Began(Alarm),
    /// SLV-TELEMETRY-0202: an alarm rose to a higher level.
    Rose(Alarm),
    /// SLV-TELEMETRY-0203: an alarm ended.
    Cleared(Alarm, Ended),
    /// SLV-TELEMETRY-0204: an operator has acknowledged an alarm.
    Acknowledged(Alarm),
}

impl AlarmNews {
    /// Returns its code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Began(_) => "SLV-TELEMETRY-0201",
            Self::Rose(_) => "SLV-TELEMETRY-0202",
            Self::Cleared(..) => "SLV-TELEMETRY-0203",
            Self::Acknowledged(_) => "SLV-TELEMETRY-0204",
        }
    }

    /// Returns the alarm.
    #[must_use]
    pub const fn alarm(&self) -> &Alarm {
        match self {
            Self::Began(alarm) | Self::Rose(alarm) | Self::Cleared(alarm, _) | Self::Acknowledged(alarm) => alarm,
        }
    }
}

/// An alarm with the time when it is checked again.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Kept {
    alarm: Alarm,
    /// `None`: it stays until an operator clears it.
    check_at: Option<Time>,
}

/// Where a loss of a link is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Source {
    /// A counter of the port itself.
    Counter,
    /// LinkDownedCounter of this end of the link.
    Downed(End),
    /// The link was up in an inventory, and was not up in the next.
    Inventory,
}

/// What was measured.
struct Found {
    id: AlarmId,
    level: Level,
    evidence: String,
    clears: String,
}

/// All alarms.
#[derive(Clone, Debug, Default)]
pub struct AlarmBook {
    rules: AlarmRules,
    inventory: Arc<Inventory>,
    /// The last known other end of each port: it stays known while a link is down.
    peers: BTreeMap<End, End>,
    alarms: BTreeMap<AlarmId, Kept>,
    sums: BTreeMap<(AlarmId, Source), Sum>,
    /// Roots of congestion, with the time since when they are.
    congested: BTreeMap<End, Time>,
}

impl AlarmBook {
    /// Returns a book without alarms.
    #[must_use]
    pub fn new(rules: AlarmRules) -> Self {
        Self {
            rules,
            ..Self::default()
        }
    }

    /// Returns the alarms by port and subject.
    pub fn alarms(&self) -> impl Iterator<Item = &Alarm> {
        self.alarms.values().map(|kept| &kept.alarm)
    }

    /// Returns when the book wants to be called with [`AlarmIn::Wake`], if at all.
    #[must_use]
    pub fn next_wake(&self) -> Option<Time> {
        self.alarms.values().filter_map(|kept| kept.check_at).min()
    }

    /// The only way in.
    pub fn handle(&mut self, now: Time, input: AlarmIn<'_>, out: &mut Vec<AlarmNews>) {
        match input {
            AlarmIn::Inventory(inventory) => self.take_inventory(now, inventory, out),
            AlarmIn::Grown(all) => {
                for growth in all {
                    self.grown(now, growth, out);
                }
            }
            AlarmIn::BitErrors(all) => {
                for (end, estimate) in all {
                    if let Some(found) = self.bit_errors(*end, *estimate) {
                        self.raise(now, found, out);
                    }
                }
            }
            AlarmIn::Congestion(congestion) => self.take_congestion(now, congestion, out),
            AlarmIn::Acknowledge { id, by, note } => {
                if let Some(kept) = self.alarms.get_mut(&id) {
                    let at = Since::Run(now);
                    kept.alarm.ack = Some(Ack { at, by, note });
                    out.push(AlarmNews::Acknowledged(kept.alarm.clone()));
                }
            }
            AlarmIn::Clear(id) => {
                self.end(id, Ended::Operator, out);
                // Old evidence does not begin it again.
                self.sums.retain(|(of, _), _| *of != id);
            }
            AlarmIn::Resume(alarms) => {
                for alarm in alarms {
                    self.resume(now, alarm, out);
                }
            }
            AlarmIn::Rules(rules) => {
                self.rules = *rules;
                for (id, kept) in &mut self.alarms {
                    let latest = self.rules.check_at(now, id.subject);
                    kept.check_at = latest.map(|latest| kept.check_at.map_or(latest, |at| at.min(latest)));
                }
            }
            AlarmIn::Wake => {}
        }
        self.check(now, out);
    }

    // ---- inputs

    fn take_inventory(&mut self, now: Time, inventory: Arc<Inventory>, out: &mut Vec<AlarmNews>) {
        let before = core::mem::replace(&mut self.inventory, inventory);
        let mut lost: Vec<End> = Vec::new();
        for (guid, node) in &self.inventory.nodes {
            for port in &node.ports {
                let end = End {
                    node: *guid,
                    port: port.num,
                };
                self.peers.extend(port.peer.map(|peer| (end, peer)));
                let was_up = before.port(end).is_some_and(|port| port.is_up());
                if was_up && !port.is_up() {
                    lost.push(end);
                }
            }
        }
        // Both ends report the same loss.
        let mut links: Vec<AlarmId> = lost.into_iter().map(|end| self.link(end, Subject::Flaps)).collect();
        links.sort_unstable();
        links.dedup();
        for id in links {
            self.down(now, id, Source::Inventory, 1, out);
        }
        let nodes = &self.inventory.nodes;
        let is_gone = |id: &AlarmId| !nodes.contains_key(&id.at.node);
        let gone: Vec<AlarmId> = self.alarms.keys().filter(|id| is_gone(id)).copied().collect();
        self.sums.retain(|(id, _), _| nodes.contains_key(&id.at.node));
        self.peers.retain(|end, _| nodes.contains_key(&end.node));
        for id in gone {
            self.end(id, Ended::Gone, out);
        }
    }

    fn grown(&mut self, now: Time, growth: &Growth, out: &mut Vec<AlarmNews>) {
        let end = End {
            node: growth.key.node,
            port: growth.key.port,
        };
        let rules = self.rules.counters.iter();
        let grown = rules.filter_map(|(metric, rule)| {
            let grown = growth.metric(*metric).filter(|grown| *grown > 0)?;
            Some((*metric, *rule, grown))
        });
        // Nothing has grown at nearly all ports: no memory is taken then.
        let grown: Vec<(Metric, CounterRule, u64)> = grown.collect();
        for (metric, rule, grown) in grown {
            let subject = Subject::Counter(metric);
            let id = AlarmId { at: end, subject };
            let window = self.rules.window;
            let sum = self
                .sums
                .entry((id, Source::Counter))
                .or_default()
                .add(now, grown, window);
            let Some((begins_at, level)) = rule.level(sum) else {
                continue;
            };
            if sum >= begins_at || self.alarms.contains_key(&id) && sum >= rule.clears_below {
                let found = Found {
                    id,
                    level,
                    evidence: format!(
                        "{} grew by {sum} within {} s; the threshold is {}",
                        metric.iba_name(),
                        window.as_secs(),
                        begins_at
                    ),
                    clears: format!(
                        "it grows by less than {} within {} s",
                        rule.clears_below,
                        window.as_secs()
                    ),
                };
                self.raise(now, found, out);
            }
        }
        if let Some(downs) = growth.metric(Metric::LinkDowned).filter(|downs| *downs > 0) {
            let id = self.link(end, Subject::Flaps);
            self.down(now, id, Source::Downed(end), downs, out);
        }
    }

    /// A link went down. Both of its ends and the manager count it, so the largest count is the true one.
    fn down(&mut self, now: Time, id: AlarmId, source: Source, downs: u64, out: &mut Vec<AlarmNews>) {
        let window = self.rules.flap_window;
        self.sums.entry((id, source)).or_default().add(now, downs, window);
        let count = self.sum(now, id);
        if count >= self.rules.flaps {
            let found = Found {
                id,
                level: Level::Warning,
                evidence: format!("the link went down {count} times within {} s", window.as_secs()),
                clears: format!(
                    "it goes down less than {} times within {} s",
                    self.rules.flaps,
                    window.as_secs()
                ),
            };
            self.raise(now, found, out);
        }
    }

    fn bit_errors(&self, end: End, estimate: BerEstimate) -> Option<Found> {
        let AlarmRules {
            ber_max, ber_critical, ..
        } = self.rules;
        (estimate.low > ber_max).then(|| Found {
            id: AlarmId {
                at: end,
                subject: Subject::BitErrors,
            },
            level: if estimate.low > ber_critical {
                Level::Critical
            } else {
                Level::Warning
            },
            evidence: format!("bit error rate {estimate}; the limit is {ber_max:.0e}"),
            clears: format!("its bit error rate is not above {ber_max:.0e} with 95 % confidence"),
        })
    }

    fn take_congestion(&mut self, now: Time, congestion: &Congestion, out: &mut Vec<AlarmNews>) {
        let is_root = |end: &End| congestion.trees.iter().any(|tree| tree.root == *end);
        self.congested.retain(|end, _| is_root(end));
        for tree in &congestion.trees {
            let since = *self.congested.entry(tree.root).or_insert(now);
            self.peers.insert(tree.root, tree.to);
            if now.since(since) >= self.rules.congested_for {
                let found = Found {
                    id: AlarmId {
                        at: tree.root,
                        subject: Subject::Congestion,
                    },
                    level: Level::Info,
                    evidence: congestion_words(tree),
                    clears: "no port waits for this link".to_owned(),
                };
                self.raise(now, found, out);
            }
        }
    }

    fn resume(&mut self, now: Time, alarm: Alarm, out: &mut Vec<AlarmNews>) {
        let id = alarm.id;
        if let Some(kept) = self.alarms.get_mut(&id) {
            // There was evidence again before the stored alarm was known.
            kept.alarm.since = alarm.since;
            if kept.alarm.level <= alarm.level {
                kept.alarm.level = alarm.level;
                kept.alarm.ack = kept.alarm.ack.take().or(alarm.ack);
            }
            return;
        }
        if let Some(peer) = alarm.peer {
            self.peers.entry(id.at).or_insert(peer);
        }
        let check_at = self.rules.check_at(now, id.subject);
        self.alarms.insert(id, Kept { alarm, check_at });
        if !self.inventory.nodes.contains_key(&id.at.node) {
            self.end(id, Ended::Gone, out);
        }
    }

    // ---- alarms

    /// Returns the alarm of a link as a whole.
    fn link(&self, end: End, subject: Subject) -> AlarmId {
        let at = self.peers.get(&end).map_or(end, |peer| end.min(*peer));
        AlarmId { at, subject }
    }

    /// Returns what is in the window of an alarm now: of several sources, the largest count.
    fn sum(&mut self, now: Time, id: AlarmId) -> u64 {
        let window = match id.subject {
            Subject::Flaps => self.rules.flap_window,
            Subject::Counter(_) | Subject::BitErrors | Subject::Congestion => self.rules.window,
        };
        let last = (id, Source::Inventory);
        let sums = self.sums.range_mut((id, Source::Counter)..=last);
        sums.map(|(_, sum)| sum.at(now, window)).max().unwrap_or(0)
    }

    fn raise(&mut self, now: Time, found: Found, out: &mut Vec<AlarmNews>) {
        let Found {
            id,
            level,
            evidence,
            clears,
        } = found;
        let check_at = self.rules.check_at(now, id.subject);
        if let Some(kept) = self.alarms.get_mut(&id) {
            let has_risen = level > kept.alarm.level;
            kept.check_at = check_at;
            kept.alarm.last = Since::Run(now);
            kept.alarm.evidence = evidence;
            kept.alarm.clears = clears;
            if has_risen {
                kept.alarm.level = level;
                kept.alarm.ack = None;
                out.push(AlarmNews::Rose(kept.alarm.clone()));
            }
            return;
        }
        if self.alarms.len() >= self.rules.alarms_max && !self.make_room(level, out) {
            return;
        }
        let alarm = Alarm {
            id,
            peer: self.peers.get(&id.at).copied(),
            level,
            since: Since::Run(now),
            last: Since::Run(now),
            evidence,
            clears,
            ack: None,
        };
        out.push(AlarmNews::Began(alarm.clone()));
        self.alarms.insert(id, Kept { alarm, check_at });
    }

    /// Drops the newest alarm of the lowest level, if that is lower than `level`. False: there is none.
    fn make_room(&mut self, level: Level, out: &mut Vec<AlarmNews>) -> bool {
        let lower = self.alarms().filter(|alarm| alarm.level < level);
        let dropped = lower.min_by_key(|alarm| (alarm.level, core::cmp::Reverse(alarm.since), alarm.id));
        let Some(id) = dropped.map(|alarm| alarm.id) else {
            return false;
        };
        self.end(id, Ended::Dropped, out);
        true
    }

    fn end(&mut self, id: AlarmId, why: Ended, out: &mut Vec<AlarmNews>) {
        if let Some(kept) = self.alarms.remove(&id) {
            out.push(AlarmNews::Cleared(kept.alarm, why));
        }
    }

    /// Ends the alarms that are due and below their threshold.
    fn check(&mut self, now: Time, out: &mut Vec<AlarmNews>) {
        let due: Vec<AlarmId> = self
            .alarms
            .iter()
            .filter(|(_, kept)| kept.check_at.is_some_and(|at| at <= now))
            .map(|(id, _)| *id)
            .collect();
        for id in due {
            let sum = self.sum(now, id);
            let is_below = match id.subject {
                Subject::Counter(metric) => self
                    .rules
                    .counters
                    .get(&metric)
                    .is_none_or(|rule| sum < rule.clears_below.max(1)),
                Subject::Flaps => sum < self.rules.flaps,
                // Each estimate and each slot above the threshold has put the time off.
                Subject::BitErrors | Subject::Congestion => true,
            };
            if is_below {
                self.end(id, Ended::Below, out);
            } else if let Some(kept) = self.alarms.get_mut(&id) {
                kept.check_at = Some(now + (self.rules.window / 64).max(Duration::from_secs(1)));
            }
        }
        let longest = self.rules.window.max(self.rules.flap_window);
        self.sums.retain(|_, sum| {
            sum.at(now, longest);
            !sum.is_empty()
        });
    }
}

fn congestion_words(tree: &Tree) -> String {
    let (ports, hosts) = (tree.branches.len(), tree.hosts.len());
    let why = match tree.cause {
        Cause::Saturated => format!("the link is used at {:.0} %", 100.0 * tree.load.utilisation),
        Cause::SlowLink => format!(
            "the link is slower than those that feed it, and used at {:.0} %",
            100.0 * tree.load.utilisation
        ),
        Cause::SlowReceiver => format!(
            "the host accepts slowly: the port waits {:.0} % of the time for its credits",
            100.0 * tree.load.wait
        ),
        Cause::Cycle => "the ports wait for each other".to_owned(),
    };
    format!("{ports} ports wait for this link, {hosts} of them of hosts; {why}")
}

impl fmt::Display for Alarm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let AlarmId { at, subject } = self.id;
        write!(f, "{} at port {} of node {}", subject, at.port, at.node)?;
        if let Some(peer) = self.peer {
            write!(f, ", linked to port {} of node {}", peer.port, peer.node)?;
        }
        write!(f, ": {}", self.evidence)
    }
}

impl fmt::Display for AlarmNews {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let alarm = self.alarm();
        let level = alarm.level.name();
        write!(f, "{}: ", self.code())?;
        match self {
            Self::Began(_) => write!(f, "{level}: {alarm}; {}", alarm.id.subject.advice()),
            Self::Rose(_) => write!(f, "it is {level} now: {alarm}; {}", alarm.id.subject.advice()),
            Self::Cleared(_, why) => write!(f, "{alarm}: {why}"),
            Self::Acknowledged(_) => {
                let ack = alarm.ack.as_ref();
                let (by, note) = ack.map_or(("", ""), |ack| (&ack.by, &ack.note));
                write!(f, "acknowledged by {by}: {alarm}")?;
                if note.is_empty() {
                    Ok(())
                } else {
                    write!(f, "; note: {note}")
                }
            }
        }
    }
}
