//! Standbys with complete copies, and answers that wait until these standbys know of a change.
//!
//! When a standby takes over, it asks hosts to register again only if it knows of a registration that it has not
//! copied. So it is notified of a change before the host is answered. But a datagram may be lost, and the master may
//! end a moment later. So a host that changes something is answered when every standby with a complete copy has
//! **shown that it knows** of the change: its next query states the number for which its copy may be complete. This
//! takes as long as one exchange of datagrams.
//!
//! If a standby shows nothing for [`WAIT`], the answer no longer waits for it. By then it has noticed that it gets no
//! answers, and its manager checks whether the master is alive ([`crate::Worth::Unproven`]).
//!
//! When this manager becomes master, other managers in the fabric may hold all that an earlier master knew, without
//! knowing that there is a new master. Until each of them has asked, or for [`WAIT`], changes are not answered either:
//! if this master ended at once, its standbys would rely on their earlier copies.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use selvedge_sim::Time;
use selvedge_types::Lid;
use selvedge_wire::Status;

use crate::client::Exchange;
use crate::io::Output;

/// Longest wait of an answer. ClassPortInfo.RespTimeValue announces 1.07 s to hosts. A standby notices after two of its
/// queries, 0.7 s, that it gets no answers.
const WAIT: Duration = Duration::from_millis(800);
/// Largest number of standbys for which answers wait: more than in practice.
const STANDBYS_MAX: usize = 32;
/// Most waiting answers, 0.3 KB each. Further changes are answered with BUSY.
const HELD_MAX: usize = 16_384;

/// A standby's administrator: its LID and queue pair.
type Standby = (Lid, u32);
/// A revision: a master's run and number.
type Revision = (u64, u64);

/// Known standbys, and answers that wait for them.
#[derive(Debug, Default)]
pub(crate) struct Standbys {
    /// Standbys that may regard their copy as complete.
    content: BTreeSet<Standby>,
    /// Standbys that had a complete copy before a change and have not shown yet that they know of the change: the
    /// revision of their copy, and until when answers wait for them.
    unaware: BTreeMap<Standby, (Revision, Time)>,
    /// LIDs of managers that have sent no request since this manager became master, and until when answers wait for
    /// each.
    unheard: BTreeMap<Lid, Time>,
    /// LIDs of managers that have sent a request since this manager last stopped answering requests.
    heard: BTreeSet<Lid>,
    /// Answers to hosts.
    held: BTreeMap<Exchange, Output>,
    /// Until when each answer waits at most, earliest first.
    dues: VecDeque<(Time, Exchange)>,
}

impl Standbys {
    /// Handles a query of a standby, which states the revision of its complete copy, if it has one.
    pub fn asked(&mut self, now: Time, exchange: Exchange, shown: Option<Revision>, in_force: Revision) {
        let who = exchange.who();
        self.heard.insert(who.0);
        self.unheard.remove(&who.0);
        if self.unaware.get(&who).is_some_and(|(old, _)| shown != Some(*old)) {
            self.unaware.remove(&who);
        }
        self.content.remove(&who);
        let has_room = self.content.len() + self.unaware.len() < STANDBYS_MAX;
        match shown.filter(|_| has_room) {
            Some(shown) if shown == in_force => _ = self.content.insert(who),
            // Its copy may be complete for another run, and it does not know yet that this run has begun.
            Some(shown) if shown.0 != in_force.0 => _ = self.unaware.entry(who).or_insert((shown, now + WAIT)),
            Some(_) | None => {}
        }
    }

    /// Called when this manager has become master. `others`: the LIDs of the other managers.
    pub fn begin(&mut self, now: Time, others: impl IntoIterator<Item = Lid>) {
        let others = others.into_iter().filter(|lid| !self.heard.contains(lid));
        self.unheard = others.take(STANDBYS_MAX).map(|lid| (lid, now + WAIT)).collect();
    }

    /// Called when registrations have changed since revision `before`.
    pub fn changed(&mut self, now: Time, before: Revision) {
        for who in std::mem::take(&mut self.content) {
            self.unaware.entry(who).or_insert((before, now + WAIT));
        }
    }

    /// True if there is room for one more waiting answer.
    pub fn has_room(&self) -> bool {
        self.held.len() < HELD_MAX
    }

    /// Sends the answer to a change: at once, or when standbys know of the change.
    pub fn answer(&mut self, now: Time, answer: Output, out: &mut Vec<Output>) {
        if self.content.is_empty() && self.unaware.is_empty() && self.unheard.is_empty() {
            return out.push(answer);
        }
        // The request is repeated while its answer waits: one answer is enough, the one to the latest request.
        let exchange = Exchange::of(&answer.datagram);
        if self.held.insert(exchange, answer).is_none() {
            self.dues.push_back((now + WAIT, exchange));
        }
    }

    /// Returns when the wait for some standby ends.
    pub fn next_wake(&self) -> Option<Time> {
        let dues = self.unaware.values().map(|(_, due)| *due);
        let dues = dues.chain(self.unheard.values().copied());
        dues.chain(self.dues.front().map(|(due, _)| *due)).min()
    }

    /// Sends the answers that wait for no standby any more.
    pub fn release(&mut self, now: Time, out: &mut Vec<Output>) {
        self.unaware.retain(|_, (_, due)| *due > now);
        self.unheard.retain(|_, due| *due > now);
        if self.unaware.is_empty() && self.unheard.is_empty() {
            self.dues.clear();
            out.extend(std::mem::take(&mut self.held).into_values());
        }
        // A standby that was notified of nothing since is waited for with later changes.
        while let Some(&(_, exchange)) = self.dues.front().filter(|(due, _)| *due <= now) {
            self.dues.pop_front();
            out.extend(self.held.remove(&exchange));
        }
    }

    /// At once sends BUSY instead of the waiting answers to clients at LIDs for which `is_forgotten` is true, because
    /// these answers would confirm what is no longer correct. Returns their number.
    pub fn recall(&mut self, is_forgotten: impl Fn(Lid) -> bool, out: &mut Vec<Output>) -> usize {
        let recalled: Vec<Exchange> = self.held.keys().copied().filter(|who| is_forgotten(who.lid)).collect();
        for exchange in &recalled {
            out.extend(self.held.remove(exchange).map(busy));
        }
        // A repeated request with the same transaction id waits as long as any other.
        self.dues.retain(|(_, exchange)| self.held.contains_key(exchange));
        recalled.len()
    }

    /// Drops all waiting answers; hosts repeat their requests. Standbys keep their copies. Returns the number of
    /// dropped answers.
    pub fn withdraw(&mut self) -> usize {
        self.dues.clear();
        self.unheard.clear();
        self.heard.clear();
        std::mem::take(&mut self.held).len()
    }
}

/// Returns BUSY instead of an answer.
fn busy(mut answer: Output) -> Output {
    answer.datagram.mad.set_status(Status::BUSY);
    answer
}

#[cfg(test)]
mod tests {
    use selvedge_sim::Time;
    use selvedge_types::{Sl, TransactionId};
    use selvedge_wire::{Address, AttributeId, Class, Datagram, Mad, Method};

    use super::*;

    fn datagram(lid: u16, number: u64) -> Datagram {
        let mut mad = Mad::request(Class::SubnAdm, Method::Set, AttributeId::from_code(0x38), 0);
        mad.set_transaction(TransactionId(number));
        Datagram {
            address: Address::gsi(Lid(lid), Sl::default()),
            mad,
        }
    }

    #[test]
    fn an_answer_waits_for_those_only_who_were_unaware_of_it() {
        let ms = |ms: u64| Time::ZERO + Duration::from_millis(ms);
        let [silent, other] = [1, 2].map(|lid| Exchange::of(&datagram(lid, 0)));
        let mut standbys = Standbys::default();
        for standby in [silent, other] {
            standbys.asked(ms(0), standby, Some((1, 0)), (1, 0));
        }
        let mut out = Vec::new();
        let mut change = |standbys: &mut Standbys, at: Time, revision: u64| {
            standbys.changed(at, (1, revision - 1));
            let datagram = datagram(9, revision);
            standbys.answer(
                at,
                Output {
                    datagram,
                    timeout: Duration::ZERO,
                },
                &mut out,
            );
            standbys.release(at, &mut out);
            assert!(out.is_empty());
        };
        change(&mut standbys, ms(0), 1);
        // One standby knows of the first change, has copied it, and is silent before the second.
        standbys.asked(ms(10), other, Some((1, 1)), (1, 1));
        change(&mut standbys, ms(790), 2);
        let released = |standbys: &mut Standbys, at: Time| {
            let mut out = Vec::new();
            standbys.release(at, &mut out);
            out.iter()
                .map(|output| output.datagram.mad.transaction().0)
                .collect::<Vec<_>>()
        };
        for (at, want) in [(799, &[][..]), (800, &[1]), (1_589, &[]), (1_590, &[2])] {
            assert_eq!(released(&mut standbys, ms(at)), want, "{at}");
            assert_eq!(standbys.next_wake().is_none(), at == 1_590);
        }
    }

    #[test]
    fn a_new_master_waits_for_managers_that_have_asked_nothing_yet() {
        let ms = |ms: u64| Time::ZERO + Duration::from_millis(ms);
        // Whether one of two other managers asks before this one is master, when the other asks, and when a host that
        // registers at once is answered.
        let check = |has_asked: bool, asks: Option<u64>, want: u64| {
            let mut standbys = Standbys::default();
            let [first, second] = [1, 2].map(|lid| Exchange::of(&datagram(lid, 0)));
            if has_asked {
                standbys.asked(ms(0), first, None, (9, 0));
            }
            standbys.begin(ms(10), [Lid(1), Lid(2)]);
            let mut out = Vec::new();
            let (datagram, timeout) = (datagram(9, 1), Duration::ZERO);
            standbys.answer(ms(10), Output { datagram, timeout }, &mut out);
            standbys.release(ms(10), &mut out);
            assert!(out.is_empty());
            if let Some(at) = asks {
                standbys.asked(ms(at), second, None, (9, 1));
                standbys.release(ms(at), &mut out);
            }
            if out.is_empty() {
                assert_eq!(standbys.next_wake(), Some(ms(want)), "{has_asked} {asks:?}");
                standbys.release(ms(want), &mut out);
            } else {
                assert_eq!(asks, Some(want), "{has_asked}");
            }
            assert_eq!(out.len(), 1);
        };
        check(true, Some(50), 50);
        check(true, None, 810);
        check(false, Some(50), 810);
    }

    #[test]
    fn who_is_forgotten_while_the_answer_waits_is_told_to_ask_again() {
        let ms = |ms: u64| Time::ZERO + Duration::from_millis(ms);
        let mut standbys = Standbys::default();
        standbys.asked(ms(0), Exchange::of(&datagram(1, 0)), Some((1, 0)), (1, 0));
        standbys.changed(ms(0), (1, 0));
        let mut out = Vec::new();
        let ask = |standbys: &mut Standbys, at: Time, lid: u16, out: &mut Vec<Output>| {
            let (datagram, timeout) = (datagram(lid, 7), Duration::ZERO);
            standbys.answer(at, Output { datagram, timeout }, out);
        };
        for lid in [8, 9] {
            ask(&mut standbys, ms(0), lid, &mut out);
        }
        assert_eq!(standbys.recall(|lid| lid == Lid(9), &mut out), 1);
        let told = |out: &mut Vec<Output>| {
            let told = out.drain(..).map(|output| output.datagram);
            told.map(|to| (to.address.lid.0, to.mad.status())).collect::<Vec<_>>()
        };
        assert_eq!(told(&mut out), [(9, Status::BUSY)]);
        // It repeats the request with the same transaction id, and waits for a standby like any other.
        standbys.asked(ms(700), Exchange::of(&datagram(2, 0)), Some((1, 1)), (1, 1));
        standbys.changed(ms(700), (1, 1));
        ask(&mut standbys, ms(700), 9, &mut out);
        for (at, want) in [(800, &[(8, Status::OK)][..]), (1_499, &[]), (1_500, &[(9, Status::OK)])] {
            standbys.release(ms(at), &mut out);
            assert_eq!(told(&mut out), want, "{at}");
        }
    }
}
