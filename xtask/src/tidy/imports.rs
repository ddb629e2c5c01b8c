//! Allowed imports between crates: the table in `ARCHITECTURE.md` against every `Cargo.toml`.

use std::collections::{BTreeMap, BTreeSet};

use crate::finding::Finding;
use crate::tree::{Tree, room_of};

const RULE: &str = "import-table";
const TABLE_FILE: &str = "ARCHITECTURE.md";
/// The line before the table; the rows are `| room | kind | what it is | may import | never |`.
const TABLE_MARK: &str = "<!-- import table, read by `cargo xtask tidy` -->";
const OUR_PREFIX: &str = "selvedge-";

/// One row of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Room {
    line: usize,
    /// A core does no I/O and reads no clock.
    pub is_core: bool,
    may_import: BTreeSet<String>,
    /// Rooms that it must not import, not even through other rooms, and not even in tests.
    never: BTreeSet<String>,
}

/// The rooms on which one `Cargo.toml` depends; other crates are left out.
#[derive(Clone, Debug, Default)]
struct Edges {
    normal: BTreeSet<String>,
    dev: BTreeSet<String>,
}

/// Returns findings about imports that the table does not allow, rooms without a row, and rows without a room.
pub fn findings(tree: &Tree) -> Vec<Finding> {
    let rooms = match table(tree) {
        Ok(rooms) => rooms,
        Err(finding) => return vec![finding],
    };
    let mut found = Vec::new();
    let mut edges: BTreeMap<&str, Edges> = BTreeMap::new();
    for (path, text) in tree.files() {
        let Some(room) = room_of(path).filter(|_| path.ends_with("/Cargo.toml")) else {
            continue;
        };
        if path.matches('/').count() > 2 {
            continue;
        }
        match read_edges(text) {
            Ok(read) => drop(edges.insert(room, read)),
            Err(what) => found.push(Finding::new(RULE, path, 0, what, "correct it")),
        }
    }
    for (room, edges) in &edges {
        found.extend(check_room(room, edges, &rooms));
    }
    for (room, row) in &rooms {
        if !edges.contains_key(room.as_str()) {
            let what = format!("room {room} has a row and no folder");
            found.push(Finding::new(RULE, TABLE_FILE, row.line, what, "remove the row"));
        }
        for never in &row.never {
            if let Some(path) = path_between(room, never, &edges) {
                let what = format!("room {room} reaches {never}: {}", path.join(" → "));
                let advice = format!("cut it; {TABLE_FILE} lists it under never, not even in tests");
                found.push(Finding::new(RULE, manifest(room), 0, what, advice));
            }
        }
    }
    found
}

/// The rooms that do no I/O and read no clock.
pub fn cores(tree: &Tree) -> BTreeSet<String> {
    let rooms = table(tree).unwrap_or_default();
    rooms
        .into_iter()
        .filter(|(_, room)| room.is_core)
        .map(|(name, _)| name)
        .collect()
}

fn check_room(room: &str, edges: &Edges, rooms: &BTreeMap<String, Room>) -> Vec<Finding> {
    let Some(row) = rooms.get(room) else {
        let advice = format!("add it to the table in {TABLE_FILE}, in a change of its own, with the reason");
        return vec![Finding::new(RULE, manifest(room), 0, "a room without a row", advice)];
    };
    edges
        .normal
        .difference(&row.may_import)
        .map(|import| {
            let advice = format!("remove the edge, or add it to {TABLE_FILE} in a change of its own, with the reason");
            Finding::new(
                RULE,
                manifest(room),
                0,
                format!("{room} may not import {import}"),
                advice,
            )
        })
        .collect()
}

fn manifest(room: &str) -> String {
    match room {
        "bench" | "conformance" | "xtask" => format!("{room}/Cargo.toml"),
        _ => format!("crates/{room}/Cargo.toml"),
    }
}

/// Returns a path from `from` to `to`: the first edge may be of any kind, the others are dependencies with which those
/// rooms are built.
fn path_between<'a>(from: &'a str, to: &str, edges: &'a BTreeMap<&str, Edges>) -> Option<Vec<&'a str>> {
    let own = edges.get(from)?;
    let mut seen = BTreeSet::new();
    let mut open: Vec<Vec<&str>> = own
        .normal
        .union(&own.dev)
        .map(|next| vec![from, next.as_str()])
        .collect();
    while let Some(path) = open.pop() {
        let last = *path.last()?;
        if last == to {
            return Some(path);
        }
        if seen.insert(last) {
            for next in edges.get(last).into_iter().flat_map(|edges| &edges.normal) {
                let mut longer = path.clone();
                longer.push(next);
                open.push(longer);
            }
        }
    }
    None
}

fn table(tree: &Tree) -> Result<BTreeMap<String, Room>, Finding> {
    let text = tree.text(TABLE_FILE).unwrap_or_default();
    let mut lines = text
        .lines()
        .enumerate()
        .skip_while(|(_, line)| line.trim() != TABLE_MARK);
    lines.next();
    let rows: Vec<(usize, Vec<&str>)> = lines
        .skip_while(|(_, line)| line.trim().is_empty())
        .take_while(|(_, line)| line.starts_with('|'))
        .skip(2)
        .map(|(at, line)| (at + 1, line.trim_matches('|').split('|').map(str::trim).collect()))
        .collect();
    if rows.is_empty() {
        let advice = format!("put it after the line {TABLE_MARK}");
        return Err(Finding::new(RULE, TABLE_FILE, 0, "there is no import table", advice));
    }
    let mut rooms = BTreeMap::new();
    for (line, cells) in &rows {
        let [name, kind, _, may_import, never] = cells[..] else {
            return Err(Finding::new(
                RULE,
                TABLE_FILE,
                *line,
                "the row has not five cells",
                "add them",
            ));
        };
        let is_core = match kind {
            "core" => true,
            "edge" => false,
            _ => {
                let what = format!("'{kind}' is no kind of room");
                return Err(Finding::new(RULE, TABLE_FILE, *line, what, "write core or edge"));
            }
        };
        let room = Room {
            line: *line,
            is_core,
            may_import: names(may_import),
            never: names(never),
        };
        rooms.insert(name.trim_matches('`').to_owned(), room);
    }
    expand_all(&mut rooms);
    Ok(rooms)
}

/// Replaces `all` by the names of all rooms.
fn expand_all(rooms: &mut BTreeMap<String, Room>) {
    let all: BTreeSet<String> = rooms.keys().cloned().collect();
    for room in rooms.values_mut() {
        if room.may_import.contains("all") {
            room.may_import.clone_from(&all);
        }
    }
}

/// The names in a cell: words in backticks, or the word `all`.
fn names(cell: &str) -> BTreeSet<String> {
    if cell == "all" {
        return BTreeSet::from([cell.to_owned()]);
    }
    cell.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

fn read_edges(text: &str) -> Result<Edges, String> {
    let manifest: toml::Table = text.parse().map_err(|error| format!("is no TOML: {error}"))?;
    let mut edges = Edges::default();
    edges.add(&manifest);
    for target in manifest
        .get("target")
        .and_then(toml::Value::as_table)
        .into_iter()
        .flatten()
    {
        if let Some(table) = target.1.as_table() {
            edges.add(table);
        }
    }
    Ok(edges)
}

impl Edges {
    fn add(&mut self, table: &toml::Table) {
        let ours = |section: &str| -> BTreeSet<String> {
            let section = table.get(section).and_then(toml::Value::as_table);
            section
                .into_iter()
                .flat_map(|section| section.keys())
                .filter_map(|name| name.strip_prefix(OUR_PREFIX))
                .map(str::to_owned)
                .collect()
        };
        self.normal.extend(ours("dependencies"));
        self.normal.extend(ours("build-dependencies"));
        self.dev.extend(ours("dev-dependencies"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
<!-- import table, read by `cargo xtask tidy` -->

| room | kind | what it is | may import | never |
|---|---|---|---|---|
| `a` | core | first | – | – |
| `b` | core | second | `a` | – |
| `judge` | core | third | `a` | `b` |
| `cli` | edge | last | all | – |
";

    fn check(a: &str, b: &str, judge: &str, want: &[&str]) {
        let tree = Tree::of(&[
            (TABLE_FILE, TABLE),
            ("crates/a/Cargo.toml", a),
            ("crates/b/Cargo.toml", b),
            ("crates/judge/Cargo.toml", judge),
            ("crates/cli/Cargo.toml", "[dependencies]\nselvedge-b.workspace = true"),
        ]);
        let found: Vec<_> = findings(&tree)
            .iter()
            .map(|f| format!("{} {}", f.file, f.what))
            .collect();
        assert_eq!(found, want);
    }

    #[test]
    fn edges_of_the_table_are_fine() {
        check(
            "",
            "[dependencies]\nselvedge-a.workspace = true\nserde = \"1\"",
            "",
            &[],
        );
        check("[dev-dependencies]\nselvedge-b.workspace = true", "", "", &[]);
    }

    #[test]
    fn other_edges_are_not() {
        let want = &["crates/a/Cargo.toml a may not import b"];
        check("[dependencies]\nselvedge-b.workspace = true", "", "", want);
        check("[build-dependencies]\nselvedge-b.workspace = true", "", "", want);
        check(
            "[target.'cfg(unix)'.dependencies]\nselvedge-b.workspace = true",
            "",
            "",
            want,
        );
    }

    #[test]
    fn never_means_not_even_in_tests() {
        check(
            "",
            "",
            "[dev-dependencies]\nselvedge-b.workspace = true",
            &["crates/judge/Cargo.toml room judge reaches b: judge → b"],
        );
        check(
            "",
            "",
            "[dev-dependencies]\nselvedge-cli.workspace = true",
            &["crates/judge/Cargo.toml room judge reaches b: judge → cli → b"],
        );
    }

    #[test]
    fn rooms_and_rows_match() {
        let tree = Tree::of(&[
            (TABLE_FILE, TABLE),
            ("crates/a/Cargo.toml", ""),
            ("crates/b/Cargo.toml", ""),
            ("crates/judge/Cargo.toml", ""),
            ("crates/new/Cargo.toml", ""),
        ]);
        let found: Vec<_> = findings(&tree).iter().map(|f| f.what.clone()).collect();
        assert_eq!(found, ["a room without a row", "room cli has a row and no folder"]);
    }

    #[test]
    fn a_missing_or_broken_table_is_found() {
        let check = |text: &str, want: &str| {
            let found = findings(&Tree::of(&[(TABLE_FILE, text)]));
            assert_eq!(found[0].what, want, "{text}");
        };
        check("no table", "there is no import table");
        let head = &TABLE[..TABLE.find("| `a`").unwrap()];
        check(&format!("{head}| `a` | core | x |\n"), "the row has not five cells");
        check(
            &format!("{head}| `a` | pure | x | – | – |\n"),
            "'pure' is no kind of room",
        );
    }

    #[test]
    fn cores_are_known() {
        let cores = cores(&Tree::of(&[(TABLE_FILE, TABLE)]));
        assert_eq!(cores.into_iter().collect::<Vec<_>>(), ["a", "b", "judge"]);
    }
}
