//! Answers about jobs: the operator gets one when the job is stored, so that a restart forgets no job that was
//! confirmed.

use selvedge_sa::{JobAnswer, JobError};

use crate::io::Out;

/// The inputs of [`Answers`].
#[derive(Debug)]
pub(super) enum AnswerIn {
    /// The administrator has answered. `revision` is that of the registrations with the change, `None` if there is
    /// nothing to store.
    Given {
        /// The request.
        ticket: u64,
        revision: Option<u64>,
        answer: Box<Result<JobAnswer, JobError>>,
    },
    /// Registrations of this revision are stored, or could not be.
    Stored {
        /// The revision.
        revision: u64,
        is_stored: bool,
    },
}

/// Answers that wait for the disk.
#[derive(Debug, Default)]
pub(super) struct Answers(Vec<(u64, u64, JobAnswer)>);

impl Answers {
    /// Handles one input. Appends the answers that may be given now.
    pub(super) fn handle(&mut self, input: AnswerIn, out: &mut Vec<Out>) {
        match input {
            AnswerIn::Given {
                ticket,
                revision,
                answer,
            } => match (revision, *answer) {
                (Some(revision), Ok(answer)) => self.0.push((ticket, revision, answer)),
                (_, answer) => out.push(Out::JobAnswered {
                    ticket,
                    answer: Box::new(answer),
                }),
            },
            AnswerIn::Stored { revision, is_stored } => {
                for (ticket, of, answer) in std::mem::take(&mut self.0) {
                    if of > revision {
                        self.0.push((ticket, of, answer));
                        continue;
                    }
                    let answer = Box::new(if is_stored {
                        Ok(answer)
                    } else {
                        Err(JobError::NotStored)
                    });
                    out.push(Out::JobAnswered { ticket, answer });
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(ticket: u64, revision: Option<u64>) -> AnswerIn {
        AnswerIn::Given {
            ticket,
            revision,
            answer: Box::new(Ok(JobAnswer::Ended(Vec::new()))),
        }
    }

    fn answered(answers: &mut Answers, input: AnswerIn) -> Vec<(u64, Result<JobAnswer, JobError>)> {
        let mut out = Vec::new();
        answers.handle(input, &mut out);
        let answered = out.into_iter().map(|wanted| match wanted {
            Out::JobAnswered { ticket, answer } => (ticket, *answer),
            _ => panic!("an answer"),
        });
        answered.collect()
    }

    #[test]
    fn a_change_is_confirmed_when_it_is_stored() {
        let mut answers = Answers::default();
        let good = || Ok(JobAnswer::Ended(Vec::new()));
        assert_eq!(
            answered(&mut answers, given(1, None)),
            [(1, good())],
            "nothing to store"
        );
        assert!(answered(&mut answers, given(2, Some(7))).is_empty());
        assert!(answered(&mut answers, given(3, Some(8))).is_empty());
        let stored = |revision, is_stored| AnswerIn::Stored { revision, is_stored };
        assert!(answered(&mut answers, stored(6, true)).is_empty());
        assert_eq!(answered(&mut answers, stored(7, true)), [(2, good())]);
        assert_eq!(
            answered(&mut answers, stored(9, false)),
            [(3, Err(JobError::NotStored))]
        );
        assert!(answered(&mut answers, stored(9, true)).is_empty());
        let refused = AnswerIn::Given {
            ticket: 4,
            revision: Some(10),
            answer: Box::new(Err(JobError::NoClasses)),
        };
        assert_eq!(answered(&mut answers, refused), [(4, Err(JobError::NoClasses))]);
    }
}
