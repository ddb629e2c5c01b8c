//! The state of agents after each step of a preview: every Set is acknowledged, and holds.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use selvedge_fabric::{Fabric, FabricBuilder, LinkState, NodeIdx, NodeKey, PortRef, SwitchSettings};
use selvedge_plan::aliases::AliasChange;
use selvedge_plan::multicast::MulticastChange;
use selvedge_plan::partition::with_pkey_block;
use selvedge_plan::{ChangeSet, Installed, LinkOrder, Op, OutOfService, Plan, UnderWay};
use selvedge_types::{Guid, IdxVec, LidRange, PhysState, PortState};
use selvedge_verify::phases::is_live;

use super::{Preview, Step, StepSets};
use crate::aliases::AliasBook;
use crate::basis::{Basis, Outcome};
use crate::copies::TakenApart;
use crate::inventory::Inventory;
use crate::multicast::{MulticastPlan, TreesInForce};
use crate::withdrawn::{find_port, port_id};

/// The state of all agents.
#[derive(Debug)]
pub(super) struct Agents {
    /// The fabric as it is now.
    pub(super) inventory: Arc<Inventory>,
    /// LFT blocks and lane tables.
    installed: Arc<Installed>,
    /// Packets that may be in flight after entries forwarded them which the last plan has replaced.
    pub(super) under_way: Option<Arc<UnderWay>>,
    /// Switches that set PortStateChange: a link went down at a port that was not set itself. A sweep finds that.
    /// Source: IBA vol 1 §14.2.5.4 (changes that a SubnSet made do not count).
    state_changed: BTreeSet<Guid>,
    /// Multicast groups and trees.
    pub(super) trees: TreesInForce,
    /// Alias GUIDs.
    pub(super) aliases: AliasBook,
    /// The steps so far.
    pub(super) steps: Vec<Step>,
}

impl Agents {
    pub(super) fn of(preview: &Preview) -> Self {
        let basis = &preview.plan.basis;
        Self {
            inventory: Arc::clone(&basis.inventory),
            installed: Arc::clone(&basis.installed),
            under_way: None,
            state_changed: BTreeSet::new(),
            trees: preview.trees.clone(),
            aliases: preview.aliases.clone(),
            steps: Vec::new(),
        }
    }

    /// Returns the basis of the next task; `before` has the policy and the judge.
    pub(super) fn basis(&self, before: &Basis) -> Basis {
        Basis {
            inventory: Arc::clone(&self.inventory),
            installed: Arc::clone(&self.installed),
            under_way: self.under_way.clone(),
            copies: Arc::new(self.trees.copies.clone()),
            ..before.clone()
        }
    }

    fn step(&mut self, sets: StepSets) {
        self.steps.push(Step {
            inventory: Arc::clone(&self.inventory),
            installed: Arc::clone(&self.installed),
            sets,
        });
    }

    /// Applies a plan or a step of rebalancing: all its Sets are acknowledged.
    pub(super) fn apply(&mut self, outcome: &Arc<Outcome>) {
        let changes = outcome.changes.value();
        if !changes.is_empty() {
            self.step(StepSets::Plan(Arc::clone(outcome)));
        }
        let fabric = Arc::clone(&self.inventory.fabric);
        self.under_way = under_way(&fabric, &self.installed, changes).map(Arc::new);
        let installed = Arc::make_mut(&mut self.installed);
        (installed.under_way, installed.levels) = (None, None);
        for op in changes.phases.iter().flat_map(|phase| &phase.ops) {
            hold_table(installed, &fabric, op);
        }
        let inventory = Arc::make_mut(&mut self.inventory);
        for op in changes.phases.iter().flat_map(|phase| &phase.ops) {
            hold_settings(inventory, op);
            if let Op::Link { port, .. } = op {
                let far = fabric.peer(*port).map(|far| fabric.node(far.node));
                self.state_changed.extend(far.map(|far| far.guid));
            }
        }
        self.aliases.plan_in_force(&fabric, changes);
    }

    /// Takes multicast groups apart: each switch then copies only to its own members.
    pub(super) fn take_apart(&mut self, first: Option<&TakenApart>) {
        if let Some(first) = first {
            self.copy(first.change.value());
        }
    }

    /// Writes planned multicast trees.
    pub(super) fn take_trees(&mut self, planned: MulticastPlan) {
        self.copy(planned.change.value());
        (self.trees.roots, self.trees.apart) = (planned.roots, planned.apart);
        self.trees.copies.turns = planned.turns.1;
    }

    fn copy(&mut self, change: &MulticastChange) {
        if change.sets() == 0 {
            return;
        }
        self.step(StepSets::Multicast(change.clone(), self.trees.clone()));
        let fabric = &self.inventory.fabric;
        let held = Arc::make_mut(&mut self.trees.copies.held);
        for set in change.phases.iter().flatten() {
            let blocks = held.entry(fabric.switch(set.switch).guid).or_default();
            blocks.insert((set.block, set.position), set.data);
        }
    }

    /// Writes a change of alias GUIDs.
    pub(super) fn take_aliases(&mut self, change: &AliasChange) {
        self.step(StepSets::Aliases(change.clone()));
        let fabric = &self.inventory.fabric;
        for set in change.phases.iter().flatten() {
            if let Some(port) = fabric.port(set.port) {
                self.aliases.learn((port.guid, set.block), set.guids);
            }
        }
    }

    /// Returns the LIDs of ports: those of a plan, and the known ones of absent ports.
    pub(super) fn lids_with(&self, known: &BTreeMap<Guid, LidRange>, plan: &Plan) -> BTreeMap<Guid, LidRange> {
        let fabric = &self.inventory.fabric;
        let of_plan = plan.lids.iter();
        let of_plan = of_plan.filter_map(|(at, range)| Some((fabric.port(at)?.guid, range)));
        let mut lids = known.clone();
        lids.extend(of_plan);
        lids
    }

    /// Changes the inventory as a heavy sweep would: nodes out of reach are gone, and links that are out of service and
    /// carry no packets are left out.
    pub(super) fn sweep(&mut self, list: &OutOfService) {
        let before = Arc::clone(&self.inventory);
        let mut found = before.as_found();
        self.under_way = None;
        if let Some(less) = within_reach(&found) {
            self.installed = Arc::new(carried(&self.installed, &found.fabric, &less.fabric));
            found = less;
        }
        for guid in std::mem::take(&mut self.state_changed) {
            let node = found
                .fabric
                .find(guid)
                .filter(|&node| found.fabric.node(node).is_switch());
            if let Some(node) = node {
                let settings = SwitchSettings {
                    port_state_change: true,
                    ..found.fabric.node(node).switch_settings
                };
                Arc::make_mut(&mut found.fabric).set_switch(node, settings);
            }
        }
        let copied_to = self.trees.copies.ports(&found.fabric);
        let is_copied_to =
            |at: PortRef| copied_to.contains(&at) || found.fabric.peer(at).is_some_and(|far| copied_to.contains(&far));
        let idle = before.withdrawn.idle.iter();
        let idle = idle.filter_map(|&at| find_port(&found.fabric, port_id(&before.fabric, at)));
        let free: BTreeSet<PortRef> = idle.filter(|&at| !is_copied_to(at)).collect();
        found.withdraw(list, |at| free.contains(&at));
        self.inventory = Arc::new(found);
    }
}

/// Returns the entries that a change replaces, phase by phase, since the last wait for packets in flight.
fn under_way(fabric: &Fabric, installed: &Installed, changes: &ChangeSet) -> Option<UnderWay> {
    if !is_live(fabric) {
        return None;
    }
    let mut now = installed.clone();
    let (mut before, mut phases) = (BTreeMap::new(), Vec::new());
    for phase in &changes.phases {
        if phase.wait_before_ns > 0 {
            before.clear();
            phases.clear();
        }
        let mut written = Vec::new();
        for op in &phase.ops {
            let Op::Lft { node, block, data } = op else { continue };
            let Some(switch) = fabric.switch_index(*node) else {
                continue;
            };
            if let Some(held) = now.block(switch, usize::from(*block)) {
                before.entry((switch, *block)).or_insert(*held);
            }
            now.learn(switch, usize::from(*block), *data);
            written.push((switch, *block, *data));
        }
        phases.extend((!written.is_empty()).then_some(written));
    }
    (!phases.is_empty()).then(|| UnderWay {
        before: before
            .into_iter()
            .map(|((switch, block), data)| (switch, block, data))
            .collect(),
        phases,
        ..UnderWay::default()
    })
}

/// Records the table that a Set writes.
fn hold_table(installed: &mut Installed, fabric: &Fabric, op: &Op) {
    let node = fabric.node(op.node());
    match op {
        Op::Lft { node, block, data } => {
            if let Some(switch) = fabric.switch_index(*node) {
                installed.learn(switch, usize::from(*block), *data);
            }
        }
        Op::SlToVl { port, rows, lanes } => {
            let held = Arc::make_mut(&mut installed.lanes);
            held.learn_rows(node.guid, port.port, *rows, node.port_count(), *lanes);
        }
        Op::Arbitration { port, block, turns } => {
            Arc::make_mut(&mut installed.lanes).learn_turns(node.guid, port.port, *block, *turns);
        }
        Op::Switch { .. } | Op::PKeys { .. } | Op::Port { .. } | Op::Link { .. } => {}
    }
}

/// Records the settings that a Set writes, and what becomes of the link of its port.
fn hold_settings(inventory: &mut Inventory, op: &Op) {
    match op {
        Op::Switch { node, settings } => Arc::make_mut(&mut inventory.fabric).set_switch(*node, *settings),
        Op::PKeys { port, block, keys } => {
            let held = inventory.fabric.port(*port).map(|seen| &seen.pkeys[..]);
            let now = with_pkey_block(held.unwrap_or_default(), *block, keys);
            Arc::make_mut(&mut inventory.fabric).set_pkeys(*port, now);
        }
        Op::Port { port, settings, state } => {
            let link = inventory.fabric.port(*port).map(|seen| seen.link).unwrap_or_default();
            let state = state.unwrap_or(link.state);
            Arc::make_mut(&mut inventory.fabric).set_port(*port, LinkState { state, ..link }, *settings);
        }
        Op::Link { port, order } => {
            let (state, near, far) = match order {
                LinkOrder::Down => (PortState::Init, PhysState::LinkUp, PhysState::LinkUp),
                LinkOrder::Disable => (PortState::Down, PhysState::Disabled, PhysState::Polling),
                LinkOrder::Poll => (PortState::Down, PhysState::Polling, PhysState::Polling),
            };
            let peer = inventory.fabric.peer(*port);
            hold_link(inventory, *port, state, near);
            if let Some(peer) = peer {
                hold_link(inventory, peer, state, far);
            }
        }
        Op::Lft { .. } | Op::SlToVl { .. } | Op::Arbitration { .. } => {}
    }
}

/// Records the state of a link at one end, in the fabric and in what the agent answered.
fn hold_link(inventory: &mut Inventory, at: PortRef, state: PortState, phys: PhysState) {
    let agents = Arc::make_mut(&mut inventory.agents);
    let info = agents
        .get_mut(at.node)
        .and_then(|agent| agent.ports.get_mut(at.port.index())?.as_mut());
    if let Some(info) = info {
        (info.state, info.phys_state) = (Some(state), Some(phys));
    }
    if let Some((link, settings)) = inventory.fabric.port(at).map(|port| (port.link, port.settings)) {
        Arc::make_mut(&mut inventory.fabric).set_port(at, LinkState { state, phys, ..link }, settings);
    }
}

/// Returns the inventory without the nodes that a sweep would not reach, and without links that are disabled. `None` if
/// no port is disabled.
fn within_reach(found: &Inventory) -> Option<Inventory> {
    let fabric = &found.fabric;
    let is_off = |at: PortRef| {
        let port = fabric.port(at);
        port.is_some_and(|port| port.link.phys == PhysState::Disabled)
    };
    let is_cut = |at: PortRef| is_off(at) || fabric.peer(at).is_some_and(is_off);
    if !fabric.links().any(|link| is_cut(link.a)) {
        return None;
    }
    let mut seen = IdxVec::filled(false, fabric.nodes().len());
    seen[found.local.node] = true;
    let mut todo = VecDeque::from([found.local.node]);
    while let Some(node) = todo.pop_front() {
        // A channel adapter forwards no SMPs of others.
        let is_way = fabric.node(node).is_switch() || node == found.local.node;
        for (port, _) in fabric.node(node).external_ports().filter(|_| is_way) {
            let at = PortRef { node, port };
            let far = fabric.peer(at).filter(|_| !is_cut(at));
            if let Some(far) = far.filter(|far| !std::mem::replace(&mut seen[far.node], true)) {
                todo.push_back(far.node);
            }
        }
    }
    let mut builder = FabricBuilder::new();
    let keys: IdxVec<NodeIdx, Option<NodeKey>> = fabric
        .nodes()
        .iter_enumerated()
        .map(|(node, of)| seen[node].then(|| builder.add(of.clone())))
        .collect();
    for link in fabric.links().filter(|link| !is_cut(link.a)) {
        if let (Some(a), Some(b)) = (keys[link.a.node], keys[link.b.node]) {
            builder.link((a, link.a.port), (b, link.b.port)).ok()?;
        }
    }
    let less = builder.finish().ok()?;
    let local = less.find(fabric.node(found.local.node).guid)?;
    let agents = found.agents.iter_enumerated();
    Some(Inventory {
        // Both are in the order of GUIDs.
        agents: Arc::new(
            agents
                .filter(|(node, _)| seen[*node])
                .map(|(_, agent)| agent.clone())
                .collect(),
        ),
        local: PortRef {
            node: local,
            port: found.local.port,
        },
        withdrawn: Arc::default(),
        fabric: Arc::new(less),
    })
}

/// Returns the known tables of the switches in the fabric `now`, which has some of the switches of the fabric `before`.
/// `installed` are the tables of the latter.
fn carried(installed: &Installed, before: &Fabric, now: &Fabric) -> Installed {
    let mut carried = Installed::unknown(now.switches().len());
    for switch in now.switches().indices() {
        let former = before.find(now.switch(switch).guid);
        let former = former.and_then(|node| before.switch_index(node));
        if let Some(blocks) = former.and_then(|former| installed.lfts.get(former)) {
            carried.lfts[switch].clone_from(blocks);
        }
    }
    carried.lanes = Arc::clone(&installed.lanes);
    Arc::make_mut(&mut carried.lanes).retain(|guid| now.find(guid).is_some());
    carried
}
