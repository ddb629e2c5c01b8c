//! The device: it holds all objects, and routes what happens between queue pairs, queues, ports and contexts.
//!
//! Sub-machines (send queue, receive side, paths) do not know each other: each returns what follows, and `effects`
//! carries that out. Files below this one have one group of calls each.

mod effects;
mod modify;
mod objects;
mod post;
mod wire;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::attr::AhAttr;
use crate::config::HcaConfig;
use crate::costs::ContextCache;
use crate::cq::{Channel, Queue};
use crate::error::{VerbsError, in_range};
use crate::event::{AsyncEvent, Element, EventType, Events};
use crate::handle::{
    AhKind, ChannelKind, CompChannel, Context, ContextKind, Cq, CqKind, Pd, PdKind, QpKind, Slab, SrqKind,
};
use crate::memory::Memory;
use crate::multicast::Groups;
use crate::port::{Port, PortAttr, PortCounts};
use crate::qp::{Pace, QueuePair};
use crate::receive_queue::SharedQueue;
use crate::requester;
use crate::responder;
use crate::time::Ps;

/// Something that a program can see from a time on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// A completion in a queue.
    Completion(Ps, Cq),
    /// An event on a completion channel.
    Channel(Ps, CompChannel),
    /// An asynchronous event of a context.
    Async(Ps, Context),
}

/// An address handle.
#[derive(Clone, Copy, Debug)]
struct Address {
    pd: Pd,
    port: u8,
    attr: AhAttr,
}

/// Unacknowledged events of a shared receive queue, and the queue.
#[derive(Clone, Debug)]
struct SharedAt {
    shared: SharedQueue,
    context: Context,
    unacknowledged: u32,
}

/// A host channel adapter.
#[derive(Clone, Debug)]
pub struct Hca {
    config: HcaConfig,
    contexts: Slab<ContextKind, Events>,
    pds: Slab<PdKind, Context>,
    memory: Memory,
    channels: Slab<ChannelKind, Channel>,
    cqs: Slab<CqKind, Queue>,
    srqs: Slab<SrqKind, SharedAt>,
    ahs: Slab<AhKind, Address>,
    qps: Slab<QpKind, QueuePair>,
    groups: Groups,
    ports: Vec<Port>,
    cache: ContextCache,
    /// When queue pairs want to be called: the times that each has noted.
    timers: BinaryHeap<Reverse<(Ps, u32)>>,
    /// Until then the HCA works on commands of the driver.
    command_free_at: Ps,
    /// Ports with a packet to send, as bits, since the driver asked last.
    ready_ports: [u64; 4],
    notices: Vec<Notice>,
    /// Reused memory.
    sent_out: Vec<requester::Out>,
    received_out: Vec<responder::Out>,
}

/// Most places of queue pairs: a number has 18 bits for the place, and 0 and 1 are taken.
const QPS_MAX: u32 = 262_000;
/// Most places of memory regions: a key has 24 bits for the place, and 0 is no key.
const MRS_MAX: u32 = (1 << 24) - 1;

impl Hca {
    /// Returns an adapter with all ports DOWN.
    pub fn new(config: HcaConfig) -> Result<Self, VerbsError> {
        let limits = config.limits;
        in_range("number of ports", u64::from(config.ports), 1, 254)?;
        in_range("limit of queue pairs", u64::from(limits.qps), 1, u64::from(QPS_MAX))?;
        in_range("limit of memory regions", u64::from(limits.mrs), 1, u64::from(MRS_MAX))?;
        let guids = (1..=u64::from(config.ports)).map(|port| selvedge_types::Guid(config.guid.0.wrapping_add(port)));
        Ok(Self {
            contexts: Slab::new(limits.contexts),
            pds: Slab::new(limits.pds),
            memory: Memory::new(limits.mrs),
            channels: Slab::new(limits.cqs),
            cqs: Slab::new(limits.cqs),
            srqs: Slab::new(limits.srqs),
            ahs: Slab::new(limits.ahs),
            qps: Slab::new(limits.qps),
            groups: Groups::default(),
            ports: guids.map(Port::new).collect(),
            cache: ContextCache::new(config.context_cache),
            timers: BinaryHeap::new(),
            command_free_at: 0,
            ready_ports: [0; 4],
            notices: Vec::new(),
            sent_out: Vec::new(),
            received_out: Vec::new(),
            config,
        })
    }

    /// Returns settings and limits, as `query_device` does.
    #[must_use]
    pub const fn config(&self) -> &HcaConfig {
        &self.config
    }

    fn port(&self, number: u8) -> Result<&Port, VerbsError> {
        let most = self.ports.len() as u64;
        in_range("port number", u64::from(number), 1, most)?;
        Ok(&self.ports[usize::from(number) - 1])
    }

    /// Returns the attributes of a port, from 1.
    pub fn query_port(&self, port: u8) -> Result<&PortAttr, VerbsError> {
        self.port(port).map(Port::attr)
    }

    /// Returns the GID of a port.
    pub fn query_gid(&self, port: u8) -> Result<crate::attr::Gid, VerbsError> {
        self.port(port).map(Port::gid)
    }

    /// Returns a P_Key of a port's table.
    pub fn query_pkey(&self, port: u8, index: u16) -> Result<selvedge_types::PKey, VerbsError> {
        let keys = &self.port(port)?.attr().pkeys;
        let most = (keys.len() as u64).saturating_sub(1);
        in_range("index in the P_Key table", u64::from(index), 0, most)?;
        keys.get(usize::from(index)).copied().ok_or(VerbsError::OutOfRange {
            what: "index in the P_Key table",
            value: u64::from(index),
            least: 0,
            most,
        })
    }

    /// Returns the counters of a port.
    pub fn port_counts(&self, port: u8) -> Result<PortCounts, VerbsError> {
        self.port(port).map(|port| port.counts)
    }

    /// Returns how often the context of a queue pair was loaded.
    #[must_use]
    pub const fn context_loads(&self) -> u64 {
        self.cache.misses()
    }

    /// Takes what the subnet manager and the link have made of a port, and raises the events of all changes.
    ///
    /// If the port leaves ACTIVE, ARMED connections on it migrate ([`HcaConfig::migrate_on_port_down`]), and what is
    /// sent by it goes nowhere until it is ACTIVE again.
    pub fn set_port(&mut self, now: Ps, port: u8, attr: PortAttr) -> Result<(), VerbsError> {
        self.port(port)?;
        in_range("length of the P_Key table", attr.pkeys.len() as u64, 1, 1 << 16)?;
        let was_active = self.ports[usize::from(port) - 1].is_active();
        let events = self.ports[usize::from(port) - 1].set(attr);
        for event in events {
            self.raise_everywhere(now, event, port);
        }
        let is_active = self.ports[usize::from(port) - 1].is_active();
        if was_active != is_active {
            self.port_switched(now, port, is_active);
        }
        Ok(())
    }

    /// Takes the subnet manager's request to register again (ClientReregister of PortInfo).
    pub fn client_reregister(&mut self, now: Ps, port: u8) -> Result<(), VerbsError> {
        self.port(port)?;
        self.raise_everywhere(now, EventType::ClientReregister, port);
        Ok(())
    }

    fn port_switched(&mut self, now: Ps, port: u8, is_active: bool) {
        self.ready_ports[usize::from(port) / 64] |= 1 << (port % 64);
        let on_port = self.qps.iter().filter(|(_, qp)| qp.path.in_use().port == port);
        let indexes: Vec<u32> = on_port.map(|(handle, _)| handle.index() as u32).collect();
        for index in indexes {
            if !is_active && self.config.migrate_on_port_down {
                self.path_failed(now, index);
            }
            self.kick(now, index);
        }
    }

    fn raise_everywhere(&mut self, now: Ps, kind: EventType, port: u8) {
        let contexts: Vec<Context> = self.contexts.iter().map(|(context, _)| context).collect();
        for context in contexts {
            self.raise(now, context, kind, Element::Port(port));
        }
    }

    /// Appends an asynchronous event to a context.
    fn raise(&mut self, now: Ps, context: Context, kind: EventType, element: Element) {
        let at = now + self.config.costs.dma_write_ps + self.config.costs.interrupt_ps;
        if let Ok(events) = self.contexts.get_mut(context) {
            events.push(AsyncEvent { kind, element, at });
            self.notice(Notice::Async(at, context));
        }
    }

    fn notice(&mut self, notice: Notice) {
        if self.config.notices {
            self.notices.push(notice);
        }
    }

    /// Moves what programs can see, since the last call, to the end of `out`. Needs [`HcaConfig::notices`].
    pub fn take_notices(&mut self, out: &mut Vec<Notice>) {
        out.append(&mut self.notices);
    }

    /// Returns the next asynchronous event of a context that is visible, if any. It must be acknowledged.
    pub fn get_async_event(&mut self, now: Ps, context: Context) -> Result<Option<AsyncEvent>, VerbsError> {
        let event = self.contexts.get_mut(context)?.fetch(now);
        if let Some(event) = event
            && let Some(count) = self.unacknowledged(event.element)
        {
            *count += 1;
        }
        Ok(event)
    }

    /// Acknowledges an event. An object cannot be destroyed while events of it are not acknowledged.
    pub fn ack_async_event(&mut self, event: &AsyncEvent) {
        if let Some(count) = self.unacknowledged(event.element) {
            *count = count.saturating_sub(1);
        }
    }

    fn unacknowledged(&mut self, element: Element) -> Option<&mut u32> {
        match element {
            Element::Qp(qp) => self.qps.get_mut(qp).ok().map(|qp| &mut qp.unacknowledged),
            Element::Cq(cq) => self.cqs.get_mut(cq).ok().map(|cq| &mut cq.unacknowledged),
            Element::Srq(srq) => self.srqs.get_mut(srq).ok().map(|srq| &mut srq.unacknowledged),
            Element::Port(_) => None,
        }
    }

    const fn pace(&self) -> Pace {
        Pace {
            window: self.config.window_packets,
            ack_every: self.config.ack_every,
            credits: self.config.end_to_end_credits,
        }
    }

    /// Returns when [`Hca::wake`] is due. It may be called earlier, and at a time that turns out to need nothing.
    #[must_use]
    pub fn next_wake(&self) -> Option<Ps> {
        self.timers.peek().map(|&Reverse((at, _))| at)
    }

    /// Handles everything that is due.
    pub fn wake(&mut self, now: Ps) {
        while let Some(&Reverse((at, index))) = self.timers.peek() {
            if at > now {
                break;
            }
            self.timers.pop();
            if index & wire::LOOPBACK_TIMER != 0 {
                self.loop_back(now, index as u8);
                continue;
            }
            let Some(qp) = self.qps.at_mut(index) else { continue };
            // A place may have been given to another queue pair since.
            if qp.timers.last() != Some(&at) {
                continue;
            }
            qp.timers.pop();
            self.run_sender(now, index, requester::In::Wake);
            self.kick(now, index);
        }
    }

    /// Returns a port that has got a packet to send since the last call.
    pub fn next_ready_port(&mut self) -> Option<u8> {
        for (word, bits) in (0_u8..).zip(&mut self.ready_ports) {
            if *bits != 0 {
                let bit = bits.trailing_zeros() as u8;
                *bits &= *bits - 1;
                return Some(word * 64 + bit);
            }
        }
        None
    }
}
