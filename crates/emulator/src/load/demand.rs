//! Which hosts send to which: patterns as lists of senders and receivers.

use std::collections::BTreeSet;

use selvedge_chassis::{Chassis, PortIdx};
use selvedge_sim::{Ratio, Seed};

use super::pattern::{Load, Part, Pattern};
use crate::{EmulatorError, NodeName, PortName};

/// Which hosts send to which, by host number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Demand {
    /// Every host of a list to every other one.
    Among(Vec<u32>),
    /// (sender, receiver).
    Pairs(Vec<(u32, u32)>),
}

/// A part of a load.
#[derive(Clone, Debug)]
pub(super) struct Share {
    pub demand: Demand,
    rate: Ratio,
}

impl Share {
    /// Returns what a sender offers if its link carries `capacity`.
    pub fn of(&self, capacity: u64) -> u64 {
        let offered = u128::from(capacity) * u128::from(self.rate.numerator) / u128::from(self.rate.denominator);
        u64::try_from(offered).unwrap_or(u64::MAX)
    }
}

/// Returns the parts of a load with hosts instead of names.
pub(super) fn shares(chassis: &Chassis, hosts: &[PortIdx], load: &Load) -> Result<Vec<Share>, EmulatorError> {
    let names = Names { chassis, hosts };
    load.parts().iter().map(|part| names.share(part)).collect()
}

struct Names<'a> {
    chassis: &'a Chassis,
    hosts: &'a [PortIdx],
}

impl Names<'_> {
    fn share(&self, part: &Part) -> Result<Share, EmulatorError> {
        let members = self.members(&part.among)?;
        let demand = match &part.pattern {
            Pattern::Uniform => Demand::Among(members),
            Pattern::Shift(by) => Demand::Pairs(shift(&members, *by)),
            Pattern::Permutation(seed) => Demand::Pairs(permutation(members, Seed(*seed))),
            Pattern::BitReversal => Demand::Pairs(bit_reversal(&members)),
            Pattern::Incast(to) => {
                let to = self.host(to)?;
                Demand::Pairs(
                    members
                        .into_iter()
                        .filter(|from| *from != to)
                        .map(|from| (from, to))
                        .collect(),
                )
            }
            Pattern::Pairs(pairs) => {
                let pair = |(from, to): &(PortName, PortName)| Ok((self.host(from)?, self.host(to)?));
                Demand::Pairs(pairs.iter().map(pair).collect::<Result<_, EmulatorError>>()?)
            }
        };
        Ok(Share {
            demand,
            rate: part.rate,
        })
    }

    /// Returns the hosts that a list of nodes means, in their order; all for an empty list.
    fn members(&self, names: &[NodeName]) -> Result<Vec<u32>, EmulatorError> {
        if names.is_empty() {
            return Ok((0..).take(self.hosts.len()).collect());
        }
        let mut found = BTreeSet::new();
        for name in names {
            let node = name.find(self.chassis.fabric())?;
            let is_meant = |port: PortIdx| {
                let wire = self.chassis.wire(port);
                let peer = wire.peer().map(|peer| self.chassis.wire(peer).node());
                wire.node() == node || peer == Some(node)
            };
            let before = found.len();
            found.extend(
                (0..)
                    .zip(self.hosts)
                    .filter(|(_, port)| is_meant(**port))
                    .map(|(at, _)| at),
            );
            if found.len() == before {
                return Err(EmulatorError::NoHost { name: name.to_string() });
            }
        }
        Ok(found.into_iter().collect())
    }

    fn host(&self, name: &PortName) -> Result<u32, EmulatorError> {
        let at = name.end_port(self.chassis.fabric())?;
        let port = self.chassis.port_idx(at);
        let place = port.and_then(|port| self.hosts.binary_search(&port).ok());
        place
            .and_then(|place| u32::try_from(place).ok())
            .ok_or_else(|| EmulatorError::NoHost { name: name.to_string() })
    }
}

fn shift(members: &[u32], by: u32) -> Vec<(u32, u32)> {
    let count = members.len().max(1);
    let to = |at: usize| members[(at + by as usize % count) % count];
    let pairs = members.iter().enumerate().map(|(at, &from)| (from, to(at)));
    pairs.filter(|(from, to)| from != to).collect()
}

fn permutation(members: Vec<u32>, seed: Seed) -> Vec<(u32, u32)> {
    let mut receivers = members.clone();
    seed.child("permutation").rng().shuffle(&mut receivers);
    members
        .into_iter()
        .zip(receivers)
        .filter(|(from, to)| from != to)
        .collect()
}

/// Host `i` of the largest power of two sends to the host with the bits of `i` in reverse order. Hosts beyond send
/// nothing.
fn bit_reversal(members: &[u32]) -> Vec<(u32, u32)> {
    let bits = members.len().checked_ilog2().unwrap_or(0);
    let reversed = |at: usize| at.reverse_bits().checked_shr(usize::BITS - bits).unwrap_or(0);
    let pairs = (0..1_usize << bits).filter_map(|at| Some((*members.get(at)?, *members.get(reversed(at))?)));
    pairs.filter(|(from, to)| from != to).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_of_eight_hosts() {
        let members: Vec<u32> = (0..8).collect();
        assert_eq!(shift(&members, 3)[..2], [(0, 3), (1, 4)]);
        assert_eq!(shift(&members, 3)[7], (7, 2));
        assert_eq!(shift(&members, 8), [], "a shift by all hosts");
        assert_eq!(bit_reversal(&members), [(1, 4), (3, 6), (4, 1), (6, 3)]);
        assert_eq!(bit_reversal(&(0..11).collect::<Vec<_>>()), bit_reversal(&members));
        assert_eq!((bit_reversal(&[]), bit_reversal(&[5])), (vec![], vec![]));
        let drawn = permutation(members.clone(), Seed(3));
        let receivers: BTreeSet<u32> = drawn.iter().map(|(_, to)| *to).collect();
        assert_eq!(receivers.len(), drawn.len());
        assert!(drawn.len() > 4 && drawn != permutation(members, Seed(4)), "{drawn:?}");
    }
}
