//! Routing engines: `(Fabric, Lids, Options, Seed) → Tables`, and nothing else.
//!
//! An [`Engine`] is chosen by name and routes a whole fabric: [`Engine::route`]. It reads no clock and no file, and
//! gives the same bytes on any number of threads. The engine does not judge its tables: the judge of `selvedge-verify`
//! does that.
//!
//! All engines share a core. Crate `graph` has the fabric as arrays. `destinations` lists the LIDs to be routed, in
//! their order. `paths` has what an engine decides: which hops are allowed towards which switch. `balance` makes table
//! entries from these hops, and spreads destinations over equal hops. So an engine of this family (minhop, updn, dnup,
//! dor) is only a rule that fills `paths`. `ftree`, `sssp` and `weave` consider the whole fabric for each destination
//! and write tables themselves; `fat_tree` computes entries by a formula. `auto` chooses among them.
//!
//! ```
//! use selvedge_fabric::Fabric;
//! use selvedge_plan::Lids;
//! use selvedge_routing::{Engine, Options};
//! use selvedge_sim::{Par, Seed};
//!
//! # fn main() -> Result<(), selvedge_routing::EngineError> {
//! let engine: Engine = "updn".parse()?;
//! let (fabric, lids) = (Fabric::default(), Lids::new());
//! let routed = engine.route(&fabric, &lids, &Options::default(), Seed(1), Par::Sequential)?;
//! assert_eq!(routed.tables.switches(), 0);
//! # Ok(()) }
//! ```

mod balance;
mod destinations;
mod engine;
mod engines;
mod error;
mod lanes;
mod mender;
pub mod multicast;
mod note;
mod options;
mod paths;
mod ports;
mod previous;
mod rebalance;
mod spread;

pub use engine::{Capability, InForce, Input, LaneUse, Made, Routed, RoutingEngine};
pub use engines::Engine;
pub use engines::auto::{Grid, Irregular, Reason, Side, Topology};
pub use engines::fat_tree::{FatTree, FatTreeOptions, LikelyTurn, Moved, NotATree, TreeMender, TreeShape};
pub use engines::ftree::{FtreeOptions, NoFatTree};
pub use engines::listed::{LidMatrix, Listed};
pub use engines::updn::UpDnOptions;
pub use engines::weave::{Effort, Rehung, WeaveMender, WeaveOptions, lanes_in_force};
pub use error::EngineError;
pub use mender::Mender;
pub use note::{Note, RootSource};
pub use options::{HostLists, Options, Rebalance};
pub use ports::{HopWeight, PortOrder};
pub use previous::carry_over;
pub use rebalance::{BalanceStep, Difference, difference, goal_for, step_towards};
