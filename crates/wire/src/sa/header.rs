//! The header of subnet administration: RMPP, SM_Key, attribute offset, component mask.
//!
//! Source: IBA vol 1 §15.2.1 and §13.6 (RMPP); offsets as in rdma-core `libibmad/fields.c`.
//!
//! ```text
//! 24 RMPPVersion | RMPPType | RRespTime (5 bits), RMPPFlags (3) | RMPPStatus
//! 28 SegmentNumber (data, acknowledgement)
//! 32 PayloadLength (data), NewWindowLast (acknowledgement)
//! 36 SM_Key
//! 44 AttributeOffset, in 8 bytes      46 reserved
//! 48 ComponentMask
//! 56 data, 200 bytes
//! ```

use core::fmt;
use core::ops::Range;

use super::field::{SA_DATA_LEN, SaData};
use crate::{Mad, Status};

mod field {
    use super::Range;
    pub const RMPP_VERSION: usize = 24;
    pub const RMPP_KIND: usize = 25;
    pub const RMPP_FLAGS: usize = 26;
    pub const RMPP_STATUS: usize = 27;
    pub const SEGMENT: Range<usize> = 28..32;
    pub const LENGTH: Range<usize> = 32..36;
    pub const SM_KEY: Range<usize> = 36..44;
    pub const OFFSET: Range<usize> = 44..46;
    pub const MASK: Range<usize> = 48..56;
    pub const DATA: Range<usize> = 56..256;
}

/// Type of an RMPP datagram. Source: IBA vol 1 §13.6.2.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RmppKind {
    /// A segment (1).
    Data,
    /// An acknowledgement (2).
    Ack,
    /// The sender or receiver has no resources (3).
    Stop,
    /// The transfer is aborted because of an error (4).
    Abort,
    /// Any other type.
    Other(u8),
}

impl RmppKind {
    /// Decodes the wire code.
    #[must_use]
    pub const fn from_code(code: u8) -> Self {
        match code {
            1 => Self::Data,
            2 => Self::Ack,
            3 => Self::Stop,
            4 => Self::Abort,
            other => Self::Other(other),
        }
    }

    /// Returns the wire code.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Self::Data => 1,
            Self::Ack => 2,
            Self::Stop => 3,
            Self::Abort => 4,
            Self::Other(code) => code,
        }
    }
}

/// Flags of an RMPP datagram. Source: IBA vol 1 §13.6.2.1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RmppFlags(pub u8);

impl RmppFlags {
    /// The datagram belongs to a transfer.
    pub const ACTIVE: Self = Self(1);
    /// The first segment.
    pub const FIRST: Self = Self(2);
    /// The last segment.
    pub const LAST: Self = Self(4);

    /// True if every flag of `other` is set.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns the flags together with those of `other`.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// Reason why a transfer ends early. Source: IBA vol 1 §13.6.2.1 (table of RMPPStatus codes).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RmppStatus(pub u8);

impl RmppStatus {
    /// No error.
    pub const OK: Self = Self(0);
    /// Out of resources (in a STOP).
    pub const NO_RESOURCES: Self = Self(1);
    /// The whole transfer took too long.
    pub const TOTAL_TIME: Self = Self(118);
    /// The last segment contradicts the payload length.
    pub const BAD_LENGTH: Self = Self(119);
    /// FIRST on a segment other than 1, or segment 1 without FIRST.
    pub const BAD_FIRST: Self = Self(120);
    /// An unknown type.
    pub const BAD_TYPE: Self = Self(121);
    /// NewWindowLast is below the acknowledged segment.
    pub const BAD_WINDOW: Self = Self(122);
    /// An acknowledgement of a segment that was never sent.
    pub const BAD_SEGMENT: Self = Self(123);
    /// An unknown status.
    pub const BAD_STATUS: Self = Self(124);
    /// An unsupported version.
    pub const BAD_VERSION: Self = Self(125);
    /// Too many repeats.
    pub const TOO_MANY_RETRIES: Self = Self(126);
    /// Unspecified error.
    pub const UNSPECIFIED: Self = Self(127);
}

/// The RMPP part of the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rmpp {
    /// Always 1.
    pub version: u8,
    /// Type of the segment.
    pub kind: RmppKind,
    /// Longest time until the other side responds: 4.096 µs · 2^value; 31: no value.
    pub response_time: u8,
    /// Flags.
    pub flags: RmppFlags,
    /// Reason for which the transfer ends early; [`RmppStatus::OK`] in data segments and acknowledgements.
    pub status: RmppStatus,
    /// Number of the segment, from 1. In an acknowledgement: the last segment received in order.
    pub segment: u32,
    /// In a data segment: payload length in bytes. It includes, for each segment, the part of the header after RMPP.
    /// The first segment has the total (0 if unknown), the last segment has the remainder. In an acknowledgement: the
    /// last segment that may be sent (NewWindowLast).
    pub length: u32,
}

impl Rmpp {
    /// Bytes of the header that count as payload in each segment: SM_Key to ComponentMask. Source: IBA vol 1 §15.2.1.
    pub const HEADER_IN_PAYLOAD: u32 = 20;
    /// Payload of a full segment, in bytes.
    pub const SEGMENT_PAYLOAD: u32 = SA_DATA_LEN as u32 + Self::HEADER_IN_PAYLOAD;
    /// "No value" of [`Self::response_time`].
    pub const NO_RESPONSE_TIME: u8 = 31;

    /// Returns the header of a data segment.
    #[must_use]
    pub const fn data(segment: u32, flags: RmppFlags, length: u32) -> Self {
        Self {
            version: 1,
            kind: RmppKind::Data,
            response_time: Self::NO_RESPONSE_TIME,
            flags: flags.with(RmppFlags::ACTIVE),
            status: RmppStatus::OK,
            segment,
            length,
        }
    }

    /// Returns an acknowledgement: everything up to `segment` has arrived, and segments up to `window_last` may be
    /// sent.
    #[must_use]
    pub const fn ack(segment: u32, window_last: u32) -> Self {
        Self {
            kind: RmppKind::Ack,
            ..Self::data(segment, RmppFlags(0), window_last)
        }
    }

    /// Returns an abort with the reason.
    #[must_use]
    pub const fn abort(status: RmppStatus) -> Self {
        Self {
            kind: RmppKind::Abort,
            status,
            ..Self::data(0, RmppFlags(0), 0)
        }
    }

    /// True if the data of a record begin in this datagram.
    #[must_use]
    pub const fn begins_data(&self) -> bool {
        matches!(self.kind, RmppKind::Data) && self.segment == 1
    }
}

impl fmt::Display for Rmpp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            RmppKind::Data => write!(f, "data seg={} len={}", self.segment, self.length)?,
            RmppKind::Ack => write!(f, "ack seg={} window={}", self.segment, self.length)?,
            RmppKind::Stop => write!(f, "stop status={}", self.status.0)?,
            RmppKind::Abort => write!(f, "abort status={}", self.status.0)?,
            RmppKind::Other(code) => write!(f, "type={code}")?,
        }
        let flags = [(RmppFlags::FIRST, ",first"), (RmppFlags::LAST, ",last")];
        flags
            .into_iter()
            .filter(|(flag, _)| self.flags.contains(*flag))
            .try_for_each(|(_, name)| f.write_str(name))
    }
}

/// Status values of subnet administration, in addition to those of every class. Source: IBA vol 1 §15.2.1 (ERR codes).
#[derive(Clone, Copy, Debug)]
pub enum SaStatus {}

impl SaStatus {
    /// Not enough resources.
    pub const NO_RESOURCES: Status = Status(0x0100);
    /// The request is invalid: a bad component, or a meaningless combination.
    pub const REQUEST_INVALID: Status = Status(0x0200);
    /// No record matches.
    pub const NO_RECORDS: Status = Status(0x0300);
    /// More than one record matches a query for a single one.
    pub const TOO_MANY_RECORDS: Status = Status(0x0400);
    /// A GID that does not belong to this subnet, or to the requester.
    pub const INVALID_GID: Status = Status(0x0500);
    /// Components that the request needs are missing.
    pub const INSUFFICIENT_COMPONENTS: Status = Status(0x0600);
    /// Not allowed.
    pub const DENIED: Status = Status(0x0700);
}

impl Mad {
    /// Returns the RMPP header of a subnet administration MAD; `None` if the MAD belongs to no transfer.
    #[must_use]
    pub fn rmpp(&self) -> Option<Rmpp> {
        let bytes = self.as_bytes();
        let flags = RmppFlags(bytes[field::RMPP_FLAGS] & 0x07);
        // Source: IBA vol 1 §13.6.2.1: type 0 is not RMPP. OpenSM sets the flag with type 0 to ask its kernel to do the
        // transfer.
        let active = flags.contains(RmppFlags::ACTIVE) && bytes[field::RMPP_KIND] != 0;
        active.then(|| Rmpp {
            version: bytes[field::RMPP_VERSION],
            kind: RmppKind::from_code(bytes[field::RMPP_KIND]),
            response_time: bytes[field::RMPP_FLAGS] >> 3,
            flags,
            status: RmppStatus(bytes[field::RMPP_STATUS]),
            segment: self.be32(field::SEGMENT),
            length: self.be32(field::LENGTH),
        })
    }

    /// Changes the RMPP header; `None` clears it.
    pub fn set_rmpp(&mut self, rmpp: Option<Rmpp>) {
        let bytes = self.as_bytes_mut();
        bytes[field::RMPP_VERSION..field::LENGTH.end].fill(0);
        let Some(rmpp) = rmpp else { return };
        bytes[field::RMPP_VERSION] = rmpp.version;
        bytes[field::RMPP_KIND] = rmpp.kind.code();
        bytes[field::RMPP_FLAGS] = rmpp.response_time << 3 | rmpp.flags.0 & 0x07;
        bytes[field::RMPP_STATUS] = rmpp.status.0;
        bytes[field::SEGMENT].copy_from_slice(&rmpp.segment.to_be_bytes());
        bytes[field::LENGTH].copy_from_slice(&rmpp.length.to_be_bytes());
    }

    /// Returns the SM_Key of a subnet administration MAD. Trusted requesters send it; other requests and all responses
    /// have 0.
    #[must_use]
    pub fn sm_key(&self) -> u64 {
        self.be64(field::SM_KEY)
    }

    /// Changes the SM_Key.
    pub fn set_sm_key(&mut self, key: u64) {
        self.as_bytes_mut()[field::SM_KEY].copy_from_slice(&key.to_be_bytes());
    }

    /// Returns the distance between records, in units of 8 bytes.
    #[must_use]
    pub fn attribute_offset(&self) -> u16 {
        let bytes = self.as_bytes();
        u16::from_be_bytes([bytes[field::OFFSET.start], bytes[field::OFFSET.start + 1]])
    }

    /// Changes the distance between records, in units of 8 bytes.
    pub fn set_attribute_offset(&mut self, words: u16) {
        self.as_bytes_mut()[field::OFFSET].copy_from_slice(&words.to_be_bytes());
    }

    /// Returns the component mask. Bit 0 is the first component of the attribute.
    #[must_use]
    pub fn component_mask(&self) -> u64 {
        self.be64(field::MASK)
    }

    /// Changes the component mask.
    pub fn set_component_mask(&mut self, mask: u64) {
        self.as_bytes_mut()[field::MASK].copy_from_slice(&mask.to_be_bytes());
    }

    /// Returns the data of a subnet administration MAD.
    #[must_use]
    pub fn sa_data(&self) -> &SaData {
        self.as_bytes()[field::DATA].first_chunk().unwrap_or(&[0; SA_DATA_LEN])
    }

    /// Returns the data of a subnet administration MAD for changes in place.
    pub fn sa_data_mut(&mut self) -> &mut SaData {
        match self.as_bytes_mut()[field::DATA].first_chunk_mut() {
            Some(data) => data,
            // The range has exactly this length.
            None => unreachable!(),
        }
    }

    fn be32(&self, range: Range<usize>) -> u32 {
        let mut raw = [0; 4];
        raw.copy_from_slice(&self.as_bytes()[range]);
        u32::from_be_bytes(raw)
    }

    fn be64(&self, range: Range<usize>) -> u64 {
        let mut raw = [0; 8];
        raw.copy_from_slice(&self.as_bytes()[range]);
        u64::from_be_bytes(raw)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AttributeId, Class, Method};

    #[test]
    fn the_header_survives() {
        let mut mad = Mad::request(Class::SubnAdm, Method::GetTable, AttributeId::from_code(0x35), 0);
        assert_eq!(mad.rmpp(), None);
        let rmpp = Rmpp::data(7, RmppFlags::LAST, 44);
        mad.set_rmpp(Some(rmpp));
        mad.set_sm_key(0x0123_4567_89AB_CDEF);
        mad.set_attribute_offset(8);
        mad.set_component_mask(0xFEDC_BA98_7654_3210);
        mad.sa_data_mut()[199] = 9;
        assert_eq!(mad.rmpp(), Some(rmpp));
        assert_eq!(mad.sm_key(), 0x0123_4567_89AB_CDEF);
        assert_eq!(mad.attribute_offset(), 8);
        assert_eq!(mad.component_mask(), 0xFEDC_BA98_7654_3210);
        assert_eq!(mad.as_bytes()[255], 9);
        assert_eq!(mad.as_bytes()[24..28], [1, 1, 31 << 3 | 5, 0]);
        mad.set_rmpp(None);
        assert_eq!(mad.as_bytes()[24..36], [0; 12]);
    }

    #[test]
    fn rmpp_in_one_line() {
        let check = |rmpp: Rmpp, want: &str| assert_eq!(rmpp.to_string(), want);
        check(Rmpp::data(1, RmppFlags::FIRST, 660), "data seg=1 len=660,first");
        check(Rmpp::ack(3, 67), "ack seg=3 window=67");
        check(Rmpp::abort(RmppStatus::BAD_SEGMENT), "abort status=123");
    }
}
