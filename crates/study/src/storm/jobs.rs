//! Jobs that share hosts, with what became of their messages.

use selvedge_dataplane::{Arrival, Host, Message, Ps, Workload};
use selvedge_sim::{Rng, Seed};
use selvedge_types::Sl;

use super::{END, Outcome, Question, STORM};
use crate::error::StudyError;

/// Hosts of the storm, and of the job that sends to the same host.
const SENDERS: usize = 24;
/// Hosts of each other job.
const RANKS: usize = 30;
/// Fewest hosts: those of storm and rival, and as many others.
const HOSTS_MIN: u32 = 100;
/// Bytes of the messages of storm and rival: one packet.
const PACKET: u32 = 2_048;
/// Bytes of messages of victims, by class.
const BYTES: [u32; 3] = [512, 8_192, 65_536];
/// Load of a host of a job, as a share of its link, by class.
const LOADS: [f64; 3] = [0.02, 0.2, 0.2];
/// Load of the rival's hosts together, as a share of the link of the storm's receiver: more than its class is promised.
const RIVAL: f64 = 0.75;

/// A job.
#[derive(Clone, Debug)]
struct Job {
    class: usize,
    hosts: Vec<Host>,
    begin: Ps,
    end: Ps,
    /// The receiver of all its messages; `None`: another of its hosts, drawn for each.
    to: Option<Host>,
    /// Bytes of a message.
    bytes: u32,
    /// Mean time between two messages of a host.
    gap: Ps,
    is_victim: bool,
}

/// What a host sends for a job.
#[derive(Clone, Copy, Debug)]
struct Source {
    job: usize,
    next: Ps,
}

/// All jobs.
#[derive(Clone, Debug)]
pub(super) struct Jobs {
    jobs: Vec<Job>,
    levels: [Sl; 3],
    /// By host.
    sources: Vec<Vec<Source>>,
    rngs: Vec<Rng>,
    /// The receiver of the storm.
    sink: Host,
    /// Latencies of victims, by class.
    latencies: [Vec<Ps>; 3],
    /// Messages of victims posted while the storm lasts, by class.
    posted: [usize; 3],
}

impl Jobs {
    /// Draws jobs for hosts with this time for a byte.
    pub(super) fn new(question: &Question, hosts: u32, byte_ps: f64, levels: [Sl; 3]) -> Result<Self, StudyError> {
        if hosts < HOSTS_MIN {
            let (found, least) = (hosts, HOSTS_MIN);
            return Err(StudyError::FewHosts { found, least });
        }
        let mut rng = question.seed.child("jobs").rng();
        let mut order: Vec<Host> = (0..hosts).collect();
        rng.shuffle(&mut order);
        let sink = order[0];
        let gap = |bytes: u32, load: f64| (f64::from(bytes) * byte_ps / load) as Ps;
        let to_sink = |class, hosts: &[Host], [begin, end]: [Ps; 2], load: f64| Job {
            class,
            hosts: hosts.to_vec(),
            begin,
            end,
            to: Some(sink),
            bytes: PACKET,
            gap: gap(PACKET, load),
            is_victim: false,
        };
        let storm_end = STORM[0] + STORM[1];
        let mut jobs = vec![
            to_sink(2, &order[1..=SENDERS], [STORM[0], storm_end], 1.0),
            to_sink(
                1,
                &order[1 + SENDERS..=2 * SENDERS],
                [0, storm_end],
                RIVAL / SENDERS as f64,
            ),
        ];
        for number in 0..question.jobs as usize {
            let class = number % 3;
            rng.shuffle(&mut order);
            let begin = rng.below(STORM[0] + STORM[1] / 2);
            jobs.push(Job {
                class,
                hosts: order[..RANKS].to_vec(),
                begin,
                end: begin + STORM[1] + rng.below(2 * STORM[1]),
                to: None,
                bytes: BYTES[class],
                gap: gap(BYTES[class], LOADS[class]),
                is_victim: true,
            });
        }
        let mut all = Self {
            levels,
            sources: vec![Vec::new(); hosts as usize],
            rngs: (0..hosts).map(|host| host_rng(question.seed, host)).collect(),
            sink,
            latencies: [const { Vec::new() }; 3],
            posted: [0; 3],
            jobs,
        };
        for (number, job) in all.jobs.iter().enumerate() {
            for &host in &job.hosts {
                // Not all hosts of a job begin in the same instant.
                let next = job.begin + all.rngs[host as usize].below(job.gap.max(1));
                all.sources[host as usize].push(Source { job: number, next });
            }
        }
        Ok(all)
    }

    /// Returns the receiver of the storm.
    pub(super) const fn sink(&self) -> Host {
        self.sink
    }

    /// Returns what became of each class.
    pub(super) fn outcomes(&self) -> [Outcome; 3] {
        std::array::from_fn(|class| {
            let mut times = self.latencies[class].clone();
            let late = self.posted[class].saturating_sub(times.len());
            // They took at least until the end.
            times.extend(std::iter::repeat_n(END, late));
            times.sort_unstable();
            let at = |percent: usize| {
                times
                    .get((times.len() * percent).div_ceil(100).max(1) - 1)
                    .copied()
                    .unwrap_or(0)
            };
            Outcome {
                messages: times.len(),
                p50: at(50),
                p99: at(99),
                late,
            }
        })
    }
}

fn host_rng(seed: Seed, host: Host) -> Rng {
    seed.child("storm").nth(u64::from(host)).rng()
}

/// True if a message was posted while the storm lasts.
const fn is_in_storm(at: Ps) -> bool {
    at >= STORM[0] && at < STORM[0] + STORM[1]
}

impl Workload for Jobs {
    fn next(&mut self, host: Host, _now: Ps) -> Option<Message> {
        let sources = self.sources.get_mut(host as usize)?;
        let first = (0..sources.len()).min_by_key(|&at| (sources[at].next, at))?;
        let source = &mut sources[first];
        let (at, number) = (source.next, source.job);
        let job = &self.jobs[number];
        let rng = &mut self.rngs[host as usize];
        // Times between messages are even from half to one and a half of their mean; the storm has no pauses.
        let spread = if job.to.is_some() {
            job.gap
        } else {
            job.gap / 2 + rng.below(job.gap.max(1))
        };
        source.next += spread;
        if source.next >= job.end {
            sources.swap_remove(first);
        }
        let to = match job.to {
            Some(to) => to,
            None => {
                let place = rng.below(job.hosts.len() as u64 - 1) as usize;
                // Another host than the own one.
                let other = job.hosts[place];
                if other == host {
                    job.hosts[job.hosts.len() - 1]
                } else {
                    other
                }
            }
        };
        if job.is_victim && is_in_storm(at) {
            self.posted[job.class] += 1;
        }
        Some(Message {
            at,
            to,
            bytes: job.bytes,
            tag: number as u64,
            sl: Some(self.levels[job.class].get()),
        })
    }

    fn arrived(&mut self, arrival: Arrival, now: Ps, _ready: &mut Vec<Host>) {
        let Some(job) = self.jobs.get(arrival.tag as usize) else {
            return;
        };
        if job.is_victim && is_in_storm(arrival.posted) {
            self.latencies[job.class].push(now - arrival.posted);
        }
    }
}
