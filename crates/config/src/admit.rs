//! The single check of a configuration, for a start, `config check`, `--check-config` and a reload.
//!
//! [`admit`] reads all sources of the settings: the operator's file, the files that it names, and the files that flags
//! name. If it refuses a configuration for a start, every start refuses this configuration. If it refuses one when
//! called with [`Against::Running`], a reload refuses this configuration.

mod needs;
mod running;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use selvedge_plan::partition::Partitions;
use selvedge_plan::{EngineName, Policy};
use selvedge_types::{Guid, LidRange};

use crate::guid_list::read_text;
use crate::{
    ConfigError, Finding, Key, KeyName, KeyText, Settings, Treatment, opensm, parse, parse_engines, read_guids,
};

/// The operator's configuration file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SettingsFile {
    /// No file: all settings come from flags.
    #[default]
    None,
    /// A TOML file.
    Toml(PathBuf),
    /// OpenSM's file.
    OpenSm(PathBuf),
}

impl SettingsFile {
    /// Returns the path of the file.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::None => None,
            Self::Toml(path) | Self::OpenSm(path) => Some(path),
        }
    }
}

/// The content of a file that a flag names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlagFile {
    /// GUIDs of compute nodes.
    Compute,
    /// GUIDs in routing order.
    GuidOrder,
    /// LIDs by port GUID.
    Guid2lid,
    /// GUIDs of I/O nodes.
    Io,
    /// One key.
    Key(KeyName),
    /// Node names.
    NodeNames,
    /// Partitions.
    Partitions,
    /// GUIDs of roots.
    Roots,
}

/// Readers of file formats, and facts about engines, that other crates own.
#[derive(Clone, Copy, Debug)]
pub struct Readers {
    /// Reads a node name map. `Err` is the complete error.
    pub names: fn(&Path) -> Result<BTreeMap<Guid, String>, String>,
    /// Reads a guid2lid file. `Err` is the complete error.
    pub lids: fn(&Path) -> Result<LidsRead, String>,
    /// Fails if a file of the expected topology cannot be read. `Err` is the complete error.
    pub topology: fn(&Path) -> Result<(), String>,
    /// Returns why an engine refuses every fabric under this policy, with the name of the key that contradicts the
    /// engine (such as `lmc`). `None` if the result depends on the fabric.
    pub refuses: fn(&EngineName, &Policy) -> Option<String>,
}

/// The contents of a guid2lid file.
#[derive(Clone, Debug, Default)]
pub struct LidsRead {
    /// LIDs by port GUID.
    pub lids: BTreeMap<Guid, LidRange>,
    /// Contradictions, each a complete text with its code.
    pub warnings: Vec<String>,
}

/// Applies flags without a file to settings.
pub type Overrule = Arc<dyn Fn(&mut Settings) + Send + Sync>;

/// All sources of the settings. Each [`admit`] reads every file again.
#[derive(Clone)]
pub struct Sources {
    /// The operator's file.
    pub file: SettingsFile,
    /// A text that replaces the file's text.
    pub text: Option<String>,
    /// True if options that Selvedge cannot honour are skipped, so that they do not stop the start.
    pub skips_refused: bool,
    /// Engines, as the flag gives them. They override the file.
    pub engines: Option<String>,
    /// Files that flags name, each with its flag. They override the file.
    pub flags: Vec<(&'static str, FlagFile, PathBuf)>,
    /// Keys from flags or environment variables, each with its source. They override the file.
    pub keys: Vec<(KeyName, KeyText, &'static str)>,
    /// All other flags.
    pub overrule: Overrule,
    /// Readers and facts that other crates own.
    pub readers: Readers,
}

impl Sources {
    /// Returns sources without a file and without flags.
    #[must_use]
    pub fn new(readers: Readers) -> Self {
        Self {
            file: SettingsFile::None,
            text: None,
            skips_refused: false,
            engines: None,
            flags: Vec::new(),
            keys: Vec::new(),
            overrule: Arc::new(|_| {}),
            readers,
        }
    }

    /// True if a reload can find something new: a file that a key or flag names.
    #[must_use]
    pub fn has_files(&self) -> bool {
        self.file != SettingsFile::None || !self.flags.is_empty()
    }

    /// Returns the same sources, except that `text` replaces the contents of the configuration file. Relative paths in
    /// `text` start at the folder of `path`.
    #[must_use]
    pub fn with_text(&self, path: &Path, text: &str) -> Self {
        Self {
            file: match self.file {
                SettingsFile::OpenSm(_) => SettingsFile::OpenSm(path.to_owned()),
                SettingsFile::None | SettingsFile::Toml(_) => SettingsFile::Toml(path.to_owned()),
            },
            text: Some(text.to_owned()),
            ..self.clone()
        }
    }
}

/// The use for which settings are checked.
#[derive(Clone, Copy, Debug)]
pub enum Against<'a> {
    /// A manager that starts.
    Start,
    /// A manager that runs with these settings.
    Running(&'a Settings),
}

/// The result of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The operator's file.
    pub file: SettingsFile,
    /// The settings; complete only if the check passed.
    pub settings: Settings,
    /// Node names; `None` if the map cannot be read.
    pub names: Option<BTreeMap<Guid, String>>,
    /// OpenSM's `guid`: the local port; `None`: the first port that is up.
    pub port_guid: Option<Guid>,
    /// Findings about lines, flags and keys.
    pub findings: Vec<Finding>,
    skips_refused: bool,
    lost_partitions: Option<Lost>,
    /// The line of each key that the file sets.
    lines: BTreeMap<String, usize>,
}

/// The reasons for which a file gives no partitions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Lost {
    /// The file does not exist.
    Gone,
    /// The file exists and has no statement.
    Emptied(PathBuf),
}

/// Checks all sources of the settings.
#[must_use]
pub fn admit(sources: &Sources, against: Against<'_>) -> Verdict {
    let mut verdict = Verdict::of_file(sources);
    let of_file = verdict.settings.clone();
    for (flag, what, path) in &sources.flags {
        verdict.take_file(flag, *what, path, sources.readers);
    }
    for (name, text, from) in &sources.keys {
        if let Err(error) = name.set(&mut verdict.settings, text, from) {
            verdict.findings.push(Finding::wrong(0, from, "", &error));
        }
    }
    if let Some(text) = &sources.engines {
        verdict.take_engines(text);
    }
    (sources.overrule)(&mut verdict.settings);
    verdict.forget_overruled(&of_file);
    verdict.read_names(sources);
    verdict.read_expected(sources.readers);
    let gives_m_key = verdict.gives_m_key(sources);
    verdict.probe(!gives_m_key && matches!(against, Against::Start));
    verdict.try_engines(sources.readers);
    if let Against::Running(settings) = against {
        verdict.compare(settings, gives_m_key);
    }
    verdict
}

impl Verdict {
    /// True if the start or reload in question accepts the settings.
    #[must_use]
    pub fn is_ok(&self) -> bool {
        self.stops().next().is_none()
    }

    /// Returns the findings that stop a start or a reload.
    pub fn stops(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|found| match found.treatment {
            Treatment::Wrong | Treatment::NotNow => true,
            Treatment::Refused => !self.skips_refused,
            _ => false,
        })
    }

    /// Adds an error about a flag that gives no setting.
    pub fn refuse_flag(&mut self, flag: &str, error: String) {
        let why = error
            .split_once(": ")
            .map_or(error.as_str(), |(_, rest)| rest)
            .to_owned();
        let found = Finding::new(0, flag, "", Treatment::Wrong, why);
        self.findings.push(Finding { error, ..found });
    }

    /// Returns the options that Selvedge cannot honour.
    pub fn refused(&self) -> impl Iterator<Item = &Finding> {
        self.findings
            .iter()
            .filter(|found| found.treatment == Treatment::Refused)
    }

    /// Returns the findings that prevent nothing, but that an operator should know.
    pub fn warnings(&self) -> impl Iterator<Item = &Finding> {
        let is_warning = |found: &&Finding| matches!(found.treatment, Treatment::Unknown | Treatment::Warned);
        self.findings.iter().filter(is_warning)
    }

    /// Returns the errors of all findings that stop a start or a reload, in one line; `None` if there are none.
    #[must_use]
    pub fn error(&self) -> Option<String> {
        let errors: Vec<&str> = self.stops().map(|found| found.error.as_str()).collect();
        (!errors.is_empty()).then(|| errors.join(" | "))
    }

    /// Returns the keys that keep their values until the next start.
    pub fn at_next_start(&self) -> impl Iterator<Item = &Finding> {
        let is_later = |found: &&Finding| found.treatment == Treatment::NextStart;
        self.findings.iter().filter(is_later)
    }

    fn of_file(sources: &Sources) -> Self {
        let mut verdict = Self {
            file: sources.file.clone(),
            settings: Settings::default(),
            names: Some(BTreeMap::new()),
            port_guid: None,
            findings: Vec::new(),
            skips_refused: sources.skips_refused,
            lost_partitions: None,
            lines: BTreeMap::new(),
        };
        let Some(path) = sources.file.path() else {
            return verdict;
        };
        let text = match sources.text.clone().map_or_else(|| read_text(path), Ok) {
            Ok(text) => text,
            Err(error) => {
                let found = Finding::wrong(0, "file", &path.display().to_string(), &error);
                verdict.findings.push(found);
                return verdict;
            }
        };
        if let SettingsFile::OpenSm(path) = &sources.file {
            let conf = opensm::load(&text, path);
            verdict.port_guid = conf.port_guid;
            verdict.settings = conf.settings;
            verdict.findings = conf.findings;
            verdict.lost_partitions = conf.lost_partitions;
            let lines = verdict.findings.iter().filter(|found| found.line > 0);
            verdict.lines = lines
                .filter_map(|found| Some((found.key?.to_owned(), found.line)))
                .collect();
            for found in verdict
                .findings
                .iter_mut()
                .filter(|f| f.treatment == Treatment::Refused)
            {
                found.error = cannot_be_done(path, found);
            }
        } else {
            let read = parse::read_all(&text, path);
            let is_empty = text.trim().is_empty();
            verdict.lost_partitions = is_empty.then(|| Lost::Emptied(path.to_owned()));
            verdict.settings = read.settings;
            verdict.lines = read.lines;
            let wrong = |(line, name, error): &(usize, String, ConfigError)| Finding::wrong(*line, name, "", error);
            verdict.findings.extend(read.errors.iter().map(wrong));
            let old = |&(line, old, new): &(usize, &str, &str)| {
                let why = format!("[{old}] is an old name of [{new}]; write [{new}]");
                Finding::new(line, old, "", Treatment::Warned, why)
            };
            verdict.findings.extend(read.old_sections.iter().map(old));
        }
        if verdict.settings.holds_keys() {
            verdict.warn_of_readers("keys", path);
        }
        verdict
    }

    /// True if the file or a flag names an M_Key, 0 included.
    fn gives_m_key(&self, sources: &Sources) -> bool {
        let is_file = |(_, what, _): &(&str, FlagFile, PathBuf)| *what == FlagFile::Key(KeyName::MKey);
        let is_key = |(name, ..): &(KeyName, KeyText, &str)| *name == KeyName::MKey;
        let by_flag = sources.flags.iter().any(is_file) || sources.keys.iter().any(is_key);
        by_flag || self.lines.contains_key("keys.m_key")
    }

    /// Applies a file that a flag names.
    fn take_file(&mut self, flag: &'static str, what: FlagFile, path: &Path, readers: Readers) {
        let policy = &mut self.settings.policy;
        let list = match what {
            FlagFile::Compute => &mut policy.compute,
            FlagFile::GuidOrder => &mut policy.guid_order,
            FlagFile::Io => &mut policy.io,
            FlagFile::Roots => &mut policy.roots,
            FlagFile::NodeNames => return self.settings.daemon.node_name_map = Some(path.to_owned()),
            FlagFile::Partitions => return self.take_partitions(flag, path),
            FlagFile::Key(name) => return self.take_key(flag, name, path),
            FlagFile::Guid2lid => {
                match (readers.lids)(path) {
                    Ok(LidsRead { lids, warnings }) => {
                        policy.known_lids = lids;
                        let value = path.display().to_string();
                        let found = |why| Finding::new(0, flag, &value, Treatment::Warned, why);
                        self.findings.extend(warnings.into_iter().map(found));
                    }
                    Err(error) => self.findings.push(stop(flag, path, error)),
                }
                return;
            }
        };
        match read_guids(path) {
            Ok(guids) => *list = guids,
            Err(error) => self.findings.push(stop(flag, path, error.to_string())),
        }
    }

    /// Applies the key in a file.
    fn take_key(&mut self, flag: &'static str, name: KeyName, path: &Path) {
        let text = read_text(path).map(KeyText::new);
        let set = text.and_then(|text| name.set(&mut self.settings, &text, &path.display().to_string()));
        match set {
            Ok(()) => self.warn_of_readers(flag, path),
            Err(error) => self.findings.push(stop(flag, path, error.to_string())),
        }
    }

    /// Warns if every user may read a file that holds keys.
    fn warn_of_readers(&mut self, name: &str, path: &Path) {
        let mode = fs::metadata(path).map_or(0, |meta| meta.mode());
        if mode & OTHERS_READ != 0 {
            let why = ConfigError::OthersRead { path: path.to_owned() }.to_string();
            self.findings.push(Finding::new(0, name, "", Treatment::Warned, why));
        }
    }

    fn take_partitions(&mut self, flag: &'static str, path: &Path) {
        let read = match partitions(path) {
            Ok(read) => read,
            Err(error) => return self.findings.push(stop(flag, path, error.to_string())),
        };
        self.settings.policy.partitions = Arc::new(read.partitions);
        if let Some(lost) = &read.lost {
            let value = path.display().to_string();
            let found = Finding::new(0, flag, &value, Treatment::Warned, lost.in_words());
            self.findings.push(found);
        }
        self.lost_partitions = read.lost;
    }

    /// Applies the engines of `-R`.
    fn take_engines(&mut self, text: &str) {
        const FLAG: &str = "-R";
        let error = |what: String| ConfigError::Engine {
            place: FLAG.to_owned(),
            what,
        };
        let list = match parse_engines(text) {
            Ok(list) if list.fork.is_empty() => list,
            Ok(list) => {
                return self
                    .findings
                    .push(Finding::wrong(0, FLAG, text, &error(list.fork.join("; "))));
            }
            Err(what) => return self.findings.push(Finding::wrong(0, FLAG, text, &error(what))),
        };
        if !list.notes.is_empty() {
            let found = Finding::new(0, FLAG, text, Treatment::Mapped, list.notes.join("; "));
            self.findings.push(found);
        }
        self.settings.policy.engines = match list.engines.is_empty() {
            true => Policy::default().engines,
            false => list.engines,
        };
    }

    /// Reads the map of node names. A missing map stops nothing, because names are for people only.
    fn read_names(&mut self, sources: &Sources) {
        let Some(path) = self.settings.daemon.node_name_map.clone() else {
            return;
        };
        match (sources.readers.names)(&path) {
            Ok(names) => {
                if names.is_empty() {
                    let why = format!("{} names no node", path.display());
                    self.judge("daemon.node_name_map", Treatment::Warned, why, String::new());
                }
                self.names = Some(names);
            }
            Err(error) => {
                self.names = None;
                let why = format!("{error}; until then nodes have the names that they give themselves");
                self.judge("daemon.node_name_map", Treatment::Warned, why, String::new());
            }
        }
    }

    /// Removes the line numbers of keys that flags overrule.
    fn forget_overruled(&mut self, of_file: &Settings) {
        let settings = &self.settings;
        let is_kept = |key: &&Key| key.value(of_file) == key.value(settings);
        let kept: Vec<String> = Key::ALL.iter().filter(is_kept).map(Key::path).collect();
        self.lines.retain(|key, _| kept.contains(key));
    }

    /// Changes the verdict of the line that sets a key. If no line sets it, adds a finding.
    fn judge(&mut self, key: &str, treatment: Treatment, why: String, error: String) {
        let line = self.lines.get(key).copied().unwrap_or_default();
        let is_of_key = |found: &&mut Finding| {
            let is_good = !matches!(
                found.treatment,
                Treatment::Wrong | Treatment::Refused | Treatment::Unknown
            );
            found.key == Some(key) && found.line > 0 && found.line == line && is_good
        };
        if let Some(found) = self.findings.iter_mut().rfind(is_of_key) {
            (found.treatment, found.why, found.error) = (treatment, why, error);
            return;
        }
        let found = Finding::new(line, key, "", treatment, why);
        self.findings.push(Finding { error, ..found });
    }
}

/// Permission bit: users other than the owner and its group may read the file.
const OTHERS_READ: u32 = 0o004;

impl Lost {
    /// Returns the consequence for a start, as text.
    pub(crate) const fn in_words(&self) -> &'static str {
        match self {
            Self::Gone => {
                "this file is not there: as with OpenSM, every port is a full member of the default partition"
            }
            Self::Emptied(_) => "this file names no partition: every port is a limited member of the default partition",
        }
    }
}

/// The content of a partition file.
pub(crate) struct ReadPartitions {
    pub(crate) partitions: Partitions,
    pub(crate) lost: Option<Lost>,
}

/// Reads a file of partitions. A missing or empty file gives the default partition.
pub(crate) fn partitions(path: &Path) -> Result<ReadPartitions, ConfigError> {
    let is_missing = fs::metadata(path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
    let (partitions, lost) = match is_missing {
        true => (Partitions::default(), Some(Lost::Gone)),
        false => {
            let partitions = crate::read_partitions(path)?;
            let is_empty = partitions.statements.is_empty();
            (partitions, is_empty.then(|| Lost::Emptied(path.to_owned())))
        }
    };
    Ok(ReadPartitions { partitions, lost })
}

/// Returns the error for an option that Selvedge cannot honour.
fn cannot_be_done(path: &Path, found: &Finding) -> String {
    let error = ConfigError::Value {
        path: path.to_owned(),
        line: found.line,
        key: found.name.clone(),
        want: "a value that can be honoured, as --check-config shows (or start with --skip-refused)",
        found: found.value.clone(),
    };
    error.to_string()
}

fn stop(flag: &str, path: &Path, error: String) -> Finding {
    let why = error
        .split_once(": ")
        .map_or(error.as_str(), |(_, rest)| rest)
        .to_owned();
    let found = Finding::new(0, flag, &path.display().to_string(), Treatment::Wrong, why);
    Finding { error, ..found }
}
