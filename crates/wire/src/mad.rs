//! The 256 bytes of a management datagram and the fields every class shares.
//!
//! Source: IBA vol 1 §13.4.2 (common header) and §14.2.1 (SMP formats); offsets as in rdma-core
//! `libibmad/fields.c`.
//!
//! ```text
//!   0 base version | mgmt class | class version | R, method
//!   4 status (directed route: D bit, status)     | class specific (directed route: hop pointer, hop count)
//!   8 transaction id
//!  16 attribute id                               | reserved
//!  20 attribute modifier
//!  24 M_Key (SMPs)
//!  32 DrSLID                                     | DrDLID           (directed route)
//!  37 OUI (vendor classes 0x30 to 0x4F)
//!  64 attribute data, 64 bytes (SMPs), 192 bytes (performance management, our own vendor class)
//! 128 initial path, 64 bytes                                        (directed route)
//! 192 return path, 64 bytes                                         (directed route)
//! ```

use core::fmt;
use core::ops::Range;

use selvedge_types::{Lid, PortNum, TransactionId};

use crate::attribute::{Attribute, AttributeId, GmpAttribute};
use crate::{DecodeError, DirectedRoute};

mod field {
    use super::Range;
    pub const BASE_VERSION: usize = 0;
    pub const CLASS: usize = 1;
    pub const CLASS_VERSION: usize = 2;
    pub const METHOD: usize = 3;
    pub const STATUS: Range<usize> = 4..6;
    pub const HOP_POINTER: usize = 6;
    pub const HOP_COUNT: usize = 7;
    pub const TRANSACTION: Range<usize> = 8..16;
    pub const ATTRIBUTE: Range<usize> = 16..18;
    pub const MODIFIER: Range<usize> = 20..24;
    pub const OUI: Range<usize> = 37..40;
    pub const M_KEY: Range<usize> = 24..32;
    pub const DR_SLID: Range<usize> = 32..34;
    pub const DR_DLID: Range<usize> = 34..36;
    pub const SMP_DATA: Range<usize> = 64..128;
    pub const GMP_DATA: Range<usize> = 64..256;
    pub const INITIAL_PATH: Range<usize> = 128..192;
    pub const RETURN_PATH: Range<usize> = 192..256;
}

/// Length of every MAD, in bytes.
pub const MAD_LEN: usize = 256;
/// Length of an SMP's attribute data, in bytes.
pub const SMP_DATA_LEN: usize = 64;
/// An SMP's attribute data.
pub type SmpData = [u8; SMP_DATA_LEN];
/// Length of the attribute data of a performance management MAD, in bytes.
pub const GMP_DATA_LEN: usize = 192;
/// Attribute data of a performance management MAD.
pub type GmpData = [u8; GMP_DATA_LEN];

/// Management class. Source: IBA vol 1 §13.4.4.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// LID-routed SMP (0x01).
    SubnLid,
    /// Subnet administration (0x03).
    SubnAdm,
    /// Performance management (0x04).
    PerfMgt,
    /// Directed-route SMP (0x81).
    SubnDirected,
    /// Any other class.
    Other(u8),
}

impl Class {
    /// Our own vendor class, with [`Mad::OUI`]: what performance management has no attribute for. Only the built-in
    /// emulator answers it. Source: IBA vol 1 §16.5: classes 0x30 to 0x4F have an OUI, and their data an RMPP header.
    pub const SELVEDGE: Self = Self::Other(0x4C);

    /// Decodes the wire code.
    #[must_use]
    #[inline]
    pub const fn from_code(code: u8) -> Self {
        match code {
            0x01 => Self::SubnLid,
            0x03 => Self::SubnAdm,
            0x04 => Self::PerfMgt,
            0x81 => Self::SubnDirected,
            other => Self::Other(other),
        }
    }

    /// Returns the wire code.
    #[must_use]
    #[inline]
    pub const fn code(self) -> u8 {
        match self {
            Self::SubnLid => 0x01,
            Self::SubnAdm => 0x03,
            Self::PerfMgt => 0x04,
            Self::SubnDirected => 0x81,
            Self::Other(code) => code,
        }
    }

    /// True for both SMP classes (QP0, VL15).
    #[must_use]
    #[inline]
    pub const fn is_smp(self) -> bool {
        matches!(self, Self::SubnLid | Self::SubnDirected)
    }
}

/// Method of a MAD, including the response bit. Source: IBA vol 1 §13.4.5.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Method {
    /// Read (0x01).
    Get,
    /// Write (0x02).
    Set,
    /// Unsolicited datagram (0x03).
    Send,
    /// Notice from an agent to the subnet manager (0x05).
    Trap,
    /// Event that subnet administration forwards to a subscriber (0x06).
    Report,
    /// Acknowledges a trap (0x07).
    TrapRepress,
    /// Query for a table of records (0x12).
    GetTable,
    /// Query for records that itself has several segments (0x14).
    GetMulti,
    /// Deletion of a record (0x15).
    Delete,
    /// Response to Get and Set (0x81).
    GetResp,
    /// Response to Report (0x86).
    ReportResp,
    /// Response to GetTable (0x92).
    GetTableResp,
    /// Response to GetMulti (0x94).
    GetMultiResp,
    /// Response to Delete (0x95).
    DeleteResp,
    /// Any other method.
    Other(u8),
}

impl Method {
    /// Decodes the wire code.
    #[must_use]
    #[inline]
    pub const fn from_code(code: u8) -> Self {
        match code {
            0x01 => Self::Get,
            0x02 => Self::Set,
            0x03 => Self::Send,
            0x05 => Self::Trap,
            0x06 => Self::Report,
            0x07 => Self::TrapRepress,
            0x12 => Self::GetTable,
            0x14 => Self::GetMulti,
            0x15 => Self::Delete,
            0x81 => Self::GetResp,
            0x86 => Self::ReportResp,
            0x92 => Self::GetTableResp,
            0x94 => Self::GetMultiResp,
            0x95 => Self::DeleteResp,
            other => Self::Other(other),
        }
    }

    /// Returns the wire code.
    #[must_use]
    #[inline]
    pub const fn code(self) -> u8 {
        match self {
            Self::Get => 0x01,
            Self::Set => 0x02,
            Self::Send => 0x03,
            Self::Trap => 0x05,
            Self::Report => 0x06,
            Self::TrapRepress => 0x07,
            Self::GetTable => 0x12,
            Self::GetMulti => 0x14,
            Self::Delete => 0x15,
            Self::GetResp => 0x81,
            Self::ReportResp => 0x86,
            Self::GetTableResp => 0x92,
            Self::GetMultiResp => 0x94,
            Self::DeleteResp => 0x95,
            Self::Other(code) => code,
        }
    }

    /// True if the response bit is set. TrapRepress does not have it, although it answers a Trap.
    #[must_use]
    #[inline]
    pub const fn is_response(self) -> bool {
        self.code() & 0x80 != 0
    }
}

/// Status of a response, without the direction bit. Source: IBA vol 1 §13.4.7.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Status(pub u16);

impl Status {
    /// No error.
    pub const OK: Self = Self(0);
    /// Busy: the request was discarded; try again.
    pub const BUSY: Self = Self(0x0001);
    /// Redirection required.
    pub const REDIRECT: Self = Self(0x0002);
    /// Bad class or class version.
    pub const BAD_VERSION: Self = Self(0x0004);
    /// Method not supported.
    pub const BAD_METHOD: Self = Self(0x0008);
    /// The attribute does not support this method.
    pub const BAD_METHOD_ATTRIBUTE: Self = Self(0x000C);
    /// A field of the attribute or the modifier has an invalid value.
    pub const BAD_FIELD: Self = Self(0x001C);
}

/// One management datagram.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Mad([u8; MAD_LEN]);

impl Mad {
    /// Copies a MAD from a slice; checks only the length.
    pub fn new_checked(bytes: &[u8]) -> Result<Self, DecodeError> {
        match bytes.try_into() {
            Ok(raw) => Ok(Self(raw)),
            Err(_) => Err(DecodeError::Truncated {
                what: "MAD",
                need: MAD_LEN,
                have: bytes.len(),
            }),
        }
    }

    /// Returns the MAD with these bytes.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; MAD_LEN]) -> Self {
        Self(bytes)
    }

    /// Returns a MAD with this header and zeros elsewhere.
    #[must_use]
    pub fn request(class: Class, method: Method, attribute: AttributeId, modifier: u32) -> Self {
        let mut mad = Self([0; MAD_LEN]);
        mad.write_header(class, method, attribute, modifier);
        mad
    }

    fn write_header(&mut self, class: Class, method: Method, attribute: AttributeId, modifier: u32) {
        self.0[field::BASE_VERSION] = 1;
        self.0[field::CLASS] = class.code();
        // Source: IBA vol 1 §13.4.2: class version 1, but 2 for subnet administration.
        self.0[field::CLASS_VERSION] = if class == Class::SubnAdm { 2 } else { 1 };
        self.0[field::METHOD] = method.code();
        self.0[field::ATTRIBUTE].copy_from_slice(&attribute.code().to_be_bytes());
        self.0[field::MODIFIER].copy_from_slice(&modifier.to_be_bytes());
    }

    /// The OUI of our own vendor class: a locally administered one.
    pub const OUI: [u8; 3] = [0x02, 0x53, 0x4C];

    /// Returns a MAD of our own vendor class without RMPP, with zeros as data.
    #[must_use]
    pub fn vendor(method: Method, attribute: AttributeId) -> Self {
        let mut mad = Self::request(Class::SELVEDGE, method, attribute, 0);
        mad.0[field::OUI].copy_from_slice(&Self::OUI);
        mad
    }

    /// True for a MAD of our own vendor class, by class and OUI.
    #[must_use]
    #[inline]
    pub fn is_vendor(&self) -> bool {
        self.class() == Class::SELVEDGE && self.0[field::OUI] == Self::OUI
    }

    /// Returns a directed-route SMP along `route`. Both LIDs are permissive (a route without LID-routed parts).
    #[must_use]
    pub fn directed(method: Method, attribute: AttributeId, modifier: u32, route: &DirectedRoute) -> Self {
        let mut mad = Self([0; MAD_LEN]);
        mad.write_directed(method, attribute, modifier, route);
        mad
    }

    /// Does the same as [`Self::directed`] in place, and overwrites all bytes.
    pub fn write_directed(&mut self, method: Method, attribute: AttributeId, modifier: u32, route: &DirectedRoute) {
        self.0.fill(0);
        self.write_header(Class::SubnDirected, method, attribute, modifier);
        self.0[field::HOP_COUNT] = route.hops();
        self.0[field::DR_SLID].copy_from_slice(&Lid::PERMISSIVE.0.to_be_bytes());
        self.0[field::DR_DLID].copy_from_slice(&Lid::PERMISSIVE.0.to_be_bytes());
        self.0[field::INITIAL_PATH][1..=route.ports().len()].copy_from_slice(route.ports());
    }

    /// Returns all bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; MAD_LEN] {
        &self.0
    }

    /// Returns all bytes for changes in place.
    pub const fn as_bytes_mut(&mut self) -> &mut [u8; MAD_LEN] {
        &mut self.0
    }

    /// Returns the base version; 1 in every MAD.
    #[must_use]
    #[inline]
    pub const fn base_version(&self) -> u8 {
        self.0[field::BASE_VERSION]
    }

    /// Returns the management class.
    #[must_use]
    #[inline]
    pub const fn class(&self) -> Class {
        Class::from_code(self.0[field::CLASS])
    }

    /// Returns the version of the class.
    #[must_use]
    #[inline]
    pub const fn class_version(&self) -> u8 {
        self.0[field::CLASS_VERSION]
    }

    /// Returns the method, including its response bit.
    #[must_use]
    #[inline]
    pub const fn method(&self) -> Method {
        Method::from_code(self.0[field::METHOD])
    }

    /// Changes the method.
    #[inline]
    pub const fn set_method(&mut self, method: Method) {
        self.0[field::METHOD] = method.code();
    }

    /// Returns the status without the direction bit of directed-route SMPs.
    #[must_use]
    pub fn status(&self) -> Status {
        let raw = self.u16(field::STATUS);
        Status(if self.class() == Class::SubnDirected {
            raw & 0x7FFF
        } else {
            raw
        })
    }

    /// Changes the status and keeps the direction bit.
    #[inline]
    pub fn set_status(&mut self, status: Status) {
        let direction = if self.is_returning() { 0x8000 } else { 0 };
        self.0[field::STATUS].copy_from_slice(&(status.0 | direction).to_be_bytes());
    }

    /// Returns the D bit of a directed-route SMP, which is set on the return path.
    #[must_use]
    #[inline]
    pub fn is_returning(&self) -> bool {
        self.class() == Class::SubnDirected && self.u16(field::STATUS) & 0x8000 != 0
    }

    /// Sets or clears the D bit.
    #[inline]
    pub fn set_returning(&mut self, returning: bool) {
        let status = self.u16(field::STATUS) & 0x7FFF | if returning { 0x8000 } else { 0 };
        self.0[field::STATUS].copy_from_slice(&status.to_be_bytes());
    }

    /// Returns the transaction id.
    #[must_use]
    #[inline]
    pub fn transaction(&self) -> TransactionId {
        TransactionId(self.u64(field::TRANSACTION))
    }

    /// Changes the transaction id.
    pub fn set_transaction(&mut self, id: TransactionId) {
        self.0[field::TRANSACTION].copy_from_slice(&id.0.to_be_bytes());
    }

    /// Returns the attribute id.
    #[must_use]
    #[inline]
    pub fn attribute(&self) -> AttributeId {
        AttributeId::from_code(self.u16(field::ATTRIBUTE))
    }

    /// Returns the attribute modifier.
    #[must_use]
    #[inline]
    pub fn modifier(&self) -> u32 {
        let mut raw = [0; 4];
        raw.copy_from_slice(&self.0[field::MODIFIER]);
        u32::from_be_bytes(raw)
    }

    /// Returns the M_Key of an SMP.
    #[must_use]
    #[inline]
    pub fn m_key(&self) -> u64 {
        self.u64(field::M_KEY)
    }

    /// Changes the M_Key.
    pub fn set_m_key(&mut self, key: u64) {
        self.0[field::M_KEY].copy_from_slice(&key.to_be_bytes());
    }

    /// Returns the hop pointer of a directed-route SMP.
    #[must_use]
    #[inline]
    pub const fn hop_pointer(&self) -> u8 {
        self.0[field::HOP_POINTER]
    }

    /// Changes the hop pointer.
    #[inline]
    pub const fn set_hop_pointer(&mut self, value: u8) {
        self.0[field::HOP_POINTER] = value;
    }

    /// Returns the hop count of a directed-route SMP; above 63 the SMP is malformed.
    #[must_use]
    #[inline]
    pub const fn hop_count(&self) -> u8 {
        self.0[field::HOP_COUNT]
    }

    /// Returns the LID at which the directed part starts; permissive if it starts at the sender.
    #[must_use]
    #[inline]
    pub fn dr_slid(&self) -> Lid {
        Lid(self.u16(field::DR_SLID))
    }

    /// Returns the LID to which the SMP goes after the directed part; permissive if it ends there.
    #[must_use]
    #[inline]
    pub fn dr_dlid(&self) -> Lid {
        Lid(self.u16(field::DR_DLID))
    }

    /// Changes the LID at which the directed part starts.
    pub fn set_dr_slid(&mut self, lid: Lid) {
        self.0[field::DR_SLID].copy_from_slice(&lid.0.to_be_bytes());
    }

    /// Changes the LID to which the SMP goes after the directed part.
    pub fn set_dr_dlid(&mut self, lid: Lid) {
        self.0[field::DR_DLID].copy_from_slice(&lid.0.to_be_bytes());
    }

    /// Returns the egress port of hop `hop` (1–63) on the initial path; 0 for other hops.
    #[must_use]
    #[inline]
    pub fn initial_path(&self, hop: u8) -> u8 {
        self.0[field::INITIAL_PATH].get(usize::from(hop)).copied().unwrap_or(0)
    }

    /// Returns the egress port of hop `hop` on the return path; 0 for hops outside the vector.
    #[must_use]
    #[inline]
    pub fn return_path(&self, hop: u8) -> u8 {
        self.0[field::RETURN_PATH].get(usize::from(hop)).copied().unwrap_or(0)
    }

    /// Records the ingress port of a hop in the return path. Hops outside the vector are ignored.
    #[inline]
    pub fn set_return_path(&mut self, hop: u8, port: u8) {
        if let Some(slot) = self.0[field::RETURN_PATH].get_mut(usize::from(hop)) {
            *slot = port;
        }
    }

    /// True if both have the same route: equal hop counts and equal initial paths.
    #[must_use]
    pub fn same_route(&self, other: &Self) -> bool {
        let path = |mad: &Self| {
            let hops = usize::from(mad.hop_count()).min(DirectedRoute::MAX_HOPS);
            field::INITIAL_PATH.start + 1..=field::INITIAL_PATH.start + hops
        };
        self.hop_count() == other.hop_count() && self.0[path(self)] == other.0[path(other)]
    }

    /// Returns the route of a directed-route SMP.
    pub fn route(&self) -> Result<DirectedRoute, DecodeError> {
        let hops = self.hop_count();
        let malformed = DecodeError::Field {
            field: "SMP.HopCount",
            want: "0-63",
            found: u64::from(hops),
        };
        let mut route = DirectedRoute::LOCAL;
        for hop in 1..=hops {
            let port = PortNum::new(self.initial_path(hop)).unwrap_or_default();
            route = route.then(port).ok_or(malformed)?;
        }
        Ok(route)
    }

    /// Returns an SMP's attribute data.
    #[must_use]
    #[inline]
    pub fn smp_data(&self) -> &SmpData {
        self.0[field::SMP_DATA].first_chunk().unwrap_or(&[0; SMP_DATA_LEN])
    }

    /// Changes an SMP's attribute data.
    #[inline]
    pub fn set_smp_data(&mut self, data: &SmpData) {
        self.0[field::SMP_DATA].copy_from_slice(data);
    }

    /// Returns an SMP's attribute data for changes in place.
    pub fn smp_data_mut(&mut self) -> &mut SmpData {
        match self.0[field::SMP_DATA].first_chunk_mut() {
            Some(data) => data,
            // The range has exactly this length.
            None => unreachable!(),
        }
    }

    /// Decodes an SMP's attribute. Fails if its id is not that of `A`.
    pub fn read<A: Attribute>(&self) -> Result<A, DecodeError> {
        if self.attribute() != A::ID {
            return Err(DecodeError::Attribute {
                want: A::ID.code(),
                found: self.attribute().code(),
            });
        }
        A::parse(self.smp_data())
    }

    /// Writes an SMP's attribute data; the attribute id stays unchanged.
    pub fn write<A: Attribute>(&mut self, attribute: &A) {
        self.set_smp_data(&attribute.emit());
    }

    /// Returns the attribute data of a performance management MAD.
    #[must_use]
    pub fn gmp_data(&self) -> &GmpData {
        self.0[field::GMP_DATA].first_chunk().unwrap_or(&[0; GMP_DATA_LEN])
    }

    /// Changes the attribute data of a performance management MAD.
    pub fn set_gmp_data(&mut self, data: &GmpData) {
        self.0[field::GMP_DATA].copy_from_slice(data);
    }

    /// Decodes the attribute of a performance management MAD. Fails if its id is not that of `A`.
    pub fn read_gmp<A: GmpAttribute>(&self) -> Result<A, DecodeError> {
        if self.attribute() != A::ID {
            return Err(DecodeError::Attribute {
                want: A::ID.code(),
                found: self.attribute().code(),
            });
        }
        A::parse(self.gmp_data())
    }

    /// Writes the attribute data of a performance management MAD; the attribute id stays unchanged.
    pub fn write_gmp<A: GmpAttribute>(&mut self, attribute: &A) {
        self.set_gmp_data(&attribute.emit());
    }

    #[inline]
    fn u16(&self, range: Range<usize>) -> u16 {
        u16::from_be_bytes([self.0[range.start], self.0[range.start + 1]])
    }

    #[inline]
    fn u64(&self, range: Range<usize>) -> u64 {
        let mut raw = [0; 8];
        raw.copy_from_slice(&self.0[range]);
        u64::from_be_bytes(raw)
    }
}

impl fmt::Debug for Mad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Mad({:02x?}…)", &self.0[..24])
    }
}
