//! The registry: every engine there is, by name. A new engine is a module, a variant and a row here.

pub mod auto;
pub mod dnup;
pub mod dor;
pub mod fat_tree;
pub mod ftree;
pub mod lash;
pub mod listed;
pub mod minhop;
pub mod sssp;
pub mod updn;
pub mod weave;

use std::str::FromStr;

use selvedge_fabric::Fabric;
use selvedge_graph::Graph;
use selvedge_plan::{EngineName, Lids};
use selvedge_sim::{Par, Seed};
use selvedge_types::Lmc;

use crate::destinations::Destinations;
use crate::engine::{Capability, InForce, Input, LaneUse, Made, Routed, RoutingEngine};
use crate::error::EngineError;
use crate::mender::Mender;
use crate::note::{self, Note};
use crate::options::Options;

/// A routing engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Engine {
    /// Analyses the fabric, chooses `fat-tree` or `weave`, and reports the reason.
    Auto,
    /// Fat trees in closed form: each downward link of a full tree carries one destination. Refuses other fabrics.
    FatTree,
    /// Shortest paths, spread over the ports of each switch. Not deadlock-free where the fabric has rings.
    MinHop,
    /// Paths that go up towards roots, then down, never up again: deadlock-free on one lane, on any fabric.
    UpDn,
    /// Any topology on any number of lanes: deadlock-free, and the more lanes, the better spread.
    Weave,
    /// Paths that go away from the hosts' switches, then back. Not deadlock-free where switches with hosts form rings.
    DnUp,
    /// Fat trees: each link down carries as many destinations as any other. Refuses other fabrics.
    Ftree,
    /// Shortest paths, spread over the whole fabric. Not deadlock-free where the fabric has rings.
    Sssp,
    /// `sssp` with destinations on several lanes, so that it is deadlock-free. Refuses if the lanes do not suffice.
    Dfsssp,
    /// Shortest paths by the lowest port. Not deadlock-free on tori, and where cables do not follow dimensions.
    Dor,
    /// Shortest paths with destinations on lanes, so that it is deadlock-free. Refuses if lanes do not suffice.
    Lash,
    /// Tables, or hop counts, that were read from a file.
    File,
}

/// Static facts of an engine.
#[derive(Debug)]
struct Row {
    /// The engine; rows stand in the order of the variants.
    engine: Engine,
    /// Name of the engine, as in OpenSM's `-R` where OpenSM has such an engine.
    name: &'static str,
    /// Engines of OpenSM that do not exist here, and that this engine replaces.
    stands_in_for: &'static [&'static str],
    /// The engine of OpenSM that routes the same fabrics on one lane.
    in_opensm: &'static str,
    /// Requirement on a fabric or its settings, without which the engine refuses: as in `docs/routing-engines.md`.
    needs: &'static str,
    /// The engine itself.
    itself: &'static dyn RoutingEngine,
}

/// Every engine, in the order in which they are listed to people.
const REGISTRY: &[Row] = &[
    Row {
        engine: Engine::Auto,
        name: "auto",
        stands_in_for: &[],
        in_opensm: "ftree",
        needs: "–",
        itself: &auto::Auto,
    },
    Row {
        engine: Engine::FatTree,
        name: "fat-tree",
        stands_in_for: &[],
        in_opensm: "ftree",
        needs: "a fat tree, whole or damaged",
        itself: &fat_tree::ClosedForm,
    },
    Row {
        engine: Engine::MinHop,
        name: "minhop",
        stands_in_for: &[],
        in_opensm: "minhop",
        needs: "–",
        itself: &minhop::MinHop,
    },
    Row {
        engine: Engine::UpDn,
        name: "updn",
        stands_in_for: &[],
        in_opensm: "updn",
        needs: "–",
        itself: &updn::UpDn,
    },
    Row {
        engine: Engine::Weave,
        name: "weave",
        stands_in_for: &["nue", "torus-2QoS"],
        in_opensm: "updn",
        needs: "–",
        itself: &weave::Weave,
    },
    Row {
        engine: Engine::DnUp,
        name: "dnup",
        stands_in_for: &[],
        in_opensm: "dnup",
        needs: "hosts",
        itself: &dnup::DnUp,
    },
    Row {
        engine: Engine::Ftree,
        name: "ftree",
        stands_in_for: &[],
        in_opensm: "ftree",
        needs: "a fat tree, LMC 0",
        itself: &ftree::Ftree,
    },
    Row {
        engine: Engine::Sssp,
        name: "sssp",
        stands_in_for: &[],
        in_opensm: "updn",
        needs: "–",
        itself: &sssp::Sssp,
    },
    Row {
        engine: Engine::Dfsssp,
        name: "dfsssp",
        stands_in_for: &[],
        in_opensm: "updn",
        needs: "enough lanes",
        itself: &sssp::Dfsssp,
    },
    Row {
        engine: Engine::Dor,
        name: "dor",
        stands_in_for: &[],
        in_opensm: "dor",
        needs: "–",
        itself: &dor::Dor,
    },
    Row {
        engine: Engine::Lash,
        name: "lash",
        stands_in_for: &[],
        in_opensm: "updn",
        needs: "enough lanes",
        itself: &lash::Lash,
    },
    Row {
        engine: Engine::File,
        name: "file",
        stands_in_for: &[],
        in_opensm: "updn",
        needs: "a file",
        itself: &listed::File,
    },
];

impl Engine {
    /// Every engine, in the order in which they are listed to people.
    pub const ALL: [Self; REGISTRY.len()] = {
        let mut all = [Self::Auto; REGISTRY.len()];
        let mut i = 0;
        while i < all.len() {
            all[i] = REGISTRY[i].engine;
            i += 1;
        }
        all
    };

    fn row(self) -> &'static Row {
        &REGISTRY[self as usize]
    }

    /// Returns the name of the engine, as in OpenSM's `-R` where OpenSM has such an engine.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// Returns the engine that replaces one of OpenSM's engines that does not exist here.
    #[must_use]
    pub fn instead_of(name: &str) -> Option<Self> {
        let found = REGISTRY.iter().find(|row| row.stands_in_for.contains(&name));
        found.map(|row| row.engine)
    }

    /// Returns OpenSM's engines that do not exist here, and that this one replaces.
    #[must_use]
    pub fn stands_in_for(self) -> &'static [&'static str] {
        self.row().stands_in_for
    }

    /// Returns the engine of OpenSM that routes the same fabrics on one lane.
    #[must_use]
    pub fn in_opensm(self) -> &'static str {
        self.row().in_opensm
    }

    /// Returns the requirement on a fabric or its settings without which the engine refuses; `–`: none.
    #[must_use]
    pub fn needs(self) -> &'static str {
        self.row().needs
    }

    /// Returns the number of data lanes that the engine uses, and their purpose.
    #[must_use]
    pub fn lanes(self) -> LaneUse {
        self.row().itself.lanes()
    }

    /// Returns true if the engine makes this promise to the planner.
    #[must_use]
    pub fn can(self, capability: Capability) -> bool {
        self.row().itself.capabilities().contains(&capability)
    }

    /// Returns why this engine refuses every fabric with more than one port under these settings; `None` if that
    /// depends on the fabric.
    #[must_use]
    pub fn refuses_always(self, lmc: Lmc, options: &Options) -> Option<EngineError> {
        self.row().itself.refuses_always(lmc, options)
    }

    /// Prepares repairs in place of tables that this engine made; returns `None` if the engine has no such repairs, or
    /// none for these tables.
    #[must_use]
    pub fn mender(self, force: &InForce<'_>) -> Option<Mender> {
        self.row().itself.mender(force)
    }

    /// Routes with this engine, although another one was requested.
    pub(crate) fn make(self, input: &Input<'_>, notes: &mut Vec<Note>) -> Result<Made, EngineError> {
        let made = self.row().itself.route(input, notes)?;
        Ok(Made {
            by: made.by.or(Some(self)),
            ..made
        })
    }

    /// Routes `fabric`: every switch gets an entry for every LID of `lids` that it can reach.
    ///
    /// `seed` is for engines that make random choices; no present engine does.
    pub fn route(
        self,
        fabric: &Fabric,
        lids: &Lids,
        options: &Options,
        _seed: Seed,
        par: Par,
    ) -> Result<Routed, EngineError> {
        let graph = Graph::new(fabric);
        let mut notes = Vec::new();
        let order = (options.count_switches, &options.guid_order[..]);
        let destinations = Destinations::new(fabric, &graph, lids, order, &mut notes)?;
        if let Some(previous) = options.previous.as_deref()
            && previous.switches() != graph.switches()
        {
            return Err(EngineError::ForeignPrevious {
                have: previous.switches(),
                want: graph.switches(),
            });
        }
        note::about_fabric(fabric, &graph, lids, &mut notes);
        let input = Input {
            fabric,
            lids,
            options,
            par,
            graph: &graph,
            destinations: &destinations,
        };
        let made = self.make(&input, &mut notes)?;
        Ok(Routed {
            tables: made.tables,
            service_levels: made.service_levels,
            lanes: made.lanes,
            engine: EngineName(made.by.unwrap_or(self).name().to_owned()),
            notes,
        })
    }
}

impl FromStr for Engine {
    type Err = EngineError;

    fn from_str(name: &str) -> Result<Self, EngineError> {
        Self::ALL
            .into_iter()
            .find(|engine| engine.name() == name)
            .ok_or_else(|| EngineError::Unknown {
                name: name.to_owned(),
                meant: closest(name).map_or_else(String::new, |near| format!(" (did you mean '{near}'?)")),
                known: Self::ALL.map(Self::name).join(", "),
            })
    }
}

impl TryFrom<&EngineName> for Engine {
    type Error = EngineError;

    fn try_from(name: &EngineName) -> Result<Self, EngineError> {
        name.0.parse()
    }
}

/// Returns the engine name that is most similar to a mistyped one, if any is similar.
fn closest(name: &str) -> Option<&'static str> {
    /// Largest number of typing errors; with more, it is a different word.
    const TYPOS_MAX: usize = 2;
    let lower = name.to_lowercase();
    Engine::ALL
        .into_iter()
        .map(|engine| (strsim::damerau_levenshtein(&lower, engine.name()), engine.name()))
        .filter(|(typos, _)| *typos <= TYPOS_MAX)
        .min()
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use selvedge_fabric::{NodeIdx, PortRef};
    use selvedge_types::{Lid, LidRange, PortNum};

    use super::*;

    #[test]
    fn rows_stand_in_the_order_of_the_variants() {
        for (number, row) in REGISTRY.iter().enumerate() {
            assert_eq!(row.engine as usize, number, "{}", row.name);
            assert!(
                Engine::ALL
                    .iter()
                    .all(|engine| !row.stands_in_for.contains(&engine.name()))
            );
        }
    }

    #[test]
    fn engines_are_found_by_name() {
        for engine in Engine::ALL {
            assert_eq!(engine.name().parse(), Ok(engine));
        }
        assert_eq!(Engine::instead_of("nue"), Some(Engine::Weave));
        assert_eq!(Engine::instead_of("updn"), None);
    }

    /// The table of docs/routing-engines.md has a row for each engine, with the same lanes, needs and promise.
    #[test]
    fn the_page_about_engines_agrees() {
        let page = include_str!("../../../../docs/routing-engines.md");
        for row in REGISTRY {
            let (name, engine) = (row.name, row.engine);
            let line = page.lines().find(|line| line.starts_with(&format!("| `{name}` |")));
            let cells: Vec<&str> = line.expect(name).split('|').map(str::trim).collect();
            let (lanes, promise, needs) = (cells[2], cells[3], cells[4]);
            assert_eq!(lanes == "1", engine.lanes() == LaneUse::One, "{name}");
            let is_promised = promise.starts_with("always");
            assert_eq!(is_promised, engine.can(Capability::DeadlockFree), "{name}");
            assert_eq!(needs, row.needs, "{name}");
        }
    }

    #[test]
    fn an_unknown_name_lists_the_known_ones() {
        let check = |name: &str, want: &str| assert_eq!(name.parse::<Engine>().unwrap_err().to_string(), want);
        check(
            "UpDown",
            "SLV-ROUTE-0001: there is no routing engine 'UpDown' (did you mean 'updn'?); known engines: \
             auto, fat-tree, minhop, updn, weave, dnup, ftree, sssp, dfsssp, dor, lash, file",
        );
        check(
            "random",
            "SLV-ROUTE-0001: there is no routing engine 'random'; known engines: \
             auto, fat-tree, minhop, updn, weave, dnup, ftree, sssp, dfsssp, dor, lash, file",
        );
    }

    #[test]
    fn what_is_refused_always_is_refused_when_routing() {
        let fabric = Fabric::default();
        let lmc = Lmc::new(2).unwrap();
        let options = Options::default();
        for engine in Engine::ALL {
            let always = engine.refuses_always(lmc, &options);
            let is_one = [Engine::Ftree, Engine::File].contains(&engine);
            assert_eq!(always.is_some(), is_one, "{engine:?}");
            let zero = engine.refuses_always(Lmc::ZERO, &options);
            assert_eq!(zero.is_some(), engine == Engine::File, "{engine:?}");
        }
        let why = Engine::File.route(&fabric, &Lids::new(), &options, Seed(1), Par::Sequential);
        assert_eq!(why.err(), Engine::File.refuses_always(Lmc::ZERO, &options));
        let mut lids = Lids::new();
        let port = PortRef {
            node: NodeIdx(0),
            port: PortNum::MANAGEMENT,
        };
        lids.insert(port, LidRange { base: Lid(4), lmc }).unwrap();
        let input = Input {
            fabric: &fabric,
            lids: &lids,
            options: &options,
            par: Par::Sequential,
            graph: &Graph::new(&fabric),
            destinations: &Destinations::default(),
        };
        let why = Engine::Ftree.make(&input, &mut Vec::new());
        assert_eq!(why.err(), Engine::Ftree.refuses_always(lmc, &options));
    }
}
