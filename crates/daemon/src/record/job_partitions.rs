//! Partitions of isolated jobs in a recording: their ports are full members.

use std::collections::BTreeSet;

use selvedge_plan::partition::{Partition, Rule, Who};
use selvedge_types::{Guid, Sl};

use super::bytes::{Reader, put_text};
use super::format::{put_guids, take_guids};

/// Appends partitions.
pub(super) fn put(out: &mut Vec<u8>, partitions: &[Partition]) {
    out.extend((partitions.len() as u32).to_le_bytes());
    for partition in partitions {
        out.extend(partition.key.to_le_bytes());
        out.push(partition.sl.get());
        let ports = partition.rules.iter().filter_map(|rule| match rule.who {
            Who::Port(guid) => Some(guid),
            Who::All | Who::Kind(_) | Who::Manager => None,
        });
        put_guids(out, &ports.collect());
        put_text(out, &partition.name);
    }
}

/// Reads what [`put`] has appended.
pub(super) fn take(reader: &mut Reader<'_>) -> Option<Vec<Partition>> {
    let count = reader.u32()?;
    let mut partition = || {
        let key = u16::from_le_bytes([reader.u8()?, reader.u8()?]);
        let sl = Sl::new(reader.u8()?)?;
        let ports: BTreeSet<Guid> = take_guids(reader)?;
        let rules = ports.into_iter().map(|guid| Rule {
            who: Who::Port(guid),
            is_full: true,
            is_first: false,
        });
        Some(Partition {
            name: reader.text()?.to_owned(),
            key,
            sl,
            rules: rules.collect(),
        })
    };
    (0..count).map(|_| partition()).collect()
}
