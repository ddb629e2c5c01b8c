//! Keys from files and from the environment, so that no command line shows them.

use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;

use selvedge_types::SecretKey;

use crate::{ConfigError, Settings};

/// The text of a key as given, right or wrong. `Debug` does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct KeyText(String);

impl KeyText {
    /// Wraps a text.
    #[must_use]
    pub const fn new(text: String) -> Self {
        Self(text)
    }
}

impl FromStr for KeyText {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Debug for KeyText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(SecretKey::NOT_SHOWN)
    }
}

/// A key that an operator gives outside the configuration file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyName {
    /// The M_Key of every port.
    MKey,
    /// The SM_Key of all managers.
    SmKey,
    /// The SA key (an SM_Key): trusted requests to the subnet administrator show it.
    SaKey,
}

impl KeyName {
    /// All keys.
    pub const ALL: [Self; 3] = [Self::MKey, Self::SmKey, Self::SaKey];

    /// Returns the environment variable that may hold the key.
    #[must_use]
    pub const fn variable(self) -> &'static str {
        match self {
            Self::MKey => "SELVEDGE_M_KEY",
            Self::SmKey => "SELVEDGE_SM_KEY",
            Self::SaKey => "SELVEDGE_SA_KEY",
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::MKey => "M_Key",
            Self::SmKey => "SM_Key",
            Self::SaKey => "SA key",
        }
    }

    /// Sets the key in `settings` from `text`. `from` names the source of the text; the error does not quote the text.
    pub fn set(self, settings: &mut Settings, text: &KeyText, from: &str) -> Result<(), ConfigError> {
        let key = parse_key(text.0.trim()).ok_or_else(|| ConfigError::NoKey {
            from: from.to_owned(),
            name: self.name(),
        })?;
        match self {
            Self::MKey => settings.policy.m_key = key.expose(),
            Self::SmKey => settings.manager.sm_key = key,
            Self::SaKey => settings.administrator.sa_key = key,
        }
        Ok(())
    }
}

/// Parses `0x` and 1 to 16 hexadecimal digits.
pub(crate) fn parse_key(text: &str) -> Option<SecretKey> {
    let digits = text.strip_prefix("0x")?;
    // The parser of the standard library would accept a sign.
    if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    u64::from_str_radix(digits, 16).ok().map(SecretKey::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_and_mistakes_not_quoted() {
        let check = |text: &str, want: Option<u64>| {
            let mut settings = Settings::default();
            match KeyName::MKey.set(&mut settings, &text.parse().unwrap(), "SELVEDGE_M_KEY") {
                Ok(()) => assert_eq!(Some(settings.policy.m_key), want, "{text}"),
                Err(error) => {
                    assert_eq!(want, None, "{text}");
                    assert_eq!(
                        error.to_string(),
                        "SLV-CONFIG-0040: SELVEDGE_M_KEY: the M_Key is not a 64-bit number (its text is not shown); \
                         want 0x and 1 to 16 hexadecimal digits"
                    );
                }
            }
        };
        check("0x1", Some(1));
        check(" 0xffffffffffffffff\n", Some(u64::MAX));
        check("0x", None);
        check("1234", None);
        check("0x+1", None);
        check("0xdeadbeeg", None);
        check("0x10000000000000000", None);
        check("", None);
    }

    #[test]
    fn each_key_has_its_place() {
        let mut settings = Settings::default();
        for (name, text) in KeyName::ALL.into_iter().zip(["0x7", "0x8", "0x9"]) {
            name.set(&mut settings, &text.parse().unwrap(), "").unwrap();
        }
        let keys = (settings.manager.sm_key.expose(), settings.administrator.sa_key.expose());
        assert_eq!((settings.policy.m_key, keys), (7, (8, 9)));
    }
}
