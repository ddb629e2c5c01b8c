//! PortExtendedSpeedsCounters: errors of links with 64b/66b coding, by lane.

use core::fmt;

use super::bytes::{put, u16_at, u32_at, u64_at};
use super::{AttributeId, GmpAttribute};
use crate::{DecodeError, GmpData};

/// Errors of a link at FDR and above, by lane, in counters that stop at their maximum.
///
/// Source: IBA vol 1 §16.1.4 (PortExtendedSpeedsCounters); offsets as in rdma-core `libibmad/fields.c`.
/// ```text
///   0 reserved | 1 PortSelect | 2 reserved
///   8 CounterSelect
///  16 SyncHeaderErrorCounter | 18 UnknownBlockCounter
///  20 ErrorDetectionCounterLane0 | … | 42 ErrorDetectionCounterLane11   (of 16 bits)
///  44 FECCorrectableBlockCtrLane0 | … | 88 FECCorrectableBlockCtrLane11   (of 32 bits)
///  92 FECUncorrectableBlockCtrLane0 | … | 136 FECUncorrectableBlockCtrLane11   (of 32 bits)
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortExtSpeedsCounters {
    /// The port; 255 for the sum of all ports.
    pub port_select: u8,
    /// In a Set: the counters to write, one bit each from SyncHeaderErrorCounter on.
    pub counter_select: u64,
    /// Blocks with a wrong synchronisation header.
    pub sync_header_errors: u16,
    /// Blocks of a type that the standard does not know.
    pub unknown_blocks: u16,
    /// Errors that the lane's error detection found.
    pub lane_errors: [u16; Self::LANES],
    /// Blocks with errors that forward error correction mended.
    pub fec_correctable: [u32; Self::LANES],
    /// Blocks with errors that forward error correction could not mend.
    pub fec_uncorrectable: [u32; Self::LANES],
}

impl PortExtSpeedsCounters {
    /// Number of lanes.
    pub const LANES: usize = 12;
}

/// Offsets of the first counter of each row.
const LANE_ERRORS: usize = 20;
const FEC_CORRECTABLE: usize = 44;
const FEC_UNCORRECTABLE: usize = 92;

impl GmpAttribute for PortExtSpeedsCounters {
    const ID: AttributeId = AttributeId::PORT_EXT_SPEEDS_COUNTERS;

    fn parse(data: &GmpData) -> Result<Self, DecodeError> {
        Ok(Self {
            port_select: data[1],
            counter_select: u64_at(data, 8),
            sync_header_errors: u16_at(data, 16),
            unknown_blocks: u16_at(data, 18),
            lane_errors: core::array::from_fn(|i| u16_at(data, LANE_ERRORS + 2 * i)),
            fec_correctable: core::array::from_fn(|i| u32_at(data, FEC_CORRECTABLE + 4 * i)),
            fec_uncorrectable: core::array::from_fn(|i| u32_at(data, FEC_UNCORRECTABLE + 4 * i)),
        })
    }

    fn emit(&self) -> GmpData {
        let mut data = [0; 192];
        data[1] = self.port_select;
        put(&mut data, 8, self.counter_select.to_be_bytes());
        put(&mut data, 16, self.sync_header_errors.to_be_bytes());
        put(&mut data, 18, self.unknown_blocks.to_be_bytes());
        for i in 0..Self::LANES {
            put(&mut data, LANE_ERRORS + 2 * i, self.lane_errors[i].to_be_bytes());
            put(
                &mut data,
                FEC_CORRECTABLE + 4 * i,
                self.fec_correctable[i].to_be_bytes(),
            );
            put(
                &mut data,
                FEC_UNCORRECTABLE + 4 * i,
                self.fec_uncorrectable[i].to_be_bytes(),
            );
        }
        data
    }
}

impl fmt::Display for PortExtSpeedsCounters {
    /// Prints the two counters of the port, and `lane:value` of each counter of a lane that is not zero.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "PortExtendedSpeedsCounters port={} select={:#018x} sync_header={} unknown_block={}",
            self.port_select, self.counter_select, self.sync_header_errors, self.unknown_blocks
        )?;
        let lane_errors = self.lane_errors.map(u32::from);
        let rows = [
            ("lane", &lane_errors),
            ("fec_correctable", &self.fec_correctable),
            ("fec_uncorrectable", &self.fec_uncorrectable),
        ];
        for (name, row) in rows {
            let used = row.iter().enumerate().filter(|(_, value)| **value != 0);
            for (at, (lane, value)) in used.enumerate() {
                match at {
                    0 => write!(f, " {name}={lane}:{value}")?,
                    _ => write!(f, ",{lane}:{value}")?,
                }
            }
        }
        Ok(())
    }
}
