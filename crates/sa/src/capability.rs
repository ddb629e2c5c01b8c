//! The capabilities in ClassPortInfo: the set bits of both capability masks.
//!
//! A bit is set if and only if the behaviour is implemented. `tests/it/capabilities.rs` has a table of every bit with a
//! probe. `docs/reference/sa-attributes.md` shows the same table, with the reasons for clear bits.
//!
//! Source: IBA vol 1 §15.2.5.1; the numbers as in OpenSM's `osm_base.h` (`OSM_CAP_*`, `OSM_CAP2_*`) and, for
//! send-only full members, Linux `ib_sa.h`.

/// IsUDMulticastSupported: answers MCMemberRecord; hosts create, join and leave groups with it.
const UD_MULTICAST: u64 = 1 << 9;
/// IsMultiPathSupported: answers MultiPathRecord, but not TraceRecord. OpenSM also sets the bit without TraceRecord.
const MULTI_PATH: u64 = 1 << 10;
/// IsPortInfoCapMaskMatchSupported: with bit 31 of the attribute modifier, a query for PortInfoRecords names
/// capabilities that a port must have. `srp_daemon` sends such queries.
const CAPABILITY_MATCH: u64 = 1 << 13;

/// Alias GUIDs: GUIDInfoRecord supports Set and Delete.
const ALIAS_GUIDS: u64 = 1 << 5;
/// PortInfoRecord has all fields, up to CapabilityMask2 and the extended speeds.
const FULL_PORT_INFO: u64 = 1 << 6;
/// Extended speeds: PathRecord and PortInfoRecord distinguish FDR and EDR from older speeds.
const EXTENDED_SPEEDS: u64 = 1 << 7;
/// Has the same meaning for PortInfo.CapabilityMask2 as [`CAPABILITY_MATCH`] has for CapabilityMask.
const CAPABILITY2_MATCH: u64 = 1 << 10;
/// JoinState 8: a send-only full member creates a group and keeps it alive. If the bit is clear, Linux refuses
/// `rdma_join_multicast` with that state.
const SEND_ONLY_FULL_MEMBER: u64 = 1 << 12;
/// Links of width 2x have their own rates.
const WIDTH_2X: u64 = 1 << 13;
/// HDR links have their own rates.
const SPEED_HDR: u64 = 1 << 15;
/// NDR links have their own rates.
const SPEED_NDR: u64 = 1 << 17;

/// ClassPortInfo.CapabilityMask.
pub const MASK: u64 = UD_MULTICAST | MULTI_PATH | CAPABILITY_MATCH;
/// ClassPortInfo.CapabilityMask2, 27 bits.
pub const MASK2: u64 = ALIAS_GUIDS
    | FULL_PORT_INFO
    | EXTENDED_SPEEDS
    | CAPABILITY2_MATCH
    | SEND_ONLY_FULL_MEMBER
    | WIDTH_2X
    | SPEED_HDR
    | SPEED_NDR;
