//! Queries and joins in process, through the administrator's core alone.

// The same stage and the same work as those of `selvedge_sa`'s own tests and examples.
#[path = "../../../crates/sa/tests/it/support/mod.rs"]
mod support;
#[path = "../../../crates/sa/examples/load/mod.rs"]
mod work;

use indicatif::ProgressBar;
use selvedge_conformance::HeavyLock;

use crate::error::BenchError;
pub use work::{Joins, Questions};

/// Fabrics for queries: 324, 5,832 and 11,664 hosts.
const ASKED: [&str; 3] = ["sx6536", "karytree:k=18,n=3", "mport:m=36,n=3"];
/// Fabric for joins: 5,832 hosts.
const JOINED: &str = "karytree:k=18,n=3";
/// Number of groups that every host joins. The next constant is the number of joins after which trees are planned
/// again: as many as arrive in 10 ms.
const GROUPS: u32 = 100;
/// See [`GROUPS`].
const BATCH: usize = 20_000;
/// Number of queries of a measurement.
const QUESTIONS: u64 = 1_000_000;

/// Figures measured in process.
#[derive(Clone, Debug, Default)]
pub struct Loads {
    /// Figures of queries, by fabric; several measurements each.
    pub questions: Vec<(String, Questions)>,
    /// Figures of joins, by fabric.
    pub joins: Vec<(String, Joins)>,
}

impl Loads {
    /// Measures on one thread.
    pub fn measure(quick: bool, repeats: usize, bar: &ProgressBar) -> Result<Self, BenchError> {
        let asked = if quick { &ASKED[..1] } else { &ASKED[..] };
        bar.inc_length((asked.len() * repeats + repeats) as u64);
        let mut all = Self::default();
        for spec in asked {
            let _quiet = HeavyLock::acquire()?;
            bar.set_message(format!("{spec}: questions in process"));
            let mut bench = Questions::bench(spec);
            for _ in 0..repeats {
                let count = if quick { QUESTIONS / 100 } else { QUESTIONS };
                all.questions
                    .push(((*spec).to_owned(), Questions::ask(&mut bench, count)));
                bar.inc(1);
            }
        }
        let (spec, groups, batch) = if quick {
            (ASKED[0], 4, 400)
        } else {
            (JOINED, GROUPS, BATCH)
        };
        for _ in 0..repeats {
            let _quiet = HeavyLock::acquire()?;
            bar.set_message(format!("{spec}: joins in process"));
            all.joins.push((spec.to_owned(), Joins::of(spec, groups, batch)));
            bar.inc(1);
        }
        Ok(all)
    }
}
