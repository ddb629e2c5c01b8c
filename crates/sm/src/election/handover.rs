//! Handover: this manager offers the subnet to a better manager, or takes it from another one.
//!
//! A standby that receives HANDOVER becomes master at once, and sweeps. A master that receives HANDOVER drops its plan
//! and sweeps once more, because the other master may have written in between.

use std::time::Duration;

use selvedge_fabric::PortRef;
use selvedge_planner::Inventory;
use selvedge_sim::Time;
use selvedge_types::Guid;
use selvedge_wire::{Mad, SmControl, SmInfo, SmState};

use super::elect::yields;
use super::{Ask, Ctx, Effect, Election, Other, Phase, Role, Wait, managers, ok, request, set};
use crate::event::{Event, ManagerName, SweepReason};

/// Time until the subnet is offered again to a better manager that had to wait: packets in flight are usually gone, and
/// M_Keys changed, after two seconds.
const PUT_OFF: Duration = Duration::from_secs(2);
/// How long a better manager that is already master waits for M_Keys to change. Ports have them after two seconds
/// unless sweeps interrupt the change again and again, and each of two masters causes sweeps of the other.
const MASTER_WAITS_MAX: Duration = Duration::from_secs(3);

/// The better manager that has not been given the subnet, and why. An election offers it to one manager at most.
#[derive(Debug, Default)]
pub(super) struct Offers {
    /// The outcome of the offer of the last election.
    last: Offer,
    /// A better manager that had to wait, and the time of the next offer.
    waiting: Option<(Guid, Time)>,
    /// Since when a better manager has had to wait.
    since: Option<(Guid, Time)>,
}

/// The outcome of an offer of the subnet to a better manager, with its port GUID.
#[derive(Debug, Default)]
enum Offer {
    /// No offer was made, or the offer was accepted, or the manager that had to wait is now recorded in
    /// `Offers::waiting`.
    #[default]
    None,
    /// No offer was made, because the better manager must wait. This state ends when this manager becomes idle: the
    /// other manager is then recorded as waiting.
    PutOff(Guid),
    /// The manager refused it. Counts until the next heavy sweep: its election may offer the subnet again.
    Refused(Guid),
}

impl Offers {
    /// Called when a heavy sweep begins.
    pub(super) fn sweep_begun(&mut self) {
        if matches!(self.last, Offer::Refused(_)) {
            self.last = Offer::None;
        }
    }

    /// Returns true if a better manager may be kept waiting because M_Keys change: one that is already master only for
    /// a short time.
    fn may_wait_for_keys(&self, now: Time, better: &SmInfo) -> bool {
        let since = self.since.filter(|(guid, _)| *guid == better.guid);
        let waited = since.map_or(Duration::ZERO, |(_, since)| now.since(since));
        better.state != SmState::Master || waited < MASTER_WAITS_MAX
    }

    /// Notes that an election found no better manager.
    pub(super) fn none_is_better(&mut self) {
        self.since = None;
    }

    /// Handles that this manager has become idle. That may happen several times before the next offer.
    pub(super) fn resting(&mut self, now: Time) {
        if let Offer::PutOff(guid) = self.last {
            (self.last, self.waiting) = (Offer::None, Some((guid, now + PUT_OFF)));
        }
    }

    /// Returns the manager that waits for the subnet, if there is one.
    fn waiting(&self, now: Time) -> Option<Guid> {
        match self.last {
            Offer::PutOff(guid) => Some(guid),
            Offer::None | Offer::Refused(_) => self.waiting.filter(|(_, until)| now < *until).map(|(guid, _)| guid),
        }
    }

    /// True if the manager has refused the subnet since the last heavy sweep began.
    fn is_refused_by(&self, guid: Guid) -> bool {
        matches!(self.last, Offer::Refused(by) if by == guid)
    }
}

impl Election {
    /// Returns the time of the next offer to a better manager that had to wait.
    pub fn offer_due(&self, now: Time) -> Option<Time> {
        self.offers.waiting.map(|(_, at)| at).filter(|at| *at > now)
    }

    /// Returns the port GUID of a better manager that waits until it is offered the subnet. It was found by the sweep
    /// of the plan that is being applied, or by an earlier sweep.
    pub fn waiting(&self, now: Time) -> Option<Guid> {
        self.offers.waiting(now)
    }

    /// Offers the subnet to a better manager, unless it must wait. A better manager that is already master does not
    /// wait for packets in flight, because two masters are worse. While M_Keys change it waits for a short time:
    /// without the former key it could set no port.
    pub(super) fn offer(&mut self, ctx: &Ctx<'_>, to: Other, wait: Wait, effects: &mut Vec<Effect>) {
        let Other { at, info } = to;
        if wait.has_new_ports {
            self.offers.since = None;
        }
        let waits = wait.are_keys_changing && self.offers.may_wait_for_keys(ctx.now, &info)
            || info.state != SmState::Master && wait.is_draining;
        let since = self.offers.since.filter(|(guid, _)| *guid == info.guid);
        self.offers.since = waits.then(|| since.unwrap_or((info.guid, ctx.now)));
        self.offers.last = match waits {
            true => Offer::PutOff(info.guid),
            false => Offer::None,
        };
        let Some(inventory) = ctx.inventory.filter(|_| !waits) else {
            effects.push(Effect::StayMaster);
            return;
        };
        let smp = set(inventory, at, (SmControl::Handover, &self.own(ctx)));
        let ask = Ask::Handover;
        effects.push(Effect::Request { at, ask, smp });
        effects.push(Effect::Event(Event::HandingOver {
            to: ManagerName::of(ctx.inventory, info.guid),
        }));
        effects.push(Effect::Offered);
        let is_taken = false;
        self.phase = Phase::Offering { to, is_taken };
    }

    /// Handles the answer to HANDOVER.
    pub(super) fn handover_answered(&mut self, answer: Option<&Mad>) {
        if let Phase::Offering { is_taken, .. } = &mut self.phase {
            *is_taken |= ok(answer).is_some();
        }
    }

    /// Ends the handover: stands by if the offer was accepted, else stays master. If the better manager is already
    /// master and has not accepted, it is left alone.
    pub(super) fn conclude(&mut self, ctx: &Ctx<'_>, to: Other, is_taken: bool, effects: &mut Vec<Effect>) {
        if is_taken || to.info.state == SmState::Master {
            effects.push(Effect::Yield(to));
            return;
        }
        self.offers.last = Offer::Refused(to.info.guid);
        let by = ManagerName::of(ctx.inventory, to.info.guid);
        effects.push(Effect::Event(Event::HandoverRefused { by }));
        effects.push(Effect::StayMaster);
    }

    /// Obeys a legal control. Source: IBA vol 1 §14.4.2.
    pub(super) fn obey(&mut self, ctx: &Ctx<'_>, control: SmControl, sender: &SmInfo, effects: &mut Vec<Effect>) {
        let guid = sender.guid;
        match (control, self.role) {
            (SmControl::Handover, Role::Standby) => {
                // The master ignores SMInfo states, so its offer is accepted in any case.
                self.copy.await_no_longer();
                self.acknowledge(ctx, guid, effects);
                self.handed_over_by = Some(guid);
                self.change_role(Role::Master, None, effects);
                effects.push(Effect::ClearRequests);
                effects.push(Effect::Sweep(SweepReason::HandedOver));
            }
            (SmControl::Handover, Role::Master | Role::Discovering) => {
                self.handed_over_by = Some(guid);
                self.forget_plan(ctx.now, effects);
                // The last inventory may be older than the tables that the other master leaves.
                effects.push(Effect::Sweep(SweepReason::HandedOver));
            }
            (SmControl::Acknowledge, Role::Master) => {
                if let Phase::Offering { to, is_taken } = &mut self.phase
                    && to.info.guid == guid
                {
                    *is_taken = true;
                    effects.push(Effect::ClearRequests);
                }
            }
            (SmControl::Disable, Role::Standby) => {
                effects.push(Effect::ClearRequests);
                if matches!(self.phase, Phase::Standby(_)) {
                    self.phase = Phase::Disabled;
                    effects.push(Effect::Disabled);
                }
                self.change_role(Role::NotActive, Some(guid), effects);
            }
            (SmControl::Standby, Role::NotActive) if matches!(self.phase, Phase::Disabled) => {
                match ctx.inventory.and_then(|inventory| place_of(inventory, guid)) {
                    Some(at) => self.stand_by(ctx, &Other { at, info: *sender }, effects),
                    // It came while this manager was disabled.
                    None => self.discover(effects),
                }
            }
            (SmControl::Discover, Role::Standby) => self.discover(effects),
            // Nothing to do, or the command is not legal in this state.
            (SmControl::Acknowledge | SmControl::Standby | SmControl::Disable | SmControl::Discover, _)
            | (SmControl::Handover, Role::NotActive) => {}
        }
    }

    /// Leaves standby, and sweeps.
    fn discover(&mut self, effects: &mut Vec<Effect>) {
        self.change_role(Role::Discovering, None, effects);
        effects.push(Effect::ClearRequests);
        effects.push(Effect::Sweep(SweepReason::Told));
    }

    /// Sends ACKNOWLEDGE to the manager that hands over, while still standing by.
    fn acknowledge(&self, ctx: &Ctx<'_>, guid: Guid, effects: &mut Vec<Effect>) {
        let Some(inventory) = ctx.inventory.filter(|_| matches!(self.phase, Phase::Standby(_))) else {
            return;
        };
        if let Some(at) = place_of(inventory, guid) {
            let smp = set(inventory, at, (SmControl::Acknowledge, &self.own(ctx)));
            effects.push(Effect::Acknowledge(Box::new(smp)));
        }
    }

    /// Asks the other managers for their SMInfo, in a light sweep of the master.
    pub(super) fn ask_in_light_sweep(&self, ctx: &Ctx<'_>, effects: &mut Vec<Effect>) {
        if let Some(inventory) = ctx.inventory {
            effects.extend(managers(inventory).map(|at| request(inventory, at, Ask::LightSweep(at))));
        }
    }

    /// Handles another manager's SMInfo in a light sweep. If that manager is master too, or is better and has not
    /// refused the subnet, a heavy sweep elects again.
    pub(super) fn answered_in_light_sweep(
        &mut self,
        ctx: &Ctx<'_>,
        at: PortRef,
        answer: Option<&Mad>,
        effects: &mut Vec<Effect>,
    ) {
        if answer.is_none() {
            self.peers.silent(ctx, at);
        }
        let info = ok(answer).and_then(|mad| mad.read::<SmInfo>().ok());
        let Some(info) = info.filter(|info| self.meets(ctx, at, info, effects)) else {
            return;
        };
        let is_better = yields(&self.own(ctx), &info) && !self.offers.is_refused_by(info.guid);
        if info.state == SmState::Master || is_better {
            effects.push(Effect::Rival);
        }
    }
}

/// Returns the end port with a GUID.
fn place_of(inventory: &Inventory, guid: Guid) -> Option<PortRef> {
    let mut ports = inventory.fabric.end_ports();
    ports.find(|(_, port)| port.guid == guid).map(|(at, _)| at)
}

#[cfg(test)]
mod tests {

    use super::super::In;
    use super::super::made::{Bench, far};
    use super::*;

    #[test]
    fn a_better_manager_waits_for_what_it_knows_nothing_of() {
        let check = |state: SmState, wait: Wait, waits: bool| {
            let (mut bench, to) = (Bench::master(), far(state, 9));
            let at = bench.far();
            let to = Other { at, info: to };
            let effects = bench.hand(In::Weighed { to, wait });
            let is_offered = matches!(effects[..], [Effect::Request { .. }, Effect::Event(_), Effect::Offered]);
            assert_eq!(is_offered, !waits, "{effects:?}");
            assert_eq!(matches!(effects[..], [Effect::StayMaster]), waits, "{effects:?}");
        };
        let nothing = Wait::default();
        let packets = Wait {
            is_draining: true,
            ..nothing
        };
        let keys = Wait {
            are_keys_changing: true,
            ..nothing
        };
        check(SmState::Standby, packets, true);
        check(SmState::Discovering, packets, true);
        check(SmState::Standby, keys, true);
        check(SmState::Standby, nothing, false);
        // Two masters are worse.
        check(SmState::Master, packets, false);
        // It may be master because it lacks the key with which managers are asked and ports are set.
        check(SmState::Master, keys, true);
        check(SmState::Master, nothing, false);
    }

    #[test]
    fn a_better_master_waits_for_keys_for_a_short_time() {
        let keys = Wait {
            are_keys_changing: true,
            ..Wait::default()
        };
        let waits = |bench: &mut Bench, state: SmState| {
            let to = Other {
                at: bench.far(),
                info: far(state, 9),
            };
            let waits = matches!(bench.hand(In::Weighed { to, wait: keys })[..], [Effect::StayMaster]);
            bench.now += Duration::from_secs(1);
            waits
        };
        let mut bench = Bench::master();
        let kept: Vec<bool> = (0..5).map(|_| waits(&mut bench, SmState::Master)).collect();
        assert_eq!(kept, [true, true, true, false, true], "it begins anew after an offer");
        let mut bench = Bench::master();
        assert!((0..60).all(|_| waits(&mut bench, SmState::Standby)));
        // Another port came into sight while the others were given the key.
        let mut bench = Bench::master();
        let kept: Vec<bool> = (0..3).map(|_| waits(&mut bench, SmState::Master)).collect();
        assert_eq!(kept, [true; 3]);
        let to = Other {
            at: bench.far(),
            info: far(SmState::Master, 9),
        };
        let wait = Wait {
            has_new_ports: true,
            ..keys
        };
        assert!(matches!(bench.hand(In::Weighed { to, wait })[..], [Effect::StayMaster]));
        let kept: Vec<bool> = (0..4).map(|_| waits(&mut bench, SmState::Master)).collect();
        assert_eq!(kept, [true, true, true, false]);
    }

    #[test]
    fn an_offer_that_is_refused_is_not_repeated_by_light_sweeps() {
        let (mut bench, to) = (Bench::master(), far(SmState::Standby, 9));
        let says = super::super::made::answer(&to);
        let at = bench.far();
        let in_light_sweep = In::Answered(Ask::LightSweep(at), Some(&says));
        assert!(matches!(bench.hand(in_light_sweep)[..], [Effect::Rival]));
        bench.hand(In::Weighed {
            to: Other { at, info: to },
            wait: Wait::default(),
        });
        assert!(bench.hand(In::Answered(Ask::Handover, None)).is_empty());
        let effects = bench.hand(In::AllAnswered);
        assert!(
            matches!(effects[..], [Effect::Event(_), Effect::StayMaster]),
            "{effects:?}"
        );
        assert!(bench.hand(in_light_sweep).is_empty());
        bench.hand(In::SweepBegun);
        assert!(matches!(bench.hand(in_light_sweep)[..], [Effect::Rival]));
    }

    #[test]
    fn a_better_manager_waits_until_its_time() {
        let check = |put_off: Option<u64>, waiting: Option<(u64, u64)>, want: Option<u64>| {
            let mut bench = Bench::master();
            let waiting = waiting.map(|(guid, until)| (Guid(guid), Time(until)));
            let last = put_off.map_or(Offer::None, |guid| Offer::PutOff(Guid(guid)));
            bench.election.offers = Offers {
                last,
                waiting,
                since: None,
            };
            assert_eq!(
                bench.election.waiting(Time(5)),
                want.map(Guid),
                "{put_off:?} {waiting:?}"
            );
        };
        check(None, None, None);
        check(None, Some((7, 6)), Some(7));
        check(None, Some((7, 5)), None);
        // The plan of the sweep that found it is being applied.
        check(Some(8), None, Some(8));
        check(Some(8), Some((7, 6)), Some(8));
    }

    #[test]
    fn what_was_seen_before_a_handover_is_looked_at_again() {
        for mut bench in [Bench::new(), Bench::master()] {
            let effects = bench.hand(In::Control(SmControl::Handover, far(SmState::Master, 9)));
            assert!(
                matches!(
                    effects[..],
                    [Effect::ForgetPlan, Effect::Sweep(SweepReason::HandedOver)]
                ),
                "{effects:?}"
            );
            assert!(bench.election.has_met_another());
        }
    }

    #[test]
    fn who_had_to_wait_is_looked_at_in_time_whatever_comes_between() {
        let at = |ms: u64| Time::ZERO + Duration::from_millis(ms);
        let check = |rests: &[u64], want: &[Option<u64>]| {
            let mut bench = Bench::master();
            bench.election.offers.last = Offer::PutOff(Guid(7));
            let mut due = |ms: &u64| {
                bench.now = at(*ms);
                bench.hand(In::Resting);
                bench.election.offer_due(bench.now)
            };
            let due: Vec<_> = rests.iter().map(&mut due).collect();
            assert_eq!(due, want.iter().map(|due| due.map(at)).collect::<Vec<_>>(), "{rests:?}");
        };
        check(&[0], &[Some(2_000)]);
        check(&[0, 1_000], &[Some(2_000), Some(2_000)]);
        check(&[0, 1_999, 2_000], &[Some(2_000), Some(2_000), None]);
    }

    #[test]
    fn a_disabled_standby_stands_by_again_when_told() {
        let master = far(SmState::Master, 0);
        let mut bench = Bench::standby(master);
        let effects = bench.hand(In::Control(SmControl::Disable, master));
        let role = |effects: &[Effect]| {
            effects.iter().find_map(|effect| match effect {
                Effect::RoleChanged { role, .. } => Some(*role),
                _ => None,
            })
        };
        assert_eq!(role(&effects), Some(Role::NotActive));
        assert_eq!(bench.election.poll_due(), None);
        let effects = bench.hand(In::Control(SmControl::Standby, master));
        assert_eq!(role(&effects), Some(Role::Standby));
        assert!(bench.election.poll_due().is_some());
        let effects = bench.hand(In::Control(SmControl::Discover, master));
        assert!(matches!(
            effects[..],
            [Effect::RoleChanged { .. }, Effect::ClearRequests, Effect::Sweep(_)]
        ));
    }
}
