//! CableInfo of our own vendor class: what a port reads from its cable or transceiver.

use core::fmt;

use super::bytes::{array_at, put, u16_at};
use super::{AttributeId, GmpAttribute};
use crate::{DecodeError, GmpData};

/// Technology of a cable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CableKind {
    /// No cable (0).
    #[default]
    None,
    /// Copper without electronics (1).
    PassiveCopper,
    /// Copper with electronics (2).
    ActiveCopper,
    /// Fibre that is fixed to its transceivers (3).
    ActiveOptical,
    /// A transceiver with a fibre that can be unplugged (4).
    Transceiver,
    /// Any other technology.
    Other(u8),
}

impl CableKind {
    /// Decodes the wire code.
    #[must_use]
    pub const fn from_code(code: u8) -> Self {
        match code {
            0 => Self::None,
            1 => Self::PassiveCopper,
            2 => Self::ActiveCopper,
            3 => Self::ActiveOptical,
            4 => Self::Transceiver,
            other => Self::Other(other),
        }
    }

    /// Returns the wire code.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Self::None => 0,
            Self::PassiveCopper => 1,
            Self::ActiveCopper => 2,
            Self::ActiveOptical => 3,
            Self::Transceiver => 4,
            Self::Other(code) => code,
        }
    }
}

impl fmt::Display for CableKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "none",
            Self::PassiveCopper => "passive-copper",
            Self::ActiveCopper => "active-copper",
            Self::ActiveOptical => "active-optical",
            Self::Transceiver => "transceiver",
            Self::Other(code) => return write!(f, "{code}"),
        })
    }
}

/// What a port reads from its cable or transceiver. The attribute modifier is 0; PortSelect names the port.
///
/// A layout of our own for the class [`crate::Class::SELVEDGE`], answered by the built-in emulator only. Units are
/// those of SFF-8636.
/// ```text
///  0 reserved | 1 PortSelect | 2 Kind | 3 Lanes
///  4 Length, decimetres (16) |  6 Temperature, 1/256 °C, signed (16)
///  8 SupplyVoltage, 100 µV (16) | 10 reserved
/// 12 Vendor (16 characters)  | 28 PartNumber (16) | 44 SerialNumber (16) | 60 Revision (4)
/// 64 RxPower of each lane, 0.1 µW (8 × 16)
/// 80 TxPower of each lane, 0.1 µW (8 × 16)
/// ```
/// Texts are padded with zeros. Copper has no power of light and no supply voltage: 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CableInfo {
    /// The port.
    pub port_select: u8,
    /// Technology.
    pub kind: CableKind,
    /// Number of lanes.
    pub lanes: u8,
    /// Length in decimetres.
    pub length_dm: u16,
    /// Temperature in 1/256 °C.
    pub temperature: i16,
    /// Supply voltage in 100 µV.
    pub supply_voltage: u16,
    /// Vendor's name.
    pub vendor: [u8; 16],
    /// Part number.
    pub part_number: [u8; 16],
    /// Serial number; the same at both ends.
    pub serial_number: [u8; 16],
    /// Revision.
    pub revision: [u8; 4],
    /// Received power of each lane in 0.1 µW.
    pub rx_power: [u16; 8],
    /// Sent power of each lane in 0.1 µW.
    pub tx_power: [u16; 8],
}

impl CableInfo {
    /// Returns a text field: `text` cut to its length, or padded with zeros.
    #[must_use]
    pub fn field<const N: usize>(text: &str) -> [u8; N] {
        let bytes = text.as_bytes();
        core::array::from_fn(|at| bytes.get(at).copied().unwrap_or(0))
    }

    /// Returns a text field as text, up to the first zero. Bytes that are no UTF-8 are replaced.
    #[must_use]
    pub fn text(field: &[u8]) -> String {
        let used = field.iter().position(|byte| *byte == 0).unwrap_or(field.len());
        String::from_utf8_lossy(&field[..used]).into_owned()
    }
}

impl GmpAttribute for CableInfo {
    const ID: AttributeId = AttributeId::CABLE_INFO;

    fn parse(data: &GmpData) -> Result<Self, DecodeError> {
        Ok(Self {
            port_select: data[1],
            kind: CableKind::from_code(data[2]),
            lanes: data[3],
            length_dm: u16_at(data, 4),
            temperature: i16::from_be_bytes(array_at(data, 6)),
            supply_voltage: u16_at(data, 8),
            vendor: array_at(data, 12),
            part_number: array_at(data, 28),
            serial_number: array_at(data, 44),
            revision: array_at(data, 60),
            rx_power: core::array::from_fn(|lane| u16_at(data, 64 + 2 * lane)),
            tx_power: core::array::from_fn(|lane| u16_at(data, 80 + 2 * lane)),
        })
    }

    fn emit(&self) -> GmpData {
        let mut data = [0; 192];
        (data[1], data[2], data[3]) = (self.port_select, self.kind.code(), self.lanes);
        put(&mut data, 4, self.length_dm.to_be_bytes());
        put(&mut data, 6, self.temperature.to_be_bytes());
        put(&mut data, 8, self.supply_voltage.to_be_bytes());
        put(&mut data, 12, self.vendor);
        put(&mut data, 28, self.part_number);
        put(&mut data, 44, self.serial_number);
        put(&mut data, 60, self.revision);
        for (first, powers) in [(64, self.rx_power), (80, self.tx_power)] {
            for (lane, power) in powers.into_iter().enumerate() {
                put(&mut data, first + 2 * lane, power.to_be_bytes());
            }
        }
        data
    }
}

impl fmt::Display for CableInfo {
    /// Prints the power of the lanes in use only.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [vendor, part, serial, revision] = [
            &self.vendor[..],
            &self.part_number[..],
            &self.serial_number[..],
            &self.revision[..],
        ]
        .map(Self::text);
        write!(
            f,
            "CableInfo port={} {} lanes={} length={}dm temperature={}/256C voltage={}00uV vendor={:?} part={:?} \
             serial={:?} revision={:?}",
            self.port_select,
            self.kind,
            self.lanes,
            self.length_dm,
            self.temperature,
            self.supply_voltage,
            vendor,
            part,
            serial,
            revision,
        )?;
        let used = usize::from(self.lanes).min(8);
        for (name, powers) in [("rx", self.rx_power), ("tx", self.tx_power)] {
            write!(f, " {name}=")?;
            for (lane, power) in powers[..used].iter().enumerate() {
                write!(f, "{}{power}", if lane == 0 { "" } else { "," })?;
            }
        }
        Ok(())
    }
}
