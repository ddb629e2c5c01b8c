//! The window.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use selvedge_sim::Time;
use selvedge_types::TransactionId;
use selvedge_wire::{Address, Class, Datagram, MAD_LEN, Mad};

/// An agent, as the user numbers them: requests to one agent share its limit. Numbers are dense, from 0: room is kept
/// for all up to the highest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AgentId(pub u32);

impl AgentId {
    /// Whoever answers: a request to a node that is not known yet shares no limit with others.
    pub const UNKNOWN: Self = Self(u32::MAX);
}

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

/// A datagram to send.
#[derive(Clone, Copy, Debug)]
pub struct Sent<'a> {
    /// The datagram, its transaction id filled in.
    pub datagram: &'a Datagram,
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

/// A place for a request in flight; places are used again, so that a busy window stays in the cache.
#[derive(Debug)]
struct Flight<T> {
    id: u32,
    /// `None`: the place is free.
    token: Option<T>,
    request: Datagram,
    agent: AgentId,
    repeats: u8,
    /// In the window since; `None` while waiting to be repeated.
    sent_at: Option<Time>,
    counts: bool,
}

#[derive(Debug)]
struct Agent<T> {
    waiting: VecDeque<T>,
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

/// A request, and where it is if it is still in flight.
#[derive(Clone, Copy, Debug)]
struct Key {
    id: u32,
    place: u32,
}

/// Somebody's turn to send.
#[derive(Debug)]
enum Turn<T> {
    /// An agent with something to send and room for it.
    Agent(AgentId),
    /// A request that shares no limit.
    Alone(T),
}

/// Requests waiting, in flight and ended.
///
/// What waits is a token only: its datagram is written when its turn comes, so that a queue of thousands costs no
/// copies of 256 bytes each.
#[derive(Debug)]
pub struct Exchange<T> {
    config: ExchangeConfig,
    /// By [`AgentId`].
    agents: Vec<Agent<T>>,
    ready: VecDeque<Turn<T>>,
    /// Requests to send again.
    repeats: VecDeque<Key>,
    /// Places by transaction id.
    in_flight: BTreeMap<u32, u32>,
    flights: Vec<Flight<T>>,
    /// Places that are free.
    free: Vec<u32>,
    /// Sent requests in order of sending, with their time: time-outs come off the front.
    by_age: VecDeque<(Time, Key)>,
    /// As `by_age`, until they are stale.
    fresh: VecDeque<(Time, Key)>,
    window_used: usize,
    waiting: usize,
    next_id: u32,
    counters: Counters,
}

impl<T> Exchange<T> {
    /// An empty exchange.
    #[must_use]
    pub const fn new(config: ExchangeConfig) -> Self {
        Self {
            config,
            agents: Vec::new(),
            ready: VecDeque::new(),
            repeats: VecDeque::new(),
            in_flight: BTreeMap::new(),
            flights: Vec::new(),
            free: Vec::new(),
            by_age: VecDeque::new(),
            fresh: VecDeque::new(),
            window_used: 0,
            waiting: 0,
            next_id: 1,
            counters: Counters {
                sent: 0,
                repeats: 0,
                answered: 0,
                failed: 0,
                stray: 0,
            },
        }
    }

    /// Queues a request; its datagram is asked for when its turn comes.
    pub fn submit(&mut self, agent: AgentId, token: T) {
        self.waiting += 1;
        if agent == AgentId::UNKNOWN {
            self.ready.push_back(Turn::Alone(token));
            return;
        }
        let index = agent.0 as usize;
        if self.agents.len() <= index {
            self.agents.resize_with(index + 1, Agent::default);
        }
        let state = &mut self.agents[index];
        state.waiting.push_back(token);
        if !state.queued && state.in_flight < self.config.agent_window.max(1) {
            state.queued = true;
            self.ready.push_back(Turn::Agent(agent));
        }
    }

    /// The next datagram to send now, if the window allows one. `write` writes the datagram of a token over
    /// an older one; its transaction id is ours to choose.
    pub fn next_to_send(&mut self, now: Time, write: impl FnOnce(&T, &mut Datagram)) -> Option<Sent<'_>> {
        self.forget_stale(now);
        if self.window_used >= self.config.window.max(1) {
            return None;
        }
        let (key, repeat) = match self.next_repeat() {
            Some(key) => (key, true),
            None => (self.next_new(write)?, false),
        };
        self.window_used += 1;
        self.by_age.push_back((now, key));
        self.fresh.push_back((now, key));
        self.counters.sent += 1;
        self.counters.repeats += u64::from(repeat);
        let flight = &mut self.flights[key.place as usize];
        flight.sent_at = Some(now);
        flight.counts = true;
        Some(Sent {
            datagram: &flight.request,
            timeout: self.config.timeout,
            repeat,
        })
    }

    /// Takes an answer and gives the token it ends; `None` if it answers no request in flight (late, duplicate, or not
    /// ours).
    pub fn received(&mut self, mad: &Mad) -> Option<T> {
        let Some(key) = self.find(mad) else {
            self.counters.stray += 1;
            return None;
        };
        self.counters.answered += 1;
        self.end(key)
    }

    /// Takes a request that the layer below handed back unanswered: it is repeated, or has failed, and its token is
    /// given back.
    pub fn returned(&mut self, mad: &Mad) -> Option<T> {
        let key = self.find(mad)?;
        self.repeat_or_fail(key)
    }

    /// Repeats what has waited too long, or gives the token of what has failed; call until it gives `None`.
    pub fn expired(&mut self, now: Time) -> Option<T> {
        while let Some(&(sent_at, key)) = self.by_age.front() {
            let current = is_since(&self.flights, key, sent_at);
            if current && now.since(sent_at) < self.config.timeout {
                return None;
            }
            self.by_age.pop_front();
            if !current {
                continue;
            }
            if let Some(token) = self.repeat_or_fail(key) {
                return Some(token);
            }
        }
        None
    }

    /// When [`Self::expired`] or [`Self::next_to_send`] should be called next, if nothing else happens.
    #[must_use]
    pub fn next_wake(&self) -> Option<Time> {
        let live = |&&(sent_at, key): &&(Time, Key)| is_since(&self.flights, key, sent_at);
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
        self.waiting + self.in_flight.len()
    }

    /// Drops every request; answers to them become strays.
    pub fn clear(&mut self) {
        self.agents.clear();
        self.ready.clear();
        self.repeats.clear();
        self.in_flight.clear();
        self.flights.clear();
        self.free.clear();
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

    fn next_repeat(&mut self) -> Option<Key> {
        while let Some(key) = self.repeats.pop_front() {
            if is_in_flight(&self.flights, key) {
                return Some(key);
            }
        }
        None
    }

    /// The token whose turn it is.
    fn next_turn(&mut self) -> Option<(AgentId, T)> {
        let agent = match self.ready.pop_front()? {
            Turn::Alone(token) => return Some((AgentId::UNKNOWN, token)),
            Turn::Agent(agent) => agent,
        };
        let state = &mut self.agents[agent.0 as usize];
        state.queued = false;
        let token = state.waiting.pop_front()?;
        state.in_flight += 1;
        if !state.waiting.is_empty() && state.in_flight < self.config.agent_window.max(1) {
            state.queued = true;
            self.ready.push_back(Turn::Agent(agent));
        }
        Some((agent, token))
    }

    fn next_new(&mut self, write: impl FnOnce(&T, &mut Datagram)) -> Option<Key> {
        let (agent, token) = self.next_turn()?;
        self.waiting -= 1;
        let id = self.fresh_id();
        let place = self.free_place();
        let flight = &mut self.flights[place as usize];
        write(&token, &mut flight.request);
        flight.request.mad.set_transaction(TransactionId(u64::from(id)));
        flight.id = id;
        flight.token = Some(token);
        flight.agent = agent;
        flight.repeats = 0;
        flight.sent_at = None;
        flight.counts = false;
        self.in_flight.insert(id, place);
        Some(Key { id, place })
    }

    fn free_place(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.flights.push(Flight {
                id: 0,
                token: None,
                request: Datagram {
                    address: Address::DIRECTED,
                    mad: Mad::from_bytes([0; MAD_LEN]),
                },
                agent: AgentId::UNKNOWN,
                repeats: 0,
                sent_at: None,
                counts: false,
            });
            u32::try_from(self.flights.len() - 1).unwrap_or(u32::MAX)
        })
    }

    /// Ids count up and skip 0 and those in flight, so a late answer does not hit a newer request.
    fn fresh_id(&mut self) -> u32 {
        while self.next_id == 0 || self.in_flight.contains_key(&self.next_id) {
            self.next_id = self.next_id.wrapping_add(1);
        }
        let id = self.next_id;
        self.next_id = self.next_id.wrapping_add(1);
        id
    }

    /// The request this datagram belongs to: same id, class, attribute, modifier and directed route. Ids begin at 1 in
    /// every process, so an answer that an agent held back may meet a request of the process that came after.
    fn find(&self, mad: &Mad) -> Option<Key> {
        let id = u32::try_from(mad.transaction().0 & 0xFFFF_FFFF).ok()?;
        let place = *self.in_flight.get(&id)?;
        let flight = self.flights.get(place as usize).filter(|f| f.sent_at.is_some())?;
        let request = &flight.request.mad;
        let same = (request.class(), request.attribute(), request.modifier())
            == (mad.class(), mad.attribute(), mad.modifier());
        let same_way = request.class() != Class::SubnDirected || request.same_route(mad);
        (same && same_way).then_some(Key { id, place })
    }

    fn repeat_or_fail(&mut self, key: Key) -> Option<T> {
        let flight = &mut self.flights[key.place as usize];
        if flight.repeats >= self.config.retries {
            self.counters.failed += 1;
            return self.end(key);
        }
        flight.repeats += 1;
        flight.sent_at = None;
        if flight.counts {
            flight.counts = false;
            self.window_used -= 1;
        }
        self.repeats.push_back(key);
        None
    }

    fn end(&mut self, key: Key) -> Option<T> {
        self.in_flight.remove(&key.id);
        self.free.push(key.place);
        let flight = &mut self.flights[key.place as usize];
        if flight.counts {
            self.window_used -= 1;
        }
        if let Some(state) = self.agents.get_mut(flight.agent.0 as usize) {
            state.in_flight -= 1;
            if !state.waiting.is_empty() && !state.queued {
                state.queued = true;
                self.ready.push_back(Turn::Agent(flight.agent));
            }
        }
        flight.token.take()
    }

    /// Requests that waited longer than `stale_after` make room in the window.
    fn forget_stale(&mut self, now: Time) {
        while let Some(&(sent_at, key)) = self.fresh.front() {
            let current = is_since(&self.flights, key, sent_at);
            if current && now.since(sent_at) < self.config.stale_after {
                break;
            }
            self.fresh.pop_front();
            let flight = &mut self.flights[key.place as usize];
            if current && flight.counts {
                flight.counts = false;
                self.window_used -= 1;
            }
        }
        // Ended requests behind the first live one: keep the queues bounded by the window.
        let bound = 4 * (self.in_flight.len() + self.config.window);
        for queue in [&mut self.fresh, &mut self.by_age] {
            if queue.len() > bound {
                queue.retain(|&(at, key)| is_since(&self.flights, key, at));
            }
        }
    }
}

/// True if a request has not ended.
fn is_in_flight<T>(flights: &[Flight<T>], key: Key) -> bool {
    let flight = flights.get(key.place as usize);
    flight.is_some_and(|flight| flight.id == key.id && flight.token.is_some())
}

/// True if a request is in flight since `at`, not sent again or ended since.
fn is_since<T>(flights: &[Flight<T>], key: Key, at: Time) -> bool {
    is_in_flight(flights, key) && flights[key.place as usize].sent_at == Some(at)
}

#[cfg(test)]
mod tests {
    use selvedge_types::PortNum;
    use selvedge_wire::{AttributeId, DirectedRoute, Method};

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
        std::iter::from_fn(|| {
            exchange
                .next_to_send(now, |&token, place| *place = get(token))
                .map(|s| *s.datagram)
        })
        .collect()
    }

    fn modifiers(sent: &[Datagram]) -> Vec<u32> {
        sent.iter().map(|d| d.mad.modifier()).collect()
    }

    #[test]
    fn two_limits_and_fair_agents() {
        let mut ex = Exchange::new(CONFIG);
        for i in 0..4 {
            ex.submit(AgentId(0), i);
        }
        for i in 10..13 {
            ex.submit(AgentId(1), i);
        }
        let sent = drain(&mut ex, Time::ZERO);
        assert_eq!(modifiers(&sent), [0, 10, 1, 11], "two a agent, in turn");
        assert_eq!(ex.received(&answer(&sent[0]).mad).unwrap(), 0);
        assert_eq!(modifiers(&drain(&mut ex, Time::ZERO)), [2]);
        assert_eq!(ex.open(), 6);
    }

    #[test]
    fn strangers_share_no_limit() {
        let mut ex = Exchange::new(CONFIG);
        for i in 0..3 {
            ex.submit(AgentId::UNKNOWN, i);
        }
        ex.submit(AgentId(0), 10);
        assert_eq!(modifiers(&drain(&mut ex, Time::ZERO)), [0, 1, 2, 10]);
    }

    #[test]
    fn a_place_is_used_again() {
        let mut ex = Exchange::new(CONFIG);
        for i in 0..100 {
            ex.submit(AgentId(0), i);
            let sent = drain(&mut ex, Time::ZERO);
            assert_eq!(ex.received(&answer(&sent[0]).mad), Some(i));
        }
        assert_eq!((ex.flights.len(), ex.free.len()), (1, 1));
    }

    #[test]
    fn answers_count_once() {
        let mut ex = Exchange::new(CONFIG);
        ex.submit(AgentId(0), 1);
        let sent = drain(&mut ex, Time::ZERO);
        assert_eq!(ex.received(&answer(&sent[0]).mad), Some(1));
        assert!(ex.received(&answer(&sent[0]).mad).is_none(), "a duplicate");
        let mut other = answer(&sent[0]);
        other.mad.set_transaction(TransactionId(99));
        assert!(ex.received(&other.mad).is_none());
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
        ex.submit(AgentId(0), 7);
        let sent = [*ex
            .next_to_send(Time::ZERO, |_, place| *place = along(&[1, 4]))
            .unwrap()
            .datagram];
        let mut stale = answer(&along(&[1, 3]));
        stale.mad.set_transaction(sent[0].mad.transaction());
        assert!(ex.received(&stale.mad).is_none(), "an answer to an earlier process");
        assert!(ex.received(&answer(&sent[0]).mad).is_some());
    }

    #[test]
    fn an_answer_with_another_attribute_is_no_answer() {
        let mut ex = Exchange::new(CONFIG);
        ex.submit(AgentId(0), 1);
        let sent = drain(&mut ex, Time::ZERO);
        let mut wrong = Mad::request(Class::SubnDirected, Method::GetResp, AttributeId::NODE_INFO, 1);
        wrong.set_transaction(sent[0].mad.transaction());
        assert!(ex.received(&wrong).is_none());
        assert_eq!(ex.open(), 1);
    }

    #[test]
    fn silence_is_repeated_then_fails() {
        let mut ex = Exchange::new(CONFIG);
        ex.submit(AgentId(0), 1);
        let mut now = Time::ZERO;
        for _ in 0..=CONFIG.retries {
            assert_eq!(drain(&mut ex, now).len(), 1);
            now = ex.next_wake().unwrap();
            if let Some(ended) = ex.expired(now) {
                assert_eq!(ended, 1);
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
        ex.submit(AgentId(0), 1);
        for _ in 0..CONFIG.retries {
            let sent = drain(&mut ex, Time::ZERO);
            assert!(ex.returned(&sent[0].mad).is_none());
        }
        let sent = drain(&mut ex, Time::ZERO);
        assert!(ex.returned(&sent[0].mad) == Some(1));
    }

    #[test]
    fn a_dead_agent_does_not_delay_others() {
        let mut ex = Exchange::new(CONFIG);
        for dead in 0..2 {
            for i in 0..2 {
                ex.submit(AgentId(dead), i);
            }
        }
        assert_eq!(
            drain(&mut ex, Time::ZERO).len(),
            4,
            "the window is full of requests nobody answers"
        );
        ex.submit(AgentId(9), 90);
        assert!(drain(&mut ex, Time::from_millis(9)).is_empty());
        assert_eq!(ex.next_wake(), Some(Time::from_millis(10)));
        assert_eq!(modifiers(&drain(&mut ex, Time::from_millis(10))), [90]);
    }

    #[test]
    fn a_late_answer_after_a_repeat_still_counts() {
        let mut ex = Exchange::new(CONFIG);
        ex.submit(AgentId(0), 1);
        let sent = drain(&mut ex, Time::ZERO);
        assert!(ex.expired(Time::from_millis(200)).is_none());
        drain(&mut ex, Time::from_millis(200));
        assert_eq!(ex.received(&answer(&sent[0]).mad), Some(1));
        assert_eq!(ex.open(), 0);
    }
}
