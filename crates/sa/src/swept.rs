//! The results of a sweep, used before the plan for them is in force. The plan may take seconds, because packets in
//! flight must drain.
//!
//! A port that a sweep does not find has left at that moment, and may be back before a plan without it is in force, so
//! subscribers to trap 65 get a report at once. A port that has joined is usable when packets reach it, so subscribers
//! to trap 64 get a report when a plan with it is in force. If the plan in force gives a LID to one port and the sweep
//! found it at another port, the LID does not identify a requester. A port that is present but in no plan may have
//! registered something with another manager.

use std::collections::BTreeSet;
use std::sync::Arc;

use selvedge_fabric::{Fabric, Port, PortRef};
use selvedge_plan::Plan;
use selvedge_types::{Guid, Lid, PortState};

use crate::core::Sa;
use crate::io::Output;
use crate::report::Event;
use crate::snapshot::Snapshot;

/// Traps: a port came into service, a port went out of service. Source: IBA vol 1 §14.2.5.1.
const IN_SERVICE: u16 = 64;
const OUT_OF_SERVICE: u16 = 65;

/// The part of the last sweep that is not in force yet.
#[derive(Debug, Default)]
pub(crate) struct Swept {
    /// Ports of the plan in force that were reported as out of service, by GUID.
    absent: BTreeSet<Guid>,
    /// LIDs that another port has, or will get, than the one in the plan in force.
    contested: BTreeSet<Lid>,
    /// The fabric that the sweep found.
    fabric: Option<Arc<Fabric>>,
}

impl Swept {
    /// True if this LID does not identify a requester.
    pub(crate) fn is_contested(&self, lid: Lid) -> bool {
        self.contested.contains(&lid)
    }
}

impl Sa {
    /// Handles the result of a sweep: reports the ports that it did not find.
    pub(crate) fn swept(&mut self, fabric: Arc<Fabric>, out: &mut Vec<Output>) {
        let Some(snapshot) = self.snapshot.clone() else { return };
        let missing = snapshot.in_service().filter(|end| !is_seen(&fabric, end.guid));
        let absent = &mut self.swept.absent;
        let gone: Vec<Guid> = missing
            .map(|end| end.guid)
            .filter(|guid| absent.insert(*guid))
            .collect();
        // If another manager becomes master before a plan contains them, it must ask them to register again.
        let forgotten = &mut self.registered.forgotten;
        let before = forgotten.len();
        let live = || live_hosts(&fabric);
        forgotten.extend(
            live()
                .map(|port| port.guid)
                .filter(|guid| snapshot.by_guid(*guid).is_none()),
        );
        self.revision += u64::from(forgotten.len() != before);
        let held = live().flat_map(|port| port.settings.lids.iter().map(move |lid| (lid, port.guid)));
        self.swept.contested = held
            .filter(|(lid, guid)| is_others(&snapshot, *lid, *guid))
            .map(|(lid, _)| lid)
            .collect();
        self.swept.fabric = Some(fabric);
        let issuer = self.issuer();
        for guid in gone {
            self.tell(&Event::of_gid(OUT_OF_SERVICE, issuer, snapshot.gid_of(guid)), out);
        }
    }

    /// Called when a plan is being applied.
    pub(crate) fn coming(&mut self, fabric: &Fabric, plan: &Plan) {
        let Some(snapshot) = &self.snapshot else { return };
        let given = plan
            .lids
            .by_lid()
            .filter_map(|(lid, at)| Some((lid, fabric.port(at)?.guid)));
        let contested = given.filter(|(lid, guid)| is_others(snapshot, *lid, *guid));
        self.swept.contested.extend(contested.map(|(lid, _)| lid));
    }

    /// Handles a new plan in force: reports the ports that have joined, and the ports that have left and were not
    /// reported yet.
    pub(crate) fn tell_who_moved(&mut self, old: &Snapshot, new: &Snapshot, out: &mut Vec<Output>) {
        let issuer = self.issuer();
        let Swept { absent, fabric, .. } = std::mem::take(&mut self.swept);
        // A newer sweep than the one of this plan may have been reported already.
        let is_gone = |guid: &Guid| fabric.as_ref().is_some_and(|fabric| !is_seen(fabric, *guid));
        let there = absent.iter().copied().filter(|guid| new.is_in_service(*guid));
        let (still, back): (BTreeSet<Guid>, BTreeSet<Guid>) = there.partition(is_gone);
        let told: BTreeSet<_> = absent.iter().map(|guid| old.gid_of(*guid)).collect();
        let mut came: BTreeSet<_> = new.gids_not_in(old).into_iter().collect();
        came.extend(back.into_iter().map(|guid| new.gid_of(guid)));
        let went = old.gids_not_in(new).into_iter().filter(|gid| !told.contains(gid));
        for (number, gid) in came
            .into_iter()
            .map(|gid| (IN_SERVICE, gid))
            .chain(went.map(|gid| (OUT_OF_SERVICE, gid)))
        {
            self.tell(&Event::of_gid(number, issuer, gid), out);
        }
        self.swept = Swept {
            absent: still,
            contested: BTreeSet::new(),
            fabric,
        };
    }
}

/// True if the plan in force gives a LID to another port.
fn is_others(snapshot: &Snapshot, lid: Lid, guid: Guid) -> bool {
    let owner = snapshot.by_lid(lid).and_then(|place| snapshot.end(place));
    owner.is_some_and(|owner| owner.guid != guid)
}

/// Returns the ports of hosts that packets can reach.
fn live_hosts(fabric: &Fabric) -> impl Iterator<Item = &Port> {
    let is_host = |at: PortRef| !fabric.node(at.node).is_switch();
    let ends = fabric.end_ports().filter(move |(at, _)| is_host(*at));
    ends.map(|(_, port)| port)
        .filter(|port| port.link.state == PortState::Active)
}

/// True if a sweep found an end port with a link. Port 0 of a switch needs none.
fn is_seen(fabric: &Fabric, guid: Guid) -> bool {
    let at = fabric.find_port(guid);
    at.is_some_and(|at| fabric.node(at.node).is_switch() || fabric.peer(at).is_some())
}
