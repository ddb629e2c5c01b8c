//! The list of places out of service: changed by operators, stored, and part of each policy that the manager gets.
//!
//! A change is planned and judged before anything is stored or sent ([`Manager::propose_service`]). Then the list is
//! stored, and the manager gets the policy with it. The next process of the manager reads the list when it starts.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{SystemTime, UNIX_EPOCH};

use selvedge_api::{
    self as api, Error, ErrorKind, OutOfServiceChange, OutOfServiceFigures, OutOfServicePlace, OutOfServiceRequest,
    WouldSet,
};
use selvedge_fabric::{Fabric, NodeIdx, PortRef};
use selvedge_health::Duty;
use selvedge_plan::OutOfService;
use selvedge_plan::out_of_service::{Notice, PLACES_MAX, Place, PortId, REASON_MAX, Service};
use selvedge_planner::Inventory;
use selvedge_planner::out_of_service::{ends_of, find_port, port_id};
use selvedge_planner::preview::Previewed;
use selvedge_planner::service_preview::{Effects, compare};
use selvedge_sim::Par;
use selvedge_sm::{ChangeState, Role, View};
use selvedge_store::{StateDir, StoreError};
use selvedge_types::PhysState;

use crate::changes;
use crate::place_names::PlaceNames;
use crate::service::{Manager, not_yet};
use crate::worker::Note;

/// The list of places out of service, and its file.
pub(crate) struct Roster {
    list: Mutex<Arc<OutOfService>>,
    /// Held during a command: two at a time could each overlook what the other one takes out.
    command: Mutex<()>,
    /// Held while a list is stored and takes the place of another one.
    storing: Mutex<()>,
    folder: Option<Arc<StateDir>>,
}

impl Roster {
    /// Reads the list of an earlier process.
    pub(crate) fn read(folder: Option<Arc<StateDir>>) -> Result<Self, StoreError> {
        let list = folder.as_deref().map(StateDir::load_out_of_service).transpose()?;
        Ok(Self {
            list: Mutex::new(Arc::new(list.unwrap_or_default())),
            command: Mutex::default(),
            storing: Mutex::default(),
            folder,
        })
    }

    /// Returns the list.
    pub(crate) fn list(&self) -> Arc<OutOfService> {
        Arc::clone(&self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, Arc<OutOfService>> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores the list of the policy in force again, because a change of the list was rolled back.
    pub(crate) fn restore(&self, list: &Arc<OutOfService>) -> Result<(), StoreError> {
        self.change(|_| Some(OutOfService::clone(list)))
    }

    /// Stores what the manager notes: its list was `before`, and is `after`. If an operator has changed the list
    /// meanwhile, that change stays.
    pub(crate) fn note(&self, before: &OutOfService, after: &OutOfService) -> Result<(), StoreError> {
        self.change(|list| Some(list.with_change(before, after)))
    }

    /// Stores `list` in place of `before`; it is then the current list. Returns false, and does nothing, if the current
    /// list is not `before`.
    fn replace(&self, before: &OutOfService, list: &OutOfService) -> Result<bool, StoreError> {
        let mut is_before = false;
        self.change(|present| {
            is_before = present == before;
            is_before.then(|| list.clone())
        })?;
        Ok(is_before)
    }

    /// Stores the list that `change` makes of the current one; it is then the current list.
    fn change(&self, change: impl FnOnce(&OutOfService) -> Option<OutOfService>) -> Result<(), StoreError> {
        let _one = self.storing.lock().unwrap_or_else(PoisonError::into_inner);
        let present = self.list();
        let Some(list) = change(&present).filter(|list| *list != *present) else {
            return Ok(());
        };
        if let Some(folder) = &self.folder {
            folder.save_out_of_service(&list)?;
        }
        *self.lock() = Arc::new(list);
        Ok(())
    }
}

fn refused(why: String) -> Error {
    ErrorKind::NotOutOfService.error(why)
}

/// A change of the list before anything is done.
struct Proposal {
    service: Service,
    places: Vec<Place>,
    /// The list before the change.
    before: Arc<OutOfService>,
    list: Arc<OutOfService>,
    /// Ports that are disabled or enabled.
    ports: BTreeSet<PortId>,
}

impl Manager {
    /// Takes a place out of service, or puts it back; with `dry_run`, reports what that would do.
    pub(crate) fn propose_service(&self, request: &OutOfServiceRequest) -> Result<OutOfServiceChange, Error> {
        let _one = match self.roster.command.try_lock() {
            Ok(one) => one,
            Err(TryLockError::Poisoned(one)) => one.into_inner(),
            Err(TryLockError::WouldBlock) => {
                return Err(ErrorKind::Busy.error("another place is being taken out of service or put back"));
            }
        };
        let (fabric, view) = self.named();
        if view.facts.duty != Duty::Manage && !request.dry_run {
            return Err(ErrorKind::NotMaster.error("this process only watches the subnet"));
        }
        let (Some(fabric), Some(inventory)) = (fabric, view.inventory.clone()) else {
            return Err(not_yet("snapshot of the fabric"));
        };
        let names = PlaceNames {
            fabric: &fabric,
            absent: &view.facts.absent,
            names: &self.shared.names,
        };
        let proposal = self.proposal(request, &names, &inventory)?;
        // After the names: what is wrong with a request would still be wrong when the open change has ended.
        let mut changes = view.policy_changes.iter();
        let open = changes.find(|of| matches!(of.state, ChangeState::Proposed | ChangeState::Planned));
        if let Some(open) = open.filter(|_| !request.dry_run) {
            return Err(ErrorKind::Busy.error(format!(
                "change {} is being planned: try again when it has ended ('selvedge status changes')",
                open.serial
            )));
        }
        let effects = match proposal.service {
            Service::Enable => Effects::default(),
            Service::Drain | Service::Isolate => inventory.effects(&proposal.list, &proposal.places),
        };
        refuse_losses(request, &fabric, &effects)?;
        let (figures, sets) = self.planned(&view, &proposal, request.dry_run)?;
        if !request.dry_run {
            self.take_list(&proposal)?;
        }
        let port = |at: &PortRef| fabric.port_name(*at);
        Ok(OutOfServiceChange {
            service: proposal.service.name().to_owned(),
            places: proposal.places.iter().map(|&place| names.words(place)).collect(),
            started: !request.dry_run,
            hosts_cut: effects.cut.iter().map(port).collect(),
            hosts_alone: effects
                .alone
                .iter()
                .map(|&node| fabric.node(node).description.clone())
                .collect(),
            ports: proposal.ports.iter().map(|&id| names.port(id)).collect(),
            figures,
            sets,
        })
    }

    /// Plans with the changed list. Returns the figures of the first plan, and for a dry run the Sets of the change. A
    /// manager that is not master has no plan.
    fn planned(
        &self,
        view: &View,
        proposal: &Proposal,
        is_dry_run: bool,
    ) -> Result<(Option<OutOfServiceFigures>, Vec<WouldSet>), Error> {
        let (Role::Master, Some(plan)) = (view.role, &view.plan) else {
            return Ok((None, Vec::new()));
        };
        let (before, list) = (Arc::clone(&proposal.before), Arc::clone(&proposal.list));
        let preview = self.ask(|answer| Note::PreviewList { before, list, answer })?;
        let preview = preview.ok_or_else(|| not_yet("fabric to plan for"))?;
        let previewed = match is_dry_run {
            true => preview.run(Par::Sequential),
            false => Previewed {
                first: preview.first(Par::Sequential),
                ..Previewed::default()
            },
        };
        let before = view.verdict.as_ref();
        let before = before.map(|verdict| verdict.figures.load).unwrap_or_default();
        let compared = compare(plan, before, &previewed.first);
        let compared = compared.map_err(|why| refused(format!("no plan avoids it: {why}")))?;
        let figures = OutOfServiceFigures {
            engine: compared.engine,
            pairs_moved: compared.changed.pairs,
            entries: compared.changed.entries as u64,
            sets: compared.sets as u64,
            load_max_before: compared.before.max,
            load_max_after: compared.after.max,
        };
        Ok((Some(figures), changes::all_sets(&previewed, &self.shared.names)))
    }

    /// Stores a list, and has the manager propose the policy that the operator wants with it.
    fn take_list(&self, proposal: &Proposal) -> Result<(), Error> {
        let stored = self.roster.replace(&proposal.before, &proposal.list);
        match stored.map_err(|error| Error::of_text(&error.to_string()))? {
            true => self.note(Note::ProposeList {
                before: Arc::clone(&proposal.before),
                list: Arc::clone(&proposal.list),
            }),
            false => Err(ErrorKind::Busy.error("the list has just changed: try again")),
        }
    }

    fn proposal(
        &self,
        request: &OutOfServiceRequest,
        names: &PlaceNames<'_>,
        inventory: &Inventory,
    ) -> Result<Proposal, Error> {
        let bad = |why: String| ErrorKind::BadRequest.error(why);
        let service: Service = request.service.parse().map_err(|_| {
            bad(format!(
                "service is '{}', want drain, isolate or enable",
                request.service
            ))
        })?;
        let reason = request.reason.trim();
        if reason.len() > REASON_MAX || reason.chars().any(char::is_control) {
            return Err(bad(format!(
                "the reason is longer than {REASON_MAX} bytes, or has more than one line"
            )));
        }
        let before = self.roster.list();
        let mut list = OutOfService::clone(&before);
        let (places, ports) = match service {
            Service::Enable => enable(&request.place, names, &mut list)?,
            Service::Drain | Service::Isolate => {
                take_out((&request.place, service, reason), names, inventory, &mut list)?
            }
        };
        Ok(Proposal {
            service,
            places,
            before,
            list: Arc::new(list),
            ports,
        })
    }

    /// Returns the list for display.
    pub(crate) fn show_service(&self) -> Result<api::OutOfService, Error> {
        let (fabric, view) = self.named();
        let fabric = fabric.ok_or_else(|| not_yet("snapshot of the fabric"))?;
        let names = PlaceNames {
            fabric: &fabric,
            absent: &view.facts.absent,
            names: &self.shared.names,
        };
        let list = self.roster.list();
        let places: Vec<OutOfServicePlace> = list
            .iter()
            .map(|(&place, notice)| OutOfServicePlace {
                kind: match place {
                    Place::Switch(_) => "switch",
                    Place::Link(..) => "link",
                    Place::Port(_) => "port",
                }
                .to_owned(),
                name: names.words(place),
                id: place.to_string(),
                service: notice.service.name().to_owned(),
                state: state(&view, place, notice).to_owned(),
                since_ms: notice.since_ms,
                reason: notice.reason.clone(),
            })
            .collect();
        Ok(api::OutOfService {
            count: places.len() as u64,
            places,
        })
    }
}

/// Adds a place to the list. Returns the places with that name, and the ports that will be disabled.
fn take_out(
    (text, service, reason): (&str, Service, &str),
    names: &PlaceNames<'_>,
    inventory: &Inventory,
    list: &mut OutOfService,
) -> Result<(Vec<Place>, BTreeSet<PortId>), Error> {
    let fabric = &inventory.fabric;
    let places = names.find(text)?;
    let mut ports = BTreeSet::new();
    for &place in &places {
        refuse_own(place, inventory, names)?;
        if let Some(other) = covering(list, place, service, fabric) {
            return Err(refused(format!(
                "{} is out of service already ({})",
                names.words(place),
                names.words(other)
            )));
        }
        if list.len() >= PLACES_MAX {
            return Err(refused(format!(
                "{PLACES_MAX} places are out of service, more cannot be listed"
            )));
        }
        let near = ends_of(fabric, place)
            .into_iter()
            .map(|(near, _)| port_id(fabric, near));
        let mut disabled: BTreeSet<PortId> = list
            .get(place)
            .map(|notice| notice.disabled.clone())
            .unwrap_or_default();
        if service == Service::Isolate {
            disabled.extend(near);
        }
        ports.extend(&disabled);
        let notice = Notice {
            service,
            since_ms: now_ms(),
            disabled,
            reason: reason.to_owned(),
        };
        list.insert(place, notice);
    }
    Ok((places, ports))
}

/// Puts a place back in service. Its ports stay listed until they are enabled.
fn enable(
    text: &str,
    names: &PlaceNames<'_>,
    list: &mut OutOfService,
) -> Result<(Vec<Place>, BTreeSet<PortId>), Error> {
    let places = names.find_listed(text, list)?;
    let mut ports = BTreeSet::new();
    for &place in &places {
        let Some(notice) = list.remove(place) else { continue };
        ports.extend(&notice.disabled);
        if !notice.disabled.is_empty() {
            let notice = Notice {
                service: Service::Enable,
                since_ms: now_ms(),
                ..notice
            };
            list.insert(place, notice);
        }
    }
    Ok((places, ports))
}

/// Returns a listed place that has all links of this one, with the same service or a stronger one.
fn covering(list: &OutOfService, place: Place, service: Service, fabric: &Fabric) -> Option<Place> {
    let links = |place| -> BTreeSet<PortRef> {
        let ends = ends_of(fabric, place).into_iter();
        ends.flat_map(|(near, far)| [near, far]).collect()
    };
    let wanted = links(place);
    let covers = |of: Place| of == place || !wanted.is_empty() && wanted.is_subset(&links(of));
    let stronger = list.iter().filter(|(_, notice)| {
        notice.service == service || notice.service == Service::Isolate && service == Service::Drain
    });
    let found = stronger.filter(|(of, _)| covers(**of)).map(|(of, _)| *of).next();
    // An isolated place may be drained instead: then its ports are enabled.
    found.filter(|of| *of != place || list.get(place).is_some_and(|notice| notice.service == service))
}

/// Refuses a place that includes the manager's own connection.
fn refuse_own(place: Place, inventory: &Inventory, names: &PlaceNames<'_>) -> Result<(), Error> {
    let (fabric, local) = (&inventory.fabric, inventory.local);
    let own = [Some(local), fabric.peer(local)];
    let is_own_switch = |guid| own.into_iter().flatten().any(|at| fabric.node(at.node).guid == guid);
    let is_own = match place {
        Place::Switch(guid) => is_own_switch(guid),
        Place::Link(..) | Place::Port(_) => {
            let mut ends = ends_of(fabric, place).into_iter().flat_map(|(near, far)| [near, far]);
            ends.any(|end| own.contains(&Some(end)))
        }
    };
    match is_own {
        true => Err(refused(format!(
            "{} is the manager's own connection: move the manager first, or let a standby take over",
            names.words(place)
        ))),
        false => Ok(()),
    }
}

/// Refuses a change that separates a switch, and one that cuts off hosts unless it is forced.
fn refuse_losses(request: &OutOfServiceRequest, fabric: &Fabric, effects: &Effects) -> Result<(), Error> {
    if !effects.behind.is_empty() {
        let switches = listed(effects.behind.iter().map(|&node| fabric.node(node).description.clone()));
        let hosts = match effects.hosts_behind.is_empty() {
            true => String::new(),
            false => format!(
                ", with {}",
                listed(effects.hosts_behind.iter().map(|&at| fabric.port_name(at)))
            ),
        };
        return Err(ErrorKind::LastPath.error(format!(
            "nothing else leads to switch {switches}{hosts}: drain or isolate that switch (--force does not help)"
        )));
    }
    if !effects.alone.is_empty() && !request.force && !request.dry_run {
        let name = |node: &NodeIdx| fabric.node(*node).description.clone();
        return Err(ErrorKind::LastPath.error(format!(
            "{} would lose their last connection: {}",
            count(effects.alone.len(), "host"),
            listed(effects.alone.iter().map(name))
        )));
    }
    Ok(())
}

/// Returns what has become of a listed place.
fn state(view: &View, place: Place, notice: &Notice) -> &'static str {
    let Some(inventory) = &view.inventory else {
        return "absent";
    };
    let ends = ends_of(&inventory.fabric, place);
    let withdrawn = &inventory.withdrawn;
    let has = |set: &BTreeSet<PortRef>| ends.iter().any(|(near, _)| set.contains(near));
    let is_up = |at: PortRef| inventory.fabric.link_is_up(at);
    if has(&withdrawn.needed) {
        return "needed";
    }
    let moving = ends.iter().any(|&(near, _)| {
        let carries = withdrawn.idle.contains(&near) || !withdrawn.links.contains(&near);
        is_up(near) && carries || inventory.has_order_left_at(near)
    });
    let is_disabled = |id: &PortId| {
        let port = find_port(&inventory.fabric, *id).and_then(|at| inventory.fabric.port(at));
        port.is_some_and(|port| port.link.phys == PhysState::Disabled)
    };
    // What is behind a disabled port is not seen.
    match ends.is_empty() && !notice.disabled.iter().any(is_disabled) {
        true => "absent",
        false if moving || notice.service == Service::Enable => "moving",
        false => "out",
    }
}

/// Largest number of names in a message.
const NAMED: usize = 8;

/// Returns the first names, and the number of the others.
fn listed(names: impl ExactSizeIterator<Item = String>) -> String {
    let more = names.len().saturating_sub(NAMED);
    let mut first: Vec<String> = names.take(NAMED).collect();
    if more > 0 {
        first.push(format!("and {more} more"));
    }
    first.join(", ")
}

fn count(number: usize, what: &str) -> String {
    match number {
        1 => format!("1 {what}"),
        _ => format!("{number} {what}s"),
    }
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(lines: &str) -> OutOfService {
        OutOfService::parse(lines).unwrap()
    }

    /// The manager notes a port of a list that a command has changed a moment ago.
    #[test]
    fn what_the_manager_notes_is_in_the_list_whatever_a_command_changed() {
        let roster = Roster::read(None).unwrap();
        let first = list("isolate switch 0x10 since 5");
        let noted = list("isolate switch 0x10 since 5 disabled 0x20[1]");
        let second = list("isolate switch 0x10 since 5\ndrain switch 0x30 since 6");
        assert!(roster.replace(&OutOfService::default(), &first).unwrap());
        assert!(roster.replace(&first, &second).unwrap());
        roster.note(&first, &noted).unwrap();
        let both = list("isolate switch 0x10 since 5 disabled 0x20[1]\ndrain switch 0x30 since 6");
        assert_eq!(*roster.list(), both);
        // A command that has read the list before has to read it again.
        assert!(!roster.replace(&second, &first).unwrap());
        assert_eq!(*roster.list(), both);
        roster.restore(&Arc::new(first.clone())).unwrap();
        assert_eq!(*roster.list(), first);
    }
}
