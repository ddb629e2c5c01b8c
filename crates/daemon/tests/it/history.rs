//! A manager that stores counters, in real time: on the disk of the machine, on one that is full, and in a folder that
//! it must not touch.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use selvedge_api::{
    BaselineRequest, FaultRequest, HistoryState, SeriesQuery, SliceQuery, StoredEventQuery, TelemetryHistory,
    TelemetrySeries, TopologyQuery,
};
use selvedge_daemon::{Door, EmulationOptions, Manager, Options, Running, Service, emulate, start};
use selvedge_history::{Config, Files, History, MemoryDisk};
use selvedge_sm::Mode;
use selvedge_telemetry::Wall;
use selvedge_transport::PortSpec;
use selvedge_transport::ibsim::IbsimPort;

use crate::emulated::{fabric, options, stop, wait_for};
use crate::telemetry::{MANY, every_second, port_of, socket_name, write_counter};

/// Two leaves with three hosts each, three spines.
const FABRIC: &str = "karytree:k=3,n=2";

/// A folder of this test, empty.
pub(crate) fn scratch(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("selvedge-daemon-{}-{name}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    path
}

fn storing(mut options: Options, folder: &Path) -> Options {
    options = every_second(options);
    options.settings.history.folder = Some(folder.to_owned());
    options.settings.history.interval = Duration::from_secs(1);
    options
}

pub(crate) fn begin(folder: &Path) -> Running {
    start(storing(options(Mode::Manage, FABRIC), folder)).unwrap()
}

/// A manager of an emulated fabric that stays when the manager goes.
fn attached(base: &str, folder: &Path) -> Running {
    let port = PortSpec::Ibsim {
        base: base.to_owned(),
        node: "H-0".to_owned(),
    };
    start(storing(Options::new(Mode::Manage, Door::Port(port)), folder)).unwrap()
}

/// Waits until slots of data are stored, at least so many of them.
fn stored(manager: &Manager, slots: usize) -> TelemetryHistory {
    wait_for("stored slots", || {
        let all = SeriesQuery {
            node: "H-1".to_owned(),
            port: 1,
            ..SeriesQuery::default()
        };
        let series = manager.history_series(&all).ok()?;
        (series.points.len() >= slots).then(|| manager.history().unwrap())
    })
}

fn series(manager: &Manager, counter: &str) -> TelemetrySeries {
    wait_for("a series", || try_series(manager, counter))
}

/// Refused before the node is known.
fn try_series(manager: &Manager, counter: &str) -> Option<TelemetrySeries> {
    let query = SeriesQuery {
        node: "H-1".to_owned(),
        port: 1,
        counter: Some(counter.to_owned()),
        ..SeriesQuery::default()
    };
    manager.history_series(&query).ok()
}

fn codes(manager: &Manager) -> Vec<String> {
    let events = manager.events(0).events.into_iter();
    events.map(|event| event.code).collect()
}

/// True if the history is a condition of the manager's health.
pub(crate) fn is_unwell(manager: &Manager) -> bool {
    let conditions = manager.health().unwrap().conditions;
    conditions.iter().any(|condition| condition.code == "SLV-HEALTH-0028")
}

/// Returns the rows of a query, a line each. The interpreter is the one that `scripts/setup peers` prepares.
fn duckdb(query: &str) -> String {
    let variable = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let cache = variable("XDG_CACHE_HOME").or_else(|| Some(variable("HOME")?.join(".cache")));
    let folder = variable("SELVEDGE_PYTHON").or_else(|| Some(cache?.join("selvedge/python")));
    let python = folder.expect("HOME is not set").join("bin/python3");
    let program = "import duckdb, sys\n\
        duckdb.sql(\"SET enable_progress_bar = false; SET TimeZone = 'UTC'\")\n\
        for row in duckdb.sql(sys.argv[1]).fetchall(): print(*row, sep='|')";
    let output = Command::new(&python).args(["-c", program, query]).output();
    let output = output.unwrap_or_else(|error| panic!("{}: {error}; run scripts/setup peers", python.display()));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Turns the hour in progress into files, as a manager does when the hour is over.
fn end_hour(folder: &Path, name: &str) {
    let config = Config {
        step: Duration::from_secs(1),
        ..Config::default()
    };
    let opened = History::open(Arc::new(Files::open(folder).unwrap()), folder, name, config).unwrap();
    assert_eq!(opened.notices, [], "the manager has ended in order");
    let mut history = opened.history;
    let (_, newest_us) = history.extent().unwrap();
    let later = Wall((newest_us + 2 * 3_600_000_000) * 1_000);
    history.flush(later);
    history.flush(later);
    history.work();
}

#[test]
fn samples_are_on_the_disk_and_duckdb_reads_them() {
    let folder = scratch("stored");
    let running = begin(&folder);
    let manager = &running.manager;
    let about = stored(manager, 4);
    assert_eq!((about.state, about.why.as_deref()), (HistoryState::Storing, None));
    assert!(about.rows > 0 && about.rows_lost == 0 && about.bytes > 0, "{about:?}");
    let shown = series(manager, "PortXmitData");
    assert_eq!(shown.gaps, []);
    assert!(
        shown.points.windows(2).all(|two| two[1].at_ms == two[0].at_ms + 1_000),
        "{shown:?}"
    );
    let last = shown.points.last().unwrap().clone();
    // All ports in that slot.
    let at = SliceQuery {
        at_ms: Some(last.at_ms),
        ..SliceQuery::default()
    };
    let slice = manager.history_ports(&at).unwrap();
    let in_slot = slice.ports.iter().filter(|row| row.at_ms == last.at_ms);
    let totals: BTreeMap<_, _> = in_slot.map(|row| ((row.node_guid, row.port), row.total)).collect();
    assert_eq!(totals.get(&(shown.node_guid, 1)), Some(&last.total));
    assert_eq!(totals.len() as u64, manager.telemetry().unwrap().ports_up);
    stop(running);
    end_hour(&folder, &format!("emulated {FABRIC}"));
    let files = format!("'{}/PortCountersExtended-*.parquet'", folder.display());
    let found = duckdb(&format!(
        "SELECT printf('0x%016x', node), port, PortXmitData FROM {files} \
         WHERE epoch_ms(time) = {} AND PortXmitData IS NOT NULL ORDER BY 1, 2",
        last.at_ms
    ));
    let want: String = totals
        .iter()
        .map(|((node, port), total)| format!("{node}|{port}|{total}\n"))
        .collect();
    assert_eq!(found, want);
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn events_and_topology_are_stored_and_survive_the_process() {
    let folder = scratch("events");
    let running = begin(&folder);
    let manager = &running.manager;
    let all = StoredEventQuery::default();
    wait_for("stored events", || {
        let events = manager.history_events(&all).ok()?.events;
        events
            .iter()
            .any(|event| event.text.starts_with("SUBNET UP"))
            .then_some(())
    });
    let version = wait_for("a topology", || manager.history_topology(TopologyQuery::default()).ok());
    let known = manager.fabric().unwrap();
    assert_eq!(
        (version.nodes.len(), version.links.len()),
        (known.nodes().len(), known.links().count())
    );
    stop(running);
    let running = begin(&folder);
    let manager = &running.manager;
    let events = wait_for("events of the first process", || {
        let events = manager.history_events(&all).ok()?.events;
        let ups = events
            .iter()
            .filter(|event| event.text.starts_with("SUBNET UP"))
            .count();
        (ups == 2).then_some(events)
    });
    assert!(events.windows(2).all(|two| two[0].time_ms >= two[1].time_ms));
    wait_for("another slot", || (manager.history().unwrap().rows > 0).then_some(()));
    // The same topology again is no new version.
    assert_eq!(manager.history_topologies().unwrap().versions.len(), 1);
    stop(running);
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn totals_go_on_after_a_manager_was_killed() {
    let (folder, killed) = (scratch("killed"), scratch("killed-copy"));
    let base = socket_name();
    let door = EmulationOptions {
        serve: Some(base.clone()),
        ..EmulationOptions::default()
    };
    let emulated = emulate(&fabric(FABRIC), &door, 100, Box::new(selvedge_daemon::NoLog)).unwrap();
    let first = attached(&base, &folder);
    stored(&first.manager, 2);
    let host = port_of(&first.manager, "H-1", 1);
    let mut tool = IbsimPort::open(&base, "H-2").unwrap();
    write_counter(&mut tool, host.lid, 1, MANY);
    wait_for("stored totals", || {
        let last = series(&first.manager, "xmit").points.pop()?;
        (last.total >= MANY).then_some(())
    });
    let before = series(&first.manager, "xmit").points;
    // The newest slot may be in memory only. It is in the folder when later ones are there.
    wait_for("later slots", || {
        (series(&first.manager, "xmit").points.len() >= before.len() + 2).then_some(())
    });
    // What a killed process leaves behind is what the folder has at any moment: here, without an end.
    std::fs::create_dir_all(&killed).unwrap();
    for entry in std::fs::read_dir(&folder).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), killed.join(entry.file_name())).unwrap();
    }
    stop(first);
    // Another tool resets the counter meanwhile: only a manager that knows the totals counts on.
    write_counter(&mut tool, host.lid, 1, 7);
    // Some slots are missing then, which is said.
    let later_ms = before.last().unwrap().at_ms + 6_000;
    wait_for("missing slots", || (unix_ms() > later_ms).then_some(()));
    let second = attached(&base, &killed);
    let manager = &second.manager;
    let after = wait_for("slots of the second", || {
        let points = series(manager, "xmit").points;
        let own = points.iter().filter(|point| point.at_ms > later_ms);
        (own.count() >= 2).then_some(points)
    });
    // Nothing but the slot in progress was lost: all points are there again, and totals never fall.
    let known: Vec<_> = after.iter().map(|point| (point.at_ms, point.total)).collect();
    for point in &before {
        assert!(known.contains(&(point.at_ms, point.total)), "{point:?} of {known:?}");
    }
    assert!(known.windows(2).all(|two| two[0].1 <= two[1].1), "{known:?}");
    let last = known.last().unwrap().1;
    assert!(last >= MANY + 7, "{known:?}");
    assert!(total(&port_of(manager, "H-1", 1)) >= MANY + 7);
    assert!(
        codes(manager).iter().any(|code| code == "SLV-HISTORY-0026"),
        "{:?}",
        codes(manager)
    );
    assert!(!is_unwell(manager));
    stop(second);
    emulated.emulation.stop();
    emulated.join().unwrap();
    for folder in [folder, killed] {
        std::fs::remove_dir_all(folder).unwrap();
    }
}

fn unix_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    u64::try_from(now.as_millis()).unwrap()
}

fn total(port: &selvedge_api::TelemetryPort) -> u64 {
    let counters = &port.counters;
    counters.iter().find(|of| of.name == "PortXmitData").unwrap().total
}

#[test]
fn a_full_disk_stops_the_history_and_never_the_manager() {
    let disk = Arc::<MemoryDisk>::default();
    let mut with_disk = storing(options(Mode::Manage, FABRIC), Path::new("history"));
    with_disk.history_disk = Some(Arc::<MemoryDisk>::clone(&disk));
    let running = start(with_disk).unwrap();
    let manager = &running.manager;
    stored(manager, 2);
    disk.set_room(Some(disk.used()));
    let about = wait_for("the alarm", || {
        Some(manager.history().unwrap()).filter(|about| about.state == HistoryState::Stopped)
    });
    let why = about.why.unwrap();
    assert!(why.contains("SLV-HISTORY-0001") && why.contains("make room"), "{why}");
    wait_for("the condition", || is_unwell(manager).then_some(()));
    assert!(codes(manager).iter().any(|code| code == "SLV-HISTORY-0022"));
    // The manager still mends faults.
    let fault = "kill H-5".to_owned();
    let since = manager.fault(&FaultRequest { fault }).unwrap().events_since;
    wait_for("a new plan", || {
        let events = manager.events(since).events;
        events
            .iter()
            .any(|event| event.text.starts_with("SUBNET UP"))
            .then_some(())
    });
    disk.set_room(None);
    let about = wait_for("its end", || {
        Some(manager.history().unwrap()).filter(|about| about.state == HistoryState::Storing)
    });
    assert_eq!((about.why, about.rows_lost), (None, 0));
    wait_for("health", || (!is_unwell(manager)).then_some(()));
    assert!(codes(manager).iter().any(|code| code == "SLV-HISTORY-0023"));
    assert_eq!(series(manager, "xmit").gaps, []);
    stop(running);
}

/// Starts a manager in a folder that it must not touch, and returns why.
fn refused(options: Options) -> String {
    let running = start(options).unwrap();
    let manager = &running.manager;
    let about = wait_for("the refusal", || {
        Some(manager.history().unwrap()).filter(|about| about.state == HistoryState::Refused)
    });
    wait_for("the condition", || is_unwell(manager).then_some(()));
    // Sampling goes on without it, from the devices' counters, and does not wait for it.
    let begin = std::time::Instant::now();
    wait_for("samples", || {
        let classes = manager.telemetry().unwrap().classes;
        classes.iter().any(|class| class.slots >= 2).then_some(())
    });
    assert!(begin.elapsed() < Duration::from_secs(20));
    let error = manager.history_ports(&SliceQuery::default()).unwrap_err();
    assert_eq!(error.code, "SLV-API-0016");
    stop(running);
    about.why.unwrap()
}

#[test]
fn two_managers_and_two_fabrics_do_not_share_a_folder() {
    let folder = scratch("shared");
    let running = begin(&folder);
    stored(&running.manager, 1);
    let why = refused(storing(options(Mode::Manage, FABRIC), &folder));
    assert!(
        why.contains("SLV-HISTORY-0002") && why.contains("in use by another selvedge"),
        "{why}"
    );
    stored(&running.manager, 2);
    stop(running);
    let before = contents(&folder);
    let why = refused(storing(options(Mode::Manage, "karytree:k=2,n=2"), &folder));
    assert!(
        why.contains("SLV-HISTORY-0003") && why.contains("fabric 'emulated karytree:k=2,n=2'"),
        "{why}"
    );
    assert_eq!(contents(&folder), before, "the folder was touched");
    // The operator names the fabric: a folder that was copied from another machine.
    let mut named = storing(options(Mode::Manage, "karytree:k=2,n=2"), &folder);
    named.settings.history.fabric = Some(format!("emulated {FABRIC}"));
    let running = start(named).unwrap();
    stored(&running.manager, 1);
    stop(running);
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_baseline_counts_from_then_on_and_survives_the_process() {
    let folder = scratch("baseline");
    let base = socket_name();
    let door = EmulationOptions {
        serve: Some(base.clone()),
        ..EmulationOptions::default()
    };
    let emulated = emulate(&fabric(FABRIC), &door, 100, Box::new(selvedge_daemon::NoLog)).unwrap();
    let running = attached(&base, &folder);
    stored(&running.manager, 1);
    let lid = port_of(&running.manager, "H-1", 1).lid;
    let mut tool = IbsimPort::open(&base, "H-2").unwrap();
    let counted = |manager: &Manager, least: u64| {
        wait_for("totals", || {
            // Before the first slot it has no counters.
            let port = Some(port_of(manager, "H-1", 1)).filter(|port| !port.counters.is_empty())?;
            (total(&port) >= least).then_some(port)
        })
    };
    let since = |port: &selvedge_api::TelemetryPort| {
        let counter = port.counters.iter().find(|of| of.name == "PortXmitData");
        counter.unwrap().since_baseline
    };
    write_counter(&mut tool, lid, 1, MANY);
    let before = counted(&running.manager, MANY);
    assert_eq!((since(&before), before.baseline_ms), (None, None));
    let request = BaselineRequest {
        node: Some("H-1".to_owned()),
        port: Some(1),
        clear: false,
    };
    let set = wait_for("a store", || {
        Some(running.manager.set_baseline(&request).unwrap()).filter(|set| set.stored)
    });
    assert_eq!((set.ports, set.at_ms.is_some()), (1, true));
    write_counter(&mut tool, lid, 1, 2 * MANY);
    let after = counted(&running.manager, 2 * MANY);
    // The device was not reset: its total goes on.
    assert!(
        since(&after).is_some_and(|grown| (MANY / 2..2 * MANY).contains(&grown)),
        "{after:?}"
    );
    assert_eq!(after.baseline_ms, set.at_ms);
    let other = port_of(&running.manager, "H-2", 1);
    assert_eq!((since(&other), other.baseline_ms), (None, None));
    stop(running);
    let running = attached(&base, &folder);
    stored(&running.manager, 1);
    let again = counted(&running.manager, 2 * MANY);
    assert!(
        since(&again) >= since(&after) && again.baseline_ms == set.at_ms,
        "{again:?}"
    );
    let nobody = BaselineRequest {
        node: Some("H-11".to_owned()),
        ..BaselineRequest::default()
    };
    assert_eq!(running.manager.set_baseline(&nobody).unwrap_err().code, "SLV-API-0014");
    // All ports, back to their first reading.
    let (node, port, clear) = (None, None, true);
    let all = BaselineRequest { node, port, clear };
    assert_eq!(running.manager.set_baseline(&all).unwrap().at_ms, None);
    let cleared = port_of(&running.manager, "H-1", 1);
    assert_eq!((since(&cleared), cleared.baseline_ms), (None, None));
    stop(running);
    emulated.emulation.stop();
    emulated.join().unwrap();
    std::fs::remove_dir_all(folder).unwrap();
}

/// Returns the files of a folder and their bytes, without the lock.
fn contents(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let files = entries.filter(|path| !path.ends_with("history.lock"));
    files.map(|path| (path.clone(), std::fs::read(path).unwrap())).collect()
}

#[test]
fn a_torn_file_is_said_at_the_start() {
    let folder = scratch("torn");
    let running = begin(&folder);
    stored(&running.manager, 3);
    stop(running);
    let entries = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    let journals = entries.filter(|path| path.extension().is_some_and(|end| end == "journal"));
    for path in journals {
        let bytes = std::fs::read(&path).unwrap();
        std::fs::write(&path, &bytes[..bytes.len() - 3]).unwrap();
    }
    let running = begin(&folder);
    stored(&running.manager, 3);
    let events = running.manager.events(0).events;
    let torn = events.iter().find(|event| event.code == "SLV-HISTORY-0020").unwrap();
    assert!(torn.text.contains("were lost in a crash"), "{torn:?}");
    stop(running);
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn without_a_folder_nothing_is_stored() {
    let running = start(every_second(options(Mode::Manage, FABRIC))).unwrap();
    let about = running.manager.history().unwrap();
    assert_eq!((about.state, about.folder), (HistoryState::Off, None));
    let error = running
        .manager
        .history_events(&StoredEventQuery::default())
        .unwrap_err();
    assert_eq!(error.code, "SLV-API-0016");
    assert!(!is_unwell(&running.manager));
    stop(running);
}
