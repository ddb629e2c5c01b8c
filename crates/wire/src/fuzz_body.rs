//! The body of the fuzz target, also run by `cargo test` over the stored corpus.

use crate::{Class, Mad, Payload};

/// Decodes, re-encodes and prints any bytes; panics if re-encoding is not stable.
///
/// Bytes that are no MAD are cut, or filled with zeros, to one: so a fuzzer reaches every attribute with short inputs.
/// Checked: a decoded attribute, encoded and decoded again, is the same value; encoded once more, the same bytes.
pub fn decode_encode_print(bytes: &[u8]) {
    if bytes.len() != crate::MAD_LEN {
        assert!(
            Mad::new_checked(bytes).is_err(),
            "{} bytes taken for a MAD",
            bytes.len()
        );
    }
    let mut raw = [0; crate::MAD_LEN];
    let used = bytes.len().min(raw.len());
    raw[..used].copy_from_slice(&bytes[..used]);
    let mad = Mad::from_bytes(raw);
    let line = mad.to_string();
    assert!(!line.contains('\n'), "more than one line: {line:?}");
    let Some(Ok(payload)) = Payload::of(&mad) else {
        return;
    };
    let mut once = mad;
    payload.write_to(&mut once);
    assert_eq!(
        Payload::of(&once),
        Some(Ok(payload)),
        "decoding what was encoded: {line}"
    );
    let mut twice = once;
    payload.write_to(&mut twice);
    assert_eq!(once, twice, "encoding twice: {line}");
    // Data of subnet administration begin earlier. Source: IBA vol 1 §15.2.1.
    let header = if mad.class() == Class::SubnAdm { 56 } else { 64 };
    assert_eq!(
        once.as_bytes()[..header],
        mad.as_bytes()[..header],
        "the header changed: {line}"
    );
}
