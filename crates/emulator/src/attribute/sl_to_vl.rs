//! SLtoVLMappingTable: per pair of ports on a switch, per port on other nodes; wildcards if the switch supports them.

use selvedge_chassis::Chassis;
use selvedge_wire::{Attribute, SlToVl, SmpData, Status};

use super::Request;

/// The rows that a modifier names.
struct Rows {
    inputs: core::ops::RangeInclusive<u8>,
    outputs: core::ops::RangeInclusive<u8>,
}

pub(crate) fn get(chassis: &Chassis, request: &Request) -> Result<SmpData, Status> {
    let rows = rows(chassis, request)?;
    let table = SlToVl {
        vls: *chassis.lanes(request.node, *rows.inputs.start(), *rows.outputs.start()),
    };
    Ok(table.emit())
}

pub(crate) fn set(chassis: &mut Chassis, request: &Request, data: &SmpData) -> Result<SmpData, Status> {
    let wanted = SlToVl::parse(data).map_err(|_| Status::BAD_FIELD)?;
    let rows = rows(chassis, request)?;
    for input in rows.inputs {
        for output in rows.outputs.clone() {
            chassis.set_lanes(request.node, input, output, wanted.vls);
        }
    }
    get(chassis, request)
}

fn rows(chassis: &Chassis, request: &Request) -> Result<Rows, Status> {
    let Some(switch) = chassis.switch(request.node) else {
        // A CA has one row per port: that of the port that received the request.
        let num = chassis.wire(request.ingress).num().get();
        return Ok(Rows {
            inputs: 0..=0,
            outputs: num..=num,
        });
    };
    let count = chassis.fabric().node(request.node).port_count();
    let (all_in, all_out) = (SlToVl::ALL_INPUTS, SlToVl::ALL_OUTPUTS);
    let wildcards = if switch.attributes().optimized_sl2vl {
        all_in | all_out
    } else {
        0
    };
    if request.modifier & !(0xFFFF | wildcards) != 0 {
        return Err(Status::BAD_FIELD);
    }
    let side = |wildcard: u32, num: u8| match request.modifier & wildcard {
        0 if num <= count => Ok(num..=num),
        0 => Err(Status::BAD_FIELD),
        _ => Ok(0..=count),
    };
    Ok(Rows {
        inputs: side(all_in, SlToVl::input(request.modifier))?,
        outputs: side(all_out, SlToVl::output(request.modifier))?,
    })
}
