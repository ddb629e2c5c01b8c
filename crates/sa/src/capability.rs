//! What ClassPortInfo says the administrator can do: the bits of both capability masks that are set.
//!
//! A bit is set if and only if the behaviour is there. `tests/it/capabilities.rs` holds the table of every bit with a
//! probe for each; `docs/sa.md` shows the same table with the reasons for the bits that are clear.
//!
//! Source: IBA vol 1 §15.2.5.1; the numbers as in OpenSM's `osm_base.h` (`OSM_CAP_*`, `OSM_CAP2_*`) and, for
//! send-only full members, Linux `ib_sa.h`.

/// IsUDMulticastSupported: MCMemberRecord is answered, and hosts create, join and leave groups with it.
const UD_MULTICAST: u64 = 1 << 9;
/// IsMultiPathSupported: MultiPathRecord is answered. TraceRecord is not; OpenSM sets the bit without it too.
const MULTI_PATH: u64 = 1 << 10;
/// IsPortInfoCapMaskMatchSupported: with bit 31 of the attribute modifier a question for PortInfoRecords names the
/// capabilities that a port must have, and `srp_daemon` asks so.
const CAPABILITY_MATCH: u64 = 1 << 13;

/// Alias GUIDs: GUIDInfoRecord takes Set and Delete.
const ALIAS_GUIDS: u64 = 1 << 5;
/// PortInfoRecord has all fields, up to CapabilityMask2 and the extended speeds.
const FULL_PORT_INFO: u64 = 1 << 6;
/// Extended speeds: PathRecord and PortInfoRecord tell FDR and EDR from the older speeds.
const EXTENDED_SPEEDS: u64 = 1 << 7;
/// The same of PortInfo.CapabilityMask2 as [`CAPABILITY_MATCH`] of the first mask.
const CAPABILITY2_MATCH: u64 = 1 << 10;
/// JoinState 8: a send-only full member creates a group and keeps it. Linux refuses `rdma_join_multicast` with that
/// state where the bit is clear.
const SEND_ONLY_FULL_MEMBER: u64 = 1 << 12;
/// Links of two lanes have their own rates.
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
