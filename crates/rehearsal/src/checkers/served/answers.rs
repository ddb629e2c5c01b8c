//! Checks that the administrator of a master answers each request of a host in time.

use std::time::Duration;

use selvedge_sim::Time;
use selvedge_sm::Role;

use crate::Violation;
use crate::checkers::names::port_name;
use crate::checkers::seen::Scene;
use crate::clients::served::Question;
use crate::manager::ManagerId;

/// Longest time in which an administrator answers: that of its ClassPortInfo.RespTimeValue, 18.
const ANSWER_MAX: Duration = Duration::from_millis(1_074);

/// Requests without an answer, each with its time of arrival; the oldest first.
#[derive(Debug, Default)]
pub(super) struct Answers(Vec<(Question, Time)>);

impl Answers {
    /// Records a request that arrived at an administrator. It counts only if the administrator is that of a master.
    pub fn note_asked(&mut self, scene: &Scene<'_>, question: Question) {
        let life = scene.life(question.of);
        if life.is_some_and(|life| life.sm.role() == Role::Master) {
            self.0.push((question, scene.now));
        }
    }

    /// Records the answer to a request, whether or not the answer arrives at the host.
    pub fn note_answered(&mut self, number: u64) {
        self.0.retain(|(question, _)| question.number != number);
    }

    /// Drops open requests to a manager with a new process or role: these need no answer.
    pub fn forget(&mut self, id: ManagerId) {
        self.0.retain(|(question, _)| question.of != id);
    }

    /// Fails if a request has waited too long.
    pub fn in_time(&self, scene: &Scene<'_>) -> Result<(), Violation> {
        let late = |(_, since): &&(Question, Time)| scene.now.since(*since) > ANSWER_MAX;
        match self.0.iter().find(late) {
            None => Ok(()),
            Some((question, _)) => Err(Violation::Unanswered {
                host: port_name(scene.chassis(), question.host),
                manager: scene.manager_name(question.of),
                millis: u64::try_from(ANSWER_MAX.as_millis()).unwrap_or(u64::MAX),
            }),
        }
    }
}
