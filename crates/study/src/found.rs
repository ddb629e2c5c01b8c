//! Tables that the switches hold before a plan: how many entries the plan keeps, the engine that they look like, and
//! the load of the tables that Selvedge's engine would make.

use std::sync::Arc;

use selvedge_api as api;
use selvedge_fabric::{Fabric, SwitchIdx};
use selvedge_plan::{BLOCK_LIDS, Installed, Lids, NO_PATH, Tables};
use selvedge_routing::{Engine, Options};
use selvedge_sim::Seed;
use selvedge_types::Lid;
use selvedge_verify::Load;

use crate::error::StudyError;
use crate::measure;
use crate::meter::NoMeter;
use crate::threads::Threads;
use crate::watch::{NoWatch, Reporter, Stage, Watch};

/// Tables look like those of an engine if at least this share of their entries is equal, in percent.
const ALIKE_PERCENT: u64 = 95;

/// With more entries, engines that search lanes or order the whole fabric are left out: they may take minutes.
const ENTRIES_MAX: u64 = 4_000_000;

/// Which tables do the switches hold, and what does the plan make of them?
#[derive(Clone, Debug)]
pub struct Question {
    /// The fabric.
    pub fabric: Arc<Fabric>,
    /// The tables that the switches hold.
    pub held: Arc<Installed>,
    /// The LIDs of the plan.
    pub lids: Arc<Lids>,
    /// The tables of the plan.
    pub tables: Tables,
    /// Load of the links with the tables of the plan.
    pub load: Load,
    /// Engines that would plan, in order of preference.
    pub engines: Vec<Engine>,
    /// Options of the engines.
    pub options: Options,
    /// Threads to use.
    pub threads: Threads,
}

impl Question {
    /// Compares the tables that the switches hold with the plan, and with those of each engine. `None`: the switches
    /// hold no entry for a LID of the plan. A unit of work is an engine.
    ///
    /// # Errors
    ///
    /// The study is cancelled.
    pub fn answer(&self, watch: &dyn Watch) -> Result<Option<api::FoundTables>, StudyError> {
        let entries = self.entries();
        if entries.is_empty() {
            return Ok(None);
        }
        let count = entries.len() as u64;
        let kept = equal(&entries, |switch, lid| self.tables.get(switch, lid));
        let engines = candidates(count);
        let reporter = Reporter::new(watch, Stage::Routing(Engine::MinHop), engines.len() as u64);
        let mut alike: Vec<(Engine, u64)> = Vec::new();
        for engine in engines {
            reporter.begin(Stage::Routing(engine))?;
            let par = self.threads.par();
            if let Ok(routed) = engine.route(&self.fabric, &self.lids, &self.options, Seed(0), par) {
                alike.push((engine, equal(&entries, |switch, lid| routed.tables.get(switch, lid))));
            }
            reporter.done();
        }
        let most = alike.iter().map(|(_, equal)| *equal).max().unwrap_or_default();
        let is_known = most * 100 >= count * ALIKE_PERCENT;
        let best = alike.iter().filter(|(_, equal)| is_known && *equal == most);
        Ok(Some(api::FoundTables {
            entries: count,
            kept,
            engines: best.map(|(engine, _)| engine.name().to_owned()).collect(),
            equal: most,
            load_max: self.load.max,
            own: self.own(watch)?,
        }))
    }

    /// Returns the engine that would plan if there were no tables, and the load of its busiest link.
    fn own(&self, watch: &dyn Watch) -> Result<Option<api::OwnTables>, StudyError> {
        let question = measure::Question {
            fabric: Arc::clone(&self.fabric),
            lids: Arc::clone(&self.lids),
            engines: self.engines.clone(),
            options: self.options.clone(),
            how: measure::How {
                threads: self.threads,
                repeats: 0,
                pairings: None,
            },
        };
        if watch.is_cancelled() {
            return Err(StudyError::Cancelled);
        }
        match question.answer(&NoMeter, &NoWatch) {
            Ok(answer) if answer.verdict.is_ok() => Ok(Some(api::OwnTables {
                engine: answer.routed.engine.0,
                load_max: answer.verdict.figures.load.max,
            })),
            // The operator's engines refuse the fabric, or the judge refuses their tables.
            Ok(_) | Err(StudyError::Refused { .. } | StudyError::NoEngine) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns the entries that switches hold for LIDs of the plan: switch, LID and port.
    fn entries(&self) -> Vec<(SwitchIdx, Lid, u8)> {
        let top = self.tables.top().0;
        let lids = (1..=top).map(Lid);
        let owned: Vec<Lid> = lids.filter(|&lid| self.lids.owner(lid).is_some()).collect();
        let mut entries = Vec::new();
        for (switch, blocks) in self.held.lfts.iter_enumerated() {
            for &lid in &owned {
                let (block, at) = (usize::from(lid.0) / BLOCK_LIDS, usize::from(lid.0) % BLOCK_LIDS);
                let port = blocks.get(block).copied().flatten().map_or(NO_PATH, |block| block[at]);
                if port != NO_PATH {
                    entries.push((switch, lid, port));
                }
            }
        }
        entries
    }
}

/// Returns the engines to compare with: all that make tables by themselves.
fn candidates(entries: u64) -> Vec<Engine> {
    let is_quick = |engine: &Engine| {
        use Engine::{Dfsssp, Lash, Sssp, Weave};
        !matches!(engine, Weave | Sssp | Dfsssp | Lash)
    };
    let all = Engine::ALL.into_iter();
    all.filter(|engine| !matches!(engine, Engine::Auto | Engine::File))
        .filter(|engine| entries <= ENTRIES_MAX || is_quick(engine))
        .collect()
}

fn equal(entries: &[(SwitchIdx, Lid, u8)], of: impl Fn(SwitchIdx, Lid) -> u8) -> u64 {
    let is_equal = |&&(switch, lid, port): &&(SwitchIdx, Lid, u8)| of(switch, lid) == port;
    entries.iter().filter(is_equal).count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fabric, lids};

    /// Returns the answer for switches that hold the tables of an engine, changed by `change`, and for a plan that
    /// keeps them.
    fn asked(spec: &str, holds: Option<Engine>, change: impl Fn(&mut Tables)) -> Option<api::FoundTables> {
        let fabric = Arc::new(fabric(spec));
        let lids = lids(&fabric);
        let routed = |engine: Engine| {
            let routed = engine.route(&fabric, &lids, &Options::default(), Seed(0), Threads::ONE.par());
            routed.unwrap().tables
        };
        let mut tables = routed(holds.unwrap_or(Engine::MinHop));
        change(&mut tables);
        let mut held = Installed::unknown(tables.switches());
        for switch in tables.switch_indices().filter(|_| holds.is_some()) {
            held.lfts[switch] = (0..tables.blocks())
                .map(|block| Some(*tables.block(switch, block)))
                .collect();
        }
        let question = Question {
            fabric,
            held: Arc::new(held),
            lids: Arc::new(lids),
            tables,
            load: Load::default(),
            engines: vec![Engine::Auto],
            options: Options::default(),
            threads: Threads::ONE,
        };
        question.answer(&NoWatch).unwrap()
    }

    #[test]
    fn tables_are_known_by_their_engine() {
        // A tree and a ring on which engines differ.
        for (spec, holds) in [
            ("karytree:k=4,n=3", Engine::UpDn),
            ("karytree:k=4,n=3", Engine::FatTree),
            ("ring:switches=7,hosts=2", Engine::UpDn),
            ("ring:switches=7,hosts=2", Engine::MinHop),
            ("random:switches=12,degree=4,hosts=2,seed=5", Engine::Weave),
        ] {
            let found = asked(spec, Some(holds), |_| {}).unwrap();
            assert!(
                found.engines.iter().any(|name| name == holds.name()),
                "{spec} {holds:?}: {found:?}"
            );
            assert_eq!(
                (found.kept, found.equal),
                (found.entries, found.entries),
                "{spec} {holds:?}"
            );
            assert!(found.own.unwrap().load_max > 0, "{spec} {holds:?}");
        }
    }

    #[test]
    fn tables_of_no_engine_are_called_so() {
        // Every port is another one: one in three entries differs from all engines.
        let shuffled = |tables: &mut Tables| {
            let top = tables.top().0;
            for switch in tables.switch_indices().collect::<Vec<_>>() {
                for lid in (1..=top).step_by(3).map(Lid) {
                    tables.set(switch, lid, 200);
                }
            }
        };
        let found = asked("karytree:k=4,n=3", Some(Engine::UpDn), shuffled).unwrap();
        assert_eq!(found.engines, [""; 0], "{found:?}");
        assert!(found.equal * 100 < found.entries * ALIKE_PERCENT, "{found:?}");
        // Switches without tables.
        assert_eq!(asked("karytree:k=4,n=3", None, |_| {}), None);
    }

    #[test]
    fn large_fabrics_are_compared_with_quick_engines_only() {
        let all = candidates(ENTRIES_MAX);
        let quick = candidates(ENTRIES_MAX + 1);
        assert!(all.contains(&Engine::Weave) && all.contains(&Engine::MinHop));
        assert!(!quick.contains(&Engine::Weave) && quick.contains(&Engine::MinHop));
        assert!(quick.iter().all(|engine| all.contains(engine)));
    }
}
