//! Prints a datagram in one line: the same text in logs, transcripts and `selvedge decode`.
//!
//! Any 256 bytes can be printed. Undecoded parts are shown in hexadecimal. Keys are secrets and never shown.

use core::fmt;

use selvedge_types::Lid;

use crate::attribute::{AttributeId, Hex};
use crate::sa::Layout;
use crate::{Class, Mad, Method, Payload, Status};

impl fmt::Display for Mad {
    /// Prints `SubnGetResp PortInfo tid=0x1f dr=0,1,4 mod=0x2 | PortInfo …`.
    ///
    /// A status, an M_Key and the LIDs of a directed route are shown only if they are not 0 or permissive.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.is_vendor() {
            true => f.write_str("Selvedge")?,
            false => fmt_class(f, self.class())?,
        }
        fmt_method(f, self.method())?;
        let name = match self.is_vendor() {
            true => vendor_name(self.attribute()),
            false => attribute_name(self.class(), self.attribute()),
        };
        match name {
            Some(name) => write!(f, " {name}")?,
            None => write!(f, " attribute={:#06x}", self.attribute().code())?,
        }
        write!(f, " tid={:#x}", self.transaction().0)?;
        if self.class() == Class::SubnDirected {
            fmt_route(f, self)?;
        }
        if self.modifier() != 0 {
            write!(f, " mod={:#x}", self.modifier())?;
        }
        if self.base_version() != 1 {
            write!(f, " base_version={}", self.base_version())?;
        }
        if self.status() != Status::OK {
            write!(f, " status={}", self.status())?;
        }
        if self.class().is_smp() && self.m_key() != 0 {
            f.write_str(" mkey=set")?;
        }
        if self.class() == Class::SubnAdm {
            fmt_administration(f, self)?;
        }
        fmt_payload(f, self)
    }
}

impl fmt::Display for Status {
    /// Prints the number and, if it has one, the name.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match *self {
            Self::OK => "ok",
            Self::BUSY => "busy",
            Self::REDIRECT => "redirect",
            Self::BAD_VERSION => "bad version",
            Self::BAD_METHOD => "bad method",
            Self::BAD_METHOD_ATTRIBUTE => "bad method/attribute",
            Self::BAD_FIELD => "bad field",
            _ => return write!(f, "{:#06x}", self.0),
        };
        write!(f, "{:#06x}({name})", self.0)
    }
}

fn fmt_class(f: &mut fmt::Formatter<'_>, class: Class) -> fmt::Result {
    match class {
        Class::SubnLid | Class::SubnDirected => f.write_str("Subn"),
        Class::SubnAdm => f.write_str("SubnAdm"),
        Class::PerfMgt => f.write_str("Perf"),
        Class::Other(code) => write!(f, "Class{code:#04x}"),
    }
}

fn fmt_method(f: &mut fmt::Formatter<'_>, method: Method) -> fmt::Result {
    match method {
        Method::Get => f.write_str("Get"),
        Method::Set => f.write_str("Set"),
        Method::Send => f.write_str("Send"),
        Method::Trap => f.write_str("Trap"),
        Method::Report => f.write_str("Report"),
        Method::TrapRepress => f.write_str("TrapRepress"),
        Method::GetTable => f.write_str("GetTable"),
        Method::GetMulti => f.write_str("GetMulti"),
        Method::Delete => f.write_str("Delete"),
        Method::GetResp => f.write_str("GetResp"),
        Method::ReportResp => f.write_str("ReportResp"),
        Method::GetTableResp => f.write_str("GetTableResp"),
        Method::GetMultiResp => f.write_str("GetMultiResp"),
        Method::DeleteResp => f.write_str("DeleteResp"),
        Method::Other(code) => write!(f, "Method{code:#04x}"),
    }
}

fn fmt_route(f: &mut fmt::Formatter<'_>, mad: &Mad) -> fmt::Result {
    match mad.route() {
        Ok(route) => write!(f, " dr={route}")?,
        Err(_) => write!(f, " dr=malformed({} hops)", mad.hop_count())?,
    }
    if mad.dr_slid() != Lid::PERMISSIVE || mad.dr_dlid() != Lid::PERMISSIVE {
        write!(f, " drslid={} drdlid={}", mad.dr_slid(), mad.dr_dlid())?;
    }
    Ok(())
}

/// Prints the header of subnet administration, without fields that are 0.
fn fmt_administration(f: &mut fmt::Formatter<'_>, mad: &Mad) -> fmt::Result {
    if let Some(rmpp) = mad.rmpp() {
        write!(f, " rmpp=({rmpp})")?;
    }
    if mad.sm_key() != 0 {
        f.write_str(" smkey=set")?;
    }
    if mad.attribute_offset() != 0 {
        write!(f, " offset={}", mad.attribute_offset())?;
    }
    if mad.component_mask() != 0 {
        write!(f, " mask={:#x}", mad.component_mask())?;
    }
    Ok(())
}

/// Prints the attribute of the datagram.
///
/// Requests of SMPs have no attribute data except SMInfo, so their data are not printed: infiniband-diags leave the
/// last response in them (see `tests/golden`).
fn fmt_payload(f: &mut fmt::Formatter<'_>, mad: &Mad) -> fmt::Result {
    if mad.class().is_smp() && mad.method() == Method::Get && mad.attribute() != AttributeId::SM_INFO {
        return Ok(());
    }
    let data: &[u8] = match mad.class() {
        Class::SubnLid | Class::SubnDirected => mad.smp_data(),
        Class::PerfMgt => mad.gmp_data(),
        Class::SubnAdm => mad.sa_data(),
        Class::Other(_) if mad.is_vendor() => mad.gmp_data(),
        // Everything after the common header.
        Class::Other(_) => &mad.as_bytes()[24..],
    };
    let used = data.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
    if used == 0 && mad.method() == Method::Get {
        return Ok(());
    }
    match Payload::of(mad) {
        Some(Ok(payload)) => write!(f, " | {payload}"),
        Some(Err(error)) => write!(f, " | {error}: {}", Hex(&data[..used])),
        None if used == 0 => Ok(()),
        None => write!(f, " | {}", Hex(&data[..used])),
    }
}

/// Returns the name of an attribute of our own vendor class.
fn vendor_name(id: AttributeId) -> Option<&'static str> {
    match id {
        AttributeId::PORT_BER => Some("PortBer"),
        AttributeId::CABLE_INFO => Some("CableInfo"),
        _ => None,
    }
}

/// Returns the name of an attribute in a class. Source: IBA vol 1 §14.2.5, §15.2.5, §16.1.3.
fn attribute_name(class: Class, id: AttributeId) -> Option<&'static str> {
    Some(match (class, id.code()) {
        (_, 0x0001) => "ClassPortInfo",
        (_, 0x0002) => "Notice",
        (_, 0x0003) => "InformInfo",
        (Class::SubnLid | Class::SubnDirected, code) => match code {
            0x0010 => "NodeDescription",
            0x0011 => "NodeInfo",
            0x0012 => "SwitchInfo",
            0x0014 => "GUIDInfo",
            0x0015 => "PortInfo",
            0x0016 => "P_KeyTable",
            0x0017 => "SLtoVLMappingTable",
            0x0018 => "VLArbitrationTable",
            0x0019 => "LinearForwardingTable",
            0x001A => "RandomForwardingTable",
            0x001B => "MulticastForwardingTable",
            0x0020 => "SMInfo",
            0x0030 => "VendorDiag",
            0x0031 => "LedInfo",
            0xFF90 => "MlnxExtPortInfo",
            _ => return None,
        },
        (Class::PerfMgt, code) => match code {
            0x0010 => "PortSamplesControl",
            0x0011 => "PortSamplesResult",
            0x0012 => "PortCounters",
            0x0015 => "PortRcvErrorDetails",
            0x0016 => "PortXmitDiscardDetails",
            0x0017 => "PortOpRcvCounters",
            0x0018 => "PortFlowCtlCounters",
            0x0019 => "PortVLOpPackets",
            0x001A => "PortVLOpData",
            0x001C => "PortVLXmitWaitCounters",
            0x001D => "PortCountersExtended",
            0x001F => "PortExtendedSpeedsCounters",
            0x0030 => "SwPortVLCongestion",
            0x0031 => "PortRcvConCtrl",
            0x0032 => "PortSLRcvFECN",
            0x0033 => "PortSLRcvBECN",
            0x0034 => "PortXmitConCtrl",
            0x0035 => "PortVLXmitTimeCong",
            0x0036 => "PortXmitDataSL",
            0x0037 => "PortRcvDataSL",
            _ => return None,
        },
        (Class::SubnAdm, _) => return Layout::of(id).map(|layout| layout.name),
        (Class::Other(_), _) => return None,
    })
}
