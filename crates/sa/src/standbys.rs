//! Standbys that take what they copied for all there is, and answers that wait until they know better.
//!
//! A standby that takes over asks hosts to register again only if it knows that something was registered which it has
//! not copied. It is told before the host is; but a datagram may be lost, and the master may end a moment later. So who
//! changes something is answered when every standby that has the tables as they were has **shown that it knows**: its
//! next question says of which number it may have all there is. That takes as long as an answer does on its way. Who
//! shows nothing for [`WAIT`] is waited for no longer; by then it has noticed that it hears nothing, and its manager
//! looks whether the master lives ([`crate::Worth::Unproven`]).
//!
//! When this manager becomes master, other managers of the fabric may hold all that an earlier master knew, and not know
//! yet that there is a new one. Until each of them has asked, or for [`WAIT`], changes are answered no sooner either:
//! should this master end at once, its standbys would rely on what they copied before.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use selvedge_sim::Time;
use selvedge_types::Lid;
use selvedge_wire::Status;

use crate::client::Exchange;
use crate::io::Output;

/// How long an answer waits at most. Hosts are told that it may take 1.07 s (ClassPortInfo.RespTimeValue); a standby
/// notices after two of its questions, 0.7 s, that it hears nothing.
const WAIT: Duration = Duration::from_millis(800);
/// Standbys that are waited for: more nobody has.
const STANDBYS_MAX: usize = 32;
/// Answers that wait: each is 0.3 KB. More changes are answered with BUSY.
const HELD_MAX: usize = 16_384;

/// A standby's administrator: its LID and queue pair.
type Standby = (Lid, u32);
/// A master's life and number.
type Revision = (u64, u64);

/// What is known of standbys, and what waits for them.
#[derive(Debug, Default)]
pub(crate) struct Standbys {
    /// Who may take its copy for all there is.
    content: BTreeSet<Standby>,
    /// Who may do so still, although something has changed: what it may have, and how long it is waited for.
    unaware: BTreeMap<Standby, (Revision, Time)>,
    /// LIDs of managers that have asked nothing since this manager became master, and how long each is waited for.
    unheard: BTreeMap<Lid, Time>,
    /// LIDs of managers that have asked something since this manager was last told to answer nothing.
    heard: BTreeSet<Lid>,
    /// Answers for hosts.
    held: BTreeMap<Exchange, Output>,
    /// Until when each waits at most, the oldest first.
    dues: VecDeque<(Time, Exchange)>,
}

impl Standbys {
    /// A standby has asked, and shows of what it may have all there is, if of anything.
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
            // It may have all that another life knew, and does not know yet that this one has begun.
            Some(shown) if shown.0 != in_force.0 => _ = self.unaware.entry(who).or_insert((shown, now + WAIT)),
            Some(_) | None => {}
        }
    }

    /// This manager is master, and there are other managers at these LIDs.
    pub fn begin(&mut self, now: Time, others: impl IntoIterator<Item = Lid>) {
        let others = others.into_iter().filter(|lid| !self.heard.contains(lid));
        self.unheard = others.take(STANDBYS_MAX).map(|lid| (lid, now + WAIT)).collect();
    }

    /// Something has changed since this.
    pub fn changed(&mut self, now: Time, before: Revision) {
        for who in std::mem::take(&mut self.content) {
            self.unaware.entry(who).or_insert((before, now + WAIT));
        }
    }

    /// True if there is room for one more answer that waits.
    pub fn has_room(&self) -> bool {
        self.held.len() < HELD_MAX
    }

    /// The answer to a change: at once, or when standbys know of it.
    pub fn answer(&mut self, now: Time, answer: Output, out: &mut Vec<Output>) {
        if self.content.is_empty() && self.unaware.is_empty() && self.unheard.is_empty() {
            return out.push(answer);
        }
        // Asked again while it waits: one answer is enough, that to what was asked last.
        let exchange = Exchange::of(&answer.datagram);
        if self.held.insert(exchange, answer).is_none() {
            self.dues.push_back((now + WAIT, exchange));
        }
    }

    /// When somebody is waited for no longer.
    pub fn next_wake(&self) -> Option<Time> {
        let dues = self.unaware.values().map(|(_, due)| *due);
        let dues = dues.chain(self.unheard.values().copied());
        dues.chain(self.dues.front().map(|(due, _)| *due)).min()
    }

    /// Sends what waits for nobody any more.
    pub fn release(&mut self, now: Time, out: &mut Vec<Output>) {
        self.unaware.retain(|_, (_, due)| *due > now);
        self.unheard.retain(|_, due| *due > now);
        if self.unaware.is_empty() && self.unheard.is_empty() {
            self.dues.clear();
            out.extend(std::mem::take(&mut self.held).into_values());
        }
        // Whoever has become unaware since is waited for with what was changed since.
        while let Some(&(_, exchange)) = self.dues.front().filter(|(due, _)| *due <= now) {
            self.dues.pop_front();
            out.extend(self.held.remove(&exchange));
        }
    }

    /// What clients at such LIDs were to be told is not so any more: they are told at once to ask again. Returns how
    /// many are.
    pub fn recall(&mut self, is_forgotten: impl Fn(Lid) -> bool, out: &mut Vec<Output>) -> usize {
        let recalled: Vec<Exchange> = self.held.keys().copied().filter(|who| is_forgotten(who.lid)).collect();
        for exchange in &recalled {
            out.extend(self.held.remove(exchange).map(busy));
        }
        // Whoever asks again by the same number is to wait as long as any other.
        self.dues.retain(|(_, exchange)| self.held.contains_key(exchange));
        recalled.len()
    }

    /// Nobody is answered any more: hosts ask again. Standbys have what they have. Returns how many waited.
    pub fn withdraw(&mut self) -> usize {
        self.dues.clear();
        self.unheard.clear();
        self.heard.clear();
        std::mem::take(&mut self.held).len()
    }
}

/// In place of an answer.
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
        // One of them knows of the first change, has copied it, and falls silent before the second.
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
        // It does, by the same number, and waits for a standby as anybody does.
        standbys.asked(ms(700), Exchange::of(&datagram(2, 0)), Some((1, 1)), (1, 1));
        standbys.changed(ms(700), (1, 1));
        ask(&mut standbys, ms(700), 9, &mut out);
        for (at, want) in [(800, &[(8, Status::OK)][..]), (1_499, &[]), (1_500, &[(9, Status::OK)])] {
            standbys.release(ms(at), &mut out);
            assert_eq!(told(&mut out), want, "{at}");
        }
    }
}
