//! Checks the form of every `Cargo.toml`: package names, workspace lints, versions in one place, no unused dependency.

use std::collections::BTreeSet;

use crate::finding::Finding;
use crate::rust_source::{RustSource, words};
use crate::tree::{Tree, room_of};

const RULE: &str = "manifest";
const ROOT: &str = "Cargo.toml";

/// Returns all findings about manifests.
pub fn findings(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut used = BTreeSet::new();
    for (path, text) in tree.files() {
        let Some(room) = room_of(path).filter(|_| path.ends_with("Cargo.toml") && path.matches('/').count() <= 2)
        else {
            continue;
        };
        // A text that is no TOML is the import table's finding.
        let Ok(manifest) = text.parse::<toml::Table>() else {
            continue;
        };
        found.extend(check_shape(path, room, &manifest));
        let names = dependencies(&manifest, path, &mut found);
        found.extend(check_used(tree, path, &names));
        used.extend(names);
    }
    found.extend(check_root(tree, &used));
    found
}

fn check_shape(path: &str, room: &str, manifest: &toml::Table) -> Vec<Finding> {
    let mut found = Vec::new();
    let at = |section: &str, key: &str| manifest.get(section).and_then(|section| section.get(key));
    let name = at("package", "name").and_then(toml::Value::as_str).unwrap_or_default();
    let want = if room == "xtask" {
        room.to_owned()
    } else {
        format!("selvedge-{room}")
    };
    if name != want {
        let what = format!("the package is called '{name}'");
        found.push(Finding::new(
            RULE,
            path,
            0,
            what,
            format!("call it {want}, after its folder"),
        ));
    }
    // A crate that takes the workspace's lints cannot change one of them, and transport alone may hold unsafe code.
    if room != "transport" && at("lints", "workspace").and_then(toml::Value::as_bool) != Some(true) {
        let advice = "add `workspace = true` under [lints]";
        found.push(Finding::new(RULE, path, 0, "no workspace lints", advice));
    }
    found
}

/// Returns the names of all dependencies. A version outside the root is a finding.
fn dependencies(manifest: &toml::Table, path: &str, found: &mut Vec<Finding>) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let targets = manifest.get("target").and_then(toml::Value::as_table);
    let tables = targets
        .into_iter()
        .flat_map(|targets| targets.values())
        .filter_map(toml::Value::as_table);
    for table in tables.chain([manifest]) {
        for section in ["dependencies", "dev-dependencies", "build-dependencies"] {
            let section = table.get(section).and_then(toml::Value::as_table);
            for (name, value) in section.into_iter().flatten() {
                if value.get("workspace").and_then(toml::Value::as_bool) != Some(true) {
                    let what = format!("{name} has its version here");
                    let advice = "write it with its reason under [workspace.dependencies], and `workspace = true` here";
                    found.push(Finding::new(RULE, path, 0, what, advice));
                }
                names.insert(name.clone());
            }
        }
    }
    names
}

fn check_used(tree: &Tree, path: &str, names: &BTreeSet<String>) -> Vec<Finding> {
    let folder = path.trim_end_matches(ROOT);
    let sources: Vec<RustSource<'_>> = tree
        .rust_files()
        .filter(|(file, _)| file.starts_with(folder))
        .map(|(_, text)| RustSource::new(text))
        .collect();
    let is_used = |name: &str| {
        let ident = name.replace('-', "_");
        // Doc tests count: they are comments to this tool.
        let mut lines = sources.iter().flat_map(|source| &source.code_and_comments);
        lines.any(|line| words(line, &ident).next().is_some())
    };
    names
        .iter()
        .filter(|name| !is_used(name))
        .map(|name| Finding::new(RULE, path, 0, format!("{name} is not used"), "remove it"))
        .collect()
}

/// Checks that the root lists no dependency that no crate uses.
fn check_root(tree: &Tree, used: &BTreeSet<String>) -> Vec<Finding> {
    let root = tree.text(ROOT).and_then(|text| text.parse::<toml::Table>().ok());
    let workspace = root.as_ref().and_then(|root| root.get("workspace"));
    let dependencies = workspace.and_then(|workspace| workspace.get("dependencies"));
    let names = dependencies
        .and_then(toml::Value::as_table)
        .into_iter()
        .flat_map(|table| table.keys());
    names
        .filter(|name| !used.contains(*name))
        .map(|name| Finding::new(RULE, ROOT, 0, format!("no crate uses {name}"), "remove it"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "[package]\nname='selvedge-a'\n[lints]\nworkspace=true\n";

    fn check(manifest: &str, source: &str, root: &str, want: &[&str]) {
        let tree = Tree::of(&[
            ("crates/a/Cargo.toml", manifest),
            ("crates/a/src/lib.rs", source),
            (ROOT, root),
        ]);
        let found: Vec<_> = findings(&tree)
            .iter()
            .map(|f| format!("{} {}", f.file, f.what))
            .collect();
        assert_eq!(found, want);
    }

    #[test]
    fn shape() {
        check(GOOD, "", "", &[]);
        check(
            &GOOD.replace("-a", "-b"),
            "",
            "",
            &["crates/a/Cargo.toml the package is called 'selvedge-b'"],
        );
        check(
            &GOOD.replace("true", "false"),
            "",
            "",
            &["crates/a/Cargo.toml no workspace lints"],
        );
    }

    #[test]
    fn versions_stand_in_the_root() {
        let with = |dependency: &str| format!("{GOOD}[dependencies]\n{dependency}\n");
        let root = "[workspace.dependencies]\nrand_pcg = '1'\n";
        check(&with("rand_pcg.workspace = true"), "use rand_pcg::X;", root, &[]);
        check(
            &with("rand_pcg = '1'"),
            "use rand_pcg::X;",
            root,
            &["crates/a/Cargo.toml rand_pcg has its version here"],
        );
    }

    #[test]
    fn nothing_unused() {
        let manifest = format!("{GOOD}[dependencies]\nserde.workspace = true\n");
        let root = "[workspace.dependencies]\nserde = '1'\n";
        check(
            &manifest,
            "// none\nuse my_serde;",
            root,
            &["crates/a/Cargo.toml serde is not used"],
        );
        check(GOOD, "", root, &["Cargo.toml no crate uses serde"]);
    }
}
