//! A fabric that is up, its plan, and a client that sends requests.

#![allow(
    dead_code,
    clippy::unwrap_used,
    reason = "the examples and benchmarks that include this file use parts of it, and stop where it fails"
)]

pub mod fuzz;
pub mod two;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use selvedge_fabric::{Fabric, LinkState, NodeIdx, PortRef, PortSettings};
use selvedge_plan::{EndPortPlan, Generation, HeldLanes, LaneRows, LaneTables, Lids, Plan, ServiceLevels, SlToVl};
use selvedge_routing::{Engine, Options};
use selvedge_sa::{Agents, Config, Input, Output, Sa, Snapshot, Sources};
use selvedge_sim::{Par, Seed, Time};
use selvedge_topology::Spec;
use selvedge_types::TransactionId;
use selvedge_types::{
    Guid, Lid, LidRange, LinkSpeed, LinkWidth, Lmc, Mtu, PKey, PhysState, PortNum, PortState, Rate, Sl, Vl,
};
use selvedge_wire::sa::{Field, Layout, RmppKind, SA_DATA_LEN, SaData};
use selvedge_wire::{Address, CapabilityMask, Class, Datagram, Gid, Mad, Method, PortInfo, SmInfo, Status, SwitchInfo};

/// PortInfo of every port according to its settings, and SwitchInfo of every switch.
pub struct Said {
    pub ports: BTreeMap<PortRef, PortInfo>,
    pub switches: BTreeMap<NodeIdx, SwitchInfo>,
}

impl Agents for Said {
    fn port_info(&self, at: PortRef) -> Option<&PortInfo> {
        self.ports.get(&at)
    }

    fn switch_info(&self, node: NodeIdx) -> Option<&SwitchInfo> {
        self.switches.get(&node)
    }
}

/// Ports with a slow link, and its rate and MTU.
type Slow = BTreeMap<PortRef, (Rate, Mtu)>;

/// Inputs for a fabric's plan.
#[derive(Clone)]
pub struct Wish {
    pub spec: &'static str,
    pub lmc: u8,
    /// P_Keys of the host with this number, counted from 0; others have the default one.
    pub keys: BTreeMap<usize, Vec<PKey>>,
    /// Hosts with a slow link, by number: the rate and MTU of the link.
    pub slow: BTreeMap<usize, (Rate, Mtu)>,
    pub levels: ServiceLevels,
    /// Number of lanes that routes use with `levels`.
    pub relied_on: u8,
    /// Lane tables; links have four lanes.
    pub lanes: Option<LaneTables>,
    /// The row of every switch from port 0 to itself, if it was read.
    pub own_row: Option<[Vl; Sl::COUNT]>,
    pub generation: u64,
    /// Absent hosts, by number.
    pub gone: Vec<usize>,
    /// Ports with hosts that were not asked to register again yet.
    pub unasked: BTreeSet<Guid>,
    /// Entries of the GUID tables of hosts.
    pub guid_cap: u8,
}

impl Wish {
    pub fn new(spec: &'static str) -> Self {
        Self {
            spec,
            lmc: 0,
            keys: BTreeMap::new(),
            slow: BTreeMap::new(),
            levels: ServiceLevels::default(),
            relied_on: 1,
            lanes: None,
            own_row: None,
            generation: 1,
            gone: Vec::new(),
            unasked: BTreeSet::new(),
            guid_cap: 1,
        }
    }

    fn lids(&self, fabric: &Fabric) -> Lids {
        let mut lids = Lids::new();
        let mut next = 1_u16;
        let mut hosts = 0;
        for (at, _) in fabric.end_ports() {
            let is_switch = fabric.node(at.node).is_switch();
            let lmc = Lmc::new(if is_switch { 0 } else { self.lmc }).unwrap();
            let base = Lid(next.next_multiple_of(lmc.lids()));
            next = base.0 + lmc.lids();
            let gone = !is_switch && self.gone.contains(&hosts);
            hosts += usize::from(!is_switch);
            if !gone {
                lids.insert(at, LidRange { base, lmc }).unwrap();
            }
        }
        lids
    }

    /// Returns the planned settings of ports, which are set in the fabric too, and the earlier PortInfo of their
    /// agents.
    fn ports(
        &self,
        fabric: &mut Fabric,
        lids: &Lids,
        (all, hosts, slow): (&[PortRef], &[PortRef], &Slow),
    ) -> (
        BTreeMap<PortRef, PortSettings>,
        BTreeMap<PortRef, EndPortPlan>,
        BTreeMap<PortRef, PortInfo>,
    ) {
        let (mut ports, mut end_ports, mut infos) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        for &at in all {
            let lid = lids.range(at);
            let peer = fabric.peer(at);
            let fast = (
                Rate {
                    width: LinkWidth::X4,
                    speed: LinkSpeed::Hdr,
                },
                Mtu::B4096,
            );
            let (rate, mtu) = *slow.get(&at).or_else(|| slow.get(&peer?)).unwrap_or(&fast);
            let settings = PortSettings {
                lids: lid.unwrap_or(PortSettings::default().lids),
                mtu,
                oper_vls: if self.lanes.is_some() { 3 } else { 1 },
                sm_lid: Lid(1),
                subnet_timeout: 18,
                m_key: 0xBAD_C0DE,
                ..PortSettings::default()
            };
            let up = peer.is_some();
            let state = if up { PortState::Active } else { PortState::Down };
            let phys = if up { PhysState::LinkUp } else { PhysState::Polling };
            fabric.set_port(at, LinkState { state, phys, rate }, settings);
            infos.insert(
                at,
                PortInfo {
                    m_key: settings.m_key,
                    state: Some(state),
                    phys_state: Some(phys),
                    mtu_cap: Some(Mtu::B4096),
                    neighbor_mtu: Some(Mtu::B256),
                    capabilities: CapabilityMask::TRAP,
                    local_port: at.port.get(),
                    ..PortInfo::default()
                },
            );
            ports.insert(at, settings);
            if lid.is_some() {
                let host = hosts.iter().position(|host| *host == at);
                let keys = host.and_then(|host| self.keys.get(&host)).cloned();
                let pkeys = keys.unwrap_or_else(|| vec![PKey::DEFAULT_FULL]);
                end_ports.insert(at, EndPortPlan { pkeys });
            }
        }
        (ports, end_ports, infos)
    }

    fn fabric(&self) -> Fabric {
        let Spec::Generated(mut recipe) = self.spec.parse().unwrap() else {
            panic!("{} is no generator", self.spec);
        };
        recipe.options.guid_cap = self.guid_cap;
        recipe.fabric().unwrap()
    }

    /// Returns the inputs of a snapshot.
    pub fn sources(&self) -> Sources {
        let mut fabric = self.fabric();
        let lids = self.lids(&fabric);
        let hosts: Vec<PortRef> = fabric
            .end_ports()
            .map(|(at, _)| at)
            .filter(|at| !fabric.node(at.node).is_switch())
            .collect();
        let all: Vec<PortRef> = fabric
            .nodes()
            .iter_enumerated()
            .flat_map(|(node, n)| n.all_ports().map(move |(port, _)| PortRef { node, port }))
            .collect();
        let slow: Slow = self.slow.iter().map(|(host, slow)| (hosts[*host], *slow)).collect();
        let (ports, end_ports, infos) = self.ports(&mut fabric, &lids, (&all, &hosts, &slow));
        let engine: Engine = "updn".parse().unwrap();
        let routed = engine
            .route(&fabric, &lids, &Options::default(), Seed(1), Par::Sequential)
            .unwrap();
        let switches = fabric
            .switches()
            .iter()
            .map(|&node| fabric.node(node).switch_settings)
            .collect();
        let switch_infos = fabric
            .switches()
            .iter()
            .map(|&node| (node, SwitchInfo::default()))
            .collect();
        let plan = Plan {
            generation: Generation(self.generation),
            engine: routed.engine,
            lids,
            tables: routed.tables,
            service_levels: self.levels.clone(),
            sl_to_vl: SlToVl::default(),
            lanes: self.relied_on,
            lane_tables: self.lanes.clone(),
            ports,
            end_ports,
            switches,
        };
        let manager = hosts[0];
        let guid = fabric.port(manager).unwrap().guid;
        let mut held = HeldLanes::default();
        for &node in fabric.switches().iter().filter(|_| self.own_row.is_some()) {
            let (guid, own) = (fabric.node(node).guid, PortNum::MANAGEMENT);
            held.learn_rows(guid, own, LaneRows::From(own), 0, self.own_row.unwrap());
        }
        Sources {
            fabric: Arc::new(fabric),
            plan: Arc::new(plan),
            lanes: Arc::new(held),
            unasked: Arc::new(self.unasked.clone()),
            agents: Arc::new(Said {
                ports: infos,
                switches: switch_infos,
            }),
            partitions: Arc::default(),
            manager: (
                manager,
                SmInfo {
                    guid,
                    sm_key: 0x5EC2E7,
                    ..SmInfo::default()
                },
            ),
        }
    }

    pub fn snapshot(&self) -> Arc<Snapshot> {
        Arc::new(Snapshot::new(self.sources()))
    }
}

/// An answer to a client.
#[derive(Clone, Debug)]
pub struct Told {
    pub status: Status,
    pub method: Method,
    pub rows: Vec<SaData>,
}

/// An administrator and its clients.
pub struct Bench {
    pub sa: Sa,
    pub snapshot: Arc<Snapshot>,
    pub now: Time,
    /// LID of the requesting client.
    pub lid: Lid,
    pub key: u64,
    /// Other datagrams sent: reports, answers to other clients.
    pub beside: Vec<Datagram>,
    transaction: u64,
}

impl Bench {
    pub fn new(wish: &Wish) -> Self {
        Self::with(wish, Config::default())
    }

    pub fn with(wish: &Wish, config: Config) -> Self {
        let snapshot = wish.snapshot();
        let mut sa = Sa::new(config);
        let mut out = Vec::new();
        sa.handle(Time::ZERO, Input::Serve, &mut out);
        sa.handle(Time::ZERO, Input::Committed(Arc::clone(&snapshot)), &mut out);
        assert!(out.is_empty());
        let mut bench = Self {
            sa,
            snapshot,
            now: Time::ZERO,
            lid: Lid(0),
            key: 0,
            beside: Vec::new(),
            transaction: 0,
        };
        bench.lid = bench.host(0);
        bench
    }

    /// Puts another plan in force.
    pub fn commit(&mut self, wish: &Wish) {
        self.snapshot = wish.snapshot();
        self.feed(Input::Committed(Arc::clone(&self.snapshot)));
    }

    /// LID of the host with this number, counted from 0.
    pub fn host(&self, number: usize) -> Lid {
        self.hosts()[number].lids.base
    }

    pub fn hosts(&self) -> Vec<selvedge_sa::EndPort> {
        let ends = (0..self.snapshot.end_count()).filter_map(|at| self.snapshot.end(at));
        ends.filter(|end| !end.is_switch).cloned().collect()
    }

    pub fn gid(&self, number: usize) -> Gid {
        self.snapshot.gid(&self.hosts()[number])
    }

    pub fn guid(&self, number: usize) -> Guid {
        self.hosts()[number].guid
    }

    pub fn later(&mut self, wait: Duration) {
        self.now += wait;
        self.feed(Input::Wake);
    }

    /// Returns a request with these fields, wide ones as GIDs.
    pub fn question(&mut self, method: Method, layout: &Layout, fields: &[(Field, Value)]) -> Mad {
        self.transaction += 1;
        let mut mad = Mad::request(Class::SubnAdm, method, layout.id, 0);
        mad.set_transaction(TransactionId(self.transaction));
        mad.set_sm_key(self.key);
        let mut mask = 0;
        for (field, value) in fields {
            mask |= field.mask();
            match value {
                Value::Number(number) => field.set(mad.sa_data_mut(), *number),
                Value::Gid(gid) => field.put(mad.sa_data_mut(), &gid.0),
                Value::Bytes(bytes) => field.put(mad.sa_data_mut(), bytes),
            }
        }
        mad.set_component_mask(mask);
        mad
    }

    pub fn send(&mut self, mad: &Mad) -> Vec<Output> {
        let address = Address::gsi(self.lid, Sl::default());
        self.feed(Input::Received(Datagram { address, mad: *mad }))
    }

    pub fn feed(&mut self, input: Input) -> Vec<Output> {
        let mut out = Vec::new();
        self.sa.handle(self.now, input, &mut out);
        // Everything that can be done at once is done at once.
        for _ in 0..100_000 {
            if self.sa.next_wake().is_none_or(|at| at > self.now) {
                return out;
            }
            self.sa.handle(self.now, Input::Wake, &mut out);
        }
        panic!("it never rests");
    }

    /// Sends a request and acknowledges segments until the answer is complete.
    pub fn ask(&mut self, method: Method, layout: &Layout, fields: &[(Field, Value)]) -> Told {
        let mad = self.question(method, layout, fields);
        self.exchange(&mad)
    }

    pub fn exchange(&mut self, mad: &Mad) -> Told {
        let mut out = self.send(mad);
        let (mut data, mut next) = (Vec::new(), 1);
        loop {
            let mine = |d: &Datagram| d.address.lid == self.lid && d.mad.transaction() == mad.transaction();
            let (answers, others): (Vec<_>, Vec<_>) = out.drain(..).map(|o| o.datagram).partition(mine);
            self.beside.extend(others);
            let mut last = None;
            for Datagram { mad, .. } in answers {
                let Some(rmpp) = mad.rmpp() else {
                    let rows = if mad.status() == Status::OK {
                        vec![*mad.sa_data()]
                    } else {
                        Vec::new()
                    };
                    return Told {
                        status: mad.status(),
                        method: mad.method(),
                        rows,
                    };
                };
                if rmpp.kind != RmppKind::Data || rmpp.segment != next {
                    continue;
                }
                next += 1;
                let is_last = rmpp.flags.contains(selvedge_wire::sa::RmppFlags::LAST);
                let used = if is_last {
                    rmpp.length as usize - 20
                } else {
                    SA_DATA_LEN
                };
                data.extend_from_slice(&mad.sa_data()[..used]);
                last = Some((mad, is_last));
            }
            let (answer, is_last) = last.expect("an answer");
            let mut ack = *mad;
            ack.set_rmpp(Some(selvedge_wire::sa::Rmpp::ack(next - 1, next - 1 + 16)));
            out = self.send(&ack);
            if is_last {
                self.beside.extend(out.into_iter().map(|o| o.datagram));
                return Told {
                    status: answer.status(),
                    method: answer.method(),
                    rows: rows(&data, answer.attribute_offset()),
                };
            }
        }
    }
}

/// A value of a request.
#[derive(Clone, Debug)]
pub enum Value {
    Number(u64),
    Gid(Gid),
    Bytes(Vec<u8>),
}

/// Returns the parameters that create a group, without its GID and the joining port.
pub fn group_parameters() -> [(Field, Value); 7] {
    use selvedge_wire::sa::records::member as f;
    [
        (f::QKEY, number(0xB1B_u16)),
        (f::TRAFFIC_CLASS, number(0_u8)),
        (f::PKEY, number(0xFFFF_u16)),
        (f::SL, number(0_u8)),
        (f::FLOW_LABEL, number(0_u8)),
        (f::MTU_SELECTOR, number(2_u8)),
        (f::MTU, number(4_u8)),
    ]
}

pub fn number(value: impl Into<u64>) -> Value {
    Value::Number(value.into())
}

/// Data cut into records.
fn rows(data: &[u8], offset: u16) -> Vec<SaData> {
    if offset == 0 {
        assert!(data.is_empty());
        return Vec::new();
    }
    let stride = usize::from(offset) * 8;
    assert_eq!(data.len() % stride, 0, "whole records");
    let row = |chunk: &[u8]| core::array::from_fn(|i| chunk.get(i).copied().unwrap_or(0));
    data.chunks(stride).map(row).collect()
}

/// Number of a port as a type.
pub fn port(number: u8) -> PortNum {
    PortNum::new(number).unwrap()
}
