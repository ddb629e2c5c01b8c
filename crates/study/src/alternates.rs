//! Alternate paths for automatic path migration: which pairs have one, and what single fault breaks both paths.

use std::collections::{BTreeMap, BTreeSet};

use selvedge_api::{
    AlternateFault, AlternateLeg, AlternatePath, AlternatePaths, AlternateRefusal, AlternateShare, Alternates,
};
use selvedge_apm::{Alternate, ApmError, Fault, Host, Hosts, Index, Path, Policy, Routes, Subnet, Way};
use selvedge_fabric::Fabric;
use selvedge_routing::Note;
use selvedge_sim::Seed;

use crate::error::StudyError;
use crate::in_force::InForce;
use crate::threads::Threads;
use crate::watch::{Reporter, Stage, Watch};

pub use crate::in_force::Start;

/// Largest number of pairs that are examined if the question states none: all pairs of 700 hosts, and about a second of
/// work.
pub const PAIRS_MAX: u64 = 250_000;
/// Pairs in one piece of work.
const PIECE: usize = 512;
/// Largest path bits in the answer for a single pair of hosts: all of LMC 3.
const OFFSETS_MAX: u8 = 7;

/// Which pairs of hosts have alternate paths, and how disjoint are they?
#[derive(Clone, Debug)]
pub struct Question {
    /// Name of the fabric in the answer.
    pub name: String,
    /// The fabric, and its routing in force.
    pub start: Start,
    /// Path bits of the primary paths.
    pub bits: u8,
    /// The policy; `None`: every policy for a pair, `manager` otherwise.
    pub policy: Option<Policy>,
    /// Largest number of pairs to examine, drawn at random if there are more; `None`: [`PAIRS_MAX`].
    pub sample: Option<u64>,
    /// Seed of the sample.
    pub seed: u64,
    /// Number of faults and of pairs that are listed.
    pub top: usize,
    /// Threads to use.
    pub threads: Threads,
}

/// Alternate paths over pairs.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The figures.
    pub alternates: Alternates,
    /// Notes of the engine that made the tables in force.
    pub notes: Vec<Note>,
}

/// Alternate paths of one host or one pair.
#[derive(Clone, Debug)]
pub struct Listed {
    /// The paths.
    pub paths: AlternatePaths,
    /// Notes of the engine that made the tables in force.
    pub notes: Vec<Note>,
}

impl Question {
    /// Examines all pairs of hosts, or all pairs of the hosts in `among` (names or GUIDs), unless it is empty. A unit
    /// of work is 512 pairs; the total is 0 until the tables are in force.
    ///
    /// # Errors
    ///
    /// The study is cancelled, the engine refuses the fabric, or a host is unknown.
    pub fn answer(&self, among: &[String], watch: &dyn Watch) -> Result<Answer, StudyError> {
        // The number of pairs is known once the tables are in force.
        let reporter = Reporter::new(watch, Stage::Routing(self.start.engine), 0);
        let (force, notes) = self.start.in_force(self.threads, &reporter)?;
        let view = View::new(&force, self);
        let hosts = view.among(among)?;
        let (pairs, there_are) = self.pairs(&hosts);
        let pieces = pairs.chunks(PIECE).collect::<Vec<_>>();
        let reporter = Reporter::new(watch, Stage::Alternates, pieces.len() as u64);
        reporter.begin(Stage::Alternates)?;
        let counted = self.threads.par().map(pieces.len(), |at| {
            reporter.check()?;
            let counts = view.count(pieces[at]);
            reporter.done();
            Ok::<Counts, StudyError>(counts)
        });
        let mut all = Counts::default();
        for counts in counted {
            all.add(counts?, self.top);
        }
        let alternates = Alternates {
            hosts: hosts.len() as u64,
            pairs_there_are: there_are,
            ..view.told(all, pairs.len() as u64)
        };
        Ok(Answer { alternates, notes })
    }

    /// Lists the alternate path from one host to every other one.
    ///
    /// # Errors
    ///
    /// As of [`Self::answer`].
    pub fn of_host(&self, host: &str, watch: &dyn Watch) -> Result<Listed, StudyError> {
        self.listed(watch, |view| {
            let from = view.hosts.find(host)?;
            let others = (0..view.hosts.all().len()).filter(|&to| to != from);
            let paths: Vec<_> = others.map(|to| view.row((from, to), view.policy())).collect();
            let ok = paths.iter().all(is_disjoint);
            Ok((paths, ok))
        })
    }

    /// Lists the alternate paths of a pair of hosts, one row per policy.
    ///
    /// # Errors
    ///
    /// As of [`Self::answer`]; also, if the question names a policy, that it gives no alternate path.
    pub fn of_pair(&self, pair: (&str, &str), watch: &dyn Watch) -> Result<Listed, StudyError> {
        self.listed(watch, |view| {
            let pair = (view.hosts.find(pair.0)?, view.hosts.find(pair.1)?);
            if let Some(policy) = self.policy {
                view.alternate(pair, policy)?;
            }
            // A pair that has no primary path has no alternate by any policy.
            view.routes().primary(view.pair(pair), self.bits)?;
            let policies = self.policy.map_or_else(|| view.policies(pair), |policy| vec![policy]);
            let paths: Vec<_> = policies.iter().map(|&policy| view.row(pair, policy)).collect();
            let ok = paths.iter().any(is_disjoint);
            Ok((paths, ok))
        })
    }

    fn listed(
        &self,
        watch: &dyn Watch,
        list: impl FnOnce(&View<'_>) -> Result<(Vec<AlternatePath>, bool), StudyError>,
    ) -> Result<Listed, StudyError> {
        let reporter = Reporter::new(watch, Stage::Routing(self.start.engine), 1);
        let (force, notes) = self.start.in_force(self.threads, &reporter)?;
        let view = View::new(&force, self);
        reporter.begin(Stage::Alternates)?;
        let (paths, ok) = list(&view)?;
        reporter.done();
        let paths = AlternatePaths {
            fabric: self.name.clone(),
            engine: force.engine.name().to_owned(),
            lmc: view.lmc(),
            paths,
            ok,
        };
        Ok(Listed { paths, notes })
    }

    /// Returns the pairs of these hosts to examine, and how many there are.
    fn pairs(&self, hosts: &[usize]) -> (Vec<(usize, usize)>, u64) {
        let count = hosts.len() as u64;
        let there_are = count * count.saturating_sub(1) / 2;
        let wanted = self.sample.unwrap_or(PAIRS_MAX);
        if there_are <= wanted {
            let second = |at: usize| hosts[at + 1..].iter().map(move |&to| (hosts[at], to));
            return ((0..hosts.len()).flat_map(second).collect(), there_are);
        }
        let mut rng = Seed(self.seed).child("sample").rng();
        let mut drawn = BTreeSet::new();
        while (drawn.len() as u64) < wanted {
            let [a, b] = [rng.below(count), rng.below(count)];
            if a != b {
                drawn.insert((a.min(b) as usize, a.max(b) as usize));
            }
        }
        let pairs = drawn.into_iter().map(|(a, b)| (hosts[a], hosts[b]));
        (pairs.collect(), there_are)
    }
}

/// True if there is an alternate path that shares nothing avoidable with the primary.
fn is_disjoint(path: &AlternatePath) -> bool {
    path.alternate.is_some() && path.avoidable == 0
}

/// The paths of a routing in force.
struct View<'a> {
    question: &'a Question,
    force: &'a InForce,
    index: Index,
    hosts: Hosts,
}

impl<'a> View<'a> {
    fn new(force: &'a InForce, question: &'a Question) -> Self {
        let subnet = subnet(force);
        let index = Index::new(subnet);
        let hosts = Hosts::of(subnet, &index);
        Self {
            question,
            force,
            index,
            hosts,
        }
    }

    fn routes(&self) -> Routes<'_> {
        Routes {
            subnet: subnet(self.force),
            index: &self.index,
        }
    }

    fn fabric(&self) -> &Fabric {
        &self.force.fabric
    }

    fn policy(&self) -> Policy {
        self.question.policy.unwrap_or(Policy::Manager)
    }

    fn pair(&self, (from, to): (usize, usize)) -> (&Host, &Host) {
        (&self.hosts.all()[from], &self.hosts.all()[to])
    }

    fn alternate(&self, pair: (usize, usize), policy: Policy) -> Result<Alternate, ApmError> {
        self.routes().alternate(self.pair(pair), self.question.bits, policy)
    }

    /// Returns the hosts with these names, in the order of the fabric; all without names.
    fn among(&self, names: &[String]) -> Result<Vec<usize>, ApmError> {
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
    fn lmc(&self) -> u8 {
        let ports = self.hosts.all().iter().flat_map(|host| host.hcas.iter().flatten());
        let lmc = ports.filter_map(|&at| Some(self.force.lids.range(at)?.lmc.get()));
        lmc.max().unwrap_or(0)
    }

    /// Returns the policies that a pair can be asked about.
    fn policies(&self, (from, to): (usize, usize)) -> Vec<Policy> {
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

    fn leg(&self, path: &Path, way: &Way) -> AlternateLeg {
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
    fn row(&self, pair: (usize, usize), policy: Policy) -> AlternatePath {
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
    fn count(&self, pairs: &[(usize, usize)]) -> Counts {
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

    fn told(&self, counts: Counts, pairs: u64) -> Alternates {
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
struct Counts {
    /// Pairs by the number of shared links.
    links: BTreeMap<u64, u64>,
    /// Pairs by the number of shared switches.
    switches: BTreeMap<u64, u64>,
    /// Pairs that share nothing avoidable.
    disjoint: u64,
    /// Pairs that a fault parts: avoidable, unavoidable.
    faults: BTreeMap<Fault, (u64, u64)>,
    /// Pairs with what they share, worst first.
    worst: Vec<(usize, (usize, usize))>,
    /// Pairs without an alternate path, and the first reason, by code.
    refused: BTreeMap<String, (u64, String)>,
}

impl Counts {
    fn refuse(&mut self, error: &ApmError) {
        let text = error.to_string();
        let code = text.split_once(':').map_or(text.as_str(), |(code, _)| code).to_owned();
        self.refused.entry(code).or_insert((0, text)).0 += 1;
    }

    fn shorten(&mut self, top: usize) {
        self.worst
            .sort_by_key(|&(shared, pair)| (std::cmp::Reverse(shared), pair));
        self.worst.truncate(top);
    }

    /// Adds the figures of later pairs.
    fn add(&mut self, other: Self, top: usize) {
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

fn subnet(force: &InForce) -> Subnet<'_> {
    Subnet {
        fabric: &force.fabric,
        lids: &force.lids,
        tables: &force.routed.tables,
        levels: &force.routed.service_levels,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use selvedge_routing::Engine;

    use super::*;
    use crate::testing::{lids_with, start};
    use crate::watch::NoWatch;
    use crate::watch::tests::Recorded;

    fn question(spec: &str, lmc: u8, policy: &str) -> Question {
        let mut start = start(spec, Engine::Auto);
        start.lids = Arc::new(lids_with(&start.fabric, lmc));
        Question {
            name: spec.to_owned(),
            start,
            bits: 0,
            policy: Some(policy.parse().unwrap()),
            sample: None,
            seed: 1,
            top: 5,
            threads: Threads::ONE,
        }
    }

    fn all(question: &Question) -> Alternates {
        question.answer(&[], &NoWatch).unwrap().alternates
    }

    #[test]
    fn two_planes_share_nothing() {
        let found = all(&question("karytree:k=3,n=2,rails=2", 0, "port"));
        assert_eq!(
            (found.hosts, found.pairs, found.with_alternate, found.disjoint),
            (9, 36, 36, 36)
        );
        assert_eq!(found.shared_links, [AlternateShare { shared: 0, pairs: 36 }]);
        assert!(found.ok && found.faults.is_empty() && found.worst.is_empty());
    }

    #[test]
    fn a_leaf_is_the_unavoidable_fault_of_all_its_hosts() {
        let found = all(&Question {
            top: 50,
            ..question("karytree:k=3,n=2", 2, "manager")
        });
        assert_eq!((found.pairs, found.with_alternate, found.lmc), (36, 36, 2));
        // Each of three leaves has three hosts: 3 pairs within, and 3 × 6 with others.
        let leaf = found.faults.iter().find(|fault| fault.name == "\"S-L1-0\"").unwrap();
        assert_eq!((leaf.kind.as_str(), leaf.unavoidable), ("switch", 21));
        assert_eq!(found.disjoint + found.worst.len() as u64, 36, "{:?}", found.worst);
    }

    #[test]
    fn a_chain_breaks_in_the_middle() {
        // Every path crosses the middle: no alternate avoids it, but nothing says so in the ports alone.
        let found = all(&question("mesh:3x1,hosts=1", 1, "manager"));
        assert_eq!((found.pairs, found.disjoint, found.ok), (3, 0, false));
        let middle = found.faults.iter().find(|fault| fault.name == "\"S-1-0\"").unwrap();
        assert_eq!((middle.pairs, middle.unavoidable), (1, 2), "{:?}", found.faults);
        assert_eq!(
            (found.worst[0].source.as_str(), found.worst[0].target.as_str()),
            ("H-0", "H-2")
        );
        assert_eq!(found.worst[0].avoidable, 3);
    }

    #[test]
    fn pairs_without_an_alternate_are_counted_by_reason() {
        let found = all(&question("karytree:k=3,n=2", 0, "openmpi"));
        assert_eq!((found.with_alternate, found.ok), (0, false));
        let [refused] = &found.refused[..] else {
            panic!("{found:?}")
        };
        assert_eq!((refused.code.as_str(), refused.pairs), ("SLV-APM-0005", 36));
        assert!(refused.example.contains("H-0"), "{}", refused.example);
    }

    #[test]
    fn one_answer_on_any_number_of_threads() {
        let [one, four] = [1, 4].map(|threads| {
            let asked = Question {
                threads: Threads::new(threads),
                ..question("torus:4x4x3,hosts=1", 1, "manager")
            };
            let watch = Recorded::default();
            let found = asked.answer(&[], &watch).unwrap().alternates;
            let last = watch.reports().pop().unwrap();
            assert_eq!((last.stage, last.done, last.total), (Stage::Alternates, 3, 3));
            found
        });
        assert_eq!(one, four);
    }

    #[test]
    fn a_sample_is_drawn_by_its_seed() {
        let drawn = |seed: u64| {
            let asked = Question {
                sample: Some(20),
                seed,
                ..question("karytree:k=4,n=2", 1, "manager")
            };
            let found = all(&asked);
            assert_eq!((found.pairs, found.pairs_there_are), (20, 120));
            found
        };
        assert_eq!(drawn(1), drawn(1));
        assert_ne!(drawn(1), drawn(2));
    }

    #[test]
    fn hosts_are_named() {
        let asked = question("karytree:k=3,n=2", 1, "lmc=1");
        let names = ["H-1", "H-5", "H-7"].map(str::to_owned);
        let found = asked.answer(&names, &NoWatch).unwrap().alternates;
        assert_eq!((found.hosts, found.pairs), (3, 3));
        let listed = asked.of_host("H-4", &NoWatch).unwrap().paths.paths;
        assert_eq!(listed.len(), 8);
        assert!(
            listed
                .iter()
                .all(|path| path.source == "H-4" && path.alternate.is_some())
        );
        let error = asked.of_host("H-44", &NoWatch).unwrap_err().to_string();
        assert!(error.contains("did you mean 'H-4'?"), "{error}");
        let error = asked.of_pair(("H-1", "H-1"), &NoWatch).unwrap_err().to_string();
        assert!(error.starts_with("SLV-APM-0003"), "{error}");
    }

    #[test]
    fn a_pair_is_asked_by_every_policy() {
        let asked = Question {
            policy: None,
            ..question("karytree:k=3,n=2,rails=2", 1, "manager")
        };
        let listed = asked.of_pair(("H-0", "H-8"), &NoWatch).unwrap().paths;
        let policies: Vec<&str> = listed.paths.iter().map(|path| path.policy.as_str()).collect();
        assert_eq!(policies, ["manager", "port", "hca", "lmc=1", "openmpi", "mvapich2"]);
        let has: Vec<bool> = listed.paths.iter().map(|path| path.alternate.is_some()).collect();
        assert_eq!(has, [true, true, false, true, true, true]);
        assert!(listed.paths[2].refused.as_ref().unwrap().starts_with("SLV-APM-0008"));
        assert!(listed.ok && listed.paths[2].primary.is_some());
        let one = Question {
            policy: Some(Policy::Hca),
            ..asked
        };
        let error = one.of_pair(("H-0", "H-8"), &NoWatch).unwrap_err().to_string();
        assert!(error.starts_with("SLV-APM-0008"), "{error}");
    }

    #[test]
    fn a_cancelled_study_has_no_answer() {
        for units in [0, 1] {
            let watch = Recorded::cancelling_at(units);
            let asked = question("torus:4x4x3,hosts=1", 1, "manager");
            assert_eq!(asked.answer(&[], &watch).unwrap_err(), StudyError::Cancelled);
        }
    }
}
