//! The waiting line: when each request leaves and when its answer is back.
//!
//! The recursion behind every time of this crate. A request leaves when (1) fewer than `window` are on their way,
//! (2) fewer than `agent_window` of them are for its agent, and (3) those before it have left; it is served when it has
//! arrived and its agent, one server, is free; its answer takes the same way back. A request that finds its agent's
//! queue full is lost and leaves once more after the time-out.
//!
//! One heap of answers, at most `window` of them as a rule: 50 to 100 ns a request, whatever the fabric.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use crate::Cost;

/// A request: its content is the asker's, the line needs only where it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    /// The node whose agent answers.
    pub node: u32,
    /// Cables to it.
    pub hops: u16,
    /// Port that it is about; what else it says is up to the asker.
    pub port: u8,
    /// What is asked.
    pub kind: Kind,
}

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// NodeInfo of a node that the manager does not know yet: shares no limit. `port`: where it is entered.
    Node,
    /// SwitchInfo.
    Switch,
    /// PortInfo.
    Port,
    /// Anything after which nothing more is asked.
    Other,
}

/// End of a list in `items`.
const NONE: u32 = u32::MAX;

/// What waits for one agent.
#[derive(Clone, Copy)]
struct Agent {
    head: u32,
    tail: u32,
    on_way: u32,
    /// It stands in the queue of those that may send.
    queued: bool,
    /// When it has served all that was sent to it, in ns.
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
    sent_at: u64,
    /// Its place in the window is still taken.
    counts: bool,
    serial: u32,
}

/// The line.
pub(crate) struct Line<'a> {
    cost: &'a Cost,
    now: u64,
    agents: Vec<Agent>,
    /// Lists of requests that wait for an agent: request, and the next.
    items: Vec<(Request, u32)>,
    free_items: Vec<u32>,
    turns: VecDeque<Turn>,
    /// Time, serial number, place, lost.
    events: BinaryHeap<Reverse<(u64, u32, u32, bool)>>,
    flights: Vec<Flight>,
    free_flights: Vec<u32>,
    /// Sent requests in order of sending: place and serial number.
    fresh: VecDeque<(u32, u32)>,
    window_used: u32,
    serial: u32,
    manager_free_at: u64,
    open: usize,
    /// Requests that were sent again because a queue was full.
    pub repeats: u64,
}

impl<'a> Line<'a> {
    /// An empty line at time `now`, for so many nodes.
    pub fn new(cost: &'a Cost, nodes: u32, now: u64) -> Self {
        let agent = Agent {
            head: NONE,
            tail: NONE,
            on_way: 0,
            queued: false,
            free_at: 0,
        };
        Self {
            cost,
            now,
            agents: vec![agent; nodes as usize],
            items: Vec::new(),
            free_items: Vec::new(),
            turns: VecDeque::new(),
            events: BinaryHeap::new(),
            flights: Vec::new(),
            free_flights: Vec::new(),
            fresh: VecDeque::new(),
            window_used: 0,
            serial: 0,
            manager_free_at: now,
            open: 0,
            repeats: 0,
        }
    }

    /// Time of the last answer, in ns.
    pub const fn now(&self) -> u64 {
        self.now
    }

    /// Requests that wait or are on their way.
    pub const fn open(&self) -> usize {
        self.open
    }

    /// Requests on their way at most.
    pub const fn window(&self) -> usize {
        self.cost.window as usize
    }

    /// A request joins the line.
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

    /// Sends what may be sent now.
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
                    sent_at: 0,
                    counts: false,
                    serial: 0,
                });
                u32::try_from(self.flights.len() - 1).unwrap_or(NONE)
            });
            self.flights[place as usize].request = request;
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
        (flight.sent_at, flight.counts, flight.serial) = (now, true, serial);
        let agent = &mut self.agents[flight.request.node as usize];
        let way = wires.way_ns(flight.request.hops);
        let arrives = now + way;
        let ahead = agent.free_at.saturating_sub(arrives).div_ceil(wires.service_ns.max(1));
        let lost = ahead >= wires.queue_depth;
        let at = if lost {
            now + self.cost.timeout_ns
        } else {
            agent.free_at = agent.free_at.max(arrives) + wires.service_ns;
            agent.free_at + way
        };
        self.window_used += 1;
        self.events.push(Reverse((at, serial, place, lost)));
        if self.cost.stale_ns != u64::MAX {
            self.fresh.push_back((place, serial));
        }
    }

    /// The next request that is answered; `None` if none is open.
    pub fn next(&mut self) -> Option<Request> {
        loop {
            self.pump();
            let Reverse((at, _, place, lost)) = *self.events.peek()?;
            if let Some(stale) = self.stale_before(at) {
                self.now = self.now.max(stale);
                continue;
            }
            self.events.pop();
            self.manager_free_at = self.manager_free_at.max(at) + self.cost.manager_ns;
            self.now = self.manager_free_at.max(self.now);
            let flight = &mut self.flights[place as usize];
            if std::mem::take(&mut flight.counts) {
                self.window_used -= 1;
            }
            if lost {
                self.repeats += 1;
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

    /// When a place in a full window is given up for lost, if that is before `limit` and somebody waits for it.
    fn stale_before(&mut self, limit: u64) -> Option<u64> {
        if self.window_used < self.cost.window.max(1) || self.turns.is_empty() {
            return None;
        }
        let stale_ns = self.cost.stale_ns;
        let oldest = self
            .fresh
            .iter()
            .find_map(|&(place, serial)| self.fresh_since(place, serial))?;
        let at = oldest.saturating_add(stale_ns);
        (at < limit).then_some(at)
    }

    fn fresh_since(&self, place: u32, serial: u32) -> Option<u64> {
        let flight = &self.flights[place as usize];
        (flight.serial == serial && flight.counts).then_some(flight.sent_at)
    }

    fn forget_stale(&mut self) {
        while let Some(&(place, serial)) = self.fresh.front() {
            match self.fresh_since(place, serial) {
                Some(sent) if self.now < sent.saturating_add(self.cost.stale_ns) => return,
                Some(_) => {
                    self.flights[place as usize].counts = false;
                    self.window_used -= 1;
                }
                None => {}
            }
            self.fresh.pop_front();
        }
    }
}
