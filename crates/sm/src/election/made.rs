//! Fixtures of the election's tests: a manager on the first host of the row (host, two switches, host), without an
//! outer machine.

use std::sync::Arc;
use std::time::Duration;

use selvedge_fabric::PortRef;
use selvedge_planner::Inventory;
use selvedge_sim::Time;
use selvedge_types::{Guid, Lid};
use selvedge_wire::{AttributeId, Bits, DirectedRoute, LocalPort, Mad, Method, SmInfo, SmState};

use super::{Ctx, Effect, Election, In, Other};
use crate::config::{Config, Mode};
use crate::event::SweepReason;
use crate::made::{FAR, NEAR, guid, inventory, place, port, row};

/// An election with its inputs.
pub struct Bench {
    /// The current time.
    pub now: Time,
    /// Configuration of the manager.
    pub config: Config,
    /// The inventory of the fabric of [`row`] (host, two switches, host).
    pub inventory: Inventory,
    /// Whether a request of the election has no answer yet.
    pub is_waiting: bool,
    /// The election.
    pub election: Election,
}

impl Bench {
    /// Returns a manager after a sweep of its fabric: the far host has LID 7.
    pub fn new() -> Self {
        let local = LocalPort {
            node_guid: guid(NEAR),
            port_guid: Guid(guid(NEAR).0 + 1),
            port: port(1),
        };
        let mut found = row();
        found[NEAR].ports[1].info.as_mut().unwrap().lid = Lid(1);
        found[FAR].ports[1].info.as_mut().unwrap().lid = Lid(7);
        Self {
            now: Time::ZERO + Duration::from_secs(5),
            config: Config::new(Mode::Manage, local, Arc::default()),
            inventory: inventory(found),
            is_waiting: false,
            election: Election::default(),
        }
    }

    /// Returns a manager that is master.
    pub fn master() -> Self {
        let mut bench = Self::new();
        bench.hand(In::Lead);
        bench
    }

    /// Returns a standby of a manager on the far host.
    pub fn standby(master: SmInfo) -> Self {
        let mut bench = Self::new();
        let at = bench.far();
        bench.hand(In::StandBy(Other { at, info: master }));
        bench
    }

    /// Returns the port of the far host.
    pub fn far(&self) -> PortRef {
        place(&self.inventory, FAR, 1)
    }

    /// Returns the state that the election reads.
    pub fn ctx(&self) -> Ctx<'_> {
        Ctx {
            now: self.now,
            config: &self.config,
            other_m_keys: &[],
            former_sm_keys: &[],
            inventory: Some(&self.inventory),
            planned: None,
            sweep_reason: SweepReason::Start,
            act_count: 3,
            is_waiting: self.is_waiting,
        }
    }

    /// Hands in an input, and returns the effects.
    pub fn hand(&mut self, input: In<'_>) -> Vec<Effect> {
        let mut election = std::mem::take(&mut self.election);
        let mut effects = Vec::new();
        election.handle(&self.ctx(), input, &mut effects);
        self.election = election;
        effects
    }
}

/// Returns SMInfo of a manager on the far host.
pub fn far(state: SmState, priority: u8) -> SmInfo {
    SmInfo {
        guid: Guid(guid(FAR).0 + 1),
        sm_key: 1,
        act_count: 1,
        priority: Bits::saturating(priority),
        state,
    }
}

/// Returns the answer of a manager to SubnGet(SMInfo).
pub fn answer(info: &SmInfo) -> Mad {
    let mut mad = Mad::directed(Method::GetResp, AttributeId::SM_INFO, 0, &DirectedRoute::LOCAL);
    mad.write(info);
    mad
}
