//! Seals: the first line of a state file holds the length, generation and check sum of the rest.
//!
//! ```text
//! # selvedge: generation 12, 3450 bytes, sum 0123456789abcdef. After editing the file, delete this line.
//! ```
//! The line comes first, so that a file that was cut short still has it. All three state files treat a line that begins
//! with `#` as a comment. For the seal in `guid2lid`, OpenSM logs `ERR 610B: Key:# is invalid` once and reads the
//! entries. A file without a seal is accepted as it is: it comes from OpenSM, from an older selvedge, or from an
//! editor.

use crate::error::SealError;

/// The beginning of every seal.
const PREFIX: &str = "# selvedge: ";
/// The end of every seal.
const ADVICE: &str = ". After editing the file, delete this line.";

/// The numbers in a seal, except length and check sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seal {
    /// Counts how often the file has been written.
    pub generation: u64,
    /// The generation of guid2lid on the disk when this file was written, if the seal names one.
    pub lids: Option<u64>,
}

/// Returns the text of a file: the seal, then `body`.
#[must_use]
pub fn seal(seal: Seal, body: &str) -> String {
    format!("{}\n{body}", line(seal, body.len(), sum(seal, body.as_bytes())))
}

/// Returns the content of a file after its seal, and the seal if there is one.
pub fn unseal(bytes: &[u8]) -> Result<(&[u8], Option<Seal>), SealError> {
    if !bytes.starts_with(PREFIX.as_bytes()) {
        return Ok((bytes, None));
    }
    let end = bytes.iter().position(|&byte| byte == b'\n').ok_or(SealError::Line)?;
    let (first, body) = (&bytes[..end], &bytes[end + 1..]);
    let (seal, len, found) = std::str::from_utf8(first).ok().and_then(parse).ok_or(SealError::Line)?;
    // A line that parses to the same numbers but is written differently is damage, too.
    if line(seal, len, found).as_bytes() != first {
        return Err(SealError::Line);
    }
    if body.len() != len {
        return Err(SealError::Length {
            want: len,
            found: body.len(),
        });
    }
    match sum(seal, body) == found {
        true => Ok((body, Some(seal))),
        false => Err(SealError::Sum),
    }
}

fn line(seal: Seal, len: usize, sum: u64) -> String {
    let lids = seal.lids.map_or_else(String::new, |lids| format!(", guid2lid {lids}"));
    format!(
        "{PREFIX}generation {}{lids}, {len} bytes, sum {sum:016x}{ADVICE}",
        seal.generation
    )
}

fn parse(line: &str) -> Option<(Seal, usize, u64)> {
    let parts = line.strip_prefix(PREFIX)?.strip_suffix(ADVICE)?;
    let (mut seal, mut len, mut sum) = (None, None, None);
    let mut lids = None;
    for part in parts.split(", ") {
        match part.split_once(' ')? {
            ("generation", number) => seal = Some(number.parse().ok()?),
            ("guid2lid", number) => lids = Some(number.parse().ok()?),
            ("sum", digits) => sum = Some(u64::from_str_radix(digits, 16).ok()?),
            (number, "bytes") => len = Some(number.parse().ok()?),
            _ => return None,
        }
    }
    let generation = seal?;
    Some((Seal { generation, lids }, len?, sum?))
}

/// Returns the FNV-1a hash of the seal's numbers and the bytes. Each step is a bijection, so a single changed byte
/// always changes the hash.
fn sum(seal: Seal, bytes: &[u8]) -> u64 {
    let numbers = [seal.generation, seal.lids.map_or(0, |lids| lids + 1)].map(u64::to_le_bytes);
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    let start = numbers.iter().flatten().fold(0xcbf2_9ce4_8422_2325, step);
    bytes.iter().fold(start, step)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BODY: &str = "\n0x0000000000000001 0x0007 0x0007\n\n";

    #[test]
    fn what_is_sealed_is_read() {
        for lids in [None, Some(0), Some(7)] {
            let of = Seal { generation: 12, lids };
            for body in ["", BODY] {
                let text = seal(of, body);
                assert_eq!(unseal(text.as_bytes()), Ok((body.as_bytes(), Some(of))), "{text}");
            }
        }
        assert_eq!(unseal(BODY.as_bytes()), Ok((BODY.as_bytes(), None)));
        assert_eq!(unseal(b""), Ok((&b""[..], None)));
    }

    #[test]
    fn each_flipped_bit_and_each_cut_behind_the_prefix_is_noticed() {
        let of = Seal {
            generation: 12,
            lids: Some(3),
        };
        let text = seal(of, BODY).into_bytes();
        for at in PREFIX.len()..text.len() {
            for bit in 0..8 {
                let mut damaged = text.clone();
                damaged[at] ^= 1 << bit;
                assert!(unseal(&damaged).is_err(), "byte {at}, bit {bit}");
            }
            assert!(unseal(&text[..at]).is_err(), "cut at {at}");
        }
        let longer = [&text[..], b"\n"].concat();
        assert_eq!(
            unseal(&longer),
            Err(SealError::Length {
                want: BODY.len(),
                found: BODY.len() + 1
            })
        );
    }
}
