//! The window of outstanding requests.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use selvedge_sim::Time;
use selvedge_types::TransactionId;
use selvedge_wire::{Address, Class, Datagram, MAD_LEN, Mad, Method};

/// An agent, numbered by the user. Requests to one agent share its limit. Numbers are dense, from 0: memory is
/// allocated for all up to the highest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AgentId(pub u32);

impl AgentId {
    /// An unknown agent: a request to a node that is not known yet counts against no other agent's limit.
    pub const UNKNOWN: Self = Self(u32::MAX);
}

/// Bit of the transaction ids of requests that need no response; other requests count from 1 in 32 bits.
const ALONE: u64 = 1 << 32;

/// Limits of an [`Exchange`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExchangeConfig {
    /// Largest number of requests in flight to all agents; at least 1.
    pub window: usize,
    /// Largest number of requests in flight to one agent; at least 1.
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
    /// The datagram with its transaction id.
    pub datagram: &'a Datagram,
    /// How long the lower layer may wait before it returns the request.
    pub timeout: Duration,
    /// True if the datagram was sent before.
    pub repeat: bool,
}

/// Counters since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Requests sent, including repeats.
    pub sent: u64,
    /// Number of these requests that were Sets.
    pub sets: u64,
    /// Datagrams sent that need no response.
    pub alone: u64,
    /// Repeats.
    pub repeats: u64,
    /// Responses received.
    pub answered: u64,
    /// Requests that failed.
    pub failed: u64,
    /// Responses without a request in flight: late or duplicate.
    pub stray: u64,
    /// Datagrams received.
    pub received: u64,
    /// Datagrams received and dropped, without strays.
    pub dropped: u64,
}

/// A slot for a request in flight. Slots are reused, so that a busy window stays in the cache.
#[derive(Debug)]
struct Flight<T> {
    id: u32,
    /// `None`: the slot is free.
    token: Option<T>,
    request: Datagram,
    agent: AgentId,
    repeats: u8,
    /// When the request entered the window; `None` while it waits to be repeated.
    sent_at: Option<Time>,
    counts: bool,
}

#[derive(Debug)]
struct Agent<T> {
    waiting: VecDeque<T>,
    in_flight: usize,
    queued: bool,
    /// True if the agent has priority over others.
    is_first: bool,
    /// True if the agent is in the list `asked`.
    is_asked: bool,
}

impl<T> Default for Agent<T> {
    fn default() -> Self {
        Self {
            waiting: VecDeque::new(),
            in_flight: 0,
            queued: false,
            is_first: false,
            is_asked: false,
        }
    }
}

/// A request, and its slot if it is still in flight.
#[derive(Clone, Copy, Debug)]
struct Key {
    id: u32,
    place: u32,
}

/// An entry of the send queue.
#[derive(Debug)]
enum Turn<T> {
    /// An agent with requests to send, and room for one.
    Agent(AgentId),
    /// A request that shares no limit.
    Alone(T),
}

/// Requests that are waiting, in flight and ended.
///
/// A waiting request is only a token. Its datagram is written when its turn comes, so that a queue of thousands needs
/// no copies of 256 bytes each.
#[derive(Debug)]
pub struct Exchange<T> {
    config: ExchangeConfig,
    /// Agents, by [`AgentId`].
    agents: Vec<Agent<T>>,
    /// Agents with requests since the last `clear`: a fabric has thousands, and a repair uses few.
    asked: Vec<AgentId>,
    ready: VecDeque<Turn<T>>,
    /// Requests to send again.
    repeats: VecDeque<Key>,
    /// Slots by transaction id.
    in_flight: BTreeMap<u32, u32>,
    flights: Vec<Flight<T>>,
    /// Free slots.
    free: Vec<u32>,
    /// Sent requests with their time, oldest first; time-outs are taken from the front.
    by_age: VecDeque<(Time, Key)>,
    /// Like `by_age`, for requests that are younger than `stale_after`.
    fresh: VecDeque<(Time, Key)>,
    /// Requests dropped while in the window. They still count until `stale_after`, because they are on the wire.
    dropped: VecDeque<(Time, u32)>,
    window_used: usize,
    waiting: usize,
    next_id: u32,
    /// Number of the last request that needs no response.
    last_alone: u32,
    counters: Counters,
}

impl<T> Exchange<T> {
    /// Returns an empty exchange.
    #[must_use]
    pub const fn new(config: ExchangeConfig) -> Self {
        Self {
            config,
            agents: Vec::new(),
            asked: Vec::new(),
            ready: VecDeque::new(),
            repeats: VecDeque::new(),
            in_flight: BTreeMap::new(),
            flights: Vec::new(),
            free: Vec::new(),
            by_age: VecDeque::new(),
            fresh: VecDeque::new(),
            dropped: VecDeque::new(),
            window_used: 0,
            waiting: 0,
            next_id: 1,
            last_alone: 0,
            counters: Counters {
                sent: 0,
                sets: 0,
                alone: 0,
                repeats: 0,
                answered: 0,
                failed: 0,
                stray: 0,
                received: 0,
                dropped: 0,
            },
        }
    }

    /// Queues a request. Its datagram is written when it is the request's turn.
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
        if !std::mem::replace(&mut state.is_asked, true) {
            self.asked.push(agent);
        }
        state.waiting.push_back(token);
        if !state.queued && state.in_flight < self.config.agent_window.max(1) {
            state.queued = true;
            self.ready.push_back(Turn::Agent(agent));
        }
    }

    /// Gives an agent priority over others until none of its requests is waiting, as long as its own limit allows. This
    /// is meant for the agent with the most requests, which should never have to wait.
    pub fn put_first(&mut self, agent: AgentId) {
        if let Some(state) = self.agents.get_mut(agent.0 as usize) {
            state.is_first = !state.waiting.is_empty();
        }
    }

    /// Changes the largest number of requests in flight to one agent.
    pub fn set_agent_window(&mut self, agent_window: usize) {
        if agent_window == std::mem::replace(&mut self.config.agent_window, agent_window) {
            return;
        }
        for &agent in &self.asked {
            let state = &mut self.agents[agent.0 as usize];
            if !state.waiting.is_empty() && !state.queued && state.in_flight < agent_window.max(1) {
                state.queued = true;
                queue(&mut self.ready, agent, state.is_first);
            }
        }
    }

    /// Returns the next datagram to send, if the window allows one. `write` writes the datagram for a token into a
    /// buffer with an older datagram, and may record in the token what it wrote. The exchange then sets the transaction
    /// id.
    pub fn next_to_send(&mut self, now: Time, write: impl FnOnce(&mut T, &mut Datagram)) -> Option<Sent<'_>> {
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
        self.counters.sets += u64::from(flight.request.mad.method() == Method::Set);
        flight.sent_at = Some(now);
        flight.counts = true;
        Some(Sent {
            datagram: &flight.request,
            timeout: self.config.timeout,
            repeat,
        })
    }

    /// Handles a response and returns the token of the request; `None` if no such request is in flight, because the
    /// response is late, a duplicate, or meant for another sender.
    pub fn received(&mut self, mad: &Mad) -> Option<T> {
        let Some(key) = self.find(mad) else {
            self.counters.stray += 1;
            self.leave_window(mad);
            return None;
        };
        self.counters.answered += 1;
        self.end(key)
    }

    /// True if the request of this response was sent more than once: an earlier copy may still be in flight.
    #[must_use]
    pub fn was_repeated(&self, answer: &Mad) -> bool {
        self.find(answer)
            .is_some_and(|key| self.flights[key.place as usize].repeats > 0)
    }

    /// Handles a request that the lower layer returned without a response. The request is repeated; if it has no repeat
    /// left, it has failed, and its token is returned.
    pub fn returned(&mut self, mad: &Mad) -> Option<T> {
        let Some(key) = self.find(mad) else {
            self.leave_window(mad);
            return None;
        };
        self.repeat_or_fail(key)
    }

    /// Repeats requests after their time-out. If a request has no repeat left, returns its token. The caller repeats
    /// the call until it returns `None`.
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

    /// Returns when [`Self::expired`] or [`Self::next_to_send`] should be called next, if nothing else happens.
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
        let dropped = self.dropped.front().filter(|_| blocked);
        let dropped = dropped.map(|&(at, _)| at + self.config.stale_after);
        [time_out, stale, dropped].into_iter().flatten().min()
    }

    /// Returns the number of requests that have not ended, waiting or in flight.
    #[must_use]
    pub fn open(&self) -> usize {
        self.waiting + self.in_flight.len()
    }

    /// Removes and returns waiting tokens for which `is_taken` is true. Requests in flight stay.
    pub fn take_waiting(&mut self, is_taken: impl Fn(&T) -> bool) -> Vec<T> {
        let mut taken = Vec::new();
        for agent in &self.asked {
            let waiting = &mut self.agents[agent.0 as usize].waiting;
            for token in std::mem::take(waiting) {
                match is_taken(&token) {
                    true => taken.push(token),
                    false => waiting.push_back(token),
                }
            }
        }
        self.waiting -= taken.len();
        taken
    }

    /// Drops every request; responses to them are ignored. Requests that are in flight still count in the window until
    /// they are answered or stale.
    pub fn clear(&mut self) {
        for &(sent_at, key) in &self.fresh {
            if is_since(&self.flights, key, sent_at) && self.flights[key.place as usize].counts {
                self.dropped.push_back((sent_at, key.id));
            }
        }
        for agent in self.asked.drain(..) {
            self.agents[agent.0 as usize] = Agent::default();
        }
        self.ready.clear();
        self.repeats.clear();
        self.in_flight.clear();
        self.flights.clear();
        self.free.clear();
        self.by_age.clear();
        self.fresh.clear();
        self.window_used = self.dropped.len();
        self.waiting = 0;
    }

    /// Counts a datagram that needs no response.
    pub const fn sends_alone(&mut self) {
        self.counters.alone += 1;
    }

    /// Returns the transaction id of a request that needs no response. No other request has it.
    pub fn id_alone(&mut self) -> TransactionId {
        self.last_alone = self.last_alone.wrapping_add(1);
        TransactionId(ALONE | u64::from(self.last_alone))
    }

    /// Counts a received datagram.
    pub const fn comes_in(&mut self) {
        self.counters.received += 1;
    }

    /// Counts a received datagram that is dropped.
    pub const fn drops(&mut self) {
        self.counters.dropped += 1;
    }

    /// Returns the counters.
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

    /// Returns the token that is next.
    fn next_turn(&mut self) -> Option<(AgentId, T)> {
        let (agent, token) = loop {
            let agent = match self.ready.pop_front()? {
                Turn::Alone(token) => return Some((AgentId::UNKNOWN, token)),
                Turn::Agent(agent) => agent,
            };
            let state = &mut self.agents[agent.0 as usize];
            state.queued = false;
            // The limit may have been lowered since.
            if state.in_flight >= self.config.agent_window.max(1) {
                continue;
            }
            // Its waiting tokens may have been taken back.
            if let Some(token) = state.waiting.pop_front() {
                break (agent, token);
            }
        };
        let state = &mut self.agents[agent.0 as usize];
        state.in_flight += 1;
        state.is_first &= !state.waiting.is_empty();
        if !state.waiting.is_empty() && state.in_flight < self.config.agent_window.max(1) {
            state.queued = true;
            queue(&mut self.ready, agent, state.is_first);
        }
        Some((agent, token))
    }

    fn next_new(&mut self, write: impl FnOnce(&mut T, &mut Datagram)) -> Option<Key> {
        let (agent, mut token) = self.next_turn()?;
        self.waiting -= 1;
        let id = self.fresh_id();
        let place = self.free_place();
        let flight = &mut self.flights[place as usize];
        write(&mut token, &mut flight.request);
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

    /// Ids count up and skip 0 and those in flight, so that a late response does not match a newer request.
    fn fresh_id(&mut self) -> u32 {
        while self.next_id == 0 || self.in_flight.contains_key(&self.next_id) {
            self.next_id = self.next_id.wrapping_add(1);
        }
        let id = self.next_id;
        self.next_id = self.next_id.wrapping_add(1);
        id
    }

    /// Returns the request that a datagram belongs to: same id, class, attribute, modifier and directed route. Ids
    /// begin at 1 in every process, so a delayed response to an earlier process may have the id of a new request.
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
            let has_room = state.in_flight < self.config.agent_window.max(1);
            if !state.waiting.is_empty() && !state.queued && has_room {
                state.queued = true;
                queue(&mut self.ready, flight.agent, state.is_first);
            }
        }
        flight.token.take()
    }

    /// Removes a dropped request from the window.
    fn leave_window(&mut self, mad: &Mad) {
        let id = u32::try_from(mad.transaction().0 & 0xFFFF_FFFF).ok();
        if let Some(at) = self.dropped.iter().position(|(_, dropped)| Some(*dropped) == id) {
            self.dropped.remove(at);
            self.window_used -= 1;
        }
    }

    /// Removes requests older than `stale_after` from the window.
    fn forget_stale(&mut self, now: Time) {
        while let Some(&(sent_at, _)) = self.dropped.front() {
            if now.since(sent_at) < self.config.stale_after {
                break;
            }
            self.dropped.pop_front();
            self.window_used -= 1;
        }
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
        // Removes ended requests behind the first live one, so that the size of the window limits the queues.
        let bound = 4 * (self.in_flight.len() + self.config.window);
        for queue in [&mut self.fresh, &mut self.by_age] {
            if queue.len() > bound {
                queue.retain(|&(at, key)| is_since(&self.flights, key, at));
            }
        }
    }
}

/// Queues an agent with requests to send and room for one.
fn queue<T>(ready: &mut VecDeque<Turn<T>>, agent: AgentId, is_first: bool) {
    let turn = Turn::Agent(agent);
    match is_first {
        true => ready.push_front(turn),
        false => ready.push_back(turn),
    }
}

/// True if a request has not ended.
fn is_in_flight<T>(flights: &[Flight<T>], key: Key) -> bool {
    let flight = flights.get(key.place as usize);
    flight.is_some_and(|flight| flight.id == key.id && flight.token.is_some())
}

/// True if a request has been in flight since `at` and was not repeated or ended since.
fn is_since<T>(flights: &[Flight<T>], key: Key, at: Time) -> bool {
    is_in_flight(flights, key) && flights[key.place as usize].sent_at == Some(at)
}

#[cfg(test)]
mod tests;
