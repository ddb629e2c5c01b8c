//! Two processes, with queue pairs between them.

use selvedge_hca::{AttrMask as M, Costs, PS_PER_US, PathState, Ps, Qp, QpAttr, QpState, Transport, VerbsError};
use selvedge_tolerance::{Host, Lab, LabSettings, Process, Program, Report, Status, ThreadCosts, attributes, path};

pub const MS: Ps = 1_000 * PS_PER_US;

/// Both processes' threads run, and nothing else happens.
struct Threads<'a>(&'a mut [Process; 2]);

impl Program for Threads<'_> {
    fn run(&mut self, lab: &mut Lab) -> Result<(), VerbsError> {
        let now = lab.now;
        for (process, host) in self.0.iter_mut().zip(&mut lab.hosts) {
            for at in host.take_announced(host.objects.context) {
                process.announce(at);
            }
            process.wake(now, &mut host.hca);
        }
        Ok(())
    }

    fn next_wake(&self) -> Option<Ps> {
        self.0.iter().filter_map(Process::next_wake).min()
    }

    fn is_over(&self) -> bool {
        false
    }
}

pub struct Duo {
    pub lab: Lab,
    pub processes: [Process; 2],
    pub qps: Vec<[Qp; 2]>,
}

impl Duo {
    /// Two hosts with so many ports and queue pairs in RESET. Queue pair `n` connects peers numbered `n / 2`.
    pub fn reset(ports: u8, qps: usize, costs: Costs) -> Self {
        let mut lab = Lab::new(LabSettings {
            ports,
            costs,
            ..LabSettings::default()
        })
        .unwrap();
        let mut processes =
            [0, 1].map(|host: usize| Process::new(lab.hosts[host].objects.context, ThreadCosts::default()));
        let create = |host: &mut Host| host.create_qp(Transport::Rc, 64).unwrap();
        let qps: Vec<[Qp; 2]> = (0..qps)
            .map(|_| [0, 1].map(|h: usize| create(&mut lab.hosts[h])))
            .collect();
        for (number, pair) in qps.iter().enumerate() {
            for host in [0, 1] {
                processes[host]
                    .add(0, number as u32 / 2, pair[host], Transport::Rc)
                    .unwrap();
            }
        }
        Self { lab, processes, qps }
    }

    /// The same with all queue pairs in RTS on port 1 and receives posted.
    pub fn connected(ports: u8, qps: usize, costs: Costs) -> Self {
        let mut duo = Self::reset(ports, qps, costs);
        for pair in 0..qps {
            for state in [QpState::Init, QpState::Rtr, QpState::Rts] {
                for host in [0, 1] {
                    duo.step(pair, host, state);
                }
            }
            for host in [0, 1] {
                duo.post_receives(pair, host, 40);
            }
        }
        duo.run(100 * MS);
        duo
    }

    /// Takes a queue pair one step further.
    pub fn step(&mut self, pair: usize, host: usize, state: QpState) {
        let from = match state {
            QpState::Init => QpState::Reset,
            QpState::Rtr => QpState::Init,
            QpState::Rts => QpState::Rtr,
            _ => unreachable!(),
        };
        let mask = selvedge_hca::masks(Transport::Rc, from, state)
            .unwrap()
            .required
            .with(M::STATE);
        let number = self.lab.hosts[1 - host].hca.qp_num(self.qps[pair][1 - host]).unwrap();
        let attr = QpAttr {
            state,
            retry_cnt: 2,
            ..attributes(number, path(host, 1, 8))
        };
        let hca = &mut self.lab.hosts[host].hca;
        self.processes[host]
            .modify_qp(self.lab.now, hca, self.qps[pair][host], &attr, mask)
            .unwrap();
    }

    pub fn post_receives(&mut self, pair: usize, host: usize, count: u32) {
        let now = self.lab.now;
        self.lab.hosts[host]
            .post_receives(now, self.qps[pair][host], count, 64)
            .unwrap();
    }

    pub fn run(&mut self, time: Ps) {
        let until = self.lab.now + time;
        self.lab.drive(&mut Threads(&mut self.processes), until).unwrap();
    }

    /// Both ends of all queue pairs send a message.
    pub fn exchange(&mut self) {
        let now = self.lab.now;
        for pair in &self.qps {
            for host in [0, 1] {
                self.lab.hosts[host].send(now, pair[host], 1, 8).unwrap();
            }
        }
        self.run(20 * MS);
    }

    pub fn path_state(&self, pair: usize, host: usize) -> PathState {
        self.lab.hosts[host]
            .hca
            .query_qp(self.qps[pair][host])
            .unwrap()
            .path_mig_state
    }

    pub fn port_in_use(&self, pair: usize, host: usize) -> u8 {
        self.lab.hosts[host]
            .hca
            .query_qp(self.qps[pair][host])
            .unwrap()
            .primary
            .port
    }

    pub fn reports(&mut self, host: usize) -> Vec<Report> {
        let mut out = Vec::new();
        self.processes[host].take_reports(&mut out);
        out
    }

    /// The shared state of both processes is that of their HCAs.
    pub fn invariant_shared_state(&self, context: &str) {
        for host in [0, 1] {
            assert!(self.processes[host].is_at_rest(), "{context}: not at rest");
            for (qp, entry) in self.processes[host].entries() {
                let attr = self.lab.hosts[host].hca.query_qp(qp).unwrap();
                let want = match entry.status {
                    Status::Migrated => PathState::Migrated,
                    Status::Loading => PathState::Rearm,
                    Status::Armed | Status::Migrating => PathState::Armed,
                };
                assert_ne!(
                    entry.status,
                    Status::Migrating,
                    "{context}: host {host} {qp:?} waits for nothing"
                );
                assert_eq!(attr.path_mig_state, want, "{context}: host {host} {qp:?} {entry:?}");
            }
        }
    }
}
