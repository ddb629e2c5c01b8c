//! The test-bed of the paper, and the smallest fabric in which path migration means something: port 1 of all hosts is
//! on one rail, port 2 on another, and so on. A rail is a cable between two hosts, one switch, or two switches with a
//! cable between them, of which no host notices that it breaks.

use selvedge_dataplane::{Change, LinkRate, Network, Settings, Simulation, Speed};
use selvedge_fabric::{Fabric, FabricBuilder, LinkState, Node, NodeKey, PortRef};
use selvedge_hca::{Access, Adapters, AhAttr, Costs, HcaConfig, Path, QpAttr, VerbsError};
use selvedge_plan::{Lids, ServiceLevels, SlToVl, Tables};
use selvedge_types::{Guid, Lid, LidRange, Mtu, NodeKind, PhysState, PortNum, PortState};

use crate::cluster::Cluster;
use crate::error::ToleranceError;

/// Settings.
#[derive(Clone, Debug)]
pub struct RailSettings {
    /// Number of hosts, 2–64; without switches 2. Default 2.
    pub hosts: usize,
    /// Ports of each host, 1–8: one for each rail. Default 2.
    pub ports: u8,
    /// Switches of a rail, 0–2. With two, hosts with an even number are on the first one. Default 1.
    pub switches: u8,
    /// Rate of all cables. Default 4x SDR.
    pub link: LinkRate,
    /// Costs of the adapters.
    pub costs: Costs,
    /// Contexts of queue pairs that an adapter holds; 0: all.
    pub context_cache: u32,
}

impl Default for RailSettings {
    fn default() -> Self {
        Self {
            hosts: 2,
            ports: 2,
            switches: 1,
            link: LinkRate::four(Speed::Sdr),
            costs: Costs::default(),
            context_cache: 0,
        }
    }
}

/// Hosts on rails.
#[derive(Debug)]
pub struct Rails {
    /// The hosts.
    pub cluster: Cluster,
    /// By host, then port from 0: the port.
    ports: Vec<Vec<PortRef>>,
    /// By rail: one end of the cable between its switches.
    between: Vec<PortRef>,
}

/// GUID of the first host; switches have lower ones.
const HOST_GUID: u64 = 0x1_0000;
/// Most hosts: a switch has ports for them and for the other switch.
const HOSTS_MAX: u64 = 64;

const fn lid(host: usize, port: u8) -> Lid {
    Lid((host as u16 + 1) * 16 + port as u16)
}

/// Returns the path from a port of any host to the port with this number of a host.
#[must_use]
pub const fn path(to: usize, port: u8, timeout: u8) -> Path {
    Path {
        port,
        ah: AhAttr::lid(lid(to, port)),
        pkey_index: 0,
        timeout,
    }
}

/// Returns the paths between two hosts by each of the rails, as both ends have them.
#[must_use]
pub fn ways(hosts: [usize; 2], rails: u8, timeout: u8) -> Vec<[Path; 2]> {
    let way = |rail| [path(hosts[1], rail, timeout), path(hosts[0], rail, timeout)];
    (1..=rails).map(way).collect()
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

fn in_range(what: &'static str, value: u64, least: u64, most: u64) -> Result<(), VerbsError> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    Err(VerbsError::OutOfRange {
        what,
        value,
        least,
        most,
    })
}

impl Rails {
    /// Returns hosts with ACTIVE ports, or the reason why the settings are refused.
    pub fn new(settings: &RailSettings) -> Result<Self, ToleranceError> {
        in_range("number of switches of a rail", u64::from(settings.switches), 0, 2)?;
        let most = if settings.switches == 0 { 2 } else { HOSTS_MAX };
        in_range("number of hosts on rails", settings.hosts as u64, 2, most)?;
        in_range("number of ports of a host", u64::from(settings.ports), 1, 8)?;
        let fabric = fabric(settings)?;
        let place = |guid: u64, port: u8| {
            let node = fabric.find(Guid(guid));
            let port = PortNum::new(port).unwrap_or_default();
            node.map(|node| PortRef { node, port })
        };
        let rails = 1..=settings.ports;
        let of_host = |host: usize| {
            rails
                .clone()
                .filter_map(|rail| place(HOST_GUID + host as u64, rail))
                .collect()
        };
        let ports: Vec<Vec<PortRef>> = (0..settings.hosts).map(of_host).collect();
        let between = rails.clone().filter(|_| settings.switches == 2);
        let between = between.filter_map(|rail| place(switch_guid(rail, 0), trunk(settings)));
        let between = between.collect();
        let mut lids = Lids::new();
        for (host, ports) in ports.iter().enumerate() {
            for (rail, &at) in (1..).zip(ports) {
                lids.insert(at, LidRange::single(lid(host, rail)))?;
            }
        }
        let tables = tables(settings, &fabric, lids.top());
        let network = Network {
            fabric: &fabric,
            lids: &lids,
            tables: &tables,
            service_levels: &ServiceLevels::default(),
            sl_to_vl: &SlToVl::modulo(1),
        };
        let config = HcaConfig {
            costs: settings.costs,
            context_cache: settings.context_cache,
            armed_events: true,
            notices: true,
            ..HcaConfig::new(Guid(HOST_GUID), settings.ports)
        };
        let timing = Settings {
            link: Some(settings.link),
            ..Settings::default()
        };
        let simulation = Simulation::of_endpoint(&network, &timing, Adapters::new(config)?)?;
        Ok(Self {
            cluster: Cluster::new(simulation),
            ports,
            between,
        })
    }

    /// Pulls the cable at a port of a host, or plugs it in. The ports at both its ends notice.
    pub fn set_cable(&mut self, host: usize, port: u8, up: bool) -> Result<(), VerbsError> {
        let of_host = self.ports.get(host);
        let of_host = of_host.ok_or(VerbsError::UnknownHandle { what: "host" })?;
        let place = usize::from(port).checked_sub(1);
        let at = place.and_then(|place| of_host.get(place)).copied();
        let at = at.ok_or(VerbsError::OutOfRange {
            what: "port number",
            value: u64::from(port),
            least: 1,
            most: of_host.len() as u64,
        })?;
        self.cluster.apply(if up { Change::Mend(at) } else { Change::Cut(at) });
        Ok(())
    }

    /// Cuts the cable between the switches of a rail, or mends it. No port of a host notices. Rails with fewer switches
    /// have no such cable, and nothing happens.
    pub fn set_between(&mut self, rail: u8, up: bool) {
        let place = usize::from(rail).checked_sub(1);
        if let Some(&at) = place.and_then(|place| self.between.get(place)) {
            self.cluster.apply(if up { Change::Mend(at) } else { Change::Cut(at) });
        }
    }
}

const fn switch_guid(rail: u8, number: u8) -> u64 {
    rail as u64 * 16 + number as u64
}

/// The switch of a host on its rails.
const fn switch_of(settings: &RailSettings, host: usize) -> u8 {
    if settings.switches == 2 { (host % 2) as u8 } else { 0 }
}

/// The port of a switch that leads to the other one of its rail.
const fn trunk(settings: &RailSettings) -> u8 {
    settings.hosts as u8 + 1
}

fn fabric(settings: &RailSettings) -> Result<Fabric, ToleranceError> {
    let node = |kind, guid: u64, ports: u8, name: String| {
        let mut node = Node::new(kind, Guid(guid), ports, name);
        for number in (1..=ports).filter_map(PortNum::new) {
            if let Some(port) = node.port_mut(number) {
                port.link = LinkState {
                    state: PortState::Init,
                    phys: PhysState::LinkUp,
                    ..LinkState::default()
                };
            }
        }
        node
    };
    let mut builder = FabricBuilder::new();
    let hosts: Vec<NodeKey> = (0..settings.hosts)
        .map(|host| {
            let guid = HOST_GUID + host as u64;
            builder.add(node(NodeKind::Ca, guid, settings.ports, format!("H-{host}")))
        })
        .collect();
    let end = |node: NodeKey, port: u8| (node, PortNum::new(port).unwrap_or_default());
    for rail in 1..=settings.ports {
        let switches: Vec<NodeKey> = (0..settings.switches)
            .map(|number| {
                let guid = switch_guid(rail, number);
                let name = format!("rail-{rail} switch {number}");
                builder.add(node(NodeKind::Switch, guid, trunk(settings), name))
            })
            .collect();
        if let [first, second] = switches[..] {
            builder.link(end(first, trunk(settings)), end(second, trunk(settings)))?;
        }
        if switches.is_empty() {
            builder.link(end(hosts[0], rail), end(hosts[1], rail))?;
            continue;
        }
        for (host, &key) in hosts.iter().enumerate() {
            let switch = switches[usize::from(switch_of(settings, host))];
            builder.link(end(key, rail), end(switch, host as u8 + 1))?;
        }
    }
    Ok(builder.finish()?)
}

fn tables(settings: &RailSettings, fabric: &Fabric, top: Lid) -> Tables {
    let mut tables = Tables::new(fabric.switches().len(), top);
    for rail in 1..=settings.ports {
        for number in 0..settings.switches {
            let node = fabric.find(Guid(switch_guid(rail, number)));
            let Some(switch) = node.and_then(|node| fabric.switch_index(node)) else {
                continue;
            };
            for host in 0..settings.hosts {
                let is_here = switch_of(settings, host) == number;
                let egress = if is_here { host as u8 + 1 } else { trunk(settings) };
                tables.set(switch, lid(host, rail), egress);
            }
        }
    }
    tables
}
