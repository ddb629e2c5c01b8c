//! Path migration as a carrier: one connection, ARMED, loaded again after each migration.

use selvedge_hca::{Element, EventType, Ps, Qp, SendOp, Transport, VerbsError, Wc, WcOpcode, WcStatus};

use super::{Carrier, Ends, Inbox, Retries};
use selvedge_types::PortState;

use crate::error::ToleranceError;
use crate::network::{Network, act};
use crate::process::{Of, Process, Report};
use crate::shared::Status;
use crate::thread::ThreadCosts;

/// One connection with path migration.
#[derive(Clone, Debug)]
pub struct Apm {
    ends: Ends,
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
    pub fn new(network: &mut dyn Network, hosts: [usize; 2], timeout: u8, retry_cnt: u8) -> Result<Self, VerbsError> {
        let ends = Ends::open(network, hosts)?;
        let qps = ends.connect(network, 1, Retries { timeout, retry_cnt })?;
        let mut processes = ends.objects.map(|of| Process::new(of.context, ThreadCosts::default()));
        for (host, process) in processes.iter_mut().enumerate() {
            // RC is connected, so this cannot be refused.
            let _ = process.add(network.now(), 1 - host as u32, qps[host], Transport::Rc);
        }
        let ports = ends.ports(network)?;
        let mut made = Self {
            ends,
            qps,
            processes,
            timeout,
            ports,
            sent: 0,
            inbox: Inbox::default(),
            failure: None,
            unarmed: [true; 2],
        };
        made.load(network)?;
        Ok(made)
    }

    /// Requests the next ACTIVE port after the one in use. Both ends see the same ports ACTIVE, so they choose the same
    /// one.
    fn load(&mut self, network: &mut dyn Network) -> Result<(), VerbsError> {
        let now = network.now();
        for end in [0, 1] {
            if !self.unarmed[end] {
                continue;
            }
            let (qp, ports) = (self.qps[end], self.ports);
            let next = act(network, self.ends.hosts[end], |hca| {
                let in_use = hca.query_qp(qp)?.primary.port;
                let mut others = (1..ports).map(|step| (in_use - 1 + step) % ports + 1);
                let is_active = |port: &u8| hca.query_port(*port).is_ok_and(|attr| attr.state == PortState::Active);
                Ok(others.find(is_active))
            })?;
            let Some(port) = next else { continue };
            let alternate = self.ends.path(network, end, port, self.timeout);
            let process = &mut self.processes[end];
            let asked = act(network, self.ends.hosts[end], |hca| {
                Ok(process.specify_and_load(now, hca, Of::All, |_| Some(alternate)))
            })?;
            self.unarmed[end] = asked.is_err();
        }
        Ok(())
    }

    fn handle(&mut self, now: Ps, host: usize, wc: &Wc) {
        if wc.status != WcStatus::Success {
            let failure = ToleranceError::NoPathLeft {
                path: 1,
                failed: 1,
                paths: 2,
            };
            self.failure.get_or_insert(failure);
        } else if host == 1 && wc.opcode == WcOpcode::Recv {
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
    fn send(&mut self, network: &mut dyn Network, bytes: u32) -> Result<(), VerbsError> {
        let number = self.sent;
        self.sent += 1;
        let op = SendOp::Send { immediate: None };
        self.ends.send(network, 0, self.qps[0], op, number, bytes)
    }

    fn progress(&mut self, network: &mut dyn Network) -> Result<(), VerbsError> {
        let now = network.now();
        for end in [0, 1] {
            let process = &mut self.processes[end];
            for at in self.ends.announced(network, end) {
                process.announce(at);
            }
            act(network, self.ends.hosts[end], |hca| {
                process.wake(now, hca);
                Ok(())
            })?;
            let mut reports = Vec::new();
            process.take_reports(&mut reports);
            let done = self.ends.poll(network, end)?;
            done.iter().for_each(|wc| self.handle(now, end, wc));
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
        self.load(network)
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
