//! Switches that were off, and switches that go by another name: what they had forwarded is under way all the same.
//!
//! A switch that is switched off loses its tables and what waits in it, but not what it has sent: that waits in its
//! neighbours, and holds the channels from the switch to them, which carry packets again as soon as the links are
//! ACTIVE. So that it was off is a step like any other, in which it dropped all entries.

use std::collections::BTreeMap;
use std::sync::Arc;

use selvedge_fabric::{Fabric, PortRef};
use selvedge_plan::{BLOCK_LIDS, Installed, NO_PATH};
use selvedge_sim::Time;
use selvedge_types::{Guid, PortState};

use super::{FOG_LIFETIMES, Past};
use crate::core::Sm;
use crate::inventory::Inventory;
use crate::view::Role;

/// Entries that lead nowhere.
const EMPTY: [u8; BLOCK_LIDS] = [NO_PATH; BLOCK_LIDS];

/// The blocks of a switch.
type Row = Vec<Option<[u8; BLOCK_LIDS]>>;

/// Tables of switches that are out of sight, and when they were last known to forward by them.
#[derive(Clone, Debug, Default)]
pub(super) struct Gone {
    rows: BTreeMap<Guid, (Time, Row)>,
}

/// A fabric and the tables of its switches.
type Known<'a> = (&'a Fabric, &'a Installed);

fn row_of<'a>((fabric, installed): Known<'a>, guid: Guid) -> Option<&'a Row> {
    let row = installed.lfts.get(fabric.switch_index(fabric.find(guid)?)?)?;
    row.iter().any(Option::is_some).then_some(row)
}

impl Past {
    /// What is known is another fabric, or other tables, from now on.
    fn note_gone(&mut self, before: Known<'_>, after: Known<'_>, now: Time) {
        self.revision += 1;
        for &node in before.0.switches().iter() {
            let guid = before.0.node(node).guid;
            match (row_of(before, guid), row_of(after, guid)) {
                (Some(row), None) => drop(self.gone.rows.insert(guid, (now, row.clone()))),
                (_, Some(_)) => drop(self.gone.rows.remove(&guid)),
                (None, None) => {}
            }
        }
    }

    /// Switches that look up no LID have been off. `before`: what was known last.
    fn note_reset(&mut self, fabric: &Fabric, before: Option<Known<'_>>, now: Time) {
        let fresh = fabric.switches().iter().map(|&node| fabric.node(node));
        for guid in fresh
            .filter(|node| node.switch_settings.linear_top == 0)
            .map(|node| node.guid)
        {
            let seen = before
                .and_then(|known| row_of(known, guid))
                .map(|row| (now, row.clone()));
            let Some((at, row)) = seen.or_else(|| self.gone.rows.remove(&guid)) else {
                continue;
            };
            self.revision += 1;
            self.gone.rows.remove(&guid);
            if self.is_waited_out(fabric, at, now) {
                continue;
            }
            self.taken.end_phase();
            for (block, held) in (0_u16..).zip(row) {
                if let Some(held) = held.filter(|held| *held != EMPTY && !self.taken.ends_empty((guid, block))) {
                    self.taken.note((guid, block, EMPTY), Some(held));
                }
            }
            if self.taken.end_open(at) {
                self.at = self.at.max(at);
                self.know_lifetimes();
                self.lifetimes = self.lifetimes.max(FOG_LIFETIMES);
                self.prepared = None;
            }
        }
    }

    /// A switch that was written to a moment ago goes by another name, if a link is ACTIVE that had led to it: somebody
    /// showed another's GUID, now or then. Nobody knows then what was written to whom.
    fn note_renamed(&mut self, fabric: &Fabric) {
        let Some(last) = self.last.clone() else { return };
        let is_switch = |guid| {
            fabric
                .find(guid)
                .is_some_and(|node| fabric.switch_index(node).is_some())
        };
        let missing = self
            .taken
            .before
            .keys()
            .map(|(guid, _)| *guid)
            .filter(|&guid| !is_switch(guid));
        let leads_to_another = |guid: Guid| {
            let node = last.find(guid)?;
            let mut links = last.node(node).external_ports().filter_map(|(_, port)| port.peer);
            links.find(|&near| {
                let here = fabric.find(last.node(near.node).guid);
                let here = here.map(|node| PortRef { node, port: near.port });
                let port = here.and_then(|here| fabric.port(here));
                port.is_some_and(|port| port.link.state == PortState::Active && port.peer.is_some())
            })
        };
        if missing.map(leads_to_another).any(|link| link.is_some()) {
            self.fog_from(self.at, fabric);
        }
    }
}

impl Sm {
    /// What is known is about to be replaced.
    pub(crate) fn note_who_is_gone(&mut self, fabric: &Fabric, installed: &Installed) {
        let is_ours = self.view.role == Role::Master && !installed.lfts.is_empty();
        if let Some(before) = self.view.fabric.clone().filter(|_| is_ours) {
            let held = Arc::clone(&self.view.installed);
            self.past.note_gone((&before, &held), (fabric, installed), self.now);
        }
    }

    /// Everything has been read: what is not as it was left, and by what packets may be under way therefore.
    pub(crate) fn note_what_was_done_unseen(&mut self, inventory: &Inventory, installed: &Installed) {
        let (fabric, now) = (&inventory.fabric, self.now);
        if self.has_been_set_up_by_another(fabric) {
            self.others.met = Some(now);
        }
        self.note_strangers(fabric);
        if self.take_astray(fabric, installed) {
            self.past.note_astray(fabric);
        }
        let before = self.view.fabric.clone();
        let held = Arc::clone(&self.view.installed);
        self.past
            .note_reset(fabric, before.as_deref().map(|before| (before, &*held)), now);
        self.past.note_renamed(fabric);
    }
}
