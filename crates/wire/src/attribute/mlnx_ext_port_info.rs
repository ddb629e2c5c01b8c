//! Mellanox's ExtendedPortInfo: whether a link runs at FDR10, which PortInfo cannot express.

use core::fmt;

use super::{Attribute, AttributeId};
use crate::{DecodeError, SmpData};

/// Vendor attribute of a port. The manager reads it if PortInfo states QDR and no extended speed.
///
/// Modifier: the port, as in PortInfo.
///
/// Source: rdma-core 65 `libibmad/fields.c` ("Mellanox ExtendedPortInfo"), OpenSM `ib_types.h`
/// (`ib_mlnx_ext_port_info_t`). All other bytes are reserved: ignored on receipt, sent as 0.
/// ```text
///  3 StateChangeEnable         7 LinkSpeedSupported         11 LinkSpeedEnabled         15 LinkSpeedActive
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MlnxExtPortInfo {
    /// In a Set: the speeds that the Set changes; a bit set of [`Self::FDR10`].
    pub state_change_enable: u8,
    /// Vendor speeds that the port supports.
    pub speed_supported: u8,
    /// Vendor speeds that are enabled.
    pub speed_enabled: u8,
    /// Vendor speed in use; 0: the speed in PortInfo.
    pub speed_active: u8,
}

impl MlnxExtPortInfo {
    /// The only known vendor speed, FDR10.
    pub const FDR10: u8 = 1;

    /// True if the link runs at FDR10.
    #[must_use]
    pub const fn is_fdr10(&self) -> bool {
        self.speed_active & Self::FDR10 != 0
    }
}

impl Attribute for MlnxExtPortInfo {
    const ID: AttributeId = AttributeId::MLNX_EXT_PORT_INFO;

    fn parse(data: &SmpData) -> Result<Self, DecodeError> {
        Ok(Self {
            state_change_enable: data[3],
            speed_supported: data[7],
            speed_enabled: data[11],
            speed_active: data[15],
        })
    }

    fn emit(&self) -> SmpData {
        let mut data = [0; 64];
        data[3] = self.state_change_enable;
        data[7] = self.speed_supported;
        data[11] = self.speed_enabled;
        data[15] = self.speed_active;
        data
    }
}

impl fmt::Display for MlnxExtPortInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "MlnxExtPortInfo speed={:#x}/{:#x}/{:#x} change={:#x}",
            self.speed_active, self.speed_enabled, self.speed_supported, self.state_change_enable
        )
    }
}
