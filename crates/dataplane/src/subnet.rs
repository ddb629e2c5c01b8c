//! The subnet: ports, lanes, packets under way, and the clock. What sits on its end ports stands outside.

use core::fmt::Debug;

use selvedge_fabric::{Fabric, PortRef};

use crate::arbitration::{Arbiter, Compiled};
use crate::calendar::{Calendar, Event};
use crate::change::{Change, Changes};
use crate::credit::Pool;
use crate::deadlock::Deadlock;
use crate::endpoint::{EndPort, EndPortInfo};
use crate::lane::{Age, Far, Lane, Queue};
use crate::layout::{self, BuildError, CONTROL, Extent, Layout, NOT_SET, Network, Port};
use crate::log::EventLog;
use crate::packet::{NIL, Packets};
use crate::settings::{Queueing, Settings, lifetime};
use crate::stats::{Drops, PortStats};
use crate::units::{ByteTime, NEVER, Ps};

/// The kind of an event, in the upper bits of its payload; the lower bits name its subject.
pub(crate) mod kind {
    /// A packet's first byte can be forwarded by the switch, or its last byte has reached the host.
    pub const ARRIVE: u32 = 0;
    /// An output has finished sending its packet.
    pub const END: u32 = 1;
    /// Credits have arrived for an output.
    pub const CREDIT: u32 = 2;
    /// A host is to be pulled.
    pub const HOST: u32 = 3;
    /// The first packet of a queue may have exceeded its lifetime.
    pub const LIFETIME: u32 = 4;
    /// A timed change of the fabric is due.
    pub const CONTROL: u32 = 5;
    /// A timer of an endpoint is due.
    pub const TIMER: u32 = 6;
    /// A search for deadlocks is due.
    pub const LOOK: u32 = 7;
    /// Number of the lower bits, which name the event's subject.
    pub const SHIFT: u32 = 29;
}

/// Everything between the end ports of a simulation: links, switches, the packets on them, and the clock.
#[derive(Debug)]
pub struct Subnet<H> {
    pub(crate) settings: Settings,
    pub(crate) layout: Layout,
    pub(crate) fabric: Fabric,
    pub(crate) now: Ps,
    pub(crate) calendar: Calendar,
    pub(crate) events: u64,
    /// Packets that hosts have sent.
    pub(crate) sent: u64,
    /// Packets that hosts have received.
    pub(crate) received: u64,
    pub(crate) packets: Packets<H>,
    pub(crate) ports: Vec<Port>,
    /// Lanes, by port, then lane.
    pub(crate) lanes: Vec<Lane>,
    /// By port, then lane: later credits that are not stored in the lane itself.
    pub(crate) far: Vec<Far>,
    pub(crate) arbiters: Vec<Arbiter>,
    pub(crate) arbitration: Compiled,
    /// Arbitration tables of single outputs.
    pub(crate) own_arbitration: Vec<Compiled>,
    /// Virtual output queues, if used. Their indexes follow those of `lanes`.
    pub(crate) voqs: Vec<Queue>,
    /// Ages, by index of a queue; empty if lifetimes are infinite.
    pub(crate) ages: Vec<Age>,
    /// By output, then lane: bit mask of the inputs from 65 on with packets for it.
    pub(crate) more_requests: Vec<u64>,
    /// By switch: bit mask of inputs that can send into the crossbar.
    pub(crate) idle_inputs: Vec<u64>,
    /// By input: bit mask of outputs with packets in its virtual output queues.
    pub(crate) voq_outputs: Vec<u64>,
    /// By input: the blocks that its lanes share; empty if there are none.
    pub(crate) pools: Vec<Pool>,
    /// By input, then lane: the part of these that the lane may have; empty if it may have all.
    pub(crate) pool_shares: Vec<Pool>,
    /// Packets with copies: how many copies are still in the buffer, and when the last one that left has left it.
    pub(crate) copies: Vec<(u32, Ps)>,
    pub(crate) free_copies: Vec<u32>,
    /// By end port: when it is to be pulled.
    pub(crate) wakes: Vec<Ps>,
    pub(crate) changes: Changes,
    pub(crate) hoq: Option<Ps>,
    pub(crate) switch_life: Option<Ps>,
    /// Time from which ports count.
    pub(crate) counts_from: Ps,
    /// End of the simulation, if it is known.
    pub(crate) end: Option<Ps>,
    pub(crate) drops: Drops,
    pub(crate) port_stats: Vec<PortStats>,
    pub(crate) deadlock: Option<Deadlock>,
    /// The events so far, if recorded.
    pub(crate) log: Option<Box<EventLog>>,
    /// The port with recorded departures.
    pub(crate) watched: u32,
    pub(crate) departures: Vec<Ps>,
}

impl<H: Copy + Debug> Subnet<H> {
    /// Returns a subnet without packets. Counters and limits are those of a simulation that ends at a known time, or
    /// of one that is stepped from outside.
    pub(crate) fn new(network: &Network<'_>, settings: &Settings, ends: bool) -> Result<Self, BuildError> {
        let (layout, ports) = layout::build(network, settings, if ends { Extent::InUse } else { Extent::Cabled })?;
        let vls = usize::from(settings.vls);
        let is_voq = settings.queueing == Queueing::Voq;
        let voqs = only_if(is_voq, layout.voqs as usize * vls);
        let arbitration = settings.vl_arb.compiled(settings.vls);
        let lane = |index: usize| Lane::new(layout.lane_blocks(index / vls, settings) as u16);
        let shared = settings.buffers.shared_blocks;
        let share = settings.buffers.shared_per_vl_blocks.filter(|_| shared > 0);
        let end = ends.then(|| settings.end());
        // Limits beyond the end of the simulation need no checks.
        let within = |limit: Option<Ps>| limit.filter(|&limit| limit < end.unwrap_or(NEVER));
        let (hoq, switch_life) = (
            within(lifetime(settings.hoq_life)),
            within(lifetime(settings.switch_life)),
        );
        Ok(Self {
            calendar: Calendar::new(SLOT_BITS),
            lanes: (0..ports.len() * vls).map(lane).collect(),
            far: vec![Far::new(); ports.len() * vls],
            arbiters: vec![arbitration.arbiter(0); ports.len()],
            voqs: vec![Queue::EMPTY; voqs],
            ages: vec![Age::default(); only_if(hoq.is_some() || switch_life.is_some(), ports.len() * vls + voqs)],
            more_requests: vec![0; ports.len() * vls * (layout.words - 1)],
            idle_inputs: vec![u64::MAX; layout.switches.len() * layout.words],
            voq_outputs: vec![0; only_if(is_voq, ports.len() * layout.words)],
            pools: vec![Pool::new(shared); only_if(shared > 0, ports.len())],
            pool_shares: vec![Pool::new(share.unwrap_or(0)); only_if(share.is_some(), ports.len() * vls)],
            wakes: vec![NOT_SET; layout.hosts.len()],
            port_stats: vec![PortStats::default(); ports.len()],
            fabric: network.fabric.clone(),
            settings: settings.resolved(network),
            counts_from: if ends { settings.measure_from() } else { 0 },
            packets: Packets::new(),
            changes: Changes::default(),
            drops: Drops::default(),
            deadlock: None,
            watched: NIL,
            log: None,
            departures: Vec::new(),
            now: 0,
            events: 0,
            sent: 0,
            received: 0,
            arbitration,
            own_arbitration: Vec::new(),
            copies: Vec::new(),
            free_copies: Vec::new(),
            layout,
            ports,
            end,
            hoq,
            switch_life,
        })
    }

    #[inline]
    pub(crate) fn schedule(&mut self, at: Ps, component: u32, kind: u32, value: u32) {
        let payload = kind << kind::SHIFT | value;
        let event = Event { at, component, payload };
        if let Some(log) = &mut self.log {
            log.schedule(event);
        }
        self.calendar.push(event);
    }

    /// Schedules a change. It happens before packets of the same instant.
    pub(crate) fn schedule_change(&mut self, at: Ps, change: Change) {
        let place = self.changes.put(change);
        self.schedule(at.max(self.now), CONTROL, kind::CONTROL, place);
    }

    /// True if a run needs none of the rare features. The code on the path of a packet is compiled a second time for
    /// such runs, with the constant `PLAIN`, so that it contains no tests for these features.
    pub(crate) fn is_plain(&self) -> bool {
        let Settings { queueing, speedup, .. } = self.settings;
        let simple = (queueing, speedup) == (Queueing::Fifo, 1) && self.own_arbitration.is_empty();
        let layout = &self.layout;
        let uniform = layout.words == 1 && !layout.mixed && !layout.has_exceptions && !layout.has_copies;
        simple && uniform && self.pools.is_empty() && self.ages.is_empty()
    }

    /// Returns the simulated time.
    #[must_use]
    #[inline]
    pub const fn now(&self) -> Ps {
        self.now
    }

    /// Returns the number of events handled so far.
    #[must_use]
    pub const fn events(&self) -> u64 {
        self.events
    }

    /// Returns the settings, with every default filled in.
    #[must_use]
    #[inline]
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Returns the end ports, by index.
    #[must_use]
    #[inline]
    pub fn end_ports(&self) -> &[EndPortInfo] {
        &self.layout.hosts
    }

    /// Returns the port of an end port.
    #[inline]
    pub(crate) fn port_of(&self, port: EndPort) -> usize {
        self.layout.hosts[port as usize].port as usize
    }

    /// True if the link of an end port is up.
    #[must_use]
    pub fn is_up(&self, port: EndPort) -> bool {
        self.ports[self.port_of(port)].up
    }

    /// Returns the time until which an end port sends its current packet; a time in the past if it is idle.
    #[must_use]
    #[inline]
    pub fn free_at(&self, port: EndPort) -> Ps {
        self.ports[self.port_of(port)].free_at
    }

    /// Returns the time per byte on the link of an end port.
    #[must_use]
    pub fn byte_time(&self, port: EndPort) -> ByteTime {
        self.ports[self.port_of(port)].byte_time
    }

    /// Returns the lane on which an end port sends packets of a service level. If it is not one of the lanes in use,
    /// the port has to drop them.
    #[must_use]
    #[inline]
    pub fn lane(&self, port: EndPort, sl: u8) -> u8 {
        let lanes = self.layout.end_lanes.get(port as usize);
        lanes.unwrap_or(&self.layout.lanes)[usize::from(sl % 16)]
    }

    /// Has an end port pulled at a time, or earlier if an earlier time was set and has not come yet.
    #[inline]
    pub fn wake(&mut self, port: EndPort, at: Ps) {
        if at < self.wakes[port as usize] {
            self.wakes[port as usize] = at;
            self.schedule(at, self.layout.first_host() + port, kind::HOST, 0);
        }
    }

    /// Has `Endpoint::timer` called at a time, with a token of 29 bits. A timer cannot be withdrawn.
    pub fn set_timer(&mut self, port: EndPort, at: Ps, token: u32) {
        let token = token & ((1 << kind::SHIFT) - 1);
        self.schedule(at.max(self.now), self.layout.first_host() + port, kind::TIMER, token);
    }

    /// Records events from now on, at most this number. Call it before the first event.
    pub(crate) fn note_events(&mut self, most: usize) {
        let mut log = EventLog {
            most,
            ..EventLog::default()
        };
        let mut waiting = self.calendar.clone();
        while let Some(event) = waiting.pop_until(Ps::MAX) {
            log.schedule(event);
        }
        self.log = Some(Box::new(log));
    }

    /// Records from now on when a port begins to send a packet.
    pub fn watch(&mut self, port: PortRef) {
        self.watched = self.layout.find(port).unwrap_or(NIL);
    }

    /// Returns when the watched port began to send each packet.
    #[must_use]
    pub fn departures(&self) -> &[Ps] {
        &self.departures
    }
}

/// Returns `count` if the objects are used, else 0.
pub(crate) const fn only_if(is_there: bool, count: usize) -> usize {
    if is_there { count } else { 0 }
}

/// Width of the finest slots of the event queue, as a power of two in picoseconds. Packets take from ten to a few
/// thousand nanoseconds per hop, and 4,096 slots of 256 ps are one microsecond.
pub(crate) const SLOT_BITS: u32 = 8;
