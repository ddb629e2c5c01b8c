//! The verdict on a subnet and its manager.

use std::fmt;

use selvedge_types::NodeKind;

use crate::{Condition, Place};

/// The verdict on a subnet and its manager.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verdict {
    /// The manager has not finished its first sweep and plan.
    #[default]
    Starting,
    /// Master, the judged plan is in force, and nothing is known to be wrong.
    Healthy,
    /// The subnet works, but a part of it does not.
    Degraded,
    /// The manager cannot do its work.
    Failed,
    /// Standby, and nothing is known to be wrong with it: it can take over.
    StandbyReady,
    /// Watches a subnet that another manager has set up.
    Watching,
    /// Watches a subnet that no manager has set up.
    Unmanaged,
}

impl Verdict {
    /// All verdicts.
    pub const ALL: [Self; 7] = [
        Self::Starting,
        Self::Healthy,
        Self::Degraded,
        Self::Failed,
        Self::StandbyReady,
        Self::Watching,
        Self::Unmanaged,
    ];

    /// Returns the name of the verdict in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Healthy => "healthy",
            Self::Degraded => "degraded",
            Self::Failed => "failed",
            Self::StandbyReady => "standby_ready",
            Self::Watching => "watching",
            Self::Unmanaged => "unmanaged",
        }
    }

    /// True if nothing needs an operator: `selvedge status` and `run --once` end with 0.
    #[must_use]
    pub const fn is_good(self) -> bool {
        match self {
            Self::Healthy | Self::StandbyReady | Self::Watching => true,
            Self::Starting | Self::Degraded | Self::Failed | Self::Unmanaged => false,
        }
    }

    /// Returns the exit code of `selvedge health`: 0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN. Source: Nagios Plugins
    /// Development Guidelines, "Plugin Return Codes".
    #[must_use]
    pub const fn nagios(self) -> u8 {
        match self {
            Self::Healthy | Self::StandbyReady | Self::Watching => 0,
            Self::Degraded | Self::Unmanaged => 1,
            Self::Failed => 2,
            Self::Starting => 3,
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::StandbyReady => "standby ready",
            verdict => verdict.name(),
        })
    }
}

/// Conditions, and the verdict that follows from them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// The verdict.
    pub verdict: Verdict,
    /// The conditions, the gravest first.
    pub conditions: Vec<Condition>,
}

impl Health {
    /// Returns the verdict in one sentence, with the number of conditions of each kind.
    #[must_use]
    pub fn summary(&self) -> String {
        let mut counts: Vec<((&'static str, String), u64)> = Vec::new();
        for condition in &self.conditions {
            let key = (noun(&condition.place), condition.what.to_string());
            match counts.iter_mut().find(|(known, _)| *known == key) {
                Some((_, count)) => *count += 1,
                None => counts.push((key, 1)),
            }
        }
        let words = |((noun, what), count): &((&str, String), u64)| match (*noun, *count) {
            ("", _) => what.clone(),
            (noun, 1) => format!("1 {noun} {what}"),
            ("switch", count) => format!("{count} switches {what}"),
            (noun, count) => format!("{count} {noun}s {what}"),
        };
        match counts.is_empty() {
            true => self.verdict.to_string(),
            false => format!(
                "{}: {}",
                self.verdict,
                counts.iter().map(words).collect::<Vec<_>>().join(", ")
            ),
        }
    }
}

/// Returns the word for a place; empty for the manager itself.
const fn noun(place: &Place) -> &'static str {
    match place {
        Place::Manager => "",
        Place::Port(_) => "port",
        Place::Peer(_) => "manager",
        Place::Link(..) => "link",
        Place::Node(node) => match node.kind {
            NodeKind::Ca => "host",
            NodeKind::Switch => "switch",
            NodeKind::Router => "router",
        },
    }
}
