//! Backups: the repair of every link, planned and judged before the link is lost.
//!
//! In a large fabric a repair takes a millisecond or two, most of it waiting for memory. While the manager is idle, a
//! job computes the repair of each link in turn, on copies of the data that a repair changes. When that link is lost,
//! its backup is sent, unless tables, links or LID owners have changed since, or packets of other entries are in
//! flight. The data for the next repair is updated after the Sets are sent. Without a backup the repair is planned as
//! usual.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use selvedge_fabric::{Fabric, PortRef, SwitchIdx};
use selvedge_plan::{ChangeSet, Generation, Phase, Plan, Tables};
use selvedge_sim::Par;
use selvedge_types::PortNum;
use selvedge_verify::standing::{Backup, LinkChange, State};

use crate::adopt::Adopt;
use crate::basis::Basis;
use crate::changed::Changed;
use crate::event::PlanEvent;
use crate::warm::{Prepare, Warm};

/// Number of links per job. A job takes a few milliseconds at most, so the manager can soon stop useless jobs.
const AT_ONCE: usize = 16;
/// Largest number of bytes for the backups of one state. 5,832 hosts on 972 switches take 30 MB.
const MEMORY_MAX: usize = 256 << 20;

/// An end of a link between switches.
pub type End = (SwitchIdx, PortNum);

/// Backups of links, for one state of the fabric.
#[derive(Clone, Debug, Default)]
pub struct Backups {
    /// The state of the fabric for which the backups were made; `None`, without backups, before it is known.
    pub state: Option<State>,
    /// Backups, by the lower end of the link.
    of_link: BTreeMap<End, Arc<Backup>>,
    /// Number of links without a backup: their repair takes longer, or there was no memory left.
    lacking: usize,
    memory: usize,
    /// True if all links have been processed.
    pub is_complete: bool,
}

impl Backups {
    /// Returns the backup of a link, given its ends, if it was made for this state.
    pub(crate) fn find(&self, state: State, ends: &[End]) -> Option<&Arc<Backup>> {
        let is_of_this = self.state == Some(state);
        is_of_this
            .then(|| ends.iter().find_map(|end| self.of_link.get(end)))
            .flatten()
    }

    /// Adds backups that were found later for the state of these backups.
    pub fn append(&mut self, mut found: Self) {
        self.of_link.append(&mut found.of_link);
        found.of_link = std::mem::take(&mut self.of_link);
        *self = found;
    }

    /// Returns the event that counts the backups, if there are any.
    pub fn event(&self) -> Option<PlanEvent> {
        (!self.of_link.is_empty()).then_some(PlanEvent::BackupsMade {
            links: self.of_link.len(),
            lacking: self.lacking,
            kib: self.memory / 1024,
        })
    }
}

impl fmt::Display for Backups {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (links, lacking, kib) = (self.of_link.len(), self.lacking, self.memory / 1024);
        write!(f, "{links} links, {kib} KiB; {lacking} others need a longer repair")
    }
}

/// Task: compute backups, some in each job.
#[derive(Clone, Debug)]
pub struct BackUp {
    /// The state to start from. Packets in flight are not considered.
    pub basis: Basis,
    /// Origin of the tables in force.
    pub adopt: Adopt,
    plan: Arc<Plan>,
    /// Ends of links to process first.
    first: Vec<PortRef>,
    /// Backups that are known already, if they belong to this state.
    known: Option<Arc<Backups>>,
    /// Copies that are changed and restored; `None` before the first job.
    copies: Option<Box<(Warm, Tables)>>,
    /// Links still to process, each by both ends; the last is processed first.
    left: Vec<[End; 2]>,
    found: Backups,
}

impl BackUp {
    /// Returns the task for a plan in force. Links with an end in `first` come first. Backups in `known` are not
    /// computed again.
    #[must_use]
    pub fn new(basis: Basis, plan: Arc<Plan>, first: Vec<PortRef>, known: Option<Arc<Backups>>) -> Self {
        Self {
            basis,
            adopt: Adopt::No,
            plan,
            first,
            known,
            copies: None,
            left: Vec::new(),
            found: Backups::default(),
        }
    }

    /// True if all links have been processed.
    #[must_use]
    pub const fn is_done(&self) -> bool {
        self.found.is_complete
    }

    /// Returns the backups found since the last call of [`Self::take_found`].
    #[must_use]
    pub const fn found(&self) -> &Backups {
        &self.found
    }

    /// Removes and returns the backups found since the last call.
    pub fn take_found(&mut self) -> Backups {
        let of_link = std::mem::take(&mut self.found.of_link);
        Backups {
            of_link,
            ..self.found.clone()
        }
    }

    /// True if the next job has to make the copies first.
    pub(crate) const fn is_new(&self) -> bool {
        self.copies.is_none()
    }

    /// Returns the number of links per job.
    pub(crate) const fn at_once() -> usize {
        AT_ONCE
    }

    /// Processes some of the remaining links. The backups found so far and the copies move from this task to the
    /// returned one.
    pub(crate) fn run(&mut self, par: Par) -> Self {
        let mut work = Self {
            basis: self.basis.clone(),
            plan: Arc::clone(&self.plan),
            first: std::mem::take(&mut self.first),
            known: self.known.take(),
            copies: self.copies.take(),
            left: std::mem::take(&mut self.left),
            found: std::mem::take(&mut self.found),
            adopt: self.adopt,
        };
        work.work(par);
        work
    }

    fn work(&mut self, par: Par) {
        if self.copies.is_none() && !self.begin(par) {
            self.found.is_complete = true;
        }
        for _ in 0..AT_ONCE {
            if self.found.memory >= MEMORY_MAX {
                self.found.lacking += self.left.len();
                self.left.clear();
            }
            let Some(ends) = self.left.pop() else { break };
            match self.one(ends) {
                Some(backup) => {
                    self.found.memory += backup.memory();
                    let [a, b] = ends;
                    self.found.of_link.insert(a.min(b), Arc::new(backup));
                }
                None => self.found.lacking += 1,
            }
        }
        if self.left.is_empty() {
            (self.copies, self.found.is_complete) = (None, true);
        }
    }

    /// Makes the copies and the list of links. False if no backups can be made for this plan.
    fn begin(&mut self, par: Par) -> bool {
        let mut prepare = Prepare {
            basis: self.basis.clone(),
            adopt: self.adopt,
            plan: Arc::clone(&self.plan),
            warm: None,
        };
        let warm = Warm {
            spare: None,
            left: None,
            ..prepare.run(par)
        };
        let Some(standing) = warm.standing.as_ref().filter(|_| warm.can_repair()) else {
            return false;
        };
        self.found.state = Some(standing.state());
        let known = self.known.take().filter(|known| known.state == self.found.state);
        self.found.memory = known.as_ref().map_or(0, |known| known.memory);
        let is_known = |[a, b]: &[End; 2]| known.as_ref().is_some_and(|known| known.of_link.contains_key(a.min(b)));
        let fabric = &self.basis.inventory.fabric;
        let first = self.first.iter().filter_map(|&at| of_switch(fabric, at));
        let first: BTreeSet<End> = first.collect();
        let is_first = |ends: &[End; 2]| ends.iter().any(|end| first.contains(end));
        self.left = links(fabric).filter(|ends| !is_known(ends)).collect();
        self.left.sort_by_key(is_first);
        self.copies = Some(Box::new((warm, self.plan.tables.clone())));
        true
    }

    /// Returns the backup for the loss of one link, given both its ends. `None` if the loss needs a longer repair.
    fn one(&mut self, ends: [End; 2]) -> Option<Backup> {
        let (warm, tables) = &mut **self.copies.as_mut()?;
        let (standing, fabric) = (warm.standing.as_mut()?, &self.basis.inventory.fabric);
        // It is of no use afterwards, and small.
        let mut mender = warm.mender.clone()?;
        let made = Changed::by(&mut mender, (&self.plan.lids, tables), &ends, standing, true);
        let Some(changed) = made else {
            tables.clone_from(&self.plan.tables);
            return None;
        };
        let quiet = Phase {
            label: "",
            wait_before_ns: 0,
            ops: Vec::new(),
        };
        let phases = changed.phases(quiet, fabric, (&self.plan.tables, tables), standing);
        changed.undo(tables);
        let changes = ChangeSet {
            generation: Generation::default(),
            phases: phases?,
        };
        let lost = ends.map(|(switch, port)| LinkChange {
            switch,
            port,
            is_up: false,
        });
        self.basis
            .judge
            .back_up(standing, &self.basis.inventory, &lost, &changes)
    }
}

fn of_switch(fabric: &Fabric, at: PortRef) -> Option<End> {
    Some((fabric.switch_index(at.node)?, at.port))
}

/// Returns the links between switches that are up, each by both ends.
fn links(fabric: &Fabric) -> impl Iterator<Item = [End; 2]> {
    let links = fabric
        .links()
        .filter(|link| fabric.link_is_up(link.a) && link.a.node != link.b.node);
    links.filter_map(|link| Some([of_switch(fabric, link.a)?, of_switch(fabric, link.b)?]))
}
