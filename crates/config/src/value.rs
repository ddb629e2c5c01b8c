//! The kinds of values of keys.

use std::fmt;

use selvedge_types::SecretKey;

use crate::secret::parse_key;

/// A value as written in a configuration file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// `true` or `false`.
    Bool(bool),
    /// A whole number.
    Int(u64),
    /// A list of texts.
    List(Vec<String>),
    /// A 64-bit key, never shown in output.
    Secret(SecretKey),
    /// A table of whole numbers, in order.
    Table(Vec<(String, u64)>),
    /// A text.
    Text(String),
}

impl Value {
    pub(crate) fn int_up_to(&self, max: u64) -> Option<u64> {
        match *self {
            Self::Int(value) if value <= max => Some(value),
            _ => None,
        }
    }

    pub(crate) fn u8_up_to(&self, max: u8) -> Option<u8> {
        self.int_up_to(u64::from(max))
            .and_then(|value| u8::try_from(value).ok())
    }

    /// Returns a 64-bit key: from a number, or from a text with `0x`, which is the usual form.
    pub(crate) fn key64(&self) -> Option<u64> {
        match self {
            Self::Int(value) => Some(*value),
            Self::Secret(key) => Some(key.expose()),
            Self::Text(text) => parse_key(text).map(SecretKey::expose),
            Self::Bool(_) | Self::List(_) | Self::Table(_) => None,
        }
    }

    /// Returns the same value with a secret key as readable text.
    pub(crate) fn exposed(self) -> Self {
        match self {
            Self::Secret(key) => Self::Text(format!("{:#018x}", key.expose())),
            other => other,
        }
    }

    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Bool(_) | Self::Int(_) | Self::List(_) | Self::Secret(_) | Self::Table(_) => None,
        }
    }

    /// Returns a list; a single text counts as a list with one element.
    pub(crate) fn list(&self) -> Option<Vec<String>> {
        match self {
            Self::List(list) => Some(list.clone()),
            Self::Text(text) => Some(vec![text.clone()]),
            Self::Bool(_) | Self::Int(_) | Self::Secret(_) | Self::Table(_) => None,
        }
    }

    pub(crate) fn bool(&self) -> Option<bool> {
        match self {
            Self::Bool(value) => Some(*value),
            Self::Int(_) | Self::List(_) | Self::Secret(_) | Self::Table(_) | Self::Text(_) => None,
        }
    }
}

impl fmt::Display for Value {
    /// Writes the value as TOML, with a placeholder for a secret key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool(value) => write!(f, "{value}"),
            Self::Int(value) => write!(f, "{value}"),
            Self::Secret(_) => write!(f, "\"{}\"", SecretKey::NOT_SHOWN),
            Self::Text(text) => write!(f, "{}", toml::Value::from(text.as_str())),
            Self::Table(entries) => {
                let entries: Vec<String> = entries
                    .iter()
                    .map(|(name, value)| format!("{name} = {value}"))
                    .collect();
                write!(f, "{{ {} }}", entries.join(", "))
            }
            Self::List(list) => {
                f.write_str("[")?;
                for (i, text) in list.iter().enumerate() {
                    write!(
                        f,
                        "{}{}",
                        if i == 0 { "" } else { ", " },
                        toml::Value::from(text.as_str())
                    )?;
                }
                f.write_str("]")
            }
        }
    }
}
