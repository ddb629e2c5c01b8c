//! ClassPortInfo: the capabilities of a class agent, and the receivers of its requests and traps.

use core::fmt;

use selvedge_types::{Lid, PKey, Sl};

use super::bytes::{Bits, array_at, put, put_u24, u16_at, u24_at, u32_at};
use super::{AttributeId, GmpAttribute};
use crate::{DecodeError, Gid, GmpData};

/// Address of an agent or manager, used for redirection and traps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassAddress {
    /// GID.
    pub gid: Gid,
    /// Traffic class.
    pub traffic_class: u8,
    /// Service level.
    pub sl: Sl,
    /// Flow label, 20 bits; higher bits are not sent.
    pub flow_label: u32,
    /// LID.
    pub lid: Lid,
    /// P_Key.
    pub pkey: PKey,
    /// Queue pair, 24 bits; higher bits are not sent.
    pub qp: u32,
    /// Q_Key.
    pub qkey: u32,
}

impl ClassAddress {
    fn parse(data: &GmpData, at: usize) -> Self {
        let sl_flow = u24_at(data, at + 17);
        Self {
            gid: Gid(array_at(data, at)),
            traffic_class: data[at + 16],
            // Four bits are always an SL, so the default is never taken.
            sl: Sl::new(data[at + 17] >> 4).unwrap_or_default(),
            flow_label: sl_flow & 0xF_FFFF,
            lid: Lid(u16_at(data, at + 20)),
            pkey: PKey(u16_at(data, at + 22)),
            qp: u24_at(data, at + 25),
            qkey: u32_at(data, at + 28),
        }
    }

    fn emit(&self, data: &mut GmpData, at: usize) {
        put(data, at, self.gid.0);
        data[at + 16] = self.traffic_class;
        put_u24(
            data,
            at + 17,
            u32::from(self.sl.get()) << 20 | self.flow_label & 0xF_FFFF,
        );
        put(data, at + 20, self.lid.0.to_be_bytes());
        put(data, at + 22, self.pkey.0.to_be_bytes());
        put_u24(data, at + 25, self.qp);
        put(data, at + 28, self.qkey.to_be_bytes());
    }
}

/// The capabilities of a class agent, and the receivers of its requests and traps.
///
/// Source: IBA vol 1 §13.4.8.1; offsets as in rdma-core `libibmad/fields.c`.
/// ```text
///  0 BaseVersion | 1 ClassVersion | 2 CapabilityMask
///  4 CapabilityMask2 (27 bits), RespTimeValue (5)
///  8 RedirectGID   24 RedirectTC  25 RedirectSL (4), RedirectFL (20)  28 RedirectLID  30 RedirectP_Key
/// 32 reserved      33 RedirectQP  36 RedirectQ_Key
/// 40 TrapGID       56 TrapTC      57 TrapSL (4), TrapFL (20)          60 TrapLID      62 TrapP_Key
/// 64 TrapHL        65 TrapQP      68 TrapQ_Key
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassPortInfo {
    /// Base version; always 1.
    pub base_version: u8,
    /// Version of the class.
    pub class_version: u8,
    /// Capabilities: bits 0–7 are the same in every class, bits 8–15 depend on the class (see the constants).
    pub capabilities: u16,
    /// Further capabilities, 27 bits; higher bits are not sent.
    pub capabilities2: u32,
    /// Longest response time: 4.096 µs · 2^value.
    pub resp_time: Bits<5>,
    /// Address to which requests must be sent instead. LID and GID 0: no redirection.
    pub redirect: ClassAddress,
    /// Address to which the agent sends traps.
    pub trap: ClassAddress,
    /// Hop limit of traps.
    pub trap_hop_limit: u8,
}

impl ClassPortInfo {
    /// PerfMgt: port 255 selects all ports. Source: IBA vol 1 §16.1.3.1.
    pub const ALL_PORT_SELECT: u16 = 1 << 8;
    /// PerfMgt: has PortCountersExtended with all counters. Source: IBA vol 1 §16.1.3.1.
    pub const EXTENDED_WIDTH: u16 = 1 << 9;
    /// PerfMgt: has PortCountersExtended without unicast and multicast counters. Source: IBA vol 1 §16.1.3.1.
    pub const EXTENDED_WIDTH_NO_IETF: u16 = 1 << 10;
    /// PerfMgt: has PortCounters.PortXmitWait. Source: rdma-core `infiniband/mad.h`.
    pub const XMIT_WAIT: u16 = 1 << 12;
    /// PerfMgt: has PortCounters.QP1Dropped. Source: OpenSM `ib_types.h`.
    pub const QP1_DROPPED: u16 = 1 << 15;
    /// PerfMgt, CapabilityMask2: PortCountersExtended has the error counters, PortXmitWait and QP1Dropped too.
    /// Source: OpenSM `ib_types.h`.
    pub const EXTENDED_ERRORS: u32 = 1 << 1;
}

impl GmpAttribute for ClassPortInfo {
    const ID: AttributeId = AttributeId::CLASS_PORT_INFO;

    fn parse(data: &GmpData) -> Result<Self, DecodeError> {
        let word = u32_at(data, 4);
        Ok(Self {
            base_version: data[0],
            class_version: data[1],
            capabilities: u16_at(data, 2),
            capabilities2: word >> 5,
            resp_time: Bits::low(data[7]),
            redirect: ClassAddress::parse(data, 8),
            trap: ClassAddress::parse(data, 40),
            trap_hop_limit: data[64],
        })
    }

    fn emit(&self) -> GmpData {
        let mut data = [0; 192];
        data[0] = self.base_version;
        data[1] = self.class_version;
        put(&mut data, 2, self.capabilities.to_be_bytes());
        put(
            &mut data,
            4,
            (self.capabilities2 << 5 | u32::from(self.resp_time.get())).to_be_bytes(),
        );
        self.redirect.emit(&mut data, 8);
        self.trap.emit(&mut data, 40);
        data[64] = self.trap_hop_limit;
        data
    }
}

impl fmt::Display for ClassPortInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "ClassPortInfo version={}/{} cap={:#06x} cap2={:#x} resp={} redirect=({}) trap=({}) hop_limit={}",
            self.base_version,
            self.class_version,
            self.capabilities,
            self.capabilities2,
            self.resp_time,
            self.redirect,
            self.trap,
            self.trap_hop_limit,
        )
    }
}

impl fmt::Display for ClassAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "lid={} gid={} sl={} tc={} fl={:#x} pkey={:#06x} qp={:#x} qkey={:#x}",
            self.lid,
            self.gid,
            self.sl.get(),
            self.traffic_class,
            self.flow_label,
            self.pkey.0,
            self.qp,
            self.qkey,
        )
    }
}
