//! Metrics of cables and transceivers, by CableInfo: none at all if no agent has it.

use core::fmt::{self, Write};
use std::collections::BTreeMap;

use selvedge_wire::{CableInfo, CableKind};

use crate::End;
use crate::cable::{rx_power_dbm, temperature_c, tx_power_dbm};
use crate::prometheus::{Kind, Quoted, TextFormat, Wanted, declare};

/// Optical power of each lane, in dBm.
type PowerOf = fn(&CableInfo) -> Vec<f64>;

/// Writes the metrics of ports with a cable that was read.
pub fn write(
    out: &mut impl Write,
    format: TextFormat,
    wanted: &Wanted,
    cables: &BTreeMap<End, CableInfo>,
) -> fmt::Result {
    let is_shown = |(end, info): &(&End, &CableInfo)| wanted.has_node(end.node) && info.kind != CableKind::None;
    let shown: Vec<(&End, &CableInfo)> = cables.iter().filter(is_shown).collect();
    if shown.is_empty() {
        return Ok(());
    }
    let name = "infiniband_cable_info";
    let help = "What a port read from its cable or transceiver";
    declare(out, format, Kind::Gauge, name, help)?;
    for (end, info) in &shown {
        let (vendor, part) = (CableInfo::text(&info.vendor), CableInfo::text(&info.part_number));
        let serial = CableInfo::text(&info.serial_number);
        write!(
            out,
            "{name}{{{},kind=\"{}\",length_m=\"{}\",",
            Port(**end),
            info.kind,
            f64::from(info.length_dm) / 10.0
        )?;
        writeln!(
            out,
            "vendor=\"{}\",part_number=\"{}\",serial_number=\"{}\"}} 1",
            Quoted(&vendor),
            Quoted(&part),
            Quoted(&serial)
        )?;
    }
    let name = "infiniband_cable_temperature_celsius";
    let help = "Temperature of the cable's end or transceiver";
    declare(out, format, Kind::Gauge, name, help)?;
    for (end, info) in &shown {
        if let Some(celsius) = temperature_c(info) {
            writeln!(out, "{name}{{{}}} {celsius}", Port(**end))?;
        }
    }
    let powers: [(&str, &str, PowerOf); 2] = [
        (
            "infiniband_cable_rx_power_dbm",
            "Received optical power of a lane; -40: none",
            rx_power_dbm,
        ),
        (
            "infiniband_cable_tx_power_dbm",
            "Sent optical power of a lane; -40: none",
            tx_power_dbm,
        ),
    ];
    for (name, help, of) in powers {
        declare(out, format, Kind::Gauge, name, help)?;
        for (end, info) in &shown {
            for (lane, dbm) in of(info).into_iter().enumerate() {
                writeln!(out, "{name}{{{},lane=\"{lane}\"}} {dbm}", Port(**end))?;
            }
        }
    }
    Ok(())
}

/// The labels of a port.
struct Port(End);

impl fmt::Display for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "guid=\"{}\",port=\"{}\"", self.0.node, self.0.port)
    }
}

#[cfg(test)]
mod tests {
    use selvedge_types::Guid;

    use super::*;

    #[test]
    fn each_port_has_its_cable_and_each_lane_its_power() {
        let optical = CableInfo {
            kind: CableKind::ActiveOptical,
            lanes: 2,
            length_dm: 125,
            temperature: 40 * 256 + 128,
            vendor: CableInfo::field("a \"b\""),
            part_number: CableInfo::field("P"),
            serial_number: CableInfo::field("S"),
            rx_power: [10_000, 1_000, 0, 0, 0, 0, 0, 0],
            tx_power: [10_000; 8],
            ..CableInfo::default()
        };
        let end = |port| End { node: Guid(1), port };
        let empty = CableInfo::default();
        let cables = [(end(1), optical), (end(2), empty)].into();
        let mut page = String::new();
        write(&mut page, TextFormat::Prometheus, &Wanted::default(), &cables).unwrap();
        let values: Vec<&str> = page.lines().filter(|line| !line.starts_with('#')).collect();
        let at = format!("guid=\"{}\",port=\"1\"", Guid(1));
        let want = [
            format!(
                "infiniband_cable_info{{{at},kind=\"active-optical\",length_m=\"12.5\",vendor=\"a \\\"b\\\"\",\
                 part_number=\"P\",serial_number=\"S\"}} 1"
            ),
            format!("infiniband_cable_temperature_celsius{{{at}}} 40.5"),
            format!("infiniband_cable_rx_power_dbm{{{at},lane=\"0\"}} 0"),
            format!("infiniband_cable_rx_power_dbm{{{at},lane=\"1\"}} -10"),
            format!("infiniband_cable_tx_power_dbm{{{at},lane=\"0\"}} 0"),
            format!("infiniband_cable_tx_power_dbm{{{at},lane=\"1\"}} 0"),
        ];
        assert_eq!(values, want);
        let mut none = String::new();
        write(
            &mut none,
            TextFormat::Prometheus,
            &Wanted::default(),
            &[(end(2), empty)].into(),
        )
        .unwrap();
        assert_eq!(none, "");
    }
}
