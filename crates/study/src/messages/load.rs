//! Hosts that load the links between two clusters.

use std::collections::BTreeMap;

use selvedge_messaging::{Channel, Event, Exchange, Policy};
use selvedge_sim::{Rng, Seed};

use crate::error::StudyError;

/// What each loading host sends, without end: messages to loading hosts of the other cluster, drawn at random.
#[derive(Clone, Debug)]
pub struct Load {
    /// Which service level and queue pair they take.
    pub policy: Policy,
    /// Lengths of messages, each drawn as often as the others; at least one.
    pub sizes: Vec<u32>,
    /// Messages of a host that may be under way.
    pub in_flight: u32,
}

/// A loading host.
#[derive(Debug)]
struct Loader {
    /// Channels to the other cluster, with the own side.
    peers: Vec<(Channel, usize)>,
    sizes: Vec<u32>,
    rng: Rng,
}

/// All loading hosts.
#[derive(Debug, Default)]
pub(super) struct Loaders {
    all: Vec<Loader>,
    /// By channel: the loader at each side.
    owners: BTreeMap<Channel, [usize; 2]>,
}

impl Loaders {
    /// Joins each loader of one cluster to each of the other, and lets all begin.
    pub(super) fn start(
        exchange: &mut Exchange,
        load: &Load,
        hosts: [Vec<usize>; 2],
        seed: Seed,
    ) -> Result<Self, StudyError> {
        if load.sizes.is_empty() || load.in_flight == 0 {
            let what = "the number of messages of the load";
            return Err(StudyError::Nothing { what });
        }
        let count = hosts[0].len();
        let mut loaders = Self::default();
        for number in 0..2 * count {
            loaders.all.push(Loader {
                peers: Vec::new(),
                sizes: load.sizes.clone(),
                rng: seed.child("load").nth(number as u64).rng(),
            });
        }
        for (a, &from) in hosts[0].iter().enumerate() {
            for (b, &to) in hosts[1].iter().enumerate() {
                let channel = exchange.join([from, to], &load.policy)?;
                let owners = [a, count + b];
                for (side, owner) in owners.into_iter().enumerate() {
                    loaders.all[owner].peers.push((channel, side));
                }
                loaders.owners.insert(channel, owners);
            }
        }
        for owner in 0..loaders.all.len() {
            for _ in 0..load.in_flight {
                loaders.send(exchange, owner)?;
            }
        }
        Ok(loaders)
    }

    fn send(&mut self, exchange: &mut Exchange, owner: usize) -> Result<(), StudyError> {
        let loader = &mut self.all[owner];
        let (channel, side) = loader.peers[loader.rng.below(loader.peers.len() as u64) as usize];
        let bytes = loader.sizes[loader.rng.below(loader.sizes.len() as u64) as usize];
        exchange.send(channel, side, bytes)?;
        Ok(())
    }

    /// Takes an event of the load. False: it is none of the load.
    pub(super) fn take(&mut self, exchange: &mut Exchange, event: &Event) -> Result<bool, StudyError> {
        let (Event::Arrived { channel, .. } | Event::Sent { channel, .. }) = event;
        let Some(owners) = self.owners.get(channel).copied() else {
            return Ok(false);
        };
        if let Event::Sent { side, .. } = event {
            self.send(exchange, owners[*side])?;
        }
        Ok(true)
    }
}
