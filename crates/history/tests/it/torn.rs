//! Files that were cut or changed: what is lost is said, the rest is used, nothing panics.

use std::path::Path;
use std::sync::Arc;

use selvedge_history::{History, HistoryError, MemoryDisk, Notice};
use selvedge_sim::Seed;
use selvedge_telemetry::{Sample, Wall};

use crate::files::{BEGIN, STEP, assert_holds, everything, open, run, without_window};
use crate::load::Load;

const PARQUET: &str = "PortCountersExtended-20261129T06.parquet";
const JOURNAL: &str = "PortCountersExtended-20261129T07.journal";

/// An hour of a few ports, and some slots of the next one.
fn stored(ports: u64, slots: u64) -> (Vec<(String, Vec<u8>)>, Vec<Sample>) {
    use selvedge_history::Disk as _;
    let disk = Arc::<MemoryDisk>::default();
    let mut history = open(&disk).history;
    let mut load = Load::new(ports, STEP, 5);
    let begin = BEGIN / 30;
    let all = run(&mut history, &mut load, begin..begin + slots);
    let names = disk.list().unwrap();
    let files = names
        .into_iter()
        .map(|(name, _)| (name.clone(), disk.bytes(&name).unwrap()));
    (files.collect(), all)
}

fn disk(files: &[(String, Vec<u8>)], name: &str, bytes: &[u8]) -> Arc<MemoryDisk> {
    let disk = Arc::<MemoryDisk>::default();
    for (of, whole) in files {
        let content = if of == name { bytes } else { whole };
        disk.put(of, content.to_vec());
    }
    disk
}

fn whole<'a>(files: &'a [(String, Vec<u8>)], name: &str) -> &'a [u8] {
    &files.iter().find(|(of, _)| of == name).unwrap().1
}

#[test]
fn a_journal_that_is_cut_anywhere_keeps_its_whole_slots() {
    let (files, all) = stored(3, 132);
    let bytes = whole(&files, JOURNAL);
    let mut last = 0;
    for cut in 0..bytes.len() {
        let disk = disk(&files, JOURNAL, &bytes[..cut]);
        let opened = open(&disk);
        let kept = opened.history.series(&everything(all[0].key, 0)).unwrap().points.len();
        assert!(kept >= last.max(120), "{cut} {kept}");
        last = kept;
        assert_holds(&opened.history, &all[..kept * 3]);
        match &opened.notices[..] {
            // Cut between two records: nothing but the slots behind them is missing, and that is a gap like any other.
            [] => {}
            [
                Notice::TornJournal {
                    lost_bytes, kept: to, ..
                },
            ] => {
                assert!(*lost_bytes > 0 && *lost_bytes < cut as u64);
                let slot = to.map_or(BEGIN / 30 + 119, |to| to.at_us / 30_000_000);
                assert_eq!(slot, all[kept * 3 - 1].slot.number);
            }
            [Notice::Damaged { file, .. }] => assert!(kept == 120 && file == JOURNAL),
            other => panic!("{other:?}"),
        }
        // A sampler goes on in any case.
        let mut history = opened.history;
        let mut load = Load::new(3, STEP, 6);
        let slot = all[all.len() - 1].slot.number + 1;
        load.slot(slot).for_each(|sample| _ = history.push(&sample, STEP));
        assert!(
            !history
                .flush(Wall::from_secs(slot * 30))
                .iter()
                .any(|n| matches!(n, Notice::Stopped { .. }))
        );
        drop(history);
        let again = open(&disk);
        assert_eq!(again.notices, [], "{cut}");
        assert_eq!(again.newest()[0].1.at_us, slot * 30_000_000);
    }
    assert_eq!(last, 132 - 1);
}

#[test]
fn a_journal_with_a_changed_byte_keeps_the_slots_before_it() {
    let (files, all) = stored(3, 132);
    let bytes = whole(&files, JOURNAL);
    let mut rng = Seed(4).rng();
    for at in 0..bytes.len() {
        let mut changed = bytes.to_vec();
        changed[at] ^= 1 << rng.below(8);
        let opened = open(&disk(&files, JOURNAL, &changed));
        let kept = opened.history.series(&everything(all[0].key, 0)).unwrap().points.len();
        assert_holds(&opened.history, &all[..kept * 3]);
        assert_eq!(opened.notices.len(), 1, "{at}");
    }
}

#[test]
fn a_parquet_file_that_is_cut_is_set_aside_and_said() {
    let (files, all) = stored(40, 180);
    let bytes = whole(&files, PARQUET);
    let len = bytes.len();
    let footer = len - 8 - u32::from_le_bytes(*bytes[len - 8..].first_chunk().unwrap()) as usize;
    let cuts = [
        0,
        1,
        3,
        4,
        5,
        100,
        len / 3,
        footer - 1,
        footer,
        footer + 1,
        (footer + len) / 2,
    ];
    for cut in cuts.into_iter().chain(len - 9..len) {
        let disk = disk(&files, PARQUET, &bytes[..cut]);
        let opened = open(&disk);
        let [
            notice @ Notice::Damaged {
                file, is_kept: false, ..
            },
        ] = &opened.notices[..]
        else {
            panic!("{cut}: {:?}", opened.notices)
        };
        assert_eq!(file, PARQUET);
        let text = notice.to_string();
        assert!(
            text.starts_with("SLV-HISTORY-0021: ") && text.ends_with("its rows are missing"),
            "{text}"
        );
        assert!(disk.bytes(PARQUET).is_none());
        assert_eq!(disk.bytes(&format!("{PARQUET}.damaged")).unwrap().len(), cut);
        assert_holds(&opened.history, &all[120 * 40..]);
        assert_eq!(open(&disk).notices, [], "said once");
    }
}

#[test]
fn an_hour_with_a_journal_left_is_written_again() {
    // Killed after the rename and before the journal went, and the file was damaged then.
    let (files, all) = stored(10, 180);
    let disk = Arc::<MemoryDisk>::default();
    let mut history = open(&disk).history;
    let mut load = Load::new(10, STEP, 5);
    let begin = BEGIN / 30;
    for slot in begin..begin + 180 {
        load.slot(slot).for_each(|sample| _ = history.push(&sample, STEP));
        assert_eq!(history.flush(Wall::from_secs(slot * 30)), []);
    }
    drop(history);
    let parquet = whole(&files, PARQUET);
    for torn in [&parquet[..parquet.len() / 2], parquet] {
        disk.put(PARQUET, torn.to_vec());
        let mut opened = open(&disk);
        let said = opened
            .notices
            .iter()
            .map(|notice| matches!(notice, Notice::Damaged { is_kept: true, .. }));
        assert!(
            said.eq((torn.len() < parquet.len()).then_some(true)),
            "{:?}",
            opened.notices
        );
        opened.history.work();
        assert_holds(&opened.history, &all);
        assert_eq!(disk.bytes("PortCountersExtended-20261129T06.journal"), None);
        assert_eq!(
            disk.bytes(PARQUET).as_deref(),
            Some(parquet),
            "the same rows make the same bytes"
        );
    }
}

#[test]
fn a_parquet_file_with_changed_bytes_never_panics() {
    let (files, _) = stored(40, 180);
    let bytes = whole(&files, PARQUET);
    let mut rng = Seed(5).rng();
    let (mut refused, mut unread) = (0, 0);
    for _ in 0..250 {
        let mut changed = bytes.to_vec();
        for _ in 0..=rng.below(3) {
            // Half of the changes hit the footer, which is short.
            let from = if rng.below(2) == 0 { 0 } else { bytes.len() * 3 / 4 };
            let at = from + rng.below((bytes.len() - from) as u64) as usize;
            changed[at] ^= 1 << rng.below(8);
        }
        let disk = disk(&files, PARQUET, &changed);
        let opened = History::open(Arc::clone(&disk) as _, Path::new("h"), "fabric 1", without_window());
        let opened = match opened {
            Ok(opened) => opened,
            // The name of the fabric was hit.
            Err(error) => {
                assert!(matches!(error, HistoryError::OtherFabric { .. }), "{error}");
                continue;
            }
        };
        refused += opened.notices.len();
        for resume in &opened.resume {
            unread += opened.history.series(&everything(resume.key, 0)).unwrap().unread.len();
        }
    }
    assert!(refused > 10 && unread > 30, "{refused} {unread}");
}

#[test]
fn what_is_half_written_or_not_ours_is_left_alone_or_removed() {
    let (files, all) = stored(10, 180);
    let disk = disk(&files, "", &[]);
    disk.put(&format!("{PARQUET}.new"), vec![1; 100]);
    disk.put("notes.txt", b"mine".to_vec());
    disk.put("PortCountersExtended-20261129T05.parquet.damaged", vec![7]);
    let opened = open(&disk);
    assert_eq!(opened.notices, []);
    assert_holds(&opened.history, &all);
    assert!(disk.bytes(&format!("{PARQUET}.new")).is_none());
    assert!(disk.bytes("notes.txt").is_some());
}
