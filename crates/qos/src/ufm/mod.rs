//! UFM's file of bandwidths (`enhanced_qos_policy_file`), read and turned into an intent.
//!
//! The file limits how fast a port may send on a service level:
//!
//! ```text
//! BW_NAMES
//! storage = 40000
//! END_BW_NAMES
//! BW_RULES
//! default = 1:storage
//! 0x2c90000000025 = 1:storage, 2:storage
//! END_BW_RULES
//! ```
//!
//! A bandwidth is in Mb/s, and 0 means no limit; a rule is for the GUID of a port, for a port group, or for each port
//! without a rule (`default`). Source: NVIDIA, UFM Enterprise user manual, appendix "Enhanced Quality of Service".
//!
//! IBA has no limit per service level, so no standard port can keep one. What arbitration can give is the converse: a
//! least share. [`Bandwidths::intent`] makes a class of each limited service level, with its limit as that share, and
//! says in [`Import::notes`] what is lost.

mod intent;
mod parser;

use std::collections::BTreeMap;

pub use intent::{Import, Note};
use selvedge_types::{Guid, Sl};

/// Ports that a rule is for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ports {
    /// All ports that no other rule names.
    Default,
    /// A port.
    Guid(Guid),
    /// A port group.
    Group(String),
}

impl std::fmt::Display for Ports {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::Guid(guid) => write!(f, "{guid}"),
            Self::Group(name) => f.write_str(name),
        }
    }
}

/// The file as values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bandwidths {
    /// Each bandwidth in Mb/s, by name. 0 is no limit.
    pub names: BTreeMap<String, u32>,
    /// The name of the bandwidth of each service level, by the ports of the rule. A service level that is not named has
    /// no limit.
    pub rules: BTreeMap<Ports, BTreeMap<Sl, String>>,
}

impl Bandwidths {
    /// Reads a file. Comments begin with `#`. The closing lines `END_BW_NAMES` and `END_BW_RULES` may be left out, as
    /// the manual's text does.
    ///
    /// # Errors
    ///
    /// The first line that cannot be understood.
    pub fn parse(text: &str) -> Result<Self, UfmError> {
        parser::parse(text)
    }

    /// Returns the limit of a service level by a rule in Mb/s. `None`: no limit.
    #[must_use]
    pub fn limit(&self, ports: &Ports, sl: Sl) -> Option<u32> {
        let name = self.rules.get(ports)?.get(&sl)?;
        self.names.get(name).copied().filter(|mbps| *mbps > 0)
    }
}

/// The reason why a file of bandwidths is refused, with its line, counted from 1.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UfmError {
    /// SLV-QOS-0070: the line is none that a section has.
    #[error("SLV-QOS-0070: UFM bandwidths, line {line}: found '{found}'; want {want}")]
    Syntax {
        /// The line.
        line: usize,
        /// The text found, at most 40 characters.
        found: String,
        /// The texts allowed.
        want: &'static str,
    },
    /// SLV-QOS-0071: a rule names a bandwidth that is not defined.
    #[error("SLV-QOS-0071: UFM bandwidths, line {line}: BW_NAMES has no '{name}'{meant}")]
    UnknownName {
        /// The line.
        line: usize,
        /// The name.
        name: String,
        /// `; did you mean '…'?`, or empty.
        meant: String,
    },
    /// SLV-QOS-0072: something is given twice, of which only one could be used.
    #[error("SLV-QOS-0072: UFM bandwidths, line {line}: {what} is given a second time; remove one")]
    Twice {
        /// Line of the second one.
        line: usize,
        /// What is given twice.
        what: String,
    },
    /// SLV-QOS-0073: no rule limits anything, so there is no class.
    #[error("SLV-QOS-0073: UFM bandwidths: no rule limits a service level; there is nothing to import")]
    NoLimit,
}

#[cfg(test)]
mod tests;
