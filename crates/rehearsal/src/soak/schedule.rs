//! A schedule: fabric, managers, policy and everything that happens, as a value and as text.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use selvedge_plan::{EngineName, Policy};
use selvedge_types::{Lmc, Mtu};

use super::action::{M_KEY_LEASE_S, Setting};
use super::event::{FORM, Happening};

/// The kind of a fabric, for the coverage table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    /// A tree of two levels.
    Tree2,
    /// A tree of three levels.
    Tree3,
    /// A random regular graph.
    Random,
    /// A torus.
    Torus,
    /// A mesh.
    Mesh,
    /// A ring.
    Ring,
    /// Two planes joined by hosts alone.
    Rails,
    /// A single switch, missing cables, hosts with two ports.
    Odd,
}

impl Family {
    /// All families.
    pub const ALL: [Self; 8] = [
        Self::Tree2,
        Self::Tree3,
        Self::Random,
        Self::Torus,
        Self::Mesh,
        Self::Ring,
        Self::Rails,
        Self::Odd,
    ];

    /// Returns the name of the family.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tree2 => "tree2",
            Self::Tree3 => "tree3",
            Self::Random => "random",
            Self::Torus => "torus",
            Self::Mesh => "mesh",
            Self::Ring => "ring",
            Self::Rails => "rails",
            Self::Odd => "odd",
        }
    }
}

/// How managers are set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setup {
    /// Position of the engine in [`ENGINES`].
    pub engine: u8,
    /// LMC at the start.
    pub lmc: u8,
    /// Virtual lanes of links.
    pub lanes: u8,
    /// True if packets are put on all lanes.
    pub uses_lanes: bool,
    /// True if hosts talk to subnet administration.
    pub sa: bool,
    /// M_Key, 0: none.
    pub m_key: u64,
    /// Seconds between light sweeps.
    pub sweep_s: u8,
    /// How SMPs are sent.
    pub requests: Requests,
    /// Virtual time of a job in ms; `None`: its documented cost.
    pub plan_ms: Option<u16>,
    /// True if the second manager starts with the first.
    pub both: bool,
    /// True if backups are computed as soon as the manager is idle.
    pub backups: bool,
    /// True if managers store on disks that fail for a time, and are killed meanwhile.
    pub store_faults: bool,
    /// True if changes of the operator are drawn as well; the required end is then the state that they ask for.
    pub changes: bool,
}

/// How managers send SMPs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Requests {
    /// SMPs on the wire.
    pub window: u8,
    /// Number of SMPs in flight to one agent.
    pub agent_window: u8,
    /// Repeats of a request.
    pub retries: u8,
    /// Milliseconds before a request is repeated.
    pub timeout_ms: u16,
}

impl Requests {
    /// The defaults of managers.
    pub(super) const PLAIN: Self = Self {
        window: 32,
        agent_window: 2,
        retries: 3,
        timeout_ms: 200,
    };
}

/// Engines that managers are started with; each is followed by `updn`.
pub const ENGINES: [&str; 8] = ["auto", "fat-tree", "updn", "weave", "minhop", "ftree", "dfsssp", "dnup"];

impl Setup {
    /// Returns the policy at the start.
    #[must_use]
    pub fn policy(&self) -> Arc<Policy> {
        Arc::new(Policy {
            engines: engines(self.engine),
            lmc: Lmc::new(self.lmc).unwrap_or_default(),
            lanes: self.lanes,
            used_lanes: if self.uses_lanes { self.lanes } else { 1 },
            m_key: self.m_key,
            m_key_protect: u8::from(self.m_key != 0),
            m_key_lease_s: if self.m_key == 0 { 0 } else { M_KEY_LEASE_S },
            ..Policy::default()
        })
    }

    /// Returns the time between light sweeps.
    #[must_use]
    pub fn sweep(&self) -> Duration {
        Duration::from_secs(self.sweep_s.into())
    }
}

/// Returns the engine that `pick` selects, then `updn` as the engine to fall back to.
pub(super) fn engines(pick: u8) -> Vec<EngineName> {
    let first = ENGINES[usize::from(pick) % ENGINES.len()];
    let names = [first, "updn"];
    let names = if first == "updn" { &names[..1] } else { &names[..] };
    names.iter().map(|name| EngineName((*name).to_owned())).collect()
}

/// Returns a setting of ports that differs from a policy's.
pub(super) fn other_setting(policy: &Policy, pick: u32) -> Setting {
    let small = |count: u32| u8::try_from(pick / 3 % count).unwrap_or(0);
    match pick % 3 {
        0 if policy.mtu_max == Mtu::B4096 => Setting::Mtu(Mtu::B2048),
        0 => Setting::Mtu(Mtu::B4096),
        1 => Setting::HoqLife(14 + small(5)),
        _ => Setting::SubnetTimeout(16 + small(3)),
    }
}

/// Everything that a run depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// Seed for choices during the run, such as which MADs get lost, and when.
    pub seed: u64,
    /// The fabric's family.
    pub family: Family,
    /// The fabric, as a generator's recipe.
    pub fabric: String,
    /// Managers and policy.
    pub setup: Setup,
    /// The events, first to last.
    pub happenings: Vec<Happening>,
}

/// The first line of a schedule's text.
pub const HEADER: &str = "selvedge soak schedule 1";
/// The first line of a resolved schedule's text.
pub const RESOLVED_HEADER: &str = "selvedge soak resolved schedule 1";

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let s = &self.setup;
        writeln!(f, "{HEADER}")?;
        writeln!(f, "seed {}", self.seed)?;
        writeln!(f, "family {}", self.family.name())?;
        writeln!(f, "fabric {}", self.fabric)?;
        writeln!(f, "engine {}", ENGINES[usize::from(s.engine) % ENGINES.len()])?;
        writeln!(f, "lmc {}", s.lmc)?;
        writeln!(f, "lanes {}", s.lanes)?;
        if s.uses_lanes {
            writeln!(f, "uses_lanes 1")?;
        }
        if s.sa {
            writeln!(f, "sa 1")?;
        }
        writeln!(f, "m_key {}", s.m_key)?;
        writeln!(f, "sweep_s {}", s.sweep_s)?;
        writeln!(f, "window {}", s.requests.window)?;
        writeln!(f, "agent_window {}", s.requests.agent_window)?;
        writeln!(f, "retries {}", s.requests.retries)?;
        writeln!(f, "timeout_ms {}", s.requests.timeout_ms)?;
        if let Some(ms) = s.plan_ms {
            writeln!(f, "plan_ms {ms}")?;
        }
        writeln!(f, "both {}", u8::from(s.both))?;
        if s.backups {
            writeln!(f, "backups 1")?;
        }
        if s.store_faults {
            writeln!(f, "store_faults 1")?;
        }
        if s.changes {
            writeln!(f, "changes 1")?;
        }
        self.happenings
            .iter()
            .try_for_each(|happening| writeln!(f, "{happening}"))
    }
}

/// A text that is no schedule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ScheduleError {
    /// SLV-REHEARSAL-0301: a line of a schedule cannot be read.
    #[error("SLV-REHEARSAL-0301: line {line}: cannot read '{text}': want {want}")]
    Line {
        /// Number of the line.
        line: usize,
        /// The line.
        text: String,
        /// The legal form.
        want: &'static str,
    },
    /// SLV-REHEARSAL-0302: the file does not begin like a schedule.
    #[error("SLV-REHEARSAL-0302: no schedule: the first line is not '{HEADER}'")]
    Header,
    /// SLV-REHEARSAL-0303: the file does not begin like a resolved schedule.
    #[error("SLV-REHEARSAL-0303: no resolved schedules, which 'soak --resolve' writes: no line '{RESOLVED_HEADER}'")]
    ResolvedHeader,
}

impl FromStr for Schedule {
    type Err = ScheduleError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut lines = text
            .lines()
            .zip(1..)
            .filter(|(l, _)| !l.trim().is_empty() && !l.starts_with('#'));
        if lines.next().map(|(line, _)| line.trim()) != Some(HEADER) {
            return Err(ScheduleError::Header);
        }
        let mut schedule = Self::blank();
        for (line, number) in lines {
            schedule.read(line.trim()).map_err(|want| ScheduleError::Line {
                line: number,
                text: line.trim().to_owned(),
                want,
            })?;
        }
        Ok(schedule)
    }
}

impl Schedule {
    /// Returns a schedule in which nothing happens, as it is before the first line of its text is read.
    pub(super) const fn blank() -> Self {
        Self {
            seed: 0,
            family: Family::Odd,
            fabric: String::new(),
            setup: Setup {
                engine: 0,
                lmc: 0,
                lanes: 1,
                uses_lanes: false,
                sa: false,
                m_key: 0,
                sweep_s: 10,
                requests: Requests::PLAIN,
                plan_ms: None,
                both: false,
                backups: false,
                store_faults: false,
                changes: false,
            },
            happenings: Vec::new(),
        }
    }

    /// Reads one line of text.
    pub(super) fn read(&mut self, line: &str) -> Result<(), &'static str> {
        const WANT: &str = "a number that is not too large";
        let (key, value) = line.split_once(' ').unwrap_or((line, ""));
        let s = &mut self.setup;
        let small = |to: &mut u8| value.parse().map(|n| *to = n).map_err(|_| WANT);
        match key {
            "after" | "during" | "amid" => {
                self.happenings.push(line.parse()?);
                Ok(())
            }
            "seed" => value.parse().map(|n| self.seed = n).map_err(|_| WANT),
            "family" => {
                let family = Family::ALL.into_iter().find(|family| family.name() == value);
                family.map(|family| self.family = family).ok_or("a family, as tree2")
            }
            "fabric" => {
                value.clone_into(&mut self.fabric);
                Ok(())
            }
            "engine" => {
                let engine = (0_u8..).zip(ENGINES).find(|(_, name)| *name == value);
                engine.map(|(at, _)| s.engine = at).ok_or("an engine, as auto")
            }
            "lmc" => small(&mut s.lmc),
            "lanes" => small(&mut s.lanes),
            "uses_lanes" => {
                s.uses_lanes = value == "1";
                Ok(())
            }
            "sa" => {
                s.sa = value == "1";
                Ok(())
            }
            "m_key" => value.parse().map(|n| s.m_key = n).map_err(|_| WANT),
            "sweep_s" => small(&mut s.sweep_s),
            "window" => small(&mut s.requests.window),
            "agent_window" => small(&mut s.requests.agent_window),
            "retries" => small(&mut s.requests.retries),
            "timeout_ms" => value.parse().map(|n| s.requests.timeout_ms = n).map_err(|_| WANT),
            "plan_ms" => value.parse().map(|n| s.plan_ms = Some(n)).map_err(|_| WANT),
            "both" => {
                s.both = value == "1";
                Ok(())
            }
            "backups" => {
                s.backups = value == "1";
                Ok(())
            }
            "store_faults" => {
                s.store_faults = value == "1";
                Ok(())
            }
            "changes" => {
                s.changes = value == "1";
                Ok(())
            }
            _ => Err(FORM),
        }
    }
}
