//! The files of the project as text in memory. So rules do not read the file system, and tests need no project.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::finding::Finding;

/// Folders that hold no source of ours.
const FOLDERS_SKIPPED: [&str; 4] = ["target", "node_modules", ".git", ".claude"];

/// Text files by their path from the workspace root, `/` between folders.
#[derive(Clone, Debug, Default)]
pub struct Tree {
    files: BTreeMap<String, String>,
}

impl Tree {
    /// The folder that holds the workspace's Cargo.toml.
    pub fn workspace_root() -> PathBuf {
        // The folder that `cargo run` sets goes first: checkouts may share a target folder.
        let xtask = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
        let xtask = PathBuf::from(xtask);
        xtask.parent().map(Path::to_path_buf).unwrap_or(xtask)
    }

    /// Reads every UTF-8 file under `root`. Leaves out other files (captures, corpora).
    pub fn read(root: &Path) -> Result<Self, Finding> {
        let mut tree = Self::default();
        tree.read_folder(root, "").map_err(|error| {
            Finding::new(
                "read",
                "",
                0,
                format!("cannot read the project: {error}"),
                "check its files",
            )
        })?;
        Ok(tree)
    }

    /// Returns a tree of these files, for tests.
    #[cfg(test)]
    pub fn of(files: &[(&str, &str)]) -> Self {
        let files = files
            .iter()
            .map(|(path, text)| ((*path).to_owned(), (*text).to_owned()));
        Self { files: files.collect() }
    }

    /// Every file, by path.
    pub fn files(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files.iter().map(|(path, text)| (path.as_str(), text.as_str()))
    }

    /// Every Rust file, by path.
    pub fn rust_files(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files().filter(|(path, _)| path.ends_with(".rs"))
    }

    /// Returns the text of a file.
    pub fn text(&self, path: &str) -> Option<&str> {
        self.files.get(path).map(String::as_str)
    }

    /// True if `path` is a file or a folder with files in it.
    pub fn has(&self, path: &str) -> bool {
        let folder = format!("{}/", path.trim_end_matches('/'));
        self.files.contains_key(path)
            || self
                .files
                .range(folder.clone()..)
                .next()
                .is_some_and(|(found, _)| found.starts_with(&folder))
    }

    fn read_folder(&mut self, folder: &Path, path: &str) -> std::io::Result<()> {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let kind = entry.file_type()?;
            let path = if path.is_empty() {
                name.clone()
            } else {
                format!("{path}/{name}")
            };
            if kind.is_dir() {
                // `sys-<pid>` is the fake sysfs tree that umad2sim leaves in a client's folder.
                if !FOLDERS_SKIPPED.contains(&name.as_str()) && !name.starts_with("sys-") {
                    self.read_folder(&entry.path(), &path)?;
                }
            } else if kind.is_file()
                && let Ok(text) = fs::read_to_string(entry.path())
            {
                self.files.insert(path, text);
            }
        }
        Ok(())
    }
}

/// Returns the room (crate folder) to which a path belongs: `crates/<room>/…`, or the name of a crate beside `crates`.
pub fn room_of(path: &str) -> Option<&str> {
    match path.split_once('/')? {
        ("crates", rest) => rest.split_once('/').map(|(room, _)| room),
        (room @ ("bench" | "conformance" | "xtask"), _) => Some(room),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rooms_of_paths() {
        let check = |path: &str, want: Option<&str>| assert_eq!(room_of(path), want, "{path}");
        check("crates/sm/src/lib.rs", Some("sm"));
        check("xtask/src/main.rs", Some("xtask"));
        check("docs/README.md", None);
        check("Cargo.toml", None);
    }

    #[test]
    fn has_files_and_folders() {
        let tree = Tree::of(&[("docs/a/b.md", "")]);
        let check = |path: &str, want: bool| assert_eq!(tree.has(path), want, "{path}");
        check("docs/a/b.md", true);
        check("docs/a", true);
        check("docs/", true);
        check("docs/b", false);
        check("doc", false);
    }

    #[test]
    fn reads_this_workspace() {
        let tree = Tree::read(&Tree::workspace_root()).unwrap();
        assert!(tree.has("xtask/src/tree.rs"));
        assert!(!tree.has("target"));
    }
}
