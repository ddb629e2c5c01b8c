//! Reports the conditions that began, and those that cleared.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::{Condition, Facts, Health, Place, Since, What, assess};

/// A change of health.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// A condition began.
    Began(Condition),
    /// A condition cleared.
    Cleared(Condition),
}

/// The last health, to compare the next one with.
#[derive(Clone, Debug, Default)]
pub struct Watch {
    facts: Option<Facts>,
    health: Arc<Health>,
}

impl Watch {
    /// Assesses facts at the time `now`. A condition that existed before keeps the time when it began. Returns the
    /// conditions that began, and those that cleared.
    pub fn take(&mut self, now: Since, facts: Facts) -> Vec<News> {
        if self.facts.as_ref() == Some(&facts) {
            return Vec::new();
        }
        let mut health = assess(&facts, now);
        let key = |condition: &Condition| (condition.what, condition.place.clone());
        let mut before: BTreeMap<(What, Place), Condition> = self
            .health
            .conditions
            .iter()
            .cloned()
            .map(|condition| (key(&condition), condition))
            .collect();
        let mut news = Vec::new();
        for condition in &mut health.conditions {
            match before.remove(&key(condition)) {
                Some(old) => condition.since = old.since,
                None => news.push(News::Began(condition.clone())),
            }
        }
        news.extend(before.into_values().map(News::Cleared));
        self.health = Arc::new(health);
        self.facts = Some(facts);
        news
    }

    /// Returns the last health.
    #[must_use]
    pub const fn health(&self) -> &Arc<Health> {
        &self.health
    }
}
