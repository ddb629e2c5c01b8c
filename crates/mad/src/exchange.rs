//! The window.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use selvedge_sim::Time;
use selvedge_types::TransactionId;
use selvedge_wire::{Class, Datagram, Mad};

/// An agent, as the user numbers them: requests to one agent share its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AgentId(pub u32);

/// Limits of an [`Exchange`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExchangeConfig {
    /// Requests in flight in all; at least 1.
    pub window: usize,
    /// Requests in flight at one agent; at least 1.
    pub agent_window: usize,
    /// Time after which a request is repeated.
    pub timeout: Duration,
    /// Repeats before a request has failed.
    pub retries: u8,
    /// Time after which a request no longer counts against `window`.
    pub stale_after: Duration,
}

/// Why a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Nobody answered, all repeats included.
    Silent,
}

/// A request that ended.
#[derive(Clone, Debug)]
pub struct Ended<T> {
    /// What the user handed in with it.
    pub token: T,
    /// The request.
    pub request: Datagram,
    /// The answer, or why there is none.
    pub answer: Result<Datagram, Failure>,
}

/// A datagram to send.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    /// The datagram, its transaction id filled in.
    pub datagram: Datagram,
    /// How long the layer below may wait before it hands the request back.
    pub timeout: Duration,
    /// It was sent before.
    pub repeat: bool,
}

/// What happened so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Requests sent, repeats included.
    pub sent: u64,
    /// Repeats.
    pub repeats: u64,
    /// Answers taken.
    pub answered: u64,
    /// Requests that failed.
    pub failed: u64,
    /// Answers to no request in flight: late or duplicate.
    pub stray: u64,
}

#[derive(Debug)]
struct Flight<T> {
    token: T,
    request: Datagram,
    agent: AgentId,
    repeats: u8,
    /// In the window since; `None` while waiting to be repeated.
    sent_at: Option<Time>,
    counts: bool,
}

#[derive(Debug)]
struct Agent<T> {
    waiting: VecDeque<(Datagram, T)>,
    in_flight: usize,
    queued: bool,
}

impl<T> Default for Agent<T> {
    fn default() -> Self {
        Self {
            waiting: VecDeque::new(),
            in_flight: 0,
            queued: false,
        }
    }
}

/// Requests waiting, in flight and ended.
#[derive(Debug)]
pub struct Exchange<T> {
    config: ExchangeConfig,
    agents: BTreeMap<AgentId, Agent<T>>,
    /// Agents with something to send and room for it.
    ready: VecDeque<AgentId>,
    /// Transaction ids to send again.
    repeats: VecDeque<u32>,
    /// Boxed: a tree moves its values about, and a flight is 300 bytes.
    flights: BTreeMap<u32, Box<Flight<T>>>,
    /// Sent requests in order of sending, with their time: time-outs come off the front.
    by_age: VecDeque<(Time, u32)>,
    /// As `by_age`, until they are stale.
    fresh: VecDeque<(Time, u32)>,
    window_used: usize,
    waiting: usize,
    next_id: u32,
    counters: Counters,
}

impl<T> Exchange<T> {
    /// An empty exchange.
    #[must_use]
    pub fn new(config: ExchangeConfig) -> Self {
        Self {
            config,
            agents: BTreeMap::new(),
            ready: VecDeque::new(),
            repeats: VecDeque::new(),
            flights: BTreeMap::new(),
            by_age: VecDeque::new(),
            fresh: VecDeque::new(),
            window_used: 0,
            waiting: 0,
            next_id: 1,
            counters: Counters::default(),
        }
    }

    /// Queues a request. Its transaction id is ours to choose: whatever it holds is overwritten.
    pub fn submit(&mut self, agent: AgentId, request: Datagram, token: T) {
        let state = self.agents.entry(agent).or_default();
        state.waiting.push_back((request, token));
        self.waiting += 1;
        if !state.queued && state.in_flight < self.config.agent_window.max(1) {
            state.queued = true;
            self.ready.push_back(agent);
        }
    }

    /// The next datagram to send now, if the window allows one.
    pub fn next_to_send(&mut self, now: Time) -> Option<Sent> {
        self.forget_stale(now);
        if self.window_used >= self.config.window.max(1) {
            return None;
        }
        let (id, repeat) = match self.next_repeat() {
            Some(id) => (id, true),
            None => (self.next_new()?, false),
        };
        let flight = self.flights.get_mut(&id)?;
        flight.sent_at = Some(now);
        flight.counts = true;
        self.window_used += 1;
        self.by_age.push_back((now, id));
        self.fresh.push_back((now, id));
        self.counters.sent += 1;
        self.counters.repeats += u64::from(repeat);
        Some(Sent {
            datagram: flight.request,
            timeout: self.config.timeout,
            repeat,
        })
    }

    /// Takes an answer; `None` if it answers no request in flight (late, duplicate, or not ours).
    pub fn received(&mut self, datagram: &Datagram) -> Option<Ended<T>> {
        let Some(id) = self.find(&datagram.mad) else {
            self.counters.stray += 1;
            return None;
        };
        self.counters.answered += 1;
        self.end(id, Ok(*datagram))
    }

    /// Takes a request that the layer below handed back unanswered: it is repeated, or ends here.
    pub fn returned(&mut self, datagram: &Datagram) -> Option<Ended<T>> {
        let id = self.find(&datagram.mad)?;
        self.repeat_or_fail(id)
    }

    /// Ends or repeats what has waited too long; call until it gives `None`.
    pub fn expired(&mut self, now: Time) -> Option<Ended<T>> {
        while let Some(&(sent_at, id)) = self.by_age.front() {
            let current = self.flights.get(&id).is_some_and(|f| f.sent_at == Some(sent_at));
            if current && now.since(sent_at) < self.config.timeout {
                return None;
            }
            self.by_age.pop_front();
            if !current {
                continue;
            }
            if let Some(ended) = self.repeat_or_fail(id) {
                return Some(ended);
            }
        }
        None
    }

    /// When [`Self::expired`] or [`Self::next_to_send`] should be called next, if nothing else happens.
    #[must_use]
    pub fn next_wake(&self) -> Option<Time> {
        let live = |&&(sent_at, id): &&(Time, u32)| self.flights.get(&id).is_some_and(|f| f.sent_at == Some(sent_at));
        let time_out = self.by_age.iter().find(live).map(|&(at, _)| at + self.config.timeout);
        let blocked = self.window_used >= self.config.window.max(1) && (self.waiting > 0 || !self.repeats.is_empty());
        let stale = self
            .fresh
            .iter()
            .find(live)
            .filter(|_| blocked)
            .map(|&(at, _)| at + self.config.stale_after);
        [time_out, stale].into_iter().flatten().min()
    }

    /// Requests that have not ended, waiting or in flight.
    #[must_use]
    pub fn open(&self) -> usize {
        self.waiting + self.flights.len()
    }

    /// Drops every request; answers to them become strays.
    pub fn clear(&mut self) {
        self.agents.clear();
        self.ready.clear();
        self.repeats.clear();
        self.flights.clear();
        self.by_age.clear();
        self.fresh.clear();
        self.window_used = 0;
        self.waiting = 0;
    }

    /// What happened so far.
    #[must_use]
    pub const fn counters(&self) -> Counters {
        self.counters
    }

    fn next_repeat(&mut self) -> Option<u32> {
        while let Some(id) = self.repeats.pop_front() {
            if self.flights.contains_key(&id) {
                return Some(id);
            }
        }
        None
    }

    fn next_new(&mut self) -> Option<u32> {
        let limit = self.config.agent_window.max(1);
        let agent = self.ready.pop_front()?;
        let state = self.agents.get_mut(&agent)?;
        state.queued = false;
        let (mut request, token) = state.waiting.pop_front()?;
        state.in_flight += 1;
        if !state.waiting.is_empty() && state.in_flight < limit {
            state.queued = true;
            self.ready.push_back(agent);
        }
        self.waiting -= 1;
        let id = self.fresh_id();
        request.mad.set_transaction(TransactionId(u64::from(id)));
        self.flights.insert(
            id,
            Box::new(Flight {
                token,
                request,
                agent,
                repeats: 0,
                sent_at: None,
                counts: false,
            }),
        );
        Some(id)
    }

    /// Ids count up and skip 0 and those in flight, so a late answer does not hit a newer request.
    fn fresh_id(&mut self) -> u32 {
        while self.next_id == 0 || self.flights.contains_key(&self.next_id) {
            self.next_id = self.next_id.wrapping_add(1);
        }
        let id = self.next_id;
        self.next_id = self.next_id.wrapping_add(1);
        id
    }

    /// The request this datagram belongs to: same id, class, attribute, modifier and directed route. Ids begin at 1 in
    /// every process, so an answer that an agent held back may meet a request of the process that came after.
    fn find(&self, mad: &Mad) -> Option<u32> {
        let id = u32::try_from(mad.transaction().0 & 0xFFFF_FFFF).ok()?;
        let flight = self.flights.get(&id).filter(|f| f.sent_at.is_some())?;
        let request = &flight.request.mad;
        let same = (request.class(), request.attribute(), request.modifier())
            == (mad.class(), mad.attribute(), mad.modifier());
        let same_way = request.class() != Class::SubnDirected || request.route() == mad.route();
        (same && same_way).then_some(id)
    }

    fn repeat_or_fail(&mut self, id: u32) -> Option<Ended<T>> {
        let flight = self.flights.get_mut(&id)?;
        if flight.repeats >= self.config.retries {
            self.counters.failed += 1;
            return self.end(id, Err(Failure::Silent));
        }
        flight.repeats += 1;
        flight.sent_at = None;
        if flight.counts {
            flight.counts = false;
            self.window_used -= 1;
        }
        self.repeats.push_back(id);
        None
    }

    fn end(&mut self, id: u32, answer: Result<Datagram, Failure>) -> Option<Ended<T>> {
        let flight = self.flights.remove(&id)?;
        if flight.counts {
            self.window_used -= 1;
        }
        if let Some(state) = self.agents.get_mut(&flight.agent) {
            state.in_flight -= 1;
            if !state.waiting.is_empty() {
                if !state.queued {
                    state.queued = true;
                    self.ready.push_back(flight.agent);
                }
            } else if state.in_flight == 0 {
                self.agents.remove(&flight.agent);
            }
        }
        Some(Ended {
            token: flight.token,
            request: flight.request,
            answer,
        })
    }

    /// Requests that waited longer than `stale_after` make room in the window.
    fn forget_stale(&mut self, now: Time) {
        while let Some(&(sent_at, id)) = self.fresh.front() {
            let flight = self.flights.get_mut(&id).filter(|f| f.sent_at == Some(sent_at));
            if flight.is_some() && now.since(sent_at) < self.config.stale_after {
                break;
            }
            self.fresh.pop_front();
            if let Some(flight) = flight.filter(|f| f.counts) {
                flight.counts = false;
                self.window_used -= 1;
            }
        }
        // Ended requests behind the first live one: keep the queues bounded by the window.
        let bound = 4 * (self.flights.len() + self.config.window);
        if self.fresh.len() > bound {
            let flights = &self.flights;
            self.fresh
                .retain(|(at, id)| flights.get(id).is_some_and(|f| f.sent_at == Some(*at)));
        }
        if self.by_age.len() > bound {
            let flights = &self.flights;
            self.by_age
                .retain(|(at, id)| flights.get(id).is_some_and(|f| f.sent_at == Some(*at)));
        }
    }
}

#[cfg(test)]
mod tests {
    use selvedge_types::PortNum;
    use selvedge_wire::{Address, AttributeId, DirectedRoute, Method};

    use super::*;

    const CONFIG: ExchangeConfig = ExchangeConfig {
        window: 4,
        agent_window: 2,
        timeout: Duration::from_millis(200),
        retries: 2,
        stale_after: Duration::from_millis(10),
    };

    fn get(modifier: u32) -> Datagram {
        let mad = Mad::request(Class::SubnDirected, Method::Get, AttributeId::PORT_INFO, modifier);
        Datagram {
            address: Address::DIRECTED,
            mad,
        }
    }

    fn answer(sent: &Datagram) -> Datagram {
        let mut reply = *sent;
        reply.mad.set_method(Method::GetResp);
        reply
    }

    fn drain(exchange: &mut Exchange<u32>, now: Time) -> Vec<Datagram> {
        std::iter::from_fn(|| exchange.next_to_send(now).map(|s| s.datagram)).collect()
    }

    fn modifiers(sent: &[Datagram]) -> Vec<u32> {
        sent.iter().map(|d| d.mad.modifier()).collect()
    }

    #[test]
    fn two_limits_and_fair_agents() {
        let mut ex = Exchange::new(CONFIG);
        for i in 0..4 {
            ex.submit(AgentId(0), get(i), i);
        }
        for i in 10..13 {
            ex.submit(AgentId(1), get(i), i);
        }
        let sent = drain(&mut ex, Time::ZERO);
        assert_eq!(modifiers(&sent), [0, 10, 1, 11], "two a agent, in turn");
        assert_eq!(ex.received(&answer(&sent[0])).unwrap().token, 0);
        assert_eq!(modifiers(&drain(&mut ex, Time::ZERO)), [2]);
        assert_eq!(ex.open(), 6);
    }

    #[test]
    fn answers_count_once() {
        let mut ex = Exchange::new(CONFIG);
        ex.submit(AgentId(0), get(1), 7);
        let sent = drain(&mut ex, Time::ZERO);
        assert!(ex.received(&answer(&sent[0])).unwrap().answer.is_ok());
        assert!(ex.received(&answer(&sent[0])).is_none(), "a duplicate");
        let mut other = answer(&sent[0]);
        other.mad.set_transaction(TransactionId(99));
        assert!(ex.received(&other).is_none());
        assert_eq!(ex.counters().stray, 2);
    }

    #[test]
    fn an_answer_comes_by_the_same_route() {
        let mut ex = Exchange::new(CONFIG);
        let along = |ports: &[u8]| {
            let ports: Vec<PortNum> = ports.iter().map(|&p| PortNum::new(p).unwrap()).collect();
            let route = DirectedRoute::new(&ports).unwrap();
            let mad = Mad::directed(Method::Get, AttributeId::NODE_INFO, 0, &route);
            Datagram {
                address: Address::DIRECTED,
                mad,
            }
        };
        ex.submit(AgentId(0), along(&[1, 4]), 7);
        let sent = drain(&mut ex, Time::ZERO);
        let mut stale = answer(&along(&[1, 3]));
        stale.mad.set_transaction(sent[0].mad.transaction());
        assert!(ex.received(&stale).is_none(), "an answer to an earlier process");
        assert!(ex.received(&answer(&sent[0])).is_some());
    }

    #[test]
    fn an_answer_with_another_attribute_is_no_answer() {
        let mut ex = Exchange::new(CONFIG);
        ex.submit(AgentId(0), get(1), 7);
        let sent = drain(&mut ex, Time::ZERO);
        let mut wrong = Mad::request(Class::SubnDirected, Method::GetResp, AttributeId::NODE_INFO, 1);
        wrong.set_transaction(sent[0].mad.transaction());
        assert!(
            ex.received(&Datagram {
                address: Address::DIRECTED,
                mad: wrong
            })
            .is_none()
        );
        assert_eq!(ex.open(), 1);
    }

    #[test]
    fn silence_is_repeated_then_fails() {
        let mut ex = Exchange::new(CONFIG);
        ex.submit(AgentId(0), get(1), 7);
        let mut now = Time::ZERO;
        for _ in 0..=CONFIG.retries {
            assert_eq!(drain(&mut ex, now).len(), 1);
            now = ex.next_wake().unwrap();
            if let Some(ended) = ex.expired(now) {
                assert_eq!(ended.answer.unwrap_err(), Failure::Silent);
                assert_eq!(now, Time::from_millis(600));
                assert_eq!(ex.open(), 0);
                assert_eq!(ex.next_wake(), None);
                return;
            }
        }
        panic!("never failed");
    }

    #[test]
    fn a_handed_back_request_is_repeated_at_once() {
        let mut ex = Exchange::new(CONFIG);
        ex.submit(AgentId(0), get(1), 7);
        for _ in 0..CONFIG.retries {
            let sent = drain(&mut ex, Time::ZERO);
            assert!(ex.returned(&sent[0]).is_none());
        }
        let sent = drain(&mut ex, Time::ZERO);
        assert!(ex.returned(&sent[0]).unwrap().answer.is_err());
    }

    #[test]
    fn a_dead_agent_does_not_delay_others() {
        let mut ex = Exchange::new(CONFIG);
        for dead in 0..2 {
            for i in 0..2 {
                ex.submit(AgentId(dead), get(i), i);
            }
        }
        assert_eq!(
            drain(&mut ex, Time::ZERO).len(),
            4,
            "the window is full of requests nobody answers"
        );
        ex.submit(AgentId(9), get(90), 90);
        assert!(drain(&mut ex, Time::from_millis(9)).is_empty());
        assert_eq!(ex.next_wake(), Some(Time::from_millis(10)));
        assert_eq!(modifiers(&drain(&mut ex, Time::from_millis(10))), [90]);
    }

    #[test]
    fn a_late_answer_after_a_repeat_still_counts() {
        let mut ex = Exchange::new(CONFIG);
        ex.submit(AgentId(0), get(1), 7);
        let sent = drain(&mut ex, Time::ZERO);
        assert!(ex.expired(Time::from_millis(200)).is_none());
        drain(&mut ex, Time::from_millis(200));
        assert_eq!(ex.received(&answer(&sent[0])).unwrap().token, 7);
        assert_eq!(ex.open(), 0);
    }
}
