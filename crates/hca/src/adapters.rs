//! The adapters of a subnet: one [`Hca`] for each node with end ports, as an endpoint of the packet simulator.
//!
//! Ports follow their links: they are ACTIVE with the LIDs of the subnet while the link is up, and DOWN otherwise. A
//! driver with a subnet manager changes them by [`Adapters::act`] and [`Hca::set_port`]; one that changes LIDs in the
//! subnet (`Change::Lids`) changes them at the adapter as well. A program acts from outside the simulation by
//! [`Adapters::act`], too, and learns from [`Adapters::next_notice`] when it can see something new.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BinaryHeap};

use selvedge_dataplane::{EndPort, EndPortInfo, Endpoint, Packet as Frame, Simulation, Subnet};
use selvedge_types::{Guid, Lid, LidRange, Lmc, PKey, PortState};

use crate::config::HcaConfig;
use crate::error::VerbsError;
use crate::hca::{Hca, Notice};
use crate::packet::{Body, Packet, Syndrome};
use crate::port::PortAttr;
use crate::time::Ps;

/// Index of an adapter: nodes with end ports, in order.
pub type HcaIndex = u32;

/// An end port: its adapter and port number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    hca: HcaIndex,
    port: u8,
    /// Lanes with packets, as of the last look.
    lanes: u16,
    /// By lane: the service level of the packet that was offered, and the one that comes first at the next offer.
    offered: [u8; 16],
    turn: [u8; 16],
}

/// An adapter with its end ports.
#[derive(Clone, Debug)]
struct Adapter {
    hca: Hca,
    /// By port number: the end port.
    ends: Vec<Option<EndPort>>,
    /// When timers are set, the earliest one last.
    timers: Vec<Ps>,
}

/// Something that a program can see from a time on. The greatest is the first by time, then by number.
#[derive(Clone, Debug)]
struct Due {
    at: Ps,
    number: u64,
    hca: HcaIndex,
    notice: Notice,
}

impl Ord for Due {
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.number).cmp(&(self.at, self.number))
    }
}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Due {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.number) == (other.at, other.number)
    }
}

impl Eq for Due {}

/// The adapters of all end ports.
#[derive(Clone, Debug)]
pub struct Adapters {
    template: HcaConfig,
    adapters: Vec<Adapter>,
    places: Vec<Place>,
    /// What programs can see, the first one on top.
    notices: BinaryHeap<Due>,
    noticed: u64,
    scratch: Vec<Notice>,
    no_lane: u64,
    lost: u64,
}

impl Adapters {
    /// Returns adapters that have these settings, except for GUID and number of ports. They exist from the beginning of
    /// the simulation on.
    pub fn new(template: HcaConfig) -> Result<Self, VerbsError> {
        // Refuses settings that no adapter can have.
        Hca::new(HcaConfig {
            ports: 1,
            ..template.clone()
        })?;
        Ok(Self {
            template,
            adapters: Vec::new(),
            places: Vec::new(),
            notices: BinaryHeap::new(),
            noticed: 0,
            scratch: Vec::new(),
            no_lane: 0,
            lost: 0,
        })
    }

    /// Returns the number of adapters.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.adapters.len()
    }

    /// True if no node has an end port, or the simulation has not begun.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.adapters.is_empty()
    }

    /// Returns an adapter. `None`: there are fewer.
    #[must_use]
    pub fn hca(&self, index: HcaIndex) -> Option<&Hca> {
        self.adapters.get(index as usize).map(|adapter| &adapter.hca)
    }

    /// Returns adapter and port number, from 1, of an end port.
    #[must_use]
    pub fn of_end_port(&self, end: EndPort) -> Option<(HcaIndex, u8)> {
        self.places.get(end as usize).map(|place| (place.hca, place.port))
    }

    /// Returns the number of packets that were discarded because their service level has no lane in use.
    #[must_use]
    pub const fn without_lane(&self) -> u64 {
        self.no_lane
    }

    /// Returns the number of packets that were lost in the subnet.
    #[must_use]
    pub const fn lost_packets(&self) -> u64 {
        self.lost
    }

    /// Calls verbs of an adapter from outside, at the present time, and wakes its ports. `None`: there is no such
    /// adapter.
    pub fn act<R>(
        &mut self,
        subnet: &mut Subnet<Packet>,
        index: HcaIndex,
        verbs: impl FnOnce(&mut Hca, Ps) -> R,
    ) -> Option<R> {
        let adapter = self.adapters.get_mut(index as usize)?;
        let result = verbs(&mut adapter.hca, subnet.now());
        self.follow(index, subnet);
        Some(result)
    }

    /// Returns when a program can see something new. Needs [`HcaConfig::notices`].
    #[must_use]
    pub fn next_notice(&self) -> Option<Ps> {
        self.notices.peek().map(|due| due.at)
    }

    /// Removes and returns the next notice that is due, with its adapter.
    pub fn take_notice(&mut self, now: Ps) -> Option<(HcaIndex, Notice)> {
        if self.next_notice()? > now {
            return None;
        }
        self.notices.pop().map(|due| (due.hca, due.notice))
    }

    /// Runs a simulation until a program can see something new, and returns that time; `None`: until `until`. The
    /// caller takes the notices that are due then, or it will be called back at once.
    pub fn run_to_notice(simulation: &mut Simulation<Self>, until: Ps) -> Option<Ps> {
        // An event may bring an earlier notice.
        simulation.run_towards(|adapters| adapters.next_notice().map_or(until, |at| at.min(until)));
        let notice = simulation.endpoint().next_notice().filter(|at| *at <= until);
        simulation.run_until(notice.unwrap_or(until));
        notice
    }

    /// Wakes ports and sets the timer of an adapter that something was done to.
    fn follow(&mut self, index: HcaIndex, subnet: &mut Subnet<Packet>) {
        let Some(adapter) = self.adapters.get_mut(index as usize) else {
            return;
        };
        while let Some(port) = adapter.hca.next_ready_port() {
            if let Some(&Some(end)) = adapter.ends.get(usize::from(port)) {
                subnet.wake(end, subnet.now());
            }
        }
        let first = adapter.ends.iter().flatten().next().copied();
        if let (Some(at), Some(end)) = (adapter.hca.next_wake(), first)
            && adapter.timers.last().is_none_or(|&set| at < set)
        {
            adapter.timers.push(at);
            subnet.set_timer(end, at, index);
        }
        adapter.hca.take_notices(&mut self.scratch);
        for notice in self.scratch.drain(..) {
            let (Notice::Completion(at, _) | Notice::Channel(at, _) | Notice::Async(at, _)) = notice;
            self.noticed += 1;
            self.notices.push(Due {
                at,
                number: self.noticed,
                hca: index,
                notice,
            });
        }
    }

    /// Looks at the lanes of a port, and discards packets that have none.
    fn look(&mut self, port: EndPort, subnet: &Subnet<Packet>) {
        let Some(place) = self.places.get_mut(port as usize) else {
            return;
        };
        let hca = &mut self.adapters[place.hca as usize].hca;
        place.lanes = 0;
        let vls = subnet.settings().vls;
        let mut waiting = hca.waiting(place.port);
        while waiting != 0 {
            let sl = waiting.trailing_zeros() as u8;
            waiting &= waiting - 1;
            let lane = subnet.lane(port, sl);
            if lane < vls {
                place.lanes |= 1 << lane;
            } else {
                while hca.take(subnet.now(), place.port, sl).is_some() {
                    self.no_lane += 1;
                }
            }
        }
    }
}

/// Returns the attributes of a port with its link up or down.
fn port_attr(info: &EndPortInfo, up: bool, subnet: &Subnet<Packet>) -> PortAttr {
    let lmc = Lmc::new(info.lids.max(1).ilog2() as u8).unwrap_or(Lmc::ZERO);
    PortAttr {
        state: if up { PortState::Active } else { PortState::Down },
        lids: LidRange { base: info.lid, lmc },
        mtu: subnet.settings().mtu,
        pkeys: vec![PKey::DEFAULT_FULL],
        ..PortAttr::default()
    }
}

impl Endpoint for Adapters {
    type Header = Packet;

    fn begin(&mut self, subnet: &mut Subnet<Packet>) {
        let ends: Vec<EndPortInfo> = subnet.end_ports().to_vec();
        let mut by_node: BTreeMap<_, Vec<(EndPort, EndPortInfo)>> = BTreeMap::new();
        for (end, info) in (0..).zip(&ends) {
            by_node.entry(info.at.node).or_default().push((end, *info));
        }
        let mut places = BTreeMap::new();
        for (number, of_node) in (1_u64..).zip(by_node.into_values()) {
            let ports = of_node.iter().map(|(_, info)| info.at.port.get()).max().unwrap_or(1);
            let guid = Guid(self.template.guid.0.wrapping_add(number << 8));
            let config = HcaConfig {
                guid,
                ports: ports.max(1),
                ..self.template.clone()
            };
            // The template was checked, and a port number fits.
            let Ok(mut hca) = Hca::new(config) else { continue };
            let index = self.adapters.len() as HcaIndex;
            let mut ends = vec![None; usize::from(ports) + 1];
            for (end, info) in of_node {
                let port = info.at.port.get();
                let attr = port_attr(&info, subnet.is_up(end), subnet);
                // The port exists, and there is a P_Key.
                let _ = hca.set_port(0, port, attr);
                ends[usize::from(port)] = Some(end);
                let place = Place {
                    hca: index,
                    port,
                    lanes: 0,
                    offered: [0; 16],
                    turn: [0; 16],
                };
                places.insert(end, place);
            }
            self.adapters.push(Adapter {
                hca,
                ends,
                timers: Vec::new(),
            });
        }
        self.places = places.into_values().collect();
    }

    fn prepare(&mut self, port: EndPort, subnet: &mut Subnet<Packet>) {
        self.look(port, subnet);
    }

    fn lanes(&self, port: EndPort) -> u16 {
        self.places.get(port as usize).map_or(0, |place| place.lanes)
    }

    fn offer(&mut self, port: EndPort, vl: u8, subnet: &mut Subnet<Packet>) -> Option<u32> {
        let place = self.places.get_mut(port as usize)?;
        let hca = &mut self.adapters[place.hca as usize].hca;
        let lane = usize::from(vl & 15);
        // Service levels of a lane take turns: the bits are turned so that the next one comes first.
        let first = place.turn[lane];
        let mut waiting = hca.waiting(place.port).rotate_right(u32::from(first));
        let mut found = None;
        while waiting != 0 && found.is_none() {
            let sl = (waiting.trailing_zeros() as u8 + first) % 16;
            waiting &= waiting - 1;
            if subnet.lane(port, sl) == vl {
                found = hca.peek(subnet.now(), place.port, sl).map(|bytes| (sl, bytes));
            }
        }
        let index = place.hca;
        if let Some((sl, _)) = found {
            place.offered[lane] = sl;
        } else {
            place.lanes &= !(1 << lane);
        }
        self.follow(index, subnet);
        found.map(|(_, bytes)| bytes)
    }

    fn take(&mut self, port: EndPort, vl: u8, subnet: &mut Subnet<Packet>) -> Frame<Packet> {
        let lane = usize::from(vl & 15);
        let place = &mut self.places[port as usize];
        let sl = place.offered[lane];
        place.turn[lane] = (sl + 1) % 16;
        let (index, number) = (place.hca, place.port);
        let taken = self.adapters[index as usize].hca.take(subnet.now(), number, sl);
        self.look(port, subnet);
        self.follow(index, subnet);
        // The packet was offered in the same pull, so there is one.
        let packet = taken.unwrap_or(NO_PACKET);
        let overhead = packet.wire_bytes() - packet.payload;
        let lids = (packet.slid.0, packet.dlid.0);
        Frame::new(packet, lids, packet.sl.get(), packet.payload as u16, overhead as u8).with_pkey(packet.pkey.0)
    }

    fn arrived(&mut self, port: EndPort, packet: &Frame<Packet>, subnet: &mut Subnet<Packet>) {
        let Some((index, number)) = self.of_end_port(port) else {
            return;
        };
        let adapter = &mut self.adapters[index as usize];
        adapter.hca.receive(subnet.now(), number, &packet.header);
        self.follow(index, subnet);
    }

    fn timer(&mut self, _port: EndPort, token: u32, subnet: &mut Subnet<Packet>) {
        let Some(adapter) = self.adapters.get_mut(token as usize) else {
            return;
        };
        adapter.timers.pop();
        adapter.hca.wake(subnet.now());
        self.follow(token, subnet);
    }

    fn link(&mut self, port: EndPort, up: bool, subnet: &mut Subnet<Packet>) {
        let Some((index, number)) = self.of_end_port(port) else {
            return;
        };
        let hca = &mut self.adapters[index as usize].hca;
        let state = if up { PortState::Active } else { PortState::Down };
        if let Ok(attr) = hca.query_port(number).cloned() {
            // The port exists, and its P_Key table was accepted before.
            let _ = hca.set_port(subnet.now(), number, PortAttr { state, ..attr });
        }
        self.follow(index, subnet);
    }

    fn lost(&mut self, _packet: &Frame<Packet>, _reason: selvedge_dataplane::DropReason, _subnet: &mut Subnet<Packet>) {
        self.lost += 1;
    }
}

/// A packet to no LID, which every switch drops.
const NO_PACKET: Packet = Packet {
    slid: Lid::NONE,
    dlid: Lid::NONE,
    sl: crate::attr::AhAttr::lid(Lid::NONE).sl,
    pkey: PKey::NOBODYS,
    grh: None,
    dest_qp: 0,
    psn: 0,
    mig_req: false,
    msn: 0,
    credits: crate::credits::NOT_TOLD,
    deth: None,
    body: Body::Ack(Syndrome::Ack),
    payload: 0,
    tag: 0,
};
