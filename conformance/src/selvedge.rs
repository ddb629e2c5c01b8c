//! The subject: the `selvedge` binary.

use std::path::PathBuf;
use std::process::Command;

use crate::process::command;
use crate::{Finished, LabError, PeerLab, Running};

/// Environment variable with the path of another binary to test.
const SUBJECT: &str = "SELVEDGE";

/// Returns the binary to test: the one that `SELVEDGE` names, otherwise the one that the same build made beside this
/// test program.
pub fn binary() -> Result<PathBuf, LabError> {
    if let Some(named) = std::env::var_os(SUBJECT) {
        return Ok(PathBuf::from(named));
    }
    let own = std::env::current_exe().map_err(LabError::io("asking for", "the path of this program"))?;
    // target/debug/deps/<test> → target/debug/selvedge
    let mut folders = own.ancestors().skip(1).take(2).map(|folder| folder.join("selvedge"));
    folders.find(|file| file.is_file()).ok_or(LabError::MissingSubject)
}

impl PeerLab {
    /// Runs `selvedge` to its end, for a minute at most.
    pub fn selvedge(&self, arguments: &[&str]) -> Result<Finished, LabError> {
        self.start_selvedge(arguments)?.finish(crate::lab::CLIENT_LIMIT)
    }

    /// Starts `selvedge`.
    pub fn start_selvedge(&self, arguments: &[&str]) -> Result<Running, LabError> {
        let folder = self.sub_folder("selvedge")?;
        let mut command = self.selvedge_command()?;
        command.args(arguments).current_dir(&folder);
        Running::start(command, &folder, "selvedge")
    }

    /// Starts a `selvedge` that runs until it is stopped, with its own API socket in the lab's folder.
    pub fn start_daemon(&self, arguments: &[&str]) -> Result<Running, LabError> {
        let folder = self.sub_folder("daemon")?;
        let socket = folder.join("api.sock");
        let mut command = self.selvedge_command()?;
        command
            .args(arguments)
            .arg("--socket")
            .arg(&socket)
            .current_dir(&folder);
        Running::start(command, &folder, "selvedge")
    }

    /// Returns the text of a topology file, as `selvedge topology <verb> <spec>` writes it.
    pub fn net_file(&self, verb: &str, spec: &str) -> Result<String, LabError> {
        self.selvedge(&["topology", verb, spec, "--to", "net"])?.success()
    }

    fn selvedge_command(&self) -> Result<Command, LabError> {
        let mut command = command(&binary()?.to_string_lossy())?;
        // Nothing of the user's own configuration or state, and none is left behind.
        for variable in [
            "HOME",
            "XDG_CONFIG_HOME",
            "XDG_STATE_HOME",
            "XDG_RUNTIME_DIR",
            "XDG_CACHE_HOME",
        ] {
            command.env(variable, self.folder());
        }
        // Where OpenSM's dump files go by default.
        command.env("OSM_TMP_DIR", self.folder());
        Ok(command)
    }
}
