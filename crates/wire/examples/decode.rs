//! Prints MADs given in hexadecimal, one a line.
//!
//! ```text
//! cargo run -p selvedge-wire --example decode -- 0181010100000000000000000000000700110000…
//! cargo run -p selvedge-wire --example decode < crates/wire/tests/golden/peers.txt
//! ```
//! A MAD shorter than 256 bytes is filled with zeros. On standard input, lines that start with `#` are repeated.

use std::io::{BufRead, Write};

use selvedge_wire::{DecodeError, MAD_LEN, Mad};

/// Why an argument is no MAD.
#[derive(Debug)]
enum Refusal {
    /// A character that is no hexadecimal digit, or half a byte.
    NotHex,
    /// Too many bytes.
    Length(DecodeError),
}

/// The MAD written as `text`; blanks and the direction signs of the stored captures are skipped.
fn mad(text: &str) -> Result<Mad, Refusal> {
    let digits: Vec<u32> = text
        .chars()
        .filter(|c| !matches!(c, ' ' | '<' | '>' | ':'))
        .map(|c| c.to_digit(16).ok_or(Refusal::NotHex))
        .collect::<Result<_, _>>()?;
    if !digits.len().is_multiple_of(2) {
        return Err(Refusal::NotHex);
    }
    let mut bytes: Vec<u8> = digits
        .chunks_exact(2)
        .map(|pair| (pair[0] << 4 | pair[1]) as u8)
        .collect();
    bytes.resize(bytes.len().max(MAD_LEN), 0);
    Mad::new_checked(&bytes).map_err(Refusal::Length)
}

fn main() -> std::io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let lines: Vec<String> = if arguments.is_empty() {
        std::io::stdin().lock().lines().collect::<Result<_, _>>()?
    } else {
        arguments
    };
    let mut out = std::io::stdout().lock();
    for line in &lines {
        match mad(line) {
            _ if line.starts_with('#') => writeln!(out, "{line}")?,
            Ok(mad) => writeln!(out, "{mad}")?,
            Err(Refusal::NotHex) => writeln!(out, "no hexadecimal bytes: {line}")?,
            Err(Refusal::Length(error)) => writeln!(out, "{error}: {line}")?,
        }
    }
    Ok(())
}
