//! The complete planned state of a subnet, without open choices.
//!
//! A [`Plan`] contains every LID, forwarding entry, lane map and port setting. It is a pure function of a fabric, a
//! [`Policy`] and the previous plan; it can be printed, compared, refused or simulated. A [`ChangeSet`] is the
//! difference between the state of the agents and a plan, in phases.
//!
//! ```
//! use selvedge_fabric::SwitchIdx;
//! use selvedge_plan::{NO_PATH, Tables};
//! use selvedge_types::Lid;
//!
//! let mut tables = Tables::new(2, Lid(100));
//! tables.set(SwitchIdx(1), Lid(70), 9);
//! assert_eq!(tables.get(SwitchIdx(1), Lid(70)), 9);
//! assert_eq!(tables.get(SwitchIdx(0), Lid(70)), NO_PATH);
//! assert_eq!(tables.block(SwitchIdx(1), 1)[6], 9, "the second block of 64, as one Set carries it");
//! ```

pub mod aliases;
mod change;
mod lane_tables;
mod lanes;
mod lids;
pub mod multicast;
pub mod out_of_service;
pub mod partition;
mod policy;
mod policy_keys;
pub mod qos;
mod tables;
mod whole;

pub use change::{
    BlockOf, ChangeCount, ChangeSet, ENFORCE, EmptiedLink, Installed, LinkOrder, LostLink, Op, Phase, UnderWay,
    changes, enforce_before_lanes,
};
pub use lane_tables::{
    ArbBlock, HeldLanes, LanePorts, LaneRows, LaneTable, LaneTables, has_sl_mapping, link_lanes, own_row, ports_in_use,
    tables_of,
};
pub use lanes::{COPIES_LEVEL, ServiceLevels, SlToVl};
pub use lids::{LidConflict, Lids, SharedLid, shared_lids};
pub use out_of_service::OutOfService;
pub use policy::{EngineName, LidLayout, MulticastLane, PartEnforce, Policy, RebalanceWhen};
pub use tables::{BLOCK_LIDS, NO_PATH, Tables};
pub use whole::{EndPortPlan, Generation, Plan};
