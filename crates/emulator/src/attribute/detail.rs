//! Optional attributes of performance management with rows of counters: causes of errors, per VL, per SL, congestion.

use selvedge_chassis::{Chassis, DetailRow, PortIdx};
use selvedge_wire::{
    AttributeId, CounterBlock, GmpData, PortFlowCtl, PortOpRcv, PortRcvConCtrl, PortRcvDataSl, PortRcvErrorDetails,
    PortSlRcvBecn, PortSlRcvFecn, PortVlOpData, PortVlOpPackets, PortVlXmitTimeCong, PortVlXmitWait, PortXmitConCtrl,
    PortXmitDataSl, PortXmitDiscardDetails, Status, SwPortVlCongestion,
};

use super::port_counters::{selected_ports, shown};

/// How one attribute is read and written. The functions differ only in the attribute's type.
#[derive(Clone, Copy)]
struct Access {
    row: DetailRow,
    get: fn(&Chassis, PortIdx, DetailRow, &GmpData) -> Result<GmpData, Status>,
    set: fn(&mut Chassis, PortIdx, DetailRow, &GmpData) -> Result<GmpData, Status>,
}

const fn of<A: CounterBlock>(row: DetailRow) -> Access {
    Access {
        row,
        get: get_block::<A>,
        set: set_block::<A>,
    }
}

/// Returns the access to an attribute, if it is one of these and the agent behind `ingress` has it.
fn access(chassis: &Chassis, ingress: PortIdx, id: AttributeId) -> Result<Access, Status> {
    if !chassis.pma(chassis.wire(ingress).node()).details {
        return Err(Status::BAD_METHOD_ATTRIBUTE);
    }
    Ok(match id {
        AttributeId::PORT_RCV_ERROR_DETAILS => of::<PortRcvErrorDetails>(DetailRow::RcvErrors),
        AttributeId::PORT_XMIT_DISCARD_DETAILS => of::<PortXmitDiscardDetails>(DetailRow::XmitDiscards),
        AttributeId::PORT_OP_RCV => of::<PortOpRcv>(DetailRow::OpRcv),
        AttributeId::PORT_FLOW_CTL => of::<PortFlowCtl>(DetailRow::FlowControl),
        AttributeId::PORT_VL_OP_PACKETS => of::<PortVlOpPackets>(DetailRow::VlPackets),
        AttributeId::PORT_VL_OP_DATA => of::<PortVlOpData>(DetailRow::VlData),
        AttributeId::PORT_VL_XMIT_WAIT => of::<PortVlXmitWait>(DetailRow::VlXmitWait),
        AttributeId::SW_PORT_VL_CONGESTION => of::<SwPortVlCongestion>(DetailRow::VlCongestion),
        AttributeId::PORT_RCV_CON_CTRL => of::<PortRcvConCtrl>(DetailRow::Marks),
        AttributeId::PORT_SL_RCV_FECN => of::<PortSlRcvFecn>(DetailRow::SlFecn),
        AttributeId::PORT_SL_RCV_BECN => of::<PortSlRcvBecn>(DetailRow::SlBecn),
        AttributeId::PORT_XMIT_CON_CTRL => of::<PortXmitConCtrl>(DetailRow::TimeCongested),
        AttributeId::PORT_VL_XMIT_TIME_CONG => of::<PortVlXmitTimeCong>(DetailRow::VlTimeCongested),
        AttributeId::PORT_XMIT_DATA_SL => of::<PortXmitDataSl>(DetailRow::SlXmitData),
        AttributeId::PORT_RCV_DATA_SL => of::<PortRcvDataSl>(DetailRow::SlRcvData),
        _ => return Err(Status::BAD_METHOD_ATTRIBUTE),
    })
}

pub(crate) fn get(chassis: &Chassis, ingress: PortIdx, id: AttributeId, data: &GmpData) -> Result<GmpData, Status> {
    let access = access(chassis, ingress, id)?;
    (access.get)(chassis, ingress, access.row, data)
}

pub(crate) fn set(chassis: &mut Chassis, ingress: PortIdx, id: AttributeId, data: &GmpData) -> Result<GmpData, Status> {
    let access = access(chassis, ingress, id)?;
    (access.set)(chassis, ingress, access.row, data)
}

fn get_block<A: CounterBlock>(
    chassis: &Chassis,
    ingress: PortIdx,
    row: DetailRow,
    data: &GmpData,
) -> Result<GmpData, Status> {
    let (port_select, counter_select) = A::parse(data).map_err(|_| Status::BAD_FIELD)?.selects();
    let mut sum = [0_u64; 16];
    for port in selected_ports(chassis, ingress, port_select)? {
        for (total, count) in sum.iter_mut().zip(chassis.detail(port, row)) {
            *total = total.saturating_add(count);
        }
    }
    let pma = chassis.pma(chassis.wire(ingress).node());
    // Counters have at most 32 bits, so none is cut.
    let values = sum.map(|count| shown(&pma, count, A::BITS) as u32);
    Ok(A::block(port_select, counter_select, values).emit())
}

fn set_block<A: CounterBlock>(
    chassis: &mut Chassis,
    ingress: PortIdx,
    row: DetailRow,
    data: &GmpData,
) -> Result<GmpData, Status> {
    let wanted = A::parse(data).map_err(|_| Status::BAD_FIELD)?;
    let (port_select, counter_select) = wanted.selects();
    for port in selected_ports(chassis, ingress, port_select)? {
        let counters = chassis.detail_mut(port, row).iter_mut().zip(wanted.row());
        for (bit, (counter, value)) in counters.enumerate().take(A::COUNT) {
            if counter_select >> bit & 1 != 0 {
                *counter = value.into();
            }
        }
    }
    get_block::<A>(chassis, ingress, row, data)
}
