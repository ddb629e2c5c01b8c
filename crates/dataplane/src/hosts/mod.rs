//! Hosts that post the messages of a workload: one way to fill end ports.
//!
//! A host is an end port. Its messages wait by lane, and become packets without a connection, or packets of queue pairs
//! (`qp`). This part of the crate is an [`Endpoint`] like any other: of the subnet it uses only what is public.

mod post;
mod qp;
mod qp_state;
mod results;
mod series;
mod traffic;
mod window;

pub use self::qp_state::{QpCounts, QpState};
pub use self::results::{Latency, Results, Series};
pub use self::series::steady_from;
pub use self::traffic::{Arrival, Host, Message, Workload};

use core::fmt::Debug;

use selvedge_fabric::PortRef;
use selvedge_sim::{Rng, Seed};
use selvedge_types::{Lid, Sl};

use self::qp::Qps;
use self::window::Window;
use crate::Simulation;
use crate::change::Timed;
use crate::endpoint::{EndPort, Endpoint};
use crate::layout::{BuildError, Network};
use crate::packet::{NIL, Packet};
use crate::settings::{Settings, SlChoice, Transport};
use crate::stats::DropReason;
use crate::subnet::{Subnet, only_if};
use crate::units::Ps;

/// Purpose of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Opcode {
    /// Part of a message without a connection.
    Data,
    /// Part of a message of a queue pair.
    Request {
        /// True if the packet requests an acknowledgement.
        asks: bool,
    },
    /// Acknowledges all packets before a number.
    Ack,
    /// Acknowledges all packets before a number, and reports that the packet with this number is missing.
    Nak,
}

/// What these hosts write into a packet.
#[derive(Clone, Copy, Debug)]
pub struct Header {
    /// When the packet's message was posted.
    created: Ps,
    /// The packet's message.
    message: u32,
    /// The packet's queue pair.
    qp: u32,
    /// Packet sequence number.
    psn: u32,
    /// Purpose of the packet.
    opcode: Opcode,
    /// True for the last packet of a message.
    last: bool,
}

/// A message that was posted.
#[derive(Clone, Copy, Debug)]
struct Posted {
    created: Ps,
    tag: u64,
    from: Host,
    to: Host,
    /// Bytes not sent yet.
    unsent: u32,
    /// Packets that have not arrived yet, whether sent or not.
    missing: u32,
    next: u32,
    /// Length in bytes.
    bytes: u32,
    /// Sequence number of the message's first packet, on a queue pair.
    first_psn: u32,
    dlid: u16,
    sl: u8,
    vl: u8,
    /// True if one of its packets was lost.
    lost: bool,
}

/// A host: its next message, and the lanes with packets.
#[derive(Clone, Debug)]
struct HostState {
    /// The next message of the workload.
    next: Option<Message>,
    /// Bit mask of lanes with waiting messages.
    lanes: u16,
    /// Random numbers of this host.
    rng: Rng,
}

/// Messages that wait on a lane of a host. Those of queue pairs are counted, but wait in their pairs.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    head: u32,
    tail: u32,
    /// Number of messages waiting or being sent.
    count: u32,
}

/// Hosts that post the messages of a workload.
#[derive(Debug)]
pub struct Hosts<W> {
    workload: W,
    hosts: Vec<HostState>,
    /// By host, then lane.
    waiting: Vec<Waiting>,
    qps: Qps,
    messages: Vec<Posted>,
    free_message: u32,
    /// Service level by destination host.
    sls: Vec<u8>,
    window: Window,
    /// True if the workload is completed.
    done: bool,
    ready: Vec<Host>,
}

impl<W: Workload> Hosts<W> {
    fn new(network: &Network<'_>, subnet: &Subnet<Header>, workload: W, seed: Seed) -> Result<Self, BuildError> {
        let settings = subnet.settings();
        let sls = service_levels(network, subnet);
        check_lanes(subnet, &sls)?;
        let hosts = subnet.end_ports().len();
        let places = hosts * usize::from(settings.vls);
        let host = |host: u64| HostState {
            next: None,
            lanes: 0,
            rng: seed.child("host").nth(host).rng(),
        };
        let empty = Waiting {
            head: NIL,
            tail: NIL,
            count: 0,
        };
        Ok(Self {
            workload,
            hosts: (0..hosts as u64).map(host).collect(),
            waiting: vec![empty; places],
            qps: Qps::new(only_if(settings.transport != Transport::None, places)),
            messages: Vec::new(),
            free_message: NIL,
            sls,
            window: Window::new(settings.measure_from(), settings.end(), hosts),
            done: false,
            ready: Vec::new(),
        })
    }

    #[inline]
    fn place(subnet: &Subnet<Header>, host: Host, vl: u8) -> usize {
        host as usize * usize::from(subnet.settings().vls) + usize::from(vl)
    }

    /// Schedules the posting of a host's next message.
    fn wake_for_next(&self, host: Host, subnet: &mut Subnet<Header>) {
        if let Some(message) = self.hosts[host as usize].next {
            let free_at = subnet.free_at(host);
            subnet.wake(host, message.at.max(free_at).max(subnet.now()));
        }
    }
}

impl<W: Workload> Endpoint for Hosts<W> {
    type Header = Header;

    /// Gets the first message of every host from the workload.
    fn begin(&mut self, subnet: &mut Subnet<Header>) {
        for host in 0..self.hosts.len() as Host {
            self.hosts[host as usize].next = self.workload.next(host, 0);
            self.wake_for_next(host, subnet);
        }
    }

    #[inline]
    fn prepare(&mut self, host: EndPort, subnet: &mut Subnet<Header>) {
        self.post_due(host, subnet.now(), subnet);
    }

    #[inline]
    fn lanes(&self, host: EndPort) -> u16 {
        self.hosts[host as usize].lanes
    }

    #[inline]
    fn offer(&mut self, host: EndPort, vl: u8, subnet: &mut Subnet<Header>) -> Option<u32> {
        if subnet.settings().transport == Transport::None {
            let head = self.waiting[Self::place(subnet, host, vl)].head;
            return Some(self.next_packet_bytes(head, subnet.settings()));
        }
        self.next_of_qps(host, vl, subnet)
    }

    #[inline]
    fn take(&mut self, host: EndPort, vl: u8, subnet: &mut Subnet<Header>) -> Packet<Header> {
        if subnet.settings().transport == Transport::None {
            return self.cut(host, vl, subnet);
        }
        self.cut_of_qps(host, vl, subnet)
    }

    #[inline]
    fn next_due(&self, host: EndPort, subnet: &Subnet<Header>) -> Option<Ps> {
        let state = &self.hosts[host as usize];
        let settings = subnet.settings();
        // Another message may use another lane or queue pair and be able to go although waiting ones are not.
        let helps = state.lanes == 0 || settings.vls > 1 || settings.transport != Transport::None;
        let next = state.next.as_ref().filter(|_| helps);
        next.map(|message| message.at)
    }

    #[inline]
    fn arrived(&mut self, host: EndPort, packet: &Packet<Header>, subnet: &mut Subnet<Header>) {
        if packet.header.opcode == Opcode::Data {
            let from = self.messages[packet.header.message as usize].from;
            self.window.delivered(subnet.now(), packet, (from, host));
            self.packet_done(packet.header.message, false, subnet);
        } else {
            self.receive(packet, subnet);
        }
    }

    fn timer(&mut self, host: EndPort, token: u32, subnet: &mut Subnet<Header>) {
        self.qp_timer(host, token, subnet);
    }

    /// Messages without a connection and those of UC end with their last packet, whether it arrives or not.
    fn lost(&mut self, packet: &Packet<Header>, _reason: DropReason, subnet: &mut Subnet<Header>) {
        self.window.series.drop(subnet.now());
        let is_counted = match packet.header.opcode {
            Opcode::Data => true,
            Opcode::Request { .. } => subnet.settings().transport == Transport::Uc,
            Opcode::Ack | Opcode::Nak => false,
        };
        if is_counted {
            self.packet_done(packet.header.message, true, subnet);
        }
    }

    #[inline]
    fn is_over(&self) -> bool {
        self.done
    }
}

impl<W: Workload> Simulation<Hosts<W>> {
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
        let mut subnet = Subnet::new(network, settings, true)?;
        let mut endpoint = Hosts::new(network, &subnet, workload, seed)?;
        for Timed { at, change } in changes {
            subnet.schedule_change(at, change);
        }
        subnet.look_again();
        endpoint.begin(&mut subnet);
        Ok(Self { subnet, endpoint })
    }

    /// Returns the workload.
    #[must_use]
    pub const fn workload(&self) -> &W {
        &self.endpoint.workload
    }

    /// Returns the payload bytes that each host has received during the measurement.
    #[must_use]
    pub fn received_bytes(&self) -> &[u64] {
        &self.endpoint.window.by_receiver
    }

    /// Returns the payload bytes of each host that were delivered during the measurement, by sender.
    #[must_use]
    pub fn accepted_bytes(&self) -> &[u64] {
        &self.endpoint.window.by_sender
    }

    /// Records from now on when a port begins to send a packet.
    pub fn watch(&mut self, port: PortRef) {
        self.subnet.watch(port);
    }

    /// Returns when the watched port began to send each packet.
    #[must_use]
    pub fn departures(&self) -> &[Ps] {
        self.subnet.departures()
    }

    /// Returns the peak numbers of dynamic objects.
    #[must_use]
    pub fn footprint(&self) -> Footprint {
        Footprint {
            packets: self.subnet.packets.most(),
            messages: self.endpoint.messages.len(),
            events: self.subnet.calendar.most(),
        }
    }

    /// Returns the LIDs of hosts, in the order in which a workload numbers them.
    pub fn host_lids(&self) -> impl Iterator<Item = Lid> + '_ {
        self.subnet.end_ports().iter().map(|host| host.lid)
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

/// Returns the service level of every destination, if it depends on nothing else.
fn service_levels(network: &Network<'_>, subnet: &Subnet<Header>) -> Vec<u8> {
    let settings = subnet.settings();
    let vls = u64::from(settings.vls);
    let of = |lid: Lid| match settings.sl {
        SlChoice::Routing | SlChoice::Random | SlChoice::Flow => network.service_levels.to(lid).get(),
        SlChoice::DestHash => (hash(u64::from(lid.0)) % vls) as u8,
    };
    subnet.end_ports().iter().map(|port| of(port.lid)).collect()
}

/// Returns a well-mixed hash of a number.
fn hash(value: u64) -> u64 {
    Seed(0).nth(value).0
}

/// Fails if a service level that may be used has no lane in use.
fn check_lanes(subnet: &Subnet<Header>, sls: &[u8]) -> Result<(), BuildError> {
    let settings = subnet.settings();
    let used = |sl: u8| match settings.sl {
        SlChoice::Routing | SlChoice::DestHash => sls.contains(&sl),
        SlChoice::Random | SlChoice::Flow => sl < settings.vls,
    };
    for sl in (0..Sl::COUNT as u8).filter(|&sl| used(sl)) {
        let vl = subnet.lane(0, sl);
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
