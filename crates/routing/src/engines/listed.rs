//! Tables and hop counts from elsewhere: OpenSM's engine `file`.
//!
//! This module reads no files. Tables come with the LIDs that ports had when the tables were made. If a port has other
//! LIDs now, entries for its old LIDs are used for the new LIDs, offset by offset. Nothing is repaired: the judge
//! reports missing routes and credit loops.

use std::collections::BTreeMap;

use selvedge_fabric::{Fabric, SwitchIdx};
use selvedge_graph::Graph;
use selvedge_plan::{Lids, NO_PATH, Tables};
use selvedge_types::{Guid, Lid, Lmc};

use crate::engine::{Capability, Input, Made, RoutingEngine};
use crate::error::EngineError;
use crate::note::Note;
use crate::options::Options;
use crate::paths::{Hops, NO_WAY, Paths};

/// Engine `file`.
#[derive(Debug)]
pub struct File;

impl RoutingEngine for File {
    fn route(&self, input: &Input<'_>, notes: &mut Vec<Note>) -> Result<Made, EngineError> {
        let tables = match input.options.listed()? {
            Listed::Tables { tables: listed, lids } => tables(input.fabric, input.lids, (listed, lids), notes)?,
            Listed::Hops(matrix) => {
                let paths = paths(input.fabric, input.graph, matrix, notes);
                input.balanced(&paths, notes)
            }
        };
        Ok(Made::on_one_lane(tables))
    }

    fn capabilities(&self) -> &'static [Capability] {
        &[Capability::Given]
    }

    fn refuses_always(&self, _lmc: Lmc, options: &Options) -> Option<EngineError> {
        options.listed().err()
    }
}

/// Input of engine `file`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Listed {
    /// Tables with this fabric's switch indices, and the LIDs that ports had when they were made (OpenSM's
    /// `lfts_file`).
    Tables {
        /// The tables.
        tables: Tables,
        /// LIDs in the tables.
        lids: Lids,
    },
    /// Hops left by each port; entries are chosen from them as minhop does (OpenSM's `lid_matrix_dump_file`).
    Hops(LidMatrix),
}

/// Number of hops from every port of a switch to every other switch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LidMatrix {
    /// By GUID of the switch, then by GUID of the target switch: hops by each port, from port 0; 255: no path.
    pub hops: BTreeMap<Guid, BTreeMap<Guid, Vec<u8>>>,
}

/// Returns the loaded tables with the LIDs that ports have now.
fn tables(
    fabric: &Fabric,
    lids: &Lids,
    (listed, of): (&Tables, &Lids),
    notes: &mut Vec<Note>,
) -> Result<Tables, EngineError> {
    if listed.switches() != fabric.switches().len() {
        return Err(EngineError::ForeignTables {
            have: listed.switches(),
            want: fabric.switches().len(),
        });
    }
    let mut tables = Tables::new(listed.switches(), lids.top());
    for old in (0..=listed.top().0).map(Lid) {
        let Some(new) = moved(lids, of, old).filter(|new| lids.owner(*new).is_some()) else {
            continue;
        };
        for switch in listed.switch_indices() {
            let egress = listed.get(switch, old);
            let exists = egress <= fabric.switch(switch).port_count();
            if egress != NO_PATH && exists {
                tables.set(switch, new, egress);
            }
        }
    }
    let holes = |switch: SwitchIdx| {
        lids.by_lid()
            .filter(|&(lid, _)| tables.get(switch, lid) == NO_PATH)
            .count()
    };
    let entries = tables.switch_indices().map(holes).sum();
    if entries > 0 {
        notes.push(Note::NotListed { entries });
    }
    Ok(tables)
}

/// Returns the present LID for a listed one: the LID of the same port, at the same offset.
fn moved(lids: &Lids, of: &Lids, old: Lid) -> Option<Lid> {
    let Some(owner) = of.owner(old) else {
        return Some(old);
    };
    let range = lids.range(owner)?;
    if range.iter().any(|lid| lid == old) {
        return Some(old);
    }
    Some(Lid(range.base.0 + old.0 % range.lmc.lids()))
}

/// Returns the hop counts for the channels of the present fabric.
fn paths(fabric: &Fabric, graph: &Graph, matrix: &LidMatrix, notes: &mut Vec<Note>) -> Paths {
    let guid = |switch: usize| fabric.switch(SwitchIdx(u32::try_from(switch).unwrap_or(u32::MAX))).guid;
    let of = |from: usize, target: usize| matrix.hops.get(&guid(from))?.get(&guid(target));
    let switches = graph.switches();
    let missing = (0..switches * switches)
        .filter(|i| of(i / switches, i % switches).is_none())
        .count();
    if missing > 0 {
        notes.push(Note::NotListed { entries: missing });
    }
    let hops = Hops::new(graph, selvedge_sim::Par::Sequential, |target, (): &mut (), row| {
        for from in (0..switches).filter(|&s| s != target) {
            let Some(listed) = of(from, target) else { continue };
            let channels = graph.channels().get(from);
            for (channel, hops) in channels.iter().zip(&mut row[graph.channels().range(from)]) {
                *hops = listed.get(usize::from(channel.egress)).copied().unwrap_or(NO_WAY);
            }
        }
    });
    Paths::Hops(hops)
}
