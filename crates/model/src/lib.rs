//! The analytic model of subnet management: what a fabric that need not exist yet will cost its manager.
//!
//! Two models stand side by side. [`published`] is the one of Vishnu et al. ("Performance Modeling of Subnet
//! Management on Fat Tree InfiniBand Networks using OpenSM", OSU-CISRC-1/05-TR05) as it was printed, its mistakes
//! included. The rest of the crate is the corrected one, for any fabric:
//!
//! - [`Shape`]: what a manager at a given port can reach, as numbers;
//! - [`RULES`]: who asks what how often, per node, port, link and block, and from it [`Counts`]: exact, no fitting;
//! - [`bring_up`]: the time, by a recursion over window, ways and serial agents;
//! - [`link_fault`] and [`switch_fault`]: what a loss costs, with a whole sweep and with a fast fail-over.
//!
//! It shares no code with the manager whose MADs it predicts, so that each can show the other wrong.
//! `docs/model.md` says what each figure means and where the published model fails.

mod answer;
mod apply;
mod cost;
mod count;
mod fault;
mod line;
pub mod published;
mod shape;
mod walk;

pub use answer::{Answer, Stage, StageName, bring_up};
pub use cost::{Compute, Cost, Wires};
pub use count::{Attribute, Counts, Manager, Method, Population, RULES, Rule};
pub use fault::{Fault, FaultAnswer, Recovery, link_fault, switch_fault};
pub use shape::{NoSeat, Shape};
