//! A manager that is killed in the middle of any write, and a disk that fails now and then.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use selvedge_history::{Files, History, MemoryDisk, Notice, Opened};
use selvedge_sim::{Ratio, Seed};
use selvedge_telemetry::{Sample, SampleKey, Wall};

use crate::files::{BEGIN, STEP, everything, open, scratch, without_window};
use crate::load::Load;

/// Rows of a port: slot and total of one counter.
type Rows = BTreeMap<(SampleKey, u64), u64>;

/// What must be found after a crash, and what may be.
#[derive(Default)]
struct Model {
    /// A flush said nothing against it.
    flushed: Rows,
    /// Taken since the last flush.
    pending: Rows,
    /// Taken, and then the process was killed.
    uncertain: Rows,
}

impl Model {
    fn push(&mut self, sample: &Sample) {
        self.pending.insert((sample.key, sample.slot.number), sample.totals[0]);
    }

    fn flush(&mut self) {
        self.flushed.append(&mut self.pending);
    }

    fn kill(&mut self) {
        self.uncertain.append(&mut self.pending);
    }

    fn known(&self, at: &(SampleKey, u64)) -> Option<&u64> {
        let all = [&self.flushed, &self.pending, &self.uncertain];
        all.into_iter().find_map(|rows| rows.get(at))
    }

    /// No slot twice, none that was flushed missing, none that was never pushed, and totals that never go back.
    fn check(&self, history: &History, context: &str) {
        let keys: BTreeSet<SampleKey> = self
            .flushed
            .keys()
            .chain(self.uncertain.keys())
            .map(|(key, _)| *key)
            .collect();
        let mut found = Rows::new();
        for key in keys {
            let series = history.series(&everything(key, 0)).unwrap();
            assert!(series.unread.is_empty(), "{context}: {:?}", series.unread);
            let mut total = 0;
            for point in series.points {
                let slot = point.point.moment.at_us / 30_000_000;
                let twice = found.insert((key, slot), point.point.total);
                assert_eq!(twice, None, "{context}: slot {slot} twice");
                assert!(point.point.total >= total, "{context}: {key} goes back");
                total = point.point.total;
            }
        }
        for (at, total) in &found {
            assert_eq!(self.known(at), Some(total), "{context}: {at:?}");
        }
        for (at, total) in &self.flushed {
            assert_eq!(found.get(at), Some(total), "{context}: {at:?} is lost");
        }
    }
}

fn check_resume(opened: &Opened, model: &Model, context: &str) {
    let mut last = BTreeMap::<SampleKey, (u64, u64)>::new();
    for ((key, slot), total) in &model.flushed {
        last.insert(*key, (*slot, *total));
    }
    for resume in &opened.resume {
        let sample = resume.sample(0, STEP);
        let (slot, total) = last[&resume.key];
        assert!((sample.slot.number, sample.totals[0]) >= (slot, total), "{context}");
        assert_eq!(
            sample.raw.unwrap()[0],
            sample.totals[0].wrapping_sub(1_000),
            "{context}"
        );
        last.remove(&resume.key);
    }
    assert!(last.is_empty(), "{context}: {} ports do not go on", last.len());
}

/// Runs until the process is killed; returns the slot after the last one that was pushed.
fn live(disk: &Arc<MemoryDisk>, model: &mut Model, load: &mut Load, mut slot: u64, context: &str) -> u64 {
    let Ok(opened) = History::open(Arc::clone(disk) as _, Path::new("h"), "fabric 1", without_window()) else {
        return slot;
    };
    let mut history = opened.history;
    loop {
        for sample in load.slot(slot) {
            model.push(&sample);
            history.push(&sample, STEP);
        }
        slot += 1;
        let notices = history.flush(Wall::from_secs(slot * 30));
        // A run that was killed cannot go on; what it says does not matter.
        if notices.iter().any(|notice| matches!(notice, Notice::Stopped { .. })) {
            return slot;
        }
        model.flush();
        if slot.is_multiple_of(40) {
            history.work();
            if disk_is_dead(disk) {
                return slot;
            }
            model.check(&history, context);
        }
    }
}

fn disk_is_dead(disk: &MemoryDisk) -> bool {
    use selvedge_history::Disk as _;
    disk.list().is_err()
}

#[test]
fn a_manager_that_is_killed_at_any_write_loses_the_slot_in_progress_at_most() {
    for seed in 0..300 {
        let mut rng = Seed(seed).child("crash").rng();
        let disk = Arc::<MemoryDisk>::default();
        let (mut model, mut load) = (Model::default(), Load::new(6, STEP, seed));
        let mut slot = BEGIN / 30 + rng.below(120);
        for life in 0..4 {
            let context = format!("seed {seed}, life {life}");
            // About 200 bytes a slot, 10,000 bytes an hour.
            disk.kill_after(rng.below(30_000));
            slot = live(&disk, &mut model, &mut load, slot, &context);
            assert!(disk.revive(), "{context}");
            model.kill();
            let opened = open(&disk);
            model.check(&opened.history, &context);
            check_resume(&opened, &model, &context);
            // The slot in progress is not taken up again by the next life: a gap, if the clock went on.
            slot += rng.below(3);
        }
    }
}

#[test]
fn a_disk_that_fails_now_and_then_loses_nothing() {
    for seed in 0..30 {
        let context = format!("seed {seed}");
        let disk = Arc::<MemoryDisk>::default();
        let (mut model, mut load) = (Model::default(), Load::new(6, STEP, seed));
        let mut history = open(&disk).history;
        let share = Ratio {
            numerator: 1,
            denominator: 6,
        };
        disk.set_trouble(Some((share, Seed(seed))));
        let begin = BEGIN / 30;
        let (mut stopped, mut resumed) = (0, 0);
        for slot in begin..begin + 500 {
            load.slot(slot).for_each(|sample| {
                model.push(&sample);
                history.push(&sample, STEP);
            });
            for notice in history.flush(Wall::from_secs(slot * 30)) {
                match notice {
                    Notice::Stopped { is_full, .. } => {
                        assert!(!is_full);
                        stopped += 1;
                    }
                    Notice::Resumed { lost_rows, .. } => {
                        assert_eq!(lost_rows, 0);
                        resumed += 1;
                    }
                    Notice::Unfinished { is_full, .. } => assert!(!is_full),
                    other => panic!("{context}: {other}"),
                }
            }
            history.work();
        }
        disk.set_trouble(None);
        for slot in begin + 500..begin + 510 {
            history.flush(Wall::from_secs(slot * 30));
            history.work();
        }
        assert!(stopped > 10 && resumed >= stopped - 1, "{context}: {stopped} {resumed}");
        assert!(history.stopped().is_none());
        model.flush();
        model.check(&history, &context);
        drop(history);
        let opened = open(&disk);
        assert_eq!(opened.notices, [], "{context}");
        model.check(&opened.history, &context);
    }
}

/// Environment variable that holds the folder for the child process, which is killed.
const CHILD: &str = "SELVEDGE_HISTORY_CHILD";
const LINES: u64 = 200;

fn child(path: &Path) {
    let files = Arc::new(Files::open(path).unwrap());
    let mut history = History::open(files, path, "fabric 1", without_window())
        .unwrap()
        .history;
    let mut load = Load::new(40, STEP, 9);
    for slot in BEGIN / 30.. {
        load.slot(slot).for_each(|sample| _ = history.push(&sample, STEP));
        assert_eq!(history.flush(Wall::from_secs(slot * 30)), []);
        println!("flushed {slot}");
        history.work();
    }
}

#[test]
fn a_process_that_is_killed_leaves_all_flushed_slots_in_its_folder() {
    use std::io::{BufRead as _, BufReader};
    if let Ok(path) = std::env::var(CHILD) {
        return child(Path::new(&path));
    }
    let path = scratch("killed");
    let name = "crash::a_process_that_is_killed_leaves_all_flushed_slots_in_its_folder";
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env(CHILD, &path)
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let flushed = lines
        .map_while(Result::ok)
        .filter_map(|line| line.strip_prefix("flushed ")?.parse::<u64>().ok());
    let last = flushed.take(LINES as usize).last().unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    let files = Arc::new(Files::open(&path).unwrap());
    let opened = History::open(files, &path, "fabric 1", without_window()).unwrap();
    let mut load = Load::new(40, STEP, 9);
    let mut model = Model::default();
    for slot in BEGIN / 30..=last {
        load.slot(slot).for_each(|sample| model.push(&sample));
    }
    model.flush();
    // The child went on until it was killed.
    for slot in last + 1..last + 100_000 {
        let newest = opened.newest()[0].1.at_us / 30_000_000;
        if slot > newest + 1 {
            break;
        }
        load.slot(slot).for_each(|sample| model.push(&sample));
    }
    model.check(&opened.history, "child");
    drop(opened);
    std::fs::remove_dir_all(path).unwrap();
}
