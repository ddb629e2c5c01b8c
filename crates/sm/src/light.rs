//! The light sweep: one SwitchInfo a switch, and a knock at every port whose peer was silent.

use selvedge_mad::AgentId;
use selvedge_wire::{Attribute, AttributeId, Mad, NodeInfo, SwitchInfo};

use crate::core::{Sm, ok};
use crate::smp;
use crate::stage::{Stage, Token};
use crate::view::PortReason;

/// Knocks share agents of their own, out of the range of node indices.
const KNOCKS: u32 = 3 << 30;

impl Sm {
    /// Asks every switch whether a port changed its state.
    pub(crate) fn begin_light_sweep(&mut self) {
        let Some(inventory) = self.inventory.clone() else {
            // Discovery never ended well: try again from the start.
            self.stage = Stage::LightSweep { changed: true };
            return;
        };
        let m_key = self.config.policy.m_key;
        for &node in inventory.fabric.switches().iter() {
            let get = smp::get(AttributeId::SWITCH_INFO, 0, &inventory.agents[node].route, m_key);
            self.exchange.submit(AgentId(node.0), get, Token::Light);
        }
        let silent = self.view.ports.iter().filter(|p| p.reason == PortReason::PeerSilent);
        for (i, report) in silent.enumerate() {
            let route = inventory
                .agents
                .get(report.port.node)
                .and_then(|a| a.route.then(report.port.port));
            if let Some(route) = route {
                let knock = smp::get(AttributeId::NODE_INFO, 0, &route, m_key);
                let agent = AgentId(KNOCKS | u32::try_from(i).unwrap_or(0));
                self.exchange.submit(agent, knock, Token::Knock);
            }
        }
        self.stage = Stage::LightSweep { changed: false };
    }
}

/// True if an answer (or its absence) means that the fabric is not what it was.
pub fn differs(token: Token, answer: Option<&Mad>) -> bool {
    match token {
        Token::Light => match ok(answer).map(|mad| SwitchInfo::parse(mad.smp_data())) {
            Some(Ok(info)) => info.port_state_change,
            Some(Err(_)) | None => true,
        },
        // Somebody answers where nobody did.
        Token::Knock => ok(answer).is_some_and(|mad| NodeInfo::parse(mad.smp_data()).is_ok()),
        Token::Discover(_) | Token::OtherSm(_) | Token::Table { .. } | Token::Set(_) | Token::Poll => false,
    }
}
