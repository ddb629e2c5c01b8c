//! OpenSM's QoS policy file: its sections as values, the ports of its groups, and the level of a query.
//!
//! Source: OpenSM 3.3.23. [`Policy::parse`] accepts what OpenSM accepts, with these exceptions, each of which OpenSM
//! reads as something that its author hardly meant: values that it cuts (`sl: 16`), numbers of which it reads a part
//! (`08`), a second group or level with a known name (never found), and a line that begins with an unknown word after
//! a name (it becomes a part of the name).

mod error;
mod lexer;
mod parser;
mod ranges;
mod resolve;
mod setup;
mod value;

pub use error::PolicyError;
pub(crate) use parser::ulp_service_ids;
pub use ranges::Ranges;
pub use resolve::{Asked, End, Resolved, Unresolved};
pub use setup::{ScopedTables, tables_in_scope};
pub use value::{ArbScope, GroupName, Level, LevelName, LevelRef, MatchRule, Policy, PortGroup, PortName, RowScope};

#[cfg(test)]
mod tests;
