//! Reads a file of bandwidths.

use std::collections::BTreeMap;

use selvedge_types::{Guid, Sl};

use super::{Bandwidths, Ports, UfmError};

/// Longest part of a line that an error shows.
const SHOWN: usize = 40;

/// The section in which a line stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Section {
    None,
    Names,
    Rules,
}

pub(super) fn parse(text: &str) -> Result<Bandwidths, UfmError> {
    let mut read = Bandwidths::default();
    let mut section = Section::None;
    // Rules may stand before the names that they use.
    let mut used = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let line_number = at + 1;
        let line = line.split('#').next().unwrap_or_default().trim();
        section = match line {
            "" => continue,
            "BW_NAMES" => Section::Names,
            "BW_RULES" => Section::Rules,
            "END_BW_NAMES" | "END_BW_RULES" => Section::None,
            _ => {
                match section {
                    Section::None => return Err(syntax(line_number, line, "BW_NAMES or BW_RULES")),
                    Section::Names => name(&mut read, line_number, line)?,
                    Section::Rules => used.extend(rule(&mut read, line_number, line)?),
                }
                continue;
            }
        };
    }
    for (line, name) in used {
        if !read.names.contains_key(&name) {
            let meant = crate::near::meant(&name, read.names.keys());
            return Err(UfmError::UnknownName { line, name, meant });
        }
    }
    Ok(read)
}

fn name(read: &mut Bandwidths, line: usize, text: &str) -> Result<(), UfmError> {
    const WANT: &str = "NAME = RATE in Mb/s, as storage = 40000";
    let (name, rate) = text.split_once('=').ok_or_else(|| syntax(line, text, WANT))?;
    let name = word(name).ok_or_else(|| syntax(line, text, WANT))?;
    let rate = rate.trim().parse().map_err(|_| syntax(line, text, WANT))?;
    match read.names.insert(name.to_owned(), rate) {
        None => Ok(()),
        Some(_) => Err(twice(line, format!("bandwidth '{name}'"))),
    }
}

/// Reads a rule. Returns the bandwidths that it names, with their line.
fn rule(read: &mut Bandwidths, line: usize, text: &str) -> Result<Vec<(usize, String)>, UfmError> {
    const WANT: &str = "PORTS = SL:NAME, SL:NAME ..., as default = 1:storage";
    let wrong = || syntax(line, text, WANT);
    let (ports, limits) = text.split_once('=').ok_or_else(wrong)?;
    let ports = ports_of(word(ports).ok_or_else(wrong)?).ok_or_else(wrong)?;
    let mut by_sl = BTreeMap::new();
    for limit in limits.split(',') {
        let (sl, name) = limit.split_once(':').ok_or_else(wrong)?;
        let sl = sl.trim().parse().ok().and_then(Sl::new).ok_or_else(wrong)?;
        let name = word(name).ok_or_else(wrong)?;
        if by_sl.insert(sl, name.to_owned()).is_some() {
            return Err(twice(line, format!("SL {} of {ports}", sl.get())));
        }
    }
    let names = by_sl.values().map(|name| (line, name.clone())).collect();
    match read.rules.insert(ports.clone(), by_sl) {
        None => Ok(names),
        Some(_) => Err(twice(line, format!("the rule of {ports}"))),
    }
}

fn ports_of(word: &str) -> Option<Ports> {
    let hex = word.strip_prefix("0x").or_else(|| word.strip_prefix("0X"));
    match (word, hex) {
        ("default", _) => Some(Ports::Default),
        (_, Some(digits)) => u64::from_str_radix(digits, 16).ok().map(|guid| Ports::Guid(Guid(guid))),
        (_, None) => Some(Ports::Group(word.to_owned())),
    }
}

/// Returns a text as one word.
fn word(text: &str) -> Option<&str> {
    let text = text.trim();
    (!text.is_empty() && !text.contains(char::is_whitespace)).then_some(text)
}

fn syntax(line: usize, found: &str, want: &'static str) -> UfmError {
    let found = found.chars().take(SHOWN).collect();
    UfmError::Syntax { line, found, want }
}

const fn twice(line: usize, what: String) -> UfmError {
    UfmError::Twice { line, what }
}
