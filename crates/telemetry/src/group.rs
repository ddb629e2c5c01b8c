//! Counter groups. Each is one attribute of performance management, and takes one request per port.

use selvedge_wire::{
    AttributeId, Class, CounterAttribute, GmpAttribute, Mad, Method, PortBer, PortCounters, PortCountersExtended,
    PortExtSpeedsCounters, SelectedRow,
};

use crate::Metric;

/// Largest number of counters in a group: that of PortCountersExtended.
pub const WIDEST: usize = 22;

/// Counters of one port and group, in the order of the attribute. Those after the last one of the group are 0.
pub type Row = [u64; WIDEST];

/// PortSelect of all ports of a switch. Source: IBA vol 1 §16.1.3.5.
pub const ALL_PORTS: u8 = 255;

/// A counter group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Group {
    /// PortCounters: everything, in narrow counters.
    Base,
    /// PortCountersExtended: 64 bits.
    Extended,
    /// PortRcvErrorDetails.
    RcvErrors,
    /// PortXmitDiscardDetails.
    XmitDiscards,
    /// PortVLOpPackets.
    VlPackets,
    /// PortVLOpData.
    VlData,
    /// PortVLXmitWaitCounters.
    VlXmitWait,
    /// SwPortVLCongestion.
    VlCongestion,
    /// PortRcvConCtrl: FECN and BECN.
    Marks,
    /// PortSLRcvFECN.
    SlFecn,
    /// PortSLRcvBECN.
    SlBecn,
    /// PortXmitConCtrl.
    TimeCongested,
    /// PortVLXmitTimeCong.
    VlTimeCongested,
    /// PortXmitDataSL.
    SlXmitData,
    /// PortRcvDataSL.
    SlRcvData,
    /// PortOpRcvCounters: packets and data received on operational VLs.
    OpRcv,
    /// PortFlowCtlCounters: flow control packets sent and received.
    FlowControl,
    /// PortExtendedSpeedsCounters: wrong headers, unknown blocks, errors of each lane, then the sums over all lanes of
    /// blocks that error correction mended, and could not mend.
    ExtendedSpeeds,
    /// PortBer of Selvedge's own vendor class, which the emulator answers: bits in error before and after error
    /// correction.
    BitErrors,
}

/// Groups before the first one that is a row of counters of one width.
const BEFORE_ROWS: usize = Group::RcvErrors as usize;

fn request<A: GmpAttribute>(attribute: &A) -> Mad {
    let mut mad = Mad::request(Class::PerfMgt, Method::Get, A::ID, 0);
    mad.write_gmp(attribute);
    mad
}

impl Group {
    /// All groups.
    pub const ALL: [Self; 19] = [
        Self::Base,
        Self::Extended,
        Self::RcvErrors,
        Self::XmitDiscards,
        Self::VlPackets,
        Self::VlData,
        Self::VlXmitWait,
        Self::VlCongestion,
        Self::Marks,
        Self::SlFecn,
        Self::SlBecn,
        Self::TimeCongested,
        Self::VlTimeCongested,
        Self::SlXmitData,
        Self::SlRcvData,
        Self::OpRcv,
        Self::FlowControl,
        Self::ExtendedSpeeds,
        Self::BitErrors,
    ];

    /// Returns the management class of the attribute.
    #[must_use]
    pub const fn class(self) -> Class {
        match self {
            Self::BitErrors => Class::SELVEDGE,
            _ => Class::PerfMgt,
        }
    }

    /// True for the classes in which groups are read.
    #[must_use]
    pub const fn is_class(class: Class) -> bool {
        matches!(class, Class::PerfMgt | Class::SELVEDGE)
    }

    /// Returns the attribute, if it is a row of counters of one width. These groups are in the order of the attributes.
    const fn block(self) -> Option<CounterAttribute> {
        match self {
            Self::Base | Self::Extended | Self::ExtendedSpeeds | Self::BitErrors => None,
            row => Some(CounterAttribute::ALL[row as usize - BEFORE_ROWS]),
        }
    }

    /// Returns the attribute of the group.
    #[must_use]
    pub const fn attribute(self) -> AttributeId {
        match self {
            Self::Base => AttributeId::PORT_COUNTERS,
            Self::Extended => AttributeId::PORT_COUNTERS_EXTENDED,
            Self::ExtendedSpeeds => AttributeId::PORT_EXT_SPEEDS_COUNTERS,
            Self::BitErrors => AttributeId::PORT_BER,
            _ => match self.block() {
                Some(block) => block.id,
                None => AttributeId::PORT_COUNTERS,
            },
        }
    }

    /// Returns the name of the attribute in the standard.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match (self, self.block()) {
            (_, Some(block)) => block.name,
            (Self::Extended, None) => "PortCountersExtended",
            (Self::ExtendedSpeeds, None) => "PortExtendedSpeedsCounters",
            (Self::BitErrors, None) => "PortBer",
            (_, None) => "PortCounters",
        }
    }

    /// Returns the number of counters of the group.
    #[must_use]
    pub const fn counters(self) -> usize {
        match self.block() {
            Some(block) => block.count,
            None if matches!(self, Self::Base) => BASE.len(),
            None if matches!(self, Self::ExtendedSpeeds) => SPEED_ERRORS + 2,
            None if matches!(self, Self::BitErrors) => 2,
            None => WIDEST,
        }
    }

    /// Returns the mask with a bit for each counter of the group.
    #[must_use]
    pub const fn mask(self) -> u32 {
        (1 << self.counters()) - 1
    }

    /// Returns the width of a counter in bits.
    #[must_use]
    pub fn bits(self, counter: usize) -> u32 {
        match self.block() {
            Some(block) => block.bits,
            None if self == Self::Base => BASE.get(counter).map_or(32, |(_, bits)| *bits),
            // Each lane stops at its own maximum, so a sum never stands at one.
            None if self == Self::ExtendedSpeeds && counter < SPEED_ERRORS => 16,
            None => 64,
        }
    }

    /// Returns the metric of a counter; `None` in groups with one counter per VL or SL.
    #[must_use]
    pub fn metric(self, counter: usize) -> Option<Metric> {
        match self {
            Self::Base => BASE.get(counter).map(|(metric, _)| *metric),
            Self::Extended => Metric::ALL.get(counter).copied(),
            _ => None,
        }
    }

    /// Returns the index of a metric in this group.
    #[must_use]
    pub fn place(self, metric: Metric) -> Option<usize> {
        match self {
            Self::Base => BASE.iter().position(|(of, _)| *of == metric),
            Self::Extended => Some(metric as usize),
            _ => None,
        }
    }

    /// Returns the mask of the group's counters for which `is_meant` is true.
    #[must_use]
    pub fn mask_of(self, is_meant: impl Fn(Metric) -> bool) -> u32 {
        let counters = (0..self.counters()).filter(|i| self.metric(*i).is_some_and(&is_meant));
        counters.fold(0, |mask, i| mask | 1 << i)
    }

    /// Returns the names of the counters of a mask: `SymbolErrorCounter, PortRcvErrors`.
    #[must_use]
    pub fn names(self, mask: u32) -> String {
        let counters = (0..self.counters()).filter(|counter| mask >> counter & 1 != 0);
        let names: Vec<String> = counters.map(|counter| self.counter_name(counter)).collect();
        names.join(", ")
    }

    /// Returns the request for a port, or for the sum of all ports.
    #[must_use]
    pub fn request(self, port_select: u8) -> Mad {
        match self.block() {
            Some(block) => {
                let mut mad = Mad::request(Class::PerfMgt, Method::Get, block.id, 0);
                let asked = SelectedRow {
                    port_select,
                    ..SelectedRow::default()
                };
                mad.set_gmp_data(&block.emit(asked));
                mad
            }
            None if self == Self::Base => request(&PortCounters {
                port_select,
                ..PortCounters::default()
            }),
            None if self == Self::ExtendedSpeeds => request(&PortExtSpeedsCounters {
                port_select,
                ..PortExtSpeedsCounters::default()
            }),
            None if self == Self::BitErrors => {
                let mut mad = Mad::vendor(Method::Get, AttributeId::PORT_BER);
                mad.write_gmp(&PortBer {
                    port_select,
                    ..PortBer::default()
                });
                mad
            }
            None => request(&PortCountersExtended {
                port_select,
                ..PortCountersExtended::default()
            }),
        }
    }

    /// Reads PortSelect and the counters of an answer; `None`: the answer is of another attribute.
    #[must_use]
    pub fn decode(self, mad: &Mad) -> Option<(u8, Row)> {
        let is_others = self == Self::BitErrors && !mad.is_vendor();
        if mad.attribute() != self.attribute() || mad.class() != self.class() || is_others {
            return None;
        }
        match self.block() {
            Some(block) => {
                let read = block.parse(mad.gmp_data()).ok()?;
                let mut row = [0; WIDEST];
                for (to, from) in row.iter_mut().zip(read.values) {
                    *to = from.into();
                }
                Some((read.port_select, row))
            }
            None if self == Self::Base => PortCounters::parse(mad.gmp_data()).ok().map(|c| base_row(&c)),
            None if self == Self::ExtendedSpeeds => PortExtSpeedsCounters::parse(mad.gmp_data())
                .ok()
                .map(|c| speeds_row(&c)),
            None if self == Self::BitErrors => PortBer::parse(mad.gmp_data()).ok().map(|ber| bits_row(&ber)),
            None => PortCountersExtended::parse(mad.gmp_data())
                .ok()
                .map(|c| (c.port_select, c.counters())),
        }
    }
}

/// The counters of PortCounters in the order of its CounterSelect, with their widths. Source: IBA vol 1 §16.1.3.5.
const BASE: [(Metric, u32); 18] = [
    (Metric::SymbolErrors, 16),
    (Metric::LinkRecoveries, 8),
    (Metric::LinkDowned, 8),
    (Metric::RcvErrors, 16),
    (Metric::RcvRemotePhysicalErrors, 16),
    (Metric::RcvSwitchRelayErrors, 16),
    (Metric::XmitDiscards, 16),
    (Metric::XmitConstraintErrors, 8),
    (Metric::RcvConstraintErrors, 8),
    (Metric::LocalLinkIntegrityErrors, 4),
    (Metric::ExcessiveBufferOverruns, 4),
    (Metric::Vl15Dropped, 16),
    (Metric::XmitData, 32),
    (Metric::RcvData, 32),
    (Metric::XmitPackets, 32),
    (Metric::RcvPackets, 32),
    (Metric::XmitWait, 32),
    (Metric::Qp1Dropped, 16),
];

fn base_row(c: &PortCounters) -> (u8, Row) {
    let counters: [u64; BASE.len()] = [
        c.symbol_errors.into(),
        c.link_recoveries.into(),
        c.link_downed.into(),
        c.rcv_errors.into(),
        c.rcv_remote_physical_errors.into(),
        c.rcv_switch_relay_errors.into(),
        c.xmit_discards.into(),
        c.xmit_constraint_errors.into(),
        c.rcv_constraint_errors.into(),
        c.local_link_integrity_errors.get().into(),
        c.excessive_buffer_overruns.get().into(),
        c.vl15_dropped.into(),
        c.xmit_data.into(),
        c.rcv_data.into(),
        c.xmit_packets.into(),
        c.rcv_packets.into(),
        c.xmit_wait.into(),
        c.qp1_dropped.into(),
    ];
    let mut row = [0; WIDEST];
    row[..BASE.len()].copy_from_slice(&counters);
    (c.port_select, row)
}

/// Counters of PortExtendedSpeedsCounters that are not summed: two of the port, and one of each lane.
const SPEED_ERRORS: usize = 2 + PortExtSpeedsCounters::LANES;

fn speeds_row(c: &PortExtSpeedsCounters) -> (u8, Row) {
    let mut row = [0; WIDEST];
    row[0] = c.sync_header_errors.into();
    row[1] = c.unknown_blocks.into();
    for (to, from) in row[2..SPEED_ERRORS].iter_mut().zip(c.lane_errors) {
        *to = from.into();
    }
    row[SPEED_ERRORS] = c.fec_correctable.into_iter().map(u64::from).sum();
    row[SPEED_ERRORS + 1] = c.fec_uncorrectable.into_iter().map(u64::from).sum();
    (c.port_select, row)
}

fn bits_row(ber: &PortBer) -> (u8, Row) {
    let mut row = [0; WIDEST];
    (row[0], row[1]) = (ber.raw_errors, ber.effective_errors);
    (ber.port_select, row)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_group_reads_what_it_asks_for() {
        for (at, group) in Group::ALL.into_iter().enumerate() {
            assert_eq!(group as usize, at);
            let asked = group.request(7);
            assert_eq!((asked.class(), asked.method()), (group.class(), Method::Get));
            assert!(Group::is_class(group.class()) && !Group::is_class(Class::SubnAdm));
            assert_eq!(asked.attribute(), group.attribute());
            assert_eq!(group.decode(&asked), Some((7, [0; WIDEST])), "{group:?}");
            let another = Group::ALL[(at + 1) % Group::ALL.len()];
            assert_eq!(another.decode(&asked), None, "{group:?}");
            assert!(group.counters() <= WIDEST);
            assert!((0..group.counters()).all(|i| [4, 8, 16, 32, 64].contains(&group.bits(i))));
        }
    }

    #[test]
    fn groups_are_in_the_order_of_the_attributes() {
        let check = |group: Group, id, name| assert_eq!((group.attribute(), group.name()), (id, name));
        check(
            Group::RcvErrors,
            AttributeId::PORT_RCV_ERROR_DETAILS,
            "PortRcvErrorDetails",
        );
        check(Group::VlPackets, AttributeId::PORT_VL_OP_PACKETS, "PortVLOpPackets");
        check(
            Group::VlXmitWait,
            AttributeId::PORT_VL_XMIT_WAIT,
            "PortVLXmitWaitCounters",
        );
        check(Group::SlBecn, AttributeId::PORT_SL_RCV_BECN, "PortSLRcvBECN");
        check(Group::SlRcvData, AttributeId::PORT_RCV_DATA_SL, "PortRcvDataSL");
        check(Group::FlowControl, AttributeId::PORT_FLOW_CTL, "PortFlowCtlCounters");
        check(
            Group::ExtendedSpeeds,
            AttributeId::PORT_EXT_SPEEDS_COUNTERS,
            "PortExtendedSpeedsCounters",
        );
        let names: std::collections::BTreeSet<&str> = Group::ALL.map(Group::name).into();
        assert_eq!(names.len(), Group::ALL.len());
    }

    #[test]
    fn bits_in_error_are_of_our_own_class_only() {
        let mut answer = Group::BitErrors.request(3);
        answer.write_gmp(&PortBer {
            port_select: 3,
            raw_errors: u64::MAX,
            effective_errors: 7,
            ..PortBer::default()
        });
        let (port, row) = Group::BitErrors.decode(&answer).expect("our own");
        assert_eq!((port, row[0], row[1], row[2]), (3, u64::MAX, 7, 0));
        // PortSamplesControl of performance management has the same attribute id.
        let mut other = Mad::request(Class::PerfMgt, Method::Get, AttributeId::PORT_BER, 0);
        other.write_gmp(&PortBer::default());
        assert_eq!(Group::BitErrors.decode(&other), None);
    }

    #[test]
    fn lanes_of_fast_links_are_summed() {
        let counters = PortExtSpeedsCounters {
            port_select: 3,
            sync_header_errors: 1,
            unknown_blocks: 2,
            lane_errors: core::array::from_fn(|lane| 10 + lane as u16),
            fec_correctable: [u32::MAX; 12],
            fec_uncorrectable: [5; 12],
            ..PortExtSpeedsCounters::default()
        };
        let (port, row) = speeds_row(&counters);
        assert_eq!((port, row[0], row[1], row[2], row[13]), (3, 1, 2, 10, 21));
        assert_eq!((row[14], row[15], row[16]), (12 * u64::from(u32::MAX), 60, 0));
        let group = Group::ExtendedSpeeds;
        assert_eq!((group.counters(), group.bits(13), group.bits(14)), (16, 16, 64));
    }

    #[test]
    fn metrics_have_a_place_each() {
        for metric in Metric::ALL {
            for group in [Group::Base, Group::Extended] {
                let place = group.place(metric);
                assert_eq!(place.and_then(|i| group.metric(i)), place.map(|_| metric));
            }
        }
        assert_eq!(Group::Base.place(Metric::UnicastRcvPackets), None);
        assert_eq!(Group::Base.mask_of(Metric::is_error).count_ones(), 13);
        assert_eq!(Group::VlData.mask_of(|_| true), 0);
        let counters = PortCounters {
            port_select: 3,
            xmit_wait: 9,
            qp1_dropped: 8,
            ..PortCounters::default()
        };
        let (port, row) = base_row(&counters);
        let at = |metric| row[Group::Base.place(metric).expect("in PortCounters")];
        assert_eq!((port, at(Metric::XmitWait), at(Metric::Qp1Dropped)), (3, 9, 8));
    }
}
