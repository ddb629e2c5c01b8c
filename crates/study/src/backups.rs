//! The repair of each single fault of a fabric.

use selvedge_api::{Backup, Backups};
use selvedge_fabric::{Fabric, SwitchIdx};
use selvedge_routing::Note;
use selvedge_sim::Seed;
use selvedge_types::Idx;

use crate::damage::{What, hosts_of, switch_links};
use crate::error::StudyError;
use crate::failures::{self, in_place};
use crate::in_force::{InForce, Judged};
use crate::threads::Threads;
use crate::trial;
use crate::watch::{Reporter, Stage, Watch};

pub use crate::in_force::Start;

/// What is the repair of each single fault?
#[derive(Clone, Debug)]
pub struct Question {
    /// Name of the fabric in the answer.
    pub name: String,
    /// The fabric, and its routing in force.
    pub start: Start,
    /// The kinds of faults.
    pub kinds: Vec<Kind>,
    /// Number of faults to try, drawn at random; `None`: all.
    pub sample: Option<usize>,
    /// Seed of the sample.
    pub seed: u64,
    /// If set, links are also lost one after another without being restored, in this way.
    pub in_place: Option<failures::How>,
    /// Threads to use.
    pub threads: Threads,
}

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Each link between switches.
    Link,
    /// Each switch.
    Switch,
}

/// The repairs.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Every fault that was tried, weakest points first.
    pub backups: Backups,
    /// Notes of the engine that made the tables in force.
    pub notes: Vec<Note>,
}

impl Question {
    /// Tries each fault alone on the whole fabric. A unit of work is one fault, or one order of lost links.
    ///
    /// # Errors
    ///
    /// The study is cancelled, or the engine refuses the whole fabric.
    pub fn answer(&self, watch: &dyn Watch) -> Result<Answer, StudyError> {
        let mut whats = self.faults();
        let there_are = whats.len() as u64;
        if let Some(sample) = self.sample {
            Seed(self.seed).child("sample").rng().shuffle(&mut whats);
            whats.truncate(sample);
        }
        let orders = self.in_place.map_or(0, |how| how.orders);
        let reporter = Reporter::new(watch, Stage::Routing(self.start.engine), whats.len() as u64 + orders);
        let (force, notes) = self.start.in_force(self.threads, &reporter)?;
        let mut faults = tried(&force, &whats, self.threads, &reporter)?;
        trial::sort(&mut faults);
        let in_place = self.in_place.map(|how| in_place(&force, &how, self.threads, &reporter));
        let in_place = in_place.transpose()?;
        let backups = Backups {
            faults_there_are: there_are,
            in_place,
            ..self.on_the_whole(&force, faults)
        };
        Ok(Answer { backups, notes })
    }

    /// Returns every fault of the requested kinds.
    fn faults(&self) -> Vec<What> {
        let fabric = &self.start.fabric;
        let mut whats: Vec<What> = Vec::new();
        if self.kinds.contains(&Kind::Link) {
            whats.extend((0..switch_links(fabric).len()).map(What::Link));
        }
        if self.kinds.contains(&Kind::Switch) {
            whats.extend((0..hosts_of(fabric).len()).map(|switch| What::Switch(SwitchIdx::from_usize(switch))));
        }
        whats
    }

    /// Returns the answer for single faults only. The listed faults are all there are.
    fn on_the_whole(&self, force: &InForce, faults: Vec<Backup>) -> Backups {
        let verdict = force.judge(&force.fabric, &force.routed, self.threads.par());
        let figures = &verdict.figures;
        let is_good = |fault: &Backup| {
            fault.refused.is_none() && fault.deadlock_free && fault.pairs_lost.max(fault.pairs_cut) == 0
        };
        Backups {
            fabric: self.name.clone(),
            engine: force.engine.name().to_owned(),
            vls: self.start.options.lanes,
            switches: force.hosts.len() as u64,
            host_ports: force.hosts.iter().sum(),
            hosts_with_one_link: single_homed(&force.fabric),
            switch_links: force.links.len() as u64,
            faults_there_are: faults.len() as u64,
            max_load: Judged::from(&verdict).max_load,
            parts: figures.parts,
            pairs_apart: figures.host_pairs - figures.host_pairs_reached,
            ok: verdict.is_good() && faults.iter().all(is_good),
            faults,
            in_place: None,
        }
    }
}

/// Tries every fault, and returns the results in the order of `whats`. Each thread tries a part of the faults.
fn tried(
    force: &InForce,
    whats: &[What],
    threads: Threads,
    reporter: &Reporter<'_>,
) -> Result<Vec<Backup>, StudyError> {
    reporter.begin(Stage::SingleFaults)?;
    let turns = threads.count().min(whats.len()).max(1);
    let of_threads = threads.par().map(turns, |thread| {
        let mut trial = force.trial();
        let mine = whats.iter().skip(thread).step_by(turns);
        let each = mine.map(|&what| {
            reporter.check()?;
            let backup = trial.of(what);
            reporter.done();
            Ok(backup)
        });
        each.collect::<Result<Vec<Backup>, StudyError>>()
    });
    let of_threads: Vec<Vec<Backup>> = of_threads.into_iter().collect::<Result<_, _>>()?;
    let mut each: Vec<_> = of_threads.into_iter().map(Vec::into_iter).collect();
    Ok((0..whats.len()).filter_map(|at| each[at % turns].next()).collect())
}

/// Returns host ports of nodes without another link.
fn single_homed(fabric: &Fabric) -> u64 {
    let nodes = fabric.nodes().iter().filter(|node| !node.is_switch());
    let linked = nodes.map(|node| node.external_ports().filter(|(_, port)| port.is_up()).count());
    linked.filter(|&links| links == 1).count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failures::{How, Measure};
    use crate::testing::start;
    use crate::watch::NoWatch;
    use crate::watch::tests::Recorded;
    use selvedge_routing::Engine;

    fn question(spec: &str, engine: Engine, threads: usize) -> Question {
        Question {
            name: spec.to_owned(),
            start: start(spec, engine),
            kinds: vec![Kind::Link, Kind::Switch],
            sample: None,
            seed: 1,
            in_place: None,
            threads: Threads::new(threads),
        }
    }

    #[test]
    fn one_answer_on_any_number_of_threads() {
        for (spec, engine) in [("karytree:k=3,n=2", Engine::Auto), ("torus:3x3,hosts=1", Engine::Weave)] {
            let [one, four] = [1, 4].map(|threads| {
                let watch = Recorded::default();
                let asked = Question {
                    in_place: Some(How {
                        below: 0.9,
                        measure: Measure::Load,
                        orders: 2,
                        seed: 1,
                    }),
                    ..question(spec, engine, threads)
                };
                let found = asked.answer(&watch).unwrap().backups;
                let stages = watch.whole_way();
                assert_eq!(stages[1..], ["single faults", "in a row"], "{stages:?}");
                let last = watch.reports().pop().unwrap();
                assert_eq!(last.total, found.faults.len() as u64 + 2);
                found
            });
            assert_eq!(one, four, "{spec}");
        }
    }

    #[test]
    fn a_sample_is_drawn_by_its_seed() {
        let names = |seed: u64| {
            let asked = Question {
                sample: Some(5),
                seed,
                ..question("karytree:k=4,n=2", Engine::FatTree, 2)
            };
            let found = asked.answer(&NoWatch).unwrap().backups;
            assert_eq!((found.faults.len(), found.faults_there_are), (5, 16 + 8));
            found.faults.into_iter().map(|fault| fault.name).collect::<Vec<_>>()
        };
        assert_eq!(names(1), names(1));
        assert_ne!(names(1), names(2));
    }

    #[test]
    fn only_the_kinds_asked_for_are_lost() {
        let asked = Question {
            kinds: vec![Kind::Switch],
            ..question("mesh:3x1,hosts=2", Engine::UpDn, 1)
        };
        let found = asked.answer(&NoWatch).unwrap().backups;
        assert_eq!(found.faults.len(), 3);
        assert!(found.faults.iter().all(|fault| fault.kind == "switch"));
        // Only the switch in the middle parts other hosts.
        assert_eq!(found.faults.iter().filter(|fault| fault.single_point).count(), 1);
        assert!(!found.ok);
    }

    #[test]
    fn a_cancelled_study_has_no_answer() {
        for (threads, units) in [(1, 0), (1, 7), (4, 7)] {
            let watch = Recorded::cancelling_at(units);
            let error = question("karytree:k=4,n=2", Engine::FatTree, threads)
                .answer(&watch)
                .unwrap_err();
            assert_eq!(error, StudyError::Cancelled);
            // Each thread may finish the fault that it tries when the study is cancelled.
            let done = watch.reports().last().map_or(0, |last| last.done);
            assert!(
                (units..units + threads as u64).contains(&done),
                "{done} faults on {threads} threads"
            );
        }
    }

    #[test]
    fn an_engine_that_refuses_the_fabric_is_an_error() {
        let error = question("ring:switches=5,hosts=1", Engine::FatTree, 1)
            .answer(&NoWatch)
            .unwrap_err();
        assert!(matches!(error, StudyError::Engine(_)), "{error}");
    }
}
