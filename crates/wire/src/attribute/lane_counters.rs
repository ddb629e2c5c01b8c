//! Attributes of performance management with a row of equal counters: one per VL, one per SL, or one or two per port.
//!
//! All have the same form, so one type holds all of them and its parameter names the attribute.
//! ```text
//!  0 reserved | 1 PortSelect | 2 CounterSelect
//!  4 counter 0 | counter 1 | …   (of 16 or of 32 bits)
//! ```
//! Source: IBA vol 1 §16.1.4.3 to §16.1.4.10 and annexes A10, A13; offsets as in rdma-core `libibmad/fields.c`.

use core::fmt;

use super::bytes::{put, u16_at, u32_at};
use super::{AttributeId, GmpAttribute};
use crate::{DecodeError, GmpData};

/// Offset of the first counter.
const FIRST: usize = 4;

/// An attribute that is PortSelect, CounterSelect and a row of counters of equal width.
pub trait CounterBlock: GmpAttribute {
    /// Number of counters, at most 16.
    const COUNT: usize;
    /// Width of each counter, 16 or 32 bits.
    const BITS: u32;

    /// Returns the attribute. Values that do not fit become the largest one; values after the last counter are dropped.
    fn block(port_select: u8, counter_select: u16, values: [u32; 16]) -> Self;

    /// Returns PortSelect and CounterSelect.
    fn selects(&self) -> (u8, u16);

    /// Returns the counters, followed by zeros.
    fn row(&self) -> [u32; 16];
}

/// The row of counters that an attribute holds.
pub trait CounterRow: Copy + Eq + fmt::Debug {
    /// Id of the attribute.
    const ID: AttributeId;
    /// Name of the attribute in the standard.
    const NAME: &'static str;
    /// Width of each counter, 16 or 32 bits.
    const BITS: u32;
    /// Number of counters.
    const COUNT: usize;
}

/// A row of equal counters of a port. Values that are wider than a counter are sent as its maximum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneCounters<R: CounterRow> {
    /// The port; 255 for the sum of all ports.
    pub port_select: u8,
    /// In a Set: the counters to write, one bit each.
    pub counter_select: u16,
    /// The counters; those after the last one of the row are 0 and not sent.
    values: [u32; 16],
    row: core::marker::PhantomData<R>,
}

impl<R: CounterRow> Default for LaneCounters<R> {
    fn default() -> Self {
        Self::new(0, 0, [0; 16])
    }
}

impl<R: CounterRow> LaneCounters<R> {
    /// Returns a row. A value that does not fit becomes the largest one; values after the last counter become 0.
    #[must_use]
    pub fn new(port_select: u8, counter_select: u16, values: [u32; 16]) -> Self {
        Self {
            port_select,
            counter_select,
            values: core::array::from_fn(|i| if i < R::COUNT { values[i].min(Self::max()) } else { 0 }),
            row: core::marker::PhantomData,
        }
    }

    /// Returns the largest value of a counter.
    #[must_use]
    pub const fn max() -> u32 {
        u32::MAX >> (32 - R::BITS)
    }

    /// Returns the counters.
    #[must_use]
    pub fn values(&self) -> &[u32] {
        &self.values[..R::COUNT]
    }
}

impl<R: CounterRow> GmpAttribute for LaneCounters<R> {
    const ID: AttributeId = R::ID;

    fn parse(data: &GmpData) -> Result<Self, DecodeError> {
        let value = |i: usize| match R::BITS {
            16 => u16_at(data, FIRST + 2 * i).into(),
            _ => u32_at(data, FIRST + 4 * i),
        };
        Ok(Self::new(data[1], u16_at(data, 2), core::array::from_fn(value)))
    }

    fn emit(&self) -> GmpData {
        let mut data = [0; 192];
        data[1] = self.port_select;
        put(&mut data, 2, self.counter_select.to_be_bytes());
        for (i, &value) in self.values().iter().enumerate() {
            let bytes = value.to_be_bytes();
            match R::BITS {
                // `new` limits each value to the width of its counter.
                16 => put(&mut data, FIRST + 2 * i, [bytes[2], bytes[3]]),
                _ => put(&mut data, FIRST + 4 * i, bytes),
            }
        }
        data
    }
}

impl<R: CounterRow> CounterBlock for LaneCounters<R> {
    const COUNT: usize = R::COUNT;
    const BITS: u32 = R::BITS;

    fn block(port_select: u8, counter_select: u16, values: [u32; 16]) -> Self {
        Self::new(port_select, counter_select, values)
    }

    fn selects(&self) -> (u8, u16) {
        (self.port_select, self.counter_select)
    }

    fn row(&self) -> [u32; 16] {
        self.values
    }
}

impl<R: CounterRow> fmt::Display for LaneCounters<R> {
    /// Prints `number:value` of each counter that is not zero.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} port={} select={:#06x}",
            R::NAME,
            self.port_select,
            self.counter_select
        )?;
        let used = self.values().iter().enumerate().filter(|(_, value)| **value != 0);
        for (at, (i, value)) in used.enumerate() {
            write!(f, "{}{i}:{value}", if at == 0 { ' ' } else { ',' })?;
        }
        Ok(())
    }
}

/// Declares the row of an attribute and the type of the attribute.
macro_rules! row {
    ($(#[$doc:meta])* $attribute:ident, $row:ident, $id:ident, $name:literal, $count:literal of $bits:literal bits) => {
        /// Parameter of the attribute of the same name.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $row {}

        impl CounterRow for $row {
            const ID: AttributeId = AttributeId::$id;
            const NAME: &'static str = $name;
            const BITS: u32 = $bits;
            const COUNT: usize = $count;
        }

        $(#[$doc])*
        pub type $attribute = LaneCounters<$row>;
    };
}

row!(
    /// Packets with an operational VL that were received (counter 0), and their data in units of 4 bytes (counter 1).
    PortOpRcv, OpRcvRow, PORT_OP_RCV, "PortOpRcvCounters", 2 of 32 bits
);
row!(
    /// Flow control packets sent (counter 0) and received (counter 1).
    PortFlowCtl, FlowCtlRow, PORT_FLOW_CTL, "PortFlowCtlCounters", 2 of 32 bits
);
row!(
    /// Packets received per VL.
    PortVlOpPackets, VlOpPacketsRow, PORT_VL_OP_PACKETS, "PortVLOpPackets", 16 of 16 bits
);
row!(
    /// Data received per VL, in units of 4 bytes.
    PortVlOpData, VlOpDataRow, PORT_VL_OP_DATA, "PortVLOpData", 16 of 32 bits
);
row!(
    /// Ticks per VL with data to send, but without credits or without a turn of the arbiter.
    PortVlXmitWait, VlXmitWaitRow, PORT_VL_XMIT_WAIT, "PortVLXmitWaitCounters", 16 of 16 bits
);
row!(
    /// Times per VL that the switch found the port congested.
    SwPortVlCongestion, SwVlCongestionRow, SW_PORT_VL_CONGESTION, "SwPortVLCongestion", 16 of 16 bits
);
row!(
    /// Packets received with FECN (counter 0), and with BECN (counter 1).
    PortRcvConCtrl, RcvConCtrlRow, PORT_RCV_CON_CTRL, "PortRcvConCtrl", 2 of 32 bits
);
row!(
    /// Packets received with FECN per SL.
    PortSlRcvFecn, SlRcvFecnRow, PORT_SL_RCV_FECN, "PortSLRcvFECN", 16 of 32 bits
);
row!(
    /// Packets received with BECN per SL.
    PortSlRcvBecn, SlRcvBecnRow, PORT_SL_RCV_BECN, "PortSLRcvBECN", 16 of 32 bits
);
row!(
    /// Time that the port was congested, in units of 1.024 µs.
    PortXmitConCtrl, XmitConCtrlRow, PORT_XMIT_CON_CTRL, "PortXmitConCtrl", 1 of 32 bits
);
row!(
    /// Time that each VL of the port was congested, in units of 1.024 µs.
    PortVlXmitTimeCong, VlXmitTimeCongRow, PORT_VL_XMIT_TIME_CONG, "PortVLXmitTimeCong", 15 of 32 bits
);
row!(
    /// Data sent per SL, in units of 4 bytes.
    PortXmitDataSl, XmitDataSlRow, PORT_XMIT_DATA_SL, "PortXmitDataSL", 16 of 32 bits
);
row!(
    /// Data received per SL, in units of 4 bytes.
    PortRcvDataSl, RcvDataSlRow, PORT_RCV_DATA_SL, "PortRcvDataSL", 16 of 32 bits
);
