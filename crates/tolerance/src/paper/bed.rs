//! Two processes with so many queue pairs between them.

use selvedge_hca::{AttrMask as M, Ps, Qp, QpAttr, QpState, Transport, VerbsError, masks};

use super::THREAD;
use crate::error::ToleranceError;
use crate::lab::{Lab, LabSettings, Program, attributes, path};
use crate::process::{Of, Process};
use crate::shared::Status;

/// Code of the local ACK time-out: 67 ms, the usual one.
const TIMEOUT: u8 = 14;
/// Places of each queue.
const REQUESTS: u32 = 16;
/// Longest message.
const BYTES_MAX: u32 = 1 << 20;
/// Virtual time after which a test is given up: it has met a state that it cannot leave.
pub const GIVE_UP: Ps = 60_000_000_000_000;

/// The test-bed.
pub struct Bed {
    pub lab: Lab,
    pub processes: [Process; 2],
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
    pub fn in_init(settings: &LabSettings, count: usize) -> Result<Self, VerbsError> {
        let mut lab = Lab::new(settings.clone())?;
        let mut processes = [0, 1].map(|host: usize| Process::new(lab.hosts[host].objects.context, THREAD));
        let mut qps = Vec::new();
        for _ in 0..count {
            let [a, b] = [0, 1].map(|host: usize| lab.hosts[host].create_qp(Transport::Rc, REQUESTS));
            let pair = [a?, b?];
            for host in [0, 1] {
                processes[host]
                    .add(0, 1 - host as u32, pair[host], Transport::Rc)
                    .map_err(cause)?;
            }
            qps.push(pair);
        }
        let mut bed = Self { lab, processes, qps };
        bed.step(QpState::Reset, QpState::Init)?;
        bed.rest()?;
        Ok(bed)
    }

    fn step(&mut self, from: QpState, state: QpState) -> Result<(), VerbsError> {
        let required = masks(Transport::Rc, from, state).map_or(M::NONE, |masks| masks.required);
        for pair in &self.qps {
            for host in [0, 1] {
                let number = self.lab.hosts[1 - host].hca.qp_num(pair[1 - host])?;
                let attr = QpAttr {
                    state,
                    ..attributes(number, path(host, 1, TIMEOUT))
                };
                let (now, hca) = (self.lab.now, &mut self.lab.hosts[host].hca);
                let mask = required.with(M::STATE);
                self.processes[host]
                    .modify_qp(now, hca, pair[host], &attr, mask)
                    .map_err(cause)?;
            }
        }
        Ok(())
    }

    /// Calls two modules for all queue pairs, which are in INIT.
    pub fn specify_and_load(&mut self) {
        for host in [0, 1] {
            let (now, hca) = (self.lab.now, &mut self.lab.hosts[host].hca);
            // All queue pairs are added, so the list cannot be refused.
            let _ = self.processes[host].specify_and_load(now, hca, Of::All, |_| Some(alternate(host)));
        }
    }

    /// Specifies alternate paths of all queue pairs, which are in INIT.
    pub fn specify(&mut self) {
        for host in [0, 1] {
            let (now, hca) = (self.lab.now, &mut self.lab.hosts[host].hca);
            let _ = self.processes[host].specify(now, hca, Of::All, |_| Some(alternate(host)));
        }
    }

    /// Brings all queue pairs to RTS, and returns how long host 0 took. Receives are posted afterwards.
    pub fn connect(&mut self) -> Result<Ps, VerbsError> {
        let begin = self.lab.now;
        self.step(QpState::Init, QpState::Rtr)?;
        self.step(QpState::Rtr, QpState::Rts)?;
        let took = self.processes[0].main_free_at() - begin;
        self.rest()?;
        let now = self.lab.now;
        for pair in &self.qps {
            for host in [0, 1] {
                self.lab.hosts[host].post_receives(now, pair[host], REQUESTS, BYTES_MAX)?;
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
        self.lab.drive(&mut idle, until)
    }

    /// Connections with alternate paths specified and not loaded.
    pub fn specified(settings: &LabSettings, count: usize) -> Result<Self, VerbsError> {
        let mut bed = Self::in_init(settings, count)?;
        bed.specify();
        bed.connect()?;
        Ok(bed)
    }

    /// True if the threads of both processes have seen a status of all queue pairs.
    pub fn all(processes: &[Process; 2], count: usize, status: Status) -> bool {
        processes.iter().all(|process| process.count(status) == count)
    }
}

/// The path by the second port.
pub fn alternate(host: usize) -> selvedge_hca::Path {
    path(host, 2, TIMEOUT)
}

/// Hands announced events to the processes and lets their threads go on.
pub fn wake(lab: &mut Lab, processes: &mut [Process; 2]) {
    let now = lab.now;
    for (process, host) in processes.iter_mut().zip(&mut lab.hosts) {
        for at in host.take_announced(host.objects.context) {
            process.announce(at);
        }
        process.wake(now, &mut host.hca);
    }
}

/// Returns when one of the processes is due.
pub fn next_wake(processes: &[Process; 2]) -> Option<Ps> {
    processes.iter().filter_map(Process::next_wake).min()
}

/// Nothing but the threads.
struct Threads<'a> {
    processes: &'a mut [Process; 2],
}

impl Program for Threads<'_> {
    fn run(&mut self, lab: &mut Lab) -> Result<(), VerbsError> {
        wake(lab, self.processes);
        Ok(())
    }

    fn next_wake(&self) -> Option<Ps> {
        next_wake(self.processes)
    }

    fn is_over(&self) -> bool {
        false
    }
}
