//! Managers with one defect each, which the checkers must find. A checker that finds none of them is useless.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::mem::discriminant;
use std::sync::Arc;
use std::time::Duration;

use selvedge_plan::{NO_PATH, Policy};
use selvedge_planner::{DefaultJudge, Job, JobId, JobResult, Judge, Task};
use selvedge_sim::Time;
use selvedge_sm::{Command, Input, Milestone, Output, PersistentState, Sm, StageName};
use selvedge_types::{Lid, PortState, TransactionId};
use selvedge_verify::{JudgeOptions, Kind as FindingKind};
use selvedge_wire::{AttributeId, Datagram, Method, PortInfo, SmInfo, SmState};

use crate::Tamper;

/// A defect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Broken {
    /// Blocks of forwarding tables are not sent, and count as acknowledged.
    DropTable,
    /// Two blocks are each sent to the other's switch.
    ExchangeTables,
    /// One entry of a block is another than was judged.
    EditEntry,
    /// Blocks are sent after the links behind them are ACTIVE.
    TablesLast,
    /// Blocks are sent in the opposite order, against their dependencies.
    ReverseTables,
    /// The judge accepts plans that can deadlock.
    AcceptCycles,
    /// State counts as stored and is not.
    StoreNothing,
    /// State that could not be stored counts as stored.
    StoreFailureIgnored,
    /// A new policy makes the manager give new LIDs to all ports.
    Reassign,
    /// Other managers get no answer.
    Silent,
    /// The manager shows other managers a false SMInfo state: NOT-ACTIVE.
    FalseRole,
    /// SMInfo of other managers is read as NOT-ACTIVE.
    NeverYield,
    /// Traps are thrown away.
    IgnoreTraps,
    /// Traps are acted upon and never repressed.
    NeverRepress,
    /// A port gets the LID after the one that was judged.
    Renumber,
    /// A port gets the LID that another port got before.
    SameLid,
    /// Each request is sent many times.
    Flood,
    /// Ports are not activated, and count as ACTIVE.
    NeverActivate,
    /// The manager ignores a new policy.
    DeafToPolicy,
    /// Timers are not served.
    NeverWake,
    /// The result of an earlier job is taken for the result of the current one.
    OldResult,
    /// Each switch's table is emptied before it is written.
    BlankFirst,
    /// After the last step of a change of tables, sends some blocks two more times: those with an old entry that
    /// dropped packets until the step. Each is sent first with its old contents, then as planned.
    Stutter,
    /// As [`Self::Stutter`], for the other blocks of the last step: those with old entries that all led packets on.
    Relapse,
    /// The manager does not wait for packets in flight.
    SkipWaits,
    /// The manager drops the record of its changes at once, so that it knows of no packets in flight.
    ForgetPast,
    /// A standby ignores every answer of the master.
    Usurp,
    /// When the manager starts, it sends again the Sets that it sent before it was killed.
    Replay,
    /// The manager asks for its state to be stored with every MAD that it sends.
    Hoard,
    /// Blocks are not read back: the manager relies on acknowledgements.
    BelieveWrites,
    /// A refused change of policy is not rolled back: the manager continues to plan with its policy.
    NeverRollsBack,
}

impl Broken {
    /// All defects.
    pub const ALL: [Self; 30] = [
        Self::DropTable,
        Self::ExchangeTables,
        Self::EditEntry,
        Self::TablesLast,
        Self::ReverseTables,
        Self::AcceptCycles,
        Self::StoreNothing,
        Self::Reassign,
        Self::Silent,
        Self::FalseRole,
        Self::NeverYield,
        Self::IgnoreTraps,
        Self::NeverRepress,
        Self::Renumber,
        Self::SameLid,
        Self::Flood,
        Self::NeverActivate,
        Self::DeafToPolicy,
        Self::NeverWake,
        Self::OldResult,
        Self::BlankFirst,
        Self::Stutter,
        Self::Relapse,
        Self::SkipWaits,
        Self::ForgetPast,
        Self::Usurp,
        Self::Replay,
        Self::Hoard,
        Self::BelieveWrites,
        Self::NeverRollsBack,
    ];

    /// Codes of the violations that checkers must find.
    #[must_use]
    pub const fn found_by(self) -> &'static [&'static str] {
        match self {
            Self::DropTable => &["0105"],
            Self::TablesLast => &["0105"],
            Self::ReverseTables => &["0105"],
            Self::ExchangeTables | Self::EditEntry | Self::BlankFirst | Self::Renumber | Self::SameLid => &["0111"],
            Self::AcceptCycles => &["0107"],
            Self::StoreNothing | Self::StoreFailureIgnored => &["0115"],
            Self::Reassign => &["0110", "0101"],
            Self::Silent | Self::FalseRole | Self::NeverYield | Self::Usurp => &["0103"],
            Self::IgnoreTraps | Self::NeverRepress => &["0116"],
            Self::Flood => &["0112"],
            Self::NeverActivate | Self::DeafToPolicy => &["0114"],
            Self::NeverWake => &["0126"],
            Self::OldResult => &["0102", "0111"],
            Self::Stutter => &["0108"],
            Self::Relapse => &["0118"],
            Self::SkipWaits | Self::ForgetPast => &["0117"],
            Self::Replay => &["0104"],
            Self::Hoard => &["0106"],
            Self::BelieveWrites => &["0113"],
            Self::NeverRollsBack => &["0127"],
        }
    }

    /// Returns the judge of a manager with this defect, or of one without a defect.
    pub(super) fn judge(defect: Option<Self>) -> Arc<dyn Judge> {
        let mut options = JudgeOptions::default();
        if defect == Some(Self::AcceptCycles) {
            options.accept = FindingKind::ALL
                .iter()
                .copied()
                .filter(|kind| kind.is_acceptable())
                .collect::<BTreeSet<_>>();
        }
        Arc::new(DefaultJudge { options })
    }

    /// Returns the tamper between such a manager and the world.
    pub(super) fn tamper(self) -> Box<dyn Tamper> {
        Box::new(Defect {
            broken: self,
            held: Vec::new(),
            last_lid: None,
            last_table: None,
            old: None,
            sent: BTreeSet::new(),
            written: BTreeMap::new(),
            former: Vec::new(),
            state: None,
            refused: Refused::default(),
        })
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

#[derive(Debug)]
struct Defect {
    broken: Broken,
    /// Blocks that are held back.
    held: Vec<Output>,
    last_lid: Option<Lid>,
    last_table: Option<Datagram>,
    old: Option<Box<JobResult>>,
    sent: BTreeSet<TransactionId>,
    /// Each block as last sent, and as sent before that.
    written: BTreeMap<Place, [Option<Datagram>; 2]>,
    /// Blocks sent by this process, or the previous one.
    former: Vec<Output>,
    /// State that was stored last.
    state: Option<(u64, PersistentState)>,
    refused: Refused,
}

/// Plans of the whole fabric that were refused.
#[derive(Debug, Default)]
struct Refused {
    /// The policy of each plan that is being made.
    planned_with: BTreeMap<JobId, Arc<Policy>>,
    /// The policy of the last plan, if that was refused and no other policy was proposed since.
    policy: Option<Arc<Policy>>,
}

impl Refused {
    /// Changes a job that is about to plan: gives it the refused policy, if there is one.
    fn plans(&mut self, job: &mut Job) {
        let id = job.id;
        let is_whole = job.is_whole();
        if let (Task::Plan(task), Some(_)) = (&mut job.task, &self.policy) {
            task.in_force = None;
        }
        let Some(basis) = job.task.basis_mut().filter(|_| is_whole) else {
            return;
        };
        if let Some(policy) = &self.policy {
            basis.policy = Arc::clone(policy);
        }
        self.planned_with.insert(id, Arc::clone(&basis.policy));
    }

    /// Called when a job has ended.
    fn planned(&mut self, id: JobId, result: &JobResult) {
        if let Some(policy) = self.planned_with.remove(&id) {
            self.policy = result.outcome().is_none().then_some(policy);
        }
    }
}

/// A block of a table: the directed route to its switch, and its number.
type Place = (Vec<u8>, u32);

impl Tamper for Defect {
    fn input(&mut self, _now: Time, input: Input) -> Option<Input> {
        match (self.broken, input) {
            (Broken::IgnoreTraps, Input::Received(d)) if d.mad.method() == Method::Trap => None,
            (Broken::DeafToPolicy, Input::Command(Command::SetPolicy(_))) | (Broken::NeverWake, Input::Wake) => None,
            (Broken::Reassign, Input::Command(Command::SetPolicy(policy))) => {
                let mut policy = Policy::clone(&policy);
                policy.reassign_lids = true;
                Some(Input::Command(Command::SetPolicy(Arc::new(policy))))
            }
            (Broken::NeverYield, Input::Received(mut d)) if is(&d, Method::GetResp, AttributeId::SM_INFO) => {
                if let Ok(info) = d.mad.read::<SmInfo>() {
                    d.mad.write(&SmInfo {
                        state: SmState::NotActive,
                        ..info
                    });
                }
                Some(Input::Received(d))
            }
            (Broken::OldResult, Input::Computed { id, result }) => {
                let result = match self.old.take() {
                    Some(old) if old.outcome().is_some() && discriminant(&*old) == discriminant(&*result) => old,
                    _ => result,
                };
                self.old = Some(result.clone());
                Some(Input::Computed { id, result })
            }
            (Broken::NeverRollsBack, Input::Computed { id, result }) => {
                self.refused.planned(id, &result);
                Some(Input::Computed { id, result })
            }
            (Broken::NeverRollsBack, Input::Command(Command::SetPolicy(policy))) => {
                self.refused = Refused::default();
                Some(Input::Command(Command::SetPolicy(policy)))
            }
            (Broken::Usurp, Input::Received(d)) if is(&d, Method::GetResp, AttributeId::SM_INFO) => None,
            (Broken::StoreFailureIgnored, Input::NotPersisted { id }) => Some(Input::Persisted { id }),
            (_, input) => Some(input),
        }
    }

    fn output(&mut self, _now: Time, output: Output, out: &mut Vec<Output>, back: &mut Vec<Input>) {
        match output {
            Output::Send { datagram, timeout } => self.send(datagram, timeout, out, back),
            Output::Persist { id, .. } if self.broken == Broken::StoreNothing => back.push(Input::Persisted { id }),
            Output::Persist { id, state } => {
                self.state = Some((id, state.clone()));
                out.push(Output::Persist { id, state });
            }
            Output::Compute(mut job) if self.broken == Broken::ForgetPast => {
                if let Some(basis) = job.task.basis_mut() {
                    basis.under_way = None;
                    Arc::make_mut(&mut basis.installed).under_way = None;
                }
                out.push(Output::Compute(job));
            }
            Output::Compute(mut job) if self.broken == Broken::NeverRollsBack => {
                self.refused.plans(&mut job);
                out.push(Output::Compute(job));
            }
            Output::SetIsSm(true) if self.broken == Broken::NeverRollsBack => {
                self.refused = Refused::default();
                out.push(Output::SetIsSm(true));
            }
            Output::SetIsSm(true) if self.broken == Broken::Replay => {
                out.push(Output::SetIsSm(true));
                out.append(&mut self.former);
            }
            // Held blocks are sent at the end of a change.
            Output::Milestone(Milestone::Committed(committed)) => {
                out.extend(self.held.drain(..).rev());
                self.go_back(out);
                out.push(Output::Milestone(Milestone::Committed(committed)));
            }
            other => out.push(other),
        }
    }

    fn hurry(&mut self, sm: &Sm, now: Time) -> Duration {
        let waits =
            self.broken == Broken::SkipWaits && sm.stage_name() == StageName::Applying && sm.open_requests() == 0;
        let until = sm.next_wake().filter(|_| waits);
        until.map_or(Duration::ZERO, |until| until.since(now))
    }
}

impl Defect {
    /// Sends blocks with the contents that they had before their last Set, and then as planned.
    fn go_back(&mut self, out: &mut Vec<Output>) {
        if !matches!(self.broken, Broken::Stutter | Broken::Relapse) {
            return;
        }
        for [now, before] in std::mem::take(&mut self.written).into_values() {
            let (Some(now), Some(before)) = (now, before) else {
                continue;
            };
            let entries = now.mad.smp_data().iter().zip(before.mad.smp_data());
            let drops = entries
                .filter(|(now, before)| now != before)
                .any(|(_, before)| *before == NO_PATH);
            if drops == (self.broken == Broken::Stutter) {
                let copies = (1..).zip([before, now]);
                out.extend(copies.map(|(number, datagram)| copy(datagram, number, Duration::from_millis(1))));
            }
        }
    }

    /// Answers a Get of a block with the block that was written last, if that is known.
    fn believed(&self, asked: &Datagram) -> Option<Input> {
        let [written, _] = self.written.get(&place(asked)?)?;
        let mut answer = *asked;
        answer.mad.set_smp_data(written.as_ref()?.mad.smp_data());
        Some(acknowledged(answer))
    }

    fn note_written(&mut self, datagram: &Datagram) {
        let Some(place) = place(datagram) else { return };
        let [now, before] = self.written.entry(place).or_default();
        let is_same = |now: &Datagram| now.mad.smp_data() == datagram.mad.smp_data();
        if !now.as_ref().is_some_and(is_same) {
            *before = now.replace(*datagram);
        }
    }

    fn send(&mut self, mut datagram: Datagram, timeout: Duration, out: &mut Vec<Output>, back: &mut Vec<Input>) {
        let is_table = is(&datagram, Method::Set, AttributeId::LINEAR_FORWARDING);
        let is_port = is(&datagram, Method::Set, AttributeId::PORT_INFO);
        let is_answer = is(&datagram, Method::GetResp, AttributeId::SM_INFO);
        if is_table {
            self.note_written(&datagram);
        }
        match self.broken {
            Broken::BelieveWrites if is(&datagram, Method::Get, AttributeId::LINEAR_FORWARDING) => {
                if let Some(answer) = self.believed(&datagram) {
                    return back.push(answer);
                }
            }
            Broken::Replay if is_table => self.former.push(Output::Send { datagram, timeout }),
            Broken::Hoard => {
                let stored = self.state.clone();
                out.extend(stored.map(|(id, state)| Output::Persist { id, state }));
            }
            Broken::DropTable if is_table => return back.push(acknowledged(datagram)),
            Broken::TablesLast | Broken::ReverseTables if is_table => {
                self.held.push(Output::Send { datagram, timeout });
                return back.push(acknowledged(datagram));
            }
            Broken::ExchangeTables if is_table => {
                if let Some(last) = self.last_table.replace(datagram) {
                    datagram.mad.set_smp_data(last.mad.smp_data());
                }
            }
            Broken::EditEntry if is_table => {
                let entry = &mut datagram.mad.smp_data_mut()[3];
                *entry = if *entry == 1 { 2 } else { 1 };
            }
            Broken::BlankFirst if is_table && self.sent.insert(datagram.mad.transaction()) => {
                let mut blank = datagram;
                blank.mad.set_smp_data(&[selvedge_plan::NO_PATH; 64]);
                out.push(Output::Send {
                    datagram: blank,
                    timeout,
                });
            }
            Broken::Silent if is_answer => return,
            Broken::FalseRole if is_answer => {
                if let Ok(info) = datagram.mad.read::<SmInfo>() {
                    datagram.mad.write(&SmInfo {
                        state: SmState::NotActive,
                        ..info
                    });
                }
            }
            Broken::NeverRepress if datagram.mad.method() == Method::TrapRepress => return,
            Broken::Flood if datagram.mad.method() == Method::Get => {
                out.extend((1..8).map(|number| copy(datagram, number, timeout)));
            }
            Broken::Renumber | Broken::SameLid | Broken::NeverActivate if is_port => {
                if let Ok(info) = datagram.mad.read::<PortInfo>()
                    && self.port(info, &mut datagram)
                {
                    return back.push(acknowledged(datagram));
                }
            }
            _ => {}
        }
        out.push(Output::Send { datagram, timeout });
    }

    /// Changes a PortInfo. Returns true if it must not be sent at all.
    fn port(&mut self, mut info: PortInfo, datagram: &mut Datagram) -> bool {
        match self.broken {
            Broken::NeverActivate => return info.state == Some(PortState::Active),
            Broken::Renumber if info.lid.is_unicast() => info.lid = Lid(info.lid.0 + 1),
            Broken::SameLid if info.lid.is_unicast() => {
                info.lid = *self.last_lid.get_or_insert(info.lid);
            }
            _ => {}
        }
        datagram.mad.write(&info);
        false
    }
}

/// Returns the same datagram as another transaction.
fn copy(mut datagram: Datagram, number: u64, timeout: Duration) -> Output {
    let transaction = datagram.mad.transaction().0 | number << 40;
    datagram.mad.set_transaction(TransactionId(transaction));
    Output::Send { datagram, timeout }
}

/// Returns the route and number of a block.
fn place(datagram: &Datagram) -> Option<Place> {
    let route = datagram.mad.route().ok()?;
    Some((route.ports().to_vec(), datagram.mad.modifier()))
}

fn is(datagram: &Datagram, method: Method, attribute: AttributeId) -> bool {
    datagram.mad.method() == method && datagram.mad.attribute() == attribute
}

/// Returns the answer that acknowledges a Set.
fn acknowledged(mut datagram: Datagram) -> Input {
    datagram.mad.set_method(Method::GetResp);
    datagram.mad.set_returning(true);
    Input::Received(datagram)
}
