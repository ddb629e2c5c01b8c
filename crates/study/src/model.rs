//! The cost of bring-up, a lost link and a lost switch for a manager: MADs and time, for Selvedge and OpenSM.

use std::sync::Arc;

use selvedge_api::{Model, ModelAnswer, ModelCount, ModelStage};
use selvedge_fabric::{Fabric, PortRef};
use selvedge_model::{
    Answer as Predicted, Compute, Cost, Fault, FaultAnswer, Manager, Shape, Wires, bring_up, link_fault, switch_fault,
};
use selvedge_types::PortNum;

use crate::error::StudyError;
use crate::watch::{Reporter, Stage, Watch};

pub use selvedge_model::NoSeat;

/// What would bring-up and faults of a fabric cost?
#[derive(Clone, Debug)]
pub struct Question {
    /// Name of the fabric in the answer.
    pub name: String,
    /// The fabric.
    pub fabric: Arc<Fabric>,
    /// The manager's port; `None`: the first host's.
    pub seat: Option<PortRef>,
    /// Times of cables, switches and agents.
    pub wires: Wires,
    /// Requests of Selvedge.
    pub ours: Requests,
    /// Requests of OpenSM.
    pub opensm: Requests,
    /// Time that either manager takes for one answer, in ns.
    pub manager_ns: u64,
    /// Time after which a request is repeated, in ns.
    pub timeout_ns: u64,
    /// Exchanges (request and answer) that are lost, of a million.
    pub lost_ppm: u32,
    /// Number of LFT blocks that a fault changes at each neighbouring switch; `None`: all.
    pub changed_blocks: Option<u64>,
}

/// How a manager sends requests and plans.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Requests {
    /// Requests in flight at most.
    pub window: u32,
    /// Largest number of requests in flight to one agent; `None`: the default of the manager.
    pub agent_window: Option<u32>,
    /// Time to plan one table entry, in ns.
    pub entry_ns: u64,
}

/// The questions for each manager, as named in answers.
pub const QUESTIONS: [&str; 3] = ["bring-up", "link fault", "switch fault"];

impl Question {
    /// Predicts each manager's bring-up and faults. A unit of work is a manager.
    ///
    /// # Errors
    ///
    /// The study is cancelled, or no manager can run at the port.
    pub fn answer(&self, watch: &dyn Watch) -> Result<Model, StudyError> {
        let fabric = &self.fabric;
        let reporter = Reporter::new(watch, Stage::Model, Manager::ALL.len() as u64);
        reporter.begin(Stage::Model)?;
        let seat = match self.seat {
            Some(seat) => seat,
            None => Shape::first_seat(fabric)?,
        };
        let shape = Shape::new(fabric, seat)?;
        let mut answers = Vec::new();
        for manager in Manager::ALL {
            reporter.check()?;
            self.ask(&shape, manager, &mut answers);
            reporter.done();
        }
        // Questions together, managers side by side; the sort keeps their order.
        answers.sort_by_key(|answer| QUESTIONS.iter().position(|q| **q == answer.question));
        Ok(Model {
            fabric: self.name.clone(),
            seat: fabric.port_name(seat),
            switches: shape.switches(),
            hosts: shape.hosts(),
            lids: shape.lids(),
            lids_fit: shape.lids_fit(),
            lft_blocks: shape.lft_blocks(),
            mad_us: self.wires.service_ns as f64 / 1e3,
            link_ns: self.wires.link_ns,
            relay_ns: self.wires.relay_ns,
            lost_ppm: self.lost_ppm,
            answers,
        })
    }

    fn cost(&self, manager: Manager) -> Cost {
        let usual = Cost::of(manager, self.wires);
        let requests = match manager {
            Manager::Selvedge => self.ours,
            Manager::OpenSm => self.opensm,
        };
        Cost {
            window: requests.window,
            agent_window: requests.agent_window.unwrap_or(usual.agent_window),
            manager_ns: self.manager_ns,
            timeout_ns: self.timeout_ns,
            lost_ppm: self.lost_ppm,
            compute: Compute {
                per_entry_ps: requests.entry_ns * 1_000,
                ..usual.compute
            },
            ..usual
        }
    }

    fn ask(&self, shape: &Shape, manager: Manager, answers: &mut Vec<ModelAnswer>) {
        let cost = self.cost(manager);
        let fault = Fault {
            blocks: self.changed_blocks,
        };
        let up = bring_up(shape, &cost);
        answers.push(said(QUESTIONS[0], &cost, None, &up));
        let faults = [
            link_fault(shape, &cost, &up, fault),
            switch_fault(shape, &cost, &up, fault),
        ];
        for (question, found) in QUESTIONS[1..].iter().zip(faults) {
            for FaultAnswer { recovery, answer, lost } in found.into_iter().flatten() {
                let what = match self.fabric.node(lost.node) {
                    node if lost.port == PortNum::MANAGEMENT => format!("\"{}\"", node.description),
                    _ => self.fabric.port_name(lost),
                };
                answers.push(said(question, &cost, Some((recovery.name(), what)), &answer));
            }
        }
    }
}

fn said(question: &str, cost: &Cost, fault: Option<(&str, String)>, answer: &Predicted) -> ModelAnswer {
    let (recovery, lost) = fault.map_or((None, None), |(by, lost)| (Some(by.to_owned()), Some(lost)));
    let stages = answer.stages.iter().map(|stage| ModelStage {
        stage: stage.name.name().to_owned(),
        time_ms: millis(stage.time_ns),
    });
    let counts = answer.counts.iter().map(|(method, attribute, count)| ModelCount {
        method: method.name().to_owned(),
        attribute: attribute.name().to_owned(),
        count,
    });
    ModelAnswer {
        question: question.to_owned(),
        manager: cost.manager.name().to_owned(),
        recovery,
        lost,
        window: cost.window,
        time_ms: millis(answer.time_ns()),
        mads: answer.counts.total(),
        overruns: answer.overruns,
        repeats: answer.repeats,
        stages: stages.collect(),
        counts: counts.collect(),
    }
}

fn millis(ns: u64) -> f64 {
    ns as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::fabric;
    use crate::watch::tests::Recorded;

    fn question(window: u32) -> Question {
        let requests = |window| Requests {
            window,
            agent_window: None,
            entry_ns: 2,
        };
        Question {
            name: "small".to_owned(),
            fabric: Arc::new(fabric("karytree:k=3,n=2")),
            seat: None,
            wires: Wires::default(),
            ours: requests(window),
            opensm: requests(1),
            manager_ns: 0,
            timeout_ns: 200_000_000,
            lost_ppm: 0,
            changed_blocks: None,
        }
    }

    #[test]
    fn each_manager_answers_each_question() {
        let watch = Recorded::default();
        let model = question(32).answer(&watch).unwrap();
        assert_eq!(watch.whole_way(), ["model"]);
        let asked: Vec<&str> = model.answers.iter().map(|answer| &answer.question[..]).collect();
        let mut kinds = asked.clone();
        kinds.dedup();
        assert_eq!(kinds, QUESTIONS, "{asked:?}");
        for question in QUESTIONS {
            let of = model.answers.iter().filter(|answer| answer.question == question);
            let managers: std::collections::BTreeSet<&str> = of.map(|answer| &answer.manager[..]).collect();
            assert_eq!(managers.len(), 2, "{question}: {managers:?}");
        }
    }

    #[test]
    fn the_window_of_one_manager_changes_its_time_alone() {
        let [narrow, wide] = [1, 32].map(|window| question(window).answer(&Recorded::default()).unwrap());
        let time = |model: &Model, manager: &str| {
            let is = |answer: &&ModelAnswer| answer.manager == manager && answer.question == QUESTIONS[0];
            model.answers.iter().find(is).unwrap().time_ms
        };
        let [ours, theirs] = Manager::ALL.map(Manager::name);
        assert!(time(&narrow, ours) > 2.0 * time(&wide, ours));
        assert_eq!(time(&narrow, theirs), time(&wide, theirs));
    }

    #[test]
    fn a_cancelled_prediction_has_no_answer() {
        for units in 0..2 {
            let watch = Recorded::cancelling_at(units);
            assert_eq!(question(4).answer(&watch), Err(StudyError::Cancelled));
            assert_eq!(watch.reports().last().map_or(0, |last| last.done), units);
        }
    }
}
