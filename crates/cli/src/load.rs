//! What commands read: fabrics, names, LIDs, files.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::Args;
use selvedge_daemon::rename;
use selvedge_fabric::Fabric;
use selvedge_store::{StoreError, can_replace_file, replace_file};
use selvedge_topology::{NodeNames, Spec, read};
use selvedge_types::Guid;

use crate::exit::CliError;
use crate::out::note;

/// Warnings of one file that are printed; more are only counted.
const WARNINGS_MAX: usize = 10;

/// The operator's names for nodes.
#[derive(Args, Clone, Debug, Default)]
pub struct NameArgs {
    /// Show nodes by the names in FILE (lines: 0xGUID "name")
    #[arg(long, value_name = "FILE")]
    pub node_name_map: Option<PathBuf>,
}

impl NameArgs {
    /// The names; none without a file.
    pub fn read(&self) -> Result<NodeNames, CliError> {
        names(self.node_name_map.as_deref())
    }
}

/// Reads a node-name map.
pub fn names(path: Option<&Path>) -> Result<NodeNames, CliError> {
    match path {
        Some(path) => Ok(NodeNames::parse(&path.display().to_string(), &text_bytes(path)?)?),
        None => Ok(NodeNames::default()),
    }
}

/// All bytes of a file.
pub fn bytes(path: &Path) -> Result<Vec<u8>, CliError> {
    fs::read(path).map_err(|cause| CliError::Read {
        path: path.to_owned(),
        cause,
    })
}

/// All bytes of a file of text, which need not be UTF-8: descriptions of nodes often are not.
pub fn text_bytes(path: &Path) -> Result<Vec<u8>, CliError> {
    let bytes = bytes(path)?;
    if bytes.contains(&0) {
        return Err(CliError::NoText { path: path.to_owned() });
    }
    Ok(bytes)
}

/// Replaces a whole file; if that fails, the old one is as it was.
pub fn write(path: &Path, text: &str) -> Result<(), CliError> {
    replace_file(path, |file| file.write_all(text.as_bytes())).map_err(|error| not_written(path, error))
}

/// Fails if a file cannot be written; leaves it as it was.
pub fn writable(path: &Path) -> Result<(), CliError> {
    can_replace_file(path).map_err(|error| not_written(path, error))
}

fn not_written(path: &Path, error: StoreError) -> CliError {
    let path = path.to_owned();
    match error {
        StoreError::Io { cause, .. } => CliError::Write { path, cause },
        other => CliError::Write {
            path,
            cause: io::Error::other(other),
        },
    }
}

/// The fabric that `--fabric` names. What is odd about a file goes to standard error.
pub fn fabric(spec: &str) -> Result<Fabric, CliError> {
    match spec.parse()? {
        Spec::Generated(recipe) => Ok(recipe.fabric()?),
        Spec::File(path) => {
            let bare_word = path.components().count() == 1 && path.extension().is_none();
            if bare_word && !path.exists() {
                return Err(CliError::NoFabric {
                    text: spec.to_owned(),
                    meant: Spec::nearest(spec),
                    known: Spec::examples().collect::<Vec<_>>().join(", "),
                });
            }
            let loaded = read(&path.display().to_string(), &text_bytes(&path)?)?;
            warn(loaded.warnings.iter());
            Ok(loaded.fabric)
        }
    }
}

/// The same fabric with the operator's names as descriptions.
pub fn named(fabric: &Fabric, names: &NodeNames) -> Fabric {
    rename(fabric, &by_guid(names))
}

/// The operator's names by GUID.
pub fn by_guid(names: &NodeNames) -> BTreeMap<Guid, String> {
    names.iter().map(|(guid, name)| (guid, name.to_owned())).collect()
}

/// Says the first few warnings, and how many more there are.
pub fn warn(warnings: impl ExactSizeIterator<Item = impl std::fmt::Display>) {
    let count = warnings.len();
    for warning in warnings.take(WARNINGS_MAX) {
        note(format!("warning: {warning}"));
    }
    if count > WARNINGS_MAX {
        note(format!("warning: {} more", count - WARNINGS_MAX));
    }
}
