//! Commands that ask a running manager for one thing, and print its answer as text or as one JSON object.

use std::path::PathBuf;

use clap::Args;
use selvedge_api::Body;
use selvedge_http::{Client, EMULATOR_SOCKET, MANAGER_SOCKET, existing_path};

use crate::exit::CliError;
use crate::out::{JsonArg, Out};

/// Which process to ask.
#[derive(Args, Clone, Debug)]
pub struct SocketArgs {
    /// Unix socket of the process (default: the first on which one listens of /run/selvedge/selvedge.sock,
    /// $XDG_RUNTIME_DIR/selvedge/selvedge.sock and /tmp/selvedge-UID/selvedge.sock)
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,
}

impl SocketArgs {
    /// Returns a client of the manager, on the given socket or on the socket where managers listen.
    pub fn client(&self) -> Client {
        self.socket
            .as_deref()
            .map_or_else(|| Client::of_default(MANAGER_SOCKET), Client::new)
    }

    /// Returns a client of the process that emulates the fabric: `selvedge emulate` if it runs, else the manager.
    pub fn emulator(&self) -> Client {
        if let Some(path) = &self.socket {
            return Client::new(path);
        }
        let path = existing_path(EMULATOR_SOCKET);
        if path.exists() {
            Client::new(&path)
        } else {
            self.client()
        }
    }
}

/// Which manager is asked, and how its answer is printed.
#[derive(Args, Debug)]
pub struct AskArgs {
    #[command(flatten)]
    socket: SocketArgs,
    #[command(flatten)]
    format: JsonArg,
}

impl AskArgs {
    /// True if the answer and errors are printed as JSON.
    pub const fn json(&self) -> bool {
        self.format.json
    }

    /// Returns a client of the manager.
    pub fn client(&self) -> Client {
        self.socket.client()
    }

    /// Returns where the answer is printed.
    pub fn out(&self) -> Out {
        Out::new(self.format.into())
    }

    /// Prints an answer; `text` returns its lines for people.
    pub fn print<T: Body>(&self, answer: T, text: impl FnOnce(&T) -> Vec<String>) -> Result<(), CliError> {
        let mut out = self.out();
        if self.format.json {
            out.document(answer)?;
        } else {
            text(&answer).into_iter().try_for_each(|line| out.line(line))?;
        }
        out.flush()
    }
}
