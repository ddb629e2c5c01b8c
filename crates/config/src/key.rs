//! What a key is.

use crate::{Settings, Value};

/// A key of the configuration file.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Its table, as `routing`.
    pub section: &'static str,
    /// Its name inside the table.
    pub name: &'static str,
    /// Legal values with their unit, as an error says them.
    pub want: &'static str,
    /// What it does and what comes of changing it.
    pub doc: &'static str,
    /// Takes a value; `None` if it is not a legal one.
    pub(crate) set: fn(&mut Settings, &Value) -> Option<()>,
    /// Its present value; `None` if it is not set and has no default.
    pub(crate) show: fn(&Settings) -> Option<Value>,
}

impl Key {
    /// `section.name`, as errors and messages write it.
    #[must_use]
    pub fn path(&self) -> String {
        format!("{}.{}", self.section, self.name)
    }

    /// The value it has in `settings`.
    #[must_use]
    pub fn value(&self, settings: &Settings) -> Option<Value> {
        (self.show)(settings)
    }
}

/// The one of `known` that was probably meant, if any is close enough.
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
