//! Alternate paths for automatic path migration: which pairs have one, and what single fault breaks both paths.

mod view;

use std::collections::BTreeSet;

use selvedge_api::{AlternatePath, AlternatePaths, Alternates};
use selvedge_apm::Policy;
use selvedge_routing::Note;
use selvedge_sim::Seed;

use self::view::{Counts, View};
use crate::error::StudyError;
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

#[cfg(test)]
mod tests;
