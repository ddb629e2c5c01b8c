//! One run: the programs of all hosts on their adapters, the subnet between them, and what happens to it.

mod paths;
mod samples;
mod setup;
mod software;
mod ways;

use std::collections::{BTreeMap, BTreeSet};

use selvedge_api::{MigrationError, MigrationRun};
use selvedge_dataplane::{Change, PS_PER_NS, Ps};
use selvedge_fabric::{NodeIdx, PortRef};
use selvedge_hca::{Element, EventType, Notice, Path, Qp, SendOp, Wc, WcStatus};
use selvedge_plan::Tables;
use selvedge_sim::Rng;
use selvedge_tolerance::{Cluster, Deaths, Module, Objects, Process, Reach, Rearm, Report};
use selvedge_types::Lid;
use selvedge_workload::Receivers;

use self::samples::Samples;
use self::software::Software;
use super::wakes::Wakes;
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
    /// Programs are told: they ask for the migration of queue pairs, by host, and learn which LIDs are not reached.
    Tell(Told),
    /// Programs look for congestion.
    Sample,
    /// Progress is reported.
    Report,
}

/// What programs are told of a fault, by host.
#[derive(Clone, Debug, Default)]
pub(super) struct Told {
    migrate: BTreeMap<u32, Vec<Qp>>,
    reach: BTreeMap<u32, Vec<Reach>>,
}

/// One end of a connection.
#[derive(Clone, Debug)]
struct End {
    qp: Qp,
    number: u32,
    peer: u32,
    in_error: bool,
    /// Its primary path, its alternate path if it has one, and those that may replace it.
    paths: Vec<Path>,
    /// Messages posted, and messages acknowledged.
    posted: u64,
    done: u64,
}

/// The program of a host.
#[derive(Debug)]
struct Program {
    /// Its number in the cluster.
    place: usize,
    node: NodeIdx,
    objects: Objects,
    rkey: u32,
    ends: Vec<End>,
    /// By queue pair.
    by_qp: BTreeMap<Qp, u32>,
    /// By peer: the connections, and the one with the next turn.
    by_peer: BTreeMap<u32, (Vec<u32>, usize)>,
    in_flight: u32,
    /// Messages posted.
    posted: u64,
    rng: Rng,
    /// The modules of path migration, when a connection is armed again, and what the manager has said of LIDs.
    process: Process,
    rearm: Rearm,
    deaths: Deaths,
}

/// One run.
pub(super) struct World<'a> {
    question: &'a Question,
    force: &'a InForce,
    lab: &'a Lab<'a>,
    cluster: Cluster,
    programs: Vec<Program>,
    receivers: Receivers,
    /// By place in the cluster: the host.
    hosts: BTreeMap<usize, u32>,
    /// When programs are due; after them, carriers of [`Software`].
    wakes: Wakes,
    software: Software,
    samples: Samples,
    /// The tables in force, and the cables that are cut.
    tables: Tables,
    cuts: BTreeSet<PortRef>,
    /// Pairs of LIDs of loaded paths between which nothing arrives.
    broken: BTreeSet<(Lid, Lid)>,
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

impl World<'_> {
    /// Returns the number of queue pairs.
    pub(super) fn queue_pairs(&self) -> u64 {
        let ends = self.programs.iter().map(|program| program.ends.len() as u64);
        ends.sum::<u64>() + self.software.queue_pairs()
    }

    /// Runs to the end of the simulated time. Times of acts count from the moment when all connections stand.
    pub(super) fn run(
        &mut self,
        acts: Vec<(Ps, Act)>,
        (reporter, before): (&Reporter<'_>, u64),
    ) -> Result<MigrationRun, StudyError> {
        let duration = self.question.settings.duration_ns * PS_PER_NS;
        let mut queue: BTreeMap<(Ps, usize), Act> = BTreeMap::new();
        let mut place = 0;
        let mut add = |queue: &mut BTreeMap<_, _>, at, act| {
            queue.insert((at, place), act);
            place += 1;
        };
        for (at, act) in acts {
            add(&mut queue, at, act);
        }
        for piece in 1..=PIECES {
            let at = (u128::from(duration) * u128::from(piece) / u128::from(PIECES)) as Ps;
            add(&mut queue, at, Act::Report);
        }
        if let Mode::Policy(sampling) = self.question.mode {
            add(&mut queue, sampling.every, Act::Sample);
        }
        self.until(self.start)?;
        for host in 0..self.programs.len() {
            self.feed(host)?;
        }
        while let Some(((at, _), act)) = queue.pop_first() {
            if at > duration {
                break;
            }
            self.until(self.start + at)?;
            if matches!(act, Act::Report) {
                reporter.check()?;
                reporter.reach(before + at / PS_PER_NS);
            }
            if let Some((later, act)) = self.act(at, act)? {
                add(&mut queue, later, act);
            }
        }
        self.run.packets_lost = self.cluster.lost_packets();
        self.run.repeated = self.software.repeated();
        Ok(std::mem::take(&mut self.run))
    }

    /// Carries out an act; returns another one that follows from it, with its time.
    fn act(&mut self, at: Ps, act: Act) -> Result<Option<(Ps, Act)>, StudyError> {
        Ok(match act {
            Act::Change(change) => self.change(at, change),
            Act::Entries(entries) => {
                for Entry { switch, lid, egress } in entries {
                    self.tables.set(switch, lid, egress);
                    let output = egress;
                    self.cluster.apply(Change::Entry { switch, lid, output });
                }
                self.tell(at, None)
            }
            Act::Tell(told) => {
                self.told(told)?;
                None
            }
            Act::Sample => self.sample(at)?,
            Act::Report => None,
        })
    }

    fn change(&mut self, at: Ps, change: Change) -> Option<(Ps, Act)> {
        let mut cut = None;
        match &change {
            Change::Cut(end) => {
                cut = Some(cable(&self.force.fabric, *end));
                self.cuts.extend(cut);
            }
            Change::Mend(end) => {
                self.cuts.remove(&cable(&self.force.fabric, *end));
            }
            Change::Entry { switch, lid, output } => self.tables.set(*switch, *lid, *output),
            _ => {}
        }
        let told = self.tell(at, cut);
        self.cluster.apply(change);
        told
    }

    /// Runs until a time; programs fetch what they are told of.
    fn until(&mut self, until: Ps) -> Result<(), StudyError> {
        loop {
            let wake = self.wakes.next_at().filter(|at| *at <= until);
            let is_notice = self.cluster.run_to_notice(wake.unwrap_or(until));
            if !is_notice && wake.is_none() {
                return Ok(());
            }
            while let Some((place, notice)) = self.cluster.take_notice() {
                self.notice(place, notice)?;
            }
            while let Some(number) = self.wakes.take_due(self.cluster.now()) {
                self.wake(number)?;
            }
        }
    }

    fn notice(&mut self, place: usize, notice: Notice) -> Result<(), StudyError> {
        let Some(&host) = self.hosts.get(&place) else {
            return Ok(());
        };
        let host = host as usize;
        match notice {
            Notice::Completion(_, cq) if cq == self.programs[host].objects.cq => self.completed(host)?,
            Notice::Completion(_, cq) => {
                if let Some(carrier) = self.software.of_queue(place, cq) {
                    self.carried(carrier)?;
                }
            }
            Notice::Async(at, context) if context == self.programs[host].objects.context => {
                self.programs[host].process.announce(at);
                self.wake(host as u32)?;
            }
            Notice::Async(..) | Notice::Channel(..) => {}
        }
        Ok(())
    }

    /// Lets a program's threads go on, or a carrier.
    fn wake(&mut self, number: u32) -> Result<(), StudyError> {
        let host = number as usize;
        let Some(program) = self.programs.get_mut(host) else {
            return self.carried(number - self.programs.len() as u32);
        };
        let process = &mut program.process;
        self.cluster.act(program.place, |hca, now| {
            process.wake(now, hca);
            Ok(())
        })?;
        self.wakes.set(number, process.next_wake());
        self.reports(host)
    }

    /// Returns the step of the time lines.
    fn step(&self) -> usize {
        let duration = u128::from(self.question.settings.duration_ns * PS_PER_NS).max(1);
        let since = u128::from(self.cluster.now().saturating_sub(self.start));
        (since * u128::from(STEPS) / duration).min(u128::from(STEPS) - 1) as usize
    }

    fn completed(&mut self, host: usize) -> Result<(), StudyError> {
        let program = &self.programs[host];
        let mut done = std::mem::take(&mut self.done);
        done.clear();
        self.cluster
            .act(program.place, |hca, now| program.objects.poll(hca, now, &mut done))?;
        for wc in &done {
            let program = &mut self.programs[host];
            program.in_flight = program.in_flight.saturating_sub(1);
            if wc.status == WcStatus::Success {
                self.arrived(1);
                self.acknowledged(host, wc.wr_id as usize)?;
                continue;
            }
            self.run.messages_failed += 1;
            self.failed(host, wc.wr_id as usize, wc.status);
        }
        self.done = done;
        self.feed(host)
    }

    /// Counts messages that have arrived.
    fn arrived(&mut self, messages: u64) {
        let bytes = messages * u64::from(self.question.program.message_bytes);
        let step = self.step();
        self.run.messages += messages;
        self.run.bytes += bytes;
        self.run.goodput[step] += bytes;
    }

    /// Counts a queue pair that went to ERR.
    fn failed(&mut self, host: usize, end: usize, status: WcStatus) {
        let Some(end) = self.programs[host].ends.get_mut(end).filter(|end| !end.in_error) else {
            return;
        };
        end.in_error = true;
        let peer = end.peer;
        self.qp_error(host, peer, status.name(), 1);
    }

    fn qp_error(&mut self, host: usize, peer: u32, status: &str, count: u64) {
        let step = self.step();
        self.run.qp_errors += count;
        self.run.failed[step] += count;
        if self.run.errors.len() < ERRORS_MAX {
            let name = |host: usize| self.lab.hosts.all()[host].name.clone();
            self.run.errors.push(MigrationError {
                at_ns: self.cluster.now().saturating_sub(self.start) / PS_PER_NS,
                host: name(host),
                peer: name(peer as usize),
                status: status.to_owned(),
            });
        }
    }

    /// Posts messages until as many are in flight as the program wants.
    fn feed(&mut self, host: usize) -> Result<(), StudyError> {
        let mut skipped = 0;
        let asked = self.question.program;
        let most = asked.messages.map_or(u64::MAX, u64::from);
        let wants = |program: &Program| program.in_flight < asked.in_flight && program.posted < most;
        while wants(&self.programs[host]) && skipped < self.programs.len() {
            let program = &mut self.programs[host];
            let Some(peer) = self.receivers.next(host as u32, &mut program.rng) else {
                return Ok(());
            };
            let is_posted = match self.question.rival {
                Some(_) => self.carry(host as u32, peer)?,
                None => self.post(host, peer),
            };
            if is_posted {
                self.programs[host].in_flight += 1;
                self.programs[host].posted += 1;
            } else {
                skipped += 1;
            }
        }
        Ok(())
    }

    /// Posts a message to a peer. False if no connection takes it.
    fn post(&mut self, host: usize, peer: u32) -> bool {
        let rkey = self.programs[peer as usize].rkey;
        let bytes = self.question.program.message_bytes;
        let program = &mut self.programs[host];
        let Some(end) = program.next_end(peer) else {
            return false;
        };
        let op = SendOp::Write {
            addr: 0,
            rkey,
            immediate: None,
        };
        let (qp, objects) = (program.ends[end as usize].qp, program.objects);
        let posted = self.cluster.act(program.place, |hca, now| {
            objects.post(hca, now, qp, op, u64::from(end), bytes)
        });
        if posted.is_ok() {
            program.ends[end as usize].posted += 1;
            program.rearm.posted(qp);
        }
        posted.is_ok()
    }

    /// Handles what the threads of a host's program have reported.
    fn reports(&mut self, host: usize) -> Result<(), StudyError> {
        let mut reports = Vec::new();
        self.programs[host].process.take_reports(&mut reports);
        for report in reports {
            let event = match report {
                Report::Event(_, event) => event,
                Report::Refused(_, _, Module::Migrate, _) => {
                    self.run.not_armed += 1;
                    continue;
                }
                Report::Refused(..) => {
                    self.run.loads_refused += 1;
                    continue;
                }
            };
            let Element::Qp(qp) = event.element else { continue };
            match event.kind {
                EventType::PathMig => self.migrated(host, qp),
                EventType::PathMigErr => self.run.migrations_failed += 1,
                EventType::QpFatal | EventType::QpAccessErr => {
                    if let Some(&end) = self.programs[host].by_qp.get(&qp) {
                        self.failed(host, end as usize, WcStatus::RemOpErr);
                    }
                }
                _ => {}
            }
        }
        Ok(())
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
