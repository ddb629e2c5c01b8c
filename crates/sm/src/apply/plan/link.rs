//! Handles answers to Sets that take links out of service or put them back.

use std::sync::Arc;

use selvedge_fabric::{LinkState, PortRef};
use selvedge_types::PortState;
use selvedge_wire::{Attribute, PortInfo, SmpData};

use super::{PlanSets, expect, is_anothers};

impl PlanSets {
    /// Handles the answer to a Set that takes a link down, or enables its port again. The link changes only after the
    /// agent has answered, so the answer may still show the former state; a sweep reads the new state. Until then the
    /// manager treats the link as down, even if it trains again at once.
    pub(super) fn check_link(&mut self, port: PortRef, data: &SmpData) -> Result<(), String> {
        let held = PortInfo::parse(data).map_err(|e| e.to_string())?;
        let seen = self.inventory.port_info(port);
        expect(!seen.is_some_and(|seen| is_anothers(seen, &held, None)), || {
            "another port answers: a cable was moved".to_owned()
        })?;
        let Some((link, settings)) = self.fabric.port(port).map(|port| (port.link, port.settings)) else {
            return Err("there is no such port".to_owned());
        };
        let (state, phys) = (PortState::Down, held.phys_state.unwrap_or_default());
        Arc::make_mut(&mut self.fabric).set_port(port, LinkState { state, phys, ..link }, settings);
        Ok(())
    }
}
