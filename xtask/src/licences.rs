//! Licences of every dependency against a list, and crates that are linked in two versions.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::finding::Finding;

const RULE: &str = "licences";
const LIST: &str = "xtask/licences.toml";

/// The contents of `xtask/licences.toml`: what is allowed.
#[derive(Debug, Default)]
struct Allowed {
    licences: BTreeSet<String>,
    /// Crates that may be linked in several versions.
    duplicates: BTreeSet<String>,
}

/// A crate that the product is built from or tested with.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Package {
    name: String,
    version: String,
    licence: Option<String>,
}

/// Checks everything in `Cargo.lock` that this platform builds.
pub fn findings(root: &Path) -> Result<Vec<Finding>, Finding> {
    let cannot = |what: String, advice: &str| Finding::new(RULE, "", 0, what, advice);
    let list = std::fs::read_to_string(root.join(LIST)).map_err(|e| cannot(format!("{LIST}: {e}"), "restore it"))?;
    let allowed = read_allowed(&list)?;
    let platform = host_platform();
    let output = Command::new("cargo")
        .args([
            "metadata",
            "--format-version=1",
            "--locked",
            "--filter-platform",
            &platform,
        ])
        .current_dir(root)
        .output()
        .map_err(|e| cannot(format!("cannot run cargo metadata: {e}"), "install Rust with rustup"))?;
    if !output.status.success() {
        let error = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        let advice = "if the lock file is old, run `cargo update --workspace` and commit Cargo.lock";
        return Err(cannot(format!("cargo metadata failed: {error}"), advice));
    }
    let metadata = serde_json::from_slice(&output.stdout)
        .map_err(|e| cannot(format!("cargo metadata wrote no JSON: {e}"), "report it"))?;
    Ok(check(&packages(&metadata), &allowed))
}

/// Returns every package that cargo resolved for this platform, except our own crates.
fn packages(metadata: &Value) -> Vec<Package> {
    let nodes = metadata["resolve"]["nodes"].as_array().into_iter().flatten();
    let built: BTreeSet<&str> = nodes.filter_map(|node| node["id"].as_str()).collect();
    let all = metadata["packages"].as_array().into_iter().flatten();
    let text = |value: &Value| value.as_str().map(str::to_owned);
    all.filter(|package| !package["source"].is_null())
        .filter(|package| package["id"].as_str().is_some_and(|id| built.contains(id)))
        .map(|package| Package {
            name: text(&package["name"]).unwrap_or_default(),
            version: text(&package["version"]).unwrap_or_default(),
            licence: text(&package["license"]),
        })
        .collect()
}

fn check(packages: &[Package], allowed: &Allowed) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for Package { name, version, licence } in packages {
        versions.entry(name).or_default().insert(version);
        let is_allowed = licence
            .as_deref()
            .map(|licence| is_satisfied(licence, &allowed.licences));
        let what = match (is_allowed, licence) {
            (Some(true), _) => continue,
            (_, Some(licence)) => format!("{name} {version} is under {licence}"),
            (_, None) => format!("{name} {version} names no licence"),
        };
        let advice = "do without it, or allow the licence with its reason";
        found.push(Finding::new(RULE, LIST, 0, what, advice));
    }
    let mut excused = allowed.duplicates.clone();
    for (name, versions) in versions.iter().filter(|(_, versions)| versions.len() > 1) {
        if !excused.remove(*name) {
            let versions: Vec<_> = versions.iter().copied().collect();
            let what = format!("{name} is built in several versions: {}", versions.join(", "));
            let advice = "settle on one, or add a [[duplicate]] with its reason";
            found.push(Finding::new(RULE, LIST, 0, what, advice));
        }
    }
    for name in excused {
        let what = format!("{name} is there in one version only");
        found.push(Finding::new(RULE, LIST, 0, what, "remove its [[duplicate]]"));
    }
    found
}

fn read_allowed(text: &str) -> Result<Allowed, Finding> {
    let bad = |what: String| Finding::new(RULE, LIST, 0, what, "write [allow] and [[duplicate]] as its head shows");
    let table: toml::Table = text.parse().map_err(|error| bad(format!("is no TOML: {error}")))?;
    let mut allowed = Allowed::default();
    for (licence, reason) in table.get("allow").and_then(toml::Value::as_table).into_iter().flatten() {
        if reason.as_str().is_none_or(str::is_empty) {
            return Err(bad(format!("{licence} is allowed without a reason")));
        }
        allowed.licences.insert(licence.clone());
    }
    for entry in table
        .get("duplicate")
        .and_then(toml::Value::as_array)
        .into_iter()
        .flatten()
    {
        let text = |key: &str| {
            entry
                .get(key)
                .and_then(toml::Value::as_str)
                .filter(|text| !text.is_empty())
        };
        match (text("name"), text("reason")) {
            (Some(name), Some(_)) => allowed.duplicates.insert(name.to_owned()),
            _ => return Err(bad(format!("incomplete: {entry}"))),
        };
    }
    Ok(allowed)
}

/// True if the SPDX expression can be fulfilled with allowed licences. The old `A/B` means `A OR B`.
fn is_satisfied(expression: &str, allowed: &BTreeSet<String>) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut parser = Expression { words: &words, allowed };
    parser.any() && parser.words.is_empty()
}

struct Expression<'a> {
    words: &'a [&'a str],
    allowed: &'a BTreeSet<String>,
}

impl Expression<'_> {
    /// Parses `A OR B OR …`, which binds weakest.
    fn any(&mut self) -> bool {
        let mut value = self.every();
        while self.take("OR") {
            value |= self.every();
        }
        value
    }

    /// Parses `A AND B AND …`.
    fn every(&mut self) -> bool {
        let mut value = self.one();
        while self.take("AND") {
            value &= self.one();
        }
        value
    }

    /// Parses a licence, a licence with an exception (allowed as a whole), or a group in parentheses.
    fn one(&mut self) -> bool {
        if self.take("(") {
            let value = self.any();
            return self.take(")") && value;
        }
        let Some((licence, rest)) = self.words.split_first() else {
            return false;
        };
        self.words = rest;
        if !self.take("WITH") {
            return self.allowed.contains(*licence);
        }
        let Some((exception, rest)) = self.words.split_first() else {
            return false;
        };
        self.words = rest;
        self.allowed.contains(&format!("{licence} WITH {exception}"))
    }

    fn take(&mut self, word: &str) -> bool {
        match self.words.split_first() {
            Some((first, rest)) if *first == word => {
                self.words = rest;
                true
            }
            _ => false,
        }
    }
}

/// Returns the platform that cargo builds for without `--target`.
fn host_platform() -> String {
    let output = Command::new("rustc").arg("-vV").output();
    let text = output
        .map(|output| String::from_utf8_lossy(&output.stdout).into_owned())
        .unwrap_or_default();
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    host.unwrap_or("x86_64-unknown-linux-gnu").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LISTED: &str = "[allow]\nMIT='x'\n'Apache-2.0'='x'\n'Apache-2.0 WITH LLVM-exception'='x'\n";

    #[test]
    fn expressions() {
        let allowed = read_allowed(LISTED).unwrap().licences;
        let check = |text: &str, want: bool| assert_eq!(is_satisfied(text, &allowed), want, "{text}");
        check("MIT", true);
        check("GPL-3.0", false);
        check("GPL-3.0 OR MIT", true);
        check("GPL-3.0/MIT", true);
        check("GPL-3.0 AND MIT", false);
        check("(MIT OR GPL-3.0) AND Apache-2.0", true);
        check("MIT OR GPL-3.0 AND GPL-2.0", true);
        check("Apache-2.0 WITH LLVM-exception", true);
        check("MIT WITH LLVM-exception", false);
        check("(MIT", false);
        check("MIT MIT", false);
        check("", false);
    }

    fn check_packages(list: &str, packages: &[(&str, &str, Option<&str>)], want: &[&str]) {
        let packages: Vec<_> = packages
            .iter()
            .map(|(name, version, licence)| Package {
                name: (*name).to_owned(),
                version: (*version).to_owned(),
                licence: licence.map(str::to_owned),
            })
            .collect();
        let found = check(&packages, &read_allowed(list).unwrap());
        assert_eq!(found.into_iter().map(|f| f.what).collect::<Vec<_>>(), want);
    }

    #[test]
    fn every_package_has_an_allowed_licence() {
        check_packages(LISTED, &[("a", "1.0.0", Some("MIT"))], &[]);
        check_packages(
            LISTED,
            &[("a", "1.0.0", Some("GPL-3.0"))],
            &["a 1.0.0 is under GPL-3.0"],
        );
        check_packages(LISTED, &[("a", "1.0.0", None)], &["a 1.0.0 names no licence"]);
    }

    #[test]
    fn duplicates_need_a_reason() {
        let twice = [("a", "1.0.0", Some("MIT")), ("a", "2.0.0", Some("MIT"))];
        let excused = format!("{LISTED}[[duplicate]]\nname='a'\nreason='x'\n");
        check_packages(LISTED, &twice, &["a is built in several versions: 1.0.0, 2.0.0"]);
        check_packages(&excused, &twice, &[]);
        check_packages(&excused, &twice[..1], &["a is there in one version only"]);
    }

    #[test]
    fn the_list_gives_reasons() {
        let check = |text: &str| assert!(read_allowed(text).is_err(), "{text}");
        check("[allow]\nMIT=''\n");
        check("[[duplicate]]\nname='a'\n");
        check("[allow");
    }

    #[test]
    fn metadata_is_read() {
        let metadata = serde_json::json!({
            "packages": [
                {"id": "a", "name": "a", "version": "1", "license": "MIT", "source": "registry"},
                {"id": "b", "name": "b", "version": "1", "license": null, "source": null},
                {"id": "c", "name": "c", "version": "1", "license": "MIT", "source": "registry"},
            ],
            "resolve": {"nodes": [{"id": "a"}, {"id": "b"}]},
        });
        let names: Vec<_> = packages(&metadata).into_iter().map(|p| p.name).collect();
        assert_eq!(names, ["a"]);
    }
}
