//! Remembers the nodes and links that sweeps have found. Missing ones stay listed until they return, or until an
//! operator removes them from the list. The list survives a restart.
//!
//! A heavy sweep or a repair shows which nodes and links are present ([`In::Swept`], [`In::Repaired`]). Known ones that
//! are absent count as missing from then on. The result of a repair is compared only when the manager is idle
//! ([`In::Idle`]): the requests that check the repair must not wait for the comparison. A node can be missing because
//! no link leads to it, because its agent does not answer, or because it is behind a node that does not answer;
//! [`absent`] finds the reason.
//!
//! The list is for operators: no request of the manager depends on it.

use std::collections::BTreeSet;
use std::sync::Arc;

use selvedge_health::{Absent, Known, LinkKey, Since};
use selvedge_planner::Inventory;
use selvedge_sim::Time;
use selvedge_types::Guid;

mod absent;
mod seen;

use seen::Reach;

/// The known nodes and links, and those of them that are missing.
#[derive(Debug, Default)]
pub struct Presence {
    /// All nodes and links that were found.
    known: Arc<Known>,
    /// Nodes and links that are gone, and nodes that do not answer.
    absent: Arc<Absent>,
    /// True if `known` is of an earlier run, and no sweep of this run has ended.
    is_of_earlier_run: bool,
    /// The reason why the manager's own port cannot be used.
    own_port_down: Option<Arc<str>>,
    /// The inventory that the last repair has left, and the time, until it is compared.
    left: Option<(Time, Arc<Inventory>)>,
}

/// The context of an input.
#[derive(Clone, Copy, Debug)]
pub struct Ctx {
    /// The time of the input.
    pub now: Time,
}

/// An input: an event that shows or changes the known nodes and links.
#[derive(Debug)]
pub enum In<'a> {
    /// A heavy sweep has found this inventory: all nodes in it are present.
    Swept(&'a Inventory),
    /// A repair has left this inventory: a node is there if links that are up lead to it.
    Repaired(Arc<Inventory>),
    /// The manager is idle.
    Idle,
    /// The local port cannot be used, for this reason.
    CutOff(String),
    /// The operator no longer expects these nodes and links. Those that are present stay known.
    Forget(BTreeSet<Guid>, BTreeSet<LinkKey>),
}

/// An effect: work for the caller.
#[derive(Debug)]
pub enum Effect {
    /// Store this list of known nodes and links.
    Remember(Arc<Known>),
}

impl Presence {
    /// Begins with the list that an earlier run has left.
    pub fn new(mut known: Arc<Known>) -> Self {
        if known.links.keys().any(|link| !known.has_both_ends(link)) {
            let whole = Arc::make_mut(&mut known);
            let listed = whole.clone();
            whole.links.retain(|link, _| listed.has_both_ends(link));
        }
        let absent = Arc::new(absent::of_earlier_run(&known));
        let is_of_earlier_run = !known.nodes.is_empty();
        Self {
            known,
            absent,
            is_of_earlier_run,
            own_port_down: None,
            left: None,
        }
    }

    /// Handles one input. Appends its effects.
    pub fn handle(&mut self, ctx: &Ctx, input: In<'_>, effects: &mut Vec<Effect>) {
        match input {
            In::Swept(inventory) => {
                self.left = None;
                self.found(ctx.now, inventory, &Reach::all(), effects);
            }
            In::Repaired(inventory) => self.left = Some((ctx.now, inventory)),
            In::Idle => {
                if let Some((at, inventory)) = self.left.take() {
                    self.found(at, &inventory, &Reach::of(&inventory), effects);
                }
            }
            In::CutOff(why) => {
                self.left = None;
                self.own_port_down = Some(why.into());
            }
            In::Forget(nodes, links) => self.forget(&nodes, &links, effects),
        }
    }

    /// Returns the nodes and links that are gone, and the nodes that do not answer.
    pub const fn absent(&self) -> &Arc<Absent> {
        &self.absent
    }

    /// Returns the reason why the manager's own port cannot be used; `None` if it can.
    pub const fn own_port_down(&self) -> Option<&Arc<str>> {
        self.own_port_down.as_ref()
    }

    /// Returns true if the inventory that a repair has left must still be compared.
    pub const fn is_behind(&self) -> bool {
        self.left.is_some()
    }

    fn found(&mut self, now: Time, inventory: &Inventory, reach: &Reach, effects: &mut Vec<Effect>) {
        self.own_port_down = None;
        if std::mem::take(&mut self.is_of_earlier_run) && seen::is_other_fabric(&self.known, inventory) {
            self.known = Arc::default();
        }
        let changes = seen::changes(&self.known, &inventory.fabric, reach);
        if !changes.is_empty() {
            seen::apply(Arc::make_mut(&mut self.known), changes, Since::Run(now));
            effects.push(Effect::Remember(Arc::clone(&self.known)));
        }
        let absent = absent::of(&self.known, inventory);
        if *self.absent != absent {
            self.absent = Arc::new(absent);
        }
    }

    /// Removes nodes and links that are gone from the list. Links of removed nodes are removed too.
    fn forget(&mut self, nodes: &BTreeSet<Guid>, links: &BTreeSet<LinkKey>, effects: &mut Vec<Effect>) {
        let known = Arc::make_mut(&mut self.known);
        known
            .nodes
            .retain(|guid, node| node.gone.is_none() || !nodes.contains(guid));
        let nodes = &known.nodes;
        let is_whole = |&((a, _), (b, _)): &LinkKey| nodes.contains_key(&a) && nodes.contains_key(&b);
        known
            .links
            .retain(|link, gone| gone.is_none() || is_whole(link) && !links.contains(link));
        let absent = Arc::make_mut(&mut self.absent);
        absent.nodes.retain(|absent| nodes.contains_key(&absent.node.guid));
        absent.links.retain(|absent| known.links.contains_key(&absent.key()));
        effects.push(Effect::Remember(Arc::clone(&self.known)));
    }
}

#[cfg(test)]
mod tests;
