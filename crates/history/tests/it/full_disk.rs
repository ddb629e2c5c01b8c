//! A full disk stops the history with a notice, never the caller; with room it goes on.

use std::path::Path;
use std::sync::Arc;

use selvedge_history::{Config, History, MemoryDisk, Notice};
use selvedge_telemetry::{Sample, Wall};

use crate::files::{BEGIN, STEP, assert_holds, open, without_window};
use crate::load::Load;

#[test]
fn a_full_disk_is_an_alarm_and_nothing_is_lost_when_room_comes_soon() {
    let disk = Arc::<MemoryDisk>::default();
    let mut history = open(&disk).history;
    let mut load = Load::new(50, STEP, 1);
    let (mut all, mut said) = (Vec::new(), Vec::new());
    let begin = BEGIN / 30;
    for slot in begin..begin + 300 {
        let samples: Vec<_> = load.slot(slot).collect();
        samples.iter().for_each(|sample| _ = history.push(sample, STEP));
        all.extend(samples);
        // No room from the middle of the first hour to the middle of the second, and once more at the end of that.
        match slot - begin {
            60 | 220 => disk.set_room(Some(disk.used() + 100)),
            180 | 260 => disk.set_room(None),
            _ => {}
        }
        for notice in history.flush(Wall::from_secs(slot * 30)) {
            said.push((slot - begin, notice));
        }
        history.work();
        assert_eq!(
            history.stopped().is_some(),
            (60..180).contains(&(slot - begin)) || (220..260).contains(&(slot - begin))
        );
    }
    let codes: Vec<_> = said.iter().map(|(slot, notice)| (*slot, notice.code())).collect();
    let (stopped, resumed) = ("SLV-HISTORY-0022", "SLV-HISTORY-0023");
    assert_eq!(codes, [(60, stopped), (180, resumed), (220, stopped), (260, resumed)]);
    assert!(matches!(said[0].1, Notice::Stopped { is_full: true, .. }));
    assert_eq!(
        said[1].1,
        Notice::Resumed {
            lost_rows: 0,
            lost: None
        }
    );
    assert_holds(&history, &all);
    assert_holds(&open(&disk).history, &all);
}

#[test]
fn an_hour_that_finds_no_room_stays_a_journal() {
    let disk = Arc::<MemoryDisk>::default();
    let mut history = open(&disk).history;
    let mut load = Load::new(50, STEP, 1);
    let (mut all, mut said) = (Vec::new(), Vec::new());
    let begin = BEGIN / 30;
    for slot in begin..begin + 300 {
        let samples: Vec<_> = load.slot(slot).collect();
        samples.iter().for_each(|sample| _ = history.push(sample, STEP));
        all.extend(samples);
        said.extend(history.flush(Wall::from_secs(slot * 30)));
        // Journals find room, Parquet files do not until the third hour.
        let room = (slot < begin + 250).then(|| disk.used() + 1_000);
        disk.set_room(room);
        history.work();
        disk.set_room(None);
        assert!(history.stopped().is_none());
    }
    assert!(!said.is_empty());
    for notice in &said {
        assert!(matches!(notice, Notice::Unfinished { is_full: true, .. }), "{notice}");
        assert!(notice.to_string().contains("make room"), "{notice}");
    }
    assert_eq!(history.usage().files, 2);
    assert_holds(&history, &all);
}

#[test]
fn what_is_lost_when_memory_is_used_up_is_counted() {
    let disk = Arc::<MemoryDisk>::default();
    let config = Config {
        pending_bytes_max: 20_000,
        ..without_window()
    };
    let mut history = History::open(Arc::clone(&disk) as _, Path::new("h"), "f", config)
        .unwrap()
        .history;
    let mut load = Load::new(50, STEP, 1);
    let (mut all, mut said) = (Vec::new(), Vec::new());
    let begin = BEGIN / 30;
    for slot in begin..begin + 300 {
        let samples: Vec<_> = load.slot(slot).collect();
        samples.iter().for_each(|sample| _ = history.push(sample, STEP));
        all.extend(samples);
        match slot - begin {
            60 => disk.set_room(Some(disk.used())),
            250 => disk.set_room(None),
            _ => {}
        }
        said.extend(history.flush(Wall::from_secs(slot * 30)));
        history.work();
    }
    let lost = said.iter().find_map(|notice| match notice {
        Notice::Resumed { lost_rows, lost } => Some((*lost_rows, lost.unwrap())),
        _ => None,
    });
    let (rows, (from, to)) = lost.unwrap();
    assert!(rows > 5_000);
    // The rows that are missing are those that were said to be, and no others.
    let is_lost = |slot: u64| (from.at_us..=to.at_us).contains(&(slot * 30_000_000));
    let (gone, kept): (Vec<&Sample>, Vec<&Sample>) = all.iter().partition(|sample| is_lost(sample.slot.number));
    // Memory may be used up in the middle of a slot.
    let surplus = gone.len() as u64 - rows;
    assert!(surplus < 50, "{surplus}");
    assert_eq!(
        (from.at_us / 30_000_000 > begin + 60, to.at_us / 30_000_000),
        (true, begin + 250)
    );
    let held: usize = all[..50]
        .iter()
        .map(|sample| {
            history
                .series(&crate::files::everything(sample.key, 0))
                .unwrap()
                .points
                .len()
        })
        .sum();
    assert_eq!(held, kept.len() + surplus as usize);
}
