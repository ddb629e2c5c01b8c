//! SwitchInfo: a Set can change LinearFDBTop, default ports, LifeTimeValue and MulticastFDBTop; PortStateChange is
//! cleared by 1.

use selvedge_chassis::{Chassis, TableKind};
use selvedge_fabric::SwitchSettings;
use selvedge_wire::{Attribute, Bits, SmpData, Status, SwitchInfo};

use super::Request;

pub(crate) fn get(chassis: &Chassis, request: &Request) -> Result<SmpData, Status> {
    let switch = chassis.switch(request.node).ok_or(Status::BAD_METHOD_ATTRIBUTE)?;
    let (attributes, settings) = (switch.attributes(), switch.settings());
    let info = SwitchInfo {
        linear_cap: attributes.linear_cap,
        mcast_cap: attributes.mcast_cap,
        linear_top: selvedge_types::Lid(settings.linear_top),
        default_port: switch.default_ports[0],
        default_mcast_primary: switch.default_ports[1],
        default_mcast_not_primary: switch.default_ports[2],
        lifetime_value: Bits::saturating(settings.lifetime),
        port_state_change: settings.port_state_change,
        optimized_sl2vl: Bits::saturating(u8::from(attributes.optimized_sl2vl)),
        enforce_cap: attributes.enforce_cap,
        inbound_enforcement: attributes.enforce_cap > 0,
        outbound_enforcement: attributes.enforce_cap > 0,
        enhanced_port0: attributes.enhanced_port0,
        mcast_top: switch.multicast_top,
        ..SwitchInfo::default()
    };
    Ok(info.emit())
}

pub(crate) fn set(chassis: &mut Chassis, request: &Request, data: &SmpData) -> Result<SmpData, Status> {
    let wanted = SwitchInfo::parse(data).map_err(|_| Status::BAD_FIELD)?;
    let switch = chassis.switch(request.node).ok_or(Status::BAD_METHOD_ATTRIBUTE)?;
    // Source: IBA vol 1 §14.2.5.4: LinearFDBTop is a LID of the table, so below LinearFDBCap.
    let cap = switch.attributes().linear_cap;
    if wanted.linear_top.0 >= cap && wanted.linear_top.0 != 0 {
        return Err(Status::BAD_FIELD);
    }
    let settings = SwitchSettings {
        linear_top: wanted.linear_top.0,
        multicast_top: wanted.mcast_top.0,
        lifetime: wanted.lifetime_value.get(),
        port_state_change: switch.settings().port_state_change && !wanted.port_state_change,
    };
    chassis.set_switch_settings(request.node, settings);
    if let Some(switch) = chassis.switch_mut(request.node, TableKind::Multicast) {
        switch.multicast_top = wanted.mcast_top;
        switch.default_ports = [
            wanted.default_port,
            wanted.default_mcast_primary,
            wanted.default_mcast_not_primary,
        ];
    }
    get(chassis, request)
}
