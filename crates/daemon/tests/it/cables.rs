//! Bit errors before and after error correction, from the emulator's vendor class to every output.

use selvedge_api::{CableQuery, FaultRequest, MetricsQuery, SeriesQuery};
use selvedge_daemon::{Service, TelemetryService as _};
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
