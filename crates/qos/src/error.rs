//! What is wrong with settings, a policy or an intent.

/// The reason why a setting of OpenSM's configuration is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SettingError {
    /// SLV-QOS-0001: a number is out of range or no number.
    #[error("SLV-QOS-0001: {key} {found}: want {want}")]
    Number {
        /// The key.
        key: String,
        /// The value, at most 40 characters.
        found: String,
        /// The values allowed.
        want: &'static str,
    },
    /// SLV-QOS-0002: an entry of a list cannot be read.
    #[error("SLV-QOS-0002: {key}, entry {entry}: '{found}'; want {want}")]
    Entry {
        /// The key.
        key: String,
        /// The entry, counted from 1.
        entry: usize,
        /// The entry's text, at most 40 characters.
        found: String,
        /// The form of an entry.
        want: &'static str,
    },
    /// SLV-QOS-0003: a list has too few or too many entries.
    #[error("SLV-QOS-0003: {key} has {found} entries; want {want}")]
    Length {
        /// The key.
        key: String,
        /// The number of entries.
        found: usize,
        /// The number of entries allowed.
        want: &'static str,
    },
    /// SLV-QOS-0004: no setting has this name.
    #[error("SLV-QOS-0004: no QoS setting is called '{key}'{meant}")]
    UnknownKey {
        /// The name given.
        key: String,
        /// `; did you mean '…'?`, or empty.
        meant: String,
    },
}
