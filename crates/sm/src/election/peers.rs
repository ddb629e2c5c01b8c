//! The other managers of the subnet, as they last showed themselves: for operators.
//!
//! Each election and each light sweep asks all ports that show IsSM. A manager that stood by and is gone stays listed
//! until it returns, or until the operator removes it (`selvedge forget`). No decision of the manager depends on this
//! list.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use selvedge_fabric::PortRef;
use selvedge_health::{End, GoneSign, Peer, PeerTrouble, Role as Duties, Since};
use selvedge_planner::Inventory;
use selvedge_sim::Time;
use selvedge_types::Guid;
use selvedge_wire::{SmInfo, SmState};

use super::{Ctx, managers};

/// The other managers, and those of them that need an operator.
#[derive(Debug, Default)]
pub(super) struct Peers {
    /// The known managers, by port GUID.
    known: BTreeMap<Guid, Known>,
    /// The managers that need an operator.
    in_trouble: Arc<Vec<Peer>>,
}

/// What this manager knows of another one.
#[derive(Debug)]
struct Known {
    at: End,
    last: Shown,
    /// The time when the manager was lost, and the sign of that; `None`: the manager is still there.
    gone: Option<(Time, GoneSign)>,
}

/// The last answer of another manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shown {
    state: Duties,
    priority: u8,
    /// True if the manager showed this manager's SM_Key.
    has_key: bool,
}

impl Peers {
    /// Returns the managers that need an operator.
    pub(super) const fn in_trouble(&self) -> &Arc<Vec<Peer>> {
        &self.in_trouble
    }

    /// Handles the ports of this inventory that show IsSM, before each is asked. A known manager that is not among them
    /// is gone.
    pub(super) fn asked(&mut self, now: Time, inventory: &Inventory) {
        let fabric = &inventory.fabric;
        let guids = managers(inventory).filter_map(|at| Some(fabric.port(at)?.guid));
        let shown: BTreeSet<Guid> = guids.collect();
        for (guid, known) in &mut self.known {
            if !shown.contains(guid) {
                let sign = match fabric.find_port(*guid) {
                    Some(_) => GoneSign::NotShown,
                    None => GoneSign::NotFound,
                };
                known.gone.get_or_insert((now, sign));
            }
        }
        self.show();
    }

    /// Records the answer of a manager.
    pub(super) fn answered(&mut self, ctx: &Ctx<'_>, at: PortRef, info: &SmInfo, has_key: bool) {
        let Some((guid, at)) = ctx.inventory.and_then(|inventory| named(inventory, at)) else {
            return;
        };
        let last = Shown {
            state: match info.state {
                SmState::NotActive => Duties::NotActive,
                SmState::Discovering => Duties::Discovering,
                SmState::Standby => Duties::Standby,
                SmState::Master => Duties::Master,
            },
            priority: info.priority.get(),
            has_key,
        };
        let gone = None;
        self.known.insert(guid, Known { at, last, gone });
        self.show();
    }

    /// Records that a manager was asked and did not answer.
    pub(super) fn silent(&mut self, ctx: &Ctx<'_>, at: PortRef) {
        let guid = ctx.inventory.and_then(|inventory| named(inventory, at));
        if let Some(known) = guid.and_then(|(guid, _)| self.known.get_mut(&guid)) {
            known.gone.get_or_insert((ctx.now, GoneSign::Silent));
            self.show();
        }
    }

    /// Forgets managers on these nodes, which the operator no longer expects. Those that are present stay listed.
    pub(super) fn forget(&mut self, nodes: &BTreeSet<Guid>) {
        self.known
            .retain(|_, known| known.gone.is_none() || !nodes.contains(&known.at.node));
        self.show();
    }

    /// Clears the list, because another manager is master and watches the others from now on.
    pub(super) fn clear(&mut self) {
        self.known.clear();
        self.show();
    }

    /// Finds the managers that need an operator. Of those that are gone, only a standby is reported as missing.
    fn show(&mut self) {
        self.known
            .retain(|_, known| known.gone.is_none() || known.last.is_standby());
        let in_trouble = self.known.iter().filter_map(|(&port_guid, known)| {
            let trouble = match (known.gone, known.last) {
                (Some((at, sign)), _) => PeerTrouble::Gone {
                    since: Since::Run(at),
                    sign,
                },
                (None, shown) if !shown.has_key => PeerTrouble::OtherKey(shown.state),
                (None, shown) if shown.state == Duties::Master => PeerTrouble::Master {
                    priority: shown.priority,
                },
                (None, _) => return None,
            };
            let at = known.at.clone();
            Some(Peer { at, port_guid, trouble })
        });
        let in_trouble: Vec<Peer> = in_trouble.collect();
        if *self.in_trouble != in_trouble {
            self.in_trouble = Arc::new(in_trouble);
        }
    }
}

impl Shown {
    fn is_standby(self) -> bool {
        self.has_key && self.state == Duties::Standby
    }
}

/// Returns the GUID and the name of a port.
pub(super) fn named(inventory: &Inventory, at: PortRef) -> Option<(Guid, End)> {
    let fabric = &inventory.fabric;
    let node = fabric.nodes().get(at.node)?;
    let end = End {
        node: node.guid,
        name: node.description.clone(),
        port: at.port,
    };
    Some((fabric.port(at)?.guid, end))
}

#[cfg(test)]
mod tests {
    use selvedge_wire::CapabilityMask;

    use super::super::made::{Bench, answer, far};
    use super::super::{Ask, Effect, In};
    use super::*;
    use crate::made::{FAR, SECOND, guid, inventory, row};

    /// Returns the fabric of [`row`] (host, two switches, far host). `far`: whether the port of the far host shows
    /// IsSM; `None`: there is no far host.
    fn seen(far: Option<bool>) -> Inventory {
        let mut found = row();
        let info = found[FAR].ports[1].info.as_mut().unwrap();
        if far == Some(true) {
            info.capabilities = CapabilityMask::IS_SM;
        }
        if far.is_none() {
            found[SECOND].ports[2].peer = None;
            found.truncate(FAR);
        }
        inventory(found)
    }

    /// Lets a master ask the manager on the far host for its SMInfo, which gives this answer; `None`: no answer.
    fn asked(bench: &mut Bench, info: Option<SmInfo>) {
        let at = bench.far();
        let says = info.as_ref().map(answer);
        bench.hand(In::Answered(Ask::LightSweep(at), says.as_ref()));
    }

    /// Returns, in words, why the manager on the far host needs an operator.
    fn trouble(bench: &Bench) -> String {
        match bench.election.peers().as_slice() {
            [] => "none".to_owned(),
            [peer] => {
                assert_eq!((peer.at.node, peer.port_guid), (guid(FAR), Guid(guid(FAR).0 + 1)));
                match &peer.trouble {
                    PeerTrouble::Gone { sign, .. } => format!("gone: {sign:?}"),
                    PeerTrouble::Master { priority } => format!("master {priority}"),
                    PeerTrouble::OtherKey(state) => format!("another key, {state}"),
                }
            }
            more => panic!("{more:?}"),
        }
    }

    #[test]
    fn a_standby_that_was_known_is_missed() {
        let standby = far(SmState::Standby, 0);
        for (role, sweep, want) in [
            // It ended: its port shows IsSM no longer.
            (SmState::Standby, Some(seen(Some(false))), "gone: NotShown"),
            (SmState::Standby, Some(seen(None)), "gone: NotFound"),
            (SmState::Standby, None, "gone: Silent"),
            // One that did not stand by is not missed.
            (SmState::NotActive, None, "none"),
            (SmState::Discovering, Some(seen(None)), "none"),
            (SmState::Master, None, "none"),
        ] {
            let mut bench = Bench::master();
            asked(&mut bench, Some(SmInfo { state: role, ..standby }));
            let told = format!("{role:?}, {want}");
            assert!(trouble(&bench) == "none" || role == SmState::Master, "{told}");
            match sweep {
                Some(inventory) => {
                    let before = std::mem::replace(&mut bench.inventory, inventory);
                    bench.hand(In::Swept);
                    bench.inventory = before;
                }
                None => asked(&mut bench, None),
            }
            assert_eq!(trouble(&bench), want, "{told}");
            // It returns.
            asked(&mut bench, Some(standby));
            assert_eq!(trouble(&bench), "none", "{told}");
        }
    }

    #[test]
    fn a_standby_that_is_gone_keeps_its_time_until_it_is_forgotten() {
        let mut bench = Bench::master();
        asked(&mut bench, Some(far(SmState::Standby, 0)));
        asked(&mut bench, None);
        let since = Arc::clone(bench.election.peers());
        bench.now = Time(bench.now.0 + 7);
        asked(&mut bench, None);
        assert_eq!(*bench.election.peers(), since);
        bench.hand(In::Forget(&BTreeSet::from([Guid(0x77)])));
        assert_eq!(trouble(&bench), "gone: Silent");
        bench.hand(In::Forget(&BTreeSet::from([guid(FAR)])));
        assert_eq!(trouble(&bench), "none");
        // One that is there is not forgotten.
        asked(&mut bench, Some(far(SmState::Standby, 0)));
        bench.hand(In::Forget(&BTreeSet::from([guid(FAR)])));
        asked(&mut bench, None);
        assert_eq!(trouble(&bench), "gone: Silent");
    }

    #[test]
    fn a_second_master_and_another_key_are_shown_until_they_end() {
        let mut bench = Bench::master();
        bench.config.sm_key = 1;
        asked(&mut bench, Some(far(SmState::Master, 4)));
        assert_eq!(trouble(&bench), "master 4");
        asked(&mut bench, Some(far(SmState::Standby, 4)));
        assert_eq!(trouble(&bench), "none");
        let stranger = SmInfo {
            sm_key: 2,
            ..far(SmState::Master, 4)
        };
        asked(&mut bench, Some(stranger));
        assert_eq!(trouble(&bench), "another key, MASTER");
        asked(&mut bench, Some(far(SmState::Standby, 4)));
        assert_eq!(trouble(&bench), "none");
        // This manager stands by: the master watches the others.
        asked(&mut bench, Some(stranger));
        bench.hand(In::StandBy(super::super::Other {
            at: bench.far(),
            info: far(SmState::Master, 4),
        }));
        assert_eq!(trouble(&bench), "none");
    }

    #[test]
    fn is_sm_is_set_again_if_the_port_shows_it_no_longer() {
        let mut bench = Bench::master();
        let check = |bench: &mut Bench, mask: CapabilityMask, want: bool| {
            let effects = bench.hand(In::OwnPort(mask));
            assert_eq!(matches!(effects[..], [Effect::ShowIsSm]), want, "{effects:?}");
            assert_eq!(bench.election.is_sm_cleared(), want);
        };
        check(&mut bench, CapabilityMask::IS_SM, false);
        check(&mut bench, CapabilityMask::TRAP, true);
        // Again, should the port have refused it.
        check(&mut bench, CapabilityMask::TRAP, true);
        check(&mut bench, CapabilityMask::TRAP.with(CapabilityMask::IS_SM), false);
        // A heavy sweep reads the port too.
        let effects = bench.hand(In::Swept);
        assert!(matches!(effects[0], Effect::ShowIsSm), "{effects:?}");
        assert!(bench.election.is_sm_cleared());
    }
}
