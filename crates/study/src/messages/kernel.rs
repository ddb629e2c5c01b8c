//! A kernel of messages like that of NAS FT: all hosts exchange long blocks, then sum up short ones.

use std::collections::BTreeMap;

use selvedge_dataplane::Ps;
use selvedge_messaging::{Channel, Event, MessageId, Policy};

use super::{Bed, GIVE_UP, Running};
use crate::error::StudyError;

/// What each measured host does in a round: it sends a block to each other one and waits for theirs, then the same with
/// short messages, so many times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// Bytes of a block.
    pub block: u32,
    /// Bytes of a short message.
    pub short: u32,
    /// Exchanges of short messages in a round.
    pub sums: u32,
    /// Rounds that are measured.
    pub rounds: u32,
}

/// Times of a kernel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Timing {
    /// A round on average, in ps.
    pub round_ps: f64,
}

/// A host of the job.
#[derive(Debug, Default)]
struct Rank {
    /// Channels to all others, with the own side.
    peers: Vec<(Channel, usize)>,
    /// Phase in which it is.
    phase: u32,
    /// By phase: messages that have arrived.
    arrived: BTreeMap<u32, u32>,
}

impl Bed {
    /// Runs a kernel on all measured hosts, at least two of each cluster.
    ///
    /// # Errors
    ///
    /// The settings contradict each other, or nothing moves any more.
    pub fn kernel(&self, policy: &Policy, kernel: &Kernel) -> Result<Timing, StudyError> {
        let mut running = self.start()?;
        let count = self.measured as usize;
        let hosts: Vec<usize> = [0, 1]
            .into_iter()
            .flat_map(|cluster| (0..count).map(move |number| self.host(cluster, number)))
            .collect();
        let mut job = Job::new(&mut running, &hosts, policy, kernel)?;
        running.until(self.settle)?;
        let begin = running.exchange.now();
        job.run(&mut running)?;
        let took: Ps = running.exchange.now() - begin;
        Ok(Timing {
            round_ps: took as f64 / f64::from(kernel.rounds.max(1)),
        })
    }
}

struct Job<'a> {
    kernel: &'a Kernel,
    ranks: Vec<Rank>,
    /// By channel: the rank at each side.
    owners: BTreeMap<Channel, [usize; 2]>,
    /// The phase of each message under way.
    phases: BTreeMap<MessageId, u32>,
}

impl<'a> Job<'a> {
    fn new(running: &mut Running, hosts: &[usize], policy: &Policy, kernel: &'a Kernel) -> Result<Self, StudyError> {
        let mut job = Self {
            kernel,
            ranks: hosts.iter().map(|_| Rank::default()).collect(),
            owners: BTreeMap::new(),
            phases: BTreeMap::new(),
        };
        for a in 0..hosts.len() {
            for b in a + 1..hosts.len() {
                let channel = running.exchange.join([hosts[a], hosts[b]], policy)?;
                for (side, rank) in [a, b].into_iter().enumerate() {
                    job.ranks[rank].peers.push((channel, side));
                }
                job.owners.insert(channel, [a, b]);
            }
        }
        Ok(job)
    }

    /// Returns the number of phases.
    const fn phases(&self) -> u32 {
        self.kernel.rounds * (1 + self.kernel.sums)
    }

    /// Lets a rank send what its phase has to send.
    fn send(&mut self, running: &mut Running, rank: usize) -> Result<(), StudyError> {
        let phase = self.ranks[rank].phase;
        let bytes = match phase.is_multiple_of(1 + self.kernel.sums) {
            true => self.kernel.block,
            false => self.kernel.short,
        };
        for (channel, side) in self.ranks[rank].peers.clone() {
            let id = running.exchange.send(channel, side, bytes)?;
            self.phases.insert(id, phase);
        }
        Ok(())
    }

    fn run(&mut self, running: &mut Running) -> Result<(), StudyError> {
        for rank in 0..self.ranks.len() {
            self.send(running, rank)?;
        }
        let mut left = self.ranks.len();
        let until = running.exchange.now() + GIVE_UP;
        while left > 0 {
            let Some(event) = running.next_event(until)? else {
                let what = "the kernel";
                return Err(StudyError::Stalled { what });
            };
            let Event::Arrived {
                message, channel, side, ..
            } = event
            else {
                continue;
            };
            let (Some(phase), Some(owners)) = (self.phases.remove(&message), self.owners.get(&channel)) else {
                continue;
            };
            let rank = owners[side];
            *self.ranks[rank].arrived.entry(phase).or_default() += 1;
            left -= usize::from(self.go_on(running, rank)?);
        }
        Ok(())
    }

    /// Takes a rank to the next phases, as far as their messages have arrived. True: it has done all.
    fn go_on(&mut self, running: &mut Running, rank: usize) -> Result<bool, StudyError> {
        loop {
            let own = &mut self.ranks[rank];
            let wanted = own.peers.len() as u32;
            if own.arrived.get(&own.phase).copied().unwrap_or(0) < wanted {
                return Ok(false);
            }
            own.arrived.remove(&own.phase);
            own.phase += 1;
            if own.phase == self.phases() {
                return Ok(true);
            }
            self.send(running, rank)?;
        }
    }
}
