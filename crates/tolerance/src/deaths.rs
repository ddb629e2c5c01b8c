//! Armed alternates that die: the limit of path migration that the paper names ("the requirement of the alternate path
//! to be in healthy state"), and what is done about it.
//!
//! An HCA cannot see that a path has died on which nothing is sent. The subnet manager's core can: for a fault it gives
//! a list of times and LIDs, at which LIDs are not reached any more, by some ports or by all. Connections with an
//! alternate path that such an entry breaks, there or back, load another path.

use std::collections::BTreeSet;

use selvedge_hca::{Hca, Path, Ps, Qp};
use selvedge_types::Lid;

use crate::error::ToleranceError;
use crate::process::{Of, Process};
use crate::shared::Status;

/// A LID that is not reached any more, or is reached again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reach {
    /// When programs are told.
    pub at: Ps,
    /// Source LID of the packets concerned; `None`: whatever it is.
    pub from: Option<Lid>,
    /// The LID.
    pub to: Lid,
    /// True if it dies.
    pub dies: bool,
}

/// LIDs that die and come back, by time.
#[derive(Clone, Debug, Default)]
pub struct Deaths {
    /// What is to come, the last entry first.
    list: Vec<Reach>,
    dead: BTreeSet<(Option<Lid>, Lid)>,
}

/// What a re-specification has done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Respecified {
    /// Connections that load another path.
    pub moved: Vec<Qp>,
    /// Connections with a dead alternate path for which there is no other one.
    pub without: Vec<Qp>,
}

impl Deaths {
    /// Returns a list; entries need not be sorted.
    #[must_use]
    pub fn new(list: Vec<Reach>) -> Self {
        let mut deaths = Self::default();
        deaths.tell(list);
        deaths
    }

    /// Adds entries, those of a later fault for example.
    pub fn tell(&mut self, more: impl IntoIterator<Item = Reach>) {
        self.list.reverse();
        self.list.extend(more);
        // Entries of one time keep their order.
        self.list.sort_by_key(|entry| entry.at);
        self.list.reverse();
    }

    /// Returns the time of the next entry.
    #[must_use]
    pub fn next_at(&self) -> Option<Ps> {
        self.list.last().map(|entry| entry.at)
    }

    /// True if packets from a LID do not reach another one now.
    #[must_use]
    pub fn is_dead(&self, from: Lid, to: Lid) -> bool {
        self.dead.contains(&(None, to)) || self.dead.contains(&(Some(from), to))
    }

    /// True if packets of a path are lost there or back.
    #[must_use]
    pub fn breaks(&self, hca: &Hca, path: &Path) -> bool {
        let Ok(port) = hca.query_port(path.port) else {
            return false;
        };
        let mask = port.lids.lmc.lids() - 1;
        let source = Lid(port.lids.base.0 | (u16::from(path.ah.src_path_bits) & mask));
        self.is_dead(source, path.ah.dlid) || self.is_dead(path.ah.dlid, source)
    }

    /// Takes all entries that are due, and has connections with a dead alternate path load the first path of those that
    /// `candidates` returns that is not dead.
    ///
    /// Both ends need to be told, because both have to use the new path.
    pub fn handle(
        &mut self,
        now: Ps,
        hca: &mut Hca,
        process: &mut Process,
        mut candidates: impl FnMut(Qp, &Path) -> Vec<Path>,
    ) -> Result<Respecified, ToleranceError> {
        let mut due = 0;
        while let Some(entry) = self.list.pop_if(|entry| entry.at <= now) {
            due += 1;
            let key = (entry.from, entry.to);
            if entry.dies {
                self.dead.insert(key);
            } else {
                self.dead.remove(&key);
            }
        }
        let mut done = Respecified::default();
        if due == 0 {
            return Ok(done);
        }
        let mut paths = Vec::new();
        for (qp, entry) in process.entries() {
            let loaded = matches!(entry.status, Status::Armed | Status::Loading);
            let Some(path) = entry.alternate.filter(|path| loaded && self.breaks(hca, path)) else {
                continue;
            };
            match candidates(qp, &path).into_iter().find(|path| !self.breaks(hca, path)) {
                Some(path) => paths.push((qp, path)),
                None => done.without.push(qp),
            }
        }
        for (qp, path) in paths {
            process.specify_and_load(now, hca, Of::Qps(&[qp]), |_| Some(path))?;
            done.moved.push(qp);
        }
        Ok(done)
    }
}
