//! The SMInfo state of a manager.

use std::fmt;

/// Role of a manager. Source: IBA vol 1 §14.4.1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// The manager discovers which other managers there are.
    #[default]
    Discovering,
    /// Another manager is master; this one polls it.
    Standby,
    /// Master of the subnet.
    Master,
    /// Takes no part (dry run, watch, stopped).
    NotActive,
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Discovering => "DISCOVERING",
            Self::Standby => "STANDBY",
            Self::Master => "MASTER",
            Self::NotActive => "NOT-ACTIVE",
        })
    }
}
