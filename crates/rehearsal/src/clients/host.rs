//! A host's port as a client of subnet administration: its registrations and requests.

use std::collections::BTreeSet;

use selvedge_chassis::PortIdx;
use selvedge_fabric::NodeIdx;
use selvedge_types::{Guid, Lid, Sl};
use selvedge_wire::sa::records;
use selvedge_wire::{Address, Class, Datagram, Mad, Method, Status};

/// A kind of registration of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum What {
    /// Membership of IPoIB's broadcast group, which exists without members.
    Broadcast,
    /// Membership of a group that exists while it has members.
    Group,
    /// Reports of all traps.
    Reports,
    /// A service.
    Service,
}

impl What {
    /// All kinds of registrations.
    pub const ALL: [Self; 4] = [Self::Broadcast, Self::Group, Self::Reports, Self::Service];

    /// Returns the name of this kind.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Broadcast => "its membership of the broadcast group",
            Self::Group => "its membership of a group",
            Self::Reports => "its subscription",
            Self::Service => "its service",
        }
    }

    /// Returns the GID of the group, if this is one: IPoIB's broadcast group of the default partition, or another IPoIB
    /// group.
    pub const fn group(self) -> Option<u128> {
        match self {
            Self::Broadcast => Some(0xFF12_401B_FFFF_0000_0000_0000_FFFF_FFFF),
            Self::Group => Some(0xFF12_401B_FFFF_0000_0000_0000_0000_0001),
            Self::Reports | Self::Service => None,
        }
    }
}

/// True for each [`What`] that is registered, or wanted.
pub type Flags = [bool; What::ALL.len()];

/// An open request of a host.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    /// Number of the request.
    pub number: u64,
    /// The registration that begins or ends once the answer is OK. `None`: a request for a path.
    pub meaning: Option<(What, bool)>,
}

/// The port of a host, with its clients of subnet administration.
#[derive(Clone, Debug)]
pub struct Host {
    /// The port.
    pub at: PortIdx,
    /// Node of the host.
    pub node: NodeIdx,
    /// GUID of the host's port.
    pub guid: Guid,
    /// How often the host's node was switched on, and how often its link went down. The host notices even a short time
    /// without link.
    pub lives: (u32, u64),
    /// Registrations that the host wants to have.
    pub wants: Flags,
    /// Registrations that were confirmed to the host.
    pub has: Flags,
    /// The host's last request.
    pub asked: Option<Asked>,
    /// The answer to this request.
    pub answer: Option<Mad>,
    /// Numbers of the traps that were reported to the host.
    pub reports: BTreeSet<u64>,
}

impl Host {
    /// Returns a host that has registered nothing.
    pub const fn new(at: PortIdx, node: NodeIdx, guid: Guid, wants: Flags) -> Self {
        Self {
            at,
            node,
            guid,
            lives: (0, 0),
            wants,
            has: [false; What::ALL.len()],
            asked: None,
            answer: None,
            reports: BTreeSet::new(),
        }
    }

    /// Handles a datagram. Returns the host's answer to it, if it answers.
    pub fn receives(&mut self, datagram: &Datagram) -> Option<Datagram> {
        let mad = &datagram.mad;
        if mad.method() == Method::Report {
            self.reports.insert(records::notice::TRAP_NUMBER.get(mad.sa_data()));
            let mut answer = *datagram;
            answer.mad.set_method(Method::ReportResp);
            return Some(answer);
        }
        let asked = self.asked?;
        if mad.transaction().0 & 0xFFFF_FFFF == asked.number {
            self.answer = Some(*mad);
            if let Some((what, has)) = asked.meaning {
                // A refusal to end a registration means that there is none: the answer to an earlier question was lost.
                let is_over = !has && !matches!(mad.status(), Status::OK | Status::BUSY);
                if mad.status() == Status::OK || is_over {
                    self.has[what as usize] = has;
                }
            }
        }
        None
    }

    /// Returns the request by which the host registers, or ends a registration.
    pub fn request(&self, what: What, begins: bool) -> Mad {
        match what.group() {
            Some(group) => member(self.guid, group, begins),
            None if what == What::Reports => subscription(begins),
            None => service(self.guid, begins),
        }
    }
}

fn gid_of(guid: Guid) -> [u8; 16] {
    (0xFE80_u128 << 112 | u128::from(guid.0)).to_be_bytes()
}

/// Returns a request of MCMemberRecord: the port with a GUID joins the group as a full member, or leaves it.
fn member(guid: Guid, group: u128, joins: bool) -> Mad {
    use records::member as f;
    let method = if joins { Method::Set } else { Method::Delete };
    let mut mad = Mad::request(Class::SubnAdm, method, records::MEMBER.id, 0);
    let mut mask = f::MGID.mask() | f::PORT_GID.mask();
    f::MGID.put(mad.sa_data_mut(), &group.to_be_bytes());
    f::PORT_GID.put(mad.sa_data_mut(), &gid_of(guid));
    // The first member creates the group.
    let makes = [
        (f::JOIN_STATE, 1),
        (f::QKEY, 0xB1B),
        (f::PKEY, 0xFFFF),
        (f::TRAFFIC_CLASS, 0),
        (f::SL, 0),
        (f::FLOW_LABEL, 0),
    ];
    // Parameters that a policy may change are fixed, so that the first member keeps no other out: exactly 2,048 bytes,
    // exactly 2.5 Gb/s. The broadcast group exists already, with the parameters of its partition.
    let slow = [(f::MTU_SELECTOR, 2), (f::MTU, 4), (f::RATE_SELECTOR, 2), (f::RATE, 2)];
    let slow = slow.into_iter().filter(|_| joins && Some(group) == What::Group.group());
    for (field, value) in makes.into_iter().take(if joins { 6 } else { 1 }).chain(slow) {
        mask |= field.mask();
        field.set(mad.sa_data_mut(), value);
    }
    mad.set_component_mask(mask);
    mad
}

/// Returns a request of InformInfo: it begins or ends a subscription to all traps of all nodes.
fn subscription(begins: bool) -> Mad {
    use records::inform_info as f;
    let mut mad = Mad::request(Class::SubnAdm, Method::Set, records::INFORM_INFO.id, 0);
    for (field, value) in [
        (f::LID_BEGIN, 0xFFFF),
        (f::IS_GENERIC, 1),
        (f::SUBSCRIBE, u64::from(begins)),
        (f::TYPE, 0xFFFF),
        (f::TRAP_NUMBER, 0xFFFF),
        (f::PRODUCER, 0xFF_FFFF),
    ] {
        field.set(mad.sa_data_mut(), value);
    }
    mad
}

/// Returns a request of ServiceRecord: the port offers a service without end, or withdraws it.
fn service(guid: Guid, begins: bool) -> Mad {
    use records::service as f;
    let method = if begins { Method::Set } else { Method::Delete };
    let mut mad = Mad::request(Class::SubnAdm, method, records::SERVICE.id, 0);
    f::ID.set(mad.sa_data_mut(), 0x10_0000_0000);
    f::GID.put(mad.sa_data_mut(), &gid_of(guid));
    mad.set_component_mask(f::ID.mask() | f::GID.mask());
    mad
}

/// Returns a request of PathRecord, for the path from one LID to another.
pub fn path(from: Lid, to: Lid) -> Mad {
    use records::path as f;
    let mut mad = Mad::request(Class::SubnAdm, Method::Get, records::PATH.id, 0);
    mad.set_component_mask(f::SLID.mask() | f::DLID.mask());
    f::SLID.set(mad.sa_data_mut(), u64::from(from.0));
    f::DLID.set(mad.sa_data_mut(), u64::from(to.0));
    mad
}

/// Returns the address of requests to an administrator.
pub fn to_administrator(lid: Lid) -> Address {
    Address::gsi(lid, Sl::default())
}
