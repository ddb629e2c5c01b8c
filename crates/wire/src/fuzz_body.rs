//! The body of the fuzz target, also run by `cargo test` over the stored corpus.

use crate::{Class, Mad, Payload};

/// Decodes, re-encodes and prints any bytes. Panics if re-encoding is not stable.
///
/// Input of another length is truncated or padded with zeros to one MAD, so that a fuzzer reaches every attribute with
/// short inputs. A decoded attribute must be equal after encoding and decoding it again, and the second encoding must
/// give the same bytes.
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
    // Data of subnet administration begin at a lower offset. Source: IBA vol 1 §15.2.1.
    let header = if mad.class() == Class::SubnAdm { 56 } else { 64 };
    assert_eq!(
        once.as_bytes()[..header],
        mad.as_bytes()[..header],
        "the header changed: {line}"
    );
}
