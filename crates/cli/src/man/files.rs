//! Files that manual pages name.

/// A file that a page names.
#[derive(Clone, Copy, Debug)]
pub struct File {
    /// Path of the file, or the form of its path.
    pub path: &'static str,
    /// Contents of the file.
    pub what: &'static str,
}

/// Returns a file by its path and contents.
pub const fn file(path: &'static str, what: &'static str) -> File {
    File { path, what }
}

/// Settings.
pub const TOML: File = file("/etc/selvedge/selvedge.toml", "Settings; see selvedge.toml(5).");
/// Flags of the service.
pub const OPTIONS: File = file(
    "/etc/default/selvedge",
    "Flags of the system service, in SELVEDGE_OPTIONS.",
);
/// The manager's socket.
pub const SOCKET: File = file(
    "/run/selvedge/selvedge.sock",
    "The manager's socket; without rights there, $XDG_RUNTIME_DIR/selvedge/selvedge.sock or \
     /tmp/selvedge-UID/selvedge.sock.",
);
/// The emulator's socket.
pub const EMULATOR: File = file(
    "/run/selvedge/emulator.sock",
    "The socket of selvedge emulate, in the same folders.",
);
/// The state folder.
pub const STATE: File = file(
    "/var/lib/selvedge",
    "State between runs (--state): LIDs in guid2lid, plan-state.toml, registrations.txt.",
);
/// Log files.
pub const LOG: File = file(
    "/var/log/selvedge",
    "Log files of the system service; see daemon.log_file.",
);
/// OpenSM's settings.
pub const OPENSM: File = file("/etc/opensm/opensm.conf", "OpenSM's settings, with -F.");
/// A fabric.
pub const FABRIC: File = file("SPEC", "A fabric: an ibsim net file, or the output of ibnetdiscover.");
/// Forwarding tables.
pub const LFTS: File = file(
    "lfts.dump",
    "Forwarding tables: OpenSM's dump, or the output of ibroute or dump_fts.",
);
/// LIDs.
pub const GUID2LID: File = file(
    "guid2lid",
    "LIDs by port GUID, as OpenSM writes them: 0xGUID 0xMIN 0xMAX.",
);
/// A metric selection file.
pub const SELECTION: File = file(
    "metrics.conf",
    "Names of metrics, one a line, as in LDMS; # disables a line.",
);
/// Names of nodes.
pub const NAMES: File = file("node-name-map", "Names of nodes: lines of 0xGUID \"name\".");
/// Manual pages.
pub const PAGES: File = file("/usr/share/man/man1", "Where packages install the pages of commands.");
/// A record.
pub const RECORD: File = file("FILE", "A record of selvedge run --record; it holds the subnet's keys.");
/// The expected topology.
pub const EXPECTED: File = file(
    "FILE",
    "The expected topology, in the format of ibnetdiscover; replaced as a whole.",
);
/// No file.
pub const NO_FILE: File = file("(none)", "This command reads no file.");
