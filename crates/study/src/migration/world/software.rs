//! Rivals of path migration: carriers that recover in software, one for each direction of a pair.

use std::collections::BTreeMap;

use selvedge_hca::{Cq, VerbsError};
use selvedge_tolerance::{Carrier, Cluster, Ends, Failover, FailoverSettings, Striping, StripingSettings};

use super::super::Rival;
use super::super::hosts::Link;
use super::World;
use crate::error::StudyError;

/// A carrier and its traffic.
struct Carried {
    carrier: Box<dyn Carrier>,
    hosts: [u32; 2],
    sent: u64,
    acknowledged: u64,
    failures: u32,
    is_over: bool,
}

/// All carriers.
#[derive(Default)]
pub(super) struct Software {
    all: Vec<Carried>,
    /// By sender and receiver; by place in the cluster and completion queue.
    by_hosts: BTreeMap<[u32; 2], u32>,
    by_queue: BTreeMap<(usize, Cq), u32>,
    /// Ways of each carrier, all together.
    ways: u64,
}

impl Software {
    pub(super) fn of_queue(&self, place: usize, cq: Cq) -> Option<u32> {
        self.by_queue.get(&(place, cq)).copied()
    }

    /// Queue pairs for data: two for each way.
    pub(super) const fn queue_pairs(&self) -> u64 {
        2 * self.ways
    }

    pub(super) fn repeated(&self) -> u64 {
        self.all.iter().map(|carried| carried.carrier.repeated()).sum()
    }
}

impl World<'_> {
    /// Connects the carriers of a pair of hosts, one for each direction.
    pub(super) fn open_carriers(&mut self, link: &Link, rival: Rival) -> Result<(), StudyError> {
        for sender in [0, 1] {
            let hosts = [link.hosts[sender], link.hosts[1 - sender]];
            let places = hosts.map(|host| self.programs[host as usize].place);
            let way = |paths: &[selvedge_hca::Path; 2]| [paths[sender], paths[1 - sender]];
            let ways: Vec<selvedge_tolerance::Way> = link.paths.iter().map(way).collect();
            let objects = hosts.map(|host| self.programs[host as usize].objects);
            let ends = Ends::beside(&mut self.cluster, places, objects)?;
            let carrier = self.open_carrier(rival, ends, &ways)?;
            let number = self.software.all.len() as u32;
            self.start = self.start.max(carrier.ready_at());
            for (end, place) in places.into_iter().enumerate() {
                let cq = carrier.ends().objects[end].cq;
                self.software.by_queue.insert((place, cq), number);
            }
            self.software.by_hosts.insert(hosts, number);
            self.software.ways += ways.len() as u64;
            self.software.all.push(Carried {
                carrier,
                hosts,
                sent: 0,
                acknowledged: 0,
                failures: 0,
                is_over: false,
            });
        }
        Ok(())
    }

    fn open_carrier(
        &mut self,
        rival: Rival,
        ends: Ends,
        ways: &[selvedge_tolerance::Way],
    ) -> Result<Box<dyn Carrier>, VerbsError> {
        let qp = self.question.settings.qp;
        let (timeout, retry_cnt) = (qp.ack_timeout, qp.retry_count);
        let cluster: &mut Cluster = &mut self.cluster;
        Ok(match rival {
            Rival::Failover => {
                let settings = FailoverSettings {
                    timeout,
                    retry_cnt,
                    ..FailoverSettings::default()
                };
                Box::new(Failover::new(cluster, ends, ways, settings)?)
            }
            Rival::Striping => {
                let settings = StripingSettings {
                    timeout,
                    retry_cnt,
                    ..StripingSettings::default()
                };
                Box::new(Striping::new(cluster, ends, ways, settings)?)
            }
        })
    }

    /// Sends a message by the carrier of a pair. False if it carries no more.
    pub(super) fn carry(&mut self, host: u32, peer: u32) -> Result<bool, StudyError> {
        let Some(&number) = self.software.by_hosts.get(&[host, peer]) else {
            return Ok(false);
        };
        let carried = &mut self.software.all[number as usize];
        if carried.is_over {
            return Ok(false);
        }
        carried.sent += 1;
        carried
            .carrier
            .send(&mut self.cluster, self.question.program.message_bytes)?;
        let wake = carried.carrier.next_wake();
        self.wakes.set(self.programs.len() as u32 + number, wake);
        Ok(true)
    }

    /// Lets a carrier go on, and counts what it has carried.
    pub(super) fn carried(&mut self, number: u32) -> Result<(), StudyError> {
        let carried = &mut self.software.all[number as usize];
        carried.carrier.progress(&mut self.cluster)?;
        // Receivers' programs take their messages.
        carried.carrier.take_delivered(&mut Vec::new());
        let acknowledged = carried.carrier.acknowledged();
        let arrived = acknowledged - carried.acknowledged;
        carried.acknowledged = acknowledged;
        let failures = carried.carrier.connections_failed();
        let failed = u64::from(failures - carried.failures);
        carried.failures = failures;
        let mut lost = 0;
        if carried.carrier.failure().is_some() && !carried.is_over {
            carried.is_over = true;
            lost = carried.sent - acknowledged;
        }
        let [host, peer] = carried.hosts;
        let wake = carried.carrier.next_wake();
        self.wakes.set(self.programs.len() as u32 + number, wake);
        if failed > 0 {
            self.qp_error(host as usize, peer, "RETRY_EXC_ERR", failed);
        }
        if arrived + lost == 0 {
            return Ok(());
        }
        self.run.messages_failed += lost;
        self.arrived(arrived);
        let program = &mut self.programs[host as usize];
        program.in_flight = program.in_flight.saturating_sub((arrived + lost) as u32);
        self.feed(host as usize)
    }
}
