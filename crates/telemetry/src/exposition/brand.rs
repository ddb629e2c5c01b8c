//! Brand and type of ports: what is plugged in, and whether it is what was expected.
//!
//! Sandia's LDMS sampler checks brand and type of the ports that it has to read, so that a replaced adapter or a moved
//! cable is noticed before its counters are compared with those of another device.

use core::fmt::{self, Write};
use std::collections::BTreeMap;

use selvedge_types::Guid;

use crate::prometheus::{Kind, Quoted, TextFormat, declare};
use crate::{End, Inventory};

/// Vendor and device of a node, as NodeInfo shows them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Brand {
    /// The vendor's OUI, 24 bits.
    pub vendor: u32,
    /// The vendor's device id.
    pub device: u16,
}

/// The OUI that these devices show. Source: IEEE's list of OUIs, Mellanox Technologies.
const MELLANOX: u32 = 0x00_02C9;

/// Devices by id. Source: pci.ids, vendor 15b3 (Mellanox Technologies); the device id of NodeInfo is that of PCI.
const DEVICES: [(u16, &str); 24] = [
    (0x1003, "ConnectX-3"),
    (0x1007, "ConnectX-3 Pro"),
    (0x1011, "Connect-IB"),
    (0x1013, "ConnectX-4"),
    (0x1015, "ConnectX-4 Lx"),
    (0x1017, "ConnectX-5"),
    (0x1019, "ConnectX-5 Ex"),
    (0x101B, "ConnectX-6"),
    (0x101D, "ConnectX-6 Dx"),
    (0x101F, "ConnectX-6 Lx"),
    (0x1021, "ConnectX-7"),
    (0x1023, "ConnectX-8"),
    (0x673C, "ConnectX-2"),
    (0xA2D6, "BlueField-2"),
    (0xA2DC, "BlueField-3"),
    (0xBD36, "InfiniScale IV"),
    (0xC738, "SwitchX"),
    (0xC739, "SwitchX-2"),
    (0xCB20, "Switch-IB"),
    (0xCF08, "Switch-IB 2"),
    (0xD2F0, "Quantum"),
    (0xD2F2, "Quantum-2"),
    (0xD2F4, "Quantum-3"),
    (0xFFFF, "unknown"),
];

impl Brand {
    /// Reads a type: its name, or vendor and device as `0x0002c9:0x101b`. The error is the most similar name.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let hex = |text: &str| u32::from_str_radix(text.trim().strip_prefix("0x")?, 16).ok();
        let ids = text.split_once(':').and_then(|(vendor, device)| {
            let (vendor, device) = (hex(vendor)?, u16::try_from(hex(device)?).ok()?);
            // An OUI has 24 bits.
            (vendor >> 24 == 0).then_some(Self { vendor, device })
        });
        let known = || DEVICES.iter().filter(|(_, name)| *name != "unknown");
        let named = known().find(|(_, name)| name.eq_ignore_ascii_case(text));
        let named = named.map(|(device, _)| Self {
            vendor: MELLANOX,
            device: *device,
        });
        ids.or(named).ok_or_else(|| {
            let distance = |name: &str| strsim::damerau_levenshtein(&text.to_lowercase(), &name.to_lowercase());
            let ranked = known().map(|(_, name)| (distance(name), *name));
            ranked.min().map_or("ConnectX-6", |(_, name)| name)
        })
    }

    /// Returns the type by name, if it is known.
    #[must_use]
    pub fn device_name(self) -> Option<&'static str> {
        let known = DEVICES.iter().find(|(id, _)| *id == self.device);
        known.map(|(_, name)| *name).filter(|name| *name != "unknown")
    }
}

impl fmt::Display for Brand {
    /// Prints the name of the type, and vendor and device in hexadecimal: `Quantum (0x0002c9:0xd2f0)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.device_name().unwrap_or("device");
        write!(f, "{name} ({:#08x}:{:#06x})", self.vendor, self.device)
    }
}

/// What a port is expected to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expected {
    /// Brand and type of its node.
    pub brand: Brand,
}

/// A port that is not what was expected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BrandError {
    /// SLV-TELEMETRY-0212: a port is of another brand or type than expected.
    #[error(
        "SLV-TELEMETRY-0212: port {port} of node {node} is of {found}, and {expected} was expected; check whether the \
         adapter was replaced, or correct the expectation"
    )]
    Another {
        /// The node.
        node: Guid,
        /// The port.
        port: u8,
        /// The brand and type of the port.
        found: Brand,
        /// The brand and type that were expected.
        expected: Brand,
    },
    /// SLV-TELEMETRY-0213: the list of expected brands and types names a port that does not exist.
    #[error(
        "SLV-TELEMETRY-0213: port {port} of node {node} was expected to be of {expected}, and does not exist; check \
         the GUID and the port number"
    )]
    NoPort {
        /// The node.
        node: Guid,
        /// The port.
        port: u8,
        /// What was expected.
        expected: Brand,
    },
    /// SLV-TELEMETRY-0218: a node with an expected type does not exist.
    #[error(
        "SLV-TELEMETRY-0218: there is no node {name:?}, and {expected} was expected there; check the name or GUID, or \
         whether the node is down"
    )]
    NoNode {
        /// The node's name or GUID, as the file has it.
        name: String,
        /// What was expected.
        expected: Brand,
    },
    /// SLV-TELEMETRY-0214: brand and type of a port are not known.
    #[error("SLV-TELEMETRY-0214: brand and type of node {node} are not known, and {expected} was expected")]
    Unknown {
        /// The node.
        node: Guid,
        /// What was expected.
        expected: Brand,
    },
}

impl BrandError {
    /// Returns the code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Another { .. } => "SLV-TELEMETRY-0212",
            Self::NoPort { .. } => "SLV-TELEMETRY-0213",
            Self::NoNode { .. } => "SLV-TELEMETRY-0218",
            Self::Unknown { .. } => "SLV-TELEMETRY-0214",
        }
    }
}

/// Compares what is there with what was expected; returns each port that is not as expected.
#[must_use]
pub fn check(
    inventory: &Inventory,
    brands: &BTreeMap<Guid, Brand>,
    expected: &BTreeMap<End, Expected>,
) -> Vec<BrandError> {
    let differ = |(end, expected): (&End, &Expected)| {
        let (node, port, expected) = (end.node, end.port, expected.brand);
        match (inventory.port(*end), brands.get(&node)) {
            (None, _) => Some(BrandError::NoPort { node, port, expected }),
            (Some(_), None) => Some(BrandError::Unknown { node, expected }),
            (Some(_), Some(found)) if *found != expected => Some(BrandError::Another {
                node,
                port,
                found: *found,
                expected,
            }),
            (Some(_), Some(_)) => None,
        }
    };
    expected.iter().filter_map(differ).collect()
}

/// Writes a metric with brand and type of each node.
pub fn write(
    out: &mut impl Write,
    format: TextFormat,
    inventory: &Inventory,
    brands: &BTreeMap<Guid, Brand>,
) -> fmt::Result {
    let name = "infiniband_node_info";
    declare(
        out,
        format,
        Kind::Gauge,
        name,
        "Vendor and device of a node by NodeInfo",
    )?;
    for (guid, node) in &inventory.nodes {
        let Some(brand) = brands.get(guid) else { continue };
        let description = Quoted(&node.description);
        let device = brand.device_name().unwrap_or_default();
        write!(
            out,
            "{name}{{guid=\"{guid}\",node=\"{description}\",device=\"{device}\","
        )?;
        writeln!(
            out,
            "vendor_id=\"{:#08x}\",device_id=\"{:#06x}\"}} 1",
            brand.vendor, brand.device
        )?;
    }
    Ok(())
}
