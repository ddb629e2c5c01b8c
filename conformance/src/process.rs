//! Peers as child processes. Their output goes into files, and they end whatever happens to the test.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::time::Duration;

use crate::{LabError, until};

/// Bytes of output that an error shows.
const TAIL: usize = 4000;

/// Debian packages of the peers.
const PACKAGES: [(&str, &str); 3] = [
    ("opensm", "opensm"),
    ("ibsim", "ibsim-utils"),
    ("libumad2sim.so", "libumad2sim0"),
];

/// Returns the package of `program`. A program that is not listed is in the package of the diagnostics.
pub(crate) fn package_of(program: &str) -> &'static str {
    PACKAGES
        .iter()
        .find(|&&(known, _)| known == program)
        .map_or("infiniband-diags", |&(_, package)| package)
}

/// Finds a program as a shell does, and also in the sbin folders: peers are installed there, and not every user's path
/// has these folders.
pub(crate) fn find_program(program: &str) -> Result<PathBuf, LabError> {
    if program.contains('/') {
        return Ok(PathBuf::from(program));
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let sbin = ["/usr/sbin", "/sbin"].map(PathBuf::from);
    std::env::split_paths(&path)
        .chain(sbin)
        .map(|folder| folder.join(program))
        .find(|file| file.is_file())
        .ok_or_else(|| LabError::MissingPeer {
            program: program.to_owned(),
            package: package_of(program),
        })
}

/// Makes a command that the kernel ends when the thread that starts it ends, even if that thread is killed.
///
/// ibsim spins for ever once its input is gone, so a test that dies must not leave it behind. `setpriv` replaces itself
/// by the program, so the process id stays the same.
pub(crate) fn command(program: &str) -> Result<Command, LabError> {
    let program = find_program(program)?;
    Ok(match find_program("setpriv") {
        Ok(setpriv) => {
            let mut command = Command::new(setpriv);
            command.args(["--pdeathsig", "KILL"]).arg(program);
            command
        }
        Err(_) => Command::new(program),
    })
}

/// How a command ended.
#[derive(Clone, Debug)]
pub struct Finished {
    /// Name and arguments of the command.
    pub command: String,
    /// Exit status.
    pub status: ExitStatus,
    /// What the command wrote to standard output.
    pub stdout: String,
    /// What the command wrote to standard error.
    pub stderr: String,
}

impl Finished {
    /// Returns standard output if the status is 0, otherwise an error with all output.
    pub fn success(self) -> Result<String, LabError> {
        if self.status.success() {
            return Ok(self.stdout);
        }
        Err(LabError::Failed {
            command: self.command,
            status: self.status.to_string(),
            output: tail(&format!("{}{}", self.stdout, self.stderr)),
        })
    }
}

/// A child process; killed when dropped.
pub struct Running {
    text: String,
    child: Child,
    stdout: PathBuf,
    stderr: PathBuf,
}

impl Running {
    /// Starts `command` with its output in files of `folder` named after `label`.
    pub(crate) fn start(mut command: Command, folder: &Path, label: &str) -> Result<Self, LabError> {
        let file = |end: &str| folder.join(format!("{label}.{end}"));
        let open = |path: &PathBuf| File::create(path).map_err(LabError::io("creating", path.display()));
        let (stdout, stderr) = (file("out"), file("err"));
        let text = text_of(&command);
        command
            .stdout(open(&stdout)?)
            .stderr(open(&stderr)?)
            .stdin(Stdio::piped());
        let child = command.spawn().map_err(LabError::io("starting", &text))?;
        Ok(Self {
            text,
            child,
            stdout,
            stderr,
        })
    }

    /// Process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns the input of the process. It stays open until this value is dropped or the input is taken.
    pub(crate) fn input(&mut self) -> Option<&mut ChildStdin> {
        self.child.stdin.as_mut()
    }

    /// Returns what the process wrote to standard output so far.
    #[must_use]
    pub fn stdout(&self) -> String {
        read(&self.stdout)
    }

    /// Returns the end of standard output and of standard error, for errors.
    #[must_use]
    pub fn output_tail(&self) -> String {
        tail(&format!("{}{}", read(&self.stdout), read(&self.stderr)))
    }

    /// True while the process runs.
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Waits until the process ends by itself, at most `limit`. After `limit` the process is killed, and an error is
    /// returned.
    pub fn finish(mut self, limit: Duration) -> Result<Finished, LabError> {
        let (stdout, stderr) = (self.stdout.clone(), self.stderr.clone());
        let output = || tail(&format!("{}{}", read(&stdout), read(&stderr)));
        let what = format!("'{}' to end", self.text);
        let status = until(&what, limit, output, || {
            self.child.try_wait().map_err(LabError::io("waiting for", &self.text))
        })?;
        Ok(Finished {
            command: self.text.clone(),
            status,
            stdout: read(&self.stdout),
            stderr: read(&self.stderr),
        })
    }

    /// Returns an error if the process no longer runs, so that a wait for its output can end early.
    pub fn must_run(&mut self) -> Result<(), LabError> {
        match self.child.try_wait().map_err(LabError::io("waiting for", &self.text))? {
            None => Ok(()),
            Some(status) => Err(LabError::Failed {
                command: self.text.clone(),
                status: status.to_string(),
                output: self.output_tail(),
            }),
        }
    }

    /// Sends a signal by its name, for example `HUP`, to the process.
    pub fn signal(&self, name: &str) -> Result<(), LabError> {
        let mut kill = Command::new(find_program("kill")?);
        kill.args([format!("-{name}"), self.pid().to_string()]);
        let status = kill.status().map_err(LabError::io("signalling", &self.text))?;
        if status.success() {
            return Ok(());
        }
        Err(LabError::Failed {
            command: text_of(&kill),
            status: status.to_string(),
            output: self.output_tail(),
        })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail only if it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read(path: &Path) -> String {
    fs::read(path).map_or_else(|_| String::new(), |bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// Returns the last bytes of a text, from the start of a line.
pub(crate) fn tail(text: &str) -> String {
    let mut from = text.len().saturating_sub(TAIL);
    while !text.is_char_boundary(from) {
        from += 1;
    }
    text[from..].to_owned()
}

fn text_of(command: &Command) -> String {
    let name = command.get_program().to_string_lossy().into_owned();
    let arguments = command
        .get_args()
        .map(|argument| argument.to_string_lossy().into_owned());
    let mut words: Vec<_> = std::iter::once(name).chain(arguments).collect();
    if words.first().is_some_and(|first| first.ends_with("/setpriv")) {
        words.drain(..3.min(words.len()));
    }
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PeerLab;

    #[test]
    fn a_missing_peer_names_its_package() {
        let check = |program: &str, want: &str| {
            let error = find_program(program).map(drop).err().map(|error| error.to_string());
            assert_eq!(package_of(program), want);
            // Installed or not, this one never is.
            assert!(error.is_none_or(|text| text.contains(want)), "{program}");
        };
        check("opensm", "opensm");
        check("ibsim", "ibsim-utils");
        check("no-such-diagnostic", "infiniband-diags");
        let text = find_program("no-such-diagnostic").unwrap_err().to_string();
        assert!(
            text.contains("SLV-LAB-0001") && text.contains("infiniband-diags"),
            "{text}"
        );
    }

    #[test]
    fn children_end_with_their_owner() {
        let lab = PeerLab::new().unwrap();
        let mut sleep = command("sleep").unwrap();
        sleep.arg("1000");
        let running = Running::start(sleep, lab.folder(), "sleep").unwrap();
        let process = PathBuf::from(format!("/proc/{}", running.pid()));
        assert!(process.exists());
        drop(running);
        assert!(!process.exists());
    }

    #[test]
    fn failures_show_output() {
        let lab = PeerLab::new().unwrap();
        let mut shell = command("sh").unwrap();
        shell.args(["-c", "echo said; echo cried >&2; exit 3"]);
        let finished = Running::start(shell, lab.folder(), "sh")
            .unwrap()
            .finish(Duration::from_secs(20))
            .unwrap();
        let text = finished.success().unwrap_err().to_string();
        assert!(
            text.contains("said") && text.contains("cried") && text.contains("exit status: 3"),
            "{text}"
        );
    }
}
