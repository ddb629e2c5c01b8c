//! The answer to a refused request.

use serde::{Deserialize, Serialize};

use crate::Body;

/// The reason for which a request was refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Error {
    /// Stable code, as `SLV-API-0001`.
    pub code: String,
    /// What happened, and where.
    pub message: String,
    /// What to do.
    pub advice: String,
}

impl Body for Error {
    const SCHEMA: &'static str = "selvedge.error";
}

/// The refusals of the API itself; refusals of other rooms keep their codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// SLV-API-0001: no such path.
    NotFound,
    /// SLV-API-0002: the request cannot be read.
    BadRequest,
    /// SLV-API-0003: faults exist only in the built-in emulator.
    NoEmulator,
    /// SLV-API-0004: this process has no manager: it only emulates a fabric.
    NoManager,
    /// SLV-API-0005: there is nothing to show yet.
    NotYet,
    /// SLV-API-0006: the process is stopping.
    Stopping,
    /// SLV-API-0007: there is no configuration to read again.
    NoConfig,
    /// SLV-API-0008: this manager is not master.
    NotMaster,
    /// SLV-API-0009: load cannot be rebalanced.
    NoBalance,
    /// SLV-API-0010: the node or link to be forgotten is not missing.
    NotMissing,
    /// SLV-API-0011: no engine made a plan for the judge.
    NoPlan,
    /// SLV-API-0012: a switch, link or port cannot be taken out of service, or put back.
    NotOutOfService,
    /// SLV-API-0013: hosts would lose their last connection.
    LastPath,
    /// SLV-API-0014: the fabric has no node or port with this name.
    NoSuchPlace,
    /// SLV-API-0015: this process samples no counters.
    NoTelemetry,
    /// SLV-API-0016: this process stores no counters.
    NoHistory,
    /// SLV-API-0020: the path does not support this method; the header Allow names the supported one.
    WrongMethod,
    /// SLV-API-0021: the head or body of a request did not arrive in time.
    TimedOut,
    /// SLV-API-0022: a request has no body but needs one.
    NoLength,
    /// SLV-API-0023: the body of a request is too large.
    TooLarge,
    /// SLV-API-0024: the path of a request is too long.
    UriTooLong,
    /// SLV-API-0025: a body is not JSON.
    NotJson,
    /// SLV-API-0026: a request has too many or too long headers.
    HeadTooLarge,
    /// SLV-API-0027: the process has reached a limit of concurrent work.
    Busy,
}

impl ErrorKind {
    /// All kinds.
    pub const ALL: [Self; 24] = [
        Self::NotFound,
        Self::BadRequest,
        Self::NoEmulator,
        Self::NoManager,
        Self::NotYet,
        Self::Stopping,
        Self::NoConfig,
        Self::NotMaster,
        Self::NoBalance,
        Self::NotMissing,
        Self::NoPlan,
        Self::NotOutOfService,
        Self::LastPath,
        Self::NoSuchPlace,
        Self::NoTelemetry,
        Self::NoHistory,
        Self::WrongMethod,
        Self::TimedOut,
        Self::NoLength,
        Self::TooLarge,
        Self::UriTooLong,
        Self::NotJson,
        Self::HeadTooLarge,
        Self::Busy,
    ];

    /// Returns the HTTP status for a code; 400 for codes of other crates.
    #[must_use]
    pub fn status_of(code: &str) -> u16 {
        let kind = Self::ALL.into_iter().find(|kind| kind.code() == code);
        kind.map_or(400, Self::http_status)
    }

    /// Stable code.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::NotFound => "SLV-API-0001",
            Self::BadRequest => "SLV-API-0002",
            Self::NoEmulator => "SLV-API-0003",
            Self::NoManager => "SLV-API-0004",
            Self::NotYet => "SLV-API-0005",
            Self::Stopping => "SLV-API-0006",
            Self::NoConfig => "SLV-API-0007",
            Self::NotMaster => "SLV-API-0008",
            Self::NoBalance => "SLV-API-0009",
            Self::NotMissing => "SLV-API-0010",
            Self::NoPlan => "SLV-API-0011",
            Self::NotOutOfService => "SLV-API-0012",
            Self::LastPath => "SLV-API-0013",
            Self::NoSuchPlace => "SLV-API-0014",
            Self::NoTelemetry => "SLV-API-0015",
            Self::NoHistory => "SLV-API-0016",
            Self::WrongMethod => "SLV-API-0020",
            Self::TimedOut => "SLV-API-0021",
            Self::NoLength => "SLV-API-0022",
            Self::TooLarge => "SLV-API-0023",
            Self::UriTooLong => "SLV-API-0024",
            Self::NotJson => "SLV-API-0025",
            Self::HeadTooLarge => "SLV-API-0026",
            Self::Busy => "SLV-API-0027",
        }
    }

    /// HTTP status.
    #[must_use]
    pub const fn http_status(self) -> u16 {
        match self {
            Self::NotFound | Self::NoSuchPlace => 404,
            Self::BadRequest => 400,
            Self::NoBalance
            | Self::NoConfig
            | Self::NoEmulator
            | Self::NoManager
            | Self::NotMaster
            | Self::NoPlan
            | Self::NoTelemetry
            | Self::NoHistory
            | Self::NotMissing
            | Self::NotOutOfService
            | Self::LastPath => 409,
            Self::WrongMethod => 405,
            Self::TimedOut => 408,
            Self::NoLength => 411,
            Self::TooLarge => 413,
            Self::UriTooLong => 414,
            Self::NotJson => 415,
            Self::HeadTooLarge => 431,
            Self::Busy | Self::NotYet | Self::Stopping => 503,
        }
    }

    const fn advice(self) -> &'static str {
        match self {
            Self::NotFound => "use a path of docs/contracts.md, for example GET /api/v1/status",
            Self::BadRequest => "correct the request",
            Self::NoEmulator => "faults need 'selvedge run --fabric SPEC' or 'selvedge emulate'",
            Self::NoManager => "ask the process that runs 'selvedge run'",
            Self::NotYet => "ask again after the first sweep",
            Self::Stopping => "start it again",
            Self::NoConfig => "start it with --config FILE",
            Self::NotMaster => "ask the master, 'selvedge status' names it",
            Self::NoBalance => "choose an engine that can route the whole fabric again",
            Self::NotMissing => "'selvedge status conditions' lists what is missing",
            Self::NoPlan => "name another engine, or correct what the message names",
            Self::NotOutOfService => {
                "'selvedge status out-of-service' lists the places, --dry-run shows what a change does"
            }
            Self::LastPath => "use --force if these hosts may lose their connection",
            Self::NoSuchPlace => "name a node as 'selvedge status nodes' shows it, or a port of it as 'NAME[PORT]'",
            Self::WrongMethod => "use the method that the header Allow names",
            Self::NoTelemetry => "ask the process that runs 'selvedge run', with telemetry.enabled = true",
            Self::NoHistory => {
                "start 'selvedge run' with a state folder (--state), or read the files of another one with DuckDB"
            }
            Self::TimedOut => "send the whole request at once",
            Self::NoLength => "send a body with its Content-Length",
            Self::TooLarge => "send a shorter body; a fault takes about 100 bytes",
            Self::UriTooLong => "use a path of docs/contracts.md",
            Self::NotJson => "send JSON, not compressed",
            Self::HeadTooLarge => "send fewer or shorter headers",
            Self::Busy => "ask again in a moment",
        }
    }

    /// Returns the error with this message.
    #[must_use]
    pub fn error(self, message: impl Into<String>) -> Error {
        Error {
            code: self.code().to_owned(),
            message: message.into(),
            advice: self.advice().to_owned(),
        }
    }
}

impl Error {
    /// Returns a refusal of another crate from its text, which is `CODE: what, where; what to do` as everywhere.
    #[must_use]
    pub fn of_text(text: &str) -> Self {
        let (code, rest) = text.split_once(": ").unwrap_or(("", text));
        let (message, advice) = rest.rsplit_once("; ").unwrap_or((rest, ""));
        Self {
            code: code.to_owned(),
            message: message.to_owned(),
            advice: advice.to_owned(),
        }
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.code, self.message)?;
        if self.advice.is_empty() {
            Ok(())
        } else {
            write!(f, "; {}", self.advice)
        }
    }
}

impl std::error::Error for Error {}
