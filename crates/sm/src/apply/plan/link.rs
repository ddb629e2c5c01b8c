//! Answers to Sets that take links out of service, and put them back.

use std::sync::Arc;

use selvedge_fabric::{LinkState, PortRef};
use selvedge_plan::LinkOrder;
use selvedge_types::{PhysState, PortState};
use selvedge_wire::{Attribute, PortInfo, SmpData};

use super::{PlanSets, expect, is_anothers};

impl PlanSets {
    /// Takes the answer to a Set that takes a link down, or enables its port again. The manager treats a link that was
    /// taken down as down, even if it is trained again at once.
    pub(super) fn check_link(&mut self, port: PortRef, order: LinkOrder, data: &SmpData) -> Result<(), String> {
        let held = PortInfo::parse(data).map_err(|e| e.to_string())?;
        let seen = self.inventory.port_info(port);
        expect(!seen.is_some_and(|seen| is_anothers(seen, &held, None)), || {
            "another port answers: a cable was moved".to_owned()
        })?;
        let Some(before) = self.fabric.port(port).map(|port| (port.link, port.settings)) else {
            return Err("there is no such port".to_owned());
        };
        let phys = held.phys_state.unwrap_or_default();
        let is_done = match order {
            LinkOrder::Down => held.state != Some(PortState::Active),
            LinkOrder::Disable => phys == PhysState::Disabled,
            LinkOrder::Poll => phys != PhysState::Disabled,
        };
        let (link, settings) = before;
        let state = PortState::Down;
        Arc::make_mut(&mut self.fabric).set_port(port, LinkState { state, phys, ..link }, settings);
        expect(is_done, || format!("the port answers with physical state {phys:?}"))
    }
}
