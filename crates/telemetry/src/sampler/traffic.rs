//! Requests that wait and requests in flight: a window for all, a limit for each node, nodes in turn.

use core::time::Duration;
use std::collections::VecDeque;

use selvedge_mad::{AgentId, Counters, Exchange, ExchangeConfig};
use selvedge_sim::Time;
use selvedge_types::{Lid, Sl};
use selvedge_wire::{Address, Datagram, Mad};

use super::ask::Ask;
use crate::Config;

/// The requests of one node.
#[derive(Debug, Default)]
struct Lane {
    waiting: VecDeque<Ask>,
    in_flight: u8,
    /// True if the node is in the list `ready`.
    is_ready: bool,
}

/// A datagram to send.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sending {
    /// The request.
    pub datagram: Datagram,
    /// How long the layer below may wait for the answer.
    pub timeout: Duration,
    /// The request; `None` for a repeat.
    pub first: Option<Ask>,
}

/// Requests that wait and requests in flight.
#[derive(Debug)]
pub(super) struct Traffic {
    exchange: Exchange<Ask>,
    lanes: Vec<Lane>,
    /// Nodes that have a request to send, and room for it.
    ready: VecDeque<u32>,
    node_window: u8,
    sl: Sl,
    /// True if a request was handed to the exchange and did not fit into the window yet.
    has_unsent: bool,
}

impl Traffic {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            exchange: Exchange::new(ExchangeConfig {
                window: config.window.max(1),
                // The lanes below have a limit of their own.
                agent_window: config.window.max(1),
                timeout: config.timeout,
                retries: config.retries,
                stale_after: config.stale_after,
            }),
            lanes: Vec::new(),
            ready: VecDeque::new(),
            node_window: config.node_window.max(1),
            sl: config.sl,
            has_unsent: false,
        }
    }

    /// Makes room for nodes with an index below `count`.
    pub(super) fn grow(&mut self, count: usize) {
        if self.lanes.len() < count {
            self.lanes.resize_with(count, Lane::default);
        }
    }

    /// Queues a request.
    pub(super) fn push(&mut self, ask: Ask) {
        self.lanes[ask.node as usize].waiting.push_back(ask);
        self.mark(ask.node);
    }

    /// Drops the waiting requests of a node.
    pub(super) fn clear(&mut self, node: u32) {
        self.lanes[node as usize].waiting.clear();
    }

    /// Returns the next datagram to send. `lid` returns the LID to ask, or `None` if the request is no longer wanted.
    pub(super) fn next(&mut self, now: Time, mut lid: impl FnMut(&mut Ask) -> Option<Lid>) -> Option<Sending> {
        loop {
            let (mut first, sl) = (None, self.sl);
            let sent = self.exchange.next_to_send(now, |ask, datagram| {
                if let Some((lid, _)) = ask.sent {
                    ask.sent = Some((lid, now));
                    datagram.address = Address::gsi(lid, sl);
                }
                datagram.mad = ask.request();
                first = Some(*ask);
            });
            if let Some((datagram, timeout)) = sent.map(|sent| (*sent.datagram, sent.timeout)) {
                self.has_unsent &= first.is_none();
                return Some(Sending {
                    datagram,
                    timeout,
                    first,
                });
            }
            if self.has_unsent {
                return None;
            }
            let ask = self.next_ask(now, &mut lid)?;
            self.exchange.submit(AgentId::UNKNOWN, ask);
            self.has_unsent = true;
        }
    }

    fn next_ask(&mut self, now: Time, lid: &mut impl FnMut(&mut Ask) -> Option<Lid>) -> Option<Ask> {
        while let Some(node) = self.ready.pop_front() {
            let lane = &mut self.lanes[node as usize];
            lane.is_ready = false;
            if lane.in_flight >= self.node_window {
                continue;
            }
            while let Some(mut ask) = lane.waiting.pop_front() {
                let Some(lid) = lid(&mut ask) else { continue };
                ask.sent = Some((lid, now));
                lane.in_flight += 1;
                self.mark(node);
                return Some(ask);
            }
        }
        None
    }

    /// Handles an answer and returns its request; `None`: no request in flight has its transaction id.
    pub(super) fn received(&mut self, mad: &Mad) -> Option<Ask> {
        let ask = self.exchange.received(mad);
        self.ended(ask)
    }

    /// Handles a request that the layer below returned. Returns it if it has failed.
    pub(super) fn returned(&mut self, mad: &Mad) -> Option<Ask> {
        let ask = self.exchange.returned(mad);
        self.ended(ask)
    }

    /// Returns a request that has failed. Call it until it returns `None`.
    pub(super) fn expired(&mut self, now: Time) -> Option<Ask> {
        let ask = self.exchange.expired(now);
        self.ended(ask)
    }

    /// Returns the counts of requests and answers so far.
    pub(super) const fn counters(&self) -> Counters {
        self.exchange.counters()
    }

    /// Returns when something is due.
    pub(super) fn next_wake(&self) -> Option<Time> {
        self.exchange.next_wake()
    }

    fn ended(&mut self, ask: Option<Ask>) -> Option<Ask> {
        let node = ask?.node;
        let lane = &mut self.lanes[node as usize];
        lane.in_flight = lane.in_flight.saturating_sub(1);
        self.mark(node);
        ask
    }

    /// Notes that a node has a request to send, if it has one and room for it.
    fn mark(&mut self, node: u32) {
        let lane = &mut self.lanes[node as usize];
        if !lane.is_ready && lane.in_flight < self.node_window && !lane.waiting.is_empty() {
            lane.is_ready = true;
            self.ready.push_back(node);
        }
    }
}
