//! The managers that are compared, started behind a relay.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use selvedge_conformance::{OpenSm, PeerLab, Running, until};

use crate::case::Case;
use crate::error::BenchError;
use crate::failover::told::Told;
use crate::opensm::Variant;

/// Longest wait for a bring-up or a fail-over.
pub const LIMIT: Duration = Duration::from_secs(240);
/// Text in a log when the subnet is up, of Selvedge and of OpenSM.
const UP: &str = "SUBNET UP";
/// Window of Selvedge.
const WINDOW: usize = 32;

/// The manager that is measured.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Who {
    /// Selvedge.
    Selvedge,
    /// OpenSM, started in this way.
    OpenSm(Variant),
}

impl Who {
    /// Returns the name of the manager in tables: `selvedge`, `opensm`.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Selvedge => "selvedge",
            Self::OpenSm(_) => "opensm",
        }
    }

    /// Returns the name of the manager for people.
    #[must_use]
    pub fn label(&self) -> String {
        match self {
            Self::Selvedge => "selvedge".to_owned(),
            Self::OpenSm(variant) => format!("OpenSM {}, window {}", variant.engine, variant.window),
        }
    }

    /// Returns the largest number of SMPs in flight.
    #[must_use]
    pub const fn window(&self) -> usize {
        match self {
            Self::Selvedge => WINDOW,
            Self::OpenSm(variant) => variant.window,
        }
    }
}

/// A manager that runs.
pub enum Manager {
    /// Selvedge, and its log.
    Selvedge(Running, PathBuf),
    /// OpenSM.
    OpenSm(OpenSm),
}

impl Manager {
    /// Starts the manager behind the relay `base`; does not wait.
    pub fn start(who: &Who, case: &Case, lab: &PeerLab, base: &str) -> Result<Self, BenchError> {
        match who {
            Who::Selvedge => {
                let log = lab.folder().join("manager.log");
                let (port, file) = (format!("ibsim:{base}/{}", case.host_name()), log.to_string_lossy());
                // No light sweeps, as with OpenSM's sweep_interval 0: only traps report faults.
                let words = ["run", "--port", &port, "--log-file", &file, "--sweep-interval", "0"];
                Ok(Self::Selvedge(lab.start_daemon(&words)?, log))
            }
            Who::OpenSm(variant) => Ok(Self::OpenSm(lab.opensm_through(
                base,
                case.host_name(),
                &variant.options(),
            )?)),
        }
    }

    /// Returns the process id of the manager.
    #[must_use]
    pub fn pid(&self) -> u32 {
        match self {
            Self::Selvedge(process, _) => process.pid(),
            Self::OpenSm(opensm) => opensm.process().pid(),
        }
    }

    /// Waits until the manager's log reports that the subnet is up.
    pub fn wait_up(&mut self) -> Result<(), BenchError> {
        match self {
            Self::OpenSm(opensm) => Ok(opensm.wait_up(1, LIMIT)?),
            Self::Selvedge(process, log) => {
                let read = || fs::read_to_string(&*log).unwrap_or_default();
                Ok(until("the subnet to come up", LIMIT, read, || {
                    process.must_run()?;
                    Ok(read().contains(UP).then_some(()))
                })?)
            }
        }
    }

    /// Returns how often the manager's log has reported that the subnet is up.
    #[must_use]
    pub fn ups(&self) -> usize {
        self.log().matches(UP).count()
    }

    /// Returns the manager's log so far.
    #[must_use]
    pub fn log(&self) -> String {
        match self {
            Self::Selvedge(_, log) => fs::read_to_string(log).unwrap_or_default(),
            Self::OpenSm(opensm) => opensm.log(),
        }
    }

    /// Returns the figures in Selvedge's log after this number of bytes.
    #[must_use]
    pub fn told_since(&self, bytes: usize) -> Told {
        match self {
            Self::Selvedge(..) => Told::read(self.log().get(bytes..).unwrap_or_default()),
            Self::OpenSm(_) => Told::default(),
        }
    }

    /// The engine of the tables in force, from the log.
    #[must_use]
    pub fn engine_used(&self) -> Option<String> {
        let log = self.log();
        let mut lines = log.lines().rev();
        match self {
            Self::OpenSm(_) => {
                let (before, _) = lines.find_map(|line| line.split_once(" tables configured on all switches"))?;
                Some(before.rsplit(' ').next()?.to_owned())
            }
            Self::Selvedge(..) => {
                let line = lines.find(|line| line.contains("SLV-SM-0004"))?;
                let (_, after) = line.split_once("plan by ")?;
                Some(after.split(' ').next()?.to_owned())
            }
        }
    }
}
