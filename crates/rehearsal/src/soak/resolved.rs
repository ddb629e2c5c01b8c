//! Resolved schedules: lists of all actions of a run, each with its virtual time. A replay does not depend on stages of
//! a manager, so a manager with other stages gets the same faults at the same times.

use std::fmt;
use std::str::FromStr;

use selvedge_fabric::Fabric;
use selvedge_sim::Time;

use super::Outcome;
use super::action::{ACTION_FORM, Action};
use super::schedule::{RESOLVED_HEADER, Schedule, ScheduleError};
use super::world::{Nobody, Observer, World};
use crate::digest::Digest;
use crate::{Digests, Tamper};

/// A schedule as it was carried out once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolved {
    /// Fabric, managers and policy, without drawn events.
    pub schedule: Schedule,
    /// Actions, each with its time.
    pub actions: Vec<(Time, Action)>,
}

impl Resolved {
    /// Replays the schedule.
    #[must_use]
    pub fn replay(&self, fabric: &Fabric, observer: &mut dyn Observer) -> Outcome {
        self.replay_in(World::new(&self.schedule, fabric, None, observer))
    }

    /// Replays the schedule. Also returns the text from which the two digests are computed: a line for each output of a
    /// manager, and one for each attribute that agents hold.
    #[must_use]
    pub fn replay_wire(&self, fabric: &Fabric) -> (Outcome, Vec<String>) {
        let mut nobody = Nobody;
        let mut world = World::new(&self.schedule, fabric, None, &mut nobody);
        world.rehearsal.keep_wire();
        world.replay_all(&self.actions)
    }

    /// Replays the schedule with managers that have changed inputs and outputs.
    #[must_use]
    pub fn replay_tampered(&self, fabric: &Fabric, mut tamper: impl FnMut() -> Box<dyn Tamper>) -> Outcome {
        let mut nobody = Nobody;
        let mut world = World::new(&self.schedule, fabric, None, &mut nobody);
        for id in world.managers.ids().to_vec() {
            world.rehearsal.tamper(id, tamper());
        }
        self.replay_in(world)
    }

    fn replay_in(&self, mut world: World<'_>) -> Outcome {
        world.replay_all(&self.actions).0
    }

    /// Returns the name under which the digests of the schedule are stored: the seed, and what happens besides the
    /// drawn events.
    #[must_use]
    pub fn name(&self) -> String {
        let setup = &self.schedule.setup;
        let sa = if setup.sa { "+sa" } else { "" };
        let store_faults = if setup.store_faults { "+store-faults" } else { "" };
        let changes = if setup.changes { "+changes" } else { "" };
        format!("{}{sa}{store_faults}{changes}", self.schedule.seed)
    }

    /// Returns a line with these digests of a run of the schedule.
    #[must_use]
    pub fn line(&self, digests: Digests) -> DigestLine {
        DigestLine {
            name: self.name(),
            schedule: Digest::default().bytes(self.to_string().as_bytes()).0,
            digests,
        }
    }

    /// Reads a file of resolved schedules. Each begins with [`RESOLVED_HEADER`]; lines after `#` are comments.
    pub fn read_all(text: &str) -> Result<Vec<Self>, ScheduleError> {
        let mut all: Vec<Self> = Vec::new();
        for (line, number) in text.lines().map(str::trim).zip(1..) {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            if line == RESOLVED_HEADER {
                all.push(Self {
                    schedule: Schedule::blank(),
                    actions: Vec::new(),
                });
                continue;
            }
            let last = all.last_mut().ok_or(ScheduleError::ResolvedHeader)?;
            last.read(line).map_err(|want| ScheduleError::Line {
                line: number,
                text: line.to_owned(),
                want,
            })?;
        }
        match all.is_empty() {
            true => Err(ScheduleError::ResolvedHeader),
            false => Ok(all),
        }
    }

    fn read(&mut self, line: &str) -> Result<(), &'static str> {
        if !line.starts_with(|first: char| first.is_ascii_digit()) {
            return self.schedule.read(line);
        }
        let (at, action) = line.split_once(' ').ok_or(ACTION_FORM)?;
        let at = Time(at.parse().map_err(|_| ACTION_FORM)?);
        if self.actions.last().is_some_and(|(before, _)| *before > at) {
            return Err("a time that is not before that of the line above");
        }
        self.actions.push((at, action.parse()?));
        Ok(())
    }
}

impl fmt::Display for Resolved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{RESOLVED_HEADER}")?;
        let schedule = self.schedule.to_string();
        schedule.lines().skip(1).try_for_each(|line| writeln!(f, "{line}"))?;
        let mut actions = self.actions.iter();
        actions.try_for_each(|(at, action)| writeln!(f, "{} {action}", at.0))
    }
}

/// The digests of a resolved schedule, as one line of a file of digests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DigestLine {
    /// Name of the schedule, see [`Resolved::name`].
    pub name: String,
    /// Digest of the schedule's text: digests of another schedule cannot be compared.
    pub schedule: u64,
    /// Digests of the run.
    pub digests: Digests,
}

impl fmt::Display for DigestLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:016x} {}", self.name, self.schedule, self.digests)
    }
}

impl FromStr for DigestLine {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const WANT: &str = "a schedule's name and three digests, as 17+sa 0123456789abcdef …";
        let (name, rest) = text.split_once(' ').ok_or(WANT)?;
        let (schedule, digests) = rest.split_once(' ').ok_or(WANT)?;
        Ok(Self {
            name: name.to_owned(),
            schedule: u64::from_str_radix(schedule, 16).map_err(|_| WANT)?,
            digests: digests.parse()?,
        })
    }
}

impl DigestLine {
    /// Reads a file of digests: a line for each schedule, lines after `#` are comments.
    pub fn read_all(text: &str) -> Result<Vec<Self>, ScheduleError> {
        let lines = text.lines().map(str::trim).zip(1..);
        let lines = lines.filter(|(line, _)| !line.is_empty() && !line.starts_with('#'));
        let read = |(line, number): (&str, usize)| {
            line.parse().map_err(|want| ScheduleError::Line {
                line: number,
                text: line.to_owned(),
                want,
            })
        };
        lines.map(read).collect()
    }
}

impl World<'_> {
    /// Carries out actions. Returns the text of the wire digest as well, if it is kept.
    fn replay_all(&mut self, actions: &[(Time, Action)]) -> (Outcome, Vec<String>) {
        self.give_disks();
        let result = self.replay(actions);
        (self.outcome(result), self.rehearsal.take_wire())
    }
}
