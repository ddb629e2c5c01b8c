//! Limits how often one source occupies the manager.
//!
//! An [`Intake`] stands in front of [`Sm::handle`](crate::Sm::handle). The coordinator asks it about each datagram that
//! arrives, and calls it when its next timer is due. Traps of one kind from one source are a *flow* with limits of its
//! own:
//!
//! - The log names the first trap of a flow (SLV-SM-0016). One line an interval counts the others (SLV-SM-0090).
//! - The manager gets the first 32 traps at once, and one more each quarter of a second. That is enough to count how
//!   often a link flaps (`flap_downs`).
//! - A trap above that is held. The manager gets the newest held trap of the flow when the limit allows it, so it
//!   misses no change.
//! - A flow of more than 32 traps in an interval babbles (SLV-SM-0091). The manager gets one of its traps an interval,
//!   and intervals double from 1 s to 8 s. An interval with fewer traps ends it (SLV-SM-0092).
//!
//! Each trap is repressed, held or not: an agent that keeps to the standard stops repeating it. Commands of other
//! managers and requests that a manager does not serve have the same limits; datagrams above the limits are dropped.

mod event;

use std::collections::BTreeMap;
use std::time::Duration;

use selvedge_sim::Time;
use selvedge_types::Lid;
use selvedge_wire::{Attribute, AttributeId, Class, Datagram, Mad, Method, Notice, Trap};

use crate::event::Event;
use crate::smp::repress;
pub use event::IntakeEvent;

/// The shortest interval. An agent sends no trap twice within its SubnetTimeOut, 1 s by default.
const INTERVAL: Duration = Duration::from_secs(1);
/// The longest interval: below the 10 s between light sweeps, which find what a held trap would have reported.
const INTERVAL_MAX: Duration = Duration::from_secs(8);
/// Datagrams of a flow that the manager gets at once. This is enough for the traps of links of one switch that fail
/// together, and for a link that flaps until it is left out.
const BURST: u32 = 32;
/// Time after which the manager may get one more datagram of a flow.
const REFILL: Duration = Duration::from_millis(250);
/// Number of datagrams in an interval above which a flow babbles.
const BABBLE: u32 = BURST;
/// Number of flows that are counted separately. Further flows share one count for each kind.
const FLOWS_MAX: usize = 4_096;
/// The least time between two calls of [`Intake::wake`], which checks all flows.
const WAKE: Duration = Duration::from_millis(50);

/// The kind of a flow: what its datagrams have in common, besides their source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A trap of the standard, by its number.
    Trap(u16),
    /// Any other trap.
    OtherTrap,
    /// A command of another manager: a Set of SMInfo.
    Command,
    /// A request that a manager does not serve.
    Unserved,
}

/// A flow: datagrams of one kind from one source, which share a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Flow {
    lid: Lid,
    /// A number computed from the return path, for a source that sends by directed route.
    way: u64,
    kind: Kind,
}

/// The effects of the intake.
#[derive(Clone, Debug)]
pub enum IntakeOut {
    /// Send the answer to a trap that the manager does not get.
    Repress(Datagram),
    /// Report this event.
    Event(Event),
}

/// A source that sends too much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Babbler {
    /// The LID of the source; permissive if it sends by directed route.
    pub lid: Lid,
    /// The kind of the flow's datagrams.
    pub kind: Kind,
    /// The port that the flow's last trap names, if it names one.
    pub port: Option<u8>,
    /// The time since which it babbles.
    pub since: Time,
    /// Number of datagrams since that time.
    pub came: u64,
}

/// The datagrams of one flow in this interval.
#[derive(Clone, Debug)]
struct Count {
    began: Time,
    length: Duration,
    came: u32,
    /// Number of these datagrams that were handed to the manager.
    handed: u32,
    /// Number of these datagrams that were named in the log.
    told: u32,
    /// Datagrams that the manager may get at once.
    tokens: u32,
    refilled: Time,
    /// The newest trap that the manager has not got.
    held: Option<Datagram>,
    babbler: Option<Babbler>,
}

/// The limits of all sources.
#[derive(Clone, Debug, Default)]
pub struct Intake {
    flows: BTreeMap<Flow, Count>,
    /// When [`Self::wake`] is due.
    next: Option<Time>,
    /// The M_Key with which traps are repressed, if the manager is the master.
    master: Option<u64>,
    accused: Vec<Babbler>,
    held: u64,
    /// When idle flows are next removed, if there are too many flows.
    prunes_at: Time,
}

impl Intake {
    /// Sets whether the manager is the master, and its M_Key. A manager that is not master ignores traps.
    pub const fn serve(&mut self, master: Option<u64>) {
        self.master = master;
    }

    /// Returns true if the manager must handle a datagram that has arrived. Appends further outputs.
    pub fn take(&mut self, now: Time, datagram: &Datagram, out: &mut Vec<IntakeOut>) -> bool {
        let Some(kind) = Kind::of(&datagram.mad) else {
            return true;
        };
        let flow = self.flow(now, datagram, kind);
        let count = self.flows.entry(flow).or_insert_with(|| Count::new(now));
        let is_first = count.arrives(now);
        let is_handed = count.babbler.is_none() && count.take_token(now);
        count.handed += u32::from(is_handed);
        if !is_handed && kind.is_trap() {
            count.held = Some(*datagram);
        }
        let begins = count.babbler.is_none() && count.came > BABBLE;
        if begins {
            let babbler = Babbler {
                lid: flow.lid,
                kind,
                port: named_port(datagram),
                since: count.began,
                came: 0,
            };
            count.babbler = Some(babbler);
            self.accused.push(babbler);
        }
        if let Some(due) = count.due() {
            self.next = Some(self.next.map_or(due, |next| next.min(due)));
        }
        self.held += u64::from(!is_handed);
        if let Some(m_key) = self.master.filter(|_| kind.is_trap()) {
            if is_first {
                let notice = Notice::parse(datagram.mad.smp_data());
                let what = notice.map(|notice| format!("from LID {}: {notice}", notice.issuer_lid));
                out.extend(what.map(|what| IntakeOut::Event(Event::Trap { what })));
            }
            if !is_handed {
                out.push(IntakeOut::Repress(repress(datagram, m_key)));
            }
        }
        if begins {
            out.push(IntakeOut::Event(Event::Intake(IntakeEvent::Babbles {
                lid: flow.lid,
                kind,
                most: BABBLE,
            })));
        }
        is_handed
    }

    /// Returns when [`Self::wake`] is due.
    #[must_use]
    pub const fn next_wake(&self) -> Option<Time> {
        self.next
    }

    /// Ends the intervals that are over. Returns the held traps that the manager must handle now.
    pub fn wake(&mut self, now: Time, out: &mut Vec<IntakeOut>) -> Vec<Datagram> {
        let mut again = Vec::new();
        if self.next.is_none_or(|at| at > now) {
            return again;
        }
        let (accused, is_master) = (&mut self.accused, self.master.is_some());
        self.flows.retain(|flow, count| {
            again.extend(count.release(now));
            if let Some(event) = count.end_interval(now, flow) {
                accused.extend(count.babbler);
                // Another manager's log reports traps that are not babble.
                if is_master || !matches!(event, IntakeEvent::More { .. }) {
                    out.push(IntakeOut::Event(Event::Intake(event)));
                }
            }
            !count.is_idle(now)
        });
        let first = self.flows.values().filter_map(Count::due).min();
        self.next = first.map(|at| at.max(now + WAKE));
        again
    }

    /// Returns the sources that babble now.
    pub fn babblers(&self) -> impl Iterator<Item = Babbler> + '_ {
        self.flows.values().filter_map(Count::babbling)
    }

    /// Returns the number of datagrams that were held or dropped since the start.
    #[must_use]
    pub const fn held(&self) -> u64 {
        self.held
    }

    /// Returns the sources that began to babble, or did so for another interval, since the last call.
    pub fn take_accused(&mut self) -> Vec<Babbler> {
        std::mem::take(&mut self.accused)
    }

    /// Returns the flow of a datagram. If there are too many flows, those of one kind share one.
    fn flow(&mut self, now: Time, datagram: &Datagram, kind: Kind) -> Flow {
        let (lid, way) = (datagram.address.lid, way_back(&datagram.mad));
        let flow = Flow { lid, way, kind };
        if self.flows.len() < FLOWS_MAX || self.flows.contains_key(&flow) {
            return flow;
        }
        if self.prunes_at <= now {
            self.prunes_at = now + WAKE;
            self.flows.retain(|_, count| !count.is_idle(now));
            if self.flows.len() < FLOWS_MAX {
                return flow;
            }
        }
        let (lid, way) = (Lid::NONE, 0);
        Flow { lid, way, kind }
    }
}

impl Kind {
    /// Returns the kind of a datagram; none if it has no limit: an answer, or a Get of SMInfo.
    fn of(mad: &Mad) -> Option<Self> {
        let is_sm_info = mad.attribute() == AttributeId::SM_INFO;
        match mad.method() {
            Method::GetResp => None,
            Method::Get if is_sm_info => None,
            Method::Set if is_sm_info => Some(Self::Command),
            Method::Trap => {
                let number = Notice::parse(mad.smp_data()).ok().and_then(|n| n.trap_number());
                let known = number.filter(|n| matches!(n, 64..=67 | 128..=131 | 144 | 145 | 256..=259));
                Some(known.map_or(Self::OtherTrap, Self::Trap))
            }
            _ => Some(Self::Unserved),
        }
    }

    /// Returns true for a trap.
    #[must_use]
    pub const fn is_trap(self) -> bool {
        matches!(self, Self::Trap(_) | Self::OtherTrap)
    }
}

impl Count {
    const fn new(now: Time) -> Self {
        Self {
            began: now,
            length: INTERVAL,
            came: 0,
            handed: 0,
            told: 0,
            tokens: BURST,
            refilled: now,
            held: None,
            babbler: None,
        }
    }

    /// Counts a datagram. Returns true if the log must name it.
    fn arrives(&mut self, now: Time) -> bool {
        if self.is_over(now) && self.due().is_none() {
            // That interval ended without an event, because no timer waited for it.
            self.begin_interval(now);
        }
        self.came = self.came.saturating_add(1);
        let is_first = self.came == 1 && self.babbler.is_none();
        self.told += u32::from(is_first);
        is_first
    }

    /// Takes a token, if there is one.
    fn take_token(&mut self, now: Time) -> bool {
        let more = now.since(self.refilled).as_nanos() / REFILL.as_nanos();
        let more = u32::try_from(more).unwrap_or(u32::MAX);
        if more > 0 {
            self.tokens = self.tokens.saturating_add(more).min(BURST);
            self.refilled = now;
        }
        let has_one = self.tokens > 0;
        self.tokens -= u32::from(has_one);
        has_one
    }

    /// Returns the held trap, if the manager may get it now.
    fn release(&mut self, now: Time) -> Option<Datagram> {
        let may = match self.babbler {
            Some(_) => self.is_over(now),
            None => self.held.is_some() && self.take_token(now),
        };
        let released = self.held.take_if(|_| may);
        self.handed += u32::from(released.is_some());
        released
    }

    /// Ends the interval if it is over. Returns the event that reports it, if any.
    fn end_interval(&mut self, now: Time, flow: &Flow) -> Option<IntakeEvent> {
        if !self.is_over(now) {
            return None;
        }
        let (lid, kind, within) = (flow.lid, flow.kind, now.since(self.began));
        let (more, held) = (self.came - self.told, self.came.saturating_sub(self.handed));
        let (came, goes_on) = (u64::from(self.came), self.came > BABBLE);
        self.begin_interval(now);
        if let Some(babbler) = &mut self.babbler {
            babbler.came += came;
            if !goes_on {
                let (came, lasted) = (babbler.came, now.since(babbler.since));
                self.babbler = None;
                self.length = INTERVAL;
                return Some(IntakeEvent::Calm {
                    lid,
                    kind,
                    came,
                    lasted,
                });
            }
            self.length = (self.length * 2).min(INTERVAL_MAX);
        }
        let is_worth_it = more > 0 && (kind.is_trap() || held > 0);
        is_worth_it.then_some(IntakeEvent::More {
            lid,
            kind,
            more,
            held,
            within,
        })
    }

    const fn begin_interval(&mut self, now: Time) {
        self.began = now;
        (self.came, self.handed, self.told) = (0, 0, 0);
    }

    fn is_over(&self, now: Time) -> bool {
        now.since(self.began) >= self.length
    }

    /// Returns when this flow needs attention next, if no datagram comes.
    fn due(&self) -> Option<Time> {
        let end = self.began + self.length;
        match (&self.held, self.babbler) {
            (Some(_), None) => Some(end.min(self.refilled + REFILL)),
            (_, Some(_)) => Some(end),
            (None, None) => (self.came > self.told).then_some(end),
        }
    }

    /// Returns true if this record can be dropped without loss.
    fn is_idle(&self, now: Time) -> bool {
        let is_past = self.came == 0 || self.is_over(now);
        is_past && self.due().is_none() && now.since(self.refilled) >= REFILL * BURST
    }

    fn babbling(&self) -> Option<Babbler> {
        let came = u64::from(self.came);
        self.babbler.map(|b| Babbler {
            came: b.came + came,
            ..b
        })
    }
}

/// Returns a number made of the route back to a source that sends by directed route; 0 for any other source.
fn way_back(mad: &Mad) -> u64 {
    if mad.class() != Class::SubnDirected {
        return 0;
    }
    let ports = (1..=mad.hop_count()).map(|hop| u64::from(mad.return_path(hop)));
    ports.fold(1, |way: u64, port| way.wrapping_mul(257).wrapping_add(port))
}

/// Returns the port of its own node that a trap names.
fn named_port(datagram: &Datagram) -> Option<u8> {
    match Notice::parse(datagram.mad.smp_data()).ok()?.trap()? {
        Trap::LinkIntegrity { port, .. } | Trap::BufferOverrun { port, .. } | Trap::FlowControl { port, .. } => {
            Some(port)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;
