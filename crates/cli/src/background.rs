//! `run -B`: starts the program again without a terminal, and reports whether that start succeeded.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::net::Shutdown;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};

use selvedge_config::Settings;
use selvedge_daemon::LogFile;

use crate::exit::{CliError, Exit};
use crate::out::note;

/// Environment variable of the background process. Its standard input is a socket, on which it reports its start.
const IN_BACKGROUND: &str = "SELVEDGE_IN_BACKGROUND";
/// The report of a manager that has opened its port, its socket and its state.
const STARTED: &str = "started";

/// Starts this program again with the same arguments, in its own process group and without a terminal. Waits until that
/// process has started or failed. Returns how this process must exit; `None` in the background process itself.
pub fn begin(settings: &Settings) -> Result<Option<Exit>, CliError> {
    if is_inside() {
        return Ok(None);
    }
    let failed = |cause| CliError::Background { cause };
    let errors = match &settings.daemon.log_file {
        Some(path) => {
            LogFile::open(path)?;
            Stdio::from(File::options().append(true).open(path).map_err(failed)?)
        }
        None => {
            note("selvedge: warning: the log is lost; -f FILE keeps it");
            Stdio::null()
        }
    };
    let (mut report, theirs) = UnixStream::pair().map_err(failed)?;
    let child = spawn(OwnedFd::from(theirs), errors).map_err(failed)?;
    let mut said = String::new();
    report.read_to_string(&mut said).map_err(failed)?;
    ended(child, said.trim_end()).map_err(failed).map(Some)
}

/// Starts the process. On return, this process has closed its end of the report: only the background process holds one.
fn spawn(report: OwnedFd, errors: Stdio) -> io::Result<Child> {
    Command::new(std::env::current_exe()?)
        .args(std::env::args_os().skip(1))
        .env(IN_BACKGROUND, "1")
        .stdin(report)
        .stdout(Stdio::null())
        .stderr(errors)
        .process_group(0)
        .spawn()
}

fn ended(mut child: Child, said: &str) -> io::Result<Exit> {
    if said == STARTED {
        note(format!("selvedge: runs in the background as process {}", child.id()));
        return Ok(Exit::Good);
    }
    let status = child.wait()?;
    if said.is_empty() {
        return Err(io::Error::other(format!("the process ended at once ({status})")));
    }
    note(said);
    Ok(exit_of(status))
}

fn exit_of(status: ExitStatus) -> Exit {
    let all = [Exit::NotGood, Exit::NoFabric, Exit::Refused, Exit::Interrupted];
    let found = all.into_iter().find(|exit| Some(*exit as i32) == status.code());
    found.unwrap_or(Exit::Usage)
}

/// Reports to the waiting foreground process, if there is one, that the manager has started.
pub fn started() {
    report(STARTED);
}

/// Reports to the foreground process why the manager could not start. After [`started`] the report has no reader.
pub fn not_started(why: &str) {
    report(why);
}

fn report(text: &str) {
    if !is_inside() {
        return;
    }
    let Ok(input) = io::stdin().as_fd().try_clone_to_owned() else {
        return;
    };
    let mut stream = UnixStream::from(input);
    // The foreground process may have ended meanwhile; the manager continues.
    let _ = writeln!(stream, "{text}");
    let _ = stream.shutdown(Shutdown::Both);
}

fn is_inside() -> bool {
    std::env::var_os(IN_BACKGROUND).is_some()
}
