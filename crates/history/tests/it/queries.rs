//! Questions that span files, journals and memory, against what was pushed.

use core::time::Duration;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use selvedge_history::{Config, History, HistoryError, MemoryDisk, Question, Range, SeriesPoint};
use selvedge_sim::Seed;
use selvedge_telemetry::{Group, Metric, Sample, SampleKey, Wall};

use crate::files::{BEGIN, open, without_window};
use crate::load::Load;

const INTERVAL: Duration = Duration::from_secs(10);

/// Two hours and a half at 10 s, of which the last 20 minutes are in the window.
fn stored() -> (History, Vec<Sample>) {
    let config = Config {
        window_age: Duration::from_secs(1_200),
        ..Config::default()
    };
    let disk = Arc::<MemoryDisk>::default();
    let mut history = History::open(disk as _, Path::new("h"), "f", config).unwrap().history;
    let mut load = Load::new(90, INTERVAL, 3);
    let mut all = Vec::new();
    for slot in BEGIN / 10..BEGIN / 10 + 900 {
        for sample in load.slot(slot) {
            history.push(&sample, INTERVAL);
            all.push(sample);
        }
        assert_eq!(history.flush(Wall::from_secs(slot * 10)), []);
        history.work();
    }
    (history, all)
}

fn range(from: u64, to: u64) -> Range {
    Range {
        from: Wall::from_secs(from),
        to: Wall::from_secs(to),
    }
}

#[test]
fn answers_merge_memory_and_files_without_doubles() {
    let (history, all) = stored();
    assert_eq!(history.usage().files, 2);
    let mut rng = Seed(1).rng();
    let end = BEGIN + 9_000;
    // Whole chunks of 60 to 120 rows go: the window reaches back 20 to 40 minutes, not equally far for all ports.
    let dense_from = |key: SampleKey| {
        let points = history.series(&crate::files::everything(key, 0)).unwrap().points;
        let mut pairs = points.windows(2);
        let is_dense = |pair: &&[SeriesPoint]| pair[1].point.moment.at_us - pair[0].point.moment.at_us == 10_000_000;
        let from = pairs.find(is_dense).unwrap()[0].point.moment.at_us / 1_000_000;
        assert!((1_200..=2_500).contains(&(end - from)), "{}", end - from);
        from
    };
    for _ in 0..300 {
        let (a, b) = (BEGIN - 500 + rng.below(10_000), BEGIN - 500 + rng.below(10_000));
        let (from, to) = (a.min(b), a.max(b));
        let sample = &all[rng.below(90) as usize];
        let counter = rng.below(22) as usize;
        let asked = Question {
            key: sample.key,
            counter,
            range: range(from, to),
            step: None,
        };
        let series = history.series(&asked).unwrap();
        let dense_from = dense_from(asked.key);
        let found: Vec<_> = series
            .points
            .iter()
            .map(|p| (p.point.moment.at_us / 1_000_000, p.point.total))
            .collect();
        let want = all.iter().filter(|sample| sample.key == asked.key);
        let want = want.map(|sample| (sample.slot.number * 10, sample.totals[counter]));
        let want: Vec<_> = want
            .filter(|(at, _)| (from..=to).contains(at) && (at.is_multiple_of(30) || *at >= dense_from))
            .collect();
        assert_eq!(found, want, "{from} {to}");
        assert_eq!(series.gaps, [], "{from} {to}");
    }
}

#[test]
fn all_ports_of_a_slot_and_the_ports_that_grow_fastest() {
    let (history, all) = stored();
    let mut rng = Seed(2).rng();
    let totals: BTreeMap<(SampleKey, u64), &Sample> = all
        .iter()
        .map(|sample| ((sample.key, sample.slot.number * 10), sample))
        .collect();
    for _ in 0..40 {
        // Any slot of the history, and any of the last 20 minutes.
        let at = match rng.below(2) {
            0 => BEGIN + rng.below(250) * 30,
            _ => BEGIN + 7_800 + rng.below(120) * 10,
        };
        let slot = history.slot(Group::Extended, 0, range(at, at)).unwrap();
        assert_eq!(slot.ports.len(), 90);
        for (key, point) in &slot.ports {
            assert_eq!(point.total, totals[&(*key, at)].totals[0]);
        }
        let to = at + 30 * rng.below((BEGIN + 8_970 - at) / 30 + 1);
        if to == at {
            continue;
        }
        let top = history.top(Group::Extended, 2, range(at, to), 7).unwrap();
        let mut want: Vec<_> = totals
            .iter()
            .filter(|((_, when), _)| *when == at)
            .map(|((key, _), from)| {
                let to = totals[&(*key, to)];
                let passed = (to.slot.number - from.slot.number) * 10_000_000;
                let passed = passed as f64 + f64::from(to.offset_us) - f64::from(from.offset_us);
                let grown = to.totals[2] - from.totals[2];
                (grown as f64 * 1e6 / passed, *key, grown)
            })
            .collect();
        // Rows that did not change keep the offset of the row before them.
        want.sort_by(|a, b| b.0.total_cmp(&a.0));
        let growth = |rate: f64, other: f64| (rate - other).abs() <= other * 1e-3;
        assert_eq!(top.ports.len(), 7);
        for (mover, want) in top.ports.iter().zip(&want) {
            assert!(growth(mover.per_second, want.0), "{mover:?} {want:?}");
        }
    }
}

#[test]
fn a_metric_is_found_in_the_group_that_has_it() {
    let disk = Arc::<MemoryDisk>::default();
    let mut history = open(&disk).history;
    let mut sample = Load::new(1, INTERVAL, 1).slot(BEGIN / 10).next().unwrap();
    let node = sample.key.node;
    let find = |history: &History, metric| history.find(node, 1, metric).map(|(key, place)| (key.group, place));
    assert_eq!(find(&history, Metric::XmitWait), None);
    sample.key.group = Group::Base;
    sample.known = Group::Base.mask();
    history.push(&sample, INTERVAL);
    let base = Group::Base.place(Metric::XmitWait).unwrap();
    assert_eq!(find(&history, Metric::XmitWait), Some((Group::Base, base)));
    // A port without a counter there has it in the narrow group.
    sample.key.group = Group::Extended;
    sample.known = 1;
    history.push(&sample, INTERVAL);
    assert_eq!(find(&history, Metric::XmitWait), Some((Group::Base, base)));
    assert_eq!(find(&history, Metric::XmitData), Some((Group::Extended, 0)));
    let wrong = history.slot(Group::RcvErrors, 6, range(0, 1)).unwrap_err();
    assert!(matches!(wrong, HistoryError::NoCounter { counter: 6, .. }), "{wrong}");
    assert!(wrong.to_string().contains("has 6 counters"), "{wrong}");
}

#[test]
fn counters_without_a_value_stay_without_one() {
    let disk = Arc::<MemoryDisk>::default();
    let mut history = History::open(Arc::clone(&disk) as _, Path::new("h"), "f", without_window())
        .unwrap()
        .history;
    let mut load = Load::new(3, INTERVAL, 1);
    let mut keys = Vec::new();
    for slot in BEGIN / 10..BEGIN / 10 + 730 {
        for (i, mut sample) in load.slot(slot).enumerate() {
            sample.known = [0b1, 0b10, 0][i];
            history.push(&sample, INTERVAL);
            keys.push(sample.key);
        }
        history.flush(Wall::from_secs(slot * 10));
        history.work();
    }
    keys.truncate(3);
    let counts = |counter| {
        let count = |key: &SampleKey| {
            history
                .series(&crate::files::everything(*key, counter))
                .unwrap()
                .points
                .len()
        };
        keys.iter().map(count).collect::<Vec<_>>()
    };
    assert_eq!(
        (counts(0), counts(1), counts(2)),
        (vec![244, 0, 0], vec![0, 244, 0], vec![0; 3])
    );
    assert_eq!(
        history
            .slot(Group::Extended, 1, range(BEGIN, BEGIN + 9_000))
            .unwrap()
            .ports
            .len(),
        1
    );
}
