//! In which steps and with which waits tables would be changed under traffic.

use std::sync::Arc;

use selvedge_api::{Transition, TransitionStep};
use selvedge_fabric::{Fabric, LinkState, PortRef};
use selvedge_plan::{ChangeSet, EngineName, Generation, Installed, Lids, Plan, ServiceLevels, SlToVl, Tables};
use selvedge_planner::way::{self, WayOptions};
use selvedge_routing::{Engine, Options, Routed};
use selvedge_sim::Seed;
use selvedge_types::PortState;
use selvedge_verify::phases::{Passage, passage};
use selvedge_verify::{JudgeOptions, Severity};

use crate::error::StudyError;
use crate::parts::Parts;
use crate::threads::Threads;
use crate::watch::{Reporter, Stage, Watch};

/// How would tables be changed under traffic?
#[derive(Clone, Debug)]
pub struct Question {
    /// Name of the fabric in the answer.
    pub name: String,
    /// The fabric. All links that are up count as links with traffic.
    pub fabric: Arc<Fabric>,
    /// LIDs of the fabric.
    pub lids: Arc<Lids>,
    /// The tables in force.
    pub from: From,
    /// The engine of the new tables.
    pub to: Engine,
    /// The switches' LifeTimeValue: a packet is discarded after 4.096 µs × 2^N in one switch; 20: never.
    pub lifetime: u8,
    /// Largest number of data lanes of either engine; `None`: the engine's own default.
    pub lanes: Option<u8>,
    /// Threads to use.
    pub threads: Threads,
}

/// The tables in force.
#[derive(Clone, Debug)]
pub enum From {
    /// Tables that an engine makes.
    Engine(Engine),
    /// Tables that were read, for the question's LIDs, on one lane.
    Tables {
        /// Source of the tables, as named in the answer.
        name: String,
        /// Entries of all switches.
        tables: Arc<Tables>,
    },
}

/// The steps of the change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The steps, and the judge's verdict on them.
    pub transition: Transition,
    /// The parts of the fabric: steps are proved for packets inside each.
    pub parts: Parts,
}

impl Question {
    /// Plans the steps and has them judged. There are four units of work: two routings, the steps, the proof.
    ///
    /// # Errors
    ///
    /// The study is cancelled, or an engine refuses the fabric.
    pub fn answer(&self, watch: &dyn Watch) -> Result<Answer, StudyError> {
        let reporter = Reporter::new(watch, Stage::Routing(self.to), 4);
        let fabric = under_traffic(&self.fabric, self.lifetime);
        let before = self.before(&fabric, &reporter)?;
        reporter.done();
        let routed = self.route(self.to, &fabric, Some(before.tables.clone()), &reporter)?;
        reporter.done();
        let parts = Parts::of(&routed.notes);
        let installed = installed(&before.tables);
        let plan = plan(&fabric, &self.lids, routed);
        let map = SlToVl::modulo(before.lanes);
        let lanes_in_force = Some((&before.levels, &map));
        let par = self.threads.par();
        reporter.begin(Stage::Steps)?;
        let options = WayOptions {
            lanes_in_force,
            par,
            ..WayOptions::default()
        };
        let changes = way::propose(&fabric, &installed, &plan, &options);
        reporter.done();
        reporter.begin(Stage::Proof)?;
        let judge = JudgeOptions {
            par,
            ..JudgeOptions::default()
        };
        let passage = passage(&fabric, &installed, &plan, &changes, lanes_in_force, &judge);
        reporter.done();
        let steps = steps(&fabric, &installed, &changes);
        let (word, why) = word(&passage);
        let transition = Transition {
            fabric: self.name.clone(),
            parts: parts.count,
            from: before.name,
            to: plan.engine.0,
            lanes_from: before.lanes,
            lanes_to: plan.lanes,
            ok: word != REFUSED,
            passage: word.to_owned(),
            why,
            wait_ns: steps.iter().map(|step| step.wait_before_ns).sum(),
            steps,
        };
        Ok(Answer { transition, parts })
    }

    fn before(&self, fabric: &Fabric, reporter: &Reporter<'_>) -> Result<Before, StudyError> {
        match &self.from {
            From::Engine(engine) => {
                let routed = self.route(*engine, fabric, None, reporter)?;
                Ok(Before {
                    name: routed.engine.0,
                    tables: Arc::new(routed.tables),
                    levels: routed.service_levels,
                    lanes: routed.lanes,
                })
            }
            From::Tables { name, tables } => Ok(Before {
                name: name.clone(),
                tables: tables.clone(),
                levels: ServiceLevels::default(),
                lanes: 1,
            }),
        }
    }

    fn route(
        &self,
        engine: Engine,
        fabric: &Fabric,
        previous: Option<Arc<Tables>>,
        reporter: &Reporter<'_>,
    ) -> Result<Routed, StudyError> {
        reporter.begin(Stage::Routing(engine))?;
        let options = Options {
            previous,
            lanes: self.lanes,
            ..Options::default()
        };
        Ok(engine.route(fabric, &self.lids, &options, Seed(0), self.threads.par())?)
    }
}

/// The routing in force before the change.
struct Before {
    /// The engine, or the source of the tables.
    name: String,
    tables: Arc<Tables>,
    levels: ServiceLevels,
    lanes: u8,
}

/// The word of the API for a change that is not proved.
const REFUSED: &str = "refused";

/// Returns the word of the API for the judge's verdict on the change, and why it is not proved.
fn word(passage: &Passage) -> (&'static str, Vec<String>) {
    match passage {
        Passage::Still => ("still", Vec::new()),
        Passage::Quick(_) | Passage::Proved(_) => ("proved", Vec::new()),
        Passage::Inherited(refusal) => ("inherited", findings(&refusal.findings)),
        Passage::Refused(refusal) => (REFUSED, findings(&refusal.findings)),
    }
}

/// Returns the fabric as if every link that is trained carried packets: topology files do not state it.
fn under_traffic(whole: &Fabric, lifetime: u8) -> Fabric {
    let mut fabric = whole.clone();
    let ends: Vec<PortRef> = fabric.links().flat_map(|link| [link.a, link.b]).collect();
    for at in ends {
        if fabric.link_is_up(at)
            && let Some((link, settings)) = fabric.port(at).map(|port| (port.link, port.settings))
        {
            let state = PortState::Active;
            fabric.set_port(at, LinkState { state, ..link }, settings);
        }
    }
    for node in fabric.switches().iter().copied().collect::<Vec<_>>() {
        let mut settings = fabric.node(node).switch_settings;
        settings.lifetime = lifetime;
        fabric.set_switch(node, settings);
    }
    fabric
}

fn installed(tables: &Tables) -> Installed {
    let mut installed = Installed::unknown(tables.switches());
    for switch in tables.switch_indices() {
        for block in 0..tables.blocks() {
            installed.learn(switch, block, *tables.block(switch, block));
        }
    }
    installed
}

fn plan(fabric: &Fabric, lids: &Lids, routed: Routed) -> Plan {
    let settings = fabric.switches().iter().map(|&node| fabric.node(node).switch_settings);
    Plan {
        generation: Generation::default(),
        engine: EngineName(routed.engine.0),
        lids: lids.clone(),
        tables: routed.tables,
        service_levels: routed.service_levels,
        sl_to_vl: SlToVl::modulo(routed.lanes),
        lanes: routed.lanes,
        lane_tables: None,
        ports: Default::default(),
        end_ports: Default::default(),
        switches: settings.collect(),
    }
}

fn steps(fabric: &Fabric, installed: &Installed, changes: &ChangeSet) -> Vec<TransitionStep> {
    let step = |(step, summary): (u64, way::StepSummary)| TransitionStep {
        step,
        what: summary.label.to_owned(),
        wait_before_ns: summary.wait_ns,
        sets: summary.sets as u64,
        entries: summary.entries as u64,
        dropped: summary.dropped as u64,
        switches: summary.switches as u64,
    };
    (1..).zip(way::summary(fabric, installed, changes)).map(step).collect()
}

fn findings(findings: &[selvedge_verify::phases::PhaseFinding]) -> Vec<String> {
    let errors = findings.iter().filter(|finding| finding.severity == Severity::Error);
    errors.map(ToString::to_string).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fabric, lids};
    use crate::watch::NoWatch;
    use crate::watch::tests::Recorded;

    fn question(spec: &str, from: Engine, to: Engine) -> Question {
        let fabric = fabric(spec);
        Question {
            name: spec.to_owned(),
            lids: Arc::new(lids(&fabric)),
            fabric: Arc::new(fabric),
            from: From::Engine(from),
            to,
            lifetime: 18,
            lanes: None,
            threads: Threads::ONE,
        }
    }

    #[test]
    fn the_judge_s_passage_is_a_word() {
        let check = |spec: &str, from: Engine, to: Engine, want: &str| {
            let watch = Recorded::default();
            let found = question(spec, from, to).answer(&watch).unwrap().transition;
            assert_eq!(found.passage, want, "{spec}: {found:?}");
            assert_eq!((found.from, found.to), (from.name().to_owned(), to.name().to_owned()));
            assert_eq!(
                found.wait_ns,
                found.steps.iter().map(|step| step.wait_before_ns).sum::<u64>()
            );
            let last = watch.whole_way().pop();
            assert_eq!(last.as_deref(), Some("proof"));
            assert_eq!(watch.reports().last().unwrap().done, 4);
        };
        check("karytree:k=3,n=2", Engine::UpDn, Engine::UpDn, "still");
        check("torus:3x3,hosts=1", Engine::UpDn, Engine::Weave, "proved");
        check("ring:switches=6,hosts=1", Engine::MinHop, Engine::UpDn, "inherited");
    }

    #[test]
    fn tables_that_were_read_count_as_an_engine_s() {
        let spec = "torus:3x3,hosts=1";
        let by_engine = question(spec, Engine::UpDn, Engine::Weave);
        let routed = Engine::UpDn
            .route(
                &by_engine.fabric,
                &by_engine.lids,
                &Options::default(),
                Seed(0),
                Threads::ONE.par(),
            )
            .unwrap();
        let from = From::Tables {
            name: "updn".to_owned(),
            tables: Arc::new(routed.tables),
        };
        let read = Question {
            from,
            ..by_engine.clone()
        };
        let [by_engine, read] = [by_engine, read].map(|asked| asked.answer(&NoWatch).unwrap());
        assert!(by_engine.transition.steps.len() > 1, "{by_engine:?}");
        assert_eq!(by_engine, read);
    }

    #[test]
    fn a_cancelled_transition_has_no_answer() {
        for units in 0..4 {
            let watch = Recorded::cancelling_at(units);
            let error = question("karytree:k=3,n=2", Engine::MinHop, Engine::UpDn)
                .answer(&watch)
                .unwrap_err();
            assert_eq!(error, StudyError::Cancelled);
            assert_eq!(watch.reports().last().map_or(0, |last| last.done), units);
        }
    }
}
