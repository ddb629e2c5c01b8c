//! Alarms are stored: they go on in the next run of the manager, and are listed after they have ended.

use std::path::Path;

use selvedge_api::{Alarm, AlarmAction, AlarmQuery, AlarmRequest, FaultRequest, TimeRange};
use selvedge_daemon::{Manager, Running, Service, TelemetryService};

use crate::emulated::{stop, wait_for};
use crate::history::{begin, is_unwell, scratch};

fn fault(manager: &Manager, fault: &str) {
    let fault = fault.to_owned();
    manager.fault(&FaultRequest { fault }).unwrap();
}

/// Alarms in force, and with `cleared` those that have ended, too.
fn alarms(manager: &Manager, cleared: bool) -> Option<Vec<Alarm>> {
    let query = AlarmQuery {
        cleared,
        range: TimeRange::default(),
        ..AlarmQuery::default()
    };
    Some(manager.alarms(&query).ok()?.alarms)
}

fn first(manager: &Manager) -> Alarm {
    wait_for("an alarm", || alarms(manager, false)?.into_iter().next())
}

fn act(manager: &Manager, action: AlarmAction) {
    let request = AlarmRequest {
        action,
        node: Some("H-1".to_owned()),
        by: "ada".to_owned(),
        note: "cable ordered".to_owned(),
        ..AlarmRequest::default()
    };
    manager.change_alarms(&request).unwrap();
}

/// A manager with an alarm of host H-1.
fn alarmed(folder: &Path) -> (Running, Alarm) {
    let running = begin(folder);
    wait_for("slots", || (running.manager.history().unwrap().rows > 0).then_some(()));
    fault(&running.manager, "errors H-1 rcv 5000");
    let alarm = first(&running.manager);
    (running, alarm)
}

fn conditions(manager: &Manager) -> Vec<String> {
    let conditions = manager.health().unwrap().conditions;
    conditions.into_iter().map(|condition| condition.code).collect()
}

#[test]
fn an_acknowledged_alarm_goes_on_after_a_restart() {
    let folder = scratch("alarms");
    let (running, before) = alarmed(&folder);
    act(&running.manager, AlarmAction::Acknowledge);
    stop(running);

    let running = begin(&folder);
    let manager = &running.manager;
    let alarm = first(manager);
    assert_eq!((alarm.about.as_str(), &alarm.port), ("PortRcvErrors", &before.port));
    assert_eq!(alarm.peer, before.peer);
    // The calendar of the first run was read again for each date.
    assert!(
        alarm.since_ms.abs_diff(before.since_ms) <= 5,
        "{alarm:?}, before {before:?}"
    );
    let ack = alarm.acknowledged.unwrap();
    assert_eq!((ack.by.as_str(), ack.note.as_str()), ("ada", "cable ordered"));
    assert!(
        !conditions(manager).contains(&"SLV-HEALTH-0025".to_owned()),
        "{:?}",
        conditions(manager)
    );
    act(manager, AlarmAction::Clear);
    assert_eq!(alarms(manager, false).unwrap(), []);
    stop(running);

    let running = begin(&folder);
    let ended = wait_for("alarms that have ended", || alarms(&running.manager, true));
    let [alarm] = &ended[..] else { panic!("{ended:?}") };
    assert_eq!(alarm.cleared.as_ref().unwrap().why, "operator");
    assert!(alarm.since_ms.abs_diff(before.since_ms) <= 5, "{alarm:?}");
    stop(running);
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn an_open_alarm_is_a_condition_after_a_restart() {
    let folder = scratch("alarms-open");
    let (running, before) = alarmed(&folder);
    stop(running);
    let running = begin(&folder);
    let manager = &running.manager;
    let since = wait_for("the condition", || {
        let conditions = manager.health().unwrap().conditions;
        let ours = conditions.iter().find(|condition| condition.code == "SLV-HEALTH-0025");
        ours.map(|condition| condition.since_ms)
    });
    assert!(since.abs_diff(before.since_ms) <= 5, "{since}, before {before:?}");
    stop(running);
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn alarms_work_without_a_database() {
    let folder = scratch("alarms-no-database");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("events.sqlite"), "x".repeat(1_000)).unwrap();
    let (running, _) = alarmed(&folder);
    let manager = &running.manager;
    act(manager, AlarmAction::Acknowledge);
    assert!(first(manager).acknowledged.is_some());
    assert!(is_unwell(manager));
    let query = AlarmQuery {
        cleared: true,
        ..AlarmQuery::default()
    };
    assert_eq!(manager.alarms(&query).unwrap_err().code, "SLV-API-0016");
    stop(running);
    std::fs::remove_dir_all(folder).unwrap();
}
