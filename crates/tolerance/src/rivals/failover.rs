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
//! Queue pairs for probes are connected when the first probe is due, which costs nothing here.
//!
//! Not modelled: clear-to-send messages of the receiver, requests split over queue pairs, port recovery.

use std::collections::{BTreeMap, VecDeque};

use selvedge_hca::{Ps, SendOp, VerbsError, Wc, WcOpcode, WcStatus};

use super::{Carrier, Connection, Ends, Progress, Retries, Way};
use crate::cluster::Cluster;

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

impl FailoverSettings {
    const fn retries(&self) -> Retries {
        Retries {
            timeout: self.timeout,
            retry_cnt: self.retry_cnt,
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
    ways: Vec<Way>,
    /// By way: queue pairs for data, and for probes once one was needed.
    data: Vec<Connection>,
    probes: Vec<Option<Connection>>,
    /// Requests that are not complete: bytes.
    open: BTreeMap<u64, u32>,
    /// Failed requests in order of the time at which their probe is due.
    waiting: VecDeque<(Ps, u64)>,
    done: Progress,
}

impl Failover {
    /// Connects by all ways, each of which stands for a port.
    pub fn new(
        cluster: &mut Cluster,
        ends: Ends,
        ways: &[Way],
        settings: FailoverSettings,
    ) -> Result<Self, VerbsError> {
        let data = ends.connect_all(cluster, ways, settings.retries())?;
        Ok(Self {
            settings,
            ends,
            ways: ways.to_vec(),
            data,
            probes: vec![None; ways.len()],
            open: BTreeMap::new(),
            waiting: VecDeque::new(),
            done: Progress::new(ways.len()),
        })
    }

    fn post(&mut self, cluster: &mut Cluster, message: u64, bytes: u32) -> Result<(), VerbsError> {
        let Some(port) = self.done.next_way(None) else {
            return Ok(());
        };
        let op = SendOp::Write {
            addr: 0,
            rkey: self.ends.rkey(cluster)?,
            immediate: Some(message as u32),
        };
        self.ends.send(cluster, 0, self.data[port].qps[0], op, message, bytes)
    }

    /// Reads the receiver's record of a message.
    fn probe(&mut self, cluster: &mut Cluster, message: u64) -> Result<(), VerbsError> {
        let Some(port) = self.done.failed.iter().position(|failed| !failed) else {
            return Ok(());
        };
        let connection = match self.probes[port] {
            Some(connection) => connection,
            None => self.ends.connect(cluster, &self.ways[port], self.settings.retries())?,
        };
        self.probes[port] = Some(connection);
        let rkey = self.ends.rkey(cluster)?;
        let op = SendOp::Read { addr: 0, rkey };
        self.ends
            .send(cluster, 0, connection.qps[0], op, PROBE | message, RECORD_BYTES)
    }

    /// Returns the port of a queue pair of the sender.
    fn port_of(&self, number: u32) -> Option<usize> {
        let is = |of: Option<&Connection>| of.is_some_and(|of| of.numbers[0] == number);
        (0..self.data.len()).find(|port| is(self.data.get(*port)) || is(self.probes[*port].as_ref()))
    }

    fn port_failed(&mut self, port: usize, status: WcStatus) {
        let first = self.done.count_failed() == 0;
        let bearable = first && matches!(status, WcStatus::RetryExcErr | WcStatus::WrFlushErr);
        self.done.fail(port, bearable);
    }

    /// Counts a message that has arrived, once.
    fn arrived(&mut self, message: u64) {
        self.done.acknowledged += u64::from(self.open.remove(&message).is_some());
    }

    fn sender(&mut self, cluster: &mut Cluster, wc: &Wc) -> Result<(), VerbsError> {
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
                    .push_back((cluster.now() + self.settings.probe_delay_ps, message));
            }
            return Ok(());
        }
        if !is_probe {
            self.arrived(message);
            return Ok(());
        }
        // What the READ has fetched is the record of now or of a moment before, so nothing counts as arrived that has
        // not.
        if let Some(&bytes) = self.open.get(&message) {
            if self.done.inbox.has(message) {
                self.arrived(message);
            } else {
                self.done.repeated += 1;
                self.post(cluster, message, bytes)?;
            }
        }
        Ok(())
    }
}

impl Carrier for Failover {
    fn send(&mut self, cluster: &mut Cluster, bytes: u32) -> Result<(), VerbsError> {
        let message = self.done.send();
        self.open.insert(message, bytes);
        if self.done.failure.is_some() {
            return Ok(());
        }
        self.post(cluster, message, bytes)
    }

    fn progress(&mut self, cluster: &mut Cluster) -> Result<(), VerbsError> {
        for wc in self.ends.poll(cluster, 1)? {
            if wc.status == WcStatus::Success && wc.opcode == WcOpcode::RecvRdmaWithImm {
                self.done.inbox.arrived(cluster.now(), wc.tag);
                if let Some(connection) = self.data.iter().find(|data| data.numbers[1] == wc.qp_num) {
                    self.ends.receive_again(cluster, 1, connection.qps[1])?;
                }
            }
        }
        for wc in self.ends.poll(cluster, 0)? {
            self.sender(cluster, &wc)?;
        }
        while let Some(&(at, message)) = self.waiting.front() {
            if at > cluster.now() || self.done.failure.is_some() {
                break;
            }
            self.waiting.pop_front();
            self.probe(cluster, message)?;
        }
        // NCCL logs asynchronous events of ports and goes on.
        for end in [0, 1] {
            self.ends.announced(cluster, end);
        }
        Ok(())
    }

    fn next_wake(&self) -> Option<Ps> {
        let waits = self.done.failure.is_none();
        self.waiting.front().filter(|_| waits).map(|(at, _)| *at)
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
        self.data.iter().map(|data| data.ready_at).max().unwrap_or(0)
    }
}
