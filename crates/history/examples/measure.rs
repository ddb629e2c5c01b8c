//! Measures a history of many ports: time of a slot, bytes of a value, time of an hour's file, times of questions.
//!
//! ```text
//! cargo run --example measure -- PORTS INTERVAL_S STEP_S MINUTES FOLDER
//! ```
//! Half of the ports move in each slot, the others now and then. Times are those that the thread had a CPU, so that
//! they do not depend on what else runs. The folder stays, for `ask_duckdb.py` beside this file.

use core::time::Duration;
use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use selvedge_history::{Config, Disk as _, Files, History, Question, Range};
use selvedge_telemetry::{Group, Sample, Wall};

/// Clocks that are set back are for tests.
#[allow(dead_code)]
#[path = "../tests/it/load.rs"]
mod load;

/// A full hour.
const BEGIN: u64 = 1_795_932_000;
const COUNTERS: f64 = 22.0;
const REPEATS: u32 = 50;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [ports, interval, step, minutes, folder] = &arguments[..] else {
        return Err("usage: measure PORTS INTERVAL_S STEP_S MINUTES FOLDER".into());
    };
    let (ports, interval): (u64, u64) = (ports.parse()?, interval.parse()?);
    let (step, minutes): (u64, u64) = (step.parse()?, minutes.parse()?);
    let folder = Path::new(folder);
    let config = Config {
        step: Duration::from_secs(step),
        ..Config::default()
    };
    println!("{ports} ports, every {interval} s, stored every {step} s, {minutes} minutes, 22 counters a port");
    let files = Arc::new(Files::open(folder)?);
    let mut history = History::open(Arc::clone(&files) as _, folder, "measured", config.clone())?.history;
    let every = Duration::from_secs(interval);
    let mut load = load::Load::new(ports, every, 38);
    let first = load.slot(0).next().ok_or("no port")?;
    fill(&mut history, &mut load, every, minutes);
    let usage = history.usage();
    println!(
        "window: {:.1} MB, {:.2} bytes a value",
        usage.window_bytes as f64 / 1e6,
        usage.window_bytes as f64 / (usage.window_rows as f64 * COUNTERS)
    );
    println!("hour in progress: {:.1} MB in memory", usage.hour_bytes as f64 / 1e6);
    for (name, bytes) in files.list()? {
        println!("  {name}: {bytes} bytes");
    }
    let (hours, bytes) = (usage.files as f64, usage.files_bytes as f64);
    let values = hours * 3_600.0 / step as f64 * ports as f64 * COUNTERS;
    println!(
        "files: {:.2} bytes a value, {:.1} MB a day",
        bytes / values,
        bytes / hours * 24.0 / 1e6
    );
    drop(history);
    ask(folder, files, config, minutes, &first)
}

/// Time that this thread had a CPU. Source: Linux, Documentation/scheduler/sched-stats.rst, first field.
fn busy() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    Duration::from_nanos(text.split(' ').next().and_then(|field| field.parse().ok()).unwrap_or(0))
}

fn fill(history: &mut History, load: &mut load::Load, every: Duration, minutes: u64) {
    let interval = every.as_secs();
    let (mut pushes, mut flushes, mut jobs) = (Vec::new(), Vec::new(), Vec::new());
    for slot in BEGIN / interval..(BEGIN + minutes * 60) / interval {
        let samples: Vec<_> = load.slot(slot).collect();
        let begin = busy();
        for sample in &samples {
            history.push(sample, every);
        }
        pushes.push(busy() - begin);
        let begin = busy();
        for notice in history.flush(Wall::from_secs(slot * interval)) {
            println!("{notice}");
        }
        flushes.push(busy() - begin);
        while let Some(job) = history.job() {
            let begin = busy();
            let done = job.run();
            jobs.push(busy() - begin);
            history.done(done);
        }
    }
    show("push of a slot", &mut pushes);
    show("flush of a slot", &mut flushes);
    show("an hour to Parquet", &mut jobs);
}

fn show(what: &str, times: &mut [Duration]) {
    times.sort();
    if let (Some(least), Some(most)) = (times.first(), times.last()) {
        let middle = times[times.len() / 2];
        println!(
            "{what}: {middle:.1?} (median of {}), {least:.1?} to {most:.1?}",
            times.len()
        );
    }
}

/// Asks what is in the files only: the window of a new start is empty.
fn ask(folder: &Path, files: Arc<Files>, config: Config, minutes: u64, port: &Sample) -> Result<(), Box<dyn Error>> {
    let begin = busy();
    let history = History::open(files, folder, "measured", config)?.history;
    println!("start: {:.1?}", busy() - begin);
    let range = |from: u64, to: u64| Range {
        from: Wall::from_secs(from),
        to: Wall::from_secs(to),
    };
    let whole = range(BEGIN, BEGIN + minutes * 60);
    let at = BEGIN + 1_800;
    for _ in 0..3 {
        let begin = busy();
        let question = Question {
            key: port.key,
            counter: 0,
            range: whole,
            step: None,
        };
        let mut points = 0;
        // The clock of a thread is too coarse for one question.
        for _ in 0..REPEATS {
            points = history.series(&question)?.points.len();
        }
        println!("one port: {:.2?}, {points} points", (busy() - begin) / REPEATS);
        let begin = busy();
        let slot = history.slot(Group::Extended, 0, range(at, at))?;
        println!(
            "all ports, one slot: {:.2?}, {} ports",
            busy() - begin,
            slot.ports.len()
        );
        let begin = busy();
        let top = history.top(Group::Extended, 0, range(BEGIN, BEGIN + 3_599), 10)?;
        let sum: u64 = top.ports.iter().map(|mover| mover.increase).sum();
        println!("top 10 of an hour: {:.2?}, {sum} words together", busy() - begin);
    }
    Ok(())
}
