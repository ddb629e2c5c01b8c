//! Managers with one defect each: what the checkers must find. A checker that finds none of them checks nothing.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use selvedge_plan::Policy;
use selvedge_sim::Time;
use selvedge_sm::{Command, DefaultJudge, Input, JobResult, Judge, Output};
use selvedge_types::{Lid, PortState, TransactionId};
use selvedge_verify::{JudgeOptions, Kind as FindingKind};
use selvedge_wire::{AttributeId, Datagram, Method, PortInfo, SmInfo, SmState};

use crate::Tamper;

/// A defect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Broken {
    /// Blocks of forwarding tables are not sent, and count as acknowledged.
    DropTable,
    /// Two blocks go to each other's switch.
    ExchangeTables,
    /// One entry of a block is another than was judged.
    EditEntry,
    /// Blocks are sent after the links behind them are ACTIVE.
    TablesLast,
    /// Blocks are sent in the opposite order, whatever waits for what.
    ReverseTables,
    /// The judge lets deadlock pass.
    AcceptCycles,
    /// State counts as stored and is not.
    StoreNothing,
    /// A new policy is taken as leave to give new LIDs to all ports.
    Reassign,
    /// Other managers get no answer.
    Silent,
    /// Other managers are told that this one is not active.
    FalseRole,
    /// What other managers say of themselves is taken for "not active".
    NeverYield,
    /// Traps are thrown away.
    IgnoreTraps,
    /// Traps are acted upon and never repressed.
    NeverRepress,
    /// A port gets the LID behind the one that was judged.
    Renumber,
    /// A port gets the LID that another one got before.
    SameLid,
    /// Each request is sent many times.
    Flood,
    /// Ports are not activated, and count as ACTIVE.
    NeverActivate,
    /// A new policy is not taken.
    DeafToPolicy,
    /// Timers are not served.
    NeverWake,
    /// The result of an earlier job is taken for the present one's.
    OldResult,
    /// Each switch's table is emptied before it is written.
    BlankFirst,
}

impl Broken {
    /// All of them.
    pub const ALL: [Self; 21] = [
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
    ];

    /// Its judge.
    pub(super) fn judge(self) -> Arc<dyn Judge> {
        let mut options = JudgeOptions::default();
        if self == Self::AcceptCycles {
            options.accept = FindingKind::ALL.iter().copied().filter(|kind| kind.is_acceptable()).collect::<BTreeSet<_>>();
        }
        Arc::new(DefaultJudge { options })
    }

    /// Stands between such a manager and the world.
    pub(super) fn tamper(self) -> Box<dyn Tamper> {
        Box::new(Defect {
            broken: self,
            held: Vec::new(),
            last_lid: None,
            last_table: None,
            old: None,
            sent: BTreeSet::new(),
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
    /// Blocks that wait.
    held: Vec<Output>,
    last_lid: Option<Lid>,
    last_table: Option<Datagram>,
    old: Option<Box<JobResult>>,
    sent: BTreeSet<TransactionId>,
}

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
            (Broken::OldResult, Input::Computed { generation, result }) => {
                let result = match self.old.take() {
                    Some(old) if old.outcome.is_some() => old,
                    _ => result,
                };
                self.old = Some(result.clone());
                Some(Input::Computed { generation, result })
            }
            (_, input) => Some(input),
        }
    }

    fn output(&mut self, _now: Time, output: Output, out: &mut Vec<Output>, back: &mut Vec<Input>) {
        match output {
            Output::Send { datagram, timeout } => self.send(datagram, timeout, out, back),
            Output::Persist { id, .. } if self.broken == Broken::StoreNothing => back.push(Input::Persisted { id }),
            // What waits goes out at the end of a change.
            Output::Event(event) => {
                if event.code() == "SLV-SM-0007" || event.code() == "SLV-SM-0008" {
                    out.extend(self.held.drain(..).rev());
                }
                out.push(Output::Event(event));
            }
            other => out.push(other),
        }
    }
}

impl Defect {
    fn send(&mut self, mut datagram: Datagram, timeout: Duration, out: &mut Vec<Output>, back: &mut Vec<Input>) {
        let is_table = is(&datagram, Method::Set, AttributeId::LINEAR_FORWARDING);
        let is_port = is(&datagram, Method::Set, AttributeId::PORT_INFO);
        let is_answer = is(&datagram, Method::GetResp, AttributeId::SM_INFO);
        match self.broken {
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
                out.push(Output::Send { datagram: blank, timeout });
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
                for copy in 1..8_u64 {
                    let mut again = datagram;
                    let number = datagram.mad.transaction().0 | copy << 40;
                    again.mad.set_transaction(TransactionId(number));
                    out.push(Output::Send {
                        datagram: again,
                        timeout,
                    });
                }
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

    /// Changes a PortInfo; true if it is not sent at all.
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

fn is(datagram: &Datagram, method: Method, attribute: AttributeId) -> bool {
    datagram.mad.method() == method && datagram.mad.attribute() == attribute
}

/// The answer that says that a Set was taken.
fn acknowledged(mut datagram: Datagram) -> Input {
    datagram.mad.set_method(Method::GetResp);
    datagram.mad.set_returning(true);
    Input::Received(datagram)
}
