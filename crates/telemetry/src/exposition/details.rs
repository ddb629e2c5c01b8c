//! Counters that the exporter does not have, under names that it does not use: per VL and SL, causes of discards,
//! congestion marks, flow control, errors of fast links.

use core::fmt::{self, Write};

use crate::prometheus::{Kind, TextFormat, Wanted, declare};
use crate::{Group, Inventory, Latest, SampleKey};

/// One label for each counter of a group, in order.
#[derive(Clone, Copy)]
enum Labels {
    /// The number of the counter.
    Number(&'static str),
    /// A name for each counter.
    Names(&'static str, &'static [&'static str]),
}

/// A family: group, name, help, labels.
type Family = (Group, &'static str, &'static str, Labels);

const FAMILIES: [Family; 16] = [
    (
        Group::VlXmitWait,
        "infiniband_port_vl_transmit_wait_total",
        "Ticks of PortVLXmitWait",
        Labels::Number("vl"),
    ),
    (
        Group::VlCongestion,
        "infiniband_port_vl_congestion_total",
        "SwPortVLCongestion: times that the switch found the port congested",
        Labels::Number("vl"),
    ),
    (
        Group::VlPackets,
        "infiniband_port_vl_receive_packets_total",
        "PortVLOpPackets",
        Labels::Number("vl"),
    ),
    (
        Group::VlData,
        "infiniband_port_vl_receive_words_total",
        "PortVLOpData, in words of 4 bytes",
        Labels::Number("vl"),
    ),
    (
        Group::VlTimeCongested,
        "infiniband_port_vl_congested_ticks_total",
        "PortVLXmitTimeCong, in units of 1.024 us",
        Labels::Number("vl"),
    ),
    (
        Group::SlXmitData,
        "infiniband_port_sl_transmit_words_total",
        "PortXmitDataSL, in words of 4 bytes",
        Labels::Number("sl"),
    ),
    (
        Group::SlRcvData,
        "infiniband_port_sl_receive_words_total",
        "PortRcvDataSL, in words of 4 bytes",
        Labels::Number("sl"),
    ),
    (
        Group::SlFecn,
        "infiniband_port_sl_fecn_total",
        "PortSLRcvFECN",
        Labels::Number("sl"),
    ),
    (
        Group::SlBecn,
        "infiniband_port_sl_becn_total",
        "PortSLRcvBECN",
        Labels::Number("sl"),
    ),
    (
        Group::XmitDiscards,
        "infiniband_port_transmit_discards_detail_total",
        "PortXmitDiscardDetails: packets discarded, by cause",
        Labels::Names(
            "reason",
            &["inactive", "neighbor_mtu", "sw_lifetime", "sw_hoq_lifetime"],
        ),
    ),
    (
        Group::Marks,
        "infiniband_port_congestion_total",
        "PortRcvConCtrl: packets received with a congestion mark",
        Labels::Names("kind", &["fecn", "becn"]),
    ),
    (
        Group::TimeCongested,
        "infiniband_port_congested_ticks_total",
        "PortXmitConCtrl, in units of 1.024 us",
        Labels::Names("kind", &["transmit"]),
    ),
    (
        Group::OpRcv,
        "infiniband_port_op_receive_total",
        "PortOpRcvCounters: packets, and words of 4 bytes",
        Labels::Names("unit", &["packets", "words"]),
    ),
    (
        Group::FlowControl,
        "infiniband_port_flow_control_packets_total",
        "PortFlowCtlCounters",
        Labels::Names("direction", &["transmit", "receive"]),
    ),
    (
        Group::BitErrors,
        "infiniband_port_bit_errors_total",
        "PortBer of Selvedge's vendor class: bits in error before (raw) and after (effective) error correction",
        Labels::Names("kind", &["raw", "effective"]),
    ),
    (
        Group::ExtendedSpeeds,
        "infiniband_port_extended_speeds_errors_total",
        "PortExtendedSpeedsCounters: errors of blocks, by kind; error correction over all lanes",
        Labels::Names(
            "kind",
            &[
                "sync_header",
                "unknown_block",
                "lane0",
                "lane1",
                "lane2",
                "lane3",
                "lane4",
                "lane5",
                "lane6",
                "lane7",
                "lane8",
                "lane9",
                "lane10",
                "lane11",
                "fec_correctable",
                "fec_uncorrectable",
            ],
        ),
    ),
];

/// Writes the counters of all groups that have a value. Of VLs and SLs but the first, only those that have counted:
/// most ports use one of 16, and counters never go back to 0.
pub fn write(
    out: &mut impl Write,
    format: TextFormat,
    wanted: &Wanted,
    inventory: &Inventory,
    latest: &Latest,
) -> fmt::Result {
    for family in FAMILIES {
        write_family(out, (format, wanted), (inventory, latest), family)?;
    }
    Ok(())
}

fn write_family(
    out: &mut impl Write,
    (format, wanted): (TextFormat, &Wanted),
    (inventory, latest): (&Inventory, &Latest),
    (group, name, help, labels): Family,
) -> fmt::Result {
    let mut is_declared = false;
    for (guid, node) in inventory.nodes.iter().filter(|(guid, _)| wanted.has_node(**guid)) {
        for port in &node.ports {
            let key = SampleKey {
                node: *guid,
                port: port.num,
                group,
            };
            for counter in 0..group.counters() {
                let is_unused = |value: &u64| *value == 0 && counter > 0 && matches!(labels, Labels::Number(_));
                let value = latest.counter(key, counter).filter(|value| !is_unused(value));
                let Some(value) = value else { continue };
                if !is_declared {
                    declare(out, format, Kind::Counter, name, help)?;
                    is_declared = true;
                }
                write!(out, "{name}{{guid=\"{guid}\",port=\"{}\",", port.num)?;
                match labels {
                    Labels::Number(label) => write!(out, "{label}=\"{counter}\"")?,
                    Labels::Names(label, names) => {
                        let of = names.get(counter).copied().unwrap_or("other");
                        write!(out, "{label}=\"{of}\"")?;
                    }
                }
                writeln!(out, "}} {value}")?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_counter_has_a_name_of_its_own() {
        for (at, (group, name, _, labels)) in FAMILIES.into_iter().enumerate() {
            assert!(
                FAMILIES[..at].iter().all(|other| other.1 != name && other.0 != group),
                "{name}"
            );
            if let Labels::Names(_, names) = labels {
                assert_eq!(names.len(), group.counters(), "{name}");
            }
        }
    }
}
