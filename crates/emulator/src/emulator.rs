//! The interface of the emulator: clients, time, commands.

use std::collections::{BTreeMap, BTreeSet};

use selvedge_chassis::{Chassis, PortIdx, TableKind};
use selvedge_fabric::{Fabric, NodeIdx, PortCapability, PortRef};
use selvedge_sim::{ComponentId, EventQueue, Seed, Time};
use selvedge_types::{Idx, Lid, LinkSpeed, NodeKind, PKey, PortNum};
use selvedge_wire::{AttributeId, CapabilityMask, CapabilityMask2, Class, Datagram, LocalPort, Method, SmpData};

use crate::agent::Agent;
use crate::attribute::{node_info, port_info};
use crate::cable::Cables;
use crate::client::Clients;
use crate::config::nanos;
use crate::count::{Counts, DropReason, MadTable};
use crate::errors::ErrorRates;
use crate::fault::Action;
use crate::flight::{Flight, Flights, Slot};
use crate::load::Traffic;
use crate::trap::TrapTable;
use crate::watch::Watch;
use crate::wrapper::Wrappers;
use crate::{ClientId, Delivery, EmulatorConfig, EmulatorError, PortName};

/// Management agents over simulated hardware; see the crate's page.
#[derive(Clone, Debug)]
pub struct Emulator {
    pub(crate) now: Time,
    pub(crate) config: EmulatorConfig,
    pub(crate) delays: Delays,
    pub(crate) chassis: Chassis,
    pub(crate) queue: EventQueue<Event>,
    pub(crate) flights: Flights,
    /// Two agents per node: subnet management, then general services.
    pub(crate) agents: Vec<Agent>,
    pub(crate) hung: BTreeMap<NodeIdx, Vec<Slot>>,
    /// Additional time per request, in ns, at nodes with slow agents.
    pub(crate) slow: BTreeMap<NodeIdx, u64>,
    /// Switches that acknowledge LFT blocks without storing them.
    pub(crate) liars: BTreeSet<NodeIdx>,
    /// Nodes that show extended speeds only if the request shows that the sender supports them.
    pub(crate) shy: BTreeSet<NodeIdx>,
    pub(crate) watch: Watch,
    pub(crate) clients: Clients,
    pub(crate) traps: TrapTable,
    /// Number of training attempts of each link, so that a training step of an earlier attempt is ignored.
    pub(crate) attempts: Vec<u32>,
    /// Expiry of each port's M_Key lease, while it runs.
    pub(crate) leases: BTreeMap<PortIdx, Time>,
    pub(crate) commands: BTreeMap<u32, Action>,
    pub(crate) command_serial: u32,
    pub(crate) wrappers: Wrappers,
    pub(crate) traffic: Traffic,
    pub(crate) errors: ErrorRates,
    pub(crate) cables: Cables,
    pub(crate) counts: Counts,
    pub(crate) outbox: Vec<Delivery>,
}

/// The configured delays in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Delays {
    pub service: u64,
    pub link: u64,
    pub relay: u64,
    pub directed: u64,
}

/// A future event.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    /// A MAD leaves the client or agent that created it.
    Inject(Slot),
    /// A MAD arrives at the end of a link.
    Arrive(Slot),
    /// An agent has served a request.
    Serve(Slot),
    /// A rare event; the details are in the table of commands.
    Command(u32),
}

// Passed in registers: a larger event would be copied through memory at each hop.
const _: () = assert!(size_of::<Event>() == 8);

impl Emulator {
    /// Returns the fabric at time zero, just switched on: links up in INIT (or training, as configured), tables empty.
    #[must_use]
    pub fn new(fabric: &Fabric, config: EmulatorConfig, seed: Seed) -> Self {
        Self::on(Chassis::new(fabric), config, seed)
    }

    /// Returns an emulator on existing hardware at time zero, switched on as in [`Self::new`], with the tables
    /// installed in it.
    #[must_use]
    pub fn on(chassis: Chassis, config: EmulatorConfig, seed: Seed) -> Self {
        let fabric = chassis.fabric().clone();
        let mut emulator = Self {
            now: Time::ZERO,
            config,
            delays: Delays {
                service: nanos(config.service_time),
                link: nanos(config.link_delay),
                relay: nanos(config.relay_delay),
                directed: nanos(config.directed_delay),
            },
            queue: EventQueue::new(),
            flights: Flights::default(),
            agents: vec![Agent::default(); 2 * fabric.nodes().len()],
            hung: BTreeMap::new(),
            slow: BTreeMap::new(),
            liars: BTreeSet::new(),
            shy: BTreeSet::new(),
            watch: Watch::default(),
            clients: Clients::default(),
            traps: TrapTable::default(),
            attempts: vec![0; chassis.port_count()],
            leases: BTreeMap::new(),
            commands: BTreeMap::new(),
            command_serial: 0,
            wrappers: Wrappers::new(seed),
            traffic: Traffic::default(),
            errors: ErrorRates::default(),
            cables: Cables::new(seed.child("cables")),
            counts: Counts::default(),
            outbox: Vec::new(),
            chassis,
        };
        for node in fabric.nodes().indices() {
            emulator.default_capabilities(node);
        }
        for link in fabric.links() {
            let Some(port) = emulator.chassis.port_idx(link.a) else {
                continue;
            };
            if config.links_up {
                emulator.chassis.bring_up(port);
            } else {
                emulator.try_train(port);
            }
        }
        emulator
    }

    /// Attaches a client to an end port: port 0 of a switch, any port of another node.
    pub fn attach(&mut self, at: PortRef) -> Result<ClientId, EmulatorError> {
        let port = self.end_port(at)?;
        Ok(self.clients.attach(port))
    }

    /// Returns the index of an end port.
    pub(crate) fn end_port(&self, at: PortRef) -> Result<PortIdx, EmulatorError> {
        let port = self.chassis.port_idx(at).filter(|&p| self.chassis.end_port(p) == p);
        port.ok_or_else(|| EmulatorError::NotAnEndPort {
            port: self.chassis.fabric().port_name(at),
        })
    }

    /// Attaches a client to an end port given as text: `"name"`, `"name"[port]`, `0x<node or port GUID>`,
    /// `0x<GUID>[port]`. Without a port number: the first cabled port of a CA, port 0 of a switch.
    pub fn attach_named(&mut self, text: &str) -> Result<ClientId, EmulatorError> {
        let name: PortName = text.parse()?;
        let at = name.end_port(self.chassis.fabric())?;
        self.attach(at)
    }

    /// Detaches a client. It is no longer a subnet manager, and MADs for it are dropped from now on.
    pub fn detach(&mut self, now: Time, client: ClientId) {
        // If the client was no manager, there is nothing to clear.
        let _ = self.set_is_sm(now, client, false);
        self.clients.detach(client);
    }

    /// Sets whether `client` is a subnet manager. The port's capability mask changes at `now`, and trap 144 is sent if
    /// the port's capabilities include it. A port can have one manager.
    pub fn set_is_sm(&mut self, now: Time, client: ClientId, is_sm: bool) -> Result<(), EmulatorError> {
        let port = self.clients.get(client).ok_or(EmulatorError::NoSuchClient)?.port;
        let is_shown = self.shows_is_sm(port);
        let seat = self.clients.seat_mut(port).ok_or(EmulatorError::NoSuchClient)?;
        match (is_sm, seat.is_sm) {
            (true, Some(other)) if other != client => {
                let port = self.chassis.fabric().port_name(self.chassis.port_ref(port));
                return Err(EmulatorError::SecondManager { port });
            }
            // A reset of the driver may have cleared it since.
            (true, Some(_)) if is_shown => return Ok(()),
            (true, Some(_)) => {}
            (true, None) => seat.is_sm = Some(client),
            (false, Some(current)) if current == client => seat.is_sm = None,
            (false, _) => return Ok(()),
        }
        self.command(now, Action::IsSm { port, is_sm });
        Ok(())
    }

    fn shows_is_sm(&self, port: PortIdx) -> bool {
        CapabilityMask(self.chassis.port(port).capability_mask).contains(CapabilityMask::IS_SM)
    }

    /// Sends a datagram at `now`: to `datagram.address`, or along its directed route. A datagram of a detached client
    /// is ignored.
    pub fn send(&mut self, now: Time, client: ClientId, datagram: &Datagram) {
        let Some(sender) = self.clients.get_mut(client) else {
            return;
        };
        sender.sent.add(&datagram.mad);
        self.counts.sent.add(&datagram.mad);
        let port = sender.port;
        let data = self.chassis.port(port);
        let is_smp = datagram.mad.class().is_smp();
        let lid = data.settings().lids.base;
        let flight = Flight {
            mad: datagram.mad,
            slid: if datagram.address.lid == Lid::PERMISSIVE {
                Lid::PERMISSIVE
            } else {
                lid
            },
            dlid: datagram.address.lid,
            at: port,
            // A response has no requesting client.
            origin: (!datagram.mad.method().is_response()).then_some(client),
            qp: u32::from(!is_smp),
            boot: 0,
            hops: 0,
            pkey: data.pkeys.first().copied().unwrap_or(PKey(0)),
            sl: datagram.address.sl,
        };
        let at = now.max(self.now);
        match self.launch(&flight) {
            Some(slot) => self.queue.push(at, self.component(port), Event::Inject(slot)),
            None => self.count_drop(&datagram.mad, DropReason::Crowded),
        }
    }

    /// Returns when the next event is due; `None` if there is none.
    #[must_use]
    pub fn next_event(&self) -> Option<Time> {
        self.queue.next_time()
    }

    /// Processes everything that is due up to `now` and appends the datagrams that clients received.
    pub fn advance(&mut self, now: Time, out: &mut Vec<Delivery>) {
        self.run(now, out, false);
    }

    /// Like [`Self::advance`], but stops after the first instant at which a client received a datagram. With
    /// [`Self::watch_changes`] it also stops within an instant when a watched change happened. Returns the time
    /// reached: `limit` if there was neither.
    pub fn advance_to_delivery(&mut self, limit: Time, out: &mut Vec<Delivery>) -> Time {
        self.run(limit, out, true);
        self.now
    }

    /// Returns the time of the last event, or the time to which the caller advanced.
    #[must_use]
    pub const fn now(&self) -> Time {
        self.now
    }

    /// Returns the hardware: installed tables, port states, counters.
    #[must_use]
    pub const fn chassis(&self) -> &Chassis {
        &self.chassis
    }

    /// Returns the counts of MADs by outcome.
    #[must_use]
    pub const fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Returns the number of MADs in flight: in links, agents' queues, or just sent.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.flights.len()
    }

    /// Returns the counts of MADs that one client sent.
    #[must_use]
    pub fn sent_by(&self, client: ClientId) -> Option<&MadTable> {
        self.clients.get(client).map(|c| &c.sent)
    }

    /// Returns the number of Sets that one client sent to agents, not counting SubnSet(SMInfo), which goes to other
    /// managers.
    #[must_use]
    pub fn sets_sent_by(&self, client: ClientId) -> u64 {
        // Both SMP classes are counted as one.
        let told = |sent: &MadTable| sent.of(Class::SubnDirected, Method::Set, AttributeId::SM_INFO);
        self.sent_by(client)
            .map_or(0, |sent| sent.of_method(Method::Set) - told(sent))
    }

    /// Returns the identity of a client's port.
    #[must_use]
    pub fn local(&self, client: ClientId) -> Option<LocalPort> {
        let port = self.clients.get(client)?.port;
        let at = self.chassis.port_ref(port);
        Some(LocalPort {
            node_guid: self.chassis.node_guid(at.node),
            port_guid: self.chassis.port_guid(port),
            port: at.port,
        })
    }

    /// Returns the port that a client is attached to.
    #[must_use]
    pub fn port_of(&self, client: ClientId) -> Option<PortIdx> {
        self.clients.get(client).map(|c| c.port)
    }

    /// Returns the NodeInfo of a client's own node, without sending a MAD.
    #[must_use]
    pub fn local_node_info(&self, client: ClientId) -> Option<SmpData> {
        Some(node_info::describe(&self.chassis, self.clients.get(client)?.port))
    }

    /// Returns the PortInfo of a client's own node for port `num` (0 on a CA: the client's own), without sending a MAD.
    #[must_use]
    pub fn local_port_info(&self, client: ClientId, num: u8) -> Option<SmpData> {
        let own = self.clients.get(client)?.port;
        let node = self.chassis.wire(own).node();
        let port = match num {
            0 => own,
            _ => self.chassis.port_at(node, num)?,
        };
        Some(port_info::describe(&self.chassis, port, own, true))
    }

    fn run(&mut self, until: Time, out: &mut Vec<Delivery>, stop: bool) {
        self.outbox = core::mem::take(out);
        let before = self.outbox.len();
        let mut until = until;
        while let Some((at, _, event)) = self.queue.pop_until(until) {
            self.now = at;
            self.handle(event);
            if self.traffic.is_on() {
                self.traffic.notice(&self.chassis, at);
            }
            if stop && self.watch.has_seen() {
                until = at;
                break;
            }
            if stop && self.outbox.len() > before {
                until = until.min(at);
            }
        }
        self.now = self.now.max(until);
        *out = core::mem::take(&mut self.outbox);
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Inject(slot) => self.inject(slot),
            Event::Arrive(slot) => self.arrive(slot),
            Event::Serve(slot) => self.serve(slot),
            Event::Command(serial) => {
                if let Some(action) = self.commands.remove(&serial) {
                    self.act(action);
                }
            }
        }
    }

    /// Adds a MAD in flight; `None` if there are too many.
    pub(crate) fn launch(&mut self, flight: &Flight) -> Option<Slot> {
        let room = self.flights.len() < self.config.in_flight_max as usize;
        room.then(|| self.flights.put(flight))
    }

    /// Schedules a command at `at`.
    pub(crate) fn command(&mut self, at: Time, action: Action) {
        self.command_serial = self.command_serial.wrapping_add(1);
        self.commands.insert(self.command_serial, action);
        // Component 0 is before every node, so faults come first within an instant.
        self.queue
            .push(at.max(self.now), ComponentId(0), Event::Command(self.command_serial));
    }

    /// Schedules a command `delay` ns from now.
    pub(crate) fn command_in(&mut self, delay: u64, action: Action) {
        self.command(Time(self.now.0.saturating_add(delay)), action);
    }

    /// Schedules an event at a port.
    pub(crate) fn schedule(&mut self, delay: u64, port: PortIdx, event: Event) {
        let at = Time(self.now.0.saturating_add(delay));
        self.queue.push(at, self.component(port), event);
    }

    pub(crate) fn component(&self, port: PortIdx) -> ComponentId {
        ComponentId(port.0.saturating_add(1))
    }

    /// Drops a MAD.
    pub(crate) fn drop(&mut self, slot: Slot, reason: DropReason) {
        let mad = &self.flights.at(slot).mad;
        self.counts.dropped.add(mad);
        self.counts.drops[reason as usize] += 1;
        self.flights.release(slot);
    }

    pub(crate) fn count_drop(&mut self, mad: &selvedge_wire::Mad, reason: DropReason) {
        self.counts.dropped.add(mad);
        self.counts.drops[reason as usize] += 1;
    }

    /// If the fabric states no capabilities of a node's ports, sets them to those of the emulator's agents. Also sets
    /// IsSM if a manager is attached.
    pub(crate) fn default_capabilities(&mut self, node: NodeIdx) {
        let built = self.chassis.fabric().node(node);
        let kind = built.kind;
        let ports: Vec<(PortNum, PortCapability)> =
            built.end_ports().map(|(num, port)| (num, port.capability)).collect();
        for (num, capability) in ports {
            let Some(port) = self.chassis.port_at(node, num.get()) else {
                continue;
            };
            let (mut mask, mask2) = match capability.mask {
                0 => agent_capabilities(capability.speed, kind),
                mask => (CapabilityMask(mask), capability.mask2),
            };
            if self.clients.manager(port).is_some() {
                mask = mask.with(CapabilityMask::IS_SM);
            }
            let data = self.chassis.port_mut(port, TableKind::Settings);
            (data.capability_mask, data.capability_mask2) = (mask.0, mask2);
        }
    }
}

/// Returns the capabilities of the emulator's agents.
fn agent_capabilities(speed: LinkSpeed, kind: NodeKind) -> (CapabilityMask, u16) {
    let mut mask = CapabilityMask::TRAP
        .with(CapabilityMask::NOTICE)
        .with(CapabilityMask::SL_MAPPING)
        .with(CapabilityMask::SYSTEM_IMAGE_GUID)
        .with(CapabilityMask::CAPABILITY_MASK2)
        .with(CapabilityMask::CAPABILITY_MASK_NOTICE);
    if kind != NodeKind::Switch {
        mask = mask.with(CapabilityMask::CLIENT_REREGISTRATION);
    }
    if speed >= LinkSpeed::Fdr {
        mask = mask.with(CapabilityMask::EXTENDED_SPEEDS);
    }
    let mut mask2 = CapabilityMask2::LINK_WIDTH_2X.0;
    if speed >= LinkSpeed::Hdr {
        mask2 |= CapabilityMask2::LINK_SPEED_HDR.0;
    }
    if speed >= LinkSpeed::Ndr {
        mask2 |= CapabilityMask2::LINK_SPEED_NDR.0;
    }
    if speed >= LinkSpeed::Xdr {
        mask2 |= CapabilityMask2::EXTENDED_SPEEDS_2.0 | CapabilityMask2::LINK_SPEED_XDR.0;
    }
    (mask, mask2)
}

/// Returns the index of a node's agent for a class.
pub(crate) fn agent_index(node: NodeIdx, class: Class) -> usize {
    2 * node.to_usize() + usize::from(!class.is_smp())
}
