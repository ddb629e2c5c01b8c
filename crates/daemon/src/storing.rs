//! Data that cannot be stored at present: shown in the status; events report the beginning and the end.

use std::collections::BTreeMap;
use std::fmt;

use selvedge_api::NotStored;
use selvedge_coordinator::Retry;
use selvedge_health::Since;
use selvedge_sim::Time;
use selvedge_store::StoreError;

use crate::notice::Notice;

/// A kind of data that must survive a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Promise {
    /// LIDs and the manager's other state.
    State,
    /// Nodes and links that were found.
    KnownFabric,
    /// Registrations of hosts.
    Registrations,
    /// The mark: all registrations are stored.
    Mark,
}

impl Promise {
    /// Returns the name of the data in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::State => "state",
            Self::KnownFabric => "known_fabric",
            Self::Registrations => "registrations",
            Self::Mark => "mark",
        }
    }
}

impl fmt::Display for Promise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::State => "LIDs and plan state are",
            Self::KnownFabric => "nodes and links that were found are",
            Self::Registrations => "registrations of hosts are",
            Self::Mark => "the mark of unstored registrations is",
        })
    }
}

/// The data that cannot be stored at present, with failures and last error.
#[derive(Debug, Default)]
pub(crate) struct Storing(BTreeMap<Promise, (Retry, String)>);

impl Storing {
    /// Handles the result of an attempt, with the failures so far. Returns the notice to report.
    pub(crate) fn ended(
        &mut self,
        now: Time,
        what: Promise,
        retry: &Retry,
        result: Result<(), StoreError>,
    ) -> Option<Notice> {
        match result {
            Ok(()) => {
                let (failed, _) = self.0.remove(&what)?;
                let lasted = failed.since().map_or_else(Default::default, |since| now.since(since));
                let failures = failed.failures();
                Some(Notice::StoredAgain { what, failures, lasted })
            }
            Err(error) => {
                let text = error.to_string();
                let before = self.0.insert(what, (*retry, text.clone()));
                // A repeated failure is not reported again: the status counts it.
                before
                    .is_none_or(|(_, before)| before != text)
                    .then_some(Notice::NotStored(error))
            }
        }
    }

    /// True if all data is stored.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the data that are not stored, as facts for the assessment of health.
    pub(crate) fn facts(&self) -> Vec<selvedge_health::NotStored> {
        let facts = self.0.iter().map(|(what, (retry, error))| selvedge_health::NotStored {
            what: what.name().to_owned(),
            since: Since::Run(retry.since().unwrap_or(Time::ZERO)),
            error: error.clone(),
        });
        facts.collect()
    }

    /// Returns the content for the status.
    pub(crate) fn shown(&self) -> Vec<NotStored> {
        let millis = |time: Option<Time>| time.map_or(0, |time| time.0 / 1_000_000);
        let shown = self.0.iter().map(|(what, (retry, error))| NotStored {
            what: what.name().to_owned(),
            since_ms: millis(retry.since()),
            failures: retry.failures(),
            next_try_ms: millis(retry.next()),
            error: error.clone(),
        });
        shown.collect()
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::path::PathBuf;
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_failure_is_told_once_and_its_end_with_how_long_it_lasted() {
        let at = |ms| Time::ZERO + Duration::from_millis(ms);
        let error = |code| StoreError::Io {
            operation: "write",
            path: PathBuf::from("/state/guid2lid.new"),
            cause: io::Error::from_raw_os_error(code),
        };
        let (mut storing, mut retry) = (Storing::default(), Retry::default());
        let mut tell = |ms: u64, result: Result<(), StoreError>| {
            match result {
                Ok(()) => retry.worked(),
                Err(_) => retry.failed(at(ms)),
            }
            let told = storing.ended(at(ms), Promise::State, &retry, result);
            (told.map(|notice| notice.code()), storing.shown())
        };
        assert_eq!(tell(0, Ok(())), (None, vec![]));
        let (told, shown) = tell(1_000, Err(error(24)));
        assert_eq!(told, Some("SLV-DAEMON-0101"));
        assert_eq!(
            (shown[0].since_ms, shown[0].failures, shown[0].next_try_ms),
            (1_000, 1, 1_250)
        );
        assert!(shown[0].error.contains("/state/guid2lid.new"), "{}", shown[0].error);
        let (told, shown) = tell(1_250, Err(error(24)));
        assert_eq!((told, shown[0].since_ms, shown[0].failures), (None, 1_000, 2));
        assert_eq!(tell(1_750, Err(error(28))).0, Some("SLV-DAEMON-0101"), "another reason");
        assert_eq!(tell(13_000, Ok(())), (Some("SLV-DAEMON-0131"), vec![]));
    }
}
