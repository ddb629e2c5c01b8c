//! A request of the sampler, and how its answer is evaluated.

use selvedge_sim::Time;
use selvedge_types::{Guid, Lid};
use selvedge_wire::{CableInfo, Class, ClassPortInfo, Datagram, GmpAttribute, Mad, Method, Status};

use crate::clock::Slot;
use crate::group::{ALL_PORTS, Group, Row};
use crate::io::{SampleKey, Why};

/// The subject of a request to an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// ClassPortInfo.
    Abilities,
    /// The sum of all ports of a switch. If `decides`, the sum decides whether the ports are asked too.
    Sum {
        /// The counters.
        group: Group,
        /// False if every port is asked anyway.
        decides: bool,
    },
    /// CableInfo of a port. It is of no class.
    Cable {
        /// The port.
        port: u8,
    },
    /// Counters of a port.
    Port {
        /// The port.
        port: u8,
        /// The counters.
        group: Group,
    },
}

/// A request of a slot.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ask {
    /// Index of the node.
    pub node: u32,
    /// The class.
    pub class: u8,
    /// The slot.
    pub slot: Slot,
    /// The subject of the request.
    pub what: What,
    /// The LID that was asked, and when it was first asked; `None` before the request is sent.
    pub sent: Option<(Lid, Time)>,
}

/// The meaning of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// The abilities of the agent.
    Abilities(ClassPortInfo),
    /// Counters.
    Counters(Row),
    /// The cable of a port.
    Cable(CableInfo),
    /// The agent does not have this attribute.
    Unsupported,
    /// Not usable.
    Bad(Why),
}

impl Ask {
    /// Returns the request.
    pub(super) fn request(&self) -> Mad {
        match self.what {
            What::Abilities => Mad::request(Class::PerfMgt, Method::Get, ClassPortInfo::ID, 0),
            What::Sum { group, .. } => group.request(ALL_PORTS),
            What::Cable { port } => {
                let mut mad = Mad::vendor(Method::Get, CableInfo::ID);
                mad.write_gmp(&CableInfo {
                    port_select: port,
                    ..CableInfo::default()
                });
                mad
            }
            What::Port { port, group } => group.request(port),
        }
    }

    /// Returns the port and group that the request is about.
    pub(super) const fn key(&self, node: Guid) -> SampleKey {
        let (port, group) = match self.what {
            What::Abilities => (0, Group::Base),
            What::Sum { group, .. } => (ALL_PORTS, group),
            // Of the groups, only this one is of the same class.
            What::Cable { port } => (port, Group::BitErrors),
            What::Port { port, group } => (port, group),
        };
        SampleKey { node, port, group }
    }

    /// Reads an answer. It must come from the LID that was asked, and repeat attribute and port.
    pub(super) fn read(&self, answer: &Datagram) -> Answer {
        let mad = &answer.mad;
        if self.sent.is_none_or(|(lid, _)| lid != answer.address.lid) || mad.method() != Method::GetResp {
            return Answer::Bad(Why::Refused);
        }
        match mad.status() {
            Status::OK => {}
            Status::BAD_METHOD | Status::BAD_METHOD_ATTRIBUTE => return Answer::Unsupported,
            status => return Answer::Bad(Why::Status(status.0)),
        }
        let (wanted, group) = match self.what {
            What::Abilities => return abilities(mad),
            What::Cable { port } => return cable(mad, port),
            What::Sum { group, .. } => (ALL_PORTS, group),
            What::Port { port, group } => (port, group),
        };
        match group.decode(mad) {
            Some((port, row)) if port == wanted => Answer::Counters(row),
            Some(_) | None => Answer::Bad(Why::Refused),
        }
    }
}

fn abilities(mad: &Mad) -> Answer {
    if mad.attribute() != ClassPortInfo::ID {
        return Answer::Bad(Why::Refused);
    }
    match ClassPortInfo::parse(mad.gmp_data()) {
        Ok(info) => Answer::Abilities(info),
        Err(_) => Answer::Bad(Why::Refused),
    }
}

fn cable(mad: &Mad, port: u8) -> Answer {
    if mad.attribute() != CableInfo::ID || !mad.is_vendor() {
        return Answer::Bad(Why::Refused);
    }
    match CableInfo::parse(mad.gmp_data()) {
        Ok(info) if info.port_select == port => Answer::Cable(info),
        Ok(_) | Err(_) => Answer::Bad(Why::Refused),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::group::WIDEST;
    use selvedge_types::Sl;
    use selvedge_wire::{Address, PortCounters};

    fn ask(what: What) -> Ask {
        Ask {
            node: 0,
            class: 0,
            slot: Slot::default(),
            what,
            sent: Some((Lid(7), Time::ZERO)),
        }
    }

    fn answer(ask: Ask, change: impl FnOnce(&mut Datagram)) -> Answer {
        let mut mad = ask.request();
        mad.set_method(Method::GetResp);
        let address = Address::gsi(Lid(7), Sl::default());
        let mut datagram = Datagram { address, mad };
        change(&mut datagram);
        ask.read(&datagram)
    }

    #[test]
    fn only_the_answer_to_the_request_is_read() {
        let port = What::Port {
            port: 3,
            group: Group::Base,
        };
        let refused = Answer::Bad(Why::Refused);
        let zeros = Answer::Counters([0; WIDEST]);
        assert_eq!(answer(ask(port), |_| {}), zeros);
        assert_eq!(answer(ask(port), |d| d.address.lid = Lid(8)), refused);
        assert_eq!(answer(ask(port), |d| d.mad.set_method(Method::Get)), refused);
        let status = |status| answer(ask(port), |d: &mut Datagram| d.mad.set_status(status));
        assert_eq!(status(Status::BUSY), Answer::Bad(Why::Status(1)));
        assert_eq!(status(Status::BAD_METHOD_ATTRIBUTE), Answer::Unsupported);
        let another_port = |d: &mut Datagram| {
            d.mad.write_gmp(&PortCounters {
                port_select: 4,
                ..PortCounters::default()
            });
        };
        assert_eq!(answer(ask(port), another_port), refused);
        let another_attribute = |d: &mut Datagram| {
            d.mad = Group::Extended.request(3);
            d.mad.set_method(Method::GetResp);
        };
        assert_eq!(answer(ask(port), another_attribute), refused);
        assert_eq!(answer(ask(What::Abilities), another_attribute), refused);
        let sum = What::Sum {
            group: Group::Base,
            decides: true,
        };
        assert_eq!(answer(ask(sum), |_| {}), zeros);
        assert_eq!(
            answer(ask(What::Abilities), |_| {}),
            Answer::Abilities(ClassPortInfo::default())
        );
        let another_cable = |d: &mut Datagram| {
            let mut other = ask(What::Cable { port: 4 }).request();
            other.set_method(Method::GetResp);
            d.mad = other;
        };
        let cable = CableInfo {
            port_select: 3,
            ..CableInfo::default()
        };
        assert_eq!(answer(ask(What::Cable { port: 3 }), |_| {}), Answer::Cable(cable));
        assert_eq!(answer(ask(What::Cable { port: 3 }), another_cable), refused);
        assert_eq!(answer(ask(What::Cable { port: 3 }), another_attribute), refused);
        let unsent = Ask {
            sent: None,
            ..ask(port)
        };
        assert_eq!(answer(unsent, |_| {}), refused);
    }
}
