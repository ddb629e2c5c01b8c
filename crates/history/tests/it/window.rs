//! The hot window: what is pushed comes back, and memory is bounded.

use core::time::Duration;

use selvedge_history::{Config, History, MemoryDisk, Pushed, Question, Range};
use selvedge_telemetry::{Sample, Wall};
use std::path::Path;
use std::sync::Arc;

use crate::load::Load;

const SECOND: Duration = Duration::from_secs(1);

pub fn open(disk: &Arc<MemoryDisk>, config: Config) -> History {
    History::open(Arc::clone(disk) as _, Path::new("history"), "fabric 1", config)
        .unwrap()
        .history
}

fn question(sample: &Sample, counter: usize, (from, to): (u64, u64)) -> Question {
    Question {
        key: sample.key,
        counter,
        range: Range {
            from: Wall::from_secs(from),
            to: Wall::from_secs(to),
        },
        step: None,
    }
}

#[test]
fn every_sample_comes_back_with_its_rate() {
    let mut history = open(&Arc::default(), Config::default());
    let mut load = Load::new(72, SECOND, 1);
    let mut all: Vec<Vec<Sample>> = Vec::new();
    for slot in 5_000..5_500 {
        // A slot without samples: the driver was late.
        if slot == 5_100 {
            continue;
        }
        all.push(load.slot(slot).collect());
        for sample in all.last().unwrap() {
            assert_eq!(history.push(sample, SECOND), Pushed::Taken);
            assert_eq!(history.push(sample, SECOND), Pushed::Duplicate, "no slot twice");
        }
    }
    for (port, counter) in [(0, 0), (1, 0), (7, 20), (70, 2), (71, 9)] {
        let series = history.series(&question(&all[0][port], counter, (0, 9_999))).unwrap();
        assert_eq!(series.points.len(), 499);
        for (point, samples) in series.points.iter().zip(&all) {
            let sample = &samples[port];
            assert_eq!(point.point.total, sample.totals[counter]);
            assert_eq!(point.point.moment.at_us, sample.slot.number * 1_000_000);
        }
        for pair in series.points.windows(2) {
            let [a, b] = pair else { unreachable!("windows of 2") };
            let grown = b.point.total - a.point.total;
            assert_eq!(b.increase, Some(grown));
            let passed = b.point.moment.at_us - a.point.moment.at_us;
            let passed = passed as f64 + f64::from(b.point.offset_us) - f64::from(a.point.offset_us);
            assert!((b.per_second.unwrap() - grown as f64 * 1e6 / passed).abs() < 1e-3);
        }
        let gaps: Vec<_> = series.gaps.iter().map(|(a, b)| (a.at_us, b.at_us)).collect();
        assert_eq!(gaps, [(5_099_000_000, 5_101_000_000)]);
    }
    // A part of the range, and steps of 10 s: their growth adds up.
    let part = history.series(&question(&all[0][0], 0, (5_010, 5_020))).unwrap();
    assert_eq!(part.points.len(), 11);
    let mut asked = question(&all[0][0], 0, (5_000, 5_499));
    asked.step = Some(Duration::from_secs(10));
    let steps = history.series(&asked).unwrap();
    assert_eq!(steps.points.len(), 50);
    let grown: u64 = steps.points.iter().filter_map(|point| point.increase).sum();
    assert_eq!(grown, all[489][0].totals[0] - all[0][0].totals[0]);
}

#[test]
fn memory_is_bounded_by_age_and_by_bytes() {
    let fill = |config: Config| {
        let mut history = open(&Arc::default(), config);
        let mut load = Load::new(360, SECOND, 2);
        let mut most = 0;
        let mut last = None;
        for slot in 10_000..12_000 {
            for sample in load.slot(slot) {
                history.push(&sample, SECOND);
                last = Some(sample);
            }
            most = most.max(history.usage().window_bytes);
        }
        let series = history.series(&question(&last.unwrap(), 0, (11_000, 20_000))).unwrap();
        (most, history.usage().window_bytes, series.points.len())
    };
    let config = |age, bytes| Config {
        window_age: Duration::from_secs(age),
        window_bytes_max: bytes,
        // The history itself keeps an hour in memory; its rows are older than the range asked for.
        step: Duration::from_secs(100_000),
        ..Config::default()
    };
    let (most, bytes, points) = fill(config(300, usize::MAX));
    // Whole chunks of 120 rows go: 300 to 420 rows stay.
    assert!((300..=421).contains(&points), "{points}");
    assert!(most < 2 * bytes, "{most} {bytes}");
    let limit = bytes / 2;
    let (most, bytes, points) = fill(config(100_000, limit));
    // The bounds are looked at once a slot.
    assert!(bytes < limit + limit / 50, "{bytes} {limit}");
    assert!(most < limit + limit / 4, "{most} {limit}");
    assert!((60..300).contains(&points), "{points}");
}

#[test]
fn a_port_that_is_gone_frees_its_memory() {
    let config = Config {
        window_age: Duration::from_secs(60),
        ..Config::default()
    };
    let mut history = open(&Arc::default(), config);
    let mut load = Load::new(720, SECOND, 3);
    for sample in load.slot(1_000) {
        history.push(&sample, SECOND);
    }
    let before = history.usage().window_bytes;
    let mut few = Load::new(36, SECOND, 3);
    for slot in 1_001..1_500 {
        for sample in few.slot(slot) {
            history.push(&sample, SECOND);
        }
    }
    assert!(history.usage().window_bytes < before / 2);
}
