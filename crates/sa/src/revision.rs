//! Revision queries, by which standbys that run Selvedge learn how often registrations have changed, and are notified
//! of changes.
//!
//! A query that names the current number is held back. When a client registers something, the query is answered
//! **before** the client is. The client is answered when the standby has shown that it knows of the change
//! ([`crate::standbys`]). So when a client gets its confirmation, every standby knows that its copy is out of date. If
//! an answer is lost, the standby's next query makes up for it.
//!
//! A query states the run and number for which the requester's copy may be complete, if there is one. Without the
//! component bit of the run it is not held back.

use selvedge_wire::sa::records::{self, revision};
use selvedge_wire::{Datagram, Method, Status};

use crate::client::{Exchange, Request};
use crate::core::Sa;
use crate::io::Output;
use crate::pieces::send;
use crate::refusal::Refusal;
use crate::snapshot::Snapshot;
use crate::text_rows::number;

/// Largest number of requests that are held back: more than the number of standbys in practice.
const WATCHERS_MAX: usize = 32;

impl Sa {
    /// Answers at once, or when the number changes.
    pub(crate) fn revision_asked(&mut self, request: &Request, out: &mut Vec<Output>) -> Result<(), Refusal> {
        if request.mad.method() != Method::Get {
            return Err(Refusal::BadAttribute);
        }
        if !request.trusted {
            return Err(Refusal::Denied);
        }
        let (data, all) = (request.data(), revision::LIFE.mask() | revision::NUMBER.mask());
        let known = (revision::LIFE.get(data), revision::NUMBER.get(data));
        let shown = (request.mask() & revision::NUMBER.mask() != 0).then_some(known);
        let in_force = (self.config.life, self.revision);
        let exchange = Exchange::of(&request.reply(request.mad));
        self.standbys.asked(self.now, exchange, shown, in_force);
        // The first plan may still remove registrations.
        if self.snapshot.is_none() {
            return Err(Refusal::Busy);
        }
        if request.mask() & all != all || known != in_force {
            out.push(self.revision_answer(request));
            return Ok(());
        }
        if self.watchers.len() >= WATCHERS_MAX && !self.watchers.contains_key(&exchange.who()) {
            // It is unknown which standbys have gone; those that are left repeat the query.
            self.watchers.pop_first();
            self.counters.dropped += 1;
        }
        self.watchers.insert(exchange.who(), *request);
        Ok(())
    }

    /// Answers the held-back requests, before all outputs in `out` from index `first` on.
    pub(crate) fn tell_watchers(&mut self, first: usize, out: &mut Vec<Output>) {
        let watchers = std::mem::take(&mut self.watchers);
        let answers: Vec<Output> = watchers.values().map(|request| self.revision_answer(request)).collect();
        out.splice(first..first, answers);
    }

    /// Handles a plan in force: senders get its service levels from now on. Standbys are notified if the levels have
    /// changed.
    pub(crate) fn levels_committed(&mut self, old: Option<&Snapshot>, new: &Snapshot) {
        let Some(old) = old.map(Snapshot::plan) else { return };
        let new = new.plan();
        let is_same = || old.lanes == new.lanes && old.lids == new.lids && old.told_levels() == new.told_levels();
        if (old.lanes > 1 || new.lanes > 1) && !is_same() {
            self.levels += 1;
            self.revision += 1;
        }
    }

    fn revision_answer(&self, request: &Request) -> Output {
        let mut mad = request.answer(Status::OK, records::REVISION.offset());
        revision::LIFE.set(mad.sa_data_mut(), self.config.life);
        revision::NUMBER.set(mad.sa_data_mut(), self.revision);
        revision::LEVELS.set(mad.sa_data_mut(), self.levels);
        let texts = [
            (revision::OUT_OF_SERVICE, &*self.registered.out_of_service),
            (revision::JOBS, self.registered.jobs.text()),
        ];
        for (field, text) in texts {
            field.set(mad.sa_data_mut(), number(text).into());
        }
        let datagram: Datagram = request.reply(mad);
        send(datagram)
    }
}
