//! Remarks of an engine for the operator, in addition to its tables.

use core::fmt;

use selvedge_fabric::{Fabric, PortRef, SwitchIdx};
use selvedge_graph::Graph;
use selvedge_plan::Lids;
use selvedge_types::{Guid, Lid};

use crate::engines::Engine;
use crate::engines::auto::{Reason, Topology};
use crate::engines::fat_tree::TreeShape;

/// How the roots of a component were chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RootSource {
    /// The operator named the roots.
    Given,
    /// OpenSM's rule: more than 90 % of the hosts are equally far away, and no other distance holds more than 5 %.
    Histogram,
    /// The switches form levels above the hosts; the roots are those with nothing above them.
    Levels,
    /// No structure was seen: the switch from which the farthest host is nearest.
    Centre,
}

impl fmt::Display for RootSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Given => "given",
            Self::Histogram => "by distance to hosts",
            Self::Levels => "top of the levels",
            Self::Centre => "centre",
        })
    }
}

/// Information for an operator about a routing; not an error.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Note {
    /// SLV-ROUTE-0101: the switches form parts that no link joins: planes of a multi-rail fabric, or a fabric cut in
    /// two.
    Components {
        /// Switches of each part, largest part first.
        switches: Vec<usize>,
    },
    /// SLV-ROUTE-0102: an end port with LIDs has no live link to a switch: nothing is routed to it.
    Detached {
        /// GUID of the node.
        node: Guid,
        /// The port.
        port: PortRef,
        /// First LID of the port.
        lid: Lid,
    },
    /// SLV-ROUTE-0103: a switch's table has no room for the highest LIDs.
    TableTooSmall {
        /// The switch.
        switch: Guid,
        /// Number of entries of the table.
        entries: u16,
        /// Highest LID in use.
        top: Lid,
    },
    /// SLV-ROUTE-0104: a GUID of the routing order is no port of this fabric.
    UnknownInOrder {
        /// The GUID that was given.
        guid: Guid,
    },
    /// SLV-ROUTE-0105: a weight or an order is for a port that no switch of this fabric has.
    UnknownPort {
        /// The switch.
        switch: Guid,
        /// The port.
        port: u8,
    },
    /// SLV-ROUTE-0106: neither tables nor hop counts give a route for some LIDs.
    NotListed {
        /// Entries of switches that exist, for LIDs in use, that the tables read do not have.
        entries: usize,
    },
    /// SLV-ROUTE-0111: an engine reports the roots that it uses in one connected part of the fabric.
    Roots {
        /// How the roots were chosen.
        source: RootSource,
        /// The roots, ascending.
        roots: Vec<Guid>,
    },
    /// SLV-ROUTE-0112: a given root is neither a switch nor attached to one; it is left out.
    UnknownRoot {
        /// The GUID that was given.
        guid: Guid,
    },
    /// SLV-ROUTE-0113: links join switches of one rank; the switch with the lower GUID counts as the upper one.
    EqualRankLinks {
        /// Number of links.
        count: usize,
    },
    /// SLV-ROUTE-0114: switches were added to the roots, so that every root reaches every other.
    RootsConnected {
        /// The switches between the roots, ascending.
        through: Vec<Guid>,
    },
    /// SLV-ROUTE-0115: pairs of switches have no path that goes up, then down.
    NoLegalPath {
        /// Number of ordered pairs inside one part of the fabric.
        pairs: usize,
    },
    /// SLV-ROUTE-0116: the shape of the fat tree that was found.
    Tree {
        /// Shape of the tree.
        shape: TreeShape,
    },
    /// SLV-ROUTE-0117: links join switches of one level of a fat tree; they are not used.
    LevelLinks {
        /// Number of links.
        count: usize,
    },
    /// SLV-ROUTE-0121: some link has fewer lanes than requested.
    FewerLanes {
        /// Number of requested lanes.
        wanted: u8,
        /// Number of lanes of the poorest link, which is used.
        have: u8,
    },
    /// SLV-ROUTE-0122: tables in force were repaired.
    Repaired {
        /// LIDs with new routes only for the entries without a path.
        extended: usize,
        /// Number of LIDs that were routed again as a whole; their entries must be sent in a certain order.
        rerouted: usize,
        /// Lanes with LIDs that all had to be routed again.
        rewoven: usize,
        /// Entries that changed.
        entries: usize,
    },
    /// SLV-ROUTE-0123: the tables in force can deadlock; everything was routed again, on the same lanes.
    NotRepaired,
    /// SLV-ROUTE-0131: the shape of the largest part of the fabric, as `auto` finds it.
    Recognised {
        /// The shape.
        topology: Topology,
    },
    /// SLV-ROUTE-0132: the engine that `auto` has chosen.
    Chosen {
        /// Name of the engine, and the reason for it.
        reason: Reason,
    },
    /// SLV-ROUTE-0133: an engine of a list refused the fabric, or the judge its tables, and the next was tried.
    Refused {
        /// The engine.
        engine: Engine,
        /// The message of the engine, or of the judge.
        why: String,
    },
}

impl Note {
    /// Returns the stable code of this remark.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Components { .. } => "SLV-ROUTE-0101",
            Self::Detached { .. } => "SLV-ROUTE-0102",
            Self::TableTooSmall { .. } => "SLV-ROUTE-0103",
            Self::UnknownInOrder { .. } => "SLV-ROUTE-0104",
            Self::UnknownPort { .. } => "SLV-ROUTE-0105",
            Self::NotListed { .. } => "SLV-ROUTE-0106",
            Self::Roots { .. } => "SLV-ROUTE-0111",
            Self::UnknownRoot { .. } => "SLV-ROUTE-0112",
            Self::EqualRankLinks { .. } => "SLV-ROUTE-0113",
            Self::RootsConnected { .. } => "SLV-ROUTE-0114",
            Self::NoLegalPath { .. } => "SLV-ROUTE-0115",
            Self::Tree { .. } => "SLV-ROUTE-0116",
            Self::LevelLinks { .. } => "SLV-ROUTE-0117",
            Self::FewerLanes { .. } => "SLV-ROUTE-0121",
            Self::Repaired { .. } => "SLV-ROUTE-0122",
            Self::NotRepaired => "SLV-ROUTE-0123",
            Self::Recognised { .. } => "SLV-ROUTE-0131",
            Self::Chosen { .. } => "SLV-ROUTE-0132",
            Self::Refused { .. } => "SLV-ROUTE-0133",
        }
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.code())?;
        match self {
            Self::Components { switches } => parts(f, switches),
            Self::Detached { node, port, lid } => {
                let port = port.port;
                write!(
                    f,
                    "node {node} port {port} has LID {lid} but no live link to a switch; check its cable"
                )
            }
            Self::TableTooSmall { switch, entries, top } => write!(
                f,
                "switch {switch} has a table of {entries} entries, the highest LID is {top}; it cannot forward to all"
            ),
            Self::UnknownInOrder { guid } => write!(
                f,
                "port {guid} of the routing order is not in this fabric; it is left out"
            ),
            Self::UnknownPort { switch, port } => write!(
                f,
                "switch {switch} port {port} is not in this fabric; its weight or order is left out"
            ),
            Self::NotListed { entries } => write!(
                f,
                "the file's tables have no entry for {entries} pairs of a switch and a LID in use: these switches drop \
                 packets to these LIDs"
            ),
            Self::Roots { source, roots } => write!(f, "roots ({source}): {}", Listed(roots)),
            Self::UnknownRoot { guid } => write!(
                f,
                "root {guid} is neither a switch of this fabric nor attached to one; it is left out"
            ),
            Self::EqualRankLinks { count } => write!(
                f,
                "{count} links join switches of one rank; the switch with the lower GUID counts as the upper one"
            ),
            Self::RootsConnected { through } => {
                write!(f, "roots reach each other through {}", Listed(through))
            }
            Self::NoLegalPath { pairs } => write!(
                f,
                "{pairs} pairs of switches have no path that goes up, then down; connect_roots gives them one"
            ),
            Self::Tree { shape } => write!(f, "{shape}"),
            Self::LevelLinks { count } => write!(
                f,
                "{count} links join switches of one level of the tree and are not used; check their cables"
            ),
            Self::FewerLanes { wanted, have } => write!(
                f,
                "{wanted} lanes were requested, but some link has only {have}: {have} are used"
            ),
            Self::Repaired {
                extended,
                rerouted,
                rewoven,
                entries,
            } => repaired(f, [*extended, *rerouted, *rewoven], *entries),
            Self::NotRepaired => f.write_str(NOT_REPAIRED),
            Self::Recognised { topology } => write!(f, "the fabric looks like this: {topology}"),
            Self::Chosen { reason } => write!(f, "auto takes {}; {reason}", reason.engine().name()),
            Self::Refused { engine, why } => write!(f, "engine {} is not used: {why}", engine.name()),
        }
    }
}

const NOT_REPAIRED: &str = "tables in force can deadlock and were not repaired; everything was routed again, and \
                            destinations stay on their lanes";

fn repaired(f: &mut fmt::Formatter<'_>, [extended, rerouted, rewoven]: [usize; 3], entries: usize) -> fmt::Result {
    write!(
        f,
        "tables in force were repaired: {entries} entries changed; {extended} LIDs got new paths where they had lost \
         one, {rerouted} LIDs and {rewoven} lanes were routed again as a whole"
    )
}

fn parts(f: &mut fmt::Formatter<'_>, switches: &[usize]) -> fmt::Result {
    write!(
        f,
        "switches form {} parts that no link joins ({} in the largest); ports of different parts cannot talk",
        switches.len(),
        switches.first().unwrap_or(&0)
    )
}

/// GUIDs for people: the first few, and how many more.
struct Listed<'a>(&'a [Guid]);

impl fmt::Display for Listed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        /// Number of items that are shown; more would not help an operator.
        const SHOWN_MAX: usize = 4;
        for (i, guid) in self.0.iter().take(SHOWN_MAX).enumerate() {
            write!(f, "{}{guid}", if i == 0 { "" } else { ", " })?;
        }
        match self.0.len().saturating_sub(SHOWN_MAX) {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

/// Adds the notes that do not depend on the engine.
pub(crate) fn about_fabric(fabric: &Fabric, graph: &Graph, lids: &Lids, notes: &mut Vec<Note>) {
    if graph.components() > 1 {
        let mut switches = vec![0; graph.components()];
        for s in 0..graph.switches() {
            switches[graph.component(s)] += 1;
        }
        switches.sort_unstable_by(|a, b| b.cmp(a));
        notes.push(Note::Components { switches });
    }
    let top = lids.top();
    for node in fabric.switches().iter().map(|&idx| fabric.node(idx)) {
        if let Some(entries) = node.switch.map(|s| s.linear_cap).filter(|&cap| cap <= top.0 && cap > 0) {
            let switch = node.guid;
            notes.push(Note::TableTooSmall { switch, entries, top });
        }
    }
}

/// Returns GUIDs of switches given by position.
pub(crate) fn guids(fabric: &Fabric, switches: impl IntoIterator<Item = u32>) -> Vec<Guid> {
    switches.into_iter().map(|s| fabric.switch(SwitchIdx(s)).guid).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lists_are_cut() {
        let note = Note::Roots {
            source: RootSource::Levels,
            roots: (1..=6).map(Guid).collect(),
        };
        assert_eq!(
            note.to_string(),
            "SLV-ROUTE-0111: roots (top of the levels): 0x0000000000000001, 0x0000000000000002, 0x0000000000000003, \
             0x0000000000000004 and 2 more"
        );
    }
}
