//! Figures 6, 7, 10 and 11: how long transitions of all queue pairs take, and what they take from computation.

use selvedge_hca::{Ps, Qp, VerbsError};

use super::Transition;
use super::bed::{Bed, GIVE_UP, next_wake, wake};
use crate::cluster::{Cluster, Program};
use crate::error::ToleranceError;
use crate::objects::Objects;
use crate::process::{Of, Process};
use crate::rails::RailSettings;
use crate::shared::Status;

/// Bytes of the message that shows an end's state to the other.
const SHOW_BYTES: u32 = 8;

/// Requests a transition of all queue pairs, and waits until the threads have handled all events.
struct All<'a> {
    processes: &'a mut [Process; 2],
    objects: [Objects; 2],
    qps: &'a [[Qp; 2]],
    transition: Transition,
    /// Queue pairs, in their order, for which the call was made and the message sent, by host.
    shown: [usize; 2],
    is_over: bool,
}

impl All<'_> {
    /// Sends a message over each queue pair for which REARM was requested since.
    fn show(&mut self, cluster: &mut Cluster) -> Result<(), VerbsError> {
        for host in [0, 1] {
            while let Some(pair) = self.qps.get(self.shown[host]) {
                let entry = self.processes[host].entry(pair[host]);
                if entry.is_none_or(|entry| entry.status == Status::Migrated) {
                    break;
                }
                let of = &self.objects[host];
                cluster.act(host, |hca, now| of.send(hca, now, pair[host], SHOW_BYTES))?;
                self.shown[host] += 1;
            }
        }
        Ok(())
    }
}

impl Program for All<'_> {
    fn run(&mut self, cluster: &mut Cluster) -> Result<(), VerbsError> {
        wake(cluster, &self.objects, self.processes)?;
        let handled = |process: &Process| process.thread_counts().events as usize;
        let count = self.qps.len();
        match self.transition {
            Transition::MigratedArmed => {
                self.show(cluster)?;
                let seen = self.processes.iter().all(|process| handled(process) >= count);
                self.is_over = seen && Bed::all(self.processes, count, Status::Armed);
            }
            Transition::ArmedMigrated => {
                let seen = handled(&self.processes[0]) >= count;
                self.is_over = seen && self.processes[0].count(Status::Migrated) == count;
            }
        }
        Ok(())
    }

    fn next_wake(&self) -> Option<Ps> {
        next_wake(self.processes)
    }

    fn is_over(&self) -> bool {
        self.is_over
    }
}

/// Makes the calls and waits. Returns how long it took.
fn run(bed: &mut Bed, transition: Transition) -> Result<Ps, VerbsError> {
    let begin = bed.rails.cluster.now();
    let hosts = match transition {
        Transition::MigratedArmed => 2,
        Transition::ArmedMigrated => 1,
    };
    for host in 0..hosts {
        let process = &mut bed.processes[host];
        bed.rails.cluster.act(host, |hca, now| {
            // All queue pairs are added, so the list cannot be refused.
            let _ = match transition {
                Transition::MigratedArmed => process.load(now, hca, Of::All),
                Transition::ArmedMigrated => process.migrate(now, hca, Of::All),
            };
            Ok(())
        })?;
    }
    let mut all = All {
        processes: &mut bed.processes,
        objects: bed.objects,
        qps: &bed.qps,
        transition,
        shown: [0; 2],
        is_over: false,
    };
    bed.rails.cluster.drive(&mut all, begin + GIVE_UP)?;
    Ok(bed.rails.cluster.now() - begin)
}

/// Connections with loaded alternate paths, at rest.
pub(super) fn armed(settings: &RailSettings, qps: usize) -> Result<Bed, ToleranceError> {
    let mut bed = Bed::specified(settings, qps)?;
    run(&mut bed, Transition::MigratedArmed)?;
    Ok(bed)
}

/// Returns the time from the request for all queue pairs until the asynchronous thread has handled all events: of both
/// processes for ARMED, of the requesting one for MIGRATED.
pub fn transition(settings: &RailSettings, qps: usize, transition: Transition) -> Result<Ps, ToleranceError> {
    measured(settings, qps, transition).map(|(took, _)| took)
}

/// Returns the time that a transition of all queue pairs takes from the computation of one process.
pub fn computation(settings: &RailSettings, qps: usize, transition: Transition) -> Result<Ps, ToleranceError> {
    measured(settings, qps, transition).map(|(_, lost)| lost)
}

fn measured(settings: &RailSettings, qps: usize, transition: Transition) -> Result<(Ps, Ps), ToleranceError> {
    let mut bed = match transition {
        Transition::MigratedArmed => Bed::specified(settings, qps)?,
        Transition::ArmedMigrated => armed(settings, qps)?,
    };
    // The threads count from here.
    let before = bed.processes[0].thread_counts();
    let took = run(&mut bed, transition)?;
    let lost = bed.processes[0].thread_counts().busy_ps - before.busy_ps;
    Ok((took, lost))
}
