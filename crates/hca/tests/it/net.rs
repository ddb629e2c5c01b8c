//! Adapters on one crossbar. Each path keeps the order of its packets; paths have different delays.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use selvedge_hca::{
    Access, AhAttr, AsyncEvent, AttrMask as M, Context, Costs, Cq, Hca, HcaConfig, Mr, MrInfo, PS_PER_NS, PS_PER_US,
    Packet, Path, PathState, Pd, PortAttr, Ps, Qp, QpAttr, QpCap, QpInit, QpState, RecvWr, SendWr, Sge, Transport,
    VerbsError, Wc,
};
use selvedge_sim::{Ratio, Rng, Seed};
use selvedge_types::{Guid, Lid, LidRange, Lmc, Mtu, PortState};

/// A packet under way.
struct Flying {
    to: (usize, u8),
    packet: Packet,
}

/// One adapter with its only context and the objects that tests use.
pub struct Host {
    pub hca: Hca,
    pub context: Context,
    pub pd: Pd,
    pub cq: Cq,
    pub mr: Mr,
    pub done: Vec<Wc>,
    pub events: Vec<AsyncEvent>,
}

/// A change of a packet before it is sent; false loses it.
pub type Filter = Box<dyn FnMut(&Packet) -> bool>;

pub struct Net {
    pub now: Ps,
    pub hosts: Vec<Host>,
    arrivals: BinaryHeap<Reverse<(Ps, u64)>>,
    flying: BTreeMap<u64, Flying>,
    serial: u64,
    free_at: BTreeMap<(usize, u8), Ps>,
    rng: Rng,
    /// Share of packets that are lost.
    pub loss: Ratio,
    /// Ordered pairs of ports between which everything is lost although the ports stay ACTIVE.
    pub black_holes: Vec<((usize, u8), (usize, u8))>,
    pub filter: Option<Filter>,
    pub lost: u64,
    pub carried: u64,
}

/// Range that every host registers.
pub const MEMORY: u64 = 1 << 40;

/// LMC of all ports.
pub const LMC: u8 = 1;

/// Returns the base LID of a port.
pub const fn lid(host: usize, port: u8) -> u16 {
    ((host as u16 + 1) * 16 + port as u16) << LMC
}

pub fn port_attr(host: usize, port: u8, state: PortState) -> PortAttr {
    PortAttr {
        state,
        lids: LidRange {
            base: Lid(lid(host, port)),
            lmc: Lmc::new(LMC).unwrap(),
        },
        sm_lid: Lid(1),
        mtu: Mtu::B4096,
        ..PortAttr::default()
    }
}

impl Host {
    fn new(index: usize, ports: u8, config: impl Fn(&mut HcaConfig)) -> Self {
        let mut settings = HcaConfig::new(Guid(0x100 * (index as u64 + 1)), ports);
        config(&mut settings);
        let mut hca = Hca::new(settings).unwrap();
        let context = hca.open().unwrap();
        let pd = hca.alloc_pd(context).unwrap();
        let cq = hca.create_cq(context, 100_000, None).unwrap();
        let mr = hca.reg_mr(pd, 0, MEMORY, Access::ALL).unwrap();
        for port in 1..=ports {
            hca.set_port(0, port, port_attr(index, port, PortState::Active))
                .unwrap();
        }
        while hca.get_async_event(u64::MAX, context).unwrap().is_some() {}
        Self {
            hca,
            context,
            pd,
            cq,
            mr,
            done: Vec::new(),
            events: Vec::new(),
        }
    }

    pub fn keys(&self) -> MrInfo {
        self.hca.query_mr(self.mr).unwrap()
    }

    pub fn sge(&self, bytes: u32) -> Sge {
        Sge {
            addr: 0,
            bytes,
            lkey: self.keys().lkey,
        }
    }

    pub fn create_qp(&mut self, transport: Transport, srq: Option<selvedge_hca::Srq>) -> Qp {
        let init = QpInit {
            transport,
            send_cq: self.cq,
            recv_cq: self.cq,
            srq,
            cap: QpCap {
                max_send_wr: 1_000,
                max_recv_wr: 1_000,
                max_inline_data: 256,
            },
            sq_sig_all: false,
        };
        self.hca.create_qp(self.pd, &init).unwrap()
    }

    /// Fetches what is visible.
    pub fn drain(&mut self, now: Ps) {
        self.hca.poll_cq(now, self.cq, usize::MAX, &mut self.done).unwrap();
        while let Some(event) = self.hca.get_async_event(now, self.context).unwrap() {
            self.hca.ack_async_event(&event);
            self.events.push(event);
        }
    }

    /// Returns the kinds of all events so far.
    pub fn event_kinds(&self) -> Vec<selvedge_hca::EventType> {
        self.events.iter().map(|event| event.kind).collect()
    }

    /// Returns the statuses of completions so far, with their numbers.
    pub fn statuses(&self) -> Vec<(u64, &'static str)> {
        self.done.iter().map(|wc| (wc.wr_id, wc.status.name())).collect()
    }
}

impl Net {
    pub fn new(seed: u64, hosts: usize, ports: u8, config: impl Fn(&mut HcaConfig)) -> Self {
        Self {
            now: 0,
            hosts: (0..hosts).map(|index| Host::new(index, ports, &config)).collect(),
            arrivals: BinaryHeap::new(),
            flying: BTreeMap::new(),
            serial: 0,
            free_at: BTreeMap::new(),
            rng: Seed(seed).child("net").rng(),
            loss: Ratio::NEVER,
            black_holes: Vec::new(),
            filter: None,
            lost: 0,
            carried: 0,
        }
    }

    /// Two hosts with two ports each and no costs.
    pub fn free(seed: u64) -> Self {
        Self::new(seed, 2, 2, |config| config.costs = Costs::FREE)
    }

    fn owner(&self, dlid: Lid) -> Vec<(usize, u8)> {
        let ports = |host: &Host| host.hca.config().ports;
        let all = self.hosts.iter().enumerate();
        let all = all.flat_map(|(index, host)| (1..=ports(host)).map(move |port| (index, port)));
        all.filter(|&(index, port)| dlid.is_multicast() || dlid.0 >> LMC == lid(index, port) >> LMC)
            .collect()
    }

    /// Delay of a path: 1 µs, and up to 3 µs more by a hash of its ends, the same in both directions.
    fn delay(from: (usize, u8), to: (usize, u8)) -> Ps {
        let mix = (from.0 + to.0) as u64 * 7 + u64::from(from.1 + to.1) * 5 + u64::from(from.1 * to.1);
        1_000 * PS_PER_NS + mix % 31 * 100 * PS_PER_NS
    }

    fn pull(&mut self, host: usize, port: u8) {
        let free_at = self.free_at.get(&(host, port)).copied().unwrap_or(0);
        if free_at > self.now {
            return;
        }
        let hca = &mut self.hosts[host].hca;
        // Round robin by time is enough here: the lowest level that has a packet.
        let waiting = hca.waiting(port);
        let levels = (0..16_u8).filter(|sl| waiting >> sl & 1 == 1);
        let mut found = levels.filter_map(|sl| hca.peek(self.now, port, sl).map(|bytes| (sl, bytes)));
        let Some((sl, bytes)) = found.next() else {
            return;
        };
        let packet = hca.take(self.now, port, sl).unwrap();
        assert_eq!(packet.wire_bytes(), bytes, "peek and take agree");
        assert_eq!(packet.sl.get(), sl);
        let end = self.now + u64::from(bytes) * 40;
        self.free_at.insert((host, port), end);
        self.send((host, port), packet, end);
    }

    fn send(&mut self, from: (usize, u8), packet: Packet, end: Ps) {
        for to in self.owner(packet.dlid) {
            if packet.dlid.is_multicast() && to == from {
                continue;
            }
            let dropped = self.rng.chance(self.loss)
                || self.black_holes.contains(&(from, to))
                || self.filter.as_mut().is_some_and(|keep| !keep(&packet));
            if dropped {
                self.lost += 1;
                continue;
            }
            self.serial += 1;
            self.carried += 1;
            let at = end + Self::delay(from, to);
            self.arrivals.push(Reverse((at, self.serial)));
            self.flying.insert(self.serial, Flying { to, packet });
        }
    }

    /// Time of the next thing that happens.
    fn next_at(&mut self) -> Option<Ps> {
        let mut next = self.arrivals.peek().map(|&Reverse((at, _))| at);
        let mut earlier = |at: Ps| next = Some(next.map_or(at, |next| next.min(at)));
        for (index, host) in self.hosts.iter_mut().enumerate() {
            if let Some(at) = host.hca.next_wake() {
                earlier(at.max(self.now));
            }
            for port in 1..=host.hca.config().ports {
                let active = host.hca.query_port(port).unwrap().state == PortState::Active;
                if active && host.hca.waiting(port) != 0 {
                    earlier(self.free_at.get(&(index, port)).copied().unwrap_or(0).max(self.now));
                }
            }
        }
        next
    }

    /// Handles the next instant; false if nothing will happen.
    pub fn step(&mut self, until: Ps) -> bool {
        let Some(at) = self.next_at().filter(|at| *at <= until) else {
            return false;
        };
        self.now = at;
        while let Some(&Reverse((at, serial))) = self.arrivals.peek() {
            if at > self.now {
                break;
            }
            self.arrivals.pop();
            let Flying { to, packet } = self.flying.remove(&serial).unwrap();
            self.hosts[to.0].hca.receive(self.now, to.1, &packet);
        }
        for index in 0..self.hosts.len() {
            self.hosts[index].hca.wake(self.now);
            for port in 1..=self.hosts[index].hca.config().ports {
                self.pull(index, port);
            }
            self.hosts[index].drain(self.now);
        }
        true
    }

    /// Runs for some time.
    pub fn run(&mut self, time: Ps) {
        let until = self.now + time;
        let mut steps = 0_u64;
        while self.step(until) {
            steps += 1;
            assert!(steps < 5_000_000, "no end");
        }
        self.now = until;
        for host in &mut self.hosts {
            host.drain(until);
        }
    }

    /// Runs until nothing happens any more, for at most a minute.
    pub fn settle(&mut self) {
        let until = self.now + 60_000_000_000_000;
        let mut steps = 0_u64;
        while self.step(until) {
            steps += 1;
            assert!(steps < 5_000_000, "no end");
        }
        // Completions and events become visible at most 10 µs later.
        self.now += 10_000 * PS_PER_NS;
        for host in &mut self.hosts {
            host.drain(self.now);
        }
        assert!(self.flying.is_empty());
    }

    pub fn set_port(&mut self, host: usize, port: u8, state: PortState) {
        let now = self.now;
        self.hosts[host]
            .hca
            .set_port(now, port, port_attr(host, port, state))
            .unwrap();
        if state != PortState::Active {
            // What is on the cable is lost.
            let gone: Vec<u64> = self
                .flying
                .iter()
                .filter(|(_, f)| f.to == (host, port))
                .map(|(&s, _)| s)
                .collect();
            for serial in gone {
                self.flying.remove(&serial);
                self.lost += 1;
            }
            self.arrivals
                .retain(|Reverse((_, serial))| self.flying.contains_key(serial));
        }
    }

    pub fn modify(&mut self, host: usize, qp: Qp, attr: &QpAttr, mask: M) -> Result<Ps, VerbsError> {
        let now = self.now;
        self.hosts[host].hca.modify_qp(now, qp, attr, mask)
    }

    pub fn send_wr(&mut self, host: usize, qp: Qp, wr: &SendWr) {
        let now = self.now;
        self.hosts[host].hca.post_send(now, qp, wr).unwrap();
    }

    pub fn post_receives(&mut self, host: usize, qp: Qp, count: u64, bytes: u32) {
        let now = self.now;
        for wr_id in 0..count {
            let sge = self.hosts[host].sge(bytes);
            self.hosts[host].hca.post_recv(now, qp, &RecvWr { wr_id, sge }).unwrap();
        }
    }

    pub fn state(&self, host: usize, qp: Qp) -> QpState {
        self.hosts[host].hca.query_qp(qp).unwrap().state
    }

    pub fn path_state(&self, host: usize, qp: Qp) -> PathState {
        self.hosts[host].hca.query_qp(qp).unwrap().path_mig_state
    }

    pub fn port_in_use(&self, host: usize, qp: Qp) -> u8 {
        self.hosts[host].hca.query_qp(qp).unwrap().primary.port
    }
}

/// Returns the path from a port to another host's port, with path bits on both sides.
pub fn path(port: u8, to: (usize, u8), bits: u8) -> Path {
    Path {
        port,
        ah: AhAttr {
            src_path_bits: bits,
            ..AhAttr::lid(Lid(lid(to.0, to.1) + u16::from(bits)))
        },
        pkey_index: 0,
        timeout: 8,
    }
}

/// Attributes of a connection to queue pair `number` by a path.
pub fn attributes(number: u32, primary: Path) -> QpAttr {
    QpAttr {
        access: Access::ALL,
        path_mtu: Mtu::B1024,
        dest_qp_num: number,
        rq_psn: 0xFF_FFF0,
        sq_psn: 0xFF_FFF0,
        max_rd_atomic: 4,
        max_dest_rd_atomic: 4,
        min_rnr_timer: 1,
        retry_cnt: 7,
        rnr_retry: 7,
        primary,
        ..QpAttr::default()
    }
}

pub fn all(masks: &[M]) -> M {
    masks.iter().fold(M::NONE, |all, &mask| all.with(mask))
}

/// Attributes of each step to RTS.
pub fn steps(transport: Transport) -> [(QpState, M); 3] {
    let masks = |to: QpState, from: QpState| {
        selvedge_hca::masks(transport, from, to)
            .unwrap()
            .required
            .with(M::STATE)
    };
    [
        (QpState::Init, masks(QpState::Init, QpState::Reset)),
        (QpState::Rtr, masks(QpState::Rtr, QpState::Init)),
        (QpState::Rts, masks(QpState::Rts, QpState::Rtr)),
    ]
}

/// Brings a queue pair to RTS.
pub fn to_rts(net: &mut Net, host: usize, qp: Qp, transport: Transport, attr: &QpAttr) {
    for (state, mask) in steps(transport) {
        net.modify(host, qp, &QpAttr { state, ..*attr }, mask).unwrap();
    }
}

/// Connects host 0 and host 1 by their first ports, and lets a caller change the attributes before.
pub fn connect(net: &mut Net, transport: Transport, change: impl Fn(&mut QpAttr)) -> [Qp; 2] {
    let qps = [0, 1].map(|host| net.hosts[host].create_qp(transport, None));
    connect_qps(net, transport, qps, change);
    qps
}

pub fn connect_qps(net: &mut Net, transport: Transport, qps: [Qp; 2], change: impl Fn(&mut QpAttr)) {
    for host in [0, 1] {
        let number = net.hosts[1 - host].hca.qp_num(qps[1 - host]).unwrap();
        let mut attr = attributes(number, path(1, (1 - host, 1), 0));
        change(&mut attr);
        to_rts(net, host, qps[host], transport, &attr);
    }
}

/// A millisecond.
pub const MS: Ps = 1_000 * PS_PER_US;

/// Returns a signaled SEND of host 0 with a tag.
pub fn wr(net: &Net, wr_id: u64, bytes: u32) -> SendWr {
    SendWr {
        tag: wr_id,
        ..SendWr::send(wr_id, net.hosts[0].sge(bytes))
    }
}

/// Returns the remote key of a host's memory.
pub fn remote(net: &Net, host: usize) -> u32 {
    net.hosts[host].keys().rkey
}
