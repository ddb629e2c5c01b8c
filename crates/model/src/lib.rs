//! The analytic model of subnet management: the number of MADs and the time that a manager needs on a fabric, which
//! need not exist.
//!
//! There are two models. [`published`] is the one of Vishnu et al. ("Performance Modeling of Subnet Management on Fat
//! Tree InfiniBand Networks using OpenSM", OSU-CISRC-1/05-TR05) as it was printed, its mistakes included. The rest of
//! the crate is the corrected one, for any fabric:
//!
//! - [`Shape`]: the numbers of nodes and ports that a manager at a given port can reach;
//! - [`RULES`]: the number of MADs of each manager per node, port, link and block, and the resulting [`Counts`]; these
//!   are exact, not fitted;
//! - [`bring_up`]: the time, by a recursion over window, path lengths and serial agents;
//! - [`link_fault`] and [`switch_fault`]: the cost of a loss, with a whole sweep and with a fast fail-over.
//!
//! This crate shares no code with the manager that it predicts, so that each can reveal errors of the other.
//! `docs/model.md` explains each figure and where the published model fails.

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
