//! How engines compare on one fabric: whole, and with links lost by chance.

use std::sync::Arc;

use selvedge_api::{Comparison, ComparisonRow, ComparisonRun};
use selvedge_fabric::{Fabric, PortRef};
use selvedge_plan::{Lids, Policy, ServiceLevels, SlToVl, Tables};
use selvedge_planner::{PlanEvent, lid};
use selvedge_routing::{Engine, FatTree, LaneUse, Options, Rebalance, TreeMender, carry_over};
use selvedge_sim::{Par, Seed};
use selvedge_topology::{LinkRemoval, Summary, without_links};
use selvedge_types::Lmc;
use selvedge_verify::{JudgeOptions, Subject, verify};

use crate::error::StudyError;
use crate::measure::{Answer as Measured, Bench, How, median};
use crate::meter::Meter;
use crate::watch::{Reporter, Stage, Watch};

/// How do engines compare on a fabric?
#[derive(Clone, Debug)]
pub struct Question {
    /// Name of the fabric in the answer.
    pub name: String,
    /// The whole fabric.
    pub fabric: Arc<Fabric>,
    /// Engines to compare.
    pub engines: Vec<Engine>,
    /// Data lanes to allow, each in turn, for the engines that can use several; empty: each engine's own default.
    pub lanes: Vec<u8>,
    /// Levels of lost links. The whole fabric comes first in any case; a level that loses none is left out.
    pub levels: Vec<Level>,
    /// Seeds of the lost links: a draw for each level and seed.
    pub seeds: Vec<u64>,
    /// Options of the engines. With [`Rebalance::Minimal`], `fat-tree` knows the whole fabric as a manager does.
    pub options: Options,
    /// LIDs per end port, as a power of two.
    pub lmc: Lmc,
    /// The measures of each table.
    pub how: How,
}

/// Links between switches that are lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Level {
    /// Name of the level in the answer.
    pub name: String,
    /// Number or share of the links.
    pub removal: LinkRemoval,
}

/// The results of every engine on every draw of lost links.
#[derive(Debug, Default)]
pub struct Answer {
    /// Each run, and a row for the runs that have engine, lanes and level in common.
    pub comparison: Comparison,
    /// Warnings from assigning LIDs, for each draw in order.
    pub events: Vec<Vec<PlanEvent>>,
}

impl Question {
    /// Routes the fabric with each engine after each random draw of lost links, has the tables judged, and measures
    /// them. Progress counts pairs of engine and draw.
    ///
    /// # Errors
    ///
    /// The study is cancelled, no engine or no seed is named, a level loses more links than there are, or the LIDs do
    /// not suffice. An engine that refuses a draw is part of the answer.
    pub fn answer(&self, meter: &dyn Meter, watch: &dyn Watch) -> Result<Answer, StudyError> {
        let work = self.work()?;
        let first = *self.engines.first().ok_or(StudyError::NoEngine)?;
        let draws: u64 = work.levels.iter().map(|(_, seeds)| seeds.len() as u64).sum();
        let reporter = Reporter::new(watch, Stage::Routing(first), draws * work.series.len() as u64);
        let mut found = Found::default();
        for (level, seeds) in &work.levels {
            for &seed in *seeds {
                self.draw(&work, (level, seed), meter, &reporter, &mut found)?;
            }
        }
        let mut answer = found.answer;
        let runs = std::mem::take(&mut answer.comparison.runs);
        answer.comparison = self.comparison(&work, runs);
        Ok(answer)
    }

    /// Refuses levels that lose more links than the fabric has, without measuring anything.
    ///
    /// # Errors
    ///
    /// No seed is named, or a level loses more links than there are.
    pub fn check(&self) -> Result<(), StudyError> {
        self.work().map(drop)
    }

    fn work(&self) -> Result<Work<'_>, StudyError> {
        let first_seed = self.seeds.get(..1).ok_or(StudyError::NoSeed)?;
        let mut series = Vec::new();
        for &engine in &self.engines {
            if self.lanes.is_empty() || engine.lanes() == LaneUse::One {
                series.push((engine, None));
            } else {
                series.extend(self.lanes.iter().map(|&lanes| (engine, Some(lanes))));
            }
        }
        let whole = Level {
            name: "0".to_owned(),
            removal: LinkRemoval::Count(0),
        };
        let mut levels = vec![(whole, first_seed)];
        let loses_some = |level: &&Level| !matches!(level.removal, LinkRemoval::Count(0) | LinkRemoval::PerMillion(0));
        let damaged = self.levels.iter().filter(loses_some);
        levels.extend(damaged.map(|level| (level.clone(), &self.seeds[..])));
        for (level, _) in &levels {
            // Impossible damage is refused before the first measurement.
            self.damaged(level, first_seed[0])?;
        }
        let mut options = self.options.clone();
        if options.rebalance == Rebalance::Minimal {
            // What a manager that saw the fabric whole knows.
            options.fat_tree.nominal = Some(self.fabric.clone());
        }
        Ok(Work {
            options,
            series,
            levels,
        })
    }

    /// Returns the fabric without the links that the seed draws.
    fn damaged(&self, level: &Level, seed: u64) -> Result<Fabric, StudyError> {
        without_links(&self.fabric, level.removal, Seed(seed)).map_err(|cause| StudyError::Damage {
            level: level.name.clone(),
            cause,
        })
    }

    /// Compares all engines on one draw of lost links, one after another.
    fn draw(
        &self,
        work: &Work<'_>,
        (level, seed): (&Level, u64),
        meter: &dyn Meter,
        reporter: &Reporter<'_>,
        found: &mut Found,
    ) -> Result<(), StudyError> {
        let fabric = self.damaged(level, seed)?;
        let mut events = Vec::new();
        let lids = self.lids(&fabric, &mut events)?;
        found.answer.events.push(events);
        let links_lost = switch_links(&self.fabric) - switch_links(&fabric);
        for (series, &(engine, vls)) in work.series.iter().enumerate() {
            let options = Options {
                lanes: vls,
                ..work.options.clone()
            };
            let bench = Bench {
                fabric: &fabric,
                lids: &lids,
                options: &options,
                how: self.how,
                meter,
            };
            let run = ComparisonRun {
                engine: engine.name().to_owned(),
                vls,
                faults: level.name.clone(),
                links_lost,
                seed,
                ..ComparisonRun::default()
            };
            let measured = bench.one(engine, reporter);
            let max_load_repaired = match links_lost {
                0 => None,
                _ => self.repaired(
                    found.whole.get(series).and_then(Option::as_ref),
                    engine,
                    &bench,
                    reporter,
                )?,
            };
            if links_lost == 0 && is_repaired(engine) {
                let tables = measured.as_ref().map(|measured| measured.routed.tables.clone());
                found.whole.resize(series + 1, None);
                let lids = Arc::new(lids.clone());
                found.whole[series] = tables.ok().map(|tables| Whole { lids, tables });
            }
            let run = ComparisonRun {
                max_load_repaired,
                ..run
            };
            found.answer.comparison.runs.push(filled(run, measured)?);
            reporter.done();
        }
        Ok(())
    }

    /// Returns the load of the busiest link after a repair: the engine starts from the tables of the whole fabric and
    /// changes as little as it can; LIDs stay. `None`: the engine makes all tables from scratch, or refuses the fabric.
    fn repaired(
        &self,
        whole: Option<&Whole>,
        engine: Engine,
        bench: &Bench<'_>,
        reporter: &Reporter<'_>,
    ) -> Result<Option<u64>, StudyError> {
        let Some(Whole { lids, tables }) = whole else {
            return Ok(None);
        };
        if let Some(load) = self.mended(lids, tables, engine, bench) {
            return Ok(Some(load));
        }
        let options = Options {
            previous: Some(Arc::new(carry_over(&self.fabric, tables, bench.fabric))),
            ..bench.options.clone()
        };
        let how = How {
            repeats: 0,
            pairings: None,
            ..self.how
        };
        let (lids, options) = (&**lids, &options);
        match (Bench {
            lids,
            options,
            how,
            ..*bench
        })
        .one(engine, reporter)
        {
            Ok(repaired) => Ok(Some(repaired.quality().max_load)),
            Err(StudyError::Engine(_)) => Ok(None),
            Err(other) => Err(other),
        }
    }

    /// Returns the load of the busiest link after a repair of a fat tree in place. `None`: such a repair is not
    /// possible, and the engine would route the fabric again, starting from the entries in force.
    fn mended(&self, lids: &Lids, tables: &Tables, engine: Engine, bench: &Bench<'_>) -> Option<u64> {
        if engine != Engine::FatTree {
            return None;
        }
        let (whole, par) = (&self.fabric, Par::Sequential);
        let tree = FatTree::detect(whole, &bench.options.fat_tree, par).ok()?;
        let is_lost = |at: PortRef| {
            let node = bench.fabric.find(whole.node(at.node).guid);
            node.is_none_or(|node| bench.fabric.peer(PortRef { node, port: at.port }).is_none())
        };
        let lost = whole
            .links()
            .flat_map(|link| [link.a, link.b])
            .filter(|at| is_lost(*at));
        let ends: Vec<_> = lost
            .filter_map(|at| Some((whole.switch_index(at.node)?, at.port)))
            .collect();
        let mut tables = tables.clone();
        TreeMender::new(tree).lose(lids, &mut tables, &ends, |_, _| true)?;
        let (levels, lanes) = (ServiceLevels::default(), SlToVl::default());
        let subject = Subject::tables(bench.fabric, lids, &tables, &levels, &lanes);
        Some(verify(subject, &JudgeOptions::default()).figures.load.max)
    }

    fn lids(&self, fabric: &Fabric, events: &mut Vec<PlanEvent>) -> Result<Lids, StudyError> {
        let policy = Policy {
            lmc: self.lmc,
            ..Policy::default()
        };
        let nothing_known = (&Default::default(), &Default::default());
        Ok(lid::assign(fabric, &policy, nothing_known.0, nothing_known.1, events)?)
    }

    fn comparison(&self, work: &Work<'_>, runs: Vec<ComparisonRun>) -> Comparison {
        let mut rows = Vec::new();
        for (level, _) in &work.levels {
            for &(engine, vls) in &work.series {
                let of =
                    |run: &&ComparisonRun| (&run.engine[..], run.vls, &run.faults) == (engine.name(), vls, &level.name);
                rows.push(row(&runs.iter().filter(of).collect::<Vec<_>>()));
            }
        }
        Comparison {
            fabric: self.name.clone(),
            switches: Summary::of(&self.fabric).switches as u64,
            host_ports: self.fabric.host_count() as u64,
            switch_links: switch_links(&self.fabric),
            ok: runs.iter().all(|run| run.ok),
            rows,
            runs,
        }
    }
}

/// Tables of one engine on the whole fabric, with the LIDs.
#[derive(Clone)]
struct Whole {
    lids: Arc<Lids>,
    tables: Tables,
}

/// The results so far.
#[derive(Default)]
struct Found {
    answer: Answer,
    /// Tables on the whole fabric, by series; `None`: the engine refuses, or makes all tables from scratch after a
    /// loss.
    whole: Vec<Option<Whole>>,
}

/// True if an engine keeps the entries of [`Options::previous`] that are still good.
const fn is_repaired(engine: Engine) -> bool {
    matches!(engine, Engine::FatTree | Engine::MinHop | Engine::UpDn | Engine::DnUp)
}

/// The combinations to be compared.
struct Work<'a> {
    options: Options,
    /// Engines, each with the number of lanes that it may use.
    series: Vec<(Engine, Option<u8>)>,
    /// Levels with the seeds of their draws.
    levels: Vec<(Level, &'a [u64])>,
}

/// Adds the measurements, or the reason why the engine made no tables.
fn filled(run: ComparisonRun, measured: Result<Measured, StudyError>) -> Result<ComparisonRun, StudyError> {
    match measured {
        Ok(measured) => Ok(ComparisonRun {
            ok: measured.verdict.is_good(),
            quality: measured.quality(),
            cost: measured.cost,
            ..run
        }),
        Err(StudyError::Engine(cause)) => Ok(ComparisonRun {
            refused: Some(cause.to_string()),
            ..run
        }),
        Err(other) => Err(other),
    }
}

/// Returns the common values of the runs of one engine on one level. There is at least one.
fn row(runs: &[&ComparisonRun]) -> ComparisonRow {
    let routed: Vec<&ComparisonRun> = runs.iter().copied().filter(|run| run.refused.is_none()).collect();
    let mean = |of: &dyn Fn(&ComparisonRun) -> f64| {
        let sum: f64 = routed.iter().map(|run| of(run)).sum();
        if routed.is_empty() {
            0.0
        } else {
            sum / routed.len() as f64
        }
    };
    let ebbs = || routed.iter().filter_map(|run| run.quality.ebb);
    let has_ebb = ebbs().next().is_some();
    let first = runs.first();
    ComparisonRow {
        engine: first.map(|run| run.engine.clone()).unwrap_or_default(),
        vls: first.and_then(|run| run.vls),
        faults: first.map(|run| run.faults.clone()).unwrap_or_default(),
        runs: runs.len() as u64,
        refused: (runs.len() - routed.len()) as u64,
        deadlock_free: routed.iter().filter(|run| run.quality.deadlock_free).count() as u64,
        good: routed.iter().filter(|run| run.ok).count() as u64,
        max_load: mean(&|run| run.quality.max_load as f64),
        max_load_repaired: mean_of(
            &routed
                .iter()
                .filter_map(|run| run.max_load_repaired)
                .collect::<Vec<_>>(),
        ),
        max_load_worst: routed.iter().map(|run| run.quality.max_load).max().unwrap_or(0),
        mean_load: mean(&|run| run.quality.mean_load),
        ebb: has_ebb.then(|| mean(&|run| run.quality.ebb.unwrap_or(0.0))),
        ebb_worst: ebbs().min_by(f64::total_cmp),
        shift_max: routed
            .first()
            .and_then(|run| run.quality.shift_max)
            .map(|_| mean(&|run| run.quality.shift_max.unwrap_or(0) as f64)),
        mean_hops: mean(&|run| run.quality.mean_hops),
        lanes_used: routed.iter().map(|run| run.quality.lanes_used).max().unwrap_or(0),
        unreachable_pairs: routed.iter().map(|run| run.quality.unreachable_pairs).sum(),
        compute_ms: median(&mut routed.iter().map(|run| run.cost.compute_ms).collect::<Vec<_>>()),
    }
}

/// Returns the mean; `None` of no values.
fn mean_of(values: &[u64]) -> Option<f64> {
    let sum: u64 = values.iter().sum();
    (!values.is_empty()).then(|| sum as f64 / values.len() as f64)
}

fn switch_links(fabric: &Fabric) -> u64 {
    Summary::of(fabric).switch_links as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::median;
    use crate::meter::tests::Ticking;
    use crate::testing::fabric;
    use crate::threads::Threads;
    use crate::watch::NoWatch;
    use crate::watch::tests::Recorded;

    fn question(spec: &str, engines: &[Engine], levels: &[LinkRemoval]) -> Question {
        let level = |&removal| Level {
            name: format!("{removal:?}"),
            removal,
        };
        Question {
            name: spec.to_owned(),
            fabric: Arc::new(fabric(spec)),
            engines: engines.to_vec(),
            lanes: vec![1, 2],
            levels: levels.iter().map(level).collect(),
            seeds: vec![4, 5, 6],
            options: Options::default(),
            lmc: Lmc::default(),
            how: How {
                threads: Threads::ONE,
                repeats: 0,
                pairings: None,
            },
        }
    }

    #[test]
    fn each_engine_runs_on_each_draw() {
        let levels = [LinkRemoval::Count(0), LinkRemoval::Count(2)];
        let asked = question(
            "torus:3x3,hosts=1",
            &[Engine::UpDn, Engine::Weave, Engine::FatTree],
            &levels,
        );
        let watch = Recorded::default();
        let found = asked.answer(&Ticking::default(), &watch).unwrap().comparison;
        // updn has one series, weave and fat-tree have two each; the whole fabric is drawn once.
        assert_eq!((found.runs.len(), found.rows.len()), (5 * (1 + 3), 5 * 2));
        let lost: Vec<u64> = found.runs.iter().map(|run| run.links_lost).collect();
        assert_eq!(lost[..5], [0; 5]);
        assert!(lost[5..].iter().all(|&lost| lost == 2), "{lost:?}");
        let row = |engine: &str, faults: &str| {
            let is = |row: &&ComparisonRow| (&row.engine[..], &row.faults[..]) == (engine, faults);
            found.rows.iter().find(is).unwrap()
        };
        assert_eq!((row("fat-tree", "0").refused, row("fat-tree", "0").runs), (1, 1));
        assert_eq!(
            (row("updn", "Count(2)").runs, row("updn", "Count(2)").deadlock_free),
            (3, 3)
        );
        assert!(!found.ok, "fat-tree refuses");
        watch.whole_way();
        assert_eq!(watch.reports().last().unwrap().done, 20);
    }

    /// The load after the repair of a lost link and the load of fresh tables are two figures. The first equals that of
    /// the study of backups: there is one definition of a repair.
    #[test]
    fn a_repair_and_fresh_tables_are_two_figures() {
        let spec = "sx6536";
        let asked = Question {
            seeds: vec![1, 2],
            ..question(spec, &[Engine::FatTree, Engine::Weave], &[LinkRemoval::Count(1)])
        };
        let asked = Question {
            lanes: vec![1],
            ..asked
        };
        let found = asked.answer(&Ticking::default(), &NoWatch).unwrap().comparison;
        let start = crate::testing::start(spec, Engine::FatTree);
        let backups = crate::testing::backups_of_links(start);
        let mut compared = 0;
        for run in found.runs.iter().filter(|run| run.links_lost == 1) {
            match run.max_load_repaired {
                Some(repaired) => {
                    assert_eq!(run.engine, "fat-tree");
                    assert!(backups.contains(&repaired), "{repaired} of {backups:?}");
                    assert!(repaired > run.quality.max_load, "fresh tables are more even: {run:?}");
                    compared += 1;
                }
                None => assert_eq!(run.engine, "weave"),
            }
        }
        assert_eq!(compared, 2);
        let row = found.rows.iter().find(|row| row.max_load_repaired.is_some()).unwrap();
        assert!(row.max_load_repaired.unwrap() > row.max_load, "{row:?}");
        let whole = found.runs.iter().filter(|run| run.links_lost == 0);
        assert!(whole.clone().count() == 2 && whole.into_iter().all(|run| run.max_load_repaired.is_none()));
    }

    #[test]
    fn a_row_sums_up_its_runs() {
        let asked = question("torus:3x3,hosts=1", &[Engine::UpDn], &[LinkRemoval::Count(3)]);
        let found = asked.answer(&Ticking::default(), &NoWatch).unwrap().comparison;
        let (runs, row) = (&found.runs[1..], &found.rows[1]);
        let loads: Vec<u64> = runs.iter().map(|run| run.quality.max_load).collect();
        assert_eq!(row.max_load_worst, *loads.iter().max().unwrap());
        assert!((row.max_load - loads.iter().sum::<u64>() as f64 / 3.0).abs() < 1e-9);
        assert_eq!(row.compute_ms, median(&mut [1.0, 1.0, 1.0]));
    }

    #[test]
    fn what_cannot_be_lost_is_refused_before_the_first_run() {
        let watch = Recorded::default();
        let asked = question("ring:switches=4,hosts=1", &[Engine::UpDn], &[LinkRemoval::Count(9)]);
        let error = asked.answer(&Ticking::default(), &watch).unwrap_err();
        assert!(
            matches!(&error, StudyError::Damage { level, .. } if level == "Count(9)"),
            "{error}"
        );
        assert_eq!(asked.check(), Err(error));
        assert_eq!(watch.reports(), []);
        let check = |asked: Question, want: StudyError| {
            assert_eq!(asked.answer(&Ticking::default(), &NoWatch).unwrap_err(), want);
        };
        check(question("ring:switches=4,hosts=1", &[], &[]), StudyError::NoEngine);
        let seedless = Question {
            seeds: Vec::new(),
            ..question("ring:switches=4,hosts=1", &[Engine::UpDn], &[])
        };
        check(seedless, StudyError::NoSeed);
    }

    #[test]
    fn a_cancelled_comparison_has_no_answer() {
        for units in [0, 2] {
            let watch = Recorded::cancelling_at(units);
            let asked = question("torus:3x3,hosts=1", &[Engine::UpDn], &[LinkRemoval::Count(1)]);
            let error = asked.answer(&Ticking::default(), &watch).unwrap_err();
            assert_eq!(error, StudyError::Cancelled);
            assert_eq!(watch.reports().last().map_or(0, |last| last.done), units);
        }
    }
}
