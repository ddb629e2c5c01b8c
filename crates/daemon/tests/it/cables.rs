//! Cables and bit errors before and after error correction, from the emulator's vendor class to every output.

use selvedge_api::{Cable, CableQuery, CableReadings, FaultRequest, MetricsQuery, SeriesQuery};
use selvedge_daemon::{Manager, Service, TelemetryService as _};
use selvedge_types::NodeKind;

use crate::emulated::{stop, wait_for};
use crate::history::{begin, scratch};
use crate::telemetry::port_of;

fn is_near(found: f64, want: f64) -> bool {
    (found / want - 1.0).abs() < 0.05
}

#[test]
fn bit_errors_before_and_after_correction_are_shown_and_stored() {
    let folder = scratch("cables");
    let running = begin(&folder);
    let manager = &running.manager;
    let host = wait_for("a sample", || {
        let ports = manager.counters(&Default::default()).ok()?.ports;
        ports
            .into_iter()
            .find(|port| port.kind == NodeKind::Ca && port.how.is_some())
    });
    let at = format!("\"{}\"[{}]", host.node_name, host.port);
    let fault = format!("ber {at} 1e-5 1e-8");
    manager.fault(&FaultRequest { fault }).unwrap();
    let query = CableQuery {
        by: Some("ber".to_owned()),
        ..CableQuery::default()
    };
    // The slot in which it began has a part of the errors.
    let cable = wait_for("bit error rates", || {
        let cable = manager.cables(&query).ok()?.cables.into_iter().next()?;
        let (raw, effective) = (cable.raw_ber?, cable.effective_ber?);
        (is_near(raw.estimate, 1e-5) && is_near(effective.estimate, 1e-8)).then_some(cable)
    });
    assert!(
        [&cable.a, &cable.b].iter().any(|end| end.node_guid == host.node_guid),
        "{cable:?}"
    );
    let raw = cable.raw_ber.unwrap();
    assert!(raw.low < raw.estimate && raw.estimate < raw.high, "{raw:?}");
    let mut page = String::new();
    let metrics = manager.metrics(&MetricsQuery::default(), false).unwrap();
    metrics.write(&mut page).unwrap();
    let labels = format!("{{guid=\"{}\",port=\"{}\"", host.node_guid, host.port);
    let value = |rest: &str| -> f64 {
        let start = rest.replacen("{}", &labels, 1);
        let line = page.lines().find(|line| line.starts_with(&start));
        let line = line.unwrap_or_else(|| panic!("{start}: {page}"));
        line.rsplit_once(' ').unwrap().1.parse().unwrap()
    };
    assert!(is_near(
        value("infiniband_port_ber{},kind=\"raw\",bound=\"estimate\"}"),
        1e-5
    ));
    assert!(is_near(
        value("infiniband_port_ber{},kind=\"effective\",bound=\"estimate\"}"),
        1e-8
    ));
    assert!(value("infiniband_port_bit_errors_total{},kind=\"raw\"}") > 1e5);
    let port = port_of(manager, &host.node_name, host.port);
    let bits = port
        .counters
        .iter()
        .find(|counter| counter.name == "EffectiveBitErrors")
        .unwrap();
    assert!(bits.unit == "bits" && bits.total > 0, "{port:?}");
    let series = wait_for("a stored series", || {
        let query = SeriesQuery {
            node: host.node_name.clone(),
            port: host.port,
            counter: Some("RawBitErrors".to_owned()),
            ..SeriesQuery::default()
        };
        let series = manager.history_series(&query).ok()?;
        (series.points.last()?.total > 0).then_some(series)
    });
    assert_eq!(series.unit, "bits");
    stop(running);
    std::fs::remove_dir_all(&folder).unwrap();
}

fn page_of(manager: &Manager) -> String {
    let mut page = String::new();
    let metrics = manager.metrics(&MetricsQuery::default(), false).unwrap();
    metrics.write(&mut page).unwrap();
    page
}

/// Checks the metrics of a cable with 71 °C and a dark lane at its first end.
fn check_page(page: &str, first: &Cable, serial: &str) {
    let labels = format!("guid=\"{}\",port=\"{}\"", first.a.node_guid, first.a.port);
    let want = [
        format!("infiniband_cable_temperature_celsius{{{labels}}} 71"),
        format!("infiniband_cable_rx_power_dbm{{{labels},lane=\"3\"}} -10"),
    ];
    assert!(want.iter().all(|line| page.lines().any(|at| at == line)), "{want:?}");
    let start = format!("infiniband_cable_info{{{labels},kind=\"active-optical\"");
    let line = page.lines().find(|line| line.starts_with(&start)).unwrap();
    assert!(line.contains(&format!("serial_number=\"{}\"}} 1", serial)), "{line}");
}

#[test]
fn a_cable_is_read_when_its_link_comes_up_and_is_shown() {
    let folder = scratch("cable-info");
    let running = begin(&folder);
    let manager = &running.manager;
    let cable_of = |is_meant: &dyn Fn(&Cable) -> bool| {
        let all = CableQuery {
            all: true,
            ..CableQuery::default()
        };
        manager
            .cables(&all)
            .ok()?
            .cables
            .into_iter()
            .find(|cable| is_meant(cable))
    };
    let has_light = |end: &Option<CableReadings>| end.as_ref().is_some_and(|end| end.rx_power_dbm.len() == 4);
    let first = wait_for("a cable with light", || {
        cable_of(&|cable| has_light(&cable.at_a) && has_light(&cable.at_b))
    });
    let info = first.info.clone().unwrap();
    assert_eq!(
        (info.kind.as_str(), info.vendor.as_str()),
        ("active-optical", "Selvedge")
    );
    assert!(
        info.serial_number.starts_with("SLV") && info.length_m >= 5.0,
        "{info:?}"
    );
    let before = first.at_a.clone().unwrap();
    assert!(
        before.temperature_c < Some(51.0) && before.rx_power_dbm[0] > -1.0,
        "{before:?}"
    );
    let at = format!("\"{}\"[{}]", first.a.node_name, first.a.port);
    let fault = |fault: String| drop(manager.fault(&FaultRequest { fault }).unwrap());
    fault(format!("cable {at} temperature=71 rx-power=100"));
    fault(format!("cut {at}"));
    let is_same = |cable: &Cable| (&cable.a, &cable.b) == (&first.a, &first.b);
    let lost = wait_for("a lost link", || cable_of(&|cable| is_same(cable) && cable.is_down));
    assert_eq!(
        (lost.info, lost.at_a),
        (first.info.clone(), first.at_a.clone()),
        "as it was read last"
    );
    fault(format!("restore {at}"));
    let after = wait_for("another reading", || {
        cable_of(&|cable| is_same(cable) && !cable.is_down && cable.at_a != first.at_a)
    });
    assert_eq!((&after.info, &after.at_b), (&first.info, &first.at_b));
    let readings = after.at_a.unwrap();
    assert_eq!(
        (readings.temperature_c, &readings.rx_power_dbm[..]),
        (Some(71.0), &[-10.0; 4][..])
    );
    let page = page_of(manager);
    check_page(&page, &first, &info.serial_number);
    stop(running);
    std::fs::remove_dir_all(&folder).unwrap();
}
