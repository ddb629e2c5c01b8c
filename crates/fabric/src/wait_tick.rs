//! The tick of PortXmitWait and PortVLXmitWait, in which a port had data to send and sent nothing: the emulator counts
//! in it, and telemetry reads it.

use crate::Node;

/// The length of a tick. Source: IBA vol 1 §16.1.3.2 and §16.1.3.5: PortXmitWait counts in the tick of
/// PortSamplesControl.Tick, a multiple of the symbol time, which is the time of one byte on one lane (4 ns at SDR,
/// whatever the width). Devices of NVIDIA differ: see [`Self::of_device`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitTick {
    /// As the standard defines it: this many symbol times of one lane.
    Symbols(u16),
    /// This many bytes of the whole port, whatever its width.
    PortBytes(u16),
    /// A fixed time in picoseconds, as a simulator has it.
    Fixed {
        /// The time.
        ps: u64,
    },
}

/// OUIs of NVIDIA's network division (Mellanox, and Voltaire, which it bought). Source: IEEE's list of OUIs.
const NVIDIA: [u32; 7] = [0x2C9, 0x8F1, 0x24_8A07, 0x50_6B4B, 0x98_039B, 0xB8_599F, 0xEC_0D9A];
/// Device ids of Quantum, Quantum-2 and Quantum-3 (MT54000, MT54002, MT54004). Source: pci.ids.
const QUANTUM: [u16; 3] = [0xD2F0, 0xD2F2, 0xD2F4];
/// Device ids of SwitchX, SwitchX-2, Switch-IB and Switch-IB 2 (MT51000, MT51001, MT52000, MT53000). Source: pci.ids.
const SWITCH_IB: [u16; 4] = [0xC738, 0xC739, 0xCB20, 0xCF08];

/// OUI of devices that Selvedge generates, locally administered.
const GENERATED: u32 = 0x02_5E1E;

impl WaitTick {
    /// Returns the tick that PortSamplesControl.Tick shows: `code + 1` symbol times. Source: IBA vol 1 §16.1.3.2.
    #[must_use]
    pub const fn of_code(code: u8) -> Self {
        Self::Symbols(code as u16 + 1)
    }

    /// Returns the tick of a device. `code` is its PortSamplesControl.Tick, if that was read.
    ///
    /// Source: NVIDIA, ibdiagnet user manual 2.13, "Congestion Assessment on InfiniBand Links": Quantum and later count
    /// every 8 bytes of the port whatever its width; SwitchX and Switch-IB count every 32 bytes of each lane, as the
    /// standard defines. Generated devices count every word of the port. For other devices the
    /// standard holds; one symbol if Tick was not read.
    #[must_use]
    pub fn of_device(vendor: u32, device: u16, code: Option<u8>) -> Self {
        let is_quantum = QUANTUM.contains(&device) && (NVIDIA.contains(&vendor) || vendor == 0);
        match code {
            None if vendor == GENERATED => Self::PortBytes(4),
            code if is_quantum => Self::PortBytes(code.map_or(8, |code| u16::from(code) + 1)),
            Some(code) => Self::of_code(code),
            None if SWITCH_IB.contains(&device) => Self::Symbols(32),
            None => Self::Symbols(1),
        }
    }

    /// Returns the tick of a node's ports. PortSamplesControl.Tick was not read.
    #[must_use]
    pub fn of_node(node: &Node) -> Self {
        Self::of_device(node.vendor_id, node.device_id, None)
    }

    /// Returns how many bytes a port with so many lanes could send within a tick; `None` for a fixed time, as that
    /// depends on the speed.
    #[must_use]
    pub const fn port_bytes(self, lanes: u8) -> Option<u64> {
        match self {
            Self::Symbols(symbols) => Some(symbols as u64 * lanes as u64),
            Self::PortBytes(bytes) => Some(bytes as u64),
            Self::Fixed { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_of_devices() {
        let check = |vendor, device, code, want| {
            assert_eq!(WaitTick::of_device(vendor, device, code), want, "{device:#x}");
        };
        check(0x2C9, 0xD2F0, Some(7), WaitTick::PortBytes(8));
        check(0x2C9, 0xD2F2, None, WaitTick::PortBytes(8));
        check(0x2C9, 0xCF08, Some(31), WaitTick::Symbols(32));
        check(0x2C9, 0xCB20, None, WaitTick::Symbols(32));
        check(0x1175, 0x7322, None, WaitTick::Symbols(1));
        check(0x02_5E1E, 1, None, WaitTick::PortBytes(4));
    }

    #[test]
    fn bytes_of_a_tick() {
        let check = |tick: WaitTick, lanes, want| assert_eq!(tick.port_bytes(lanes), want, "{tick:?}");
        check(WaitTick::PortBytes(8), 4, Some(8));
        check(WaitTick::Symbols(32), 4, Some(128));
        check(WaitTick::Symbols(32), 1, Some(32));
        check(WaitTick::Fixed { ps: 4_000 }, 4, None);
    }
}
