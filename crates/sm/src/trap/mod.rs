//! Traps: the effect of each, and when it is repressed.
//!
//! | trap | what follows |
//! |---|---|
//! | 128, link state | the ports of its switch are probed; a sweep if that is not possible now |
//! | 144, local change | a sweep, unless it has no news: `is_known` |
//! | others | none here; the administrator gets every trap |
//!
//! A trap comes here after an [`Intake`](crate::Intake) has let it through. The agent that sent it repeats it until it
//! is repressed. A trap that comes twice is repressed twice. While its switch waits for a probe or is being probed, or
//! while a sweep is due, the second trap has no further effect. If it comes during a repair, the switch is probed once
//! more after the repair.

mod babble;

use std::time::Duration;

use selvedge_plan::Plan;
use selvedge_planner::Inventory;
use selvedge_sim::Time;
use selvedge_types::{Guid, Lid, SecretKey};
use selvedge_wire::{Attribute, CapabilityMask, Datagram, LocalChange, Notice, Trap};

use crate::config::Config;
use crate::event::{Event, SweepReason};
use crate::smp::{self, Smp};

/// The traps that are taken and not repressed yet.
#[derive(Debug, Default)]
pub struct Traps {
    /// Responses that repress traps, in order, each with the arrival time of its trap.
    represses: Vec<(Time, Datagram)>,
}

/// The state of other sub-machines that this one may read.
#[derive(Debug)]
pub struct Ctx<'a> {
    /// The time of the input.
    pub now: Time,
    /// The settings of the manager.
    pub config: &'a Config,
    /// True if the manager is the master. Other managers ignore traps.
    pub is_master: bool,
    /// The port of a better manager that waits for the subnet.
    pub waiting: Option<Guid>,
    /// The plan in force.
    pub plan: Option<&'a Plan>,
    /// The fabric, with the directed routes to its agents.
    pub inventory: Option<&'a Inventory>,
    /// The M_Key of the agent that sent the trap.
    pub m_key: SecretKey,
}

/// The inputs of this sub-machine.
#[derive(Debug)]
pub enum In {
    /// A trap came.
    Received(Box<Datagram>),
    /// The time of [`Traps::due`] has come.
    RepressDue,
    /// A source of traps babbles.
    Babbles {
        /// The LID of the source.
        lid: Lid,
        /// The port that the node's traps name.
        port: Option<u8>,
    },
}

/// The effects that the outer machine carries out.
#[derive(Debug)]
pub enum Effect {
    /// Count a datagram that is not acted upon.
    Drop,
    /// Report this event.
    Event(Event),
    /// Hand a trap on to other programs.
    Taken(Box<Datagram>),
    /// Find out which link of a switch changed its state; sweep if that is not possible.
    Probe {
        /// The LID of the switch.
        lid: Lid,
        /// The trap, as the reason of a sweep.
        reason: SweepReason,
    },
    /// Sweep.
    Sweep(SweepReason),
    /// Send these responses to traps.
    Repress(Vec<Datagram>),
    /// Disable the port of a source that babbles.
    Disable {
        /// The LID of the source.
        lid: Lid,
        /// Name of the port.
        what: String,
        /// The Set that disables the port.
        set: Box<Smp>,
    },
    /// Report that the port of a babbling source is not disabled.
    KeepEnabled {
        /// The LID of the source.
        lid: Lid,
        /// The reason.
        why: &'static str,
    },
}

/// Longest time after which a trap that causes a repair is repressed. A switch repeats a trap after the SubnetTimeOut
/// of its port, by default 18 (1 s), and never sooner than after some tens of milliseconds.
const REPRESS_WITHIN: Duration = Duration::from_millis(5);
/// Trap number: the link state of a port of a switch has changed. Source: IBA vol 1 §14.2.5.1.
const LINK_STATE: u16 = 128;
/// Trap number: capabilities, the description or another property of a port has changed. Source: IBA vol 1 §14.2.5.1.
const LOCAL_CHANGE: u16 = 144;

impl Traps {
    /// Handles one input and appends its effects.
    pub fn handle(&mut self, ctx: &Ctx<'_>, input: In, effects: &mut Vec<Effect>) {
        match input {
            In::Received(datagram) if ctx.is_master => self.received(ctx, datagram, effects),
            In::Received(_) => effects.push(Effect::Drop),
            In::RepressDue => {
                let answers = std::mem::take(&mut self.represses);
                effects.push(Effect::Repress(answers.into_iter().map(|(_, answer)| answer).collect()));
            }
            In::Babbles { lid, port } => effects.extend(babble::disable(ctx, lid, port)),
        }
    }

    /// Returns when traps are repressed: usually at once, but during a repair only after the requests of the repair.
    /// The repair waits for the answers of an agent, and an agent handles one SMP after another.
    pub fn due(&self, is_repairing: bool) -> Option<Time> {
        let (first, _) = *self.represses.first()?;
        Some(if is_repairing { first + REPRESS_WITHIN } else { first })
    }

    fn received(&mut self, ctx: &Ctx<'_>, datagram: Box<Datagram>, effects: &mut Vec<Effect>) {
        let notice = match Notice::parse(datagram.mad.smp_data()) {
            Ok(notice) => notice,
            Err(error) => {
                let why = error.to_string();
                return effects.extend([Effect::Drop, Effect::Event(Event::BadDatagram { why })]);
            }
        };
        self.represses
            .push((ctx.now, smp::repress(&datagram, ctx.m_key.expose())));
        effects.push(Effect::Taken(datagram));
        match notice.trap_number() {
            Some(LINK_STATE) => effects.push(Effect::Probe {
                lid: notice.issuer_lid,
                reason: SweepReason::Trap(LINK_STATE),
            }),
            Some(LOCAL_CHANGE) if !is_known(ctx, &notice) => {
                effects.push(Effect::Sweep(SweepReason::Trap(LOCAL_CHANGE)));
            }
            _ => {}
        }
    }
}

/// Returns true if a trap has no news for the manager.
fn is_known(ctx: &Ctx<'_>, notice: &Notice) -> bool {
    match notice.trap() {
        Some(Trap::LocalChange(change)) => is_waiting(ctx, notice, &change) || is_own_is_sm(ctx, notice, &change),
        _ => false,
    }
}

/// Returns true if a trap only reports that the local port began or ceased to show IsSM. The manager itself caused the
/// change, or finds it in the next light sweep. After a restart, an earlier copy of the trap may arrive.
fn is_own_is_sm(ctx: &Ctx<'_>, notice: &Notice, change: &LocalChange) -> bool {
    let own = ctx.inventory.and_then(|known| known.fabric.port(known.local));
    let rest = |mask: CapabilityMask| mask.without(CapabilityMask::IS_SM);
    let is_only_mask = !change.other_local_changes || change.changes == 0;
    own.is_some_and(|own| {
        let is_own = notice.issuer_lid.is_unicast() && own.settings.lids.contains(notice.issuer_lid);
        is_own && is_only_mask && rest(CapabilityMask(own.capability.mask)) == rest(change.capabilities)
    })
}

/// Returns true if a trap only reports that there is a better manager, and that manager already waits for the subnet.
/// It sends the trap at each of its polls. If each trap caused a sweep, the change of tables for which that manager
/// waits would begin again each time.
fn is_waiting(ctx: &Ctx<'_>, notice: &Notice, change: &LocalChange) -> bool {
    let says_only_so = change.other_local_changes && change.changes == smp::SM_PRIORITY;
    let lids = || {
        let fabric = &ctx.inventory?.fabric;
        Some(fabric.port(fabric.find_port(ctx.waiting?)?)?.settings.lids)
    };
    says_only_so && lids().is_some_and(|lids| lids.contains(notice.issuer_lid))
}

#[cfg(test)]
mod tests;
