//! Counters that only some attributes of performance management show: causes of errors, congestion, per VL, SL, lane.

/// Most counters in a row.
pub const ROW_LEN: usize = 16;

/// A row of counters: one attribute of performance management.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DetailRow {
    /// PortRcvErrorDetails: physical, malformed, overrun, DLID, VL, looping.
    RcvErrors,
    /// PortXmitDiscardDetails: inactive, MTU, lifetime, HOQ limit.
    XmitDiscards,
    /// PortVLOpPackets, by VL.
    VlPackets,
    /// PortVLOpData, by VL; 4-byte words.
    VlData,
    /// PortVLXmitWaitCounters, by VL.
    VlXmitWait,
    /// SwPortVLCongestion, by VL.
    VlCongestion,
    /// PortRcvConCtrl: FECN, BECN.
    Marks,
    /// PortSLRcvFECN, by SL.
    SlFecn,
    /// PortSLRcvBECN, by SL.
    SlBecn,
    /// PortXmitConCtrl: time congested.
    TimeCongested,
    /// PortVLXmitTimeCong, by VL.
    VlTimeCongested,
    /// PortXmitDataSL, by SL; 4-byte words.
    SlXmitData,
    /// PortRcvDataSL, by SL; 4-byte words.
    SlRcvData,
    /// PortOpRcvCounters: packets and data received on operational VLs; data in 4-byte words.
    OpRcv,
    /// PortFlowCtlCounters: flow control packets sent, received.
    FlowControl,
    /// PortExtendedSpeedsCounters: wrong synchronisation headers, unknown blocks, then detected errors by lane.
    LaneErrors,
    /// PortExtendedSpeedsCounters: blocks that error correction mended, by lane.
    FecCorrectable,
    /// PortExtendedSpeedsCounters: blocks that error correction could not mend, by lane.
    FecUncorrectable,
}

impl DetailRow {
    /// All rows.
    pub const ALL: [Self; 18] = [
        Self::RcvErrors,
        Self::XmitDiscards,
        Self::VlPackets,
        Self::VlData,
        Self::VlXmitWait,
        Self::VlCongestion,
        Self::Marks,
        Self::SlFecn,
        Self::SlBecn,
        Self::TimeCongested,
        Self::VlTimeCongested,
        Self::SlXmitData,
        Self::SlRcvData,
        Self::OpRcv,
        Self::FlowControl,
        Self::LaneErrors,
        Self::FecCorrectable,
        Self::FecUncorrectable,
    ];
}

/// All rows of a port. Allocated at the first change, because most ports of most runs never count any of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Details(Option<Box<[[u64; ROW_LEN]; DetailRow::ALL.len()]>>);

impl Details {
    pub(crate) fn row(&self, row: DetailRow) -> [u64; ROW_LEN] {
        self.0.as_ref().map_or([0; ROW_LEN], |rows| rows[row as usize])
    }

    pub(crate) fn row_mut(&mut self, row: DetailRow) -> &mut [u64; ROW_LEN] {
        &mut self
            .0
            .get_or_insert_with(|| Box::new([[0; ROW_LEN]; DetailRow::ALL.len()]))[row as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_apart() {
        for (at, row) in DetailRow::ALL.into_iter().enumerate() {
            assert_eq!(row as usize, at);
        }
        let mut details = Details::default();
        assert_eq!(details.row(DetailRow::SlRcvData), [0; ROW_LEN]);
        details.row_mut(DetailRow::VlXmitWait)[15] = 7;
        assert_eq!(details.row(DetailRow::VlXmitWait)[15], 7);
        let others = DetailRow::ALL.into_iter().filter(|row| *row != DetailRow::VlXmitWait);
        assert!(others.into_iter().all(|row| details.row(row) == [0; ROW_LEN]));
    }
}
