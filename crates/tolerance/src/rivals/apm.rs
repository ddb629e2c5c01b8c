//! Path migration as a carrier: one connection, ARMED, loaded again after each migration.

use selvedge_hca::{Element, EventType, Path, Ps, Qp, SendWr, VerbsError, Wc, WcStatus};

use super::{Carrier, Inbox, Retries, connect};
use crate::error::ToleranceError;
use crate::lab::{Lab, path};
use crate::process::{Of, Process, Report};
use crate::shared::Status;
use crate::thread::ThreadCosts;
use selvedge_hca::Transport;

/// One connection with path migration.
#[derive(Clone, Debug)]
pub struct Apm {
    qps: [Qp; 2],
    processes: [Process; 2],
    timeout: u8,
    ports: u8,
    sent: u64,
    inbox: Inbox,
    failure: Option<ToleranceError>,
    /// True while an end waits for a port with which it can load an alternate path.
    unarmed: [bool; 2],
}

impl Apm {
    /// Connects by port 1, and requests that port 2 be loaded as the alternate path. It becomes ARMED with the first
    /// messages. `timeout` is a code of the local ACK time-out.
    pub fn new(lab: &mut Lab, timeout: u8, retry_cnt: u8) -> Result<Self, VerbsError> {
        let qps = connect(lab, 1, Retries { timeout, retry_cnt })?;
        let mut processes = [0, 1].map(|host: usize| Process::new(lab.hosts[host].context, ThreadCosts::default()));
        for (host, process) in processes.iter_mut().enumerate() {
            // RC is connected, so this cannot be refused.
            let _ = process.add(lab.now, 1 - host as u32, qps[host], Transport::Rc);
        }
        let ports = lab.hosts[0].hca.config().ports;
        let mut made = Self {
            qps,
            processes,
            timeout,
            ports,
            sent: 0,
            inbox: Inbox::default(),
            failure: None,
            unarmed: [true; 2],
        };
        made.load(lab);
        Ok(made)
    }

    /// The next ACTIVE port after the one in use. Both ends see the same ports ACTIVE, so they choose the same one.
    fn alternate(&self, lab: &Lab, host: usize) -> Option<Path> {
        let hca = &lab.hosts[host].hca;
        let in_use = hca.query_qp(self.qps[host]).ok()?.primary.port;
        let mut ports = (1..self.ports).map(|step| (in_use - 1 + step) % self.ports + 1);
        let is_active = |port: &u8| {
            let state = hca.query_port(*port).map(|attr| attr.state);
            state == Ok(selvedge_types::PortState::Active)
        };
        ports.find(is_active).map(|port| path(host, port, self.timeout))
    }

    fn load(&mut self, lab: &mut Lab) {
        for host in [0, 1] {
            let Some(alternate) = self.alternate(lab, host).filter(|_| self.unarmed[host]) else {
                continue;
            };
            let (now, hca) = (lab.now, &mut lab.hosts[host].hca);
            let asked = self.processes[host].specify_and_load(now, hca, Of::All, |_| Some(alternate));
            self.unarmed[host] = asked.is_err();
        }
    }

    fn handle(&mut self, now: Ps, host: usize, wc: &Wc) {
        if wc.status != WcStatus::Success {
            let failure = ToleranceError::NoPathLeft {
                path: 1,
                failed: 1,
                paths: 2,
            };
            self.failure.get_or_insert(failure);
        } else if host == 1 && wc.opcode == selvedge_hca::WcOpcode::Recv {
            self.inbox.arrived(now, wc.tag);
        }
    }

    /// Returns what is known of the connection at a host.
    #[must_use]
    pub fn status(&self, host: usize) -> Option<Status> {
        self.processes[host].entry(self.qps[host]).map(|entry| entry.status)
    }
}

impl Carrier for Apm {
    fn send(&mut self, lab: &mut Lab, bytes: u32) -> Result<(), VerbsError> {
        let sge = lab.hosts[0].sge(bytes)?;
        let wr = SendWr {
            tag: self.sent,
            ..SendWr::send(self.sent, sge)
        };
        self.sent += 1;
        lab.hosts[0].hca.post_send(lab.now, self.qps[0], &wr)
    }

    fn progress(&mut self, lab: &mut Lab) -> Result<(), VerbsError> {
        let now = lab.now;
        for host in [0, 1] {
            let at = &mut lab.hosts[host];
            for announced in at.announced.drain(..) {
                self.processes[host].announce(announced);
            }
            self.processes[host].wake(now, &mut at.hca);
            let (mut done, mut reports) = (Vec::new(), Vec::new());
            at.poll(now, &mut done)?;
            self.processes[host].take_reports(&mut reports);
            done.iter().for_each(|wc| self.handle(now, host, wc));
            for report in reports {
                let Report::Event(_, event) = report else { continue };
                match (event.kind, event.element) {
                    // The path is spent, or is dead as the port it begins at.
                    (EventType::PathMig | EventType::PathMigErr, Element::Qp(_))
                    | (EventType::PortErr | EventType::PortActive, Element::Port(_)) => self.unarmed[host] = true,
                    _ => {}
                }
            }
        }
        self.load(lab);
        Ok(())
    }

    fn next_wake(&self) -> Option<Ps> {
        self.processes.iter().filter_map(Process::next_wake).min()
    }

    fn delivered(&self) -> &[(u64, Ps)] {
        &self.inbox.delivered
    }

    fn failure(&self) -> Option<&ToleranceError> {
        self.failure.as_ref()
    }

    fn repeated(&self) -> u64 {
        0
    }
}
