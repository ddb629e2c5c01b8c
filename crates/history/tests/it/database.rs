//! Events, alarms, topology versions and baselines.

use std::fs;
use std::path::Path;

use selvedge_history::{Acknowledgement, Alarm, Database, Entry, HistoryError, Severity, Subject as About, Topology};
use selvedge_telemetry::alarm::{AlarmId, Ended, Level, Subject};
use selvedge_telemetry::{End, Group, Metric, SampleKey, WIDEST, Wall};
use selvedge_types::Guid;

use crate::files::scratch;

fn entry(second: u64, severity: Severity, text: &str) -> Entry {
    Entry {
        at: Wall::from_secs(second),
        code: "SLV-TELEMETRY-0005".to_owned(),
        severity,
        subject: About {
            node: Some(Guid(0xffff_ffff_0000_0001)),
            port: Some(3),
        },
        text: text.to_owned(),
    }
}

fn with(name: &str, test: impl FnOnce(&Path)) {
    let folder = scratch(name);
    fs::create_dir(&folder).unwrap();
    test(&folder.join(Database::NAME));
    fs::remove_dir_all(folder).unwrap();
}

fn open(path: &Path) -> Database {
    Database::open(path, "fabric 1").unwrap()
}

#[test]
fn events_come_back_the_latest_first() {
    with("events", |path| {
        let events = [
            entry(10, Severity::Info, "a"),
            entry(20, Severity::Critical, "b"),
            entry(20, Severity::Warning, "c"),
            entry(30, Severity::Info, "d"),
        ];
        open(path).add_events(&events).unwrap();
        let database = open(path);
        let ask = |from, to, least, most| {
            let range = (Wall::from_secs(from), Wall::from_secs(to));
            let found = database.events(range, least, most).unwrap();
            found
                .iter()
                .map(|event| event.text.clone())
                .collect::<Vec<_>>()
                .concat()
        };
        assert_eq!(ask(0, 99, Severity::Info, 99), "dcba");
        assert_eq!(ask(0, 99, Severity::Warning, 99), "cb");
        assert_eq!(ask(11, 20, Severity::Info, 99), "cb");
        assert_eq!(ask(0, 99, Severity::Info, 2), "dc");
        let all = database
            .events((Wall(0), Wall(u64::MAX)), Severity::Critical, 9)
            .unwrap();
        assert_eq!(all, events[1..2]);
        assert_eq!(database.prune(Wall::from_secs(20)).unwrap(), 1);
        assert_eq!(ask(0, 99, Severity::Info, 99), "dcb");
    });
}

/// An alarm of a port that began at a second, and had evidence at a later one.
fn alarm(port: u8, raised: u64, last: u64) -> Alarm {
    let at = End {
        node: Guid(0xffff_ffff_0000_0001),
        port,
    };
    Alarm {
        id: AlarmId {
            at,
            subject: Subject::Counter(Metric::SymbolErrors),
        },
        peer: Some(End {
            node: Guid(2),
            port: 254,
        }),
        level: Level::Warning,
        evidence: format!("evidence of {last} s"),
        clears: "it grows less".to_owned(),
        raised: Wall::from_secs(raised),
        last: Wall::from_secs(last),
        acknowledged: None,
        cleared: None,
    }
}

#[test]
fn an_alarm_is_in_force_once_until_it_ends() {
    with("alarms", |path| {
        let acknowledged = Alarm {
            level: Level::Critical,
            acknowledged: Some(Acknowledgement {
                at: Wall::from_secs(25),
                by: "ada".to_owned(),
                note: "cable ordered".to_owned(),
            }),
            ..alarm(3, 18, 20)
        };
        open(path).put_alarms(&[alarm(3, 10, 10), alarm(4, 15, 15)]).unwrap();
        open(path).put_alarms(std::slice::from_ref(&acknowledged)).unwrap();
        let database = open(path);
        // The begin stays that of the first report.
        let first = Alarm {
            raised: Wall::from_secs(10),
            ..acknowledged
        };
        assert_eq!(database.alarms().unwrap(), [first.clone(), alarm(4, 15, 15)]);
        let ended = Alarm {
            cleared: Some((Wall::from_secs(30), Ended::Operator)),
            ..first
        };
        // Port 5 began and ended between two writes; port 3 began again.
        let short = Alarm {
            cleared: Some((Wall::from_secs(31), Ended::Gone)),
            ..alarm(5, 31, 31)
        };
        database
            .put_alarms(&[ended.clone(), short.clone(), alarm(3, 40, 40)])
            .unwrap();
        assert_eq!(database.alarms().unwrap(), [alarm(3, 40, 40), alarm(4, 15, 15)]);
        let between = |from, to| {
            database
                .ended_alarms((Wall::from_secs(from), Wall::from_secs(to)))
                .unwrap()
        };
        assert_eq!(between(0, 99), [short.clone(), ended]);
        assert_eq!(between(31, 99), [short]);
        // Old ones go, those in force stay.
        assert_eq!(database.prune(Wall::from_secs(31)).unwrap(), 1);
        assert_eq!((between(0, 99).len(), database.alarms().unwrap().len()), (1, 2));
    });
}

#[test]
fn a_database_of_format_1_is_taken_over() {
    with("format-1", |path| {
        open(path).add_events(&[entry(1, Severity::Info, "a")]).unwrap();
        let old = rusqlite::Connection::open(path).unwrap();
        old.execute_batch(
            "DROP TABLE alarm; CREATE TABLE alarm (id INTEGER PRIMARY KEY, name TEXT NOT NULL); \
             PRAGMA user_version = 1;",
        )
        .unwrap();
        drop(old);
        let database = open(path);
        database.put_alarms(&[alarm(3, 10, 10)]).unwrap();
        assert_eq!(database.alarms().unwrap(), [alarm(3, 10, 10)]);
        let all = (Wall(0), Wall(u64::MAX));
        assert_eq!(database.events(all, Severity::Info, 9).unwrap().len(), 1);
    });
}

#[test]
fn topology_versions_and_baselines() {
    with("topology", |path| {
        let database = open(path);
        let topology = |second, digest: &str| Topology {
            at: Wall::from_secs(second),
            digest: digest.to_owned(),
            body: format!("links of {digest}").into_bytes(),
        };
        assert!(database.add_topology(&topology(10, "a")).unwrap());
        assert!(!database.add_topology(&topology(15, "a")).unwrap());
        assert!(database.add_topology(&topology(20, "b")).unwrap());
        assert!(database.add_topology(&topology(30, "a")).unwrap());
        let at = |second| database.topology_at(Wall::from_secs(second)).unwrap();
        assert_eq!(at(9), None);
        assert_eq!(at(19), Some(topology(10, "a")));
        assert_eq!(at(20), Some(topology(20, "b")));
        assert_eq!(database.topologies().unwrap().len(), 3);
        // The version that held at the limit stays.
        assert_eq!(database.prune(Wall::from_secs(25)).unwrap(), 1);
        assert_eq!(at(25), Some(topology(20, "b")));

        let key = |port| SampleKey {
            node: Guid(u64::MAX),
            port,
            group: Group::Extended,
        };
        let totals = core::array::from_fn::<u64, WIDEST, _>(|i| u64::MAX - i as u64);
        database.set_baseline(key(1), Wall::from_secs(5), &[1; WIDEST]).unwrap();
        database.set_baseline(key(1), Wall::from_secs(6), &totals).unwrap();
        database.set_baseline(key(2), Wall::from_secs(7), &[2; WIDEST]).unwrap();
        assert!(database.clear_baseline(key(2)).unwrap());
        assert!(!database.clear_baseline(key(2)).unwrap());
        assert_eq!(database.baselines().unwrap(), [(key(1), Wall::from_secs(6), totals)]);
    });
}

/// What is wrong with a file, by the code of the error that says so; the file stays as it is.
fn refused(path: &Path) -> String {
    let before = fs::read(path).unwrap();
    let opened = Database::open(path, "fabric 1").map(drop);
    let error = opened.expect_err(&format!("{} bytes", before.len()));
    assert_eq!(fs::read(path).unwrap(), before, "{error}");
    let text = error.to_string();
    assert!(text.contains(Database::NAME), "{text}");
    text[..16].to_owned()
}

#[test]
fn a_database_of_something_else_is_refused() {
    with("foreign", |path| {
        fs::write(
            path,
            "no database at all, and long enough to be looked at as a page by the library",
        )
        .unwrap();
        assert_eq!(refused(path), "SLV-HISTORY-0007");
        fs::remove_file(path).unwrap();
        let other = rusqlite::Connection::open(path).unwrap();
        other.execute_batch("CREATE TABLE shop (article TEXT)").unwrap();
        drop(other);
        assert_eq!(refused(path), "SLV-HISTORY-0007");
        fs::remove_file(path).unwrap();

        drop(open(path));
        assert!(matches!(
            Database::open(path, "fabric 2"),
            Err(HistoryError::OtherFabric { .. })
        ));
        let newer = rusqlite::Connection::open(path).unwrap();
        newer.pragma_update(None, "journal_mode", "delete").unwrap();
        newer.pragma_update(None, "user_version", 3).unwrap();
        drop(newer);
        assert_eq!(refused(path), "SLV-HISTORY-0008");
    });
}

#[test]
fn a_torn_database_says_so() {
    with("torn", |path| {
        let database = open(path);
        let events: Vec<_> = (0..2_000)
            .map(|second| entry(second, Severity::Info, &"x".repeat(100)))
            .collect();
        database.add_events(&events).unwrap();
        drop(database);
        let whole = fs::read(path).unwrap();
        assert!(whole.len() > 200_000);
        let mut found = std::collections::BTreeMap::<String, u32>::new();
        let cuts = (1..100).map(|part| whole.len() * part / 100);
        for cut in cuts.chain([1, 15, 16, 99, 100, 101, 511, whole.len() - 1]) {
            fs::write(path, &whole[..cut]).unwrap();
            *found.entry(refused(path)).or_default() += 1;
        }
        // A cut within the first page is no database any more.
        assert_eq!(
            found.keys().collect::<Vec<_>>(),
            ["SLV-HISTORY-0007", "SLV-HISTORY-0009"]
        );
        assert!(found["SLV-HISTORY-0009"] >= 98, "{found:?}");
        fs::write(path, &whole).unwrap();
        assert_eq!(
            open(path)
                .events((Wall(0), Wall(u64::MAX)), Severity::Info, 9_999)
                .unwrap()
                .len(),
            2_000
        );
    });
}

#[test]
fn a_full_file_system_is_told_from_other_failures() {
    with("full", |path| {
        let database = open(path);
        database.add_events(&[entry(1, Severity::Info, "a")]).unwrap();
        database.set_bytes_max(100_000).unwrap();
        let many: Vec<_> = (0..2_000)
            .map(|second| entry(second, Severity::Info, &"x".repeat(100)))
            .collect();
        let error = database.add_events(&many).unwrap_err();
        assert!(error.is_full(), "{error}");
        // All or none.
        assert_eq!(
            database
                .events((Wall(0), Wall(u64::MAX)), Severity::Info, 9_999)
                .unwrap()
                .len(),
            1
        );
        database.set_bytes_max(1 << 30).unwrap();
        database.add_events(&many).unwrap();
    });
}
