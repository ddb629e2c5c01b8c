//! Connects the list of known nodes and links with the rest of the manager, and gathers the facts of its health.

use std::collections::BTreeSet;
use std::sync::Arc;

use selvedge_fabric::PortRef;
use selvedge_health::{Duty, Facts, ForeignKey, Known, LinkKey, Refused, Role as Duties};
use selvedge_types::Guid;
use selvedge_verify::Verdict;

use super::Sm;
use crate::commit::NoPlan;
use crate::config::Mode;
use crate::election::Role;
use crate::event::SweepReason;
use crate::io::Output;
use crate::milestone::Milestone;
use crate::presence::{Ctx, Effect, In, Presence};
use crate::stage::Stage;

impl Sm {
    /// Makes the manager remember nodes and links that an earlier run has found. Must be called before the first input.
    #[must_use]
    pub fn remembering(mut self, known: Arc<Known>) -> Self {
        self.presence = Presence::new(known);
        self
    }

    /// Hands an input to the list of known nodes and links, and carries out its effects.
    pub(crate) fn note_presence(&mut self, input: In<'_>, out: &mut Vec<Output>) {
        let mut effects = Vec::new();
        self.presence.handle(&Ctx { now: self.now }, input, &mut effects);
        for effect in effects {
            match effect {
                Effect::Remember(known) => out.push(Output::Milestone(Milestone::KnownChanged(known))),
            }
        }
    }

    /// If the manager is idle, compares the fabric after a repair with the known nodes and links.
    pub(super) fn note_presence_if_idle(&mut self, out: &mut Vec<Output>) {
        if self.presence.is_behind() && matches!(self.stage, Stage::Idle) && self.exchange.open() == 0 {
            self.note_presence(In::Idle, out);
        }
    }

    /// Called when the operator is about to forget nodes and links. If a repair has left such nodes or links in the
    /// known fabric, requests a sweep. The fabric that the sweep finds lacks them, and is compared with the expected
    /// topology.
    pub(super) fn sweep_for_forgotten(&mut self, nodes: &BTreeSet<Guid>, links: &BTreeSet<LinkKey>) {
        let Some(inventory) = &self.inventory else { return };
        let fabric = &inventory.fabric;
        let has_node = |guid: &Guid| fabric.find(*guid).is_some();
        let has_link = |link: &LinkKey| {
            let (guid, port) = link.0;
            let node = fabric.find(guid);
            node.is_some_and(|node| fabric.peer(PortRef { node, port }).is_some())
        };
        if nodes.iter().any(has_node) || links.iter().any(has_link) {
            self.want_sweep_unless_due(SweepReason::Forgotten);
        }
    }

    /// Returns the manager's part of the facts that its health depends on.
    pub(super) fn facts(&self) -> Facts {
        let in_force = &self.in_force;
        let generation = in_force.plan().map(|plan| plan.generation.0);
        let refused = match in_force.no_plan() {
            Some(NoPlan::Refused { why, .. }) => Some(Arc::new(Refused {
                why: why.to_string(),
                in_force: generation,
            })),
            Some(NoPlan::MKey) | None => None,
        };
        let verdict = in_force.verdict().filter(|_| in_force.plan().is_some());
        let switches = in_force.found().map(|fabric| {
            let mut switches = fabric.switches().iter().map(|&node| fabric.node(node));
            switches.any(|switch| switch.switch_settings.linear_top > 0)
        });
        Facts {
            duty: match self.config.mode {
                Mode::Manage => Duty::Manage,
                Mode::DryRun => Duty::DryRun,
                Mode::Watch => Duty::Watch,
            },
            role: match self.role() {
                Role::Discovering => Duties::Discovering,
                Role::Standby => Duties::Standby,
                Role::Master => Duties::Master,
                Role::NotActive => Duties::NotActive,
            },
            master: self.election().master(),
            has_swept: in_force.sweeps() > 0,
            is_planned: in_force.plan().is_some(),
            is_managed: switches == Some(true),
            own_port_down: self.presence.own_port_down().cloned(),
            absent: Arc::clone(self.presence.absent()),
            refused,
            m_key_foreign: in_force.locked().map(|ports| ForeignKey {
                ports: Arc::clone(ports),
                is_anothers: matches!(in_force.no_plan(), Some(NoPlan::MKey)),
            }),
            m_key_former: self.keys.left().cloned(),
            sets_failed: in_force.failed(),
            rolled_back: self.changes.rolled_back().cloned(),
            apart: verdict.and_then(|verdict| apart(verdict)),
            deviations: Arc::default(),
            peers: Arc::clone(self.election().peers()),
            is_sm_cleared: self.election().is_sm_cleared(),
            alarms: Arc::default(),
            not_stored: Vec::new(),
            history_stopped: None,
            out_of_service: self.places_out_of_service(),
        }
    }
}

/// Returns, in words, the hosts and nodes that do not reach each other by a plan; `None` if the judge finds it good.
fn apart(verdict: &Verdict) -> Option<Arc<str>> {
    if verdict.is_good() {
        return None;
    }
    let (reached, pairs) = (verdict.figures.host_pairs_reached, verdict.figures.host_pairs);
    let words = match reached == pairs {
        true => "hosts are isolated or out of reach of directed routes".to_owned(),
        false => format!(
            "{} of {pairs} host pairs do not reach each other",
            pairs.saturating_sub(reached)
        ),
    };
    Some(words.into())
}
