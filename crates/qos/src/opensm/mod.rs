//! OpenSM's quality of service as values: its settings, its policy file, and the tables that it would write.
//!
//! Source: OpenSM 3.3.23, observed on ibsim and described in `QoS_management_in_OpenSM.txt`. Where OpenSM only warns
//! about a value, or reads part of it, there is an error here, because the tables would differ from the file unnoticed.

mod finding;
pub(crate) mod number;
pub mod policy;
mod settings;
mod subnet;
mod tables;

pub use finding::TableFinding;
pub use settings::{keys, set};
pub use subnet::{SubnetTables, target};
pub use tables::{PortFacts, PortTables, Template, row_target};
