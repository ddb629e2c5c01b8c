//! Alternate paths of the pairs of a routing in force, one by one and counted.

use std::collections::{BTreeMap, BTreeSet};

use selvedge_api::{AlternateFault, AlternateLeg, AlternatePath, AlternateRefusal, AlternateShare, Alternates};
use selvedge_apm::{Alternate, ApmError, Fault, Host, Hosts, Index, Path, Policy, Routes, Way};
use selvedge_fabric::Fabric;

use super::{OFFSETS_MAX, Question};
use crate::in_force::InForce;

/// The paths of a routing in force.
pub(super) struct View<'a> {
    pub(super) question: &'a Question,
    pub(super) force: &'a InForce,
    pub(super) index: Index,
    pub(super) hosts: Hosts,
}

impl<'a> View<'a> {
    pub(super) fn new(force: &'a InForce, question: &'a Question) -> Self {
        let subnet = force.subnet();
        let index = Index::new(subnet);
        let hosts = Hosts::of(subnet, &index);
        Self {
            question,
            force,
            index,
            hosts,
        }
    }

    pub(super) fn routes(&self) -> Routes<'_> {
        Routes {
            subnet: self.force.subnet(),
            index: &self.index,
        }
    }

    pub(super) fn fabric(&self) -> &Fabric {
        &self.force.fabric
    }

    pub(super) fn policy(&self) -> Policy {
        self.question.policy.unwrap_or(Policy::Manager)
    }

    pub(super) fn pair(&self, (from, to): (usize, usize)) -> (&Host, &Host) {
        (&self.hosts.all()[from], &self.hosts.all()[to])
    }

    pub(super) fn alternate(&self, pair: (usize, usize), policy: Policy) -> Result<Alternate, ApmError> {
        self.routes().alternate(self.pair(pair), self.question.bits, policy)
    }

    /// Returns the hosts with these names, in the order of the fabric; all without names.
    pub(super) fn among(&self, names: &[String]) -> Result<Vec<usize>, ApmError> {
        let all = (0..self.hosts.all().len()).collect();
        let named = names.iter().map(|name| self.hosts.find(name));
        let named: BTreeSet<usize> = named.collect::<Result<_, _>>()?;
        Ok(if names.is_empty() {
            all
        } else {
            named.into_iter().collect()
        })
    }

    /// Returns the largest LMC of a host port.
    pub(super) fn lmc(&self) -> u8 {
        let ports = self.hosts.all().iter().flat_map(|host| host.hcas.iter().flatten());
        let lmc = ports.filter_map(|&at| Some(self.force.lids.range(at)?.lmc.get()));
        lmc.max().unwrap_or(0)
    }

    /// Returns the policies that a pair can be asked about.
    pub(super) fn policies(&self, (from, to): (usize, usize)) -> Vec<Policy> {
        let mut policies = vec![Policy::Manager, Policy::Port, Policy::Hca];
        let lids = |host: usize| {
            let first = self.hosts.all()[host].hcas.iter().flatten().next();
            first
                .and_then(|&at| self.force.lids.range(at))
                .map_or(1, |lids| lids.lmc.lids())
        };
        let last = u8::try_from(lids(from).min(lids(to)) - 1).unwrap_or(u8::MAX);
        let offsets = (0..=last.min(OFFSETS_MAX)).filter(|&bits| bits != self.question.bits);
        policies.extend(offsets.map(Policy::Offset));
        policies.extend([Policy::OpenMpi, Policy::Mvapich2 { queue_pairs: 1 }]);
        policies
    }

    pub(super) fn leg(&self, path: &Path, way: &Way) -> AlternateLeg {
        AlternateLeg {
            source_port: self.fabric().port_name(path.source),
            target_port: self.fabric().port_name(path.target),
            slid: path.slid.0,
            dlid: path.dlid.0,
            path_bits: path.bits,
            sl: path.sl.get(),
            hops: way.hops(),
            busiest: way.busiest(),
        }
    }

    /// Returns one row: a pair and a policy.
    pub(super) fn row(&self, pair: (usize, usize), policy: Policy) -> AlternatePath {
        let (from, to) = self.pair(pair);
        let row = AlternatePath {
            source: from.name.clone(),
            target: to.name.clone(),
            policy: policy.to_string(),
            ..AlternatePath::default()
        };
        let found = match self.alternate(pair, policy) {
            Ok(found) => found,
            Err(refused) => {
                let routes = self.routes();
                let primary = routes.primary(self.pair(pair), self.question.bits).ok();
                let primary = primary.and_then(|path| Some((path, routes.way(&path)?)));
                return AlternatePath {
                    primary: primary.map(|(path, way)| self.leg(&path, &way)),
                    refused: Some(refused.to_string()),
                    ..row
                };
            }
        };
        let fatal = found.shared.avoidable.iter().chain(&found.shared.unavoidable);
        AlternatePath {
            primary: Some(self.leg(&found.primary, &found.primary_way)),
            alternate: Some(self.leg(&found.alternate, &found.alternate_way)),
            in_hardware: found.is_in_hardware(),
            level_planned: found.level_is_planned(&self.force.routed.service_levels),
            shared_links: found.shared.links() as u64,
            shared_switches: found.shared.switches() as u64,
            fatal: fatal
                .map(|fault| format!("{} {}", fault.kind(), fault.name(self.fabric())))
                .collect(),
            avoidable: found.shared.avoidable.len() as u64,
            ..row
        }
    }

    /// Examines pairs.
    pub(super) fn count(&self, pairs: &[(usize, usize)]) -> Counts {
        let mut counts = Counts::default();
        for &pair in pairs {
            let found = match self.alternate(pair, self.policy()) {
                Ok(found) => found,
                Err(error) => {
                    counts.refuse(&error);
                    continue;
                }
            };
            let shared = &found.shared;
            *counts.links.entry(shared.links() as u64).or_default() += 1;
            *counts.switches.entry(shared.switches() as u64).or_default() += 1;
            counts.disjoint += u64::from(shared.is_disjoint());
            for fault in &shared.avoidable {
                counts.faults.entry(*fault).or_default().0 += 1;
            }
            for fault in &shared.unavoidable {
                counts.faults.entry(*fault).or_default().1 += 1;
            }
            if !shared.is_disjoint() {
                counts.worst.push((shared.avoidable.len(), pair));
            }
        }
        counts.shorten(self.question.top);
        counts
    }

    pub(super) fn told(&self, counts: Counts, pairs: u64) -> Alternates {
        let shares = |by: &BTreeMap<u64, u64>| {
            let share = |(&shared, &pairs): (&u64, &u64)| AlternateShare { shared, pairs };
            by.iter().map(share).collect()
        };
        let mut faults: Vec<(Fault, (u64, u64))> = counts.faults.into_iter().collect();
        faults.sort_by_key(|&(fault, (pairs, unavoidable))| (std::cmp::Reverse((pairs, unavoidable)), fault));
        faults.truncate(self.question.top);
        let mut refused: Vec<AlternateRefusal> = (counts.refused.into_iter())
            .map(|(code, (pairs, example))| AlternateRefusal { code, example, pairs })
            .collect();
        refused.sort_by_key(|refusal| std::cmp::Reverse(refusal.pairs));
        Alternates {
            fabric: self.question.name.clone(),
            engine: self.force.engine.name().to_owned(),
            lmc: self.lmc(),
            policy: self.policy().to_string(),
            pairs,
            with_alternate: counts.links.values().sum(),
            disjoint: counts.disjoint,
            shared_links: shares(&counts.links),
            shared_switches: shares(&counts.switches),
            faults: (faults.into_iter())
                .map(|(fault, (pairs, unavoidable))| AlternateFault {
                    kind: fault.kind().to_owned(),
                    name: fault.name(self.fabric()),
                    pairs,
                    unavoidable,
                })
                .collect(),
            worst: (counts.worst.iter())
                .map(|&(_, pair)| self.row(pair, self.policy()))
                .collect(),
            refused,
            ok: counts.disjoint == pairs,
            ..Alternates::default()
        }
    }
}

/// Figures of some pairs.
#[derive(Debug, Default)]
pub(super) struct Counts {
    /// Pairs by the number of shared links.
    pub(super) links: BTreeMap<u64, u64>,
    /// Pairs by the number of shared switches.
    pub(super) switches: BTreeMap<u64, u64>,
    /// Pairs that share nothing avoidable.
    pub(super) disjoint: u64,
    /// Pairs that a fault parts: avoidable, unavoidable.
    pub(super) faults: BTreeMap<Fault, (u64, u64)>,
    /// Pairs with what they share, worst first.
    pub(super) worst: Vec<(usize, (usize, usize))>,
    /// Pairs without an alternate path, and the first reason, by code.
    pub(super) refused: BTreeMap<String, (u64, String)>,
}

impl Counts {
    pub(super) fn refuse(&mut self, error: &ApmError) {
        let text = error.to_string();
        let code = text.split_once(':').map_or(text.as_str(), |(code, _)| code).to_owned();
        self.refused.entry(code).or_insert((0, text)).0 += 1;
    }

    pub(super) fn shorten(&mut self, top: usize) {
        self.worst
            .sort_by_key(|&(shared, pair)| (std::cmp::Reverse(shared), pair));
        self.worst.truncate(top);
    }

    /// Adds the figures of later pairs.
    pub(super) fn add(&mut self, other: Self, top: usize) {
        for (own, more) in [(&mut self.links, other.links), (&mut self.switches, other.switches)] {
            for (shared, pairs) in more {
                *own.entry(shared).or_default() += pairs;
            }
        }
        self.disjoint += other.disjoint;
        for (fault, (pairs, unavoidable)) in other.faults {
            let own = self.faults.entry(fault).or_default();
            (own.0, own.1) = (own.0 + pairs, own.1 + unavoidable);
        }
        for (code, (pairs, example)) in other.refused {
            self.refused.entry(code).or_insert((0, example)).0 += pairs;
        }
        self.worst.extend(other.worst);
        self.shorten(top);
    }
}
