//! A process with the three modules: its main thread makes the calls, its asynchronous thread handles the events.

use std::collections::VecDeque;

use selvedge_hca::{
    AsyncEvent, AttrMask as M, Context, Element, EventType, Hca, Path, PathState, Ps, Qp, QpAttr, QpState, Transport,
};

use crate::error::ToleranceError;
use crate::shared::{Entry, In, Shared, Status};
use crate::thread::{Thread, ThreadCosts, ThreadCounts};

/// Number of a process, such as its MPI rank.
pub type Peer = u32;

/// The modules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Module {
    /// Alternate path specification.
    Specify,
    /// Path loading request: REARM.
    Load,
    /// Both in one call of `modify_qp`, which the paper calls migrated-armed.
    SpecifyAndLoad,
    /// Path migration.
    Migrate,
}

/// Queue pairs that a module works on.
#[derive(Clone, Copy, Debug)]
pub enum Of<'a> {
    /// All that were added.
    All,
    /// All of these peers.
    Peers(&'a [Peer]),
    /// These.
    Qps(&'a [Qp]),
}

/// What the main thread can learn from a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Report {
    /// A call was refused when its turn came; the list goes on.
    Refused(Ps, Qp, Module, ToleranceError),
    /// An event was handled.
    Event(Ps, AsyncEvent),
}

#[derive(Clone, Copy, Debug)]
struct Call {
    qp: Qp,
    module: Module,
    path: Option<Path>,
}

/// A process.
#[derive(Clone, Debug)]
pub struct Process {
    context: Context,
    shared: Shared,
    thread: Thread,
    calls: VecDeque<Call>,
    main_free_at: Ps,
    reports: Vec<Report>,
}

impl Process {
    /// Returns a process without queue pairs, on a context of which it fetches all asynchronous events.
    #[must_use]
    pub fn new(context: Context, costs: ThreadCosts) -> Self {
        Self {
            context,
            shared: Shared::default(),
            thread: Thread::new(costs),
            calls: VecDeque::new(),
            main_free_at: 0,
            reports: Vec::new(),
        }
    }

    /// Adds a queue pair, in any state, and the process at its other end.
    pub fn add(&mut self, now: Ps, peer: Peer, qp: Qp, transport: Transport) -> Result<(), ToleranceError> {
        if transport == Transport::Ud {
            return Err(ToleranceError::NotConnected);
        }
        self.shared.add(now, peer, qp);
        Ok(())
    }

    fn select(&self, of: Of<'_>) -> Result<Vec<Qp>, ToleranceError> {
        match of {
            Of::All => Ok(self.shared.iter().map(|(qp, _)| qp).collect()),
            Of::Peers(peers) => {
                let known = |peer: Peer| self.shared.iter().any(|(_, entry)| entry.peer == peer);
                if let Some(&peer) = peers.iter().find(|&&peer| !known(peer)) {
                    return Err(ToleranceError::UnknownPeer { peer });
                }
                let of_peers = self.shared.iter().filter(|(_, entry)| peers.contains(&entry.peer));
                Ok(of_peers.map(|(qp, _)| qp).collect())
            }
            Of::Qps(qps) => {
                let unknown = qps.iter().any(|qp| self.shared.get(*qp).is_none());
                if unknown {
                    Err(ToleranceError::UnknownQp)
                } else {
                    Ok(qps.to_vec())
                }
            }
        }
    }

    /// Specifies alternate paths. Queue pairs for which `choose` has none are left out.
    ///
    /// In INIT and RTR the path is kept, and goes out with [`Process::modify_qp`] to RTS.
    pub fn specify(
        &mut self,
        now: Ps,
        hca: &mut Hca,
        of: Of<'_>,
        choose: impl FnMut(Qp) -> Option<Path>,
    ) -> Result<(), ToleranceError> {
        self.request_paths(now, hca, of, Module::Specify, choose)
    }

    /// Requests that alternate paths be loaded.
    pub fn load(&mut self, now: Ps, hca: &mut Hca, of: Of<'_>) -> Result<(), ToleranceError> {
        let qps = self.select(of)?;
        self.begin(now, hca, qps.into_iter().map(|qp| (qp, Module::Load, None)))
    }

    /// Specifies alternate paths and requests that they be loaded, in one call for each queue pair.
    pub fn specify_and_load(
        &mut self,
        now: Ps,
        hca: &mut Hca,
        of: Of<'_>,
        choose: impl FnMut(Qp) -> Option<Path>,
    ) -> Result<(), ToleranceError> {
        self.request_paths(now, hca, of, Module::SpecifyAndLoad, choose)
    }

    fn request_paths(
        &mut self,
        now: Ps,
        hca: &mut Hca,
        of: Of<'_>,
        module: Module,
        mut choose: impl FnMut(Qp) -> Option<Path>,
    ) -> Result<(), ToleranceError> {
        let qps = self.select(of)?;
        let calls: Vec<_> = qps
            .into_iter()
            .filter_map(|qp| choose(qp).map(|path| (qp, module, Some(path))))
            .collect();
        self.begin(now, hca, calls.into_iter())
    }

    /// Moves connections to their alternate paths. The shared state has to show ARMED when the turn of a queue pair
    /// comes.
    pub fn migrate(&mut self, now: Ps, hca: &mut Hca, of: Of<'_>) -> Result<(), ToleranceError> {
        let qps = self.select(of)?;
        self.begin(now, hca, qps.into_iter().map(|qp| (qp, Module::Migrate, None)))
    }

    /// Queues calls of the main thread, which makes each when the one before has returned.
    fn begin(
        &mut self,
        now: Ps,
        hca: &mut Hca,
        calls: impl Iterator<Item = (Qp, Module, Option<Path>)>,
    ) -> Result<(), ToleranceError> {
        let calls = calls.map(|(qp, module, path)| Call { qp, module, path });
        self.calls.extend(calls);
        self.run_main(now, hca);
        Ok(())
    }

    fn run_main(&mut self, now: Ps, hca: &mut Hca) {
        while self.main_free_at <= now {
            let Some(call) = self.calls.pop_front() else { return };
            match self.issue(now, hca, call) {
                Ok(end) => self.main_free_at = end,
                Err(error) => self.reports.push(Report::Refused(now, call.qp, call.module, error)),
            }
        }
    }

    fn issue(&mut self, now: Ps, hca: &mut Hca, call: Call) -> Result<Ps, ToleranceError> {
        let state = hca.query_qp(call.qp)?.state;
        let entry = self.shared.get(call.qp).ok_or(ToleranceError::UnknownQp)?;
        let may_migrate = match (call.module, entry.status, entry.dead) {
            (Module::Migrate, Status::Armed, true) => Err(ToleranceError::AlternateDead),
            (Module::Migrate, Status::Migrated | Status::Loading | Status::Migrating, _) => {
                Err(ToleranceError::NotArmed)
            }
            (Module::Migrate, Status::Armed, false) | (Module::Specify | Module::Load | Module::SpecifyAndLoad, ..) => {
                Ok(())
            }
        };
        match state {
            QpState::Reset | QpState::Sqe | QpState::Err => return Err(ToleranceError::NoPaths { state }),
            QpState::Init | QpState::Rtr => {
                may_migrate?;
                self.shared.hold(call.qp, call.path, call.module != Module::Specify);
                return Ok(now);
            }
            QpState::Rts | QpState::Sqd => may_migrate?,
        }
        let (mask, wanted) = match call.module {
            Module::Specify => (M::ALT_PATH, PathState::Migrated),
            Module::Load => (M::PATH_MIG_STATE, PathState::Rearm),
            Module::SpecifyAndLoad => (M::ALT_PATH.with(M::PATH_MIG_STATE), PathState::Rearm),
            Module::Migrate => (M::PATH_MIG_STATE, PathState::Migrated),
        };
        let mut attr = QpAttr {
            path_mig_state: wanted,
            ..QpAttr::default()
        };
        if let Some(path) = call.path {
            attr.alternate = path;
        }
        let end = hca.modify_qp(now, call.qp, &attr, mask)?;
        self.shared.handle(now, call.qp, In::Called(call.module, call.path));
        Ok(end)
    }

    /// Calls `modify_qp` for a change of state. To RTS it adds the alternate path and the loading request that were
    /// made before. Returns when the call returns.
    pub fn modify_qp(&mut self, now: Ps, hca: &mut Hca, qp: Qp, attr: &QpAttr, mask: M) -> Result<Ps, ToleranceError> {
        let to_rts = mask.has(M::STATE) && attr.state == QpState::Rts;
        let held = self
            .shared
            .get(qp)
            .filter(|_| to_rts)
            .map(|entry| (entry.held, entry.load_held));
        let (mut attr, mut mask) = (*attr, mask);
        let (path, load) = held.unwrap_or((None, false));
        if let Some(path) = path {
            attr.alternate = path;
            mask = mask.with(M::ALT_PATH);
        }
        if load {
            attr.path_mig_state = PathState::Rearm;
            mask = mask.with(M::PATH_MIG_STATE);
        }
        let end = hca.modify_qp(now.max(self.main_free_at), qp, &attr, mask)?;
        self.main_free_at = end;
        let to_reset = mask.has(M::STATE) && attr.state == QpState::Reset;
        if to_rts || to_reset {
            self.shared.release(qp);
        }
        if let Some(path) = path {
            self.shared.handle(now, qp, In::Called(Module::Specify, Some(path)));
        }
        if load {
            self.shared.handle(now, qp, In::Called(Module::Load, None));
        }
        Ok(end)
    }

    /// Takes the time at which an asynchronous event of the context becomes visible ([`selvedge_hca::Notice`]).
    pub fn announce(&mut self, at: Ps) {
        self.thread.announce(at);
    }

    /// Returns when [`Process::wake`] is due.
    #[must_use]
    pub fn next_wake(&self) -> Option<Ps> {
        let main = (!self.calls.is_empty()).then_some(self.main_free_at);
        [main, self.thread.next_wake()].into_iter().flatten().min()
    }

    /// Lets both threads go on.
    pub fn wake(&mut self, now: Ps, hca: &mut Hca) {
        let verify = hca.config().costs.command_ps;
        let shared = &self.shared;
        let check = |event: &AsyncEvent| match event.element {
            Element::Qp(qp) if shared.get(qp).is_some_and(|entry| entry.uncertain) => verify,
            Element::Qp(_) | Element::Cq(_) | Element::Srq(_) | Element::Port(_) => 0,
        };
        if let Some(event) = self.thread.run(now, hca, self.context, check) {
            self.handled(now, hca, event);
        }
        self.run_main(now, hca);
    }

    fn handled(&mut self, now: Ps, hca: &Hca, event: AsyncEvent) {
        if let Element::Qp(qp) = event.element {
            let uncertain = self.shared.get(qp).is_some_and(|entry| entry.uncertain);
            let answer = hca
                .query_qp(qp)
                .ok()
                .filter(|_| uncertain)
                .map(|attr| attr.path_mig_state);
            let input = match event.kind {
                EventType::PathArmed => Some(In::Armed(answer)),
                EventType::PathMig => Some(In::Migrated(answer)),
                EventType::PathMigErr => Some(In::Refused(answer)),
                _ => None,
            };
            if let Some(input) = input {
                self.shared.handle(now, qp, input);
            }
        }
        self.reports.push(Report::Event(now, event));
    }

    /// Returns what is known of a queue pair.
    #[must_use]
    pub fn entry(&self, qp: Qp) -> Option<&Entry> {
        self.shared.get(qp)
    }

    /// Returns what is known of all queue pairs.
    pub fn entries(&self) -> impl Iterator<Item = (Qp, &Entry)> {
        self.shared.iter()
    }

    /// Returns the number of queue pairs with a status.
    #[must_use]
    pub fn count(&self, status: Status) -> usize {
        self.shared.iter().filter(|(_, entry)| entry.status == status).count()
    }

    /// Moves all reports since the last call to the end of `out`.
    pub fn take_reports(&mut self, out: &mut Vec<Report>) {
        out.append(&mut self.reports);
    }

    /// Returns when the last call of the main thread returns.
    #[must_use]
    pub const fn main_free_at(&self) -> Ps {
        self.main_free_at
    }

    /// Returns what the asynchronous thread has done.
    #[must_use]
    pub const fn thread_counts(&self) -> ThreadCounts {
        self.thread.counts()
    }

    /// True if no call and no announced event waits.
    #[must_use]
    pub fn is_at_rest(&self) -> bool {
        self.calls.is_empty() && self.thread.is_idle()
    }
}
