//! Plans and repairs of a fabric, and the transitions to them, as pure functions.
//!
//! The manager (`sm`) decides when to plan and what to do with the result. This crate computes the plan. It keeps no
//! state between calls and sends nothing.

mod adopt;
mod aim;
pub mod aliases;
mod asks;
mod backups;
mod basis;
mod changed;
mod copies;
mod damage;
mod engine;
mod event;
mod fabric_plan;
pub mod held;
mod inventory;
mod job;
mod judge;
mod keep;
pub mod lanes;
pub mod lid;
mod lid_layout;
#[cfg(test)]
mod made;
pub mod multicast;
pub mod out_of_service;
pub mod past;
mod port_reason;
mod ports;
pub mod preview;
mod qos;
pub mod rebalance;
mod rehang;
mod repair;
mod room;
pub mod service_preview;
mod settle;
pub mod told;
mod warm;
pub mod way;
mod withdrawn;

// `sm` includes some fixtures of this crate in its tests, and these refer to the crate by this name.
#[cfg(test)]
extern crate self as selvedge_planner;

pub use adopt::{Adopt, route_alike};
pub use aim::Aim;
pub use asks::Asks;
pub use backups::{BackUp, Backups};
pub use basis::{Basis, Outcome};
pub use copies::{Copies, TakenApart};
pub use damage::{Damage, Returned};
pub use engine::of_policy as engine_options;
pub use event::{PlanEvent, Severity};
pub use fabric_plan::{LidClaims, PlanFabric, PlanResult};
pub use inventory::{Agent, Found, FoundPort, Inventory, external_settings, is_behind, link_state, port_settings};
pub use job::{Job, JobId, JobResult, Task};
pub use judge::{Accepted, DefaultJudge, Judge};
pub use port_reason::PortReason;
pub use ports::{Declined, DeclinedByGuid};
pub use repair::{Mended, Repair, RepairResult};
pub use settle::Settle;
pub use warm::{Left, Prepare, Spare, Warm, is_small};
pub use withdrawn::Withdrawn;
