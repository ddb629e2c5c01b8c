//! Exit codes, and errors that carry one. The codes are a contract: docs/contracts.md.

use std::io;
use std::path::PathBuf;

use selvedge_api::{Document, Error as ApiError};
use selvedge_config::ConfigError;
use selvedge_daemon::DaemonError;
use selvedge_emulator::EmulatorError;
use selvedge_http::HttpError;
use selvedge_planner::lid::OutOfLids;
use selvedge_rehearsal::soak::ScheduleError;
use selvedge_routing::EngineError;
use selvedge_study::StudyError;
use selvedge_topology::{DumpError, FileError, SpecError};
use selvedge_transport::PortSpecError;
use selvedge_transport::ibsim::ServerError;
use selvedge_wire::DecodeError;

/// How a command ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Done, and the answer is good.
    Good = 0,
    /// Done, and the answer is not good.
    NotGood = 1,
    /// Not started: wrong usage or bad input.
    Usage = 2,
    /// No fabric, or no process to ask.
    NoFabric = 3,
    /// Refused, and nothing was changed.
    Refused = 4,
    /// Interrupted by the user.
    Interrupted = 130,
}

impl Exit {
    /// Returns the exit of `selvedge health`, which has the codes of Nagios plugins: 1 WARNING, 2 CRITICAL, 3 UNKNOWN.
    pub const fn of_nagios(code: u8) -> Self {
        match code {
            0 => Self::Good,
            1 => Self::NotGood,
            2 => Self::Usage,
            _ => Self::NoFabric,
        }
    }
}

/// The reasons for which a command could not do its work.
#[derive(Debug, thiserror::Error)]
pub enum CliError {
    /// The reader of the output has gone, so there is nothing to report.
    #[error("standard output is closed")]
    Closed,
    /// SLV-CLI-0040: a write to standard output failed.
    #[error(
        "SLV-CLI-0040: cannot write to standard output: {cause}; the output is not complete; run the command again"
    )]
    Output {
        /// The cause that the operating system reports.
        cause: io::Error,
    },
    /// SLV-CLI-0001: a file cannot be read.
    #[error("SLV-CLI-0001: cannot read {}: {cause}; name a readable file", path.display())]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// The error of the operating system.
        cause: io::Error,
    },
    /// SLV-CLI-0005: the text is neither a generator nor a file.
    #[error("SLV-CLI-0005: '{text}' is neither a fabric that can be generated nor a file{meant}; known: {known}")]
    NoFabric {
        /// The given text.
        text: String,
        /// `; did you mean '…'?`, or empty.
        meant: String,
        /// Examples of fabrics that can be generated.
        known: String,
    },
    /// SLV-CLI-0002: a file cannot be written.
    #[error("SLV-CLI-0002: cannot write {}: {cause}; name a file in a folder that exists", path.display())]
    Write {
        /// Path of the file.
        path: PathBuf,
        /// The error of the operating system.
        cause: io::Error,
    },
    /// SLV-CLI-0003: the text is not a datagram in hexadecimal.
    #[error("SLV-CLI-0003: {place}: {what}; want 512 hexadecimal digits, the 256 bytes of a MAD")]
    NoHex {
        /// Place of the text.
        place: String,
        /// The problem.
        what: String,
    },
    /// SLV-CLI-0009: a line of hop weights cannot be read.
    #[error("SLV-CLI-0009: {}: switch {switch}: want a port and its weight after the GUID", path.display())]
    NoWeight {
        /// Path of the file.
        path: PathBuf,
        /// GUID at the start of the line.
        switch: selvedge_types::Guid,
    },
    /// SLV-CLI-0010: a chart cannot be drawn.
    #[error("SLV-CLI-0010: the chart cannot be drawn: {cause}; leave --svg out")]
    Chart {
        /// The error of the plotting library.
        cause: String,
    },
    /// SLV-CLI-0011: the forwarding tables of some switches are missing or cut short, but the command needs all tables.
    #[error(
        "SLV-CLI-0011: {}: the tables of {switches} switches are not known, so no change can be computed: {first}; \
         give the tables of all switches",
        path.display()
    )]
    NotWhole {
        /// Path of the file.
        path: PathBuf,
        /// Switches without a table, or with a truncated one.
        switches: usize,
        /// The reader's message about the first of these switches.
        first: String,
    },
    /// SLV-CLI-0060: the file to write is the topology of another fabric.
    #[error(
        "SLV-CLI-0060: {} is of another fabric ({why}), so it was not replaced; name another file, or remove this one",
        path.display()
    )]
    OtherTopology {
        /// Path of the file.
        path: PathBuf,
        /// The message of the reader.
        why: String,
    },
    /// SLV-CLI-0061: the manager's answers about nodes and ports disagree.
    #[error("SLV-CLI-0061: the fabric changes while it is read: {why}; try again when it is stable")]
    Unsteady {
        /// The contradiction.
        why: String,
    },
    /// SLV-CLI-0021: the program that runs the benchmarks is not there.
    #[error("SLV-CLI-0021: cannot run selvedge-bench: {cause}; build it beside selvedge with 'make bench'")]
    NoBench {
        /// The error of the operating system.
        cause: io::Error,
    },
    /// An unknown kind of finding.
    #[error("{cause}{meant}")]
    UnknownKind {
        /// The judge's error.
        cause: selvedge_verify::UnknownKind,
        /// `; did you mean '…'?`, or empty.
        meant: String,
    },
    /// SLV-CLI-0006: a file is not text.
    #[error("SLV-CLI-0006: {} is not text; name a text file", path.display())]
    NoText {
        /// Path of the file.
        path: PathBuf,
    },
    /// SLV-CLI-0007: the command line cannot be parsed.
    #[error("SLV-CLI-0007: {what}; see --help")]
    Usage {
        /// The problem.
        what: String,
    },
    /// Bytes that are no MAD.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// SLV-CLI-0063: a file of UFM's bandwidths is refused.
    #[error("SLV-CLI-0063: {}: {cause}", path.display())]
    Ufm {
        /// Path of the file.
        path: PathBuf,
        /// What is wrong with it.
        cause: selvedge_qos::ufm::UfmError,
    },
    /// SLV-CLI-0062: no job has this name.
    #[error("SLV-CLI-0062: no job called '{id}' runs or waits; 'selvedge job list' shows all")]
    NoSuchJob {
        /// The name.
        id: String,
    },
    /// SLV-CLI-0030: an `opensm.conf` has settings that Selvedge does not support.
    #[error(
        "SLV-CLI-0030: {} has settings that Selvedge does not support: {options}; --check-config explains each, \
         --skip-refused starts without them",
        path.display()
    )]
    OpenSmRefused {
        /// Path of the file.
        path: PathBuf,
        /// The options with their values.
        options: String,
    },
    /// SLV-CLI-0031: the process cannot run in the background.
    #[error("SLV-CLI-0031: cannot run in the background: {cause}; leave -B out, or use the systemd unit")]
    Background {
        /// The error of the operating system.
        cause: io::Error,
    },
    /// A start refuses the configuration, with an error for each mistake.
    #[error("{}", errors.join("\n"))]
    NotAdmitted {
        /// The errors.
        errors: Vec<String>,
    },
    /// A mistake in a configuration.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// An error of the manager's process.
    #[error(transparent)]
    Daemon(#[from] DaemonError),
    /// A mistake in a table of forwarding entries.
    #[error(transparent)]
    Dump(#[from] DumpError),
    /// An error of a routing engine.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// A mistake in a topology file.
    #[error(transparent)]
    File(#[from] FileError),
    /// An error of a request to a running process.
    #[error(transparent)]
    Http(#[from] HttpError),
    /// A mistake in a metric selection file.
    #[error("{}: {cause}", path.display())]
    Selection {
        /// Path of the file.
        path: PathBuf,
        /// The mistake in the file.
        cause: selvedge_telemetry::selection::SelectionError,
    },
    /// Too many LIDs.
    #[error(transparent)]
    Lids(#[from] OutOfLids),
    /// A mistake in a traffic pattern.
    #[error(transparent)]
    Pattern(#[from] selvedge_workload::PatternError),
    /// A mistake in a trace.
    #[error("{}: {cause}", path.display())]
    Goal {
        /// Path of the file.
        path: PathBuf,
        /// The problem.
        cause: selvedge_workload::GoalError,
    },
    /// A mistake in the ranks or hosts of a job.
    #[error(transparent)]
    Job(#[from] selvedge_workload::JobError),
    /// A mistake in the times of messages.
    #[error(transparent)]
    Arrivals(#[from] selvedge_workload::ArrivalsError),
    /// More traffic than any link could carry.
    #[error(transparent)]
    Load(#[from] selvedge_workload::LoadError),
    /// A mistake in an experiment's file.
    #[error(transparent)]
    Experiment(#[from] selvedge_experiment::ExperimentError),
    /// An error in an experiment's results.
    #[error(transparent)]
    Results(#[from] selvedge_experiment::ResultsError),
    /// A mistake in a link's rate.
    #[error(transparent)]
    LinkRate(#[from] selvedge_dataplane::LinkRateError),
    /// A simulation that cannot begin.
    #[error(transparent)]
    Simulation(#[from] selvedge_dataplane::BuildError),
    /// A mistake in a port's name.
    #[error(transparent)]
    PortSpec(#[from] PortSpecError),
    /// A mistake in a schedule of disasters.
    #[error(transparent)]
    Schedule(#[from] ScheduleError),
    /// A port of a fabric, named as the emulator names it.
    #[error(transparent)]
    PortName(#[from] EmulatorError),
    /// A mistake in a policy for alternate paths.
    #[error(transparent)]
    Apm(#[from] selvedge_apm::ApmError),
    /// A trace of faults that cannot be read.
    #[error(transparent)]
    Trace(#[from] selvedge_tolerance::TraceError),
    /// An error of a what-if question.
    #[error(transparent)]
    Study(#[from] StudyError),
    /// A mistake in a fabric's name.
    #[error(transparent)]
    Spec(#[from] SpecError),
}

impl CliError {
    /// Returns the error for a failed write to standard output. A closed pipe is not an error.
    pub fn output(cause: io::Error) -> Self {
        match cause.kind() {
            io::ErrorKind::BrokenPipe => Self::Closed,
            _ => Self::Output { cause },
        }
    }

    /// Returns the error for wrong usage, with the first lines of clap's message.
    pub fn usage(error: &clap::Error) -> Self {
        if error.kind() == clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
            let what = "a command is missing".to_owned();
            return Self::Usage { what };
        }
        let text = error.to_string();
        // Advice and usage follow behind an empty line.
        let lines = text.lines().take_while(|line| !line.is_empty()).map(str::trim);
        let what = lines.collect::<Vec<_>>().join(" ");
        Self::Usage {
            what: what.strip_prefix("error: ").unwrap_or(&what).to_owned(),
        }
    }

    /// Returns the text of a usage error: the code, then clap's message with its advice.
    pub fn usage_text(error: &clap::Error) -> String {
        let (code, text) = ("SLV-CLI-0007", error.to_string());
        if error.kind() == clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
            return format!("{code}: a command is missing; these are known\n\n{text}");
        }
        format!("{code}: {}", text.strip_prefix("error: ").unwrap_or(&text))
    }

    /// Returns the exit code for this error.
    pub fn exit(&self) -> Exit {
        match self {
            Self::Closed => Exit::Good,
            Self::Daemon(DaemonError::Server(ServerError::BaseName { .. })) => Exit::Usage,
            Self::Daemon(DaemonError::Port(_) | DaemonError::Server(_) | DaemonError::Thread { .. })
            | Self::Http(
                HttpError::Bind { .. }
                | HttpError::Broken { .. }
                | HttpError::Foreign { .. }
                | HttpError::InUse { .. }
                | HttpError::Thread { .. }
                | HttpError::Unreachable { .. },
            ) => Exit::NoFabric,
            _ => Exit::Usage,
        }
    }

    /// Returns the error as one line for people, or as an object for programs.
    pub fn text(&self, json: bool) -> String {
        let message = self.to_string();
        if !json {
            return message;
        }
        if let Self::Http(HttpError::Refused(error)) = self {
            return Document::new(error.clone()).to_json();
        }
        Document::new(ApiError::of_text(&message)).to_json()
    }
}

impl From<selvedge_wire::PortError> for CliError {
    fn from(error: selvedge_wire::PortError) -> Self {
        Self::Daemon(error.into())
    }
}
