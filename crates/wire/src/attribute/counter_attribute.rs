//! The attributes of performance management that are a row of counters of one width: the one list of them.

use super::lane_counters::{
    CounterBlock, PortFlowCtl, PortOpRcv, PortRcvConCtrl, PortRcvDataSl, PortSlRcvBecn, PortSlRcvFecn, PortVlOpData,
    PortVlOpPackets, PortVlXmitTimeCong, PortVlXmitWait, PortXmitConCtrl, PortXmitDataSl, SwPortVlCongestion,
};
use super::{AttributeId, PortRcvErrorDetails, PortXmitDiscardDetails};
use crate::{DecodeError, GmpData};

/// PortSelect, CounterSelect and the counters of such an attribute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SelectedRow {
    /// The port; 255 for the sum of all ports.
    pub port_select: u8,
    /// In a Set: the counters to write, one bit each.
    pub counter_select: u16,
    /// The counters, followed by zeros.
    pub values: [u32; 16],
}

/// An attribute that is a row of counters of one width.
#[derive(Clone, Copy, Debug)]
pub struct CounterAttribute {
    /// Id of the attribute.
    pub id: AttributeId,
    /// Name of the attribute in the standard.
    pub name: &'static str,
    /// Number of counters, at most 16.
    pub count: usize,
    /// Width of each counter, 16 or 32 bits.
    pub bits: u32,
    parse: fn(&GmpData) -> Result<SelectedRow, DecodeError>,
    emit: fn(SelectedRow) -> GmpData,
}

const fn of<A: CounterBlock>(name: &'static str) -> CounterAttribute {
    CounterAttribute {
        id: A::ID,
        name,
        count: A::COUNT,
        bits: A::BITS,
        parse: parse::<A>,
        emit: emit::<A>,
    }
}

fn parse<A: CounterBlock>(data: &GmpData) -> Result<SelectedRow, DecodeError> {
    let attribute = A::parse(data)?;
    let (port_select, counter_select) = attribute.selects();
    Ok(SelectedRow {
        port_select,
        counter_select,
        values: attribute.row(),
    })
}

fn emit<A: CounterBlock>(row: SelectedRow) -> GmpData {
    A::block(row.port_select, row.counter_select, row.values).emit()
}

impl CounterAttribute {
    /// All of them. Other lists are in the same order: the emulator's rows, and the groups of telemetry.
    pub const ALL: [Self; 15] = [
        of::<PortRcvErrorDetails>("PortRcvErrorDetails"),
        of::<PortXmitDiscardDetails>("PortXmitDiscardDetails"),
        of::<PortVlOpPackets>("PortVLOpPackets"),
        of::<PortVlOpData>("PortVLOpData"),
        of::<PortVlXmitWait>("PortVLXmitWaitCounters"),
        of::<SwPortVlCongestion>("SwPortVLCongestion"),
        of::<PortRcvConCtrl>("PortRcvConCtrl"),
        of::<PortSlRcvFecn>("PortSLRcvFECN"),
        of::<PortSlRcvBecn>("PortSLRcvBECN"),
        of::<PortXmitConCtrl>("PortXmitConCtrl"),
        of::<PortVlXmitTimeCong>("PortVLXmitTimeCong"),
        of::<PortXmitDataSl>("PortXmitDataSL"),
        of::<PortRcvDataSl>("PortRcvDataSL"),
        of::<PortOpRcv>("PortOpRcvCounters"),
        of::<PortFlowCtl>("PortFlowCtlCounters"),
    ];

    /// Reads the attribute.
    pub fn parse(&self, data: &GmpData) -> Result<SelectedRow, DecodeError> {
        (self.parse)(data)
    }

    /// Writes the attribute. Values that do not fit become the largest one; values after the last counter are dropped.
    #[must_use]
    pub fn emit(&self, row: SelectedRow) -> GmpData {
        (self.emit)(row)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_ids_are_apart() {
        for (at, attribute) in CounterAttribute::ALL.iter().enumerate() {
            let others = &CounterAttribute::ALL[..at];
            assert!(
                others
                    .iter()
                    .all(|other| other.id != attribute.id && other.name != attribute.name)
            );
            let row = SelectedRow {
                port_select: 7,
                counter_select: 0x8001,
                values: core::array::from_fn(|i| if i < attribute.count { 100 + i as u32 } else { 0 }),
            };
            assert_eq!(attribute.parse(&attribute.emit(row)), Ok(row), "{}", attribute.name);
            let full = attribute.emit(SelectedRow {
                values: [u32::MAX; 16],
                ..row
            });
            let values = attribute.parse(&full).map(|row| row.values);
            let most = u32::MAX >> (32 - attribute.bits);
            assert_eq!(values.map(|values| values[0]), Ok(most), "{}", attribute.name);
        }
    }
}
