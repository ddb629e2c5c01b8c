//! `selvedge decode`: datagrams in hexadecimal, or those of a record, one line each.

use std::path::{Path, PathBuf};

use clap::Args;
use selvedge_api as api;
use selvedge_daemon::record::{self, Entry, RecordedInput};
use selvedge_wire::{MAD_LEN, Mad};

use crate::exit::{CliError, Exit};
use crate::load;
use crate::out::{JsonArg, Out, note};

/// Print management datagrams, one line each.
#[derive(Args, Debug)]
pub struct DecodeArgs {
    /// Datagrams: the 256 bytes of a MAD in hexadecimal; without any they come from FILE or standard input
    hex: Vec<String>,
    /// Read them from FILE, one a line ('#' begins a comment), or as raw bytes, or those of a record ('run --record')
    #[arg(long, value_name = "FILE", conflicts_with = "hex")]
    file: Option<PathBuf>,
    #[command(flatten)]
    format: JsonArg,
}

impl DecodeArgs {
    /// True if errors are printed as JSON.
    pub const fn json(&self) -> bool {
        self.format.json
    }
}

/// Runs the command.
pub fn run(args: &DecodeArgs) -> Result<Exit, CliError> {
    let mut out = Out::new(args.format.into());
    // As lines they are printed as they come, as JSON in the end.
    let mut mads = Vec::new();
    let mut count = 0_u64;
    let mut show = |out: &mut Out, mad: Mad| {
        count += 1;
        if args.format.json {
            mads.push(mad.to_string());
            Ok(())
        } else {
            out.line(mad.to_string())
        }
    };
    for (number, hex) in args.hex.iter().enumerate() {
        show(&mut out, read(&format!("argument {}", number + 1), hex)?)?;
    }
    if args.hex.is_empty() {
        let (name, bytes) = input(args)?;
        if let Some(path) = args.file.as_deref().filter(|_| bytes.starts_with(RECORD)) {
            return recorded(path, out, args.format.json);
        }
        match std::str::from_utf8(&bytes) {
            Ok(text) if !text.contains('\0') => {
                for (number, line) in text.lines().enumerate() {
                    let line = line.split('#').next().unwrap_or_default().trim();
                    if !line.is_empty() {
                        show(&mut out, read(&format!("{name}, line {}", number + 1), line)?)?;
                    }
                }
            }
            _ => {
                for mad in bytes.chunks(MAD_LEN) {
                    show(&mut out, Mad::new_checked(mad)?)?;
                }
            }
        }
        if count == 0 {
            let what = "it holds no datagram".to_owned();
            return Err(CliError::NoHex { place: name, what });
        }
    }
    if args.format.json {
        out.document(api::Decoded { mads })?;
    }
    out.flush()?;
    Ok(Exit::Good)
}

/// The beginning of every record, whatever its version.
const RECORD: &[u8] = b"SLVREC";

/// Prints the datagrams of a record in order, with their time and sender.
fn recorded(path: &Path, mut out: Out, json: bool) -> Result<Exit, CliError> {
    let record = record::read(path)?;
    let exit = match record.torn {
        Some(torn) => {
            note(format!("warning: {torn}"));
            if torn.is_damage() { Exit::NotGood } else { Exit::Good }
        }
        None => Exit::Good,
    };
    let entries = record.entries;
    let is_datagram = |entry: &&Entry| {
        use RecordedInput::{Asked, Received, Returned, Said};
        matches!(entry.input, Received(_) | Returned(_) | Asked(_) | Said(_))
    };
    let lines = entries
        .iter()
        .filter(is_datagram)
        .map(|entry| format!("{} {}", entry.time, entry.input));
    if json {
        out.document(api::Decoded { mads: lines.collect() })?;
    } else {
        for line in lines {
            out.line(line)?;
        }
    }
    out.flush()?;
    Ok(exit)
}

fn input(args: &DecodeArgs) -> Result<(String, Vec<u8>), CliError> {
    if let Some(path) = &args.file {
        return Ok((path.display().to_string(), load::bytes(path)?));
    }
    Ok(("standard input".to_owned(), load::standard_input()?))
}

fn read(place: &str, hex: &str) -> Result<Mad, CliError> {
    parse(hex).map_err(|what| CliError::NoHex {
        place: place.to_owned(),
        what,
    })
}

/// Reads a MAD in hexadecimal. Digits may be grouped by blanks or colons and begin with 0x.
fn parse(hex: &str) -> Result<Mad, String> {
    let hex = hex.strip_prefix("0x").unwrap_or(hex);
    let digits = hex.chars().filter(|c| !c.is_whitespace() && *c != ':');
    let digits: Vec<u8> = digits
        .map(|c| {
            c.to_digit(16)
                .and_then(|d| u8::try_from(d).ok())
                .ok_or_else(|| format!("'{c}' is no digit"))
        })
        .collect::<Result<_, _>>()?;
    if digits.len() != 2 * MAD_LEN {
        return Err(format!("{} digits", digits.len()));
    }
    let bytes: Vec<u8> = digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect();
    Mad::new_checked(&bytes).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_in_every_habit() {
        let plain = "01".repeat(MAD_LEN);
        let check = |hex: &str, ok: bool| assert_eq!(parse(hex).is_ok(), ok, "{hex}");
        check(&plain, true);
        check(&format!("0x{plain}"), true);
        check(&"01:01 ".repeat(MAD_LEN / 2), true);
        check(&plain[2..], false);
        check(&format!("{plain}00"), false);
        check(&plain.replace("01", "0g"), false);
        check("", false);
    }
}
