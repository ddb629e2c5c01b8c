//! Path migration as a carrier: one connection, ARMED, loaded again after each migration.

use selvedge_hca::{Element, EventType, Path, Ps, SendOp, Transport, VerbsError, Wc, WcOpcode, WcStatus};

use super::{Carrier, Connection, Ends, Progress, Retries, Way};
use selvedge_types::PortState;

use crate::cluster::Cluster;
use crate::process::{Of, Process, Report};
use crate::shared::Status;
use crate::thread::ThreadCosts;

/// One connection with path migration.
#[derive(Clone, Debug)]
pub struct Apm {
    ends: Ends,
    connection: Connection,
    processes: [Process; 2],
    ways: Vec<Way>,
    done: Progress,
    /// True while an end waits for a path that it can load as the alternate one.
    unarmed: [bool; 2],
}

impl Apm {
    /// Connects by the first way, and requests that the next one be loaded as the alternate path. It becomes ARMED with
    /// the first messages. `timeout` is a code of the local ACK time-out.
    pub fn new(
        cluster: &mut Cluster,
        ends: Ends,
        ways: &[Way],
        timeout: u8,
        retry_cnt: u8,
    ) -> Result<Self, VerbsError> {
        let ways: Vec<Way> = ways
            .iter()
            .map(|way| way.map(|path| Path { timeout, ..path }))
            .collect();
        let first = ways.first().ok_or(VerbsError::NoAlternate)?;
        let connection = ends.connect(cluster, first, Retries { timeout, retry_cnt })?;
        let mut processes = ends.objects.map(|of| Process::new(of.context, ThreadCosts::default()));
        for (end, process) in processes.iter_mut().enumerate() {
            // RC is connected, so this cannot be refused.
            let _ = process.add(cluster.now(), 1 - end as u32, connection.qps[end], Transport::Rc);
        }
        let mut made = Self {
            ends,
            connection,
            processes,
            ways,
            done: Progress::new(1),
            unarmed: [true; 2],
        };
        made.load(cluster)?;
        Ok(made)
    }

    /// Requests the next way after the one in use that begins at an ACTIVE port. If both ends see the same ports as
    /// ACTIVE, they choose the same way.
    fn load(&mut self, cluster: &mut Cluster) -> Result<(), VerbsError> {
        for end in [0, 1] {
            if !self.unarmed[end] {
                continue;
            }
            let (qp, process, ways) = (self.connection.qps[end], &mut self.processes[end], &self.ways);
            let loaded = cluster.act(self.ends.hosts[end], |hca, now| {
                let in_use = hca.query_qp(qp)?.primary;
                let is_in_use = |way: &Way| (way[end].port, way[end].ah) == (in_use.port, in_use.ah);
                let at = ways.iter().position(is_in_use).unwrap_or(0);
                let mut others = (1..ways.len()).map(|step| ways[(at + step) % ways.len()][end]);
                let is_active = |port: u8| hca.query_port(port).is_ok_and(|attr| attr.state == PortState::Active);
                let Some(path) = others.find(|path| is_active(path.port)) else {
                    return Ok(false);
                };
                Ok(process.specify_and_load(now, hca, Of::All, |_| Some(path)).is_ok())
            })?;
            self.unarmed[end] = !loaded;
        }
        Ok(())
    }

    fn handle(&mut self, now: Ps, host: usize, wc: &Wc) {
        if wc.status != WcStatus::Success {
            self.done.fail(0, true);
        } else if host == 1 && wc.opcode == WcOpcode::Recv {
            self.done.inbox.arrived(now, wc.tag);
        } else if host == 0 && wc.opcode == WcOpcode::Send {
            self.done.acknowledged += 1;
        }
    }

    /// Returns what is known of the connection at a host.
    #[must_use]
    pub fn status(&self, host: usize) -> Option<Status> {
        self.processes[host]
            .entry(self.connection.qps[host])
            .map(|entry| entry.status)
    }
}

impl Carrier for Apm {
    fn send(&mut self, cluster: &mut Cluster, bytes: u32) -> Result<(), VerbsError> {
        let number = self.done.send();
        let op = SendOp::Send { immediate: None };
        self.ends.send(cluster, 0, self.connection.qps[0], op, number, bytes)
    }

    fn progress(&mut self, cluster: &mut Cluster) -> Result<(), VerbsError> {
        let now = cluster.now();
        for end in [0, 1] {
            let process = &mut self.processes[end];
            for at in self.ends.announced(cluster, end) {
                process.announce(at);
            }
            if process.next_wake().is_some_and(|at| at <= now) {
                cluster.act(self.ends.hosts[end], |hca, now| {
                    process.wake(now, hca);
                    Ok(())
                })?;
            }
            let mut reports = Vec::new();
            process.take_reports(&mut reports);
            for wc in self.ends.poll(cluster, end)? {
                self.handle(now, end, &wc);
                if wc.status == WcStatus::Success && wc.opcode == WcOpcode::Recv {
                    self.ends.receive_again(cluster, end, self.connection.qps[end])?;
                }
            }
            for report in reports {
                let Report::Event(_, event) = report else { continue };
                match (event.kind, event.element) {
                    // The path is spent, or is dead as the port it begins at.
                    (EventType::PathMig | EventType::PathMigErr, Element::Qp(_))
                    | (EventType::PortErr | EventType::PortActive, Element::Port(_)) => self.unarmed[end] = true,
                    _ => {}
                }
            }
        }
        self.load(cluster)
    }

    fn next_wake(&self) -> Option<Ps> {
        self.processes.iter().filter_map(Process::next_wake).min()
    }

    fn take_delivered(&mut self, out: &mut Vec<(u64, Ps)>) {
        out.append(&mut self.done.inbox.delivered);
    }

    fn done(&self) -> &Progress {
        &self.done
    }

    fn ends(&self) -> &Ends {
        &self.ends
    }

    fn ready_at(&self) -> Ps {
        self.connection.ready_at
    }
}
