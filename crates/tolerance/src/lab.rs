//! Hosts with several ports, in which port 1 is joined with port 1 by a cable, port 2 with port 2, and so on: the
//! test-bed of the paper, and the smallest fabric in which path migration means something.
//!
//! Hosts come in pairs: host 0 with host 1, host 2 with host 3. Each packet takes the time of its bytes at the sending
//! port, then the cable's delay. A cable can be pulled, which both ports notice, or swallow packets, which no port
//! notices.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use selvedge_hca::{
    Access, AhAttr, Context, Costs, Hca, HcaConfig, Notice, Packet, Path, PortAttr, Ps, Qp, QpAttr, SendOp, Transport,
    VerbsError, Wc,
};
use selvedge_types::{Guid, Lid, LidRange, Mtu, PortState};

use crate::network::{Network, Objects};

/// Settings.
#[derive(Clone, Debug)]
pub struct LabSettings {
    /// Number of hosts, even. Default 2.
    pub hosts: usize,
    /// Ports of each host, 1–8. Default 2.
    pub ports: u8,
    /// Time of a byte on a cable. Default 1 ns: 8 Gbit/s, which is 4x SDR.
    pub ps_per_byte: Ps,
    /// Delay of a cable with what is between the ports. Default 200 ns.
    pub delay_ps: Ps,
    /// Costs of the HCAs.
    pub costs: Costs,
    /// Contexts of queue pairs that an HCA holds; 0: all.
    pub context_cache: u32,
}

impl Default for LabSettings {
    fn default() -> Self {
        Self {
            hosts: 2,
            ports: 2,
            ps_per_byte: 1_000,
            delay_ps: 200_000,
            costs: Costs::default(),
            context_cache: 0,
        }
    }
}

/// A host: an HCA, and the objects of a program on it. Other programs may open more.
#[derive(Clone, Debug)]
pub struct Host {
    /// The adapter.
    pub hca: Hca,
    /// Objects of the first program.
    pub objects: Objects,
    announced: Vec<(Context, Ps)>,
    free_at: Vec<Ps>,
}

impl Host {
    /// Creates a queue pair with room for `requests` in each queue.
    pub fn create_qp(&mut self, transport: Transport, requests: u32) -> Result<Qp, VerbsError> {
        self.objects.create_qp(&mut self.hca, transport, requests)
    }

    /// Posts receives of this length.
    pub fn post_receives(&mut self, now: Ps, qp: Qp, count: u32, bytes: u32) -> Result<(), VerbsError> {
        self.objects.post_receives(&mut self.hca, now, qp, count, bytes)
    }

    /// Posts a SEND.
    pub fn send(&mut self, now: Ps, qp: Qp, wr_id: u64, bytes: u32) -> Result<(), VerbsError> {
        let op = SendOp::Send { immediate: None };
        self.objects.post(&mut self.hca, now, qp, op, wr_id, bytes)
    }

    /// Moves all completions that are visible to the end of `out`.
    pub fn poll(&mut self, now: Ps, out: &mut Vec<Wc>) -> Result<(), VerbsError> {
        self.objects.poll(&mut self.hca, now, out)
    }

    /// Removes and returns the times of asynchronous events of a context that were announced since.
    pub fn take_announced(&mut self, context: Context) -> Vec<Ps> {
        let gone = self.announced.extract_if(.., |(of, _)| *of == context);
        gone.map(|(_, at)| at).collect()
    }
}

/// What runs on the hosts.
pub trait Program {
    /// Does what can be done now.
    fn run(&mut self, lab: &mut Lab) -> Result<(), VerbsError>;
    /// Returns when [`Program::run`] is due, besides when something happens in the lab.
    fn next_wake(&self) -> Option<Ps>;
    /// True ends [`Lab::drive`].
    fn is_over(&self) -> bool;
}

#[derive(Clone, Debug)]
struct Flying {
    host: usize,
    port: u8,
    packet: Packet,
}

/// Hosts, cables and the clock.
#[derive(Clone, Debug)]
pub struct Lab {
    /// Time.
    pub now: Ps,
    /// Hosts.
    pub hosts: Vec<Host>,
    settings: LabSettings,
    arrivals: BinaryHeap<Reverse<(Ps, u64)>>,
    flying: BTreeMap<u64, Flying>,
    serial: u64,
    /// When completions and events become visible.
    visible: BinaryHeap<Reverse<Ps>>,
    /// Cables that swallow packets: pair of hosts, and port.
    swallows: Vec<(usize, u8)>,
    lost: u64,
    notices: Vec<Notice>,
}

const fn lid(host: usize, port: u8) -> Lid {
    Lid((host as u16 + 1) * 16 + port as u16)
}

/// Returns the path from a port of a host to the other end of its cable.
#[must_use]
pub const fn path(host: usize, port: u8, timeout: u8) -> Path {
    Path {
        port,
        ah: AhAttr::lid(lid(host ^ 1, port)),
        pkey_index: 0,
        timeout,
    }
}

/// Returns the attributes of a connection to queue pair `number` by a path.
#[must_use]
pub fn attributes(number: u32, primary: Path) -> QpAttr {
    QpAttr {
        access: Access::ALL,
        path_mtu: Mtu::B1024,
        dest_qp_num: number,
        max_rd_atomic: 4,
        max_dest_rd_atomic: 4,
        min_rnr_timer: 1,
        retry_cnt: 7,
        rnr_retry: 7,
        primary,
        ..QpAttr::default()
    }
}

impl Lab {
    /// Returns hosts with ACTIVE ports, or the reason why an HCA refuses the settings.
    pub fn new(settings: LabSettings) -> Result<Self, VerbsError> {
        let wrong = |what, value: u64, least, most| VerbsError::OutOfRange {
            what,
            value,
            least,
            most,
        };
        // A LID has four bits for the port, and hosts come in pairs.
        if !(2..=HOSTS_MAX).contains(&settings.hosts) || settings.hosts % 2 == 1 {
            return Err(wrong(
                "number of hosts, which come in pairs,",
                settings.hosts as u64,
                2,
                HOSTS_MAX as u64,
            ));
        }
        if !(1..=8).contains(&settings.ports) {
            return Err(wrong("number of ports of a host", u64::from(settings.ports), 1, 8));
        }
        let hosts: Result<Vec<Host>, VerbsError> = (0..settings.hosts).map(|host| host_of(&settings, host)).collect();
        Ok(Self {
            now: 0,
            hosts: hosts?,
            settings,
            arrivals: BinaryHeap::new(),
            flying: BTreeMap::new(),
            serial: 0,
            visible: BinaryHeap::new(),
            swallows: Vec::new(),
            lost: 0,
            notices: Vec::new(),
        })
    }

    /// Returns the number of packets that faults have lost.
    #[must_use]
    pub const fn lost(&self) -> u64 {
        self.lost
    }

    /// Pulls the cable of a port, or plugs it in.
    pub fn set_cable(&mut self, host: usize, port: u8, up: bool) -> Result<(), VerbsError> {
        let state = if up { PortState::Active } else { PortState::Down };
        for end in [host & !1, host | 1] {
            let host = self.hosts.get_mut(end);
            let host = host.ok_or(VerbsError::UnknownHandle { what: "host" })?;
            host.hca.set_port(self.now, port, port_attr(end, port, state))?;
        }
        if !up {
            let before = self.flying.len();
            self.flying.retain(|_, f| f.host & !1 != host & !1 || f.port != port);
            self.lost += (before - self.flying.len()) as u64;
        }
        self.gather();
        Ok(())
    }

    /// Lets the cable of a port swallow all packets while its ports stay ACTIVE: a fault further away.
    pub fn set_swallow(&mut self, host: usize, port: u8, swallow: bool) {
        let cable = (host & !1, port);
        self.swallows.retain(|other| *other != cable);
        if swallow {
            self.swallows.push(cable);
        }
    }

    fn pull(&mut self, host: usize, port: u8) {
        let at = usize::from(port) - 1;
        if self.hosts[host].free_at[at] > self.now {
            return;
        }
        let hca = &mut self.hosts[host].hca;
        let (now, waiting) = (self.now, hca.waiting(port));
        let mut levels = (0..16).filter(|sl| waiting >> sl & 1 == 1);
        let Some(packet) = levels.find_map(|sl| hca.take(now, port, sl)) else {
            return;
        };
        let end = now + u64::from(packet.wire_bytes()) * self.settings.ps_per_byte;
        self.hosts[host].free_at[at] = end;
        let other = host ^ 1;
        if packet.dlid != lid(other, port) || self.swallows.contains(&(host & !1, port)) {
            self.lost += 1;
            return;
        }
        self.serial += 1;
        self.arrivals.push(Reverse((end + self.settings.delay_ps, self.serial)));
        self.flying.insert(
            self.serial,
            Flying {
                host: other,
                port,
                packet,
            },
        );
    }

    /// Takes what the HCAs announce.
    fn gather(&mut self) {
        for host in &mut self.hosts {
            host.hca.take_notices(&mut self.notices);
            for notice in self.notices.drain(..) {
                match notice {
                    Notice::Completion(at, _) | Notice::Channel(at, _) => self.visible.push(Reverse(at)),
                    Notice::Async(at, context) => {
                        host.announced.push((context, at));
                        self.visible.push(Reverse(at));
                    }
                }
            }
        }
    }

    /// Lets the ports send what programs have posted.
    fn settle_instant(&mut self) {
        for host in 0..self.hosts.len() {
            self.hosts[host].hca.wake(self.now);
            for port in 1..=self.settings.ports {
                self.pull(host, port);
            }
        }
        self.gather();
    }

    fn next_at(&self) -> Option<Ps> {
        let mut next = self.arrivals.peek().map(|&Reverse((at, _))| at);
        let mut earlier = |at: Option<Ps>| next = [next, at].into_iter().flatten().min();
        earlier(self.visible.peek().map(|&Reverse(at)| at));
        for host in &self.hosts {
            earlier(host.hca.next_wake());
            for (port, free_at) in (1..).zip(&host.free_at) {
                earlier((*free_at > self.now && host.hca.waiting(port) != 0).then_some(*free_at));
            }
        }
        next
    }

    fn advance(&mut self, at: Ps) {
        self.now = self.now.max(at);
        while self.visible.peek().is_some_and(|&Reverse(at)| at <= self.now) {
            self.visible.pop();
        }
        while let Some(&Reverse((at, serial))) = self.arrivals.peek() {
            if at > self.now {
                break;
            }
            self.arrivals.pop();
            if let Some(flying) = self.flying.remove(&serial) {
                let Flying { host, port, packet } = flying;
                self.hosts[host].hca.receive(self.now, port, &packet);
            }
        }
    }

    /// Runs until the program is over, nothing will happen any more, or the time has come.
    pub fn drive(&mut self, program: &mut impl Program, until: Ps) -> Result<(), VerbsError> {
        loop {
            self.settle_instant();
            program.run(self)?;
            self.settle_instant();
            if program.is_over() {
                return Ok(());
            }
            let next = [self.next_at(), program.next_wake()].into_iter().flatten().min();
            match next {
                Some(at) if at <= until => self.advance(at),
                Some(_) | None => {
                    self.now = self.now.max(until);
                    return Ok(());
                }
            }
        }
    }
}

fn port_attr(host: usize, port: u8, state: PortState) -> PortAttr {
    PortAttr {
        state,
        lids: LidRange::single(lid(host, port)),
        sm_lid: Lid(1),
        mtu: Mtu::B2048,
        ..PortAttr::default()
    }
}

/// Most hosts: LIDs are 16 for each.
const HOSTS_MAX: usize = 2_048;
/// Room of the completion queue of a host.
const COMPLETIONS: u32 = 1 << 21;

fn host_of(settings: &LabSettings, index: usize) -> Result<Host, VerbsError> {
    let mut hca = Hca::new(HcaConfig {
        costs: settings.costs,
        context_cache: settings.context_cache,
        armed_events: true,
        notices: true,
        ..HcaConfig::new(Guid(0x100 * (index as u64 + 1)), settings.ports)
    })?;
    let objects = Objects::open(&mut hca, COMPLETIONS)?;
    for port in 1..=settings.ports {
        hca.set_port(0, port, port_attr(index, port, PortState::Active))?;
    }
    // Events of ports that came up before the program runs are of no use to it.
    while let Some(event) = hca.get_async_event(Ps::MAX, objects.context)? {
        hca.ack_async_event(&event);
    }
    hca.take_notices(&mut Vec::new());
    Ok(Host {
        hca,
        objects,
        announced: Vec::new(),
        free_at: vec![0; usize::from(settings.ports)],
    })
}

impl Network for Lab {
    fn now(&self) -> Ps {
        self.now
    }

    fn act(&mut self, host: usize, call: &mut dyn FnMut(&mut Hca)) {
        if let Some(host) = self.hosts.get_mut(host) {
            call(&mut host.hca);
        }
    }

    /// Each host reaches the other one of its pair only.
    fn path(&self, from: usize, _to: usize, port: u8, timeout: u8) -> Path {
        path(from, port, timeout)
    }

    fn take_announced(&mut self, host: usize, context: Context) -> Vec<Ps> {
        let host = self.hosts.get_mut(host);
        host.map_or_else(Vec::new, |host| host.take_announced(context))
    }
}
