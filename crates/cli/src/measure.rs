//! Routes, judges and measures: what `route` and `compare` do for every engine.

use std::fs;
use std::time::Instant;

use clap::Args;
use indicatif::ProgressBar;
use selvedge_api::{Cost, Quality};
use selvedge_fabric::Fabric;
use selvedge_plan::{Lids, SlToVl};
use selvedge_routing::{Engine, EngineError, FatTree, Note, Options, Rebalance, Routed};
use selvedge_sim::{Par, Seed};
use selvedge_verify::{
    Contention, ContentionOptions, JudgeOptions, Kind, Refusal, Subject, Verdict, contention, verify,
};

use crate::args::{PAIRINGS_MAX, THREADS_MAX};
use crate::exit::CliError;
use crate::out::note;

/// Findings listed of each kind and severity; all are counted. A search for a witness each would cost more than the
/// proof where tops of a tree do not reach each other.
const FINDINGS_MAX: usize = 10;

/// How to measure.
#[derive(Args, Clone, Copy, Debug)]
pub struct MeasureArgs {
    /// Threads to use; 0: as many as there are cores
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u16).range(0..=THREADS_MAX))]
    threads: u16,
    /// Random pairings for the effective bisection bandwidth
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    #[arg(value_parser = clap::value_parser!(u32).range(0..=PAIRINGS_MAX))]
    pairings: u32,
    /// Leave shifts, pairings and stretch out: on large fabrics they take longer than the proof
    #[arg(long)]
    no_contention: bool,
}

/// Lasting for a whole command: threads are started once.
#[derive(Clone, Copy, Debug)]
pub struct Measure {
    par: Par,
    threads: usize,
    contention: Option<ContentionOptions>,
}

/// A fabric to route.
#[derive(Clone, Copy)]
pub struct Asked<'a> {
    /// The fabric.
    pub fabric: &'a Fabric,
    /// Its LIDs.
    pub lids: &'a Lids,
    /// How.
    pub options: &'a Options,
    /// Warm runs beside the first.
    pub repeats: u32,
}

/// What came of it.
pub struct Measured {
    /// Tables and lanes.
    pub routed: Routed,
    /// Lane maps.
    pub sl_to_vl: SlToVl,
    /// What the judge says.
    pub verdict: Verdict,
    /// How traffic shares links.
    pub contention: Option<Contention>,
    /// Times and memory.
    pub cost: Cost,
}

impl MeasureArgs {
    /// Starts the threads.
    pub fn start(self) -> Result<Measure, CliError> {
        let par = if self.threads == 1 { Par::Sequential } else { Par::Rayon };
        let pool = rayon::ThreadPoolBuilder::new().num_threads(usize::from(self.threads));
        if let Err(cause) = pool.build_global() {
            let what = format!("--threads {}: {cause}", self.threads);
            return Err(CliError::Usage { what });
        }
        Ok(Measure {
            par,
            threads: if self.threads == 1 {
                1
            } else {
                rayon::current_num_threads()
            },
            contention: (!self.no_contention).then(|| ContentionOptions {
                par,
                pairings: self.pairings,
                ..ContentionOptions::default()
            }),
        })
    }
}

impl Measure {
    /// Routes with the first engine of a list that neither refuses nor is refused by the judge. The last one's tables
    /// are given even if the judge refuses them.
    pub fn first_of(self, engines: &[Engine], asked: Asked<'_>, bar: &ProgressBar) -> Result<Measured, CliError> {
        let mut notes = Vec::new();
        for (i, &engine) in engines.iter().enumerate() {
            let is_last = i + 1 == engines.len();
            let why = match self.one(engine, asked, bar) {
                Ok(mut measured) if is_last || measured.verdict.is_ok() => {
                    notes.append(&mut measured.routed.notes);
                    measured.routed.notes = notes;
                    return Ok(measured);
                }
                Ok(Measured { verdict, .. }) => Refusal { verdict }.to_string(),
                Err(error) if is_last => {
                    bar.finish_and_clear();
                    notes.iter().for_each(|of| note(format!("note: {of}")));
                    return Err(error.into());
                }
                Err(error) => error.to_string(),
            };
            notes.push(Note::Refused { engine, why });
        }
        let what = "no engine is named".to_owned();
        Err(CliError::Usage { what })
    }

    /// Routes with one engine, judges, measures.
    pub fn one(self, engine: Engine, asked: Asked<'_>, bar: &ProgressBar) -> Result<Measured, EngineError> {
        let Asked {
            fabric, lids, options, ..
        } = asked;
        bar.set_message(format!("{}: routing", engine.name()));
        bar.tick();
        let start = Instant::now();
        let routed = engine.route(fabric, lids, options, Seed(0), self.par)?;
        let mut cost = Cost {
            threads: self.threads as u64,
            cold_ms: ms(start),
            ..Cost::default()
        };
        self.warm(&routed, asked, &mut cost)?;
        cost.compute_peak_rss_bytes = peak_rss_bytes();
        bar.set_message(format!("{}: judging", engine.name()));
        bar.tick();
        let sl_to_vl = SlToVl::modulo(routed.lanes);
        let subject = Subject::tables(fabric, lids, &routed.tables, &routed.service_levels, &sl_to_vl);
        let judge = JudgeOptions {
            par: self.par,
            findings_max: FINDINGS_MAX,
            ..JudgeOptions::default()
        };
        let start = Instant::now();
        let verdict = verify(subject, &judge);
        cost.verify_ms = ms(start);
        bar.set_message(format!("{}: contention", engine.name()));
        bar.tick();
        let start = Instant::now();
        let found = self.contention.map(|options| contention(subject, &options));
        cost.contention_ms = found.is_some().then(|| ms(start));
        cost.peak_rss_bytes = peak_rss_bytes();
        Ok(Measured {
            routed,
            sl_to_vl,
            verdict,
            contention: found,
            cost,
        })
    }

    /// Times runs after the first, of the engine that made the tables. A tree is detected apart, and its formula fills
    /// tables whose memory is in place.
    fn warm(self, routed: &Routed, asked: Asked<'_>, cost: &mut Cost) -> Result<(), EngineError> {
        let Asked {
            fabric,
            lids,
            options,
            repeats,
        } = asked;
        cost.repeats = repeats;
        cost.compute_ms = cost.cold_ms;
        let engine = Engine::try_from(&routed.engine)?;
        if engine == Engine::FatTree {
            let detect = || FatTree::detect(fabric, &options.fat_tree, self.par);
            let (tree, detect_ms) = timed(repeats.max(1), detect);
            cost.detect_ms = Some(detect_ms);
            let tree = tree?;
            let mut tables = routed.tables.clone();
            let fill = || match options.rebalance {
                Rebalance::Minimal => tree.fill(lids, &mut tables, self.par),
                Rebalance::Full => {
                    tree.fill(lids, &mut tables, self.par)?;
                    tree.spread(lids, &mut tables)
                }
            };
            let (filled, fill_ms) = timed(repeats.max(1), fill);
            filled?;
            // Where the engine does more than this, its whole run counts.
            if tables == routed.tables {
                cost.compute_ms = fill_ms;
                cost.repeats = repeats.max(1);
                return Ok(());
            }
        }
        if repeats > 0 {
            let (again, median) = timed(repeats, || engine.route(fabric, lids, options, Seed(0), self.par));
            again?;
            cost.compute_ms = median;
        }
        Ok(())
    }
}

impl Measured {
    /// The judge's figures in short.
    pub fn quality(&self) -> Quality {
        let figures = &self.verdict.figures;
        let cycles = [Kind::HostCycle, Kind::AgentCycle].map(|kind| self.verdict.count_of(kind));
        let lanes = figures.lanes.iter().filter(|lane| lane.load.max > 0).count();
        let found = self.contention.as_ref();
        let ebb = found.map(|c| c.bisection).filter(|bisection| bisection.pairings > 0);
        Quality {
            max_load: figures.load.max,
            mean_load: figures.load.mean,
            sd_load: figures.load.sd,
            mean_hops: figures.hops_mean,
            max_hops: figures.hops_max,
            lanes_used: u8::try_from(lanes.max(1)).unwrap_or(u8::MAX),
            deadlock_free: cycles.iter().sum::<u64>() == 0,
            unreachable_pairs: figures.host_pairs.saturating_sub(figures.host_pairs_reached),
            dependencies: figures.lanes.iter().map(|lane| lane.dependencies).sum(),
            dependency_channels: figures.lanes.iter().map(|lane| lane.channels).sum(),
            shift_max: found.map(|c| c.shift.max),
            shift_mean: found.map(|c| c.shift.mean),
            ebb: ebb.map(|bisection| bisection.mean),
            ebb_low: ebb.map(|bisection| bisection.low),
            ebb_high: ebb.map(|bisection| bisection.high),
            stretch_mean: found.map(|c| c.stretch.mean),
            stretch_max: found.map(|c| c.stretch.max),
        }
    }
}

/// The last of `times` results, and the median time of one in milliseconds.
fn timed<T>(times: u32, mut run: impl FnMut() -> T) -> (T, f64) {
    let mut all = Vec::new();
    let mut once = || {
        let start = Instant::now();
        let result = run();
        all.push(ms(start));
        result
    };
    let mut last = once();
    for _ in 1..times {
        last = once();
    }
    (last, median(&mut all))
}

/// Middle of values; of an even number the mean of both; 0 of none.
pub fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    match (values.len(), values.len() / 2) {
        (0, _) => 0.0,
        (count, half) if count.is_multiple_of(2) => f64::midpoint(values[half - 1], values[half]),
        (_, half) => values[half],
    }
}

fn ms(start: Instant) -> f64 {
    start.elapsed().as_secs_f64() * 1e3
}

/// Highest resident memory of this process so far, where the system tells (Linux: VmHWM).
pub fn peak_rss_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        let check = |values: &[f64], want: f64| assert_eq!(median(&mut values.to_vec()), want);
        check(&[], 0.0);
        check(&[3.0], 3.0);
        check(&[9.0, 1.0, 2.0], 2.0);
        check(&[4.0, 1.0, 2.0, 9.0], 3.0);
    }
}
