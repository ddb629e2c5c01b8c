//! Events of the driver, in addition to those of the manager.

use std::fmt;
use std::time::Duration;

use selvedge_api::{Reroute, Severity};
use selvedge_health::Condition;
use selvedge_store::{StateWarning, StoreError};

use crate::health::severity;
use crate::storing::Promise;

/// A message of the driver.
#[derive(Debug)]
#[non_exhaustive]
pub enum Notice {
    /// State could not be stored. The manager tries again until it succeeds.
    NotStored(StoreError),
    /// State that could not be stored for a time is stored now.
    StoredAgain {
        /// The kind of state.
        what: Promise,
        /// Number of failed attempts.
        failures: u32,
        /// Duration without storage.
        lasted: Duration,
    },
    /// The state folder has contradictory content; the manager continues.
    StateDoubtful(StateWarning),
    /// The file of `--record` reached its size limit; nothing more is recorded.
    RecordFull {
        /// Bytes written.
        bytes: u64,
    },
    /// The file of `--record` cannot be written any more; nothing more is recorded.
    RecordBroken(std::io::Error),
    /// A fault was injected.
    Fault {
        /// The completed action.
        done: String,
    },
    /// The operator's configuration was read again.
    Reloaded(selvedge_api::Check),
    /// The operator's configuration cannot be used; the former one stays in force.
    NotReloaded(selvedge_api::Error),
    /// A new plan with other tables is in force.
    Rerouted(Reroute),
    /// A dump file cannot be written; the manager continues.
    NotDumped {
        /// The file.
        path: std::path::PathBuf,
        /// The error of the operating system.
        cause: std::io::Error,
    },
    /// A condition of health began. This event has the severity of the condition.
    ConditionBegan(Condition),
    /// A condition of health cleared.
    ConditionCleared(Condition),
    /// IsSM could not be set at the port.
    IsSmRefused(selvedge_wire::PortError),
}

impl Notice {
    /// Stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::NotStored(_) => "SLV-DAEMON-0101",
            Self::RecordFull { .. } => "SLV-DAEMON-0102",
            Self::RecordBroken(_) => "SLV-DAEMON-0103",
            Self::Fault { .. } => "SLV-DAEMON-0104",
            Self::Reloaded(_) => "SLV-DAEMON-0105",
            Self::IsSmRefused(_) => "SLV-DAEMON-0106",
            Self::Rerouted(_) => "SLV-DAEMON-0107",
            Self::NotReloaded(_) => "SLV-DAEMON-0108",
            Self::NotDumped { .. } => "SLV-DAEMON-0109",
            Self::StoredAgain { .. } => "SLV-DAEMON-0131",
            Self::StateDoubtful(_) => "SLV-DAEMON-0132",
            Self::ConditionBegan(_) => "SLV-DAEMON-0140",
            Self::ConditionCleared(_) => "SLV-DAEMON-0141",
        }
    }

    /// Returns the severity of the event.
    #[must_use]
    pub const fn severity(&self) -> Severity {
        match self {
            Self::NotStored(_) | Self::RecordBroken(_) => Severity::Error,
            Self::ConditionBegan(condition) => severity(condition.severity),
            Self::NotReloaded(_)
            | Self::RecordFull { .. }
            | Self::Fault { .. }
            | Self::NotDumped { .. }
            | Self::StateDoubtful(_)
            | Self::IsSmRefused(_) => Severity::Warning,
            Self::Reloaded(_) | Self::Rerouted(_) | Self::StoredAgain { .. } | Self::ConditionCleared(_) => {
                Severity::Info
            }
        }
    }
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotStored(error) => write!(
                f,
                "the state cannot be stored; the manager tries again every few seconds; until then ports without a \
                 stored LID wait, and hosts may be answered BUSY, or be asked to register again after a restart: \
                 {error}"
            ),
            Self::StoredAgain { what, failures, lasted } => write!(
                f,
                "{what} stored again, after {failures} failed attempts in {}.{} s",
                lasted.as_secs(),
                lasted.subsec_millis() / 100
            ),
            Self::StateDoubtful(warning) => write!(f, "{warning}"),
            Self::RecordFull { bytes } => write!(f, "the record is full after {bytes} bytes: nothing more is recorded"),
            Self::RecordBroken(error) => write!(f, "the record cannot be written: {error}; nothing more is recorded"),
            Self::Fault { done } => write!(f, "fault injected: {done}"),
            Self::Reloaded(check) => {
                f.write_str("the configuration was read again")?;
                for found in &check.findings {
                    write!(f, "; {}: {}: {}", found.option, found.treatment, found.why)?;
                }
                Ok(())
            }
            Self::NotReloaded(error) => write!(
                f,
                "the configuration was not reloaded, the former one stays in force: {error}"
            ),
            Self::NotDumped { path, cause } => write!(
                f,
                "cannot write the dump file {}: {cause}; name a folder that can be written (dump_files_dir, \
                 daemon.dump_dir)",
                path.display()
            ),
            Self::IsSmRefused(error) => {
                write!(f, "IsSM cannot be set, so other managers do not find this one: {error}")
            }
            Self::Rerouted(reroute) => write!(f, "{reroute}"),
            Self::ConditionBegan(condition) => write!(f, "{condition}"),
            Self::ConditionCleared(condition) => write!(f, "cleared: {}: {}", condition.place, condition.what),
        }
    }
}
/// A problem that is found again and again. It is reported once, and again only if it changes or returns.
#[derive(Debug, Default)]
pub(crate) struct Standing(Option<String>);

impl Standing {
    /// Records the problem that was found this time; `None`: no problem. Returns true if it must be reported.
    pub(crate) fn is_news(&mut self, found: Option<&impl ToString>) -> bool {
        let before = std::mem::replace(&mut self.0, found.map(ToString::to_string));
        self.0.is_some() && self.0 != before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_standing_problem_is_reported_once() {
        let mut standing = Standing::default();
        let mut check =
            |found: Option<&str>, want: bool| assert_eq!(standing.is_news(found.as_ref()), want, "{found:?}");
        check(None, false);
        check(Some("permission denied"), true);
        check(Some("permission denied"), false);
        check(Some("device busy"), true);
        check(None, false);
        check(Some("device busy"), true);
    }
}
