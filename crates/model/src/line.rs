//! Simulates a queue of requests: when each request is sent and when its response arrives.
//!
//! All times of this crate come from this recursion. A request is sent when (1) fewer than `window` are in flight, (2)
//! fewer than `agent_window` of them are for its agent, and (3) all earlier ones have been sent. It is served when it
//! has arrived and its agent, a serial server, is free. Its response takes the same path back. A request that finds its
//! agent's queue full is lost and sent once more after the time-out.
//!
//! The responses are in one sorted list, usually of at most `window` entries. So a request takes about 30 ns, however
//! large the fabric is.

use std::collections::VecDeque;

use crate::Cost;

/// A request. The simulation needs only its destination; the caller interprets the contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    /// The node of the agent.
    pub node: u32,
    /// Number of links to the destination.
    pub hops: u16,
    /// The port in the request.
    pub port: u8,
    /// Kind of request.
    pub kind: Kind,
}

/// Kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// NodeInfo of a node that the manager does not know yet; it counts against no agent's limit. `port`: the port by
    /// which the node is entered.
    Node,
    /// SwitchInfo.
    Switch,
    /// PortInfo.
    Port,
    /// Any other request. No further requests follow from it.
    Other,
}

/// Largest number of repeats of a request before it counts as failed: the default of both managers.
pub(crate) const REPEATS_MAX: u8 = 3;
/// End of a list in `items`.
const NONE: u32 = u32::MAX;

/// Requests waiting for one agent.
#[derive(Clone, Copy)]
struct Agent {
    head: u32,
    tail: u32,
    on_way: u32,
    /// True if the agent is in the queue of agents that may get a request.
    queued: bool,
    /// Time when the agent will have served all requests sent to it, in ns.
    free_at: u64,
}

#[derive(Clone, Copy)]
enum Turn {
    Agent(u32),
    Alone(Request),
}

#[derive(Clone, Copy)]
struct Flight {
    request: Request,
    /// True if the request counts in the window.
    counts: bool,
    serial: u32,
    /// Number of repeats.
    repeats: u8,
}

/// A response in transit, or the time-out of a lost request. Time, serial number, slot and whether it was lost are
/// packed into one number, because comparisons are most of the work.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Event(u128);

impl Event {
    const fn new(at: u64, serial: u32, place: u32, lost: bool) -> Self {
        Self((at as u128) << 64 | (serial as u128) << 32 | (place as u128) << 1 | lost as u128)
    }

    /// Returns the time, the slot of the request, and whether the request is lost. A slot has 31 bits, which is more
    /// than the requests in flight.
    const fn parts(self) -> (u64, u32, bool) {
        ((self.0 >> 64) as u64, (self.0 as u32) >> 1, self.0 & 1 == 1)
    }
}

/// The queue of requests.
pub(crate) struct Line<'a> {
    cost: &'a Cost,
    now: u64,
    agents: Vec<Agent>,
    /// Linked lists of requests that wait for an agent: the request, and the index of the next.
    items: Vec<(Request, u32)>,
    free_items: Vec<u32>,
    turns: VecDeque<Turn>,
    /// Responses in transit, sorted by time. Windows are small and most responses come after those in transit, so
    /// insertion from the end takes a third of the time of a heap.
    events: VecDeque<Event>,
    flights: Vec<Flight>,
    free_flights: Vec<u32>,
    /// Sent requests in order of sending: time, slot and serial number.
    fresh: VecDeque<(u64, u32, u32)>,
    window_used: u32,
    serial: u32,
    manager_free_at: u64,
    open: usize,
    dice: Dice,
    /// Number of requests repeated because a queue was full.
    pub repeats: u64,
}

/// Decides which requests are lost: SplitMix64, with the same numbers on every machine. Source: Steele, Lea and Flood
/// 2014.
struct Dice {
    state: u64,
    /// Losses per 2^64.
    threshold: u64,
}

impl Dice {
    fn new(lost_ppm: u32, draw: u64) -> Self {
        Self {
            state: draw,
            threshold: u64::from(lost_ppm.min(999_999)) * (u64::MAX / 1_000_000),
        }
    }

    const fn is_lost(&mut self) -> bool {
        if self.threshold == 0 {
            return false;
        }
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) < self.threshold
    }
}

/// Returns the mean time and number of repeats over several draws of losses; one run is enough without losses.
pub(crate) fn mean(cost: &Cost, mut one: impl FnMut(u64) -> (u64, u64)) -> (u64, u64) {
    /// Number of draws: enough for a mean within a tenth. Each draw takes as long as a prediction without losses.
    const DRAWS: u64 = 64;
    if cost.lost_ppm == 0 {
        return one(0);
    }
    let all = (1..=DRAWS).map(&mut one);
    let (time, repeats) = all.fold((0, 0), |(t, r), (time, repeats)| (t + time, r + repeats));
    (time / DRAWS, repeats / DRAWS)
}

impl<'a> Line<'a> {
    /// Returns an empty queue at time 0, for this many nodes. `draw` selects the losses.
    pub fn new(cost: &'a Cost, nodes: u32, draw: u64) -> Self {
        let agent = Agent {
            head: NONE,
            tail: NONE,
            on_way: 0,
            queued: false,
            free_at: 0,
        };
        Self {
            cost,
            now: 0,
            agents: vec![agent; nodes as usize],
            items: Vec::new(),
            free_items: Vec::new(),
            turns: VecDeque::new(),
            events: VecDeque::new(),
            flights: Vec::new(),
            free_flights: Vec::new(),
            fresh: VecDeque::new(),
            window_used: 0,
            serial: 0,
            manager_free_at: 0,
            open: 0,
            dice: Dice::new(cost.lost_ppm, draw),
            repeats: 0,
        }
    }

    /// Returns the time of the last response, in ns.
    pub const fn now(&self) -> u64 {
        self.now
    }

    /// Returns the number of requests waiting or in flight.
    pub const fn open(&self) -> usize {
        self.open
    }

    /// Returns the most requests in flight.
    pub const fn window(&self) -> usize {
        self.cost.window as usize
    }

    /// Adds a request to the queue.
    pub fn submit(&mut self, request: Request) {
        self.open += 1;
        if request.kind == Kind::Node || self.cost.agent_window == u32::MAX {
            self.turns.push_back(Turn::Alone(request));
            return;
        }
        let item = self.free_items.pop().unwrap_or_else(|| {
            self.items.push((request, NONE));
            u32::try_from(self.items.len() - 1).unwrap_or(NONE)
        });
        self.items[item as usize] = (request, NONE);
        let agent = &mut self.agents[request.node as usize];
        let tail = std::mem::replace(&mut agent.tail, item);
        if tail == NONE {
            agent.head = item;
        } else {
            self.items[tail as usize].1 = item;
        }
        self.queue_if_free(request.node);
    }

    fn queue_if_free(&mut self, node: u32) {
        let agent = &mut self.agents[node as usize];
        if agent.head != NONE && !agent.queued && agent.on_way < self.cost.agent_window.max(1) {
            agent.queued = true;
            self.turns.push_back(Turn::Agent(node));
        }
    }

    /// Sends the requests that may be sent now.
    pub fn pump(&mut self) {
        self.forget_stale();
        while self.window_used < self.cost.window.max(1) {
            let request = match self.turns.pop_front() {
                None => return,
                Some(Turn::Alone(request)) => request,
                Some(Turn::Agent(node)) => match self.take(node) {
                    Some(request) => request,
                    None => continue,
                },
            };
            let place = self.free_flights.pop().unwrap_or_else(|| {
                self.flights.push(Flight {
                    request,
                    counts: false,
                    serial: 0,
                    repeats: 0,
                });
                u32::try_from(self.flights.len() - 1).unwrap_or(NONE)
            });
            let flight = &mut self.flights[place as usize];
            (flight.request, flight.repeats) = (request, 0);
            self.send(place);
        }
    }

    fn take(&mut self, node: u32) -> Option<Request> {
        let agent = &mut self.agents[node as usize];
        agent.queued = false;
        let item = agent.head;
        let (request, next) = *self.items.get(item as usize)?;
        agent.head = next;
        if next == NONE {
            agent.tail = NONE;
        }
        agent.on_way += 1;
        self.free_items.push(item);
        self.queue_if_free(node);
        Some(request)
    }

    fn send(&mut self, place: u32) {
        self.serial = self.serial.wrapping_add(1);
        let (now, serial, wires) = (self.now, self.serial, &self.cost.wires);
        let flight = &mut self.flights[place as usize];
        (flight.counts, flight.serial) = (true, serial);
        let agent = &mut self.agents[flight.request.node as usize];
        let way = wires.way_ns(flight.request.hops);
        let arrives = now + way;
        let ahead = agent.free_at.saturating_sub(arrives).div_ceil(wires.service_ns.max(1));
        let overrun = ahead >= wires.queue_depth;
        self.repeats += u64::from(overrun);
        let lost = overrun || self.dice.is_lost();
        let at = if lost {
            now + self.cost.timeout_ns
        } else {
            agent.free_at = agent.free_at.max(arrives) + wires.service_ns;
            agent.free_at + way
        };
        self.window_used += 1;
        let event = Event::new(at, serial, place, lost);
        let later = self.events.iter().rev().take_while(|other| **other > event).count();
        self.events.insert(self.events.len() - later, event);
        if self.cost.stale_ns != u64::MAX {
            self.fresh.push_back((now, place, serial));
        }
    }

    /// Returns the next request that is answered; `None` if none is open.
    pub fn next(&mut self) -> Option<Request> {
        loop {
            self.pump();
            let (at, place, lost) = self.events.front()?.parts();
            if let Some(stale) = self.stale_before(at) {
                self.now = self.now.max(stale);
                continue;
            }
            self.events.pop_front();
            self.manager_free_at = self.manager_free_at.max(at) + self.cost.manager_ns;
            self.now = self.manager_free_at.max(self.now);
            let flight = &mut self.flights[place as usize];
            if std::mem::take(&mut flight.counts) {
                self.window_used -= 1;
            }
            // An agent that never answers has failed. The model leaves out that requests which depend on its answer are
            // not sent.
            if lost && flight.repeats < REPEATS_MAX {
                flight.repeats += 1;
                self.send(place);
                continue;
            }
            let request = flight.request;
            self.free_flights.push(place);
            self.open -= 1;
            if request.kind != Kind::Node && self.cost.agent_window != u32::MAX {
                self.agents[request.node as usize].on_way -= 1;
                self.queue_if_free(request.node);
            }
            return Some(request);
        }
    }

    /// Returns when a request in a full window becomes stale, if that is before `limit` and another request is waiting.
    fn stale_before(&self, limit: u64) -> Option<u64> {
        let first = self.fresh.front()?.0.saturating_add(self.cost.stale_ns);
        if first >= limit || self.window_used < self.cost.window.max(1) || self.turns.is_empty() {
            return None;
        }
        let mut counted = self.fresh.iter().filter(|sent| self.counts(sent));
        let at = counted.next()?.0.saturating_add(self.cost.stale_ns);
        (at < limit).then_some(at)
    }

    /// True if the request is still in flight and counts in the window.
    fn counts(&self, &(_, place, serial): &(u64, u32, u32)) -> bool {
        let flight = &self.flights[place as usize];
        flight.serial == serial && flight.counts
    }

    fn forget_stale(&mut self) {
        while let Some(&sent) = self.fresh.front() {
            if self.counts(&sent) {
                if self.now < sent.0.saturating_add(self.cost.stale_ns) {
                    return;
                }
                self.flights[sent.1 as usize].counts = false;
                self.window_used -= 1;
            }
            self.fresh.pop_front();
        }
    }
}
