//! Keys that no output shows.

use std::fmt;

/// A 64-bit key: M_Key, SM_Key or SA key. `Debug` and `Display` never show its value.
///
/// ```
/// # use selvedge_types::SecretKey;
/// assert_eq!(format!("{}", SecretKey::new(0x1234)), "(not shown)");
/// ```
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct SecretKey(u64);

impl SecretKey {
    /// The text shown in place of a secret.
    pub const NOT_SHOWN: &'static str = "(not shown)";

    /// Returns a key with this value.
    #[must_use]
    pub const fn new(key: u64) -> Self {
        Self(key)
    }

    /// Returns the value, for a datagram or a private file. It must not reach a log, an event or an answer.
    #[must_use]
    pub const fn expose(self) -> u64 {
        self.0
    }
}

impl fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::NOT_SHOWN)
    }
}

impl fmt::Display for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::NOT_SHOWN)
    }
}

/// Implements `Debug` for a struct with secret 64-bit keys: shows all fields, but no key values.
///
/// A field that the list lacks is a compile error.
#[macro_export]
macro_rules! debug_without_keys {
    ($name:ident { $($field:ident),* $(,)? } keys { $($key:ident),* $(,)? }) => {
        impl ::core::fmt::Debug for $name {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                let Self { $($field,)* $($key,)* } = self;
                f.debug_struct(stringify!($name))
                    $(.field(stringify!($field), $field))*
                    $(.field(stringify!($key), &$crate::SecretKey::new(*$key)))*
                    .finish()
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Guarded {
        name: &'static str,
        key: u64,
    }

    debug_without_keys!(Guarded { name } keys { key });

    #[test]
    fn no_form_of_output_shows_a_key() {
        let guarded = Guarded {
            name: "port",
            key: 0xfeed_beef,
        };
        let key = SecretKey::new(guarded.key);
        for shown in [
            format!("{key}"),
            format!("{key:?}"),
            format!("{key:#?}"),
            format!("{:?}", Some(key)),
        ] {
            assert!(
                shown.contains(SecretKey::NOT_SHOWN) && !shown.contains("feed"),
                "{shown}"
            );
        }
        assert_eq!(format!("{guarded:?}"), "Guarded { name: \"port\", key: (not shown) }");
        assert_eq!(key.expose(), 0xfeed_beef);
    }
}
