//! OpenSM's QoS policy file: reads it, and finds the ports of its groups.
//!
//! Source: OpenSM 3.3.23. [`parse`] accepts what OpenSM accepts, with these exceptions, each of which OpenSM
//! reads as something that its author hardly meant: values that it cuts (`sl: 16`), numbers of which it reads a part
//! (`08`), a second group or level with a known name (never found), and a line that begins with an unknown word after
//! a name (it becomes a part of the name).

mod error;
mod lexer;
mod parser;
mod resolve;
mod setup;

pub use error::PolicyError;
pub use parser::parse;
pub(crate) use parser::ulp_service_ids;
pub use resolve::{Unresolved, resolved};
pub(crate) use selvedge_plan::qos::{
    ArbScope, End, Level, LevelRef, MatchRule, PolicyFile, PortGroup, PortName, Ranges, Resolved, RowScope,
};
pub use setup::{ScopedTables, tables_in_scope};

#[cfg(test)]
mod tests;
