//! What simulated disasters came to: one document per run, and a line per part of a run in a result file.

use serde::{Deserialize, Serialize};

use crate::Body;

/// Schedules carried out, and what the checkers found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Soak {
    /// First seed.
    pub from: u64,
    /// The seed after the last.
    pub to: u64,
    /// The program: version and commit.
    pub program: String,
    /// Model of the processor.
    pub machine: String,
    /// Threads.
    pub jobs: u64,
    /// Schedules carried out.
    pub schedules: u64,
    /// Happenings that had an effect.
    pub happenings: u64,
    /// Sets that agents took: the checkers looked after each.
    pub sets: u64,
    /// How often the checkers looked.
    pub looks: u64,
    /// Virtual time in seconds.
    pub virtual_s: f64,
    /// Processor time in milliseconds.
    pub cpu_ms: f64,
    /// Time by the clock in hours.
    pub hours: f64,
    /// What was found and not excused.
    pub failures: Vec<SoakFailure>,
    /// What was found and excused, by rule.
    pub exemptions: Vec<SoakExemption>,
    /// What happened when, in which fabrics.
    pub coverage: Vec<SoakCoverage>,
}

impl Body for Soak {
    const SCHEMA: &'static str = "selvedge.soak";
}

/// A seed whose schedule failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SoakFailure {
    /// The seed.
    pub seed: u64,
    /// What a checker found, with its code.
    pub what: String,
}

/// How often a rule excused what a checker found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SoakExemption {
    /// The checker.
    pub checker: String,
    /// The rule.
    pub rule: String,
    /// How often.
    pub count: u64,
}

/// How often something happened in a stage of the master, in a family of fabrics.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SoakCoverage {
    /// What kind of happening.
    pub kind: String,
    /// What the master was doing.
    pub stage: String,
    /// The family of fabrics.
    pub family: String,
    /// How often.
    pub count: u64,
}

impl Soak {
    /// Adds another part of the same run.
    pub fn add(&mut self, other: &Self) {
        self.schedules += other.schedules;
        self.happenings += other.happenings;
        self.sets += other.sets;
        self.looks += other.looks;
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
        for new in &other.coverage {
            let key = |c: &SoakCoverage| (c.kind.clone(), c.stage.clone(), c.family.clone());
            match self.coverage.iter_mut().find(|old| key(old) == key(new)) {
                Some(old) => old.count += new.count,
                None => self.coverage.push(new.clone()),
            }
        }
    }
}
