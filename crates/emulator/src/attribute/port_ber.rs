//! PortBer of our own vendor class: read only.

use selvedge_chassis::{Chassis, PortIdx};
use selvedge_sim::Time;
use selvedge_wire::{GmpAttribute, GmpData, PortBer, Status};

use super::vendor_port;
use crate::cable::Cables;

pub(crate) fn get(
    chassis: &Chassis,
    cables: &Cables,
    now: Time,
    ingress: PortIdx,
    data: &GmpData,
) -> Result<GmpData, Status> {
    let asked = PortBer::parse(data).map_err(|_| Status::BAD_FIELD)?;
    let port = vendor_port(chassis, ingress, asked.port_select)?;
    Ok(cables.ber(chassis, now, port).emit())
}
