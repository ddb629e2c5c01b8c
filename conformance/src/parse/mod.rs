//! Reads what the peers print.
//!
//! This module shares no code with Selvedge's readers of these formats: a mistake in shared code would not be found.

mod discovered;
mod fields;
mod links;
mod net;
mod plan;
mod route;
mod tables;

pub use discovered::{DiscoveredNode, DiscoveredPort, Discovery};
pub use fields::{Fields, SmInfo};
pub use links::{LinkEnd, LinkLine, link_lines};
pub use net::{Net, NetNode, Plane};
pub use plan::Plan;
pub use route::{Hop, hops};
pub use tables::{Table, tables};

use selvedge_types::Guid;

use crate::LabError;

/// Makes the error for a line in which `what` cannot be read.
fn unread(what: &'static str, line: &str) -> LabError {
    LabError::Parse {
        what,
        line: line.to_owned(),
    }
}

/// Reads a GUID as the peers print it: hexadecimal, with or without `0x`.
fn guid(text: &str) -> Option<Guid> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    u64::from_str_radix(digits, 16).ok().map(Guid)
}

/// Returns the text between the first `open` and the next `close`.
fn between<'a>(text: &'a str, open: &str, close: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(open)?;
    rest.split_once(close).map(|(inside, _)| inside)
}
