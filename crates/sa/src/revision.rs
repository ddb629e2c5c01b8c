//! What a standby of ours asks beside the tables: how often they have changed, and to be told when they change.
//!
//! A question that names the number in force is held back. When something is registered it is answered **before** the
//! client is, and the client when the standby has shown that it knows ([`crate::standbys`]): whoever was told that it
//! is a member can rely on every standby knowing that its copy is no longer all there is. An answer that is lost on its
//! way is made up for by the next question.
//!
//! A question says of which number and life the asker may have all there is, if of any, without the component bit of
//! the life if it is not to be held back.

use selvedge_wire::sa::records::{self, revision};
use selvedge_wire::{Datagram, Method, Status};

use crate::client::{Exchange, Request};
use crate::core::Sa;
use crate::io::Output;
use crate::pieces::send;
use crate::refusal::Refusal;
use crate::snapshot::Snapshot;

/// Questions that are held back at most: more standbys nobody has.
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
        // What was registered may still be thinned out by the first plan.
        if self.snapshot.is_none() {
            return Err(Refusal::Busy);
        }
        if request.mask() & all != all || known != in_force {
            out.push(self.revision_answer(request));
            return Ok(());
        }
        if self.watchers.len() >= WATCHERS_MAX && !self.watchers.contains_key(&exchange.who()) {
            // Who gave up is not known; whoever is left asks again.
            self.watchers.pop_first();
            self.counters.dropped += 1;
        }
        self.watchers.insert(exchange.who(), *request);
        Ok(())
    }

    /// Answers those who wait, before anything that stands in `out` from `first` on.
    pub(crate) fn tell_watchers(&mut self, first: usize, out: &mut Vec<Output>) {
        let watchers = std::mem::take(&mut self.watchers);
        let answers: Vec<Output> = watchers.values().map(|request| self.revision_answer(request)).collect();
        out.splice(first..first, answers);
    }

    /// A plan is in force: senders are told its levels from now on. Standbys hear of it if they are others.
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
        let datagram: Datagram = request.reply(mad);
        send(datagram)
    }
}
