//! Checks what a start needs besides the settings: files, folders and a socket that can be written, readable state, and
//! an engine that can route.

use std::io;
use std::path::{Path, PathBuf};

use selvedge_store::{can_create_in, can_have_folder, check_state};

use super::{Readers, Verdict};
use crate::{ConfigError, Treatment, probe};

const STATE: &str = "daemon.state_dir";
const DUMPS: &str = "daemon.dump_dir";
const ENGINES: &str = "routing.engines";
const M_KEY: &str = "an earlier run gave ports an M_Key, and nothing names one: a start takes it from every port; put \
    the key back, or write m_key = 0 to say that this is meant";
const EXPECTED: &str = "fabric.expected";

impl Verdict {
    /// Finds files and folders that a start could not write, and state that it could not read. A manager runs without
    /// dump files, so a folder for them that cannot be written to is only a warning. `takes_m_key`: no source names an
    /// M_Key, and a start takes it from all ports.
    pub(super) fn probe(&mut self, takes_m_key: bool) {
        type Probe = fn(&Path) -> io::Result<()>;
        let daemon = &self.settings.daemon;
        let probes: [(&'static str, &Option<PathBuf>, Probe); 3] = [
            ("daemon.log_file", &daemon.log_file, probe::file),
            (STATE, &daemon.state_dir, can_have_folder),
            ("daemon.socket", &daemon.socket, probe::socket),
        ];
        let failed = probes.into_iter().filter_map(|(key, path, probe)| {
            let path = path.clone()?;
            let cause = match path.as_os_str().is_empty() {
                true => io::Error::new(io::ErrorKind::InvalidInput, "the path is empty"),
                false => probe(&path).err()?,
            };
            let place = self.place(key);
            let error = ConfigError::NotWritable {
                place,
                key,
                path,
                cause,
            };
            Some((key, error.to_string()))
        });
        let failed: Vec<_> = failed.collect();
        let has_folder = failed.iter().all(|(key, _)| *key != STATE);
        for (key, error) in failed {
            self.refuse(key, error);
        }
        let dumps = self.settings.daemon.dump_dir.clone();
        if let Some((folder, Err(cause))) = dumps.map(|folder| (folder.clone(), can_create_in(&folder))) {
            let why = format!("no dump file can be written to {}: {cause}", folder.display());
            self.judge(DUMPS, Treatment::Warned, why, String::new());
        }
        let folder = self.settings.daemon.state_dir.clone();
        let checked = folder.filter(|_| has_folder).map(|folder| check_state(&folder));
        match checked {
            None => {}
            Some(Err(error)) => self.refuse(STATE, error.to_string()),
            Some(Ok(state)) if state.has_m_key && takes_m_key && self.settings.policy.m_key == 0 => {
                self.judge("keys.m_key", Treatment::Warned, M_KEY.to_owned(), String::new());
            }
            Some(Ok(_)) => {}
        }
    }

    /// Reads the expected topology. A manager that must compare the fabric with it does not start without it.
    pub(super) fn read_expected(&mut self, readers: Readers) {
        let path = self.settings.daemon.expected.as_deref();
        if let Some(Err(error)) = path.map(readers.topology) {
            let error = ConfigError::Unread {
                place: self.place(EXPECTED),
                key: EXPECTED,
                error,
            };
            self.refuse(EXPECTED, error.to_string());
        }
    }

    /// Finds engines that refuse every fabric under the other settings. If another engine of the list remains, this is
    /// only a warning.
    pub(super) fn try_engines(&mut self, readers: Readers) {
        let policy = &self.settings.policy;
        let engines = policy.engines.iter();
        let refused: Vec<String> = engines.filter_map(|name| (readers.refuses)(name, policy)).collect();
        let what = refused.join("; ");
        match refused.len() {
            0 => {}
            count if count < policy.engines.len() => {
                let why = format!("{what}; the other engines of the list are tried");
                self.judge(ENGINES, Treatment::Warned, why, String::new());
            }
            _ => {
                let error = ConfigError::Contradiction {
                    place: self.place(ENGINES),
                    what: format!("{what}; or name another engine, as updn"),
                };
                self.refuse(ENGINES, error.to_string());
            }
        }
    }

    /// Adds an error about a key.
    fn refuse(&mut self, key: &'static str, error: String) {
        let why = error
            .split_once(": ")
            .map_or(error.as_str(), |(_, rest)| rest)
            .to_owned();
        self.judge(key, Treatment::Wrong, why, error);
    }

    /// Returns `FILE, line N: ` for a key with the value of that line, else an empty text.
    fn place(&self, key: &str) -> String {
        match (self.file.path(), self.lines.get(key)) {
            (Some(file), Some(line)) => format!("{}, line {line}: ", file.display()),
            _ => String::new(),
        }
    }
}
