//! ClassPortInfo of performance management: read only.

use selvedge_chassis::{Chassis, ExtendedCounters, PmaAbilities, PortIdx};
use selvedge_wire::{Bits, ClassPortInfo, GmpAttribute, GmpData};

/// RespTimeValue: responses within 4.096 µs × 2^18 = 1.07 s. Source: observed, ibsim 0.12.
const RESPONSE_TIME: u8 = 18;

pub(crate) fn describe(chassis: &Chassis, ingress: PortIdx) -> GmpData {
    let node = chassis.wire(ingress).node();
    let pma = chassis.pma(node);
    let mut capabilities = extended(&pma) | ClassPortInfo::QP1_DROPPED;
    if pma.all_port_select && chassis.is_switch(node) {
        capabilities |= ClassPortInfo::ALL_PORT_SELECT;
    }
    if pma.xmit_wait {
        capabilities |= ClassPortInfo::XMIT_WAIT;
    }
    ClassPortInfo {
        base_version: 1,
        class_version: 1,
        capabilities,
        capabilities2: match pma.extended {
            ExtendedCounters::All => ClassPortInfo::EXTENDED_ERRORS,
            ExtendedCounters::None | ExtendedCounters::NoIetf | ExtendedCounters::Traffic => 0,
        },
        resp_time: Bits::saturating(RESPONSE_TIME),
        ..ClassPortInfo::default()
    }
    .emit()
}

const fn extended(pma: &PmaAbilities) -> u16 {
    match pma.extended {
        ExtendedCounters::None => 0,
        ExtendedCounters::NoIetf => ClassPortInfo::EXTENDED_WIDTH_NO_IETF,
        ExtendedCounters::Traffic | ExtendedCounters::All => ClassPortInfo::EXTENDED_WIDTH,
    }
}
