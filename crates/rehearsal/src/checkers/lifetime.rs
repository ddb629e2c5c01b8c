//! Computes how long packets may be in flight.

use std::time::Duration;

use selvedge_chassis::Chassis;
use selvedge_fabric::NodeIdx;

/// Returns how long packets may wait in this switch. (The judge assumes the longest lifetime of all switches for each
/// switch on a path.)
pub(super) fn lifetime(chassis: &Chassis, switch: NodeIdx) -> Duration {
    // Source: IBA vol 1 §18.2.5.4, SwitchInfo.LifeTimeValue: 4.096 µs × 2^value; 20 and above: for ever.
    const UNIT_NS: u64 = 4_096;
    const FINITE_MAX: u8 = 19;
    let value = chassis.switch(switch).map_or(0, |switch| switch.settings().lifetime);
    Duration::from_nanos(UNIT_NS << value.min(FINITE_MAX))
}
