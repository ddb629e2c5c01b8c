//! Multicast groups, as shown to front ends.

use selvedge_api::MulticastGroup;
use selvedge_plan::multicast::{MftBlocks, MulticastTables};
use selvedge_sm::View;
use selvedge_types::Lid;

/// Returns the groups that have members, with the switches that copy their packets.
pub(crate) fn groups(view: &View) -> Vec<MulticastGroup> {
    let copying = |mlid: Lid| view.copies.values().filter(|blocks| copies(blocks, mlid)).count();
    let groups = view.groups.iter().map(|group| MulticastGroup {
        mlid: group.mlid.0,
        mtu_bytes: group.mtu.bytes().into(),
        members: group.members.len() as u64,
        receivers: group.members.iter().filter(|member| member.receives).count() as u64,
        switches: copying(group.mlid) as u64,
    });
    groups.collect()
}

/// True if some position of a switch's table has a port for the group.
fn copies(blocks: &MftBlocks, mlid: Lid) -> bool {
    let block = MulticastTables::block_of(mlid);
    let entry = usize::from(mlid.0.saturating_sub(Lid::MULTICAST_MIN.0)) % selvedge_plan::multicast::MFT_LIDS;
    blocks
        .range((block, 0)..=(block, u8::MAX))
        .any(|(_, data)| data[entry] != 0)
}
