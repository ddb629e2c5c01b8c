//! Chooses the receiver of a host's next message.

use selvedge_dataplane::Host;
use selvedge_sim::{Ratio, Rng, Seed};

use crate::Pattern;

/// A pattern over a number of hosts.
#[derive(Clone, Debug)]
pub struct Receivers {
    hosts: u32,
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    /// Any other host receives.
    Any,
    /// The first hosts send to any of the others.
    Split(u32),
    /// A fixed receiver for each host; a host with itself as receiver sends nothing.
    Fixed(Vec<Host>),
    /// One host receives with a given probability, otherwise any other host.
    Hot(Host, Ratio),
    /// Other hosts receive in turn.
    Turn(Turns),
}

/// Hosts that send to each other in turn.
#[derive(Clone, Debug)]
struct Turns {
    /// The hosts, in order, and by host its place among them.
    members: Vec<Host>,
    places: Vec<Option<u32>>,
    /// How many places further the receivers are.
    distances: Vec<u32>,
    /// By place: the next distance.
    turns: Vec<u32>,
}

impl Turns {
    fn new(hosts: u32, members: Vec<Host>, partners: u32) -> Self {
        let mut places = vec![None; hosts as usize];
        for (place, &host) in (0..).zip(&members) {
            places[host as usize] = Some(place);
        }
        let others = members.len() as u64 - 1;
        let partners = if partners == 0 { others } else { partners.into() };
        Self {
            turns: vec![0; members.len()],
            distances: (0..partners)
                .map(|turn| (1 + turn * others / partners) as u32)
                .collect(),
            members,
            places,
        }
    }

    fn place(&self, host: Host) -> Option<u32> {
        self.places.get(host as usize).copied().flatten()
    }

    fn at(&self, place: u32, distance: u32) -> Host {
        self.members[(place as usize + distance as usize) % self.members.len()]
    }

    fn next(&mut self, host: Host) -> Option<Host> {
        let place = self.place(host)?;
        let turn = self.turns[place as usize] as usize;
        self.turns[place as usize] = ((turn + 1) % self.distances.len()) as u32;
        Some(self.at(place, self.distances[turn]))
    }
}

/// A pattern that the hosts cannot carry out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReceiversError {
    /// SLV-WORKLOAD-0002: there is no such host.
    #[error("SLV-WORKLOAD-0002: traffic with host {host}, but hosts are numbered 0 to {last}")]
    NoHost {
        /// Number of the host.
        host: u32,
        /// The highest host number.
        last: u32,
    },
    /// SLV-WORKLOAD-0003: all hosts would send, so that there are no receivers.
    #[error("SLV-WORKLOAD-0003: {senders} senders of {hosts} hosts leave no receivers; want fewer")]
    NoReceivers {
        /// Senders.
        senders: u32,
        /// Hosts.
        hosts: u32,
    },
    /// SLV-WORKLOAD-0004: a host has two receivers.
    #[error("SLV-WORKLOAD-0004: host {host} is the sender of two pairs; want one")]
    TwoPairs {
        /// Number of the host.
        host: u32,
    },
    /// SLV-WORKLOAD-0012: the hosts of an all-to-all, or the receivers of each, are too few or too many.
    #[error("SLV-WORKLOAD-0012: all-to-all with {what}={asked}; want {least} to {most} on {hosts} hosts")]
    AllToAll {
        /// Hosts, or partners of each.
        what: &'static str,
        /// The number asked for.
        asked: u32,
        /// The smallest number.
        least: u32,
        /// The largest number.
        most: u32,
        /// Hosts.
        hosts: u32,
    },
}

impl Receivers {
    /// Returns a pattern over `hosts` hosts, at least 2. `seed` is for patterns that are drawn once.
    pub fn new(pattern: &Pattern, hosts: u32, seed: Seed) -> Result<Self, ReceiversError> {
        let exists = |host: u32| match host < hosts {
            true => Ok(host),
            false => Err(ReceiversError::NoHost { host, last: hosts - 1 }),
        };
        let each = |f: &dyn Fn(u32) -> u32| Kind::Fixed((0..hosts).map(f).collect());
        let kind = match pattern {
            Pattern::Uniform { senders: 0 } => Kind::Any,
            &Pattern::Uniform { senders } if senders < hosts => Kind::Split(senders),
            &Pattern::Uniform { senders } => return Err(ReceiversError::NoReceivers { senders, hosts }),
            Pattern::Shift { by } => each(&|host| ((u64::from(host) + u64::from(*by)) % u64::from(hosts)) as u32),
            Pattern::Transpose => {
                let side = hosts.isqrt();
                let turned = |host| match host < side * side {
                    true => host % side * side + host / side,
                    false => host,
                };
                each(&turned)
            }
            Pattern::BitComplement => each(&|host| hosts - 1 - host),
            Pattern::Bisection => Kind::Fixed(bisection(hosts, seed)),
            &Pattern::HotSpot { to, share_ppm } => Kind::Hot(exists(to)?, Ratio::per_million(share_ppm)),
            &Pattern::Incast { from, .. } if from >= hosts => {
                return Err(ReceiversError::NoReceivers { senders: from, hosts });
            }
            &Pattern::Incast { to, from } => {
                let to = exists(to)?;
                let behind = |host: u32| (host + hosts - to) % hosts;
                let sends = |host: u32| behind(host) > 0 && (from == 0 || behind(host) <= from);
                each(&|host| if sends(host) { to } else { host })
            }
            &Pattern::AllToAll { hosts: of, partners } => Kind::Turn(all_to_all(hosts, of, partners, seed)?),
            Pattern::Pairs(pairs) => Kind::Fixed(fixed(pairs, hosts, exists)?),
        };
        Ok(Self { hosts, kind })
    }

    /// Returns the receiver of the next message of `host`; `None`: the host sends nothing.
    pub fn next(&mut self, host: Host, rng: &mut Rng) -> Option<Host> {
        let hosts = self.hosts;
        let other = |rng: &mut Rng| {
            let drawn = rng.below(u64::from(hosts) - 1) as u32;
            drawn + u32::from(drawn >= host)
        };
        match &mut self.kind {
            Kind::Any => Some(other(rng)),
            Kind::Split(senders) if host < *senders => Some(*senders + rng.below(u64::from(hosts - *senders)) as u32),
            Kind::Split(_) => None,
            Kind::Fixed(to) => to.get(host as usize).copied().filter(|&to| to != host),
            Kind::Hot(to, share) => match rng.chance(*share) {
                true if *to != host => Some(*to),
                _ => Some(other(rng)),
            },
            Kind::Turn(turns) => turns.next(host),
        }
    }

    /// Returns the hosts that a host may send to; `None`: any other host.
    #[must_use]
    pub fn of(&self, host: Host) -> Option<Vec<Host>> {
        match &self.kind {
            Kind::Any | Kind::Hot(..) => None,
            &Kind::Split(senders) => Some(if host < senders { senders..self.hosts } else { 0..0 }.collect()),
            Kind::Fixed(to) => Some(
                to.get(host as usize)
                    .copied()
                    .filter(|&to| to != host)
                    .into_iter()
                    .collect(),
            ),
            Kind::Turn(turns) => {
                let of = |place| turns.distances.iter().map(move |&distance| turns.at(place, distance));
                Some(turns.place(host).into_iter().flat_map(of).collect())
            }
        }
    }
}

fn all_to_all(hosts: u32, of: u32, partners: u32, seed: Seed) -> Result<Turns, ReceiversError> {
    let members = if of == 0 { hosts } else { of };
    let check = |what, asked: u32, least, most| match asked == 0 || (least..=most).contains(&asked) {
        true => Ok(()),
        false => Err(ReceiversError::AllToAll {
            what,
            asked,
            least,
            most,
            hosts,
        }),
    };
    check("hosts", of, 2, hosts)?;
    check("partners", partners, 1, members - 1)?;
    let mut all: Vec<Host> = (0..hosts).collect();
    if members < hosts {
        seed.child("all-to-all").rng().shuffle(&mut all);
        all.truncate(members as usize);
        all.sort_unstable();
    }
    Ok(Turns::new(hosts, all, partners))
}

fn bisection(hosts: u32, seed: Seed) -> Vec<Host> {
    let mut order: Vec<Host> = (0..hosts).collect();
    seed.child("bisection").rng().shuffle(&mut order);
    let mut to: Vec<Host> = (0..hosts).collect();
    for pair in order.chunks_exact(2) {
        to[pair[0] as usize] = pair[1];
        to[pair[1] as usize] = pair[0];
    }
    to
}

fn fixed(
    pairs: &[(u32, u32)],
    hosts: u32,
    exists: impl Fn(u32) -> Result<u32, ReceiversError>,
) -> Result<Vec<Host>, ReceiversError> {
    let mut to: Vec<Host> = (0..hosts).collect();
    for &(from, receiver) in pairs {
        let (from, receiver) = (exists(from)?, exists(receiver)?);
        if to[from as usize] != from {
            return Err(ReceiversError::TwoPairs { host: from });
        }
        to[from as usize] = receiver;
    }
    Ok(to)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receivers(pattern: &str, hosts: u32) -> Vec<Option<Host>> {
        let mut receivers = Receivers::new(&pattern.parse().unwrap(), hosts, Seed(1)).unwrap();
        let mut rng = Seed(2).rng();
        (0..hosts).map(|host| receivers.next(host, &mut rng)).collect()
    }

    #[test]
    fn permutations() {
        let check = |pattern, hosts, want: &[i64]| {
            let found: Vec<_> = receivers(pattern, hosts)
                .into_iter()
                .map(|to| to.map_or(-1, i64::from))
                .collect();
            assert_eq!(found, want, "{pattern}");
        };
        check("shift:by=2", 5, &[2, 3, 4, 0, 1]);
        check("transpose", 5, &[-1, 2, 1, -1, -1]);
        check("bit-complement", 4, &[3, 2, 1, 0]);
        check("incast:to=1,from=2", 4, &[-1, -1, 1, 1]);
        check("incast:to=1", 3, &[1, -1, 1]);
        check("all-to-all", 3, &[1, 2, 0]);
        check("pairs:2>0", 3, &[-1, -1, 0]);
    }

    #[test]
    fn an_all_to_all_of_few_hosts_or_partners() {
        let sent = |pattern: &str, hosts: u32, seed: u64| {
            let mut receivers = Receivers::new(&pattern.parse().unwrap(), hosts, Seed(seed)).unwrap();
            let mut rng = Seed(2).rng();
            let mut of = |host| -> Vec<Host> { (0..6).filter_map(|_| receivers.next(host, &mut rng)).collect() };
            (0..hosts).map(&mut of).collect::<Vec<_>>()
        };
        let partners = sent("all-to-all:partners=3", 10, 1);
        assert_eq!(partners[0], [1, 4, 7, 1, 4, 7]);
        assert_eq!(partners[8], [9, 2, 5, 9, 2, 5]);
        let few = sent("all-to-all:hosts=3", 10, 1);
        let members: Vec<u32> = (0..10).filter(|host| !few[*host as usize].is_empty()).collect();
        let [a, b, c] = members[..] else { panic!("{few:?}") };
        assert_eq!(few[b as usize], [c, a, c, a, c, a]);
        assert!(
            (2..9).any(|seed| sent("all-to-all:hosts=3", 10, seed) != few),
            "drawn by the seed"
        );
    }

    #[test]
    fn the_receivers_of_a_host_are_those_it_sends_to() {
        let check = |pattern: &str| {
            let mut receivers = Receivers::new(&pattern.parse().unwrap(), 7, Seed(1)).unwrap();
            let mut rng = Seed(2).rng();
            for host in 0..7 {
                let of = receivers.of(host);
                let mut of = of.unwrap_or_else(|| (0..7).filter(|to| *to != host).collect());
                let mut sent: Vec<_> = (0..99).filter_map(|_| receivers.next(host, &mut rng)).collect();
                of.sort_unstable();
                sent.sort_unstable();
                sent.dedup();
                assert_eq!(of, sent, "{pattern} {host}");
            }
        };
        for pattern in [
            "uniform",
            "uniform:senders=3",
            "shift:by=2",
            "incast:to=1,from=3",
            "hotspot:to=2",
        ] {
            check(pattern);
        }
        for pattern in [
            "all-to-all",
            "all-to-all:partners=2",
            "all-to-all:hosts=4,partners=2",
            "bisection",
        ] {
            check(pattern);
        }
    }

    #[test]
    fn a_bisection_goes_both_ways() {
        let to = receivers("bisection", 10);
        for (host, to_host) in (0..).zip(&to) {
            assert_eq!(to[to_host.unwrap() as usize], Some(host));
        }
    }

    #[test]
    fn draws_are_even() {
        let check = |pattern: &str, host, want: &[f64]| {
            let hosts = want.len() as u32;
            let mut receivers = Receivers::new(&pattern.parse().unwrap(), hosts, Seed(1)).unwrap();
            let mut rng = Seed(2).rng();
            let mut counts = vec![0_u32; want.len()];
            for _ in 0..100_000 {
                counts[receivers.next(host, &mut rng).unwrap() as usize] += 1;
            }
            for (&count, want) in counts.iter().zip(want) {
                assert!((f64::from(count) / 1e5 - want).abs() < 0.01, "{pattern} {counts:?}");
            }
        };
        check("uniform", 1, &[0.25, 0.0, 0.25, 0.25, 0.25]);
        check("uniform:senders=2", 1, &[0.0, 0.0, 0.5, 0.5]);
        check("hotspot:to=2,share=40%", 0, &[0.0, 0.3, 0.7]);
    }

    #[test]
    fn impossible_patterns_are_refused() {
        let check = |pattern: &str, want: &str| {
            let error = Receivers::new(&pattern.parse().unwrap(), 4, Seed(1)).err();
            assert!(error.is_some_and(|e| e.to_string().starts_with(want)), "{pattern}");
        };
        check("hotspot:to=4", "SLV-WORKLOAD-0002");
        check("incast:to=9", "SLV-WORKLOAD-0002");
        check("incast:to=0,from=4", "SLV-WORKLOAD-0003");
        check("incast:to=3,from=999", "SLV-WORKLOAD-0003");
        check("uniform:senders=4", "SLV-WORKLOAD-0003");
        check("all-to-all:hosts=1", "SLV-WORKLOAD-0012");
        check("all-to-all:hosts=5", "SLV-WORKLOAD-0012");
        check("all-to-all:partners=4", "SLV-WORKLOAD-0012");
        check("all-to-all:hosts=3,partners=3", "SLV-WORKLOAD-0012");
        check("pairs:0>1,0>2", "SLV-WORKLOAD-0004");
    }
}
