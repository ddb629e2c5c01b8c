//! Configuration keys about LIDs and lanes.

use selvedge_types::Lmc;

use crate::{Key, Value};

/// Order of new LIDs.
pub const LID_LAYOUT: Key = Key {
    section: "routing",
    name: "lid_layout",
    want: "\"by-plane\" or \"sequential\"",
    doc: "Order of new LIDs in a fabric where no port holds one and none is stored. by-plane: in a fat tree \
        so that a lost link changes few blocks of tables, elsewhere as sequential: ascending by node GUID. \
        LIDs that are held, stored or in guid2lid never change for it.",
    set: |s, v| {
        s.policy.lid_layout = v.text()?.parse().ok()?;
        Some(())
    },
    show: |s| Some(Value::Text(s.policy.lid_layout.name().to_owned())),
};

/// Data lanes of links.
pub const LANES: Key = Key {
    section: "routing",
    name: "lanes",
    want: "1 to 15 data lanes",
    doc: "Data lanes that links are set up for (OperationalVLs), at least used_lanes.",
    set: |s, v| {
        s.policy.lanes = v.u8_up_to(15).filter(|&lanes| lanes > 0)?;
        Some(())
    },
    show: |s| Some(Value::Int(u64::from(s.policy.lanes))),
};

/// Data lanes that packets use.
pub const USED_LANES: Key = Key {
    section: "routing",
    name: "used_lanes",
    want: "1 to 15 data lanes",
    doc: "Data lanes over which packets are spread by their service level, which is in path records: packets to \
        different destinations then wait less for each other. Routes are free of deadlock whatever levels hosts use, \
        so hosts that do not ask for path records are safe. 1: SLtoVLMappingTables and VLArbitrationTables are left \
        alone.",
    set: |s, v| {
        s.policy.used_lanes = v.u8_up_to(15).filter(|&lanes| lanes > 0)?;
        Some(())
    },
    show: |s| Some(Value::Int(u64::from(s.policy.used_lanes))),
};

/// Whether senders use the service levels in their path records.
pub const ASSUME_SL_AWARE: Key = Key {
    section: "routing",
    name: "assume_sl_aware",
    want: "true or false",
    doc: "All senders use the service levels of their path records: routes may then rely on the lanes, which spreads \
        load better where the fabric is no tree. DANGER: a sender with another level can deadlock the fabric; hosts on \
        different lanes have no reversible paths, so connection managers find none.",
    set: |s, v| {
        s.policy.assume_sl_aware = v.bool()?;
        Some(())
    },
    show: |s| Some(Value::Bool(s.policy.assume_sl_aware)),
};

/// The lane of multicast copies.
pub const MULTICAST_LANE: Key = Key {
    section: "routing",
    name: "multicast_lane",
    want: "\"auto\", \"own\" or \"shared\"",
    doc: "With assume_sl_aware, a lane only for copies of multicast packets (service level 14): then every group has \
        a tree, whatever routes there are. auto: a lane beside used_lanes, if all links have that many; otherwise the \
        last of used_lanes, if at least three remain and suffice for routes. own: the last of used_lanes in any case. \
        shared: copies share lanes with routes, and members that no tree reaches get no broadcasts.",
    set: |s, v| {
        s.policy.multicast_lane = v.text()?.parse().ok()?;
        Some(())
    },
    show: |s| Some(Value::Text(s.policy.multicast_lane.name().to_owned())),
};

/// LIDs per port (LMC).
pub const LMC: Key = Key {
    section: "routing",
    name: "lmc",
    want: "0 to 7",
    doc: "Each end port gets 2^lmc LIDs, so up to 2^lmc paths. A subnet has 49,151 LIDs. Changing lmc gives \
        ports new LIDs.",
    set: |s, v| {
        s.policy.lmc = Lmc::new(v.u8_up_to(7)?)?;
        Some(())
    },
    show: |s| Some(Value::Int(u64::from(s.policy.lmc.get()))),
};

/// Whether LIDs may change.
pub const REASSIGN_LIDS: Key = Key {
    section: "routing",
    name: "reassign_lids",
    want: "true or false",
    doc: "Give new LIDs even to ports that have valid ones. DANGER: running applications lose their \
        connections.",
    set: |s, v| {
        s.policy.reassign_lids = v.bool()?;
        Some(())
    },
    show: |s| Some(Value::Bool(s.policy.reassign_lids)),
};
