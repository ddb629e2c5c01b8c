//! Figures 8 and 9: latency of a ping-pong over queue pairs in turn, while they change their state.

use selvedge_hca::{Ps, Qp, VerbsError, Wc, WcOpcode};

use super::bed::{Bed, GIVE_UP, next_wake, poll, post_receives, wake};
use super::{Transition, bed, transition};
use crate::cluster::{Cluster, Program};
use crate::error::ToleranceError;
use crate::objects::Objects;
use crate::process::{Of, Process};
use crate::rails::RailSettings;
use crate::shared::Status;

/// What happens during the ping-pong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Case {
    /// Nothing.
    Original,
    /// A transition is requested for each queue pair in its turn.
    Requested(Transition),
    /// The cable of the primary path is pulled: the acid test.
    Fault,
}

/// What was measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Latency {
    /// Half the mean time of an iteration.
    pub mean_ps: f64,
    /// Iterations until all events had been handled; without a transition, one for each queue pair.
    pub iterations: u64,
}

/// Where an iteration is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// The sender may begin.
    Begin,
    /// The sender's call returns, then it sends.
    Called,
    /// The message is under way.
    Ping,
    /// The receiver's call returns, then it sends the reply.
    Answering,
    /// The reply is under way.
    Pong,
}

struct PingPong<'a> {
    processes: &'a mut [Process; 2],
    objects: [Objects; 2],
    qps: &'a [[Qp; 2]],
    case: Case,
    bytes: u32,
    step: Step,
    iterations: u64,
    is_over: bool,
    done: Vec<Wc>,
}

impl PingPong<'_> {
    /// Makes receives available again and returns true if a message has come.
    fn received(&mut self, cluster: &mut Cluster, host: usize, qp: Qp) -> Result<bool, VerbsError> {
        poll(cluster, &self.objects, host, &mut self.done)?;
        let came = self.done.iter().any(|wc| wc.opcode == WcOpcode::Recv);
        self.done.clear();
        if came {
            post_receives(cluster, &self.objects, host, qp, 1)?;
        }
        Ok(came)
    }

    fn send(&self, cluster: &mut Cluster, host: usize, qp: Qp) -> Result<(), VerbsError> {
        cluster.act(host, |hca, now| self.objects[host].send(hca, now, qp, self.bytes))
    }

    fn pair(&self) -> (usize, [Qp; 2]) {
        let at = (self.iterations % self.qps.len() as u64) as usize;
        (at, self.qps[at])
    }

    /// Requests the transition for the queue pair of this iteration, once.
    fn request(&mut self, cluster: &mut Cluster, host: usize) -> Result<(), VerbsError> {
        let (_, pair) = self.pair();
        let Case::Requested(wanted) = self.case else {
            return Ok(());
        };
        if self.iterations >= self.qps.len() as u64 {
            return Ok(());
        }
        let of = Of::Qps(&pair[host..=host]);
        let process = &mut self.processes[host];
        cluster.act(host, |hca, now| {
            // The queue pair is added, so the list cannot be refused.
            let _ = match (wanted, host) {
                (Transition::MigratedArmed, _) => {
                    process.specify_and_load(now, hca, of, |_| Some(bed::alternate(host)))
                }
                (Transition::ArmedMigrated, 0) => process.migrate(now, hca, of),
                (Transition::ArmedMigrated, _) => Ok(()),
            };
            Ok(())
        })
    }

    /// True if all events of the sender have been handled.
    fn is_complete(&self) -> bool {
        let count = self.qps.len();
        let once = self.iterations >= count as u64;
        match self.case {
            Case::Original => once,
            Case::Requested(Transition::MigratedArmed) => once && self.processes[0].count(Status::Armed) == count,
            Case::Requested(Transition::ArmedMigrated) => once && self.processes[0].count(Status::Migrated) == count,
            Case::Fault => once && Bed::all(self.processes, count, Status::Migrated),
        }
    }

    /// Takes one step if it is due; false if not.
    fn advance(&mut self, cluster: &mut Cluster) -> Result<bool, VerbsError> {
        let (_, pair) = self.pair();
        let now = cluster.now();
        let step = self.step;
        let next = match step {
            Step::Begin => {
                self.request(cluster, 0)?;
                Step::Called
            }
            Step::Called if self.processes[0].main_free_at() <= now => {
                self.send(cluster, 0, pair[0])?;
                Step::Ping
            }
            Step::Ping if self.received(cluster, 1, pair[1])? => {
                self.request(cluster, 1)?;
                Step::Answering
            }
            Step::Answering if self.processes[1].main_free_at() <= now => {
                self.send(cluster, 1, pair[1])?;
                Step::Pong
            }
            Step::Pong if self.received(cluster, 0, pair[0])? => {
                self.iterations += 1;
                self.is_over = self.is_complete();
                Step::Begin
            }
            Step::Called | Step::Ping | Step::Answering | Step::Pong => return Ok(false),
        };
        self.step = next;
        Ok(!self.is_over)
    }
}

impl Program for PingPong<'_> {
    fn run(&mut self, cluster: &mut Cluster) -> Result<(), VerbsError> {
        wake(cluster, &self.objects, self.processes)?;
        while self.advance(cluster)? {}
        Ok(())
    }

    fn next_wake(&self) -> Option<Ps> {
        let host = match self.step {
            Step::Called => Some(0),
            Step::Answering => Some(1),
            Step::Begin | Step::Ping | Step::Pong => None,
        };
        let call = host.map(|host: usize| self.processes[host].main_free_at());
        [call, next_wake(self.processes)].into_iter().flatten().min()
    }

    fn is_over(&self) -> bool {
        self.is_over
    }
}

/// Returns the latency of messages of a length over so many queue pairs in turn.
pub fn latency(settings: &RailSettings, qps: usize, bytes: u32, case: Case) -> Result<Latency, ToleranceError> {
    let mut bed = match case {
        Case::Original | Case::Requested(Transition::MigratedArmed) => {
            let mut bed = Bed::in_init(settings, qps)?;
            bed.connect()?;
            bed
        }
        Case::Requested(Transition::ArmedMigrated) | Case::Fault => transition::armed(settings, qps)?,
    };
    let begin = bed.rails.cluster.now();
    if case == Case::Fault {
        bed.rails.set_cable(0, 1, false)?;
    }
    // What the preparation has received is not the ping-pong's.
    for host in [0, 1] {
        poll(&mut bed.rails.cluster, &bed.objects, host, &mut Vec::new())?;
    }
    let mut program = PingPong {
        processes: &mut bed.processes,
        objects: bed.objects,
        qps: &bed.qps,
        case,
        bytes,
        step: Step::Begin,
        iterations: 0,
        is_over: false,
        done: Vec::new(),
    };
    bed.rails.cluster.drive(&mut program, begin + GIVE_UP)?;
    let iterations = program.iterations;
    let took = bed.rails.cluster.now() - begin;
    Ok(Latency {
        mean_ps: took as f64 / (2 * iterations.max(1)) as f64,
        iterations,
    })
}
