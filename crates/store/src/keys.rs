//! The keys that ports and other managers may hold: a text file with one key a line. Only its owner may read it.

use selvedge_types::SecretKey;

/// Stored keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredKeys {
    /// M_Keys that ports may hold, newest first.
    pub m_keys: Vec<SecretKey>,
    /// SM_Keys that other managers may show, newest first.
    pub sm_keys: Vec<SecretKey>,
}

/// Reads the keys. `Err` has the number of the first line that is no key; its text is not shown.
pub fn parse_keys(bytes: &[u8]) -> Result<StoredKeys, usize> {
    let text = std::str::from_utf8(bytes).map_err(|_| 1_usize)?;
    let mut keys = StoredKeys::default();
    let lines = (1..).zip(text.lines());
    for (number, line) in lines.filter(|(_, line)| !line.starts_with('#') && !line.is_empty()) {
        let (list, digits) = match line.split_once(' ') {
            Some(("m_key", digits)) => (&mut keys.m_keys, digits),
            Some(("sm_key", digits)) => (&mut keys.sm_keys, digits),
            _ => return Err(number),
        };
        list.push(key(digits).ok_or(number)?);
    }
    Ok(keys)
}

fn key(text: &str) -> Option<SecretKey> {
    let digits = text.strip_prefix("0x").filter(|digits| digits.len() == 16)?;
    // The parser of the standard library would accept a sign.
    let is_hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    let key = is_hex.then(|| u64::from_str_radix(digits, 16).ok()).flatten()?;
    Some(SecretKey::new(key))
}

/// Writes the keys.
#[must_use]
pub fn print_keys(keys: &StoredKeys) -> String {
    let mut text =
        "# Written by selvedge: keys that ports and other managers may still hold, newest first.\n".to_owned();
    for (name, list) in [("m_key", &keys.m_keys), ("sm_key", &keys.sm_keys)] {
        for key in list {
            text.push_str(&format!("{name} {:#018x}\n", key.expose()));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_is_read() {
        let list = |keys: &[u64]| keys.iter().copied().map(SecretKey::new).collect::<Vec<_>>();
        for (m_keys, sm_keys) in [(&[][..], &[][..]), (&[0x1234], &[1]), (&[u64::MAX, 1], &[])] {
            let keys = StoredKeys {
                m_keys: list(m_keys),
                sm_keys: list(sm_keys),
            };
            assert_eq!(parse_keys(print_keys(&keys).as_bytes()), Ok(keys));
        }
        for (text, line) in [
            ("m_key 0x12\n", 1),
            ("# keys\nm_key 0x+000000000000001\n", 2),
            ("0x1234567890123456\n", 1),
            ("key 0x1234567890123456\n", 1),
        ] {
            assert_eq!(parse_keys(text.as_bytes()), Err(line), "{text}");
        }
        assert_eq!(parse_keys(b"\xff"), Err(1));
    }
}
