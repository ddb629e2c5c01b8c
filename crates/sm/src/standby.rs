//! What managers tell each other: the commands of SubnSet(SMInfo), the subnet handed over to a better manager, and
//! what a standby says to a master that is worse than it.
//!
//! Source: IBA vol 1 §14.4.1 (states), §14.4.2 (commands); where the standard leaves a choice, OpenSM observed
//! (`osm_sminfo_rcv.c`, `osm_sm_state_mgr.c`), so that either can stand in for the other.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use selvedge_fabric::{Fabric, PortRef};
use selvedge_mad::AgentId;
use selvedge_planner::Inventory;
use selvedge_sim::Time;
use selvedge_types::{Guid, NodeKind};
use selvedge_wire::{
    Address, AttributeId, CapabilityMask, Class, Datagram, DirectedRoute, LocalChange, Mad, Method, Notice,
    PRODUCER_CA, PRODUCER_ROUTER, PRODUCER_SWITCH, SmControl, SmInfo, SmState, Status, Trap,
};

use crate::config::Mode;
use crate::core::{Sm, ok};
use crate::event::{Event, SweepReason};
use crate::handover::{rank, yields};
use crate::io::Output;
use crate::smp;
use crate::stage::{Stage, Token};
use crate::view::Role;

/// What is remembered of other managers.
#[derive(Debug, Default)]
pub struct Others {
    /// Who handed the subnet over: he is master no longer, whatever he said before.
    pub from: Option<Guid>,
    /// When another master last may have set something: nobody knows by which entries packets are under way since.
    pub met: Option<Time>,
    /// A sweep has found links that another one has made ACTIVE, and tables have not been read since.
    pub has_set_up: bool,
    /// A better one that has just been told to wait for it, by not being offered it.
    put_off: Option<Guid>,
    /// The same, and when it is looked at again.
    waiting: Option<(Guid, Time)>,
    /// Who would not take it: not offered again before the next sweep.
    refused: BTreeSet<Guid>,
    /// Whose SM_Key is another one: told of once.
    strangers: BTreeSet<Guid>,
    /// A master that did not answer its polls, and the way by which it was asked.
    pub silent: Option<(Guid, DirectedRoute)>,
    /// Somebody copies what hosts registered with the master while this manager stands by.
    pub copies: bool,
    /// This manager stands by, and there is no copy yet.
    pub holds_back: bool,
    /// It has done so in this life, and met no other master since while it was one without a plan in force.
    pub has_stood_by: bool,
    /// The fabric in which it did so last.
    pub stood_by_in: Option<Arc<Fabric>>,
    /// What hosts have registered is known by a copy of the last master's, if at all: this manager is none since.
    pub leans_on_copy: bool,
    /// The copy of what hosts registered was all there is when it was last heard so: it is not if the master lives.
    pub is_unproven: bool,
    /// The master of whom there is one, or none to be had; it may have been out of sight for a moment since.
    pub copied_from: Option<Guid>,
    /// Hosts that were written to since an election in which nobody else was master, and were not asked to register
    /// again: see [`register`](crate::register).
    pub renamed: BTreeSet<Guid>,
    /// How often this manager was asked.
    pub asked: u32,
    /// The same when the last sweep began.
    pub asked_before: u32,
}

/// How long a better manager waits before it is looked at again: packets are gone after about two seconds as a rule.
const PUT_OFF: Duration = Duration::from_secs(2);
/// SMInfo changed: bit 3 of trap 144's changes. Source: IBA vol 1 §14.2.5.1 (SM priority).
const SM_PRIORITY: u16 = 1 << 3;

impl Sm {
    /// SMInfo is asked for, or a command comes, whatever else is going on.
    pub(crate) fn sm_info_asked(&mut self, now: Time, datagram: &Datagram, out: &mut Vec<Output>) {
        let mad = &datagram.mad;
        let policy = &self.config.policy;
        // Source: OpenSM: the M_Key guards SMInfo as it guards PortInfo.
        let has_key = policy.m_key == 0 || mad.m_key() == policy.m_key;
        let is_set = mad.method() == Method::Set;
        if self.config.mode != Mode::Manage || !has_key && (is_set || policy.m_key_protect > 1) {
            self.view.mads.dropped += 1;
            return;
        }
        let says = SmInfo {
            // Whoever does not show the key is not told ours, where keys guard anything at all.
            sm_key: if has_key || policy.m_key_protect == 0 {
                self.config.sm_key
            } else {
                0
            },
            ..self.own_sm_info()
        };
        let mut answer = *datagram;
        answer.mad.set_method(Method::GetResp);
        answer.mad.set_returning(mad.class() == Class::SubnDirected);
        answer.mad.set_smp_data(&selvedge_wire::Attribute::emit(&says));
        if !is_set {
            self.others.asked = self.others.asked.wrapping_add(1);
            return self.send_only(answer, out);
        }
        let control = SmControl::from_modifier(mad.modifier());
        let said = self.legal(control, mad.read::<SmInfo>().ok());
        if said.is_none() {
            answer.mad.set_status(Status::BAD_FIELD);
        }
        // The answer says what it was when the command came. Source: OpenSM.
        self.send_only(answer, out);
        if let (Some(control), Some(sender)) = (control, said) {
            out.push(Output::Event(Event::Told {
                control,
                by: sender.guid,
            }));
            self.obey(control, &sender, now, out);
        }
    }

    /// Who sends a command, if he may: a master commands, a standby acknowledges, and to some states only. He shows our
    /// SM_Key. Source: IBA vol 1 §14.4.2 (table of controls).
    fn legal(&self, control: Option<SmControl>, sender: Option<SmInfo>) -> Option<SmInfo> {
        let (control, sender) = (control?, sender?);
        let is_trusted = self.config.sm_key == 0 || sender.sm_key == self.config.sm_key;
        let is_from = match control {
            SmControl::Acknowledge => SmState::Standby,
            SmControl::Handover | SmControl::Disable | SmControl::Standby | SmControl::Discover => SmState::Master,
        };
        let fits = match (control, self.view.role) {
            (SmControl::Handover, Role::Discovering | Role::Standby | Role::Master) => true,
            (SmControl::Acknowledge, Role::Standby | Role::Master) => true,
            (SmControl::Disable | SmControl::Discover, Role::Standby) => true,
            (SmControl::Standby, Role::NotActive) => true,
            (SmControl::Handover | SmControl::Acknowledge, Role::NotActive)
            | (SmControl::Acknowledge, Role::Discovering)
            | (SmControl::Disable | SmControl::Discover, Role::Discovering | Role::Master | Role::NotActive)
            | (SmControl::Standby, Role::Discovering | Role::Standby | Role::Master) => false,
        };
        let is_other = sender.guid != self.port_guid();
        (is_trusted && is_other && sender.state == is_from && fits).then_some(sender)
    }

    fn obey(&mut self, control: SmControl, sender: &SmInfo, now: Time, out: &mut Vec<Output>) {
        let guid = sender.guid;
        match (control, self.view.role) {
            (SmControl::Handover, Role::Standby) => {
                // A master that does not look at states is not one to argue with.
                self.others.holds_back = false;
                self.acknowledge(guid, out);
                self.others.from = Some(guid);
                self.change_role(Role::Master, None, out);
                self.exchange.clear();
                self.sweep_due = Some(SweepReason::HandedOver);
            }
            (SmControl::Handover, Role::Master | Role::Discovering) => {
                self.others.from = Some(guid);
                self.forget_plan();
                // What was seen so far may be older than what the other one leaves.
                self.sweep_due = Some(SweepReason::HandedOver);
            }
            (SmControl::Acknowledge, Role::Master) => {
                if let Stage::HandingOver { to, is_taken, .. } = &mut self.stage
                    && to.guid == guid
                {
                    *is_taken = true;
                    self.exchange.clear();
                }
            }
            (SmControl::Disable, Role::Standby) => {
                self.exchange.clear();
                self.stage = match std::mem::take(&mut self.stage) {
                    Stage::Standby { inventory, .. } => Stage::Disabled { inventory },
                    other => other,
                };
                self.change_role(Role::NotActive, Some(guid), out);
            }
            (SmControl::Standby, Role::NotActive) => {
                let Stage::Disabled { inventory } = &self.stage else {
                    return;
                };
                let inventory = Arc::clone(inventory);
                match place_of(&inventory, guid) {
                    Some(at) => self.stand_by(inventory, (at, sender), now, out),
                    // It came while this manager was out of things.
                    None => self.look_again_as_standby(out),
                }
            }
            (SmControl::Discover, Role::Standby) => self.look_again_as_standby(out),
            // Nothing is left to do, or it is not legal.
            (SmControl::Acknowledge | SmControl::Standby | SmControl::Disable | SmControl::Discover, _)
            | (SmControl::Handover, Role::NotActive) => {}
        }
    }

    fn look_again_as_standby(&mut self, out: &mut Vec<Output>) {
        self.change_role(Role::Discovering, None, out);
        self.exchange.clear();
        self.sweep_due = Some(SweepReason::Told);
    }

    /// Watches the manager at `at` from now on.
    pub(crate) fn stand_by(
        &mut self,
        inventory: Arc<Inventory>,
        (at, master): (PortRef, &SmInfo),
        now: Time,
        out: &mut Vec<Output>,
    ) {
        self.others.from = None;
        self.others.has_set_up = false;
        self.others.has_stood_by = true;
        self.others.stood_by_in = Some(Arc::clone(&inventory.fabric));
        self.others.holds_back = self.others.copies && self.others.copied_from != Some(master.guid);
        self.forget_told(out);
        self.change_role(Role::Standby, Some(master.guid), out);
        self.others.is_unproven = false;
        self.next_poll = Some(now + self.config.poll_interval);
        self.sweep_due = None;
        self.silence.forget_looks();
        self.stage = Stage::Standby {
            at,
            inventory,
            misses: 0,
        };
        // Nobody offers the subnet to a manager that is still looking around.
        self.tell_worse_master(master, out);
    }

    /// There is a copy of what hosts registered with the master, or none is to be had: a better manager may have the
    /// subnet.
    pub(crate) fn hold_back_no_longer(&mut self) {
        self.others.copied_from = self.view.master;
        let is_free = matches!(self.stage, Stage::Standby { .. }) && self.exchange.open() == 0;
        // The answer to a poll that is under way does as well.
        if std::mem::take(&mut self.others.holds_back) && is_free {
            self.next_poll = Some(self.now);
        }
    }

    /// The administrator beside the master is silent. If the master is not, hosts may have registered something of
    /// which nothing was heard; so it is polled at once.
    pub(crate) fn look_whether_master_lives(&mut self) {
        self.others.is_unproven = true;
        if matches!(self.stage, Stage::Standby { .. }) && self.exchange.open() == 0 {
            self.next_poll = Some(self.now);
        }
    }

    /// True if a better manager must wait: packets are under way by entries that were changed a moment ago, or to LIDs
    /// that were given up, and only this manager knows of them. Another master is not kept waiting.
    pub(crate) fn puts_off(&mut self, inventory: &Inventory, other: &SmInfo, now: Time) -> bool {
        let is_under_way = self.past.under_way(&inventory.fabric, now).is_some();
        let is_resting = !self.given_up.resting(now).is_empty();
        let waits = other.state != SmState::Master && (is_under_way || is_resting);
        self.others.put_off = waits.then_some(other.guid);
        waits
    }

    /// When a better manager that had to wait is looked at again. There may be more than one rest until then.
    pub(crate) fn offer_due(&mut self, now: Time) -> Option<Time> {
        let waiting = self.others.put_off.take().map(|guid| (guid, now + PUT_OFF));
        self.others.waiting = waiting.or(self.others.waiting);
        self.others.waiting.map(|(_, at)| at).filter(|at| *at > now)
    }

    /// True if a trap says only what is known: that a better manager, which has to wait, is better. It says so at each
    /// of its polls. A sweep for each of them would begin anew what it waits for, as long as the change takes that is
    /// on its way.
    pub(crate) fn is_known_to_wait(&self, notice: &Notice) -> bool {
        let says_only_so = match notice.trap() {
            Some(Trap::LocalChange(change)) => change.other_local_changes && change.changes == SM_PRIORITY,
            _ => false,
        };
        // Seen in the sweep whose plan is on its way, or before.
        let waiting = self.others.waiting.filter(|(_, until)| self.now < *until);
        let known = self.others.put_off.or(waiting.map(|(guid, _)| guid));
        let Some(guid) = known.filter(|_| says_only_so) else {
            return false;
        };
        let lids = self.inventory.as_ref().and_then(|inventory| {
            let fabric = &inventory.fabric;
            Some(fabric.port(fabric.find_port(guid)?)?.settings.lids)
        });
        lids.is_some_and(|lids| lids.contains(notice.issuer_lid))
    }

    /// Offers the subnet to a better manager; what becomes of it is decided when it has answered.
    pub(crate) fn hand_over(&mut self, inventory: Arc<Inventory>, (at, to): (PortRef, SmInfo), out: &mut Vec<Output>) {
        let says = self.own_sm_info();
        let route = inventory.agents[at.node].route_to(at.port);
        let modifier = SmControl::Handover.modifier();
        let set = smp::set(&says, modifier, route, self.config.policy.m_key);
        self.exchange.submit(AgentId(at.node.0), (Token::Handover, set));
        out.push(Output::Event(Event::HandingOver { to: to.guid }));
        self.stage = Stage::HandingOver {
            inventory,
            at,
            to,
            is_taken: false,
        };
    }

    /// What the other said to the offer.
    pub(crate) fn handover_answered(&mut self, answer: Option<&Mad>) {
        let is_ok = ok(answer).is_some();
        if let Stage::HandingOver { is_taken, .. } = &mut self.stage {
            *is_taken |= is_ok;
        }
    }

    /// True if the offer was taken. If it was not, this manager goes on as master, beside none: a better one that is
    /// master already is left alone in any case.
    pub(crate) fn gives_way(&mut self, to: &SmInfo, is_taken: bool, out: &mut Vec<Output>) -> bool {
        if is_taken || to.state == SmState::Master {
            return true;
        }
        self.others.refused.insert(to.guid);
        out.push(Output::Event(Event::HandoverRefused { by: to.guid }));
        false
    }

    /// SubnSet(SMInfo), ACKNOWLEDGE: told to whoever hands over, while still standing by.
    fn acknowledge(&mut self, guid: Guid, out: &mut Vec<Output>) {
        let Stage::Standby { inventory, .. } = &self.stage else {
            return;
        };
        let Some(at) = place_of(inventory, guid) else { return };
        let route = inventory.agents[at.node].route_to(at.port);
        let modifier = SmControl::Acknowledge.modifier();
        let set = smp::set(&self.own_sm_info(), modifier, route, self.config.policy.m_key);
        self.send_unasked(set.datagram(), out);
    }

    /// Tells the master, by trap 144, that this manager is better than it: it may not have seen that there is another.
    /// Source: OpenSM (`osm_send_trap144`).
    pub(crate) fn tell_worse_master(&mut self, info: &SmInfo, out: &mut Vec<Output>) {
        let Stage::Standby { at, inventory, .. } = &self.stage else {
            return;
        };
        if self.others.holds_back || info.state != SmState::Master || rank(info) > rank(&self.own_sm_info()) {
            return;
        }
        let fabric = &inventory.fabric;
        let lid = |at: PortRef| fabric.port(at).map(|port| port.settings.lids.base);
        let (Some(to), Some(own)) = (lid(*at), lid(inventory.local)) else {
            return;
        };
        // Not given out yet: the master is busy with its first sweep, and will find us.
        if !to.is_unicast() || !own.is_unicast() {
            return;
        }
        let mask = fabric.port(inventory.local).map_or(0, |port| port.capability.mask);
        let change = LocalChange {
            lid: own,
            other_local_changes: true,
            capabilities: CapabilityMask(mask).with(CapabilityMask::IS_SM),
            changes: SM_PRIORITY,
            ..LocalChange::default()
        };
        let producer = match fabric.node(inventory.local.node).kind {
            NodeKind::Ca => PRODUCER_CA,
            NodeKind::Switch => PRODUCER_SWITCH,
            NodeKind::Router => PRODUCER_ROUTER,
        };
        let mut mad = Mad::request(Class::SubnLid, Method::Trap, AttributeId::NOTICE, 0);
        mad.write(&Notice::new(producer, own, &Trap::LocalChange(change)));
        let address = Address::smi(to);
        self.send_unasked(Datagram { address, mad }, out);
    }

    /// Asks the other managers what they are, in a light sweep of the master.
    pub(crate) fn ask_other_managers(&mut self, inventory: &Inventory) {
        let m_key = self.config.policy.m_key;
        for at in managers(inventory) {
            let get = smp::get(
                AttributeId::SM_INFO,
                0,
                inventory.agents[at.node].route_to(at.port),
                m_key,
            );
            self.exchange.submit(AgentId(at.node.0), (Token::Manager, get));
        }
    }

    /// Another manager's SMInfo in a light sweep.
    pub(crate) fn manager_answered(&mut self, answer: Option<&Mad>, events: &mut Vec<Event>) {
        if self.is_rival(answer, events) {
            self.stage = Stage::LightSweep { changed: true };
        }
    }

    /// True if another manager's SMInfo, asked for in a light sweep, is reason to elect again: it is master too, or
    /// better and not asked yet.
    fn is_rival(&mut self, answer: Option<&Mad>, events: &mut Vec<Event>) -> bool {
        let info = ok(answer).and_then(|mad| mad.read::<SmInfo>().ok());
        let Some(info) = info.filter(|info| self.believes(info, events)) else {
            return false;
        };
        let own = self.own_sm_info();
        let is_better = yields(&own, &info) && !self.others.refused.contains(&info.guid);
        info.state == SmState::Master || is_better
    }

    /// Only who shows our SM_Key is believed, if we have one. Source: OpenSM (`smi_rcv_process_get_response`).
    pub(crate) fn believes(&mut self, info: &SmInfo, events: &mut Vec<Event>) -> bool {
        let is_trusted = self.config.sm_key == 0 || info.sm_key == self.config.sm_key;
        if !is_trusted && self.others.strangers.insert(info.guid) {
            events.push(Event::StrangeManager { guid: info.guid });
        }
        is_trusted
    }

    /// A sweep begins: what was refused may be offered again.
    pub(crate) fn forget_refusals(&mut self) {
        self.others.refused.clear();
        self.others.asked_before = self.others.asked;
    }
}

/// Ports at which other managers say they are.
pub fn managers(inventory: &Inventory) -> impl Iterator<Item = PortRef> + '_ {
    let others = inventory.fabric.end_ports().filter(|(at, port)| {
        let is_sm = CapabilityMask(port.capability.mask).contains(CapabilityMask::IS_SM);
        *at != inventory.local && is_sm
    });
    others.map(|(at, _)| at)
}

/// Where the port with a GUID is.
fn place_of(inventory: &Inventory, guid: Guid) -> Option<PortRef> {
    let mut ports = inventory.fabric.end_ports();
    ports.find(|(_, port)| port.guid == guid).map(|(at, _)| at)
}

#[cfg(test)]
mod tests {
    use selvedge_plan::{BLOCK_LIDS, Installed};
    use selvedge_types::Lid;
    use selvedge_wire::Bits;

    use super::*;
    use crate::made::{FAR, empty_plan, guid, inventory, master, row};
    use selvedge_planner::past::{After, Taken};

    fn better(state: SmState) -> SmInfo {
        SmInfo {
            guid: Guid(guid(FAR).0 + 1),
            sm_key: 1,
            act_count: 1,
            priority: Bits::saturating(9),
            state,
        }
    }

    #[test]
    fn a_better_manager_waits_for_packets_that_it_knows_nothing_of() {
        let check = |state: SmState, has_written: bool, want: bool| {
            let (mut sm, inventory) = (master(), inventory(row()));
            let mut taken = Taken::default();
            if has_written {
                taken.note((guid(1), 0, [1; BLOCK_LIDS]), None);
            }
            let after = After {
                fabric: Arc::clone(&inventory.fabric),
                plan: Arc::new(empty_plan()),
                installed: Arc::new(Installed::unknown(2)),
            };
            sm.past.add(taken, false, Time::ZERO, after);
            assert_eq!(sm.puts_off(&inventory, &better(state), Time(1)), want, "{state:?}");
            // Two lifetimes later they are gone.
            assert!(!sm.puts_off(&inventory, &better(state), Time::ZERO + Duration::from_secs(3)));
        };
        check(SmState::Standby, true, true);
        check(SmState::Discovering, true, true);
        check(SmState::Standby, false, false);
        // Two masters are worse.
        check(SmState::Master, true, false);
    }

    #[test]
    fn what_is_known_of_who_waits_is_no_reason_to_sweep() {
        let far = better(SmState::Standby).guid;
        let check = |put_off: Option<Guid>, waiting: Option<(Guid, Time)>, is_priority: bool, want: bool| {
            let mut found = row();
            found[FAR].ports[1].info.as_mut().unwrap().lid = Lid(7);
            let mut sm = master();
            (sm.inventory, sm.now) = (Some(Arc::new(inventory(found))), Time(5));
            (sm.others.put_off, sm.others.waiting) = (put_off, waiting);
            let change = LocalChange {
                lid: Lid(7),
                other_local_changes: true,
                changes: if is_priority { SM_PRIORITY } else { 0 },
                ..LocalChange::default()
            };
            let notice = Notice::new(PRODUCER_CA, Lid(7), &Trap::LocalChange(change));
            assert_eq!(sm.is_known_to_wait(&notice), want, "{put_off:?} {waiting:?}");
        };
        check(None, None, true, false);
        check(None, Some((far, Time(6))), true, true);
        check(None, Some((far, Time(5))), true, false);
        // The plan of the sweep that saw it is on its way.
        check(Some(far), None, true, true);
        check(Some(far), Some((far, Time(5))), true, true);
        check(Some(far), None, false, false);
        check(Some(Guid(1)), None, true, false);
    }

    #[test]
    fn what_was_seen_before_a_handover_is_looked_at_again() {
        let check = |role: Role, has_met: bool| {
            let mut sm = master();
            sm.view.role = role;
            let mut out = Vec::new();
            sm.obey(SmControl::Handover, &better(SmState::Master), Time(1), &mut out);
            assert!(
                matches!(sm.sweep_due, Some(SweepReason::HandedOver)),
                "{role:?} {:?}",
                sm.sweep_due
            );
            assert_eq!(sm.others.met.is_some(), has_met, "{role:?}");
        };
        check(Role::Discovering, true);
        check(Role::Master, true);
    }

    #[test]
    fn who_had_to_wait_is_looked_at_in_time_whatever_comes_between() {
        let at = |ms: u64| Time::ZERO + Duration::from_millis(ms);
        let check = |rests: &[u64], want: &[Option<u64>]| {
            let mut sm = master();
            sm.others.put_off = Some(Guid(7));
            let due: Vec<_> = rests.iter().map(|&ms| sm.offer_due(at(ms))).collect();
            assert_eq!(due, want.iter().map(|due| due.map(at)).collect::<Vec<_>>(), "{rests:?}");
        };
        check(&[0], &[Some(2_000)]);
        check(&[0, 1_000], &[Some(2_000), Some(2_000)]);
        check(&[0, 1_999, 2_000], &[Some(2_000), Some(2_000), None]);
    }
}
