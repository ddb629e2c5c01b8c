//! A master's service levels for senders, as a standby copies them.

use std::collections::BTreeMap;

use selvedge_types::{Guid, Lid};
use selvedge_wire::sa::records;

use crate::copied::{Rows, widened};

/// The service level that senders use towards each LID, as assigned by a master.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToldLevels {
    /// LID of the master's port.
    pub by: Lid,
    /// Number of lanes that the master's routes use by these levels; 1: the routes do not depend on levels; 0: no
    /// longer known.
    pub lanes: u8,
    /// Levels of the LIDs of each end port, in order, by port GUID; empty if there is one lane.
    pub by_port: BTreeMap<Guid, Vec<u8>>,
}

/// Decodes the rows of service levels.
pub fn told(rows: &Rows, by: Lid) -> ToldLevels {
    use records::told_level as f;
    let mut told = ToldLevels {
        by,
        lanes: 1,
        by_port: BTreeMap::new(),
    };
    for chunk in rows.bytes.chunks_exact(rows.stride.max(1)) {
        let row = widened(chunk, records::TOLD_LEVEL.len);
        let guid = Guid(f::GUID.get(&row));
        told.lanes = told.lanes.max(f::LANES.get(&row) as u8);
        told.by_port.entry(guid).or_default().push(f::LEVEL.get(&row) as u8);
    }
    told
}
