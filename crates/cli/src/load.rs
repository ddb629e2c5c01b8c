//! Inputs of commands: fabrics, names, LIDs, files.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use clap::Args;
use selvedge_config::{LidsRead, Readers};
use selvedge_daemon::{Held, rename};
use selvedge_fabric::Fabric;
use selvedge_plan::{EngineName, Policy};
use selvedge_routing::{Engine, EngineError, Options};
use selvedge_store::{DATA_MAX, StoreError, can_replace_file, read_file, read_up_to, replace_file};
use selvedge_topology::{NodeNames, Spec, Warning, read, read_lfts, seen_lids};
use selvedge_types::Guid;

use crate::exit::CliError;
use crate::out::note;
use crate::tables_io::guid2lid;

/// Largest number of warnings of one file that are printed; more are only counted.
const WARNINGS_MAX: usize = 10;

/// The operator's names for nodes.
#[derive(Args, Clone, Debug, Default)]
pub struct NameArgs {
    /// Show nodes by the names in FILE (lines: 0xGUID "name")
    #[arg(long, value_name = "FILE")]
    pub node_name_map: Option<PathBuf>,
}

impl NameArgs {
    /// Returns the names; none without a file.
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

/// Readers of file formats that the check of a configuration uses.
pub const READERS: Readers = Readers {
    names: |path| {
        names(Some(path))
            .map(|names| by_guid(&names))
            .map_err(|error| error.to_string())
    },
    lids: |path| {
        let known = guid2lid(path).map_err(|error| error.to_string())?;
        Ok(LidsRead {
            lids: known.ranges(),
            warnings: known.conflicts().iter().map(ToString::to_string).collect(),
        })
    },
    topology: |path| {
        let read = text_bytes(path).and_then(|bytes| Ok(read(&path.display().to_string(), &bytes)?));
        read.map(drop).map_err(|error| error.to_string())
    },
    refuses,
};

/// Returns why an engine refuses every fabric under a policy, as [`Readers::refuses`].
fn refuses(name: &EngineName, policy: &Policy) -> Option<String> {
    let engine = Engine::try_from(name).ok()?;
    // A manager reads no tables to load.
    let error = engine.refuses_always(policy.lmc, &Options::default())?;
    let (name, lmc) = (engine.name(), policy.lmc.get());
    Some(match error {
        EngineError::NoFatTree { why } => format!("engine {name} and routing.lmc = {lmc} contradict each other: {why}"),
        EngineError::NothingListed => {
            format!("engine {name} needs tables to load, and no key names them ('selvedge route' has flags for them)")
        }
        other => other.to_string(),
    })
}

/// Returns all bytes of a regular data file, or of standard input if the name is `-`.
pub fn bytes(path: &Path) -> Result<Vec<u8>, CliError> {
    if path == Path::new("-") {
        return standard_input();
    }
    read_file(path, DATA_MAX).map_err(|cause| CliError::Read {
        path: path.to_owned(),
        cause,
    })
}

/// Returns all bytes of standard input, up to the limit of a data file.
pub fn standard_input() -> Result<Vec<u8>, CliError> {
    read_up_to(std::io::stdin().lock(), DATA_MAX).map_err(|cause| CliError::Read {
        path: PathBuf::from("standard input"),
        cause,
    })
}

/// Returns all bytes of a text file (or of standard input: `-`). The text need not be UTF-8: node descriptions often
/// are not.
pub fn text_bytes(path: &Path) -> Result<Vec<u8>, CliError> {
    let bytes = bytes(path)?;
    if bytes.contains(&0) {
        return Err(CliError::NoText { path: path.to_owned() });
    }
    Ok(bytes)
}

/// Replaces a whole file. After an error, the old file is unchanged.
pub fn write(path: &Path, text: &str) -> Result<(), CliError> {
    replace_file(path, |file| file.write_all(text.as_bytes())).map_err(|error| not_written(path, error))
}

/// Fails if a file cannot be written. Leaves the file unchanged.
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

/// Returns the fabric of `--fabric`. Warnings about a file go to standard error.
pub fn fabric(spec: &str) -> Result<Fabric, CliError> {
    let (fabric, warnings) = fabric_and_warnings(spec)?;
    warn(warnings.iter());
    Ok(fabric)
}

/// Returns the fabric of `--fabric`, and warnings about its file.
pub fn fabric_and_warnings(spec: &str) -> Result<(Fabric, Vec<Warning>), CliError> {
    match spec.parse()? {
        Spec::Generated(recipe) => Ok((recipe.fabric()?, Vec::new())),
        Spec::File(path) => {
            let bare_word = spec != "-" && path.components().count() == 1 && path.extension().is_none();
            if bare_word && !path.exists() {
                return Err(CliError::NoFabric {
                    text: spec.to_owned(),
                    meant: Spec::nearest(spec),
                    known: Spec::examples().collect::<Vec<_>>().join(", "),
                });
            }
            let loaded = read(&path.display().to_string(), &text_bytes(&path)?)?;
            Ok((loaded.fabric, loaded.warnings))
        }
    }
}

/// Returns the fabric that `--fabric` names, and the state of its switches before a manager discovers it: the LIDs of
/// the listing, and forwarding tables from a file.
pub fn emulated(spec: &str, lfts: Option<&Path>) -> Result<(Fabric, Held), CliError> {
    let fabric = fabric(spec)?;
    let (lids, warnings) = seen_lids(&fabric);
    warn(warnings.iter());
    let Some(path) = lfts else {
        return Ok((fabric, Held { lids, tables: None }));
    };
    let known = (!lids.is_empty()).then_some(&lids);
    let found = read_lfts(&path.display().to_string(), &text_bytes(path)?, &fabric, known)?;
    warn(found.warnings.iter());
    let held = Held {
        lids: found.lids,
        tables: Some(found.tables),
    };
    Ok((fabric, held))
}

/// Returns the same fabric with the operator's names as descriptions.
pub fn named(fabric: &Fabric, names: &NodeNames) -> Fabric {
    rename(fabric, &by_guid(names))
}

/// Returns the operator's names by GUID.
pub fn by_guid(names: &NodeNames) -> BTreeMap<Guid, String> {
    names.iter().map(|(guid, name)| (guid, name.to_owned())).collect()
}

/// Prints the first few warnings, and the number of further ones.
pub fn warn(warnings: impl ExactSizeIterator<Item = impl std::fmt::Display>) {
    let count = warnings.len();
    for warning in warnings.take(WARNINGS_MAX) {
        note(format!("warning: {warning}"));
    }
    if count > WARNINGS_MAX {
        note(format!("warning: {} more", count - WARNINGS_MAX));
    }
}
