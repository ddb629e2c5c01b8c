//! The operator's changes: places out of service, policies that are refused, other M_Keys, two changes at once.

use std::collections::BTreeSet;
use std::sync::Arc;

use selvedge_fabric::{Fabric, PortRef};
use selvedge_plan::out_of_service::{Notice, Place, PortId, Service};
use selvedge_plan::{EngineName, OutOfService};
use selvedge_planner::Inventory;
use selvedge_planner::out_of_service::{ends_of, port_id};
use selvedge_types::{Guid, PhysState};

use super::action::{Action, Setting};
use super::event::{Happening, Kind};
use super::world::World;
use crate::RehearsalError;

/// Largest number of places that are out of service at one time. The fabrics of schedules are small.
const PLACES: usize = 3;
/// Largest number of places that the operator tries to take out of service, until the manager accepts one.
const TRIES: usize = 6;
/// The M_Keys from which a change of the M_Key draws one; 0: none.
const M_KEYS: [u64; 4] = [0, 0xfeed, 0xca11, 0xd00d];
/// Engines that refuse some fabrics or make plans that the judge refuses for some, and one that does not exist.
const HOPELESS: [&str; 4] = ["none", "minhop", "fat-tree", "none"];
/// The single changes, two of which are made at once.
const SINGLE: [Kind; 7] = [
    Kind::Drain,
    Kind::Isolate,
    Kind::Enable,
    Kind::Refused,
    Kind::MKey,
    Kind::Lmc,
    Kind::Settings,
];

impl World<'_> {
    /// Lets the operator make a change. Returns false if the manager would refuse it at once.
    pub(super) fn change(&mut self, what: &Happening) -> Result<bool, RehearsalError> {
        match what.kind {
            Kind::Drain => self.take_out(Service::Drain, what.pick),
            Kind::Isolate => self.take_out(Service::Isolate, what.pick),
            Kind::Enable => self.put_back(what.pick),
            Kind::Refused => self.load_hopeless(what).map(|()| true),
            Kind::MKey => self.load_another_key(what.pick).map(|()| true),
            _ => self.twice(what),
        }
    }

    /// Makes two changes, the second directly after the first.
    fn twice(&mut self, what: &Happening) -> Result<bool, RehearsalError> {
        let kind = |number: u32| SINGLE[number as usize % SINGLE.len()];
        let (first, second) = (kind(what.pick), kind(what.other));
        let number = |number: u32| number / 7;
        let one = |kind, pick| Happening { kind, pick, ..*what };
        let has_first = self.happen(&one(first, number(what.pick)))?;
        let has_second = self.happen(&one(second, number(what.other)))?;
        Ok(has_first && has_second)
    }

    /// Drains or isolates the first place that the master does not refuse. The master refuses a place that is its own
    /// connection, or without which a switch or host would be cut off.
    fn take_out(&mut self, service: Service, pick: u32) -> Result<bool, RehearsalError> {
        let view = self.rehearsal.view(self.managers.id(self.master()));
        let Some(inventory) = view.and_then(|view| view.inventory) else {
            return Ok(false);
        };
        let before = Arc::clone(&self.operator.policy.out_of_service);
        let out = before.iter().filter(|(_, notice)| notice.service != Service::Enable);
        if out.count() >= PLACES {
            return Ok(false);
        }
        let places = places(&inventory, self.ground.fabric);
        let tried = (0..TRIES.min(places.len())).map(|at| places[(pick as usize + at) % places.len()]);
        for place in tried {
            let has = before.get(place).is_some_and(|notice| notice.service == service);
            if has {
                continue;
            }
            let since_ms = self.rehearsal.now().0 / 1_000_000;
            let mut ends = ids(&inventory.fabric, place);
            // The operator knows of cables that are unplugged now.
            ends.extend(ids(self.ground.fabric, place));
            let list = with(&before, place, (service, since_ms), ends);
            let effects = inventory.effects(&list, &[place]);
            if effects.behind.is_empty() && effects.cut.is_empty() {
                self.act(Action::Policy(Setting::OutOfService(Arc::new(list))))?;
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Puts a place back in service. Its ports stay listed, so that they are enabled as soon as they can be reached.
    fn put_back(&mut self, pick: u32) -> Result<bool, RehearsalError> {
        let mut list = OutOfService::clone(&self.operator.policy.out_of_service);
        let out = list.iter().filter(|(_, notice)| notice.service != Service::Enable);
        let out: Vec<Place> = out.map(|(place, _)| *place).collect();
        if out.is_empty() {
            return Ok(false);
        }
        let present = self.rehearsal.emulator().chassis().observe();
        enable(&mut list, out[pick as usize % out.len()], &present);
        self.act(Action::Policy(Setting::OutOfService(Arc::new(list))))?;
        Ok(true)
    }

    /// Puts all places back in service, at the end of a schedule with changes.
    pub(super) fn put_all_back(&mut self) -> Result<(), RehearsalError> {
        let mut list = OutOfService::clone(&self.operator.policy.out_of_service);
        if list.is_empty() {
            return Ok(());
        }
        let places: Vec<Place> = list.iter().map(|(place, _)| *place).collect();
        let present = self.rehearsal.emulator().chassis().observe();
        places.into_iter().for_each(|place| enable(&mut list, place, &present));
        self.act(Action::Policy(Setting::OutOfService(Arc::new(list))))?;
        self.all_well("when all places were back in service")
    }

    /// Loads a policy with an engine that may refuse, and no other. The operator corrects it some time later.
    fn load_hopeless(&mut self, what: &Happening) -> Result<(), RehearsalError> {
        let engine = HOPELESS[what.pick as usize % HOPELESS.len()];
        let is_correction = |action: &Action| matches!(action, Action::Policy(Setting::Engines(_)));
        if !self.undo.iter().any(|(_, action)| is_correction(action)) {
            let good = Action::Policy(Setting::Engines(self.operator.policy.engines.clone()));
            self.undo.push((self.rehearsal.now() + what.span, good));
        }
        let hopeless = vec![EngineName(engine.to_owned())];
        self.act(Action::Policy(Setting::Engines(hopeless)))
    }

    fn load_another_key(&mut self, pick: u32) -> Result<(), RehearsalError> {
        let present = self.operator.policy.m_key;
        let others: Vec<u64> = M_KEYS.into_iter().filter(|key| *key != present).collect();
        self.act(Action::Policy(Setting::MKey(others[pick as usize % others.len()])))
    }
}

/// Returns the ends of a place's links that are to be disabled.
fn ids(fabric: &Fabric, place: Place) -> BTreeSet<PortId> {
    let ends = ends_of(fabric, place).into_iter();
    ends.map(|(near, _)| port_id(fabric, near)).collect()
}

/// Returns the links between switches, and the switches that were built without hosts.
fn places(inventory: &Inventory, built: &Fabric) -> Vec<Place> {
    let fabric = &inventory.fabric;
    let links = fabric.links().map(|link| [link.a, link.b]);
    let between = links.filter(|ends| ends.iter().all(|end| fabric.switch_index(end.node).is_some()));
    let links = between.map(|[a, b]| Place::link(port_id(fabric, a), port_id(fabric, b)));
    let has_hosts = |guid: Guid| {
        let node = built.find(guid).map(|node| built.node(node));
        let mut peers = node
            .into_iter()
            .flat_map(|node| node.external_ports())
            .filter_map(|(_, port)| port.peer);
        peers.any(|far| built.switch_index(far.node).is_none())
    };
    let switches = fabric.switches().iter().map(|&node| fabric.node(node).guid);
    let switches = switches.filter(|guid| !has_hosts(*guid));
    links.chain(switches.map(Place::Switch)).collect()
}

/// Returns a list that includes this place.
fn with(
    before: &OutOfService,
    place: Place,
    (service, since_ms): (Service, u64),
    ends: BTreeSet<PortId>,
) -> OutOfService {
    let mut list = before.clone();
    let mut disabled = before
        .get(place)
        .map(|notice| notice.disabled.clone())
        .unwrap_or_default();
    if service == Service::Isolate {
        disabled.extend(ends);
    }
    let notice = Notice {
        service,
        since_ms,
        disabled,
        reason: String::new(),
    };
    list.insert(place, notice);
    list
}

/// Lists a place as back in service, or removes it from the list if none of its ports must be enabled. A cable that was
/// plugged in after the place was isolated ends at ports that the list does not name; if no other place is isolated,
/// the operator has all disabled ports enabled.
fn enable(list: &mut OutOfService, place: Place, present: &Fabric) {
    let Some(mut notice) = list.remove(place) else { return };
    let is_isolated = |notice: &Notice| notice.service == Service::Isolate;
    if !notice.disabled.is_empty() && !list.iter().any(|(_, notice)| is_isolated(notice)) {
        let nodes = present.nodes().iter_enumerated();
        let ports = nodes.flat_map(|(node, n)| n.external_ports().map(move |(port, p)| (PortRef { node, port }, p)));
        let disabled = ports.filter(|(_, port)| port.link.phys == PhysState::Disabled);
        notice.disabled.extend(disabled.map(|(at, _)| port_id(present, at)));
    }
    if !notice.disabled.is_empty() {
        notice.service = Service::Enable;
        list.insert(place, notice);
    }
}
