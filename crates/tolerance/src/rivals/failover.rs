//! Software fail-over over several ports, as NCCL does it with `NCCL_IB_RESILIENCY_PORT_FAILOVER`.
//!
//! What was read in NCCL (`src/transport/net_ib/p2p_resiliency.cc`, commit 0456df20 of NVIDIA/nccl), and is done here:
//! - Each port has queue pairs of its own; requests go round robin over the active ones.
//! - A port has failed when a work request completes with RETRY_EXC_ERR or WR_FLUSH_ERR. Queue pairs of a working port
//!   replace its own. Any other error is fatal, and so is a second failed port: "no support for more than a
//!   single failed device".
//! - A failed request waits for the probe delay (10 ms), then a READ by a working port fetches the receiver's record of
//!   it. Only if the record shows that the message has not arrived, it is sent again.
//! - Off by default there; time-out code 20 and 7 retries, so that nothing is noticed for more than 30 s.
//!
//! Not modelled: clear-to-send messages of the receiver, requests split over queue pairs, port recovery.

use std::collections::{BTreeMap, VecDeque};

use selvedge_hca::{Ps, SendOp, VerbsError, Wc, WcOpcode, WcStatus};

use super::{Carrier, Connection, Ends, Inbox, Retries};
use crate::error::ToleranceError;
use crate::network::Network;

/// Settings, with the names that NCCL's environment variables have after `NCCL_IB_`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailoverSettings {
    /// `TIMEOUT`: code of the local ACK time-out. Default 20.
    pub timeout: u8,
    /// `RETRY_CNT`. Default 7.
    pub retry_cnt: u8,
    /// `RESILIENCY_PORT_FAILOVER_PROBE_DELAY`. Default 10 ms.
    pub probe_delay_ps: Ps,
}

impl Default for FailoverSettings {
    fn default() -> Self {
        Self {
            timeout: 20,
            retry_cnt: 7,
            probe_delay_ps: 10_000_000_000,
        }
    }
}

/// Set in the number of a work request that is a probe.
const PROBE: u64 = 1 << 63;
/// Length of the receiver's record of a message: a flag for each of NCCL's 128 queue pairs.
const RECORD_BYTES: u32 = 128;

/// A connection for each port, one of which may fail.
#[derive(Clone, Debug)]
pub struct Failover {
    settings: FailoverSettings,
    ends: Ends,
    /// By port: queue pairs for data, and for probes.
    data: Vec<Connection>,
    probes: Vec<Connection>,
    failed: Vec<bool>,
    /// Requests that are not complete: bytes.
    open: BTreeMap<u64, u32>,
    /// Failed requests in order of the time at which their probe is due.
    waiting: VecDeque<(Ps, u64)>,
    sent: u64,
    turn: usize,
    repeated: u64,
    inbox: Inbox,
    failure: Option<ToleranceError>,
}

impl Failover {
    /// Connects by all ports.
    pub fn new(network: &mut dyn Network, hosts: [usize; 2], settings: FailoverSettings) -> Result<Self, VerbsError> {
        let ends = Ends::open(network, hosts)?;
        let ports = ends.ports(network)?;
        let retries = Retries {
            timeout: settings.timeout,
            retry_cnt: settings.retry_cnt,
        };
        let mut open = || {
            (1..=ports)
                .map(|port| Connection::open(&ends, network, port, retries))
                .collect()
        };
        let (data, probes): (Result<Vec<_>, _>, Result<Vec<_>, _>) = (open(), open());
        Ok(Self {
            settings,
            ends,
            data: data?,
            probes: probes?,
            failed: vec![false; usize::from(ports)],
            open: BTreeMap::new(),
            waiting: VecDeque::new(),
            sent: 0,
            turn: 0,
            repeated: 0,
            inbox: Inbox::default(),
            failure: None,
        })
    }

    /// The next working port in turn.
    fn port(&mut self) -> Option<usize> {
        let count = self.data.len();
        let port = (0..count)
            .map(|step| (self.turn + step) % count)
            .find(|port| !self.failed[*port])?;
        self.turn = port + 1;
        Some(port)
    }

    fn post(&mut self, network: &mut dyn Network, message: u64, bytes: u32) -> Result<(), VerbsError> {
        let Some(port) = self.port() else { return Ok(()) };
        let op = SendOp::Write {
            addr: 0,
            rkey: self.ends.rkey(network)?,
            immediate: Some(message as u32),
        };
        self.ends.send(network, 0, self.data[port].qps[0], op, message, bytes)
    }

    /// Reads the receiver's record of a message.
    fn probe(&mut self, network: &mut dyn Network, message: u64) -> Result<(), VerbsError> {
        let Some(port) = self.failed.iter().position(|failed| !failed) else {
            return Ok(());
        };
        let rkey = self.ends.rkey(network)?;
        let op = SendOp::Read { addr: 0, rkey };
        self.ends
            .send(network, 0, self.probes[port].qps[0], op, PROBE | message, RECORD_BYTES)
    }

    /// Returns the port of a queue pair of the sender.
    fn port_of(&self, number: u32) -> Option<usize> {
        let is = |of: &[Connection], port: usize| of[port].numbers[0] == number;
        (0..self.data.len()).find(|port| is(&self.data, *port) || is(&self.probes, *port))
    }

    fn port_failed(&mut self, port: usize, status: WcStatus) {
        let others = self.failed.iter().filter(|failed| **failed).count();
        if self.failed[port] {
            return;
        }
        self.failed[port] = true;
        let bearable = matches!(status, WcStatus::RetryExcErr | WcStatus::WrFlushErr);
        if others > 0 || !bearable || self.failed.iter().all(|failed| *failed) {
            self.failure = Some(ToleranceError::NoPathLeft {
                path: port + 1,
                failed: others,
                paths: self.failed.len(),
            });
        }
    }

    fn sender(&mut self, network: &mut dyn Network, wc: &Wc) -> Result<(), VerbsError> {
        let message = wc.wr_id & !PROBE;
        let is_probe = wc.wr_id & PROBE != 0;
        if wc.status != WcStatus::Success {
            if let Some(port) = self.port_of(wc.qp_num) {
                self.port_failed(port, wc.status);
            }
            // Receives of the sender's queue pairs are flushed too; they carry no request.
            let known = self.open.contains_key(&message) && !self.waiting.iter().any(|(_, other)| *other == message);
            if known && wc.opcode != WcOpcode::Recv {
                self.waiting
                    .push_back((network.now() + self.settings.probe_delay_ps, message));
            }
            return Ok(());
        }
        if !is_probe {
            self.open.remove(&message);
            return Ok(());
        }
        // What the READ has fetched is the record of now or of a moment before, so nothing counts as arrived that has
        // not.
        if let Some(&bytes) = self.open.get(&message) {
            if self.inbox.has(message) {
                self.open.remove(&message);
            } else {
                self.repeated += 1;
                self.post(network, message, bytes)?;
            }
        }
        Ok(())
    }
}

impl Carrier for Failover {
    fn send(&mut self, network: &mut dyn Network, bytes: u32) -> Result<(), VerbsError> {
        let message = self.sent;
        self.sent += 1;
        self.open.insert(message, bytes);
        if self.failure.is_some() {
            return Ok(());
        }
        self.post(network, message, bytes)
    }

    fn progress(&mut self, network: &mut dyn Network) -> Result<(), VerbsError> {
        for wc in self.ends.poll(network, 1)? {
            if wc.status == WcStatus::Success && wc.opcode == WcOpcode::RecvRdmaWithImm {
                self.inbox.arrived(network.now(), wc.tag);
            }
        }
        for wc in self.ends.poll(network, 0)? {
            self.sender(network, &wc)?;
        }
        while let Some(&(at, message)) = self.waiting.front() {
            if at > network.now() || self.failure.is_some() {
                break;
            }
            self.waiting.pop_front();
            self.probe(network, message)?;
        }
        // NCCL logs asynchronous events of ports and goes on.
        for end in [0, 1] {
            self.ends.announced(network, end);
        }
        Ok(())
    }

    fn next_wake(&self) -> Option<Ps> {
        let waits = self.failure.is_none();
        self.waiting.front().filter(|_| waits).map(|(at, _)| *at)
    }

    fn delivered(&self) -> &[(u64, Ps)] {
        &self.inbox.delivered
    }

    fn failure(&self) -> Option<&ToleranceError> {
        self.failure.as_ref()
    }

    fn repeated(&self) -> u64 {
        self.repeated
    }
}
