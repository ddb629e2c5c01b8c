//! GUID lists: roots, hosts, storage nodes.

use std::path::Path;

use selvedge_store::{SETTINGS_MAX, read_text_file};
use selvedge_types::Guid;

use crate::ConfigError;

/// Reads a file with one GUID per line. `#` starts a comment, and text after the GUID is ignored, as in OpenSM.
pub fn read_guids(path: &Path) -> Result<Vec<Guid>, ConfigError> {
    let text = read_text(path)?;
    parse_guids(&text, path)
}

/// Returns the text of a file.
pub(crate) fn read_text(path: &Path) -> Result<String, ConfigError> {
    read_text_file(path, SETTINGS_MAX).map_err(|cause| ConfigError::Read {
        path: path.to_owned(),
        cause,
    })
}

/// Reads a text with one GUID per line; `path` is only for messages.
pub fn parse_guids(text: &str, path: &Path) -> Result<Vec<Guid>, ConfigError> {
    let mut guids = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let content = line.split('#').next().unwrap_or_default();
        let Some(word) = content.split_whitespace().next() else {
            continue;
        };
        guids.push(word.parse().map_err(|_| ConfigError::NoGuid {
            path: path.to_owned(),
            line: number + 1,
            found: word.chars().take(60).collect(),
        })?);
    }
    Ok(guids)
}

/// Reads a file with a GUID and numbers per line: OpenSM's hop weights and port orders.
pub fn read_guid_numbers(path: &Path) -> Result<Vec<(Guid, Vec<u8>)>, ConfigError> {
    let text = read_text(path)?;
    parse_guid_numbers(&text, path)
}

/// Reads a text with a GUID and numbers per line; `path` is only for messages.
pub fn parse_guid_numbers(text: &str, path: &Path) -> Result<Vec<(Guid, Vec<u8>)>, ConfigError> {
    let mut lines = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let Some(&guid) = parse_guids(line, path)
            .map_err(|error| at_line(error, number + 1))?
            .first()
        else {
            continue;
        };
        let content = line.split('#').next().unwrap_or_default();
        let words = content.split_whitespace().skip(1);
        let numbers = words.map(|word| {
            word.parse().map_err(|_| ConfigError::NoNumber {
                path: path.to_owned(),
                line: number + 1,
                found: word.chars().take(60).collect(),
            })
        });
        lines.push((guid, numbers.collect::<Result<_, _>>()?));
    }
    Ok(lines)
}

fn at_line(error: ConfigError, at: usize) -> ConfigError {
    match error {
        ConfigError::NoGuid { path, found, .. } => ConfigError::NoGuid { path, line: at, found },
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_guid_per_line() {
        let guids = parse_guids("# spines\n0x10\n\n 0x11 spine 2 # second\n", Path::new("roots")).unwrap();
        assert_eq!(guids, [Guid(0x10), Guid(0x11)]);
        let error = parse_guids("0x10\nspine\n", Path::new("roots")).unwrap_err();
        assert!(
            error.to_string().contains("roots, line 2: 'spine' is no GUID"),
            "{error}"
        );
    }

    #[test]
    fn numbers_follow_the_guid() {
        let read = |text| parse_guid_numbers(text, Path::new("ports"));
        let want = vec![(Guid(0x10), vec![3, 1]), (Guid(0x11), vec![])];
        assert_eq!(read("# order\n0x10 3 1 # spine\n\n0x11\n").unwrap(), want);
        let check = |text, want: &str| assert!(read(text).unwrap_err().to_string().contains(want));
        check("0x10 3\n0x11 300\n", "SLV-CONFIG-0006: ports, line 2: '300'");
        check("0x10 3\nspine 1\n", "ports, line 2: 'spine' is no GUID");
    }
}
