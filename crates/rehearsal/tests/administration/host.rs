//! A host as IPoIB makes it behave: what it registers, and what it asks.

use super::*;

/// A host with one port.
pub struct Host {
    pub at: PortIdx,
    pub node: NodeIdx,
    pub guid: Guid,
    /// How often it was switched on, and its link lost: however short that was, it knows.
    pub lives: (u32, u64),
    pub wants: [bool; 2],
    /// What it was told: member, subscriber.
    pub has: [bool; 2],
    /// What it has asked: number and meaning, `None` for a path.
    pub asked: Option<(u64, Option<(usize, bool)>)>,
    pub answer: Option<Mad>,
    pub reports: BTreeSet<u64>,
}

impl Host {
    pub fn receives(&mut self, datagram: &Datagram) -> Option<Output> {
        let mad = &datagram.mad;
        if mad.method() == Method::Report {
            self.reports.insert(records::notice::TRAP_NUMBER.get(mad.sa_data()));
            let mut answer = *datagram;
            answer.mad.set_method(Method::ReportResp);
            return Some(Output {
                datagram: answer,
                timeout: Duration::ZERO,
            });
        }
        let (number, meaning) = self.asked?;
        if mad.transaction().0 & 0xFFFF_FFFF == number {
            self.answer = Some(*mad);
            if let Some((what, has)) = meaning.filter(|_| mad.status() == Status::OK) {
                self.has[what] = has;
            }
        }
        None
    }
}

/// MCMemberRecord: the port with a GUID joins the group as a full member, or leaves it.
pub fn member(guid: Guid, joins: bool) -> Mad {
    use records::member as f;
    let method = if joins { Method::Set } else { Method::Delete };
    let mut mad = Mad::request(Class::SubnAdm, method, records::MEMBER.id, 0);
    let gid = 0xFE80_u128 << 112 | u128::from(guid.0);
    let mut mask = f::MGID.mask() | f::PORT_GID.mask();
    f::MGID.put(mad.sa_data_mut(), &IPOIB.to_be_bytes());
    f::PORT_GID.put(mad.sa_data_mut(), &gid.to_be_bytes());
    let makes = [
        (f::JOIN_STATE, 1),
        (f::QKEY, 0xB1B),
        (f::PKEY, 0xFFFF),
        (f::TRAFFIC_CLASS, 0),
        (f::SL, 0),
    ];
    let makes = makes.into_iter().chain([(f::FLOW_LABEL, 0)]);
    for (field, value) in makes.take(if joins { 6 } else { 1 }) {
        mask |= field.mask();
        field.set(mad.sa_data_mut(), value);
    }
    mad.set_component_mask(mask);
    mad
}

/// InformInfo: all traps of all nodes, from now on or no longer.
pub fn subscription(begins: bool) -> Mad {
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

pub fn path(from: Lid, to: Lid) -> Mad {
    use records::path as f;
    let mut mad = Mad::request(Class::SubnAdm, Method::Get, records::PATH.id, 0);
    mad.set_component_mask(f::SLID.mask() | f::DLID.mask());
    f::SLID.set(mad.sa_data_mut(), u64::from(from.0));
    f::DLID.set(mad.sa_data_mut(), u64::from(to.0));
    mad
}
