//! What CableInfo says of a cable, in units of people.

use selvedge_wire::{CableInfo, CableKind};

use crate::End;

/// What a port read from its cable or transceiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CableReading {
    /// The port.
    pub end: End,
    /// What it read.
    pub info: CableInfo,
}

/// Returns the temperature in °C; `None`: the cable has no sensor.
#[must_use]
pub fn temperature_c(info: &CableInfo) -> Option<f64> {
    let has_none = matches!(info.kind, CableKind::None | CableKind::PassiveCopper) && info.temperature == 0;
    (!has_none).then(|| f64::from(info.temperature) / 256.0)
}

/// Returns the supply voltage in V; `None`: the cable needs none.
#[must_use]
pub fn supply_voltage_v(info: &CableInfo) -> Option<f64> {
    (info.supply_voltage > 0).then(|| f64::from(info.supply_voltage) / 10_000.0)
}

/// Returns the received power of each lane in dBm; none of copper.
#[must_use]
pub fn rx_power_dbm(info: &CableInfo) -> Vec<f64> {
    power_dbm(info, &info.rx_power)
}

/// Returns the sent power of each lane in dBm; none of copper.
#[must_use]
pub fn tx_power_dbm(info: &CableInfo) -> Vec<f64> {
    power_dbm(info, &info.tx_power)
}

/// Darkness is shown as the smallest step of the field, 0.1 µW, because its logarithm is no number.
fn power_dbm(info: &CableInfo, lanes: &[u16]) -> Vec<f64> {
    if !matches!(info.kind, CableKind::ActiveOptical | CableKind::Transceiver) {
        return Vec::new();
    }
    let used = lanes.iter().take(info.lanes.into());
    let dbm = used.map(|power| 10.0 * (f64::from((*power).max(1)) * 1e-4).log10());
    // Further digits would be noise.
    dbm.map(|dbm| (dbm * 100.0).round() / 100.0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readings_have_units() {
        let mut rx_power = [10_000, 1_000, 0, 65_535, 10_000, 0, 0, 0];
        let optical = CableInfo {
            kind: CableKind::ActiveOptical,
            lanes: 4,
            temperature: -640,
            supply_voltage: 33_000,
            rx_power,
            ..CableInfo::default()
        };
        assert_eq!(temperature_c(&optical), Some(-2.5));
        assert_eq!(supply_voltage_v(&optical), Some(3.3));
        assert_eq!(rx_power_dbm(&optical), [0.0, -10.0, -40.0, 8.16]);
        assert_eq!(tx_power_dbm(&optical), [-40.0; 4]);
        rx_power[0] = 0;
        let copper = CableInfo {
            kind: CableKind::PassiveCopper,
            lanes: 200,
            rx_power,
            ..CableInfo::default()
        };
        assert_eq!((temperature_c(&copper), supply_voltage_v(&copper)), (None, None));
        assert!(rx_power_dbm(&copper).is_empty());
        let all = CableInfo {
            kind: CableKind::Transceiver,
            ..copper
        };
        assert_eq!(rx_power_dbm(&all).len(), 8, "a wrong number of lanes");
    }
}
