//! Decides which manager is master: election, a standby's polls of the master, handover.
//!
//! | file | decides |
//! |---|---|
//! | `elect` | whether this manager becomes master, stands by, or offers the subnet to a better manager |
//! | `poll` | whether the master of this standby still answers |
//! | `handover` | when a better manager is offered the subnet, what each SubnSet(SMInfo) changes |
//! | `sm_info` | what SMInfo this manager answers, which SubnSet(SMInfo) is legal |
//! | `peers` | which other managers need an operator |
//!
//! Source: IBA vol 1 §14.4.1 (states), §14.4.2 (controls). Where the standard leaves a choice, this manager acts as
//! OpenSM was observed to act (`osm_sminfo_rcv.c`, `osm_sm_state_mgr.c`), so that Selvedge and OpenSM can take over
//! from each other.

mod elect;
mod handover;
mod peers;
mod poll;
mod role;
mod sm_info;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use selvedge_fabric::{Fabric, PortRef};
use selvedge_health::Peer;
use selvedge_planner::Inventory;
use selvedge_sim::Time;
use selvedge_types::{Guid, SecretKey};
use selvedge_wire::{AttributeId, CapabilityMask, Datagram, Mad, SmControl, SmInfo};

use crate::config::{Config, Mode};
use crate::event::{Event, SweepReason};
use crate::smp::{self, Smp};
use handover::Offers;
use peers::Peers;
use poll::{RegistrationCopy, Silent, Watch};
pub use role::Role;

/// The known other managers, and the role of this one.
#[derive(Debug, Default)]
pub struct Election {
    /// SMInfo state of this manager.
    role: Role,
    /// Port GUID of the master, or of the manager that disabled this one; kept until the role changes. `None`: no other
    /// master is known, or this manager is master.
    master: Option<Guid>,
    /// The answers of other managers that the election waits for.
    phase: Phase,
    /// The manager that handed the subnet over to this one. Whatever SMInfo it shows, it counts as standby until the
    /// next election is decided or this manager stands by.
    handed_over_by: Option<Guid>,
    /// Signs that another master has written to the fabric.
    foreign: ForeignWrites,
    /// The better manager that has not been given the subnet.
    offers: Offers,
    /// The state of the copy of the registrations at the master.
    copy: RegistrationCopy,
    /// How often other managers requested SMInfo of this one.
    asked: Asked,
    /// Managers that showed another SM_Key. Each is reported once.
    strangers: BTreeSet<Guid>,
    /// A master that did not answer its polls, until the next election asks or the local link goes down.
    silent: Option<Silent>,
    /// The other managers, with the SMInfo that each last showed.
    peers: Peers,
    /// True if the local port was last read without IsSM.
    is_sm_cleared: bool,
}

/// The answers of other managers that this one waits for.
#[derive(Debug, Default)]
enum Phase {
    /// No answer is awaited.
    #[default]
    None,
    /// Answers to SubnGet(SMInfo) of every other manager.
    Electing {
        /// Managers that answered, by port GUID.
        others: BTreeMap<Guid, Other>,
        /// Number of requests without an answer.
        silent: usize,
    },
    /// As standby: a sign that the master is gone.
    Standby(Watch),
    /// As master: the answer of a better manager to HANDOVER.
    Offering {
        /// The other manager.
        to: Other,
        /// True once this manager has taken the subnet.
        is_taken: bool,
    },
    /// After DISABLE: STANDBY from the master.
    Disabled,
}

/// Another manager, as its last answer shows it. It counts until the next sweep: its election asks again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Other {
    /// Port of the manager in the inventory.
    pub at: PortRef,
    /// SMInfo of the manager.
    pub info: SmInfo,
}

/// Signs that another master has written to the fabric.
#[derive(Debug, Default)]
struct ForeignWrites {
    /// Latest time at which another master may have sent a Set, until all tables have been read.
    last: Option<Time>,
    /// True once a sweep found links that another manager has made ACTIVE, until all tables have been read.
    has_links: bool,
}

/// How often other managers requested SMInfo of this one.
#[derive(Debug, Default)]
struct Asked {
    /// Number of requests until now.
    count: u32,
    /// Number of requests until the last heavy sweep began.
    before_sweep: u32,
}

/// The state of other sub-machines that the election may read.
#[derive(Clone, Copy, Debug)]
pub struct Ctx<'a> {
    /// The current time.
    pub now: Time,
    /// Configuration of the manager.
    pub config: &'a Config,
    /// M_Keys, besides that of the policy, that other managers may use while the key changes.
    pub other_m_keys: &'a [SecretKey],
    /// Former SM_Keys that other managers may still show.
    pub former_sm_keys: &'a [SecretKey],
    /// Inventory of the last sweep.
    pub inventory: Option<&'a Inventory>,
    /// The fabric of the plan in force.
    pub planned: Option<&'a Fabric>,
    /// Why the last heavy sweep began.
    pub sweep_reason: SweepReason,
    /// Number of SMPs sent.
    pub act_count: u32,
    /// True while a request of this manager has no answer yet.
    pub is_waiting: bool,
}

/// Why this manager sends a Get or Set of SMInfo to another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Election after a heavy sweep: to the manager at this port.
    Election(PortRef),
    /// Poll of the master by a standby.
    Poll,
    /// Light sweep of the master: to the manager at this port.
    LightSweep(PortRef),
    /// HANDOVER to a better manager.
    Handover,
}

/// The inputs of this sub-machine.
#[derive(Clone, Copy, Debug)]
pub enum In<'a> {
    /// The manager starts.
    Start,
    /// The manager stops.
    Stop,
    /// Nothing can be reached: the local link is down, or the local node is silent.
    CutOff,
    /// A heavy sweep begins.
    SweepBegun,
    /// A heavy sweep has found the fabric. Now all other managers are asked for their SMInfo.
    Swept,
    /// A light sweep begins. Now all other managers are asked for their SMInfo.
    LightSweepBegun,
    /// There is no work until the next light sweep.
    Resting,
    /// A request has ended, with this answer or without one.
    Answered(Ask, Option<&'a Mad>),
    /// All requests of the election, or of the handover, have ended.
    AllAnswered,
    /// The poll timer has fired.
    PollDue,
    /// SubnGet or SubnSet of SMInfo has come.
    Requested(&'a Datagram),
    /// A legal SubnSet(SMInfo) has been answered: its control, and the SMInfo of its sender.
    Control(SmControl, SmInfo),
    /// This manager becomes master. Follows [`Effect::Lead`].
    Lead,
    /// This manager becomes standby of this master. Follows [`Effect::Yield`].
    StandBy(Other),
    /// Whether a better manager must wait. Follows [`Effect::Weigh`].
    Weighed {
        /// The better manager.
        to: Other,
        /// What the better manager must wait for.
        wait: Wait,
    },
    /// A sign that another master may have written to the fabric, or an event after which that no longer matters.
    Foreign(Foreign),
    /// News about this standby's copy of the registrations at the master.
    Copy(CopyNews),
    /// A light sweep has read CapabilityMask of the local port.
    OwnPort(CapabilityMask),
    /// The operator no longer expects managers on these nodes.
    Forget(&'a BTreeSet<Guid>),
}

/// What a better manager may have to wait for, because only this manager knows of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wait {
    /// True if packets may be in flight, or copies of Sets.
    pub is_draining: bool,
    /// True if ports hold an M_Key that they are to lose.
    pub are_keys_changing: bool,
    /// True if some of these ports were in no earlier sweep of the change: a better manager waits for them anew.
    pub has_new_ports: bool,
}

/// A sign that another master may have written to the fabric, or an event after which that no longer matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Foreign {
    /// A second node shows the GUID of the local node: it may run a master, which cannot be distinguished from this
    /// manager.
    OwnGuid,
    /// A heavy sweep found ACTIVE links between switches that this manager did not activate.
    Links,
    /// A heavy sweep has read all tables.
    TablesRead,
    /// The Sets of a plan have been sent.
    Applied,
}

/// News about the copy of the registrations at the master.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyNews {
    /// Whenever this manager stands by, it must keep a copy of the registrations from now on.
    Wanted,
    /// The copy is complete, or cannot be had.
    Complete,
    /// The administrator beside the master does not answer, so hosts may register with it what the copy lacks.
    Doubtful,
    /// The registrations of hosts are known.
    Known,
}

/// Effects of the election.
#[derive(Clone, Debug)]
pub enum Effect {
    /// Send a request to the manager at a port, and hand in its end as [`In::Answered`].
    Request {
        /// The port.
        at: PortRef,
        /// The reason for the request.
        ask: Ask,
        /// The request.
        smp: Smp,
    },
    /// Send an answer.
    Answer(Box<Datagram>),
    /// Send a datagram without waiting for an answer.
    Notify(Box<Datagram>),
    /// Send ACKNOWLEDGE without waiting for an answer.
    Acknowledge(Box<Smp>),
    /// Another manager has sent a request with this M_Key, which is not that of the policy.
    PeerAsked(SecretKey),
    /// Count a request that gets no answer as dropped.
    Drop,
    /// Forget all requests under way.
    ClearRequests,
    /// Report an event.
    Event(Event),
    /// Hand in [`In::Control`], after the answer has been sent.
    Obey(SmControl, SmInfo),
    /// Begin a heavy sweep.
    Sweep(SweepReason),
    /// The SMInfo state has changed, because of another manager if one is named.
    RoleChanged {
        /// The new role.
        role: Role,
        /// Port GUID of the other manager.
        other: Option<Guid>,
    },
    /// Another master was in this subnet: drop the plan in force, and all knowledge of tables.
    ForgetPlan,
    /// The election found no other master.
    NoOtherMaster,
    /// Packets may be in flight that entries of another master forwarded. That master may have written entries until
    /// this time.
    ForeignPackets(Time),
    /// Hand in [`In::StandBy`], and show the fabric that the sweep found.
    Yield(Other),
    /// Hand in [`In::Weighed`].
    Weigh(Other),
    /// Hand in [`In::Lead`], and read tables.
    Lead,
    /// Stay master, and read tables.
    StayMaster,
    /// This manager stands by: drop the plan, and send nothing but polls.
    StoodBy,
    /// This manager is disabled: send nothing.
    Disabled,
    /// The subnet has been offered: do nothing else until [`In::AllAnswered`].
    Offered,
    /// The light sweep found another master, or a better manager: a heavy sweep must follow it.
    Rival,
    /// The registrations of hosts are lost: ask all hosts to register again.
    Reregister,
    /// Set IsSM at the local port again.
    ShowIsSm,
}

impl Election {
    /// Handles one input; appends the effects.
    pub fn handle(&mut self, ctx: &Ctx<'_>, input: In<'_>, effects: &mut Vec<Effect>) {
        match input {
            In::Start => {
                self.role = match ctx.config.mode {
                    Mode::Manage => Role::Discovering,
                    Mode::DryRun | Mode::Watch => Role::NotActive,
                }
            }
            In::Stop => (self.phase, self.role) = (Phase::None, Role::NotActive),
            In::CutOff => self.cut_off(effects),
            In::SweepBegun => {
                self.phase = Phase::None;
                self.offers.sweep_begun();
                self.asked.before_sweep = self.asked.count;
            }
            In::Swept => self.begin(ctx, effects),
            In::LightSweepBegun => self.ask_in_light_sweep(ctx, effects),
            In::Resting => self.offers.resting(ctx.now),
            In::Answered(Ask::Election(at), answer) => self.manager_answered(ctx, at, answer, effects),
            In::Answered(Ask::Poll, answer) => self.master_answered(ctx, answer, effects),
            In::Answered(Ask::LightSweep(at), answer) => self.answered_in_light_sweep(ctx, at, answer, effects),
            In::Answered(Ask::Handover, answer) => self.handover_answered(answer),
            In::AllAnswered => match std::mem::take(&mut self.phase) {
                Phase::Electing { others, silent } => self.decide(ctx, &others, silent, effects),
                Phase::Offering { to, is_taken } => self.conclude(ctx, to, is_taken, effects),
                phase @ (Phase::None | Phase::Standby(_) | Phase::Disabled) => self.phase = phase,
            },
            In::PollDue => self.poll(ctx, effects),
            In::Requested(datagram) => self.answer(ctx, datagram, effects),
            In::Control(control, sender) => self.obey(ctx, control, &sender, effects),
            In::Lead => self.change_role(Role::Master, None, effects),
            In::StandBy(master) => self.stand_by(ctx, &master, effects),
            In::Weighed { to, wait } => self.offer(ctx, to, wait, effects),
            In::Foreign(sign) => self.note_foreign(ctx.now, sign, effects),
            In::Copy(news) => self.note_copy(ctx, news),
            In::OwnPort(mask) => self.note_own_port(mask, effects),
            In::Forget(nodes) => self.peers.forget(nodes),
        }
    }

    /// Returns the SMInfo state of this manager.
    pub const fn role(&self) -> Role {
        self.role
    }

    /// Returns the port GUID of the master, if that is another manager.
    pub const fn master(&self) -> Option<Guid> {
        self.master
    }

    /// Returns the other managers that need an operator.
    pub const fn peers(&self) -> &Arc<Vec<Peer>> {
        self.peers.in_trouble()
    }

    /// True if the local port was last read without IsSM, although this manager has set it.
    pub const fn is_sm_cleared(&self) -> bool {
        self.is_sm_cleared
    }

    /// True if another master may have written tables that have not been read since.
    pub const fn has_met_another(&self) -> bool {
        self.foreign.last.is_some()
    }

    /// Changes the role, because of another manager if one is named.
    fn change_role(&mut self, role: Role, other: Option<Guid>, effects: &mut Vec<Effect>) {
        self.master = other;
        if self.role != role {
            self.role = role;
            self.copy.role_changed(role);
            effects.push(Effect::RoleChanged { role, other });
        }
    }

    /// Checks IsSM in CapabilityMask of the local port. If it is not set, other managers do not find this one, and a
    /// standby would become a second master.
    fn note_own_port(&mut self, mask: CapabilityMask, effects: &mut Vec<Effect>) {
        self.is_sm_cleared = !mask.contains(CapabilityMask::IS_SM);
        if self.is_sm_cleared {
            effects.push(Effect::ShowIsSm);
        }
    }

    /// Handles the loss of every node: none can be reached, so another manager may become master.
    fn cut_off(&mut self, effects: &mut Vec<Effect>) {
        // The master was silent for that reason: it may have lived on, and hosts may have registered with it.
        self.silent = None;
        if self.copy.is_relied_on() {
            effects.push(Effect::Reregister);
        }
        if self.role == Role::Master {
            self.change_role(Role::Discovering, None, effects);
        }
    }
}

/// Returns the request for the SMInfo of the manager at a port.
fn request(inventory: &Inventory, at: PortRef, ask: Ask) -> Effect {
    let route = inventory.agents[at.node].route_to(at.port);
    let smp = smp::get(AttributeId::SM_INFO, 0, route);
    Effect::Request { at, ask, smp }
}

/// Returns the SubnSet(SMInfo) with this control for the manager at a port.
fn set(inventory: &Inventory, at: PortRef, (control, own): (SmControl, &SmInfo)) -> Smp {
    let route = inventory.agents[at.node].route_to(at.port);
    smp::set(own, control.modifier(), route)
}

/// Returns the ports that show IsSM in their capability mask, except the local port.
fn managers(inventory: &Inventory) -> impl Iterator<Item = PortRef> + '_ {
    let others = inventory.fabric.end_ports().filter(|(at, port)| {
        let is_sm = CapabilityMask(port.capability.mask).contains(CapabilityMask::IS_SM);
        *at != inventory.local && is_sm
    });
    others.map(|(at, _)| at)
}

/// Returns the answer to a request, if there is one with status 0.
fn ok(answer: Option<&Mad>) -> Option<&Mad> {
    answer.filter(|mad| mad.status().0 == 0)
}

#[cfg(test)]
mod made;
