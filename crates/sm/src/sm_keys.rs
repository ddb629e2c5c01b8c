//! Former SM_Keys: managers that still show a former key are accepted for a while, so that the keys of all managers can
//! be changed one after the other.
//!
//! This manager shows the new key at once. A manager that does not know it yet ignores this one, so the operator gives
//! the new key to the standbys first and to the master last.

use std::time::Duration;

use selvedge_sim::Time;
use selvedge_types::SecretKey;

/// For how long a former SM_Key is accepted after a change, or after a start with a new key. An operator can reload all
/// managers within this time.
pub const BELIEVED_FOR: Duration = Duration::from_secs(3600);
/// Most former keys; the oldest is dropped.
const FORMER_MAX: usize = 4;

/// Former SM_Keys, and until when each is believed.
#[derive(Debug, Default)]
pub struct SmKeys {
    /// Newest first.
    former: Vec<(SecretKey, Time)>,
}

/// The inputs of this sub-machine.
#[derive(Debug)]
pub enum In<'a> {
    /// The manager starts with this key, and an earlier run has stored these, newest first.
    Loaded {
        /// The configured key.
        present: SecretKey,
        /// The stored keys.
        stored: &'a [SecretKey],
    },
    /// The operator's configuration has another key.
    Changed {
        /// The present key.
        from: SecretKey,
        /// The new key.
        to: SecretKey,
    },
}

/// The effects that the outer machine carries out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Store these keys, newest first. No other work waits for this.
    Store(Vec<SecretKey>),
}

impl SmKeys {
    /// Handles one input at this time, and appends its effects.
    pub fn handle(&mut self, now: Time, input: In<'_>, effects: &mut Vec<Effect>) {
        let present = match input {
            In::Loaded { present, stored } => {
                stored.iter().rev().for_each(|&key| self.remember(now, key));
                present
            }
            In::Changed { from, to } => {
                self.remember(now, from);
                to
            }
        };
        self.former.retain(|(key, until)| *key != present && *until > now);
        if !self.former.is_empty() {
            let former = self.former.iter().map(|(key, _)| *key);
            effects.push(Effect::Store([present].into_iter().chain(former).collect()));
        }
    }

    /// Returns the former keys that are accepted now.
    pub fn believed(&self, now: Time) -> Vec<SecretKey> {
        let former = self.former.iter().filter(|(_, until)| *until > now);
        former.map(|(key, _)| *key).collect()
    }

    fn remember(&mut self, now: Time, key: SecretKey) {
        self.former.retain(|(former, _)| *former != key);
        self.former.insert(0, (key, now + BELIEVED_FOR));
        self.former.truncate(FORMER_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(keys: &[u64]) -> Vec<SecretKey> {
        keys.iter().copied().map(SecretKey::new).collect()
    }

    #[test]
    fn a_former_key_is_believed_for_an_hour() {
        let mut ring = SmKeys::default();
        let give = |ring: &mut SmKeys, s: u64, from: u64, to: u64| {
            let (from, to) = (SecretKey::new(from), SecretKey::new(to));
            let mut effects = Vec::new();
            ring.handle(Time::from_secs(s), In::Changed { from, to }, &mut effects);
            effects
        };
        assert_eq!(give(&mut ring, 10, 1, 2), [Effect::Store(keys(&[2, 1]))]);
        assert_eq!(give(&mut ring, 20, 2, 3), [Effect::Store(keys(&[3, 2, 1]))]);
        assert_eq!(ring.believed(Time::from_secs(3609)), keys(&[2, 1]));
        assert_eq!(ring.believed(Time::from_secs(3610)), keys(&[2]));
        assert_eq!(ring.believed(Time::from_secs(3620)), []);
        // Back to the key before: it is no former one.
        assert_eq!(give(&mut ring, 30, 3, 2), [Effect::Store(keys(&[2, 3, 1]))]);
        for key in 10..20 {
            give(&mut ring, 40, key, key + 1);
        }
        assert_eq!(ring.believed(Time::from_secs(50)), keys(&[19, 18, 17, 16]));
    }

    #[test]
    fn a_manager_that_starts_believes_what_it_had_stored() {
        let check = |present: u64, stored: &[u64], want: &[u64]| {
            let mut ring = SmKeys::default();
            let input = In::Loaded {
                present: SecretKey::new(present),
                stored: &keys(stored),
            };
            ring.handle(Time::ZERO, input, &mut Vec::new());
            assert_eq!(ring.believed(Time::ZERO), keys(want), "{present} {stored:?}");
            assert_eq!(ring.believed(Time::ZERO + BELIEVED_FOR), []);
        };
        check(1, &[], &[]);
        check(2, &[2, 1], &[1]);
        check(1, &[2, 1], &[2]);
        check(3, &[2, 1], &[2, 1]);
    }
}
