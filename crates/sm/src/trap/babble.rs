//! Disables the port of a host that babbles, if the operator's settings ask for it.
//!
//! The Set goes to the end of the host's link that is nearer to the manager. No judge is asked: the operator has
//! decided, and the effect is that of a pulled cable. A repair follows. Links between switches are never disabled:
//! `flap_downs` applies to those.

use selvedge_fabric::PortRef;
use selvedge_types::{Lid, PhysState, PortNum};

use super::{Ctx, Effect};
use crate::config::Mode;
use crate::smp;

/// Disables the port of a host that babbles: returns the effect with the PortInfo Set, or with the reason why the port
/// stays enabled. `None` if the settings do not ask for this. `lid` is the source; `named` is the port number in its
/// traps.
pub fn disable(ctx: &Ctx<'_>, lid: Lid, named: Option<u8>) -> Option<Effect> {
    let is_wanted = ctx.config.disable_babbling_ports && ctx.config.mode == Mode::Manage;
    let disabled = || disabled(ctx, lid, named).unwrap_or_else(|why| Effect::KeepEnabled { lid, why });
    (is_wanted && ctx.is_master).then(disabled)
}

/// Returns the port to disable and the Set for it, or why there is none.
fn disabled(ctx: &Ctx<'_>, lid: Lid, named: Option<u8>) -> Result<Effect, &'static str> {
    let plan = ctx.plan.ok_or("no plan is in force")?;
    let inventory = ctx.inventory.ok_or("no sweep has ended")?;
    let fabric = &inventory.fabric;
    let source = plan.lids.owner(lid).ok_or("no port of the plan has this LID")?;
    let is_switch = |at: PortRef| fabric.switch_index(at.node).is_some();
    let far = match named.and_then(PortNum::new).filter(|port| *port != PortNum::MANAGEMENT) {
        Some(port) if is_switch(source) => PortRef {
            node: source.node,
            port,
        },
        _ if is_switch(source) => return Err("it is a switch, and its traps name no port"),
        _ => source,
    };
    let peer = fabric.peer(far).ok_or("its port has no link")?;
    if is_switch(far) && is_switch(peer) {
        return Err("the link is one between switches");
    }
    let own = inventory.local.node;
    if own == far.node || own == peer.node && !is_switch(peer) {
        return Err("it is the manager's own port");
    }
    let hops = |at: PortRef| inventory.agents[at.node].route.hops();
    let near = if hops(peer) <= hops(far) { peer } else { far };
    let seen = inventory.port_info(near).ok_or("its state is not known")?;
    let settings = &fabric.port(near).ok_or("its state is not known")?.settings;
    let mut info = smp::port_info(seen, settings, None);
    info.phys_state = Some(PhysState::Disabled);
    let route = &inventory.agents[near.node].route;
    let set = smp::set(&info, smp::port_modifier(seen, near.port), route);
    Ok(Effect::Disable {
        lid,
        what: fabric.port_name(near),
        set: Box::new(set),
    })
}

#[cfg(test)]
mod tests {
    use selvedge_sim::Time;
    use selvedge_types::{LidRange, SecretKey};
    use selvedge_wire::{Method, PortInfo};

    use super::*;
    use crate::made::{FAR, FIRST, NEAR, SECOND, config, empty_plan, inventory, place, row};

    /// Checks which port is disabled for a babbling LID: hops and port of the Set, or `None`. LIDs 1 to 4 belong to a
    /// host, two switches in a row, and a host; the manager is at LID 1.
    fn check(is_wanted: bool, lid: u16, port: Option<u8>, want: Option<Option<(u8, u32)>>) {
        let (mut plan, mut config) = (empty_plan(), config());
        let known = inventory(row());
        for (base, (at, num)) in (1..).map(Lid).zip([(NEAR, 1), (FIRST, 0), (SECOND, 0), (FAR, 1)]) {
            plan.lids
                .insert(place(&known, at, num), LidRange::single(base))
                .unwrap();
        }
        config.disable_babbling_ports = is_wanted;
        let ctx = Ctx {
            now: Time::ZERO,
            config: &config,
            is_master: true,
            waiting: None,
            plan: Some(&plan),
            inventory: Some(&known),
            m_key: SecretKey::default(),
        };
        let done = disable(&ctx, Lid(lid), port).map(|effect| match effect {
            Effect::Disable { set, .. } => {
                let mad = set.datagram(SecretKey::default()).mad;
                let info: PortInfo = mad.read().unwrap();
                assert_eq!(mad.method(), Method::Set);
                assert_eq!((info.phys_state, info.state), (Some(PhysState::Disabled), None));
                Some((mad.hop_count(), mad.modifier()))
            }
            Effect::KeepEnabled { .. } => None,
            other => panic!("{other:?}"),
        });
        assert_eq!(done, want, "LID {lid}, port {port:?}");
    }

    #[test]
    fn only_links_of_hosts_are_disabled_and_only_if_that_is_wanted() {
        let not = Some(None);
        // The far host: at its switch, two hops away.
        check(true, 4, None, Some(Some((2, 2))));
        check(true, 4, Some(1), Some(Some((2, 2))));
        // Its switch names the port.
        check(true, 3, Some(2), Some(Some((2, 2))));
        check(true, 3, None, not);
        check(true, 3, Some(0), not);
        check(true, 3, Some(1), not);
        check(true, 3, Some(9), not);
        // The manager's own port, from both sides.
        check(true, 1, None, not);
        check(true, 2, Some(1), not);
        // Nothing that is known, by directed route, several sources.
        for lid in [9, 0xFFFF, 0] {
            check(true, lid, None, not);
        }
        check(false, 4, None, None);
    }
}
