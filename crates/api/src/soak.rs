//! Results of simulated disasters: one document per run, and a line per part of a run in a result file.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Body;

/// Schedules carried out, and the violations that checkers found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Soak {
    /// First seed.
    pub from: u64,
    /// The seed after the last.
    pub to: u64,
    /// The program: version and commit.
    pub program: String,
    /// A hash of the program's file: equal programs give equal results for a seed.
    pub binary: String,
    /// Model of the processor.
    pub machine: String,
    /// Threads.
    pub jobs: u64,
    /// True if hosts talked to subnet administration.
    #[serde(default)]
    pub sa: bool,
    /// True if the managers' disks failed for a time.
    #[serde(default)]
    pub store_faults: bool,
    /// True if the operator made changes.
    #[serde(default)]
    pub changes: bool,
    /// Number of schedules carried out.
    pub schedules: u64,
    /// Happenings that had an effect.
    pub happenings: u64,
    /// Sets that agents took: the checkers ran after each.
    pub sets: u64,
    /// Number of runs of the checkers.
    pub looks: u64,
    /// Number of repairs that had been computed before their link was lost.
    #[serde(default)]
    pub known: u64,
    /// Calls that disks failed.
    #[serde(default)]
    pub store_failures: u64,
    /// Virtual time in seconds.
    pub virtual_s: f64,
    /// Processor time in milliseconds.
    pub cpu_ms: f64,
    /// Time by the clock in hours.
    pub hours: f64,
    /// Violations that no rule excused.
    pub failures: Vec<SoakFailure>,
    /// Number of excused violations, by rule.
    pub exemptions: Vec<SoakExemption>,
    /// The combinations of event, stage and family of fabric that occurred.
    pub coverage: SoakCoverage,
}

impl Body for Soak {
    const SCHEMA: &'static str = "selvedge.soak";
    const VERSION: u32 = 2;
}

/// A seed with a schedule that failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SoakFailure {
    /// The seed.
    pub seed: u64,
    /// The violation, with its code.
    pub what: String,
}

/// How often a rule excused a violation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SoakExemption {
    /// Name of the checker.
    pub checker: String,
    /// The rule.
    pub rule: String,
    /// How often the rule excused a violation.
    pub count: u64,
}

/// How often something happened, by stage of the master and family of fabrics.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SoakCoverage {
    /// Names of the stages.
    pub stages: Vec<String>,
    /// Names of the families.
    pub families: Vec<String>,
    /// By kind of event: for each stage, a count for each family.
    pub counts: BTreeMap<String, Vec<Vec<u64>>>,
}

impl SoakCoverage {
    /// Adds the counts of another part with the same stages and families.
    pub fn add(&mut self, other: &Self) {
        if self.counts.is_empty() {
            self.clone_from(other);
            return;
        }
        for (kind, rows) in &other.counts {
            let mine = self.counts.entry(kind.clone()).or_default();
            mine.resize_with(mine.len().max(rows.len()), Vec::new);
            for (mine, row) in mine.iter_mut().zip(rows) {
                mine.resize(mine.len().max(row.len()), 0);
                mine.iter_mut().zip(row).for_each(|(mine, more)| *mine += more);
            }
        }
    }

    /// Returns how often a kind of event happened in a stage, in all families.
    #[must_use]
    pub fn in_stage(&self, kind: &str, stage: usize) -> u64 {
        let row = self.counts.get(kind).and_then(|rows| rows.get(stage));
        row.map_or(0, |row| row.iter().sum())
    }

    /// Returns how often a kind of event happened in a family, in all stages.
    #[must_use]
    pub fn in_family(&self, kind: &str, family: usize) -> u64 {
        let rows = self.counts.get(kind).into_iter().flatten();
        rows.filter_map(|row| row.get(family)).sum()
    }

    /// Triples of kind, stage and family that were met.
    #[must_use]
    pub fn met(&self) -> usize {
        let cells = self.counts.values().flatten().flatten();
        cells.filter(|count| **count > 0).count()
    }

    /// Returns the number of possible combinations of these kinds.
    #[must_use]
    pub fn cells(&self) -> usize {
        self.counts.len() * self.stages.len() * self.families.len()
    }
}

impl Soak {
    /// Adds another part of the same run.
    pub fn add(&mut self, other: &Self) {
        self.schedules += other.schedules;
        self.happenings += other.happenings;
        self.sets += other.sets;
        self.looks += other.looks;
        self.known += other.known;
        self.store_failures += other.store_failures;
        self.virtual_s += other.virtual_s;
        self.cpu_ms += other.cpu_ms;
        self.hours += other.hours;
        self.failures.extend(other.failures.iter().cloned());
        for new in &other.exemptions {
            let same = |e: &&mut SoakExemption| (&e.checker, &e.rule) == (&new.checker, &new.rule);
            match self.exemptions.iter_mut().find(same) {
                Some(old) => old.count += new.count,
                None => self.exemptions.push(new.clone()),
            }
        }
        self.coverage.add(&other.coverage);
    }
}

/// Schedules carried out in real time with managers that are programs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SoakReal {
    /// The manager's program.
    pub manager: String,
    /// Version and commit of this program.
    pub program: String,
    /// Model of the processor.
    pub machine: String,
    /// Number of seconds of the schedule that pass in one second.
    pub speed: u32,
    /// The runs, by seed.
    pub runs: Vec<SoakRealRun>,
}

impl Body for SoakReal {
    const SCHEMA: &'static str = "selvedge.soak-real";
}

/// A schedule in real time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SoakRealRun {
    /// Seed of the run.
    pub seed: u64,
    /// The fabric.
    pub fabric: String,
    /// The reason for which the run could not be carried out to its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Programs that ended by themselves and were started again: when and how.
    pub crashes: Vec<String>,
    /// Happenings that had an effect.
    pub happenings: u64,
    /// Sets that agents took.
    pub sets: u64,
    /// Length of the run, in seconds of the schedule.
    pub virtual_s: f64,
    /// How long packets to any destination looped.
    pub looping_s: f64,
    /// Violations that no rule excused.
    pub findings: Vec<SoakRealFinding>,
    /// Excused violations, by rule.
    pub exemptions: Vec<SoakExemption>,
    /// Seconds from the end of the faults until all was well: first with cables unplugged and nodes off, then with
    /// everything mended. `None`: it was not well within the bound.
    pub converged_s: Vec<Option<f64>>,
    /// Faults that were left at the end of each bound.
    pub trouble: Vec<String>,
}

/// A violation in a run that continued afterwards.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SoakRealFinding {
    /// Name of the checker.
    pub checker: String,
    /// How often the violation was found.
    pub count: u64,
    /// The first.
    pub first: String,
}

/// Digests of resolved schedules, and which of them differ from stored ones.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SoakDigests {
    /// The program: version and commit.
    pub program: String,
    /// The schedules, in the order of their file.
    pub schedules: Vec<SoakDigest>,
    /// Schedules with digests that differ from the stored ones; empty if nothing was compared.
    pub differ: Vec<SoakDifference>,
}

impl Body for SoakDigests {
    const SCHEMA: &'static str = "selvedge.soak-digests";
}

/// The digests of one resolved schedule, in hexadecimal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SoakDigest {
    /// Name of the schedule: the seed, `+sa` and `+store-faults`.
    pub name: String,
    /// Digest of the schedule's text.
    pub schedule: String,
    /// Digest of the datagrams that managers sent.
    pub wire: String,
    /// Digest of the contents of agents, taken at each time when all was well.
    pub end: String,
    /// The violation, with its code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

/// A resolved schedule with digests that differ from the stored ones.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SoakDifference {
    /// Name of the schedule.
    pub name: String,
    /// Which digests differ: `schedule`, `wire`, `end`, or `stored` if none are stored.
    pub digests: Vec<String>,
}
