//! Programs that look for congestion: waits of their ports, and bandwidth of their connections.

use std::collections::BTreeMap;

use selvedge_dataplane::{PS_PER_NS, Ps};
use selvedge_fabric::PortRef;
use selvedge_tolerance::{Congestion, Decision, Sample, Status};
use selvedge_types::PortNum;

use super::{Act, Mode, World};
use crate::error::StudyError;

/// What was seen of a connection.
#[derive(Clone, Debug)]
struct Seen {
    congestion: Congestion,
    /// Messages that were acknowledged, and whether others were under way, at the last sample.
    done: u64,
    was_busy: bool,
    /// Most messages that were acknowledged between two samples.
    most: u64,
}

/// What was seen at the last sample.
#[derive(Clone, Debug, Default)]
pub(super) struct Samples {
    /// By host, then connection.
    seen: Vec<Vec<Seen>>,
    /// By port: PortXmitWait in ns.
    waits: BTreeMap<PortRef, u64>,
}

/// Picoseconds per second.
const PS_PER_S: u128 = 1_000_000_000_000;

impl World<'_> {
    /// Takes a sample of all connections, and asks for migrations. Returns the next one.
    pub(super) fn sample(&mut self, at: Ps) -> Result<Option<(Ps, Act)>, StudyError> {
        let Mode::Policy(sampling) = self.question.mode else {
            return Ok(None);
        };
        let every_ns = (sampling.every / PS_PER_NS).max(1);
        let counters = self.cluster.simulation().port_counters();
        let waits: BTreeMap<PortRef, u64> = counters.iter().map(|(at, of)| (*at, of.xmit_wait_ns)).collect();
        let before = std::mem::replace(&mut self.samples.waits, waits);
        self.samples.seen.resize_with(self.programs.len(), Vec::new);
        for host in 0..self.programs.len() {
            let mut asked = Vec::new();
            for number in 0..self.programs[host].ends.len() {
                if self.samples.seen[host].len() == number {
                    self.samples.seen[host].push(Seen {
                        congestion: Congestion::new(sampling.thresholds)?,
                        done: 0,
                        was_busy: false,
                        most: 0,
                    });
                }
                if self.look(host, number, (&before, every_ns))? == Decision::Migrate {
                    asked.push(self.programs[host].ends[number].qp);
                }
            }
            if !asked.is_empty() {
                self.run.congested += asked.len() as u64;
                self.ask(host as u32, &asked)?;
            }
        }
        Ok(Some((at + sampling.every, Act::Sample)))
    }

    /// Hands a sample of a connection to its policy.
    fn look(
        &mut self,
        host: usize,
        number: usize,
        (before, every_ns): (&BTreeMap<PortRef, u64>, u64),
    ) -> Result<Decision, StudyError> {
        let program = &self.programs[host];
        let end = &program.ends[number];
        let port = self.cluster.hca(program.place)?.query_qp(end.qp)?.primary.port;
        let port = PortRef {
            node: program.node,
            port: PortNum::new(port).unwrap_or_default(),
        };
        let of = |waits: &BTreeMap<PortRef, u64>| waits.get(&port).copied().unwrap_or(0);
        let waited = of(&self.samples.waits).saturating_sub(of(before));
        let seen = &mut self.samples.seen[host][number];
        let messages = end.done - seen.done;
        let is_busy = end.posted > end.done;
        let rate = |messages: u64| {
            let bytes = u128::from(messages) * u128::from(self.question.program.message_bytes);
            (bytes * PS_PER_S / u128::from(every_ns * PS_PER_NS)) as u64
        };
        seen.most = seen.most.max(messages);
        let sample = Sample {
            wait: (waited.saturating_mul(1_000) / every_ns) as u32,
            bandwidth: (is_busy && seen.was_busy).then(|| rate(messages)),
            expected: rate(seen.most),
        };
        (seen.done, seen.was_busy) = (end.done, is_busy);
        let armed = program.process.entry(end.qp).map(|entry| entry.status) == Some(Status::Armed);
        Ok(seen.congestion.handle(self.cluster.now(), &sample, armed))
    }
}
