//! Two processes, with queue pairs between them.

use selvedge_hca::{AttrMask as M, Costs, PS_PER_US, PathState, Ps, Qp, QpAttr, QpState, Transport, VerbsError};
use selvedge_tolerance::{
    Cluster, Objects, Of, Process, Program, RailSettings, Rails, Report, Status, ThreadCosts, attributes, path,
};

pub const MS: Ps = 1_000 * PS_PER_US;

/// Both processes' threads run, and nothing else happens.
struct Threads<'a>(&'a mut [Process; 2], [Objects; 2]);

impl Program for Threads<'_> {
    fn run(&mut self, cluster: &mut Cluster) -> Result<(), VerbsError> {
        for (host, process) in self.0.iter_mut().enumerate() {
            for at in cluster.take_announced(host, self.1[host].context) {
                process.announce(at);
            }
            cluster.act(host, |hca, now| {
                process.wake(now, hca);
                Ok(())
            })?;
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
    pub rails: Rails,
    pub objects: [Objects; 2],
    pub processes: [Process; 2],
    pub qps: Vec<[Qp; 2]>,
}

impl Duo {
    /// Two hosts with so many ports, joined by cables, and queue pairs in RESET. Queue pair `n` connects peers numbered
    /// `n / 2`.
    pub fn reset(ports: u8, qps: usize, costs: Costs) -> Self {
        Self::on(
            RailSettings {
                ports,
                switches: 0,
                costs,
                ..RailSettings::default()
            },
            qps,
        )
    }

    fn on(settings: RailSettings, qps: usize) -> Self {
        let mut rails = Rails::new(&settings).unwrap();
        let open = |host: usize| rails.cluster.act(host, |hca, _| Objects::open(hca, 1 << 20)).unwrap();
        let objects = [0, 1].map(open);
        let mut processes = objects.map(|of| Process::new(of.context, ThreadCosts::default()));
        let mut create = |host: usize| {
            let create = |hca: &mut selvedge_hca::Hca, _| objects[host].create_qp(hca, Transport::Rc, 64);
            rails.cluster.act(host, create).unwrap()
        };
        let qps: Vec<[Qp; 2]> = (0..qps).map(|_| [0, 1].map(&mut create)).collect();
        for (number, pair) in qps.iter().enumerate() {
            for host in [0, 1] {
                processes[host]
                    .add(0, number as u32 / 2, pair[host], Transport::Rc)
                    .unwrap();
            }
        }
        Self {
            rails,
            objects,
            processes,
            qps,
        }
    }

    /// The same with all queue pairs in RTS on port 1 and receives posted.
    pub fn connected(ports: u8, qps: usize, costs: Costs) -> Self {
        Self::reset(ports, qps, costs).connect()
    }

    /// The same on rails with two switches, between which a cable can break in silence.
    pub fn far_apart(ports: u8, qps: usize, costs: Costs) -> Self {
        let settings = RailSettings {
            ports,
            switches: 2,
            costs,
            ..RailSettings::default()
        };
        Self::on(settings, qps).connect()
    }

    fn connect(mut self) -> Self {
        for pair in 0..self.qps.len() {
            for state in [QpState::Init, QpState::Rtr, QpState::Rts] {
                for host in [0, 1] {
                    self.step(pair, host, state);
                }
            }
            for host in [0, 1] {
                self.post_receives(pair, host, 40);
            }
        }
        self.run(100 * MS);
        self
    }

    pub fn now(&self) -> Ps {
        self.rails.cluster.now()
    }

    /// Calls something of a host's process, and of its adapter.
    pub fn with<R>(&mut self, host: usize, call: impl FnOnce(&mut Process, &mut selvedge_hca::Hca, Ps) -> R) -> R {
        let process = &mut self.processes[host];
        self.rails
            .cluster
            .act(host, |hca, now| Ok(call(process, hca, now)))
            .unwrap()
    }

    /// Both ends specify this path, each as it has it, and request that it be loaded.
    pub fn load(&mut self, port: u8) {
        for host in [0, 1] {
            let alternate = path(1 - host, port, 8);
            self.with(host, |process, hca, now| {
                process
                    .specify_and_load(now, hca, Of::All, |_| Some(alternate))
                    .unwrap();
            });
        }
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
        let far = self.qps[pair][1 - host];
        let number = self.rails.cluster.hca(1 - host).unwrap().qp_num(far).unwrap();
        let attr = QpAttr {
            state,
            retry_cnt: 2,
            ..attributes(number, path(1 - host, 1, 8))
        };
        let qp = self.qps[pair][host];
        self.with(host, |process, hca, now| {
            process.modify_qp(now, hca, qp, &attr, mask).unwrap();
        });
    }

    pub fn post_receives(&mut self, pair: usize, host: usize, count: u32) {
        let (qp, of) = (self.qps[pair][host], self.objects[host]);
        self.with(host, |_, hca, now| of.post_receives(hca, now, qp, count, 64).unwrap());
    }

    /// Posts a message of 8 bytes.
    pub fn send(&mut self, pair: usize, host: usize) -> Result<(), VerbsError> {
        let (qp, of) = (self.qps[pair][host], self.objects[host]);
        self.with(host, |_, hca, now| of.send(hca, now, qp, 8))
    }

    pub fn run(&mut self, time: Ps) {
        let until = self.now() + time;
        let mut threads = Threads(&mut self.processes, self.objects);
        self.rails.cluster.drive(&mut threads, until).unwrap();
    }

    /// Both ends of all queue pairs send a message.
    pub fn exchange(&mut self) {
        for pair in 0..self.qps.len() {
            for host in [0, 1] {
                self.send(pair, host).unwrap();
            }
        }
        self.run(20 * MS);
    }

    pub fn attr(&self, pair: usize, host: usize) -> QpAttr {
        let hca = self.rails.cluster.hca(host).unwrap();
        hca.query_qp(self.qps[pair][host]).unwrap()
    }

    pub fn path_state(&self, pair: usize, host: usize) -> PathState {
        self.attr(pair, host).path_mig_state
    }

    pub fn port_in_use(&self, pair: usize, host: usize) -> u8 {
        self.attr(pair, host).primary.port
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
                let attr = self.rails.cluster.hca(host).unwrap().query_qp(qp).unwrap();
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
