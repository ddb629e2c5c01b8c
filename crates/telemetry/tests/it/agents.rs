//! Performance management agents in memory.

use std::collections::{BTreeMap, BTreeSet};

use selvedge_telemetry::{ALL_PORTS, Group, Metric};
use selvedge_types::{Guid, Lid};
use selvedge_wire::{
    Address, AttributeId, Bits, CableInfo, ClassPortInfo, Datagram, GmpAttribute, Mad, Method, PortCounters,
    PortCountersExtended, PortRcvErrorDetails, Status,
};

/// Everything an agent can have: AllPortSelect, 64 bits, PortXmitWait, QP1Dropped.
pub const EVERYTHING: u16 = 0x9300;

/// The counters of a port, by metric.
#[derive(Clone, Copy, Debug)]
pub struct Device {
    /// What the agent shows: since the last reset.
    pub shown: [u64; 22],
    /// What happened since the start of the test.
    pub happened: [u64; 22],
}

impl Device {
    /// Counts events.
    pub fn count(&mut self, metric: Metric, by: u64) {
        self.shown[metric as usize] += by;
        self.happened[metric as usize] += by;
    }

    /// Sets all counters to 0, as a reboot or `perfquery -R` does.
    pub fn reset(&mut self) {
        self.shown = [0; 22];
    }
}

/// An agent.
#[derive(Clone, Debug)]
pub struct Agent {
    pub mask: u16,
    pub mask2: u32,
    pub ports: BTreeMap<u8, Device>,
    pub is_silent: bool,
    /// Ports about which it says nothing.
    pub silent_ports: BTreeSet<u8>,
    /// Groups that it refuses.
    pub refused: BTreeSet<u16>,
    /// What it does about CableInfo.
    pub cabled: Cabled,
    /// Answers are changed on their way.
    pub garble: Option<Garble>,
    /// Requests that arrived, by attribute.
    pub asked: BTreeMap<u16, u64>,
}

/// What an agent does about CableInfo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::large_enum_variant, reason = "there are ten agents")]
pub enum Cabled {
    /// It does not have the attribute.
    Refused,
    /// It does not know the class, and says nothing.
    Ignored,
    /// Every port has this cable.
    Read(CableInfo),
}

/// How an answer is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Garble {
    /// It is about the port after the one asked for.
    NextPort,
    /// It has another attribute.
    Attribute,
    /// It comes from another LID.
    Sender,
    /// Data counters are far too high.
    TooMuch,
    /// It says "busy".
    Busy,
}

impl Agent {
    pub fn new(ports: impl IntoIterator<Item = u8>) -> Self {
        let device = Device {
            shown: [0; 22],
            happened: [0; 22],
        };
        Self {
            mask: EVERYTHING,
            mask2: ClassPortInfo::EXTENDED_ERRORS,
            ports: ports.into_iter().map(|port| (port, device)).collect(),
            is_silent: false,
            silent_ports: BTreeSet::new(),
            refused: BTreeSet::new(),
            cabled: Cabled::Refused,
            garble: None,
            asked: BTreeMap::new(),
        }
    }

    pub fn requests(&self, group: Group) -> u64 {
        self.asked.get(&group.attribute().code()).copied().unwrap_or(0)
    }

    /// Answers a request that was sent to `lid`; `None`: it says nothing.
    pub fn answer(&mut self, lid: Lid, request: &Mad) -> Option<Datagram> {
        let id = request.attribute();
        *self.asked.entry(id.code()).or_default() += 1;
        let port = request.gmp_data()[1];
        if self.is_silent || id != AttributeId::CLASS_PORT_INFO && self.silent_ports.contains(&port) {
            return None;
        }
        if id == AttributeId::CABLE_INFO && self.cabled == Cabled::Ignored {
            return None;
        }
        let mut mad = *request;
        mad.set_method(Method::GetResp);
        match self.fill(&mut mad, port) {
            Status::OK => {}
            status => mad.set_status(status),
        }
        let mut answer = Datagram {
            address: Address::gsi(lid, selvedge_types::Sl::default()),
            mad,
        };
        if id != AttributeId::CLASS_PORT_INFO {
            self.garbled(&mut answer);
        }
        Some(answer)
    }

    fn fill(&self, mad: &mut Mad, port: u8) -> Status {
        let id = mad.attribute();
        if id == AttributeId::CLASS_PORT_INFO {
            mad.write_gmp(&ClassPortInfo {
                base_version: 1,
                class_version: 1,
                capabilities: self.mask,
                capabilities2: self.mask2,
                ..ClassPortInfo::default()
            });
            return Status::OK;
        }
        if id == AttributeId::CABLE_INFO {
            let Cabled::Read(cable) = self.cabled else {
                return Status::BAD_METHOD_ATTRIBUTE;
            };
            mad.write_gmp(&CableInfo {
                port_select: port,
                ..cable
            });
            return Status::OK;
        }
        if self.refused.contains(&id.code()) {
            return Status::BAD_METHOD_ATTRIBUTE;
        }
        let Some(c) = self.counters(port) else {
            return Status::BAD_FIELD;
        };
        match id {
            AttributeId::PORT_COUNTERS => mad.write_gmp(&base(port, &c)),
            AttributeId::PORT_COUNTERS_EXTENDED => mad.write_gmp(&extended(port, &c)),
            AttributeId::PORT_RCV_ERROR_DETAILS => mad.write_gmp(&PortRcvErrorDetails {
                port_select: port,
                local_physical_errors: c[Metric::RcvErrors as usize] as u16,
                ..PortRcvErrorDetails::default()
            }),
            _ => return Status::BAD_METHOD_ATTRIBUTE,
        }
        Status::OK
    }

    fn counters(&self, port: u8) -> Option<[u64; 22]> {
        if port != ALL_PORTS {
            return self.ports.get(&port).map(|device| device.shown);
        }
        let sums_up = self.mask & ClassPortInfo::ALL_PORT_SELECT != 0;
        sums_up.then(|| {
            let mut sum = [0_u64; 22];
            for device in self.ports.values() {
                sum.iter_mut()
                    .zip(device.shown)
                    .for_each(|(sum, count)| *sum = sum.saturating_add(count));
            }
            sum
        })
    }

    fn garbled(&self, answer: &mut Datagram) {
        let mad = &mut answer.mad;
        match self.garble {
            None => {}
            Some(Garble::NextPort) => {
                let mut data = *mad.gmp_data();
                data[1] = data[1].wrapping_add(1);
                mad.set_gmp_data(&data);
            }
            Some(Garble::Attribute) => {
                let transaction = mad.transaction();
                *mad = Group::RcvErrors.request(mad.gmp_data()[1]);
                mad.set_transaction(transaction);
                mad.set_method(Method::GetResp);
            }
            Some(Garble::Sender) => answer.address.lid.0 += 1,
            Some(Garble::TooMuch) if mad.attribute() == PortCountersExtended::ID => {
                let mut counters = PortCountersExtended::parse(mad.gmp_data()).unwrap();
                counters.xmit_data += 1 << 60;
                mad.write_gmp(&counters);
            }
            Some(Garble::TooMuch) => {}
            Some(Garble::Busy) => mad.set_status(Status::BUSY),
        }
    }
}

fn base(port_select: u8, c: &[u64; 22]) -> PortCounters {
    let at = |metric: Metric| c[metric as usize];
    let nibble = |metric| Bits::saturating(at(metric).min(15) as u8);
    let byte = |metric| at(metric).min(255) as u8;
    let narrow = |metric| at(metric).min(65_535) as u16;
    let wide = |metric| at(metric).min(u64::from(u32::MAX)) as u32;
    PortCounters {
        port_select,
        symbol_errors: narrow(Metric::SymbolErrors),
        link_recoveries: byte(Metric::LinkRecoveries),
        link_downed: byte(Metric::LinkDowned),
        rcv_errors: narrow(Metric::RcvErrors),
        rcv_remote_physical_errors: narrow(Metric::RcvRemotePhysicalErrors),
        rcv_switch_relay_errors: narrow(Metric::RcvSwitchRelayErrors),
        xmit_discards: narrow(Metric::XmitDiscards),
        xmit_constraint_errors: byte(Metric::XmitConstraintErrors),
        rcv_constraint_errors: byte(Metric::RcvConstraintErrors),
        local_link_integrity_errors: nibble(Metric::LocalLinkIntegrityErrors),
        excessive_buffer_overruns: nibble(Metric::ExcessiveBufferOverruns),
        vl15_dropped: narrow(Metric::Vl15Dropped),
        qp1_dropped: narrow(Metric::Qp1Dropped),
        xmit_data: wide(Metric::XmitData),
        rcv_data: wide(Metric::RcvData),
        xmit_packets: wide(Metric::XmitPackets),
        rcv_packets: wide(Metric::RcvPackets),
        xmit_wait: wide(Metric::XmitWait),
        ..PortCounters::default()
    }
}

fn extended(port_select: u8, c: &[u64; 22]) -> PortCountersExtended {
    let at = |metric: Metric| c[metric as usize];
    PortCountersExtended {
        port_select,
        counter_select: 0,
        counter_select2: 0,
        xmit_data: at(Metric::XmitData),
        rcv_data: at(Metric::RcvData),
        xmit_packets: at(Metric::XmitPackets),
        rcv_packets: at(Metric::RcvPackets),
        unicast_xmit_packets: at(Metric::UnicastXmitPackets),
        unicast_rcv_packets: at(Metric::UnicastRcvPackets),
        multicast_xmit_packets: at(Metric::MulticastXmitPackets),
        multicast_rcv_packets: at(Metric::MulticastRcvPackets),
        symbol_errors: at(Metric::SymbolErrors),
        link_recoveries: at(Metric::LinkRecoveries),
        link_downed: at(Metric::LinkDowned),
        rcv_errors: at(Metric::RcvErrors),
        rcv_remote_physical_errors: at(Metric::RcvRemotePhysicalErrors),
        rcv_switch_relay_errors: at(Metric::RcvSwitchRelayErrors),
        xmit_discards: at(Metric::XmitDiscards),
        xmit_constraint_errors: at(Metric::XmitConstraintErrors),
        rcv_constraint_errors: at(Metric::RcvConstraintErrors),
        local_link_integrity_errors: at(Metric::LocalLinkIntegrityErrors),
        excessive_buffer_overruns: at(Metric::ExcessiveBufferOverruns),
        vl15_dropped: at(Metric::Vl15Dropped),
        xmit_wait: at(Metric::XmitWait),
        qp1_dropped: at(Metric::Qp1Dropped),
    }
}

/// The node GUID of a switch or host by its number.
pub const fn switch(number: u64) -> Guid {
    Guid(0x1000 + number)
}

/// See [`switch`].
pub const fn host(number: u64) -> Guid {
    Guid(0x2000 + number)
}
