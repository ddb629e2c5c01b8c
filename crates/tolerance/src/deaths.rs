//! Armed alternates that die: the limit of path migration that the paper names ("the requirement of the alternate path
//! to be in healthy state"), and what is done about it.
//!
//! An HCA cannot see that a path has died on which nothing is sent. The subnet manager's core can: for a fault it gives
//! a list of times and LIDs, at which the LIDs are not reached any more. Connections with an alternate path to or from
//! one of them load another path.

use std::collections::BTreeSet;

use selvedge_hca::{Hca, Path, Ps, Qp};
use selvedge_types::Lid;

use crate::error::ToleranceError;
use crate::process::{Of, Process};
use crate::shared::Status;

/// LIDs that die and come back, by time.
#[derive(Clone, Debug, Default)]
pub struct Deaths {
    /// Time, LID, and true if it died.
    list: Vec<(Ps, Lid, bool)>,
    next: usize,
    dead: BTreeSet<Lid>,
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
    /// Returns a list; entries need not be sorted. True: the LID dies.
    #[must_use]
    pub fn new(mut list: Vec<(Ps, Lid, bool)>) -> Self {
        list.sort_by_key(|(at, ..)| *at);
        Self {
            list,
            next: 0,
            dead: BTreeSet::new(),
        }
    }

    /// Returns the time of the next entry.
    #[must_use]
    pub fn next_at(&self) -> Option<Ps> {
        self.list.get(self.next).map(|(at, ..)| *at)
    }

    /// True if a LID is dead now.
    #[must_use]
    pub fn is_dead(&self, lid: Lid) -> bool {
        self.dead.contains(&lid)
    }

    /// Takes all entries that are due, and has connections with a dead alternate path load the path that `choose`
    /// returns. It is given the dead path; a path to or from a dead LID is not taken.
    ///
    /// Both ends need to be told, because both have to use the new path.
    pub fn handle(
        &mut self,
        now: Ps,
        hca: &mut Hca,
        process: &mut Process,
        mut choose: impl FnMut(Qp, &Path) -> Option<Path>,
    ) -> Result<Respecified, ToleranceError> {
        let due = self.list[self.next..].iter().take_while(|(at, ..)| *at <= now).count();
        for &(_, lid, dies) in &self.list[self.next..self.next + due] {
            if dies {
                self.dead.insert(lid);
            } else {
                self.dead.remove(&lid);
            }
        }
        self.next += due;
        let mut done = Respecified::default();
        if due == 0 {
            return Ok(done);
        }
        let mut paths = Vec::new();
        for (qp, entry) in process.entries() {
            let loaded = matches!(entry.status, Status::Armed | Status::Loading);
            let Some(path) = entry.alternate.filter(|path| loaded && self.touches(hca, path)) else {
                continue;
            };
            match choose(qp, &path).filter(|path| !self.touches(hca, path)) {
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

    fn touches(&self, hca: &Hca, path: &Path) -> bool {
        let source = hca.query_port(path.port).ok().map(|port| {
            let mask = port.lids.lmc.lids() - 1;
            Lid(port.lids.base.0 | (u16::from(path.ah.src_path_bits) & mask))
        });
        self.is_dead(path.ah.dlid) || source.is_some_and(|lid| self.is_dead(lid))
    }
}
