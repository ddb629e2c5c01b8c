//! Checks that no port becomes ACTIVE before its switch has its tables.

use selvedge_chassis::{Chassis, PortIdx};
use selvedge_fabric::NodeIdx;
use selvedge_sim::Time;
use selvedge_types::{Idx, IdxVec, PortState};

use super::check::{Check, Ctx};
use super::ledger::Ledger;
use super::masters::only_master;
use super::names::{node_name, port_name};
use super::seen::{Scene, Seen};
use crate::Violation;
use crate::manager::AcceptedPlan;
use crate::subnet::ports_of;

/// The ports that were ACTIVE at the last check.
#[derive(Debug)]
pub(super) struct Activation(IdxVec<PortIdx, bool>);

impl Check for Activation {
    fn see(&mut self, ctx: &Ctx<'_>, seen: &Seen<'_>, _found: &mut Ledger) -> Result<(), Violation> {
        let chassis = ctx.chassis();
        match *seen {
            Seen::Event {
                changes,
                several_masters,
                ..
            } => {
                let newly = self.newly_active(chassis, changes.links.iter().copied());
                tables_first(ctx, several_masters, &newly)
            }
            Seen::ForeignSet => {
                drop(self.newly_active(chassis, chassis.fabric().nodes().indices()));
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

impl Activation {
    /// Returns the state in which no port is ACTIVE.
    pub fn new(chassis: &Chassis) -> Self {
        Self(IdxVec::filled(false, chassis.port_count()))
    }

    fn newly_active(&mut self, chassis: &Chassis, nodes: impl Iterator<Item = NodeIdx>) -> Vec<PortIdx> {
        let mut newly = Vec::new();
        for port in nodes.flat_map(|node| ports_of(chassis, node)) {
            let wire = chassis.wire(port);
            let active = wire.state() == PortState::Active && chassis.is_powered(wire.node());
            if active && !self.0[port] {
                newly.push(port);
            }
            self.0[port] = active;
        }
        newly
    }
}

/// Fails if a port becomes ACTIVE before its switch holds every block of the plan. This is checked only as long as no
/// link between switches carries packets. In later plans a port may become ACTIVE earlier, because the judge proves
/// their steps as if such ports were ACTIVE from the start.
fn tables_first(scene: &Scene<'_>, several: Option<Time>, newly_active: &[PortIdx]) -> Result<(), Violation> {
    let chassis = scene.chassis();
    for &port in newly_active {
        let wire = chassis.wire(port);
        let sides = [Some(wire.node()), wire.peer().map(|peer| chassis.wire(peer).node())];
        let accepted = only_master(scene, port).and_then(|life| life.plans.accepted());
        let is_alone = |plan: &&AcceptedPlan| several.is_none_or(|at| at < plan.at);
        let Some(accepted) = accepted.filter(|plan| plan.is_first).filter(is_alone) else {
            continue;
        };
        let switches = sides.into_iter().flatten();
        for node in switches.filter(|&node| wire.num().get() != 0 && chassis.is_switch(node)) {
            if let Some(block) = first_unlike(chassis, accepted, node) {
                let (port, switch) = (port_name(chassis, port), node_name(chassis, node));
                return Err(Violation::ActiveTooEarly { port, switch, block });
            }
        }
    }
    Ok(())
}

/// Returns the first block of a switch that is not as planned.
fn first_unlike(chassis: &Chassis, accepted: &AcceptedPlan, node: NodeIdx) -> Option<usize> {
    // The switch lost its tables after the sweep had read them: the trap about its links is on its way.
    if accepted.boots.get(node.to_usize()) != Some(&chassis.boots(node)) {
        return None;
    }
    let known = accepted.fabric.find(chassis.node_guid(node));
    let planned = known.and_then(|node| accepted.fabric.switch_index(node))?;
    let held = chassis.switch(node)?;
    let tables = &accepted.plan.tables;
    (0..tables.blocks()).find(|&block| held.linear_block(block) != tables.block(planned, block))
}
