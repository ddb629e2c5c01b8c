//! The tables of an engine, the judge's verdict on them, and the time that they take.

use std::sync::Arc;

use selvedge_api::{Cost, Quality};
use selvedge_fabric::Fabric;
use selvedge_plan::{Lids, SlToVl};
use selvedge_routing::{Engine, EngineError, FatTree, Note, Options, Rebalance, Routed};
use selvedge_sim::Seed;
use selvedge_verify::{
    Contention, ContentionOptions, JudgeOptions, Kind, Refusal, Subject, Verdict, contention, verify,
};

use crate::error::StudyError;
use crate::meter::{Meter, ms_since, timed};
use crate::threads::Threads;
use crate::watch::{Reporter, Stage, Watch};

pub use crate::meter::median;

/// Largest number of findings that are listed of each kind and severity. All findings are counted. If the top switches
/// of a tree do not reach each other, there are so many findings that the search for a witness of each would take
/// longer than the proof.
const FINDINGS_MAX: usize = 10;

/// Number of random pairings, if the caller does not state one.
pub const PAIRINGS: u32 = 1_000;

/// Which tables does the first suitable engine make?
#[derive(Clone, Debug)]
pub struct Question {
    /// The fabric.
    pub fabric: Arc<Fabric>,
    /// LIDs of the fabric.
    pub lids: Arc<Lids>,
    /// Engines in order of preference: the next is tried where one refuses, or the judge refuses its tables.
    pub engines: Vec<Engine>,
    /// Options of the engines.
    pub options: Options,
    /// The measurements to make.
    pub how: How,
}

/// The measurements to make for each routing.
#[derive(Clone, Copy, Debug)]
pub struct How {
    /// Threads to use.
    pub threads: Threads,
    /// Warm runs after the first; with 0 the first run's time counts.
    pub repeats: u32,
    /// Random pairings for the effective bisection bandwidth; `None`: shifts, pairings and stretch are not measured.
    pub pairings: Option<u32>,
}

/// Tables of one engine, judged and measured.
#[derive(Debug)]
pub struct Answer {
    /// Tables and lanes. Its notes begin with the refusals of the engines before.
    pub routed: Routed,
    /// Lane maps.
    pub sl_to_vl: SlToVl,
    /// The judge's verdict.
    pub verdict: Verdict,
    /// How traffic shares links; `None` if the question does not ask for it.
    pub contention: Option<Contention>,
    /// Times and memory.
    pub cost: Cost,
}

impl Default for How {
    /// Returns the default: one thread, the first run, [`PAIRINGS`] pairings.
    fn default() -> Self {
        Self {
            threads: Threads::ONE,
            repeats: 0,
            pairings: Some(PAIRINGS),
        }
    }
}

impl Question {
    /// Routes with the first engine that accepts the fabric and makes tables that the judge accepts. If no engine
    /// remains, the answer has the tables of the last one, even if the judge refuses them. A unit of work is an engine.
    ///
    /// # Errors
    ///
    /// The study is cancelled, no engine is named, or the last engine refuses the fabric.
    pub fn answer(&self, meter: &dyn Meter, watch: &dyn Watch) -> Result<Answer, StudyError> {
        let first = *self.engines.first().ok_or(StudyError::NoEngine)?;
        let reporter = Reporter::new(watch, Stage::Routing(first), self.engines.len() as u64);
        let bench = Bench {
            fabric: &self.fabric,
            lids: &self.lids,
            options: &self.options,
            how: self.how,
            meter,
        };
        let mut notes = Vec::new();
        for (i, &engine) in self.engines.iter().enumerate() {
            let is_last = i + 1 == self.engines.len();
            let why = match bench.one(engine, &reporter) {
                Ok(mut answer) if is_last || answer.verdict.is_ok() => {
                    notes.append(&mut answer.routed.notes);
                    answer.routed.notes = notes;
                    (i..self.engines.len()).for_each(|_| reporter.done());
                    return Ok(answer);
                }
                Ok(Answer { verdict, .. }) => Refusal { verdict }.to_string(),
                Err(StudyError::Engine(cause)) if is_last => return Err(StudyError::Refused { cause, notes }),
                Err(StudyError::Engine(cause)) => cause.to_string(),
                Err(other) => return Err(other),
            };
            notes.push(Note::Refused { engine, why });
            reporter.done();
        }
        Err(StudyError::NoEngine)
    }
}

/// A fabric to route and measure, with one engine after another.
pub(crate) struct Bench<'a> {
    pub(crate) fabric: &'a Fabric,
    pub(crate) lids: &'a Lids,
    pub(crate) options: &'a Options,
    pub(crate) how: How,
    pub(crate) meter: &'a dyn Meter,
}

impl Bench<'_> {
    /// Routes with one engine, has the tables judged, and measures them.
    pub(crate) fn one(&self, engine: Engine, reporter: &Reporter<'_>) -> Result<Answer, StudyError> {
        let (meter, par) = (self.meter, self.how.threads.par());
        reporter.begin(Stage::Routing(engine))?;
        let start = meter.now();
        let routed = engine.route(self.fabric, self.lids, self.options, Seed(0), par)?;
        let mut cost = Cost {
            threads: self.how.threads.count() as u64,
            cold_ms: ms_since(meter, start),
            ..Cost::default()
        };
        self.warm(&routed, &mut cost)?;
        cost.compute_peak_rss_bytes = meter.peak_rss_bytes();
        reporter.begin(Stage::Judging(engine))?;
        let sl_to_vl = SlToVl::modulo(routed.lanes);
        let subject = Subject::tables(
            self.fabric,
            self.lids,
            &routed.tables,
            &routed.service_levels,
            &sl_to_vl,
        );
        let judge = JudgeOptions {
            par,
            findings_max: FINDINGS_MAX,
            ..JudgeOptions::default()
        };
        let start = meter.now();
        let verdict = verify(subject, &judge);
        cost.verify_ms = ms_since(meter, start);
        reporter.begin(Stage::Contention(engine))?;
        let start = meter.now();
        let found = self.how.pairings.map(|pairings| {
            let options = ContentionOptions {
                par,
                pairings,
                ..ContentionOptions::default()
            };
            contention(subject, &options)
        });
        cost.contention_ms = found.is_some().then(|| ms_since(meter, start));
        cost.peak_rss_bytes = meter.peak_rss_bytes();
        Ok(Answer {
            routed,
            sl_to_vl,
            verdict,
            contention: found,
            cost,
        })
    }

    /// Measures the runs after the first one, with the engine that made the tables. For `fat-tree`, the detection of
    /// the tree is measured separately, and tables are filled into memory that is already allocated.
    fn warm(&self, routed: &Routed, cost: &mut Cost) -> Result<(), EngineError> {
        let Self {
            fabric,
            lids,
            options,
            meter,
            ..
        } = *self;
        let (repeats, par) = (self.how.repeats, self.how.threads.par());
        cost.repeats = repeats;
        cost.compute_ms = cost.cold_ms;
        let engine = Engine::try_from(&routed.engine)?;
        if engine == Engine::FatTree {
            let detect = || FatTree::detect(fabric, &options.fat_tree, par);
            let (tree, detect_ms) = timed(meter, repeats.max(1), detect);
            cost.detect_ms = Some(detect_ms);
            let tree = tree?;
            let mut tables = routed.tables.clone();
            let fill = || match options.rebalance {
                Rebalance::Minimal => tree.fill(lids, &mut tables, par),
                Rebalance::Full => {
                    tree.fill(lids, &mut tables, par)?;
                    tree.spread(lids, &mut tables, par)
                }
            };
            let (filled, fill_ms) = timed(meter, repeats.max(1), fill);
            filled?;
            // Where the engine does more than this, its whole run counts.
            if tables == routed.tables {
                cost.compute_ms = fill_ms;
                cost.repeats = repeats.max(1);
                return Ok(());
            }
        }
        if repeats > 0 {
            let (again, median) = timed(meter, repeats, || engine.route(fabric, lids, options, Seed(0), par));
            again?;
            cost.compute_ms = median;
        }
        Ok(())
    }
}

impl Answer {
    /// Returns the judge's figures in short.
    #[must_use]
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meter::tests::Ticking;
    use crate::testing::{fabric, lids};
    use crate::watch::NoWatch;
    use crate::watch::tests::Recorded;

    fn question(spec: &str, engines: &[Engine]) -> Question {
        let fabric = fabric(spec);
        Question {
            lids: Arc::new(lids(&fabric)),
            fabric: Arc::new(fabric),
            engines: engines.to_vec(),
            options: Options::default(),
            how: How {
                threads: Threads::ONE,
                repeats: 0,
                pairings: Some(10),
            },
        }
    }

    #[test]
    fn the_next_engine_is_tried_where_one_refuses() {
        let watch = Recorded::default();
        let asked = question(
            "ring:switches=5,hosts=1",
            &[Engine::FatTree, Engine::MinHop, Engine::UpDn],
        );
        let answer = asked.answer(&Ticking::default(), &watch).unwrap();
        assert_eq!(answer.routed.engine.0, "updn");
        let refused: Vec<_> = answer
            .routed
            .notes
            .iter()
            .filter(|note| matches!(note, Note::Refused { .. }))
            .collect();
        assert_eq!(refused.len(), 2, "the engine's refusal, then the judge's: {refused:?}");
        assert!(answer.quality().deadlock_free);
        assert_eq!((answer.cost.cold_ms, answer.cost.verify_ms), (1.0, 1.0));
        assert_eq!(answer.cost.peak_rss_bytes, Some(4_096));
        assert_eq!(
            watch.whole_way(),
            [
                "fat-tree: routing",
                "minhop: routing",
                "minhop: judging",
                "minhop: contention",
                "updn: routing",
                "updn: judging",
                "updn: contention",
            ]
        );
    }

    #[test]
    fn if_all_refuse_the_last_reason_counts() {
        let asked = question("ring:switches=5,hosts=1", &[Engine::FatTree, Engine::Ftree]);
        let error = asked.answer(&Ticking::default(), &NoWatch).unwrap_err();
        let StudyError::Refused { cause, notes } = &error else {
            panic!("{error:?}")
        };
        assert_eq!(error.to_string(), cause.to_string());
        assert!(
            matches!(
                notes[..],
                [Note::Refused {
                    engine: Engine::FatTree,
                    ..
                }]
            ),
            "{notes:?}"
        );
        let none = question("ring:switches=5,hosts=1", &[]);
        assert_eq!(
            none.answer(&Ticking::default(), &NoWatch).unwrap_err(),
            StudyError::NoEngine
        );
    }

    #[test]
    fn a_cancelled_measurement_has_no_answer() {
        let engines = [Engine::FatTree, Engine::UpDn];
        for units in 0..2 {
            let watch = Recorded::cancelling_at(units);
            let asked = question("ring:switches=5,hosts=1", &engines);
            assert_eq!(
                asked.answer(&Ticking::default(), &watch).unwrap_err(),
                StudyError::Cancelled
            );
            assert!(watch.reports().iter().all(|report| report.done <= units));
        }
    }
}
