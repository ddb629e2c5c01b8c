//! Fat trees in closed form: the egress follows from the destination's number and the switch's place in the tree.
//!
//! [`FatTree::detect`] finds the tree in a fabric: whole or damaged, with uneven leaves, parallel links, missing
//! switches, hosts on upper switches, or several tops. A missing link or switch is a hole in the tree, so tables of a
//! damaged tree differ from those of the whole one only where they must. [`FatTree::fill`] writes the tables.
//! [`FatTree::backup`] returns the entry that will replace an entry over a link when the link is lost. The rule for
//! entries is in `rule`. [`FatTree::keep`] restores entries in force that are still correct. [`FatTree::spread`] moves
//! entries so that the fullest links carry less.
//!
//! All paths go up, then down, so one lane suffices. The work of detection is that of two sets of switches for each
//! switch, or links × switches / 64 word operations: 5 M for 972 switches, 25 M for 2,880, 300 M for 10,000. Filling
//! copies 64 entries for each switch and block: 0.1 M, 1.4 M and 15 M blocks.

mod agents;
mod bits;
mod check;
mod error;
mod fill;
mod keep;
mod lane;
mod levels;
mod lid_order;
mod mend;
mod net;
mod pieces;
mod rows;
mod rule;
mod shape;
mod spread;
mod targets;

use std::fmt;

use std::sync::Arc;

use selvedge_fabric::{Fabric, SwitchIdx};
use selvedge_plan::{Lids, NO_PATH, Tables};
use selvedge_sim::Par;
use selvedge_types::{Guid, Idx, Lid};

use super::weave;
use crate::engine::{Capability, InForce, Input, LaneUse, Made, RoutingEngine};
use crate::error::EngineError;
use crate::mender::Mender;
use crate::note::Note;
use crate::options::{HostLists, Rebalance};
pub use error::NotATree;
use levels::Levels;
pub use mend::{LikelyTurn, Moved, TreeMender};
use net::Net;
use rows::Rows;
use rule::Rule;
use shape::Shape;
use targets::{Target, Targets};

/// Options of `fat-tree`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FatTreeOptions {
    /// GUIDs of the switches of the top level. The list must have all of them, or be empty. The GUID of a host node or
    /// port stands for the switch that it is attached to. Default: none; the levels are then counted from the hosts.
    pub roots: Vec<Guid>,
    /// The fabric as it should be, or as it was before faults: its missing links and switches keep their positions.
    /// Default: none. Without it, a missing link is found by the shape of the rest of the tree, and a missing switch by
    /// other pods that have a switch at that place.
    pub nominal: Option<Arc<Fabric>>,
    /// The hosts that are compute nodes, and those that are not: leaves are the switches with compute nodes, and routes
    /// to each of the two kinds are spread separately. Default: all hosts are compute nodes, or those of
    /// [`Options::hosts`](crate::Options::hosts).
    pub hosts: HostLists,
}

/// Engine `fat-tree`.
#[derive(Debug)]
pub struct ClosedForm;

impl RoutingEngine for ClosedForm {
    /// Detects the tree and writes the tables.
    fn route(&self, input: &Input<'_>, notes: &mut Vec<Note>) -> Result<Made, EngineError> {
        let (fabric, lids) = (input.fabric, input.lids);
        let mut options = input.options.fat_tree.clone();
        if options.hosts == HostLists::default() {
            options.hosts.clone_from(&input.options.hosts);
        }
        let tree = FatTree::without_stranded(fabric, &options, input.par)?;
        let shape = tree.shape();
        notes.push(Note::Tree { shape });
        if shape.level_links > 0 {
            let count = shape.level_links;
            notes.push(Note::LevelLinks { count });
        }
        let mut tables = input.tables();
        tree.fill(lids, &mut tables, input.par)?;
        match (input.options.rebalance, input.options.previous.as_deref()) {
            (Rebalance::Full, _) => tree.spread(lids, &mut tables, input.par)?,
            (Rebalance::Minimal, Some(previous)) => tree.keep(lids, previous, &mut tables)?,
            (Rebalance::Minimal, None) if tree.is_damaged() => tree.relieve(lids, &mut tables, input.par)?,
            (Rebalance::Minimal, None) => {}
        }
        tree.join_agents(fabric, lids, &mut tables);
        let lanes = weave::lanes_to_use(fabric, lids, input.lanes(self.lanes()), notes);
        Ok(Made {
            service_levels: tree.service_levels(lids, lanes)?,
            lanes,
            ..Made::on_one_lane(tables)
        })
    }

    fn mender(&self, force: &InForce<'_>) -> Option<Mender> {
        let tree = FatTree::detect(force.fabric, &force.options.fat_tree, force.par).ok()?;
        let mender = TreeMender::new(tree).with_detours(force.lids, force.tables, force.by_hosts);
        Some(Mender::Tree(Box::new(mender)))
    }

    fn capabilities(&self) -> &'static [Capability] {
        &[
            Capability::Recognises,
            Capability::SpreadsAnew,
            Capability::DeadlockFree,
            Capability::LeavesRoomForCopies,
        ]
    }

    fn lanes(&self) -> LaneUse {
        LaneUse::ToSpread { by_default: 1 }
    }
}

/// A fabric recognised as a fat tree, ready to give tables for any LIDs.
///
/// ```
/// use selvedge_fabric::Fabric;
/// use selvedge_plan::{Lids, Tables};
/// use selvedge_routing::{FatTree, FatTreeOptions};
/// use selvedge_sim::Par;
/// use selvedge_types::Lid;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let tree = FatTree::detect(&Fabric::default(), &FatTreeOptions::default(), Par::Sequential)?;
/// let mut tables = Tables::new(0, Lid::NONE);
/// tree.fill(&Lids::new(), &mut tables, Par::Sequential)?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct FatTree {
    rule: Rule,
    targets: Targets,
    rows: Rows,
    /// Number of positions above a leaf. The LMC offsets of a host use one position after another.
    planes: u32,
    shape: TreeShape,
}

/// The shape of a tree, for people.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TreeShape {
    /// Levels of switches.
    pub levels: usize,
    /// Switches of the lowest level.
    pub leaves: usize,
    /// Number of links between switches of one level. They are no part of the tree, and are not used.
    pub level_links: usize,
    /// Hosts on upper switches.
    pub upper_hosts: usize,
    /// Positions in which a link or switch is missing.
    pub holes: usize,
    /// Pairs of upper switches without hosts that no path of the tree joins. Top switches are never joined by such a
    /// path.
    pub unreached: usize,
    /// Pairs of a switch with hosts (or a leaf) and another switch, without a path between them. The judge refuses such
    /// tables, because hosts must reach the agents of all switches. Not 0 only in trees that have lost many links.
    pub stranded: usize,
}

impl fmt::Display for TreeShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "fat tree of {} levels with {} leaves; {} positions are empty, {} hosts are on upper switches; no path \
             up, then down joins {} pairs of upper switches, {} of an upper switch and one with hosts",
            self.levels, self.leaves, self.holes, self.upper_hosts, self.unreached, self.stranded
        )
    }
}

impl FatTree {
    /// Finds the tree in a fabric, or returns why the fabric is no tree.
    pub fn detect(fabric: &Fabric, options: &FatTreeOptions, par: Par) -> Result<Self, NotATree> {
        let net = Net::new(fabric, options.nominal.as_deref(), &options.hosts);
        let levels = Levels::find(fabric, &net, &options.roots)?;
        let (count, level_links) = (levels.count, levels.level_links);
        let shape = Shape::new(&net, levels);
        let targets = Targets::new(fabric, &net, &shape);
        let mut rule = Rule::new(net, shape, count);
        let unjoined = check::connect(&mut rule)?;
        let rows = Rows::new(&rule, &targets, par);
        let holes = |s: usize| {
            rule.shape
                .up
                .get(s)
                .iter()
                .filter(|slot| rule.shape.ports(slot).contains(&0) || !slot.live)
        };
        let power = &rule.shape.power;
        let planes = power.iter().copied().find(|&p| p > 1).unwrap_or(1);
        let seen = TreeShape {
            levels: count,
            leaves: rule.shape.leaves.len(),
            level_links,
            upper_hosts: targets.uppers.iter().filter(|u| u.egress != 0).count(),
            holes: (0..rule.net.real).map(|s| holes(s).count()).sum(),
            unreached: unjoined.uppers,
            stranded: unjoined.stranded,
        };
        Ok(Self {
            planes,
            shape: seen,
            rows,
            targets,
            rule,
        })
    }

    /// As [`Self::detect`], but refuses a tree in which hosts cannot reach the agents of all switches. If the
    /// operator's lists of hosts cause the refusal, or prevent that a tree is found at all, the error names them.
    pub fn without_stranded(fabric: &Fabric, options: &FatTreeOptions, par: Par) -> Result<Self, NotATree> {
        let whole = |options: &FatTreeOptions| {
            let tree = Self::detect(fabric, options, par)?;
            match tree.shape.stranded {
                0 => Ok(tree),
                pairs => Err(NotATree::Stranded { pairs }),
            }
        };
        let found = whole(options);
        let lists = match (options.hosts.compute.is_empty(), options.hosts.io.is_empty()) {
            (true, true) => return found,
            (false, true) => "the list of compute nodes (routing.compute, cn_guid_file)",
            (true, false) => "the list of I/O nodes (routing.io, io_guid_file)",
            (false, false) => {
                "the lists of compute nodes (routing.compute, cn_guid_file) and I/O nodes (routing.io, io_guid_file)"
            }
        };
        found.map_err(|why| {
            let plain = FatTreeOptions {
                hosts: HostLists::default(),
                ..options.clone()
            };
            match whole(&plain) {
                Ok(_) => NotATree::ByLists {
                    lists,
                    why: why.in_short(),
                },
                Err(_) => why,
            }
        })
    }

    /// Returns the shape of the tree.
    #[must_use]
    pub const fn shape(&self) -> TreeShape {
        self.shape
    }

    /// Writes every entry of `tables`, whatever they held before: the same memory may be filled again and again. LIDs
    /// above [`Tables::top`] get no entry.
    pub fn fill(&self, lids: &Lids, tables: &mut Tables, par: Par) -> Result<(), EngineError> {
        if tables.switches() != self.rule.net.real {
            return Err(EngineError::ForeignPrevious {
                have: tables.switches(),
                want: self.rule.net.real,
            });
        }
        self.write(lids, tables.tiles_mut(), par)
    }

    /// Returns the port by which `switch` sends packets for `lid` once its link at port `lost` is gone. This is the
    /// entry that [`Self::fill`] would write for the fabric without this link, computed before the link is lost. An
    /// entry that does not use `lost` stays as it is.
    ///
    /// The port depends on the switch as well as on the destination, so that the routes of one lost link are spread
    /// over all other positions. `None`: no port has the LID, or this switch has no other route. In the second case
    /// switches further away must use other routes, so new tables must be computed.
    pub fn backup(&self, lids: &Lids, switch: SwitchIdx, lid: Lid, lost: u8) -> Result<Option<u8>, EngineError> {
        let s = switch.to_usize();
        if s >= self.rule.net.real {
            return Ok(None);
        }
        let egress = match self.target(lids, lid)? {
            Target::Nowhere => NO_PATH,
            Target::Leaf { leaf, number, egress } => self.leaf_entry(s, leaf, number, egress, Some(lost)),
            Target::Upper { upper } => {
                let to = self.targets.uppers[upper as usize];
                self.rule.towards_upper(s, to, upper, Some(lost))
            }
        };
        Ok(Some(egress).filter(|&port| port != NO_PATH && port != lost))
    }
}
