//! CableInfo of our own vendor class: read only.

use selvedge_chassis::{Chassis, PortIdx};
use selvedge_wire::{CableInfo, GmpAttribute, GmpData, Status};

use super::vendor_port;
use crate::cable::Cables;

pub(crate) fn get(chassis: &Chassis, cables: &Cables, ingress: PortIdx, data: &GmpData) -> Result<GmpData, Status> {
    let asked = CableInfo::parse(data).map_err(|_| Status::BAD_FIELD)?;
    let port = vendor_port(chassis, ingress, asked.port_select)?;
    Ok(cables.info(chassis, port).emit())
}
