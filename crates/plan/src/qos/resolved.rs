//! A policy file on a fabric: the ports of each group, and the level of a query.

use std::collections::BTreeSet;
use std::sync::Arc;

use selvedge_types::{Guid, NodeKind, PKey};

use super::{LevelRef, MatchRule, PolicyFile, Ranges};

/// An end of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// GUID of the end port.
    pub guid: Guid,
    /// Kind of its node.
    pub kind: NodeKind,
}

/// A query for a path. `None`: the field is not in the query's component mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// Source of the path.
    pub source: End,
    /// Destination of the path.
    pub destination: End,
    /// Service ID.
    pub service_id: Option<u64>,
    /// QoS class, 12 bits.
    pub class: Option<u16>,
    /// P_Key.
    pub pkey: Option<PKey>,
}

/// A policy with the ports of its groups.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resolved {
    /// The policy file.
    pub policy: Arc<PolicyFile>,
    /// For each port group, the GUIDs of its ports that the file does not name by GUID or kind.
    pub members: Vec<BTreeSet<Guid>>,
}

impl Resolved {
    /// True if a port belongs to one of these groups.
    #[must_use]
    pub fn is_in(&self, groups: &[usize], end: End) -> bool {
        groups.iter().any(|&at| {
            let named = self
                .policy
                .groups
                .get(at)
                .is_some_and(|group| group.names(end.guid, end.kind));
            named || self.members.get(at).is_some_and(|members| members.contains(&end.guid))
        })
    }

    /// Returns the first rule that a query matches. A rule matches if all its criteria do; a criterion that is not in
    /// the query's component mask does not match.
    #[must_use]
    pub fn rule_of(&self, asked: &Asked) -> Option<&MatchRule> {
        let is_in = |groups: &[usize], end| groups.is_empty() || self.is_in(groups, end);
        let has = |set: &Ranges, value: Option<u64>| set.is_empty() || value.is_some_and(|value| set.contains(value));
        self.policy.rules.iter().find(|rule| {
            is_in(&rule.sources, asked.source)
                && is_in(&rule.destinations, asked.destination)
                && has(&rule.source_guids, Some(asked.source.guid.0))
                && has(&rule.destination_guids, Some(asked.destination.guid.0))
                && has(&rule.classes, asked.class.map(u64::from))
                && has(&rule.service_ids, asked.service_id)
                && has(&rule.pkeys, asked.pkey.map(|pkey| u64::from(pkey.0 & 0x7FFF)))
        })
    }

    /// Returns the level of a query: that of the first rule that matches, or the default level.
    #[must_use]
    pub fn level_of(&self, asked: &Asked) -> LevelRef {
        self.rule_of(asked).map_or(self.policy.default, |rule| rule.level)
    }
}
