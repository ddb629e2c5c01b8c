//! The envelope of every response: `schema` and `version`.

use serde::{Deserialize, Serialize};

/// A response body with its name and version.
pub trait Body: Serialize {
    /// Name of the body, such as `selvedge.status`.
    const SCHEMA: &'static str;
    /// Version of the body. It is raised when a field changes its meaning or is removed, but not for a new field.
    const VERSION: u32 = 1;
}

/// A response: `schema` and `version`, then the body's own fields.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Document<T> {
    /// Name of the body.
    pub schema: String,
    /// Version of the body.
    pub version: u32,
    /// The body.
    #[serde(flatten)]
    pub body: T,
}

impl<T: Body> Document<T> {
    /// Adds `schema` and `version` to a body.
    #[must_use]
    pub fn new(body: T) -> Self {
        Self {
            schema: T::SCHEMA.to_owned(),
            version: T::VERSION,
            body,
        }
    }

    /// Returns one line of JSON.
    #[must_use]
    pub fn to_json(&self) -> String {
        // Serialising fails only for maps with keys that are no texts; no body has one.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Returns JSON for people, indented.
    #[must_use]
    pub fn to_json_pretty(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default()
    }
}
