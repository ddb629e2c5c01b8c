//! SLtoVLMappingTable: the lane of each service level, from an input port to an output port.

use core::fmt;

use selvedge_types::{Sl, Vl};

use super::{Attribute, AttributeId};
use crate::{DecodeError, SmpData};

/// The lane of each service level, for packets from one port of a switch to another.
///
/// Source: IBA vol 1 §14.2.5.8. Modifier: bits 8–15 the input port, bits 0–7 the output port (both 0 on a CA).
/// ```text
///  0 VL of SL 0 (4 bits), VL of SL 1 (4 bits) | 1 SL 2, SL 3 | … | 7 SL 14, SL 15 | 8 reserved, 56 bytes
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlToVl {
    /// The lane of each service level; 15 drops packets.
    pub vls: [Vl; Sl::COUNT],
}

impl SlToVl {
    /// Wildcard bit of the modifier: the row is for all input ports.
    ///
    /// Valid only if SwitchInfo.OptimizedSLtoVLMapping allows it. Source: IBA vol 1 §14.2.5.8.
    pub const ALL_INPUTS: u32 = 1 << 17;
    /// Wildcard bit of the modifier: the row is for all output ports.
    pub const ALL_OUTPUTS: u32 = 1 << 16;

    /// Maps each service level to its number modulo `lanes` (1–15; 0 counts as 1).
    #[must_use]
    pub fn modulo(lanes: u8) -> Self {
        let lanes = lanes.clamp(1, 15);
        Self {
            // A lane below 15 is always a lane, so the default is never taken.
            vls: core::array::from_fn(|sl| Vl::new(sl as u8 % lanes).unwrap_or_default()),
        }
    }

    /// Returns the modifier of the row from `input` to `output`.
    #[must_use]
    pub const fn modifier(input: u8, output: u8) -> u32 {
        (input as u32) << 8 | output as u32
    }

    /// Returns the input port of a modifier.
    #[must_use]
    pub const fn input(modifier: u32) -> u8 {
        (modifier >> 8) as u8
    }

    /// Returns the output port of a modifier.
    #[must_use]
    pub const fn output(modifier: u32) -> u8 {
        modifier as u8
    }

    /// Returns the lane of `sl`.
    #[must_use]
    pub fn vl(&self, sl: Sl) -> Vl {
        self.vls[usize::from(sl.get())]
    }
}

impl Attribute for SlToVl {
    const ID: AttributeId = AttributeId::SL_TO_VL;

    fn parse(data: &SmpData) -> Result<Self, DecodeError> {
        Ok(Self {
            vls: core::array::from_fn(|sl| {
                let byte = data[sl / 2];
                // Four bits are always a lane, so the default is never taken.
                Vl::new(if sl % 2 == 0 { byte >> 4 } else { byte & 0x0F }).unwrap_or_default()
            }),
        })
    }

    fn emit(&self) -> SmpData {
        let mut data = [0; 64];
        for (i, pair) in self.vls.chunks_exact(2).enumerate() {
            data[i] = pair[0].get() << 4 | pair[1].get();
        }
        data
    }
}

impl fmt::Display for SlToVl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SLtoVLMappingTable")?;
        self.vls
            .iter()
            .enumerate()
            .try_for_each(|(i, vl)| write!(f, "{}{}", if i == 0 { ' ' } else { ',' }, vl.get()))
    }
}
