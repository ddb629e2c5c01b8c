//! Carries out the outputs of coordinators under virtual time, on disks in memory. It is the same coordinator as in the
//! daemon.
//!
//! Datagrams of subnet administration do not cross the emulator: hosts' clients carry them. Tests of the checkers need
//! administrators with defects; these defects are made here, not in the coordinator.

use std::sync::Arc;
use std::time::Duration;

use selvedge_chassis::PortIdx;
use selvedge_coordinator::{Administrated, In, Out, Sampled, survey};
use selvedge_sa::{Config, Registrations, Sa, Snapshot, Sources};
use selvedge_sm::{Command, Input, Milestone, Output, Role};
use selvedge_store::{Found, StateDir, StoreError};
use selvedge_telemetry::Wall;
use selvedge_wire::{Attribute, Datagram, Mad, Method, PortInfo};

use super::{LogEntry, PERSIST_COST, Rehearsal};
use crate::RehearsalError;
use crate::checkers::Seen;
use crate::manager::{Administers, DeskDefect, Folder, Life, ManagerId, Pending, asks_host};

/// The wall clock at the start of a rehearsal: 2020-09-13 12:26:40 UTC.
const WALL_AT_START: Wall = Wall::from_secs(1_600_000_000);

/// The most timers of a coordinator that are served at one instant.
const WAKES_MAX: u32 = 1_000;

impl Rehearsal {
    /// Gives a manager an administrator. Both store on one disk, which outlives the process.
    pub(crate) fn give_administrator(&mut self, id: ManagerId, defect: Option<DeskDefect>) {
        if let Some(manager) = self.managers.get_mut(id.0) {
            manager.administers = Some(Administers { defect });
            manager.disk.get_or_insert_default();
        }
    }

    /// Gives a manager a sampler of counters, from its next start on.
    pub fn give_sampler(&mut self, id: ManagerId, config: selvedge_telemetry::Config) {
        if let Some(manager) = self.managers.get_mut(id.0) {
            manager.samples = Some(config);
        }
    }

    /// Returns what samplers found since the last call.
    pub fn take_sampled(&mut self) -> Vec<(ManagerId, Sampled)> {
        std::mem::take(&mut self.queues.sampled)
    }

    /// Shows a sampler the wall clock, which goes as the virtual clock does.
    pub(super) fn begin_sampling(&mut self, id: ManagerId) -> Result<(), RehearsalError> {
        if self.managers[id.0].samples.is_none() {
            return Ok(());
        }
        self.coordinate(id, In::Clock(Wall(WALL_AT_START.0 + self.now.0)))
    }

    /// Returns the administrator beside a running manager.
    pub(crate) fn administrator(&self, id: ManagerId) -> Option<&Sa> {
        self.life(id)?.coordinator.administrator()
    }

    /// Returns the number of the manager's process, and how often its role has changed.
    pub(crate) fn role_number(&self, id: ManagerId) -> Option<(u64, u64)> {
        self.life(id).map(|life| (life.number, life.role_changes))
    }

    /// Returns the oldest datagram of an administrator that was not carried to its destination yet.
    pub(crate) fn take_administered(&mut self) -> Option<(ManagerId, Datagram)> {
        self.queues.administered.pop_front()
    }

    /// Returns the inputs of an administrator with a process that starts now: its limits, and the content of the disk.
    pub(super) fn administrated(
        &self,
        id: ManagerId,
        folder: Option<&Folder>,
    ) -> Result<Option<Administrated>, RehearsalError> {
        let is_administered = self.managers[id.0].administers.is_some();
        let Some(folder) = folder.filter(|_| is_administered) else {
            return Ok(None);
        };
        let found = found(&folder.dir).map_err(|error| self.cannot_start(id, &error))?;
        Ok(Some(Administrated {
            administrator: Config {
                life: self.counts.lives_begun,
                ..Config::default()
            },
            registrations: found.registrations,
            is_lost: found.is_lost,
            has_folder: true,
            has_hosts: true,
        }))
    }

    /// Serves the timers of a manager's coordinator that are due.
    pub(super) fn wake_coordinator(&mut self, id: ManagerId) -> Result<(), RehearsalError> {
        let now = self.now;
        for _ in 0..WAKES_MAX {
            let due = self.life(id).and_then(|life| life.coordinator.next_wake());
            if due.is_none_or(|at| at > now) {
                break;
            }
            self.coordinate(id, In::Wake)?;
        }
        Ok(())
    }

    /// Hands milestones to the coordinators of their managers.
    pub(super) fn coordinate_milestones(&mut self) -> Result<(), RehearsalError> {
        while let Some((id, milestone)) = self.queues.milestones.pop_front() {
            self.coordinate(id, In::Milestone(milestone))?;
        }
        Ok(())
    }

    /// Hands an input to a manager's coordinator and carries out its outputs.
    pub(crate) fn coordinate(&mut self, id: ManagerId, input: In) -> Result<(), RehearsalError> {
        let now = self.now;
        let life = self.managers.get_mut(id.0).and_then(|manager| manager.life.as_mut());
        let Some(life) = life else {
            return Err(self.not_running(id));
        };
        let mut out = Vec::new();
        life.coordinator.handle(now, input, &mut out);
        out.into_iter().try_for_each(|wanted| self.do_wanted(id, wanted))
    }

    fn do_wanted(&mut self, id: ManagerId, wanted: Out) -> Result<(), RehearsalError> {
        let now = self.now;
        let defect = self.managers[id.0]
            .administers
            .and_then(|administers| administers.defect);
        let Some(life) = &mut self.managers[id.0].life else {
            return Ok(());
        };
        match wanted {
            Out::Manager(input) if keeps(defect, life, &input) => {}
            Out::Manager(input) => return self.hand(id, input),
            Out::Send { datagram, .. } if datagram.mad.class().is_smp() => {
                let at = self.emulator.port_of(life.client);
                let answer = at.map(|at| self.own_port(at, &datagram));
                return answer.map_or(Ok(()), |answer| self.coordinate(id, In::Arrived(answer)));
            }
            Out::Send { datagram, .. } => self.queues.administered.push_back((id, datagram)),
            // In the wire digest, as the manager's own answers to traps.
            Out::Repress(datagram) => return self.carry_out(id, at_once(datagram)),
            Out::Event(event) => {
                let (at, manager) = (now, id);
                self.log.push(LogEntry { at, manager, event });
            }
            Out::Index(sources) => {
                let snapshot = index(defect, life, sources);
                return self.coordinate(id, In::Indexed(snapshot));
            }
            // No operator starts jobs in a rehearsal.
            Out::JobAnswered { .. } => {}
            Out::Survey(..) | Out::Request { .. } | Out::Sampled(_) => return self.do_sampling(id, wanted),
            Out::StoreState { id: number, state } => {
                life.pending
                    .push((now + PERSIST_COST, Pending::Saved { id: number, state }));
            }
            Out::StoreKnown { id: number, known } => {
                let save = |of: &Folder| of.dir.save_known_fabric(&known, |time| time.0 / 1_000_000).is_ok();
                let is_stored = life.folder.as_ref().is_none_or(save);
                if is_stored {
                    self.managers[id.0].known = known;
                }
                return self.coordinate(id, In::KnownStored { id: number, is_stored });
            }
            Out::StoreRegistrations {
                revision,
                registrations,
            } => {
                let all = match defect {
                    Some(DeskDefect::StoresNothing) => &Registrations::default(),
                    _ => &*registrations,
                };
                let is_stored = life
                    .folder
                    .as_ref()
                    .is_none_or(|of| of.dir.save_registrations(all).is_ok());
                return self.coordinate(id, In::RegistrationsStored { revision, is_stored });
            }
            Out::RemoveMark => {
                let is_done = remove_mark(defect, life.folder.as_ref());
                return self.coordinate(id, In::MarkRemoved { is_done });
            }
            Out::SetMark { has_ended } => {
                let is_done = life
                    .folder
                    .as_ref()
                    .is_none_or(|of| of.dir.mark_stored(has_ended).is_ok());
                return self.coordinate(id, In::MarkSet { is_done });
            }
        }
        Ok(())
    }

    /// Carries out an output of a sampler. Its requests are not part of the wire digest, which covers only datagrams
    /// that manage the fabric.
    fn do_sampling(&mut self, id: ManagerId, wanted: Out) -> Result<(), RehearsalError> {
        match wanted {
            Out::Survey(fabric, plan) => {
                let inventory = Arc::new(survey(&fabric, &plan));
                let generation = plan.generation;
                return self.coordinate(id, In::Surveyed { generation, inventory });
            }
            Out::Request { datagram, .. } => {
                if let Some(client) = self.life(id).map(|life| life.client) {
                    self.emulator.send(self.now, client, &datagram);
                }
            }
            Out::Sampled(sampled) => self.queues.sampled.push((id, sampled)),
            _ => {}
        }
        Ok(())
    }

    /// Sends a datagram of a manager. The wire digest already includes it.
    pub(super) fn send(&mut self, id: ManagerId, datagram: Datagram, timeout: Duration) -> Result<(), RehearsalError> {
        let now = self.now;
        let Some(life) = &self.managers[id.0].life else {
            return Ok(());
        };
        self.counts.asks += u64::from(asks_host(&datagram.mad));
        let client = life.client;
        self.emulator.send(now, client, &datagram);
        let datagram = &datagram;
        self.observe(&Seen::Sends {
            id,
            client,
            datagram,
            timeout,
        })
    }

    /// Handles a milestone of a manager. Checkers note it at once; its coordinator gets it after the manager's outputs.
    pub(super) fn reached(&mut self, id: ManagerId, milestone: Milestone) -> Result<(), RehearsalError> {
        let now = self.now;
        let Some(life) = &mut self.managers[id.0].life else {
            return Ok(());
        };
        let mut looks_anew = None;
        match &milestone {
            Milestone::SweepStarted => {
                let chassis = self.emulator.chassis();
                let nodes = chassis.fabric().nodes().indices();
                life.looks.sweeps(now, nodes.map(|n| chassis.boots(n)).collect());
                looks_anew = Some(life.client);
            }
            // If the manager drops a result, no milestone follows.
            Milestone::Coming { was_known, .. } => {
                life.plans.accept();
                self.counts.known_repairs += u64::from(*was_known);
            }
            Milestone::Committed(committed) => {
                let in_force = (Arc::clone(&committed.fabric), Arc::clone(&committed.plan));
                life.plans.commit(Some(in_force));
            }
            Milestone::RoleChanged { role } => {
                life.role_changes += 1;
                self.counts.led += u64::from(*role == Role::Master);
                if *role != Role::Master {
                    life.plans.commit(None);
                }
            }
            // It is stored.
            Milestone::OutOfService { after, .. } => {
                Arc::make_mut(&mut self.managers[id.0].config.policy).out_of_service = Arc::clone(after);
            }
            Milestone::Swept(_)
            | Milestone::CopiesChanged(_)
            | Milestone::TrapTaken(_)
            | Milestone::KnownChanged(_)
            | Milestone::RolledBack { .. }
            | Milestone::KeyChanged(_) => {}
        }
        self.queues.milestones.push_back((id, milestone));
        looks_anew.map_or(Ok(()), |client| self.observe(&Seen::LooksAnew(client)))
    }

    /// Returns the answer of the agent at a manager's own port to the copier: the master's LID, and the port's.
    fn own_port(&self, at: PortIdx, asked: &Datagram) -> Datagram {
        let settings = *self.emulator.chassis().port(at).settings();
        let mut mad: Mad = asked.mad;
        mad.set_method(Method::GetResp);
        let info = PortInfo {
            lid: settings.lids.base,
            sm_lid: settings.sm_lid,
            ..PortInfo::default()
        };
        mad.set_smp_data(&info.emit());
        Datagram { mad, ..*asked }
    }
}

/// Returns the registrations that an earlier process left on the disk. If they are incomplete, removes the mark.
fn found(dir: &StateDir) -> Result<Found, StoreError> {
    let found = Found::read(Some(dir))?;
    if found.is_lost {
        dir.mark_unstored()?;
    }
    Ok(found)
}

/// Returns an output that sends a datagram without an answer.
const fn at_once(datagram: Datagram) -> Output {
    Output::Send {
        datagram,
        timeout: Duration::ZERO,
    }
}

/// True if an administrator with a defect keeps an input from its manager.
fn keeps(defect: Option<DeskDefect>, life: &Life, input: &Input) -> bool {
    match input {
        Input::Groups(_) => defect == Some(DeskDefect::KeepsGroups),
        Input::Command(Command::ReregisterThese(_)) => {
            defect == Some(DeskDefect::CopiesNoForgotten) && life.sm.role() == Role::Standby
        }
        _ => false,
    }
}

/// Indexes a plan in force, unless a defect keeps the administrator at its first plan.
fn index(defect: Option<DeskDefect>, life: &mut Life, sources: Sources) -> Option<Arc<Snapshot>> {
    let had_one = std::mem::replace(&mut life.has_indexed, true);
    let stays = had_one && defect == Some(DeskDefect::AnswersFromThePast);
    (!stays).then(|| Arc::new(Snapshot::new(sources)))
}

/// Removes the mark. Returns true if the coordinator gets the report of the removal.
fn remove_mark(defect: Option<DeskDefect>, folder: Option<&Folder>) -> bool {
    if defect == Some(DeskDefect::StoresNothing) {
        return true;
    }
    let is_done = folder.is_none_or(|folder| folder.dir.mark_unstored().is_ok());
    is_done || defect == Some(DeskDefect::ConfirmsUnmarked)
}
