//! One run: the programs of all hosts on their adapters, the subnet between them, and what happens to it.

mod setup;
mod ways;

use std::collections::{BTreeMap, BTreeSet};

use selvedge_api::{MigrationError, MigrationRun};
use selvedge_dataplane::{Change, PS_PER_NS, Ps, Simulation};
use selvedge_fabric::{NodeIdx, PortRef};
use selvedge_hca::{
    Adapters, AsyncEvent, AttrMask as M, Element, EventType, Hca, HcaConfig, HcaIndex, Notice, PathState, QpAttr,
    SendOp, SendWr, Sge, Wc, WcStatus,
};
use selvedge_plan::Tables;
use selvedge_sim::Rng;
use selvedge_types::Guid;
use selvedge_workload::Receivers;

use super::hosts::Link;
use super::{Entry, Lab, Mode, Question, STEPS, cable};
use crate::error::StudyError;
use crate::in_force::InForce;
use crate::watch::Reporter;

/// Something that happens to the fabric or to programs.
#[derive(Clone, Debug)]
pub(super) enum Act {
    /// A change of the fabric.
    Change(Change),
    /// The manager's entries are in force.
    Entries(Vec<Entry>),
    /// Programs ask for the migration of these queue pairs: host and queue pair.
    Ask(Vec<(u32, u32)>),
}

/// One end of a connection.
#[derive(Clone, Debug)]
struct End {
    qp: selvedge_hca::Qp,
    number: u32,
    peer: u32,
    in_error: bool,
    /// Its two paths; the same one twice if it has no alternate path.
    paths: [selvedge_hca::Path; 2],
    /// Messages posted, and messages acknowledged.
    posted: u64,
    done: u64,
    /// After a migration: arm again when more messages than these are acknowledged.
    arm_after: Option<u64>,
}

/// The program of a host.
#[derive(Debug)]
struct Program {
    hca: HcaIndex,
    node: NodeIdx,
    context: selvedge_hca::Context,
    pd: selvedge_hca::Pd,
    cq: selvedge_hca::Cq,
    lkey: u32,
    rkey: u32,
    ends: Vec<End>,
    /// By number of a queue pair.
    by_number: BTreeMap<u32, u32>,
    /// By peer: the connections, and the one with the next turn.
    by_peer: BTreeMap<u32, (Vec<u32>, usize)>,
    in_flight: u32,
    rng: Rng,
}

/// One run.
pub(super) struct World<'a> {
    question: &'a Question,
    force: &'a InForce,
    lab: &'a Lab<'a>,
    simulation: Simulation<Adapters>,
    programs: Vec<Program>,
    receivers: Receivers,
    /// By adapter: the host.
    hosts: BTreeMap<HcaIndex, u32>,
    /// The tables in force, and the cables that are cut.
    tables: Tables,
    cuts: BTreeSet<PortRef>,
    /// When all connections stand.
    start: Ps,
    run: MigrationRun,
    done: Vec<Wc>,
}

/// Errors that are listed.
const ERRORS_MAX: usize = 100;
/// Longest path in links that is followed: longer ones are loops.
const HOPS_MAX: usize = 64;
/// Pieces of a run, between which progress is reported and the study can be cancelled.
const PIECES: u64 = 200;
/// Address range of each host's memory.
const MEMORY_BYTES: u64 = 1 << 32;

impl<'a> World<'a> {
    /// Sets up all connections.
    pub(super) fn new(question: &'a Question, force: &'a InForce, lab: &'a Lab<'a>) -> Result<Self, StudyError> {
        let qp = question.settings.qp;
        let mut config = HcaConfig::new(Guid(1 << 32), 1);
        config.notices = true;
        (config.window_packets, config.ack_every) = (qp.window_packets, qp.ack_every);
        config.costs.ack_ps = qp.ack_delay_ns * PS_PER_NS;
        let most = config.limits.qps;
        let simulation = Simulation::of_endpoint(&lab.network, &question.settings, Adapters::new(config)?)?;
        let mut world = Self {
            programs: Vec::new(),
            receivers: lab.receivers.clone(),
            hosts: BTreeMap::new(),
            tables: force.routed.tables.clone(),
            cuts: BTreeSet::new(),
            start: 0,
            run: MigrationRun {
                goodput: vec![0; STEPS as usize],
                migrated: vec![0; STEPS as usize],
                failed: vec![0; STEPS as usize],
                ..MigrationRun::default()
            },
            done: Vec::new(),
            question,
            force,
            lab,
            simulation,
        };
        world.check_room(most)?;
        world.open()?;
        for link in &lab.links {
            for _ in 0..question.program.connections {
                world.connect(link)?;
            }
        }
        Ok(world)
    }

    /// Returns the number of queue pairs.
    pub(super) fn queue_pairs(&self) -> u64 {
        self.programs.iter().map(|program| program.ends.len() as u64).sum()
    }

    /// Runs to the end of the simulated time. Times of acts count from the moment when all connections stand.
    pub(super) fn run(
        &mut self,
        acts: Vec<(Ps, Act)>,
        (reporter, before): (&Reporter<'_>, u64),
    ) -> Result<MigrationRun, StudyError> {
        let duration = self.question.settings.duration_ns * PS_PER_NS;
        let mut queue: BTreeMap<(Ps, usize), Act> = BTreeMap::new();
        for (place, (at, act)) in acts.into_iter().enumerate() {
            queue.insert((at, place), act);
        }
        for piece in 1..=PIECES {
            let at = (u128::from(duration) * u128::from(piece) / u128::from(PIECES)) as Ps;
            queue.insert((at, usize::MAX), Act::Ask(Vec::new()));
        }
        self.until(self.start);
        for host in 0..self.programs.len() {
            self.feed(host);
        }
        while let Some(((at, place), act)) = queue.pop_first() {
            if at > duration {
                break;
            }
            self.until(self.start + at);
            if place == usize::MAX {
                reporter.check()?;
                reporter.reach(before + at / PS_PER_NS);
            }
            if let Some((later, act)) = self.act(at, act) {
                let place = queue.len();
                queue.insert((later, place), act);
            }
        }
        self.run.packets_lost = self.simulation.endpoint().lost_packets();
        Ok(std::mem::take(&mut self.run))
    }

    /// Carries out an act; returns another one that follows from it, with its time.
    fn act(&mut self, at: Ps, act: Act) -> Option<(Ps, Act)> {
        let mut follows = None;
        match act {
            Act::Change(change) => {
                match &change {
                    Change::Cut(end) => {
                        let cut = cable(&self.force.fabric, *end);
                        if let Mode::Request(told) = self.question.mode {
                            follows = Some((at + told, Act::Ask(self.over(cut))));
                        }
                        self.cuts.insert(cut);
                    }
                    Change::Mend(end) => {
                        self.cuts.remove(&cable(&self.force.fabric, *end));
                    }
                    Change::Entry { switch, lid, output } => self.tables.set(*switch, *lid, *output),
                    _ => {}
                }
                self.simulation.apply(change);
            }
            Act::Entries(entries) => {
                for Entry { switch, lid, egress } in entries {
                    self.tables.set(switch, lid, egress);
                    let output = egress;
                    self.simulation.apply(Change::Entry { switch, lid, output });
                }
            }
            Act::Ask(asked) => {
                for (host, end) in asked {
                    self.ask(host, end);
                }
            }
        }
        follows
    }

    /// Runs until a time; programs fetch what they are told of.
    fn until(&mut self, until: Ps) {
        while let Some(now) = Adapters::run_to_notice(&mut self.simulation, until) {
            while let Some((hca, notice)) = self.simulation.parts_mut().0.take_notice(now) {
                let Some(&host) = self.hosts.get(&hca) else { continue };
                match notice {
                    Notice::Completion(..) => self.completed(host as usize),
                    Notice::Async(..) => self.events(host),
                    Notice::Channel(..) => {}
                }
            }
        }
    }

    /// Calls verbs of a host's adapter.
    fn verbs<R>(&mut self, host: usize, verbs: impl FnOnce(&mut Hca, Ps) -> R) -> Option<R> {
        let hca = self.programs[host].hca;
        let (adapters, subnet) = self.simulation.parts_mut();
        adapters.act(subnet, hca, verbs)
    }

    /// Returns the step of the time lines.
    fn step(&self) -> usize {
        let duration = u128::from(self.question.settings.duration_ns * PS_PER_NS).max(1);
        let since = u128::from(self.simulation.now().saturating_sub(self.start));
        (since * u128::from(STEPS) / duration).min(u128::from(STEPS) - 1) as usize
    }

    fn completed(&mut self, host: usize) {
        let cq = self.programs[host].cq;
        let mut done = std::mem::take(&mut self.done);
        done.clear();
        self.verbs(host, |hca, now| hca.poll_cq(now, cq, 1_024, &mut done).ok());
        let step = self.step();
        for wc in &done {
            let program = &mut self.programs[host];
            program.in_flight = program.in_flight.saturating_sub(1);
            if wc.status == WcStatus::Success {
                let bytes = u64::from(self.question.program.message_bytes);
                self.run.messages += 1;
                self.run.bytes += bytes;
                self.run.goodput[step] += bytes;
                self.acknowledged(host, wc.wr_id as usize);
                continue;
            }
            self.run.messages_failed += 1;
            self.failed(host, wc.wr_id as usize, wc.status, step);
        }
        self.done = done;
        self.feed(host);
    }

    /// Counts a queue pair that went to ERR.
    fn failed(&mut self, host: usize, end: usize, status: WcStatus, step: usize) {
        let at_ns = self.simulation.now().saturating_sub(self.start) / PS_PER_NS;
        let Some(end) = self.programs[host].ends.get_mut(end).filter(|end| !end.in_error) else {
            return;
        };
        end.in_error = true;
        self.run.qp_errors += 1;
        self.run.failed[step] += 1;
        if self.run.errors.len() < ERRORS_MAX {
            let name = |host: usize| self.lab.hosts.all()[host].name.clone();
            self.run.errors.push(MigrationError {
                at_ns,
                host: name(host),
                peer: name(end.peer as usize),
                status: status.name().to_owned(),
            });
        }
    }

    /// Posts messages until as many are in flight as the program wants.
    fn feed(&mut self, host: usize) {
        let mut skipped = 0;
        while self.programs[host].in_flight < self.question.program.in_flight && skipped < self.programs.len() {
            let program = &mut self.programs[host];
            let Some(peer) = self.receivers.next(host as u32, &mut program.rng) else {
                return;
            };
            let Some(end) = program.next_end(peer) else {
                skipped += 1;
                continue;
            };
            let rkey = self.programs[peer as usize].rkey;
            let program = &mut self.programs[host];
            let sge = Sge {
                addr: 0,
                bytes: self.question.program.message_bytes,
                lkey: program.lkey,
            };
            let op = SendOp::Write {
                addr: 0,
                rkey,
                immediate: None,
            };
            let wr = SendWr {
                op,
                ..SendWr::send(u64::from(end), sge)
            };
            let qp = program.ends[end as usize].qp;
            if self
                .verbs(host, |hca, now| hca.post_send(now, qp, &wr))
                .is_some_and(|posted| posted.is_ok())
            {
                let program = &mut self.programs[host];
                program.in_flight += 1;
                program.ends[end as usize].posted += 1;
            } else {
                skipped += 1;
            }
        }
    }

    fn events(&mut self, host: u32) {
        let context = self.programs[host as usize].context;
        let next = |hca: &mut Hca, now: Ps| -> Option<AsyncEvent> {
            let event = hca.get_async_event(now, context).ok()??;
            hca.ack_async_event(&event);
            Some(event)
        };
        while let Some(Some(event)) = self.verbs(host as usize, next) {
            let Element::Qp(qp) = event.element else { continue };
            match event.kind {
                EventType::PathMig => self.migrated(host, qp),
                EventType::PathMigErr => self.run.migrations_failed += 1,
                EventType::QpFatal | EventType::QpAccessErr => {
                    let number = self.verbs(host as usize, |hca, _| hca.qp_num(qp).ok()).flatten();
                    let end = number.and_then(|number| self.programs[host as usize].by_number.get(&number).copied());
                    if let Some(end) = end {
                        let step = self.step();
                        self.failed(host as usize, end as usize, WcStatus::RemOpErr, step);
                    }
                }
                _ => {}
            }
        }
    }

    /// Counts a migration. The connection is armed again later, when a message that is posted from now on has been
    /// acknowledged: the other end has followed then. A queue pair in REARM shows MigReq 0, which an end that is still
    /// on the former path would not follow.
    fn migrated(&mut self, host: u32, qp: selvedge_hca::Qp) {
        let step = self.step();
        self.run.migrations += 1;
        self.run.migrated[step] += 1;
        let found = self.verbs(host as usize, |hca, _| {
            Some((hca.query_qp(qp).ok()?, hca.qp_num(qp).ok()?))
        });
        let Some((attr, number)) = found.flatten() else {
            return;
        };
        if !self.carries(host, &attr.primary) {
            self.run.dead_alternates += 1;
        }
        let program = &mut self.programs[host as usize];
        if let Some(&end) = program.by_number.get(&number) {
            let end = &mut program.ends[end as usize];
            end.arm_after = Some(end.posted);
        }
    }

    /// Counts an acknowledged message. Loads the former path as the next alternate one if that is due.
    fn acknowledged(&mut self, host: usize, end: usize) {
        let Some(end) = self.programs[host].ends.get_mut(end) else {
            return;
        };
        end.done += 1;
        if end.arm_after.is_none_or(|posted| end.done <= posted) {
            return;
        }
        end.arm_after = None;
        let (qp, paths) = (end.qp, end.paths);
        let armed = self.verbs(host, |hca, now| {
            let found = hca.query_qp(qp).ok()?;
            let attr = QpAttr {
                path_mig_state: PathState::Rearm,
                alternate: *paths.iter().find(|path| **path != found.primary)?,
                ..found
            };
            hca.modify_qp(now, qp, &attr, M::ALT_PATH.with(M::PATH_MIG_STATE)).ok()
        });
        self.run.rearmed += u64::from(armed.flatten().is_some());
    }

    /// Asks for the migration of a queue pair.
    fn ask(&mut self, host: u32, end: u32) {
        let qp = self.programs[host as usize].ends[end as usize].qp;
        let attr = QpAttr {
            path_mig_state: PathState::Migrated,
            ..QpAttr::default()
        };
        let asked = self.verbs(host as usize, |hca, now| {
            let state = hca.query_qp(qp).map(|attr| attr.path_mig_state);
            state == Ok(PathState::Armed) && hca.modify_qp(now, qp, &attr, M::PATH_MIG_STATE).is_ok()
        });
        self.run.requested += 1;
        self.run.not_armed += u64::from(asked != Some(true));
    }
}

impl Program {
    /// Returns the next connection to a peer that works.
    fn next_end(&mut self, peer: u32) -> Option<u32> {
        let (ends, turn) = self.by_peer.get_mut(&peer)?;
        for _ in 0..ends.len() {
            let end = ends[*turn % ends.len()];
            *turn = (*turn + 1) % ends.len();
            if !self.ends[end as usize].in_error {
                return Some(end);
            }
        }
        None
    }
}
