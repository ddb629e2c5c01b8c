//! ClassPortInfo of performance management: read only.

use selvedge_chassis::{Chassis, PortIdx};
use selvedge_wire::{Bits, ClassPortInfo, GmpAttribute, GmpData};

/// RespTimeValue: responses within 4.096 µs × 2^18 = 1.07 s. Source: observed, ibsim 0.12.
const RESPONSE_TIME: u8 = 18;

pub(crate) fn describe(chassis: &Chassis, ingress: PortIdx) -> GmpData {
    let all_ports = match chassis.is_switch(chassis.wire(ingress).node()) {
        true => ClassPortInfo::ALL_PORT_SELECT,
        false => 0,
    };
    ClassPortInfo {
        base_version: 1,
        class_version: 1,
        capabilities: ClassPortInfo::EXTENDED_WIDTH | ClassPortInfo::XMIT_WAIT | all_ports,
        resp_time: Bits::saturating(RESPONSE_TIME),
        ..ClassPortInfo::default()
    }
    .emit()
}
