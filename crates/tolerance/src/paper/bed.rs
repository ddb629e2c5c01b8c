//! Two processes with so many queue pairs between them.

use selvedge_hca::{AttrMask as M, Ps, Qp, QpAttr, QpState, Transport, VerbsError, Wc, masks};

use super::THREAD;
use crate::cluster::{Cluster, Program};
use crate::error::ToleranceError;
use crate::objects::Objects;
use crate::process::{Of, Process};
use crate::rails::{RailSettings, Rails, attributes, path};
use crate::shared::Status;

/// Code of the local ACK time-out: 67 ms, the usual one.
const TIMEOUT: u8 = 14;
/// Places of each queue.
const REQUESTS: u32 = 16;
/// Longest message.
const BYTES_MAX: u32 = 1 << 20;
/// Room of the completion queue of a host.
const COMPLETIONS: u32 = 1 << 21;
/// Virtual time after which a test is given up: it has met a state that it cannot leave.
pub const GIVE_UP: Ps = 60_000_000_000_000;

/// The test-bed.
pub struct Bed {
    pub rails: Rails,
    pub processes: [Process; 2],
    pub objects: [Objects; 2],
    pub qps: Vec<[Qp; 2]>,
}

/// Returns the cause of an error, which modules state as one of their own.
fn cause(error: ToleranceError) -> VerbsError {
    match error {
        ToleranceError::Verbs(error) => error,
        // All queue pairs are added and connected, so no other refusal is possible.
        _ => VerbsError::NoAlternate,
    }
}

impl Bed {
    /// Queue pairs in INIT.
    pub fn in_init(settings: &RailSettings, count: usize) -> Result<Self, ToleranceError> {
        let mut rails = Rails::new(settings)?;
        let cluster = &mut rails.cluster;
        let [a, b] = [0, 1].map(|host: usize| cluster.act(host, |hca, _| Objects::open(hca, COMPLETIONS)));
        let objects = [a?, b?];
        let mut processes = objects.map(|of| Process::new(of.context, THREAD));
        let mut qps = Vec::new();
        for _ in 0..count {
            let [a, b] = [0, 1]
                .map(|host: usize| cluster.act(host, |hca, _| objects[host].create_qp(hca, Transport::Rc, REQUESTS)));
            let pair = [a?, b?];
            for host in [0, 1] {
                processes[host].add(0, 1 - host as u32, pair[host], Transport::Rc)?;
            }
            qps.push(pair);
        }
        let mut bed = Self {
            rails,
            processes,
            objects,
            qps,
        };
        bed.step(QpState::Reset, QpState::Init)?;
        bed.rest()?;
        Ok(bed)
    }

    fn step(&mut self, from: QpState, state: QpState) -> Result<(), VerbsError> {
        let required = masks(Transport::Rc, from, state).map_or(M::NONE, |masks| masks.required);
        for pair in &self.qps {
            for host in [0, 1] {
                let number = self.rails.cluster.hca(1 - host)?.qp_num(pair[1 - host])?;
                let attr = QpAttr {
                    state,
                    ..attributes(number, path(1 - host, 1, TIMEOUT))
                };
                let process = &mut self.processes[host];
                self.rails.cluster.act(host, |hca, now| {
                    process
                        .modify_qp(now, hca, pair[host], &attr, required.with(M::STATE))
                        .map_err(cause)
                })?;
            }
        }
        Ok(())
    }

    /// Calls two modules for all queue pairs, which are in INIT.
    pub fn specify_and_load(&mut self) -> Result<(), VerbsError> {
        for host in [0, 1] {
            let process = &mut self.processes[host];
            let choose = |_| Some(alternate(host));
            self.rails.cluster.act(host, |hca, now| {
                process.specify_and_load(now, hca, Of::All, choose).map_err(cause)
            })?;
        }
        Ok(())
    }

    /// Specifies alternate paths of all queue pairs, which are in INIT.
    fn specify(&mut self) -> Result<(), VerbsError> {
        for host in [0, 1] {
            let process = &mut self.processes[host];
            let choose = |_| Some(alternate(host));
            self.rails.cluster.act(host, |hca, now| {
                process.specify(now, hca, Of::All, choose).map_err(cause)
            })?;
        }
        Ok(())
    }

    /// Brings all queue pairs to RTS, and returns how long host 0 took. Receives are posted afterwards.
    pub fn connect(&mut self) -> Result<Ps, VerbsError> {
        let begin = self.rails.cluster.now();
        self.step(QpState::Init, QpState::Rtr)?;
        self.step(QpState::Rtr, QpState::Rts)?;
        let took = self.processes[0].main_free_at() - begin;
        self.rest()?;
        for pair in self.qps.clone() {
            for host in [0, 1] {
                self.post_receives(host, pair[host], REQUESTS)?;
            }
        }
        Ok(took)
    }

    /// Lets time pass until all calls have returned.
    fn rest(&mut self) -> Result<(), VerbsError> {
        let until = self.processes.iter().map(Process::main_free_at).max().unwrap_or(0);
        let mut idle = Threads {
            processes: &mut self.processes,
        };
        self.rails.cluster.drive(&mut idle, until)
    }

    fn post_receives(&mut self, host: usize, qp: Qp, count: u32) -> Result<(), VerbsError> {
        post_receives(&mut self.rails.cluster, &self.objects, host, qp, count)
    }

    /// Connections with alternate paths specified and not loaded.
    pub fn specified(settings: &RailSettings, count: usize) -> Result<Self, ToleranceError> {
        let mut bed = Self::in_init(settings, count)?;
        bed.specify()?;
        bed.connect()?;
        Ok(bed)
    }

    /// True if the threads of both processes have seen a status of all queue pairs.
    pub fn all(processes: &[Process; 2], count: usize, status: Status) -> bool {
        processes.iter().all(|process| process.count(status) == count)
    }
}

/// Posts receives of the longest length.
pub fn post_receives(
    cluster: &mut Cluster,
    objects: &[Objects; 2],
    host: usize,
    qp: Qp,
    count: u32,
) -> Result<(), VerbsError> {
    cluster.act(host, |hca, now| {
        objects[host].post_receives(hca, now, qp, count, BYTES_MAX)
    })
}

/// The path by the second port of a host to the other one.
pub fn alternate(host: usize) -> selvedge_hca::Path {
    path(1 - host, 2, TIMEOUT)
}

/// Hands announced events to the processes and lets their threads go on.
pub fn wake(cluster: &mut Cluster, objects: &[Objects; 2], processes: &mut [Process; 2]) -> Result<(), VerbsError> {
    for (host, process) in processes.iter_mut().enumerate() {
        for at in cluster.take_announced(host, objects[host].context) {
            process.announce(at);
        }
        if process.next_wake().is_some_and(|at| at <= cluster.now()) {
            cluster.act(host, |hca, now| {
                process.wake(now, hca);
                Ok(())
            })?;
        }
    }
    Ok(())
}

/// Removes all completions of a host that are visible by a time.
pub fn poll(cluster: &mut Cluster, objects: &[Objects; 2], host: usize, out: &mut Vec<Wc>) -> Result<(), VerbsError> {
    cluster.act(host, |hca, now| objects[host].poll(hca, now, out))
}

/// Returns when one of the processes is due.
pub fn next_wake(processes: &[Process; 2]) -> Option<Ps> {
    processes.iter().filter_map(Process::next_wake).min()
}

/// Nothing but the threads. While queue pairs are set up there are no events.
struct Threads<'a> {
    processes: &'a mut [Process; 2],
}

impl Program for Threads<'_> {
    fn run(&mut self, cluster: &mut Cluster) -> Result<(), VerbsError> {
        for (host, process) in self.processes.iter_mut().enumerate() {
            cluster.act(host, |hca, now| {
                process.wake(now, hca);
                Ok(())
            })?;
        }
        Ok(())
    }

    fn next_wake(&self) -> Option<Ps> {
        next_wake(self.processes)
    }

    fn is_over(&self) -> bool {
        false
    }
}
