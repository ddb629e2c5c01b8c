//! The engines by name, and what goes in and comes out.

use std::str::FromStr;
use std::sync::Arc;

use selvedge_fabric::{Fabric, PortRef};
use selvedge_plan::{EngineName, Lids, ServiceLevels, Tables};
use selvedge_sim::{Par, Seed};
use selvedge_types::{Guid, Lid, Lmc, Sl};

use crate::balance::{Balance, fill};
use crate::destinations::Destinations;
use crate::engines::fat_tree::{FatTree, FatTreeOptions, NotATree};
use crate::engines::ftree::{self, FtreeOptions, NoFatTree};
use crate::engines::listed::{self, Listed};
use crate::engines::updn::{self, UpDnOptions};
use crate::engines::weave::{self, WeaveOptions};
use crate::engines::{auto, dnup, minhop, sssp};
use crate::graph::Graph;
use crate::note;
use crate::note::Note;
use crate::paths::Paths;
use crate::ports::{self, HopWeight, PortOrder};

/// A routing engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Engine {
    /// Looks at the fabric, takes `fat-tree` or `weave`, and says why.
    Auto,
    /// Fat trees in closed form: each downward link of a full tree carries one destination. Refuses what is no tree.
    FatTree,
    /// Shortest paths, spread over the ports of each switch. Not deadlock-free where the fabric has rings.
    MinHop,
    /// Paths that go up towards roots, then down, never up again: deadlock-free on one lane, on any fabric.
    UpDn,
    /// Any topology on any number of lanes: deadlock-free, and the more lanes, the better spread.
    Weave,
    /// Paths that go away from the hosts' switches, then back. Not deadlock-free where switches with hosts form rings.
    DnUp,
    /// Fat trees: each link down carries as many destinations as any other. Refuses what is no fat tree.
    Ftree,
    /// Shortest paths, spread over the whole fabric. Not deadlock-free where the fabric has rings.
    Sssp,
    /// The same with destinations on several lanes, so that it is deadlock-free. Refuses if lanes do not suffice.
    Dfsssp,
    /// Tables, or hop counts, that were read from a file.
    File,
}

impl Engine {
    /// Every engine there is, in the order in which they are listed to people.
    pub const ALL: [Self; 10] = [
        Self::Auto,
        Self::FatTree,
        Self::MinHop,
        Self::UpDn,
        Self::Weave,
        Self::DnUp,
        Self::Ftree,
        Self::Sssp,
        Self::Dfsssp,
        Self::File,
    ];

    /// Its name, as in OpenSM's `-R` where OpenSM has such an engine.
    #[must_use]
    pub const fn name(self) -> &'static str {
        EngineName::KNOWN[self as usize]
    }

    /// Returns why this engine refuses every fabric with more than one port under these settings; `None` if it depends
    /// on the fabric.
    #[must_use]
    pub fn refuses_always(self, lmc: Lmc, options: &Options) -> Option<EngineError> {
        let one_lid = || ftree::takes(lmc).map_err(|why| EngineError::NoFatTree { why }).err();
        match self {
            Self::Ftree => one_lid(),
            Self::File => options.listed().err(),
            Self::Auto | Self::FatTree | Self::MinHop | Self::UpDn | Self::Weave | Self::DnUp => None,
            Self::Sssp | Self::Dfsssp => None,
        }
    }

    /// Routes `fabric`: every switch gets an entry for every LID of `lids` that it can reach.
    ///
    /// `seed` is for engines that draw lots; none of today's does.
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
        let mut job = Job {
            engine: self,
            fabric,
            lids,
            options,
            par,
            graph,
            destinations,
            notes,
        };
        let (tables, service_levels, lanes) = job.run()?;
        Ok(Routed {
            tables,
            service_levels,
            lanes,
            engine: EngineName(job.engine.name().to_owned()),
            notes: job.notes,
        })
    }
}

/// One call of [`Engine::route`].
struct Job<'a> {
    engine: Engine,
    fabric: &'a Fabric,
    lids: &'a Lids,
    options: &'a Options,
    par: Par,
    graph: Graph,
    destinations: Destinations,
    notes: Vec<Note>,
}

impl Job<'_> {
    fn run(&mut self) -> Result<(Tables, ServiceLevels, u8), EngineError> {
        let (fabric, lids, options) = (self.fabric, self.lids, self.options);
        let one_lane = |tables| Ok((tables, ServiceLevels::default(), 1));
        let paths = match self.engine {
            Engine::Auto => return self.choose(),
            Engine::MinHop => self.shortest(),
            Engine::UpDn => updn::paths(fabric, &self.graph, &options.updn, self.par, &mut self.notes),
            Engine::DnUp => dnup::paths(fabric, &self.graph, self.par).ok_or(EngineError::NoHosts)?,
            Engine::Ftree => {
                let (ftree, hosts) = (&options.ftree, &options.hosts);
                return match ftree::route(fabric, &self.graph, lids, (ftree, hosts), &mut self.notes) {
                    Ok(tables) => one_lane(tables),
                    Err(why) => Err(EngineError::NoFatTree { why }),
                };
            }
            Engine::FatTree => return self.fat_tree(),
            Engine::Sssp => return one_lane(self.spread()),
            Engine::Weave => return Ok(self.weave()),
            Engine::Dfsssp => return self.spread_on_lanes(),
            Engine::File => match options.listed()? {
                Listed::Tables { tables, lids: of } => {
                    return one_lane(listed::tables(self.fabric, self.lids, (tables, of), &mut self.notes)?);
                }
                Listed::Hops(matrix) => listed::paths(fabric, &self.graph, matrix, &mut self.notes),
            },
        };
        one_lane(self.balanced(&paths))
    }

    /// Tries `fat-tree`, takes it or `weave`, and notes what the fabric looks like and why.
    fn choose(&mut self) -> Result<(Tables, ServiceLevels, u8), EngineError> {
        let first = self.notes.len();
        self.engine = Engine::FatTree;
        let mut routed = self.run();
        let topology = auto::recognise(&self.graph, &self.notes[first..]);
        let reason = auto::reason(&routed, &self.notes[first..]);
        self.engine = reason.engine();
        if self.engine != Engine::FatTree {
            self.notes.truncate(first);
            routed = self.run();
        }
        let notes = [Note::Recognised { topology }, Note::Chosen { reason }];
        self.notes.splice(first..first, notes);
        routed
    }

    /// Detects the tree and writes its tables.
    fn fat_tree(&mut self) -> Result<(Tables, ServiceLevels, u8), EngineError> {
        let mut options = self.options.fat_tree.clone();
        if options.hosts == HostLists::default() {
            options.hosts.clone_from(&self.options.hosts);
        }
        let tree = FatTree::without_stranded(self.fabric, &options, self.par)?;
        let shape = tree.shape();
        self.notes.push(Note::Tree { shape });
        if shape.level_links > 0 {
            let count = shape.level_links;
            self.notes.push(Note::LevelLinks { count });
        }
        let mut tables = Tables::new(self.graph.switches(), self.lids.top());
        tree.fill(self.lids, &mut tables, self.par)?;
        match (self.options.rebalance, self.options.previous.as_deref()) {
            (Rebalance::Full, _) => tree.spread(self.lids, &mut tables)?,
            (Rebalance::Minimal, Some(previous)) => tree.keep(self.lids, previous, &mut tables)?,
            (Rebalance::Minimal, None) => {}
        }
        tree.join_agents(self.fabric, self.lids, &mut tables);
        let lanes = weave::lanes_to_use(
            self.fabric,
            self.lids,
            self.options.lanes.unwrap_or(WEAVE_LANES),
            &mut self.notes,
        );
        Ok((tables, tree.service_levels(self.lids, lanes)?, lanes))
    }

    fn weave(&mut self) -> (Tables, ServiceLevels, u8) {
        let input = weave::Input {
            fabric: self.fabric,
            graph: &self.graph,
            lids: self.lids,
            destinations: &self.destinations,
            previous: self.options.previous.as_deref(),
        };
        let (lanes, options) = (self.options.lanes.unwrap_or(WEAVE_LANES), &self.options.weave);
        let woven = weave::weave(&input, lanes, options, self.par, &mut self.notes);
        (woven.tables, woven.service_levels, woven.lanes)
    }

    fn shortest(&mut self) -> Paths {
        let weights = ports::weights(self.fabric, &self.graph, &self.options.hop_weights, &mut self.notes);
        minhop::paths(&self.graph, weights, self.par)
    }

    fn balanced(&mut self, paths: &Paths) -> Tables {
        let mut tables = Tables::new(self.graph.switches(), self.lids.top());
        let balance = Balance {
            graph: &self.graph,
            destinations: &self.destinations,
            paths,
            previous: self.options.previous.as_deref(),
            port_order: &ports::turns(self.fabric, &self.options.port_order, &mut self.notes),
        };
        fill(&balance, &mut tables, self.par);
        tables
    }

    fn spread(&self) -> Tables {
        let hosts = &self.options.hosts;
        sssp::route(self.fabric, &self.graph, self.lids, &self.destinations, hosts)
    }

    fn spread_on_lanes(&self) -> Result<(Tables, ServiceLevels, u8), EngineError> {
        let most = self.options.lanes.unwrap_or(DFSSSP_LANES);
        let hosts = (&self.options.hosts, most);
        let routed = sssp::route_on_lanes(self.fabric, &self.graph, self.lids, &self.destinations, hosts);
        let (tables, lane_of, lanes) = routed.ok_or(EngineError::TooFewLanes { most })?;
        let levels = lane_of.into_iter().map(|lane| Sl::new(lane).unwrap_or_default());
        let levels = if lanes > 1 {
            ServiceLevels::PerDestination(levels.collect())
        } else {
            ServiceLevels::default()
        };
        Ok((tables, levels, lanes))
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

/// Data lanes of `weave` unless told otherwise.
pub const WEAVE_LANES: u8 = 1;
/// Data lanes of `dfsssp` unless told otherwise.
pub const DFSSSP_LANES: u8 = 8;

/// How to route. The default is what a fabric without a configuration gets.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The tables in force, with this fabric's switch indices ([`carry_over`](crate::carry_over)): an entry that is
    /// still one of the best is kept, so a change moves only what it must. `None` (default): balance afresh, as OpenSM
    /// does when a switch is new or a port was reset. Of minhop, updn, dnup, fat-tree and file with hop counts; the
    /// others balance the fabric as a whole, and always afresh.
    pub previous: Option<Arc<Tables>>,
    /// Whether load may be spread anew. Default: minimal. Of `fat-tree` only.
    pub rebalance: Rebalance,
    /// Count routes to switches when spreading load (OpenSM's `port_profile_switch_nodes`). Default false: switches
    /// receive next to no traffic. Of the same engines.
    pub count_switches: bool,
    /// GUIDs of ports that are routed first, in this order (`guid_routing_order_file`). Default: none. Of the same
    /// engines.
    pub guid_order: Vec<Guid>,
    /// The order in which the ports of a switch are tried (`port_search_ordering_file`). Default: by number. Of the
    /// same engines.
    pub port_order: Vec<PortOrder>,
    /// Of `minhop` only: what a hop by a port counts for (`hop_weights_file`). Default: 1 each.
    pub hop_weights: Vec<HopWeight>,
    /// Of `fat-tree`, `ftree`, `sssp` and `dfsssp`.
    pub hosts: HostLists,
    /// Of `fat-tree` only.
    pub fat_tree: FatTreeOptions,
    /// Of `updn` only.
    pub updn: UpDnOptions,
    /// Of `ftree` only.
    pub ftree: FtreeOptions,
    /// Data lanes that may be used, 1–15, by the engines that can use several. Default (`None`): of each what suits it.
    /// - `weave`, `fat-tree`: [`WEAVE_LANES`], since hosts must be able to ask for a service level to profit from more;
    ///   never more than the poorest link has.
    /// - `dfsssp`: [`DFSSSP_LANES`], what most hardware has; it uses no more than it needs, and refuses if they do not
    ///   suffice.
    pub lanes: Option<u8>,
    /// Of `file` only: what was read.
    pub listed: Option<Arc<Listed>>,
    /// Of `weave` only.
    pub weave: WeaveOptions,
}

impl Options {
    /// Returns what was read for `file`.
    fn listed(&self) -> Result<&Listed, EngineError> {
        self.listed.as_deref().ok_or(EngineError::NothingListed)
    }
}

/// What a change of the fabric may move.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rebalance {
    /// Only what must change: entries that led over what is gone.
    #[default]
    Minimal,
    /// As much as makes the fullest links less full, and in trees of two levels fewer packets meet; `previous` does
    /// not count.
    Full,
}

/// Hosts by what they are for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostLists {
    /// GUIDs of the ports of compute nodes: they are balanced first, on their own (`cn_guid_file`). Empty (default):
    /// all hosts that are no I/O nodes.
    pub compute: Vec<Guid>,
    /// GUIDs of the ports of I/O nodes: they are balanced after the compute nodes (`io_guid_file`). Default: none.
    pub io: Vec<Guid>,
}

/// What an engine made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Routed {
    /// Forwarding tables of every switch.
    pub tables: Tables,
    /// Service level towards every destination.
    pub service_levels: ServiceLevels,
    /// Data lanes used, 1–15.
    pub lanes: u8,
    /// The engine that made them.
    pub engine: EngineName,
    /// What an operator may want to know.
    pub notes: Vec<Note>,
}

/// Why an engine made no tables.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// SLV-ROUTE-0001: no engine has this name.
    #[error("SLV-ROUTE-0001: there is no routing engine '{name}'{meant}; known engines: {known}")]
    Unknown {
        /// What was asked for.
        name: String,
        /// ` (did you mean '…'?)`, or nothing if no name is near.
        meant: String,
        /// All names, separated by commas.
        known: String,
    },
    /// SLV-ROUTE-0002: a LID of something that is no end port of this fabric.
    #[error(
        "SLV-ROUTE-0002: LID {lid} belongs to node {} port {}, which is no end port of this fabric; assign LIDs for \
         this fabric before routing it",
        port.node.0, port.port
    )]
    ForeignLid {
        /// The LID.
        lid: Lid,
        /// Its owner.
        port: PortRef,
    },
    /// SLV-ROUTE-0009: no effort has this name.
    #[error("SLV-ROUTE-0009: there is no effort '{name}'; known efforts: fast, best")]
    UnknownEffort {
        /// What was asked for.
        name: String,
    },
    /// SLV-ROUTE-0003: the tables in force are those of another fabric.
    #[error(
        "SLV-ROUTE-0003: the previous tables are of {have} switches, this fabric has {want}; carry them over to this \
         fabric first"
    )]
    ForeignPrevious {
        /// Switches in the tables.
        have: usize,
        /// Switches in the fabric.
        want: usize,
    },
    /// The fabric is no fat tree, or not enough of one.
    #[error(transparent)]
    NotATree(#[from] NotATree),
    /// SLV-ROUTE-0004: `ftree` on what is no fat tree.
    #[error("SLV-ROUTE-0004: ftree cannot route this fabric: {why}; updn can route any")]
    NoFatTree {
        /// What is wrong with it.
        why: NoFatTree,
    },
    /// SLV-ROUTE-0005: `dnup` without hosts.
    #[error("SLV-ROUTE-0005: dnup ranks switches by their distance from hosts, and no switch has any; use updn")]
    NoHosts,
    /// SLV-ROUTE-0006: `dfsssp` ran out of lanes.
    #[error(
        "SLV-ROUTE-0006: dfsssp needs more than the {most} lanes it may use to be free of deadlocks; allow more, or \
         use updn, which needs one"
    )]
    TooFewLanes {
        /// Lanes it may use.
        most: u8,
    },
    /// SLV-ROUTE-0007: `file` without a file.
    #[error("SLV-ROUTE-0007: engine file needs tables to load; name a file with tables or hop counts")]
    NothingListed,
    /// SLV-ROUTE-0008: tables to load are of another fabric.
    #[error("SLV-ROUTE-0008: the tables to load are of {have} switches, this fabric has {want}; read them for it")]
    ForeignTables {
        /// Switches in the tables.
        have: usize,
        /// Switches in the fabric.
        want: usize,
    },
}

/// The engine name nearest to a mistyped one, if any is near.
fn closest(name: &str) -> Option<&'static str> {
    /// More than this many typing errors are a different word.
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
    use super::*;

    #[test]
    fn engines_are_found_by_name() {
        for engine in Engine::ALL {
            assert_eq!(engine.name().parse(), Ok(engine));
        }
    }

    #[test]
    fn an_unknown_name_lists_the_known_ones() {
        let check = |name: &str, want: &str| assert_eq!(name.parse::<Engine>().unwrap_err().to_string(), want);
        check(
            "UpDown",
            "SLV-ROUTE-0001: there is no routing engine 'UpDown' (did you mean 'updn'?); known engines: \
             auto, fat-tree, minhop, updn, weave, dnup, ftree, sssp, dfsssp, file",
        );
        check(
            "random",
            "SLV-ROUTE-0001: there is no routing engine 'random'; known engines: \
             auto, fat-tree, minhop, updn, weave, dnup, ftree, sssp, dfsssp, file",
        );
    }

    #[test]
    fn what_is_refused_always_is_refused_when_routing() {
        let fabric = Fabric::default();
        let mut lids = Lids::new();
        let lmc = Lmc::new(2).unwrap();
        let port = PortRef {
            node: selvedge_fabric::NodeIdx(0),
            port: selvedge_types::PortNum::MANAGEMENT,
        };
        lids.insert(port, selvedge_types::LidRange { base: Lid(4), lmc })
            .unwrap();
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
        let graph = Graph::new(&fabric);
        let lists = (&options.ftree, &options.hosts);
        let why = ftree::route(&fabric, &graph, &lids, lists, &mut Vec::new()).unwrap_err();
        assert_eq!(
            Some(EngineError::NoFatTree { why }),
            Engine::Ftree.refuses_always(lmc, &options)
        );
    }
}
