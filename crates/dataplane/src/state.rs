//! The state of a simulation, and its events.

use std::collections::VecDeque;

use selvedge_fabric::{Fabric, PortRef};
use selvedge_sim::{Rng, Seed};
use selvedge_types::{Lid, Sl};

use crate::arbitration::{Arbiter, Compiled};
use crate::calendar::{Calendar, Event};
use crate::change::Timed;
use crate::deadlock::Deadlock;
use crate::lane::{Age, Far, Lane, Queue};
use crate::layout::{self, BuildError, CONTROL, Layout, NOT_SET, Network, Port};
use crate::log::EventLog;
use crate::packet::{NIL, Packets};
use crate::qp::Qps;
use crate::settings::{Queueing, Settings, SlChoice, Transport, lifetime};
use crate::stats::{Drops, PortStats, Window};
use crate::traffic::{Message, Workload};
use crate::units::Ps;

/// The kind of an event, in the upper bits of its payload; the lower bits name its subject.
pub(crate) mod kind {
    /// A packet's first byte can be forwarded by the switch, or its last byte has reached the host.
    pub const ARRIVE: u32 = 0;
    /// An output has finished sending its packet.
    pub const END: u32 = 1;
    /// Credits have arrived for an output.
    pub const CREDIT: u32 = 2;
    /// A host has packets to send.
    pub const HOST: u32 = 3;
    /// The first packet of a queue may have exceeded its lifetime.
    pub const LIFETIME: u32 = 4;
    /// A timed change of the fabric is due.
    pub const CONTROL: u32 = 5;
    /// A queue pair's time-out may have expired.
    pub const TIMER: u32 = 6;
    /// Number of the lower bits, which name the event's subject.
    pub const SHIFT: u32 = 29;
}

/// The buffer of an input that its lanes share.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pool {
    pub free: u32,
    /// Blocks that become free: (time, number), by time.
    pub returns: VecDeque<(Ps, u16)>,
}

impl Pool {
    const fn new(free: u32) -> Self {
        Self {
            free,
            returns: VecDeque::new(),
        }
    }
}

/// A message that was posted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Posted {
    pub created: Ps,
    pub tag: u64,
    pub from: u32,
    pub to: u32,
    /// Bytes not sent yet.
    pub unsent: u32,
    /// Packets that have not arrived yet, whether sent or not.
    pub missing: u32,
    pub next: u32,
    /// Length in bytes.
    pub bytes: u32,
    /// Sequence number of the message's first packet, on a queue pair.
    pub first_psn: u32,
    pub dlid: u16,
    pub sl: u8,
    pub vl: u8,
    /// True if one of its packets was lost.
    pub lost: bool,
}

/// A host: its next message, and waiting messages.
#[derive(Clone, Debug)]
pub(crate) struct HostState {
    /// The next message of the workload.
    pub next: Option<Message>,
    /// When the event of the host is due.
    pub wake_at: Ps,
    /// Bit mask of lanes with waiting messages.
    pub lanes: u16,
    /// Random numbers of this host.
    pub rng: Rng,
}

impl HostState {
    fn new(seed: Seed, host: u64) -> Self {
        Self {
            next: None,
            wake_at: NOT_SET,
            lanes: 0,
            rng: seed.child("host").nth(host).rng(),
        }
    }
}

/// A packet simulation.
#[derive(Debug)]
pub struct Simulation<W> {
    pub(crate) settings: Settings,
    pub(crate) workload: W,
    pub(crate) layout: Layout,
    pub(crate) fabric: Fabric,
    pub(crate) now: Ps,
    pub(crate) calendar: Calendar,
    pub(crate) events: u64,
    /// Packets that hosts have sent.
    pub(crate) sent: u64,
    /// Packets that hosts have received.
    pub(crate) received: u64,
    pub(crate) packets: Packets,
    pub(crate) ports: Vec<Port>,
    /// Lanes, by port, then lane.
    pub(crate) lanes: Vec<Lane>,
    /// By port, then lane: later credits that are not stored in the lane itself.
    pub(crate) far: Vec<Far>,
    pub(crate) arbiters: Vec<Arbiter>,
    pub(crate) arbitration: Compiled,
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
    pub(crate) pools: Vec<Pool>,
    pub(crate) hosts: Vec<HostState>,
    /// By host and lane: number of messages waiting or being sent.
    pub(crate) waiting: Vec<u32>,
    pub(crate) qps: Qps,
    pub(crate) messages: Vec<Posted>,
    pub(crate) free_message: u32,
    /// Service level by destination host.
    pub(crate) sls: Vec<u8>,
    pub(crate) changes: Vec<Timed>,
    pub(crate) hoq: Option<Ps>,
    pub(crate) switch_life: Option<Ps>,
    pub(crate) window: Window,
    pub(crate) drops: Drops,
    pub(crate) port_stats: Vec<PortStats>,
    pub(crate) deadlock: Option<Deadlock>,
    /// True if the workload is completed.
    pub(crate) done: bool,
    pub(crate) ready: Vec<u32>,
    /// The events so far, if recorded.
    pub(crate) log: Option<Box<EventLog>>,
    /// The port with recorded departures.
    pub(crate) watched: u32,
    pub(crate) departures: Vec<Ps>,
}

impl<W: Workload> Simulation<W> {
    /// Returns a simulation without packets in flight. Gets the first message of every host from the workload.
    ///
    /// Changes happen at their times, before packets of the same instant.
    pub fn new(
        network: &Network<'_>,
        settings: &Settings,
        workload: W,
        changes: Vec<Timed>,
        seed: Seed,
    ) -> Result<Self, BuildError> {
        let (layout, ports) = layout::build(network, settings)?;
        let vls = usize::from(settings.vls);
        let is_voq = settings.queueing == Queueing::Voq;
        let sls = service_levels(network, settings, &layout);
        check_lanes(settings, &layout, &sls)?;
        let voqs = only_if(is_voq, layout.voqs as usize * vls);
        let arbitration = settings.vl_arb.compiled(settings.vls);
        let lane = Lane::new(settings.lane_blocks() as u16);
        let pool = Pool::new(settings.buffers.shared_blocks);
        // Limits beyond the end of the simulation need no checks.
        let within = |limit: Option<Ps>| limit.filter(|&limit| limit < settings.end());
        let (hoq, switch_life) = (
            within(lifetime(settings.hoq_life)),
            within(lifetime(settings.switch_life)),
        );
        let hosts = layout.hosts.len();
        let mut simulation = Self {
            window: Window::new(settings.measure_from(), settings.end(), hosts),
            calendar: Calendar::new(SLOT_BITS),
            lanes: vec![lane; ports.len() * vls],
            far: vec![Far::new(); ports.len() * vls],
            arbiters: vec![arbitration.arbiter(); ports.len()],
            voqs: vec![Queue::EMPTY; voqs],
            ages: vec![Age::default(); only_if(hoq.is_some() || switch_life.is_some(), ports.len() * vls + voqs)],
            more_requests: vec![0; ports.len() * vls * (layout.words - 1)],
            idle_inputs: vec![u64::MAX; layout.switches.len() * layout.words],
            voq_outputs: vec![0; only_if(is_voq, ports.len() * layout.words)],
            pools: vec![pool; only_if(settings.buffers.shared_blocks > 0, ports.len())],
            hosts: (0..hosts as u64).map(|host| HostState::new(seed, host)).collect(),
            port_stats: vec![PortStats::default(); ports.len()],
            fabric: network.fabric.clone(),
            settings: settings.resolved(network),
            waiting: vec![0; hosts * vls],
            qps: Qps::new(only_if(settings.transport != Transport::None, hosts * vls)),
            packets: Packets::new(),
            messages: Vec::new(),
            free_message: NIL,
            drops: Drops::default(),
            deadlock: None,
            done: false,
            ready: Vec::new(),
            watched: NIL,
            log: None,
            departures: Vec::new(),
            now: 0,
            events: 0,
            sent: 0,
            received: 0,
            workload,
            arbitration,
            layout,
            ports,
            sls,
            changes,
            hoq,
            switch_life,
        };
        simulation.begin();
        Ok(simulation)
    }

    /// Schedules the first events.
    fn begin(&mut self) {
        for index in 0..self.changes.len() {
            let at = self.changes[index].at;
            self.schedule(at, CONTROL, kind::CONTROL, index as u32);
        }
        self.look_again();
        for host in 0..self.hosts.len() as u32 {
            self.hosts[host as usize].next = self.workload.next(host, 0);
            self.wake_for_next(host);
        }
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

    /// Handles every event up to and including `until`. Stops early at a deadlock.
    pub fn run_until(&mut self, until: Ps) {
        let mut goes_on = true;
        while goes_on {
            goes_on = if self.is_plain() {
                self.run_to_change::<true>(until)
            } else {
                self.run_to_change::<false>(until)
            };
        }
        if !self.is_over() {
            self.now = self.now.max(until);
        }
    }

    /// True if a run needs none of the rare features. The code on the path of a packet is compiled a second time for
    /// such runs, with the constant `PLAIN`, so that it contains no tests for these features.
    fn is_plain(&self) -> bool {
        let Settings {
            queueing,
            speedup,
            transport,
            ..
        } = self.settings;
        let simple = (queueing, speedup, transport) == (Queueing::Fifo, 1, Transport::None);
        let layout = &self.layout;
        let uniform = layout.words == 1 && !layout.mixed && !layout.has_exceptions;
        simple && uniform && self.pools.is_empty() && self.ages.is_empty()
    }

    /// Handles events up to the next change or check for deadlocks. False if there are no more.
    fn run_to_change<const PLAIN: bool>(&mut self, until: Ps) -> bool {
        let first_host = self.layout.first_host();
        while !self.is_over() {
            let Some(event) = self.calendar.pop_until(until) else {
                return false;
            };
            self.now = event.at;
            self.events += 1;
            if let Some(log) = &mut self.log {
                log.take();
            }
            let value = event.payload & ((1 << kind::SHIFT) - 1);
            match event.payload >> kind::SHIFT {
                kind::ARRIVE if event.component < first_host => {
                    self.arrive::<PLAIN>(self.here(event.component), value);
                }
                kind::ARRIVE => self.deliver(event.component - first_host, value),
                kind::END => self.end_of_packet::<PLAIN>(self.here(event.component), value as u8),
                kind::CREDIT if event.component < first_host => {
                    self.arbitrate::<PLAIN>(self.here(event.component), value as u8);
                }
                kind::CREDIT => self.host_send::<PLAIN>(event.component - first_host),
                kind::HOST => self.host_wake::<PLAIN>(event.component - first_host),
                kind::LIFETIME => self.check_lifetime(self.here(event.component), value),
                kind::TIMER => self.timer(event.component - first_host, value),
                _ => {
                    self.change(value as usize);
                    return true;
                }
            }
        }
        false
    }

    /// True if the simulation has ended: a deadlock, or the workload is completed.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        self.deadlock.is_some() || self.done
    }

    /// Records events from now on, at most this number. Call it before the first event.
    pub fn note_events(&mut self, most: usize) {
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

    /// Returns the recorded events.
    #[must_use]
    pub fn noted_events(&self) -> Option<&EventLog> {
        self.log.as_deref()
    }

    /// Records from now on when a port begins to send a packet.
    pub fn watch(&mut self, port: PortRef) {
        let place = self.layout.refs.iter().position(|&at| at == port);
        self.watched = place.map_or(NIL, |place| place as u32);
    }

    /// Returns when the watched port began to send each packet.
    #[must_use]
    pub fn departures(&self) -> &[Ps] {
        &self.departures
    }

    /// Returns the workload.
    #[must_use]
    pub const fn workload(&self) -> &W {
        &self.workload
    }

    /// Returns the simulated time.
    #[must_use]
    pub const fn now(&self) -> Ps {
        self.now
    }

    /// Returns the number of events handled so far.
    #[must_use]
    pub const fn events(&self) -> u64 {
        self.events
    }

    /// Returns the peak numbers of dynamic objects.
    #[must_use]
    pub fn footprint(&self) -> Footprint {
        Footprint {
            packets: self.packets.most(),
            messages: self.messages.len(),
            events: self.calendar.most(),
        }
    }

    /// Returns the LIDs of hosts, in the order in which a workload numbers them.
    pub fn host_lids(&self) -> impl Iterator<Item = Lid> + '_ {
        self.layout.hosts.iter().map(|host| host.lid)
    }
}

/// Peak number of each kind of object. Memory is reused and never returned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Footprint {
    /// Packets in flight.
    pub packets: usize,
    /// Messages posted.
    pub messages: usize,
    /// Scheduled events.
    pub events: usize,
}

/// Returns `count` if the objects are used, else 0.
const fn only_if(is_there: bool, count: usize) -> usize {
    if is_there { count } else { 0 }
}

/// Width of the finest slots of the event queue, as a power of two in picoseconds. Packets take from ten to a few
/// thousand nanoseconds per hop, and 4,096 slots of 256 ps are one microsecond.
pub(crate) const SLOT_BITS: u32 = 8;

/// Returns the service level of every destination, if it depends on nothing else.
fn service_levels(network: &Network<'_>, settings: &Settings, layout: &Layout) -> Vec<u8> {
    let vls = u64::from(settings.vls);
    let of = |host: &layout::HostPort| match settings.sl {
        SlChoice::Routing | SlChoice::Random | SlChoice::Flow => network.service_levels.to(host.lid).get(),
        SlChoice::DestHash => (hash(u64::from(host.lid.0)) % vls) as u8,
    };
    layout.hosts.iter().map(of).collect()
}

/// Returns a well-mixed hash of a number.
pub(crate) fn hash(value: u64) -> u64 {
    Seed(0).nth(value).0
}

/// Fails if a service level that may be used has no lane in use.
fn check_lanes(settings: &Settings, layout: &Layout, sls: &[u8]) -> Result<(), BuildError> {
    let used = |sl: u8| match settings.sl {
        SlChoice::Routing | SlChoice::DestHash => sls.contains(&sl),
        SlChoice::Random | SlChoice::Flow => sl < settings.vls,
    };
    for sl in (0..Sl::COUNT as u8).filter(|&sl| used(sl)) {
        let vl = layout.lanes[usize::from(sl)];
        if vl >= settings.vls {
            return Err(BuildError::LaneOutOfUse {
                sl,
                vl,
                vls: settings.vls,
            });
        }
    }
    Ok(())
}
