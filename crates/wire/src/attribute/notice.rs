//! Notice: an event at a node, reported to the subnet manager.

use core::fmt;

use selvedge_types::Lid;

use super::bytes::{Hex, array_at, put, put_u24, u16_at, u24_at};
use super::{Attribute, AttributeId, Trap};
use crate::{DecodeError, SmpData};

/// Length of the details of a notice, in bytes.
pub const NOTICE_DETAILS_LEN: usize = 54;

/// Urgency of a notice: Notice.Type (7 bits). Source: IBA vol 1 §13.4.8.2.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NoticeType(u8);

impl NoticeType {
    /// Fatal (0).
    pub const FATAL: Self = Self(0);
    /// Urgent (1).
    pub const URGENT: Self = Self(1);
    /// Security (2).
    pub const SECURITY: Self = Self(2);
    /// Subnet management (3).
    pub const SUBNET_MANAGEMENT: Self = Self(3);
    /// Informational (4).
    pub const INFO: Self = Self(4);
    /// No notice (127).
    pub const EMPTY: Self = Self(0x7F);

    /// Returns the low seven bits of `code`.
    #[must_use]
    pub const fn from_code(code: u8) -> Self {
        Self(code & 0x7F)
    }

    /// Returns the seven bits.
    #[must_use]
    pub const fn code(self) -> u8 {
        self.0
    }
}

impl fmt::Display for NoticeType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::FATAL => f.write_str("fatal"),
            Self::URGENT => f.write_str("urgent"),
            Self::SECURITY => f.write_str("security"),
            Self::SUBNET_MANAGEMENT => f.write_str("subnet"),
            Self::INFO => f.write_str("info"),
            Self::EMPTY => f.write_str("empty"),
            Self(code) => write!(f, "type{code}"),
        }
    }
}

/// The definer of a notice (the standard or a vendor), and its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoticeSource {
    /// Defined by the standard.
    Generic {
        /// Kind of sender, 24 bits: 1 CA, 2 switch, 3 router, 4 class manager (the subnet manager itself).
        producer: u32,
        /// Number of the trap.
        trap: u16,
    },
    /// Defined by a vendor.
    Vendor {
        /// Vendor's OUI, 24 bits.
        vendor_id: u32,
        /// Vendor's device id.
        device_id: u16,
    },
}

/// Producer type of a generic notice: CA.
pub const PRODUCER_CA: u32 = 1;
/// Producer type of a generic notice: switch.
pub const PRODUCER_SWITCH: u32 = 2;
/// Producer type of a generic notice: router.
pub const PRODUCER_ROUTER: u32 = 3;
/// Producer type of a generic notice: class manager. For traps 64–67 this is the subnet manager.
pub const PRODUCER_CLASS_MANAGER: u32 = 4;

/// An event at a node.
///
/// Source: IBA vol 1 §13.4.8.2. The details are kept as bytes; [`Notice::trap`] decodes them.
/// ```text
///  0 IsGeneric (1 bit), Type (7) | 1 ProducerType or VendorID (24 bits)
///  4 TrapNumber or DeviceID      | 6 IssuerLID
///  8 NoticeToggle (1), NoticeCount (15)
/// 10 details, 54 bytes
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Notice {
    /// Urgency.
    pub kind: NoticeType,
    /// Definer and number of the notice.
    pub source: NoticeSource,
    /// LID of the port that sent the notice.
    pub issuer_lid: Lid,
    /// Toggles with every new entry of a notice queue.
    pub toggle: bool,
    /// Number of waiting notices, 15 bits; higher bits are not sent.
    pub count: u16,
    /// The details.
    pub details: [u8; NOTICE_DETAILS_LEN],
}

impl Notice {
    /// Returns a generic notice with these details, as `producer` at `issuer_lid` would send it.
    ///
    /// Its type is the one that the standard defines for the trap. Source: IBA vol 1 §14.2.5.1.
    #[must_use]
    pub fn new(producer: u32, issuer_lid: Lid, trap: &Trap) -> Self {
        let mut data = [0; 64];
        trap.emit(&mut data);
        Self {
            kind: trap.kind(),
            source: NoticeSource::Generic {
                producer,
                trap: trap.number(),
            },
            issuer_lid,
            toggle: false,
            count: 0,
            details: array_at(&data, 10),
        }
    }

    /// Returns the number of a generic trap.
    #[must_use]
    pub const fn trap_number(&self) -> Option<u16> {
        match self.source {
            NoticeSource::Generic { trap, .. } => Some(trap),
            NoticeSource::Vendor { .. } => None,
        }
    }

    /// Returns the decoded details, if the trap is one of those in [`Trap`].
    #[must_use]
    pub fn trap(&self) -> Option<Trap> {
        let mut data = [0; 64];
        put(&mut data, 10, self.details);
        Trap::parse(self.trap_number()?, &data)
    }
}

impl Attribute for Notice {
    const ID: AttributeId = AttributeId::NOTICE;

    fn parse(data: &SmpData) -> Result<Self, DecodeError> {
        let (id, number) = (u24_at(data, 1), u16_at(data, 4));
        let toggle_count = u16_at(data, 8);
        Ok(Self {
            kind: NoticeType::from_code(data[0]),
            source: if data[0] & 0x80 != 0 {
                NoticeSource::Generic {
                    producer: id,
                    trap: number,
                }
            } else {
                NoticeSource::Vendor {
                    vendor_id: id,
                    device_id: number,
                }
            },
            issuer_lid: Lid(u16_at(data, 6)),
            toggle: toggle_count & 0x8000 != 0,
            count: toggle_count & 0x7FFF,
            details: array_at(data, 10),
        })
    }

    fn emit(&self) -> SmpData {
        let (generic, id, number) = match self.source {
            NoticeSource::Generic { producer, trap } => (0x80, producer, trap),
            NoticeSource::Vendor { vendor_id, device_id } => (0, vendor_id, device_id),
        };
        let mut data = [0; 64];
        data[0] = generic | self.kind.code();
        put_u24(&mut data, 1, id);
        put(&mut data, 4, number.to_be_bytes());
        put(&mut data, 6, self.issuer_lid.0.to_be_bytes());
        let toggle = if self.toggle { 0x8000 } else { 0 };
        put(&mut data, 8, (toggle | self.count & 0x7FFF).to_be_bytes());
        put(&mut data, 10, self.details);
        data
    }
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.source {
            NoticeSource::Generic { producer, trap } => write!(f, "Notice trap={trap} producer={producer}")?,
            NoticeSource::Vendor { vendor_id, device_id } => {
                write!(f, "Notice vendor={vendor_id:#08x} device={device_id}")?;
            }
        }
        let toggle = u8::from(self.toggle);
        write!(
            f,
            " {} issuer={} toggle={toggle} count={} ",
            self.kind, self.issuer_lid, self.count
        )?;
        match self.trap() {
            Some(trap) => trap.fmt(f),
            None => write!(f, "details={}", Hex(&self.details)),
        }
    }
}
