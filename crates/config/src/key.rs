//! Definition of a configuration key.

use crate::{Settings, Value};

/// A key of the configuration file.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Table of the key, such as `routing`.
    pub section: &'static str,
    /// Name of the key inside the table.
    pub name: &'static str,
    /// Legal values of the key with their unit, as used in error messages.
    pub want: &'static str,
    /// Meaning, and effect of a change.
    pub doc: &'static str,
    /// Sets a value; `None` if it is illegal.
    pub(crate) set: fn(&mut Settings, &Value) -> Option<()>,
    /// Returns the current value; `None` if it is not set and has no default.
    pub(crate) show: fn(&Settings) -> Option<Value>,
}

impl Key {
    /// Returns `section.name`, as used in errors and messages.
    #[must_use]
    pub fn path(&self) -> String {
        format!("{}.{}", self.section, self.name)
    }

    /// Returns the value of the key in `settings`.
    #[must_use]
    pub fn value(&self, settings: &Settings) -> Option<Value> {
        (self.show)(settings)
    }
}

impl Key {
    /// True if no output may show the value of this key.
    #[must_use]
    pub fn is_secret(&self) -> bool {
        matches!(self.value(&Settings::default()), Some(Value::Secret(_)))
    }

    /// Returns the value of this key in `settings`, for output. A secret value is shown only if it is the public
    /// default.
    #[must_use]
    pub fn shown(&self, settings: &Settings) -> Option<Value> {
        let value = self.value(settings)?;
        let is_default = Some(&value) == self.value(&Settings::default()).as_ref();
        Some(if is_default { value.exposed() } else { value })
    }
}

/// Returns the name in `known` that was probably meant, if one is similar enough.
#[must_use]
pub fn closest<'a>(found: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    known
        .into_iter()
        .map(|name| (strsim::damerau_levenshtein(found, name), name))
        .filter(|(distance, name)| *distance <= name.chars().count().max(3) / 3)
        .min()
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_that_is_one_is_secret() {
        let secret: Vec<String> = Key::ALL.iter().filter(|key| key.is_secret()).map(Key::path).collect();
        assert_eq!(secret, ["keys.m_key", "keys.sm_key", "keys.sa_key"]);
        for key in Key::ALL.iter().filter(|key| key.name.ends_with("_key")) {
            assert!(key.is_secret(), "{}", key.path());
        }
    }

    #[test]
    fn close_names_are_found_and_far_ones_not() {
        let check = |found: &str, want: Option<&str>| {
            assert_eq!(closest(found, ["lmc", "roots", "engines"]), want, "{found}");
        };
        check("engine", Some("engines"));
        check("lcm", Some("lmc"));
        check("root", Some("roots"));
        check("colour", None);
    }
}
