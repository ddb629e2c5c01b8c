//! Forwarding tables, LIDs and lanes as text, in the formats of OpenSM, `ibroute` and `dump_fts`.
//!
//! Source: OpenSM's `osm_dump.c`, `osm_db_pack.c`; `ibroute.c` and `dump_fts.c` of infiniband-diags.

mod hops;
mod lanes;
mod lanes_read;
mod lfts;
mod lfts_write;
mod lids;
pub mod opensm;
mod row;

use selvedge_fabric::{Fabric, PortRef};
use selvedge_plan::{LidConflict, Lids, Tables};
use selvedge_types::{Guid, Lid};

use crate::Place;

pub use hops::read_lid_matrix;
pub use lanes::{write_service_levels, write_sl_to_vl};
pub use lanes_read::{read_service_levels, read_sl_to_vl};
pub use lfts::read_lfts;
pub use lfts_write::{LftStyle, write_lfts};
pub use lids::{KnownLids, read_guid2lid, seen_lids, write_guid2lid};

/// Forwarding tables and LIDs from a dump.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forwarding {
    /// The LIDs of each port.
    pub lids: Lids,
    /// The tables. Entries missing in the dump are [`selvedge_plan::NO_PATH`].
    pub tables: Tables,
    /// Warnings about the dump.
    pub warnings: Vec<DumpWarning>,
}

/// Returns the first few names, and the number of the others.
fn first_names(names: impl ExactSizeIterator<Item = String>) -> String {
    const NAMES_MAX: usize = 5;
    let more = names.len().saturating_sub(NAMES_MAX);
    let first = names.take(NAMES_MAX).collect::<Vec<_>>().join(", ");
    match more {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}

/// Reason why a dump cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DumpError {
    /// SLV-TOPOLOGY-0030: the file has no forwarding table.
    #[error(
        "SLV-TOPOLOGY-0030: {file}: no 'Unicast lids' line; give opensm-lfts.dump or the output of ibroute or dump_fts"
    )]
    NoTables {
        /// Name of the file.
        file: String,
    },
    /// SLV-TOPOLOGY-0031: a line of a dump cannot be read.
    #[error("SLV-TOPOLOGY-0031: {place}: cannot read '{what}'; want {want}")]
    Syntax {
        /// File and line.
        place: Place,
        /// The text found.
        what: String,
        /// The text expected.
        want: &'static str,
    },
    /// SLV-TOPOLOGY-0032: the file has LIDs that no port can have.
    #[error(
        "SLV-TOPOLOGY-0032: {place}: LIDs {first}-{last} are no range of 2^LMC unicast LIDs (1-49151); correct them"
    )]
    BadRange {
        /// File and line.
        place: Place,
        /// Lowest LID.
        first: u64,
        /// Highest LID.
        last: u64,
    },
    /// SLV-TOPOLOGY-0035: a file of service levels lacks LIDs.
    #[error(
        "SLV-TOPOLOGY-0035: {file}: no service level of {count} LIDs in use: {names}; add a line '0xDLID SL' for each"
    )]
    NoLevels {
        /// Name of the file.
        file: String,
        /// Number of LIDs without a line.
        count: usize,
        /// The first LIDs without a line, with their ports.
        names: String,
    },
    /// SLV-TOPOLOGY-0036: a dump of SL2VL tables lacks rows of pairs of linked ports.
    #[error(
        "SLV-TOPOLOGY-0036: {file}: no lanes for {missing} of {needed} pairs of ports with a link, at {names}; give \
         the dump of every switch{foreign}"
    )]
    NoLanes {
        /// Name of the file.
        file: String,
        /// Pairs of ingress and egress ports without a row.
        missing: usize,
        /// Number of pairs that packets can pass.
        needed: usize,
        /// The first switches that lack rows.
        names: String,
        /// `; the fabric has no switch …`, or empty.
        foreign: String,
    },
    /// SLV-TOPOLOGY-0034: the file has no hop counts.
    #[error("SLV-TOPOLOGY-0034: {file}: no hop counts; give opensm-lid-matrix.dump")]
    NoHops {
        /// Name of the file.
        file: String,
    },
    /// SLV-TOPOLOGY-0037: two rows with one key state different values.
    #[error("SLV-TOPOLOGY-0037: {place}: {what} is {here} here and {there} in line {first_line}; remove the wrong one")]
    Contradiction {
        /// Place of the later row.
        place: Place,
        /// The key that both rows have, such as a LID at a switch.
        what: String,
        /// The value of the later row.
        here: String,
        /// The value of the first row.
        there: String,
        /// Line of the first row.
        first_line: usize,
    },
}

/// A problem of a dump that could be read nevertheless.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DumpWarning {
    /// SLV-TOPOLOGY-0040: the dump has a table of a switch that the fabric does not have.
    #[error("SLV-TOPOLOGY-0040: {place}: the fabric has no switch {guid}; its table is left out")]
    UnknownSwitch {
        /// File and line.
        place: Place,
        /// GUID of the switch.
        guid: Guid,
    },
    /// SLV-TOPOLOGY-0041: the dump has no table of a switch.
    #[error("SLV-TOPOLOGY-0041: {file}: no table of switch {guid} \"{name}\"; it forwards nothing")]
    MissingTable {
        /// Name of the file.
        file: String,
        /// GUID of the switch.
        guid: Guid,
        /// Description of the switch.
        name: String,
    },
    /// SLV-TOPOLOGY-0042: an entry leads to a port that the switch does not have.
    #[error(
        "SLV-TOPOLOGY-0042: {place}: \"{name}\" sends LID {lid} to port {port} and has ports 0-{count}; kept as it is"
    )]
    NoSuchPort {
        /// File and line.
        place: Place,
        /// Description of the switch.
        name: String,
        /// The LID.
        lid: Lid,
        /// The port.
        port: u8,
        /// Highest port number of the switch.
        count: u8,
    },
    /// SLV-TOPOLOGY-0043: the dump has the table of a switch twice, with equal entries.
    #[error("SLV-TOPOLOGY-0043: {place}: a second table of switch {guid}, equal to the first in line {first_line}")]
    SecondTable {
        /// File and line.
        place: Place,
        /// GUID of the switch.
        guid: Guid,
        /// Line of the first table.
        first_line: usize,
    },
    /// SLV-TOPOLOGY-0044: a LID has two owners.
    #[error(
        "SLV-TOPOLOGY-0044: {place}: LID {lid} belongs to {guid} here and to {owner} in an earlier line; the earlier \
         owner is kept"
    )]
    OwnerConflict {
        /// File and line.
        place: Place,
        /// The LID.
        lid: Lid,
        /// GUID of the port here.
        guid: Guid,
        /// The port that an earlier line names.
        owner: String,
    },
    /// SLV-TOPOLOGY-0045: a LID belongs to a port that the fabric does not have.
    #[error("SLV-TOPOLOGY-0045: {place}: the fabric has no port {guid}; its LID {lid} stays without owner")]
    UnknownPort {
        /// File and line.
        place: Place,
        /// The port's GUID.
        guid: Guid,
        /// The LID.
        lid: Lid,
    },
    /// SLV-TOPOLOGY-0046: routes lead to LIDs that no port has.
    #[error("SLV-TOPOLOGY-0046: {file}: {count} LIDs with routes have no known owner, the lowest is {lowest}")]
    Ownerless {
        /// Name of the file.
        file: String,
        /// Number of LIDs without a port.
        count: usize,
        /// The lowest LID without a port.
        lowest: Lid,
    },
    /// SLV-TOPOLOGY-0047: the last line of a table is missing.
    #[error(
        "SLV-TOPOLOGY-0047: {place}: the table of switch {guid} does not end; the file seems cut off here{last}; \
         dump it again"
    )]
    CutOff {
        /// Place where the table starts.
        place: Place,
        /// GUID of the switch.
        guid: Guid,
        /// `; its last row, of LID …, is left out`, or empty. The last row may be incomplete.
        last: String,
    },
    /// SLV-TOPOLOGY-0048: some LIDs cannot be given to a port.
    #[error("SLV-TOPOLOGY-0048: {source_name}: LIDs of {port} left out: {why}")]
    Refused {
        /// The file, or another source of the LIDs.
        source_name: String,
        /// Name of the port.
        port: String,
        /// The LID and its other owner, or another problem.
        why: String,
    },
    /// SLV-TOPOLOGY-0049: the entry of the highest LID is missing: ibroute and dump_fts do not print it if it is the
    /// first of a block (observed with infiniband-diags 44).
    #[error(
        "SLV-TOPOLOGY-0049: {file}: no routes to LID {lid}: ibroute and dump_fts leave out a highest LID that is a \
         multiple of 64; take OpenSM's own dump"
    )]
    LastLidLost {
        /// Name of the file.
        file: String,
        /// The LID.
        lid: Lid,
    },
    /// SLV-TOPOLOGY-0051: two ports of a guid2lid file have the same LID.
    #[error(
        "SLV-TOPOLOGY-0051: {place}: LID {lid} of {second} is a LID of {first} in line {first_line}; only one of them \
         keeps it; correct one line"
    )]
    OneLid {
        /// Place of the later line.
        place: Place,
        /// The first LID that both ports have.
        lid: Lid,
        /// The GUID in the first line.
        first: Guid,
        /// Number of the first line.
        first_line: usize,
        /// The GUID in the later line.
        second: Guid,
    },
    /// SLV-TOPOLOGY-0052: a guid2lid file has GUIDs that no port of the fabric has.
    #[error(
        "SLV-TOPOLOGY-0052: {file}: no port of the fabric has {count} of the GUIDs: {names}; no port gets their LIDs"
    )]
    NoSuchPorts {
        /// Name of the file.
        file: String,
        /// Number of GUIDs without a port.
        count: usize,
        /// The first of these GUIDs, with lines and LIDs.
        names: String,
    },
    /// SLV-TOPOLOGY-0053: a table has lines that are neither rows nor other known lines.
    #[error(
        "SLV-TOPOLOGY-0053: {place}: '{text}' in the table of switch {guid} is no row and was left out, with {more} \
         more such lines; correct the file or dump it again"
    )]
    JunkLines {
        /// File and line of the first such line.
        place: Place,
        /// GUID of the switch.
        guid: Guid,
        /// Text of the first such line.
        text: String,
        /// Number of further such lines in this table.
        more: usize,
    },
}

impl DumpWarning {
    /// Returns the warning about LIDs that cannot be given to a port.
    fn refused(source_name: &str, fabric: &Fabric, at: PortRef, conflict: LidConflict) -> Self {
        Self::Refused {
            source_name: source_name.to_owned(),
            port: fabric.port_name(at),
            why: match conflict {
                LidConflict::Taken { lid, owner } => {
                    format!("LID {lid} belongs to {} already", fabric.port_name(owner))
                }
                other => other.to_string(),
            },
        }
    }

    /// True if entries of tables are unknown. No verdict about such tables is good.
    #[must_use]
    pub const fn is_gap(&self) -> bool {
        matches!(self, Self::MissingTable { .. } | Self::CutOff { .. })
    }
}
