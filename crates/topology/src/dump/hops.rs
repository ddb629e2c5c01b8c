//! Hop counts of every switch: OpenSM's `opensm-lid-matrix.dump`.

use std::collections::BTreeMap;

use selvedge_types::Guid;

use super::DumpError;
use super::row::{Row, Words};
use crate::Place;
use crate::text::{leading_guid, leading_number, shorten};

/// The rows of one target, by its LIDs.
type Rows = BTreeMap<u64, Row<Vec<u8>>>;

/// Reads hop counts: by GUID of the switch, then by GUID of the target port, the number of hops through each port, from
/// port 0; 255 means no path. Lines without the port's GUID are skipped, because LIDs may have changed.
pub fn read_lid_matrix(file: &str, bytes: &[u8]) -> Result<BTreeMap<Guid, BTreeMap<Guid, Vec<u8>>>, DumpError> {
    // The rows of each switch and target.
    let mut matrix: BTreeMap<Guid, BTreeMap<Guid, Rows>> = BTreeMap::new();
    let mut current = None;
    for (at, line) in String::from_utf8_lossy(bytes).lines().enumerate() {
        let line = line.trim();
        let syntax = |want| DumpError::Syntax {
            place: Place {
                file: file.to_owned(),
                line: at + 1,
            },
            what: shorten(line),
            want,
        };
        if line.starts_with("Switch") {
            let guid = after(line, " guid ");
            current = Some(guid.ok_or_else(|| syntax("a switch, as in: Switch: guid 0x0002c90000000001"))?);
        } else if line.starts_with("0x")
            && let Some(switch) = current
        {
            let hops =
                hops(line).ok_or_else(|| syntax("hops in hexadecimal, as in: 0x0001: 00 ff 02 # portguid 0x1"))?;
            if let Some(target) = after(line, " portguid ") {
                let lid = leading_number(line).map_or(0, |(lid, _)| lid);
                let rows = matrix.entry(switch).or_default().entry(target).or_default();
                let first = rows.entry(lid).or_insert_with(|| Row::new(hops.clone(), at + 1));
                first.agrees(&hops, file, at + 1, |there| Words {
                    what: format!("the row of LID {lid} at switch {switch}"),
                    here: print_hops(&hops),
                    there: print_hops(there),
                })?;
            }
        }
    }
    if matrix.is_empty() {
        return Err(DumpError::NoHops { file: file.to_owned() });
    }
    // If a target has several LIDs, the last one is used.
    let last = |mut rows: Rows| rows.pop_last().map(|(_, row)| row.value);
    let targets = |rows: BTreeMap<Guid, BTreeMap<u64, _>>| {
        let rows = rows.into_iter();
        rows.filter_map(|(target, rows)| Some((target, last(rows)?))).collect()
    };
    let matrix = matrix.into_iter();
    Ok(matrix.map(|(switch, rows)| (switch, targets(rows))).collect())
}

/// Returns hops in the format of the file.
fn print_hops(hops: &[u8]) -> String {
    let hops: Vec<String> = hops.iter().map(|hops| format!("{hops:02x}")).collect();
    hops.join(" ")
}

fn after(line: &str, word: &str) -> Option<Guid> {
    leading_guid(line.split_once(word)?.1)
}

fn hops(line: &str) -> Option<Vec<u8>> {
    /// A switch has at most 254 ports in addition to port 0.
    const PORTS_MAX: usize = 255;
    let (_, numbers) = line.split('#').next()?.split_once(':')?;
    let hops = numbers.split_ascii_whitespace().map(|n| u8::from_str_radix(n, 16).ok());
    let hops: Vec<u8> = hops.collect::<Option<_>>()?;
    (!hops.is_empty() && hops.len() <= PORTS_MAX).then_some(hops)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, want: &str) {
        let found = match read_lid_matrix("hops", text.as_bytes()) {
            Ok(matrix) => format!("{matrix:?}"),
            Err(error) => error.to_string(),
        };
        assert!(found.contains(want), "{found}");
    }

    #[test]
    fn hops_stand_by_switch_and_target() {
        let text = "Switch: guid 0x0a\n0x0001: 00 ff # portguid 0x0a\n0x0002: 01 01 # portguid 0x0b\n0x0003: 01 01\n";
        let matrix = read_lid_matrix("hops", text.as_bytes()).unwrap();
        assert_eq!(
            matrix[&Guid(10)],
            BTreeMap::from([(Guid(10), vec![0, 255]), (Guid(11), vec![1, 1])])
        );
    }

    #[test]
    fn what_is_no_matrix_is_refused() {
        check("", "SLV-TOPOLOGY-0034: hops:");
        check("Switch: 0x0a\n", "SLV-TOPOLOGY-0031: hops:1:");
        check("Switch: guid 0x0a\n0x0001: 00 fff # portguid 0x0a\n", "hops:2:");
        check("Switch: guid 0x0a\n0x0001 00\n", "hops:2:");
        // A second row of one LID must equal the first.
        let row = "0x0001: 00 ff # portguid 0x0a\n";
        check(&format!("Switch: guid 0x0a\n{row}{row}"), "[0, 255]");
        check(
            &format!("Switch: guid 0x0a\n{row}{}", row.replace("ff", "02")),
            "SLV-TOPOLOGY-0037: hops:3: the row of LID 1 at switch 0x000000000000000a is 00 02 here and 00 ff in line \
             2",
        );
    }
}
