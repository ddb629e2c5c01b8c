//! SMInfo of this manager, and requests for it from other managers.

use selvedge_fabric::PortRef;
use selvedge_types::SecretKey;
use selvedge_wire::{Attribute, Bits, Class, Datagram, Method, SmControl, SmInfo, SmState, Status};

use super::peers::named;
use super::{Ctx, Effect, Election, Role};
use crate::config::{Config, Mode};
use crate::event::{Event, ManagerName};

impl Election {
    /// Returns the SMInfo of this manager, which has sent `act_count` SMPs.
    pub fn sm_info(&self, config: &Config, act_count: u32) -> SmInfo {
        SmInfo {
            guid: config.local.port_guid,
            sm_key: config.sm_key,
            act_count,
            priority: Bits::saturating(config.priority),
            state: match self.role {
                Role::Discovering => SmState::Discovering,
                // What hosts have registered is not known here yet.
                Role::Standby if self.copy.is_awaited() => SmState::Discovering,
                Role::Standby => SmState::Standby,
                Role::Master => SmState::Master,
                Role::NotActive => SmState::NotActive,
            },
        }
    }

    /// Returns the SMInfo of this manager for the current input.
    pub(super) fn own(&self, ctx: &Ctx<'_>) -> SmInfo {
        self.sm_info(ctx.config, ctx.act_count)
    }

    /// Answers SubnGet(SMInfo) or SubnSet(SMInfo), which may come at any time.
    pub(super) fn answer(&mut self, ctx: &Ctx<'_>, datagram: &Datagram, effects: &mut Vec<Effect>) {
        let mad = &datagram.mad;
        let policy = &ctx.config.policy;
        // While the key changes, other managers may have the former one or the next.
        let other = ctx.other_m_keys.iter().find(|key| key.expose() == mad.m_key());
        effects.extend(other.map(|key| Effect::PeerAsked(*key)));
        // Source: OpenSM: the M_Key guards SMInfo as it guards PortInfo.
        let has_key = policy.m_key == 0 || mad.m_key() == policy.m_key || other.is_some();
        let is_set = mad.method() == Method::Set;
        if ctx.config.mode != Mode::Manage || !has_key && (is_set || policy.m_key_protect > 1) {
            effects.push(Effect::Drop);
            return;
        }
        let mut own = self.own(ctx);
        // A sender without the M_Key is not shown the SM_Key, where keys guard anything at all.
        if !has_key && policy.m_key_protect != 0 {
            own.sm_key = 0;
        }
        let mut answer = Box::new(*datagram);
        answer.mad.set_method(Method::GetResp);
        answer.mad.set_returning(mad.class() == Class::SubnDirected);
        answer.mad.set_smp_data(&own.emit());
        if !is_set {
            self.asked.count = self.asked.count.wrapping_add(1);
            effects.push(Effect::Answer(answer));
            return;
        }
        let control = SmControl::from_modifier(mad.modifier());
        let legal = control.zip(mad.read::<SmInfo>().ok());
        let legal = legal.filter(|(control, sender)| self.is_legal(ctx, *control, sender));
        if legal.is_none() {
            answer.mad.set_status(Status::BAD_FIELD);
        }
        // The answer shows the state before the control is obeyed. Source: OpenSM.
        effects.push(Effect::Answer(answer));
        if let Some((control, sender)) = legal {
            let by = ManagerName::of(ctx.inventory, sender.guid);
            effects.push(Effect::Event(Event::Told { control, by }));
            effects.push(Effect::Obey(control, sender));
        }
    }

    /// True if the sender may send this control, and this manager's state allows it. A master may send the controls
    /// that command, a standby those that acknowledge. The sender must show the SM_Key. Source: IBA vol 1 §14.4.2
    /// (table of controls).
    fn is_legal(&self, ctx: &Ctx<'_>, control: SmControl, sender: &SmInfo) -> bool {
        let sender_state = match control {
            SmControl::Acknowledge => SmState::Standby,
            SmControl::Handover | SmControl::Disable | SmControl::Standby | SmControl::Discover => SmState::Master,
        };
        let fits_role = match (control, self.role) {
            (SmControl::Handover, Role::Discovering | Role::Standby | Role::Master) => true,
            (SmControl::Acknowledge, Role::Standby | Role::Master) => true,
            (SmControl::Disable | SmControl::Discover, Role::Standby) => true,
            (SmControl::Standby, Role::NotActive) => true,
            (SmControl::Handover | SmControl::Acknowledge, Role::NotActive)
            | (SmControl::Acknowledge, Role::Discovering)
            | (SmControl::Disable | SmControl::Discover, Role::Discovering | Role::Master | Role::NotActive)
            | (SmControl::Standby, Role::Discovering | Role::Standby | Role::Master) => false,
        };
        let is_other = sender.guid != ctx.config.local.port_guid;
        shows_sm_key(ctx, sender) && is_other && sender.state == sender_state && fits_role
    }

    /// Records the SMInfo of the manager at a port that was asked in an election or in a light sweep. Returns true if
    /// that manager shows this manager's SM_Key.
    pub(super) fn meets(&mut self, ctx: &Ctx<'_>, at: PortRef, info: &SmInfo, effects: &mut Vec<Effect>) -> bool {
        let is_trusted = self.believes(ctx, at, info, effects);
        self.peers.answered(ctx, at, info, is_trusted);
        is_trusted
    }

    /// True if the manager at a port shows this manager's SM_Key. A manager with another key is ignored, and reported
    /// once. Source: OpenSM (`smi_rcv_process_get_response`).
    pub(super) fn believes(&mut self, ctx: &Ctx<'_>, at: PortRef, info: &SmInfo, effects: &mut Vec<Effect>) -> bool {
        let is_trusted = shows_sm_key(ctx, info);
        if !is_trusted && self.strangers.insert(info.guid) {
            let at = ctx.inventory.and_then(|inventory| named(inventory, at));
            let manager = match at {
                Some((guid, end)) => ManagerName { guid, at: Some(end) },
                None => ManagerName::of(None, info.guid),
            };
            effects.push(Effect::Event(Event::StrangeManager { manager }));
        }
        is_trusted
    }
}

/// True if a manager shows the SM_Key or a former one, or none is configured.
fn shows_sm_key(ctx: &Ctx<'_>, info: &SmInfo) -> bool {
    let is_former = |former: &SecretKey| former.expose() == info.sm_key;
    let sm_key = ctx.config.sm_key;
    sm_key == 0 || info.sm_key == sm_key || ctx.former_sm_keys.iter().any(is_former)
}

#[cfg(test)]
mod tests {
    use selvedge_types::Guid;

    use super::super::In;
    use super::super::made::{Bench, far};
    use super::*;

    #[test]
    fn a_master_commands_and_a_standby_acknowledges() {
        use SmControl::{Acknowledge, Disable, Discover, Handover, Standby};
        let master = far(SmState::Master, 0);
        let legal = |bench: &Bench, sender: SmInfo| {
            let all = [Handover, Acknowledge, Disable, Standby, Discover];
            let is_legal = |control: &SmControl| bench.election.is_legal(&bench.ctx(), *control, &sender);
            all.into_iter().filter(is_legal).collect::<Vec<_>>()
        };
        let mut disabled = Bench::standby(master);
        disabled.hand(In::Control(Disable, master));
        let benches = [Bench::new(), Bench::standby(master), Bench::master(), disabled];
        let by_master: Vec<_> = benches.iter().map(|bench| legal(bench, master)).collect();
        let want = [
            vec![Handover],
            vec![Handover, Disable, Discover],
            vec![Handover],
            vec![Standby],
        ];
        assert_eq!(by_master, want);
        let by_standby: Vec<_> = benches
            .iter()
            .map(|bench| legal(bench, far(SmState::Standby, 0)))
            .collect();
        assert_eq!(by_standby, [vec![], vec![Acknowledge], vec![Acknowledge], vec![]]);
        // Not by the local manager, nor without the SM_Key.
        for sender in [
            SmInfo { sm_key: 2, ..master },
            SmInfo {
                guid: benches[0].config.local.port_guid,
                ..master
            },
        ] {
            assert!(benches.iter().all(|bench| legal(bench, sender).is_empty()));
        }
    }

    #[test]
    fn a_manager_with_another_key_is_reported_once() {
        let mut bench = Bench::new();
        let mut check = |guid: u64, sm_key: u64, former: [u64; 1], want: (bool, usize)| {
            let info = SmInfo {
                guid: Guid(guid),
                sm_key,
                ..far(SmState::Master, 0)
            };
            let mut effects = Vec::new();
            let mut election = std::mem::take(&mut bench.election);
            let ctx = Ctx {
                former_sm_keys: &former.map(SecretKey::new),
                ..bench.ctx()
            };
            let is_believed = election.believes(&ctx, bench.far(), &info, &mut effects);
            bench.election = election;
            assert_eq!((is_believed, effects.len()), want, "{guid} {sm_key}");
        };
        check(1, 2, [9], (false, 1));
        check(1, 2, [9], (false, 0));
        check(2, 2, [9], (false, 1));
        check(2, 1, [9], (true, 0));
        // A former key.
        check(3, 9, [9], (true, 0));
    }
}
