//! Converts a fabric and its tables to arrays for the simulation.

use selvedge_fabric::{Fabric, NodeIdx, PortRef, SwitchIdx};
use selvedge_plan::multicast::MulticastTables;
use selvedge_plan::{BLOCK_LIDS, Lids, NO_PATH, ServiceLevels, SlToVl, Tables};
use selvedge_types::{Lid, LinkSpeed, PortNum, Sl};

use crate::endpoint::EndPortInfo;
use crate::settings::{Settings, SettingsError};
use crate::units::{ByteTime, LinkRate, NEVER, PS_PER_NS, Ps};

/// A fabric with the tables and settings that a subnet manager wrote.
#[derive(Clone, Copy, Debug)]
pub struct Network<'a> {
    /// Nodes and cables. Links that are not up carry nothing.
    pub fabric: &'a Fabric,
    /// LIDs of end ports.
    pub lids: &'a Lids,
    /// Forwarding tables.
    pub tables: &'a Tables,
    /// Service level towards each destination.
    pub service_levels: &'a ServiceLevels,
    /// Lanes of each hop.
    pub sl_to_vl: &'a SlToVl,
}

impl Network<'_> {
    /// Returns the number of hosts: end ports of nodes other than switches, with a LID and a link that is up.
    #[must_use]
    pub fn host_count(&self) -> u32 {
        host_ports(self).len() as u32
    }

    /// Returns the rate of all links that are up; `None` if rates differ.
    #[must_use]
    pub fn one_rate(&self) -> Option<LinkRate> {
        let up = self.fabric.links().filter(|link| self.fabric.link_is_up(link.a));
        let mut rates = up.filter_map(|link| self.fabric.port(link.a).map(|port| port.link.rate));
        let first = rates.next()?;
        rates.all(|rate| rate == first).then(|| first.into())
    }

    /// Returns the rate of the first host's link.
    #[must_use]
    pub fn host_link(&self) -> LinkRate {
        let first = host_ports(self).first().and_then(|host| self.fabric.port(host.at));
        first.map_or(Settings::DEFAULT_LINK, |port| port.link.rate.into())
    }
}

/// Reason why a simulation cannot begin.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// Settings.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// SLV-DATA-0009: no host can send, or none can receive.
    #[error("SLV-DATA-0009: {hosts} hosts with a link and a LID; traffic needs at least 2")]
    TooFewHosts {
        /// Number of hosts.
        hosts: usize,
    },
    /// SLV-DATA-0010: the lane map leads to lanes that are not in use.
    #[error("SLV-DATA-0010: service level {sl} leads to lane {vl}, but {vls} data lanes are in use; use more lanes")]
    LaneOutOfUse {
        /// The service level.
        sl: u8,
        /// The lane.
        vl: u8,
        /// Lanes in use.
        vls: u8,
    },
    /// SLV-DATA-0011: the tables belong to another fabric.
    #[error("SLV-DATA-0011: tables of {have} switches for a fabric of {want}; route this fabric")]
    ForeignTables {
        /// Switches in the tables.
        have: usize,
        /// Switches in the fabric.
        want: usize,
    },
    /// SLV-DATA-0012: the fabric states no speed for a link.
    #[error(
        "SLV-DATA-0012: the speed of the link at {port} is unknown; correct the listing, or give all links a rate \
         (--link)"
    )]
    UnknownSpeed {
        /// One end of the link.
        port: String,
    },
    /// SLV-DATA-0014: there is no cable where the settings have a long one.
    #[error("SLV-DATA-0014: no cable is at {port}, which is to be the end of a long one; name a port with a cable")]
    NoLongCable {
        /// The port.
        port: String,
    },
}

/// The first multicast LID. Source: IBA vol 1 §4.1.3.
pub(crate) const MULTICAST: u16 = 0xC000;

/// Stands for no port.
pub(crate) const NO_PORT: u32 = u32::MAX;

/// One port in both directions, in one cache line: the data that each packet changes or needs.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub(crate) struct Port {
    /// Time until which the port's output sends.
    pub free_at: Ps,
    /// Time until which the port's input sends a packet into the crossbar.
    pub input_free_at: Ps,
    /// Time per byte on the link.
    pub byte_time: ByteTime,
    /// Other end of the cable.
    pub peer: u32,
    /// The component that handles events of the port at the other end.
    pub peer_component: u32,
    /// Bit mask of lanes on which some input wants to send through this output.
    pub wanted: u16,
    /// Number of packets in the input buffer.
    pub queued: u32,
    /// Number of packets received during the measurement.
    pub received: u64,
    /// Number of bytes in these packets.
    pub received_bytes: u64,
    /// Lane at which the next search of the input begins.
    pub turn: u8,
    /// Input of the packet that the output sends, or sent last.
    pub sending_from: u8,
    /// Output to which the input sends, or sent last.
    pub sending_to: u8,
    /// Number of packets that its input is sending into the crossbar; counted only if several are allowed.
    pub reads: u8,
    /// How often the link came up.
    pub epoch: u8,
    /// Port number at the other end.
    pub peer_num: u8,
    /// True if the link is up.
    pub up: bool,
    /// True if the other end is a host.
    pub to_host: bool,
    /// True if an event is scheduled for the end of the packet that its output sends.
    pub end_is_event: bool,
    /// True if the output has a packet to send but no credits.
    pub waits: bool,
}

/// A switch.
#[derive(Clone, Debug)]
pub(crate) struct Switch {
    /// Index of the switch's port 0 among all ports.
    pub first_port: u32,
    /// Number of external ports.
    pub ports: u8,
    /// Index of the switch's first virtual output queue.
    pub first_voq: u32,
}

/// Data that only a fault or a manager changes.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    pub switches: Vec<Switch>,
    /// The port of each host.
    pub hosts: Vec<EndPortInfo>,
    /// Forwarding entries of each switch, for LIDs 0 to `top`.
    pub entries: Vec<u8>,
    pub top: u16,
    /// Lane of each service level, without exceptions.
    pub lanes: [u8; Sl::COUNT],
    /// Lane of each service level at each end port; empty if they are those of `lanes`.
    pub end_lanes: Vec<[u8; Sl::COUNT]>,
    pub sl_to_vl: SlToVl,
    /// True if some (switch, input, output) has its own lane map.
    pub has_exceptions: bool,
    /// Multicast tables of all switches.
    pub multicast: MulticastTables,
    /// True if some multicast table has had an entry.
    pub has_copies: bool,
    /// Number of 64-bit words for a set of ports of any switch.
    pub words: usize,
    /// Number of virtual output queues of all switches; each counts once per lane.
    pub voqs: u32,
    /// Switch port of each index, for names.
    pub refs: Vec<PortRef>,
    /// The same with indexes, sorted.
    pub by_ref: Vec<(PortRef, u32)>,
    /// The component that handles events, for each index.
    pub components: Vec<u32>,
    /// Time from the first bit sent until a switch can forward the packet.
    pub switch_head_delay: Ps,
    /// Time until a packet begins to arrive, if the next node is a host.
    pub host_head_delay: Ps,
    /// Time from the release of a block to the arrival of its credit at the sender.
    pub credit_delay: Ps,
    /// What is special about each port's cable; empty if no cable is long.
    pub long: Vec<Long>,
    /// True if links have different rates.
    pub mixed: bool,
}

/// A port's cable, where some cable is long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Long {
    /// Delay beyond that of other cables, in one direction.
    pub extra: Ps,
    /// Blocks private to a lane.
    pub blocks: u32,
}

/// Component numbers: 0 handles timed changes, then come switches, then hosts.
pub(crate) const CONTROL: u32 = 0;

/// Which end ports and links there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// Links that are up, and hosts with a LID and such a link; at least two.
    InUse,
    /// All cables, and all end ports with one; at least one.
    Cabled,
}

/// Returns layout and ports.
pub(crate) fn build(
    network: &Network<'_>,
    settings: &Settings,
    extent: Extent,
) -> Result<(Layout, Vec<Port>), BuildError> {
    settings.check()?;
    let fabric = network.fabric;
    let hosts = match extent {
        Extent::InUse => host_ports(network),
        Extent::Cabled => end_ports(network),
    };
    check(network, settings, hosts.len(), extent)?;
    let mut layout = Layout {
        switches: Vec::new(),
        hosts,
        entries: Vec::new(),
        top: network.tables.top().0,
        lanes: network.sl_to_vl.default.map(|vl| vl.get()),
        end_lanes: Vec::new(),
        sl_to_vl: network.sl_to_vl.clone(),
        has_exceptions: !network.sl_to_vl.exceptions.is_empty(),
        multicast: MulticastTables::new(fabric.switches().len()),
        has_copies: false,
        words: 1,
        voqs: 0,
        refs: Vec::new(),
        by_ref: Vec::new(),
        components: Vec::new(),
        switch_head_delay: (settings.cable_delay_ns + settings.switch_delay_ns) * PS_PER_NS,
        host_head_delay: settings.cable_delay_ns * PS_PER_NS,
        credit_delay: (settings.cable_delay_ns + settings.credit_delay_ns) * PS_PER_NS,
        long: Vec::new(),
        mixed: false,
    };
    for (idx, &node) in fabric.switches().iter_enumerated() {
        layout.add_switch(network, idx, node);
    }
    for host in &mut layout.hosts {
        host.port = layout.refs.len() as u32;
        layout.refs.push(host.at);
    }
    let first_host = layout.hosts[0].port;
    let component = |(index, at): (u32, &PortRef)| match fabric.switch_index(at.node) {
        Some(switch) => 1 + switch.0,
        None => layout.first_host() + index - first_host,
    };
    layout.components = (0..).zip(&layout.refs).map(component).collect();
    layout.by_ref = layout.refs.iter().copied().zip(0..).collect();
    layout.by_ref.sort_unstable();
    let ports = layout.ports(fabric, settings, extent);
    let rate = ports.iter().find(|p| p.peer != NO_PORT).map(|p| p.byte_time);
    layout.mixed = ports.iter().any(|p| p.peer != NO_PORT && Some(p.byte_time) != rate);
    layout.long = long(&layout, fabric, settings, &ports)?;
    Ok((layout, ports))
}

/// Returns what is special about each port's cable.
fn long(layout: &Layout, fabric: &Fabric, settings: &Settings, ports: &[Port]) -> Result<Vec<Long>, BuildError> {
    if settings.long_haul.is_empty() {
        return Ok(Vec::new());
    }
    let plain = Long {
        extra: 0,
        blocks: settings.lane_blocks(),
    };
    let mut found = vec![plain; ports.len()];
    for long in &settings.long_haul {
        let port = layout.find(long.at).map(|port| port as usize);
        let cable = port
            .map(|port| (port, ports[port].peer))
            .filter(|(_, peer)| *peer != NO_PORT);
        let (port, peer) = cable.ok_or_else(|| BuildError::NoLongCable {
            port: fabric.port_name(long.at),
        })?;
        for end in [port, peer as usize] {
            found[end] = Long {
                extra: long.delay_ns.saturating_sub(settings.cable_delay_ns) * PS_PER_NS,
                blocks: long.per_vl_blocks,
            };
        }
    }
    Ok(found)
}

/// Fails if tables, end ports and links do not go together.
fn check(network: &Network<'_>, settings: &Settings, hosts: usize, extent: Extent) -> Result<(), BuildError> {
    let fabric = network.fabric;
    if network.tables.switches() != fabric.switches().len() {
        return Err(BuildError::ForeignTables {
            have: network.tables.switches(),
            want: fabric.switches().len(),
        });
    }
    if hosts == 0 || hosts == 1 && extent == Extent::InUse {
        return Err(BuildError::TooFewHosts { hosts });
    }
    let is_unknown = |at: PortRef| {
        let speed = fabric.port(at).map(|port| port.link.rate.speed);
        fabric.link_is_up(at) && speed == Some(LinkSpeed::Unknown)
    };
    let mut links = fabric.links();
    match links.find(|link| settings.link.is_none() && is_unknown(link.a)) {
        Some(link) => Err(BuildError::UnknownSpeed {
            port: fabric.port_name(link.a),
        }),
        None => Ok(()),
    }
}

/// Returns the end ports of hosts with an active link and a LID.
fn host_ports(network: &Network<'_>) -> Vec<EndPortInfo> {
    let fabric = network.fabric;
    let of_node = |(at, _): (PortRef, _)| {
        let lids = network.lids.range(at)?;
        let usable = !fabric.node(at.node).is_switch() && fabric.link_is_up(at);
        usable.then_some(EndPortInfo {
            at,
            port: NO_PORT,
            lid: lids.base,
            lids: lids.lmc.lids(),
        })
    };
    fabric.end_ports().filter_map(of_node).collect()
}

/// Returns the end ports of channel adapters and routers with a cable. Those without a LID get LID 0, which no packet
/// has.
fn end_ports(network: &Network<'_>) -> Vec<EndPortInfo> {
    let fabric = network.fabric;
    let ports = fabric.end_ports().map(|(at, _)| at);
    let cabled = ports.filter(|&at| !fabric.node(at.node).is_switch() && fabric.peer(at).is_some());
    cabled
        .map(|at| {
            let lids = network.lids.range(at);
            EndPortInfo {
                at,
                port: NO_PORT,
                lid: lids.map_or(Lid(0), |lids| lids.base),
                lids: lids.map_or(0, |lids| lids.lmc.lids()),
            }
        })
        .collect()
}

impl Layout {
    fn add_switch(&mut self, network: &Network<'_>, idx: SwitchIdx, node: NodeIdx) {
        let ports = network.fabric.node(node).port_count();
        self.switches.push(Switch {
            first_port: self.refs.len() as u32,
            ports,
            first_voq: self.voqs,
        });
        self.voqs += u32::from(ports) * u32::from(ports);
        self.words = self.words.max(usize::from(ports).div_ceil(64));
        let all = (0..=ports).filter_map(PortNum::new);
        self.refs.extend(all.map(|port| PortRef { node, port }));
        let all = usize::from(self.top) + 1;
        for (block, first) in (0..all).step_by(BLOCK_LIDS).enumerate() {
            let entries = &network.tables.block(idx, block)[..BLOCK_LIDS.min(all - first)];
            let known = |&out: &u8| if out > ports { NO_PATH } else { out };
            self.entries.extend(entries.iter().map(known));
        }
    }

    /// Returns the index of a port.
    pub fn find(&self, at: PortRef) -> Option<u32> {
        let found = self.by_ref.binary_search_by_key(&at, |&(at, _)| at).ok()?;
        Some(self.by_ref[found].1)
    }

    fn ports(&self, fabric: &Fabric, settings: &Settings, extent: Extent) -> Vec<Port> {
        let of = |&at: &PortRef| {
            let up = fabric.link_is_up(at);
            let peer_ref = fabric.peer(at).filter(|_| up || extent == Extent::Cabled);
            let peer = peer_ref.and_then(|peer| Some((peer, self.find(peer)?)));
            let to_host = peer.is_some_and(|(peer, _)| !fabric.node(peer.node).is_switch());
            let rate = fabric.port(at).map(|p| p.link.rate.into());
            let rate = settings.link.or(rate).unwrap_or(Settings::DEFAULT_LINK);
            Port {
                free_at: 0,
                input_free_at: 0,
                byte_time: LinkRate::byte_time(rate),
                peer: peer.map_or(NO_PORT, |(_, index)| index),
                peer_component: peer.map_or(CONTROL, |(_, index)| self.components[index as usize]),
                wanted: 0,
                queued: 0,
                received: 0,
                received_bytes: 0,
                turn: 0,
                sending_from: 0,
                sending_to: 0,
                reads: 0,
                epoch: 0,
                peer_num: peer.map_or(0, |(peer, _)| peer.port.get()),
                up: up && peer.is_some(),
                to_host,
                end_is_event: false,
                waits: false,
            }
        };
        self.refs.iter().map(of).collect()
    }

    /// Returns the output of a packet at a switch; [`NO_PATH`] if there is none.
    #[inline]
    pub fn entry(&self, switch: u32, dlid: u16) -> u8 {
        if dlid > self.top {
            return NO_PATH;
        }
        self.entries[self.place_of_entry(switch, dlid)]
    }

    /// Makes room for entries of LIDs up to at least this one.
    pub fn grow(&mut self, lid: u16) {
        let (old, new) = (
            usize::from(self.top) + 1,
            (usize::from(lid) / BLOCK_LIDS + 1) * BLOCK_LIDS,
        );
        let mut entries = vec![NO_PATH; self.switches.len() * new];
        for (rows, known) in entries.chunks_mut(new).zip(self.entries.chunks(old)) {
            rows[..old].copy_from_slice(known);
        }
        self.entries = entries;
        self.top = (new - 1) as u16;
    }

    /// Returns the index of a forwarding entry, for a LID up to `top`.
    #[inline]
    pub fn place_of_entry(&self, switch: u32, dlid: u16) -> usize {
        switch as usize * (usize::from(self.top) + 1) + usize::from(dlid)
    }

    /// Returns the lane of a packet at a switch; 15: the packet is dropped.
    #[inline]
    pub fn lane(&self, switch: u32, input: u8, output: u8, sl: u8) -> u8 {
        if !self.has_exceptions {
            return self.lanes[usize::from(sl % 16)];
        }
        let num = |port| PortNum::new(port).unwrap_or_default();
        let sl = Sl::new(sl % 16).unwrap_or_default();
        let switch = SwitchIdx(switch);
        self.sl_to_vl.vl(switch, num(input), num(output), sl).get()
    }

    /// Returns the blocks private to a lane of a port.
    pub fn lane_blocks(&self, port: usize, settings: &Settings) -> u32 {
        let long = self.long.get(port).map(|long| long.blocks);
        long.unwrap_or_else(|| settings.lane_blocks())
    }

    /// Returns the delay of a port's cable beyond that of other cables.
    #[inline]
    pub fn extra_delay(&self, port: u32) -> Ps {
        self.long.get(port as usize).map_or(0, |long| long.extra)
    }

    /// Returns the component of the first host.
    pub fn first_host(&self) -> u32 {
        1 + self.switches.len() as u32
    }
}

/// A time in the far future that stands for "not set".
pub(crate) const NOT_SET: Ps = NEVER;
