//! Scenarios as text: commands above a line `----`, the full transcript below it.
//!
//! ```text
//! # A link is cut; the fabric re-routes.
//! fabric karytree:k=2,n=2
//! sm a at "H-0"
//! start a
//! run until idle
//! fault cut "S-L0-0"[3]
//! run until idle
//! show events
//! expect all active
//! ----
//! …
//! ```
//!
//! Text after `#` at the start of a line is a comment. The transcript repeats each command behind `> `; its output
//! follows, indented. A command that fails is marked `FAILED` there and makes [`Transcript::failures`] non-empty; the
//! rest is not run.
//!
//! Commands ([`GRAMMAR`] lists them with their words): `fabric`, `sm`, `start`, `kill`, `stop`, `sweep`, `rebalance`,
//! `policy`, `run`, `fault`, `plan-cost`, `judge`, `mark`, `tool`, `show`, `expect`.

mod expect;
mod levels;
mod run;
mod show;
mod tool;
mod words;

use std::fmt::Write as _;

use selvedge_fabric::Fabric;

use crate::{Digests, RehearsalError};
use run::Runner;

/// Makes the fabric that a `fabric` command names; files and generators are the caller's business.
pub type FabricLoader<'a> = dyn Fn(&str) -> Result<Fabric, String> + 'a;

/// The commands, for people.
pub const GRAMMAR: &str = "fabric SPEC [seed=N] [queue=N] [links=training] [linear-cap=N] [wildcards=yes] | \
    sm NAME at PORT [mode=manage|dry-run|watch] [priority=N] [key=N] [lmc=N] [lanes=N] [sl-aware=yes] \
    [multicast-lane=WHICH] [m_key=N] [protect=N] [lease=S] \
    [engines=A+B] [sweep=SPAN|off] [poll=SPAN] [misses=N] [window=N] [timeout=SPAN] [retries=N] [known=GUID:LID] \
    [rebalance=never|later|at-once] [blocks=N] [quiet=SPAN] [pause=SPAN] [enforce=off|in|out|both] | \
    start NAME | kill NAME | stop NAME | sweep NAME | rebalance NAME [at-once] | policy NAME key=value… | \
    copy NAME from NAME | \
    run SPAN | run until idle|up NAME|role NAME ROLE|stage NAME STAGE|event NAME CODE [max SPAN] | \
    fault FAULT | plan-cost SPAN|default | judge refuse-all|default | mark | \
    tool PORT sminfo NODE | tool PORT tell NODE COMMAND [as=PORT] [state=NAME] [key=N] | \
    tool PORT set PORT key=value… | \
    show events|counts|ports|status|health|judge|unreachable NAME, show events|lids|sets|cost|drops|traps|loops|asked, \
    show path NODE NODE | \
    expect [not] …";

/// A command of a scenario that cannot be carried out, or an expectation that does not hold.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ScriptError {
    /// SLV-REHEARSAL-0201: a line is not a command.
    #[error("SLV-REHEARSAL-0201: cannot read '{text}': want {want}")]
    Syntax {
        /// The text.
        text: String,
        /// The legal form.
        want: &'static str,
    },
    /// SLV-REHEARSAL-0202: the fabric cannot be read or generated.
    #[error("SLV-REHEARSAL-0202: no fabric: {what}")]
    Fabric {
        /// The loader's message.
        what: String,
    },
    /// SLV-REHEARSAL-0203: a command comes before the `fabric` line, or names a manager that no `sm` line made.
    #[error("SLV-REHEARSAL-0203: there is no {what} yet; add its command before this line")]
    Missing {
        /// The missing part.
        what: String,
    },
    /// SLV-REHEARSAL-0204: an expectation does not hold.
    #[error("SLV-REHEARSAL-0204: expected {want}, found {found}")]
    Expectation {
        /// The expected value.
        want: String,
        /// The actual value.
        found: String,
    },
    /// The rehearsal itself failed.
    #[error(transparent)]
    Rehearsal(#[from] RehearsalError),
}

/// A scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    /// Everything above the line `----`, comments included.
    pub commands: String,
    /// The transcript that is expected.
    pub expected: String,
}

/// The text that a run printed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transcript {
    /// The whole text.
    pub text: String,
    /// Commands that failed; empty for a good run.
    pub failures: Vec<String>,
    /// Digests of the datagrams that managers sent, and of the contents of agents at the end.
    pub digests: Digests,
}

const SEPARATOR: &str = "----\n";

impl Script {
    /// Splits a file's text; without a line `----` nothing is expected yet.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let text = text.replace("\r\n", "\n");
        let at_start = text.starts_with(SEPARATOR).then_some(0);
        let found = at_start.or_else(|| text.find("\n----\n").map(|at| at + 1));
        let (commands, expected) = match found {
            Some(at) => (&text[..at], &text[at + SEPARATOR.len()..]),
            None => (&*text, ""),
        };
        Self {
            commands: commands.to_owned(),
            expected: expected.to_owned(),
        }
    }

    /// Returns the file's text with another transcript.
    #[must_use]
    pub fn with_transcript(&self, transcript: &Transcript) -> String {
        format!("{}{SEPARATOR}{}", self.commands, transcript.text)
    }

    /// Runs all commands, until one fails.
    #[must_use]
    pub fn run(&self, loader: &FabricLoader<'_>) -> Transcript {
        let mut transcript = Transcript::default();
        let mut runner = Runner::new(loader);
        let lines = self.commands.lines().map(str::trim);
        for line in lines.filter(|line| !line.is_empty() && !line.starts_with('#')) {
            // Writing to a String cannot fail.
            let _ = writeln!(transcript.text, "> {line}");
            let mut out = Vec::new();
            let result = runner.command(line, &mut out);
            for line in out {
                let _ = writeln!(transcript.text, "  {line}");
            }
            if let Err(error) = result {
                let _ = writeln!(transcript.text, "  FAILED: {error}");
                transcript.failures.push(format!("{line}: {error}"));
                break;
            }
        }
        transcript.digests = runner.digests();
        transcript
    }
}
