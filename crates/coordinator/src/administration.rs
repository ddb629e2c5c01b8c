//! The administrator together with the manager: the administrator gets the manager's milestones, and the manager gets
//! what hosts have registered.

mod copy;
mod jobs;

use std::sync::Arc;
use std::time::Duration;

use selvedge_fabric::{NodeIdx, PortRef};
use selvedge_plan::partition::Partitions;
use selvedge_plan::{Generation, OutOfService};
use selvedge_planner::Inventory;
use selvedge_sa::{Agents, Copier, CopyConfig, Input, JobError, JobRequest, Output, Sa, Snapshot, Sources};
use selvedge_sim::Time;
use selvedge_sm::{Command, Committed, Milestone, Role};
use selvedge_wire::{Class, Datagram, PortInfo, SwitchInfo};

use self::copy::CopyNews;
use self::jobs::{AnswerIn, Answers};
use crate::config::Administrated;
use crate::io::{In, Out};
use crate::keeper::Keeper;
use crate::retry::Retry;

/// How long changes of groups and alias GUIDs are collected before the manager gets them. A thousand hosts may join at
/// once, and each change makes the manager plan trees again.
const GATHER: Duration = Duration::from_millis(10);

/// The attributes of agents that the manager has read.
struct Read(Arc<Inventory>);

impl Agents for Read {
    fn port_info(&self, at: PortRef) -> Option<&PortInfo> {
        self.0.port_info(at)
    }

    fn switch_info(&self, node: NodeIdx) -> Option<&SwitchInfo> {
        self.0.agents.get(node)?.switch.as_ref()
    }
}

/// The administrator, its copy of the master's registrations, and the keeper of both.
#[derive(Debug)]
pub(crate) struct Administration {
    sa: Sa,
    /// While this manager stands by, copies the registrations of hosts from the master.
    copier: Copier,
    keeper: Keeper,
    /// Datagrams of the administrator that wait until the mark in the state folder is removed: see [`crate::keeper`].
    waiting: Vec<Output>,
    /// True if hosts register with this process.
    has_hosts: bool,
    /// Generation of the first plan in force since this manager last became master. No older plan is used.
    oldest: Option<Generation>,
    /// The preset groups that the administrator got last.
    presets: Option<Arc<Partitions>>,
    /// The list of places out of service that the administrator got last.
    listed: Arc<OutOfService>,
    /// The time when the manager last got groups and alias GUIDs.
    groups_given_at: Time,
    copy_news: CopyNews,
    /// Answers about jobs that wait for the disk.
    answers: Answers,
}

impl Administration {
    pub(crate) fn new(now: Time, with: Administrated, copy: CopyConfig) -> Self {
        Self {
            sa: Sa::with_registrations(with.administrator, now, with.registrations),
            copier: Copier::new(copy),
            keeper: Keeper::new(with.has_folder, with.is_lost),
            waiting: Vec::new(),
            has_hosts: with.has_hosts,
            oldest: None,
            presets: None,
            listed: Arc::default(),
            groups_given_at: Time::ZERO,
            copy_news: CopyNews::default(),
            answers: Answers::default(),
        }
    }

    /// Starts the process: gives the manager the list of hosts that it must ask to register again, and the partitions
    /// of jobs, so that its first plan does not take their P_Keys away.
    pub(crate) fn begin(&mut self, out: &mut Vec<Out>) {
        if !self.has_hosts {
            return;
        }
        self.give_partitions(out);
        let forgotten = self.sa.registrations().forgotten().clone();
        if self.keeper.is_lost() {
            out.push(command(Command::Reregister));
        } else if !forgotten.is_empty() {
            out.push(command(Command::ReregisterThese(forgotten)));
        }
        out.push(command(Command::HoldBack));
    }

    pub(crate) const fn administrator(&self) -> &Sa {
        &self.sa
    }

    /// Returns the failed attempts since the last success: to store registrations, and to write or remove the mark in
    /// the state folder.
    pub(crate) const fn retries(&self) -> [Retry; 2] {
        self.keeper.retries()
    }

    pub(crate) fn next_wake(&self) -> Option<Time> {
        let has_changed = self.sa.groups().has_changed() || self.sa.aliases().has_changed();
        let wakes = [
            self.sa.next_wake(),
            self.copier.next_wake(),
            self.keeper.next_wake(),
            has_changed.then(|| self.groups_given_at + GATHER),
            self.copy_news.next_wake(&self.copier),
        ];
        wakes.into_iter().flatten().min()
    }

    /// Returns true while registrations are copied from a master: an answer may be the copier's.
    pub(crate) fn is_copying(&self) -> bool {
        self.copier.next_wake().is_some()
    }

    /// Handles a datagram if it is the administrator's or answers the copier. Returns false if it is the manager's.
    pub(crate) fn takes(&mut self, now: Time, datagram: &Datagram, out: &mut Vec<Out>) -> bool {
        let mut asked = Vec::new();
        if self.is_copying() && self.copier.received(now, datagram, &mut asked) {
            self.copied(now, asked, out);
        } else if datagram.mad.class() == Class::SubnAdm {
            self.administer(now, Input::Received(*datagram), out);
        } else {
            return false;
        }
        self.inform_manager(now, out);
        true
    }

    /// Handles a milestone of the manager.
    pub(crate) fn reached(&mut self, now: Time, milestone: Milestone, out: &mut Vec<Out>) {
        match milestone {
            Milestone::SweepStarted
            | Milestone::KnownChanged(_)
            | Milestone::RolledBack { .. }
            | Milestone::OutOfService { .. } => return,
            Milestone::KeyChanged(key) => return self.copier.set_m_key(key.expose()),
            Milestone::TrapTaken(datagram) => self.administer(now, Input::Trap(*datagram), out),
            Milestone::Swept(fabric) => self.administer(now, Input::Swept(fabric), out),
            Milestone::Coming { fabric, plan, .. } => self.administer(now, Input::Coming(fabric, plan), out),
            Milestone::Committed(committed) => self.committed(now, *committed, out),
            Milestone::CopiesChanged(copies) => self.administer(now, Input::Copies(copies), out),
            Milestone::RoleChanged { role } => self.role_changed(now, role, out),
        }
        self.inform_manager(now, out);
    }

    /// Handles the result of an earlier output, a timer, or the end of the process.
    pub(crate) fn handle(&mut self, now: Time, input: In, out: &mut Vec<Out>) {
        match input {
            In::Wake => self.wake(now, out),
            In::Indexed(snapshot) => self.indexed(now, snapshot, out),
            In::MarkRemoved { is_done } => {
                self.keeper.mark_removed(now, is_done);
                self.send_waiting(out);
            }
            In::MarkSet { is_done } => self.keeper.mark_set(now, is_done),
            In::RegistrationsStored { revision, is_stored } => {
                if self.keeper.saved(now, revision, is_stored) {
                    out.push(Out::SetMark { has_ended: false });
                }
                self.answers.handle(AnswerIn::Stored { revision, is_stored }, out);
            }
            In::Job { ticket, request } => self.job(now, ticket, request, out),
            In::End => self.end(out),
            In::Start
            | In::Arrived(_)
            | In::Returned(_)
            | In::Milestone(_)
            | In::Command(_)
            | In::Persist { .. }
            | In::StateStored { .. }
            | In::KnownStored { .. }
            | In::Surveyed { .. }
            | In::Resume(_)
            | In::Clock(_) => {}
        }
        self.inform_manager(now, out);
    }

    /// Hands an input to the administrator. If registrations changed, its datagrams wait until the mark "all
    /// registrations are stored" in the state folder is removed ([`crate::keeper`]), so that a restart loses no
    /// confirmed registration.
    fn administer(&mut self, now: Time, input: Input, out: &mut Vec<Out>) {
        self.sa.handle(now, input, &mut self.waiting);
        self.keeper.changed(now, self.sa.revision());
        self.remove_mark(now, out);
        self.send_waiting(out);
    }

    fn remove_mark(&mut self, now: Time, out: &mut Vec<Out>) {
        if self.keeper.begin_removing(now) {
            out.push(Out::RemoveMark);
        }
    }

    /// Sends the waiting datagrams, unless the mark is being removed. After a failure, confirmations become BUSY.
    fn send_waiting(&mut self, out: &mut Vec<Out>) {
        if self.keeper.is_removing() {
            return;
        }
        let withholds = self.keeper.withholds();
        for mut output in self.waiting.drain(..) {
            if withholds {
                output.withhold();
            }
            let Output { datagram, timeout } = output;
            out.push(Out::Send { datagram, timeout });
        }
    }

    fn wake(&mut self, now: Time, out: &mut Vec<Out>) {
        if self.sa.next_wake().is_some_and(|at| at <= now) {
            self.administer(now, Input::Wake, out);
        }
        let mut asked = Vec::new();
        self.copier.wake(now, &mut asked);
        self.copied(now, asked, out);
        self.remove_mark(now, out);
        if self.keeper.is_due(now) {
            out.push(self.store_registrations());
        }
        self.give_groups(now, out);
    }

    /// Sends the copier's requests, and hands a finished copy to the administrator.
    fn copied(&mut self, now: Time, asked: Vec<Output>, out: &mut Vec<Out>) {
        let send = |Output { datagram, timeout }| Out::Send { datagram, timeout };
        out.extend(asked.into_iter().map(send));
        if let Some(copy) = self.copier.take() {
            self.administer(now, Input::Copied(copy), out);
        }
    }

    /// Handles a plan in force. Preset groups are handled first, so that they match the plan's policy.
    fn committed(&mut self, now: Time, committed: Committed, out: &mut Vec<Out>) {
        let partitions = committed.policy.partitions_told();
        if self.presets.as_ref() != Some(&partitions) {
            self.presets = Some(Arc::clone(&partitions));
            self.administer(now, Input::Presets(Arc::clone(&partitions)), out);
        }
        let listed = &committed.policy.out_of_service;
        if self.listed != *listed {
            self.listed = Arc::clone(listed);
            self.administer(now, Input::OutOfService(listed.to_text().into()), out);
        }
        if !committed.asks_all {
            self.keeper.hosts_were_asked(now);
        }
        let Committed {
            fabric,
            plan,
            inventory,
            lanes,
            unasked,
            mut manager,
            ..
        } = committed;
        manager.sm_key = 0;
        self.oldest.get_or_insert(plan.generation);
        out.push(Out::Index(Sources {
            fabric,
            plan,
            manager: (inventory.local, manager),
            agents: Arc::new(Read(inventory)),
            lanes,
            unasked,
            partitions,
        }));
    }

    /// Handles the finished index of a plan. It is discarded if the manager was not master all the time since
    /// [`Out::Index`].
    fn indexed(&mut self, now: Time, snapshot: Option<Arc<Snapshot>>, out: &mut Vec<Out>) {
        let is_answered_from =
            |snapshot: &Arc<Snapshot>| self.oldest.is_some_and(|oldest| snapshot.generation() >= oldest);
        if let Some(snapshot) = snapshot.filter(is_answered_from) {
            self.administer(now, Input::Committed(snapshot), out);
        }
    }

    /// Handles a change of role. Only a master answers hosts, and only a master knows their registrations.
    fn role_changed(&mut self, now: Time, role: Role, out: &mut Vec<Out>) {
        self.copier.end();
        self.oldest = None;
        match role {
            Role::Master => {
                self.copier.lead();
                self.administer(now, Input::Serve, out);
            }
            // The manager's own link is down: when it comes back there may still be no other master.
            Role::Discovering => self.administer(now, Input::Withdraw, out),
            Role::Standby | Role::NotActive => {
                self.keeper.lose();
                self.administer(now, Input::Forget, out);
                self.listed = Arc::default();
                // This drops the previous copy. A manager that is not active copies from no master.
                self.copier.begin(now);
                if role == Role::NotActive {
                    self.copier.end();
                }
                self.copy_news = CopyNews::default();
                out.push(command(Command::Reregister));
            }
        }
    }

    /// Gives the manager changes of groups and alias GUIDs. A driver wakes the coordinator only after it has handed in
    /// all arrivals, so hosts that join at one moment make the manager plan trees once.
    fn give_groups(&mut self, now: Time, out: &mut Vec<Out>) {
        let has_changed = self.sa.groups().has_changed() || self.sa.aliases().has_changed();
        if !has_changed || now.since(self.groups_given_at) < GATHER {
            return;
        }
        self.groups_given_at = now;
        let (ports, groups) = (self.sa.take_changed_aliases(), self.sa.take_changed_groups());
        if !ports.is_empty() {
            out.push(Out::Manager(selvedge_sm::Input::Aliases(ports)));
        }
        if !groups.is_empty() {
            out.push(Out::Manager(selvedge_sm::Input::Groups(groups)));
        }
    }

    /// Hands the manager changes of port names, and of the state of the copy.
    fn inform_manager(&mut self, now: Time, out: &mut Vec<Out>) {
        let doubted = self.sa.take_doubted();
        if !doubted.is_empty() {
            out.push(command(Command::Doubt(doubted)));
        }
        self.give_partitions(out);
        self.copy_news.tell(now, &mut self.copier, out);
    }

    /// Gives the manager the partitions of isolated jobs, if they have changed.
    fn give_partitions(&mut self, out: &mut Vec<Out>) {
        if let Some(partitions) = self.sa.take_job_partitions() {
            out.push(command(Command::JobPartitions(partitions)));
        }
    }

    /// Starts or ends a job.
    fn job(&mut self, now: Time, ticket: u64, request: JobRequest, out: &mut Vec<Out>) {
        let before = self.sa.revision();
        self.administer(now, Input::Job(request), out);
        let revision = self.sa.revision();
        let given = AnswerIn::Given {
            ticket,
            revision: (self.keeper.has_folder() && revision != before).then_some(revision),
            answer: Box::new(self.sa.take_job_answer().unwrap_or(Err(JobError::NoClasses))),
        };
        self.answers.handle(given, out);
    }

    fn store_registrations(&self) -> Out {
        Out::StoreRegistrations {
            revision: self.sa.revision(),
            registrations: Box::new(self.sa.registrations()),
        }
    }

    fn end(&mut self, out: &mut Vec<Out>) {
        let is_behind = self.keeper.is_behind();
        if self.keeper.end() {
            out.extend(is_behind.then(|| self.store_registrations()));
            out.push(Out::SetMark { has_ended: true });
        }
    }
}

/// Returns an output that hands the manager a command.
const fn command(command: Command) -> Out {
    Out::Manager(selvedge_sm::Input::Command(command))
}
