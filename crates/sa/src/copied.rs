//! The tables that a standby requests from a master, and the decoding of their rows.

use std::collections::BTreeMap;
use std::time::Duration;

use selvedge_types::{Guid, Lid, Sl};
use selvedge_wire::sa::{Layout, SA_DATA_LEN, SaData, records};
use selvedge_wire::{Address, Gid};

use crate::kept::{KeptGroup, KeptService, KeptSubscription, Registrations};
use crate::member::Member;
use crate::proxy::JoinedBy;
use crate::{alias, forgotten, jobs};

/// The tables. Only a Selvedge master has the last five. The last two are requested only if the master keeps lists of
/// places out of service and of jobs.
pub const TABLES: [&Layout; 8] = [
    &records::MEMBER,
    &records::SERVICE,
    &records::INFORM_INFO_RECORD,
    &records::TOLD_LEVEL,
    &records::FORGOTTEN,
    &records::ALIAS,
    &records::OUT_OF_SERVICE,
    &records::JOBS,
];
/// Index of the table of service levels. The tables of forgotten registrations and of alias GUIDs follow.
pub const LEVELS: usize = 3;
const FORGOTTEN: usize = 4;
const ALIASES: usize = 5;
/// Index of the list of places out of service.
pub const OUT_OF_SERVICE: usize = 6;
/// Index of the list of jobs.
pub const JOBS: usize = 7;
/// A lease without end.
const FOR_EVER: u64 = 0xFFFF_FFFF;

/// Rows of a table as received.
#[derive(Debug, Default)]
pub struct Rows {
    pub stride: usize,
    pub bytes: Vec<u8>,
}

/// Returns a row of this length in the form from which fields are read.
pub fn widened(chunk: &[u8], len: usize) -> SaData {
    let mut row: SaData = [0; SA_DATA_LEN];
    row.iter_mut()
        .zip(&chunk[..len.min(chunk.len())])
        .for_each(|(slot, byte)| *slot = *byte);
    row
}

/// Returns the rows of the table with this number.
pub fn rows(tables: &[Rows], number: usize) -> impl Iterator<Item = SaData> + '_ {
    let layout = TABLES[number]; // each asked for by its number
    let of = tables.get(number).filter(|rows| rows.stride >= layout.len);
    let chunks = of.into_iter().flat_map(|rows| rows.bytes.chunks_exact(rows.stride));
    chunks.map(|chunk| widened(chunk, layout.len))
}

/// Decodes the registrations in the rows. Contradictory ones are left out, and the list of jobs unless it has this
/// number.
pub fn registrations(tables: &[Rows], jobs: u32) -> Registrations {
    let mut all = Registrations::default();
    let rows = |number| rows(tables, number);
    let mut groups: BTreeMap<u64, KeptGroup> = BTreeMap::new();
    rows(0).for_each(|row| take_member(row, &mut groups, &mut all.serial));
    all.groups = groups.into_values().collect();
    all.services = rows(1).filter_map(service).collect();
    all.subscriptions = rows(2).filter_map(subscription).collect();
    all.forgotten = forgotten::read(rows(FORGOTTEN));
    all.aliases = rows(ALIASES).map(alias::read).collect();
    all.jobs = jobs::read(rows(JOBS), jobs).unwrap_or_default();
    all
}

fn take_member(row: SaData, groups: &mut BTreeMap<u64, KeptGroup>, serial: &mut u64) {
    use records::member as f;
    let (mgid, port) = (Gid(f::MGID.wide(&row)), Gid(f::PORT_GID.wide(&row)));
    let (mlid, join_state) = (f::MLID.get(&row), f::JOIN_STATE.get(&row) as u8);
    if !mgid.is_multicast() || !(0xC000..=0xFFFE).contains(&mlid) {
        return;
    }
    let mut record = row;
    f::PORT_GID.put(&mut record, &[0; 16]);
    f::JOIN_STATE.set(&mut record, 0);
    f::PROXY.set(&mut record, 0);
    let joined_by = match f::PROXY.get(&row) {
        0 => JoinedBy::Itself,
        _ => JoinedBy::Proxy(None),
    };
    let group = groups.entry(mlid).or_insert_with(|| KeptGroup {
        record,
        members: Vec::new(),
    });
    let is_of_it = f::MGID.wide(&group.record) == mgid.0;
    if port.guid() != Guid::NONE && join_state != 0 && is_of_it {
        group.members.push(Member {
            guid: port.guid(),
            join_state,
            joined_by,
        });
    }
    *serial = (*serial).max(crate::member::serial_of(mgid).unwrap_or(0));
}

fn service(row: SaData) -> Option<KeptService> {
    use records::service as f;
    let (owner, lease) = (Gid(f::GID.wide(&row)).guid(), f::LEASE.get(&row));
    (owner != Guid::NONE).then_some(KeptService {
        owner,
        left: (lease != FOR_EVER).then(|| Duration::from_secs(lease)),
        record: row,
    })
}

fn subscription(row: SaData) -> Option<KeptSubscription> {
    use records::inform_info_record as f;
    let guid = Gid(f::SUBSCRIBER_GID.wide(&row)).guid();
    if guid == Guid::NONE {
        return None;
    }
    let mut wanted = [0; SA_DATA_LEN];
    let len = records::INFORM_INFO.len;
    // The subscription follows the subscriber. Source: IBA vol 1 §15.2.5.12.
    wanted[..len].copy_from_slice(&row[24..24 + len]);
    records::inform_info::SUBSCRIBE.set(&mut wanted, 1);
    // Its LID is looked up when a report is sent.
    let to = Address {
        lid: Lid::NONE,
        qp: f::QPN.get(&row) as u32,
        sl: Sl::default(),
    };
    Some(KeptSubscription { guid, to, wanted })
}
