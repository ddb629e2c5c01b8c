//! Hours on a disk: written, found again, kept for a while, and only by their own manager.

use core::time::Duration;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use selvedge_history::{Config, Disk as _, Files, History, HistoryError, MemoryDisk, Notice, Question, Range};
use selvedge_telemetry::{Sample, Wall};

use crate::load::Load;

pub const STEP: Duration = Duration::from_secs(30);
/// A full hour.
pub const BEGIN: u64 = 1_795_932_000;

/// Pushes and flushes slots; returns what was pushed.
pub fn run(history: &mut History, load: &mut Load, slots: core::ops::Range<u64>) -> Vec<Sample> {
    let mut all = Vec::new();
    for slot in slots {
        for sample in load.slot(slot) {
            history.push(&sample, STEP);
            all.push(sample);
        }
        let notices = history.flush(Wall::from_secs(slot * 30));
        assert!(notices.is_empty(), "{notices:?}");
        history.work();
    }
    all
}

/// Asserts that the history holds exactly the samples: each once, none more.
pub fn assert_holds(history: &History, all: &[Sample]) {
    let keys: BTreeSet<_> = all.iter().map(|sample| sample.key).collect();
    for key in keys {
        for counter in [0, 20, 8] {
            let series = history.series(&everything(key, counter)).unwrap();
            assert!(series.unread.is_empty(), "{:?}", series.unread);
            let found = series.points.iter().map(|point| {
                let moment = point.point.moment;
                (moment.epoch, moment.at_us / 30_000_000, point.point.total)
            });
            let want = all.iter().filter(|sample| sample.key == key);
            let want = want.map(|sample| (sample.slot.epoch, sample.slot.number, sample.totals[counter]));
            assert_eq!(found.collect::<Vec<_>>(), want.collect::<Vec<_>>(), "{key}");
        }
    }
}

pub fn everything(key: selvedge_telemetry::SampleKey, counter: usize) -> Question {
    Question {
        key,
        counter,
        range: Range {
            from: Wall(0),
            to: Wall(u64::MAX),
        },
        step: None,
    }
}

/// A history without a window, so that answers come from files and journals.
pub fn without_window() -> Config {
    Config {
        window_bytes_max: 0,
        ..Config::default()
    }
}

pub fn open(disk: &Arc<MemoryDisk>) -> selvedge_history::Opened {
    History::open(
        Arc::clone(disk) as _,
        Path::new("history"),
        "fabric 1",
        without_window(),
    )
    .unwrap()
}

#[test]
fn three_hours_are_found_again_after_a_restart() {
    let disk = Arc::<MemoryDisk>::default();
    let mut load = Load::new(100, STEP, 1);
    let mut history = open(&disk).history;
    let begin = BEGIN / 30;
    let mut all = run(&mut history, &mut load, begin..begin + 300);
    let names: Vec<_> = disk.list().unwrap().into_iter().map(|(name, _)| name).collect();
    let hour = |hour: u32| format!("PortCountersExtended-20261129T{hour:02}");
    let want = [
        hour(6) + ".parquet",
        hour(7) + ".parquet",
        hour(8) + ".journal",
        "fabric".to_owned(),
    ];
    assert_eq!(names, want);
    assert_holds(&history, &all);
    drop(history);

    let opened = open(&disk);
    assert_eq!(opened.notices, []);
    // A sampler goes on exactly where the last row was.
    let last: Vec<Sample> = all[all.len() - 100..].to_vec();
    let mut resumed: Vec<Sample> = opened.resume.iter().map(|resume| resume.sample(0, STEP)).collect();
    resumed.sort_by_key(|sample| last.iter().position(|last| last.key == sample.key));
    for (resumed, last) in resumed.iter().zip(&last) {
        assert_eq!(
            (resumed.key, resumed.slot, resumed.totals, resumed.raw, resumed.known),
            (last.key, last.slot, last.totals, last.raw, last.known)
        );
    }
    assert_eq!(resumed.len(), 100);
    let mut history = opened.history;
    assert_holds(&history, &all);
    // What was stored before is not stored twice.
    for sample in &last {
        history.push(sample, STEP);
    }
    all.extend(run(&mut history, &mut load, begin + 300..begin + 400));
    assert_holds(&history, &all);
    assert_holds(&open(&disk).history, &all);
}

#[test]
fn the_history_keeps_the_first_sample_of_each_step() {
    let disk = Arc::<MemoryDisk>::default();
    let mut history = open(&disk).history;
    let second = Duration::from_secs(1);
    let mut load = Load::new(10, second, 1);
    let mut want = Vec::new();
    for slot in BEGIN..BEGIN + 600 {
        for mut sample in load.slot(slot) {
            history.push(&sample, second);
            if slot.is_multiple_of(30) {
                sample.slot.number /= 30;
                want.push(sample);
            }
        }
        assert_eq!(history.flush(Wall::from_secs(slot)), []);
    }
    drop(history);
    assert_holds(&open(&disk).history, &want);
}

#[test]
fn a_clock_that_was_set_back_begins_files_of_its_own() {
    let disk = Arc::<MemoryDisk>::default();
    let mut load = Load::new(10, STEP, 1);
    let mut history = open(&disk).history;
    let begin = BEGIN / 30;
    let mut all = run(&mut history, &mut load, begin..begin + 150);
    load.set_back();
    for slot in begin + 60..begin + 200 {
        let samples: Vec<_> = load.slot(slot).collect();
        samples.iter().for_each(|sample| _ = history.push(sample, STEP));
        all.extend(samples);
        let notices = history.flush(Wall::from_secs(slot * 30));
        let is_gap = |notice: &Notice| matches!(notice, Notice::Gap { .. });
        assert!(notices.iter().all(is_gap), "{notices:?}");
        assert_eq!(notices.len(), usize::from(slot == begin + 60));
        history.work();
    }
    assert_holds(&history, &all);
    let history = open(&disk).history;
    assert_holds(&history, &all);
    // How much time passed is not known: no rate, but growth.
    let series = history.series(&everything(all[0].key, 0)).unwrap();
    let turn = series
        .points
        .iter()
        .position(|point| point.point.moment.epoch == 1)
        .unwrap();
    assert!(series.points[turn].per_second.is_none() && series.points[turn].increase.is_some());
    assert!(series.points[turn + 1].per_second.is_some());
    assert_eq!(series.gaps.len(), 1);
    // A sampler that forgot the epoch has its samples refused, and that is said.
    let mut history = history;
    let mut forgetful = Load::new(10, STEP, 1);
    forgetful
        .slot(begin + 300)
        .for_each(|sample| _ = history.push(&sample, STEP));
    let notices = history.flush(Wall::from_secs((begin + 300) * 30));
    assert!(matches!(notices[..], [Notice::Late { rows: 10, .. }]), "{notices:?}");
}

#[test]
fn a_gap_is_said() {
    let disk = Arc::<MemoryDisk>::default();
    let mut load = Load::new(10, STEP, 1);
    let mut history = open(&disk).history;
    let begin = BEGIN / 30;
    run(&mut history, &mut load, begin..begin + 10);
    drop(history);
    let mut history = open(&disk).history;
    load.slot(begin + 15).for_each(|sample| _ = history.push(&sample, STEP));
    let notices = history.flush(Wall::from_secs((begin + 15) * 30));
    let [Notice::Gap { from, to, .. }] = notices[..] else {
        panic!("{notices:?}")
    };
    assert_eq!(
        (from.at_us, to.at_us),
        ((begin + 9) * 30_000_000, (begin + 15) * 30_000_000)
    );
    let text = notices[0].to_string();
    assert!(
        text.starts_with("SLV-HISTORY-0026: history of PortCountersExtended has a gap from 2026-11-29T"),
        "{text}"
    );
}

#[test]
fn files_go_by_age_and_by_size() {
    let disk = Arc::<MemoryDisk>::default();
    let mut load = Load::new(50, STEP, 1);
    let config = Config {
        keep: Duration::from_secs(3 * 3_600),
        ..without_window()
    };
    let begin = BEGIN / 30;
    let mut history = History::open(Arc::clone(&disk) as _, Path::new("h"), "f", config.clone())
        .unwrap()
        .history;
    run(&mut history, &mut load, begin..begin + 10 * 120);
    let parquet = |disk: &MemoryDisk| {
        disk.list()
            .unwrap()
            .iter()
            .filter(|(name, _)| name.ends_with("parquet"))
            .count()
    };
    // It is 15:59:30, and the hour from 12 to 13 ended less than three hours ago.
    assert_eq!(parquet(&disk), 3);
    let length = history.usage().files_bytes;
    drop(history);

    let config = Config {
        files_bytes_max: length / 2,
        ..config
    };
    let mut history = History::open(Arc::clone(&disk) as _, Path::new("h"), "f", config)
        .unwrap()
        .history;
    let notices = history.flush(Wall::from_secs(BEGIN + 10 * 3_600));
    let [Notice::Removed { files, .. }] = notices[..] else {
        panic!("{notices:?}")
    };
    assert_eq!(parquet(&disk), 3 - files as usize);
    assert!(history.usage().files_bytes <= length / 2);
}

#[test]
fn an_hour_that_is_followed_by_none_is_closed_too() {
    let disk = Arc::<MemoryDisk>::default();
    let mut load = Load::new(5, STEP, 1);
    let mut history = open(&disk).history;
    let begin = BEGIN / 30;
    let mut all = run(&mut history, &mut load, begin..begin + 30);
    for minutes in [65, 71, 72, 200] {
        assert_eq!(history.flush(Wall::from_secs(BEGIN + minutes * 60)), []);
        history.work();
    }
    assert!(disk.bytes("PortCountersExtended-20261129T06.parquet").is_some());
    assert_holds(&history, &all);
    // Sampling goes on hours later: no empty file is left.
    let samples: Vec<_> = load.slot(begin + 600).collect();
    samples.iter().for_each(|sample| _ = history.push(sample, STEP));
    all.extend(samples);
    history.flush(Wall::from_secs((begin + 600) * 30));
    history.work();
    assert_holds(&history, &all);
    assert_holds(&open(&disk).history, &all);
    assert_eq!(disk.list().unwrap().len(), 3);
}

pub fn scratch(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("selvedge-history-{}-{name}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    path
}

#[test]
fn two_managers_and_two_fabrics_do_not_share_a_folder() {
    let path = scratch("share");
    let files = Arc::new(Files::open(&path).unwrap());
    let second = Files::open(&path).unwrap_err();
    assert!(matches!(second, HistoryError::Locked { .. }));
    assert!(second.to_string().starts_with("SLV-HISTORY-0002: "), "{second}");
    let open = |fabric: &str| History::open(Arc::clone(&files) as _, &path, fabric, without_window());
    let mut history = open("fabric 1").unwrap().history;
    let mut load = Load::new(10, STEP, 1);
    let begin = BEGIN / 30;
    let all = run(&mut history, &mut load, begin..begin + 130);
    drop(history);
    let before: Vec<_> = files.list().unwrap();
    let other = open("fabric 2").unwrap_err();
    let text = other.to_string();
    assert!(
        text.contains("SLV-HISTORY-0003") && text.contains("'fabric 1'") && text.contains("'fabric 2'"),
        "{text}"
    );
    assert_eq!(files.list().unwrap(), before, "a refused folder stays as it is");

    // The same with the files alone, put into another fabric's folder.
    let copies = Arc::<MemoryDisk>::default();
    drop(History::open(Arc::clone(&copies) as _, &path, "fabric 2", without_window()).unwrap());
    for (name, _) in &before {
        if name.contains('-') {
            copies.put(name, std::fs::read(path.join(name)).unwrap());
            let refused = History::open(Arc::clone(&copies) as _, &path, "fabric 2", without_window());
            assert!(matches!(refused, Err(HistoryError::OtherFabric { .. })), "{name}");
            copies.remove(name).unwrap();
        }
    }
    // No fabric is named, or one that cannot be understood.
    std::fs::write(path.join("fabric"), "selvedge-history 9\nfabric 1\n").unwrap();
    assert!(matches!(open("fabric 1"), Err(HistoryError::NoFabric { .. })));
    std::fs::remove_file(path.join("fabric")).unwrap();
    assert!(matches!(open("fabric 1"), Err(HistoryError::NoFabric { .. })));
    std::fs::write(path.join("fabric"), "selvedge-history 1\nfabric 1\n").unwrap();
    assert_holds(&open("fabric 1").unwrap().history, &all);
    drop(files);
    drop(Files::open(&path).unwrap());
    std::fs::remove_dir_all(path).unwrap();
}
