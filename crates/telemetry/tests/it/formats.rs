//! What a sampled fabric looks like to Prometheus and to LDMS.

use std::collections::{BTreeMap, BTreeSet};

use selvedge_telemetry::prometheus::{TextFormat, write};
use selvedge_telemetry::selection::{Selected, parse};
use selvedge_telemetry::{End, Group, Latest, Metric, MetricSet, Wall};

use crate::agents::{host, switch};
use crate::slots::every_second;
use crate::world::World;

/// The names that the dashboards and rules of treydock/infiniband_exporter 0.10.0 use, without those of fans and power
/// supplies, which `ibswinfo` reads, and those of the exporter's own collection.
const USED_BY_DASHBOARDS: &str = "
    infiniband_switch_info infiniband_switch_uplink_info
    infiniband_switch_port_excessive_buffer_overrun_errors_total infiniband_switch_port_link_downed_total
    infiniband_switch_port_link_error_recovery_total infiniband_switch_port_local_link_integrity_errors_total
    infiniband_switch_port_multicast_receive_packets_total infiniband_switch_port_multicast_transmit_packets_total
    infiniband_switch_port_qp1_dropped_total infiniband_switch_port_receive_constraint_errors_total
    infiniband_switch_port_receive_data_bytes_total infiniband_switch_port_receive_errors_total
    infiniband_switch_port_receive_packets_total infiniband_switch_port_receive_remote_physical_errors_total
    infiniband_switch_port_receive_switch_relay_errors_total infiniband_switch_port_symbol_error_total
    infiniband_switch_port_transmit_constraint_errors_total infiniband_switch_port_transmit_data_bytes_total
    infiniband_switch_port_transmit_discards_total infiniband_switch_port_transmit_packets_total
    infiniband_switch_port_transmit_wait_total infiniband_switch_port_unicast_receive_packets_total
    infiniband_switch_port_unicast_transmit_packets_total infiniband_switch_port_vl15_dropped_total";

fn sampled(groups: &[Group], change: impl FnOnce(&mut World)) -> (World, Latest) {
    let mut world = World::new(every_second(groups));
    change(&mut world);
    world.slot();
    let mut latest = Latest::default();
    world.samples.iter().for_each(|sample| latest.take(sample));
    (world, latest)
}

fn page(format: TextFormat, groups: &[Group], change: impl FnOnce(&mut World)) -> String {
    let (world, latest) = sampled(groups, change);
    let mut text = String::new();
    write(&mut text, format, &world.inventory, &latest).unwrap();
    text
}

/// The value of a series.
fn value<'a>(text: &'a str, series: &str) -> Option<&'a str> {
    let lines = text.lines().filter_map(|line| line.rsplit_once(' '));
    lines
        .into_iter()
        .find(|(name, _)| *name == series)
        .map(|(_, value)| value)
}

#[test]
fn dashboards_find_every_name() {
    let text = page(TextFormat::Prometheus, &[Group::Extended, Group::RcvErrors], |_| {});
    let names: BTreeSet<&str> = text.lines().filter_map(|line| line.split('{').next()).collect();
    for name in USED_BY_DASHBOARDS.split_whitespace() {
        assert!(names.contains(name), "{name}");
        let hca = name.replacen("_switch_", "_hca_", 1);
        assert!(names.contains(hca.as_str()), "{hca}");
    }
    assert!(names.contains("infiniband_switch_port_dli_mapping_errors_total"));
}

#[test]
fn values_and_labels() {
    let text = page(TextFormat::Prometheus, &[Group::Extended], |world| {
        world.count(switch(0), 1, Metric::XmitData, 25);
        world.count(host(2), 1, Metric::SymbolErrors, 4);
        world.inventory.nodes.get_mut(&switch(0)).unwrap().description = "leaf \"A\"\\1".to_owned();
        world.show_inventory();
    });
    let guid = "0x0000000000001000";
    let check = |series: &str, want: &str| assert_eq!(value(&text, series), Some(want), "{series}");
    check(
        &format!("infiniband_switch_port_transmit_data_bytes_total{{guid=\"{guid}\",port=\"1\"}}"),
        "100",
    );
    check(
        "infiniband_hca_port_symbol_error_total{guid=\"0x0000000000002002\",port=\"1\"}",
        "4",
    );
    check(
        &format!("infiniband_switch_port_rate_bytes_per_second{{guid=\"{guid}\",port=\"5\"}}"),
        "12500000000",
    );
    check(
        "infiniband_hca_rate_bytes_per_second{guid=\"0x0000000000002002\"}",
        "12500000000",
    );
    check(
        &format!("infiniband_switch_info{{guid=\"{guid}\",switch=\"leaf \\\"A\\\"\\\\1\",lid=\"1\"}}"),
        "1",
    );
    check(
        "infiniband_hca_uplink_info{guid=\"0x0000000000002002\",port=\"1\",hca=\"0x0000000000002002\",\
         uplink=\"leaf \\\"A\\\"\\\\1\",uplink_guid=\"0x0000000000001000\",uplink_type=\"SW\",uplink_port=\"3\",\
         uplink_lid=\"1\"}",
        "1",
    );
    // A port that is down is there, without counters.
    check(
        &format!("infiniband_port_state{{guid=\"{guid}\",port=\"7\",type=\"switch\"}}"),
        "1",
    );
    assert!(!text.contains("port_symbol_error_total{guid=\"0x0000000000001000\",port=\"7\"}"));
}

/// A family is declared once, before its series, which stand together; OpenMetrics asks for an end too.
#[test]
fn both_formats_are_well_formed() {
    for format in [TextFormat::Prometheus, TextFormat::OpenMetrics] {
        let text = page(format, &[Group::Extended, Group::RcvErrors], |_| {});
        let mut kinds: BTreeMap<&str, &str> = BTreeMap::new();
        let mut family = "";
        for line in text.lines().filter(|line| *line != "# EOF") {
            if let Some(rest) = line.strip_prefix("# TYPE ") {
                let (name, kind) = rest.split_once(' ').unwrap();
                assert_eq!(kinds.insert(name, kind), None, "{name} twice");
                family = name;
                continue;
            }
            if line.starts_with("# HELP ") {
                continue;
            }
            let name = line.split('{').next().unwrap();
            let suffix = match (format, kinds[family]) {
                (TextFormat::OpenMetrics, "counter") => "_total",
                _ => "",
            };
            assert_eq!(name, format!("{family}{suffix}"));
        }
        assert_eq!(text.ends_with("# EOF\n"), format == TextFormat::OpenMetrics);
        assert!(kinds.len() > 60, "{}", kinds.len());
    }
}

/// Totals never go back, although a derived sample says nothing of errors.
#[test]
fn a_counter_that_had_a_value_keeps_it() {
    let (mut world, mut latest) = sampled(&[Group::Extended], |world| {
        world.count(host(0), 1, Metric::SymbolErrors, 6);
    });
    assert_eq!(latest.metric(host(0), 1, Metric::SymbolErrors), Some(6));
    let mut sample = world.samples.pop().unwrap();
    sample.key.node = host(0);
    sample.key.port = 1;
    sample.totals[Metric::SymbolErrors as usize] = 6;
    sample.known = 0xFF;
    latest.take(&sample);
    assert_eq!(latest.metric(host(0), 1, Metric::SymbolErrors), Some(6));
    latest.forget(host(0));
    assert_eq!(latest.metric(host(0), 1, Metric::SymbolErrors), None);
}

/// The transcript of the seed: a set of two ports and four counters.
#[test]
fn a_metric_set_as_text_and_csv() {
    let (world, latest) = sampled(&[Group::Extended], |world| {
        world.count(switch(1), 5, Metric::XmitData, 17_424);
        world.count(switch(1), 5, Metric::RcvPackets, 259);
    });
    let selected = parse("Remote_LID\nRemote_port\nport_xmit_data\n#port_rcv_data\nport_rcv_packets\n").unwrap();
    let mut set = MetricSet::new("shaun3".to_owned(), "ibfabric".to_owned(), 3);
    (set.job_id, set.generation, set.is_consistent) = (533, 150, true);
    (set.begin, set.duration_us) = (Wall(1_489_673_996_002_626_000), 533);
    let ports = [5, 6, 99].map(|port| End { node: switch(1), port });
    set.fill(&ports, &selected, &world.inventory, &latest);
    let mut text = String::new();
    set.write_text(&mut text).unwrap();
    let want = "\
METADATA --------
  Producer Name : shaun3
  Instance Name : shaun3/ibfabric
    Schema Name : ibfabric_shaun3
   Metric Count : 10
DATA ------------
      Timestamp : Thu Mar 16 14:19:56 2017 [3159us]
       Duration : [0.000533s]
     Consistent : TRUE
             GN : 150
-----------------
M u64 component_id 3
D u64 LID_2_port_5_Remote_LID 1
D u64 LID_2_port_5_Remote_port 5
D u64 LID_2_port_5_port_xmit_data 17424
D u64 LID_2_port_5_port_rcv_packets 259
D u64 LID_2_port_6_Remote_LID 1
D u64 LID_2_port_6_Remote_port 6
D u64 LID_2_port_6_port_xmit_data 0
D u64 LID_2_port_6_port_rcv_packets 0
D u64 job_id 533
";
    assert_eq!(text, want);
    let mut csv = String::new();
    set.write_csv_header(&mut csv).unwrap();
    set.write_csv(&mut csv).unwrap();
    let lines: Vec<&str> = csv.lines().collect();
    assert!(lines[0].starts_with("#Time,Time_usec,ProducerName,component_id,LID_2_port_5_Remote_LID,"));
    assert_eq!(lines[1], "1489673996.003159,3159,shaun3,3,1,5,17424,259,1,6,0,0,533");
    assert_eq!(lines[0].split(',').count(), lines[1].split(',').count());
}

#[test]
fn without_a_file_all_metrics_are_selected() {
    let (world, latest) = sampled(&[Group::Extended], |_| {});
    let selected: Vec<Selected> = Selected::all().collect();
    let mut set = MetricSet::new("host".to_owned(), "ibfabric".to_owned(), 0);
    set.fill(&[End { node: host(1), port: 1 }], &selected, &world.inventory, &latest);
    let mut csv = String::new();
    set.write_csv_header(&mut csv).unwrap();
    assert_eq!(csv.split(',').count(), 3 + 2 + 26);
}
