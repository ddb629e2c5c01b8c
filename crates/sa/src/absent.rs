//! Who came and who went, for those who subscribed to traps 64 and 65.
//!
//! A plan without somebody may take seconds until it is in force, as packets under way are waited for; he may be back
//! by then. Whom a sweep does not find went at that moment; who came is there when packets get to him.

use std::collections::BTreeSet;
use std::sync::Arc;

use selvedge_fabric::Fabric;
use selvedge_types::Guid;

use crate::core::Sa;
use crate::io::Output;
use crate::report::Event;
use crate::snapshot::Snapshot;

/// Traps: a port came, a port went. Source: IBA vol 1 §14.2.5.1.
const IN_SERVICE: u16 = 64;
const OUT_OF_SERVICE: u16 = 65;

/// Ports of the plan in force that subscribers were told have gone.
#[derive(Debug, Default)]
pub(crate) struct Absent {
    /// By port GUID.
    ports: BTreeSet<Guid>,
    /// What the last sweep saw.
    swept: Option<Arc<Fabric>>,
}

impl Sa {
    /// A sweep saw this: of whom it did not find, subscribers are told.
    pub(crate) fn swept(&mut self, fabric: Arc<Fabric>, out: &mut Vec<Output>) {
        let Some(snapshot) = self.snapshot.clone() else { return };
        let (issuer, absent) = (self.issuer(), &mut self.absent);
        let missing = snapshot.in_service().filter(|end| !is_seen(&fabric, end.guid));
        let gone: Vec<Guid> = missing
            .map(|end| end.guid)
            .filter(|guid| absent.ports.insert(*guid))
            .collect();
        absent.swept = Some(fabric);
        for guid in gone {
            self.tell(&Event::of_gid(OUT_OF_SERVICE, issuer, snapshot.gid_of(guid)), out);
        }
    }

    /// Another plan is in force: subscribers are told who came, and who went of whom they do not know yet.
    pub(crate) fn tell_who_moved(&mut self, old: &Snapshot, new: &Snapshot, out: &mut Vec<Output>) {
        let issuer = self.issuer();
        let Absent { ports, swept } = std::mem::take(&mut self.absent);
        // A newer sweep than that of this plan may have been told of.
        let is_gone = |guid: &Guid| swept.as_ref().is_some_and(|fabric| !is_seen(fabric, *guid));
        let there = ports.iter().copied().filter(|guid| new.is_in_service(*guid));
        let (still, back): (BTreeSet<Guid>, BTreeSet<Guid>) = there.partition(is_gone);
        let told: BTreeSet<_> = ports.iter().map(|guid| old.gid_of(*guid)).collect();
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
        self.absent = Absent { ports: still, swept };
    }
}

/// True if a sweep found an end port and a link at it. Port 0 of a switch has none.
fn is_seen(fabric: &Fabric, guid: Guid) -> bool {
    let at = fabric.find_port(guid);
    at.is_some_and(|at| fabric.node(at.node).is_switch() || fabric.peer(at).is_some())
}
